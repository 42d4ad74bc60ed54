"""Rows read from and written into torch's parameters where they lie."""

from collections.abc import Callable
from typing import Any

import keras
import psutil
import torch

from traintime.deferred.at_once import (  # noqa: F401 (a backend's module has them)
    apart,
    build,
    initializer,
    iterations,
    once,
    rate,
    refusal,
    seen,
    settle,
    still,
    told,
    training_step,
)
from traintime.deferred.optimizers import Problem, untold


def free_bytes() -> int | None:
    """Memory that is free where the table will lie."""
    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else psutil.virtual_memory().available


def drawn(layer: Any) -> int:
    """Tables that lie in memory while the initializer draws one: four to choose of, for a truncated normal."""
    one = layer.embeddings_initializer
    truncated = isinstance(one, keras.initializers.TruncatedNormal)
    return 9 if truncated or getattr(one, "distribution", None) == "truncated_normal" else 1


def busy(layer: Any) -> bool:
    """Whether a step is being made, so that nothing can be done at once: torch does everything at once."""
    return False


def as_one(function: Callable[..., list[torch.Tensor]]) -> Callable[..., list[torch.Tensor]]:
    """Arithmetic on rows, which torch does operation by operation."""
    return function


def take(variable: keras.Variable, rows: torch.Tensor) -> torch.Tensor:
    """These rows of a variable."""
    return variable.value.detach()[rows]


def put(variable: keras.Variable, rows: torch.Tensor, values: torch.Tensor) -> None:
    """Write rows in their places; each of them once."""
    variable.value.detach()[rows] = values


def add(variable: keras.Variable, rows: torch.Tensor, values: torch.Tensor) -> None:
    """Add to rows in their places."""
    variable.value.detach().index_add_(0, rows, torch.as_tensor(values))


def refuse(layer: Any, problem: Problem, wrong: Any, *numbers: Any) -> None:
    """Raise InputError where something is wrong."""
    if bool(wrong):
        raise problem.error(layer, *map(int, numbers))


class Rows(torch.autograd.Function):
    """The rows of the inputs; their gradient moves them, and is handed on to nobody."""

    @staticmethod
    def forward(ctx: Any, key: torch.Tensor, layer: Any, used: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        ctx.layer, ctx.used, ctx.places, ctx.now = layer, used, places, layer.trainer.now(used)
        return ctx.now[0][places]

    @staticmethod
    def backward(ctx: Any, gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        once(ctx.layer)
        with torch.no_grad():
            total = torch.zeros_like(ctx.now[0])
            total.index_add_(0, ctx.places.reshape(-1), gradients.reshape(-1, total.shape[1]))
            ctx.layer.trainer.step(ctx.used, ctx.now, total)
            return torch.zeros((), device=gradients.device), None, None, None


class Still(torch.autograd.Function):
    """Rows that are read and not trained: whoever asks for their gradient means to train them."""

    @staticmethod
    def forward(ctx: Any, key: torch.Tensor, layer: Any, rows: torch.Tensor) -> torch.Tensor:
        ctx.layer = layer
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        raise untold(ctx.layer)


def lookup(layer: Any, inputs: torch.Tensor, learns: bool) -> torch.Tensor:
    """The rows of the inputs; where it learns their gradient moves them."""
    used, places = torch.unique(inputs, return_inverse=True)
    if len(used):
        for row in (int(used[0]), int(used[-1])):
            refuse(layer, Problem.ROW, not 0 <= row < layer.input_dim, row)
    used = used.to(torch.int32)
    if learns:
        return Rows.apply(layer.key.value, layer, used, places)
    rows = layer.trainer.now(used)[0][places]
    return Still.apply(layer.key.value, layer, rows) if layer.trainable else rows
