"""What training holds in memory at its peak, by stack: the framework, copies of the parameters, and what is kept.

Two derived tables say it. memory.csv has the copies that each way of training was seen to hold of a large table, and
what a stack holds idle: by these a point is refused before it is tried. holdings.csv has the memory model, which
predicts any model's peak; predict.fits fits it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from traintime.errors import InputError, unknown
from traintime.explain.least_squares import Array, Mask, left_out, solve
from traintime.point import Point
from traintime.store import derived
from traintime.store.records import Record
from traintime.workloads.base import ACCUMULATED, BY_ROW, FLOAT, UPDATES, Work

GIB = 2**30
ADAM = "adam"
# The least that an optimizer needs, in copies of the parameters: parameter, gradient, moments.
LEAST_COPIES = {name: 2.0 + each.slots for name, each in UPDATES.items()} | dict.fromkeys(BY_ROW, 3.0) | {"frozen": 1.0}
LEAST_COPIES |= {name + ACCUMULATED: 3.0 + each.slots for name, each in UPDATES.items() if name not in BY_ROW}
READY = 16  # batches that a worker holds all the time: none of a model's memory (measuring/worker/samples.POOL)
IDLE = float(GIB)  # of a stack that was never measured: no framework here holds more before it trains
LARGE = 280_000  # rows from which on the table, and nothing else, decides the peak
# Bytes of a card's memory that a process takes beside its arrays: 0.3 to 0.5 GB (PyTorch's issues 20532 and 107667).
CONTEXT = 0.4e9


# As it was seen, by way of training


def derive(records: Iterable[Record]) -> pd.DataFrame:
    """For each stack and way of training the copies of the parameters at the peak, and the stack's idle memory.

    Copies: the slope from idle to the peak of large tables on a CPU under glibc, the median over the runs of the code
    that measured last; idle: the least peak after the model was built, less the parameters it holds already.
    """
    rows = pd.DataFrame(
        {"stack": record.stack, "how": record.point.sizes.how, "rows": getattr(record.point.sizes, "vocabulary", 0)}
        | {"parameters": FLOAT * record.point.work.parameters, "activations": record.point.work.activation_bytes}
        | {"started": invocation.started, "code": invocation.code or ""}
        | invocation.result.memory
        for record in records
        if record.point.run.allocator == "glibc" and record.point.run.device == "cpu"
        for invocation in record.invocations
        if invocation.result
    )
    idle = np.maximum(rows["built"] - rows["parameters"], rows["imported"])
    rows = rows.assign(idle_bytes=idle.groupby(rows["stack"]).transform("min"))
    rows = rows[rows["rows"] >= LARGE].sort_values("started")
    rows = rows[rows["code"] == rows.groupby(["stack", "how"])["code"].transform("last")]
    copies = (rows["peak"] - rows["idle_bytes"] - rows["activations"]) / rows["parameters"]
    ways = rows.assign(copies=copies).groupby(["stack", "how"], as_index=False)
    return ways.agg(copies=("copies", "median"), idle_bytes=("idle_bytes", "first"), runs=("copies", "size")).round(3)


def copies(stack: str) -> dict[str, float]:
    """Copies of the parameters that the stack was seen to hold at its peak, by way of training."""
    rows = derived.read("memory")
    return rows[rows["stack"] == stack].dropna(subset="copies").set_index("how")["copies"].to_dict()


def idle_bytes(stack: str) -> float:
    """What the stack holds before it trains, bytes; IDLE where nobody measured it."""
    rows = derived.read("memory")
    rows = rows[rows["stack"] == stack]
    return float(rows["idle_bytes"].max()) if len(rows) else IDLE


def predicted_peak(point: Point, stack: str) -> float:
    """Predicted peak memory of the worker, bytes: the framework itself, copies of the parameters, and activations.

    Copies as they were seen, the least possible where nobody measured them. Under glibc as it comes; allocators that
    keep what they freed need more (Theano, which reuses little, by half).
    """
    work, how = point.work, point.sizes.how
    held = copies(stack).get(how, LEAST_COPIES[how])
    return idle_bytes(stack) + held * FLOAT * work.parameters + work.activation_bytes


def refuse_beyond_memory(point: Point, stack: str, available: float) -> None:
    """Raise InputError when the point is predicted not to fit into the memory that is available, bytes.

    On a GPU that is the card's whole memory; what a card's own allocator needs in addition is not predicted yet.
    """
    needed = predicted_peak(point, stack)
    if needed > available:
        largest = max(point.sizes.model_dump().items(), key=lambda item: item[1] if type(item[1]) is int else 0)
        raise InputError(
            *largest,
            f"needs about {needed / GIB:.1f} GiB on {stack} and {available / GIB:.1f} GiB are free",
            "Take a smaller one, or try it all the same: measure --beyond-memory, or beyond_memory: true in a profile.",
        )


# The memory model


@dataclass(frozen=True)
class MemoryModel:
    """Of one stack: idle and runtime in bytes, copies of the parameters under Adam, copies of what is kept for the
    backward pass, recurrent of it by the time steps of recurrent layers and kept of it otherwise; error: root mean
    square of the logarithm of measured over predicted, of points left out or of whole trainings predicted
    (predict.record), whichever is larger; repeat: of measuring a peak again.

    Recurrent layers' time steps have a cost of their own: the same loop is unrolled into many small arrays on one stack
    and compiled on another, and its share of what the formula counts is another than a convolution's.
    """

    stack: str
    idle: float
    runtime: float
    copies: float
    kept: float
    recurrent: float
    error: float
    repeat: float

    def peak_bytes(self, work: Work, how: str = ADAM) -> float:
        """Peak memory of a process that trains this, bytes; how: optimizer, or "frozen" for a frozen table."""
        return self.idle + self.beyond_idle(work, how)

    def beyond_idle(self, work: Work, how: str = ADAM, frozen: int = 0) -> float:
        """The same without what the stack holds idle; frozen: parameters that have neither a gradient nor a state."""
        kept = self.kept * (work.activation_bytes - work.recurrent_bytes) + self.recurrent * work.recurrent_bytes
        return self.runtime + (FLOAT * (self.copies_of(how) * (work.parameters - frozen) + frozen) + kept)

    def copies_of(self, how: str) -> float:
        """Copies of the parameters when they are trained so: Adam's, and what was seen to differ from it, or must."""
        seen = copies(self.stack)
        known = seen if how in seen and ADAM in seen else LEAST_COPIES
        return max(self.copies + known.get(how, known[ADAM]) - known[ADAM], 1.0)


def stacks() -> list[str]:
    """Stacks whose memory model is known."""
    return sorted(derived.read("holdings")["stack"])


def memory_model(stack: str) -> MemoryModel:
    """What this stack holds. Raises InputError for one that was never measured."""
    if stack not in stacks():
        raise unknown("stack", stack, stacks())
    names = [each.name for each in fields(MemoryModel) if each.name != "stack"]
    row = derived.read("holdings", "stack").loc[stack, names]
    return MemoryModel(stack, **row.astype(float).to_dict())


def told_apart(design: Array, held: Array, over: Array) -> tuple[Array, Array]:
    """Non-negative least squares of what is held, each point's error counted relative to `over`.

    design: shape (points, parts); held, over: (points,), bytes. Returns what a unit of each part holds, (parts,), and
    the bytes of each point by the others alone, (points,).
    """
    # In units of the largest value of each part: bytes and copies are nine orders of magnitude apart.
    scale = np.maximum(design.max(axis=0), 1.0)

    def fitted(chosen: Mask) -> Array:
        return solve(design[chosen], held[chosen], over[chosen], scale)

    return fitted(np.ones(len(held), bool)), left_out(design, range(len(held)), fitted)
