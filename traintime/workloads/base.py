"""What a workload is: its sizes, the work of one training step, and one model file for each API that can train it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from traintime.errors import InputError, unknown

APIS = ("keras2", "keras3", "numpy")
FLOAT = 4  # bytes of a float32
FLOAT32 = "float32"  # what is computed in if nothing else is said


@dataclass(frozen=True)
class Work:
    """What one training step has to do, whatever runs it (float32); added field by field.

    parameters: all of the model's, frozen ones included; trained: those that the optimizer writes at each step; flops:
    operations of the matmuls, forward and backward; product_bytes: what those move if each product reads its two
    factors and writes its result once; update_flops, update_bytes: operations of the optimizer's update and the bytes
    it must move at the least; activation_bytes: of the activations; launches: operations that must wait for one
    another, one a layer or time step, forward and backward; recurrent_bytes: of activation_bytes, what recurrent layers
    keep of their time steps; slice_bytes: what a layer that reads an array time step by time step writes where each
    reading's gradient is as large as that array (torch's SelectBackward), as Keras' LSTM and GRU read their inputs'
    product on torch.
    """

    parameters: int = 0
    trained: int = 0
    flops: int = 0
    product_bytes: int = 0
    update_flops: int = 0
    update_bytes: int = 0
    activation_bytes: int = 0
    launches: int = 0
    recurrent_bytes: int = 0
    slice_bytes: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(**{name: value + getattr(other, name) for name, value in vars(self).items()})


def product(multiplications: int, numbers: int, gradients: int) -> Work:
    """One product forward, and one backward for each factor whose gradient a step needs; 2 operations a multiplication.

    numbers: of both factors and of the result, which each product reads or writes once, as float32.
    """
    times = 1 + gradients
    return Work(flops=times * 2 * multiplications, product_bytes=times * FLOAT * numbers)


def matmul(rows: int, inner: int, columns: int, gradients: int = 2, copies: int = 1) -> Work:
    """Products of (rows × inner) by (inner × columns), as many as `copies`.

    gradients: factors that need one: both, or the weights alone in a layer that data feed.
    """
    numbers = rows * inner + inner * columns + rows * columns
    return product(copies * rows * inner * columns, copies * numbers, gradients)


@dataclass(frozen=True)
class Update:
    """A dense float32 update, for each trained parameter.

    slots: numbers of optimizer state moved with the parameter (moments, velocities, the average of the weights);
    flops: operations, a root counted as one; again: further times that the gradient is read, before the update can
    begin; accumulated: steps whose gradients are added up before an update.
    """

    slots: int
    flops: int
    again: int = 0
    accumulated: int = 1

    @property
    def bytes(self) -> int:
        """Bytes moved for each parameter at the least: zero the gradient; read it, the parameter and the state; write
        those two. SGD without a velocity: Keras 2 keeps one even at momentum 0, which adds 8.
        """
        return FLOAT * (1 + self.again + 2 + self.slots + 1 + self.slots)

    def work(self, parameters: int, trained: int) -> Work:
        """What it adds to a step of a model; where gradients are added up, the mean over the steps."""
        flops, moved, steps = self.flops, self.bytes, self.accumulated
        if steps > 1:
            # A step zeroes and reads its gradient, reads the sum and writes it; the update has its gradient at hand.
            flops, moved = flops + steps, moved - 2 * FLOAT + 4 * FLOAT * steps
        return Work(parameters, trained, update_flops=trained * flops // steps, update_bytes=trained * moved // steps)


# Operations as Keras 3 writes each update; Kingma & Ba 2015. Adam: a mean takes 3 (subtract, scale, add), the mean of
# squares 4, the step 5 (scale, root, add, divide, subtract). Deferred: what a row has missed as well, a polynomial of
# six terms in a root and a quotient, and two means faded. Momentum: two scalings, a difference, a sum. RMSprop: the
# mean of squares, and the step.
ADAM = 3 + 4 + 5
UPDATES = {
    "adam": Update(2, ADAM),
    "adam-rows": Update(2, ADAM),
    "adam-deferred": Update(2, ADAM + 2 * 6 + 6),
    "sgd": Update(0, 2),
    "momentum": Update(1, 4),
    "rmsprop": Update(1, 9),
}
# Optimizers that write only the rows of a table which a batch uses, and the API that has them.
BY_ROW = {"adam-rows": "numpy", "adam-deferred": "keras3"}
ACCUMULATED = "-accumulated"  # after an optimizer's name: it gets the gradients of several steps at once


@dataclass(frozen=True)
class InKey:
    """How a field appears in a point's key, and so in the name of its file.

    form: "{}" is the value, or a text for each value, which may be empty; always: also where the field has its usual
    value, which is its default.
    """

    form: str | dict[Any, str] = "{}"
    always: bool = False

    def text(self, value: Any) -> str:
        """The value as it appears in a key."""
        if isinstance(self.form, dict):
            return self.form[value]
        return self.form.format(repr(value).removesuffix(".0") if isinstance(value, float) else value)


class Fields(BaseModel):
    """Validated settings; every field says in its description what it is, and in InKey how it appears in a key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def in_key(cls, name: str) -> InKey:
        """How the field appears in a key."""
        return next(item for item in cls.model_fields[name].metadata if isinstance(item, InKey))

    def shown(self) -> list[str]:
        """The parts of the key: those that always stand, then what differs from the usual."""
        always, differs = [], []
        for name, field in type(self).model_fields.items():
            how, value = self.in_key(name), getattr(self, name)
            if how.always or value != field.default:
                (always if how.always else differs).append(how.text(value))
        return [part for part in always + differs if part]


Count = Annotated[int, Field(gt=0, strict=True)]
Batch = Annotated[Count, Field(description="samples per step"), InKey("b{}", always=True)]
Optimizer = Annotated[
    Literal["adam", "sgd", "adam-rows", "adam-deferred", "momentum", "rmsprop"],
    Field(
        description="adam, sgd, momentum (SGD with a velocity), rmsprop; adam-rows: Adam that moves only the rows of "
        "the batch (numpy alone); adam-deferred: all of Adam, each row when it is next read (keras3 alone)"
    ),
    InKey(always=True),
]


class Sizes(Fields):
    """Base of a workload's sizes; each has at least `batch` and `optimizer`."""

    name: ClassVar[str]
    folder: ClassVar[Path]  # of the model files that run inside a stack's Python
    small: ClassVar[dict[str, Any]]  # sizes at which a step takes milliseconds and nothing is random, for tests
    table: ClassVar[bool] = False  # whether a weight has rows of which a batch uses some
    pictures: ClassVar[bool] = False  # whether a sample is a picture in colour, for the feeds
    recomputes: ClassVar[bool] = False  # whether the way back can compute activations a second time
    only: ClassVar[dict[str, str]] = {}  # fields of which one API alone has another value than the usual, and that API

    # A workload declares both where they stand in its key: pydantic would put a base's fields first.
    if TYPE_CHECKING:
        batch: Batch
        optimizer: Optimizer

    @property
    def how(self) -> str:
        """How the largest part of the model is trained: the optimizer's name, unless a workload knows better."""
        return self.optimizer

    def work(self) -> Work:
        """The work of one training step, in closed form."""
        raise NotImplementedError

    def refuse_impossible(self, api: str, backend: str = "") -> None:
        """Raise InputError where the trainer of this API, on this backend, cannot do what the sizes ask for."""
        if not (self.folder / f"on_{api}.py").exists():
            has = [name for name in APIS if (self.folder / f"on_{name}.py").exists()]
            raise InputError("workload", self.name, f"has no model for {api}", f"It has one for {', '.join(has)}.")
        if self.optimizer in BY_ROW and not self.table:
            raise InputError("optimizer", self.optimizer, "finds no table whose rows to write", "Take adam or sgd.")
        usual = {name: field.default for name, field in type(self).model_fields.items()}
        wanted = {name: only for name, only in self.only.items() if getattr(self, name) != usual[name]}
        for name, only in ({"optimizer": BY_ROW.get(self.optimizer, api)} | wanted).items():
            if only != api:
                remedy = f"Take {'the stack numpy' if only == 'numpy' else f'a stack of {only}'}."
                raise InputError(name, getattr(self, name), f"is nothing that {api} has", remedy)


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], fields: dict[str, Any], kind: str) -> Model:
    """Build the model from plain values; what pydantic refuses becomes an InputError.

    kind: what a field is called when its name is unknown ("field of a configuration").
    """
    try:
        return model(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), InputError):
            raise cause from None
        field = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            raise unknown(kind, field, sorted(model.model_fields)) from None
        whole = first["type"] in ("greater_than", "int_type", "int_from_float", "int_parsing")
        remedy = "Give a whole number of 1 or more." if whole else "Give a value that it takes."
        problem = first["msg"][:1].lower() + first["msg"][1:]
        raise InputError(field, first["input"], f"is refused ({problem})", remedy) from None
