"""Headless Chromium for the tests of the pages: as a script, exit status 1 where none starts."""

import contextlib
import shutil
from collections.abc import Iterator

from playwright.sync_api import Browser, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    # Without a network Chromium would load lazy figures from further away than a reader's does: it is told of one.
    "--force-effective-connection-type=4G",
]


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The system's or Playwright's own. Raises whatever Playwright does where there is none that starts."""
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


if __name__ == "__main__":
    with chromium():
        pass
