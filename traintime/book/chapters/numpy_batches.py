"""What chapters 4 and 14 take from chapter 10: the line of S3's six times, and what a page fault costs its network."""

import functools

import numpy as np
import pandas as pd

from traintime.book import original
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula
from traintime.explain.formula import Fit

NUMPY = "numpy"
SIZES = {"workload": "convnet", "optimizer": "sgd", "batch": ANY, "stack": NUMPY}
ALLOCATORS = ("glibc", "tcmalloc")
SMALL_PAGES = 256  # the largest batch whose pages are all of the usual size
EPOCH = 60_000  # images of MNIST's training set; the question does not say how many of them it used


def document_line() -> tuple[pd.DataFrame, dict[str, float]]:
    """S3's six batches and the two costs, F per step and c per image, s.

    Columns: step_s, seconds a step had it used all of MNIST, and off, the relative error of the line.
    """
    table = original.read("s3-batch")
    table = table.assign(step_s=table["total_s"] / table["epochs"] / EPOCH * table["batch"])
    solution = formula.solve(formula.BATCH_LINE.design(table), table["step_s"].to_numpy(float))
    off = formula.BATCH_LINE.design(table) @ solution / table["step_s"] - 1
    return table.assign(off=off), dict(zip(formula.BATCH_LINE.terms, solution.tolist(), strict=True))


def worst_of_the_document() -> float:
    """By how much the line misses the time that it fits worst, a share."""
    return float(document_line()[0]["off"].abs().max())


@functools.cache
def three_prices(book: Measurements) -> Fit:
    """A cost per step, per image and per fresh page, of batches up to SMALL_PAGES images under both allocators.

    Raises KeyError where these are too few.
    """
    rows = book.points(**SIZES, allocator=[*ALLOCATORS])
    anew = [values.mean() if len(values) else np.nan for values in book.values(rows, "faults_a_step")]
    rows = rows.assign(faults_a_step=np.array(anew, float), how="at once")
    rows = rows[rows["batch"].astype(float) <= SMALL_PAGES].dropna(subset="faults_a_step")
    if rows["allocator"].nunique() < len(ALLOCATORS):
        raise KeyError("under one allocator alone")
    return book.lines(rows, formula.BATCH_AND_PAGES)[NUMPY, "at once"]
