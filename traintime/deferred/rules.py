"""How a row is trained where it is read: dense Adam deferred, and two that are other trainings and say so."""

import importlib
from typing import Any

import keras
import numpy as np
from keras import ops

from traintime.deferred.missed import IN_FLOAT32, powers
from traintime.errors import InputError

BACKENDS = ("tensorflow", "torch", "jax")


def of_backend() -> Any:
    """The module that reads and writes rows of this backend's variables. Raises InputError where there is none."""
    name = keras.backend.backend()
    if name not in BACKENDS:
        remedy = f"Set KERAS_BACKEND to one of: {', '.join(BACKENDS)}; or take keras.layers.Embedding."
        raise InputError("backend", name, "has no deferred embedding yet", remedy)
    return importlib.import_module(f"traintime.deferred.on_{name}")


class Rule:
    """What is kept of each row, and how a step moves it. Rows are moved by their own gradients alone."""

    kept: tuple[str, ...] = ()  # names of what is kept beside the row, each as wide as the row
    dense = False  # whether a row without a gradient moves, too

    def __init__(self, layer: Any) -> None:
        self.layer, self.rows = layer, of_backend()
        self.adam: Any = None  # the model's; on the layer itself Keras would save it as a part of the layer

    def bytes(self) -> int:
        """Of the table and what is kept of it."""
        return 4 * self.layer.input_dim * self.layer.output_dim * (1 + len(self.kept))

    def build(self) -> None:
        """Make what is kept."""
        shape = (self.layer.input_dim, self.layer.output_dim)
        self.state = [self.layer.table, *(self.layer.keep(name, shape) for name in self.kept)]
        self.steps = self.layer.keep("steps", (), dtype="int32")

    def now(self, rows: Any) -> list[Any]:
        """These rows and what is kept of them, with all that they have missed; one tensor for each of `state`."""
        return [self.rows.take(variable, rows) for variable in self.state]

    def step(self, rows: Any, now: list[Any], gradients: Any, counts: Any = 1) -> None:
        """Move these rows, different ones and as they are now, by their gradients of shape (rows, output_dim).

        counts: 1, or 0 for a step that is none and has no rows.
        """
        self.put(rows, self.moved(now, gradients))
        self.steps.assign_add(counts)

    def put(self, rows: Any, values: list[Any]) -> None:
        """Write these rows and what is kept of them."""
        for variable, value in zip(self.state, values, strict=True):
            self.rows.put(variable, rows, value)

    def moved(self, now: list[Any], gradients: Any) -> list[Any]:
        """The rows after one step, and what is kept of them."""
        raise NotImplementedError

    def settle(self) -> None:
        """Bring all rows up to date."""


class LazyAdam(Rule):
    """Adam for the rows of the batch, while all others and their means stand still: another training than Adam's.

    Source: TensorFlow Addons' LazyAdam, torch's SparseAdam.
    """

    kept = ("first", "second")

    def build(self) -> None:
        super().build()
        self.move = self.rows.as_one(self._moved)

    def rate(self) -> Any:
        """Of the coming step, corrected for bias."""
        step = ops.cast(self.steps.value + 1, "float32")
        beta_1, beta_2 = (ops.power(beta, step) for beta in (self.layer.beta_1, self.layer.beta_2))
        return self.layer.rate(self.steps.value) * ops.sqrt(1 - beta_2) / (1 - beta_1)

    def moved(self, now: list[Any], gradients: Any) -> list[Any]:
        """One step of Adam, as Keras writes it (epsilon beside the root)."""
        return self.move(*now, gradients, self.rate())

    def _moved(self, table: Any, first: Any, second: Any, gradients: Any, rate: Any) -> list[Any]:
        first = first + (gradients - first) * (1 - self.layer.beta_1)
        second = second + (ops.square(gradients) - second) * (1 - self.layer.beta_2)
        return [table - rate * first / (ops.sqrt(second) + self.layer.epsilon), first, second]


class Adam(LazyAdam):
    """Dense Adam: a row that is read gets all steps that it has missed at once, in closed form (deferred.missed)."""

    dense = True
    room = 65_536  # steps whose coefficients are kept; no row is further behind
    block = 16_384  # rows that are brought up to date at once

    def build(self) -> None:
        """Make what is kept, with each row's last step and what is missed since each step."""
        super().build()
        rows, layer = self.layer.input_dim, self.layer
        self.powers = powers(layer.beta_1, layer.beta_2, IN_FLOAT32).astype(np.float32)
        self.last = layer.keep("last", (rows,), dtype="int32")
        self.missed = layer.keep("missed", (self.room, self.powers.shape[1]))
        self.state.append(self.last)
        self.catch_up = self.rows.as_one(self._caught_up)
        self.turn = -(-rows // (self.room - 1))  # rows a step, so that all have had their turn before room runs out
        self.settled = layer.keep("settled", (), dtype="int32")  # the step as of which all rows are up to date

    def now(self, rows: Any) -> list[Any]:
        table, first, second, last = super().now(rows)
        coefficients = self.rows.take(self.missed, last % self.room)
        gap = ops.cast(ops.expand_dims(self.steps.value - last, 1), "float32")
        caught_up = self.catch_up(table, first, second, coefficients, gap)
        return [*caught_up, ops.zeros_like(last) + self.steps.value]

    def _caught_up(self, table: Any, first: Any, second: Any, coefficients: Any, gap: Any) -> list[Any]:
        """Rows with the steps that they have missed, and their means; gap: how many those are, (rows, 1)."""
        below = ops.sqrt(second) + self.layer.epsilon
        x = ops.sqrt(second) / below
        polynomial = coefficients[:, -1:]
        for term in reversed(range(self.powers.shape[1] - 1)):
            polynomial = polynomial * x + coefficients[:, term : term + 1]
        fade_1, fade_2 = (ops.power(ops.cast(b, "float32"), gap) for b in (self.layer.beta_1, self.layer.beta_2))
        return [table - first / below * polynomial, first * fade_1, second * fade_2]

    def moved(self, now: list[Any], gradients: Any) -> list[Any]:
        return [*super().moved(now[:3], gradients), now[3] + 1]

    def step(self, rows: Any, now: list[Any], gradients: Any, counts: Any = 1) -> None:
        rate = self.rate() * counts
        super().step(rows, now, gradients, counts)
        # To the rows of j steps ago it is the j-th step that they miss; nobody has missed anything since this one.
        reach = len(self.powers)
        self.rows.put(
            self.missed, ops.reshape(self.steps.value % self.room, (1,)), ops.zeros((1, self.missed.shape[1]))
        )
        places = (self.steps.value - 1 - ops.arange(reach, dtype="int32")) % self.room
        self.rows.add(self.missed, places, rate * ops.convert_to_tensor(self.powers))
        turn = (self.steps.value * self.turn + ops.arange(self.turn, dtype="int32")) % self.layer.input_dim
        self.put(turn, self.now(turn))

    def settle(self) -> None:
        if int(self.settled.value) == int(self.steps.value):
            return
        for start in range(0, self.layer.input_dim, self.block):
            rows = ops.arange(start, min(start + self.block, self.layer.input_dim), dtype="int32")
            self.put(rows, self.now(rows))
        self.settled.assign(self.steps.value + 0)  # no array for two weights: JAX gives each away once


class RowAdagrad(Rule):
    """AdaGrad with one sum of squares a row, the mean over its numbers: a third of Adam's memory, another training.

    Source: Duchi et al. 2011, by row as in FBGEMM's row-wise AdaGrad.
    """

    def bytes(self) -> int:
        return 4 * self.layer.input_dim * (self.layer.output_dim + 1)

    def build(self) -> None:
        super().build()
        self.state.append(self.layer.keep("squares", (self.layer.input_dim, 1)))

    def moved(self, now: list[Any], gradients: Any) -> list[Any]:
        table, squares = now
        squares = squares + ops.mean(ops.square(gradients), axis=1, keepdims=True)
        rate = self.layer.rate(self.steps.value)
        return [table - rate * gradients / (ops.sqrt(squares) + self.layer.epsilon), squares]


RULES = {"adam": Adam, "lazy-adam": LazyAdam, "row-adagrad": RowAdagrad}
