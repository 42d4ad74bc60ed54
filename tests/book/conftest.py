"""The browser in which readers meet the book, started once for the tests of a module."""

import contextlib

import pytest
import rings

from traintime.book import printed
from traintime.errors import InputError


@pytest.fixture(scope="module")
def browser(request):
    with contextlib.ExitStack() as ending:
        try:
            browser = ending.enter_context(printed.chromium())
        except InputError as absent:
            rings.lacks(request.config, str(absent))
        yield browser
