"""The calculator's page before a browser has seen it: its formulas, its data, and that it loads nothing."""

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from traintime import paths
from traintime.book import stored
from traintime.book.calculator import answer, choices, formulas, page
from traintime.book.calculator.answer import Settings
from traintime.errors import InputError
from traintime.explain.memory import memory_model
from traintime.explain.statistics import Interval
from traintime.explain.terms import PARTS, TERMS
from traintime.point import make_point
from traintime.predict import prices
from traintime.predict.cards import OURS
from traintime.predict.estimate import conclude
from traintime.predict.evidence import formula_evidence
from traintime.predict.prices import Rates
from traintime.predict.request import ModelDescription, Request
from traintime.store import derived
from traintime.workloads.rnn import Rnn

sizes = st.fixed_dictionaries({name: st.integers(1, int(choices.NUMBERS[name].highest)) for name in formulas.SIZES})
ways = st.sampled_from(list(formulas.WAYS))
positive = st.floats(1e-3, 1e3)


# Each takes seconds to make, and no test changes one.
fragments, values = functools.cache(page.fragments), functools.cache(page.values)


def fragment() -> str:
    return fragments()[page.CALCULATOR]


@functools.cache
def embedded() -> dict:
    return json.loads(re.search(r'id="calculator-data">(.*?)</script>', fragment(), re.DOTALL)[1])


# The formulas


@functools.cache
def of_way(way: str) -> dict:
    """Functions of the five sizes, whole numbers in and whole numbers out."""
    its = formulas.work(*formulas.WAYS[way])
    return {name: sympy.lambdify(list(formulas.whole(*formulas.SIZES).values()), each) for name, each in its.items()}


@given(sizes=sizes, way=ways)
def test_the_symbolic_work_is_the_closed_form(sizes, way):
    optimizer, frozen = formulas.WAYS[way]
    expected = make_point(**sizes, optimizer=optimizer, frozen=frozen).work
    assert {name: each(**sizes) for name, each in of_way(way).items()} == vars(expected)


def test_whole_sizes_still_give_whole_numbers():
    for optimizer, frozen in formulas.WAYS.values():
        assert {type(each) for each in vars(Rnn(optimizer=optimizer, frozen=frozen).work()).values()} == {int}


def valued(expression: sympy.Expr, **values: float) -> float:
    return float(expression.subs({symbol: values[str(symbol)] for symbol in expression.free_symbols}))


@given(sizes=sizes, costs=st.lists(positive, min_size=len(TERMS), max_size=len(TERMS)))
def test_the_terms_are_those_of_the_step(sizes, costs):
    its, work = dict(zip(TERMS, costs, strict=True)), make_point(**sizes).work
    found = {name: valued(each, **its, **vars(work)) for name, each in formulas.parts().items()}
    assert found == pytest.approx(prices.Prices("made up", its, 0.1).parts(work))


@given(flops=positive, moved=positive, stack=st.sampled_from(choices.stack_names()))
def test_prices_are_habits_at_a_devices_rates(flops, moved, stack):
    habits, expected = answer.habits(stack), prices.of_rates("made up", Rates(flops, moved), stack)
    found = {name: valued(each, **habits.seconds, flops=flops, bytes=moved) for name, each in formulas.priced().items()}
    assert (found, habits.error) == (pytest.approx(dict(expected.seconds)), expected.error)


@given(sizes=sizes, way=ways, stack=st.sampled_from(choices.stack_names()))
def test_the_peak_is_what_the_stack_holds(sizes, way, stack):
    optimizer, frozen = formulas.WAYS[way]
    its, held = Rnn(**sizes, optimizer=optimizer, frozen=frozen), memory_model(stack)
    found = valued(formulas.peak(), **vars(its.work()), **vars(held) | {"copies": held.copies_of(its.how)})
    assert found == pytest.approx(held.peak_bytes(its.work(), its.how))


@settings(max_examples=20)  # each makes a whole answer
@given(sentences=st.integers(8192, 10**9), batch=st.integers(1, 8192))
def test_an_epoch_has_every_sentence(sentences, batch):
    steps = valued(formulas.steps(), sentences=sentences, batch=batch)
    assert (steps - 1) * batch < sentences <= steps * batch
    found = answer.answer(Settings(sentences=sentences, batch=batch))
    terms = answer.prices_of(Settings()).parts(Settings(batch=batch).sizes.work())
    its = {"sentences": sentences, "batch": batch} | terms
    assert (found.steps, found.epoch.value) == (steps, pytest.approx(valued(formulas.epoch(), **its)))


def test_the_script_has_every_way_to_train_and_the_smaller_of_rows_and_tokens():
    script = formulas.javascript()
    assert all(f'"{way}": (' in script for way in formulas.WAYS)
    assert "Math.min(vocabulary, batch*length)" in script
    assert "Math.floor" not in script  # what Python divides without a rest needs no rounding


# What the page offers


def test_every_chapter_that_is_named_exists():
    named = {each.page for each in (*PARTS.values(), *choices.CHANGES)}
    assert all((paths.ROOT / each).with_suffix(".ipynb").exists() for each in named)


def test_machines_are_ours_with_their_own_rates_and_devices_with_a_data_sheet():
    ours = [name for name in choices.machines() if name in stored.named()]
    assert ours == [name for name in stored.named() if name != OURS[0]]
    assert choices.machines()[OURS[1]].title == "Machine F, H200-SXM (GPU, by its data sheet)"
    assert not any(choices.machines()[name].card for name in ours)
    assert choices.machines()["T4"].card
    assert not choices.machines()["i7-7700K"].card
    assert "processor, by its data sheet" in choices.machines()["i7-7700K"].title
    assert "K40m" in choices.machines()


def test_the_usual_sizes_are_the_documents():
    usual = Settings()
    assert (usual.sizes, answer.answer(usual).steps) == (Rnn(), 10_000)
    assert all(number.lowest <= getattr(usual, number.name) <= number.highest for number in choices.NUMBERS.values())


# What Python answers


@settings(max_examples=20)  # each makes a whole answer
@given(sizes=sizes, way=ways, sentences=st.integers(8_192, 10**9), epochs=st.integers(1, 1000))
def test_the_answer_is_that_of_the_formula_tier(sizes, way, sentences, epochs):
    optimizer, frozen = formulas.WAYS[way]
    chosen = Settings(**sizes, optimizer=optimizer, frozen=frozen, sentences=sentences, epochs=epochs)
    request = Request(sentences, chosen.batch, epochs, level=answer.LEVEL)
    model = ModelDescription.from_point(make_point(**sizes, optimizer=optimizer, frozen=frozen))
    model = replace(model, stack=chosen.stack)
    found = answer.answer(chosen)
    expected = conclude(request, formula_evidence(request, model, rates=prices.own_rates(chosen.machine)))
    for name, other in (("step", "step"), ("epoch", "epoch"), ("total", "total"), ("peak", "memory")):
        for end in ("value", "low", "high"):
            assert getattr(getattr(found, name), end) == pytest.approx(getattr(getattr(expected, other), end)), name
    assert found.parts == pytest.approx(expected.terms)
    assert found.parts[found.limit] == max(found.parts.values())


def test_on_a_card_too_but_for_the_range():
    chosen = Settings(machine="K40m")
    request = Request(1_000_000, 100, 10, device="K40m", stack=chosen.stack)
    expected = conclude(request, formula_evidence(request, ModelDescription.from_point(make_point())))
    found = answer.answer(chosen)
    assert found.total.value == pytest.approx(expected.total.value)
    assert found.peak.value == pytest.approx(expected.memory.value)
    assert found.total.high >= expected.total.high * (1 - 1e-9)


def test_an_interval_holds_nine_of_ten_of_what_scatters_as_the_error_says():
    assert pytest.approx(1.6449, abs=1e-4) == answer.Z
    found = answer.within(2.0, 0.5)
    assert (found.low, found.high) == pytest.approx((2.0 * np.exp(-answer.Z / 2), 2.0 * np.exp(answer.Z / 2)))
    assert answer.within(2.0, 0.0) == Interval(2.0, 2.0, 2.0)


def test_a_card_is_as_sure_as_the_cards_that_were_left_out_and_runs_its_lstm_as_the_stack_does():
    for stack in choices.stack_names():
        kernel = "cudnn" if stack.startswith("2026") else "loop"
        assert answer.on("T4", stack) == prices.published("T4", stack, kernel)
        assert answer.on("T4", stack).error == prices.on_cards()


def test_what_a_stack_does_not_have_is_refused_with_a_remedy():
    with pytest.raises(InputError, match=r"^optimizer: 'adam-deferred' is nothing that 2017-theano has. Take 2026-"):
        answer.answer(Settings(optimizer="adam-deferred", stack="2017-theano"))


def change(name: str) -> choices.Change:
    return next(each for each in choices.CHANGES if each.name == name)


def test_a_change_is_offered_where_it_can_be_had_and_changes_something():
    assert answer.changed(Settings(), change("batch")).batch == 400
    assert answer.changed(Settings(vocabulary=7), change("vocabulary")).vocabulary == 3
    assert answer.changed(Settings(vocabulary=1), change("vocabulary")) is None
    assert answer.changed(Settings(frozen=True), change("frozen")) is None
    assert answer.changed(Settings(batch=8_192), change("batch")) is None
    assert answer.changed(Settings(sentences=399), change("batch")) is None
    with pytest.raises(InputError, match=r"^batch: 100 is more than the 99 sentences"):
        answer.answer(Settings(sentences=99))
    assert answer.changed(Settings(stack="numpy"), change("deferred")) is None


def test_another_allocator_is_offered_where_its_costs_are_known():
    assert answer.changed(Settings(stack="2026-torch"), change("allocator")).allocator == "tcmalloc"
    assert answer.changed(Settings(stack="2026-torch", machine=choices.BY_RATES), change("allocator"))
    without = next(name for name in choices.stack_names() if len(choices.allocators(Settings().machine, name)) == 1)
    for other in (Settings(stack=without), Settings(stack="2026-torch", machine="K40m")):
        assert answer.changed(other, change("allocator")) is None
        with pytest.raises(InputError, match=r"^allocator: 'tcmalloc' has no known costs"):
            answer.answer(replace(other, allocator="tcmalloc"))
    usual, kept = (answer.answer(Settings(stack="2026-torch", allocator=name)) for name in ("glibc", "tcmalloc"))
    assert kept.step.value < usual.step.value
    assert usual.changes["allocator"] == pytest.approx(usual.epoch.value / kept.epoch.value)
    assert usual.changes["batch"] > 1


def test_the_best_changes_come_first_and_only_those_that_are_worth_it():
    found = answer.answer(Settings()).changes
    assert found
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert min(found.values()) >= choices.WORTH
    frozen = answer.answer(Settings(frozen=True)).epoch.value
    assert found["frozen"] == pytest.approx(answer.answer(Settings()).epoch.value / frozen)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0 µs"),
        (5e-7, "0.50 µs"),
        (0.0504, "50 ms"),
        (0.999, "1,000 ms"),
        (1.0, "1.0 s"),
        (99.0, "99 s"),
        (504.0, "8.4 min"),
        (7200.0, "2.0 h"),
        (86_400.0 * 9, "9.0 days"),
        (86_400.0 * 365.25 * 12_345, "12,000 years"),
    ],
)
def test_a_duration_has_two_digits_that_count(value, text):
    assert page.shown(value) == text


# The page


def test_the_page_is_the_same_each_time_it_is_made():
    """In another process, whose sets and hashes have another order than this one's: seconds, for builds to agree."""
    made = "import hashlib\nfrom traintime.book.calculator import page\n"
    made += "print(hashlib.sha256(repr((page.fragments(), page.values())).encode()).hexdigest())"
    other = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    run = subprocess.run([sys.executable, "-c", made], env=other, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == hashlib.sha256(repr((fragments(), values())).encode()).hexdigest()


def test_nothing_is_loaded_from_anywhere():
    # The one address is the name of SVG's elements.
    text = "\n".join(fragments().values()).replace("http://www.w3.org/2000/svg", "")
    assert fragment().count("<script") == fragment().count("</script>") == 2, "no text of the data ends one"
    assert not re.findall(r"https?:|//\w+\.\w+|\bsrc=|@import|url\(|\bfetch\(|XMLHttpRequest|\bimport\b", text)


def test_the_embedded_habits_and_holdings_are_those_of_the_files():
    habits = derived.read("habits", "stack", "allocator", "term")
    held = derived.read("holdings", "stack")
    data = embedded()
    assert set(data["habits"]) == set(data["holdings"]) == set(held.index) & set(habits.index.get_level_values(0))
    for stack, its in data["habits"].items():
        assert set(its) == set(habits.loc[stack].index.get_level_values("allocator"))
        for allocator, costs in its.items():
            assert costs["seconds"] == habits.loc[(stack, allocator), "habit"].to_dict()
            assert costs["error"] >= habits.loc[(stack, allocator), "error"].iloc[0]
        for name in ("idle", "runtime", "kept", "recurrent", "error"):
            assert data["holdings"][stack][name] == held.loc[stack, name]
        assert data["holdings"][stack]["copies"]["adam"] == pytest.approx(held.loc[stack, "copies"])


def test_the_embedded_prices_are_those_of_the_package():
    data = embedded()
    assert set(data["prices"]) == set(choices.machines())
    for machine, of_machine in data["prices"].items():
        for stack, its in of_machine.items():
            assert list(its) == choices.allocators(machine, stack)
            for allocator, costs in its.items():
                expected = answer.prices_of(Settings(machine=machine, stack=stack, allocator=allocator))
                assert costs == {"seconds": dict(expected.seconds), "error": expected.error}


@functools.cache
def in_the_page() -> dict[Settings, list]:
    """What the page says was measured: step, ends of its interval (s), runs, by settings."""
    found = {}
    for machine, of_machine in embedded()["measured"].items():
        for stack, rows in of_machine.items():
            for sizes, way, allocator, *step in rows:
                optimizer, frozen = formulas.WAYS[way]
                named = dict(zip(formulas.SIZES, sizes, strict=True)) | {"optimizer": optimizer, "frozen": frozen}
                found[Settings(**named, machine=machine, stack=stack, allocator=allocator)] = step
    return found


def stored_steps(machine: str) -> dict[tuple, list]:
    """The classifier's undisturbed steps in the table of all points: each value and its runs, by settings."""
    card = machine == OURS[1]
    rows = stored.of(OURS[0] if card else machine).every.query("workload == 'rnn' and step_s > 0")
    usual = {"tokens": "uniform", "mask": False, "onednn": "auto", "jit": "auto", "precision": "float32"}
    usual |= {"accumulated": 1, "replicas": 1, "steps_per_execution": 1, "device": "gpu" if card else "cpu"}
    rows = stored.chosen(
        rows[rows["optimizer"].isin(formulas.OPTIMIZERS)],
        **usual,
        words=None,
        factor=None,
        save_every=None,
        threads_asked=None,
    )
    found: dict[tuple, list] = {}
    for row in rows.query("disturbed < invocations").to_dict("records"):
        if row["stack"] in choices.stack_names() and row["allocator"] in choices.allocators(machine, row["stack"]):
            names = ("stack", *formulas.SIZES, "optimizer", "frozen", "allocator")
            found.setdefault(tuple(row[name] for name in names), []).append((row["step_s"], row["runs"]))
    return found


@pytest.mark.parametrize("machine", [*dict.fromkeys(list(stored.named())[:2]), OURS[1]])
def test_whatever_was_measured_undisturbed_is_in_the_page(machine):
    names = ("stack", *formulas.SIZES, "optimizer", "frozen", "allocator")
    shown = {
        tuple(getattr(its, name) for name in names): (step[0], step[3])
        for its, step in in_the_page().items()
        if its.machine == machine and step[0]
    }
    known = stored_steps(machine)
    assert set(shown) == set(known)
    for which, (step, runs) in shown.items():
        assert any((step, runs) == (pytest.approx(one, rel=1e-6), of) for one, of in known[which]), which


def test_the_page_measures_as_python_does_to_six_digits():
    for its, (step, low, high, runs) in in_the_page().items():
        known = answer.measured(replace(its, sentences=777_777, epochs=3))
        if step is None:
            assert known is None
            continue
        assert (known.step.value, known.runs) == (pytest.approx(step, rel=5e-7), runs)
        assert [known.step.low, known.step.high] == pytest.approx([low or np.nan, high or np.nan], nan_ok=True)


def machine(letter: str) -> str:
    return next(name for name, row in stored.named().items() if row["title"] == f"machine {letter}")


def test_a_measured_step_stands_beside_its_prediction_and_its_hours_follow():
    # What the audit of November 2026 found said by the formula alone, by far too short or as if never measured.
    large = {"vocabulary": 2_000_000}
    for chosen, took, foretold in (
        (Settings(machine=machine("A")), 0.740, 0.310),
        (Settings(machine=machine("A"), stack="2020-tensorflow", **large), 18.3, 9.6),
        (Settings(machine=OURS[1], stack="2026-torch", **large), 0.0220, 0.029),
    ):
        its = answer.answer(chosen)
        assert (its.measured.step.value, its.step.value) == (pytest.approx(took, 0.1), pytest.approx(foretold, 0.1))
        assert its.measured.step.low < its.measured.step.value < its.measured.step.high
        assert its.from_measured(its.epoch).value == pytest.approx(its.measured.step.value * its.steps)
        assert its.from_measured(its.total).value == pytest.approx(10 * its.measured.step.value * its.steps)
    assert answer.answer(Settings(machine=machine("A"), batch=101)).measured is None


def test_the_2017_posts_own_figures_are_measured_steps_of_its_card():
    its = answer.answer(Settings(machine="K40m", stack="2017-theano"))
    assert page.milliseconds(its.measured) == "95 ms, by the 2017 post"
    assert page.between(its.from_measured(its.epoch)) == "16 min"
    assert answer.measured(Settings(machine="K40m", stack="2017-tensorflow")) is None


def test_runs_that_were_all_disturbed_are_no_measured_step(monkeypatch):
    its = answer.Measured(Interval(np.nan), 3)
    monkeypatch.setattr(answer, "steps_of", lambda _: {Settings(): its})
    assert (answer.measured(Settings()), answer.worst(Settings().machine, choices.STACK)) == (None, None)


def test_the_worst_miss_is_that_of_the_worst_measured_step():
    for name, of_machine in embedded()["misses"].items():
        for stack in choices.stack_names():
            off = {
                its: step[0] / answer.answer(its).step.value
                for its, step in in_the_page().items()
                if (its.machine, its.stack) == (name, stack) and step[0]
            }
            far = {its: max(each, 1 / each) for its, each in off.items()}
            if max(far.values(), default=1.0) <= page.NAMED:
                assert stack not in of_machine
                continue
            said = of_machine[stack]
            at = next(its for its in far if all(getattr(its, name) == value for name, value in said["at"].items()))
            assert far[at] == max(far.values())
            assert said["off"] == f"{far[at]:.2g} times too {'short' if off[at] > 1 else 'long'}"


def test_the_worst_miss_is_said_in_words():
    said = embedded()["misses"][machine("A")]["2026-tensorflow"]
    assert re.fullmatch(r"\d\.\d times too short", said["off"])
    assert said["where"] == "vocabulary 2,000,000, SGD"
    assert embedded()["misses"]["T4"] == {}


def test_every_field_has_a_label_a_range_and_a_place_for_its_problem():
    for number in choices.NUMBERS.values():
        one = f"calculator-{number.name}"
        assert f'<label for="{one}">{number.label}</label>' in fragment()
        assert f'id="{one}-problem"' in fragment()
        assert f'data-slider="{number.name}" aria-label="{number.label}, slider"' in fragment()
    for name in ("optimizer", "machine", "stack", "allocator", "link"):
        assert f'<label for="calculator-{name}">' in fragment()
    assert "<!-- " not in fragment()


def test_without_a_script_there_are_answers_all_the_same():
    examples = fragments()[page.EXAMPLES].replace("\u00a0", " ")
    assert "<script" not in examples
    assert examples.count("<tr>") >= 6
    found = answer.answer(Settings())
    for text in (
        page.milliseconds(found.measured),
        page.between(found.step),
        page.between(found.from_measured(found.epoch)),
    ):
        assert text in examples
    assert '<div id="calculator-root" hidden>' in fragment()
    assert "<noscript>" in fragment()


def test_the_page_names_no_value_that_nobody_gives():
    text = (paths.ROOT / "calculator.md").read_text()
    # What chapter 15 gives comes from its own page, as everywhere; the build names such a number that is missing.
    named = {name for name in re.findall(r"\{\{ (\w+) \}\}", text) if not name.startswith("predict_")}
    assert named == set(values())
    text += (paths.ROOT / "index.md").read_text()
    assert set(re.findall(r":file: (\S+)", text)) == set(fragments())
