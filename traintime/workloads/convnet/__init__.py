"""A small convolutional network for images of digits: convolution, ReLU, pooling, one dense layer, float32.

Source: S3 (a network written in NumPy that learns MNIST's digits, batches of 1 to 256; its layers are not told, these
are ours). Images of 28 x 28 as in MNIST.
"""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from traintime.errors import InputError
from traintime.workloads.base import FLOAT, UPDATES, Batch, Count, InKey, Optimizer, Sizes, Work, matmul


class Convnet(Sizes):
    """Sizes of the network."""

    name = "convnet"
    folder = Path(__file__).parent
    small: ClassVar = {"side": 8, "window": 3, "filters": 4, "outputs": 3, "batch": 10}
    only: ClassVar = {"images": "numpy"}

    side: Annotated[Count, Field(description="pixels of an image's side"), InKey("s{}", always=True)] = 28
    window: Annotated[Count, Field(description="pixels of a filter's side"), InKey("w{}", always=True)] = 5
    filters: Annotated[Count, Field(description="filters of the convolution"), InKey("f{}", always=True)] = 8
    outputs: Annotated[Count, Field(description="classes"), InKey("o{}", always=True)] = 10
    batch: Batch = 256
    optimizer: Optimizer = "adam"
    images: Annotated[
        Literal["at-once", "blocks", "one-by-one"],
        Field(description="of a batch that NumPy's products take: all at once, in blocks of 16, one by one"),
        InKey(),
    ] = "at-once"

    @model_validator(mode="after")
    def fields_fit_together(self) -> Self:
        """Refuse a window that leaves nothing to pool."""
        if self.window >= self.side:
            raise InputError("window", self.window, f"leaves no two places on {self.side} pixels", "Give less.")
        return self

    @property
    def convolved(self) -> int:
        """Places of the window along a side."""
        return self.side - self.window + 1

    def work(self) -> Work:
        """parameters: (W² + 1) F + (P² F + 1) O, with P half of the places (an odd one is left out).

        Activations are the layers' outputs and the image.
        """
        places, pooled = self.convolved**2, (self.convolved // 2) ** 2 * self.filters
        parameters = (self.window**2 + 1) * self.filters + (pooled + 1) * self.outputs
        convolved = matmul(self.batch * places, self.window**2, self.filters, gradients=1)
        numbers = self.side**2 + places * self.filters + pooled + self.outputs
        others = Work(activation_bytes=FLOAT * self.batch * numbers, launches=2 * 3)
        update = UPDATES[self.optimizer].work(parameters, parameters)
        return update + convolved + matmul(self.batch, pooled, self.outputs) + others
