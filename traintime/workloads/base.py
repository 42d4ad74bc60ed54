"""What a workload is: its sizes, the work of one training step, and one model file for each API that can train it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from traintime.errors import InputError, unknown

APIS = ("keras2", "keras3", "numpy")
FLOAT = 4  # bytes of a float32
FLOAT32 = "float32"  # what is computed in if nothing else is said

# Running means or velocities that an optimizer keeps for each parameter.
SLOTS = {"adam": 2, "adam-rows": 2, "adam-deferred": 2, "sgd": 0, "momentum": 1, "rmsprop": 1}

# Bytes that a dense float32 update must move for each parameter, at the least:
# zero the gradient (4) + read gradient and parameter, and the slots + write parameter, and the slots.
# SGD without a velocity: Keras 2 keeps one even at momentum 0, which adds 8.
UPDATE_BYTES = {name: FLOAT + FLOAT * (2 + slots) + FLOAT * (1 + slots) for name, slots in SLOTS.items()}

# Operations of a dense update for each parameter, the root counted as one. Adam: a mean takes 3 (subtract, scale, add),
# the mean of squares 4, the step 5 (scale, root, add, divide, subtract); Kingma & Ba 2015, as Keras 3 writes it.
# Momentum: two scalings, a difference, a sum. RMSprop: the mean of squares, and the step.
# Deferred: what a row has missed as well, a polynomial of six terms in a root and a quotient, and two means faded.
ADAM = 3 + 4 + 5
UPDATE_FLOPS = {
    "adam": ADAM,
    "adam-rows": ADAM,
    "adam-deferred": ADAM + 2 * 6 + 6,
    "sgd": 2,
    "momentum": 4,
    "rmsprop": 9,
}
# Optimizers that write only the rows of a table which a batch uses, and the API that has them.
BY_ROW = {"adam-rows": "numpy", "adam-deferred": "keras3"}
ACCUMULATED = "-accumulated"  # after an optimizer's name: it gets the gradients of several steps at once


@dataclass(frozen=True)
class InKey:
    """How a field appears in a point's key, and so in the name of its file.

    form: "{}" is the value, or a text for each value; always: also where the field has its usual value, which is its
    default; joined: follows what is before it without a dash.
    """

    form: str | dict[Any, str] = "{}"
    always: bool = False
    joined: bool = False

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

    def shown(self, always: bool) -> list[tuple[str, bool]]:
        """The parts of the key, with whether each is joined to the one before: those that always stand, or the rest."""
        parts = []
        for name, field in type(self).model_fields.items():
            how, value = self.in_key(name), getattr(self, name)
            if how.always == always and (always or value != field.default):
                parts.append((how.text(value), how.joined))
        return parts


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


@dataclass(frozen=True)
class Work:
    """What one training step has to do, whatever runs it (float32).

    parameters: all of the model's, frozen ones included; trained: those that the optimizer writes at each step; flops:
    operations of the matmuls, forward and backward; product_bytes: what those move if each product reads its two
    factors and writes its result once; update_flops, update_bytes: operations of the optimizer's update and the bytes
    it must move at the least; activation_bytes: of the activations; launches: operations that must wait for one
    another, one a layer or time step, forward and backward; recurrent_bytes: of activation_bytes, what recurrent layers
    keep of their time steps; slice_bytes: what a layer that reads an array time step by time step writes where each
    reading's gradient is as large as that array (torch's SelectBackward), as Keras' LSTM and GRU read their inputs'
    product on torch.
    """

    parameters: int
    trained: int
    flops: int
    product_bytes: int
    update_flops: int
    update_bytes: int
    activation_bytes: int
    launches: int
    recurrent_bytes: int = 0
    slice_bytes: int = 0


class Sizes(Fields):
    """Base of a workload's sizes; each has at least `batch` and `optimizer`."""

    name: ClassVar[str]
    folder: ClassVar[Path]  # of the model files that run inside a stack's Python
    small: ClassVar[dict[str, Any]]  # sizes at which a step takes milliseconds and nothing is random, for tests
    table: ClassVar[bool] = False  # whether a weight has rows of which a batch uses some
    pictures: ClassVar[bool] = False  # whether a sample is a picture in colour, for the feeds
    recomputes: ClassVar[bool] = False  # whether the way back can compute activations a second time

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
        only = BY_ROW.get(self.optimizer, api)
        if self.optimizer in BY_ROW and not self.table:
            raise InputError("optimizer", self.optimizer, "finds no table whose rows to write", "Take adam or sgd.")
        if only != api:
            remedy = f"Take {'the stack numpy' if only == 'numpy' else f'a stack of {only}'}."
            raise InputError("optimizer", self.optimizer, f"is nothing that {api} has", remedy)


def updates(parameters: int, trained: int, optimizer: str, accumulated: int = 1) -> dict[str, int]:
    """The part of Work that the optimizer sets: parameters and trained, operations and bytes of its update.

    accumulated: steps whose gradients are added up before an update; what such a step pays is the mean over them.
    """
    flops, moved = UPDATE_FLOPS[optimizer], UPDATE_BYTES[optimizer]
    if accumulated > 1:
        # A step zeroes and reads its gradient, reads the sum and writes it; the update then has its gradient at hand.
        flops, moved = flops + accumulated, moved - 2 * FLOAT + 4 * FLOAT * accumulated
    return {
        "parameters": parameters,
        "trained": trained,
        "update_flops": trained * flops // accumulated,
        "update_bytes": trained * moved // accumulated,
    }


def product(rows: int, inner: int, columns: int, fed_by_data: bool = False) -> tuple[int, int]:
    """Operations and bytes of a layer's products in one step: (rows × inner) by (inner × columns).

    One product forward and two backward, each over the same three arrays in another order, 2 operations a number; data
    need no gradient, so a layer that they feed has one product backward.
    """
    times = 2 if fed_by_data else 3
    return times * 2 * rows * inner * columns, times * FLOAT * (rows * inner + inner * columns + rows * columns)


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], fields: dict[str, Any], kind: str, known: list[str] | None = None) -> Model:
    """Build the model from plain values; what pydantic refuses becomes an InputError.

    kind: what a field is called when its name is unknown ("field of a configuration"); known: the names to offer then.
    """
    try:
        return model(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), InputError):
            raise cause from None
        field = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            raise unknown(kind, field, sorted(known or model.model_fields)) from None
        whole = first["type"] in ("greater_than", "int_type", "int_from_float", "int_parsing")
        remedy = "Give a whole number of 1 or more." if whole else "Give a value that it takes."
        raise InputError(field, first["input"], f"is refused ({first['msg'].lower()})", remedy) from None
