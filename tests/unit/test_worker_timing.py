"""The clock, with a clock that we move ourselves."""

import itertools

import pytest

SECOND = 1_000_000_000
PROTOCOL = {"warmup": 2, "steps": 3, "seconds": 0, "limit_s": 1e6, "fewest": 1}


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
    measured = timing.measure(step, PROTOCOL, now=clock)
    assert measured["first_ns"] == 1000
    assert measured["steps_ns"] == [10, 20, 30, 40, 50]
    assert measured["warmup"] == 2


def test_the_first_and_the_last_loss_are_reported(timing, clock):
    measured = timing.measure(clock.steps([1] * 6, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]), PROTOCOL, now=clock)
    assert (measured["first_loss"], measured["last_loss"]) == (0.9, 0.4)


def test_memory_is_read_between_the_first_step_and_the_second(timing, clock):
    seen = []
    timing.measure(clock.steps(itertools.repeat(7)), PROTOCOL, now=clock, after_first=lambda: seen.append(clock.time))
    assert seen == [7]


@pytest.mark.parametrize(
    ("step_s", "protocol", "counted"),
    [
        (0.1, {"steps": 30, "seconds": 2}, 30),  # the number of steps decides
        (0.01, {"steps": 30, "seconds": 2}, 200),  # the time decides
        (0.3, {"steps": 2, "seconds": 1}, 4),  # and is passed, not just nearly reached
        (1, {"steps": 30, "seconds": 2, "limit_s": 20, "fewest": 5}, 20),  # too slow: the limit ends it
        (3, {"steps": 30, "seconds": 2, "limit_s": 20, "fewest": 5}, 7),
        (60, {"steps": 30, "seconds": 2, "limit_s": 20, "fewest": 5}, 5),  # but never with fewer than the fewest
    ],
)
def test_it_stops_when_there_are_enough_steps_and_seconds_or_at_the_limit(timing, clock, step_s, protocol, counted):
    step = clock.steps(itertools.repeat(round(step_s * SECOND)))
    measured = timing.measure(step, PROTOCOL | protocol, now=clock)
    assert len(measured["steps_ns"]) == 2 + counted


def test_slow_warm_up_steps_use_up_neither_the_seconds_nor_the_limit(timing, clock):
    step = clock.steps(itertools.chain([SECOND] + [100 * SECOND] * 2, itertools.repeat(SECOND // 10)))
    protocol = {"warmup": 2, "steps": 3, "seconds": 1, "limit_s": 50, "fewest": 1}
    assert len(timing.measure(step, protocol, now=clock)["steps_ns"]) == 2 + 10


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
    protocol = PROTOCOL | {"warmup": 6, "steps": 20}
    timing.measure(step, protocol, send=lambda message: messages.append((clock.time, message)), now=clock)
    times = [time for time, _ in messages]
    assert len(messages) > 3
    assert all(later - sooner > SECOND for sooner, later in itertools.pairwise(times))
    assert all(0 <= message["done"] < message["of"] == 20 for _, message in messages)


def test_reporting_is_not_part_of_a_steps_time(timing, clock):
    def slow_send(message):
        clock.time += 5 * SECOND

    measured = timing.measure(clock.steps(itertools.repeat(2 * SECOND)), PROTOCOL, send=slow_send, now=clock)
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
        {"sentences": 30, "ns": 1_030_000, "trained_ns": 1_030_000},
        {"sentences": 60, "ns": 1_060_000, "trained_ns": 1_060_000},
        {"sentences": 30, "ns": 1_030_000, "trained_ns": 1_030_000},
    ]
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


def test_each_loop_is_told_before_it_is_timed(timing, clock):
    training = FakeTraining(clock)
    messages = []

    def slow_send(message):
        messages.append((message, len(training.fitted)))
        clock.time += 5 * SECOND

    timed = timing.loops(training.fit, training.make, [2, 30], send=slow_send, now=clock)
    assert timed == [{"sentences": 30, "ns": 1_030_000, "trained_ns": 1_030_000}]
    assert [done for _, done in messages] == [0, 1]
    assert messages[1][0] == {"event": "phase", "name": "fit over 30 sentences"}


@pytest.mark.parametrize("steps", [2, 7])
def test_bench_does_the_same_number_of_steps_in_both_kinds_of_block(timing, clock, steps):
    result = timing.bench(clock.steps(itertools.repeat(10)), steps=steps, blocks=2, now=clock)
    assert result["bare_ns"] == result["measured_ns"] == [10 * steps] * 2


def test_a_stopwatch_gives_the_seconds_between_laps(timing):
    clock = iter([10.0, 12.5, 13.0])
    watch = timing.Stopwatch(lambda: next(clock))
    assert [watch.lap(), watch.lap()] == [2.5, 0.5]


def test_the_real_clock_counts_whole_nanoseconds_forwards(timing):
    for now in (timing.now_ns, timing.clock_ns):
        first, second = now(), now()
        assert isinstance(first, int)
        assert second >= first
