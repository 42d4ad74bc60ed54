"""What chapter 13 tells of memory: mixed bfloat16 relative to float32, on a large table and on many layers."""

from typing import Any

import pandas as pd

from traintime.book.stored import Measurements
from traintime.explain import memory
from traintime.workloads.base import FLOAT

KERAS3 = ("2026-tensorflow", "2026-jax", "2026-torch")
LARGE: dict[str, Any] = {"vocabulary": 200_000}
LAYERS: dict[str, Any] = {"workload": "dense", "inputs": 100, "hidden": 256, "layers": 32, "batch": 8192}
READY = memory.READY * FLOAT * 8192 * 110  # bytes of such a network's batches that lie ready: data


def frees(book: Measurements) -> pd.DataFrame:
    """The peak with bfloat16 relative to the usual one, less the data that lie ready: columns way, stack, peak."""
    rows = []
    for usual, data in ((LARGE, 0), (LAYERS, READY)):
        for stack in KERAS3:
            try:
                sides = book.sides(usual, usual | {"precision": "mixed-bfloat16"}, stack=stack)
            except KeyError:
                continue
            peak = sides.interval(lambda s, d=data: (s[1] - d) / (s[0] - d), "peak_bytes")
            rows.append({"way": "bfloat16", "stack": stack, "peak": peak})
    return pd.DataFrame(rows, columns=["way", "stack", "peak"])
