"""What the predictor is to reach, and whether a bench has reached it: each goal, what was found, and the verdict.

A goal is met where the whole 95 % interval of what was found keeps it, missed where none of it does, and inconclusive
in between: a few models seldom tell. None is lowered here, and no model is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import binomtest

from traintime.explain.statistics import Interval
from traintime.predict.bench import Case
from traintime.predict.bench_models import BEYONDS, LOOPS

AGAIN = 1.3  # times what training again differs by: what nobody could do much better than
PROBED, SCALED = 0.05, 0.10
CALIBRATED, CALIBRATED_OTHERS = 0.075, 0.20
MEMORY = {"probed": 0.05, "calibrated": 0.10}
COVERED = (0.85, 0.95)
WIDTH = 1.6  # the upper end of a probe's interval over the lower one, in half of the answers or more
TWICE = 0.9
SPENT_S = 60.0
Verdict = Literal["met", "missed", "inconclusive"]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Goal:
    """What was to be reached, by which models, what was found of how many, and whether that reaches it."""

    goal: str
    of: str
    models: int
    found: str
    verdict: Verdict


def mean(values: Array) -> Interval:
    """The mean of errors with its 95 % interval (Student's t); without one of a single value."""
    value = float(np.mean(values))
    if len(values) < 2:
        return Interval(value)
    reach = stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(len(values))
    return Interval(value, value - float(reach), value + float(reach))


def share(happened: Array) -> Interval:
    """How often something happened, with its exact 95 % interval (Clopper and Pearson 1934)."""
    ends = binomtest(int(np.sum(happened)), len(happened)).proportion_ci(method="exact")
    return Interval(float(np.mean(happened)), float(ends.low), float(ends.high))


def goals(cases: Sequence[Case]) -> pd.DataFrame:
    """A row for each goal and each group of models that it is set to; columns as the fields of Goal."""
    return pd.DataFrame([vars(one) for one in _goals(cases)], columns=list(Goal.__annotations__))


def _goals(cases: Sequence[Case]) -> Iterator[Goal]:
    beyond = [case for case in cases if case.kind in BEYONDS]
    tried = [case for case in cases if case.kind not in BEYONDS]
    keras = [case for case in tried if case.kind not in LOOPS]
    document = [case for case in tried if case.kind == "classifier"]
    others = [case for case in keras if case.kind != "classifier"]
    for stack, mine in _by(tried, "stack"):
        again = AGAIN * mean(np.abs(_errors(mine, "again"))).value
        most = max(PROBED, again)
        name = (
            f"probed: mean error {PROBED:.0%} at most, or {AGAIN:g} times what training again differs by ({again:.1%})"
        )
        yield from _missed(mine, "probed", most, name, stack)
    yield from _missed(
        beyond, "scaled", SCALED, f"ten times beyond what was tried: mean error {SCALED:.0%} at most", "all"
    )
    for allocator, mine in _by(document, "allocator"):
        name = f"calibrated, the 2017 post's kind: mean error {CALIBRATED:.1%} at most"
        yield from _missed(mine, "calibrated", CALIBRATED, name, allocator)
    name = f"calibrated, other Keras models: mean error {CALIBRATED_OTHERS:.0%} at most"
    yield from _missed(others, "calibrated", CALIBRATED_OTHERS, name, "all")
    if times := _errors(keras, "formula"):
        twice = share(np.abs(np.log1p(times)) <= np.log(2))
        name = f"formula: within half and twice in {TWICE:.0%}"
        yield Goal(name, "all", len(times), twice.text(".0%"), _verdict(twice, TWICE, 1.0))
    for tier, most in MEMORY.items():
        for stack, mine in _by(tried, "stack"):
            yield from _missed(
                mine, f"{tier} memory", most, f"peak of memory, {tier}: mean error {most:.0%} at most", stack
            )
    for way in dict.fromkeys(way for case in cases for way in case.inside()):
        for stack, mine in _by(cases, "stack"):
            if held := [case.inside()[way] for case in mine if way in case.inside()]:
                name = f"intervals, {way}: hold {COVERED[0]:.0%} to {COVERED[1]:.0%}"
                of_them = share(np.array(held))
                yield Goal(name, stack, len(held), of_them.text(".0%"), _verdict(of_them, *COVERED))
    for stack, mine in _by(tried, "stack"):
        if widths := [case.widths()["probed"] for case in mine if "probed" in case.widths()]:
            narrow, found = share(np.array(widths) <= WIDTH), f"{np.median(widths):.2f}, {max(widths):.2f} at most"
            name = f"intervals, probed: half or more span a factor of {WIDTH:g} at most"
            yield Goal(name, stack, len(widths), found, _verdict(narrow, 0.5, 1.0))
    for ours, theirs in (
        ("probed", "one batch"),
        ("probed", "FLOPs / peak"),
        ("probed", "XLA's count"),
        ("scaled", "line"),
        ("probed memory", "torchinfo memory"),
    ):
        for stack, mine in _by(cases, "stack"):
            yield from _ahead(mine, ours, theirs, stack)
    for what in ("calibrating", "probed", "scaled"):
        if spent := [case.spent_s[what] for case in cases if case.spent_s and what in case.spent_s]:
            most_s = max(spent)
            verdict: Verdict = "met" if most_s <= SPENT_S else "missed"
            name = f"seconds spent, {what}: {SPENT_S:g} at most"
            yield Goal(name, "all", len(spent), f"at most {most_s:.0f} s", verdict)


def _by(cases: Sequence[Case], field: str) -> Iterator[tuple[str, list[Case]]]:
    for value in dict.fromkeys(getattr(case, field) for case in cases):
        yield value, [case for case in cases if getattr(case, field) == value]


def _errors(cases: Sequence[Case], way: str) -> list[float]:
    return [found[way] for case in cases if way in (found := case.errors())]


def _verdict(found: Interval, low: float, high: float) -> Verdict:
    """Whether it lies between these two: met if all of its interval does, missed if none."""
    if np.isnan(found.low):  # of one value alone
        return "inconclusive"
    if found.low >= low and found.high <= high:
        return "met"
    return "missed" if found.high < low or found.low > high else "inconclusive"


def _missed(cases: Sequence[Case], way: str, most: float, name: str, of: str) -> Iterator[Goal]:
    """The goal of a mean error of so much at most, where any of these was predicted so."""
    if errors := _errors(cases, way):
        error = mean(np.abs(errors))
        yield Goal(name, of, len(errors), error.text(".1%"), _verdict(error, -np.inf, most))


def _ahead(cases: Sequence[Case], ours: str, theirs: str, stack: str) -> Iterator[Goal]:
    """The goal that we miss by less than a baseline does, model by model."""
    both = [found for case in cases if {ours, theirs} <= (found := case.errors()).keys()]
    if both:
        mine, other = (np.abs([found[way] for found in both]) for way in (ours, theirs))
        name = f"{ours}: ahead of {theirs}"
        shown = f"{mine.mean():.1%} against {other.mean():.1%}"
        yield Goal(name, stack, len(both), shown, _verdict(mean(other - mine), 0.0, np.inf))
