"""How a row is trained where it is read: dense Adam deferred, and two that are other trainings and say so."""

import importlib
import weakref
from typing import Any

import keras
import numpy as np
from keras import ops

from traintime.deferred.missed import IN_FLOAT32, powers
from traintime.deferred.optimizers import Problem, replaced
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
        self.moved_at: Any = None  # the optimizer's number and its steps when the rows last moved, where that is known
        self._numbered: list[Any] = []  # the optimizers that have trained these rows, each a weak reference

    def bytes(self) -> int:
        """Of the table and what is kept of it."""
        return 4 * self.layer.input_dim * self.layer.output_dim * (1 + len(self.kept))

    def build(self) -> None:
        """Make what is kept."""
        shape = (self.layer.input_dim, self.layer.output_dim)
        self.state = [self.layer.table, *(self.layer.keep(name, shape) for name in self.kept)]
        self.steps = self.layer.keep("steps", (), dtype="int32")

    def number(self, optimizer: Any) -> int:
        """Which of the optimizers that have trained these rows it is, from 1, in the order in which they came."""
        for number, known in enumerate(self._numbered, 1):
            if known() is optimizer:
                return number
        self._numbered.append(weakref.ref(optimizer))
        return len(self._numbered)

    def begin(self, number: Any, iterations: Any, counts: Any = 1) -> None:
        """A step of the model's optimizer is coming: by its number, and the steps that it has made."""

    def reset(self) -> None:
        """What was loaded is another process's: none of the optimizers here has trained it."""

    def now(self, rows: Any, since: Any = None) -> list[Any]:
        """These rows and what is kept of them, with all that they have missed; one tensor for each of `state`.

        since: the step at which the present optimizer began, where that is not written yet.
        """
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

    def begin(self, number: Any, iterations: Any, counts: Any = 1) -> None:
        # JAX has the number within a step alone: it asks `sole` beforehand.
        if isinstance(number, int):
            self.sole(number)

    def sole(self, number: int) -> None:
        """Raise InputError for a second optimizer: rows that stand still cannot tell whose their means are."""
        if number > 1:
            raise replaced(self.layer)

    def rate(self) -> Any:
        """Of the coming step, corrected for bias as the one does whose rate it is: by its own count of steps."""
        follows = self.layer.learning_rate is None
        made = self.rows.iterations(self.layer) if follows else self.steps.value
        step = ops.cast(made + 1, "float32")
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
        # Of the optimizer whose the means are: its number (0: none yet; -1: of a file); the step at which it began; how
        # many more steps than this table's it had made by then (those of other models that it trains, too).
        self.owner = layer.keep("owner", (3,), dtype="int32")

    def sole(self, number: int) -> None:
        """Any may follow."""

    def begin(self, number: Any, iterations: Any, counts: Any = 1) -> None:
        """Let a new optimizer begin as Keras' own does: its count of steps and its means are zero.

        Rows are not touched. What they owe until here they owe at the old rates, which stand in `missed`; the means of
        a row that was last trained before the present optimizer began are taken for zero when it is next read.
        """
        owner, steps = self.owner.value, self.steps.value
        iterations = ops.cast(iterations, "int32")
        other = (owner[0] != number) & (ops.convert_to_tensor(counts) > 0)
        # To train on with an optimizer of before would take its means, which nobody has kept.
        self.rows.refuse(self.layer, Problem.RETURNED, other & (owner[0] > number))
        # A file brings the rows' means, and mostly the optimizer's. Where it did not, Keras' Adam goes on with its own.
        behind = other & (owner[0] < 0) & (iterations > 0) & (iterations - steps != owner[2])
        self.rows.refuse(self.layer, Problem.OTHER_STEP, behind, steps + owner[2], iterations)
        now = ops.stack([ops.zeros_like(steps) + number, self.since(number, iterations, counts), iterations - steps])
        self.owner.assign(ops.where(other, now, owner))

    def since(self, number: Any, iterations: Any, counts: Any = 1) -> Any:
        """The step at which the optimizer began that comes now."""
        owner = self.owner.value
        fresh = (owner[0] != number) & ((owner[0] > 0) | (iterations == 0)) & (ops.convert_to_tensor(counts) > 0)
        return ops.where(fresh, self.steps.value, owner[1])

    def reset(self) -> None:
        owner = ops.convert_to_numpy(self.owner.value)
        self.owner.assign(np.array([-1, *owner[1:]], "int32"))

    def now(self, rows: Any, since: Any = None) -> list[Any]:
        since = self.owner.value[1] if since is None else since
        table, first, second, last = super().now(rows)
        coefficients = self.rows.take(self.missed, last % self.room)
        # A gap without an end fades a mean to nothing: another optimizer left it.
        gap = ops.where(last > since, ops.cast(self.steps.value - last, "float32"), np.float32(np.inf))
        gap = ops.expand_dims(gap, 1)
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
        adds = rate * ops.convert_to_tensor(self.powers)
        # Rows of before the present optimizer have no means any more, and miss nothing.
        alive = self.steps.value - 1 - ops.arange(reach, dtype="int32") > self.owner.value[1]
        self.rows.add(self.missed, places, ops.where(ops.expand_dims(alive, 1), adds, ops.zeros_like(adds)))
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
