"""Numbers that code needs and that were measured: derived from data/measurements into data/derived, never typed.

`python -m traintime.store.derived` writes the files again; a test holds that they are what the measurements give.
"""

import contextlib
import functools
import io
from dataclasses import dataclass

import numpy as np
import pandas as pd

from traintime import paths
from traintime.store.records import Record, files, is_sentinel, read
from traintime.workloads.base import FLOAT

WARM = 0.05  # a step is warm when the median over runs is this near to the later steps
FEWEST_WARM = 2
LONG_RUN = 20  # steps of a run that can show a warm-up
LARGE = 280_000  # rows from which on the table, and nothing else, decides the peak
GLIBC = "glibc"


@dataclass(frozen=True)
class Footprint:
    """What a stack was seen to hold: copies of the parameters at its peak, by way of training, and bytes when idle."""

    copies: dict[str, float]
    idle_bytes: float | None


def warmup(stack: str) -> int:
    """Steps after the first that do not count on this stack; the most of any stack where it was never calibrated."""
    steps = _csv("warm-up").set_index("stack")["warmup"]
    return int(steps.get(stack, steps.max()))


def footprint(stack: str) -> Footprint:
    """Copies and idle memory of this stack, as far as they were seen."""
    rows = _csv("memory")
    rows = rows[rows["stack"] == stack]
    copies = rows.dropna(subset="copies").set_index("how")["copies"].to_dict()
    return Footprint(copies, float(rows["idle_bytes"].max()) if len(rows) else None)


@functools.cache
def _csv(name: str) -> pd.DataFrame:
    return pd.read_csv(paths.DERIVED / f"{name}.csv")


def derive_warmup(records: list[Record]) -> pd.DataFrame:
    """For each stack the steps after the first until the median over all runs is within 5 % of their later steps.

    From runs without a source hash alone, those of before the calibration: a later measurement must not change how
    later ones are made, or no two of them could be pooled.
    """
    curves: dict[str, list[np.ndarray]] = {}
    for record in records:
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


def derive_memory(records: list[Record]) -> pd.DataFrame:
    """For each stack and way of training the copies of the parameters at the peak, and the stack's idle memory.

    Copies: the slope from idle to the peak of large tables on a CPU under glibc, the median over points; idle: the
    least peak after the model was built, less the parameters it holds already.
    """
    copies: dict[tuple[str, str], list[float]] = {}
    idles: dict[str, list[float]] = {}
    usable = [r for r in records if r.point.run.allocator == GLIBC and r.point.run.device == "cpu"]
    for record in usable:
        table = FLOAT * record.point.work.parameters
        for result in (i.result for i in record.invocations if i.result):
            idles.setdefault(record.stack, []).append(max(result.memory["built"] - table, result.memory["imported"]))
    idle = {stack: min(values) for stack, values in idles.items()}
    for record in usable:
        rows = getattr(record.point.sizes, "vocabulary", 0)
        for result in (i.result for i in record.invocations if i.result and rows >= LARGE):
            above_idle = result.memory["peak"] - idle[record.stack] - record.point.work.activation_bytes
            share = above_idle / (FLOAT * record.point.work.parameters)
            copies.setdefault((record.stack, record.point.sizes.how), []).append(share)
    rows = [
        {"stack": stack, "how": way, "copies": np.median(values), "idle_bytes": idle[stack], "runs": len(values)}
        for (stack, way), values in sorted(copies.items())
    ]
    return pd.DataFrame(rows)


def derived() -> dict[str, pd.DataFrame]:
    """Every derived table by name, from data/measurements."""
    records = [read(path) for path in files(paths.MEASUREMENTS) if not is_sentinel(path)]
    return {"warm-up": derive_warmup(records), "memory": derive_memory(records).round(3)}


def write(name: str, table: pd.DataFrame, digits: int = 6) -> None:
    """Write a derived table with so many significant digits, unless its file holds the same but for the last one.

    Another processor rounds otherwise, and everything that rests on the file would be judged again for that.
    """
    path, text = paths.DERIVED / f"{name}.csv", table.to_csv(index=False, float_format=f"%.{digits}g")
    if path.exists():
        now = pd.read_csv(io.StringIO(text))
        with contextlib.suppress(AssertionError):
            return pd.testing.assert_frame_equal(pd.read_csv(path), now, rtol=20 * 10.0**-digits, atol=0)
    path.write_text(text)


def main() -> None:
    """Write data/derived again."""
    paths.DERIVED.mkdir(exist_ok=True)
    for name, table in derived().items():
        write(name, table)


if __name__ == "__main__":
    main()
