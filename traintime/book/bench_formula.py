"""How sharp the formula is: its error for a point that it has not seen, beside the error of measuring that point again.

No prediction can be sharper than the thing that it predicts; GOAL says how near to that the formula should come.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from traintime.book import stored
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


def points(measurements: Measurements, allocator: str = "glibc") -> pd.DataFrame:
    """The classifier's points with Adam on the whole table, at any vocabulary, batch and length."""
    sizes = dict.fromkeys(formula.COLUMNS.values(), stored.ANY)
    found = measurements.points(allocator=allocator, **sizes)
    return found.dropna(subset="step_s").reset_index(drop=True)


def mapped_rows(rows: pd.DataFrame) -> float:
    """Rows of a table that is as large as the blocks that glibc always maps anew."""
    return MAPPED_FROM / (FLOAT * int(rows["embedding"].iloc[0]))


@dataclass(frozen=True)
class Sharpness:
    """The formula on one stack under one allocator.

    points: how many it is fitted to; terms: the coefficients' names; spread: run-to-run error of one invocation,
    pooled over these points; repeat: error of measuring the points again; left_out: error for points left out of the
    fit, both mean absolute relative errors; ratio: left_out / repeat. The last three are missing (NaN) where there
    are too few points.
    """

    machine: str
    stack: str
    allocator: str
    points: int
    terms: str
    spread: Spread
    repeat: float
    left_out: float
    ratio: Interval

    @property
    def within(self) -> bool | None:
        """Whether the ratio is within the goal: None where its interval does not decide."""
        if np.isnan(self.ratio.low) or GOAL in self.ratio:
            return None
        return self.ratio.value < GOAL


def sharpness(measurements: Measurements, allocator: str = "glibc", bend: bool = False) -> Iterator[Sharpness]:
    """Each stack of a machine that ran under the allocator; with `bend` the formula has glibc's second price of a row.

    The terms are those that the points can tell apart (formula.shape), with SPARE points more than terms.
    """
    found = points(measurements, allocator)
    for stack, rows in found.groupby("stack", sort=False):
        rows = formula.varied(rows).reset_index(drop=True)
        shape = formula.shape(rows)
        if bend and "b" in shape.terms:
            shape = formula.bent(shape, mapped_rows(rows))
        terms = " ".join(shape.terms)
        spread = statistics.pooled_spread(measurements.values(rows))
        name = (measurements.title, str(stack), allocator, len(rows), terms, spread)
        enough = len(rows) >= len(shape.terms) + SPARE and "b" in shape.terms and ("m" in shape.terms) == bend
        if not enough:
            yield Sharpness(*name, np.nan, np.nan, Interval(np.nan))
            continue
        numbers = np.array([len(values) for values in measurements.values(rows)])
        repeat = formula.repeat_error(spread, numbers)
        errors = np.abs(formula.leave_one_out(shape, rows, rows["step_s"].to_numpy()))
        yield Sharpness(*name, repeat, float(errors.mean()), ratio(errors, repeat, spread))


def ratio(errors: np.ndarray, repeat: float, spread: Spread) -> Interval:
    """Mean error over repeat error; its interval holds the chance of these points and of the spread's estimate."""
    if not spread.degrees:
        return Interval(np.nan)
    random = np.random.default_rng(0)
    means = random.choice(errors, size=(DRAWS, len(errors))).mean(axis=1)
    scales = np.sqrt(random.chisquare(spread.degrees, DRAWS) / spread.degrees)
    return formula.interval(pd.Series(means / repeat * scales), float(errors.mean()) / repeat)


def every_machine() -> list[Sharpness]:
    """The formula on every machine that the book shows: under each allocator, under glibc also with the bend."""
    found = []
    for machine in stored.listed():
        for allocator in ALLOCATORS:
            found += sharpness(stored.of(machine), allocator)
        found += sharpness(stored.of(machine), "glibc", bend=True)
    return found
