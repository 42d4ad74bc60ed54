"""What a chapter asserts, as data: each claim is evaluated on every machine that the book shows, and on this run.

The prose is written against the reference machine. A page that is built from other data shows that a claim does not
hold there; it never fails.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from traintime.book import original, stored
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval

NOT_MEASURED = "not measured"
Verdict = Literal["holds", "does not hold", "cannot be told", "not measured"]


@dataclass(frozen=True)
class Finding:
    """What one machine's measurements say of a claim. holds: None where noise hides it; shown: the deciding figure."""

    holds: bool | None
    shown: str


@dataclass(frozen=True)
class Claim:
    """label: chapter and number ("03.1"); source: the document's claim ("S0, C1") or "ours"; find: the judge, which
    returns None, or fails to find a row (KeyError, IndexError), where a machine lacks the points.
    """

    label: str
    sentence: str
    source: str
    find: Callable[[Measurements], Finding | None]


@dataclass(frozen=True)
class Judged:
    """A claim on one machine."""

    claim: Claim
    machine: str
    verdict: Verdict
    shown: str


WORDS: dict[bool | None, Verdict] = {True: "holds", False: "does not hold", None: "cannot be told"}


def judge(claim: Claim, measurements: Measurements) -> Judged:
    """The claim on one machine; a machine that lacks its points has not measured it, which is no error."""
    try:
        finding = claim.find(measurements) if len(measurements.rows) else None
    except (KeyError, IndexError):
        finding = None
    if finding is None:
        return Judged(claim, measurements.title, NOT_MEASURED, "")
    return Judged(claim, measurements.title, WORDS[finding.holds], finding.shown)


KEPT = "traintime_claims"  # in the metadata of a claims table in an executed notebook: as_data's entries


def as_data(found: Sequence[Sequence[Judged]]) -> list[dict]:
    """Judged claims as an executed notebook keeps them for the appendix; this run's own column is left out.

    An entry a claim: label, sentence, source, machines (machine, verdict, shown), the documents' figures among them.
    """
    kept = {original.FIGURES, *(machine["title"] for machine in stored.named().values())}
    entries = []
    for each in found:
        claim = each[0].claim
        machines = [
            {"machine": one.machine, "verdict": one.verdict, "shown": one.shown} for one in each if one.machine in kept
        ]
        entries.append({"label": claim.label, "sentence": claim.sentence, "source": claim.source, "machines": machines})
    return entries


def by_machine(found: Iterable[tuple[str, str, str]]) -> list[str]:
    """A claim's (machine, verdict, shown) as lines of text, one for machines that say the same; at the end who did
    not measure it.
    """
    saying: dict[tuple[str, str], list[str]] = {}
    for machine, verdict, shown in found:
        saying.setdefault((verdict, shown), []).append(machine)
    lines = [
        f"{', '.join(machines)}: **{verdict}**{', ' if shown else ''}{shown}"
        for (verdict, shown), machines in saying.items()
        if verdict != NOT_MEASURED
    ]
    missing = saying.get((NOT_MEASURED, ""))
    return [*lines, f"{', '.join(missing)}: {NOT_MEASURED}"] if missing else lines


def above(interval: Interval, limit: float) -> bool | None:
    """Whether a value lies above a limit: None where its interval holds the limit, or where it has none."""
    return bool(interval.low > limit) if interval.excludes(limit) else None


def below(interval: Interval, limit: float) -> bool | None:
    """Whether a value lies below a limit; None as in `above`."""
    return bool(interval.high < limit) if interval.excludes(limit) else None


def higher(one: Interval, other: Interval) -> bool | None:
    """Whether one interval lies above another; None where they overlap, or one does not exist."""
    return True if one.low > other.high else False if one.high < other.low else None


def within(interval: Interval, low: float, high: float) -> bool | None:
    """Whether a value lies in a range: yes where its whole interval does, no where none of it does, else None."""
    if interval.low >= low and interval.high <= high:
        return True
    return False if interval.high < low or interval.low > high else None


def every(*parts: bool | None) -> bool | None:
    """Whether all hold: no if one does not, nobody can tell if one cannot be told. Raises KeyError without any."""
    if not parts:
        raise KeyError("nothing to judge")
    return False if False in parts else None if None in parts else True


def on_each(
    table: pd.DataFrame, stacks: Sequence[str], judge: Callable[[Interval], bool | None], **wanted: object
) -> Finding:
    """A ratio judged on every one of these stacks; it cannot be told where its sides were not interleaved.

    table: as Measurements.ratios gives it; wanted: values of the stack's row. Raises KeyError where there is none.
    """
    rows = {stack: stored.row(table, stack=stack, **wanted) for stack in stacks}
    parts = [None if one["reason"] == "not interleaved" else judge(stored.interval(one)) for one in rows.values()]
    return Finding(every(*parts), "; ".join(f"{stack} {stored.interval(one).text()}" for stack, one in rows.items()))


def span(row: Any, value: str = "ratio", spec: str = ".2f", below: bool = False) -> str:
    """A row's value with its interval (low, high): "1.24 (1.10 to 1.31)". below: the interval on a line of its own."""
    text = stored.interval(row, value).text(spec)
    return text.replace(" (", "<br>(") if below else text


RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power(value: float) -> str:
    """A small number by its order of magnitude: "4·10⁻⁶"."""
    digits, exponent = f"{value:.0e}".split("e")
    return f"{digits}·10{str(int(exponent)).translate(RAISED)}"
