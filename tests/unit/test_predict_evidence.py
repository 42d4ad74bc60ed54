"""What the tiers know: probed and scaled from a trainer of known steps, formula from known costs, memory from both."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import traintime
from traintime import paths
from traintime.errors import InputError
from traintime.explain.memory import CONTEXT
from traintime.explain.terms import TERMS
from traintime.point import make_point
from traintime.predict import advice, costs, durations, evidence, process, record
from traintime.predict.answer import around
from traintime.predict.costs import Costs, Rates
from traintime.predict.estimate import conclude, estimate
from traintime.predict.probe import Probe, Trained, Trainer
from traintime.predict.request import ModelDescription, Request
from traintime.predict.work.graph import of_forward
from traintime.store import derived, records

RATES = Rates(1e11, 2e10)
PAID = {"overhead": 1e-3, "matmul": 1e-11, "update": 1e-10, "touch": 1e-10}
COSTS = Costs("made up", dict.fromkeys(TERMS, 0.0) | PAID, 0.4)


@pytest.fixture(autouse=True)
def machine_of_known_rates(monkeypatch):
    """Nothing is measured here."""
    monkeypatch.setattr(process, "rates", lambda: RATES)


class Fake(Trainer):
    """A trainer with a step of 10 ms at 100 samples, half of it whatever the batch, and 4 % between blocks."""

    stack = "2026-jax"
    fixed_s, sample_s, spread, kept = 0.005, 0.00005, 0.04, 0

    def __init__(self):
        self.random, self.batches, self.samples = np.random.default_rng(0), set(), 0

    def train(self, batch, steps, epochs, within_s=0.0):
        self.batches.add(batch)
        self.samples = max(self.samples, batch * steps)
        took = steps * (self.fixed_s + self.sample_s * batch)
        many = max(epochs, int(within_s / took))
        self.held += list(2 * 10**9 + self.kept * steps * np.arange(many))
        return took * np.exp(self.spread * self.random.standard_normal(many))

    def peak_bytes(self):
        return 2 * 10**9

    def between_s(self):
        return 0.25

    def array_bytes(self, samples):
        return 400 * samples

    def test_s(self, batch, steps):
        return 0.002

    def save_s(self):
        return 0.5


def probed(**asked):
    request = Request(**({"samples": 10_000, "batch": 100, "seconds": 2.0} | asked))
    return conclude(request, evidence.probed_evidence(request, None, Fake()))


def model(**sizes):
    return ModelDescription.from_point(make_point(**sizes))


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
    ("samples", "batch", "tried"),
    [(10, 1, {1}), (10, 2, {2, 1}), (12, 4, {4, 1}), (10_000, 100, {100, 25}), (10_050, 100, {100, 50})],
)
def test_the_other_batch_size_that_is_tried_is_the_last_one_or_a_quarter(samples, batch, tried):
    trainer = Fake()
    evidence.probed_evidence(Request(samples, batch, seconds=2.0), None, trainer)
    assert trainer.batches == tried


def test_a_fit_that_may_sleep_reaches_further_and_says_so(monkeypatch):
    awake = probed(samples=30_000, epochs=3)
    pauses = record.pauses(awake.epoch)
    monkeypatch.setattr(Fake, "sleeps", True)
    asleep = probed(samples=30_000, epochs=3)
    assert asleep.epoch.high == pytest.approx(record.tf_data_end(awake.epoch.high))
    assert asleep.total.high - awake.total.high == pytest.approx(3 * pauses[-1])
    assert asleep.total.low == awake.total.low
    expected = asleep.parts["sleep after epochs"]
    assert expected == pytest.approx(3 * pauses.mean() * record.slept()["slept_s"] / record.slept()["pause_s"])
    assert asleep.total.value - awake.total.value == pytest.approx(expected)
    assert asleep.epoch.value - awake.epoch.value == pytest.approx(expected / 3)
    assert any(f"may sleep up to {durations.text(pauses.max())}" in note for note in asleep.notes)


@pytest.mark.parametrize("stack", ["2026-jax", "2026-torch"])
def test_an_interval_is_as_wide_as_what_probes_missed_and_as_measuring_again(stack, monkeypatch):
    monkeypatch.setattr(Fake, "stack", stack)
    step, error = probed().step, record.missed("probed", stack)[1]
    assert error > costs.repeat(stack) if stack == "2026-torch" else error == costs.repeat(stack)
    assert step.high / step.value >= math.exp(1.6448 * error)


def of_blocks(monkeypatch, first_s, *blocks_s):
    """The answer of a probe that saw these blocks of steps at the batch size that is asked for, and no other one."""
    seen = Probe(Trained(100, first_s, 1, blocks_s, 0.0, None), None, 3.0)
    monkeypatch.setattr(evidence, "probe", lambda *asked: seen)
    return probed()


@pytest.mark.parametrize("blocks_s", [(31.0,), (0.01, 61.99)])
def test_fewer_than_three_blocks_are_an_answer_within_half_and_twice_that_says_so(blocks_s, monkeypatch):
    one = of_blocks(monkeypatch, 32.0, *blocks_s)
    assert one.step.value == pytest.approx(31)
    assert 2 <= one.step.high / 31 <= 2.1
    assert one.step.low == pytest.approx(31**2 / one.step.high)
    assert any("longer than the 2 s" in each for each in one.warnings)


@pytest.mark.parametrize(("blocks_s", "told"), [((0.001, 0.02, 3.0), True), ((1.0, 1.1, 0.9), False)])
def test_a_time_that_blocks_leave_open_by_a_factor_of_ten_is_not_told(blocks_s, told, monkeypatch):
    one = of_blocks(monkeypatch, 1.0, *blocks_s)
    assert (one.total.high > 10 * one.total.low) == told
    assert ("training     unknown from this probe: " in str(one)) == told
    assert any("seconds=8" in each for each in one.warnings) == told


def test_others_are_in_the_way_where_the_machine_is_full(monkeypatch):
    for own_s, others_s, cores, told in ((19.0, 0.5, 2, 0.0), (6.0, 14.0, 2, 1.4), (150.0, 10.0, 16, 1.0)):
        monkeypatch.setattr(process, "processor_s", lambda own=own_s, others=others_s: (100 + own, 1000 + others))
        monkeypatch.setattr(process.psutil, "cpu_count", lambda cores=cores: cores)
        assert process.crowd((100.0, 1000.0), 10.0) == pytest.approx(told)
    assert process.crowd(None, 10.0) == 0.0


# Memory


def test_the_samples_themselves_are_in_the_memory(monkeypatch):
    made_up = probed(samples=10_000_000).memory.value
    assert made_up == pytest.approx(2e9 + 4e9, rel=0.01)
    monkeypatch.setattr(Fake, "own_bytes", 1_000_000_000)  # the reader's own arrays, in the 2e9 that were seen
    assert probed(samples=10_000_000).memory.value == pytest.approx(made_up - 1e9, rel=0.01)
    assert any("samples themselves" in note for note in probed(samples=10_000_000).notes)
    assert not any("samples themselves" in note for note in probed().notes)


def test_memory_that_grows_with_the_steps_is_counted_for_all_of_them_and_said_first(monkeypatch):
    monkeypatch.setattr(Fake, "kept", 10**6)
    one = probed(samples=1_000_000, seconds=10, memory_limit=8e9)
    assert 10e9 < one.memory.value < 12.4e9, "10,000 steps, less those of the probe"
    assert str(one).startswith("answer       no: in 8 GB")
    assert "memory grows by 1 MB with each step: " in " ".join(str(one).split())


def test_a_cards_memory_is_the_cards(monkeypatch):
    """However much this process holds before: it lies elsewhere."""
    monkeypatch.setattr(process, "gpu_peak", lambda backend: 5e8)
    monkeypatch.setattr(process, "now", lambda: 9e9)
    monkeypatch.setattr(Fake, "peak_bytes", lambda self: 5e8)
    monkeypatch.setattr(Fake, "array_bytes", lambda self, samples: 0)
    assert probed().memory.value == 5e8
    card = estimate(make_point(vocabulary=100), samples=1000, device="T4").memory
    assert card.value > CONTEXT


# The formula


def formula(request, **changed):
    """What the formula knows of the usual model's training, these fields of it changed."""
    return evidence.formula_evidence(request, replace(model(), **changed), RATES)


def test_validation_is_the_forward_pass_of_the_work():
    """However little of a step the way back is."""
    whole = model().work
    most = replace(of_forward(whole), flops=whole.flops // 2)
    forward_s = costs.of_rates("x", RATES, model().stack).step_s(most)
    found = formula(Request(1000, 100, epochs=2, validation=500), forward_work=most)
    assert found.parts["validation"] == pytest.approx(2 * 5 * forward_s)
    unknown = model().forward
    assert (unknown.flops, unknown.launches) == (whole.flops // 3, whole.launches // 2)
    assert unknown.update_bytes == unknown.update_flops == 0


def test_the_factor_of_a_stack_is_for_models_and_not_for_the_books_own_configurations():
    request = Request(1000, 100, stack="2026-torch")
    own, another = (formula(request, fitted=each) for each in (True, False))
    factor, error = record.missed("formula", "2026-torch")
    found = another.step_s / own.step_s, another.parts["steps"] / own.parts["steps"], another.errors[0][0]
    assert found == pytest.approx((factor, factor, error))
    assert (own.stack, another.stack) == ("", "2026-torch")


def test_a_model_in_another_type_is_costed_as_float32_and_told_of():
    request = Request(1000, 100, stack="2026-torch")
    one, full = (conclude(request, formula(request, dtype=each)) for each in ("bfloat16", "float32"))
    assert one.step == full.step
    assert any("computed in bfloat16, which has no known cost here" in note for note in one.notes)
    assert (advice.PRECISION in one.notes, advice.PRECISION in full.notes) == (False, True)


# From a smaller model to a larger one


def test_the_answer_is_the_smaller_models_training_multiplied(monkeypatch):
    monkeypatch.setattr(process, "now", lambda: 0)
    small, large = model(vocabulary=20_000, batch=32), model(vocabulary=200_000, batch=100)
    for name, value in {"spread": 0.0, "fixed_s": COSTS.step_s(small.work), "sample_s": 0.0}.items():
        monkeypatch.setattr(Fake, name, value)
    request = Request(10_050, 100, epochs=2, validation=1000, saves=1, probe_batch=32, seconds=1.0)
    one, beside = (
        conclude(request, evidence.scaled_evidence(request, small, large, trainer := Fake(), COSTS, present))
        for present in (0, 1_000_000)
    )
    assert trainer.batches == {32}
    assert one.tier == "scaled"
    assert one.step.value == pytest.approx(COSTS.step_s(large.work), rel=1e-3)
    assert one.parts["steps"] == pytest.approx(200 * one.step.value)
    assert one.step.value / 2 < one.parts["last batches"] / 2 < one.step.value
    forward = COSTS.step_s(large.forward) / COSTS.step_s(small.forward)
    assert one.parts["validation"] == pytest.approx(2 * 10 * 0.002 * forward)
    assert one.parts["saving"] == pytest.approx(0.5 * large.work.parameters / small.work.parameters)
    more = large.beyond_idle - small.beyond_idle
    trained = 2e9 - 400 * trainer.samples + more  # without the samples that were there
    assert one.memory.value == pytest.approx(trained + 400 * 11_050, rel=1e-9)
    assert one.memory.value - beside.memory.value == pytest.approx(1_000_000), "what is there is not counted twice"
    assert any("at batch 32" in note for note in one.notes)
    assert one.step.high / one.step.value >= math.exp(1.6 * evidence.scale(small, large, COSTS)[2])
    assert sum(one.terms.values()) == pytest.approx(one.step.value)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"tier": "scaled"}, "tier"),
        ({"tier": "formula", "probe_batch": 10}, "tier"),
        ({"probe_batch": 0}, "probe_batch"),
        ({"probe": object(), "device": "K40m"}, "device"),
        ({"model": None, "step": print, "probe": object()}, "probe.*a function cannot be scaled"),
    ],
)
def test_what_cannot_be_scaled_is_refused(asked, field):
    with pytest.raises(InputError, match=f"^{field}"):
        traintime.estimate(**{"model": object(), "samples": 1000, "batch_size": 100} | asked)


def test_the_books_own_points_lie_where_a_tenth_of_them_says():
    """What ALIKE rests on: each point of a machine, from one of a fourth or less in one size, by the efficiencies."""
    machine = "intel-xeon-family6-model167-2-cores-24-gib-stepping1"
    rates, rows = costs.own_rates(machine), derived.read("runs").query("folder == @machine")
    points = {path.stem: records.read(path).point for path in records.files(paths.MEASUREMENTS, machine)}
    points = {key: point for key, point in points.items() if costs.usable(point)}
    inside, beyond = [], []
    for stack in ("2026-tensorflow", "2026-jax", "2026-torch"):
        steps, base = rows[rows["stack"] == stack].groupby("key")["step_s"].mean(), costs.of_rates("it", rates, stack)
        for few, many in itertools.permutations(set(steps.index) & set(points), 2):
            small, large = points[few], points[many]
            a, b = small.model_dump()["sizes"], large.model_dump()["sizes"]
            differ = [name for name in a if a[name] != b.get(name)]
            if small.workload != large.workload or differ not in (["vocabulary"], ["batch"], ["length"]):
                continue
            if 4 <= b[differ[0]] / a[differ[0]] <= 20:
                works = ModelDescription.from_point(small), ModelDescription.from_point(large)
                times, _, error, _ = evidence.scale(*works, base)
                inside.append(steps[many] in around(steps[few] * times, (error, 1e6)))
                beyond.append(abs(steps[few] * times / steps[many] - 1))
    assert len(inside) >= 20
    assert 0.85 <= np.mean(inside) <= 1
    assert np.mean(beyond) < 0.25
