"""What chapter 14 takes from chapter 10: the line of S3's six times."""

import pandas as pd

from traintime.book import original
from traintime.explain import formula

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
