"""What a chapter asserts, as data: each claim is evaluated on every machine that the book shows, and on this run.

A claim is its number, a sentence and what judges it (see of_chapter).

The prose is written against one machine (`on`) and says there what `says` names. A page that is built from other data
shows that a claim does not hold there; it never fails.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from traintime.book import original, stored
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval

NOT_MEASURED = "not measured"
Verdict = Literal["holds", "does not hold", "inconclusive", "not measured"]
DECIDED = ("holds", "does not hold")


@dataclass(frozen=True)
class Finding:
    """What a machine's measurements say of a claim. holds: None where noise hides it; figure: what decides, as text.

    `one & other` is both at once: it holds where each does.
    """

    holds: bool | None
    figure: str

    def __and__(self, other: "Finding") -> "Finding":
        return Finding(every(self.holds, other.holds), f"{self.figure}; {other.figure}")


Judge = Callable[[Measurements], Finding | None]


def once(find: Callable[[], Finding], on: Callable[[], Measurements]) -> Judge:
    """Judges by what is of no machine, as trainings: `on`, which the chapter shows, has the verdict, no other has."""
    return lambda book: find() if book.machine == on().machine else None


@dataclass(frozen=True)
class Claim:
    """A sentence and who judges it.

    label: chapter and number ("03.1"); find: the judge, which returns None, or fails to find a row (stored.or_none),
    where a machine lacks the points; source: a source's claim ("S0, C1") or "ours"; says: the verdict that the prose
    reports; on: gives the machine that the prose shows; without: what it is judged by that needs no machine,
    original.FIGURES or original.ARITHMETIC.
    """

    label: str
    sentence: str
    find: Judge
    source: str = "ours"
    says: Verdict = "holds"
    on: Callable[[], Measurements] = stored.of
    without: str = ""


REGISTERED: dict[str, Claim] = {}  # every claim of the chapters that are imported, by label, in the order of the table


def of_chapter(chapter: str) -> Callable[..., None]:
    """What registers the claims of a chapter ("03"), one a statement.

    Arguments: the number, the sentence, the judge, and by name what differs of Claim's other fields.
    """

    def register(number: int, sentence: str, find: Judge, **differs: Any) -> None:
        if kind := differs.get("without"):
            differs.setdefault("on", functools.partial(original.document, kind))
        made = Claim(f"{chapter}.{number}", sentence, find, **differs)
        if REGISTERED.setdefault(made.label, made) is not made:
            raise ValueError(f"claim {made.label} has two judges")

    return register


@dataclass(frozen=True)
class Judged:
    """A claim on one machine."""

    claim: Claim
    machine: str
    verdict: Verdict
    figure: str


WORDS: dict[bool | None, Verdict] = {True: "holds", False: "does not hold", None: "inconclusive"}


def judge(claim: Claim, measurements: Measurements) -> Judged:
    """The claim on one machine; a machine that lacks its points has not measured it, which is no error."""
    asked = len(measurements.rows) > 0 and claim.without in ("", measurements.machine)
    finding = stored.or_none(lambda: claim.find(measurements)) if asked else None
    if finding is None:
        return Judged(claim, measurements.title, NOT_MEASURED, "")
    return Judged(claim, measurements.title, WORDS[finding.holds], finding.figure)


def by_machine(found: Iterable[tuple[str, str, str]]) -> list[str]:
    """A claim's (machine, verdict, figure) as lines of text, one for machines that say the same; none for a machine
    that has not measured it.
    """
    saying: dict[tuple[str, str], list[str]] = {}
    for machine, verdict, figure in found:
        saying.setdefault((verdict, figure), []).append(machine)
    return [
        f"{', '.join(machines)}: **{verdict}**{', ' if figure else ''}{figure}"
        for (verdict, figure), machines in saying.items()
        if verdict != NOT_MEASURED
    ]


@dataclass(frozen=True)
class Limits:
    """Where a value has to lie: strictly between `low` and `high`. Made by above, below and Values.within."""

    low: float = -np.inf
    high: float = np.inf

    def __call__(self, interval: Interval) -> bool | None:
        """Whether the value lies there: no where its whole interval lies beyond one end, None where it holds an end or
        does not exist.
        """
        if interval.low > self.low and interval.high < self.high:
            return True
        return False if interval.high < self.low or interval.low > self.high else None

    def margin(self, interval: Interval) -> float:
        """How far inside the interval lies, in the value's unit; of several values that with the least decides."""
        return 0.0 if np.isnan(interval.low) else min(interval.low - self.low, self.high - interval.high)


def above(limit: float) -> Limits:
    """Judges whether a value lies above the limit."""
    return Limits(low=limit)


def below(limit: float) -> Limits:
    """Judges whether a value lies below the limit."""
    return Limits(high=limit)


def higher(one: Interval, other: Interval) -> bool | None:
    """Whether one interval lies above another; None where they overlap, or one does not exist."""
    return True if one.low > other.high else False if one.high < other.low else None


def every(*parts: bool | None) -> bool | None:
    """Whether all hold: no if one does not, None if one is inconclusive. Raises KeyError without any."""
    stored.measured(parts)
    return False if False in parts else None if None in parts else True


def span(row: Any, value: str = "ratio", spec: str = ".2f", below: bool = False) -> str:
    """A row's value with its interval (low, high): "1.24 (1.10 to 1.31)". below: the interval on a line of its own."""
    text = stored.interval(row, value).text(spec)
    return text.replace(" (", "<br>(") if below else text
