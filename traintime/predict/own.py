"""Memory that the predictor itself takes: a training without it does not, so that no answer counts it."""

import contextlib
from collections.abc import Iterator

import psutil

loaded = 0  # bytes


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """What is loaded in it (pandas, SciPy; what follows a module of PyTorch) is the predictor's own."""
    global loaded
    before = psutil.Process().memory_info().rss
    yield
    loaded += max(psutil.Process().memory_info().rss - before, 0)
