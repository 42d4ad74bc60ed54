"""How much memory a point needs, predicted before it is tried."""

import psutil

from traintime.errors import InputError
from traintime.point import Point
from traintime.stacks import Stack

GIB = 2**30

# Peak memory in units of the trained table's own bytes, as our full-size measurements show it (data/measurements);
# tests/unit/test_memory.py holds these figures against that data. The least an optimizer needs is 4 copies with Adam
# (parameter, gradient, two moments), 2 with SGD, and 1 for a frozen table.
COPIES: dict[str, dict[str, float]] = {}
LEAST_COPIES = {"adam": 4.0, "sgd": 2.0, "frozen": 1.0}


def copies(point: Point, stack: Stack) -> float:
    """How many copies of the embedding table this stack holds at its peak."""
    how = "frozen" if point.frozen else point.optimizer
    return COPIES.get(stack.name, {}).get(how, LEAST_COPIES[how])


def predicted_peak(point: Point, stack: Stack) -> float:
    """Predicted peak memory of the worker, bytes: the framework itself, then copies of the table."""
    return 0.5 * GIB + copies(point, stack) * 4 * point.vocabulary * point.embedding


def refuse_beyond_memory(point: Point, stack: Stack, available: float | None = None) -> None:
    """Raise InputError when the point is predicted not to fit into the memory that is free now (bytes)."""
    available = psutil.virtual_memory().available if available is None else available
    needed = predicted_peak(point, stack)
    if needed > available:
        raise InputError(
            "vocabulary",
            point.vocabulary,
            f"needs about {needed / GIB:.1f} GiB on {stack.name} and {available / GIB:.1f} GiB are free",
            "Take a smaller one, or add --beyond-memory to try it all the same.",
        )
