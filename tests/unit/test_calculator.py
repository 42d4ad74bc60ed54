"""What Python answers for the calculator's page, and what the page carries, before a browser has seen it."""

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traintime.book.calculator import answer, choices, formulas, page
from traintime.book.calculator.answer import Settings
from traintime.errors import InputError
from traintime.point import make_point
from traintime.predict import costs
from traintime.predict.cards import OURS
from traintime.predict.estimate import conclude
from traintime.predict.evidence import formula_evidence
from traintime.predict.request import ModelDescription, Request
from traintime.store import machines

sizes = st.fixed_dictionaries({name: st.integers(1, int(choices.NUMBERS[name].highest)) for name in formulas.SIZES})
ways = st.sampled_from(list(formulas.WAYS))
NAMES = ("stack", *page.SET)  # of settings on which a measured step of a machine depends


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
    expected = conclude(request, formula_evidence(request, model, rates=costs.own_rates(chosen.machine)))
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


def test_what_a_stack_does_not_have_is_refused_with_a_remedy():
    with pytest.raises(InputError, match=r"^optimizer: 'adam-deferred' is nothing that 2017-theano has. Take 2026-"):
        answer.answer(Settings(optimizer="adam-deferred", stack="2017-theano"))


def test_what_cannot_be_trained_so_is_refused():
    with pytest.raises(InputError, match=r"^batch: 100 is more than the 99 sentences"):
        answer.answer(Settings(sentences=99))
    without = next(name for name in choices.stack_names() if len(choices.allocators(Settings().machine, name)) == 1)
    for other in (Settings(stack=without), Settings(stack="2026-torch", machine="K40m")):
        with pytest.raises(InputError, match=r"^allocator: 'tcmalloc' has no known costs"):
            answer.answer(replace(other, allocator="tcmalloc"))
    usual, kept = (
        answer.answer(Settings(stack="2026-torch", batch=101, allocator=name)) for name in ("glibc", "tcmalloc")
    )
    assert kept.step.value < usual.step.value


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
    assert run.stdout.strip() == hashlib.sha256(repr((page.fragments(), page.values())).encode()).hexdigest()


def machine(letter: str) -> str:
    return next(name for name, title in machines.titles().items() if title == f"machine {letter}")


def test_a_measured_step_stands_beside_its_prediction_and_its_hours_follow():
    # What the audit of November 2026 found said by the formula alone, by far too short or as if never measured.
    large = {"vocabulary": 2_000_000}
    for chosen, took, predicted in (
        (Settings(machine=machine("A")), 0.740, 0.310),
        (Settings(machine=machine("A"), stack="2020-tensorflow", **large), 18.3, 9.6),
        (Settings(machine=OURS[1], stack="2026-torch", **large), 0.0220, 0.029),
    ):
        its = answer.answer(chosen)
        assert (its.measured.step.value, its.step.value) == (pytest.approx(took, 0.1), pytest.approx(predicted, 0.1))
        assert its.measured.step.low < its.measured.step.value < its.measured.step.high
        # Hours add up steps, so they follow from their mean, slow ones included.
        assert its.from_measured(its.epoch).value == pytest.approx(its.measured.mean.value * its.steps)
        assert its.from_measured(its.total).value == pytest.approx(10 * its.measured.mean.value * its.steps)
    assert answer.answer(Settings(machine=machine("A"), batch=101)).measured is None


def test_todays_tensorflow_is_warned_of_where_the_processor_lacks_its_instructions():
    of = page.data()["without_vnni"][choices.STACK]
    assert {machine("A"), "i7-7700", "Ryzen-5-3600", choices.BY_RATES} <= set(of)
    assert not {machine("B"), "Ryzen-9-7950X", "H200-SXM"} & set(of)
    off = [ratio for ratio, at in answer.misses(machine("A")) if at.stack == choices.STACK]
    assert f"took {min(off):.1f} to {max(off):.1f} times as long as predicted (machine A)" in of["i7-7700"]


def test_the_front_pages_two_steps_begin_on_either_side_of_their_answer():
    form = page.fragments()[page.TWO_STEPS]
    values = {
        name: int(re.search(rf'name="{name}"[^>]*value="(\d+)"', form)[1]) for name in ("small", "batch", "large")
    }
    assert values["small"] < values["batch"] < values["large"]


def test_the_2017_posts_own_figures_are_measured_steps_of_its_card():
    its = answer.answer(Settings(machine="K40m", stack="2017-theano"))
    assert page.milliseconds(its.measured) == "95 ms, by the 2017 post"
    assert page.between(its.from_measured(its.epoch)) == "16 min"
    assert answer.measured(Settings(machine="K40m", stack="2017-tensorflow")) is None


def misses_of(machine: str) -> dict[Settings, float]:
    """Of each measured step how many times as long as predicted it took."""
    measured = {its: of.step.value for its, of in answer.steps_of(machine).items()}
    return {its: step / answer.answer(its).step.value for its, step in measured.items()}


def far(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def test_the_worst_misses_are_those_of_the_worst_measured_steps():
    every = []
    for machine, said in page.data()["misses"].items():
        off = misses_of(machine)
        every += off.values()
        for stack in choices.stack_names():
            worst = max((its for its in off if its.stack == stack), key=lambda its: far(off[its]), default=None)
            if worst is None or far(off[worst]) <= page.NAMED:
                assert stack not in said
                continue
            assert all(getattr(worst, name) == value for name, value in said[stack]["at"].items())
            by = f"{far(off[worst]):#.2g}".rstrip(".")
            assert said[stack]["off"] == f"{by} times too {'short' if off[worst] > 1 else 'long'}"
    found = [far(ratio) for ratio, _ in answer.worst_misses()]
    assert found == pytest.approx(sorted(map(far, every), reverse=True)[:10])
