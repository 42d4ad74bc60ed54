"""How sharp the formula is: its error for a point that it has not seen, next to the error of measuring that point
again.

No prediction can be sharper than the thing that it predicts; GOAL says how near to that the formula should come.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import stored
from traintime.book.claims import below
from traintime.book.stored import Measurements
from traintime.explain import formula, statistics
from traintime.explain.formula import Formula
from traintime.explain.statistics import Interval, Spread
from traintime.measuring.allocators import MAPPED_FROM
from traintime.workloads.base import FLOAT

GOAL = 1.3  # leave-one-out error over repeat error
ALLOCATORS = ("glibc", "tcmalloc")
SPARE = 2  # points beyond the terms
DRAWS = 2000
MET = {True: "met", False: "missed", None: "open"}
HEADS = ["stack", "allocator", "points", "terms", "measured again", "left out", "ratio", f"goal {GOAL:g}"]


def points(measurements: Measurements, allocator: str = "glibc") -> pd.DataFrame:
    """The classifier's points with Adam on the whole table, at any vocabulary, batch and length."""
    sizes = dict.fromkeys(formula.SIZES.values(), stored.ANY)
    return measurements.points(allocator=allocator, **sizes).dropna(subset="step_s")


def by_stack(found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The points of each stack that a formula can be fitted to (formula.varied)."""
    groups = found.groupby("stack", sort=False)
    return {str(stack): formula.varied(rows).reset_index(drop=True) for stack, rows in groups}


def enough(rows: pd.DataFrame, shape: Formula) -> bool:
    """Whether the points can tell the cost of a row, and carry the formula's terms with SPARE points more."""
    return "b" in shape.terms and len(rows) >= len(shape.terms) + SPARE


def mapped_rows(rows: pd.DataFrame) -> int:
    """Rows of a table that is as large as the blocks that glibc always maps as fresh pages."""
    return MAPPED_FROM // (FLOAT * int(rows["embedding"].iloc[0]))


@dataclass(frozen=True)
class Sharpness:
    """The formula on one stack under one allocator.

    points: how many it is fitted to; terms: the coefficients' names; repeat: error of measuring the points again;
    left_out: error for points left out of the fit, both mean absolute relative errors; ratio: left_out / repeat. The
    last three are missing (NaN) where there are too few points.
    """

    machine: str
    stack: str
    allocator: str
    points: int
    terms: str
    repeat: float
    left_out: float
    ratio: Interval

    @property
    def verdict(self) -> str:
        """Whether the goal is met, in a word."""
        return "too few points" if np.isnan(self.left_out) else MET[below(GOAL)(self.ratio)]

    @property
    def plain(self) -> dict[str, Any]:
        """All of it for a program to read; what is missing is None."""
        given = vars(self) | {"verdict": self.verdict, "ratio": self.ratio.value}
        given |= {"low": self.ratio.low, "high": self.ratio.high}
        return {name: None if value != value else value for name, value in given.items()}

    @property
    def cells(self) -> list[str]:
        """A line of the table that people read (HEADS)."""
        errors = ["" if np.isnan(self.left_out) else f"{error:.1%}" for error in (self.repeat, self.left_out)]
        ratio = "" if np.isnan(self.ratio.value) else self.ratio.text()
        return [self.stack, self.allocator, f"{self.points}", self.terms, *errors, ratio, self.verdict]


def sharpness(measurements: Measurements, allocator: str = "glibc", bend: bool = False) -> Iterator[Sharpness]:
    """Each stack of a machine that ran under the allocator; with `bend` the formula has glibc's second cost of a row.

    The terms are those that the points can distinguish (formula.shape), with SPARE points more than terms.
    """
    for stack, rows in by_stack(points(measurements, allocator)).items():
        shape = formula.shape(rows)
        if bend:
            shape = formula.bent(shape, mapped_rows(rows))
        name = (measurements.title, stack, allocator, len(rows), " ".join(shape.terms))
        if not enough(rows, shape):
            yield Sharpness(*name, np.nan, np.nan, Interval(np.nan))
            continue
        # Pooled over these points alone: a stack repeats better under another allocator.
        values = measurements.values(rows)
        spread = statistics.pooled_spread(values)
        repeat = formula.repeat_error(spread, np.array([len(each) for each in values]))
        errors = np.abs(formula.leave_one_out(shape, rows, rows["step_s"].to_numpy()))
        yield Sharpness(*name, repeat, float(errors.mean()), ratio(errors, repeat, spread))


def ratio(errors: np.ndarray, repeat: float, spread: Spread) -> Interval:
    """Mean error over repeat error; its interval holds the chance of these points and of the spread's estimate."""
    if not spread.degrees:
        return Interval(np.nan)
    random = np.random.default_rng(0)
    means = random.choice(errors, size=(DRAWS, len(errors))).mean(axis=1)
    scales = np.sqrt(random.chisquare(spread.degrees, DRAWS) / spread.degrees)
    return statistics.central(pd.Series(means / repeat * scales), float(errors.mean()) / repeat)


def every_machine() -> list[Sharpness]:
    """The formula on every machine that the book shows: under each allocator, under glibc also with the bend."""
    found = []
    for machine in stored.listed():
        for allocator in ALLOCATORS:
            found += sharpness(stored.of(machine), allocator)
        found += sharpness(stored.of(machine), "glibc", bend=True)
    return found
