"""The browser in which readers meet the book, started once for the tests of a module."""

import contextlib

import pytest
import rings
from chromium import chromium


@pytest.fixture(scope="module")
def browser(request):
    with contextlib.ExitStack() as ending:
        try:
            browser = ending.enter_context(chromium())
        except Exception:  # a bare one where Playwright's driver lacks a library of the system
            remedy = "Install the package chromium of your distribution, or try make browser."
            rings.lacks(request.config, f"browser: no Chromium starts here. {remedy}")
        yield browser


@pytest.fixture
def visit(browser):
    """A function that opens an address in a window of its own; in the end nothing was asked for outside of the book,
    and no script has failed, but for what is excused.

    A window keeps what it `loaded`, and the `problems` of which the browser complained.
    """
    tabs, errors, allowed = [], set(), set()

    def open_tab(address, excused=(), **how):
        tab = browser.new_context(**how).new_page()
        tabs.append(tab)
        allowed.update(excused)
        tab.loaded, tab.problems = [], []
        tab.on("request", lambda request: tab.loaded.append(request.url))
        tab.on("pageerror", lambda error: errors.add(str(error)))
        tab.on("console", lambda said: tab.problems.append(said.text) if said.type == "error" else None)
        tab.goto(address)
        return tab

    yield open_tab
    for tab in tabs:
        tab.context.close()
    assert [url for tab in tabs for url in tab.loaded if not url.startswith(("file:", "data:", "about:"))] == []
    assert errors <= allowed
