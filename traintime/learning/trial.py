"""A trial: a task, a recurrent network, and how it is trained. Each seed gives one accuracy."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from traintime.errors import InputError
from traintime.workloads.base import Batch, Count, Fields, InKey, validated


class Trial(Fields):
    """Settings of a trial. The defaults are a cuDNN LSTM's: sigmoid gates, no recurrent dropout, no mask."""

    task: Annotated[
        Literal["mnist1d", "padded", "moods", "imdb"],
        Field(
            description="what is learned: digits drawn as lines, which word comes first, the mood of a sentence whose "
            "words are mostly rare, the mood of a review"
        ),
        InKey(always=True),
    ] = "mnist1d"
    units: Annotated[Count, Field(description="units of the LSTM"), InKey("u{}", always=True)] = 64
    batch: Batch = 100
    epochs: Annotated[Count, Field(description="passes over the data"), InKey("n{}", always=True)] = 40
    steps: Annotated[Count | None, Field(description="training steps instead of epochs"), InKey("s{}")] = None
    optimizer: Annotated[Literal["adam", "sgd"], Field(description="adam, or sgd without a velocity"), InKey()] = "adam"
    rate: Annotated[float, Field(gt=0, description="the optimizer's learning rate"), InKey("r{}")] = 0.001
    table: Annotated[
        Literal["dense", "deferred", "lazy-adam", "cut", "hashed", "factors"],
        Field(
            description="how the words' rows are kept and trained: all at every step; each when it is next read, which "
            "is the same training; those of the batch alone (stored, and trained no more); one row for all words but "
            "the most frequent tenth; ten words a row; a quarter of the numbers, widened by a matrix"
        ),
        InKey(),
    ] = "dense"
    backend: Annotated[Literal["jax", "tensorflow"], Field(description="what Keras computes with"), InKey()] = "jax"
    precision: Annotated[
        Literal["float32", "mixed-bfloat16", "mixed-float16"],
        Field(description="of the arithmetic; weights stay float32"),
        InKey(),
    ] = "float32"
    gates: Annotated[
        Literal["sigmoid", "hard"],
        Field(description="the gates' activation: the sigmoid, or Keras 2's line from 0 to 1"),
        InKey({"sigmoid": "", "hard": "hard-gates"}),
    ] = "sigmoid"
    recurrent_dropout: Annotated[
        float, Field(ge=0, lt=1, description="share of the state that is dropped at each time step"), InKey("rd{}")
    ] = 0.0
    mask: Annotated[bool, Field(description="skip the padding"), InKey("mask")] = False
    forget_bias: Annotated[float, Field(ge=0, description="bias of the forget gate at the start"), InKey("fb{}")] = 1.0

    @model_validator(mode="after")
    def fields_fit_together(self) -> Self:
        """Refuse a mask without padding, a way to keep a table without words, or one that is not the optimizer's."""
        if self.mask and self.task in ("mnist1d", "moods"):
            raise InputError("mask", True, f"finds no padding in {self.task}", "Take the task padded or imdb.")
        if self.table != "dense" and self.task == "mnist1d":
            raise InputError("table", self.table, "finds no words in mnist1d", "Take the task moods, padded or imdb.")
        if self.table == "deferred" and self.optimizer != "adam":
            raise InputError("table", self.table, f"is no way of {self.optimizer}", "Take adam, or another table.")
        return self

    def refuse_untrainable(self) -> None:
        """Raise InputError for a table that nothing trains any more; what was trained with it stays readable."""
        if self.table == "lazy-adam":
            raise InputError("table", self.table, "is trained no more", "Take deferred, or read what is stored.")

    @property
    def key(self) -> str:
        """The file name: task, sizes, then what differs from the usual."""
        return "-".join(self.shown())


def make_trial(**fields: object) -> Trial:
    """Build a trial from plain values; raises InputError that names the field, the value and the remedy."""
    return validated(Trial, fields, "field of a trial")
