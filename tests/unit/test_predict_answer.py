"""What an answer says: intervals, verdicts, advice, and what is refused before anything is started."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintime.book.chapters import rows
from traintime.errors import InputError
from traintime.explain.statistics import Interval
from traintime.explain.terms import TERMS
from traintime.point import make_point
from traintime.predict import advice, ask, durations, here, holdings, prices, record, tiers
from traintime.predict.answer import Estimate, Help, amount, amounts, around, bytes_of, digits, within
from traintime.predict.estimate import comparison, estimate, side_by_side
from traintime.predict.evidence import conclude, tf_data_end
from traintime.predict.prices import Rates
from traintime.predict.probe import Probe, Trained, Trainer
from traintime.predict.request import ModelDescription, Request, sizes
from traintime.predict.tiers import probed_evidence
from traintime.predict.work.graph import of_forward

RATES = Rates(1e11, 2e10)


@pytest.fixture(autouse=True)
def machine_of_known_rates(monkeypatch):
    """Nothing is measured here."""
    monkeypatch.setattr(here, "rates", lambda: RATES)


class Fake(Trainer):
    """A trainer with a step of 10 ms at 100 samples, half of it whatever the batch, and 4 % between blocks."""

    stack = "2026-jax"

    def __init__(self):
        self.random = np.random.default_rng(0)

    def train(self, batch, steps, epochs):
        took = steps * (0.005 + 0.00005 * batch)
        return took * np.exp(0.04 * self.random.standard_normal(epochs))

    def peak_bytes(self):
        return 2 * 10**9

    def forget_peak(self):
        pass

    def between_s(self):
        return 0.25

    def array_bytes(self, samples):
        return 400 * samples

    def test_s(self, batch, steps):
        return 0.002

    def save_s(self):
        return 0.5


def probed(**asked):
    request = Request(**({"samples": 10_000, "batch": 100} | asked))
    return conclude(request, probed_evidence(request, None, Fake(), 2.0))


# Probed


def test_a_training_is_the_sum_of_its_parts():
    one = probed(samples=10_050, epochs=3, validation=1000, saves=2)
    assert sum(one.parts.values()) == pytest.approx(one.total.value)
    assert one.step.value == pytest.approx(0.010, rel=0.05)
    assert one.parts["steps"] == pytest.approx(3 * 100 * one.step.value)
    assert one.parts["last batches"] == pytest.approx(3 * 0.0075, rel=0.1)
    assert one.parts["validation"] == pytest.approx(3 * 10 * 0.002)
    assert one.parts["saving"] == 1.0
    once = one.parts["first step"] + one.parts["saving"]
    assert one.epoch.value == pytest.approx((one.total.value - once) / 3)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.005, 0.01), (0.02, 0.03), (9, 10.23), (41, 81.91), (82, 141.91), (142, 201.91)]
)
def test_a_pipeline_ends_when_its_thread_wakes(seconds, expected):
    assert tf_data_end(seconds) == pytest.approx(expected)


def test_a_fit_that_may_sleep_reaches_further_and_says_so(monkeypatch):
    awake = probed(samples=30_000, epochs=3)
    sleep = tf_data_end(awake.epoch.high) - awake.epoch.high
    monkeypatch.setattr(Fake, "sleeps", True)
    asleep = probed(samples=30_000, epochs=3)
    assert sleep > 0.1
    assert asleep.epoch.high == pytest.approx(awake.epoch.high + sleep)
    assert asleep.total.high == pytest.approx(awake.total.high + 3 * sleep)
    assert asleep.total.low == awake.total.low
    expected = asleep.parts["sleep after epochs"]
    assert 0 < expected < 3 * sleep
    assert asleep.total.value == pytest.approx(awake.total.value + expected)
    assert asleep.epoch.value == pytest.approx(awake.epoch.value + expected / 3)
    most = max(sleep, tf_data_end(awake.epoch.value) - awake.epoch.value)  # the expected epoch may meet a longer pause
    assert any(f"may sleep up to {durations.text(most)}" in note for note in asleep.notes)
    assert asleep.parts["between epochs"] >= 3 * 0.25


def test_the_samples_themselves_are_in_the_memory(monkeypatch):
    made_up = probed(samples=10_000_000).memory.value
    assert made_up == pytest.approx(2e9 + 4e9, rel=0.01)
    monkeypatch.setattr(Fake, "own_bytes", 1_000_000_000)  # the reader's own arrays, in the 2e9 that were seen
    assert probed(samples=10_000_000).memory.value == pytest.approx(made_up - 1e9, rel=0.01)
    assert any("samples themselves" in note for note in probed(samples=10_000_000).notes)
    assert not any("samples themselves" in note for note in probed().notes)


def test_an_interval_is_never_narrower_than_measuring_again():
    repeat = prices.habits()["repeat"].groupby("stack").first()["2026-jax"]
    step = probed().step
    assert step.high / step.value >= math.exp(1.6448 * repeat)


def test_one_slow_step_is_an_answer_within_half_and_twice_that_says_so(monkeypatch):
    slow = Trained(100, 32.0, 1, (31.0,), 0.0, None)
    monkeypatch.setattr(tiers, "probe", lambda *asked: Probe(slow, None, 63.0))
    one = probed()
    assert one.step.value == 31
    assert one.step.low <= 31 / 2
    assert one.step.high >= 31 * 2
    assert any("longer than the 2 s" in each for each in one.warnings)
    assert dict(one.rows)["a step"].startswith("31 s (")


def test_validation_is_the_forward_pass_of_the_work():
    """However little of a step the way back is."""
    whole = make_point(vocabulary=100).work
    most = dataclasses.replace(of_forward(whole), flops=whole.flops // 2)
    model = ModelDescription(whole, 0, 0, "adam", "adam", "2026-jax", forward_work=most)
    priced = prices.of_rates("x", RATES, "2026-jax")
    request = Request(1000, 100, epochs=2, validation=500)
    one = conclude(request, tiers.formula_evidence(request, model))
    assert one.parts["validation"] == pytest.approx(2 * 5 * priced.step_s(most))
    known = dataclasses.replace(model, forward_work=None)
    assert known.forward.flops == whole.flops // 3
    assert known.forward.launches == whole.launches // 2
    assert known.forward.update_bytes == known.forward.update_flops == 0


def test_a_cards_memory_is_the_cards(monkeypatch):
    """However much this process holds before: it lies elsewhere."""
    monkeypatch.setattr(tiers.resident, "gpu_peak", lambda backend: 5e8)
    monkeypatch.setattr(tiers.resident, "now", lambda: 9e9)
    monkeypatch.setattr(Fake, "peak_bytes", lambda self: 5e8)
    monkeypatch.setattr(Fake, "array_bytes", lambda self, samples: 0)
    assert probed().memory.value == 5e8
    card = estimate(make_point(vocabulary=100), samples=1000, device="T4").memory
    assert card.value > holdings.CONTEXT


@pytest.mark.parametrize(
    ("data", "given", "found"),
    [
        ((np.zeros((640, 5)), np.zeros(640)), {}, (640, 32)),
        ({"a": np.zeros((640, 5))}, {"samples": 64}, (64, 32)),
        (None, {"samples": 64, "batch_size": 8}, (64, 8)),
    ],
)
def test_the_data_tell_how_many_samples_there_are_and_keras_how_many_a_step_has(data, given, found):
    assert sizes("a Keras model", data, given.get("samples"), given.get("batch_size")) == found
    with pytest.raises(InputError, match="samples: None is not told by the data"):
        sizes("a Keras model", None, None, 32)
    with pytest.raises(InputError, match="batch_size: None is not told by the data"):
        sizes(None, None, 64, None)


# The interval


def test_independent_errors_add_in_squares_each_with_its_own_quantile():
    assert around(10, (0.1, 1e6)).high == pytest.approx(10 * math.exp(0.16449), rel=1e-4)
    assert around(10, (0.03, 1e6), (0.04, 1e6)).high == pytest.approx(10 * math.exp(1.6449 * 0.05), rel=1e-4)
    assert around(10, (0.1, 3)).high > around(10, (0.1, 30)).high


@given(st.floats(0.01, 0.5), st.integers(0, 1000))
def test_it_covers_what_it_promises(error, seed):
    truths = np.exp(error * np.random.default_rng(seed).standard_normal(2000))
    one = around(1.0, (error, 1e6))
    assert 0.86 < np.mean((truths > one.low) & (truths < one.high)) < 0.94


@pytest.mark.parametrize(
    ("limit", "spare", "answer"),
    [(12, 1, True), (11.9, 1, None), (8, 1, None), (7.9, 1, False), (12.5, 1.25, None), (15, 1.25, True)],
)
def test_a_limit_inside_the_interval_and_what_may_come_on_top_is_too_close_to_call(limit, spare, answer):
    assert within(Interval(10, 8, 12), limit, spare) is answer


def test_one_no_is_a_no_and_one_doubt_a_doubt():
    one = probed()
    assert one.meets(1e9, 1e12) is True
    assert one.meets(1e9, 1e3) is False
    assert one.meets(one.total.value, 1e3) is False
    assert one.meets(one.total.value, 1e12) is None


def test_an_estimate_survives_json():
    one = estimate(make_point(), samples=1000)
    again = Estimate.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again.to_dict() == one.to_dict()
    assert str(again) == str(one)


def test_a_training_of_milliseconds_is_told_in_milliseconds():
    assert dict(probed(samples=100).rows)["training"].split(" (")[0].endswith(" ms")


@pytest.mark.parametrize(
    ("time", "memory", "said"),
    [
        (0.88, 1.0, "12% less time"),
        (0.2, 1.3, "5 times less time, 30% more memory"),
        (1.01, 0.5, "50% less memory"),
    ],
)
def test_what_a_change_does_is_told_in_words(time, memory, said):
    one = dataclasses.replace(estimate(make_point(), samples=1000), helps=(Help("a change", time, memory),))
    assert dict(one.rows)["to try"] == f"a change: {said}"


def test_it_is_shown_as_text_table_and_picture():
    one = estimate(make_point(vocabulary=2_000_000), samples=1_000_000)
    assert "10,000 of 100 samples" in str(one)
    assert max(map(len, str(one).splitlines())) <= 80
    assert "the optimizer" in one._repr_html_()
    assert ">peak memory</th>" in one._repr_html_()
    axes = one.plot()
    assert axes.get_xlabel() == "ms per step"
    assert "update" in [text.get_text() for text in axes.get_legend().get_texts()]


# The formula


def test_a_points_answer_is_the_prices_of_its_work():
    point = make_point(vocabulary=50_000)
    one = estimate(point, samples=1050, epochs=2, stack="2026-jax")
    priced = prices.of_rates("x", RATES, "2026-jax")
    assert one.step.value == pytest.approx(priced.step_s(point.work))
    full = 2 * 10 * priced.step_s(point.work)
    assert full < one.total.value < full * 1.1 + 2 * priced.step_s(point.work)
    assert one.memory.value == pytest.approx(holdings.of_stack("2026-jax").peak_bytes(point.work))


def test_a_device_with_a_data_sheet_says_that_it_was_not_measured():
    one = estimate(make_point(), samples=1000, device="K40m", stack="2017-theano")
    assert any("K40m was not measured" in note for note in one.notes)


def test_a_point_is_priced_under_its_own_allocator():
    asked = {"samples": 100_000, "stack": "2020-tensorflow", "tier": "formula"}
    usual = estimate(make_point(vocabulary=200_000), **asked)
    kept = estimate(make_point(vocabulary=200_000, allocator="tcmalloc"), **asked)
    assert kept.total.value < usual.total.value / 2
    # The advice is the same price.
    (told,) = [one for one in usual.helps if one.what == advice.ALLOCATOR]
    assert told.time == pytest.approx(kept.total.value / usual.total.value, rel=0.2)  # rates are measured anew
    assert advice.ALLOCATOR not in {one.what for one in kept.helps}
    assert not any("deferred" in one.what for one in usual.helps), "it is a layer of Keras 3"


def test_an_allocator_that_was_not_measured_is_told():
    one = estimate(make_point(allocator="jemalloc"), samples=1000, tier="formula")
    assert any("was not measured under jemalloc" in note for note in one.notes)


@pytest.mark.parametrize(("field", "value"), [("precision", "mixed-bfloat16"), ("device", "gpu"), ("onednn", "off")])
def test_a_way_to_run_it_that_has_no_price_is_refused(field, value):
    with pytest.raises(InputError, match=f"{field}: '{value}' has no known cost"):
        estimate(make_point(**{field: value}), samples=1000)


def test_every_stack_and_device_stands_side_by_side_the_fastest_first():
    found = side_by_side(Request(1000, 100), make_point(vocabulary=20_000))
    assert [one.total.value for one in found] == sorted(one.total.value for one in found)
    assert {"2026-jax on this machine", "2026-tensorflow on K40m"} <= {one.of for one in found}
    assert len(comparison(found)) == len(found)


def test_it_says_how_often_such_answers_were_right_and_what_is_beyond_them():
    short, long = probed(samples=1_000), probed(samples=1_000_000, epochs=100)
    assert record.of("probed").brief in dict(short.rows)["evidence"]
    assert not any("times as long" in each for each in short.warnings)
    assert any("times as long" in each for each in long.warnings)


@pytest.mark.parametrize("limits", [{}, {"deadline": "8h"}, {"deadline": "8h", "memory": "16GB"}])
def test_an_answer_has_nine_lines_and_begins_with_what_was_asked_for(limits):
    one = estimate(make_point(vocabulary=500_000), samples=10_000_000, epochs=99, saves=1, stack="2026-torch", **limits)
    assert len(str(one).splitlines()) <= 9 + sum(len(text) > 67 for _, text in one.rows)
    names = [name for name, _ in one.rows]
    assert names[:2] == (["answer", "training"] if limits else ["training", "peak memory"])
    assert {"limited by", "beware", "to try"} < set(names), "a warning stands before what else there is"
    told = f"{one}{one.details}"
    assert all(each in told.replace("\n", " ") or len(each) > 60 for each in (*one.warnings, *one.notes))
    assert Estimate.from_dict(one.to_dict()) == one


@pytest.mark.parametrize(("waits", "times", "largest"), [(0.0, 1, "overhead"), (0.9, 1, "waiting for data")])
def test_what_a_step_waits_for_is_no_work_of_its_own(waits, times, largest):
    """A larger batch waits as much longer as it has more samples."""
    evidence = tiers.formula_evidence(Request(1000, 100), ModelDescription.from_point(make_point(vocabulary=100)))
    step_s = sum(evidence.priced.terms.values())
    waited = dataclasses.replace(evidence, step_s=step_s / (1 - waits), wait_s=step_s / (1 - waits) * waits)
    one, same = conclude(Request(1000, 100), waited), conclude(Request(1000, 100), evidence)
    assert one.limited_by.startswith(largest) or not waits
    told = {each.what: each.time for each in one.helps}
    for each in same.helps:
        if each.what in told:
            assert told[each.what] == pytest.approx(waits + (1 - waits) * each.time)


def test_what_the_formula_does_not_explain_gets_no_reason_and_no_advice():
    evidence = tiers.formula_evidence(Request(1000, 100), ModelDescription.from_point(make_point(vocabulary=100)))
    one = conclude(Request(1000, 100), dataclasses.replace(evidence, step_s=50 * evidence.step_s))
    assert "does not explain" in one.limited_by
    assert not one.helps
    assert one.terms is None


# What would help


def helped(known, seconds=(0.001, 1e-5, 1e-11, 1e-10, 1e-10, 1e-11, 1e-10, 1e-11)):
    priced = prices.Prices("made up", dict(zip(TERMS, seconds, strict=True)), 0.1)
    model = dataclasses.replace(known, stack="2026-tensorflow")
    found = advice.helps(advice.PricedWork(model, priced, {}), 100)
    return {one.what.split(",")[0].split(":")[0].split(" (")[0]: one for one in found}, priced


def test_each_change_is_priced_as_the_model_that_has_it():
    """The advice for a table equals the price of the point that is built so."""
    point = make_point(vocabulary=500_000)
    found, priced = helped(ModelDescription.from_point(point))
    before = priced.step_s(point.work)
    for what, changed in (
        ("tables left untrained", {"frozen": True}),
        ("traintime.deferred for the tables", {"optimizer": "adam-deferred"}),
        ("half of the tables' rows", {"vocabulary": 250_000}),
        ("SGD", {"optimizer": "sgd"}),
    ):
        if what in found:
            after = priced.step_s(make_point(**{"vocabulary": 500_000} | changed).work)
            assert found[what].time == pytest.approx(after / before, rel=0.02), what
    assert {"tables left untrained", "traintime.deferred for the tables"} <= set(found)


def test_a_small_table_gets_no_advice_about_tables():
    found, _ = helped(ModelDescription.from_point(make_point(vocabulary=100)))
    assert not {name for name in found if "table" in name or "Embedding" in name}


@pytest.mark.parametrize("stack", rows.STACKS)
def test_a_deferred_table_is_advised_above_the_rows_of_chapter_16_alone(stack):
    least = round(rows.equal_rows(rows.most_repeatable(), stack), -3)
    assert advice.DEFERRED_ABOVE[stack] == least
    of_rates = prices.Prices("made up", dict.fromkeys(TERMS, 0.0) | {"update": 1e-9}, 0.1)
    for count, told in ((least, False), (least + 1, True)):
        model = dataclasses.replace(ModelDescription.from_point(make_point(vocabulary=int(count))), stack=stack)
        found = advice.helps(advice.PricedWork(model, of_rates, {}), 100)
        assert any("deferred" in one.what for one in found) == told


def test_a_loop_that_reads_its_inputs_by_slices_is_told_of_one_that_does_not():
    point = make_point(vocabulary=100, length=100)
    found, priced = helped(ModelDescription.from_point(point), (0.001, 0, 0, 0, 0, 0, 1e-10, 1e-10))
    parts = priced.parts(point.work)
    (apart,) = (one for name, one in found.items() if "apart" in name)
    assert apart.time == pytest.approx(1 - parts["slice"] / sum(parts.values()))
    unpaid, _ = helped(ModelDescription.from_point(point), (0.001, 0, 0, 0, 0, 0, 1e-10, 0))
    assert not {name for name in unpaid if "apart" in name}


def test_larger_batches_are_worth_what_they_share():
    work = make_point(vocabulary=100).work
    found, priced = helped(ModelDescription(work, 0, 0, "adam", "adam", "2026-jax"), (1.0, 0, 1e-15, 0, 0, 0, 0, 0))
    assert found["batches 4 times as large"].time == pytest.approx(0.25, rel=0.01)
    assert advice.limited_by(priced.parts(work)).startswith("overhead, 100% of a step")


def test_larger_batches_hold_what_they_would_hold():
    held = holdings.of_stack("2026-tensorflow")
    one, four = (make_point(vocabulary=100, units=256, batch=batch).work for batch in (64, 256))
    found, _ = helped(ModelDescription(one, 0, 0, "adam", "adam", held.stack), (1.0, 0, 1e-15, 0, 0, 0, 0, 0))
    memory = held.peak_bytes(four) / held.peak_bytes(one)
    assert found["batches 4 times as large"].memory == pytest.approx(memory, rel=1e-3)


# What is refused


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"samples": 0}, "samples: 0"),
        ({"samples": 10.5}, "samples: 10.5"),
        ({"samples": 50}, "batch_size: 100 is more than the 50 samples"),
        ({"samples": 1000, "epochs": 0}, "epochs: 0"),
        ({"samples": 1000, "level": 90}, "level: 90"),
        ({"samples": 1000, "seconds": 0}, "seconds: 0"),
        ({"samples": 1000, "tier": "guess"}, "tier: 'guess'"),
        ({"samples": 1000, "tier": "probed"}, "traintime measure"),
        ({"samples": 1000, "batch_size": 7}, "batch_size: 7 differs from the configuration's 100"),
        ({"samples": 1000, "device": "K41"}, "device: 'K41'"),
        ({"samples": 1000, "stack": "2031-jax"}, "stack: '2031-jax'"),
        ({"samples": 1000, "step": print}, "model: .* and step"),
    ],
)
def test_bad_input_is_named(asked, said):
    with pytest.raises(InputError, match=said):
        estimate(make_point(), **asked)


def test_a_function_cannot_be_priced():
    with pytest.raises(InputError, match="cannot look into a function"):
        estimate(step=print, samples=10, batch_size=5, tier="formula")
    with pytest.raises(InputError, match="batch_size: None"):
        estimate(step=print, samples=10)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("16GB", 16e9),
        ("512 MiB", 2**29),
        ("1.5g", 1.5e9),
        ("1024000", 1_024_000),
        (2_048_000, 2_048_000),
        ("3000 kb", 3_000_000),
    ],
)
def test_amounts_of_memory(given, found):
    assert bytes_of(given) == found


@pytest.mark.parametrize(
    ("size", "said"),
    [(512e6, "0.512 GB"), (1_634e7, "16.3 GB"), (999.9e9, "1,000 GB"), (1790e9, "1.79 TB"), (1.79e15, "1,790 TB")],
)
def test_amounts_of_memory_are_said_in_digits(size, said):
    assert amount(size) == said


@pytest.mark.parametrize(
    ("number", "said"), [(0.0123, "0.0123"), (16.34, "16.3"), (1789.6, "1,790"), (2e6, "2,000,000")]
)
def test_a_number_is_never_a_power(number, said):
    assert digits(number) == said


def test_an_amount_and_its_interval_have_one_unit():
    assert amounts(Interval(900e9, 600e9, 1350e9)) == "900 GB (600 to 1,350)"
    assert amounts(Interval(1.1e12, 0.9e12, 1.3e12)) == "1.1 TB (0.9 to 1.3)"


@pytest.mark.parametrize("given", ["", "GB", "-1GB", "0", "16 apples", "1e9"])
def test_what_is_no_amount_is_refused(given):
    with pytest.raises(InputError, match="memory"):
        bytes_of(given)


# A file's model, in a process of its own


@pytest.fixture
def module(tmp_path):
    """Write a file that defines something; return "file.py:name" of it."""

    def write(text, name):
        path = tmp_path / "reader.py"
        path.write_text(text)
        return f"{path}:{name}"

    return write


def test_a_files_step_is_probed_whatever_it_prints(module):
    target = module("import time\nprint('hello')\ndef step(n):\n    print(n)\n    time.sleep(1e-4 * n)\n", "step")
    one = Estimate.from_dict(ask.ask(target, samples=1000, batch_size=10, seconds=2.0))
    assert one.tier == "probed"
    assert one.step.value > 0.001


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("def step(n):\n    raise ValueError('no data')", "step", r"step\(10\).*ValueError: no data"),
        ("def build():\n    raise KeyError('x')", "build", "build.*raised KeyError"),
        ("def build():\n    return 3", "build", "returned int, no model"),
        ("def both(a, b):\n    pass", "both", "needs 2 arguments"),
        ("def other(n):\n    pass", "step", "'step' is not in reader.py. It has: other"),
        ("import no_such_module", "step", "raised ModuleNotFoundError"),
        ("def step(n:\n", "step", "raised SyntaxError"),
        ("import os\ndef step(n):\n    os._exit(7)", "step", "ended its process"),
        ("import time\ndef step(n):\n    time.sleep(60)", "step", "gave no answer within 2 s"),
    ],
)
def test_what_a_file_does_wrong_is_said_and_nothing_is_left(module, text, name, said):
    with pytest.raises(InputError, match=said):
        ask.ask(module(text, name), give_up_s=2 if "60" in text else 30, samples=1000, batch_size=10, seconds=1.0)


@pytest.mark.parametrize("target", ["model.py", "nowhere.py:build", "model.py:", ":build"])
def test_a_target_is_a_file_and_a_name(target):
    with pytest.raises(InputError, match="target"):
        ask.split(target)
