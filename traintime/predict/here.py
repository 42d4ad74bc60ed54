"""What the predictor asks of this machine and this process: two rates, who answers malloc, and costs at those rates."""

import contextlib
import os
import resource
import sys
from typing import Any

import psutil
from rich.console import Console

from traintime.measuring.measure import run_worker
from traintime.measuring.worker import process
from traintime.predict import prices
from traintime.predict.prices import Prices, Rates
from traintime.store.records import DISTURBED

RATES_TIMEOUT_S = 120.0
FULL = 0.8  # share of a machine's processors in use from which others are in the way


def shown() -> contextlib.AbstractContextManager[Any]:
    """A context in which a terminal shows that a model is trained."""
    told = Console(stderr=True).status("trains your model for a moment, then puts it back as it was")
    return told if sys.stderr.isatty() else contextlib.nullcontext()


def allocator() -> str:
    """The allocator of this process; the usual one where nobody can tell."""
    return process.allocator() or prices.USUAL


def rates() -> Rates:
    """What this machine reaches, measured now; takes some seconds.

    By a process of its own: an allocator that keeps its memory would keep the half gibibyte that it takes, and a probe
    of this process would count it as the model's. Raises RuntimeError where that process fails.
    """
    answer = run_worker([sys.executable, "-m", "traintime.measuring.machine"], {}, dict(os.environ), RATES_TIMEOUT_S)
    if answer["status"] != "ok":
        raise RuntimeError(f"measuring this machine's rates: {answer['status']}: {answer.get('error')}")
    reached = answer["result"]
    return Rates(reached["matmul_flop_per_s"], reached["bandwidth_bytes_per_s"])


def processor_s() -> tuple[float, float] | None:
    """Processor time so far, s: of this process and all that it has started, and of everybody else, the host included.

    None where the system does not tell.
    """
    seen, ended = process.counters(), resource.getrusage(resource.RUSAGE_CHILDREN)
    children_s = ended.ru_utime + ended.ru_stime
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            children_s += sum(child.cpu_times()[:2])
    if "others_cpu_s" not in seen:
        return None
    return seen["own_cpu_s"] + children_s, seen["others_cpu_s"] - children_s + seen["steal_s"]


def crowd(before: tuple[float, float] | None, seconds: float, cores: int) -> float:
    """Processors that others have kept busy since `before` (processor_s), so many seconds ago, where that left this
    process too few; else 0. Steps that wait for each other's threads get slower by far more than they lose.
    """
    if before is None or (after := processor_s()) is None or seconds <= 0:
        return 0.0
    own, others = ((now - then) / seconds for now, then in zip(after, before, strict=True))
    return others if others > DISTURBED and own + others > FULL * cores else 0.0


def costs(stack: str, allocator: str, rates: Rates) -> Prices:
    """A stack's efficiency factors at this machine's rates; under the usual allocator where they are not known under
    this one.
    """
    allocator = allocator if stack in prices.known(allocator) else prices.USUAL
    return prices.of_rates("this machine", rates, stack, allocator)
