"""How far a training is and what is left of it, from the moments at which its steps were done. Knows no framework."""

import math

from traintime.explain.statistics import Interval
from traintime.predict.ending.blocks import FEWEST, NOTHING, BlockMeans

# A step of validation before one was seen, in steps of training: a forward pass is a third of forward and back, which
# are two matrix products for one. What else a step does, and how well each part runs, makes it a quarter to a half.
FORWARD = Interval(1 / 3, 1 / 4, 1 / 2)
EVEN = 1e-6  # by which places of validations are off, in their distance


class Progress:
    """A training under way, told of what happens in it; times are seconds on any clock that does not go back.

    An epoch is its first step (with all that the beginning of an epoch takes), the further steps, a validation or none,
    and an end: each has its own mean. The first step of all, which compiles, is in none of them.

    epochs: number of the last epoch, as `fit` counts them; steps: of an epoch, or None where an epoch has to end before
    anybody knows; start: when training began; validation_steps: if known (0: no validation); level: of intervals.
    """

    def __init__(
        self, epochs: int, steps: int | None, start: float, validation_steps: int | None = None, level: float = 0.9
    ) -> None:
        self.epochs, self.steps, self.start, self.validation_steps = epochs, steps, start, validation_steps
        self.within, self.beginnings = BlockMeans(level), BlockMeans(level)
        self.validations, self.ends = BlockMeans(level, once=True), BlockMeans(level, once=True)
        self.first_epoch: int | None = None
        self.epoch = 0
        self.done = 0  # steps of this epoch
        self.over = True  # whether this epoch is
        self.ended = False
        self.executed = 1  # steps of an epoch's first call
        self._told = steps  # how many an epoch was said to have; it may have had others
        self._whole: int | None = None  # steps of the last epoch that is over
        self._from = 0  # steps of this epoch that were done before training was resumed
        self._run = 0  # steps that were run
        self._since = start  # when what runs now began: moved on by as much as a validation took meanwhile
        self._validation_began: float | None = None
        self._first_tested: tuple[int, float] | None = None  # batches of this validation's first call, and its moment
        self._tested = 0  # batches of this validation
        self._resumed = 0.0  # where training began, in epochs
        self._validated: list[float] = []  # where the last two validations were, in epochs

    # What happens

    def epoch_begins(self, epoch: int, time: float, steps: int | None = None, first_step: int = 0) -> None:
        """An epoch begins, and the one before is over; numbers count from 0. steps: of it, where that is known;
        first_step: the first that was not done before training was resumed.
        """
        if self.first_epoch is None:
            self.first_epoch = epoch
            self._resumed = epoch + (first_step / self.steps if self.steps else 0.0)
        else:
            self.epoch_ends()
            self.ends.add(max(time - self._since, 0.0))
        if steps is not None and steps != self._told:  # else as many as the last one had, whatever it was said to have
            self.steps = self._told = steps
        self.epoch, self.over = epoch, False
        self.done = self._from = first_step
        self._since = time

    def step_done(self, batch: int, time: float) -> None:
        """The step of this number in its epoch was done, and all before it, several of one call among them. Late news
        of an earlier step is none: threads may pass each other.
        """
        done = batch + 1
        if self.steps is not None and self.done < self.steps < done:
            done = self.steps  # the last call of an epoch may have fewer steps than its number tells
        new = done - self.done
        if new <= 0:
            return
        if self.steps is not None and done > self.steps:  # the last epoch was left early, and this one is not
            self.steps = max(self._told or 0, done)
        seconds = max(time - self._since, 0.0)
        if self.done > self._from:
            self.within.add(seconds, new)
        else:
            self.executed = new
            if self.epoch != self.first_epoch:
                self.beginnings.add(seconds)
        self.done, self._since = done, max(time, self._since)
        self._run += new

    def validation_begins(self, time: float) -> None:
        """Validation begins; steps that were handed to the device before may not be done yet."""
        self._validation_began, self._first_tested, self._tested = time, None, 0

    def validation_step_done(self, batch: int, time: float) -> None:
        """As `step_done`, of a validation."""
        if self._validation_began is not None and batch >= self._tested:
            self._tested = batch + 1
            self._first_tested = self._first_tested or (self._tested, time)

    def validation_ends(self, time: float) -> None:
        """Validation ends. One before any step is no part of what repeats."""
        began, self._validation_began = self._validation_began, None
        if began is None or not self._run:
            return
        seconds = expected = max(time - max(began, self._since), 0.0)
        first, at = self._first_tested or (self._tested, time)
        if not len(self.validations) and self._tested > first:
            # The first batch of the first validation compiles: the others tell what all will take.
            expected = min(max(time - at, 0.0) * self._tested / (self._tested - first), seconds)
        self.validations.add(expected)
        self._since += seconds
        if self._place not in self._validated[-1:]:  # a place may be validated twice
            self._validated = [*self._validated[-1:], self._place]

    def validated(self, time: float) -> None:
        """A validation is over of which nobody told when it began: after the last step, or the validation before it."""
        self.validation_begins(self._since)
        self.validation_ends(time)

    def epoch_ends(self, over: bool = True) -> None:
        """The epoch's steps are over, and all of them were told of. over: whether its validation is, too."""
        if self.done:
            if self._validated[-1:] == [self._place]:
                self._validated[-1] = self.epoch + 1.0  # an end, also where more steps were told of
            self.steps = self._whole = self.done
        self.over = over

    def training_ends(self) -> None:
        self.ended = True

    # What is left

    @property
    def observed(self) -> bool:
        """Whether steps enough were seen for an estimate that is worth a word: FEWEST besides the first of all."""
        return len(self.within) + len(self.beginnings) >= FEWEST

    @property
    def unseen(self) -> bool:
        """Whether there may be validation and nothing tells how long: none was seen, and no epoch has ended."""
        first = self.epoch == self.first_epoch and not self.over
        return first and not len(self.validations) and self.validation_steps is None

    @property
    def finished(self) -> float:
        """Share of this run's steps, without those before it was resumed, that are done; NaN where nobody knows."""
        if self.first_epoch is None or self.steps is None:
            return math.nan if self._run else 0.0
        every = self._run + self._left()
        return self._run / every if every > 0 else 1.0

    def remaining(self, now: float) -> Interval | None:
        """Seconds until training ends, if nothing stops it before; None before a second step was done, or before an
        epoch has ended whose steps nobody counted. Validation before one was seen is FORWARD of as many steps of
        training where `validation_steps` says how many. Ends and first steps of epochs count from the first one seen.
        """
        if self.ended:
            return NOTHING
        if self.first_epoch is None or self.steps is None:
            return None
        later = self.epochs - 1 - self.epoch  # epochs that have not begun
        between = self.over or self.done >= self.steps
        begins = not between and self.done == self._from
        begun = later + begins if len(self.beginnings) else 0
        steps = max(self._left() - begun * min(self.executed, self._usual), 0)
        if steps and not len(self.within):
            return None
        validations = self._of_validations(self._validations_left())
        parts = [self.within.total(steps), self.beginnings.total(begun), validations, self.ends.total(later + 1)]
        # What runs now has run for some time already; it is not over before something says so.
        running = self.within.total(self.executed).value
        if between or begins:
            running = self.beginnings.total(1).value or running
        if between:
            running += self.ends.total(1).value + self._of_validations(1).value
        passed = min(max(now - self._since, 0.0), running)
        # Ends add to ends: parts of one training run on one machine, and are slow together.
        ends = (sum(getattr(part, end) for part in parts) for end in ("value", "low", "high"))
        return Interval(*(max(end - passed, 0.0) for end in ends))

    @property
    def _usual(self) -> int:
        """Steps of an epoch that has not begun: as the last whole one had, else as this one has."""
        return self._whole or self.steps or 0

    def _left(self) -> int:
        """Steps to come."""
        rest = 0 if self.over else max(self.steps - self.done, 0)
        return max(rest + (self.epochs - 1 - self.epoch) * self._usual, 0)

    def _of_validations(self, number: int) -> Interval:
        if len(self.validations) or not self.validation_steps:
            return self.validations.total(number)
        steps = self.within.total(number * self.validation_steps)
        return Interval(steps.value * FORWARD.value, steps.low * FORWARD.low, steps.high * FORWARD.high)

    @property
    def _place(self) -> float:
        """Where training is, in epochs: at 1 when the first one ends, at 0.5 in its middle."""
        return self.epoch + (1.0 if self.over or not self.steps else min(self.done / self.steps, 1.0))

    def _validations_left(self) -> int:
        """Validations to come, in even distances as so far."""
        if self._validated:
            last = self._validated[-1]
            # The first one tells the distance from where training began, in an epoch's middle only if it was in one.
            began = self._resumed if last % 1 else self.first_epoch
            every = last - (self._validated[0] if len(self._validated) > 1 else began)
        elif self.validation_steps:
            last, every = self.first_epoch, self.epoch + self.over + 1 - self.first_epoch  # none in those that are over
        else:
            return 0
        if every <= 0:  # validated twice at one place
            return 0
        may_come = self.done and not self.over  # one that is due, before the next step
        passed = math.floor((self._place - last) / every + (-EVEN if may_come else EVEN))
        return max(math.floor((self.epochs - last) / every + EVEN) - max(passed, 0), 0)
