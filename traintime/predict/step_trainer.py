"""Train with a step of the reader's own, whatever it is written in."""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traintime.errors import InputError
from traintime.measuring.worker.process import means_out_of_memory
from traintime.predict import resident
from traintime.predict.probe import Trainer


class StepTrainer(Trainer):
    """`step(n)` trains on one batch of n samples; what it returns is waited for where it can be (JAX's arrays).

    A step that leaves work on a GPU is waited for as well, where torch is loaded. Raises InputError where the step
    raises: what it said is in the message.
    """

    def __init__(self, step: Callable[[int], Any]) -> None:
        if not callable(step):
            remedy = "Give a function that trains on one batch of n samples: step(n)."
            raise InputError("step", step, "cannot be called", remedy)
        self.step = step

    @property
    def stack(self) -> str:
        """The framework that is loaded, whose run-to-run error the step is taken to have."""
        return next((f"2026-{name}" for name in ("torch", "jax", "tensorflow") if name in sys.modules), "numpy")

    def train(self, batch: int, steps: int, epochs: int) -> NDArray[np.float64]:
        """Seconds of each of so many epochs of so many steps, shape (epochs,)."""
        seconds = []
        for _ in range(epochs):
            start = time.perf_counter()
            for _ in range(steps):
                answer = self._one(batch)
            _wait_for(answer)
            seconds.append(time.perf_counter() - start)
        return np.array(seconds)

    def _one(self, batch: int) -> Any:
        try:
            return self.step(batch)
        except Exception as error:
            name = getattr(self.step, "__name__", "step")
            said = f"raised {type(error).__name__}: {error}"
            small = "Take a smaller batch: memory ran out."
            remedy = small if means_out_of_memory(error) else f"Call {name}({batch}) by itself until it trains."
            raise InputError("step", f"{name}({batch})", said, remedy) from error

    def peak_bytes(self) -> int | None:
        """Of torch's GPU where it was used, else of this process."""
        return resident.gpu_peak("torch") or resident.peak()

    def forget_peak(self) -> None:
        """Count the peak again."""
        resident.forget("torch")


def _wait_for(answer: Any) -> None:
    """Wait until what a step has started is done."""
    if (jax := sys.modules.get("jax")) is not None:
        jax.block_until_ready(answer)
    if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_available():
        torch.cuda.synchronize()
