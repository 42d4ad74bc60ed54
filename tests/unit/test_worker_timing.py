"""The clock, with a clock that we move ourselves."""

import importlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintime import paths

SECOND = 1_000_000_000
PROTOCOL = {"warmup": 2, "steps": 3}


class FakeClock:
    """Nanoseconds that pass only while a step runs."""

    def __init__(self):
        self.time = 0

    def __call__(self):
        return self.time

    def steps(self, durations, losses=None):
        """A training step that takes these times in turn and returns these losses."""
        durations, losses = iter(durations), iter(losses or itertools.repeat(0.5))

        def step():
            self.time += next(durations)
            return next(losses)

        return step


@pytest.fixture
def timing(worker_module):
    return worker_module("timing")


@pytest.fixture
def clock():
    return FakeClock()


def test_the_first_step_is_kept_apart_and_warm_up_is_kept_but_not_counted(timing, clock):
    step = clock.steps([1000, 10, 20, 30, 40, 50])
    measured, _ = timing.measure(step, PROTOCOL, now=clock)
    assert measured["first_ns"] == 1000
    assert measured["steps_ns"] == [10, 20, 30, 40, 50]
    assert measured["warmup"] == 2


def test_the_first_and_the_last_loss_are_reported(timing, clock):
    measured, _ = timing.measure(clock.steps([1] * 6, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]), PROTOCOL, now=clock)
    assert (measured["first_loss"], measured["last_loss"]) == (0.9, 0.4)


def test_memory_is_read_between_the_first_step_and_the_second(timing, clock):
    seen = []
    timing.measure(clock.steps(itertools.repeat(7)), PROTOCOL, now=clock, after_first=lambda: seen.append(clock.time))
    assert seen == [7]


@pytest.fixture(scope="module")
def measure():
    """The function itself, for tests with many examples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(paths.WORKER))
        yield importlib.import_module("timing").measure


nanoseconds = st.integers(0, 10**12) | st.integers(-(10**12), 10**12)


@given(st.integers(0, 9), st.integers(1, 30), st.lists(nanoseconds, min_size=1), st.integers(0, 10**12))
def test_it_runs_exactly_as_many_steps_as_were_asked_for_whatever_the_clock_does(measure, warmup, steps, jumps, slow):
    """Neither a long time nor a short one, nor a clock that stands still or goes backwards, ends it or goes on."""
    time, jumps, done = [0], itertools.cycle(jumps), []

    def now():
        time[0] += next(jumps)
        return time[0]

    def step():
        time[0] += slow
        done.append(1)
        return 0.5

    measured, _ = measure(step, {"warmup": warmup, "steps": steps}, now=now)
    assert len(done) == 1 + warmup + steps
    assert len(measured["steps_ns"]) == warmup + steps
    assert measured["warmup"] == warmup


# What the system counted


class Counting:
    """Counters that run with the steps: a thousand in the first, a hundred in each of warm-up, one in each other."""

    def __init__(self, clock):
        self.clock, self.read, self.steps, self.faults = clock, 0, 0, 5_000_000

    def counters(self):
        self.read += 1
        return {"minor_faults": self.faults, "others_cpu_s": self.faults / 8}

    def step(self):
        self.faults += 1000 if self.steps == 0 else 100 if self.steps <= 2 else 1
        self.clock.time += 1000 * SECOND if self.steps <= 2 else SECOND
        self.steps += 1
        return 0.5


@pytest.mark.parametrize(("warmup", "gained", "seconds"), [(2, 3, 3), (0, 201, 2001), (1, 102, 1002)])
def test_evidence_is_of_the_counted_steps_alone(timing, clock, warmup, gained, seconds):
    counting = Counting(clock)
    protocol = {"warmup": warmup, "steps": 3}
    _, evidence = timing.measure(counting.step, protocol, counters=counting.counters, now=clock)
    assert evidence == {"minor_faults": gained, "others_cpu_s": round(gained / 8, 3), "seconds": seconds}
    assert type(evidence["minor_faults"]) is int


def test_the_counters_are_not_read_while_a_counted_step_follows_another(timing, clock):
    """Reading /proc between steps would be part of what is measured."""
    counting = Counting(clock)
    timing.measure(counting.step, {"warmup": 2, "steps": 50}, counters=counting.counters, now=clock)
    assert counting.read <= 3


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("position", [0, -1])
def test_a_loss_that_is_not_finite_is_refused(timing, clock, bad, position):
    losses = [0.5] * 6
    losses[position] = bad
    with pytest.raises(ValueError, match="not finite"):
        timing.measure(clock.steps([1] * 6, losses), PROTOCOL, now=clock)


def test_progress_is_sent_at_most_once_a_second_and_never_below_zero(timing, clock):
    messages = []
    step = clock.steps(itertools.repeat(SECOND * 3 // 10))
    protocol = {"warmup": 6, "steps": 20}
    timing.measure(step, protocol, send=lambda message: messages.append((clock.time, message)), now=clock)
    times = [time for time, _ in messages]
    assert len(messages) > 3
    assert all(later - sooner > SECOND for sooner, later in itertools.pairwise(times))
    assert all(0 <= message["done"] < message["of"] == 20 for _, message in messages)


def test_reporting_is_not_part_of_a_steps_time(timing, clock):
    def slow_send(message):
        clock.time += 5 * SECOND

    measured, _ = timing.measure(clock.steps(itertools.repeat(2 * SECOND)), PROTOCOL, send=slow_send, now=clock)
    assert set(measured["steps_ns"]) == {2 * SECOND}


def test_bench_takes_bare_and_measured_blocks_in_turn(timing, clock, monkeypatch):
    seen = []
    advance = clock.steps(itertools.repeat(10))

    def step():
        seen.append("s")
        return advance()

    def measure(step, protocol, **options):
        seen.append("M")
        for _ in range(protocol["steps"] + 1):
            step()

    monkeypatch.setattr(timing, "measure", measure)
    result = timing.bench(step, steps=3, blocks=3, now=clock)
    warm_up, measured, bare = "sssss", "Msss", "sss"
    assert "".join(seen) == warm_up + measured + bare + bare + measured + measured + bare
    assert result == {"bare_ns": [30] * 3, "measured_ns": [30] * 3, "steps": 3}


class FakeTraining:
    """Training that takes a microsecond a sentence and a millisecond to start; making its data takes an hour."""

    def __init__(self, clock):
        self.clock = clock
        self.made, self.fitted = [], []

    def make(self, sentences):
        self.clock.time += 3600 * SECOND
        self.made.append(sentences)
        return [f"token {sentences}"] * sentences, [f"label {sentences}"] * sentences

    def fit(self, tokens, labels):
        slow = 0 if self.fitted else 60 * SECOND  # the first run compiles
        self.clock.time += slow + 1_000_000 + 1000 * len(tokens)
        self.fitted.append((len(tokens), tokens[0], labels[0]))


def test_loops_are_timed_without_the_warm_up_and_without_making_the_data(timing, clock):
    training = FakeTraining(clock)
    timed = timing.loops(training.fit, training.make, [2, 30, 60, 30], now=clock)
    assert timed == [
        {"sentences": 30, "ns": 1_030_000},
        {"sentences": 60, "ns": 1_060_000},
        {"sentences": 30, "ns": 1_030_000},
    ], "this framework does not tell when its last step was done"
    assert training.made == [2, 30, 60, 30]
    assert training.fitted == [(n, f"token {n}", f"label {n}") for n in (2, 30, 60, 30)], "each on data of its own"


def test_what_fit_does_after_its_last_step_is_told_apart(timing, clock):
    def fit(tokens, labels):
        clock.time += 1000 * len(tokens)
        trained = clock.time
        clock.time += 7 * SECOND  # asleep
        return trained

    timed = timing.loops(fit, lambda count: ([0] * count, [0] * count), [2, 30], now=clock)
    assert timed == [{"sentences": 30, "ns": 30_000 + 7 * SECOND, "trained_ns": 30_000}]
