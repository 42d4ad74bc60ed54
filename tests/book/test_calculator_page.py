"""The calculator's page in a real browser: its numbers are Python's, its link carries them, nothing else loads it."""

import itertools
import math
import random
import re
from dataclasses import asdict, replace

import pytest

from traintime.book.calculator import answer, choices, formulas, page
from traintime.book.calculator.answer import Settings

PAGE = "calculator.html"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PRECISION = 5e-7  # equal to 6 digits


def drawn(number: int) -> list[Settings]:
    """Settings at random, the same ones each time: every kind of machine, stack and way to train."""
    random_, found = random.Random(2017), []
    machines = [*choices.machines(), choices.BY_RATES]
    for index in range(number):
        stack = random_.choice(choices.stack_names())
        optimizers = [
            name for name in formulas.OPTIMIZERS if name != choices.DEFERRED or stack in choices.with_deferred()
        ]
        values = {}
        for one in choices.NUMBERS.values():
            value = one.lowest * (one.highest / one.lowest) ** random_.random()
            values[one.name] = round(value) if one.whole else float(f"{value:.4g}")
        values["sentences"] = max(values["sentences"], values["batch"])
        machine = machines[index % len(machines)]
        if machine != choices.BY_RATES:  # a link carries rates for such a machine alone
            values = {name: value for name, value in values.items() if name not in ("gflops", "gbytes")}
        chosen = {"optimizer": random_.choice(optimizers), "frozen": random_.random() < 0.3}
        chosen["allocator"] = random_.choice(choices.allocators(machine, stack))
        found.append(Settings(**values, **chosen, stack=stack, machine=machine))
    return found


def known() -> list[Settings]:
    """Settings that were measured, the same ones each time: some of each machine and stack; the last batch is short."""
    found = []
    for machine in choices.machines():
        for _, those in itertools.groupby(answer.steps_of(machine), lambda its: its.stack):
            found += [replace(its, sentences=777_777, epochs=3) for its in list(those)[::7]]
    return found


def same(found: dict, settings: Settings) -> None:
    """Whether the page's answer is Python's."""
    expected = answer.answer(settings)
    for name in ("step", "epoch", "total", "peak"):
        one = getattr(expected, name)
        value = {"value": one.value, "low": one.low, "high": one.high}
        assert found[name] == pytest.approx(value, rel=PRECISION), (name, settings)
    assert found["steps"] == expected.steps
    assert found["parts"] == pytest.approx(expected.parts, rel=PRECISION)
    assert found["work"] == pytest.approx(vars(expected.work), rel=PRECISION)
    assert found["limit"] == expected.limit
    its = found.get("measured") or {}
    assert bool(its.get("value")) == bool(expected.measured), settings
    if expected.measured:
        step = expected.measured.step
        values = [math.nan if its[name] is None else its[name] for name in ("value", "low", "high", "runs")]
        assert values == pytest.approx(
            [step.value, step.low, step.high, expected.measured.runs], PRECISION, nan_ok=True
        )
    factors = [one["factor"] for one in found["changes"]]
    assert factors == sorted(factors, reverse=True)
    assert all(factor >= choices.WORTH for factor in factors)
    for one in found["changes"]:
        other = answer.answer(Settings(**one["settings"]))
        both = [each.from_measured(each.epoch) if one["known"] else each.epoch for each in (expected, other)]
        assert one["factor"] == pytest.approx(both[0].value / both[1].value, rel=PRECISION)
        assert one["known"] == bool(expected.measured and other.measured)


@pytest.fixture
def opened(visit, html):
    """A function that opens the page."""

    def open_page(hash_="", viewport=DESKTOP, scheme="light", **more):
        return visit((html / PAGE).as_uri() + hash_, viewport=viewport, color_scheme=scheme, **more)

    return open_page


def answered(tab) -> dict:
    """The page's answer to its own settings."""
    return tab.evaluate("window.traintime.answer()")


def offered(tab, **settings) -> dict[str, dict]:
    """The settings with each change that the page offers, by the change's name."""
    found = tab.evaluate("given => window.traintime.answer(given)", asdict(Settings(**settings)))
    return {one["change"]["name"]: one["settings"] for one in found["changes"]}


def link(tab) -> str:
    return tab.locator("#calculator-link").input_value()


# Its numbers


def test_its_numbers_are_pythons_to_six_digits(opened):
    tab = opened()
    of_measured = known()
    assert len(of_measured) > 60
    for settings in [Settings(), *drawn(40), *of_measured]:
        same(tab.evaluate("given => window.traintime.answer(given)", asdict(settings)), settings)


def test_a_change_is_offered_where_it_can_be_had_and_changes_something(opened):
    tab = opened()
    assert offered(tab)["batch"]["batch"] == 400
    assert "batch" not in offered(tab, sentences=399)
    assert "batch" not in offered(tab, batch=8_192)
    assert "frozen" not in offered(tab, frozen=True)
    assert "deferred" not in offered(tab, stack="numpy")
    assert offered(tab, stack="2026-torch", batch=101)["allocator"]["allocator"] == "tcmalloc"
    assert "allocator" not in offered(tab, stack="2026-torch", machine="K40m")


def test_what_it_shows_is_what_it_computes(opened):
    # Sizes that nobody measured.
    tab, expected = opened("#batch=101"), answer.answer(Settings(batch=101))
    same(answered(tab), Settings(batch=101))
    for name in ("step", "epoch", "total", "peak"):
        shown, one = tab.locator(f'[data-answer="{name}"]'), getattr(expected, name)
        for end in ("value", "low", "high"):
            assert float(shown.get_attribute(f"data-{end}")) == pytest.approx(getattr(one, end), rel=PRECISION)
        units = page.BYTES if name == "peak" else page.SECONDS
        value, _, between = page.between(one, units).partition(" (")
        assert shown.inner_text().split("\n") == [value, between.rstrip(")")]
    terms = {
        one.get_attribute("data-share"): one.get_attribute("data-value") for one in tab.locator("[data-share]").all()
    }
    assert {name: float(value) for name, value in terms.items()} == pytest.approx(expected.parts, rel=PRECISION)
    changes = {
        one.get_attribute("data-change"): float(one.get_attribute("data-factor"))
        for one in tab.locator("li[data-change]").all()
    }
    factors = {one["change"]["name"]: one["factor"] for one in answered(tab)["changes"]}
    assert changes == pytest.approx(factors, rel=PRECISION)
    assert expected.limit in tab.locator('[data-part="limit"]').inner_text().lower()


def test_each_curve_has_the_readers_point_and_says_in_words_what_it_shows(opened):
    tab = opened("#vocabulary=50000&length=40&batch=64")
    epoch = answer.answer(Settings(vocabulary=50_000, length=40, batch=64)).epoch.value  # nobody measured these sizes
    for name, x in (("batch", 64), ("vocabulary", 50_000), ("length", 40)):
        curve = tab.locator(f'[data-curve="{name}"]')
        mark = curve.locator("circle.mark")
        assert (float(mark.get_attribute("data-x")), float(mark.get_attribute("data-value"))) == (
            x,
            pytest.approx(epoch, rel=PRECISION),
        )
        words = curve.locator("svg").get_attribute("aria-label")
        assert f"yours, at {x:,}, takes {page.shown(epoch)}" in words
        assert choices.CURVES[name][1] in curve.locator("svg").inner_html()
        curve.locator("summary").click()
        assert f"{x:,} (yours)" in curve.locator("table").inner_text()


# Its link


@pytest.mark.parametrize("settings", drawn(6), ids=range(6))
def test_the_link_restores_the_settings(opened, settings):
    tab = opened()
    tab.evaluate(
        """given => {
          const form = document.querySelector("#calculator-root form");
          for (const [name, value] of Object.entries(given)) {
            if (name === "frozen") form.elements.namedItem(name).checked = value;
            else form.elements.namedItem(name).value = value;
          }
          form.dispatchEvent(new Event("input"));
        }""",
        asdict(settings),
    )
    same(answered(tab), settings)
    tab.wait_for_timeout(400)
    assert tab.url == link(tab)
    # As it comes back from a message: with a line's end and a full stop behind it.
    again = opened("#" + link(tab).partition("#")[2] + ".\n")
    assert not re.search(r"[\s()'\"<>]", link(tab))
    assert again.evaluate("window.traintime.settings()") == tab.evaluate("window.traintime.settings()")
    same(answered(again), settings)
    again.reload()
    same(answered(again), settings)


def test_a_link_that_cannot_be_followed_says_so(opened):
    tab = opened("#vocabulary=many&stack=2031-jax&colour=red&batch=50")
    notice = tab.locator('[data-part="notice"]').inner_text()
    assert "vocabulary many is no number" in notice
    assert "stack 2031-jax is not known here" in notice
    assert "no colour is known here" in notice
    assert (
        "Vocabulary: give a whole number from 1 to 100,000,000."
        in tab.locator("#calculator-vocabulary-problem").inner_text()
    )
    tab.fill("#calculator-vocabulary", "280000")
    same(answered(tab), Settings(batch=50))


def test_the_link_can_be_copied(opened):
    tab = opened("#batch=50", permissions=["clipboard-read", "clipboard-write"])
    tab.get_by_role("button", name="Copy the link").click()
    tab.get_by_role("button", name="Copied").wait_for()
    assert tab.evaluate("navigator.clipboard.readText()") == link(tab)


# Its fields


def test_a_key_moves_a_slider_and_the_number_beside_it(opened):
    tab = opened()
    slider = tab.get_by_label("Batch, slider")
    slider.focus()
    slider.press("ArrowRight")
    moved = int(tab.locator("#calculator-batch").input_value())
    assert moved > 100
    assert slider.get_attribute("aria-valuetext") == f"{moved:,}"
    same(answered(tab), Settings(batch=moved))
    for key, value in (("Home", 1), ("End", 8192)):
        slider.press(key)
        assert tab.locator("#calculator-batch").input_value() == str(value)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("batch", "0", "Batch: give a whole number from 1 to 8,192."),
        ("batch", "2.5", "Batch: give a whole number from 1 to 8,192."),
        ("length", "", "Length: give a whole number from 1 to 2,048."),
        ("vocabulary", "200000000", "Vocabulary: give a whole number from 1 to 100,000,000."),
        ("sentences", "99", "Batch: 100 is more than the 99 sentences."),
    ],
)
def test_a_value_out_of_range_is_refused_in_words_and_gives_no_answer(opened, name, value, problem):
    tab = opened()
    tab.fill(f"#calculator-{name}", value)
    field = problem.partition(":")[0].lower()
    assert tab.locator(f"#calculator-{field}-problem").inner_text() == problem
    assert tab.locator(f"#calculator-{field}").get_attribute("aria-invalid") == "true"
    assert tab.locator('[data-answer="epoch"]').get_attribute("data-value") is None
    tab.wait_for_timeout(900)
    assert problem in tab.locator('[role="status"]').inner_text()
    tab.fill(f"#calculator-{name}", "150")
    assert tab.locator(f"#calculator-{field}-problem").is_hidden()
    assert tab.locator(f"#calculator-{field}").get_attribute("aria-invalid") is None
    assert tab.locator('[data-answer="epoch"]').get_attribute("data-value")


def test_what_a_stack_does_not_have_is_refused(opened):
    tab = opened("#optimizer=adam-deferred&stack=2017-theano")
    assert (
        "Optimizer: 2017-theano has no deferred embedding." in tab.locator("#calculator-optimizer-problem").inner_text()
    )
    tab.select_option("#calculator-stack", "2026-jax")
    same(answered(tab), Settings(optimizer="adam-deferred", stack="2026-jax"))


def shown(tab, name: str) -> list[str]:
    return tab.locator(f'[data-answer="{name}"]').inner_text().split("\n")


def test_what_was_measured_comes_first_as_the_chapters_say_it_and_the_hours_follow(opened):
    chosen = [Settings(stack=name, vocabulary=rows) for name in choices.stack_names() for rows in (5_000, 280_000)]
    chosen += [
        Settings(machine="H200-SXM", stack="2026-torch", vocabulary=2_000_000),
        Settings(machine="K40m", stack="2017-theano"),
    ]
    tab, read = opened(), 0
    for settings in chosen:
        its = answer.answer(settings)
        if its.measured is None:
            continue
        for name in ("machine", "stack"):
            tab.select_option(f"#calculator-{name}", getattr(settings, name))
        tab.fill("#calculator-vocabulary", f"{settings.vocabulary}")
        assert tab.locator('[data-part="step-label"]').inner_text() == "A step, measured"
        step, *small = shown(tab, "step")
        # An interval and the number of runs, without the brackets; the ratio of the two after the prediction.
        assert ", ".join([step, small[0]]) == re.sub(r" \((.*?)\)", r", \1", page.milliseconds(its.measured))
        ratio = its.measured.step.value / its.step.value
        off = max(ratio, 1 / ratio)
        far = "within 5\u00a0%" if off < 1.05 else f"{off:#.2g} times too {'short' if ratio > 1 else 'long'}"
        assert small[1] == f"predicted: {page.shown(its.step.value)}, {far}"
        for name in ("epoch", "total"):
            predicted = getattr(its, name)
            value, _, ends = page.between(its.from_measured(predicted)).partition(" (")
            lines = [value, ends.rstrip(")"), f"predicted: {page.shown(predicted.value)}"]
            assert shown(tab, name) == [line for line in lines if line]
        assert "Nobody" not in tab.locator('[data-part="known"]').inner_text()
        mark = tab.locator('[data-curve="vocabulary"] circle.mark').get_attribute("data-value")
        assert float(mark) == pytest.approx(its.from_measured(its.epoch).value, rel=PRECISION)
        read += 1
    assert read > 7
    assert tab.locator('[data-curve="vocabulary"] circle.measured').count() > 2


def test_that_nobody_measured_is_said_where_it_is_so(opened):
    tab, said = opened(), '[data-part="known"]'
    tab.fill("#calculator-batch", "101")
    assert "Nobody measured these sizes there." in tab.locator(said).inner_text()
    assert tab.locator('[data-part="step-label"]').inner_text() == "A step, predicted"
    assert tab.locator('[data-curve="vocabulary"] circle.measured').count() == 0
    # Of a reader's own machine nobody can know.
    tab.select_option("#calculator-machine", choices.BY_RATES)
    assert "measured" not in tab.locator(said).inner_text()
    for machine in choices.machines():
        for busy in (its for its, known in answer.steps_of(machine).items() if math.isnan(known.step.value)):
            tab.evaluate("hash => { location.hash = hash }", "&".join(f"{k}={v}" for k, v in in_link(busy).items()))
            tab.get_by_text("These sizes were measured there only while others kept the machine busy.").first.wait_for()
            assert "Nobody" not in tab.locator(said).inner_text()


def in_link(settings: Settings) -> dict:
    """The settings by the names and values of a link."""
    its = asdict(settings) | {"frozen": int(settings.frozen)}
    return {name: value for name, value in its.items() if name not in ("gflops", "gbytes")}


def test_the_worst_miss_stands_beside_the_answer_and_leads_to_where_it_was(opened):
    misses = page.data()["misses"]
    machine = next(name for name in misses if misses[name])
    stack, its = next(iter(misses[machine].items()))
    tab = opened(f"#machine={machine}&stack={stack}&batch=101&epochs=7")
    said = tab.locator('[data-part="known"]')
    text = f"Worst miss on this machine and stack so far: {its['off']}, at {its['where']}."
    assert text in said.inner_text()
    said.locator("a").click()
    tab.locator("[data-part=step-label]", has_text="A step, measured").wait_for()
    settings = Settings(machine=machine, stack=stack, epochs=7, **its["at"])
    same(answered(tab), settings)
    assert shown(tab, "step")[2].endswith(its["off"])
    without = next(name for name in choices.machines() if not answer.steps_of(name))
    tab.select_option("#calculator-machine", without)
    assert "Worst miss" not in said.inner_text()


def test_a_change_can_be_tried(opened):
    tab = opened()
    best = answered(tab)["changes"][0]
    tab.get_by_role("button", name=f"Try it: {best['change']['words']}").click()
    same(answered(tab), Settings(**best["settings"]))


def test_the_answer_is_spoken_once_the_hand_rests(opened):
    tab = opened()
    status = tab.locator('[role="status"][aria-live="polite"]')
    tab.wait_for_timeout(900)
    tab.fill("#calculator-batch", "200")
    before = status.inner_text()
    tab.wait_for_timeout(900)
    assert status.inner_text() != before
    assert f"An epoch: {page.shown(answer.answer(Settings(batch=200)).epoch.value)}" in status.inner_text()


# How it looks, and what it leaves alone


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_nothing_is_wider_than_the_screen(opened, viewport, scheme):
    tab = opened("", viewport, scheme)
    tab.evaluate("theme => document.documentElement.dataset.theme = theme", scheme)
    tab.evaluate("document.querySelectorAll('article details').forEach(each => each.open = true)")
    wide = """all => all.filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
        .map(one => one.outerHTML.slice(0, 80))"""
    for machine in (Settings().machine, choices.BY_RATES):
        tab.select_option("#calculator-machine", machine)
        assert tab.evaluate("document.scrollingElement.scrollWidth") <= viewport["width"]
        assert tab.locator("#calculator-root *").evaluate_all(wide) == []


def test_on_a_phone_whatever_is_touched_is_large_enough(opened):
    tab = opened(viewport=PHONE)
    small = """all => all.filter(one => one.type !== "checkbox" && one.getBoundingClientRect().height < 44)
        .map(one => one.outerHTML.slice(0, 80))"""
    touched = "#calculator-root :is(input, select, button, summary, label.calculator-check):visible"
    assert tab.locator(touched).evaluate_all(small) == []


def test_it_is_dark_where_the_book_is_and_readable_there(opened):
    tab = opened(scheme="dark")
    for theme, dark in (("dark", True), ("light", False)):
        tab.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        for selector in (".calculator-answer", "#calculator-batch", "#calculator-machine"):
            background, colour = tab.locator(selector).evaluate(
                "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one).color]"
            )
            ground, text = (sum(map(float, re.findall(r"[\d.]+", each)[:3])) / 3 for each in (background, colour))
            assert (ground < 80) == dark, (theme, selector, background)
            assert abs(ground - text) > 120, (theme, selector)


@pytest.mark.parametrize(
    ("viewport", "stays", "share"),
    [(DESKTOP, ".calculator-answer", 1 / 3), (PHONE, ".calculator-thin", 1 / 14)],
    ids=["desktop", "phone"],
)
def test_the_answer_stays_in_sight_while_a_slider_moves_and_leaves_a_phones_screen_free(opened, viewport, stays, share):
    tab = opened(viewport=viewport)
    tab.locator("#calculator-vocabulary").scroll_into_view_if_needed()
    box = tab.locator(stays).bounding_box()
    assert box["y"] + box["height"] <= viewport["height"] + 1
    assert box["height"] < viewport["height"] * share
    assert all(shown(tab, name)[0] in tab.locator(stays).inner_text() for name in ("step", "epoch", "peak"))


def test_the_ten_worst_misses_are_folded_under_the_answer(opened):
    tab = opened()
    fold = tab.locator("#calculator-root details.book-fold")
    fold.locator("summary").click()
    assert fold.locator("tbody tr:visible").count() == len(answer.worst_misses()) == 10


def test_without_javascript_there_is_no_form_but_answers(opened):
    tab = opened(java_script_enabled=False)
    assert tab.locator("#calculator-root").is_hidden()
    assert tab.locator("article .calculator-none").is_visible()
    value = page.milliseconds(answer.answer(Settings()).measured).split(" (")[0]
    assert value in tab.locator("article table.book-table:visible").inner_text().replace("\u00a0", " ")
