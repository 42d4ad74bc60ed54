"""Rows of TensorFlow's variables, read and written where they lie: never the whole table as a tensor."""

import contextlib
import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops as numbers  # noqa: F401 (what computes with the numbers of a table)
from tensorflow import init_scope as outside  # noqa: F401 (of a graph that is being made)

from traintime.deferred import arithmetic, table
from traintime.deferred.arithmetic import CYCLE, STEPS
from traintime.errors import InputError

ROUND = 256  # rows that XLA's operation is made for, and multiples of it
EACH = 64  # steps in which some rows are brought up to date once


def as_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Arithmetic on rows as one operation of XLA, which goes over them once and not once for each operation."""
    return tf.function(function, jit_compile=True, reduce_retracing=True)


owed, settled, stepped = (as_one(each) for each in (arithmetic.owed, arithmetic.settled, arithmetic.stepped))


class Found(NamedTuple):
    """What a lookup has read: for the step, if none has written since."""

    ids: Any  # made round by some more of row 0
    count: Any
    rows: tuple[Any, Any, Any]
    writes: int
    steps: Any


def on_gpu() -> bool:
    """Whether the table will lie in the memory of a GPU."""
    return bool(tf.config.list_physical_devices("GPU"))


def drawn(one: Any) -> Any:
    """What the table starts from, drawn in one graph: of one operation after the other oneDNN keeps the memory."""
    if not hasattr(one, "seed"):
        return one
    again = copy.copy(one)
    if isinstance(one.seed, int):  # a constant would be drawn once more, while the graph is made
        again.seed = keras.random.SeedGenerator(one.seed)
    return tf.function(again)


def more(layer: Any, one: Any, made: Callable[..., Any]) -> list[Any]:
    """Variables that only this backend needs: none. Raises InputError where several devices share the table."""
    if tf.distribute.has_strategy():
        remedy = "Build the model outside of the strategy's scope, or take keras.layers.Embedding."
        raise InputError("strategy", type(tf.distribute.get_strategy()).__name__, "shares a deferred table", remedy)
    return []


def alive(one: Any) -> bool:
    """Whether the variables are there, and something can be done at once."""
    return tf.executing_eagerly() and one._value is not None


def take(variable: keras.Variable, ids: Any) -> tf.Tensor:
    """These rows of a variable. Were it read as a tensor, each scatter would have to copy all of it."""
    return tf.gather(variable.value, ids)


def put(variable: keras.Variable, ids: Any, values: tf.Tensor, kind: Any = 0) -> None:
    """Write rows in their places; each of them once. Values beyond these rows made their number round."""
    variable.value.scatter_update(tf.IndexedSlices(values[: tf.size(ids)], ids))


def _refuse(wrong: Any, error: InputError, *values: Any) -> Any:
    """An operation that stops the step where something is wrong; what should not happen then has to wait for it."""

    def stop() -> Any:
        # TensorFlow would write a quotation mark with a backslash before it.
        text = str(error).replace("'", "")
        return tf.raw_ops.Assert(condition=False, data=[tf.strings.format(text, values) if values else text])

    return tf.cond(wrong, lambda: tf.group(stop()), tf.no_op)


def read(one: Any, ids: tf.Tensor) -> tf.Tensor:
    """The rows of these numbers. Each row is read once, so that its gradients come added up."""
    used, places = tf.unique(ids)
    row = tf.where(tf.reduce_min(used) < 0, tf.reduce_min(used), tf.reduce_max(used))
    rows = one.shape[0]
    error = InputError("inputs", "{}", f"is no row of {one.path}, which has {rows}: 0 to {rows - 1}",
                       table.PROBLEMS[2][2])  # fmt: skip
    with tf.control_dependencies([_refuse((tf.size(used) > 0) & ((row < 0) | (row >= rows)), error, row)]):
        # XLA compiles for each number of rows: some more of row 0 keep these numbers few.
        padded = tf.pad(used, [[0, -tf.size(used) % ROUND]])
        now = one.now(padded)
    if not tf.executing_eagerly():
        one.seen = Found(padded, tf.size(used), now, one.writes, tf.gather(one.state.value, STEPS))
    moves = tf.stop_gradient(owed(now[1], now[2], tf.gather(one.state.value, arithmetic.EPSILON), *one.sizes))
    return tf.gather(now[0] + moves, places)


def known(state: Any, iterations: Any, identity: Any) -> tuple[Any, Any, Any]:
    """Numbers of a table and of an optimizer."""
    return tf.identity(state.value), tf.cast(iterations.value % CYCLE, tf.float32), tf.identity(identity.value)


def split(one: Any, given: dict[int, Any]) -> tuple[Any, Any, Any]:
    """Rows and their gradients (None: there are none). Raises InputError for those of all rows."""
    gradient = given.get(id(one))
    if gradient is None:
        return None, None, 0
    if not isinstance(gradient, tf.IndexedSlices):
        remedy = "Hand on tf.IndexedSlices, as tape.gradient makes them of a lookup, or take keras.layers.Embedding."
        problem = "have one that is dense: changed, of another use, or of a lookup in a loop"
        raise InputError("gradients", one.path, problem, remedy)
    # A graph that was made before may have trained the rows after the lookup.
    seen = _seen(one, gradient.indices)
    kind = 0 if seen is None else tf.where(seen.steps == tf.gather(one.state.value, STEPS), 0, 3)
    return gradient.indices, gradient.values, kind


def _seen(one: Any, ids: Any) -> Found | None:
    """What the lookup has read that these rows are of, if nothing is known to have written since."""
    seen = getattr(one, "seen", None)
    if tf.executing_eagerly() or seen is None:
        return None
    if ids.op.type == "Reshape":  # as TensorFlow's gradient of a lookup hands them on
        ids = ids.op.inputs[0]
    return seen if ids is seen.ids and seen.writes == one.writes else None


def added(step: Any) -> tuple[Any, Any, Any]:
    """Rows, each once; as they were written, with their moments and what they have missed; their gradients added up."""
    one, seen = step.table, _seen(step.table, step.ids)
    if seen is not None:
        return seen.ids[: seen.count], seen.rows, step.gradient
    used, places = tf.unique(step.ids)
    more = -tf.size(used) % ROUND
    return (
        used,
        one.now(tf.pad(used, [[0, more]])),
        tf.math.unsorted_segment_sum(step.gradient, places, tf.size(used) + more),
    )


def write(step: Any, optimizer: Any) -> None:
    """One step of a table."""
    one = step.table
    table.write(step, optimizer)
    one.writes += 1
    if step.ids is not None:
        steps = tf.cast(step.after[STEPS], tf.int32)

        def turn() -> None:
            start, count = one.turn(steps, EACH)
            ids = (start + tf.range(count)) % one.shape[0]
            for variable, values in zip(one.by_row, one.settled(ids), strict=True):
                put(variable, ids, values)

        tf.cond(steps % EACH == 0, lambda: (turn(), 0)[1], lambda: 0)


def end(step: Any) -> None:
    """Write the numbers of the table."""
    step.table.state.value.assign(step.after)


@contextlib.contextmanager
def refusing(optimizer: Any, steps: list[Any], variables: list[Any]) -> Any:
    """A context in which nothing is written where a step may not be. Raises InputError, in a graph its words."""
    if tf.executing_eagerly():
        for step in steps:
            if int(step.kind):
                raise table.problem(int(step.kind), step.table.path)
        yield
        return
    checks = [_refuse(step.kind > 0, table.problem(3, step.table.path)) for step in steps]
    with tf.control_dependencies(checks):
        yield
