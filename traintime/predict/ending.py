"""When a training under way will end, and what is said of it: for Keras' `fit` (eta) and for any loop (track)."""

import copy
import inspect
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from traintime.errors import LARGEST, InputError, unknown
from traintime.predict.answer import within
from traintime.predict.lines import Deadline, EndEstimate, Lines, after, rhythm
from traintime.predict.progress import Progress

SPARE = 1.25  # a deadline will be met only if this much more would do, too, where validation may come and was not seen
# An estimate takes some tenths of a millisecond: at least so many seconds lie between two, and this share of the time.
PAUSE_S, PAUSE = 1.0, 0.02


def refuse_unknown(asked: dict[str, Any], *functions: Callable[..., Any]) -> None:
    """Raise InputError for an argument that none of these functions has by its name."""
    parameters = [one for function in functions for one in inspect.signature(function).parameters.values()]
    known = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
    for name, value in asked.items():
        if name == "cost":
            raise InputError("cost", value, "is an argument no more", "Leave it out: all steps count alike.")
        if name not in known:
            raise unknown("argument", name, sorted(known))


class Ending:
    """The end of a training: events come from any thread, lines are said in the thread that calls `speak`.

    Its arguments are those of traintime.Eta. Raises InputError for any other value.
    """

    def __init__(
        self,
        deadline: str | float | timedelta | datetime | None = None,
        *,
        level: float = 0.9,
        every: str | float | timedelta = "doubling",
        say: Callable[[str], Any] | None = print,
        validation_steps: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
        wall: Callable[[], datetime] = datetime.now,
    ) -> None:
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
            raise InputError("level", level, "is no share", "Give a number between 0 and 1, such as 0.9.")
        if validation_steps is not None and (type(validation_steps) is not int or not 0 <= validation_steps <= LARGEST):
            remedy = "Give a whole number of 0 or more, or None where you do not know."
            raise InputError("validation_steps", validation_steps, "is no number of batches", remedy)
        for name, function, remedy in (
            ("say", print if say is None else say, "Give a function of a line, or None."),
            ("clock", clock, "Give a function that gives seconds, such as time.perf_counter."),
            ("wall", wall, "Give a function that gives the moment, such as datetime.now."),
        ):
            if not callable(function):
                raise InputError(name, function, "is nothing that can be called", remedy)
        self._deadline = None if deadline is None else Deadline(deadline, wall)
        self._level, self._every, self._validation_steps = level, rhythm(every), validation_steps
        self.say, self.clock, self._wall = say, clock, wall
        self.argument = ""  # by which a loop is told how many steps an epoch has
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._lines = Lines(self._every, level, self._deadline)
        self._next = 0.0  # when there is to be an estimate again
        self.due = False  # whether there is something to say

    def __deepcopy__(self, memo: dict[int, Any]) -> "Ending":
        """The same arguments, `say` itself among them, for a training that has not begun."""
        fresh = copy.copy(self)
        fresh._lock, fresh._progress, fresh.due = threading.Lock(), None, False
        return fresh

    @property
    def estimate(self) -> EndEstimate | None:
        """When training will end, as known now; None where that is unknown yet (Progress.remaining)."""
        now = self.clock()
        with self._lock:
            progress = self._progress
            remaining = progress.remaining(now) if progress else None
            if progress is None or remaining is None:
                return None
            finished, unseen = progress.finished, progress.unseen
        wall = self._wall()
        meets = None
        if self._deadline is not None:
            left = self._deadline.left(now - progress.start, wall)
            meets = within(remaining, left, SPARE if unseen else 1.0)
        return EndEstimate(remaining, after(wall, remaining.value), finished, meets)

    def begins(self, epochs: int, steps: int | None) -> None:
        """Training begins, anew: number of the last epoch, and steps of an epoch or None where nobody knows."""
        now = self.clock()
        with self._lock:
            self._progress = Progress(epochs, steps, now, self._validation_steps, self._level)
        self._lines = Lines(self._every, self._level, self._deadline)
        self._next, self.due = now, False

    def tell(self, event: Callable[..., None], *values: Any) -> None:
        """Tell the training under way of an event of Progress; outside of one there is nothing to tell."""
        with self._lock:
            if self._progress is not None:
                event(self._progress, *values)

    def step_done(self, batch: int) -> None:
        """The step of this number was done now: a moment is kept, and nothing else."""
        now = self.clock()
        self.tell(Progress.step_done, batch, now)
        if now >= self._next:
            self.due = True

    def speak(self, begins: bool = False, before: str = "") -> None:
        """Say the lines that are due. begins: whether an epoch does; before: text before each line."""
        self.due = False
        progress, now = self._progress, self.clock()
        if progress is None:
            return
        elapsed = now - progress.start
        if progress.steps is not None and not progress.observed and not self._lines.hurried(elapsed):
            return
        self._next = now + max(PAUSE_S, PAUSE * elapsed)
        if self.say is None:
            return
        if progress.steps is None:
            wall = self._wall()
            left = self._deadline.left(elapsed, wall) if self._deadline else 0.0
            lines = self._lines.unknown(progress.epoch + 1 >= progress.epochs, left, wall, self.argument)
        else:
            estimate = self.estimate
            if estimate is None:
                return
            # Who writes a loop knows of its validation; Keras tells no callback whether `fit` has any.
            unseen = progress.unseen and not self.argument
            lines = self._lines.of(estimate, elapsed, self._wall(), begins, unseen)
        for line in lines:
            self.say(before + line)
