"""A deadline, as a moment or as a time after the start, and whether a training will meet it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from traintime.errors import InputError
from traintime.explain.statistics import Interval
from traintime.predict import durations

Wall = Callable[[], datetime]


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

    def __init__(self, given: str | float | timedelta | datetime, wall: Wall = datetime.now) -> None:
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


def meets(remaining: Interval, left: float, spare: float = 1.0) -> bool | None:
    """Whether training ends in time: True or False where the whole interval says so, else None: too close to call.

    spare: factor on the interval's upper end, for what is not in it.
    """
    if remaining.high * spare <= left:
        return True
    return False if remaining.low > left else None
