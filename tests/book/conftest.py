"""The browser in which readers meet the book, started once for the tests of a module."""

import pytest

from traintime.book import printed


@pytest.fixture(scope="module")
def browser():
    with printed.chromium() as browser:
        yield browser
