"""When a loop of one's own will end: what it goes over, when its steps are done, and what is refused."""

import io
import sys

import numpy as np
import pytest

import traintime
from traintime.errors import InputError
from traintime.predict.track import TrainingLoop, track


class Clock:
    """A clock that goes on where it is told to."""

    def __init__(self):
        self.now = 50.0

    def __call__(self):
        return self.now


def trained(loop, clock, epochs=3, steps=40, step_s=0.5, validation_s=0.0, loader=None, look=lambda: None):
    """Train so many epochs; look() is called after each batch was handed on."""
    for _ in range(epochs):
        for _ in loop.batches(loader or range(steps)):
            look()
            clock.now += step_s
        if validation_s:
            with loop.validation():
                clock.now += validation_s


# Training that was resumed


def test_a_training_that_goes_on_in_an_epoch_counts_what_is_left_and_what_was_run():
    clock, seen = Clock(), []
    loop = TrainingLoop(3, first_epoch=1, first_step=60, say=None, clock=clock)
    for epoch in (1, 2):
        for step in loop.batches(range(60, 100) if epoch == 1 else range(100)):
            if loop.estimate:
                seen.append((clock.now + loop.estimate.remaining.value, loop.estimate.finished))
            clock.now += 30.0 if (epoch, step) == (1, 60) else 0.5  # to where it goes on, and compiling
    assert len(seen) == 138, "from the second step on that was run"
    assert [end for end, _ in seen] == pytest.approx([clock.now] * len(seen))
    assert [seen[38][1], seen[88][1]] == pytest.approx([40 / 140, 90 / 140])


@pytest.mark.parametrize("given", [{}, {"first_epoch": 1}])
def test_track_leaves_out_what_was_done(given):
    epochs = 2 - given.get("first_epoch", 0)
    numbers = list(track(range(5), 2, first_step=3, say=None, **given))
    assert numbers == [3, 4, *list(range(5)) * (epochs - 1)]


def test_a_training_may_go_on_where_an_epoch_ended():
    loop = TrainingLoop(2, first_step=5, say=None)
    assert list(loop.batches([], steps=5)) == []
    assert list(loop.batches(range(5))) == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="first_step: 6"):
        list(TrainingLoop(2, first_step=6, say=None).batches([], steps=5))


def test_where_nobody_knows_the_steps_an_epoch_that_goes_on_counts_whole():
    clock = Clock()
    loop = TrainingLoop(3, first_step=60, say=None, clock=clock)
    for _ in loop.batches(iter(range(60, 100))):
        clock.now += 1.0
    assert loop.estimate.remaining.value == pytest.approx(200)


# Epochs of different lengths


def test_an_epoch_has_its_own_steps_and_those_to_come_as_many_as_the_last():
    clock, left = Clock(), {}
    loop = TrainingLoop(4, say=None, clock=clock)
    for epoch, steps in enumerate((100, 50, 50, 200)):
        for step in loop.batches(range(steps)):
            if step == 40:
                left[epoch] = loop.estimate.remaining.value, loop.estimate.finished
            clock.now += 1.0
    assert left[0] == pytest.approx((60 + 3 * 100, 40 / 400))
    assert left[1] == pytest.approx((10 + 2 * 100, 140 / 350))
    assert left[2] == pytest.approx((10 + 50, 190 / 250))
    assert left[3] == pytest.approx((160, 240 / 400))


def test_an_epoch_that_goes_on_where_the_last_was_left_has_what_it_was_said_to_have():
    clock = Clock()
    loop = TrainingLoop(2, say=None, clock=clock)
    for step in loop.batches(range(100)):
        if step == 20:
            break
        clock.now += 1.0
    for step in loop.batches(range(100)):
        if step == 10:
            assert loop.estimate.remaining.value == pytest.approx(10), "as the last one"
        if step == 50:
            assert loop.estimate.remaining.value == pytest.approx(50)
        clock.now += 1.0


# Told of events


def test_events_and_batches_predict_the_same():
    def told_of_events(loop, clock, look):
        for _ in range(3):
            loop.epoch(40)
            for _ in range(40):
                look()
                clock.now += 0.5
                loop.step()
            clock.now += 7.0
            loop.validated()

    def gone_over(loop, clock, look):
        trained(loop, clock, look=look, validation_s=7.0)

    def seen(train):
        clock, lines, told = Clock(), [], []
        loop = TrainingLoop(3, "1h", say=lines.append, clock=clock)
        train(loop, clock, lambda: told.append(loop.estimate and (loop.estimate.remaining, loop.estimate.finished)))
        loop.ends()
        assert loop.estimate.remaining.value == 0 and loop.estimate.finished == 1
        return told, len(lines)

    assert seen(told_of_events) == seen(gone_over)
    assert len(seen(gone_over)[0]) == 3 * 40


def test_a_step_outside_of_training_is_refused():
    with pytest.raises(InputError, match="step: 0"):
        TrainingLoop(say=None).step()
    with pytest.raises(InputError, match=r"steps: 2\.5"):
        TrainingLoop(say=None).epoch(2.5)


@pytest.mark.parametrize(("every", "first_step"), [(250, 0), (250, 500), (100, 0), (1000, 0)])
def test_validation_in_the_middle_of_an_epoch_is_no_step_and_comes_as_often(every, first_step):
    clock, ends = Clock(), {}
    loop = TrainingLoop(first_step=first_step, say=None, clock=clock)
    loop.epoch(1000)
    loop.validated()  # before any step: it comes once
    for step in range(first_step + 1, 1001):
        clock.now += 0.1
        loop.step()
        ends[step] = loop.estimate and clock.now + loop.estimate.remaining.value
        if step % every == 0:
            clock.now += 20.0
            loop.validated()
    seen = [ends[step] for step in range(first_step + every + 1, 1001)]
    assert seen == pytest.approx([clock.now] * len(seen))
    assert ends[first_step + 2] == pytest.approx(clock.now - 20.0 * (1000 - first_step) / every)


# What is said


@pytest.mark.parametrize("steps", [3, 8, 30, 200, 5000])
@pytest.mark.parametrize(("compiles", "validation_s"), [(0.0, 0.0), (0.0, 1.0), (2.0, 0.0), (2.0, 1.0), (5.5, 0.0)])
@pytest.mark.parametrize("deadline", ["8h", 7.0])
def test_a_training_of_six_seconds_is_told_of_where_there_is_a_deadline(steps, compiles, deadline, validation_s):
    random, clock, lines = np.random.default_rng(steps), Clock(), []
    steps_s = random.lognormal(0, 1, size=2 * steps)  # so uneven that no interval becomes narrow
    steps_s *= (6.0 - compiles - 2 * validation_s) / steps_s.sum()
    seconds = iter(steps_s)
    loop = TrainingLoop(2, deadline, say=lines.append, clock=clock)
    for epoch in range(2):
        for step in loop.batches(range(steps)):
            clock.now += next(seconds) + compiles * (epoch == step == 0)
        with loop.validation():
            clock.now += validation_s
    assert clock.now == pytest.approx(56.0)
    assert lines and "Deadline" in lines[0]


def test_without_a_deadline_a_wide_interval_still_waits():
    random, clock, lines = np.random.default_rng(0), Clock(), []
    for _ in track(range(60), say=lines.append, clock=clock):
        clock.now += random.lognormal(0, 2)
        if clock.now > 50 + 20:
            break
    assert lines == []


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self):
        return True


def test_a_terminal_has_one_line_that_is_kept_up_to_date(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    clock = Clock()
    for step in track(range(50), 2, "1h", clock=clock):
        clock.now += 2.0
        if step == 30:
            print("loss 0.5")
    text = terminal.getvalue()
    assert sys.stdout is terminal, "as it was"
    assert text.count(" left ") > 50 and text.count("will be met") > 50, "at each step"
    assert text.count("\x1b[1A") == 1, "what is above it is not touched, but to leave nothing behind"
    assert text.count("\n") < 10 and text.count("loss 0.5\n") == 2
    assert text.endswith("\x1b[2K"), "nothing of it is left behind"


@pytest.mark.parametrize("given", [{}, {"say": print}])
def test_elsewhere_lines_are_printed(given, capsys, monkeypatch):
    if given:  # that is a wish for lines, on a terminal, too
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    clock = Clock()
    for _ in track(range(50), 2, clock=clock, **given):
        clock.now += 2.0
    text = capsys.readouterr().out
    assert "\x1b" not in text and 3 < text.count(" left ") == text.count("\n") < 10


def test_track_hands_every_batch_on_and_says_the_end():
    clock, lines, given = Clock(), [], []
    for number in track(range(50), 2, "1h", say=lines.append, clock=clock):
        given.append(number)
        clock.now += 2.0
    assert given == [*range(50), *range(50)]
    assert "left" in lines[0] and "will be met" in lines[0] and "validation" not in lines[0]


@pytest.mark.parametrize(
    ("batches", "given", "known"),
    [
        (iter(range(50)), {}, True),
        (enumerate(range(50)), {}, False),
        (enumerate(range(50)), {"total": 50}, True),
        (enumerate(range(50)), {"total": 50, "first_step": 10}, True),
    ],
)
def test_an_end_is_predicted_where_the_number_is_known_and_else_it_is_asked_for(batches, given, known):
    clock, lines = Clock(), []
    for number, _ in enumerate(track(batches, say=lines.append, clock=clock, **given)):
        assert number or bool(lines) != known, "at once"
        clock.now += 2.0
    assert ["`total`" in line for line in lines] == ([False] * len(lines) if known else [True])


def test_a_deadline_that_is_missed_is_said_at_once():
    clock, lines = Clock(), []
    for _ in track(range(1000), 1, 60.0, say=lines.append, clock=clock):
        clock.now += 1.0
    assert "will be missed" in lines[0]


def test_what_cannot_be_gone_through_again_is_named():
    with pytest.raises(InputError, match="batches: 'generator' gave nothing in epoch 1"):
        list(track((number for number in range(3)), 2, say=None))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epochs": 0}, "epochs: 0"),
        ({"epochs": 2.5}, "epochs: 2.5"),
        ({"epochs": 3, "first_epoch": 3}, "first_epoch: 3"),
        ({"first_step": -1}, "first_step: -1"),
        ({"first_step": 2.5}, "first_step: 2.5"),
        ({"deadline": "soon"}, "deadline: 'soon'"),
        ({"say": 5}, "say: 5"),
        ({"say": ""}, "say: ''"),
        ({"clock": 5}, "clock: 5"),
        ({"wall": None}, "wall: None"),
        ({"validation_steps": 10**400}, "validation_steps: 1000"),
        ({"level": 2}, "level: 2"),
        ({"cost": len}, "cost: .*Leave it out"),
        ({"steps": 3}, "argument: 'steps'.*first_epoch"),
        ({"total": 0}, "total"),
    ],
)
@pytest.mark.parametrize("start", [TrainingLoop, lambda **given: next(track(range(3), **given))])
def test_bad_input_is_refused_by_name(start, given, said):
    with pytest.raises(InputError, match=said):
        start(**given)


def test_more_epochs_than_there_are_are_refused():
    loop = TrainingLoop(1, say=None)
    list(loop.batches(range(3)))
    with pytest.raises(InputError, match="epochs: 1 are over"):
        list(loop.batches(range(3)))


def test_the_package_gives_both_by_name():
    assert traintime.track is track
    assert traintime.TrainingLoop is TrainingLoop
