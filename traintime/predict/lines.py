"""What is said of a training's end and its deadline while it runs, and when: estimates and verdicts in, lines out."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from traintime.errors import InputError
from traintime.explain.statistics import Interval
from traintime.predict import durations

SURE = 0.25  # half-width of an interval, a share of its value, from which on it is worth a line
PATIENCE_S = 60.0  # after which a wider one is said, too
HASTE_S = 3.0  # after which one is said where there is a deadline: training may be over soon
PRECISE_S = 600.0  # what ends sooner is told to the second


def local(moment: datetime) -> datetime:
    """An aware moment; one without a time zone is taken for local time."""
    return moment if moment.tzinfo is not None else moment.astimezone()


def after(moment: datetime, seconds: float) -> datetime:
    """The moment so many seconds later on the same clocks, also where these are set forward or back meanwhile."""
    given = local(moment)
    try:
        later = given.astimezone(UTC) + timedelta(seconds=seconds)
        return later.astimezone() if moment.tzinfo is None else later.astimezone(given.tzinfo)
    except OverflowError:  # as good as never
        return datetime.max.replace(tzinfo=UTC)


def shown(moment: datetime, now: datetime, precise: bool = False) -> str:
    """A moment as one says it now: "14:32", on another day "Tue 4 Nov 14:32"; precise: with seconds."""
    day = (
        "" if moment.date() == local(now).astimezone(moment.tzinfo).date() else f"{moment:%a} {moment.day} {moment:%b} "
    )
    return day + f"{moment:%H:%M:%S}" if precise else day + f"{moment:%H:%M}"


class Deadline:
    """When training has to be over.

    given: seconds from the start of training, a timedelta, or text such as "8h" (durations.seconds); or a datetime,
    which is local time if it has no time zone. Raises InputError for anything else, for no time at all, and for
    a moment that has passed.
    """

    def __init__(self, given: str | float | timedelta | datetime, wall: Callable[[], datetime] = datetime.now) -> None:
        self.moment: datetime | None = None
        self.seconds = 0.0
        if isinstance(given, datetime):
            self.moment = local(given)
            if self.moment <= local(wall()):
                raise InputError("deadline", str(given), "has passed", "Give a moment that is still to come.")
            return
        self.seconds = durations.seconds(given, "deadline")
        if not self.seconds > 0:
            raise InputError("deadline", given, "leaves no time at all", durations.REMEDY)

    def left(self, elapsed: float, now: datetime) -> float:
        """Seconds until then, negative afterwards; elapsed: seconds since training began.

        A moment is told by the calendar's clock alone: it goes on while a computer sleeps.
        """
        return self.seconds - elapsed if self.moment is None else (self.moment - local(now)).total_seconds()

    def shown(self, now: datetime) -> str:
        """As one says it: "8 h after the start", "14:32"."""
        if self.moment is None:
            return f"{durations.text(self.seconds)} after the start"
        return shown(self.moment.astimezone(local(now).tzinfo), now)


@dataclass(frozen=True)
class EndEstimate:
    """When training will end, at the latest: a callback may stop it sooner.

    remaining: seconds, with the interval at the level asked for; end: the moment in local time, aware; finished: share
    of this run's steps that are done; meets: whether the deadline is met, True or False where the whole interval says
    so, None where it is too close to call or there is no deadline.
    """

    remaining: Interval
    end: datetime
    finished: float
    meets: bool | None = None


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


class Lines:
    """Decides what is said, and says each thing once.

    The first line comes as soon as the interval's half-width is below SURE of the value, or PATIENCE_S after the first
    step was done; with a deadline as soon as the whole interval lies on one side of it, or HASTE_S after the start.
    Then lines come when the time since the start has doubled ("doubling", and once when the second epoch begins, since
    by then an end of an epoch was seen), with each epoch ("epoch"), or after so many seconds.
    A deadline that will be missed is a line of its own, at once, and so is each change of that verdict; a verdict that
    has become too close to call is no change.
    """

    def __init__(self, every: str | float, level: float, deadline: Deadline | None) -> None:
        self.every, self.level, self.deadline = every, level, deadline
        self._began: float | None = None  # when there was something to estimate
        self._said: float | None = None  # when the last line was
        self._epochs = 0
        self._verdict: bool | None = None
        self._unknown = False

    def hurried(self, elapsed: float) -> bool:
        """Whether the first line should wait no longer, however little was seen."""
        silent = self._said is None and self._verdict is None
        return silent and self.deadline is not None and elapsed >= HASTE_S

    def unknown(self, last: bool, left: float = 0.0, now: datetime | None = None, argument: str = "") -> list[str]:
        """What is said, once each, where nobody knows how many steps an epoch has.

        last: there is no further epoch; left: seconds to the deadline; now: the moment; argument: what would tell it.
        """
        lines = []
        if not self._unknown:
            self._unknown = True
            then = ": the end of this training is unknown." if last else "; then the end can be predicted."
            nobody = f"Give `{argument}`, since nobody" if argument else "Nobody"
            lines.append(f"{nobody} knows how many steps an epoch has before one is over{then}")
        if self.deadline is not None and left < 0 and self._verdict is None:
            self._verdict = False
            lines.append(f"Deadline ({self.deadline.shown(now)}): has passed.")
        return lines

    def of(
        self, estimate: EndEstimate, elapsed: float, now: datetime, begins: bool = False, unseen: bool = False
    ) -> list[str]:
        """The lines that are due.

        elapsed: seconds since training began; now: the moment; begins: whether an epoch begins; unseen: whether
        validation may come of which nobody knows how long it takes.
        """
        self._epochs += begins
        verdict = self._changed(estimate)
        if verdict is None and not self._due(estimate, elapsed, begins):
            return []
        self._said = elapsed
        if verdict is not None:
            return [f"{self._of_deadline(verdict, estimate, elapsed, now)} {self._end(estimate, now, unseen)}"]
        return [f"{self._end(estimate, now, unseen)}{self._on_deadline(estimate, now)}"]

    def _due(self, estimate: EndEstimate, elapsed: float, begins: bool) -> bool:
        if self._began is None:
            self._began = elapsed
        if self._said is None:
            remaining = estimate.remaining
            sure = remaining.high - remaining.low < 2 * SURE * remaining.value
            patient = elapsed >= self._began + PATIENCE_S or self.hurried(elapsed)
            return remaining.value > 0 and (sure or patient or bool(estimate.meets))
        if self.every == "epoch":
            return begins
        if self.every == "doubling":
            return elapsed >= 2 * self._said or (begins and self._epochs == 1)
        return elapsed >= self._said + float(self.every)

    def _changed(self, estimate: EndEstimate) -> bool | None:
        """The verdict on the deadline, where it has to be said: it is missed, or another than before."""
        before, verdict = self._verdict, estimate.meets
        if verdict is None or verdict == before:
            return None
        self._verdict = verdict
        return None if verdict and before is None else verdict

    def _end(self, estimate: EndEstimate, now: datetime, unseen: bool) -> str:
        remaining = estimate.remaining
        low, high = durations.text(remaining.low), durations.text(remaining.high)
        more = "; validation, if there is any, comes on top" if unseen else ""
        end = shown(estimate.end, now, remaining.value < PRECISE_S)
        return (
            f"{100 * estimate.finished:.0f} % done, {durations.text(remaining.value)} left "
            f"({100 * self.level:g} %: {low} to {high}{more}). Ends at {end}."
        )

    def _on_deadline(self, estimate: EndEstimate, now: datetime) -> str:
        if self.deadline is None:
            return ""
        verdict = {True: "will be met", False: "will be missed", None: "too close to call"}[estimate.meets]
        return f" Deadline ({self.deadline.shown(now)}): {verdict}."

    def _of_deadline(self, verdict: bool, estimate: EndEstimate, elapsed: float, now: datetime) -> str:
        apart = estimate.remaining.value - self.deadline.left(elapsed, now)
        name = f"Deadline ({self.deadline.shown(now)}):"
        if verdict:
            return f"{name} will be met after all, with {durations.text(max(-apart, 0.0))} to spare."
        return f"{name} will be missed by {durations.text(max(apart, 0.0))}."
