"""Numbers that code needs and that were measured: derived from data/measurements into data/derived, never typed.

`python -m traintime.derive` writes the files again; continuous integration does, and nothing may change.
"""

import contextlib
import functools
import io
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from traintime import paths
from traintime.store import records
from traintime.store.records import Record

WARM = 0.05  # a step is warm when the median over runs is this near to the later steps
FEWEST_WARM = 2
DIGITS = 6  # significant ones
LONG_RUN = 20  # steps of a run that can show a warm-up


@functools.cache
def read(name: str, *index: str) -> pd.DataFrame:
    """A derived table by its name, with these columns as its index."""
    rows = pd.read_csv(paths.DERIVED / f"{name}.csv")
    return rows.set_index(list(index)) if index else rows


def write(name: str, table: pd.DataFrame) -> None:
    """Write a derived table with DIGITS significant digits, unless its file holds the same but for the last one.

    Another processor rounds otherwise, and everything that rests on the file would be judged again for that.
    """
    read.cache_clear()
    path, text = paths.DERIVED / f"{name}.csv", table.to_csv(index=False, float_format=f"%.{DIGITS}g")
    if path.exists():
        now = pd.read_csv(io.StringIO(text))
        with contextlib.suppress(AssertionError):
            return pd.testing.assert_frame_equal(pd.read_csv(path), now, rtol=20 * 10.0**-DIGITS, atol=0)
    path.write_text(text)


def measured(machine: str | None = None) -> Iterator[Record]:
    """What was measured, a record a point and stack, of one machine or of all; sentinels are left out."""
    for path in records.files(paths.MEASUREMENTS, machine):
        if not records.is_sentinel(path):
            yield records.read(path)


def warmup(stack: str) -> int:
    """Steps after the first that do not count on this stack; the most of any stack where it was never calibrated."""
    steps = read("warm-up", "stack")["warmup"]
    return int(steps.get(stack, steps.max()))


def derive_warmup(found: Iterable[Record]) -> pd.DataFrame:
    """For each stack the steps after the first until the median over all runs is within 5 % of their later steps.

    From runs without a source hash alone, those of before the calibration: a later measurement must not change how
    later ones are made, or no two of them could be pooled.
    """
    curves: dict[str, list[np.ndarray]] = {}
    for record in found:
        for invocation in record.invocations:
            if invocation.result and invocation.code is None and len(invocation.result.timing.steps_ns) >= LONG_RUN:
                steps = np.array(invocation.result.timing.steps_ns, dtype=float)
                late = np.median(steps[len(steps) // 2 :])
                curves.setdefault(record.stack, []).append(steps[: LONG_RUN // 2] / late)
    rows = []
    for stack in sorted(curves):
        cold = np.flatnonzero(np.median(curves[stack], axis=0) > 1 + WARM)
        needed = max(FEWEST_WARM, int(cold[-1]) + 1 if len(cold) else 0)
        rows.append({"stack": stack, "warmup": needed, "runs": len(curves[stack])})
    return pd.DataFrame(rows)
