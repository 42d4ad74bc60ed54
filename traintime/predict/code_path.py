"""The code path that a stack takes in this process: what the reader has set, and what its libraries chose themselves.

The same model on the same machine costs something else with oneDNN switched off, or where the kernel hands out memory
in larger pages: costs that were seen on one path say nothing of another.
"""

import os
import sys
from collections.abc import Mapping

from traintime.measuring.worker import process

# Variables by which a reader chooses the path of each backend.
# Sources: TensorFlow's release notes of 2.9; "CPU Dispatcher Control" (oneDNN's documentation); "XLA compiler flags"
# (JAX's); aten/src/ATen/native/cpu/README.md in torch; the README of OpenBLAS.
EVERY = ("OPENBLAS_CORETYPE",)
SETTINGS = {
    "tensorflow": ("TF_ENABLE_ONEDNN_OPTS", "ONEDNN_MAX_CPU_ISA", *EVERY),
    "jax": ("XLA_FLAGS", *EVERY),
    "torch": ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", *EVERY),
}
NOT_SET = "not set"
Taken = Mapping[str, str | bool | None]


def settings(backend: str) -> dict[str, str]:
    """What the reader has set of a backend's path, by variable; nothing where all is left to the framework."""
    return {name: os.environ[name] for name in SETTINGS[backend] if name in os.environ}


def here(backend: str) -> dict[str, str | bool | None]:
    """The path of a backend in this process; None for what cannot be read off, because it is not loaded, say."""
    path = process.code_path() | {name: os.environ.get(name, NOT_SET) for name in SETTINGS[backend]}
    return path | ({"onednn": _onednn()} if backend == "tensorflow" else {})


def differing(then: Taken, now: Taken) -> str:
    """Where two paths part, in words; "" where they do not, as far as both are known."""
    known = [name for name, value in then.items() if value is not None and now.get(name) is not None]
    return ", ".join(f"{name} was {then[name]}, is {now[name]}" for name in known if then[name] != now[name])


def _onednn() -> bool | None:
    """Whether TensorFlow runs its matmuls through oneDNN, which it decides by the processor if nobody else does
    (as the workers read it off: measuring/worker/train_keras3.py, which imports nothing of the package).
    """
    if "tensorflow" not in sys.modules:
        return None
    try:
        from tensorflow.python.util import _pywrap_util_port

        return bool(_pywrap_util_port.IsMklEnabled())
    except (ImportError, AttributeError):
        return None
