"""Dense layers alone: the example of a question about a DNN's memory, float32.

1000 numbers in, four hidden layers of 100 units (ReLU), 10 out (softmax), 256 samples a batch.
Source: S2 (the layers and the batch; the optimizer is ours).
"""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from traintime.workloads.base import FLOAT, UPDATES, Batch, Count, InKey, Optimizer, Sizes, Work, matmul


class Dense(Sizes):
    """Sizes of the network."""

    name = "dense"
    folder = Path(__file__).parent
    recomputes = True
    small: ClassVar = {"inputs": 12, "hidden": 8, "layers": 2, "outputs": 3, "batch": 10}

    inputs: Annotated[Count, Field(description="numbers of a sample"), InKey("i{}", always=True)] = 1000
    hidden: Annotated[Count, Field(description="units of a hidden layer"), InKey("h{}", always=True)] = 100
    layers: Annotated[Count, Field(description="hidden layers"), InKey("n{}", always=True)] = 4
    outputs: Annotated[Count, Field(description="classes"), InKey("o{}", always=True)] = 10
    batch: Batch = 256
    optimizer: Optimizer = "adam"

    def work(self) -> Work:
        """parameters: (I + 1) H + (N - 1) (H + 1) H + (H + 1) O. Activations: the layers' outputs, and the input."""
        widths = [self.inputs, *[self.hidden] * self.layers, self.outputs]
        pairs = list(pairwise(widths))
        parameters = sum((inner + 1) * columns for inner, columns in pairs)
        products = [matmul(self.batch, *pair, gradients=2 if place else 1) for place, pair in enumerate(pairs)]
        others = Work(activation_bytes=FLOAT * self.batch * sum(widths), launches=2 * len(pairs))
        return sum(products, UPDATES[self.optimizer].work(parameters, parameters) + others)
