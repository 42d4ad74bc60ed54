"""How much memory a point needs: predicted before it is tried, and split into what holds it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from traintime.errors import InputError
from traintime.point import Point
from traintime.store.derived import Footprint
from traintime.workloads.base import ACCUMULATED, BY_ROW, FLOAT, UPDATES

GIB = 2**30
# The least that an optimizer needs, in copies of the parameters: parameter, gradient, moments.
LEAST_COPIES = {name: 2.0 + each.slots for name, each in UPDATES.items()} | dict.fromkeys(BY_ROW, 3.0) | {"frozen": 1.0}
LEAST_COPIES |= {name + ACCUMULATED: 3.0 + each.slots for name, each in UPDATES.items() if name not in BY_ROW}
READY = 16  # batches that a worker holds all the time: none of a model's memory (measuring/worker/samples.POOL)
IDLE = float(GIB)  # of a stack that was never measured: no framework here holds more before it trains


def copies(point: Point, footprint: Footprint) -> float:
    """Copies of the parameters that the stack holds at its peak; the least possible where nobody measured it."""
    return footprint.copies.get(point.sizes.how, LEAST_COPIES[point.sizes.how])


def predicted_peak(point: Point, footprint: Footprint) -> float:
    """Predicted peak memory of the worker, bytes: the framework itself, copies of the parameters, and activations.

    Under glibc as it comes; allocators that keep what they freed need more (Theano, which reuses little, by half).
    """
    work, idle = point.work, IDLE if footprint.idle_bytes is None else footprint.idle_bytes
    return idle + copies(point, footprint) * FLOAT * work.parameters + work.activation_bytes


def refuse_beyond_memory(point: Point, stack: str, footprint: Footprint, available: float) -> None:
    """Raise InputError when the point is predicted not to fit into the memory that is available, bytes.

    On a GPU that is the card's whole memory; what a card's own allocator needs in addition is not predicted yet.
    """
    needed = predicted_peak(point, footprint)
    if needed > available:
        largest = max(point.sizes.model_dump().items(), key=lambda item: item[1] if type(item[1]) is int else 0)
        raise InputError(
            *largest,
            f"needs about {needed / GIB:.1f} GiB on {stack} and {available / GIB:.1f} GiB are free",
            "Take a smaller one, or try it all the same: measure --beyond-memory, or beyond_memory: true in a profile.",
        )


@dataclass(frozen=True)
class Holding:
    """What a stack holds at its peak, beyond what it holds idle.

    runtime: bytes, whatever the model; copies: of the parameters; kept: of the activations (Work's
    activation_bytes); errors: relative errors of the points it was fitted to; left_out: of each from the others.
    """

    runtime: float
    copies: float
    kept: float
    errors: NDArray[np.float64]
    left_out: NDArray[np.float64]

    def bytes(self, parameter_bytes: ArrayLike, activation_bytes: ArrayLike) -> NDArray[np.float64]:
        """Bytes held beyond idle."""
        return self.runtime + self.copies * np.asarray(parameter_bytes) + self.kept * np.asarray(activation_bytes)


def holding(parameter_bytes: ArrayLike, activation_bytes: ArrayLike, held: ArrayLike) -> Holding:
    """Separate the three by non-negative least squares in relative error.

    All of shape (points,), bytes; held: peak less idle. Raises ValueError for fewer than four points: three would be
    met exactly, whatever they are.
    """
    held = np.asarray(held, float)
    if len(held) < 4:
        raise ValueError(f"{len(held)} configurations cannot determine three parts")
    design = np.column_stack([np.ones(len(held)), parameter_bytes, activation_bytes])
    solution, left_out = told_apart(design, held, held)
    return Holding(*map(float, solution), design @ solution / held - 1, left_out / held - 1)


def told_apart(
    design: NDArray[np.float64], held: NDArray[np.float64], over: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Non-negative least squares of what is held, each point's error counted relative to `over`.

    design: shape (points, parts); held, over: (points,), bytes. Returns what a unit of each part holds, (parts,), and
    the bytes of each point by the others alone, (points,).
    """
    # In units of the largest value of each part: bytes and copies are nine orders of magnitude apart.
    scale = np.maximum(design.max(axis=0), 1.0)

    def solve(chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        return nnls(design[chosen] / scale / over[chosen, None], held[chosen] / over[chosen])[0] / scale

    every = np.ones(len(held), bool)
    others = [every & (np.arange(len(held)) != one) for one in range(len(held))]
    left_out = [design[one] @ solve(chosen) for one, chosen in enumerate(others)]
    return solve(every), np.array(left_out)
