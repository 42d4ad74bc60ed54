"""From a smaller model to a larger one: what cancels, and what stays in doubt."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import traintime
from traintime import paths
from traintime.errors import InputError
from traintime.explain.terms import TERMS
from traintime.point import make_point
from traintime.predict import normal, prices, resident, scaling
from traintime.predict.answer import around
from traintime.predict.evidence import conclude
from traintime.predict.prices import Prices
from traintime.predict.probe import Trainer
from traintime.predict.request import ModelDescription, Request
from traintime.predict.tiers import scaled_evidence

PAID = {"overhead": 1e-3, "matmul": 1e-11, "update": 1e-10, "touch": 1e-10}
PRICES = Prices("made up", dict.fromkeys(TERMS, 0.0) | PAID, 0.4)


def model(**sizes):
    return ModelDescription.from_point(make_point(**sizes))


class Fake(Trainer):
    """Steps of a known price under a clock of its own, as the model that it is asked for pays them."""

    stack = "2026-jax"

    def __init__(self, step_s):
        self.step_s, self.batches, self.samples = step_s, [], 0

    def train(self, batch, steps, epochs):
        self.batches.append(batch)
        self.samples = max(self.samples, batch * steps)
        return np.full(epochs, steps * self.step_s)

    def test_s(self, batch, steps):
        return self.step_s / 3

    def save_s(self):
        return 1.0

    def array_bytes(self, samples):
        return 100 * samples

    def peak_bytes(self):
        return 10**9

    def forget_peak(self):
        pass


def test_one_and_the_same_model_is_scaled_by_one():
    found = scaling.scale(model(), model(), 100, PRICES)
    assert (found.step, found.forward, found.saved, found.more_bytes, found.sample) == (1, 1, 1, 0, 1)
    assert found.error == pytest.approx(PRICES.error * scaling.ALIKE)


def test_prices_that_are_all_off_alike_scale_alike():
    small, large = model(vocabulary=10_000), model(vocabulary=20_000)
    dearer = replace(PRICES, seconds={name: 3 * each for name, each in PRICES.seconds.items()})
    ours, theirs = (scaling.scale(small, large, 100, each) for each in (PRICES, dearer))
    assert ours.step == pytest.approx(theirs.step)
    assert ours.step == pytest.approx(PRICES.step_s(large.work) / PRICES.step_s(small.work))


def test_an_update_that_caches_hold_is_no_measure_of_one_that_they_do_not():
    small, large = model(vocabulary=20_000), model(vocabulary=2_000_000)
    found = scaling.scale(small, large, 100, PRICES)
    assert found.more_s == pytest.approx(PRICES.parts(large.work)["update"] + PRICES.parts(large.work)["elementwise"])
    assert found.step * PRICES.step_s(small.work) + found.more_s == pytest.approx(PRICES.step_s(large.work))


def test_what_was_not_seen_in_the_smaller_one_is_in_doubt():
    """The update of a larger table is more of the step; a step that is all update already only grows."""
    small, large, huge = (model(vocabulary=rows) for rows in (5_000, 50_000, 500_000))
    update = replace(PRICES, seconds=dict.fromkeys(TERMS, 0.0) | {"update": 1e-10})
    assert scaling.scale(small, large, 100, PRICES).error > scaling.scale(small, large, 100, update).error
    assert scaling.scale(small, huge, 100, PRICES).error > scaling.scale(large, huge, 100, PRICES).error


def test_memory_that_the_larger_one_alone_has_mapped_anew_is_in_the_interval_and_said():
    """A softmax over 20,000 words for each position, from one over 2,000: on JAX half of its step are page faults."""

    def found(few, many, allocator="glibc"):
        works = [replace(model().work, activation_bytes=size) for size in (few, many)]
        return scaling.scale(*(replace(model(), work=each, allocator=allocator) for each in works), 100, PRICES)

    beyond = found(7_000_000, 58_000_000)
    assert beyond.error >= PRICES.error
    assert "from 0.014 GB to 0.116 GB" in beyond.notes[0]
    for other in (found(7_000_000, 15_000_000), found(58e6, 580e6), found(7e6, 58e6, "tcmalloc")):
        assert other.error < 0.8 * PRICES.error
        assert not other.notes


def test_the_larger_model_holds_more_and_what_is_there_is_not_counted_twice():
    small, large = model(vocabulary=20_000), model(vocabulary=200_000)
    alone, beside = (scaling.scale(small, large, 100, PRICES, present) for present in (0, 1_000_000))
    assert alone.more_bytes > 4 * (large.work.parameters - small.work.parameters)
    assert alone.more_bytes - beside.more_bytes == 1_000_000
    assert alone.saved == large.work.parameters / small.work.parameters


def test_the_answer_is_the_smaller_models_training_multiplied(monkeypatch):
    monkeypatch.setattr(resident, "now", lambda: 0)
    small, large = model(vocabulary=20_000, batch=32), model(vocabulary=200_000, batch=100)
    scaled = scaling.scale(small, large, 32, PRICES)
    trainer = Fake(PRICES.step_s(small.work))
    request = Request(10_050, 100, epochs=2, validation=1000, saves=1)
    one = conclude(request, scaled_evidence(request, large, trainer, 1.0, scaled))
    assert set(trainer.batches) == {32}
    assert one.tier == "scaled"
    assert one.step.value == pytest.approx(PRICES.step_s(large.work), rel=1e-3)
    assert one.parts["steps"] == pytest.approx(200 * one.step.value)
    assert one.step.value / 2 < one.parts["last batches"] / 2 < one.step.value
    assert one.parts["saving"] == pytest.approx(scaled.saved)
    trained = 1e9 - 100 * trainer.samples + scaled.more_bytes  # without the samples that were there
    assert one.memory.value == pytest.approx(trained + 100 * 11_050 * scaled.sample, rel=1e-9)
    assert any("at batch 32" in note for note in one.notes)
    assert one.step.high / one.step.value >= math.exp(1.6 * scaled.error)
    assert sum(one.terms.values()) == pytest.approx(one.step.value)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"tier": "scaled"}, "tier"),
        ({"tier": "formula", "probe_batch": 10}, "tier"),
        ({"probe_batch": 0}, "probe_batch"),
        ({"probe": object(), "device": "K40m"}, "device"),
    ],
)
def test_what_cannot_be_scaled_is_refused(asked, field):
    with pytest.raises(InputError, match=f"^{field}"):
        traintime.estimate(object(), samples=1000, batch_size=100, **asked)


def test_points_and_functions_are_not_scaled():
    with pytest.raises(InputError, match=r"probe_batch.*a point's sizes cannot be scaled"):
        traintime.estimate(make_point(), samples=1000, probe_batch=10)
    with pytest.raises(InputError, match=r"probe.*a function cannot be scaled"):
        traintime.estimate(step=print, samples=1000, batch_size=10, probe=object())


def test_the_books_own_points_lie_where_a_tenth_of_them_says():
    """What ALIKE rests on: each point of a machine, from one of a fourth or less in one size, by the habits."""
    machine = "intel-xeon-family6-model167-2-cores-24-gib-stepping1"
    rates, found = prices.own_rates(machine), normal.points_by_key(paths.MEASUREMENTS, machine)
    rows = normal.measured(paths.MEASUREMENTS, machine)
    inside, beyond = [], []
    for stack in ("2026-tensorflow", "2026-jax", "2026-torch"):
        steps = rows[rows["stack"] == stack].set_index("key")["step_s"]
        points = [(found[key], step) for key, step in steps.items() if prices.usable(found[key])]
        for (small, was), (large, now) in itertools.permutations(points, 2):
            a, b = small.model_dump()["sizes"], large.model_dump()["sizes"]
            differ = [name for name in a if a[name] != b.get(name)]
            if (
                small.workload != large.workload
                or len(differ) != 1
                or differ[0] not in ("vocabulary", "batch", "length")
            ):
                continue
            if 4 <= b[differ[0]] / a[differ[0]] <= 20:
                works = ModelDescription.from_point(small), ModelDescription.from_point(large)
                scaled = scaling.scale(*works, 1, prices.of_rates("it", rates, stack))
                interval = around(was * scaled.step, (scaled.error, 1e6))
                inside.append(now in interval)
                beyond.append(abs(was * scaled.step / now - 1))
    assert len(inside) >= 20
    assert 0.85 <= np.mean(inside) <= 1
    assert np.mean(beyond) < 0.25
