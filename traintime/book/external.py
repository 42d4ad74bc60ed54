"""Figures that others published: hardware that we did not measure, and benchmarks to hold the formula against."""

import pandas as pd

from traintime import paths


def read(name: str) -> pd.DataFrame:
    """A table of data/external, by its file's name without the ending; the README there says what each one holds."""
    return pd.read_csv(paths.EXTERNAL / f"{name}.csv")


def hardware(device: str) -> dict[str, float]:
    """Published figures of one device, by name: FLOP/s, byte/s, Hz or counts; each source is in the file."""
    rows = read("hardware")
    return rows[rows["device"] == device].set_index("name")["value"].astype(float).to_dict()
