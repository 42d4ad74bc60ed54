"""The figure that moves, in a real browser: what it reads out, by slider, key and pointer, and where nothing moves."""

import re
import shutil

import pandas as pd
import pytest
from playwright.sync_api import expect

from traintime import lab, paths
from traintime.book.calculator import moving

MACHINE = "machine B"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PAGES = {
    "04-vocabulary": "fig-vocabulary",
    "06-batch-size": "fig-break-even",
    "08-sentence-length": "fig-length",
    "15-one-formula": "fig-predicted",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder like the book's, with a page for each figure and nothing else on it."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("_static", "chapters"):
        (folder / name).mkdir()
    shutil.copy(moving.SCRIPT, folder / "_static")
    figures = {name: moving.classifier(MACHINE, name) for name in moving.CLASSIFIER}
    style = (paths.ROOT / "_static" / "book.css").read_text()
    for name, figure in figures.items():
        text = f'<!doctype html><meta charset="utf-8"><style>{style}</style><body class="bd-article">{figure.data}'
        (folder / "chapters" / f"{name}.html").write_text(text)
    return folder


@pytest.fixture
def opened(visit, site):
    """A function that opens a figure against a size."""

    def open_page(name="vocabulary", viewport=DESKTOP, **more):
        return visit((site / "chapters" / f"{name}.html").as_uri(), viewport=viewport, **more)

    return open_page


def reading(tab) -> str:
    return tab.locator(".moving-reading").inner_text()


def move(tab, moves: list[tuple[str, dict[str, int]]]) -> list[str]:
    """Choose a line and set sliders; what is read out then."""
    return tab.evaluate(
        """all => all.map(([line, to]) => {
          const choice = document.getElementById("moving-line");
          choice.value = line;
          choice.dispatchEvent(new Event("change"));
          const {sizes} = JSON.parse(document.querySelector(".moving script").textContent);
          [...document.querySelectorAll(".moving input")].forEach((slider, number) => {
            slider.value = sizes[number].stops.indexOf(to[slider.id.replace("moving-", "")]);
            slider.dispatchEvent(new Event("input"));
          });
          return document.querySelector(".moving-reading").textContent;
        })""",
        [(lab.in_words(line), to) for line, to in moves],
    )


def numbers(text: str) -> list[float]:
    return [float(each.replace(",", "")) for each in re.findall(r"\d[\d,.]*", text)]


def rounded(values: list[float]):
    """Equal to what is read out: tenths of a millisecond, whole ones from 100 ms on."""
    return pytest.approx(values, rel=0.006, abs=0.051)


@pytest.mark.parametrize("against", list(moving.CLASSIFIER))
def test_it_reads_out_each_stored_step_and_what_the_formula_says(opened, against):
    tab = opened(against)
    for stack, (points, fit) in moving.fitted(MACHINE).items():
        sizes = points[list(moving.CLASSIFIER)].astype(int).to_dict("records")
        texts, predicted = move(tab, [(stack, each) for each in sizes]), fit.parts(points).sum(axis=1)
        for text, row, seconds in zip(texts, points.to_dict("records"), predicted, strict=True):
            ends = [row["low_s"], row["high_s"]] if row["low_s"] > 0 else []
            assert text.startswith(f"{row[against]:,} {moving.CLASSIFIER[against][1]}: ")
            assert numbers(text)[1:] == rounded([1e3 * each for each in (row["step_s"], *ends, seconds)])


def test_a_size_that_was_not_measured_has_the_formulas_value_alone(opened):
    sizes, (_, fit) = {"vocabulary": 50_000, "batch": 40, "length": 12}, moving.fitted(MACHINE)["numpy"]
    text = move(opened(), [("numpy", sizes)])[0]
    assert "measured (" not in text
    assert text.endswith("not measured")
    assert numbers(text) == rounded([50_000, 1e3 * fit.parts(pd.DataFrame([sizes])).sum(axis=1)[0]])


def test_a_stack_measured_at_one_length_has_no_other(opened):
    lengths = {stack: rows["length"].nunique() for stack, (rows, _) in moving.fitted(MACHINE).items()}
    tab = opened("length")
    for stack, number in lengths.items():
        tab.select_option("#moving-line", lab.in_words(stack))
        assert tab.locator("#moving-length").is_disabled() == (number == 1)
        assert ("25 tokens only" in tab.locator(".moving-fields").last.inner_text()) == (number == 1)
    assert 1 in lengths.values()


def test_keys_move_a_slider_and_the_reading(opened):
    tab = opened()
    slider = tab.locator("#moving-vocabulary")
    slider.press("Home")
    assert slider.get_attribute("aria-valuetext") == "1,000 rows"
    before = reading(tab)
    assert before.startswith("1,000 rows: ")
    tab.locator("#moving-batch").press("End")
    assert reading(tab) != before
    assert tab.locator(".moving-reading").get_attribute("aria-live") == "polite"


def test_the_pointer_moves_it(opened):
    tab = opened()
    plot = tab.locator(".moving svg").bounding_box()
    for left, size in ((plot["width"] - 20, "280,000"), (70, "1,000")):
        tab.mouse.move(plot["x"] + left, plot["y"] + 100)
        assert reading(tab).startswith(f"{size} rows: ")


def test_the_axis_can_be_any_size(opened):
    tab = opened()
    for label, unit, _ in moving.CLASSIFIER.values():
        tab.select_option("#moving-axis", label)
        assert f"{unit}: " in reading(tab)
        assert f"{label.lower()} ({unit})" in tab.locator(".moving svg").text_content()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_all_of_it_fits_the_screen_and_is_large_enough_to_touch(opened, viewport):
    tab = opened(viewport=viewport)
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= viewport["width"]
    heights = tab.locator(".moving :is(select, input)").evaluate_all("all => all.map(one => one.offsetHeight)")
    assert min(heights) >= 44


def test_without_scripts_and_on_paper_it_is_not_there(opened):
    expect(opened(java_script_enabled=False).locator(".moving")).to_be_hidden()
    tab = opened()
    expect(tab.locator(".moving")).to_be_visible()
    tab.emulate_media(media="print")
    expect(tab.locator(".moving")).to_be_hidden()


@pytest.mark.parametrize("chapter", list(PAGES))
def test_in_the_book_it_follows_the_static_figure_keeps_its_height_and_is_dark(visit, html, chapter):
    tab = visit((html / "chapters" / f"{chapter}.html").as_uri(), viewport=PHONE)
    tab.evaluate("document.documentElement.dataset.theme = 'dark'")
    static, figure = tab.locator(f"figure#{PAGES[chapter]}"), tab.locator(".moving")
    height = figure.bounding_box()["height"]
    assert figure.bounding_box()["y"] > static.bounding_box()["y"]
    tab.locator("#moving-batch").press("ArrowLeft")
    assert figure.bounding_box()["height"] == pytest.approx(height, abs=1)
    colour = tab.locator(".moving-reading").evaluate("one => getComputedStyle(one).color")
    assert min(map(float, re.findall(r"[\d.]+", colour)[:3])) > 150
