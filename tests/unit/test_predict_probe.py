"""The probe: how it spends its time, and what it makes of what it saw. With a fake clock and a fake trainer."""

import math
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from traintime.errors import InputError
from traintime.predict.probe import Probe, StepTrainer, Trained, Trainer, leak, probe, words


class Fake(Trainer):
    """Trains without training: a step costs `fixed` and `sample` seconds, an epoch and the first step more; from some
    moment on five times as much; and it keeps some bytes.
    """

    slow_from, kept = math.inf, 0

    def __init__(self, fixed=0.01, sample=0.001, epoch=0.02, compiling=1.0, noise=0.0, steps=10**9):
        self.now, self.calls, self.compiled = 0.0, [], set()
        self.fixed, self.sample, self.epoch, self.compiling = fixed, sample, epoch, compiling
        self.noise, self.most, self.random = noise, steps, np.random.default_rng(3)

    def clock(self):
        return self.now

    def train(self, batch, steps, epochs, within_s=0.0):
        found, until = [], self.now + within_s
        if batch not in self.compiled:
            self.compiled.add(batch)
            self.now += self.compiling
        while len(found) < epochs or self.now + found[-1] <= until:
            took = self.epoch + steps * (self.fixed + self.sample * batch)
            if self.now > self.slow_from:
                took *= 5
            found.append(took * np.exp(self.noise * self.random.standard_normal()))
            self.now += found[-1]
            self.held.append(self.held[-1] + self.kept * steps if self.held else 10**9)
        self.calls.append((batch, steps, len(found)))
        return np.array(found)

    def most_steps(self, batch):
        return self.most

    def peak_bytes(self):
        return 10**9 + 10**6 * self.calls[-1][0]


def test_it_finds_what_a_step_a_sample_an_epoch_and_compiling_cost():
    fake = Fake()
    found = probe(fake, 100, 30, 25, clock=fake.clock)
    assert found.full.step_s == pytest.approx(0.11)
    assert found.full.epoch_s == pytest.approx(0.02)
    assert found.full.first_s == pytest.approx(1.0 + 0.02 + 0.11)
    assert found.step_s(400) == pytest.approx(0.41)
    assert found.full.peak_bytes == 10**9 + 10**6 * 100
    assert found.took_s <= 31


@pytest.mark.parametrize("within", [5, 20, 60])
@pytest.mark.parametrize("step", [1e-5, 0.001, 0.3])
def test_it_keeps_to_its_time(within, step):
    fake = Fake(fixed=step, sample=step / 100, compiling=0.5)
    found = probe(fake, 64, within, 16, clock=fake.clock)
    assert found.took_s == fake.now <= within + 2 + 30 * step


@pytest.mark.parametrize(("step", "within", "steps"), [(31.0, 20, 2), (31.0, 60, 2), (31.0, 200, 4), (5.0, 30, 3)])
def test_of_slow_steps_no_more_are_trained_than_there_is_time_for(step, within, steps):
    """But one after the first, which is compiled."""
    fake = Fake(fixed=step, sample=0.0)
    found = probe(fake, 64, within, 16, clock=fake.clock)
    assert sum(number * epochs for batch, number, epochs in fake.calls if batch == 64) == steps
    assert found.took_s < max(within, 2 * (step + 1) + 1)
    assert found.full.step_s == pytest.approx(step, rel=0.01)


def test_without_time_to_compile_again_one_batch_size_has_to_do():
    fake = Fake(compiling=20)
    found = probe(fake, 64, 30, 16, clock=fake.clock)
    assert found.smaller is None
    assert found.step_s(128) == pytest.approx(2 * found.full.step_s)


def test_its_error_is_that_of_the_blocks():
    """Over many probes the step's relative error is the one that each of them states."""
    fake = Fake(epoch=0.0, noise=0.1)
    found = [probe(fake, 100, 10, 25, clock=fake.clock).full for _ in range(200)]
    errors = [math.log(each.step_s / 0.11) for each in found]
    assert np.std(errors) == pytest.approx(np.mean([each.error for each in found]), rel=0.25)
    far = Trained(100, 1.0, 8, (2e-4, 2e-4, 2e-4), 10.0, None)
    assert far.error < 0.51, "an epoch costs far more than its steps"


# Batches from a source that works while the steps do


class Source(Fake):
    """Four workers make a batch each in 0.05 s, and a step takes 3 ms; an epoch's end takes 0.1 s."""

    def most_steps(self, batch):
        return self.most if self.known else 10**9

    def stream(self, steps, within_s=math.inf):
        done, moments = 0.0, [0.0]
        for number in range(min(steps, self.most)):
            done = max(done, 0.05 * (number // 4 + 1)) + 0.003
            moments.append(done)
        self.calls.append((32, len(moments) - 1, 1))
        self.now += done + 0.1 + (self.compiling if len(self.calls) == 1 else 0.0)
        return np.array([*moments, done + 0.1])


@pytest.mark.parametrize("steps", [10**9, 200])
@pytest.mark.parametrize("known", [True, False])
def test_a_source_that_starts_slowly_is_read_until_it_runs(steps, known):
    source = Source(steps=steps)
    source.known = known
    found = probe(source, 32, 20, other=0, clock=source.clock)
    longest = max(number for _, number, _ in source.calls)
    assert longest > 190
    assert found.full.step_s == pytest.approx(0.05 / 4, rel=0.05)
    assert longest * found.full.step_s + found.full.epoch_s == pytest.approx(longest * 0.05 / 4 + 4 * 0.003 + 0.1)
    assert found.took_s <= 22
    assert len(found.full.blocks_s) > 3, "of several epochs, or of a long one"
    assert found.full.first_s == pytest.approx(1.0 + 0.05 + 0.003 + 0.1)


def test_a_cache_makes_later_epochs_quicker_and_is_filled_by_a_whole_one():
    source = Source(steps=200)
    source.known, source.cached = True, 10**8
    stream, whole = source.stream, []

    def quicker(steps, within_s=math.inf):
        seconds = stream(steps) / (10 if whole else 1)
        whole.extend([1] * (steps == 200))
        return seconds

    source.stream = quicker
    found = probe(source, 32, 10, other=0, clock=source.clock).full
    assert [number for _, number, _ in source.calls[:3]] == [1, 200, 200], "no part of an epoch fills it"
    assert found.step_s == pytest.approx(0.05 / 40, rel=0.05)
    assert found.once_s == pytest.approx(0.9 * (200 * 0.05 / 4 + 0.1), rel=0.05)


@pytest.mark.parametrize(("within", "slow_from"), [(20, 3.0), (60, 30.0)])
def test_the_probe_lasts_as_long_as_it_may_and_tells_steps_of_two_kinds(within, slow_from):
    fake = Fake(fixed=0.001, sample=0.0, epoch=0.0, compiling=0.0, noise=0.02)
    fake.slow_from = slow_from
    found = probe(fake, 64, within, 0, clock=fake.clock)
    assert found.took_s == pytest.approx(within, abs=2)
    assert found.full.changed == pytest.approx((0.001, 0.005), rel=0.1)
    assert found.full.step_s == pytest.approx(0.005, rel=0.05)
    fake.slow_from = math.inf
    assert probe(fake, 64, within, 0, clock=fake.clock).full.changed is None


def test_memory_that_grows_with_the_steps_is_told_from_memory_that_fills():
    fake = Fake(compiling=0.0)
    fake.kept = 2 * 10**6
    found = probe(fake, 100, 30, 25, clock=fake.clock).full
    assert found.leak == pytest.approx(fake.kept)
    assert found.done > 100
    random, steps = np.random.default_rng(0), np.arange(40)
    full = 10**9 + 10**8 * (1 - np.exp(-steps / 8))
    noise = [10**9 + 10**7 * random.standard_normal(40) for _ in range(20)]
    assert not any(map(leak, [full, np.minimum(full, 1.05e9), *noise]))


def test_a_line_has_no_negative_cost():
    def seen(large_s, small_s):
        return Probe(*(Trained(n, 1.0, 5, (s,), 0.0, None) for n, s in ((100, large_s), (25, small_s))), 1.0)

    assert seen(0.1, 0.2).step_s(400) == pytest.approx(0.1)
    assert seen(0.4, 0.05).step_s(10) == pytest.approx(0.04)


def test_its_framework_is_the_one_that_the_step_names_or_loads(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(block_until_ready=lambda answer: None))
    trainer = StepTrainer(lambda n: monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace()))
    assert trainer.stack == "your step", "what others have loaded tells nothing"
    trainer.train(8, 1, 1)
    assert trainer.stack == "2026-tensorflow"
    named = ModuleType("torch.nn")
    assert StepTrainer(lambda n: named and n).stack == "2026-torch"


# What code of a reader's says when it raises

KERAS = (
    "Exception encountered when calling Dense.call().\n\n\x1b[1mone and\nthe other\x1b[0m\n\nArguments received by it"
)
TENSORFLOW = """Graph execution error:

Detected at node sub defined at (most recent call last):
  File "model.py", line 1, in <module>

Incompatible shapes: [32,3] vs. [32,1]
\t [[{{node sub}}]] [Op:__inference_multi_step_on_iterator_7]"""


def test_its_own_words_are_what_is_said():
    assert words(RuntimeError(KERAS)) == "one and the other"
    assert words(RuntimeError(TENSORFLOW)) == "Incompatible shapes: [32,3] vs. [32,1]"


def test_a_refusal_of_ours_is_found_in_what_keras_makes_of_it():
    ours = InputError("inputs", 3, "are no row numbers", "Give whole numbers.")

    def wrapped(n):
        try:
            raise ours
        except InputError:
            raise RuntimeError("Exception encountered when calling Embedding.call()") from None

    with pytest.raises(InputError) as refused:
        StepTrainer(wrapped).train(8, 1, 1)
    assert refused.value is ours
