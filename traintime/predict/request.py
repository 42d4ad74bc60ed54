"""What is asked, and the model's work: the two things that every tier starts from."""

from dataclasses import dataclass
from typing import Any

from traintime.errors import InputError
from traintime.point import Point, Run
from traintime.predict import calibrate, resident
from traintime.predict.layers import nbytes
from traintime.predict.prices import USUAL
from traintime.predict.work import work
from traintime.workloads.base import BY_ROW, FLOAT, FLOAT32, Work

TENSORFLOW = "2026-tensorflow"
PRICED = ("allocator",)  # fields of a run that the formula's prices follow
LEFT = 3  # times its own bytes that drawing a table may leave behind (TensorFlow: 2.4, seen once)


@dataclass(frozen=True)
class Request:
    """The training that is asked about: samples of an epoch and of its validation, samples a step, epochs; saves:
    times that the model is written; level: of the answer's intervals. Raises InputError for what cannot be.
    """

    samples: int
    batch: int
    epochs: int = 1
    validation: int = 0
    saves: int = 0
    level: float = 0.9

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("batch", 1), ("epochs", 1), ("validation", 0), ("saves", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                field = "batch_size" if name == "batch" else name
                raise InputError(field, value, "is refused", f"Give a whole number of {least} or more.")
        if self.batch > self.samples:
            raise InputError("batch_size", self.batch, f"is more than the {self.samples} samples", "Give less.")
        if not 0 < self.level < 1:
            raise InputError("level", self.level, "is no share", "Give a number between 0 and 1, such as 0.9.")

    @property
    def full_batches(self) -> int:
        """Full batches of an epoch."""
        return self.samples // self.batch

    @property
    def rest(self) -> int:
        """Samples of an epoch's last batch where it is not full, else 0."""
        return self.samples % self.batch


@dataclass(frozen=True)
class ModelDescription:
    """A model's work in a step, and how it is trained.

    table: parameters of trained embedding tables; tokens: of these, those that a batch uses at most; how: as memory is
    held (an optimizer's name, "frozen", ...); optimizer: its name; stack: whose efficiency factors it would have;
    sample_bytes: of a sample's inputs, 0 where they are not held as arrays; dtype: in which most of its products are
    computed; allocator: what answers malloc where it is trained; loaded_bytes: memory of this process without the
    model, between a least and a most, where the model is in it.
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

    @classmethod
    def from_point(cls, point: Point) -> "ModelDescription":
        """That of a point of the book's workloads. Raises InputError for a way to run it that has no cost."""
        sizes, remedy = point.sizes, "Leave it out, or measure it: traintime measure."
        for name, value in point.run.model_dump().items():
            if name not in PRICED and value != getattr(Run(), name):
                raise InputError(name, value, "has no known cost", remedy)
        table = sizes.vocabulary * sizes.embedding if sizes.table and sizes.how in ("adam", "sgd") else 0
        tokens = min(table, sizes.batch * sizes.length * sizes.embedding) if table else 0
        optimizer = "adam" if sizes.optimizer in BY_ROW else sizes.optimizer
        return cls(point.work, table, tokens, sizes.how, optimizer, TENSORFLOW, allocator=point.run.allocator)

    @classmethod
    def from_model(cls, model: Any, batch: int, optimizer: Any = None, length: int | None = None) -> "ModelDescription":
        """That of a Keras model; optimizer: another than the compiled one; length: what stands for an unknown dimension
        of its inputs. Raises InputError where its work is unknown (see predict.work.work).
        """
        import keras

        counted = work(model, batch, optimizer, length=length)
        chosen = optimizer or model.optimizer
        name = chosen if isinstance(chosen, str) else type(chosen).__name__
        name = "momentum" if name == "SGD" and getattr(chosen, "momentum", 0) else name.lower()
        table = counted.table_parameters
        tokens = sum(one.work.activation_bytes // FLOAT for one in counted.layers if one.kind == "Embedding")
        stack, sample_bytes = f"2026-{keras.backend.backend()}", counted.input_bytes // batch
        process = {"allocator": calibrate.who_answers(), "loaded_bytes": _loaded_bytes(model)}
        dtype = counted.compute_dtype
        return cls(counted.total, table, min(tokens, table), name, name, stack, sample_bytes, dtype, **process)


def _loaded_bytes(model: Any) -> tuple[float, float] | None:
    """What this process holds apart from the model, which it may train, between a least and a most: its framework, and
    all else that is loaded.

    What drawing a large table has left behind is taken again by the training, and looks like a library. None on a
    GPU. A layer may load more than another: Keras' Bidirectional loads TensorFlow, if it is installed, under
    whatever it computes with (its serialize_keras_object asks whether an object is a tf.TensorShape).
    """
    import keras

    if resident.gpu_peak(keras.backend.backend()) is not None:
        return None
    variables = [*model.variables, *getattr(getattr(model, "optimizer", None), "variables", ())]
    each = [nbytes(one) for one in variables]
    most = max(resident.now() - sum(each), 1.0)
    return max(most - LEFT * max(each, default=0), 1.0), most
