"""What a chapter asserts, as data: each claim is evaluated on every machine that the book shows, and on this run.

A claim is a sentence above the function that judges it:

    @claim("03.5", "With the table frozen, a row costs less than 5 % of what it costs with Adam, on every stack.")
    def frozen_is_free(book):
        return every_stack(shares(book, "frozen"), below(0.05), ".1%")

The prose is written against one machine (`on`) and says there what `says` names. A page that is built from other data
shows that a claim does not hold there; it never fails.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from traintime.book import original, stored
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval

NOT_MEASURED = "not measured"
Verdict = Literal["holds", "does not hold", "inconclusive", "not measured"]


@dataclass(frozen=True)
class Finding:
    """What a machine's measurements say of a claim. holds: None where noise hides it; figure: what decides, as text."""

    holds: bool | None
    figure: str


Judge = Callable[[Measurements], Finding | None]


@dataclass(frozen=True)
class Claim:
    """A sentence and who judges it.

    label: chapter and number ("03.1"); source: a source's claim ("S0, C1") or "ours"; find: the judge, which
    returns None, or fails to find a row (stored.or_none), where a machine lacks the points; says: the verdict
    that the prose reports; on: gives the machine that the prose shows.
    """

    label: str
    sentence: str
    source: str
    find: Judge
    says: Verdict = "holds"
    on: Callable[[], Measurements] = stored.of


REGISTERED: dict[str, Claim] = {}  # every claim of the chapters that are imported, by label, in the order of the table


def claim(
    label: str,
    sentence: str,
    source: str = "ours",
    says: Verdict = "holds",
    on: Callable[[], Measurements] = stored.of,
) -> Callable[[Judge], Judge]:
    """Register the decorated function as the judge of a claim (see Claim). Raises ValueError for a label in use."""

    def register(judge: Judge) -> Judge:
        if label in REGISTERED:
            raise ValueError(f"claim {label} has two judges")
        REGISTERED[label] = Claim(label, sentence, source, judge, says, on)
        return judge

    return register


def claim_without_machine(
    label: str, sentence: str, source: str = "ours", kind: str = original.FIGURES
) -> Callable[[Callable[[], Finding]], Judge]:
    """Register the decorated function as the judge of a claim that needs no machine: it has one verdict.

    kind: what it is judged by, original.FIGURES or original.ARITHMETIC.
    """

    def register(judge: Callable[[], Finding]) -> Judge:
        said = claim(label, sentence, source, on=lambda: original.document(kind))
        return said(lambda book: judge() if book.machine == kind else None)

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
    finding = stored.or_none(lambda: claim.find(measurements)) if len(measurements.rows) else None
    if finding is None:
        return Judged(claim, measurements.title, NOT_MEASURED, "")
    return Judged(claim, measurements.title, WORDS[finding.holds], finding.figure)


def by_machine(found: Iterable[tuple[str, str, str]]) -> list[str]:
    """A claim's (machine, verdict, figure) as lines of text, one for machines that say the same; at the end who did
    not measure it.
    """
    saying: dict[tuple[str, str], list[str]] = {}
    for machine, verdict, figure in found:
        saying.setdefault((verdict, figure), []).append(machine)
    lines = [
        f"{', '.join(machines)}: **{verdict}**{', ' if figure else ''}{figure}"
        for (verdict, figure), machines in saying.items()
        if verdict != NOT_MEASURED
    ]
    missing = saying.get((NOT_MEASURED, ""))
    return [*lines, f"{', '.join(missing)}: {NOT_MEASURED}"] if missing else lines


@dataclass(frozen=True)
class Limits:
    """Where a value has to lie: strictly between `low` and `high`. Made by above, below and within."""

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


def within(low: float, high: float) -> Limits:
    """Judges whether a value lies between two limits."""
    return Limits(low, high)


def higher(one: Interval, other: Interval) -> bool | None:
    """Whether one interval lies above another; None where they overlap, or one does not exist."""
    return True if one.low > other.high else False if one.high < other.low else None


def every(*parts: bool | None) -> bool | None:
    """Whether all hold: no if one does not, None if one is inconclusive. Raises KeyError without any."""
    stored.measured(parts)
    return False if False in parts else None if None in parts else True


FEW = 3  # values that a figure shows all of; of more it shows the one that decides


def every_stack(
    values: Mapping[str, Interval], limits: Limits, spec: str = ".2f", scale: float = 1.0, unit: str = ""
) -> Finding:
    """Whether each stack's value, or each of other things', lies within the limits. Raises KeyError without any.

    It holds where each value's own interval does. One refutes it where its interval does though it is one of so many
    (Interval.one_of). The figure: all values where they are few, else the one nearest to a limit, or farthest beyond
    it. spec, scale, unit: how a value is written (Interval.text).
    """
    refuted = any(limits(value.one_of(len(values))) is False for value in stored.measured(values).values())
    holds = False if refuted else True if all(limits(value) for value in values.values()) else None
    return Finding(holds, _figure(values, min(values, key=lambda name: limits.margin(values[name])), spec, scale, unit))


def any_stack(
    values: Mapping[str, Interval], limits: Limits, spec: str = ".2f", scale: float = 1.0, unit: str = ""
) -> Finding:
    """Whether at least one stack's value lies within the limits, though it is one of so many; else as `every_stack`."""
    found = any(limits(value.one_of(len(values))) for value in stored.measured(values).values())
    refuted = all(limits(value) is False for value in values.values())
    holds = True if found else False if refuted else None
    return Finding(holds, _figure(values, max(values, key=lambda name: limits.margin(values[name])), spec, scale, unit))


def _figure(values: Mapping[str, Interval], deciding: str, spec: str, scale: float, unit: str) -> str:
    texts = {name: f"{name} {value.text(spec, scale, unit)}".strip() for name, value in values.items()}
    return "; ".join(texts.values()) if len(values) <= FEW else f"{texts[deciding]}, the closest of {len(values)}"


def judged_together(*findings: Finding) -> Finding:
    """All of several findings at once: holds where each does. Raises KeyError without any."""
    return Finding(every(*(one.holds for one in findings)), "; ".join(one.figure for one in findings))


def span(row: Any, value: str = "ratio", spec: str = ".2f", below: bool = False) -> str:
    """A row's value with its interval (low, high): "1.24 (1.10 to 1.31)". below: the interval on a line of its own."""
    text = stored.interval(row, value).text(spec)
    return text.replace(" (", "<br>(") if below else text


RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power(value: float) -> str:
    """A small number by its order of magnitude: "4·10⁻⁶"."""
    digits, exponent = f"{value:.0e}".split("e")
    return f"{digits}·10{str(int(exponent)).translate(RAISED)}"
