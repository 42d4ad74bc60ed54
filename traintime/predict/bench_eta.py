"""What traintime.Eta costs a step of `fit`, and traintime.TrainingLoop one of 10 ms.

`python -m traintime.predict.bench_eta` prints a line for each backend, and two for the loop.

A whole `fit` repeats no better than to some percent on most machines, which hides what a callback costs. So the hooks
themselves are timed, too, many calls on end; the interleaved trainings would show what those cannot: a wait for the
device, or an asynchronous dispatch that was switched off.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from traintime.explain import statistics
from traintime.explain.statistics import Interval
from traintime.predict import ending, track

BACKENDS = ("tensorflow", "jax", "torch")
BATCH, INPUTS, UNITS = 64, 32, 256
STEP_S = 0.010  # a step of a loop of one's own


@dataclass(frozen=True)
class Overhead:
    """step_s: seconds of a step of `fit` without the callback; ratio: with it over without, interleaved, with a 95 %
    interval; hooks_s: seconds of its hooks, a step; estimate_s: of an estimate, at most every `pause_s` seconds.
    """

    step_s: float
    ratio: Interval
    hooks_s: float
    estimate_s: float
    pause_s: float

    @property
    def share(self) -> float:
        """Of a step, what the hooks and the most frequent estimates take together."""
        return self.hooks_s / self.step_s + self.estimate_s / self.pause_s

    def line(self, name: str) -> str:
        """As it is printed."""
        low, value, high = (100 * (end - 1) for end in (self.ratio.low, self.ratio.value, self.ratio.high))
        return (
            f"{name}: a step {1e3 * self.step_s:.2f} ms; in fit {value:+.1f} % ({low:+.1f} to {high:+.1f}); "
            f"hooks {1e6 * self.hooks_s:.1f} µs ({100 * self.hooks_s / self.step_s:.2f} %), "
            f"an estimate {1e3 * self.estimate_s:.2f} ms, every {self.pause_s:g} s or more: {100 * self.share:.2f} %"
        )


def overhead(rounds: int = 20, steps: int = 200, calls: int = 100_000) -> Overhead:
    """Train a small network on the backend of KERAS_BACKEND, with and without the callback in turn.

    rounds: pairs of trainings, each of so many steps in two epochs; calls: of the hooks, one after the other.
    """
    import keras
    import numpy as np

    from traintime.predict import eta

    class Stopwatch(keras.callbacks.Callback):
        """Stopped before `fit` returns, which may sleep first (formula.tf_data_end)."""

        def on_train_begin(self, logs: Any = None) -> None:
            self.seconds = -time.perf_counter()

        def on_train_end(self, logs: Any = None) -> None:
            self.seconds += time.perf_counter()

    inputs = np.random.default_rng(0).normal(size=(BATCH * max(steps // 2, 1), INPUTS)).astype("float32")
    layers = [keras.layers.Dense(UNITS, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((INPUTS,)), *layers, keras.layers.Dense(1)])
    model.compile("adam", "mse")

    def seconds(*callbacks: Any) -> float:
        watch = Stopwatch()
        model.fit(inputs, inputs[:, :1], batch_size=BATCH, epochs=2, verbose=0, callbacks=[*callbacks, watch])
        return watch.seconds

    def callback() -> eta.Eta:
        return eta.Eta("1d", say=lambda line: None)

    seconds(callback())  # compiles
    pairs = []
    for number in range(rounds):
        # Who comes first takes turns, too.
        first, second = (seconds(callback()), seconds()) if number % 2 else (seconds(), seconds(callback()))
        pairs.append((first, second) if number % 2 else (second, first))
    without = sum(pair[1] for pair in pairs) / rounds / (2 * max(steps // 2, 1))
    ratio = statistics.geometric([with_it / alone for with_it, alone in pairs])
    return Overhead(without, ratio, *_alone(callback(), calls), ending.PAUSE_S)


def _alone(callback: Any, calls: int) -> tuple[float, float]:
    """Seconds of the hooks, a step, and of an estimate, outside of any training."""
    callback.set_params({"epochs": 2, "steps": calls, "verbose": 0})
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    start = time.perf_counter()
    for batch in range(calls):
        callback.on_train_batch_begin(batch)
        callback.on_train_batch_end(batch)
    hooks = (time.perf_counter() - start) / calls
    estimates = max(calls // 1000, 1)
    start = time.perf_counter()
    for _ in range(estimates):
        _ = callback.estimate
    return hooks, (time.perf_counter() - start) / estimates


def of_a_loop(cost: Callable[[int], float] | None = None, steps: int = 100_000) -> tuple[float, float, float]:
    """Seconds that traintime.TrainingLoop takes where training begins, of each step, and of an estimate."""
    loop = track.TrainingLoop(2, "1d", say=lambda line: None, cost=cost)
    batches = loop.batches(range(steps))
    start = time.perf_counter()
    next(batches)
    begun = time.perf_counter()
    for _ in batches:
        pass
    done = time.perf_counter()
    estimates = max(steps // 1000, 1)
    for _ in range(estimates):
        _ = loop.estimate
    return begun - start, (done - begun) / steps, (time.perf_counter() - done) / estimates


def loop_line(name: str, cost: Callable[[int], float] | None = None) -> str:
    """What a loop costs, as it is printed: the median of five."""
    runs = zip(*(of_a_loop(cost) for _ in range(5)), strict=True)
    begun_s, step_s, estimate_s = (sorted(seconds)[2] for seconds in runs)
    share = step_s / STEP_S + estimate_s / ending.PAUSE_S
    return (
        f"{name}: {1e3 * begun_s:.1f} ms once, {1e6 * step_s:.1f} µs a step, an estimate {1e3 * estimate_s:.2f} ms, "
        f"every {ending.PAUSE_S:g} s or more: {100 * share:.2f} % of steps of {1e3 * STEP_S:g} ms"
    )


def main(arguments: list[str]) -> int:
    """Print the line of the backend that is named, or start a process for each. 1 where one of them failed."""
    if arguments:
        print(overhead().line(arguments[0]))
        return 0
    failed = 0
    for backend in BACKENDS:
        command = [sys.executable, "-m", "traintime.predict.bench_eta", backend]
        environment = dict(os.environ, KERAS_BACKEND=backend, TF_CPP_MIN_LOG_LEVEL="2")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        failed |= done.returncode != 0
        why = (done.stderr.strip().splitlines() or ["no word"])[-1]
        print(done.stdout.strip() if done.returncode == 0 else f"{backend}: failed: {why}", flush=True)
    print(loop_line("TrainingLoop"))
    print(loop_line("TrainingLoop with a cost", lambda step: 512 if step < 50_000 else 1024))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
