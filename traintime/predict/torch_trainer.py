"""Train a reader's PyTorch module for a moment, on their arrays or a DataLoader's batches, and leave it as it was."""

import contextlib
import functools
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, RandomSampler

from traintime.errors import InputError
from traintime.explain.statistics import Array
from traintime.predict.probe import FIRST_ALONE, Trainer, named, taken

SCATTERED = 4096  # batches
BY_STEP = "Give the loop's own step instead: estimate(step=…)."
Batch = tuple[Any, Any]  # what the module takes, and the targets; None as targets where the module has its own loss


class TorchTrainer(Trainer):
    """A module as a plain loop trains it, in this process: zero_grad, forward, loss, backward, step.

    loss: of (outputs, targets), or None where the module returns its own: a scalar, or something with a `loss`. data:
    (x, y), tensors or arrays (or dicts and tuples of them, the module's arguments), of which batches are slices; a dict
    of them where the module returns its loss; or anything that gives such batches, as a DataLoader does. Each batch is
    put on the module's device in the step. Raises InputError for anything else, and for what the module raises.
    """

    stack = "2026-torch"

    def __init__(self, module: torch.nn.Module, loss: Any, optimizer: Any, data: Any) -> None:
        name, parameters = type(module).__name__, list(module.parameters())
        if any(isinstance(each, torch.nn.UninitializedParameter) for each in parameters):
            raise InputError("model", name, "has parameters without a shape yet", "Call it once with a batch.")
        if isinstance(optimizer, list | tuple):
            raise InputError("optimizer", type(optimizer).__name__, "is several", BY_STEP)
        if not isinstance(optimizer, torch.optim.Optimizer):
            remedy = "Give the one that trains it: torch.optim.Adam(module.parameters()), say."
            raise InputError("optimizer", optimizer, "is no optimizer of PyTorch", remedy)
        trained = {id(each) for group in optimizer.param_groups for each in group["params"]}
        if not trained & {id(each) for each in parameters}:
            problem = f"trains no parameter of {name}"
            raise InputError("optimizer", type(optimizer).__name__, problem, "Make it of module.parameters().")
        if isinstance(loss, type):
            raise InputError("loss", loss.__name__, "is a class", f"Make one of it: loss={loss.__name__}().")
        if loss is not None and not callable(loss):
            raise InputError("loss", loss, "cannot be called", "Give a function of (outputs, targets), or None.")
        if data is None:
            remedy = "Give data=(x, y), or a DataLoader: what a module takes, it does not tell."
            raise InputError("data", None, "is needed to train a PyTorch module", remedy)
        if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
            remedy = "Give torch.utils.data.DataLoader(data, batch_size=32), say."
            raise InputError("data", type(data).__name__, "has samples and no batches", remedy)
        self.module, self.loss, self.optimizer, self.data = module, loss, optimizer, data
        generators = [getattr(each, "generator", None) for each in (data, getattr(data, "sampler", None))]
        self.of_training = module, optimizer, loss, *generators
        self.empty = any(each.is_meta for each in parameters)  # without numbers, so that it cannot be trained
        self.device = torch.device("cpu") if self.empty else parameters[0].device
        self.backend = "torch" if self.device.type == "cuda" else "cpu"
        self._arrays = _arrays(data, loss)
        self.own_batches = self.one_batch_size = self._arrays is None
        self._loader: Iterator[Any] | None = None
        self._at = 0  # the next sample of the arrays
        self._starts: list[float] = []  # seconds until a DataLoader's first batch came
        self._waits: list[float] = []  # seconds until a further one did
        self._sizes: set[Any] = set()  # of the samples in a DataLoader's batches

    @functools.cached_property
    def _source(self) -> Any:
        """What batches are read from: chosen when the first is needed, since a sampler may draw random numbers."""
        return _scattered(self.data)

    @property
    def own_bytes(self) -> int:
        return sum(each.nbytes for each in self._held() if not isinstance(each, np.memmap))

    def array_bytes(self, samples: int) -> int:
        """No more than are given: a loop that has more reads them as it goes. On a GPU they are the host's affair."""
        return sum(each.nbytes // len(each) * min(samples, len(each)) for each in self._held())

    def _held(self) -> list[Any]:
        return [] if self.own_batches or self.backend == "torch" else _leaves(self._arrays)

    def train(self, batch: int, steps: int, epochs: int, within_s: float = 0.0) -> Array:
        """A DataLoader is read on: its workers start once an epoch of the reader's, and that is not counted here."""
        seconds, until = [], time.perf_counter() + within_s
        self.module.train()
        with self._named("a step"):
            while len(seconds) < epochs or time.perf_counter() + seconds[-1] < until:
                start, begun = time.perf_counter(), len(self._starts)
                for _ in range(steps):
                    self.optimizer.zero_grad()
                    self.loss_of(self.batch(batch)).backward()
                    self.optimizer.step()
                getattr(torch, self.device.type).synchronize()
                seconds.append(time.perf_counter() - start - sum(map(self._beyond_a_batch, self._starts[begun:])))
                self.note()
        return np.array(seconds)

    def between_s(self) -> float:
        return self._beyond_a_batch(min(self._starts, default=0.0))  # what its DataLoader takes to begin one

    def reading(self, step_s: float) -> tuple[float, str]:
        sampler = getattr(self.data, "sampler", None)
        first = len(self._sizes) > 1 and self._source is self.data and not isinstance(sampler, RandomSampler)
        return float(np.mean(self._waits or [0.0])), FIRST_ALONE if first else ""

    def _beyond_a_batch(self, seconds: float) -> float:
        return max(seconds - float(np.median(self._waits or [0.0])), 0.0)

    def test_s(self, batch: int, steps: int) -> float:
        self.module.eval()
        with torch.no_grad(), self._named("an evaluation"):
            for _ in range(2):  # the second counts
                start = time.perf_counter()
                for _ in range(steps):
                    self.loss_of(self.batch(batch))
                getattr(torch, self.device.type).synchronize()
            return (time.perf_counter() - start) / steps

    def save_s(self) -> float:
        with self._named("a save"), tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            states = {"module": self.module.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save(states, Path(folder) / "checkpoint.pt")
            return time.perf_counter() - start

    def begin_anew(self) -> None:
        self._loader = None  # ends its workers

    def of_a_batch(self) -> "TorchTrainer":
        """What trains the module on as many samples as are asked for: those of one batch, again and again."""
        if not self.own_batches:
            return self
        with self.restored(values=False):
            inputs, targets = self.batch(1)
        return TorchTrainer(self.module, self.loss, self.optimizer, inputs if self.loss is None else (inputs, targets))

    def batch(self, samples: int) -> Batch:
        """The next batch, on the module's device: so many samples of the arrays, or the DataLoader's next."""
        if self._arrays is None:
            given = self._next()
            several = isinstance(given, tuple | list)
            if self.loss is not None and not (several and len(given) == 2):
                kind = f"{len(given)} parts" if several else type(given).__name__
                raise InputError("data", type(self.data).__name__, f"gives batches of {kind}, and not (x, y)", BY_STEP)
            batch = (given, None) if self.loss is None else tuple(given)
        else:
            batch = _mapped(lambda array: taken(array, samples, self._at), self._arrays)
            self._at += samples
        return _mapped(lambda each: torch.as_tensor(each).to(self.device), batch)

    def loss_of(self, batch: Batch) -> torch.Tensor:
        """The loss of a batch. Raises InputError where there is none."""
        inputs, targets = batch
        if isinstance(inputs, Mapping):
            outputs = self.module(**inputs)
        else:
            outputs = self.module(*inputs) if isinstance(inputs, tuple | list) else self.module(inputs)
        if self.loss is not None:
            return self.loss(outputs, targets)
        by_name = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", outputs)
        found = by_name[0] if isinstance(by_name, tuple) else by_name
        if not isinstance(found, torch.Tensor) or found.ndim:
            raise InputError("loss", None, f"is not in what {type(self.module).__name__} returns", "Give loss=….")
        return found

    def _next(self) -> Any:
        start, times = time.perf_counter(), self._waits
        with self._named("the next batch"):
            for _ in range(2):
                if self._loader is None:
                    self._loader, times = iter(self._source), self._starts
                for given in self._loader:
                    times.append(time.perf_counter() - start)
                    self._sizes.add(tuple(tuple(each.shape[1:]) for each in _leaves(given)))
                    return given
                self._loader = None  # an epoch is over
        given_before = len(self._starts) + len(self._waits)
        problem = f"ended after {given_before} batches, which the probe used up" if given_before else "gave no batch"
        raise InputError("data", type(self.data).__name__, problem, "Give a DataLoader, which can be read again.")

    def _named(self, what: str) -> contextlib.AbstractContextManager[None]:
        without = "Give loss=…, if it returns none. " if self.loss is None else ""
        remedy = f"{without}Train one batch by yourself until that works. {BY_STEP}"
        return named("model", type(self.module).__name__, f" in {what}", remedy)


def _arrays(data: Any, loss: Any) -> tuple[Any, Any] | None:
    """What data are as (what the module takes, targets), arrays of one length; None where they give batches."""
    if loss is None:
        if not isinstance(data, Mapping) and not hasattr(data, "shape"):
            return None
        found: tuple[Any, Any] = (data, None)
    elif isinstance(data, tuple | list) and len(data) == 2:
        found = tuple(data)  # type: ignore[assignment]
    elif isinstance(data, Iterable) and not isinstance(data, Mapping) and not hasattr(data, "shape"):
        return None
    else:
        raise InputError("data", type(data).__name__, "has no targets for the loss", "Give data=(x, y), or loss=None.")
    sizes = {len(each) for each in _leaves(found)}
    if len(sizes) != 1 or 0 in sizes:
        problem = "have no sample" if 0 in sizes else "differ in their number of samples"
        raise InputError("data", sorted(sizes), problem, "Give arrays of one length.")
    return found


def _scattered(data: Any) -> Any:
    """A DataLoader that gives batches from all over the epoch, SCATTERED at most, unless its order is random: sorted by
    length, the first ones tell little of the others.
    """
    loader, number = torch.utils.data.DataLoader, 0
    with contextlib.suppress(TypeError, NotImplementedError):
        number = len(data)
    plain = isinstance(data, loader) and not isinstance(data.dataset, IterableDataset)
    plain = plain and all(getattr(type(data), each) is getattr(loader, each) for each in ("__iter__", "_get_iterator"))
    if not plain or not number or data.batch_sampler is None or isinstance(data.sampler, RandomSampler):
        return data
    chosen = np.random.default_rng(0).choice(number, min(number, SCATTERED), replace=False)
    wanted, every = set(chosen.tolist()), enumerate(itertools.islice(data.batch_sampler, number))
    found = {place: each for place, each in every if place in wanted}
    same = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context")
    same += ("generator", "prefetch_factor", "persistent_workers")
    batches = [found[place] for place in chosen if place in found]
    return loader(data.dataset, batch_sampler=batches, **{name: getattr(data, name) for name in same})


def _mapped(function: Callable[[Any], Any], thing: Any) -> Any:
    """The same structure of dicts and sequences, the function applied to what has a shape."""
    if isinstance(thing, Mapping):
        return {name: _mapped(function, each) for name, each in thing.items()}
    if isinstance(thing, tuple | list):
        return tuple(_mapped(function, each) for each in thing)
    return function(thing) if hasattr(thing, "shape") else thing


def _leaves(thing: Any) -> list[Any]:
    found: list[Any] = []
    _mapped(found.append, thing)
    return found
