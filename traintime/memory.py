"""How much memory a point needs, predicted before it is tried."""

import psutil

from traintime import machine
from traintime.errors import InputError
from traintime.point import Point
from traintime.stacks import Stack

GIB = 2**30

# Peak memory in units of the trained table's own bytes, as our full-size measurements show it (data/measurements);
# tests/unit/test_memory.py holds these figures against that data. The least an optimizer needs is 4 copies with Adam
# (parameter, gradient, two moments), 2 with SGD, and 1 for a frozen table.
COPIES: dict[str, dict[str, float]] = {
    "2017-theano": {"adam": 4, "sgd": 3, "frozen": 2},
    "2017-tensorflow": {"adam": 9},
    "2020-theano": {"adam": 4},
    "2020-tensorflow": {"adam": 10, "sgd": 6, "frozen": 1},
    "2026-tensorflow": {"adam": 5.8, "sgd": 3, "frozen": 3},
    "2026-jax": {"adam": 4},
    "2026-torch": {"adam": 7},
    "numpy": {"adam": 6},
}
# What a worker holds after importing its framework and compiling the model, GiB, from the same data.
BASE_GIB = {
    "2017-theano": 0.13,
    "2017-tensorflow": 0.25,
    "2020-theano": 0.3,
    "2020-tensorflow": 0.3,
    "2026-tensorflow": 0.75,
    "2026-jax": 0.5,
    "2026-torch": 0.6,
    "numpy": 0.05,
}
LEAST_COPIES = {"adam": 4.0, "adam-rows": 3.0, "sgd": 2.0, "frozen": 1.0}


def copies(point: Point, stack: Stack) -> float:
    """How many copies of the embedding table this stack holds at its peak."""
    how = "frozen" if point.frozen else point.optimizer
    return COPIES.get(stack.name, {}).get(how, LEAST_COPIES[how])


def activations(point: Point) -> float:
    """Bytes that the forward pass keeps for the backward pass, about: what the dearest stacks hold for each token."""
    return 4 * (2 * point.embedding + 18 * point.units) * point.batch * point.length


def predicted_peak(point: Point, stack: Stack) -> float:
    """Predicted peak memory of the worker, bytes: the framework itself, copies of the table, and activations.

    Under glibc as it comes; allocators that keep what they freed need more (Theano, which reuses little, by half).
    """
    table = 4 * point.vocabulary * point.embedding
    return BASE_GIB[stack.name] * GIB + copies(point, stack) * table + activations(point)


def refuse_beyond_memory(point: Point, stack: Stack, available: float | None = None) -> None:
    """Raise InputError when the point is predicted not to fit into the memory that is free now (bytes).

    On a GPU that is the card's whole memory; what a card's own allocator needs beside it is not predicted yet.
    """
    if available is None:
        cards = machine.gpus() if point.device == "gpu" else []
        available = (cards[0]["memory_mib"] or 0) * 2**20 if cards else psutil.virtual_memory().available
    needed = predicted_peak(point, stack)
    if needed > available:
        raise InputError(
            "vocabulary",
            point.vocabulary,
            f"needs about {needed / GIB:.1f} GiB on {stack.name} and {available / GIB:.1f} GiB are free",
            "Take a smaller one, or try it all the same: measure --beyond-memory, or beyond_memory: true in a profile.",
        )
