"""What is asked, and the model's work: the two things that every tier starts from."""

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from traintime.errors import LARGEST, InputError, unknown
from traintime.explain.memory import ADAM, LEAST_COPIES, MemoryModel, memory_model
from traintime.point import Point, Run
from traintime.predict import own, process
from traintime.predict.answer import LEVEL, TIERS
from traintime.predict.costs import USUAL
from traintime.predict.work.graph import PROBED, ModelWork, of_forward, work
from traintime.predict.work.layers import nbytes
from traintime.workloads.base import BY_ROW, FLOAT32, Work

DEFERRED, SPARSE = "adam-deferred", "sparse"  # what moves the rows in use alone
KERAS_BATCH = 32  # samples a step of `fit`, where it is not told
LEFT = 3  # times its own bytes that drawing a table may leave behind (TensorFlow: 2.4, seen once)
SECONDS = 30.0  # of a probe


@dataclass(frozen=True)
class Request:
    """All that is asked about the training of a model, as `estimate` takes it. Raises InputError for what cannot be.

    samples: of an epoch, batch: of a step, validation: of an evaluation after each epoch; saves: times that the model
    is written; deadline_s, memory_limit: seconds and bytes to be kept; probe, probe_batch: what is tried in the model's
    place; data, length, loss, optimizer: what it is trained with; seconds: of a probe; keep: whether weights stay.
    """

    samples: int
    batch: int
    epochs: int = 1
    validation: int = 0
    saves: int = 0
    level: float = LEVEL
    deadline_s: float | None = None
    memory_limit: float | None = None
    tier: str | None = None
    device: str | None = None
    stack: str | None = None
    probe: Any = None
    probe_batch: int | None = None
    data: Any = None
    length: int | None = None
    loss: Any = None
    optimizer: Any = None
    seconds: float = SECONDS
    keep: bool = True

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("batch", 1), ("epochs", 1), ("validation", 0), ("saves", 0)):
            field = "batch_size" if name == "batch" else name
            object.__setattr__(self, name, whole(field, getattr(self, name), least))
        if self.probe_batch is not None:
            object.__setattr__(self, "probe_batch", whole("probe_batch", self.probe_batch))
        if self.batch > self.samples:
            raise InputError("batch_size", self.batch, f"is more than the {self.samples} samples", "Give less.")
        if not 0 < self.level < 1:
            raise InputError("level", self.level, "is no share", "Give a number between 0 and 1, such as 0.9.")
        if self.tier is not None and self.tier not in TIERS:
            raise unknown("tier", self.tier, list(TIERS))
        if not 1 <= self.seconds <= 3600:
            raise InputError("seconds", self.seconds, "is refused", "Give 1 to 3600.")

    @property
    def full_batches(self) -> int:
        """Full batches of an epoch."""
        return self.samples // self.batch

    @property
    def rest(self) -> int:
        """Samples of an epoch's last batch where it is not full, else 0."""
        return self.samples % self.batch

    @property
    def smaller(self) -> bool:
        """Whether something smaller is to be tried in the model's place."""
        return self.probe is not None or self.probe_batch is not None

    @property
    def calculated(self) -> bool:
        """Whether an answer from costs is asked for, and nothing is to be trained."""
        return self.tier == "formula" or self.device is not None


def whole(field: str, value: Any, least: int = 1) -> int:
    """The number as an int, 1e6 too. Raises InputError for what is not whole, or is less."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value <= LARGEST or value != int(value):
        shown = int(value) if isinstance(value, float) and value.is_integer() else value
        raise InputError(field, shown, "is refused", f"Give a whole number of {least} or more.")
    return int(value)


@dataclass(frozen=True)
class ModelDescription:
    """A model's work in a step, and how it is trained.

    table: parameters of trained embedding tables; rows: of the largest of them; tokens: of these, those that a batch
    uses at most; how: as memory is held (an optimizer's name, "frozen", ...); optimizer: its name; stack: whose
    efficiency factors it would have; sample_bytes: of a sample, 0 where they are not held as arrays; dtype: of most of
    its products; allocator: what answers malloc; loaded_bytes: memory of this process without the model, between a
    least and a most; forward_work: of a forward pass alone, where known; row_by_row: what may take the place of its
    tables and moves the rows in use alone (DEFERRED, SPARSE); uncosted: what says that a step is run in a way without
    known costs, and its value; convolutions: whether most of its products are; frozen: parameters that have neither a
    gradient nor a state; by_rows: parameters whose update grows with the batch; fitted: whether it is of the book's
    workloads, to which the costs were fitted; held: bytes at the most on the way forward and back, and in the update,
    where followed (work.torch); beyond_model: what these are more than the memory model makes of the work.
    """

    work: Work
    table: int
    tokens: int
    how: str
    optimizer: str
    stack: str
    sample_bytes: int = 0
    dtype: str = FLOAT32
    allocator: str = USUAL
    loaded_bytes: tuple[float, float] | None = None
    forward_work: Work | None = None
    row_by_row: str = ""
    uncosted: tuple[str, Any] | None = None
    convolutions: bool = False
    rows: int = 0
    frozen: int = 0
    by_rows: int = 0
    fitted: bool = False
    held: tuple[float, ...] = ()
    beyond_model: float = 0.0

    @classmethod
    def from_point(cls, point: Point) -> "ModelDescription":
        """That of a point of the book's workloads. Raises InputError for a way to run it that has no cost."""
        sizes, remedy = point.sizes, "Leave it out, or measure it: traintime measure."
        for name, value in point.run.model_dump().items():
            if name != "allocator" and value != getattr(Run(), name):  # which the formula's costs follow
                raise InputError(name, value, "has no known cost", remedy)
        rows = sizes.vocabulary if sizes.table and sizes.how in ("adam", "sgd") else 0
        table = rows * sizes.embedding if rows else 0
        tokens = min(table, sizes.batch * sizes.length * sizes.embedding) if table else 0
        optimizer = "adam" if sizes.optimizer in BY_ROW else sizes.optimizer
        about = {"allocator": point.run.allocator, "rows": rows, "row_by_row": DEFERRED, "fitted": True}
        about["convolutions"] = point.workload in ("blocks", "convnet")
        return cls(point.work, table, tokens, sizes.how, optimizer, "2026-tensorflow", **about)

    @classmethod
    def from_model(cls, model: Any, batch: int, optimizer: Any = None, length: int | None = None) -> "ModelDescription":
        """That of a Keras model; optimizer: another than the compiled one; length: of an unknown dimension of its
        inputs. Raises InputError where its work is unknown (work.graph.work).
        """
        import keras

        counted = work(model, batch, optimizer, length=length)
        chosen, backend = optimizer or model.optimizer, keras.backend.backend()
        tables, on_gpu = counted.tables, process.gpu_peak(backend) is not None
        # From how many rows on it pays was measured on processors alone.
        defers = not on_gpu and len({*map(id, tables)}) == len(tables)
        # A layer may load more than another: Keras' Bidirectional loads TensorFlow, if it is installed, under whatever
        # it computes with (its serialize_keras_object asks whether an object is a tf.TensorShape).
        variables = [*model.variables, *getattr(getattr(model, "optimizer", None), "variables", ())]
        about = {"sample_bytes": counted.batch_bytes // batch, "dtype": counted.compute_dtype}
        about |= {"forward_work": counted.forward, "uncosted": _uncosted(model)}
        about["rows"] = max((one.input_dim for one in tables), default=0)
        about["row_by_row"] = DEFERRED if defers and all(_defers(one, chosen) for one in tables) else ""
        about["convolutions"] = "Conv" in max(counted.layers, key=lambda one: one.work.flops).kind
        arrays = None if on_gpu else [nbytes(one) for one in variables]
        return cls._from_counted(counted, f"2026-{backend}", chosen, arrays, **about)

    @classmethod
    def from_module(cls, trainer: Any, batch: int) -> "ModelDescription":
        """That of a PyTorch module, by its trainer. Raises InputError where it cannot be followed (work.torch)."""
        with own.loading():
            from traintime.predict.work import torch as torch_work  # loads torch

            counted = torch_work.step_work(trainer, batch)
        module, optimizer = trainer.module, trainer.optimizer
        tensors = [*module.parameters(), *module.buffers()]
        arrays = None if trainer.backend == "torch" else [0 if each.is_meta else each.nbytes for each in tensors]
        largest = max(module.parameters(), key=lambda each: each.nbytes)
        about = {"dtype": str(largest.dtype).removeprefix("torch.")}
        about["row_by_row"] = "" if any(group.get("weight_decay") for group in optimizer.param_groups) else SPARSE
        about["convolutions"] = any("Conv" in type(each).__name__ for each in module.modules())
        # The samples that a loop holds, this process holds already, whether they are arrays or lie in a Dataset.
        return cls._from_counted(counted, trainer.stack, optimizer, arrays, **about).holding(counted.held)

    @classmethod
    def _from_counted(
        cls, counted: ModelWork, stack: str, optimizer: Any, arrays: list[int] | None, **about: Any
    ) -> "ModelDescription":
        """arrays: bytes of each that the model holds in this process, None on a GPU. What the process holds apart from
        them is told to some degree: what drawing the largest has left is taken again by the training, and looks loaded.
        """
        name = (optimizer if isinstance(optimizer, str) else type(optimizer).__name__).lower()
        velocity = getattr(optimizer, "momentum", 0) or getattr(optimizer, "defaults", {}).get("momentum")
        name = "momentum" if name == "sgd" and velocity else name
        if arrays is not None:
            most = max(process.now() - sum(arrays), 1.0)
            about["loaded_bytes"] = max(most - LEFT * max(arrays, default=0), 1.0), most
        about |= {"allocator": process.allocator(), "frozen": counted.frozen, "by_rows": counted.by_rows}
        return cls(counted.total, counted.table_parameters, counted.tokens, name, name, stack, **about)

    def holding(self, held: tuple[float, ...]) -> "ModelDescription":
        """The same where so much was followed to be held."""
        found = replace(self, held=held, beyond_model=0.0)
        return replace(found, beyond_model=max(held) - found.beyond_idle)

    @property
    def forward(self) -> Work:
        """The work of a forward pass; where layers are not known one product of three, and half of the launches."""
        if self.forward_work is not None:
            return self.forward_work
        third = {name: getattr(self.work, name) // 3 for name in ("flops", "product_bytes")}
        return of_forward(replace(self.work, launches=self.work.launches // 2, **third))

    @property
    def memory(self) -> MemoryModel:
        """What its stack holds, or its work as followed. Raises InputError for a stack that was never measured."""
        model, of_work = memory_model(self.stack), {"runtime": 0.0, "kept": 1.0, "recurrent": 1.0}
        return replace(model, stack="", copies=LEAST_COPIES[ADAM], **of_work) if self.held else model

    @property
    def beyond_idle(self) -> float:
        """Memory that its training takes in addition to what its stack holds before, without the samples, bytes."""
        return self.memory.beyond_idle(self.work, self.how, self.frozen) + self.beyond_model

    def refuse_without_costs(self) -> None:
        """Raise InputError where a step is run in a way that has no known cost."""
        if self.uncosted is not None:
            raise InputError(*self.uncosted, "has no known cost", f"Leave it out. {PROBED}")


def samples_of(data: Any) -> int | None:
    """Samples of arrays, or of a DataLoader; None where nobody can tell."""
    while isinstance(data, Mapping | tuple | list) and data:
        data = next(iter(data.values())) if isinstance(data, Mapping) else data[0]
    # A sampler may take a part of its dataset; that of an iterable dataset has no end.
    for owner in (getattr(data, "sampler", None), getattr(data, "dataset", data if hasattr(data, "shape") else None)):
        with contextlib.suppress(TypeError, NotImplementedError):
            return len(owner)
    return None


def sizes(model: Any, data: Any, samples: float | None, batch: float | None) -> tuple[float, float]:
    """Samples of an epoch, and of a step, from the data where they are not given. Raises InputError for none."""
    samples = samples_of(data) if samples is None else samples
    if batch is None:
        batch = getattr(data, "batch_size", None) or getattr(getattr(data, "batch_sampler", None), "batch_size", None)
    if batch is None and model is not None and not is_module(model) and (data is None or is_arrays(data)):
        batch = KERAS_BATCH
    for name, value, whose in (("samples", samples, "an epoch"), ("batch_size", batch, "a step")):
        if value is None:
            option = f"{name}=…, --{name.replace('_', '-')}"
            raise InputError(name, None, "is not told by the data", f"Say how many samples {whose} has: {option}.")
    return samples, batch  # type: ignore[return-value]


def is_arrays(data: Any) -> bool:
    """Whether data are arrays, and nothing that gives batches of its own."""
    return isinstance(data, Mapping | tuple | list) or hasattr(data, "shape")


def is_module(model: Any) -> bool:
    """Whether it is a PyTorch module, and no model of Keras (which are modules on its backend torch)."""
    if (torch := sys.modules.get("torch")) is None or not isinstance(model, torch.nn.Module):
        return False
    return not any(each.__module__.startswith("keras.") for each in type(model).__mro__)


def _uncosted(model: Any) -> tuple[str, Any] | None:
    """The argument of `compile` by which a step is run in another way than all whose costs are known, and its value."""
    import keras

    backend = keras.backend.backend()
    if not getattr(model, "compiled", False):
        return None
    if model.run_eagerly and backend != "torch":  # which runs no other way
        return "run_eagerly", True
    usual = backend == "jax" or model._resolve_auto_jit_compile()
    return None if model.jit_compile == usual else ("jit_compile", model.jit_compile)


def _defers(layer: Any, optimizer: Any) -> bool:
    """Whether the deferred pair takes the place of this embedding and of this optimizer."""
    import keras

    from traintime.deferred.adam import REFUSED, Adam
    from traintime.deferred.embedding import MISSING, Embedding

    given = {name: getattr(layer, name, None) for name in MISSING.keys() - {"weights"}}
    try:
        optimizer = keras.optimizers.get(optimizer)
        Embedding(layer.input_dim, layer.output_dim, name=layer.name, **given)
        Adam(**{name: getattr(optimizer, name) for name in ("beta_1", "beta_2", *REFUSED)})
    except (ValueError, AttributeError):  # an InputError is a ValueError
        return False
    # On torch an instance's class is another; AdamW is an Adam, too.
    return type(optimizer) in {type(keras.optimizers.Adam()), Adam}
