"""The finished pages: everything on them works from a folder, without a network."""

import gzip
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from traintime.book import build

PAGES = ["index.html", "calculator.html", *(f"chapters/{chapter}.html" for chapter in build.chapters())]
CHAPTER = "chapters/04-vocabulary.html"
WITH_FORMULAS = ("03-what-limits-a-step", "15-one-formula", "17-beat-the-formula")
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
KB = 1000


@pytest.fixture
def opened(visit, html):
    """A function that opens a page of the book."""
    # A search shows some text of each page that it finds: browsers read that from a server, not from a folder.
    excused = {"Failed to fetch"}
    return lambda name, viewport=DESKTOP, **more: visit((html / name).as_uri(), excused, viewport=viewport, **more)


@pytest.mark.parametrize("name", PAGES)
def test_the_figures_of_a_page_are_light(opened, name):
    """Compressed, as a server sends them."""
    images = opened(name).locator("article img").evaluate_all("all => all.map(one => one.src)")
    files = {Path(unquote(urlsplit(url).path)) for url in images}
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) <= 250 * KB


def test_figures_wait_until_they_are_near_and_leave_their_place_free(opened):
    page = opened(CHAPTER)
    last = page.locator("article figure img").last
    before = last.bounding_box()
    assert not last.evaluate("one => one.complete && one.naturalWidth > 0")
    last.scroll_into_view_if_needed()
    last.evaluate("one => one.decode()")
    assert last.bounding_box()["height"] == pytest.approx(before["height"], abs=1)
    ratio = last.evaluate("one => (one.naturalWidth / one.naturalHeight) / (one.width / one.height)")
    assert ratio == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("name", ["index.html", "calculator.html", CHAPTER])
def test_the_browser_has_nothing_to_complain_of(opened, name):
    assert opened(name).problems == []


def test_a_search_finds_a_page(opened):
    page = opened(CHAPTER)
    page.locator(".search-button-field").click()
    page.locator("#pst-search-dialog input").fill("vocabulary")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=vocabulary")
    page.get_by_text("Search finished").wait_for()  # results move while others come in
    page.locator("#search-results ul.search li a", has_text="large vocabulary").click()
    page.wait_for_url("**/04-vocabulary.html*")
    page.locator("article span.highlighted").first.wait_for(state="attached")


def ground(page) -> float:
    colour = page.locator("body").evaluate("one => getComputedStyle(one).backgroundColor")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_are_the_systems_until_the_reader_switches(opened, scheme):
    page = opened(CHAPTER, color_scheme=scheme)
    assert page.evaluate("document.documentElement.dataset.mode") == "auto"
    assert (ground(page) < 80) == (scheme == "dark")
    switch = page.locator(".theme-switch-button")
    assert switch.locator("svg:visible").get_attribute("data-mode") == "auto"
    switch.click()
    assert switch.locator("svg:visible").get_attribute("data-mode") in ("light", "dark")
    switch.click()
    chosen = page.evaluate("document.documentElement.dataset.theme")
    assert (ground(page) < 80) == (chosen == "dark")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == chosen
    assert (ground(page) < 80) == (chosen == "dark")


def test_one_goes_on_to_the_next_page_and_to_a_heading(opened):
    page = opened(CHAPTER)
    page.locator("#pst-page-toc-nav a").last.click()
    assert page.evaluate("scrollY") > 500
    page.locator("a.right-next").click()
    page.wait_for_url("**/05-memory-pool.html")
    page.locator("nav.bd-docs-nav a", has_text="Calculator").click()
    page.wait_for_url("**/calculator.html")


def test_the_menu_opens_on_a_phone_and_leads_on(opened):
    page = opened(CHAPTER, PHONE)
    link = page.locator("nav.bd-docs-nav a", has_text="Glossary")
    assert not link.is_visible()
    page.locator(".primary-toggle").click()
    page.locator("dialog[open] nav.bd-docs-nav").wait_for()
    link.click()
    page.wait_for_url("**/glossary.html")
    assert page.locator("article dt").count() > 12


@pytest.mark.parametrize("name", WITH_FORMULAS)
def test_formulas_are_set_in_the_books_own_font(opened, name):
    """What the font lacks another one would draw; the browser knows which fonts it used."""
    page = opened(f"chapters/{name}.html")
    page.evaluate("document.fonts.ready")
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
    formulas = session.send("DOM.querySelectorAll", {"nodeId": root, "selector": "article math *"})["nodeIds"]
    assert len(formulas) > 20
    used = [session.send("CSS.getPlatformFontsForNode", {"nodeId": formula})["fonts"] for formula in formulas]
    assert any(used)
    assert [font["familyName"] for fonts in used for font in fonts if not font["isCustomFont"]] == []


def test_without_scripts_a_page_can_be_read(opened):
    page = opened(CHAPTER, java_script_enabled=False)
    assert ground(page) > 200
    assert page.locator("article math").first.is_visible()
    assert page.locator("article figure img").first.is_visible()
    page.locator("details.book-fold summary").first.click()
    assert page.locator("details.book-fold table").first.is_visible()
