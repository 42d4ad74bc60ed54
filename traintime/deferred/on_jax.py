"""Rows read from and written into JAX's arrays. A layer cannot write on the way back there, so a step's gradients wait.

They wait in a weight that Keras' optimizers overwrite with its gradient (Keras' own way to hand on what is no weight),
and the next forward pass of a training moves the rows by them, before it reads its own. What looks at rows in between
adds the step that waits, and writes nothing.
"""

import contextlib
import copy
import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
import psutil
from jax import numpy as jnp
from keras.src.backend.common import global_state
from keras.src.backend.common.stateless_scope import get_stateless_scope, in_stateless_scope
from keras.src.random.seed_generator import draw_seed

from traintime.deferred.optimizers import Problem, deferrable, scaled, untold
from traintime.errors import InputError

BY_NUMBER = (keras.initializers.RandomUniform, keras.initializers.RandomNormal, keras.initializers.TruncatedNormal)
BLOCK = 16_384  # rows that are drawn at once


def free_bytes() -> int | None:
    """Memory that is free where the table will lie; None where nobody knows."""
    return psutil.virtual_memory().available if jax.devices()[0].platform == "cpu" else None


def initializer(layer: Any) -> Any:
    """What the table starts from. JAX holds four tables while it draws one, so that one is drawn in blocks of rows.

    The same numbers come from the same seed, but others than Keras draws from it.
    """
    one = layer.embeddings_initializer
    if drawn(layer) > 1:
        return one

    def in_blocks(shape: tuple[int, int], dtype: str) -> jax.Array:
        seed, table = draw_seed(one.seed), jnp.zeros(shape, dtype)
        for start in range(0, shape[0], BLOCK):
            of_block = copy.copy(one)
            of_block.seed = jax.random.fold_in(seed, start)
            rows = jnp.arange(start, min(start + BLOCK, shape[0]))
            table = _put(table, rows, of_block((len(rows), shape[1]), dtype))
        return table

    return in_blocks


def drawn(layer: Any) -> int:
    """Tables that lie in memory while the initializer draws one. In blocks it can where each number is drawn alone."""
    return 1 if type(layer.embeddings_initializer) in BY_NUMBER else 4


def busy(layer: Any) -> bool:
    """Whether a step is being made or done: `fit` holds the weights then, and the variables have none."""
    return in_stateless_scope() or layer.table._value is None


@functools.partial(jax.jit, donate_argnums=0)
def _put(table: jax.Array, rows: jax.Array, values: jax.Array) -> jax.Array:
    return table.at[rows].set(values, mode="drop")


def as_one(function: Callable[..., list[jax.Array]]) -> Callable[..., list[jax.Array]]:
    """Arithmetic on rows: the step that it is a part of is compiled as one."""
    return function


def take(variable: keras.Variable, rows: Any) -> jax.Array:
    """These rows of a variable; of one that is not there, another."""
    return jnp.take(variable.value, rows, axis=0, mode="clip")


def put(variable: keras.Variable, rows: Any, values: jax.Array) -> None:
    """Write rows in their places, each of them once; one that is not there is left out."""
    variable.assign(_put(variable.value, rows, values))


def add(variable: keras.Variable, rows: Any, values: jax.Array) -> None:
    """Add to rows in their places."""
    variable.assign(variable.value.at[rows].add(values))


class Waiting(keras.Variable):
    """Gradients of a step's rows until the next one, and below them what the optimizer has for them (`_given`)."""

    layer: Any = None

    def assign(self, value: Any) -> Any:
        """Keep gradients, with the rate as of now: what the step will see later may have changed."""
        if in_stateless_scope():
            with refusal():
                optimizer = deferrable(_assigning(), self.layer)
                if not self.layer.learns:
                    raise untold(self.layer)
            self.layer.learns = False
            if self.layer.learning_rate is None:
                number = self.layer.trainer.number(optimizer)
                self.layer.trainer.sole(number)
                given = jnp.stack([jnp.asarray(one, "float32") for one in (*_rate_of(optimizer), number)])
                below = jnp.asarray(value)[self.layer.most :]
                given = jnp.pad(given, (0, below.size - len(given))).reshape(below.shape)
                value = jnp.asarray(value).at[self.layer.most :].set(given)
        return super().assign(value)


def _rate_of(optimizer: Any) -> tuple[Any, Any]:
    return jnp.asarray(optimizer.learning_rate), jnp.asarray(optimizer.iterations)


GIVEN = 3  # numbers that an optimizer has for the step that waits: its rate, the steps that it has made, its own number


def _given(layer: Any, place: int) -> jax.Array:
    # Were it not held back, the way back would lead through all that the step writes, the whole table.
    return jax.lax.stop_gradient(layer.gradients.value[layer.most :].reshape(-1)[place])


class Trouble(keras.Variable):
    """A problem that a step had, and its two numbers: a step of JAX's can raise nothing without losing the model.

    The weights are given away to it, and come back at its end alone. So it writes down what is wrong, and Keras hands
    that back with the weights: at the end of `train_on_batch`, `evaluate` and `predict`, and of `fit`, which is told to
    stop. By then the step is done, and those that were begun meanwhile; a row that is not there had no part in it.
    """

    layer: Any = None
    _told = False

    def assign(self, value: Any) -> Any:
        """Raise InputError where there is a problem, with all weights in their places."""
        if in_stateless_scope():
            return super().assign(value)
        kind, *numbers = map(int, value)
        if not kind:
            return super().assign(value)
        super().assign(jnp.zeros_like(self.value if self._value is not None else value))
        if self._told:
            return self.value
        self._told = True
        try:
            for model in _models_around():
                model.jax_state_sync()  # it is in the midst of that; one that is not does nothing
        finally:
            self._told = False
        raise Problem(kind).error(self.layer, *numbers)


def refuse(layer: Any, problem: Problem, wrong: Any, *numbers: Any) -> None:
    """Note that something is wrong, if nothing was before."""
    numbers = [jnp.asarray(number, "int32") for number in (problem, *numbers, 0, 0)][:3]
    trouble = layer.trouble.value
    layer.trouble.assign(jnp.where(jnp.asarray(wrong) & (trouble[0] == 0), jnp.stack(numbers), trouble))


def _assigning() -> Any:
    # Who assigns inside a step is the model's optimizer, and Keras knows whose names it is in the midst of.
    optimizer = global_state.get_global_attribute("name_scope_stack")[-1].caller
    around = get_stateless_scope().original_scope
    # One that scales the loss opens no names, only a scope of its own around that of the optimizer which it holds.
    if around is not None and around.get_current_value(optimizer.iterations) is not None:
        raise scaled()
    return optimizer


def build(layer: Any) -> None:
    """Make room for a batch's rows and gradients."""
    most = layer.most
    layer.waiting = layer.keep("rows", (most,), lambda shape, dtype: jnp.full(shape, layer.input_dim, dtype), "int32")
    # Of an initializer, not of an array: a model of a class of its own is built within a step, where Keras makes none.
    shape = (most + -(-GIVEN // layer.output_dim), layer.output_dim)
    layer.gradients = Waiting("zeros", shape, "float32", True, False, name="gradients")
    layer.gradients.layer, layer.learns = layer, False
    layer.gradients.overwrite_with_gradient = True
    layer.gradients.trainable = layer.trainable  # once the layer knows it as a weight that it may train
    layer.trouble = Trouble("zeros", (3,), "int32", False, False, name="trouble")
    layer.trouble.layer = layer


def apart(value: Any) -> jax.Array:
    """A copy of what is assigned: JAX gives a step the memory of what it replaces, whoever else holds that."""
    return jnp.array(keras.ops.convert_to_tensor(value), copy=True)


def told(layer: Any) -> list[Any]:
    """Weights that are none of keras.layers.Embedding's, and that the model's optimizer has to know: none by name."""
    return []


def training_step(layer: Any) -> Any:
    """What tells one training step from another; None outside of one: `model(inputs, training=True)` trains nothing."""
    if not in_stateless_scope():
        return None
    layer.learns = True  # until the optimizer has its gradient: in a model that hands no `training` on it never would
    # Two calls of a model have a scope each. What a step is differentiated by, they have in common.
    return getattr(layer.gradients.value, "_trace", None) or get_stateless_scope()


def still(layer: Any) -> None:
    """A pass in which the rows stay: whether it belongs to a training, the optimizer finds out."""


def rate(layer: Any) -> jax.Array:
    """The model's rate for the step that waits."""
    return _given(layer, 0)


def iterations(layer: Any) -> jax.Array:
    """The steps that the model's optimizer had made before the one that waits."""
    return _given(layer, 1)


def lookup(layer: Any, inputs: jax.Array, learns: bool) -> jax.Array:
    """The rows of the inputs; where it learns their gradient waits for the next step."""
    flat = inputs.reshape(-1).astype("int32")
    wrong = _note_rows(layer, flat)
    if not learns or not in_stateless_scope():
        return seen(layer, flat).reshape(*inputs.shape, layer.output_dim)
    if inputs.size > layer.most:
        remedy = f"Give the layer room for them: Embedding(..., most={inputs.size})."
        with refusal():
            raise InputError("inputs", inputs.size, f"row numbers in a batch are more than most, {layer.most}", remedy)
    flush(layer)
    models = [weakref.ref(model) for model in _models_around()]
    jax.lax.cond(wrong, lambda: jax.debug.callback(functools.partial(_stop, models)), lambda: None)
    flat = jnp.where((flat < 0) | (flat >= layer.input_dim), layer.input_dim, flat)
    used, places = jnp.unique(flat, size=layer.most, fill_value=layer.input_dim, return_inverse=True)
    layer.waiting.assign(used)
    waiting = layer.gradients.value[: layer.most]
    rows = layer.trainer.now(used)[0] + (waiting - jax.lax.stop_gradient(waiting))
    return rows[places.reshape(-1)].reshape(*inputs.shape, layer.output_dim)


def _note_rows(layer: Any, flat: jax.Array) -> jax.Array:
    low, high = flat.min(initial=0), flat.max(initial=0)
    row = jnp.where(low < 0, low, high)
    wrong = (row < 0) | (row >= layer.input_dim)
    refuse(layer, Problem.ROW, wrong, row)
    return wrong


def _stop(models: list[Any]) -> None:
    # `fit` asks for it after each batch; without it the error would come at the epoch's end.
    for model in models:
        if model() is not None:
            model().stop_training = True


def _frames_of_models() -> Iterator[tuple[keras.Model, Any]]:
    """The models in whose methods this is called, with the frame of each: a step calls a model's layers by themselves,
    and names none.
    """
    frame = sys._getframe()
    while frame is not None:
        if isinstance(model := frame.f_locals.get("self"), keras.Model):
            yield model, frame
        frame = frame.f_back


def _models_around() -> list[Any]:
    """Each of these models once."""
    return list({id(model): model for model, _ in _frames_of_models()}.values())


# What `fit` takes out of a model, in the order in which it does.
TAKEN = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")


@contextlib.contextmanager
def refusal() -> Iterator[None]:
    """A context within a step, whose InputError costs no weights and is the one that `fit` ends with.

    `fit` takes the weights out of the model, and would lose them where its step cannot be made. It then finalizes,
    whatever went wrong: with `use_ema` an error of that would hide the reason.
    """
    try:
        yield
    except InputError:
        for model, frame in _frames_of_models():
            if frame.f_code.co_name == "fit" and "state" in frame.f_locals:
                model._jax_state = dict(zip(TAKEN, frame.f_locals["state"], strict=True))
                _skip_once(model.optimizer, "finalize_variable_values")
        raise


def _skip_once(thing: Any, method: str) -> None:
    def skip(*_: Any) -> None:
        delattr(thing, method)

    setattr(thing, method, skip)


def flush(layer: Any) -> None:
    """Do the step that waits, if there is one."""
    rows = layer.waiting.value
    gradients = jax.lax.stop_gradient(layer.gradients.value)
    some = (rows[0] < layer.input_dim).astype("int32")
    if layer.learning_rate is None:
        layer.trainer.begin(_given(layer, 2).astype("int32"), iterations(layer).astype("int32"), some)
    layer.trainer.step(rows, layer.trainer.now(rows), gradients[: layer.most], some)
    layer.waiting.assign(jnp.full_like(rows, layer.input_dim))


def seen(layer: Any, flat: jax.Array) -> jax.Array:
    """These rows as they should be now, with the step that waits; nothing is written."""
    rows, since = layer.waiting.value, None
    some = (rows[0] < layer.input_dim).astype("int32")
    if layer.learning_rate is None and layer.trainer.dense:
        since = layer.trainer.since(_given(layer, 2).astype("int32"), iterations(layer), some)
    now = layer.trainer.now(flat, since)
    place = jnp.minimum(jnp.searchsorted(rows, flat), len(rows) - 1)
    waits = rows[place] == flat
    moved = layer.trainer.moved(now, jnp.where(waits[:, None], layer.gradients.value[place], 0))[0]
    moves = (rows[0] < layer.input_dim) & (waits | layer.trainer.dense)
    return jnp.where(moves[:, None], moved, now[0])


def settle(layer: Any) -> None:
    """Do what still waits."""
    if int(layer.waiting.value[0]) < layer.input_dim:
        flush(layer)
