"""When a loop of one's own will end: what it goes over, when its steps are done, and what is refused."""

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


def test_the_end_is_where_even_steps_put_it():
    clock, ends = Clock(), []
    loop = TrainingLoop(3, say=None, clock=clock)
    trained(loop, clock, look=lambda: ends.append(loop.estimate and clock.now + loop.estimate.remaining.value))
    assert ends[0] is None, "nothing is known before a step was done"
    assert ends[5:] == pytest.approx([clock.now] * (3 * 40 - 5))


def test_validation_counts_once_it_was_seen():
    clock, ends = Clock(), []
    loop = TrainingLoop(4, say=None, clock=clock)
    trained(loop, clock, 4, validation_s=7.0, look=lambda: ends.append((clock.now, loop.estimate)))
    later = [now + seen.remaining.value for now, seen in ends[2 * 40 :]]
    assert later == pytest.approx([clock.now] * len(later))


def test_a_loop_whose_length_nobody_knows_can_tell_after_an_epoch():
    clock = Clock()
    loop = TrainingLoop(2, say=None, clock=clock)
    for _ in loop.batches(iter(range(30))):
        assert loop.estimate is None
        clock.now += 1.0
    for _ in loop.batches(iter(range(30))):
        clock.now += 1.0
    assert loop.estimate.remaining.value == pytest.approx(0.0)


def test_an_epoch_that_is_left_early_makes_the_others_as_long():
    clock = Clock()
    loop = TrainingLoop(3, say=None, clock=clock)
    for number in loop.batches(range(100)):
        clock.now += 1.0
        if number == 20:
            break
    for _ in loop.batches(range(100)):
        clock.now += 1.0
    trained(loop, clock, 1, 100, 1.0)
    assert loop.estimate.remaining.value == pytest.approx(0.0)


def test_a_training_that_goes_on_counts_what_is_left():
    clock, seen = Clock(), []
    loop = TrainingLoop(10, first_epoch=8, say=None, clock=clock)
    trained(loop, clock, 2, look=lambda: seen.append(loop.estimate))
    assert seen[20].finished == pytest.approx(20 / 80)
    assert seen[20].remaining.value == pytest.approx(60 * 0.5)


def test_track_hands_every_batch_on_and_says_the_end():
    clock, lines, given = Clock(), [], []
    for number in track(range(50), 2, "1h", say=lines.append, clock=clock):
        given.append(number)
        clock.now += 2.0
    assert given == [*range(50), *range(50)]
    assert "left" in lines[0] and "will be met" in lines[0]


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
        ({"deadline": "soon"}, "deadline: 'soon'"),
        ({"say": 5}, "say: 5"),
        ({"level": 2}, "level: 2"),
    ],
)
def test_bad_input_is_refused_by_name(given, said):
    with pytest.raises(InputError, match=said):
        TrainingLoop(**given)


def test_more_epochs_than_there_are_are_refused():
    loop = TrainingLoop(1, say=None)
    list(loop.batches(range(3)))
    with pytest.raises(InputError, match="epochs: 1 are over"):
        list(loop.batches(range(3)))


def test_the_package_gives_both_by_name():
    assert traintime.track is track
    assert traintime.TrainingLoop is TrainingLoop
