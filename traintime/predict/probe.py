"""Train for some seconds, at two batch sizes, and keep what a whole training will repeat: the probed tier's evidence.

What is trained is anything that can train `steps` batches of `n` samples, `epochs` times over (`Trainer`); how long to
train for is decided here, from the time that the first step took, and never from how the later ones come out.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BLOCK_S = 0.5  # a block of steps is at least this long: clock, epoch and a scheduler's slice are small beside it
BLOCKS = (3, 24)  # fewest and most of a batch size: the spread between blocks is the evidence of its interval
SHORT = 6  # epochs of one step, which tell what an epoch costs beside its steps
STEPS = 200  # the most of a block
SHARE = 0.7  # of the time, for the batch size that is asked for; the rest is for the other one
Array = NDArray[np.float64]


class Trainer(Protocol):
    """Trains one model."""

    def train(self, batch: int, steps: int, epochs: int) -> Array:
        """Train so many epochs of so many steps; return the seconds of each epoch, shape (epochs,)."""
        ...

    def most_steps(self, batch: int) -> int:
        """The most steps that an epoch can have."""
        ...

    def peak_bytes(self) -> int | None:
        """Highest memory of the process since `forget_peak`, bytes; of the GPU's where the model is on one."""
        ...

    def forget_peak(self) -> None:
        """Start counting the peak anew."""
        ...


@dataclass(frozen=True)
class Trained:
    """How one batch size trained: seconds and bytes.

    first_s: until the first step was done, tracing and compiling included; blocks_s: seconds a step, each the mean of a
    block of `steps`; epoch_s: what an epoch costs beside its steps; peak_bytes: highest memory meanwhile, if known.
    """

    batch: int
    first_s: float
    steps: int
    blocks_s: tuple[float, ...]
    epoch_s: float
    peak_bytes: int | None

    @property
    def step_s(self) -> float:
        """Mean seconds of a step: only means add up to an epoch."""
        return float(np.mean(self.blocks_s))

    @property
    def error(self) -> float:
        """Relative standard error of `step_s`: the spread between blocks (batch means: Schmeiser 1982), and half of
        what was taken off each block for its epoch, which few short epochs have told.
        """
        blocks = np.array(self.blocks_s)
        if len(blocks) < 2:
            return math.nan
        spread = blocks.std(ddof=1) / math.sqrt(len(blocks)) / blocks.mean()
        return float(math.hypot(spread, self.epoch_s / self.steps / blocks.mean() / 2))


@dataclass(frozen=True)
class Probe:
    """What was seen of a model: the batch size asked for, and smaller ones beside it; `took_s` in all."""

    asked: Trained
    others: tuple[Trained, ...]
    took_s: float

    @property
    def line(self) -> tuple[float, float]:
        """Seconds of a step as such, and of each sample: the line through the batch sizes, neither of them negative.

        With one batch size there is no telling, and all of it counts as the samples'.
        """
        if not self.others:
            return 0.0, self.asked.step_s / self.asked.batch
        least = min(self.others, key=lambda one: one.batch)
        slope = (self.asked.step_s - least.step_s) / (self.asked.batch - least.batch)
        slope = min(max(slope, 0.0), self.asked.step_s / self.asked.batch)
        return self.asked.step_s - slope * self.asked.batch, slope

    def step_s(self, batch: int) -> float:
        """Seconds of a step at another batch size, on the line through those that were tried."""
        fixed, sample = self.line
        return fixed + sample * batch


def smaller(batch: int) -> int | None:
    """The batch size that is tried beside: a quarter, so that the line has a base; None where nothing is smaller."""
    return batch // 4 if batch >= 4 else (1 if batch > 1 else None)


def probe(
    trainer: Trainer,
    batch: int,
    within_s: float = 60.0,
    beside: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Probe:
    """Train at the batch size asked for, and at a smaller one beside it, for about so many seconds in all.

    beside: the other batch size, a quarter by default. It is left out where its compiling alone would overrun.
    """
    start = clock()
    other = smaller(batch) if beside is None else beside
    asked = trained(trainer, batch, start + within_s * (SHARE if other else 1.0), clock)
    others: tuple[Trained, ...] = ()
    left = start + within_s - clock()
    # What compiled once compiles again for another shape; without time for it, and some steps, there is no line.
    if other and asked.first_s + 2 * BLOCKS[0] * max(asked.step_s * other / batch, BLOCK_S / 4) < left:
        others = (trained(trainer, other, start + within_s, clock),)
    return Probe(asked, others, clock() - start)


def trained(
    trainer: Trainer, batch: int, until: float, clock: Callable[[], float], block_s: float = BLOCK_S
) -> Trained:
    """Train one batch size: the first step apart, epochs of one step, then blocks until the time is used.

    until: by the clock; block_s: seconds of a block, about.
    """
    trainer.forget_peak()
    started = clock()
    trainer.train(batch, 1, 1)
    first = clock() - started
    single = float(trainer.train(batch, 1, 2)[1])
    # The least of several short epochs, if they are not a large part of the time that there is.
    several = 10 * SHORT * single < until - clock()
    if several:
        single = min(single, float(trainer.train(batch, 1, SHORT + 1)[1:].min()))
    steps = int(np.clip(math.ceil(block_s / max(single, 1e-9)), 1, min(STEPS, trainer.most_steps(batch))))
    # A first block tells what the later ones take: an epoch of one step is a poor guess where steps overlap, unless a
    # step is a block.
    each = float(trainer.train(batch, steps, 1)[-1]) or 1e-9 if steps > 1 else single
    blocks = int(np.clip((until - clock()) // each - 1, *BLOCKS))
    epochs = trainer.train(batch, steps, blocks + 1)[1:]  # the first of a `fit` starts its input anew
    # An epoch costs something beside its steps, if even the shortest epoch of one step took longer than a step in any
    # block: what noise alone could have made would make the steps look cheaper than they are.
    dearer = several and single > float(epochs.max()) / steps
    more = single - float(epochs.mean()) / steps if dearer else 0.0
    beside = min(more * steps / max(steps - 1, 1), float(epochs.min()) / 2)
    blocks_s = (epochs - beside) / steps
    return Trained(batch, first, steps, tuple(blocks_s.tolist()), beside, trainer.peak_bytes())
