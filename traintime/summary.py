"""From invocations to one row a point: the mean, its interval, and the noise floor that a difference must exceed."""

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd

SIZES = ["vocabulary", "embedding", "units", "length", "batch", "optimizer", "frozen", "device"]
# What differs from the usual way of running, and the usual value.
USUAL = {"tokens": "uniform", "words": None, "mask": False, "loop": "steps", "allocator": "glibc", "cudnn": None}
POINT_FIELDS = [*SIZES, *USUAL]
RESAMPLES = 2000
SAME = "cannot be told apart"


def interval_of(
    statistic: Callable[..., np.ndarray], values: np.ndarray, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Bootstrap interval of a statistic (np.mean, np.median); a single value has none (NaN)."""
    if len(values) < 2:
        return float("nan"), float("nan")
    random = np.random.default_rng(seed)
    drawn = statistic(random.choice(values, size=(RESAMPLES, len(values))), axis=1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def mean_interval(values: np.ndarray, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Bootstrap interval of the mean over invocations (Kalibera & Jones 2013)."""
    return interval_of(np.mean, values, level, seed)


def ratio_interval(above: np.ndarray, below: np.ndarray, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Bootstrap interval of the ratio of two means, each resampled over its own invocations."""
    random = np.random.default_rng(seed)
    ratios = random.choice(above, size=(RESAMPLES, len(above))).mean(axis=1)
    ratios /= random.choice(below, size=(RESAMPLES, len(below))).mean(axis=1)
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def verdict(ratio: float, low: float, high: float, noise: float, above: str, below: str) -> str:
    """Which of two is faster, if that may be said: the interval of the ratio of their times excludes 1, and the
    difference exceeds the noise floor and 5 %.
    """
    least = 1 + max(noise, 0.05)
    if low > 1 and ratio > least:
        return below
    if high < 1 and ratio < 1 / least:
        return above
    return SAME


def points(table: pd.DataFrame) -> pd.DataFrame:
    """One row a point and stack: status, number of invocations, mean step with its interval, peak memory.

    table: as store.table gives it. A point whose invocations did not all end well has the first other
    status in `status`; its times are of the ones that did, or missing. Seconds and bytes. An empty table has no
    points and the same columns.
    """
    rows = []
    by = ["machine", "stack", "key", *[name for name in POINT_FIELDS if name in table.columns]]
    for names, group in table.groupby(by, sort=False, dropna=False):
        good = group[group["status"] == "ok"]
        bad = group.loc[group["status"] != "ok", "status"]
        row = dict(zip(by, names, strict=True))
        row |= {"status": "ok" if bad.empty else bad.iloc[0], "invocations": len(group)}
        if len(good):
            steps = good["step_s"].to_numpy()
            low, high = mean_interval(steps)
            row |= {"step_s": steps.mean(), "low_s": low, "high_s": high, "peak_bytes": good["peak_bytes"].max()}
        else:
            row |= {"step_s": np.nan, "low_s": np.nan, "high_s": np.nan, "peak_bytes": np.nan}
        rows.append(row)
    columns = [*by, "status", "invocations", "step_s", "low_s", "high_s", "peak_bytes"]
    return pd.DataFrame(rows, columns=columns).sort_values(["stack", *by[3:]], ignore_index=True)


def noise_floor(sentinel: pd.DataFrame) -> float:
    """How far apart two runs of one and the same thing land: the 95 % quantile of |ratio - 1| over all pairs.

    sentinel: store.table(..., sentinel=True). NaN with fewer than two runs.
    """
    steps = sentinel.loc[sentinel["status"] == "ok", "step_s"].to_numpy() if len(sentinel) else []
    gaps = [max(a, b) / min(a, b) - 1 for a, b in itertools.combinations(steps, 2)]
    return float(np.quantile(gaps, 0.95)) if gaps else float("nan")
