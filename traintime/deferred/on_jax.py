"""Rows read from and written into JAX's arrays. A layer cannot write on the way back there, so a step's gradients wait.

They wait in a weight that Keras' optimizers overwrite with its gradient (Keras' own way to hand on what is no weight),
and the next forward pass of a training moves the rows by them, before it reads its own. What looks at rows in between
adds the step that waits, and writes nothing.
"""

import functools
from typing import Any

import jax
import keras
import psutil
from jax import numpy as jnp
from keras.src.backend.common import global_state
from keras.src.backend.common.stateless_scope import get_stateless_scope, in_stateless_scope

from traintime.deferred.optimizers import deferrable
from traintime.errors import InputError


def free_bytes() -> int | None:
    """Memory that is free where the table will lie; None where nobody knows."""
    return psutil.virtual_memory().available if jax.devices()[0].platform == "cpu" else None


def busy(layer: Any) -> bool:
    """Whether a step is being made or done: `fit` holds the weights then, and the variables have none."""
    return in_stateless_scope() or layer.table._value is None


@functools.partial(jax.jit, donate_argnums=0)
def _put(table: jax.Array, rows: jax.Array, values: jax.Array) -> jax.Array:
    return table.at[rows].set(values, mode="drop")


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
    """Gradients of a step's rows until the next one, and below them the rate that the optimizer has for them."""

    layer: Any = None

    def assign(self, value: Any) -> Any:
        """Keep gradients, with the rate as of now: what the step will see later may have changed."""
        if in_stateless_scope() and self.layer.learning_rate is None:
            # Who assigns inside a step is the model's optimizer, and Keras knows whose names it is in the midst of.
            caller = global_state.get_global_attribute("name_scope_stack")[-1].caller
            value = jnp.asarray(value).at[-1].set(deferrable(caller, self.layer).learning_rate)
        return super().assign(value)


def build(layer: Any) -> None:
    """Make room for a batch's rows and gradients."""
    most = layer.most
    layer.waiting = layer.keep("rows", (most,), lambda shape, dtype: jnp.full(shape, layer.input_dim, dtype), "int32")
    layer.gradients = Waiting(jnp.zeros((most + 1, layer.output_dim)), trainable=True, autocast=False, name="gradients")
    layer.gradients.layer = layer
    layer.gradients.overwrite_with_gradient = True


def forward_pass(layer: Any) -> Any:
    """What tells one forward pass of the model from another."""
    return get_stateless_scope()


def rate(layer: Any) -> jax.Array:
    """The model's rate for the step that waits."""
    # Were it not held back, the way back would lead through all that the step writes, the whole table.
    return jax.lax.stop_gradient(layer.gradients.value[-1, 0])


def lookup(layer: Any, inputs: jax.Array, learns: bool) -> jax.Array:
    """The rows of the inputs; where it learns their gradient waits for the next step."""
    if not learns:
        return _seen(layer, inputs)
    if inputs.size > layer.most:
        remedy = f"Give the layer room for them: Embedding(..., most={inputs.size})."
        raise InputError("inputs", inputs.size, f"row numbers in a batch are more than most, {layer.most}", remedy)
    flush(layer)
    flat = inputs.reshape(-1).astype("int32")
    jax.debug.callback(functools.partial(_inside, layer.name, layer.input_dim), flat.min(), flat.max())
    used, places = jnp.unique(flat, size=layer.most, fill_value=layer.input_dim, return_inverse=True)
    layer.waiting.assign(used)
    waiting = layer.gradients.value[:-1]
    rows = layer.trainer.now(used)[0] + (waiting - jax.lax.stop_gradient(waiting))
    return rows[places.reshape(-1)].reshape(*inputs.shape, layer.output_dim)


def _inside(name: str, rows: int, *ends: jax.Array) -> None:
    for row in map(int, ends):
        if not 0 <= row < rows:
            remedy = "Look at the data, or give the layer as many rows as there are words."
            raise InputError("inputs", row, f"is no row of {name}: 0 to {rows - 1}", remedy)


def flush(layer: Any) -> None:
    """Do the step that waits, if there is one."""
    rows = layer.waiting.value
    gradients = jax.lax.stop_gradient(layer.gradients.value)
    some = (rows[0] < layer.input_dim).astype("int32")
    layer.trainer.step(rows, layer.trainer.now(rows), gradients[:-1], some)
    layer.waiting.assign(jnp.full_like(rows, layer.input_dim))


def _seen(layer: Any, inputs: jax.Array) -> jax.Array:
    """The rows of the inputs, with the step that waits."""
    rows, flat = layer.waiting.value, inputs.reshape(-1).astype("int32")
    now = layer.trainer.now(flat)
    place = jnp.minimum(jnp.searchsorted(rows, flat), len(rows) - 1)
    waits = rows[place] == flat
    moved = layer.trainer.moved(now, jnp.where(waits[:, None], layer.gradients.value[place], 0))[0]
    moves = (rows[0] < layer.input_dim) & (waits | layer.trainer.dense)
    return jnp.where(moves[:, None], moved, now[0]).reshape(*inputs.shape, layer.output_dim)


def settle(layer: Any) -> None:
    """Do what still waits."""
    flush(layer)
