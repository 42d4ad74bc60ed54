"""Rows of JAX's arrays. A gradient is as large as what it is of, so that of the rows comes as that of a small weight.

Into the gradient of `tap` go the gradients of a batch's rows, each with its row number and a check of it; that of the
table is zero, which XLA knows and never makes. A check that fails says that somebody changed gradients in between, and
a gradient of the table that it is used otherwise, too: that step is none, for no weight, lookups are no numbers from
then on, and what was wrong is told by name when the variables are next looked at.
"""

import contextlib
import copy
import sys
import weakref
from collections.abc import Callable
from contextlib import nullcontext as outside  # noqa: F401 (of a graph that is being made: there is none)
from typing import Any

import jax
import keras
from jax import numpy as jnp
from keras import ops as numbers  # noqa: F401 (what computes with the numbers of a table)
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.random.seed_generator import draw_seed

from traintime.deferred import table
from traintime.deferred.arithmetic import CYCLE, EPSILON, PROBLEM, STEPS, owed, settled, stepped  # noqa: F401
from traintime.errors import InputError

# What `fit` takes out of a model, in the order in which it does.
TAKEN = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")
CODE = 3  # numbers that tell a row


def on_gpu() -> bool:
    """Whether the table will lie in the memory of a GPU."""
    return jax.devices()[0].platform != "cpu"


def drawn(one: Any) -> Callable[..., jax.Array]:
    """What the table starts from, drawn by one operation: one after the other JAX would hold four tables."""

    def start(shape: tuple[int, int], dtype: str) -> jax.Array:
        again = copy.copy(one)
        if hasattr(one, "seed"):
            again.seed = draw_seed(one.seed)
        return jax.jit(lambda: again(shape, dtype))()

    return start


def more(layer: Any, one: Any, made: Callable[..., Any]) -> list[Any]:
    """The weight whose gradient brings that of the rows."""
    one.tap = made(table.Owned, "tap", (layer.most, layer.output_dim + CODE), "zeros", True)
    return [one.tap]


def alive(one: Any) -> bool:
    """Whether the variables are there: `fit` holds the weights while it runs."""
    values = [variable._value for variable in (one, one.moments, one.missed, one.state)]
    return not in_stateless_scope() and all(value is not None and not value.is_deleted() for value in values)


def spare() -> None:
    """Put the weights back that `fit` has taken out of its model: an error while it makes its step would lose them."""
    frame = sys._getframe()
    while frame is not None:
        model, state = (frame.f_locals.get(name) for name in ("self", "state"))
        if frame.f_code.co_name == "fit" and isinstance(model, keras.Model) and state is not None:
            model._jax_state = dict(zip(TAKEN, state, strict=True))
        frame = frame.f_back


def moved(one: Any) -> int:
    """The problem that somebody else has moved the rows, or 0: the tap moves with them, which stands still else."""
    tap = one.tap.value[0, one.shape[1] :]
    if not bool((tap != 0).any()):
        return 0
    one.tap.assign(jnp.zeros(one.tap.shape))
    return 4


def _copied(values: jax.Array, ids: jax.Array, rows: jax.Array) -> jax.Array:
    return values.at[ids].set(rows, mode="drop")


_put = jax.jit(_copied, donate_argnums=0)


def take(variable: keras.Variable, ids: Any) -> jax.Array:
    """These rows of a variable; of one that is not there, another."""
    return jnp.take(variable.value, ids, axis=0, mode="clip")


def put(variable: keras.Variable, ids: Any, values: jax.Array, kind: Any = 0) -> None:
    """Write rows in their places, where nothing forbids it; one that is not there is left out."""
    if not isinstance(kind, int):
        ids = jnp.where(kind > 0, variable.shape[0], ids)
    write = _copied if in_stateless_scope() else _put  # a step that is not compiled has others' arrays
    keras.Variable.assign(variable, write(variable.value, ids, values))  # not the table's own, which settles


def _code(ids: jax.Array) -> jax.Array:
    """Row numbers (from 1; 0: none) as floats that add up, or are scaled, to nothing that passes for one."""
    ids = ids.astype("uint32")
    check = (ids * jnp.uint32(2654435761)) >> 12
    return jnp.stack([ids >> 12, ids & 4095, check], 1).astype("float32")


def _place(one: Any, count: int) -> int:
    """Where in the tap these rows begin: after those of a lookup before it in the same step."""
    tap, last = one.tap.value, getattr(one, "last", None)
    start = last[1] if last is not None and last[0]() is tap else 0
    if isinstance(tap, jax.core.Tracer):
        one.last = weakref.ref(tap), start + count
    return start


def _room(one: Any, needed: int) -> None:
    """Raise InputError where the rows of a step are more than those that the tap has room for."""
    if needed > len(one.tap.value):
        spare()
        problem = f"row numbers in a step are more than most, {len(one.tap.value)}"
        raise InputError("inputs", needed, problem, f"Give the layer room for them: Embedding(..., most={needed}).")


def read(one: Any, ids: jax.Array) -> jax.Array:
    """The rows of these numbers; not a number for those that are not there, and once something has gone wrong."""
    rows, width = one.shape
    if not isinstance(ids, jax.core.Tracer) and ids.size:
        for row in (int(ids.min()), int(ids.max())):
            if not 0 <= row < rows:
                raise InputError(
                    "inputs", row, f"is no row of {one.path}, which has {rows}: 0 to {rows - 1}", table.PROBLEMS[2][2]
                )
    ids, start = jnp.where(ids < 0, rows, ids), _place(one, ids.shape[0])
    sizes = one.sizes

    @jax.custom_vjp
    def found(values: Any, moments: Any, missed: Any, state: Any, tap: Any, ids: Any) -> jax.Array:
        of_rows = jnp.take(moments, ids, axis=0, mode="clip")
        missed = jnp.take(missed, of_rows[:, -1].astype("int32"), axis=0)
        # A tap that has moved was moved by another optimizer.
        right = (state[PROBLEM] == 0) & (tap[0, width:] == 0).all()
        epsilon = jnp.where(right, state[EPSILON], jnp.nan)
        return jnp.take(values, ids, axis=0, mode="fill") + owed(of_rows, missed, epsilon, *sizes)

    def forward(*given: Any) -> tuple[jax.Array, Any]:
        _room(one, start + ids.shape[0])
        return found(*given), given[-1]

    def back(ids: jax.Array, gradient: jax.Array) -> tuple[Any, ...]:
        taps = jnp.concatenate([gradient, _code(ids + 1)], 1)
        taps = jnp.zeros(one.tap.shape).at[start : start + ids.shape[0]].set(taps)
        kept = (jnp.zeros(each.shape) for each in (one.moments, one.missed, one.state))
        return jnp.zeros(one.shape), *kept, taps, None

    found.defvjp(forward, back)
    return found(*(each.value for each in (one, one.moments, one.missed, one.state, one.tap)), ids)


def known(state: Any, iterations: Any, identity: Any) -> tuple[Any, Any, Any]:
    """Numbers of a table and of an optimizer."""
    return state.value, (iterations.value % CYCLE).astype("float32"), identity.value


def split(one: Any, given: dict[int, Any]) -> tuple[Any, Any, Any]:
    """Rows and their gradients (None: there are none), and the problem that they have, 0 for none.

    Raises InputError where an optimizer lacks some of what a table is made of.
    """
    if not all(id(each) in given for each in (one, one.moments, one.missed, one.state, one.tap)):
        remedy = "Build the optimizer for model.trainable_variables, all of them."
        raise InputError("trainable_variables", one.path, "is there without what is kept of its rows", remedy)
    gradient = given[id(one.tap)]
    if gradient is None:
        return None, None, 0
    rows, width = one.shape
    high, low, _ = gradient[:, width:].T
    ids = jnp.round(high).astype("int32") * 4096 + jnp.round(low).astype("int32")
    changed = (_code(ids) != gradient[:, width:]).any()
    used = (given[id(one)] != 0).any()
    kind = jnp.where(used, 5, jnp.where(changed, 1, jnp.where(ids.max() > rows, 2, 0)))
    return jnp.where(ids == 0, rows, ids - 1), gradient[:, :width], kind


def added(step: Any) -> tuple[Any, Any, Any]:
    """Rows; as they were written, with their moments and what they have missed; their gradients added up, at each place
    where a row stands the same. Among them are those whose turn it is, with the gradient zero.
    """
    one = step.table
    start, count = one.turn(step.before[STEPS].astype("int32"))
    ids = jnp.concatenate([step.ids, (start + jnp.arange(count)) % one.shape[0]])
    order = jnp.argsort(ids)
    gradient = jnp.pad(step.gradient, [[0, count], [0, 0]])[order]
    ids = ids[order]
    places = jnp.searchsorted(ids, ids)  # cumsum goes over all for each on a CPU
    total = jax.ops.segment_sum(gradient, places, len(ids), indices_are_sorted=True)
    return ids, one.now(ids), total[places]


write = table.write


def end(step: Any) -> None:
    """Write the numbers of the table, or what was wrong."""
    state = step.table.state
    state.assign(jnp.where(step.kind > 0, state.value.at[PROBLEM].set(step.kind), step.after))


@contextlib.contextmanager
def refusing(optimizer: Any, steps: list[Any], variables: list[Any]) -> Any:
    """A context in which no variable is changed where a step may not be."""
    for step in steps:
        if not isinstance(step.kind, jax.core.Tracer) and int(step.kind):
            raise table.problem(int(step.kind), step.table.path)
    before = [(variable, variable.value) for variable in variables]
    yield
    right = jnp.stack([step.kind == 0 for step in steps]).all()
    for variable, value in before:
        variable.assign(jnp.where(right, variable.value, value))
