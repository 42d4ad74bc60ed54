"""The 2017 document's classifier: Embedding -> LSTM -> Dropout -> Dense(1, sigmoid), float32.

Source: S0 (V = 280K, E = 300, U = 128, L = 25, B = 100, dropout 0.5).
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from traintime.errors import InputError
from traintime.workloads.base import (
    ACCUMULATED,
    BY_ROW,
    FLOAT,
    UPDATES,
    Batch,
    Count,
    InKey,
    Optimizer,
    Sizes,
    Work,
    matmul,
)


def lstm_parameters(inputs: int, units: int) -> int:
    """Weights of an LSTM: four gates, each with input weights, recurrent weights and a bias (Gers et al. 2000)."""
    return 4 * units * (inputs + units + 1)


class Rnn(Sizes):
    """Sizes of the classifier."""

    name = "rnn"
    folder = Path(__file__).parent
    small: ClassVar = {"vocabulary": 200, "embedding": 16, "units": 8, "length": 6, "batch": 10, "dropout": 0.0}
    table = True
    only: ClassVar = {"factor": "keras3", "accumulated": "keras3"}

    vocabulary: Annotated[Count, Field(description="rows of the embedding table"), InKey("v{}", always=True)] = 280_000
    embedding: Annotated[Count, Field(description="numbers in each row"), InKey("e{}", always=True)] = 300
    units: Annotated[Count, Field(description="units of the LSTM"), InKey("u{}", always=True)] = 128
    length: Annotated[Count, Field(description="tokens in a sentence"), InKey("l{}", always=True)] = 25
    batch: Batch = 100
    optimizer: Optimizer = "adam"
    frozen: Annotated[bool, Field(description="leave the embedding untrained"), InKey("frozen")] = False
    dropout: Annotated[float, Field(ge=0, lt=1, description="share of units dropped"), InKey("d{}")] = 0.5
    tokens: Annotated[Literal["uniform", "zipf"], Field(description="how words are drawn"), InKey()] = "uniform"
    words: Annotated[
        Count | None, Field(description="tokens of a sentence that are not padding; all of them"), InKey("w{}")
    ] = None
    mask: Annotated[bool, Field(description="let the LSTM skip padding"), InKey("mask")] = False
    factor: Annotated[
        Count | None,
        Field(description="numbers in each row of a table whose rows a matrix then widens to `embedding`; no such"),
        InKey("f{}"),
    ] = None
    accumulated: Annotated[
        Count, Field(description="steps whose gradients are added up before an update"), InKey("a{}")
    ] = 1

    @model_validator(mode="after")
    def fields_fit_together(self) -> Self:
        """Refuse a combination that no worker could honour."""
        if self.words is not None and self.words > self.length:
            raise InputError("words", self.words, f"is more than the length {self.length}", "Give the length or less.")
        if self.words is not None and self.vocabulary < 2:
            raise InputError("vocabulary", self.vocabulary, "has no row but the padding's", "Give 2 or more.")
        if self.mask and self.words is None:
            raise InputError("mask", True, "finds no padding to skip", "Give the number of words that are not padding.")
        if self.accumulated > 1 and self.optimizer in BY_ROW:
            what = f"leaves {self.optimizer} no row to move at a step"
            raise InputError("accumulated", self.accumulated, what, "Take 1, or an optimizer that moves all rows.")
        return self

    @property
    def how(self) -> str:
        """ "frozen", or the optimizer's name, which says where gradients are added up first."""
        return "frozen" if self.frozen else self.optimizer + ACCUMULATED * (self.accumulated > 1)

    def refuse_impossible(self, api: str, backend: str = "") -> None:
        super().refuse_impossible(api, backend)
        if self.mask and api == "numpy":
            raise InputError("mask", True, "is nothing that numpy can do", "Take a Keras stack.")

    def work(self, least: Callable[..., Any] = min) -> Work:
        """parameters: V E + 4 U (E + U + 1) + U + 1; with a factor F, V F + F E in the place of V E. By rows, at most
        a batch's tokens are trained.

        The inputs of all tokens are multiplied at once, the units of the state one time step after the other.
        Activations are what the slowest stacks hold for each token, about. The calculator's page gets this very form:
        with symbols for the sizes, and their `least` (traintime.book.calculator.formulas).
        """
        tokens, gates = self.batch * self.length, 4 * self.units
        width = self.factor or self.embedding
        widening = self.factor * self.embedding if self.factor else 0
        others = widening + lstm_parameters(self.embedding, self.units) + self.units + 1
        rows = 0 if self.frozen else self.vocabulary
        if self.optimizer in BY_ROW:
            rows = least(rows, tokens)
        update = replace(UPDATES[self.optimizer], accumulated=self.accumulated)
        products = [
            matmul(tokens, self.factor, self.embedding) if self.factor else Work(),
            matmul(tokens, self.embedding, gates),
            matmul(self.batch, self.units, gates, copies=self.length),
        ]
        kept = Work(
            activation_bytes=FLOAT * (2 * self.embedding + (self.factor or 0) + 18 * self.units) * tokens,
            launches=2 * (self.length + 2),
            recurrent_bytes=FLOAT * 18 * self.units * tokens,
            slice_bytes=0 if self.mask else self.length * FLOAT * tokens * gates,  # a mask leads to another loop
        )
        return sum(products, update.work(self.vocabulary * width + others, rows * width + others) + kept)
