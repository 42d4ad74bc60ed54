"""The figure that moves, in a real browser: what it reads out, by slider, key and pointer, and where nothing moves."""

import shutil
from decimal import ROUND_HALF_UP, Decimal

import pandas as pd
import pytest
from playwright.sync_api import expect

from traintime import paths
from traintime.book.calculator import moving

MACHINE = "machine B"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PAGES = {
    "03-vocabulary": "fig-vocabulary",
    "05-batch-size": "fig-break-even",
    "06-sentence-length": "fig-length",
    "08-fused-lstm": "fig-positions",
    "14-one-formula": "fig-predicted",
}
# Of one LSTM: steps that were measured, made up, and the three costs of a line.
STEPS = [(10, 32, 0.02, 0.01, 0.03), (50, 32, 0.07, 0.06, 0.08), (50, 512, 0.25, -0.01, 0.6)]
STEPS = pd.DataFrame(STEPS, columns=["length", "batch", "step_s", "low_s", "high_s"])
COSTS = {"a": 0.004, "l": 0.001, "c": 1e-5}
UNITS = {name: unit for name, (_, unit, _) in moving.CLASSIFIER.items()}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder like the book's, with a page for each figure and nothing else on it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "_static").mkdir()
    shutil.copy(moving.SCRIPT, folder / "_static")
    figures = {name: moving.classifier(MACHINE, name) for name in UNITS}
    figures["lstm"] = moving.lstm({"numpy, loop": (STEPS, COSTS)}, "a machine")
    style = (paths.ROOT / "_static" / "book.css").read_text()
    (folder / "chapters").mkdir()
    for name, figure in figures.items():
        text = f'<!doctype html><meta charset="utf-8"><style>{style}</style><body class="bd-article">{figure.data}'
        (folder / "chapters" / f"{name}.html").write_text(text)
    return folder


@pytest.fixture
def opened(visit, site):
    """A function that opens a figure against a size, or the LSTM's."""

    def open_page(name="vocabulary", viewport=DESKTOP, **more):
        return visit((site / "chapters" / f"{name}.html").as_uri(), viewport=viewport, **more)

    return open_page


def reading(tab) -> str:
    return tab.locator(".moving-reading").inner_text()


def milliseconds(seconds: float, like: float) -> str:
    """As the book's tables have it: whole above a tenth of a second; a half is rounded up, as browsers do."""
    digits = Decimal("1") if like > 0.1 else Decimal("0.1")
    return f"{Decimal(repr(1e3 * seconds)).quantize(digits, ROUND_HALF_UP):,}"


MOVE = """all => all.map(given => {
  const choice = document.getElementById("moving-line");
  choice.value = given.line;
  choice.dispatchEvent(new Event("change"));
  const {sizes} = JSON.parse(document.querySelector(".moving script").textContent);
  [...document.querySelectorAll(".moving input")].forEach((slider, number) => {
    const name = slider.id.replace("moving-", "");
    if (!(name in given.sizes)) return;
    slider.value = sizes[number].stops.indexOf(given.sizes[name]);
    slider.dispatchEvent(new Event("input"));
  });
  return document.querySelector(".moving-reading").textContent;
})"""


def move(tab, line: str, **sizes: int) -> str:
    """Choose a line and set sliders; what is read out then."""
    return tab.evaluate(MOVE, [{"line": line, "sizes": sizes}])[0]


@pytest.mark.parametrize("against", list(UNITS))
def test_it_reads_out_each_stored_step_and_what_the_formula_says(opened, against):
    moves, texts = [], []
    for stack, (points, fit) in moving.fitted(MACHINE).items():
        for _, row in points.iterrows():
            moves.append({"line": stack, "sizes": {name: int(row[name]) for name in UNITS}})
            step, low, high = (milliseconds(row[name], row["step_s"]) for name in ("step_s", "low_s", "high_s"))
            interval = f" ({low} to {high})" if row["low_s"] > 0 else ""
            formula = float(fit.predict(pd.DataFrame([row]))[0])
            predicted = f"{milliseconds(formula, formula)} ms by the formula"
            texts.append(f"{row[against]:,} {UNITS[against]}: {step} ms measured{interval}, {predicted}")
    assert opened(against).evaluate(MOVE, moves) == texts
    assert len(texts) > 50


def test_it_reads_out_an_lstms_steps_and_the_sum_of_its_three_costs(opened):
    tab = opened("lstm")
    # 4 + 1 · 10 + 0.01 · 32 · 10 ms; then 4 + 1 · 50 + 0.01 · 512 · 50 ms, with an interval that reaches below zero.
    small, large = "20.0 ms measured (10.0 to 30.0), 17.2 ms", "250 ms measured, 310 ms"
    assert move(tab, "numpy, loop", length=10, batch=32) == f"10 time steps: {small} by the formula"
    assert move(tab, "numpy, loop", length=50, batch=512) == f"50 time steps: {large} by the formula"


def test_a_size_that_was_not_measured_has_the_formulas_value_alone(opened):
    tab, (_, fit) = opened(), moving.fitted(MACHINE)["numpy"]
    sizes = {"vocabulary": 50_000, "batch": 40, "length": 12}
    formula = float(fit.predict(pd.DataFrame([sizes]))[0])
    text = f"50,000 rows: {milliseconds(formula, formula)} ms by the formula, not measured"
    assert move(tab, "numpy", **sizes) == text


def test_a_stack_measured_at_one_length_has_no_other(opened):
    lengths = {stack: rows["length"].nunique() for stack, (rows, _) in moving.fitted(MACHINE).items()}
    alone = next(stack for stack, number in lengths.items() if number == 1)
    several = next(stack for stack, number in lengths.items() if number > 1)
    tab = opened("length")
    move(tab, several, length=400)
    slider = tab.locator("#moving-length")
    assert slider.is_enabled()
    tab.select_option("#moving-line", alone)
    assert slider.is_disabled()
    assert reading(tab).startswith("25 tokens: ")
    assert "25 tokens only" in tab.locator(".moving-fields").last.inner_text()


# How it is moved


def test_keys_move_a_slider_and_the_reading(opened):
    tab = opened()
    slider = tab.locator("#moving-vocabulary")
    slider.press("Home")
    assert reading(tab).startswith("1,000 rows: ")
    assert slider.get_attribute("aria-valuetext") == "1,000 rows"
    before = reading(tab)
    tab.locator("#moving-batch").press("End")
    assert reading(tab) != before


def test_keys_go_from_one_measured_point_to_the_next(opened):
    tab = opened()
    tab.locator("#moving-axis").focus()
    tab.keyboard.press("Tab")
    values = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight"):
        tab.keyboard.press(key)
        values.append(int(tab.evaluate("document.activeElement.dataset.value")))
        assert reading(tab).startswith(f"{values[-1]:,} rows: ")
        assert "ms measured" in reading(tab)
    here = moving.fitted(MACHINE)["2026-tensorflow"][0].query("batch == 100 and length == 25")
    sizes = sorted(here["vocabulary"])
    assert values == [sizes[0], sizes[1], sizes[2], sizes[1], sizes[-1], sizes[-1]]
    assert tab.locator('.moving svg [tabindex="0"]').count() == 1


def test_the_pointer_moves_it(opened):
    tab = opened()
    plot = tab.locator(".moving svg").bounding_box()
    tab.mouse.move(plot["x"] + plot["width"] - 20, plot["y"] + 100)
    assert reading(tab).startswith("280,000 rows: ")
    tab.mouse.move(plot["x"] + 70, plot["y"] + 100)
    assert reading(tab).startswith("1,000 rows: ")


def test_the_axis_can_be_any_size(opened):
    tab = opened()
    for label, unit, _ in moving.CLASSIFIER.values():
        tab.select_option("#moving-axis", label)
        assert f"{unit}: " in reading(tab)
        assert f"{label.lower()} ({unit})" in tab.locator(".moving svg").text_content()


# How it looks, and who it is for


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_all_of_it_fits_the_screen_and_is_large_enough_to_touch(opened, viewport):
    tab = opened(viewport=viewport)
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= viewport["width"]
    heights = tab.locator(".moving :is(select, input)").evaluate_all("all => all.map(one => one.offsetHeight)")
    assert min(heights) >= 44
    # Labels of a scale do not run into each other.
    boxes = tab.locator(".moving svg text").evaluate_all("all => all.map(one => one.getBoundingClientRect().toJSON())")
    for number, one in enumerate(boxes):
        for other in boxes[:number]:
            apart = one["left"] >= other["right"] or other["left"] >= one["right"]
            assert apart or one["top"] >= other["bottom"] - 3 or other["top"] >= one["bottom"] - 3


def test_everything_has_a_name_for_who_cannot_see_it(opened):
    tab = opened()
    unnamed = 'all => all.filter(one => !one.labels?.length && !one.getAttribute("aria-label")).length'
    assert tab.locator(".moving :is(select, input, svg, [tabindex])").evaluate_all(unnamed) == 0
    assert tab.locator(".moving-reading").get_attribute("aria-live") == "polite"
    identifiers = tab.locator("[id]").evaluate_all("all => all.map(one => one.id)")
    assert len(identifiers) == len(set(identifiers))


def test_without_scripts_and_on_paper_it_is_not_there(opened):
    expect(opened(java_script_enabled=False).locator(".moving")).to_be_hidden()
    tab = opened()
    expect(tab.locator(".moving")).to_be_visible()
    tab.emulate_media(media="print")
    expect(tab.locator(".moving")).to_be_hidden()


# In the book


@pytest.mark.parametrize("chapter", list(PAGES))
def test_it_follows_the_static_figure_and_moves_nothing_else(visit, html, chapter):
    tab = visit((html / "chapters" / f"{chapter}.html").as_uri(), viewport=PHONE)
    static, figure = tab.locator(f"figure#{PAGES[chapter]}"), tab.locator(".moving")
    expect(figure).to_have_count(1)
    assert figure.bounding_box()["y"] > static.bounding_box()["y"]
    assert "ms by the formula" in reading(tab)
    height = figure.bounding_box()["height"]
    tab.locator("#moving-batch").press("ArrowLeft")
    assert figure.bounding_box()["height"] == pytest.approx(height, abs=1)


def test_it_is_dark_where_the_book_is(visit, html):
    tab = visit((html / "chapters" / "03-vocabulary.html").as_uri(), viewport=DESKTOP, color_scheme="dark")
    tab.evaluate("document.documentElement.dataset.theme = 'dark'")
    lightness = """one => {
      let ground = one;
      while (ground && /, 0\\)$/.test(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
      return [getComputedStyle(ground ?? document.body).backgroundColor, getComputedStyle(one).color]
        .map(colour => colour.match(/[\\d.]+/g).slice(0, 3).reduce((sum, each) => sum + each / 3, 0));
    }"""
    for place in (".moving-reading", ".moving svg", ".moving select"):
        ground, text = tab.locator(place).first.evaluate(lightness)
        assert ground < 80 < 150 < text, place
