"""The answer: how long, how much memory, why, and what would help, each number with its interval."""

import html
import math
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import ByteSize, Field, TypeAdapter, ValidationError
from scipy.special import stdtrit

from traintime.errors import InputError
from traintime.explain.statistics import Interval
from traintime.predict import durations

LEVEL = 0.9
MOST_ROWS = 8
WAIT = "waiting for data"  # beside the parts of a step that the formula has
SAID = {True: "yes", False: "no", None: "too close to call"}
COLUMNS = 80  # of an answer in a terminal, whose longer lines are broken
MEGABYTE, GB, TB = 1e6, 1e9, 1e12
UNTOLD = 10.0  # an interval whose upper end is so many times the lower tells nothing
SURE = 1e6  # degrees of freedom of an error that many runs have told
TIERS = {
    "formula": "from published or stored rates: rough",
    "scaled": "from training a smaller model for a moment",
    "probed": "from training this model for a moment",
}
_AMOUNT = TypeAdapter(Annotated[ByteSize, Field(gt=0)])


def bytes_of(given: str | float) -> int:
    """Bytes of "16GB", "512 MiB", or of a number. Raises InputError for anything but an amount above zero."""
    remedy = 'Give an amount such as "16GB", "512 MiB" or a number of bytes.'
    try:
        found = _AMOUNT.validate_python(given)
    except ValidationError:
        raise InputError("memory", given, "is not an amount of memory above zero", remedy) from None
    if found < MEGABYTE:
        raise InputError("memory", given, "is less than a megabyte", remedy)
    return found


def amount(size: float) -> str:
    """Bytes as people read them, to three digits: "0.512 GB", "16.3 GB", "1.79 TB"."""
    return f"{digits(size / TB)} TB" if size >= TB else f"{digits(size / GB)} GB"


def digits(number: float, significant: int = 3) -> str:
    """A number in so many significant digits, none of them a power: "0.512", "16.3", "1,790"."""
    return f"{float(f'{number:.{significant}g}'):,.15g}"


def amounts(memory: Interval) -> str:
    """Bytes with their interval, in one unit: "1.79 TB (1.2 to 2.6)"."""
    scale = TB if memory.value >= TB else GB
    return f"{amount(memory.value)} ({digits(memory.low / scale)} to {digits(memory.high / scale)})"


def cost_of_an_hour(given: float) -> float:
    """What an hour costs, as it was given. Raises InputError for anything but a number above zero."""
    if not isinstance(given, (int, float)) or not 0 < given < math.inf:
        raise InputError("per_hour", given, "is not an amount above zero", "Give what an hour costs, such as 2.40.")
    return given


def around(value: float, *errors: tuple[float, float], level: float = LEVEL) -> Interval:
    """Interval of a value whose logarithm has these independent errors, each (standard error, degrees of freedom): each
    is widened by its own t quantile before they are added in squares, since few blocks are less sure than many.
    """
    reach = [error * stdtrit(min(degrees, SURE), 0.5 + level / 2) for error, degrees in errors]
    width = math.exp(math.hypot(*reach))
    return Interval(value, value / width, value * width)


def within(interval: Interval, limit: float, spare: float = 1.0) -> bool | None:
    """Whether the interval, its upper end times `spare`, keeps within the limit; None: too close to call."""
    if interval.high * spare <= limit:
        return True
    return False if interval.low > limit else None


@dataclass(frozen=True)
class Help:
    """A change, and its predicted effect: factors of an epoch's time and of the peak memory, below 1 is less."""

    what: str
    time: float
    memory: float

    def __str__(self) -> str:
        changes = ((self.time, "time"), (self.memory, "memory"))
        return f"{self.what}: {', '.join(_change(share, of) for share, of in changes if abs(share - 1) >= 0.02)}"


@dataclass(frozen=True)
class Estimate:
    """Time and memory of a training, predicted. Intervals hold at `level`.

    tier: which evidence it rests on (TIERS); of: whose costs, or what was probed; step, epoch, total: seconds; memory:
    peak of the process (on a GPU: of its memory), bytes, None where nobody can tell; parts: seconds of the whole
    training by what they are spent on; terms: seconds of a step by part (explain.terms.PARTS), None where the model's
    work is not known; limited_by: the largest of them, in words; helps: what would help, the best first; warnings: why
    it may be wrong; notes: what else there is to know; record: how often such answers were right; deadline_s,
    memory_limit: seconds and bytes that are to be kept, if any.
    """

    tier: str
    of: str
    samples: int
    batch_size: int
    epochs: int
    step: Interval
    epoch: Interval
    total: Interval
    memory: Interval | None
    parts: Mapping[str, float] = field(hash=False)
    terms: Mapping[str, float] | None = field(hash=False, default=None)
    limited_by: str = ""
    helps: tuple[Help, ...] = ()
    notes: tuple[str, ...] = ()
    record: str = ""
    level: float = LEVEL
    warnings: tuple[str, ...] = ()
    deadline_s: float | None = None
    memory_limit: float | None = None

    def meets(self) -> bool | None:
        """Whether training keeps its limits; None where an interval leaves it open, and nothing else fails."""
        answers = [one for _, one in self._limits]
        return False if False in answers else None if None in answers else True

    @property
    def _limits(self) -> list[tuple[str, bool | None]]:
        """Each limit in words, and whether it is kept."""
        limits = (self.total, self.deadline_s, "within", durations.text), (self.memory, self.memory_limit, "in", amount)
        given = [(its, limit, f"{what} {text(limit)}") for its, limit, what, text in limits if limit is not None]
        return [(told, within(its, limit) if its else None) for its, limit, told in given]

    def cost(self, per_hour: float) -> Interval:
        """What the training costs at this cost of an hour, in the same money. Raises InputError unless above zero."""
        return self.total.scaled(cost_of_an_hour(per_hour) / 3600)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values: seconds and bytes."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Estimate":
        """The estimate that `to_dict` wrote."""
        return TypeAdapter(cls).validate_python(plain)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The answer line by line, MOST_ROWS at most: what, and how much."""
        steps, trained = math.ceil(self.samples / self.batch_size), f"{self.epochs:,} epoch{'s' * (self.epochs != 1)}"
        step = self.step.text(".3g", 1e3, "ms") if self.step.value < 1 else _time(self.step)
        limits = self._limits
        told = ", ".join(f"{text} ({SAID[one]})" if len(limits) > 1 else text for text, one in limits)
        if self.deadline_s is not None:
            in_all = (self.total.value, self.total.high, self.total.low)  # an epoch has its share of what comes once
            fit = (self.deadline_s * self.epochs / each for each in in_all)
            whole = (int(each) if each >= 10 else int(10 * each) / 10 for each in fit)
            told += "; {:,} epochs fit ({:,} to {:,})".format(*whole)
        lines = [("answer", f"{SAID[self.meets()]}: {told}")] if limits else []
        untold = self.tier != "formula" and self.total.high > UNTOLD * self.total.low
        told = f"unknown from this probe: {_time(self.total)}" if untold else _time(self.total)
        lines += [
            ("training", f"{told}, {trained} of {self.samples:,}"),
            ("peak memory", amounts(self.memory) if self.memory else "not known"),
            ("a step", f"{step}, {steps:,} of {self.batch_size} samples an epoch"),
        ]
        if self.limited_by:
            lines.append(("limited by", self._largest()))
        evidence = ("evidence", "; ".join(filter(None, (f"{self.tier}, {self.of}", self.record))))
        lines += [("beware", each) for each in self.warnings][: MOST_ROWS - 2 - len(lines)]
        tries = [("to try", str(one)) for one in self.helps[:3]]
        return [*lines, *tries[: MOST_ROWS - 1 - len(lines)], evidence]

    @property
    def _shares(self) -> list[tuple[str, float]]:
        """Parts of a step with their shares, the largest first."""
        terms = self.terms or {}
        return sorted(((name, part / sum(terms.values())) for name, part in terms.items()), key=lambda each: -each[1])

    def _largest(self) -> str:
        if not (shares := self._shares) or shares[0][0] == WAIT:
            return self.limited_by
        also = f", {shares[1][0]} {shares[1][1]:.0%}" if shares[1][1] >= 0.1 else ""
        return f"{shares[0][0]}, {shares[0][1]:.0%} of a step{also}"

    @property
    def details(self) -> str:
        """All else that is known, line by line: what the time is made of, what else to try, and notes."""
        lines = [("an epoch", _time(self.epoch))]
        spent = [(name, seconds) for name, seconds in self.parts.items() if seconds > 0.005 * self.total.value]
        if len(spent) > 1:
            lines.append(("made of", ", ".join(f"{name} {lasting(seconds)}" for name, seconds in spent)))
        if self.terms:
            told = [f"{name} {share:.0%}" for name, share in self._shares if share >= 0.005]
            lines += [("limited by", self.limited_by), ("spent on", ", ".join(told))]
        lines.append(("evidence", TIERS[self.tier]))
        shown = {what for _, what in self.rows}
        lines += [("to try", each) for each in map(str, self.helps) if each not in shown]
        return _text(lines + [("note", each) for each in (*self.warnings, *self.notes) if each not in shown])

    def __str__(self) -> str:
        return f"{_text(self.rows)}\n({self.level:.0%} intervals; more in details)"

    def _repr_html_(self) -> str:
        """A table for a notebook."""
        # Notebooks align to the right; on a phone the second column alone may break anywhere.
        name, told = (f' style="text-align: left; {how}"' for how in ("white-space: nowrap", "overflow-wrap: anywhere"))
        rows = "".join(
            f"<tr><th scope='row'{name}>{html.escape(a)}</th><td{told}>{html.escape(b)}</td></tr>" for a, b in self.rows
        )
        table = f"<table class='dataframe'><caption>{self.level:.0%} intervals</caption><tbody>{rows}</tbody></table>"
        return f"{table}<details><summary>Details</summary><pre>{html.escape(self.details)}</pre></details>"


def _text(rows: list[tuple[str, str]]) -> str:
    """Rows as a terminal shows them."""
    width = max(len(name) for name, _ in rows) + 2
    wrap = textwrap.TextWrapper(COLUMNS, subsequent_indent=" " * width, break_on_hyphens=False)
    return "\n".join(wrap.fill(f"{name:{width}}{text}") for name, text in rows)


def _time(interval: Interval) -> str:
    return f"{lasting(interval.value)} ({lasting(interval.low)} to {lasting(interval.high)})"


def lasting(seconds: float) -> str:
    """Seconds as people read them: "11.2 ms", "31 s", "1 h 12 min"."""
    return durations.text(seconds) if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _change(share: float, what: str) -> str:
    """A factor in words: "12% less time", "30% more memory", "5 times less time"."""
    if share < 0.5:  # what is left of much is the formula's word alone
        return f"over 5 times less {what}" if share < 0.2 else f"{digits(1 / share, 2)} times less {what}"
    return f"{abs(share - 1):.0%} {'less' if share < 1 else 'more'} {what}"
