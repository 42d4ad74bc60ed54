"""What training holds in memory at its peak, by stack: the framework, copies of the parameters, and what is kept.

`python -m traintime.predict.holdings` fits them to the stored measurements (data/derived/holdings.csv); a test holds
that the file is what they give.
"""

import functools
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from traintime import paths
from traintime.errors import unknown
from traintime.explain import memory
from traintime.explain.statistics import pooled_spread
from traintime.predict import peaks
from traintime.predict.prices import rms, usable
from traintime.store import derived, records
from traintime.workloads.base import FLOAT, Work

ADAM = "adam"


@dataclass(frozen=True)
class Held:
    """Of one stack: idle and runtime in bytes, copies of the parameters under Adam, copies of what is kept for the
    backward pass; error: root mean square of the logarithm of measured over predicted, of points left out or of whole
    trainings foretold (predict.peaks), whichever is larger; repeat: of measuring a peak again.
    """

    stack: str
    idle: float
    runtime: float
    copies: float
    kept: float
    error: float
    repeat: float

    def peak_bytes(self, work: Work, how: str = ADAM) -> float:
        """Peak memory of a process that trains this, bytes; how: optimizer, or "frozen" for a frozen table."""
        return self.idle + self.beyond_idle(work, how)

    def beyond_idle(self, work: Work, how: str = ADAM) -> float:
        """The same without what the stack holds before it trains."""
        return self.runtime + self.of_model(work, how)

    def of_model(self, work: Work, how: str = ADAM) -> float:
        """What grows with the model alone: copies of its parameters, and what is kept for the backward pass, bytes."""
        return self.copies_of(how) * FLOAT * work.parameters + self.kept * work.activation_bytes

    def error_of(self, tier: str) -> float:
        """The error of a peak that this tier foretells: these points are the formula's alone."""
        return self.error if tier == "formula" else peaks.error(tier, self.stack)

    def copies_of(self, how: str) -> float:
        """Copies of the parameters when they are trained so: Adam's, and what was seen to differ from it, or must."""
        seen = derived.footprint(self.stack).copies
        known = seen if how in seen and ADAM in seen else memory.LEAST_COPIES
        return max(self.copies + known.get(how, known[ADAM]) - known[ADAM], 1.0)


def derive() -> pd.DataFrame:
    """A row for each stack with enough points under Adam, glibc, on a CPU: columns stack, idle, runtime, copies, kept,
    error, repeat, points.
    """
    found: dict[str, list[tuple[Work, list[int]]]] = {}
    for path in records.files(paths.MEASUREMENTS):
        if records.is_sentinel(path) or not usable((record := records.read(path)).point):
            continue
        each = [one.result.memory["peak"] for one in record.invocations if one.status == "ok" and one.result]
        if each and record.point.sizes.how == ADAM:
            found.setdefault(record.stack, []).append((record.point.work, each))
    rows = []
    for stack, of_stack in sorted(found.items()):
        idle = derived.footprint(stack).idle_bytes or memory.IDLE
        parameters = np.array([FLOAT * work.parameters for work, _ in of_stack], float)
        kept = np.array([work.activation_bytes for work, _ in of_stack], float)
        seen = np.array([np.median(each) for _, each in of_stack])
        held = memory.holding(parameters, kept, np.maximum(seen - idle, 1.0))
        predicted = idle + (1 + held.left_out) * np.maximum(seen - idle, 1.0)
        one = {"stack": stack, "idle": idle, "runtime": held.runtime, "copies": held.copies, "kept": held.kept}
        error = max(rms(np.log(seen / predicted)), peaks.error("formula", stack))
        one |= {"error": error, "repeat": pooled_spread(each for _, each in of_stack).sd}
        rows.append(one | {"points": len(seen)})
    return pd.DataFrame(rows)


@functools.cache
def _stored() -> pd.DataFrame:
    return pd.read_csv(paths.DERIVED / "holdings.csv").set_index("stack")


def stacks() -> list[str]:
    """Stacks whose holdings are known."""
    return sorted(_stored().index)


def of_stack(stack: str) -> Held:
    """What this stack holds. Raises InputError for one that was never measured."""
    rows = _stored()
    if stack not in rows.index:
        raise unknown("stack", stack, stacks())
    names = [each.name for each in fields(Held) if each.name != "stack"]
    return Held(stack, **rows.loc[stack, names].astype(float).to_dict())


if __name__ == "__main__":
    derive().to_csv(paths.DERIVED / "holdings.csv", index=False, float_format="%.6g")
