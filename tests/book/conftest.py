"""The browser in which readers meet the book, started once for the tests of a module."""

import shutil

import pytest
from playwright.sync_api import sync_playwright


@pytest.fixture(scope="module")
def browser():
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        browser = playwright.chromium.launch(executable_path=executable, args=flags)
        yield browser
        browser.close()
