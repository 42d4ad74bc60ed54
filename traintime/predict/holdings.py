"""What training holds in memory at its peak, by stack: the framework, copies of the parameters, and what is kept.

What recurrent layers keep of their time steps has a cost of its own: the same loop is unrolled into many small arrays
on one stack and compiled on another, and its share of what the formula counts is another than a convolution's.

`python -m traintime.predict.holdings` fits them to the stored measurements (data/derived/holdings.csv); a test holds
that the file is what they give.
"""

import functools
import importlib
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from traintime import paths
from traintime.errors import unknown
from traintime.explain import memory
from traintime.explain.statistics import pooled_spread
from traintime.point import Point
from traintime.predict import record
from traintime.predict.prices import rms, usable
from traintime.store import derived, records
from traintime.workloads.base import FLOAT, Work

ADAM = "adam"
# Bytes of a card's memory that a process takes beside its arrays: 0.3 to 0.5 GB (PyTorch's issues 20532 and 107667).
CONTEXT = 0.4e9


@dataclass(frozen=True)
class MemoryModel:
    """Of one stack: idle and runtime in bytes, copies of the parameters under Adam, copies of what is kept for the
    backward pass, recurrent of it by the time steps of recurrent layers and kept of it otherwise; error: root mean
    square of the logarithm of measured over predicted, of points left out or of whole trainings predicted
    (predict.record), whichever is larger; repeat: of measuring a peak again.
    """

    stack: str
    idle: float
    runtime: float
    copies: float
    kept: float
    recurrent: float
    error: float
    repeat: float

    def peak_bytes(self, work: Work, how: str = ADAM, frozen: int = 0) -> float:
        """Peak memory of a process that trains this, bytes; how: optimizer, or "frozen" for a frozen table; frozen:
        parameters that have neither a gradient nor a state.
        """
        return self.idle + self.beyond_idle(work, how, frozen)

    def beyond_idle(self, work: Work, how: str = ADAM, frozen: int = 0) -> float:
        """The same without what the stack holds before it trains."""
        return self.runtime + self.of_model(work, how, frozen)

    def of_model(self, work: Work, how: str = ADAM, frozen: int = 0) -> float:
        """What grows with the model alone: copies of its parameters, and what is kept for the backward pass, bytes."""
        kept = self.kept * _others(work) + self.recurrent * work.recurrent_bytes
        return FLOAT * (self.copies_of(how) * (work.parameters - frozen) + frozen) + kept

    def copies_of(self, how: str) -> float:
        """Copies of the parameters when they are trained so: Adam's, and what was seen to differ from it, or must."""
        seen = derived.footprint(self.stack).copies
        known = seen if how in seen and ADAM in seen else memory.LEAST_COPIES
        return max(self.copies + known.get(how, known[ADAM]) - known[ADAM], 1.0)


def derive() -> pd.DataFrame:
    """A row for each stack with enough points under Adam, glibc, on a CPU: columns as MemoryModel's fields, and points.

    Where only models with recurrent layers were measured, one cost is for all that is kept.
    """
    found: dict[str, list[tuple[Work, int, list[int]]]] = {}
    for path in records.files(paths.MEASUREMENTS):
        if records.is_sentinel(path) or not usable((kept := records.read(path)).point):
            continue
        each = [one.result.memory["peak"] for one in kept.invocations if one.status == "ok" and one.result]
        if each and kept.point.sizes.how == ADAM:
            found.setdefault(kept.stack, []).append((kept.point.work, _lie_ready(kept.point), each))
    rows = []
    for stack, of_stack in sorted(found.items()):
        idle = derived.footprint(stack).idle_bytes or memory.IDLE
        works, ready, each = zip(*of_stack, strict=True)
        # What others hold, they hold beyond the recurrent ones' price: few of them do not come out at nothing then.
        beyond = 0 if all(work.recurrent_bytes for work in works) else 1
        parts = [(1.0, FLOAT * work.parameters, work.activation_bytes, beyond * _others(work)) for work in works]
        design = np.array(parts, float)
        seen, before = np.array([np.median(one) for one in each]), idle + np.array(ready, float)
        found_each, left_out = memory.told_apart(design, np.maximum(seen - before, 1.0), seen)
        error = max(rms(np.log(seen / (before + left_out))), record.peak_error("formula", stack))
        runtime, copies, recurrent, more = map(float, found_each)
        one = {"stack": stack, "idle": idle, "runtime": runtime, "copies": copies}
        one |= {"kept": recurrent + more, "recurrent": recurrent}
        one |= {"error": error, "repeat": pooled_spread(each).sd}
        rows.append(one | {"points": len(seen)})
    return pd.DataFrame(rows)


def _others(work: Work) -> int:
    """What is kept for the backward pass outside of recurrent layers' time steps, bytes."""
    return work.activation_bytes - work.recurrent_bytes


def _lie_ready(point: Point) -> int:
    """Bytes of the batches that a worker holds all the time, which are not the model's."""
    data = importlib.import_module(f"traintime.workloads.{point.workload}.data")
    sample = data.samples(point.sizes.model_dump(), 1, np.random.RandomState(0))
    return memory.READY * point.sizes.batch * sum(array.nbytes for array in sample)


@functools.cache
def _stored() -> pd.DataFrame:
    return pd.read_csv(paths.DERIVED / "holdings.csv").set_index("stack")


def stacks() -> list[str]:
    """Stacks whose holdings are known."""
    return sorted(_stored().index)


def of_stack(stack: str) -> MemoryModel:
    """What this stack holds. Raises InputError for one that was never measured."""
    rows = _stored()
    if stack not in rows.index:
        raise unknown("stack", stack, stacks())
    names = [each.name for each in fields(MemoryModel) if each.name != "stack"]
    return MemoryModel(stack, **rows.loc[stack, names].astype(float).to_dict())


if __name__ == "__main__":
    derived.write("holdings", derive())
