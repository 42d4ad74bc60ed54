"""The sources' own figures, read from data/original and brought to seconds per step."""

import functools

import pandas as pd

from traintime import paths
from traintime.explain import formula


def read(name: str) -> pd.DataFrame:
    """One file of data/original, as it is. name: without the ending, for example `s0-claims`."""
    return pd.read_csv(paths.ORIGINAL / f"{name}.csv")


def s0() -> pd.DataFrame:
    """The two surviving tables of S0, one row a cell.

    Columns: sweep ("vocabulary" or "batch"), device ("CPU" or "GPU"), vocabulary, batch, length, sentences,
    epoch_s, step_s, and half_step_s: what rounding the printed figure may hide, in seconds a step.
    """
    sweeps = ("vocabulary", "batch")
    tables = [pd.read_csv(paths.ORIGINAL / f"s0-{sweep}.csv", dtype={"printed": str}) for sweep in sweeps]
    rows = pd.concat(tables, keys=sweeps, names=["sweep", None]).reset_index("sweep").reset_index(drop=True)
    steps = rows["sentences"] / rows["batch"]
    rows["step_s"] = rows["epoch_s"] / steps
    # Printed in thousands of seconds: half a unit of the last digit is 0.05 of "2.7", 0.5 of "25".
    decimals = rows["printed"].str.partition(".")[2].str.len()
    rows["half_step_s"] = 0.5 * 10.0**-decimals * 1000 / steps
    return rows


@functools.cache
def s0_fits(draws: int = 1000) -> dict[str, formula.Fit]:
    """The three-term formula fitted to each device's six cells; `draws` figures within the printed ones' rounding.

    Each device has draws of its own, so that the ratio of two coefficients may be taken draw by draw.
    """
    fits = {}
    for seed, (device, rows) in enumerate(s0().groupby("device")):
        seconds = rows["step_s"].to_numpy()
        drawn = formula.rounded(seconds, rows["half_step_s"].to_numpy(), draws, seed)
        fits[device] = formula.fit(formula.THREE_TERMS, rows, seconds, drawn)
    return fits
