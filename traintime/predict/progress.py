"""How far a training is and what is left of it, from the moments at which its steps were done. Knows no framework."""

from traintime.explain.statistics import Interval
from traintime.predict.blocks import FEWEST, BlockMeans

# A step of validation before one was seen, in steps of training: a forward pass is a third of forward and back, which
# are two matrix products for one. What else a step does, and how well each part runs, makes it a quarter to a half.
FORWARD = Interval(1 / 3, 1 / 4, 1 / 2)
NOTHING = Interval(0.0, 0.0, 0.0)


class Once:
    """Durations of something that comes once an epoch, of which the first counts only until there is a second.

    The first validation and the first checkpoint do what is done once: compile, make folders, fill caches.
    """

    def __init__(self) -> None:
        self.first: Interval | None = None
        self.later = BlockMeans()

    def add(self, seconds: float, without_once: float | None = None) -> None:
        """One more took so long; without_once: seconds that are expected of the next, where the first can tell."""
        if self.first is not None:
            self.later.add(seconds)
            return
        value = seconds if without_once is None else without_once
        # From a single one: half to twice, as BlockMeans has it, and that all may be as before.
        self.first = Interval(value, value / 2, max(2 * value, seconds))

    @property
    def mean(self) -> float:
        """Seconds of one; 0 where none was seen."""
        return self.later.mean if len(self.later) else (self.first or NOTHING).value

    def total(self, times: int, level: float) -> Interval:
        """Seconds of so many more; nothing where none was seen."""
        if self.first is None or times <= 0:
            return NOTHING
        return self.later.total(times, level) if len(self.later) else self.first.scaled(times)


class Progress:
    """A training under way, told of what happens in it; times are seconds on any clock that does not go back.

    An epoch is its first step (with all that the beginning of an epoch takes), the further steps, a validation or
    none, and an end (checkpoints, logs): each has its own mean. The first step of all, which compiles, was paid once
    and is in none of them.

    epochs: number of the last epoch, as `fit` counts them; steps: of an epoch, or None where an epoch has to end before
    anybody knows; start: when training began; validation_steps: if known (0: no validation); level: of intervals.
    """

    def __init__(
        self, epochs: int, steps: int | None, start: float, validation_steps: int | None = None, level: float = 0.9
    ) -> None:
        self.epochs, self.steps, self.start, self.level = epochs, steps, start, level
        self.validation_steps = validation_steps
        self.within, self.beginnings, self.validations, self.ends = BlockMeans(), BlockMeans(), Once(), Once()
        self.first_epoch: int | None = None
        self.epoch = 0
        self.done = 0  # steps of this epoch
        self.over = True  # whether this epoch is
        self.ended = False
        self.executed = 1  # steps of an epoch's first call
        self._last = start  # when the last thing happened that what is left is counted from
        self._trained = start  # when the last step was done
        self._began = start  # when this epoch did
        self._validation_began: float | None = None
        self._validated_s = 0.0  # of this epoch's validation
        self._first_tested: tuple[int, float] | None = None  # batches of this validation's first call, and its moment
        self._tested = 0  # batches of this validation
        self._validated: list[int] = []  # the last two epochs that had one

    # What happens

    def epoch_begins(self, epoch: int, time: float) -> None:
        """An epoch begins; numbers count from 0."""
        if self.first_epoch is None:
            self.first_epoch = epoch
        else:
            self.ends.add(max(time - self._trained - self._validated_s, 0.0))
        self.epoch, self.done, self.over = epoch, 0, False
        self._began, self._validated_s = time, 0.0
        self._last = max(self._last, time)

    def step_done(self, batch: int, time: float) -> None:
        """The step of this number was done, and all before it; numbers count from 0 in each epoch.

        Several steps of one call have the number of the last one. Late news of a step, after that of a later one, is
        none: threads may pass each other.
        """
        done = batch + 1
        if self.steps is not None and self.done < self.steps < done:
            done = self.steps  # the last call of an epoch may have fewer steps than its number tells
        new = done - self.done
        if new <= 0:
            return
        time = max(time, self._trained)
        if self.done:
            self.within.add(time - self._trained, new)
        else:
            self.executed = new
            if self.epoch != self.first_epoch:
                self.beginnings.add(time - self._began)
        self.done, self._trained, self._last = done, time, time

    def validation_begins(self, time: float) -> None:
        """Validation begins; steps that were handed to the device before may not be done yet."""
        self._validation_began, self._first_tested, self._tested = time, None, 0

    def validation_step_done(self, batch: int, time: float) -> None:
        """As `step_done`, of a validation."""
        if self._validation_began is not None and batch >= self._tested:
            self._tested = batch + 1
            if self._first_tested is None:
                self._first_tested = self._tested, time

    def validation_ends(self, time: float) -> None:
        """Validation ends."""
        if self._validation_began is None:
            return
        seconds = max(time - max(self._validation_began, self._trained), 0.0)
        without_once = None
        if self._first_tested is not None and self._tested > self._first_tested[0]:
            # The first batch of the first validation compiles: the others tell what all will take.
            first, at = self._first_tested
            without_once = min(max(time - at, 0.0) * self._tested / (self._tested - first), seconds)
        self.validations.add(seconds, without_once)
        if self.epoch not in self._validated[-1:]:  # an epoch may be validated twice
            self._validated = [*self._validated[-1:], self.epoch]
        self._validated_s, self._validation_began = self._validated_s + seconds, None
        self._last = max(time, self._last)

    def epoch_ends(self) -> None:
        """The epoch's steps and its validation are over, and all of them were told of."""
        self.over = True
        self.steps_end()

    def steps_end(self) -> None:
        """The epoch's steps are over; its validation may come."""
        if self.done:
            self.steps = self.done

    def training_ends(self) -> None:
        """Nothing comes any more."""
        self.ended = True

    # What is left

    @property
    def observed(self) -> bool:
        """Whether steps enough were seen for an estimate that is worth a word: FEWEST besides the first of all."""
        return len(self.within) + len(self.beginnings) >= FEWEST

    @property
    def unseen(self) -> bool:
        """Whether there may be validation and nothing tells how long: none was seen, and no epoch has ended."""
        started = self.first_epoch is not None and self.epoch == self.first_epoch
        return self.validations.first is None and self.validation_steps is None and started and not self.over

    @property
    def finished(self) -> float:
        """Share of all steps that are done; NaN where nobody knows yet how many there are."""
        if self.first_epoch is None or self.steps is None:
            return 0.0 if self.done == 0 else float("nan")
        every = (self.epochs - self.first_epoch) * self.steps
        return min(((self.epoch - self.first_epoch) * self.steps + self.done) / every, 1.0) if every > 0 else 1.0

    def remaining(self, now: float) -> Interval | None:
        """Seconds until training ends, if nothing stops it before; None where that is unknown yet.

        It cannot before a second step was done, and before an epoch has ended whose steps nobody counted. Validation
        before one was seen is FORWARD of as many steps of training where `validation_steps` says how many, else it is
        not counted. The ends of epochs count from the first one that was seen.
        """
        if self.ended:
            return NOTHING
        if self.first_epoch is None or self.steps is None:
            return None
        later = self.epochs - 1 - self.epoch  # epochs that have not begun
        between = self.over or self.done >= self.steps
        within = later * max(self.steps - self.executed, 0)
        if not between:
            within += max(self.steps - (self.done or self.executed), 0)
        beginnings = later + (not between and not self.done)
        steps, begun = self._of_steps(within), self._of_beginnings(beginnings)
        if steps is None or begun is None:
            return None
        validations = self._of_validations(self._validations_left())
        parts = [steps, begun, validations, self.ends.total(later + 1, self.level)]
        # What runs now has run for some time already; it is not over before something says so.
        passed = min(max(now - self._last, 0.0), self._running(between, later))
        # Ends add to ends: parts of one training run on one machine, and are slow together.
        ends = (sum(getattr(part, end) for part in parts) for end in ("value", "low", "high"))
        return Interval(*(max(end - passed, 0.0) for end in ends))

    def _running(self, between: bool, later: int) -> float:
        """Seconds that what runs now should take in all: a step, or what lies between the steps of two epochs."""
        step = self.executed * self.within.mean
        beginning = self.beginnings.mean if len(self.beginnings) else step
        if not between:
            return step if self.done else beginning
        seconds = self.ends.mean + (beginning if later else 0.0)
        if self._validations_left() > self._validations_left(self.epoch + 1):  # that of this epoch is still to come
            seconds += self._of_validations(1).value
        return seconds

    def _of_steps(self, number: int) -> Interval | None:
        if number <= 0:
            return NOTHING
        return self.within.total(number, self.level) if len(self.within) else None

    def _of_beginnings(self, number: int) -> Interval | None:
        """First steps of epochs, like any other where none was seen but that of the first epoch."""
        if number <= 0:
            return NOTHING
        seen = len(self.beginnings)
        return self.beginnings.total(number, self.level) if seen else self._of_steps(number * self.executed)

    def _of_validations(self, number: int) -> Interval:
        if self.validations.first is not None or not self.validation_steps or not number:
            return self.validations.total(number, self.level)
        steps = self._of_steps(number * self.validation_steps) or NOTHING
        return Interval(steps.value * FORWARD.value, steps.low * FORWARD.low, steps.high * FORWARD.high)

    def _validations_left(self, since: int | None = None) -> int:
        """Validations from this epoch on, or from another one: they come every so many epochs, as they have so far."""
        since = self.epoch + self.over if since is None else since
        before = self.first_epoch - 1
        if self._validated:
            last = self._validated[-1]
            every = last - (self._validated[0] if len(self._validated) > 1 else before)
        elif self.validation_steps:
            last, every = before, self.epoch + self.over - before  # none in the epochs that are over
        else:
            return 0
        since = max(since, last + 1)
        return max((self.epochs - 1 - last) // every - (since - 1 - last) // every, 0)
