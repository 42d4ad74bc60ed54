"""Measurements that nobody made: rows as store.table gives them, with times of known coefficients."""

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from traintime.book.stored import Measurements
from traintime.point import make_point


def rows(stack: str, points: Iterable[dict], seconds: Callable[[dict], float], error: float = 0.02, rounds: int = 3):
    """One row an invocation: points as fields; their seconds a step, each run off by a share of its own."""
    random = np.random.default_rng(sum(map(ord, stack)))
    found = []
    for fields in points:
        point = make_point(**fields)
        for number in range(1, rounds + 1):
            step = seconds(point.fields) * np.exp(error * random.standard_normal())
            row = {"machine": "made-up", "stack": stack, "key": point.key} | point.fields
            row |= {"sweep": "made-up", "round": number, "started": f"2026-01-02T03:04:{number:02}Z", "status": "ok"}
            row |= {"threads": 2, "protocol": "2+30", "code": "0123456789ab", "disturbed": False, "again": False}
            row |= {"fixed": True, "path": "glibc", "versions": "numpy 2.0.0", "told": None}
            found.append(row | {"step_s": step, "median_s": step, "peak_bytes": 1e9})
    return pd.DataFrame(found)


def measurements(*parts: pd.DataFrame) -> Measurements:
    """All of them as those of one machine."""
    return Measurements(pd.concat(parts, ignore_index=True), "made-up")
