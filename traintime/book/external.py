"""Figures that others published: hardware that we did not measure, and benchmarks to hold the formula against."""

import pandas as pd

from traintime import paths


def hardware(device: str) -> dict[str, float]:
    """Published figures of one device, by name: FLOP/s, byte/s, Hz or counts; each source is in the file."""
    rows = pd.read_csv(paths.EXTERNAL / "hardware.csv")
    return rows[rows["device"] == device].set_index("name")["value"].astype(float).to_dict()


def benchmarks() -> pd.DataFrame:
    """Published training times, one row each: sizes as far as they are given, seconds a sample or a step."""
    return pd.read_csv(paths.EXTERNAL / "benchmarks.csv")


def accuracies(data: str) -> "pd.Series[float]":
    """Accuracies that its makers published for a data set, shares by model."""
    rows = pd.read_csv(paths.EXTERNAL / "accuracies.csv")
    return rows[rows["data"] == data].set_index("model")["accuracy"]
