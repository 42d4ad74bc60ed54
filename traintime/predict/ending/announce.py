"""What is said of a training's end and its deadline while it runs, and when: for Keras' `fit` and for any loop."""

import copy
import inspect
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from traintime.errors import LARGEST, InputError, unknown
from traintime.explain.statistics import Interval
from traintime.predict import durations
from traintime.predict.answer import lasting, within
from traintime.predict.ending.progress import Progress

SURE = 0.25  # half-width of an interval, a share of its value, from which on it is worth a line
PATIENCE_S = 60.0  # after which a wider one is said, too
HASTE_S = 3.0  # after which one is said where there is a deadline: training may be over soon
PRECISE_S = 600.0  # what ends sooner is told to the second
SPARE = 1.25  # a deadline will be met only if this much more would do, too, where validation may come and was not seen
# An estimate takes some tenths of a millisecond: at least so many seconds lie between two, and this share of the time.
PAUSE_S, PAUSE = 1.0, 0.02


def refuse_unknown(asked: dict[str, Any], *functions: Callable[..., Any]) -> None:
    """Raise InputError for an argument that none of these functions has by its name."""
    parameters = [one for function in functions for one in inspect.signature(function).parameters.values()]
    known = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
    for name in [each for each in asked if each not in known]:
        raise unknown("argument", name, sorted(known))


def after(moment: datetime, seconds: float) -> datetime:
    """The moment so many seconds later, local time where it has no time zone, also where clocks are set meanwhile."""
    try:
        return (moment.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(moment.tzinfo)
    except OverflowError:  # as good as never
        return datetime.max.replace(tzinfo=UTC)


def shown(moment: datetime, now: datetime, precise: bool = False) -> str:
    """A moment as one says it now: "14:32", on another day "Tue 4 Nov 14:32"; precise: with seconds."""
    today = now.astimezone(moment.tzinfo).date()
    day = "" if moment.date() == today else f"{moment:%a} {moment.day} {moment:%b} "
    return f"{day}{moment:%H:%M:%S}" if precise else f"{day}{moment:%H:%M}"


class Deadline:
    """When training has to be over. given: seconds from its start, a timedelta, or text such as "8h"
    (durations.seconds); or a datetime, local without a time zone. Raises InputError for anything else, and for the
    past.
    """

    def __init__(self, given: str | float | timedelta | datetime, wall: Callable[[], datetime]) -> None:
        self.moment = given.astimezone(UTC) if isinstance(given, datetime) else None
        if self.moment is None:
            self.seconds = durations.seconds(given, "deadline")
            if not self.seconds > 0:
                raise InputError("deadline", given, "leaves no time at all", durations.REMEDY)
        elif self.moment <= wall().astimezone(UTC):
            raise InputError("deadline", str(given), "has passed", "Give a moment that is still to come.")

    def left(self, elapsed: float, now: datetime) -> float:
        """Seconds until then; elapsed: since training began. A moment is told by the calendar's clock alone."""
        return self.seconds - elapsed if self.moment is None else (self.moment - now.astimezone(UTC)).total_seconds()

    def shown(self, now: datetime) -> str:
        """As one says it: "8 h after the start", "14:32"."""
        if self.moment is None:
            return f"{durations.text(self.seconds)} after the start"
        return shown(self.moment.astimezone(now.tzinfo), now)


def rhythm(every: str | float | timedelta) -> str | float:
    """When lines come: "doubling", "epoch", or seconds. Raises InputError for anything else."""
    if every in ("doubling", "epoch"):
        return str(every)
    try:
        seconds = durations.seconds(every, "every")
    except InputError as wrong:
        raise InputError("every", every, wrong.problem, f'Say "doubling" or "epoch". {durations.REMEDY}') from wrong
    if not seconds > 0:
        raise InputError("every", every, "is no time at all", durations.REMEDY)
    return seconds


@dataclass(frozen=True)
class EndEstimate:
    """When training will end, at the latest: a callback may stop it sooner. remaining: seconds, with their interval;
    end: the moment in local time, aware; finished: share of this run's steps that are done; meets: whether the deadline
    is met, None where that is too close to call, the speed seems to change, or there is none.
    """

    remaining: Interval
    end: datetime
    finished: float
    meets: bool | None = None


class Ending:
    """The end of a training: events come from any thread, lines are said in the thread that calls `speak`. Its
    arguments are those of traintime.Eta. Raises InputError for any other value.

    The first line comes as soon as the interval's half-width is below SURE of the value, or PATIENCE_S after the first
    step was done; with a deadline as soon as the whole interval lies on one side of it, or HASTE_S after the start.
    Then lines come when the time since the start has doubled ("doubling", and once when the second epoch begins), with
    each epoch ("epoch"), or after so many seconds. A deadline that will be missed is a line of its own, at once, and so
    are each change of that verdict and a change of speed.
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
        if not isinstance(level, int | float) or not 0 < level < 1:
            raise InputError("level", level, "is no share", "Give a number between 0 and 1, such as 0.9.")
        if validation_steps is not None and (type(validation_steps) is not int or not 0 <= validation_steps <= LARGEST):
            remedy = "Give a whole number of 0 or more, or None where you do not know."
            raise InputError("validation_steps", validation_steps, "is no number of batches", remedy)
        for name, function in (("say", print if say is None else say), ("clock", clock), ("wall", wall)):
            if not callable(function):
                raise InputError(name, function, "is nothing that can be called", "Give a function.")
        self._deadline = None if deadline is None else Deadline(deadline, wall)
        self._level, self._every, self._validation_steps = level, rhythm(every), validation_steps
        self.say, self.clock, self._wall = say, clock, wall
        self.argument = ""  # by which a loop is told how many steps an epoch has
        self._lock = threading.Lock()
        self._starts(None)

    def _starts(self, progress: Progress | None) -> None:
        self._progress = progress
        self.due = False  # whether there is something to say
        self._next = -math.inf  # when there is to be an estimate again
        self._began: float | None = None  # seconds from the start of training until there was something to estimate
        self._said: float | None = None  # and until the last line
        self._missed = False  # whether the deadline will be missed, as far as was said
        self._asked = False  # whether it was said that nobody knows how many steps an epoch has

    def __deepcopy__(self, memo: dict[int, Any]) -> "Ending":
        """The same arguments, `say` itself among them, for a training that has not begun."""
        fresh = copy.copy(self)
        fresh._lock = threading.Lock()
        fresh._starts(None)
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
            finished, unseen, unsettled = progress.finished, progress.unseen, progress.within.unsettled
        wall, meets = self._wall(), None
        if self._deadline is not None and not unsettled:
            left = self._deadline.left(now - progress.start, wall)
            meets = within(remaining, left, SPARE if unseen else 1.0)
        return EndEstimate(remaining, after(wall, remaining.value), finished, meets)

    def begins(self, epochs: int, steps: int | None) -> None:
        """Training begins, anew: number of the last epoch, and steps of an epoch or None where nobody knows."""
        now = self.clock()
        with self._lock:
            self._starts(Progress(epochs, steps, now, self._validation_steps, self._level))

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
        if self._progress is not None and self.say is not None:
            for line in self._lines(self._progress, begins):
                self.say(before + line)

    def _lines(self, progress: Progress, begins: bool) -> list[str]:
        elapsed = self.clock() - progress.start
        # Whether the first line should wait no longer, however little was seen.
        hurried = self._deadline is not None and elapsed >= HASTE_S and self._said is None and not self._missed
        if progress.steps is not None and not progress.observed and not hurried:
            return []
        self._next = progress.start + elapsed + max(PAUSE_S, PAUSE * elapsed)
        if progress.steps is None:
            return self._of_unknown(progress, elapsed)
        estimate = self.estimate
        if estimate is None:
            return []
        changed = estimate.meets is not None and estimate.meets == self._missed
        if changed:
            self._missed = not estimate.meets
        speeds, progress.within.changed = progress.within.changed, None
        due = speeds or self._is_due(progress, estimate.remaining, elapsed, begins, hurried or bool(estimate.meets))
        if not changed and not due:
            return []
        self._said = elapsed
        # Who writes a loop knows of its validation; Keras tells no callback whether `fit` has any.
        unseen, unsettled = progress.unseen and not self.argument, progress.within.unsettled
        line = self._line(estimate, elapsed, changed, unseen, unsettled)
        if speeds:
            before, after = map(lasting, speeds)
            line = f"Steps take {after} now and took {before}: only those since then count. {line}"
        return [line]

    def _is_due(self, progress: Progress, remaining: Interval, elapsed: float, begins: bool, hurried: bool) -> bool:
        if self._began is None:
            self._began = elapsed
        if self._said is None:
            sure = remaining.high - remaining.low < 2 * SURE * remaining.value
            return remaining.value > 0 and (sure or hurried or elapsed >= self._began + PATIENCE_S)
        if self._every == "epoch":
            return begins
        if self._every == "doubling":
            return elapsed >= 2 * self._said or (begins and progress.epoch - 1 == progress.first_epoch)
        return elapsed >= self._said + float(self._every)

    def _line(self, estimate: EndEstimate, elapsed: float, changed: bool, unseen: bool, unsettled: bool) -> str:
        """The end and the verdict, which comes first where it has changed."""
        now, remaining = self._wall(), estimate.remaining
        left, low, high = map(durations.text, (remaining.value, remaining.low, remaining.high))
        more = "; validation, if there is any, comes on top" if unseen else ""
        line = (
            f"{100 * estimate.finished:.0f} % done, {left} left ({100 * self._level:g} %: {low} to {high}{more}). "
            f"Ends at {shown(estimate.end, now, remaining.value < PRECISE_S)}."
        )
        if self._deadline is None:
            return line
        name = f"Deadline ({self._deadline.shown(now)}):"
        if not changed:
            open_ = "open, as the speed seems to change" if unsettled else "too close to call"
            verdict = {True: "will be met", False: "will be missed", None: open_}[estimate.meets]
            return f"{line} {name} {verdict}."
        apart = durations.text(abs(remaining.value - self._deadline.left(elapsed, now)))
        if estimate.meets:
            return f"{name} will be met after all, with {apart} to spare. {line}"
        return f"{name} will be missed by {apart}. {line}"

    def _of_unknown(self, progress: Progress, elapsed: float) -> list[str]:
        """What is said, once each, where nobody knows how many steps an epoch has."""
        lines, now = [], self._wall()
        if not self._asked:
            self._asked = True
            last = progress.epoch + 1 >= progress.epochs
            then = ": the end of this training is unknown." if last else "; then the end can be predicted."
            nobody = f"Give `{self.argument}`, since nobody" if self.argument else "Nobody"
            lines.append(f"{nobody} knows how many steps an epoch has before one is over{then}")
        if self._deadline is not None and not self._missed and self._deadline.left(elapsed, now) < 0:
            self._missed = True
            lines.append(f"Deadline ({self._deadline.shown(now)}): has passed.")
        return lines
