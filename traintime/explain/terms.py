"""What a training step costs: the terms of the formula of any model, and the four parts in which people read them.

This table is where a term is named: the formula, its costs, the predictor's advice, the comparison of machines, the
calculator and the chapters read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from traintime.workloads.base import FLOAT

# The machine's rate that bounds a term below: operations or bytes a second; "" for a term that is counted in seconds.
Rate = Literal["", "operations", "bytes"]


@dataclass(frozen=True)
class Part:
    """What people read: a part of a step, whose terms cannot all be distinguished by measuring.

    explanation: what the time goes to, and what makes it less; page: the chapter on it.
    """

    explanation: str
    page: str


@dataclass(frozen=True)
class Term:
    """A term of the formula: a cost times an amount.

    name: of its coefficient, the cost, in seconds a unit; amount: of a step, the name of a field of its Work, "" for 1;
    part: in which people read it (PARTS); rate: what bounds its cost below, and weight: units of that rate in a unit
    of the amount; every_batch: a batch that is not full pays it in full; stacks: those that pay it, none for all.
    """

    name: str
    amount: str
    part: str
    rate: Rate = ""
    weight: int = 1
    every_batch: bool = False
    stacks: tuple[str, ...] = ()


PARTS = {
    "overhead": Part(
        "starting the step and launching its operations one after the other: larger batches share it, fused operations "
        "have less of it",
        "chapters/06-batch-size.html",
    ),
    "arithmetic": Part(
        "the matmuls: their multiplications and additions, and the memory that they read and write",
        "chapters/03-what-limits-a-step.html",
    ),
    "activations": Part(
        "writing the activations in the forward pass and reading them, with their gradients, in the backward pass",
        "chapters/13-memory.html",
    ),
    "update": Part(
        "the optimizer, which reads and writes every trained parameter at each step, used or not",
        "chapters/04-vocabulary.html",
    ),
}
TERMS = {
    term.name: term
    for term in (
        Term("overhead", "", "overhead", every_batch=True),
        # Layers, and the time steps of a recurrent layer.
        Term("launch", "launches", "overhead", every_batch=True),
        Term("matmul", "flops", "arithmetic", "operations"),
        Term("move", "product_bytes", "arithmetic", "bytes"),
        Term("update", "update_bytes", "update", "bytes", every_batch=True),
        # An operation of the update that a framework runs by itself reads a float32 number and writes one.
        Term("elementwise", "update_flops", "update", "bytes", weight=2 * FLOAT, every_batch=True),
        Term("touch", "activation_bytes", "activations", "bytes"),
        # On torch the gradient of a time step's slice is as large as the whole sequence.
        Term("slice", "slice_bytes", "activations", "bytes", stacks=("2026-torch",)),
    )
}


def by_part(seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of a step by part, from seconds by term."""
    return {part: sum(seconds[term.name] for term in TERMS.values() if term.part == part) for part in PARTS}
