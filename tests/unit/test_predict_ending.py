"""When a training ends: durations, deadlines, intervals from blocks, what is left, what is said, loops of one's own."""

import collections
import importlib.util
import io
import itertools
import math
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

import traintime
from traintime import paths
from traintime.errors import InputError
from traintime.explain.statistics import Interval
from traintime.predict import durations
from traintime.predict.ending.announce import Deadline, Ending, after
from traintime.predict.ending.blocks import BlockMeans
from traintime.predict.ending.loop import TrainingLoop, track
from traintime.predict.ending.progress import Progress

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    """A clock that goes on where it is told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


# Durations


def test_a_duration_is_read_and_shown():
    read = {"8h": 28_800, "1h30m": 5400, "1 hour 20 minutes": 4800, 0.5: 0.5, timedelta(hours=2): 7200}
    assert {each: durations.seconds(each) for each in read} == read
    shown = {9.96: "10 s", 59.6: "1 min", 4321: "1 h 12 min", 1e300: "more than 10,000 years"}
    assert {each: durations.text(each) for each in shown} == shown


def test_what_is_no_duration_is_refused_by_name():
    refused = {
        "is no duration": ("", "-", "8", "8x", "5ms", "1e5s", "30m 2h", "1h1h", "inf", None, True),
        "is negative": ("-5m", "- 5m", timedelta(seconds=-1), -math.inf),
        "is not finite": ("9" * 400 + "s", math.inf, math.nan, 10**400),
        "is longer than 10,000 years": (1e300, "9" * 100 + "h"),
    }
    for problem, each in ((problem, each) for problem, those in refused.items() for each in those):
        with pytest.raises(InputError) as error:
            durations.seconds(each, "deadline")
        assert (error.value.field, error.value.value, error.value.problem) == ("deadline", each, problem)
        assert '"8h"' in error.value.remedy


@given(st.floats(0, 1e8))
def test_what_is_shown_is_read_back(seconds):
    read = durations.seconds(text := durations.text(seconds))
    assert abs(read - seconds) <= max(0.0501, 0.051 * seconds)  # half of the unit shown, which is a tenth at most
    assert durations.text(read) == text


# Deadlines


def test_a_deadline_is_a_time_after_the_start_or_a_moment():
    for deadline, elapsed, now, left in (
        ("8h", 3600, NOON, 7 * 3600),
        (timedelta(hours=1), 4000, NOON, -400),
        # The calendar's clock alone counts: the other one stands while a computer sleeps.
        (NOON + timedelta(hours=1), 10, NOON + timedelta(minutes=59), 60),
        (datetime(2026, 3, 1, 13), 0, datetime(2026, 3, 1, 12), 3600),
    ):
        assert Deadline(deadline, lambda now=now: now).left(elapsed, now) == left


def test_hours_later_are_hours_also_in_the_night_when_the_clocks_change():
    evening = datetime(2026, 3, 28, 23, tzinfo=ZoneInfo("Europe/Vienna"))
    morning = after(evening, 8 * 3600)
    assert (morning.hour, morning.utcoffset()) == (8, timedelta(hours=2))
    assert Deadline(morning, lambda: evening).left(0, evening) == 8 * 3600


# Intervals from blocks


OFTEN = np.where(np.arange(2000) % 40 == 7, 20.0, 1.0)
ONCE = [1.0] * 50 + [200.0] + [1.0] * 49
SLOWER = np.linspace(0.8, 1.2, 1000)


@pytest.mark.parametrize(
    ("seen", "further", "value", "low", "high"),
    [
        pytest.param([3.0], 10, 30, 15, 60, id="from one block half to twice"),
        pytest.param(ONCE, 1000, 1000, 937, 2990, id="one disturbed step is no rule but may come again"),
        pytest.param(OFTEN, 4000, 4000 * OFTEN.mean(), 5510, 6320, id="one that comes often counts in full"),
        pytest.param(SLOWER, 1000, 998, 510, 1487, id="what became slower may go on to"),
    ],
)
def test_what_further_steps_will_take(seen, further, value, low, high):
    means = BlockMeans(level=0.9)
    for seconds in seen:
        means.add(float(seconds))
    found = means.total(further)
    assert found.value == pytest.approx(value, rel=0.02)
    assert (found.low, found.high) == pytest.approx((low, high), rel=0.05)


# What is left


ALIKE = itertools.repeat(0.5)


def training(
    progress, clock, step_s=ALIKE, steps=20, call=1, first_epoch=0, first_s=0, begin_s=0, end_s=0, tests_s=(), every=1
):
    """A made-up training, which stops at each of its events. call: steps of one; times are seconds: first_s of the
    first step beside its own, tests_s of each batch of a validation, which comes with each so many epochs.
    """
    clock.now += 1.0
    for epoch in range(first_epoch, progress.epochs):
        yield progress.epoch_begins(epoch, clock.now)
        clock.now += begin_s + (first_s if epoch == first_epoch else 0.0)
        for begin in range(0, steps, call):
            clock.now += sum(itertools.islice(step_s, min(call, steps - begin)))
            yield progress.step_done(begin + call - 1, clock.now)
        if tests_s and (epoch + 1) % every == 0:
            progress.validation_begins(clock.now)
            for batch, seconds in enumerate(tests_s):
                clock.now += seconds
                progress.validation_step_done(batch, clock.now)
            yield progress.validation_ends(clock.now)
        progress.epoch_ends()
        clock.now += end_s
        yield
    yield progress.training_ends()


@pytest.mark.parametrize(
    ("epochs", "told", "how", "exact"),
    [
        pytest.param(3, 20, {"first_s": 60}, 2, id="compiling counts once"),
        pytest.param(4, 20, {"begin_s": 3, "end_s": 2}, 45, id="epochs begin and end"),
        pytest.param(8, 20, {"tests_s": (0.2,) * 5, "every": 3}, 69, id="validation every 3"),
        pytest.param(10, 20, {"first_epoch": 8, "tests_s": (1.0,)}, 24, id="from an epoch on"),
        pytest.param(3, None, {}, 21, id="nobody counts the steps"),
        pytest.param(20, 10, {"steps": 10, "call": 4}, 35, id="steps of one call"),
    ],
)
def test_the_end_is_where_it_is_told_to_be_once_all_that_repeats_was_seen(epochs, told, how, exact):
    """told: steps of an epoch as they are told before; exact: events before each end that is told is the one that
    comes.
    """
    progress = Progress(epochs, told, (clock := Clock()).now)
    seen = [(clock.now, progress.remaining(clock.now)) for _ in training(progress, clock, **how)]
    nothing = 2 if told else exact  # events before an end is told at all
    assert [found for _, found in seen[:nothing]] == [None] * nothing
    assert all(found is not None for _, found in seen[nothing:])
    ends = [now + found.value for now, found in seen[exact:]]
    assert ends == pytest.approx([clock.now] * len(ends), rel=1e-6)
    assert seen[-1][1] == Interval(0, 0, 0)


def test_what_runs_is_taken_off_as_it_runs_but_is_not_over_before_its_end():
    progress = Progress(1, 10, 0.0)
    progress.epoch_begins(0, 0.0)
    for batch in range(6):
        progress.step_done(batch, batch + 1.0)
    assert progress.remaining(6.5).value == pytest.approx(3.5)
    assert progress.remaining(60.0).value == pytest.approx(3)  # a computer that slept, say
    assert progress.remaining(60.0).low >= 0


def correlated(random, number, walk=0.0, slope=0.0):
    """Durations around 1 s: noise in which a step is like the one before, and a speed that goes for a walk or down."""
    noise = lfilter([math.sqrt(1 - 0.9**2)], [1, -0.9], random.normal(size=number))
    speed = np.cumsum(random.normal(size=number)) * walk / math.sqrt(number) + np.linspace(0, slope, number)
    return np.maximum(1 + 0.1 * noise + speed, 0.1)


@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize("drift", [{"walk": 0.08}, {"slope": 0.08}], ids=["walk", "slope"])
def test_nine_of_ten_intervals_hold_the_end(drift, share):
    """Trainings of four epochs that compile first, with noise in which neighbours are alike, and drift."""
    random, held = np.random.default_rng(5), []
    for _ in range(200):
        progress, steps = Progress(4, 200, (clock := Clock()).now), iter(correlated(random, 800, **drift))
        moments = training(progress, clock, steps, 200, first_s=20)
        next(moment for moment in moments if abs(progress.finished - share) < 1e-9)
        asked, found = clock.now, progress.remaining(clock.now)
        collections.deque(moments, maxlen=0)
        held.append(clock.now - asked in found)
    assert 0.85 <= np.mean(held) <= 0.98


@pytest.mark.parametrize(
    ("kinds", "wrong"),
    [
        pytest.param([(400, 0.001), (600, 0.5)], 6, id="work that was done before is skipped"),
        pytest.param([(10_000, 0.0002), (20_000, 0.004)], 500, id="learning starts"),
        pytest.param([(500, 0.1), (500, 0.306)], 6, id="larger pictures"),
        pytest.param([(100, 1.0), (900, 0.1)], 6, id="a cache was filled"),
    ],
)
def test_what_was_before_a_change_of_speed_is_forgotten(kinds, wrong):
    """Soon after the change (wrong: steps) every interval holds the end; one line says that the speed has changed, and
    no verdict afterwards is wrong, with a deadline that is met and one that is not.
    """
    random = np.random.default_rng(3)
    steps = np.concatenate([second * np.exp(0.1 * random.normal(size=number)) for number, second in kinds])
    for share in (0.8, 1.2):
        clock, said = Clock(), []
        ending = Ending(share * steps.sum(), say=said.append, clock=clock, wall=lambda: NOON)
        ending.begins(1, len(steps))
        ending.tell(Progress.epoch_begins, 0, clock.now)
        held, verdicts = [], set()
        for step, seconds in enumerate(steps):
            clock.now += seconds
            ending.step_done(step)
            ending.speak()
            if kinds[0][0] + wrong < step < 0.9 * len(steps) and step % 20 == 0:
                found = ending.estimate
                held.append(steps[step + 1 :].sum() in found.remaining)
                verdicts.add(found.meets)
        assert np.mean(held) > 0.9
        assert (share < 1) not in verdicts
        assert sum("now and took" in line for line in said) == 1


# What is said


class Speaker:
    """Says what is due of a training of which it is made up how it stands."""

    def __init__(self, deadline=None, **asked):
        self.clock, self.said = Clock(), []
        self.ending = Ending(deadline, say=self.said.append, clock=self.clock, wall=lambda: NOON, **asked)
        known = {"steps": 100, "observed": True, "unseen": False, "finished": 0.1}
        known["within"] = SimpleNamespace(changed=None, unsettled=False)
        self.progress = SimpleNamespace(start=0.0, epochs=3, epoch=0, first_epoch=0, **known)
        self.ending._progress = self.progress

    def at(self, elapsed, remaining=1000.0, spread=0.1, begins=False, **stands):
        """The lines that come so long after the start. remaining: seconds; spread: half of the interval, a share."""
        self.clock.now = elapsed
        self.said.clear()
        found = Interval(remaining, remaining * (1 - spread), remaining * (1 + spread))
        vars(self.progress).update(stands, remaining=lambda now: found)
        self.ending.speak(begins)
        return list(self.said)


def test_a_line_as_a_reader_sees_it():
    interval = "90 %: 57 min 36 s to 1 h 26 min"
    assert Speaker().at(2, 4320, 0.2) == [f"10 % done, 1 h 12 min left ({interval}). Ends at 13:12."]
    assert "(80 %: " in Speaker(level=0.8).at(2)[0]
    assert "Ends at 12:01:40." in Speaker().at(1, 100)[0], "what ends soon is told to the second"
    assert "validation, if there is any, comes on top" in Speaker().at(1, unseen=True)[0]


@pytest.mark.parametrize(
    ("deadline", "moments", "spread", "first"),
    [
        (None, (1, 2), 0.2, 1),  # the interval is narrow
        (None, (5, 64, 65, 66), 0.9, 65),  # time has passed
        ("30m", (1, 2.9, 3, 4), 0.9, 3),  # training may be over soon
        ("10h", (1, 2), 0.9, 1),  # however wide it is, the deadline will be met
    ],
)
def test_the_first_line_comes_when_there_is_something_to_say(deadline, moments, spread, first):
    speaker = Speaker(deadline)
    assert next(moment for moment in moments if speaker.at(moment, 1800, spread)) == first


@pytest.mark.parametrize(
    ("every", "moments"),
    [("doubling", [1, 2, 4, 8, 16, 25, 50]), ("epoch", [1, 25, 75]), ("1m", [1, 61]), (20, [1, 21, 41, 61, 81])],
)
def test_lines_come_when_the_time_has_doubled_with_each_epoch_or_after_a_time(every, moments):
    speaker = Speaker(every=every)
    epochs = {at: (at >= 25) + (at >= 75) for at in range(1, 100)}
    assert [at for at, epoch in epochs.items() if speaker.at(at, begins=at in (25, 75), epoch=epoch)] == moments


BEGINS = "Deadline (30 min after the start): "


def test_a_missed_deadline_is_said_at_once_and_so_is_each_change():
    speaker = Speaker("30m")
    for elapsed, remaining, spread, said in (
        (600, 3600, 0.1, f"{BEGINS}will be missed by 40 min. 10 % done, 1 h left (90 %: 54 min to 1 h 6 min)."),
        (601, 3600, 0.1, None),
        (602, 1200, 0.1, None),  # too close to call is no change
        (603, 3600, 0.1, None),
        (604, 596, 0.1, f"{BEGINS}will be met after all, with 10 min to spare. 10 % done, "),
        (605, 600, 0.1, None),
        (606, 3600, 0.1, f"{BEGINS}will be missed by "),
    ):
        lines = speaker.at(elapsed, remaining, spread)
        assert len(lines) == (said is not None) and all(line.startswith(said) for line in lines), elapsed


# A loop of one's own


def test_a_validation_is_counted_as_often_as_it_came_and_what_is_over_is_over():
    clock, ends = Clock(), []
    loop = TrainingLoop(3, say=None, clock=clock)
    for epoch in range(3):
        for _ in loop.batches(range(40)):
            ends += [clock.now + loop.estimate.remaining.value] if epoch else []
            clock.now += 0.5
        with loop.validation():
            clock.now += 7.0
    assert ends == pytest.approx([clock.now] * 2 * 40)
    loop.ends()
    assert loop.estimate.remaining.value == 0 and loop.estimate.finished == 1
    with pytest.raises(InputError, match="epochs: 3 are over"):
        loop.epoch()


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


def test_track_leaves_out_what_was_done():
    assert list(track(range(5), 2, first_step=3, say=None)) == [3, 4, 0, 1, 2, 3, 4]
    assert list(track(range(5), 2, first_step=3, first_epoch=1, say=None)) == [3, 4]


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


@pytest.mark.parametrize(("every", "first_step"), [(250, 0), (250, 500)])
def test_validation_in_the_middle_of_an_epoch_is_no_step_and_comes_as_often(every, first_step):
    clock, ends = Clock(), {}
    loop = TrainingLoop(first_step=first_step, say=None, clock=clock)
    loop.epoch(1000)
    loop.validated()  # before any step: it comes once
    for step in range(first_step + 1, 1001):
        clock.now += 0.1
        loop.step()
        if step % every == 0:
            clock.now += 20.0
            loop.validated()
        ends[step] = loop.estimate and clock.now + loop.estimate.remaining.value
    seen = [ends[step] for step in range(first_step + every, 1001)]
    assert seen == pytest.approx([clock.now] * len(seen))
    assert ends[first_step + 2] == pytest.approx(clock.now - 20.0 * (1000 - first_step) / every)


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
    assert "validation" not in text, "who writes a loop knows of it"
    assert text.count("\x1b[1A") == 1, "what is above it is not touched, but to leave nothing behind"
    assert text.count("\n") < 10 and text.count("loss 0.5\n") == 2
    assert text.endswith("\x1b[2K"), "nothing of it is left behind"


def test_elsewhere_lines_are_printed(capsys):
    clock = Clock()
    for _ in track(range(50), 2, clock=clock):
        clock.now += 2.0
    text = capsys.readouterr().out
    assert "\x1b" not in text and 3 < text.count(" left ") == text.count("\n") < 10


@pytest.mark.parametrize(
    ("batches", "given", "known"),
    [
        (iter(range(50)), {}, True),
        (enumerate(range(50)), {}, False),
        (enumerate(range(50)), {"total": 50, "first_step": 10}, True),
    ],
)
def test_an_end_is_predicted_where_the_number_is_known_and_else_it_is_asked_for(batches, given, known):
    clock, lines = Clock(), []
    for number, _ in enumerate(track(batches, say=lines.append, clock=clock, **given)):
        assert number or bool(lines) != known, "at once"
        clock.now += 2.0
    assert ["`total`" in line for line in lines] == ([False] * len(lines) if known else [True])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epochs": 0}, "epochs: 0"),
        ({"epochs": 2.5}, "epochs: 2.5"),
        ({"first_step": -1}, "first_step: -1"),
        ({"deadline": "soon"}, "deadline: 'soon' is no duration"),
        ({"deadline": "0s"}, "deadline: '0s' leaves no time at all"),
        ({"deadline": NOON, "wall": lambda: NOON}, "deadline: .* has passed"),
        ({"validation_steps": 10**400}, "validation_steps: 1000"),
        ({"steps": 3}, "argument: 'steps'.*first_epoch"),
        ({"total": 0}, "total"),
    ],
)
@pytest.mark.parametrize("start", [TrainingLoop, lambda **given: next(track(range(3), **given))])
def test_bad_input_is_refused_by_name(start, given, said):
    with pytest.raises(InputError, match=said):
        start(**given)


def test_batches_that_can_be_gone_through_once_are_refused():
    with pytest.raises(InputError, match="batches: 'generator' gave nothing in epoch 1"):
        list(track((number for number in range(3)), 2, say=None))


# Callbacks for other libraries' trainers, told of a training of 40 steps that goes on from the tenth


def of_hugging_face(eta):
    state = SimpleNamespace(is_world_process_zero=True, global_step=10, max_steps=40)
    eta.on_evaluate(None, state, None)  # an evaluation outside of training
    eta.on_train_begin(None, state, None)
    for step in range(11, 41):
        yield
        eta.on_step_end(None, state, None)
        if step % 10 == 0:
            eta.on_evaluate(None, state, None)
    eta.on_train_end(None, state, None)


def of_lightning(eta, steps=-1):
    """Two optimizers make a step each with a batch; or the gradients of two batches are accumulated to one of 40."""
    loop = SimpleNamespace(total_batch_idx=9)
    about = {"max_steps": steps, "max_epochs": 2 if steps == -1 else -1, "num_training_batches": 20}
    trainer = SimpleNamespace(is_global_zero=True, global_step=10, fit_loop=SimpleNamespace(epoch_loop=loop), **about)
    eta.on_validation_end(trainer, None)  # its trial before a training
    eta.on_train_start(trainer, None)
    for batch in range(10, 40) if steps == -1 else range(60):
        loop.total_batch_idx = batch
        trainer.global_step += 2 if steps == -1 else batch % 2
        if steps == -1 or batch % 2:
            yield
        eta.on_train_batch_end(trainer, None, None, None, batch)
        if batch % 20 == 19:
            eta.on_validation_end(trainer, None)
    eta.on_train_end(trainer, None)


def of_lightning_by_steps(eta):
    yield from of_lightning(eta, 40)


@pytest.mark.parametrize(
    ("file", "library", "base", "train"),
    [
        ("huggingface", "transformers", "TrainerCallback", of_hugging_face),
        ("lightning", "lightning.pytorch", "Callback", of_lightning),
        ("lightning", "lightning.pytorch", "Callback", of_lightning_by_steps),
    ],
)
def test_the_examples_tell_of_the_end_in_other_trainers(file, library, base, train, monkeypatch):
    for name in (library.split(".")[0], library):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**{base: object}))
    spec = importlib.util.spec_from_file_location(file, paths.ROOT / "examples" / f"eta_{file}.py")
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    clock, lines, shares = Clock(), [], []
    eta = module.EtaCallback("1h", say=lines.append, clock=clock)
    for _ in train(eta):
        shares.append(eta.loop.estimate and eta.loop.estimate.finished)
        clock.now += 2.0
    assert shares == [None, None, *(pytest.approx(done / 30) for done in range(2, 30))]
    assert eta.loop is None
    assert lines and "Deadline (1 h after the start): will be met." in lines[0]


def test_the_package_is_there_without_keras():
    code = "import sys, traintime; assert 'Eta' in dir(traintime); assert 'keras' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (traintime.track, traintime.TrainingLoop) == (track, TrainingLoop)
