"""The built pages in a real browser: at a desk and on a phone. That they need no network: test_accessibility."""

import io
import re
from urllib.parse import unquote

import pandas as pd
import pytest

from traintime.book import build

PAGES = ["index.html", "learned.html", "claims.html", *(f"chapters/{chapter}.html" for chapter in build.chapters())]
DESKTOP, TABLET, PHONE = {"width": 1280, "height": 900}, {"width": 1024, "height": 768}, {"width": 390, "height": 844}


@pytest.fixture(params=PAGES, scope="module")
def opened(request, browser, html):
    """A function that gives one page of the book at a size, opened once for each: who changes it changes it back."""
    pages = {}

    def open_page(viewport):
        name = tuple(viewport.values())
        if name not in pages:
            pages[name] = browser.new_page(viewport=viewport)
            pages[name].goto((html / request.param).as_uri())
        return pages[name]

    yield open_page
    for page in pages.values():
        page.close()


@pytest.mark.parametrize("viewport", [TABLET, PHONE], ids=["tablet", "phone"])
def test_nothing_is_wider_than_the_screen(opened, viewport):
    page = opened(PHONE if viewport is PHONE else DESKTOP)  # a tablet meets the desktop's page, narrower
    before = page.viewport_size
    page.set_viewport_size(viewport)
    width = page.evaluate("document.scrollingElement.scrollWidth")
    page.set_viewport_size(before)
    assert width <= viewport["width"]


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_table_is_wider_than_its_place(opened, viewport):
    page = opened(viewport)
    folded = page.locator("article details:not([open])").element_handles()
    for each in folded:
        each.evaluate("each => each.open = true")
    wide = """tables => tables.filter(table => {
        let place = table.parentElement;
        while (place && getComputedStyle(place).overflowX === 'visible') place = place.parentElement;
        return place && table.getBoundingClientRect().width > place.clientWidth + 1;
    }).map(table => table.innerText.slice(0, 80))"""
    found = page.locator("article table").evaluate_all(wide)
    for each in folded:
        each.evaluate("each => each.open = false")
    assert found == []


def test_no_table_has_more_than_six_columns(opened):
    page = opened(DESKTOP)
    count = "tables => tables.map(table => Math.max(...[...table.rows].map(row => row.cells.length)))"
    assert max(page.locator("article table").evaluate_all(count), default=0) <= 6


def test_no_code_scrolls_sideways_on_a_desktop(opened):
    page = opened(DESKTOP)
    wide = "blocks => blocks.filter(b => b.scrollWidth > b.clientWidth + 1).map(b => b.innerText.slice(0, 80))"
    assert page.locator("article div.cell_input pre, article div.highlight > pre").evaluate_all(wide) == []


def test_mathematics_is_set_and_not_raw(opened):
    page = opened(DESKTOP)
    formulas = page.locator("article .math")
    assert page.locator("article .math:not(:has(> math))").count() == 0
    assert "\\" not in "".join(formulas.all_inner_texts())


def test_every_figure_loads_and_says_what_it_shows(opened):
    page = opened(DESKTOP)
    for image in page.locator("article img").all():
        assert len(image.get_attribute("alt") or "") > 30
        now = "img => { img.loading = 'eager'; return img.decode().then(() => img.naturalWidth); }"
        assert image.evaluate(now) > 100
    figures = page.locator("article figure").all()
    assert figures or "/chapters/" not in page.url
    assert all(len(figure.locator("figcaption").inner_text()) > 40 for figure in figures)


def test_the_data_of_every_figure_can_be_saved(opened):
    page = opened(DESKTOP)
    if page.url.endswith(("index.html", "learned.html")):
        return  # their figures are chapters'
    links = page.locator('article a.data-link[download$=".csv"]').all()
    drawings = page.locator("article figure[id^=fig-drawing]").count()  # they draw no data
    assert len(links) >= page.locator("article figure").count() - drawings
    for link in links:
        with page.expect_download() as saved:
            link.click()
        assert saved.value.suggested_filename.endswith(".csv")
        table = pd.read_csv(io.BytesIO(saved.value.path().read_bytes()))
        assert len(table) > 1
        assert len(table.columns) > 1


def test_the_prose_shows_numbers_and_no_leftovers(opened):
    page = opened(DESKTOP)
    code = page.locator("article div.cell_input, article pre")
    code.evaluate_all("all => all.forEach(one => one.hidden = true)")
    text = page.locator("article").inner_text()
    code.evaluate_all("all => all.forEach(one => one.hidden = false)")
    for leftover in ("{eval", "{{", "nan ms", "None", "Traceback", "DEFAULT"):
        assert leftover not in text


def test_the_answer_is_on_a_chapters_first_screen(opened):
    """Title, answer, take-away, and at least the head of the key figure, at 1,280 pixels wide."""
    page = opened(DESKTOP)
    if "/chapters/" not in page.url:
        return
    box = page.locator("article .admonition.tip").first.bounding_box()
    figure = page.locator("article figure, article table").first.bounding_box()
    assert figure["y"] < 1000
    assert box["y"] + box["height"] <= 1000


def test_a_chapter_is_not_endless_on_a_phone(opened):
    """What is read, and all of it with the code, without what a live run prints: that grows where a machine is busy."""
    page = opened(PHONE)
    if "/chapters/" in page.url:
        high = "all => all.reduce((sum, one) => sum + one.offsetHeight, 0)"
        code = page.locator("article .cell_input").evaluate_all(high)
        printed = page.locator("article .cell_output pre").evaluate_all(high)
        whole = page.evaluate("document.querySelector('article').scrollHeight") - printed
        assert (whole - code <= 12_000, whole <= 18_000) == (True, True), f"{whole - code} and {whole} px"


def test_links_inside_the_book_lead_somewhere(html):
    pages = list(html.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        links = re.findall(r'<a\s[^>]*href="([^"#?]+)', page.read_text())
        inside = {unquote(link) for link in links if not re.match(r"\w+:|//", link)}
        assert [link for link in inside if not (page.parent / link).exists()] == [], page.name


def test_the_download_is_the_readers_copy(html):
    for chapter in build.chapters():
        text = (html / "_sources" / "chapters" / f"{chapter}.ipynb").read_text()
        assert "reader-bootstrap" in text
        assert "{eval}" not in text


def test_the_appendix_has_every_document_and_leads_to_the_claims_tables(visit, html):
    page = visit((html / "claims.html").as_uri())
    assert page.locator("article h2").count() == 5
    targets = {link.get_attribute("href") for link in page.locator('article table a[href*="claims-machine"]').all()}
    assert len({target.partition(".html")[0] for target in targets}) > 10
    for target in targets:
        chapter, _, anchor = target.partition("#")
        assert f'id="{anchor}"' in (html / chapter).read_text()
    assert (html / "verdicts.csv").read_text().startswith("claim,")
