"""Train for some seconds, at two batch sizes, and keep what a whole training will repeat: the probed tier's evidence.

What is trained is anything that can train `steps` batches of `n` samples, `epochs` times over (`Trainer`); how long to
train for is decided here, from the time that the first step took, and never from how the later ones come out.
"""

import contextlib
import inspect
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from traintime.errors import InputError
from traintime.explain.statistics import Array
from traintime.measuring.worker.process import means_out_of_memory
from traintime.predict import process
from traintime.predict.process import ONCE, Copies

BLOCK_S = 0.5  # a block of steps is at least this long: clock, epoch and a scheduler's slice are small next to it
BLOCKS = (3, 24)  # fewest and most of a batch size: the spread between blocks is the evidence of its interval
SHORT = 6  # epochs of one step, which tell what an epoch costs besides its steps
STEPS = 200  # the most of a block
SHARE = 0.7  # of the time, for the batch size that is asked for; the rest is for the other one
GROWS = 4  # times as many batches that are read from a source next
LEAST_S = 2 * BLOCKS[0] * BLOCK_S  # of an epoch over a source, also where compiling has used up the time
WORDS = 300  # characters of what a reader's code has raised
FRAMEWORKS = ("torch", "jax", "tensorflow")
FIRST_ALONE = "batches differ in size; the first ones alone were tried"


class Trainer:
    """Trains one model, and tells what a whole training of it is made of; by default a loop of steps and no more.

    stack: the book's name of the software that trains it; one_batch_size: whether it trains at one batch size alone;
    own_bytes: bytes of the reader's own arrays, which this process holds anyway (what a step reads is not among them);
    kept_bytes: bytes that this process holds to put the model back, which a training does not;
    sleeps: whether it may sleep after an epoch (record.tf_data_end).
    """

    backend: str = "torch"  # whose GPU's memory counts, where the model is on one
    stack: str
    one_batch_size: bool = False
    own_bytes: int = 0
    kept_bytes: int = 0
    sleeps: bool = False

    def train(self, batch: int, steps: int, epochs: int) -> Array:
        """Seconds of each of so many epochs of so many steps, shape (epochs,)."""

    def stream(self, steps: int) -> Array | None:
        """Seconds from the beginning of an epoch of so many steps: 0, when each was done, and when the epoch was, shape
        (steps + 2,), fewer where the data end sooner; None where no source of batches starts with an epoch.
        """
        return None

    def most_steps(self, batch: int) -> int:
        """The most steps that an epoch can have."""
        return 10**9

    def reading(self, step_s: float) -> tuple[float, str]:
        """Seconds of a step (of so many on average) that it waited for a batch, as far as that was seen, and what is to
        be said of batches that differ in size, if anything.
        """
        return 0.0, ""

    def between_s(self) -> float:
        """Seconds from the end of an epoch to the next one's first batch."""
        return 0.0

    def test_s(self, batch: int, steps: int) -> float | None:
        """Seconds of a step of an evaluation of so many; None where it cannot be timed."""
        return None

    def save_s(self) -> float | None:
        """Seconds of writing the model to a file; None where it cannot be timed."""
        return None

    def array_bytes(self, samples: int) -> int:
        """Bytes of so many samples as arrays, once; what a step reads, it holds already."""
        return 0

    def copies(self, batch: int, samples: int) -> Copies:
        """How often a training holds so many samples."""
        return ONCE

    def peak_bytes(self) -> int | None:
        """Highest memory of the process since `forget_peak`, bytes, without kept_bytes; on a GPU, of the GPU."""
        return process.gpu_peak(self.backend) or process.peak() - self.kept_bytes

    def forget_peak(self) -> None:
        """Start counting the peak again."""
        process.forget(self.backend)


class StepTrainer(Trainer):
    """A step of the reader's own, whatever it is written in: `step(n)` trains on one batch of n samples.

    What it returns is waited for where it can be (JAX's arrays). A step that leaves work on a GPU is waited for, too,
    where torch is loaded. Raises InputError where the step raises: what it said is in the message.
    """

    def __init__(self, step: Callable[[int], Any]) -> None:
        if not callable(step):
            remedy = "Give a function that trains on one batch of n samples: step(n)."
            raise InputError("step", step, "cannot be called", remedy)
        self.step, self._before, self._answer = step, set(sys.modules), None

    @property
    def stack(self) -> str:
        """The framework that a step names or whose array it returns, or that it has loaded: its run-to-run error the
        step is taken to have. "your step" where nobody can tell.
        """
        seen = [self._answer]
        with contextlib.suppress(TypeError):  # of what is no function of Python's
            used = inspect.getclosurevars(self.step)
            seen += [*used.nonlocals.values(), *used.globals.values()]
        homes = [each.__name__ if inspect.ismodule(each) else type(each).__module__ for each in seen]
        roots = {home.split(".")[0].removesuffix("lib") for home in homes} | (set(sys.modules) - self._before)
        if "keras" in roots:
            roots.add(sys.modules["keras"].backend.backend())
        known = [name for name in FRAMEWORKS if name in roots]
        return f"2026-{known[0]}" if len(known) == 1 else "your step"

    def train(self, batch: int, steps: int, epochs: int) -> Array:
        """Seconds of each of so many epochs of so many steps, shape (epochs,)."""
        seconds, call = [], f"{getattr(self.step, '__name__', 'step')}({batch})"
        small = "Take a smaller batch: memory ran out."
        with named("step", call, "", f"Call {call} by itself until it trains.", small):
            for _ in range(epochs):
                start = time.perf_counter()
                for _ in range(steps):
                    self._answer = self.step(batch)
                if (jax := sys.modules.get("jax")) is not None:
                    jax.block_until_ready(self._answer)
                if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_available():
                    torch.cuda.synchronize()
                seconds.append(time.perf_counter() - start)
        return np.array(seconds)


def taken(array: Any, samples: int, at: int = 0) -> Any:
    """So many samples of an array from this one on, gone through again where there are too few."""
    at %= len(array)
    if at + samples <= len(array):
        return array[at : at + samples]
    return array[(np.arange(samples) + at) % len(array)]


@contextlib.contextmanager
def named(field: str, value: str, where: str, remedy: str, small: str = "") -> Iterator[None]:
    """What a reader's code raises here is an InputError, which tells a fault of theirs from one of ours; but what says
    that memory ran out, unless there is a remedy for that: small.
    """
    try:
        yield
    except Exception as error:
        own, full = refusal(error), means_out_of_memory(error)
        if own is error or (full and not own and not small):
            raise
        problem = f"raised {type(error).__name__}{where}: {words(error)}"
        if isinstance(error, ModuleNotFoundError) and error.name in FRAMEWORKS:
            remedy = f"Install {error.name}, or take a backend that is here: --stack (traintime stacks lists them)."
        raise own or InputError(field, value, problem, small if full else remedy) from error


def refusal(error: BaseException | None) -> InputError | None:
    """The InputError that a layer of ours has raised, where Keras has made another error of it, of all its words."""
    while error is not None and not (isinstance(error, InputError) and error.problem):
        error = error.__context__
    return error


def words(error: BaseException) -> str:
    """What an error says, as one line: without what Keras writes around the words of a layer, and TensorFlow before
    those of an operation.
    """
    text = str(error)
    if inner := re.search(r"\x1b\[1m(.+?)\x1b\[0m\s+Arguments received", text, re.DOTALL):
        text = inner[1]
    if "Graph execution error" in text:
        told = [line for line in text.splitlines() if line and not line[0].isspace()]
        about = ("Graph execution error", "Detected at node", "<stack traces", "Stack trace for op")
        text = "\n".join(line for line in told if not line.startswith(about)) or text
    return " ".join(re.sub(r"\x1b\[\d+m", "", text).split())[:WORDS].rstrip(".")


@dataclass(frozen=True)
class Trained:
    """How one batch size trained: seconds and bytes.

    first_s: until the first step was done, tracing and compiling included; steps: of an epoch; blocks_s: seconds a
    step, each the mean of a block; epoch_s: what an epoch costs besides its steps; peak_bytes: highest memory
    meanwhile, if known.
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
    def start_s(self) -> float:
        """Seconds that the first step took beyond the others."""
        return max(self.first_s - self.step_s, 0.0)

    @property
    def growth(self) -> float:
        """How many times as long a step took in the last third of the blocks as in the first; 1 of less than three."""
        third = len(self.blocks_s) // 3
        return float(np.median(self.blocks_s[-third:]) / np.median(self.blocks_s[:third])) if third else 1.0

    @property
    def error(self) -> float:
        """Relative standard error of `step_s`: the spread between blocks (batch means: Schmeiser 1982), and half of
        what was taken off each block for its epoch, which few short epochs have told, as a share of the whole block.
        """
        blocks = np.array(self.blocks_s)
        if len(blocks) < 2:
            return math.nan
        spread = blocks.std(ddof=1) / math.sqrt(len(blocks)) / blocks.mean()
        return float(math.hypot(spread, self.epoch_s / (self.steps * blocks.mean() + self.epoch_s) / 2))


@dataclass(frozen=True)
class Probe:
    """How a model trained: at the batch size that is asked for, and at a smaller one where there was time for it.

    took_s: seconds in all.
    """

    full: Trained
    smaller: Trained | None
    took_s: float

    def step_s(self, batch: int) -> float:
        """Seconds of a step at another batch size, on the line through both that were tried: neither what it takes
        whatever its batch nor what a sample takes is below 0. One batch size tells no line, and all counts as samples'.
        """
        full, smaller = self.full, self.smaller
        slope = most = full.step_s / full.batch
        if smaller:
            slope = min(max((full.step_s - smaller.step_s) / (full.batch - smaller.batch), 0.0), most)
        return full.step_s + slope * (batch - full.batch)


def probe(
    trainer: Trainer, batch: int, within_s: float, other: int, clock: Callable[[], float] = time.perf_counter
) -> Probe:
    """Train at the batch size asked for, and at a smaller one, for about so many seconds in all.

    other: the smaller batch size, 0 for none. It is left out where its compiling alone would overrun.
    """
    start = clock()
    full = trained(trainer, batch, start + within_s * (SHARE if other else 1.0), clock)
    smaller, left = None, start + within_s - clock()
    # What compiled once compiles again for another shape; without time for it, and some steps, there is no line.
    if other and full.first_s + 2 * BLOCKS[0] * max(full.step_s * other / batch, BLOCK_S / 4) < left:
        smaller = trained(trainer, other, start + within_s, clock)
    return Probe(full, smaller, clock() - start)


def trained(trainer: Trainer, batch: int, until: float, clock: Callable[[], float]) -> Trained:
    """Train one batch size: the first step apart, epochs of one step, then blocks until the time is used.

    until: by the clock.
    """
    trainer.forget_peak()
    started = clock()
    if trainer.stream(1) is not None:
        return _streamed(trainer, batch, clock() - started, until, clock)
    trainer.train(batch, 1, 1)
    first = clock() - started
    short = trainer.train(batch, 1, 2 if 2 * first < until - clock() else 1)
    single = float(short[-1])
    if (least := float(short.min())) >= BLOCK_S:  # a step is a block, and there is time for so many more
        more = int(min((until - clock()) // least, BLOCKS[1]))
        found = [short, trainer.train(batch, 1, more)] if more > 0 else [short]
        few = more <= BLOCKS[0]  # then the first of a `fit`, which starts its input anew, counts as well
        steps_s = np.concatenate([each[0 if few else 1 :] for each in found])
        return Trained(batch, first, 1, tuple(steps_s.tolist()), 0.0, trainer.peak_bytes())
    # The least of several short epochs, if they are not a large part of the time that there is.
    several = 10 * SHORT * single < until - clock()
    if several:
        single = min(single, float(trainer.train(batch, 1, SHORT + 1)[1:].min()))
    steps = int(np.clip(math.ceil(BLOCK_S / max(single, 1e-9)), 1, min(STEPS, trainer.most_steps(batch))))
    # A first block tells what the later ones take: an epoch of one step is a poor guess where steps overlap, unless a
    # step is a block.
    each = float(trainer.train(batch, steps, 1)[-1]) or 1e-9 if steps > 1 else single
    blocks = int(np.clip((until - clock()) // each - 1, *BLOCKS))
    epochs = trainer.train(batch, steps, blocks + 1)[1:]  # the first of a `fit` starts its input anew
    # An epoch costs something besides its steps, if even the shortest epoch of one step took longer than a step in any
    # block: what noise alone could have made would make the steps look faster than they are.
    longer = several and single > float(epochs.max()) / steps
    more = single - float(epochs.mean()) / steps if longer else 0.0
    epoch_s = min(more * steps / max(steps - 1, 1), float(epochs.min()) / 2)
    blocks_s = (epochs - epoch_s) / steps
    return Trained(batch, first, steps, tuple(blocks_s.tolist()), epoch_s, trainer.peak_bytes())


def _streamed(trainer: Trainer, batch: int, first: float, until: float, clock: Callable[[], float]) -> Trained:
    """The same where a source of batches works while the steps do, and starts with each epoch: what a step takes shows
    only in an epoch that is long enough.

    Each epoch is GROWS times as long as the one before, as far as there is time, or LEAST_S, and no longer than the
    data; then the last is repeated while there is time. Its second half tells what a step takes, all of it what it
    costs besides.
    """
    most, seen = trainer.most_steps(batch), [trainer.stream(1)]
    while True:
        steps, whole = len(seen[-1]) - 2, float(seen[-1][-1])
        each = float(_per_step(seen[-1]).mean())
        left = max(until - clock(), LEAST_S)
        more = int(min(GROWS * steps, most, (left - max(whole - steps * each, 0.0)) / each))
        if more > steps:
            seen = [trainer.stream(more)]
            most = most if len(seen[0]) - 2 == more else len(seen[0]) - 2
        elif len(seen) < BLOCKS[1] and whole < until - clock():
            seen.append(trainer.stream(steps))
        else:
            break
    seen = seen[1:] or seen  # the first that is whole compiles for a last batch that is smaller
    blocks_s = np.concatenate([_per_step(moments) for moments in seen])
    whole = float(np.mean([moments[-1] for moments in seen]))
    blocks_s *= min(whole / (steps * blocks_s.mean()), 1.0)  # where the first half was the faster one
    epoch_s = whole - steps * float(blocks_s.mean())
    return Trained(batch, first, steps, tuple(blocks_s.tolist()), max(epoch_s, 0.0), trainer.peak_bytes())


def _per_step(moments: Array) -> Array:
    """Seconds a step in the second half of an epoch's steps, by blocks, shape (blocks,)."""
    steps = len(moments) - 2
    half = steps // 2
    blocks = int(min(np.clip((moments[steps] - moments[half]) / BLOCK_S, *BLOCKS), steps - half))
    each = (steps - half) // blocks
    return np.maximum(np.diff(moments[steps - each * np.arange(blocks, -1, -1)]) / each, 1e-9)
