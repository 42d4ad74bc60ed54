"""Train a reader's compiled Keras 3 model for a moment, on made-up data or theirs, and leave it as it was."""

import contextlib
import gc
import itertools
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from traintime.errors import InputError
from traintime.explain.statistics import Array
from traintime.predict import process
from traintime.predict.probe import FIRST_ALONE, Trainer, named, taken
from traintime.predict.process import ONCE, Copies
from traintime.predict.work.graph import losses, refuse_other_batch, takes_classes

MOST_BYTES = 2**27  # of made-up data at a time
TRIED_BYTES = 2**27  # of samples at the least, where it is tried how often `fit` holds them
MOST_EPOCHS = 10**6  # of a `fit` that ends when its time is over
READ, READ_S = 32, 1.0  # batches that are read by themselves, and seconds of it, at most
ALL = 0.9  # of a step, as good as all of it
# Times the most that a `fit` of this process had: TensorFlow keeps its room, and takes it for up to twice as many.
ROOM = 2.5
PARTS = ("x", "y", "sample_weight")  # of the data, as `fit` calls them
COMPILED_EACH = "batches differ in size: JAX compiles each size once, which may count as steps here"
MADE_UP = " of made-up samples"
DATA = "data=(x, y), on the command line --data file.py:name"


class _Moments(keras.callbacks.Callback):
    """When each epoch's first batch began, each step of the last epoch was done, and each epoch was. An epoch over
    arrays counts from its first batch, since TensorFlow may sleep before its input begins (record.tf_data_end).

    It ends a `fit` after so many epochs, if another would not end within so many seconds; inside: in an epoch that
    lasts longer. note: called after each. Its hook for a batch's end leaves Keras' dispatching as it is, as Eta's does.
    """

    async_safe = True

    def __init__(self, note: Callable[[], None], epochs: int = 1, within_s: float = 0.0, inside: bool = False) -> None:
        super().__init__()
        self.note, self.epochs, self.inside, self.until = note, epochs, inside, time.perf_counter() + within_s
        self.begun: list[float] = []
        self.ended: list[float] = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start, self.done = time.perf_counter(), []

    def on_train_batch_begin(self, batch, logs=None):
        if len(self.begun) == len(self.ended):
            self.begun.append(time.perf_counter())

    def on_train_batch_end(self, batch, logs=None):
        self.done.append((batch + 1, time.perf_counter()))
        if self.inside and self.done[-1][1] > self.until:
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        self.ended.append(time.perf_counter())
        self.note()
        if epoch + 1 >= self.epochs and 2 * self.ended[-1] - self.begun[-1] >= self.until:
            self.model.stop_training = True

    @property
    def of_epoch(self) -> Array:
        """Seconds of the last epoch: 0, when each step, of several at once too, and it was done, shape (steps + 2,)."""
        steps, moments = zip((0, self.start), *self.done, strict=True)
        each = np.interp(np.arange(max(steps) + 1), *map(sorted, (steps, moments)))
        return np.append(each, self.ended[-1]) - self.start


class _Scattered(keras.utils.PyDataset):
    """The batches of another in a random order: sorted by length, the first ones would tell little of the others."""

    def __init__(self, whole: keras.utils.PyDataset) -> None:
        super().__init__(whole.workers, whole.use_multiprocessing, whole.max_queue_size)
        self.whole, self.order = whole, np.random.default_rng(0).permutation(whole.num_batches)
        self.on_epoch_begin, self.on_epoch_end = whole.on_epoch_begin, whole.on_epoch_end

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, place: int) -> Any:
        return self.whole[int(self.order[place])]


class KerasTrainer(Trainer):
    """A compiled Keras model as the probe trains it, in this process.

    data: None for made-up data; (x, y), (x, y, weights of the samples) or x alone, of arrays, of which a batch is taken
    as `fit` takes it; or anything else that `fit` takes whole, whose batches are as large as they are. length: what
    stands for an unknown dimension of an input. Raises InputError for a model that is not compiled or built, for shapes
    that are unknown, and for what the model raises, with its words.
    """

    backend = keras.backend.backend()
    stack = f"2026-{backend}"
    fitted_bytes = 0  # the most samples that a `fit` of this process had

    def __init__(self, model: Any, data: Any = None, length: int | None = None) -> None:
        if not isinstance(model, keras.Model):
            remedy = "Give a keras.Model, of a wrapper the one inside; or step=, a function that trains on n samples."
            raise InputError("model", type(model).__name__, "is no Keras 3 model", remedy)
        if getattr(model, "optimizer", None) is None or not getattr(model, "compiled", False):
            raise InputError("model", model.name, "is not compiled", "Call model.compile(optimizer, loss) first.")
        self.model, self.of_training, self.whole, self.arrays = model, (model,), None, None
        self.on = MADE_UP if data is None else " of the given samples"
        self.between: list[float] = []
        if data is None:
            inputs = _structure(model, "input")
            self.inputs = keras.tree.map_structure(lambda one: _Numbers(*_spec(one, length), _rows(model, one)), inputs)
            self.outputs = _outputs(model, length)
        elif isinstance(data, tuple | list | dict) or _is_array(data):
            parts = tuple(data) if isinstance(data, tuple | list) and len(data) <= len(PARTS) else (data,)
            while parts and parts[-1] is None:
                parts = parts[:-1]
            self.arrays, leaves = parts, keras.tree.flatten(parts)
            if strange := [type(leaf).__name__ for leaf in leaves if not _is_array(leaf)]:
                raise InputError("data", strange[0], "is no array", "Give arrays or tensors, np.array(…).")
            sizes = {leaf.shape[0] if leaf.shape else 0 for leaf in leaves}
            if len(sizes) != 1 or 0 in sizes:
                problem = "have no sample" if 0 in sizes else "differ in their number of samples"
                raise InputError("data", sorted(sizes), problem, "Give x and y of one length.")
        else:
            self.whole = _Scattered(data) if isinstance(data, keras.utils.PyDataset) and data.num_batches else data
        self.own_batches = self.whole is not None  # whether the data come in batches of their own size
        inputs = getattr(model, "inputs", None) or []
        self.one_batch_size = self.own_batches or any(tensor.shape[0] is not None for tensor in inputs)
        self.sleeps = self.backend == "tensorflow" and not self.own_batches  # record.tf_data_end

    @property
    def sample_bytes(self) -> int:
        """Bytes of a sample of made-up or given arrays; 0 where the data come in batches of their own."""
        if self.own_batches:
            return 0
        return sum(np.asarray(array).nbytes for array in keras.tree.flatten(self.samples(1)))

    def most_steps(self, batch: int) -> int:
        """Steps of an epoch that data of at most a gibibyte allow, or the given batches."""
        if not self.own_batches:
            return max(1, MOST_BYTES // max(1, self.sample_bytes * batch))
        with contextlib.suppress(TypeError, AttributeError):
            if (known := len(self.whole)) >= 0:
                return max(1, known)
        return super().most_steps(batch)

    def train(self, batch: int, steps: int, epochs: int, within_s: float = 0.0) -> Array:
        refuse_other_batch(getattr(self.model, "inputs", None) or [], batch)
        moments, most = _Moments(self.note, epochs, within_s), MOST_EPOCHS if within_s > 0 else epochs
        self._fit(self.samples(batch * steps), batch_size=batch, epochs=most, callbacks=[moments])
        KerasTrainer.fitted_bytes = max(self.fitted_bytes, batch * steps * self.sample_bytes)
        self.between += np.subtract(moments.begun[1:], moments.ended[:-1]).tolist()
        return np.subtract(moments.ended, moments.begun)

    def stream(self, steps: int, within_s: float = math.inf) -> Array | None:
        if not self.own_batches:
            return None
        moments = _Moments(self.note, within_s=within_s, inside=True)
        # A finite source is gone through anew for each epoch, an endless one is read on.
        few = {} if steps >= self.most_steps(1) else {"steps_per_epoch": steps}
        self._fit((self.whole,), callbacks=[moments], **few)
        if not moments.done:
            raise InputError("data", type(self.whole).__name__, "gave no batch", "Give what can be gone through again.")
        return moments.of_epoch

    def reading(self, step_s: float) -> tuple[float, str]:
        """By reading some batches of a source that can be gone through again. What is read while the step before
        computes delays it only where that takes as long as the step.
        """
        if not self.own_batches or (batches := iter(self.whole)) is self.whole:
            return 0.0, ""
        moments, sizes = [], set()
        for batch in itertools.islice(batches, READ):
            moments.append(time.perf_counter())
            sizes.add(tuple(tuple(each.shape[1:]) for each in keras.tree.flatten(batch) if hasattr(each, "shape")))
            if moments[-1] - moments[0] > READ_S:
                break
        each = float(np.diff(moments).mean()) if len(moments) > 1 else 0.0
        workers = getattr(self.whole, "workers", getattr(self.whole, "num_workers", 1))
        ahead = not hasattr(self.whole, "__getitem__") if workers == 1 else workers > 0
        waits = each if not ahead or each >= ALL * step_s else 0.0
        if self.backend == "jax" and len(sizes) > 1:
            return min(waits, step_s), COMPILED_EACH
        return min(waits, step_s), FIRST_ALONE if len(sizes) > 1 and not isinstance(self.whole, _Scattered) else ""

    def _named(self, method: str, on: str = "") -> contextlib.AbstractContextManager[None]:
        remedy = f"Call {method} by itself until it does not."
        if on == MADE_UP:
            remedy += f" If it never does, what was made up is wrong: give {DATA}."
        return named("model", self.model.name, f" in `{method}`{on}", remedy)

    def _fit(self, data: tuple[Any, ...], **how: Any) -> None:
        with self._named("fit", self.on):
            self.model.fit(**dict(zip(PARTS, data, strict=False)), verbose=0, **how)
        if self.backend == "jax":
            # Where it averages weights, Keras leaves two variables one array, which JAX refuses to train a second time.
            averages = {id(variable._value) for variable in self.model.optimizer.variables}
            for variable in self.model.trainable_variables:
                if id(variable._value) in averages:
                    variable.assign(np.array(variable))

    @property
    def cached(self) -> int | None:
        """Bytes of the elements that a tf.data.Dataset keeps by `cache()`, as far as it tells; None without that."""
        left = [self.whole] if hasattr(self.whole, "element_spec") else []
        while left:
            one = left.pop()
            if "Cache" not in type(one).__name__:
                left += one._inputs()
                continue
            shapes = [each for each in keras.tree.flatten(one.element_spec) if each.shape.is_fully_defined()]
            each = sum(math.prod(spec.shape) * spec.dtype.size for spec in shapes)
            return each * max(int(one.cardinality()), 0)
        return None

    def between_s(self) -> float:
        return min(self.between, default=0.0)  # the least seen, which nothing disturbed

    def test_s(self, batch: int, steps: int) -> float | None:
        if self.own_batches:
            return None
        moments, given = [], dict(zip(PARTS, self.samples(batch * steps), strict=False))
        ends = dict.fromkeys(("on_test_begin", "on_test_end"), lambda logs: moments.append(time.perf_counter()))
        with self._named("evaluate", self.on):
            for _ in range(2):  # the second counts
                look = keras.callbacks.LambdaCallback(**ends)
                self.model.evaluate(**given, batch_size=batch, verbose=0, callbacks=[look])
        return (moments[-1] - moments[-2]) / steps

    @property
    def own_bytes(self) -> int:
        """Bytes of the reader's own arrays, which this process holds anyway. Of a file that is mapped it holds none."""
        if self.arrays is None or process.gpu_peak(self.backend) is not None:
            return 0
        kept = [each for each in keras.tree.flatten(self.arrays) if not isinstance(each, np.memmap)]
        return sum(np.asarray(each).nbytes for each in kept)

    def array_bytes(self, samples: int) -> int:
        """Bytes of so many samples as arrays, once. On a GPU they are the host's affair, and none are counted."""
        return 0 if process.gpu_peak(self.backend) is not None else samples * self.sample_bytes

    def copies(self, batch: int, samples: int) -> Copies:
        """How often `fit` holds so many samples, by one step over some of them, or more. Few count once."""
        if self.array_bytes(samples) < TRIED_BYTES // 4:
            return ONCE
        tried = max(TRIED_BYTES, ROOM * self.fitted_bytes)
        data = self.samples(int(tried // self.sample_bytes))
        held: list[int] = []  # when the step begins, and at the most until then
        look = keras.callbacks.LambdaCallback(
            on_train_batch_begin=lambda batch, logs: held.extend((process.now(), process.peak()))
        )
        gc.collect()  # models of before, which could be freed meanwhile
        before = process.now()
        self.forget_peak()
        self._fit(data, batch_size=batch, steps_per_epoch=1, epochs=1, callbacks=[look])
        KerasTrainer.fitted_bytes = int(tried)
        return Copies(*(1 + max(each - before, 0) / tried for each in held))

    def save_s(self) -> float:
        with self._named("save"), tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            self.model.save(Path(folder) / "model.keras")
            return time.perf_counter() - start

    def begin_anew(self) -> None:
        # Compiled for other shapes than the reader's, TensorFlow's function would take neither well.
        self.model.train_function = self.model.test_function = None

    def samples(self, number: int) -> tuple[Any, ...]:
        """So many samples: x and y in the model's structures, or of the reader's PARTS those that were given."""
        if self.arrays is not None:
            return keras.tree.map_structure(lambda array: _first(array, number), self.arrays)
        random = np.random.default_rng(0)
        return keras.tree.map_structure(lambda one: one.drawn(random, number), (self.inputs, self.outputs))


def _is_array(thing: Any) -> bool:
    return hasattr(thing, "shape") and hasattr(thing, "__array__")


def _first(array: Any, samples: int) -> Any:
    """The first samples, as `fit` takes them."""
    if getattr(array, "dtype", None) == "string":  # TensorFlow's, which it does not take from NumPy
        return keras.ops.take(array, np.arange(samples) % len(array), axis=0)
    return taken(np.asarray(array), samples)


@dataclass(frozen=True)
class _Numbers:
    """Shape and dtype of made-up samples of an input or a target; below: rows of a table, or classes, if any."""

    shape: tuple[int, ...]
    dtype: str
    below: int | None

    def drawn(self, random: np.random.Generator, number: int) -> Array:
        """So many samples, drawn as what they are: a second copy of all would stand in the peak of the memory."""
        shape, dtype = (number, *self.shape), self.dtype
        if self.below is not None or "int" in dtype or dtype == "bool":
            kind = dtype if "int" in dtype else "bool" if dtype == "bool" and self.below is None else "int32"
            return random.integers(0, self.below or 2, shape, dtype=kind)
        kind = dtype if dtype in ("float32", "float64") else "float32"
        return random.random(shape, dtype=kind).astype("float32" if dtype == "bfloat16" else dtype, copy=False)


def _structure(model: Any, name: str) -> Any:
    """A model's inputs or outputs as it declares them, one tensor or many. A Sequential model declares one of each."""
    tensors = getattr(model, f"{name}s", None)
    if not tensors:
        remedy = f"Build it (keras.Input as its first layer, or model.build), or give {DATA}."
        raise InputError("model", model.name, "has inputs of unknown shape", remedy)
    return tensors[0] if isinstance(model, keras.Sequential) else getattr(model, name)


def _spec(tensor: Any, length: int | None) -> tuple[tuple[int, ...], str]:
    """Shape of a sample, and dtype."""
    shape = tensor.shape[1:]
    if tensor.dtype == "string":
        raise InputError(f"input {tensor.name}", "string", "is text, which is not made up", f"Give {DATA}.")
    if None in shape and length is None:
        text = str(tuple(tensor.shape))
        remedy = f"Say how long samples are (length=…, --length), or give {DATA}."
        raise InputError(f"input {tensor.name}", text, "has a dimension that is unknown", remedy)
    return tuple(length if size is None else size for size in shape), keras.backend.standardize_dtype(tensor.dtype)


def _rows(model: Any, tensor: Any) -> int | None:
    """Rows of the smallest table that reads this input, None without one. A graph is made of layers, and of functions
    such as a cast, which have no weights.
    """
    found = []

    def look(inner: Any, here: Any) -> None:
        inner = getattr(inner, "_functional", None) or inner
        for operation in getattr(inner, "operations", getattr(inner, "layers", [])):
            for node in operation._inbound_nodes:
                places = [place for place, each in enumerate(node.input_tensors) if each is here]
                if not places:
                    continue
                layer = getattr(operation, "layer", operation)  # in a wrapper
                if hasattr(layer, "input_dim") and hasattr(layer, "output_dim"):
                    found.append(int(layer.input_dim))
                elif getattr(layer, "inputs", None):
                    look(layer, layer.inputs[places[0]])
                elif not getattr(layer, "weights", None):
                    for output in node.output_tensors:
                        look(inner, output)

    look(model, tensor)
    return min(found, default=None)


def _outputs(model: Any, length: int | None) -> Any:
    """The targets that each output's loss takes, in the structure of the outputs."""
    structure = _structure(model, "output")
    found = []
    for loss, tensor in zip(losses(model), keras.tree.flatten(structure), strict=True):
        shape, dtype = _spec(tensor, length)
        its = (shape[:-1], "int32", shape[-1]) if takes_classes(loss) else (shape, dtype, None)
        found.append(_Numbers(*its))
    return keras.tree.pack_sequence_as(structure, found)
