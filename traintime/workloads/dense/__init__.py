"""Dense layers alone: the example of a question about a DNN's memory, float32.

1000 numbers in, four hidden layers of 100 units (ReLU), 10 out (softmax), 256 samples a batch.
Source: S2 (the layers and the batch; the optimizer is ours).
"""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from traintime.errors import InputError
from traintime.workloads.base import FLOAT, Batch, Count, InKey, Optimizer, Sizes, Work, product, updates


class Dense(Sizes):
    """Sizes of the network."""

    name = "dense"
    folder = Path(__file__).parent

    inputs: Annotated[Count, Field(description="numbers of a sample"), InKey("i{}", always=True)] = 1000
    hidden: Annotated[Count, Field(description="units of a hidden layer"), InKey("h{}", always=True)] = 100
    layers: Annotated[Count, Field(description="hidden layers"), InKey("n{}", always=True)] = 4
    outputs: Annotated[Count, Field(description="classes"), InKey("o{}", always=True)] = 10
    batch: Batch = 256
    optimizer: Optimizer = "adam"

    @model_validator(mode="after")
    def fields_fit_together(self) -> Self:
        """Refuse the update by rows: there is no table."""
        if self.optimizer == "adam-rows":
            raise InputError("optimizer", self.optimizer, "finds no table whose rows to write", "Take adam or sgd.")
        return self

    def work(self) -> Work:
        """parameters: (I + 1) H + (N - 1) (H + 1) H + (H + 1) O. Activations: what the layers hand on, input included.

        The data needs no gradient: of the first layer's three products the last is not done.
        """
        widths = [self.inputs, *[self.hidden] * self.layers, self.outputs]
        pairs = list(pairwise(widths))
        parameters = sum((inner + 1) * columns for inner, columns in pairs)
        flops, moved = zip(*[product(self.batch, inner, columns) for inner, columns in pairs], strict=True)
        return Work(
            **updates(parameters, parameters, self.optimizer),
            flops=sum(flops) - flops[0] // 3,
            product_bytes=sum(moved) - moved[0] // 3,
            activation_bytes=FLOAT * self.batch * sum(widths),
            launches=2 * len(pairs),
        )
