"""The calculator's page in a real browser: its answers, its link, its fields, and how it looks."""

import math
import random
import re
from statistics import NormalDist
from urllib.parse import urlencode

import pytest

from traintime.book.calculator import choices, near, page
from traintime.explain.memory import CONTEXT, memory_model
from traintime.explain.terms import by_part
from traintime.predict.cards import OURS
from traintime.predict.costs import FIXED, Rates, of_rates
from traintime.workloads.rnn import Rnn

PAGE = "calculator.html"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
USUAL = page.usual()


@pytest.fixture
def opened(visit, html):
    """A function that opens the page with these settings in its link."""

    def open_page(viewport=DESKTOP, scheme="light", how=(), **settings):
        link = f"#{urlencode(settings)}" if settings else ""
        return visit((html / PAGE).as_uri() + link, viewport=viewport, color_scheme=scheme, **dict(how))

    return open_page


def answers(tab, every: list[dict]) -> list[dict]:
    """The page's answers to settings, the usual ones where they say nothing."""
    every = [USUAL | settings for settings in every]
    return tab.evaluate("every => every.map(given => window.traintime.answer(given))", every)


def settings(tab) -> dict:
    return tab.evaluate("window.traintime.settings()")


def shown(tab, name: str) -> list[str]:
    return tab.locator(f'[data-answer="{name}"]').inner_text().split("\n")


def value(tab, name: str) -> float:
    return float(tab.locator(f'[data-answer="{name}"]').get_attribute("data-value"))


def drawn(number: int) -> list[dict]:
    """Settings at random, the same ones each time."""
    random_, found, data = random.Random(2017), [], page.data()
    for _ in range(number):
        its = {name: random_.choice(list(data["choices"][name])) for name in ("machine", "stack", "optimizer")}
        for name, one in data["numbers"].items():
            size = one["lowest"] * (one["highest"] / one["lowest"]) ** random_.random()
            its[name] = round(size) if one["whole"] else float(f"{size:.4g}")
        if its["optimizer"] == choices.DEFERRED and its["stack"] not in data["deferred"]:
            its["optimizer"] = "adam"
        found.append(USUAL | its | {"sentences": max(its["sentences"], its["batch"]), "frozen": random_.random() < 0.3})
    return found


def measured() -> list[tuple[dict, list[float]]]:
    """Settings that were measured: step with its interval, runs, mean step with its interval, memory."""
    return [
        (
            {"machine": machine, "stack": stack} | dict(zip(choices.SET, row, strict=False)),
            [math.nan if each is None else each for each in row[len(choices.SET) :]],
        )
        for machine, stacks in page.data()["measured"].items()
        for stack, rows in stacks.items()
        for row in rows
    ]


def ends(value: float, error: float) -> dict[str, float]:
    """An interval as the script has it, of a value whose logarithm has this standard deviation."""
    width = math.exp(NormalDist().inv_cdf(0.5 + page.data()["level"] / 2) * error)
    return {"value": value, "low": value / width, "high": value * width}


# Its answers


@pytest.mark.parametrize(
    "its",
    [
        {"batch": 101, "sentences": 1_000, "epochs": 3},
        {"stack": "2026-torch", "optimizer": "sgd", "allocator": "tcmalloc"},
        {"stack": "2026-jax", "optimizer": "adam-deferred", "batch": 64},
        {"machine": "T4", "stack": "2017-theano", "frozen": True},
        {"machine": "i7-7700", "optimizer": "rmsprop", "length": 40},
        {"machine": choices.BY_RATES, "gflops": 80, "gbytes": 20},
    ],
    ids=lambda its: next(iter(its.values())),
)
def test_an_answer_is_the_sum_of_the_exported_costs_times_the_work(opened, its):
    found, its = answers(opened(), [its])[0], USUAL | its
    sizes = Rnn(**{name: its[name] for name in choices.SET if name != "allocator"})
    work, held, card = sizes.work(), memory_model(its["stack"]), near.group(its["machine"], "") == near.CARDS
    costs = near.costs_of(its["machine"], its["stack"])[its["allocator"]]
    if its["machine"] == choices.BY_RATES:
        costs = of_rates("", Rates(its["gflops"] * 1e9, its["gbytes"] * 1e9), its["stack"])
    terms, batches = costs.parts(work), its["sentences"] / its["batch"]
    # The last batch of an epoch may not be full: it costs as much of each step as any, and less of each sentence.
    fixed = sum(terms[name] for name in FIXED)
    expected = {"step": (costs.step_s(work), costs.error)}
    expected["epoch"] = math.ceil(batches) * fixed + batches * (costs.step_s(work) - fixed), costs.error
    expected["peak"] = (CONTEXT if card else held.idle) + held.beyond_idle(work, sizes.how), held.error
    for name, (each, error) in expected.items():
        assert found["formula"][name] == pytest.approx(ends(each, error), rel=1e-4), name
    parts = by_part(terms)
    assert found["formula"]["parts"] == pytest.approx(parts)
    assert found["limit"] == max(parts, key=parts.get)


def test_the_answers_in_the_text_are_the_scripts(opened):
    """The predictor made them, and a reader without JavaScript has no others."""
    rows = re.findall(r"<tr>\s*(<td.*?)</tr>", page.fragments()[page.EXAMPLES], flags=re.DOTALL)
    settings = [{}, {"vocabulary": 20_000}, {"vocabulary": 500_000}, {"batch": 1_024}, {"frozen": 1}]
    settings += [{"optimizer": choices.DEFERRED}, {"machine": "K40m", "stack": "2017-theano"}]
    for its, row in zip(settings, rows, strict=True):
        tab, cells = opened(**its), re.findall(r"<td[^>]*>(.*?)</td>", row.replace("\u00a0", " "))
        _, *texts = (re.sub(r" \((.*?)\)", r", \1", cell) for cell in cells)
        for name, text in zip(("step", "epoch", "peak"), texts, strict=True):
            assert ", ".join(shown(tab, name)).startswith(text)


def test_a_measured_step_is_the_answer_and_the_hours_follow_from_the_mean(opened):
    tab = opened(vocabulary=2_000_000, machine="H200-SXM", stack="2026-torch")
    known, took = zip(*measured(), strict=True)
    for found, (step, low, high, runs, mean, *_, peak) in zip(answers(tab, known), took, strict=True):
        its, formula = found["measured"], found["formula"]
        assert list(its.values()) == pytest.approx([step, low, high, runs], nan_ok=True)
        ratio = formula["epoch"]["value"] / formula["step"]["value"]
        assert (found["step"], found["epoch"]["value"]) == (its, pytest.approx(mean * ratio))
        assert found["peak"]["value"] == (peak if peak > 0 else formula["peak"]["value"])
    assert tab.locator('[data-part="step-label"]').inner_text() == "A step, measured"
    epoch = tab.evaluate("window.traintime.answer().epoch.value")
    mark = tab.locator('[data-curve="vocabulary"] circle.mark').get_attribute("data-value")
    assert (value(tab, "epoch"), value(tab, "total"), float(mark)) == pytest.approx((epoch, 10 * epoch, epoch))
    assert tab.locator('[data-curve="vocabulary"] circle.measured').count() > 2


def test_the_memory_on_our_card_is_what_its_driver_counted(opened):
    torch, jax = answers(opened(), [{"machine": OURS[1], "stack": stack} for stack in ("2026-torch", "2026-jax")])
    assert torch["peak"]["value"] == pytest.approx(4.06e9, rel=0.05)
    assert jax["peak"]["value"] == pytest.approx(1.35e9 + 1.42e9, rel=0.08)  # of its pool, and outside it


def test_measured_steps_nearby_are_carried_over_as_python_does(opened):
    """One rule: near.py judges it, the script computes it."""
    every = [USUAL | its | {name: 2 * its[name] for name in ("length", "vocabulary")} for its, _ in measured()[::7]]
    every += [its for its in drawn(40) if its["machine"] != choices.BY_RATES]
    for its, found in zip(every, answers(opened(), every), strict=True):
        *by, error = near.factors(its["machine"], its["stack"], its)
        for name, factor in zip(("step", "epoch"), by, strict=True):
            value = found["formula"][name]["value"] * factor
            assert found[name] == pytest.approx(ends(value, error), rel=1e-4), its


def test_what_an_answer_rests_on_is_said_and_the_nearest_measurement_is_linked(opened):
    tab = opened(batch=101, epochs=7)
    label, known = (tab.locator(f'[data-part="{name}"]') for name in ("step-label", "known"))
    assert label.inner_text() == "A step, estimated"
    assert known.inner_text().startswith("Nobody measured these sizes there.")
    known.locator("a").click()
    tab.locator('[data-part="step-label"]', has_text="A step, measured").wait_for()
    assert settings(tab) == USUAL | {"epochs": 7}
    tab.select_option("#calculator-machine", "i7-7700")
    assert label.inner_text() == "A step, predicted"
    assert "by the formula alone" in known.inner_text()


def test_a_change_is_offered_where_it_can_be_had_and_can_be_tried(opened):
    tab = opened()
    every = [{}, {"sentences": 399}, {"frozen": True}, {"stack": "numpy"}, {"stack": "2026-torch", "batch": 101}]
    usual, few, frozen, numpy, torch = (
        {one["change"]["name"]: one["settings"] for one in found["changes"]} for found in answers(tab, every)
    )
    assert usual["batch"] == USUAL | {"batch": 400}
    assert torch["allocator"]["allocator"] == "tcmalloc"
    assert ("batch" in few, "frozen" in frozen, "deferred" in numpy) == (False, False, False)
    tab = opened(batch=101)  # nobody measured these sizes
    best, before = tab.locator("li[data-change]").first, value(tab, "epoch")
    factor = float(best.get_attribute("data-factor"))
    best.get_by_role("button").click()
    assert settings(tab) != USUAL | {"batch": 101}
    assert tab.evaluate("window.traintime.answer().epoch.value") * factor == pytest.approx(before)


def test_each_curve_has_the_readers_point_and_says_in_words_what_it_shows(opened):
    its = {"vocabulary": 50_000, "length": 40, "batch": 64}  # nobody measured these sizes
    tab = opened(**its)
    for name, size in its.items():
        curve = tab.locator(f'[data-curve="{name}"]')
        mark = curve.locator("circle.mark")
        assert float(mark.get_attribute("data-x")) == size
        assert float(mark.get_attribute("data-value")) == pytest.approx(value(tab, "epoch"))
        words = curve.locator("svg").get_attribute("aria-label")
        assert f"yours, at {size:,}, takes {shown(tab, 'epoch')[0]}" in words


# Its link


@pytest.mark.parametrize("number", range(4))
def test_the_link_restores_the_settings(opened, visit, number):
    tab, its = opened(), drawn(4)[number]
    tab.evaluate(
        """given => {
          const form = document.querySelector("#calculator-root form");
          for (const [name, value] of Object.entries(given)) {
            if (name === "frozen") form.elements.namedItem(name).checked = value;
            else form.elements.namedItem(name).value = value;
          }
          form.dispatchEvent(new Event("input"));
        }""",
        its,
    )
    tab.wait_for_url(re.compile("#."))
    link = tab.url
    assert not re.search(r"[\s()'\"<>]", link)
    # As it comes back from a message: with a line's end and a full stop behind it.
    expected = its
    if its["machine"] != choices.BY_RATES:  # a link carries rates for such a machine alone
        expected = its | {name: USUAL[name] for name in choices.RATES}
    assert settings(visit(link + ".\n")) == expected


def test_a_link_that_cannot_be_followed_says_so(opened):
    tab = opened(vocabulary="many", stack="2031-jax", colour="red", batch=50)
    notice = tab.locator('[data-part="notice"]').inner_text()
    for part in ("vocabulary many is no number", "stack 2031-jax is not known here", "no colour is known here"):
        assert part in notice
    assert tab.locator("#calculator-vocabulary-problem").is_visible()
    tab.fill("#calculator-vocabulary", "280000")
    assert settings(tab) == USUAL | {"batch": 50}


# Its fields


def test_a_key_moves_a_slider_and_the_number_beside_it(opened):
    tab = opened()
    slider = tab.get_by_label("Batch, slider")
    slider.focus()
    slider.press("ArrowRight")
    moved = settings(tab)["batch"]
    assert moved > 100
    assert slider.get_attribute("aria-valuetext") == f"{moved:,}"
    for key, size in (("Home", 1), ("End", 8192)):
        slider.press(key)
        assert tab.locator("#calculator-batch").input_value() == str(size)


@pytest.mark.parametrize(
    ("name", "given", "field"),
    [
        ("batch", "0", "batch"),
        ("batch", "2.5", "batch"),
        ("length", "", "length"),
        ("vocabulary", "200000000", "vocabulary"),
        ("sentences", "99", "batch"),
    ],
)
def test_a_value_out_of_range_is_refused_at_its_field_and_gives_no_answer(opened, name, given, field):
    tab = opened()
    problem, marked = tab.locator(f"#calculator-{field}-problem"), tab.locator(f"#calculator-{field}")
    tab.fill(f"#calculator-{name}", given)
    told = problem.inner_text()
    assert told.startswith(f"{field.capitalize()}: ")
    assert marked.get_attribute("aria-invalid") == "true"
    assert tab.locator('[data-answer="epoch"]').get_attribute("data-value") is None
    assert tab.locator('[data-part="limit"]').is_hidden()
    tab.locator('[role="status"]', has_text=told).wait_for()  # a screen reader hears it, too
    tab.fill(f"#calculator-{name}", "150")
    assert problem.is_hidden()
    assert marked.get_attribute("aria-invalid") is None
    assert value(tab, "epoch") > 0


@pytest.mark.parametrize(
    ("its", "field"),
    [
        ({"optimizer": choices.DEFERRED, "stack": "2017-theano"}, "optimizer"),
        ({"allocator": "tcmalloc", "stack": "2026-torch", "machine": "K40m"}, "allocator"),
    ],
    ids=["optimizer", "allocator"],
)
def test_what_cannot_be_had_there_is_refused_at_its_field(opened, its, field):
    tab = opened(**its)
    assert tab.locator(f"#calculator-{field}-problem").is_visible()
    assert tab.locator('[data-answer="epoch"]').get_attribute("data-value") is None
    tab.select_option(f"#calculator-{field}", USUAL[field])
    assert value(tab, "epoch") > 0


# How it looks, and what it leaves alone


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_nothing_is_wider_than_the_screen_or_too_small_to_touch(opened, viewport):
    tab = opened(viewport)
    tab.evaluate("document.querySelectorAll('article details').forEach(each => each.open = true)")
    wide = """all => all.filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
        .map(one => one.outerHTML.slice(0, 80))"""
    small = """all => all.filter(one => one.type !== "checkbox" && one.getBoundingClientRect().height < 44)
        .map(one => one.outerHTML.slice(0, 80))"""
    touched = "#calculator-root :is(input, select, button, summary, label.calculator-check):visible"
    for machine in (USUAL["machine"], choices.BY_RATES):
        tab.select_option("#calculator-machine", machine)
        assert tab.evaluate("document.scrollingElement.scrollWidth") <= viewport["width"]
        assert tab.locator("#calculator-root *").evaluate_all(wide) == []
        assert viewport is DESKTOP or tab.locator(touched).evaluate_all(small) == []


@pytest.mark.parametrize(("theme", "dark"), [("dark", True), ("light", False)])
def test_it_is_dark_where_the_book_is_and_readable_there(opened, theme, dark):
    tab = opened(scheme="dark")
    tab.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    for selector in (".calculator-answer", "#calculator-batch", "#calculator-machine"):
        colours = "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one).color]"
        ground, text = (
            sum(map(float, re.findall(r"[\d.]+", each)[:3])) / 3 for each in tab.locator(selector).evaluate(colours)
        )
        assert (ground < 80) == dark, selector
        assert abs(ground - text) > 120, selector


@pytest.mark.parametrize(
    ("viewport", "stays", "share"),
    [(DESKTOP, ".calculator-answer", 1 / 3), (PHONE, ".calculator-thin", 1 / 14)],
    ids=["desktop", "phone"],
)
def test_the_answer_stays_in_sight_while_a_slider_moves_and_leaves_a_phones_screen_free(opened, viewport, stays, share):
    tab = opened(viewport)
    tab.locator("#calculator-allocator").scroll_into_view_if_needed()
    box = tab.locator(stays).bounding_box()
    assert 0 <= box["y"] <= viewport["height"] - box["height"] + 1
    assert box["height"] < viewport["height"] * share
    assert all(shown(tab, name)[0] in tab.locator(stays).inner_text() for name in ("step", "epoch", "peak"))


def test_without_javascript_there_is_no_form_but_answers(opened):
    tab = opened(how={"java_script_enabled": False})
    assert tab.locator("#calculator-root").is_hidden()
    assert tab.locator("article .calculator-none").is_visible()
    assert tab.locator("article table.book-table:visible tbody tr").count() > 3
