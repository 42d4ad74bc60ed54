"""A transformer's encoder over vectors, float32: attention and two dense layers, each added to its input, normalised.

Source: Vaswani et al. 2017 (the encoder's layer, normalised after each sum; ReLU; four times as wide in between). The
sizes are ours: none of the five documents times a transformer.
"""

import math
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from traintime.workloads.base import FLOAT, UPDATES, Batch, Count, InKey, Optimizer, Sizes, Work, matmul


class Encoder(Sizes):
    """Sizes of the network."""

    name = "encoder"
    folder = Path(__file__).parent
    small: ClassVar = {"layers": 2, "embedding": 8, "heads": 2, "length": 5, "batch": 10}

    layers: Annotated[Count, Field(description="hidden layers"), InKey("n{}", always=True)] = 3
    embedding: Annotated[Count, Field(description="numbers in each row"), InKey("e{}", always=True)] = 160
    heads: Annotated[Count, Field(description="of attention, which share the numbers"), InKey("h{}", always=True)] = 4
    length: Annotated[Count, Field(description="tokens in a sentence"), InKey("l{}", always=True)] = 32
    outputs: Annotated[Count, Field(description="classes"), InKey("o{}")] = 10
    batch: Batch = 32
    optimizer: Optimizer = "adam"

    def work(self) -> Work:
        """parameters: N (4 E A + 3 A + 8 E² + 10 E) + (E + 1) O, with A numbers in all heads, E rounded up.

        Activations: what each layer's operations give, and the input. The scores of attention are L² numbers a head,
        once before the softmax and once after.
        """
        width, heads, length, batch = self.embedding, self.heads, self.length, self.batch
        each = math.ceil(width / heads)
        seen, tokens = heads * each, batch * length
        of_layer = 4 * width * seen + 3 * seen + 8 * width**2 + 10 * width
        parameters = self.layers * of_layer + (width + 1) * self.outputs
        parts = [matmul(batch, width, self.outputs), UPDATES[self.optimizer].work(parameters, parameters)]
        for layer in range(self.layers):
            gradients = 2 if layer else 1  # the data need none
            parts += [matmul(tokens, width, seen, gradients)] * 3 + [matmul(tokens, seen, width)]
            parts += [matmul(length, each, length, copies=batch * heads)]
            parts += [matmul(length, length, each, copies=batch * heads)]
            parts += [matmul(tokens, width, 4 * width), matmul(tokens, 4 * width, width)]
        # Queries, keys, values and what they give; output, sum and norm, dense layers, sum and norm; scores.
        held = tokens * (width + self.layers * (4 * seen + (1 + 2 + 4 + 1 + 2) * width))
        held += 2 * self.layers * batch * heads * length**2
        launches = 2 * (12 * self.layers + 2)
        return sum(parts, Work(activation_bytes=FLOAT * held, launches=launches))
