"""The most memory that this process, or its GPU, held since it was last asked."""

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from traintime.measuring.worker.process import peak_memory


@dataclass(frozen=True)
class Copies:
    """How often `fit` holds its samples, their own arrays included: while it trains, and for a moment at its start."""

    training: float = 1.0
    start: float = 1.0


ONCE = Copies()


def peak() -> int:
    """Highest resident memory of this process since `forget`, bytes; or since its start, where the system cannot."""
    return peak_memory()


def now() -> int:
    """Resident memory of this process, bytes."""
    return psutil.Process().memory_info().rss


def forget(backend: str = "") -> None:
    """Start counting anew: Linux forgets VmHWM when 5 is written to clear_refs (proc(5)); elsewhere nothing happens."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if backend == "torch" and (torch := sys.modules.get("torch")) and torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    if backend == "tensorflow" and (tf := sys.modules.get("tensorflow")) and tf.config.list_physical_devices("GPU"):
        tf.config.experimental.reset_memory_stats("GPU:0")


def gpu_peak(backend: str) -> int | None:
    """Highest memory that the framework held on its first GPU, bytes, since `forget` (JAX: since its start)."""
    if backend == "torch" and (torch := sys.modules.get("torch")) and torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    if backend == "tensorflow" and (tf := sys.modules.get("tensorflow")) and tf.config.list_physical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"]
    if backend == "jax" and (jax := sys.modules.get("jax")) and jax.devices()[0].platform == "gpu":
        return jax.devices()[0].memory_stats()["peak_bytes_in_use"]
    return None
