"""The clock, with a clock that we move ourselves."""

import itertools

import pytest

SECOND = 1_000_000_000
PROTOCOL = {"warmup": 2, "steps": 3}


class FakeClock:
    """Nanoseconds that pass only while a step runs."""

    time = 0

    def __call__(self):
        return self.time

    def steps(self, durations, losses=(0.5,)):
        """A training step that takes these times in turn and returns these losses, again and again."""
        durations, losses = iter(durations), itertools.cycle(losses)

        def step():
            self.time += next(durations)
            return next(losses)

        return step


@pytest.fixture(scope="module")
def timing(worker_module):
    return worker_module("timing")


@pytest.fixture
def clock():
    return FakeClock()


def test_the_first_step_is_kept_apart_and_warm_up_is_kept_but_not_counted(timing, clock):
    """Memory is read between the first step and the second; first and last loss are told."""
    seen, step = [], clock.steps([1000, 10, 20, 30, 40, 50], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    measured, _ = timing.measure(step, PROTOCOL, now=clock, after_first=lambda: seen.append(clock.time))
    times = {"first_ns": 1000, "steps_ns": [10, 20, 30, 40, 50], "warmup": 2}
    assert measured == times | {"first_loss": 0.9, "last_loss": 0.4}
    assert seen == [1000]


@pytest.mark.parametrize(("warmup", "gained", "seconds"), [(2, 3, 3), (0, 201, 2001)])
def test_evidence_is_of_the_counted_steps_alone_and_is_not_read_between_them(timing, clock, warmup, gained, seconds):
    """Reading /proc between steps would be part of what is measured."""
    gains = [1000, 100, 100, 1, 1, 1]  # of the first step, of two that may be warm-up, and of each other
    step, reads, faults = clock.steps([gain // 100 * 1000 * SECOND or SECOND for gain in gains]), [], [5_000_000]

    def counters():
        reads.append(1)
        return {"minor_faults": faults[0], "others_cpu_s": faults[0] / 8}

    def counted_step():
        faults[0] += gains.pop(0)
        return step()

    protocol = {"warmup": warmup, "steps": 3}
    _, evidence = timing.measure(counted_step, protocol, counters=counters, now=clock)
    assert evidence == {"minor_faults": gained, "others_cpu_s": round(gained / 8, 3), "seconds": seconds}
    assert type(evidence["minor_faults"]) is int
    assert len(reads) <= 3


@pytest.mark.parametrize(("position", "bad"), [(0, float("nan")), (-1, float("inf"))])
def test_a_loss_that_is_not_finite_is_refused(timing, clock, position, bad):
    losses = [0.5] * 6
    losses[position] = bad
    with pytest.raises(ValueError, match="not finite"):
        timing.measure(clock.steps([1] * 6, losses), PROTOCOL, now=clock)


def test_progress_is_sent_at_most_once_a_second_and_is_not_part_of_a_steps_time(timing, clock):
    messages = []

    def slow_send(message):
        messages.append((clock.time, message))
        clock.time += 5 * SECOND

    step = clock.steps(itertools.repeat(SECOND * 3 // 10))
    measured, _ = timing.measure(step, {"warmup": 6, "steps": 20}, send=slow_send, now=clock)
    assert len(messages) > 3
    assert len(measured["steps_ns"]) == 26, "whatever the clock does"
    assert all(later - sooner > 6 * SECOND for (sooner, _), (later, _) in itertools.pairwise(messages))
    assert all(0 <= message["done"] < message["of"] == 20 for _, message in messages)
    assert set(measured["steps_ns"]) == {SECOND * 3 // 10}


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


@pytest.mark.parametrize("tells", [False, True])
def test_loops_are_timed_without_the_warm_up_and_without_making_the_data(timing, clock, tells):
    """A microsecond a sentence, a millisecond to start and seven seconds asleep; making the data takes an hour."""
    fitted = []

    def make(sentences):
        clock.time += 3600 * SECOND
        return [f"token {sentences}"] * sentences, [f"label {sentences}"] * sentences

    def fit(tokens, labels):
        slow = 0 if fitted else 60 * SECOND  # the first run compiles
        clock.time += slow + 1_000_000 + 1000 * len(tokens)
        fitted.append((len(tokens), tokens[0], labels[0]))
        trained = clock.time
        clock.time += 7 * SECOND
        return trained if tells else None

    timed = timing.loops(fit, make, [2, 30, 60, 30], now=clock)
    assert fitted == [(n, f"token {n}", f"label {n}") for n in (2, 30, 60, 30)], "each on data of its own"
    trained = [1_030_000, 1_060_000, 1_030_000]
    expected = [{"sentences": n, "ns": ns + 7 * SECOND} for n, ns in zip((30, 60, 30), trained, strict=True)]
    told = [{"trained_ns": ns} if tells else {} for ns in trained]  # where it tells when its last step was done
    assert timed == [one | other for one, other in zip(expected, told, strict=True)]
