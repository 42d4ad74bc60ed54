"""Every page as a screen reader meets it: axe finds nothing, at a desk and on a phone, in the light and in the dark."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from traintime.book import build

PAGES = [f"{name.removesuffix('.md')}.html" for name in build.PAGES]
PAGES += [f"chapters/{chapter}.html" for chapter in build.chapters()]
WIDTHS = {"desk": 1280, "phone": 390}
WAYS = [("desk", "light"), ("phone", "dark")]
WAYS += [pytest.param(*way, marks=pytest.mark.rest) for way in (("desk", "dark"), ("phone", "light"))]


@pytest.mark.parametrize(("width", "scheme"), WAYS)
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(visit, html, name, width, scheme):
    viewport = {"width": WIDTHS[width], "height": 900}
    page = visit((html / name).as_uri(), viewport=viewport, color_scheme=scheme)
    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found] == []
