"""How much memory a point needs, predicted before it is tried."""

from traintime.errors import InputError
from traintime.point import Point
from traintime.store.derived import Footprint
from traintime.workloads.base import FLOAT, SLOTS

GIB = 2**30
# The least that an optimizer needs, in copies of the parameters: parameter, gradient, moments.
LEAST_COPIES = {name: 2.0 + slots for name, slots in SLOTS.items()} | {"adam-rows": 3.0, "frozen": 1.0}
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

    On a GPU that is the card's whole memory; what a card's own allocator needs beside it is not predicted yet.
    """
    needed = predicted_peak(point, footprint)
    if needed > available:
        largest = max(point.sizes.model_dump().items(), key=lambda item: item[1] if type(item[1]) is int else 0)
        raise InputError(
            *largest,
            f"needs about {needed / GIB:.1f} GiB on {stack} and {available / GIB:.1f} GiB are free",
            "Take a smaller one, or try it all the same: measure --beyond-memory, or beyond_memory: true in a profile.",
        )
