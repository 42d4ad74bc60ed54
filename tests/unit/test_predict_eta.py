"""When a training ends: durations, deadlines, intervals from blocks, a training under way, and what is said of it."""

import itertools
import math
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintime.errors import InputError
from traintime.explain.statistics import Interval
from traintime.predict import blocks, durations
from traintime.predict.blocks import BlockMeans
from traintime.predict.lines import Deadline, EndEstimate, Lines, after, rhythm, shown
from traintime.predict.progress import Progress

LEVEL = 0.9

# Durations


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("8h", 28_800),
        ("90m", 5400),
        ("1h30m", 5400),
        ("2d 4h", 187_200),
        ("45s", 45),
        (" 1.5 H ", 5400),
        ("1 hour 20 minutes", 4800),
        ("1 h 12 min", 4320),
        ("0s", 0),
        (90, 90),
        (0.5, 0.5),
        (np.int64(7), 7),
        (timedelta(hours=2), 7200),
    ],
)
def test_a_duration_is_read(given, seconds):
    assert durations.seconds(given) == seconds


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "is no duration"),
        ("8", "is no duration"),
        ("8x", "is no duration"),
        ("1e5s", "is no duration"),
        ("30m 2h", "is no duration"),
        ("1h1h", "is no duration"),
        ("inf", "is no duration"),
        (None, "is no duration"),
        (True, "is no duration"),
        ("-5m", "is negative"),
        (timedelta(seconds=-1), "is negative"),
        ("9" * 400 + "s", "is not finite"),
        (math.inf, "is not finite"),
        (math.nan, "is not finite"),
        (1e300, "is longer than 10,000 years"),
        ("9" * 100 + "h", "is longer than 10,000 years"),
    ],
)
def test_what_is_no_duration_is_refused_by_name(given, problem):
    with pytest.raises(InputError) as error:
        durations.seconds(given, "deadline")
    assert (error.value.field, error.value.value, error.value.problem) == ("deadline", given, problem)
    assert '"8h"' in error.value.remedy


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (4.21, "4.2 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3599, "59 min 59 s"),
        (3599.6, "1 h"),
        (4321, "1 h 12 min"),
        (86_000, "23 h 53 min"),
        (86_399, "1 d"),
        (187_200, "2 d 4 h"),
        (1e300, "more than 10,000 years"),
    ],
)
def test_a_duration_as_a_reader_sees_it(seconds, text):
    assert durations.text(seconds) == text


@given(st.floats(0, 1e8))
def test_what_is_shown_is_read_back_to_the_unit_shown(seconds):
    text = durations.text(seconds)
    unit = {"s": 0.05 if seconds < 9.95 else 0.5, "min": 30.0, "h": 1800.0}
    shown = durations.seconds(text)
    # A whole number of the larger unit is rounded to the smaller one, which is not shown.
    smaller = {"min": "s", "h": "min", "d": "h"}
    last = text.split()[-1]
    least = last if len(text.split()) == 4 or last == "s" else smaller[last]
    assert abs(shown - seconds) <= unit[least] * (1 + 1e-9)
    assert durations.text(shown) == text


# Deadlines

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_deadline_is_a_time_after_the_start_or_a_moment():
    assert Deadline("8h").left(3600, NOON) == 7 * 3600
    assert Deadline(timedelta(hours=1)).left(4000, NOON) == -400
    moment = Deadline(NOON + timedelta(hours=1), lambda: NOON)
    # The calendar's clock alone counts: the other one stands while a computer sleeps.
    assert moment.left(10, NOON + timedelta(minutes=59)) == 60
    naive = datetime(2026, 3, 1, 12)
    assert Deadline(naive + timedelta(hours=1), lambda: naive).left(0, naive) == 3600
    assert Deadline(naive.astimezone() + timedelta(hours=1), lambda: naive).left(0, naive) == 3600


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("soon", "is no duration"),
        ("0s", "leaves no time at all"),
        (NOON, "has passed"),
        (NOON.replace(tzinfo=None) - timedelta(days=2), "has passed"),
    ],
)
def test_a_deadline_that_is_none_is_refused(given, problem):
    with pytest.raises(InputError) as error:
        Deadline(given, lambda: NOON)
    assert (error.value.field, error.value.problem) == ("deadline", problem)


def test_hours_later_are_hours_also_in_the_night_when_the_clocks_change():
    evening = datetime(2026, 3, 28, 23, tzinfo=ZoneInfo("Europe/Vienna"))
    morning = after(evening, 8 * 3600)
    assert (morning.hour, morning.utcoffset()) == (8, timedelta(hours=2))
    assert after(datetime(2026, 1, 1), 60).tzinfo is not None
    assert after(evening, 1e18).year == 9999


def test_a_moment_is_shown_with_its_day_where_it_is_another_one():
    assert shown(NOON + timedelta(hours=2), NOON) == "14:00"
    assert shown(NOON + timedelta(hours=13), NOON) == "Mon 2 Mar 01:00"
    assert shown(NOON, NOON, precise=True) == "12:00:00"
    assert Deadline("90m").shown(NOON) == "1 h 30 min after the start"
    assert Deadline(NOON + timedelta(hours=2), lambda: NOON).shown(NOON) == "14:00"


# Intervals from blocks


def filled(durations_s):
    found = BlockMeans()
    for seconds in durations_s:
        found.add(float(seconds))
    return found


def half(interval):
    return (interval.high - interval.low) / 2


@pytest.mark.parametrize("number", [5, 63, 64, 65, 1000])
def test_equal_steps_add_up_and_nothing_is_narrower_than_the_floor(number):
    found = filled([0.25] * number).total(1000, LEVEL)
    assert found.value == pytest.approx(250)
    floor = 1.645 * 250 * blocks.WANDER * math.sqrt(1000 / (1000 + number))
    assert half(found) == pytest.approx(floor, rel=0.05)
    assert half(filled([0.25] * 10_000).total(10, LEVEL)) == pytest.approx(1.645 * 2.5 * blocks.LEAST, rel=1e-3)


def test_the_interval_narrows_as_training_goes_on():
    trainings = np.random.default_rng(0).lognormal(0, 0.3, (30, 2000))
    seen = (5, 20, 100, 500, 1000, 1900)
    halves = [np.mean([half(filled(steps[:n]).total(2000 - n, LEVEL)) for steps in trainings]) for n in seen]
    assert all(later < before for before, later in itertools.pairwise(halves))
    assert halves[-1] < halves[0] / 20


def test_memory_stays_bounded():
    found = filled(range(100_000))
    assert len(found) < blocks.MOST
    assert found.total(1, LEVEL).value == pytest.approx(100_000, rel=0.15)  # the last quarter of what was


def test_one_disturbed_step_is_no_rule_but_may_come_again():
    quiet, once = filled([1.0] * 99 + [1.0]), filled([1.0] * 50 + [200.0] + [1.0] * 49)
    assert once.total(1000, LEVEL).value == pytest.approx(quiet.total(1000, LEVEL).value)
    assert once.total(1000, LEVEL).high >= 1000 * (99 + 200) / 100 * 0.95


def test_a_disturbance_that_comes_often_counts_in_full():
    steps = np.where(np.arange(2000) % 40 == 7, 20.0, 1.0)
    found = filled(steps).total(4000, LEVEL)
    assert found.value == pytest.approx(4000 * steps.mean(), rel=0.02)
    assert 4000 * steps.mean() in found


def test_a_machine_that_becomes_slower_makes_the_interval_wider():
    even, slower = np.ones(1000), np.linspace(0.8, 1.2, 1000)
    assert half(filled(slower).total(1000, LEVEL)) > 3 * half(filled(even).total(1000, LEVEL))
    # Near the end, the last quarter tells: 1.15 and not 1.
    assert filled(slower).total(10, LEVEL).value == pytest.approx(11.5, rel=0.02)


def test_from_one_to_four_blocks_it_is_half_to_twice_at_most():
    assert filled([3.0]).total(10, LEVEL) == Interval(30, 15, 60)
    found = filled([1.0, 5.0]).total(10, LEVEL)
    assert found == Interval(30, 15, 60)
    assert half(filled([3.0, 3.0]).total(10, LEVEL)) < 3


def test_several_steps_of_one_call_are_as_many_steps():
    found = BlockMeans()
    for number in (4, 4, 2) * 20:
        found.add(0.5 * number, number)
    assert found.total(8, LEVEL).value == pytest.approx(4)
    assert found.total(0, LEVEL) == Interval(0, 0, 0)


# A training under way


class Clock:
    """A clock that goes on where it is told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def trained(
    step_s,
    epochs=3,
    steps=20,
    known=True,
    first_s=0.0,
    begin_s=0.0,
    validation_s=(),
    validation_freq=1,
    end_s=0.0,
    execution=1,
    first_epoch=0,
    look=lambda progress, clock: None,
    **given,
):
    """A made-up training; look(progress, clock) is called after each event. Returns what it gave, and the end.

    step_s: seconds of a step, a number or an iterator of numbers; first_s, of the first of all beside its own;
    validation_s: of each batch of a validation.
    """
    one = iter(lambda: step_s, None) if isinstance(step_s, int | float) else iter(step_s)
    clock, seen = Clock(), []
    progress = Progress(epochs, steps if known else None, clock.now, level=LEVEL, **given)

    def looked():
        seen.append((clock.now, look(progress, clock)))

    clock.now += 1.0
    for epoch in range(first_epoch, epochs):
        progress.epoch_begins(epoch, clock.now)
        looked()
        clock.now += begin_s + (first_s if epoch == first_epoch else 0.0)
        for begin in range(0, steps, execution):
            clock.now += sum(next(one) for _ in range(min(execution, steps - begin)))
            progress.step_done(begin + execution - 1, clock.now)
            looked()
        if validation_s and (epoch + 1) % validation_freq == 0:
            progress.validation_begins(clock.now)
            for batch, seconds in enumerate(validation_s):
                clock.now += seconds
                progress.validation_step_done(batch, clock.now)
            progress.validation_ends(clock.now)
            looked()
        progress.epoch_ends()
        clock.now += end_s
        looked()
    progress.training_ends()
    looked()
    return seen, clock.now


def left(progress, clock):
    return progress.remaining(clock.now)


def ends(seen):
    """When training ends, as told at each moment at which something was told."""
    return np.array([now + found.value for now, found in seen if found is not None])


def test_even_steps_end_when_they_are_said_to():
    seen, end = trained(0.5, look=left)
    assert ends(seen) == pytest.approx(end)
    # Nothing can be told after a first step alone.
    assert [found for _, found in seen[:2]] == [None, None] and seen[2][1] is not None
    assert seen[-1][1] == Interval(0, 0, 0)


def test_compiling_counts_once_and_not_in_what_is_left():
    assert ends(trained(0.5, first_s=60, look=left)[0]) == pytest.approx(trained(0.5, first_s=60)[1])


def test_what_epochs_begin_and_end_with_counts_once_it_was_seen():
    seen, end = trained(0.5, begin_s=3.0, end_s=2.0, epochs=4, look=left)
    told = [(now, found.value) for now, found in seen if found is not None]
    in_first = np.array([now + value for now, value in told if now <= seen[20][0]])
    assert in_first == pytest.approx(end - 3 * 3 - 4 * 2)  # neither was seen
    in_third = np.array([now + value for now, value in told if now > seen[44][0]])
    assert in_third == pytest.approx(end)


@pytest.mark.parametrize("frequency", [1, 2, 3])
def test_validation_counts_as_often_as_it_comes(frequency):
    seen, end = trained(0.5, epochs=8, validation_s=[0.2] * 5, validation_freq=frequency, look=left)
    first = frequency * 23  # the events of an epoch
    assert ends(seen[first:]) == pytest.approx(end)
    assert ends(seen[:20]) == pytest.approx(end - 8 // frequency)


def test_the_first_validation_compiles_and_the_others_do_not():
    seen, end = trained(0.5, epochs=2, validation_s=[0.25] * 4, look=left)
    compiled, later = trained(0.5, epochs=2, validation_s=[10.25, 0.25, 0.25, 0.25], look=left)
    assert compiled[23][1].value == pytest.approx(seen[23][1].value)
    assert compiled[23][1].high > seen[23][1].high  # yet it may be so again
    assert later > end


def test_validation_before_one_was_seen_is_a_forward_pass_where_its_steps_are_known():
    def unseen(progress, clock):
        return progress.remaining(clock.now), progress.unseen

    without, with_it, none = (
        trained(0.6, epochs=2, look=unseen, validation_s=[0.2] * 5, validation_steps=steps)[0][10][1]
        for steps in (None, 5, 0)
    )
    assert without[1] and not with_it[1] and not none[1]
    assert with_it[0].value - without[0].value == pytest.approx(10 * 0.6 / 3)
    assert with_it[0].low - without[0].low == pytest.approx(10 * 0.6 / 4, rel=0.1)
    assert with_it[0].high - without[0].high == pytest.approx(10 * 0.6 / 2, rel=0.1)
    assert none[0] == without[0]


def test_where_nobody_counts_the_steps_the_first_epoch_does():
    seen, end = trained(0.5, known=False, look=left)
    assert {found for _, found in seen[:21]} == {None}
    assert ends(seen) == pytest.approx(end)
    assert len(ends(seen)) > 40


@pytest.mark.parametrize("known", [True, False])
def test_several_steps_of_one_call(known):
    seen, end = trained(0.5, steps=10, execution=4, epochs=20, known=known, look=left)
    # Of an unknown number of steps the last call counts in full, in each epoch alike; that call is a little shorter.
    assert ends(seen)[30:] == pytest.approx(end, rel=0.05 if not known else 1e-6)
    seen, end = trained(0.5, steps=4, execution=4, epochs=6, known=known, look=left)
    assert ends(seen) == pytest.approx(end), "an epoch is a single call"


def test_a_training_that_goes_on_from_an_epoch():
    def finished(progress, clock):
        return progress.finished

    seen, end = trained(0.5, epochs=10, first_epoch=8, validation_s=[1.0], look=left)
    assert ends(seen[24:]) == pytest.approx(end)
    shares = [share for _, share in trained(0.5, epochs=10, first_epoch=8, look=finished)[0]]
    assert shares[0] == 0 and shares[10] == 0.25 and shares[-1] == 1


def test_a_validation_that_did_not_come_where_it_was_due_is_over_with_its_epoch():
    # After epoch 2 alone, every epoch seems to have one; epoch 3 has none, so that at most that of epoch 4 is left.
    seen, _ = trained(0.5, epochs=5, first_epoch=2, validation_s=[1.0], validation_freq=3, look=left)
    assert [found.value for _, found in seen[44:46]] == pytest.approx([11, 11])


def test_nobody_knows_the_share_of_an_unknown_number():
    progress = Progress(3, None, 0.0)
    assert progress.finished == 0
    progress.epoch_begins(0, 0.0)
    progress.step_done(0, 1.0)
    assert math.isnan(progress.finished)


def test_an_epoch_that_ends_early_is_as_long_as_it_was():
    progress = Progress(3, 100, 0.0)
    for epoch, start in enumerate((0.0, 10.0)):
        progress.epoch_begins(epoch, start)
        for batch in range(10):
            progress.step_done(batch, start + batch + 1)
        progress.epoch_ends()
    assert progress.remaining(20.0).value == pytest.approx(10)


def test_news_that_pass_each_other_are_taken_as_they_come():
    progress = Progress(1, 20, 0.0)
    progress.epoch_begins(0, 0.0)
    for batch in (0, 1, 3, 2, 4, 5, 7, 6, 8, 9):
        progress.step_done(batch, batch + 1.0)
    assert progress.done == 10
    assert progress.remaining(10.0).value == pytest.approx(10)
    progress.step_done(10, 9.9)  # read before the other one, told of after it: no step takes less than nothing
    assert progress.done == 11
    assert 6 < progress.remaining(10.0).value < 9


def test_steps_that_were_under_way_when_validation_began_are_no_validation():
    progress = Progress(2, 10, 0.0)
    progress.epoch_begins(0, 0.0)
    for batch in range(5):
        progress.step_done(batch, batch + 1.0)
    progress.validation_begins(5.0)  # all steps were handed over
    for batch in range(5, 10):
        progress.step_done(batch, batch + 1.0)
    progress.validation_step_done(0, 11.0)
    progress.validation_step_done(1, 12.0)
    progress.validation_ends(12.0)
    assert progress.validations.first.value == pytest.approx(2)
    assert progress.remaining(12.0).value == pytest.approx(12)


def test_two_validations_of_an_epoch_are_one_in_every_epoch():
    progress = Progress(4, 2, 0.0)
    progress.validation_ends(0.0)  # one that never began
    for epoch in range(2):
        progress.epoch_begins(epoch, 10.0 * epoch)
        for batch in range(2):
            progress.step_done(batch, 10 * epoch + batch + 1.0)
        for begin in (2, 5):
            progress.validation_begins(10.0 * epoch + begin)
            progress.validation_ends(10.0 * epoch + begin + 1)
        progress.epoch_ends()
    assert progress.remaining(20.0).value > 0


def test_what_runs_is_taken_off_as_it_runs_but_is_not_over_before_its_end():
    progress = Progress(1, 10, 0.0)
    progress.epoch_begins(0, 0.0)
    for batch in range(6):
        progress.step_done(batch, batch + 1.0)
    assert progress.remaining(6.5).value == pytest.approx(3.5)
    assert progress.remaining(60.0).value == pytest.approx(3)  # a computer that slept, say
    assert progress.remaining(60.0).low >= 0


def correlated(random, number, walk=0.0, slope=0.0, correlation=0.9, sd=0.1):
    """Durations around 1 s: noise in which a step is like the one before, and a speed that goes for a walk or down."""
    noise, last = np.empty(number), random.normal()
    for index, new in enumerate(random.normal(size=number) * math.sqrt(1 - correlation**2)):
        last = noise[index] = correlation * last + new
    speed = np.cumsum(random.normal(size=number)) * walk / math.sqrt(number) + np.linspace(0, slope, number)
    return np.maximum(1 + sd * noise + speed, 0.1)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("drift", [{"walk": 0.08}, {"slope": 0.08}], ids=["walk", "slope"])
def test_nine_of_ten_intervals_hold_the_end(drift, share):
    """Trainings of four epochs that compile first, with noise in which neighbours are alike, and drift."""

    def then(progress, clock):
        return progress.remaining(clock.now) if abs(progress.finished - share) < 1e-9 else None

    random, held = np.random.default_rng(5), []
    for _ in range(200):
        steps = correlated(random, 800, **drift)
        seen, end = trained(steps, epochs=4, steps=200, first_s=20, look=then)
        now, found = next((now, found) for now, found in seen if found is not None)
        held.append(end - now in found)
    assert 0.85 <= np.mean(held) <= 0.98


# What is said


def estimate(value, spread=0.1, finished=0.1, verdict=None):
    remaining = Interval(value, value * (1 - spread), value * (1 + spread))
    return EndEstimate(remaining, NOON + timedelta(seconds=value), finished, verdict)


def said(lines, elapsed, *given, begins=False, unseen=False, **more):
    return lines.of(estimate(*given, **more), elapsed, NOON, begins, unseen)


def test_the_first_line_comes_when_the_interval_is_narrow_or_time_has_passed():
    lines = Lines("doubling", LEVEL, None)
    assert said(lines, 1, 4320, 0.3) == []
    (line,) = said(lines, 2, 4320, 0.2)
    interval = "90 %: 57 min 36 s to 1 h 26 min"
    assert line == f"10 % done, 1 h 12 min left ({interval}). Ends at 13:12."
    patient = Lines("doubling", LEVEL, None)
    assert said(patient, 5, 100, 0.9) == [] and said(patient, 64, 100, 0.9) == []
    assert len(said(patient, 65, 100, 0.9)) == 1


def test_lines_come_when_the_time_has_doubled():
    lines = Lines("doubling", LEVEL, None)
    moments = [moment for moment in range(1, 100) if said(lines, moment, 1000)]
    assert moments == [1, 2, 4, 8, 16, 32, 64]


def test_the_second_epoch_has_a_line_and_the_third_has_none():
    lines = Lines("doubling", LEVEL, None)
    assert said(lines, 10, 1000) and said(lines, 11, 1000, begins=True)
    assert not said(lines, 12, 1000, begins=True)


def test_lines_come_with_each_epoch_or_after_a_time():
    lines = Lines("epoch", LEVEL, None)
    assert said(lines, 1, 1000) and not said(lines, 9, 1000)
    assert said(lines, 10, 1000, begins=True) and said(lines, 11, 1000, begins=True)
    lines = Lines(rhythm("1m"), LEVEL, None)
    assert [moment for moment in range(1, 200) if said(lines, moment, 1000)] == [1, 61, 121, 181]


@pytest.mark.parametrize("every", ["often", "", 0, -3, None, math.nan])
def test_a_rhythm_that_is_none_is_refused(every):
    with pytest.raises(InputError) as error:
        rhythm(every)
    assert error.value.field == "every"


def test_a_missed_deadline_is_said_once_and_so_is_each_change():
    lines = Lines("doubling", LEVEL, Deadline("30m"))
    (line,) = said(lines, 600, 3600, verdict=False)
    assert line.startswith("Deadline (30 min after the start): will be missed by 40 min. 10 % done, 1 h left")
    assert not said(lines, 601, 3600, verdict=False)
    assert not said(lines, 602, 1200, verdict=None)
    assert not said(lines, 603, 3600, verdict=False)
    (line,) = said(lines, 604, 596, verdict=True)
    assert line.startswith("Deadline (30 min after the start): will be met after all, with 10 min to spare.")
    assert not said(lines, 605, 600, verdict=True)
    assert "missed" in said(lines, 606, 3600, verdict=False)[0]


def test_a_deadline_that_will_be_met_is_said_with_the_other_lines():
    lines = Lines("doubling", LEVEL, Deadline("30m"))
    assert said(lines, 10, 600, verdict=True)[0].endswith("Deadline (30 min after the start): will be met.")
    assert not said(lines, 11, 600, verdict=True)
    assert said(lines, 20, 600)[0].endswith("too close to call.")
    assert "missed by" in said(lines, 21, 6000, verdict=False)[0]


def test_a_deadline_hurries_the_first_line():
    lines = Lines("doubling", LEVEL, Deadline("30m"))
    assert not said(lines, 1, 1800, 0.9) and not said(lines, 2.9, 1800, 0.9)
    assert said(lines, 3, 1800, 0.9)[0].endswith("too close to call.")
    assert said(Lines("doubling", LEVEL, Deadline("30m")), 1, 60, 0.9, verdict=True), "however wide the interval is"
    assert not said(Lines("doubling", LEVEL, None), 3, 1800, 0.9)


def test_what_is_not_counted_is_named():
    assert "validation, if there is any, comes on top" in said(Lines("epoch", LEVEL, None), 1, 60, unseen=True)[0]


def test_an_unknown_number_of_steps_is_said_once():
    lines = Lines("doubling", LEVEL, None)
    assert "then the end can be predicted" in lines.unknown(last=False)[0]
    assert lines.unknown(last=False) == []
    assert "the end of this training is unknown" in Lines("doubling", LEVEL, None).unknown(last=True)[0]


def test_a_deadline_that_passes_before_the_end_can_be_told_is_said_once():
    lines = Lines("doubling", LEVEL, Deadline("30m"))
    assert len(lines.unknown(False, 60.0, NOON)) == 1
    assert lines.unknown(False, -1.0, NOON) == ["Deadline (30 min after the start): has passed."]
    assert lines.unknown(False, -2.0, NOON) == []
    assert not said(lines, 2000, 60, 0.9, verdict=False)


def test_what_ends_soon_is_told_to_the_second():
    assert "Ends at 12:01:40." in said(Lines("epoch", LEVEL, None), 1, 100)[0]
    assert "Ends at 12:16." in said(Lines("epoch", LEVEL, None), 1, 1000)[0]


# The package's face


def test_the_package_is_there_without_keras():
    code = "import sys, traintime; assert 'Eta' in dir(traintime); assert 'keras' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
