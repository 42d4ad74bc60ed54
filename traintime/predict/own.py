"""Memory that the predictor itself takes: a training without it does not, so that no answer counts it."""

import contextlib
from collections.abc import Iterator

import psutil

loaded = 0  # bytes


def resident() -> int:
    """Memory of this process, bytes."""
    return psutil.Process().memory_info().rss


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """What is loaded in it (pandas, SciPy; what follows a module of PyTorch) is the predictor's own."""
    global loaded
    before = resident()
    yield
    loaded += max(resident() - before, 0)
