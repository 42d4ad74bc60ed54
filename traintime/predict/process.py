"""This process as the predictor sees it: who answers malloc, memory, processor time, and what the machine reaches."""

import contextlib
import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from traintime.measuring.measure import run_module
from traintime.measuring.worker import process as worker
from traintime.predict import own
from traintime.predict.costs import USUAL, Rates
from traintime.store.records import DISTURBED

RATES_TIMEOUT_S = 120.0
FULL = 0.8  # share of a machine's processors in use from which others are in the way


@dataclass(frozen=True)
class Copies:
    """How often `fit` holds its samples, their own arrays included: while it trains, and for a moment at its start."""

    training: float = 1.0
    start: float = 1.0


ONCE = Copies()


def now() -> int:
    """Resident memory of this process, bytes, without the predictor's own."""
    return psutil.Process().memory_info().rss - own.loaded


def peak() -> int:
    """The most that it was since `forget`, or since its start, where the system cannot."""
    return worker.peak_memory() - own.loaded


def forget(backend: str) -> None:
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


def allocator() -> str:
    """The allocator of this process; the usual one where nobody can tell."""
    return worker.allocator() or USUAL


def rates() -> Rates:
    """What this machine reaches, measured now, in some seconds and a process of its own, since an allocator may keep
    what that takes. Raises RuntimeError where that process fails.
    """
    answer = run_module("traintime.measuring.machine", {}, dict(os.environ), RATES_TIMEOUT_S)
    if answer["status"] != "ok":
        raise RuntimeError(f"measuring this machine's rates: {answer['status']}: {answer.get('error')}")
    reached = answer["result"]
    return Rates(reached["matmul_flop_per_s"], reached["bandwidth_bytes_per_s"])


def processor_s() -> tuple[float, float] | None:
    """Processor time, s: of this process and all that it started, and of everybody else; None where nobody tells."""
    seen, ended = worker.counters(), resource.getrusage(resource.RUSAGE_CHILDREN)
    children_s = ended.ru_utime + ended.ru_stime
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            children_s += sum(child.cpu_times()[:2])
    if "others_cpu_s" not in seen:
        return None
    return seen["own_cpu_s"] + children_s, seen["others_cpu_s"] - children_s + seen["steal_s"]


def crowd(before: tuple[float, float] | None, seconds: float) -> float:
    """Processors that others have kept busy in the so many seconds since `before` (processor_s), where that left this
    process too few; else 0. Steps whose threads wait for each other lose far more.
    """
    if before is None or (after := processor_s()) is None or seconds <= 0:
        return 0.0
    own, others = ((then - begun) / seconds for then, begun in zip(after, before, strict=True))
    return others if others > DISTURBED and own + others > FULL * (psutil.cpu_count() or 1) else 0.0


def shown(put_back: bool = True) -> contextlib.AbstractContextManager[Any]:
    """A context in which a terminal shows that a model is trained; put_back: whether it is afterwards as it was."""
    after = ", then puts it back as it was" if put_back else "; it stays trained"
    told = Console(stderr=True).status(f"trains your model for a moment{after}")
    return told if sys.stderr.isatty() else contextlib.nullcontext()
