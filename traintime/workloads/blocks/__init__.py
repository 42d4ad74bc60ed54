"""Convolutions in four structures: one after the other, with shortcuts, densely joined, joined once; float32.

A first convolution gives `width` maps; `depth` convolutions of 3 x 3 follow, each with `width` maps; then the mean of
each map, and a dense layer. Structures, each stripped to what tells it from the others:
plain; residual (He et al. 2016: what two convolutions add to their input); dense (Huang et al. 2017: each convolution
reads the maps of all before it); aggregated (Lee et al. 2019, VoVNet: all maps are joined once, at the end).
Source: S1 (which of them is fast, and why; its sizes are not told, these are ours).
"""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from traintime.errors import InputError
from traintime.workloads.base import FLOAT, UPDATES, Batch, Count, InKey, Optimizer, Sizes, Work, matmul

COLOURS = 3
WINDOW = 3 * 3  # pixels under a filter


class Blocks(Sizes):
    """Sizes of the network."""

    name = "blocks"
    folder = Path(__file__).parent
    pictures = True
    small: ClassVar = {"side": 6, "width": 2, "depth": 2, "outputs": 3, "batch": 10}

    structure: Annotated[
        Literal["plain", "residual", "dense", "aggregated"],
        Field(description="how the convolutions are joined"),
        InKey(always=True),
    ] = "residual"
    side: Annotated[Count, Field(description="pixels of an image's side"), InKey("s{}", always=True)] = 32
    width: Annotated[Count, Field(description="maps that a convolution gives"), InKey("w{}", always=True)] = 16
    depth: Annotated[Count, Field(description="convolutions after the first"), InKey("n{}", always=True)] = 8
    outputs: Annotated[Count, Field(description="classes"), InKey("o{}", always=True)] = 10
    batch: Batch = 32
    optimizer: Optimizer = "adam"
    relu: Annotated[bool, Field(description="a ReLU after each convolution"), InKey({True: "", False: "linear"})] = True
    shared: Annotated[
        bool,
        Field(description="one set of weights for all convolutions after the first (plain alone)"),
        InKey({True: "shared", False: ""}),
    ] = False

    @model_validator(mode="after")
    def fields_fit_together(self) -> Self:
        """Refuse a shortcut that would span one convolution, and weights to share between different shapes."""
        if self.shared and self.structure != "plain":
            problem = f"is for the structure plain, not {self.structure}"
            raise InputError("shared", True, problem, "Take plain, whose convolutions all have one shape.")
        if self.structure == "residual" and self.depth % 2:
            problem = "leaves a convolution without a shortcut, which spans two"
            raise InputError("depth", self.depth, problem, "Make it larger or smaller by one.")
        return self

    @property
    def read(self) -> list[tuple[int, int, int]]:
        """Of each convolution, the first included: pixels under its filters, maps that it reads, maps that it gives."""
        reads = [place * self.width if self.structure == "dense" else self.width for place in range(1, self.depth + 1)]
        found = [(WINDOW, COLOURS, self.width), *((WINDOW, maps, self.width) for maps in reads)]
        if self.structure == "aggregated":
            found.append((1, (self.depth + 1) * self.width, self.width))
        return found

    @property
    def last(self) -> int:
        """Maps of which the mean is taken."""
        return (self.depth + 1) * self.width if self.structure == "dense" else self.width

    def work(self) -> Work:
        """parameters: (9 C + 1) W of a convolution that reads C maps, and (C + 1) O of the dense layer.

        Sharing the weights takes parameters away and nothing else: each convolution is computed all the same.
        Activations: the image and the result of each operation: a convolution, a ReLU, a sum, maps joined to one
        array. Densely joined, those grow with the square of the depth.
        """
        own = self.read[:2] if self.shared else self.read
        parameters = sum((under * maps + 1) * gives for under, maps, gives in own)
        parameters += (self.last + 1) * self.outputs
        places = self.batch * self.side**2
        products = [
            matmul(places, under * maps, gives, gradients=2 if place else 1)
            for place, (under, maps, gives) in enumerate(self.read)
        ]
        products.append(matmul(self.batch, self.last, self.outputs))
        each = self.width * (2 if self.relu else 1)
        joined = {
            "plain": 0,
            "residual": self.depth // 2 * self.width,
            # the maps of the first and of one, of two, ... further convolutions
            "dense": sum((place + 1) * self.width for place in range(1, self.depth + 1)),
            "aggregated": (self.depth + 1) * self.width,
        }
        maps = COLOURS + len(self.read) * each + joined[self.structure]
        others = Work(
            activation_bytes=FLOAT * (places * maps + self.batch * (self.last + self.outputs)),
            launches=2 * (len(self.read) * (2 if self.relu else 1) + 2),
        )
        return sum(products, UPDATES[self.optimizer].work(parameters, parameters) + others)
