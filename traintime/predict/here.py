"""What the predictor asks of this machine and this process: two rates, who answers malloc, and costs at those rates."""

import os
import sys

from traintime.measuring.measure import run_worker
from traintime.measuring.worker import process
from traintime.predict import prices
from traintime.predict.prices import Prices, Rates

RATES_TIMEOUT_S = 120.0


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


def costs(stack: str, allocator: str, rates: Rates) -> Prices:
    """A stack's efficiency factors at this machine's rates; under the usual allocator where they are not known under
    this one.
    """
    allocator = allocator if stack in prices.known(allocator) else prices.USUAL
    return prices.of_rates("this machine", rates, stack, allocator)
