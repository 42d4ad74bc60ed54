"""Processes that do not outlive the one that started them."""

import ctypes
import signal
import sys


def die_with_parent() -> None:
    """End this process when its parent ends, however that does (Linux)."""
    if sys.platform == "linux":
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
