"""Processes that do not outlive the one that started them."""

import contextlib
import ctypes
import signal
import sys

import psutil


def die_with_parent(by: int = signal.SIGTERM) -> None:
    """End this process, by this signal, when its parent ends, however that does (Linux)."""
    if sys.platform == "linux":
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, by)


def end_children() -> None:
    """End all that this process has started, at once; kill what does not go within seconds."""
    family = psutil.Process().children(recursive=True)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in psutil.wait_procs(family, timeout=5)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
