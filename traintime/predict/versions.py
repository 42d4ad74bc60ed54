"""Versions of the predictor: what it knew when it predicted a model (data/predicted/versions.csv).

A model that was predicted and trained names the version that predicted it; of those from before it did, the date tells.
Accuracy is quoted of the newest version with enough trainings (predict.record).
"""

import functools

import pandas as pd

from traintime import paths


@functools.cache
def table() -> pd.DataFrame:
    """Every version, the index: columns since (the first moment, UTC), knows (in words)."""
    return pd.read_csv(paths.PREDICTED / "versions.csv", index_col="version")


def current() -> int:
    """The version that predicts now."""
    return int(table().index.max())


def at(started: str) -> int:
    """The version that predicted a model which was tried at this moment (UTC)."""
    return int((table()["since"] <= started).sum())
