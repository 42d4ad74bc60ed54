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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from traintime.errors import InputError
from traintime.explain.statistics import Array
from traintime.measuring.worker.process import means_out_of_memory
from traintime.predict import process
from traintime.predict.answer import LEVEL
from traintime.predict.ending.blocks import FACTOR, BlockMeans
from traintime.predict.process import ONCE, Copies
from traintime.predict.snapshot import Snapshot

BLOCK_S = 0.5  # a block of steps is at least this long: clock, epoch and a scheduler's slice are small next to it
BLOCKS = (3, 24)  # fewest of a batch size: the spread between blocks is the evidence of its interval; most of a source
SHORT = 6  # epochs of one step, which tell what an epoch costs besides its steps
STEPS = 200  # the most of a block
SHARE = 0.7  # of the time, for the batch size that is asked for; the rest is for the other one
GROWS = 4  # times as many batches that are read from a source next
LEAST_S = 2 * BLOCKS[0] * BLOCK_S  # of an epoch over a source, also where compiling has used up the time
WORDS = 300  # characters of what a reader's code has raised
FRAMEWORKS = ("torch", "jax", "tensorflow")
MANY = 18  # epochs, of which six parts of three or more can be made
LEAK = 4e6  # bytes that memory grows by in a probe at the least, where it is said to grow with the steps
FIRST_ALONE = "batches differ in size; the first ones alone were tried"


class Trainer:
    """Trains one model, and tells what a whole training of it is made of; by default a loop of steps and no more.

    stack: the book's name of the software that trains it; one_batch_size: whether it trains at one batch size alone;
    own_bytes: bytes of the reader's own arrays, which this process holds anyway (what a step reads is not among them);
    kept_bytes: bytes that this process holds to put the model back, which a training does not;
    sleeps: whether it may sleep after an epoch (record.tf_data_end); cached: bytes that a cache of the data will hold
    after an epoch, 0 where these lie in a file or nobody can tell, None of data without one; empty: whether the
    model has no numbers; held: bytes after each epoch since `forget_peak`; of_training: from which all can be reached
    that a training changes.
    """

    backend: str = "torch"  # whose GPU's memory counts, where the model is on one
    stack: str
    one_batch_size: bool = False
    own_bytes: int = 0
    kept_bytes: int = 0
    sleeps: bool = False
    cached: int | None = None
    empty: bool = False
    held: Sequence[int] = ()
    of_training: tuple[Any, ...] = ()

    def begin_anew(self) -> None:
        """Give up what was compiled, or begun to be read."""

    @contextlib.contextmanager
    def restored(self, values: bool = True) -> Iterator[None]:
        """All that a training changes is afterwards what it was before; values: also numbers, which are copied."""
        before = Snapshot(*self.of_training, values=values)
        self.kept_bytes = before.bytes
        self.begin_anew()
        try:
            yield
        finally:
            self.begin_anew()
            before.put_back()

    def train(self, batch: int, steps: int, epochs: int, within_s: float = 0.0) -> Array:
        """Seconds of each of so many epochs of so many steps, shape (epochs,), and of more within so many seconds."""

    def stream(self, steps: int, within_s: float = math.inf) -> Array | None:
        """Seconds from an epoch's beginning: 0, when each step and when the epoch was done, shape (steps + 2,), fewer
        where the data or `within_s` end sooner; None where no source starts with an epoch.
        """
        return None

    def note(self) -> None:
        """Keep what memory an epoch that is over has left in use."""
        vars(self).setdefault("held", []).append(process.gpu_peak(self.backend) or process.now())

    def most_steps(self, batch: int) -> int:
        """The most steps that an epoch can have."""
        return 10**9

    def reading(self, step_s: float) -> tuple[float, str]:
        """Seconds of a step that it waited for a batch, and what to say of batches that differ in size."""
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
        self.held = []


class StepTrainer(Trainer):
    """A step of the reader's own, whatever it is written in: `step(n)` trains on one batch of n samples. What it
    returns (JAX's arrays), or torch leaves on a GPU, is waited for. Raises InputError, with its words, where it raises.
    """

    def __init__(self, step: Callable[[int], Any]) -> None:
        if not callable(step):
            remedy = "Give a function that trains on one batch of n samples: step(n)."
            raise InputError("step", step, "cannot be called", remedy)
        self.step, self._before, self._answer = step, set(sys.modules), None

    @property
    def stack(self) -> str:
        """The framework that a step names, returns an array of, or has loaded; "your step" where nobody can tell."""
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

    def train(self, batch: int, steps: int, epochs: int, within_s: float = 0.0) -> Array:
        seconds, call = [], f"{getattr(self.step, '__name__', 'step')}({batch})"
        small, until = "Take a smaller batch: memory ran out.", time.perf_counter() + within_s
        with named("step", call, "", f"Call {call} by itself until it trains.", small):
            while len(seconds) < epochs or time.perf_counter() + seconds[-1] < until:
                start = time.perf_counter()
                for _ in range(steps):
                    self._answer = self.step(batch)
                if (jax := sys.modules.get("jax")) is not None:
                    jax.block_until_ready(self._answer)
                if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_available():
                    torch.cuda.synchronize()
                seconds.append(time.perf_counter() - start)
                self.note()
        return np.array(seconds)


def taken(array: Any, samples: int, at: int = 0) -> Any:
    """So many samples of an array from this one on, gone through again where there are too few."""
    at %= len(array)
    if at + samples <= len(array):
        return array[at : at + samples]
    return array[(np.arange(samples) + at) % len(array)]


@contextlib.contextmanager
def named(field: str, value: str, where: str, remedy: str, small: str = "") -> Iterator[None]:
    """What a reader's code raises is an InputError; where memory ran out, only if `small` is a remedy for that."""
    try:
        yield
    except Exception as error:
        # The InputError that a layer of ours has raised, where Keras has made another error of all its words.
        own: BaseException | None = error
        while own is not None and not (isinstance(own, InputError) and own.problem):
            own = own.__context__
        full = means_out_of_memory(error)
        if own is error or (full and not own and not small):
            raise
        problem = f"raised {type(error).__name__}{where}: {words(error)}"
        if isinstance(error, ModuleNotFoundError) and error.name in FRAMEWORKS:
            remedy = f"Install {error.name}, or take a backend that is here: --stack (traintime stacks lists them)."
        raise own or InputError(field, value, problem, small if full else remedy) from error


def words(error: BaseException) -> str:
    """What an error says, as one line, without what Keras and TensorFlow write around it."""
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
    """How one batch size trained: seconds and bytes. first_s: until the first step was done, tracing and compiling
    included; steps: of an epoch; blocks_s: seconds a step, means of blocks; epoch_s: what an epoch costs besides its
    steps; changed: seconds a step before and after the last change of speed, before which no block counts; once_s: what
    the first epoch over a source took beyond a later one; done: steps in all; leak: bytes that memory grows by a step.
    """

    batch: int
    first_s: float
    steps: int
    blocks_s: tuple[float, ...]
    epoch_s: float
    peak_bytes: int | None
    changed: tuple[float, float] | None = None
    once_s: float = 0.0
    done: int = 0
    leak: float = 0.0

    @property
    def step_s(self) -> float:
        """Mean seconds of a step: only means add up to an epoch."""
        return float(np.mean(self.blocks_s))

    @property
    def start_s(self) -> float:
        """Seconds that the first step took beyond the others."""
        return max(self.first_s - self.step_s, 0.0)

    @property
    def error(self) -> float:
        """Relative standard error of `step_s`: the spread between blocks (batch means: Schmeiser 1982), and half of the
        share that was taken off each for its epoch.
        """
        blocks = np.array(self.blocks_s)
        if len(blocks) < 2:
            return math.nan
        spread = blocks.std(ddof=1) / math.sqrt(len(blocks)) / blocks.mean()
        return float(math.hypot(spread, self.epoch_s / (self.steps * blocks.mean() + self.epoch_s) / 2))


@dataclass(frozen=True)
class Probe:
    """How a model trained: at the batch size asked for, and a smaller one where there was time; took_s: in all."""

    full: Trained
    smaller: Trained | None
    took_s: float

    def step_s(self, batch: int) -> float:
        """Seconds of a step at another batch size, on the line through both, neither of whose parts is below 0; in
        proportion where one was tried.
        """
        full, smaller = self.full, self.smaller
        slope = most = full.step_s / full.batch
        if smaller:
            slope = min(max((full.step_s - smaller.step_s) / (full.batch - smaller.batch), 0.0), most)
        return full.step_s + slope * (batch - full.batch)


def probe(
    trainer: Trainer, batch: int, within_s: float, other: int, clock: Callable[[], float] = time.perf_counter
) -> Probe:
    """Train at two batch sizes (other: the smaller, 0 for none) for about so many seconds, clock's, in all."""
    start = clock()
    full = trained(trainer, batch, start + within_s * (SHARE if other else 1.0), clock)
    smaller, left = None, start + within_s - clock()
    # What compiled once compiles again for another shape; without time for it, and some steps, there is no line.
    if other and full.first_s + 2 * BLOCKS[0] * max(full.step_s * other / batch, BLOCK_S / 4) < left:
        smaller = trained(trainer, other, start + within_s, clock)
    return Probe(full, smaller, clock() - start)


def trained(trainer: Trainer, batch: int, until: float, clock: Callable[[], float]) -> Trained:
    """Train one batch size: the first step apart, epochs of one step, then blocks until the time (by the clock)."""
    trainer.forget_peak()
    started = clock()
    if trainer.stream(1) is not None:
        return _streamed(trainer, batch, clock() - started, until, clock)
    trainer.train(batch, 1, 1)
    first = clock() - started
    short = trainer.train(batch, 1, 2 if 2 * first < until - clock() else 1)
    single, done, means = float(short[-1]), 1 + len(short), BlockMeans(LEVEL)
    if (least := float(short.min())) >= BLOCK_S:  # a step is a block, and there is time for so many more
        more = trainer.train(batch, 1, 1, until - clock()) if least <= until - clock() else short[:0]
        few = len(more) <= BLOCKS[0]  # then the first of a `fit`, which starts its input anew, counts as well
        epochs = np.concatenate([each[0 if few else 1 :] for each in (short, more)])
        steps, epoch_s, done, alike = 1, 0.0, done + len(more), len(short) + len(more)
    else:
        # The least of several short epochs, if they are not a large part of the time that there is.
        if several := 10 * SHORT * single < until - clock():
            single = min(single, float(trainer.train(batch, 1, SHORT + 1)[1:].min()))
        steps = int(np.clip(math.ceil(BLOCK_S / max(single, 1e-9)), 1, min(STEPS, trainer.most_steps(batch))))
        epochs = trainer.train(batch, steps, BLOCKS[0] + 1, until - clock())[1:]  # the first starts its input anew
        # An epoch costs something besides its steps, if even the shortest epoch of one step took longer than a step in
        # any block: what noise alone could have made would make the steps look faster than they are.
        longer = several and single > float(epochs.max()) / steps
        beyond = single - float(epochs.mean()) / steps if longer else 0.0
        epoch_s = min(beyond * steps / max(steps - 1, 1), float(epochs.min()) / 2)
        done, alike = done + several * (SHORT + 1) + steps * (len(epochs) + 1), len(epochs)
    for seconds in epochs - epoch_s:
        means.add(float(seconds), steps)
    about = {"changed": means.changed, "done": done, "leak": leak(trainer.held[-alike:]) / steps}
    return Trained(batch, first, steps, tuple(means.blocks_s.tolist()), epoch_s, trainer.peak_bytes(), **about)


def leak(held: Sequence[int]) -> float:
    """Bytes that memory grows by with each epoch, from what it was after each; 0 unless each part of it (a sixth, a
    third of few) lies above the one before by half of the mean rise: what fills a cache, or room, comes to an end.
    """
    if len(held) < 2 * BLOCKS[0]:
        return 0.0
    parts = np.array_split(np.array(held, float), 6 if len(held) >= MANY else 3)
    rises = np.diff([part.mean() for part in parts])
    goes_on = rises.sum() >= LEAK and rises.min() >= rises.mean() / 2
    apart = len(held) - (len(parts[0]) + len(parts[-1])) / 2  # epochs, of the middles of the first and the last
    return float(rises.sum() / apart) if goes_on else 0.0


def _streamed(trainer: Trainer, batch: int, first: float, until: float, clock: Callable[[], float]) -> Trained:
    """The same where a source of batches works while the steps do, and starts with each epoch: what a step takes shows
    only in the second half of an epoch that is long enough. Each is GROWS times as long as the one before, as far as
    there is time, or LEAST_S, and data; data with a cache are gone through at once, which alone fills it. Then the last
    is repeated while there is time.
    """
    caches, most = trainer.cached is not None, trainer.most_steps(batch)
    seen = [trainer.stream(most, until - clock()) if caches else trainer.stream(1)]
    done = steps = len(seen[0]) - 2
    filled, most = caches and steps == most, steps if caches else most  # then it is read at least once
    while True:
        steps, whole = len(seen[-1]) - 2, float(seen[-1][-1])
        each = float(_per_step(seen[-1]).mean())
        left = max(until - clock(), LEAST_S)
        more = int(min(GROWS * steps, most, (left - max(whole - steps * each, 0.0)) / each))
        if more > steps and not caches:
            seen = [trainer.stream(more)]
            most = most if len(seen[0]) - 2 == more else len(seen[0]) - 2
        elif (filled and len(seen) == 1) or (len(seen) < BLOCKS[1] and whole < until - clock()):
            seen.append(trainer.stream(steps, left) if caches else trainer.stream(steps))
        else:
            break
        done += len(seen[-1]) - 2
    before, *later = seen  # the first that is whole compiles for a last batch that is smaller
    seen = later or seen
    steps, blocks_s = len(seen[-1]) - 2, np.concatenate([_per_step(moments) for moments in seen])
    whole = float(np.mean([moments[-1] for moments in seen]))
    blocks_s *= min(whole / (steps * blocks_s.mean()), 1.0)  # where the first half was the faster one
    epoch_s = max(whole - steps * float(blocks_s.mean()), 0.0)
    again_s = (len(before) - 2) * float(blocks_s.mean()) + epoch_s  # an epoch as long as the first, later
    once_s = float(before[-1]) - again_s if later and before[-1] > FACTOR * again_s else 0.0
    about = {"once_s": once_s, "done": done, "leak": leak(trainer.held[-len(seen) :]) / steps}
    return Trained(batch, first, steps, tuple(blocks_s.tolist()), epoch_s, trainer.peak_bytes(), **about)


def _per_step(moments: Array) -> Array:
    """Seconds a step in the second half of an epoch's steps, by blocks, shape (blocks,)."""
    steps = len(moments) - 2
    half = steps // 2
    blocks = int(min(np.clip((moments[steps] - moments[half]) / BLOCK_S, *BLOCKS), steps - half))
    each = (steps - half) // blocks
    return np.maximum(np.diff(moments[steps - each * np.arange(blocks, -1, -1)]) / each, 1e-9)
