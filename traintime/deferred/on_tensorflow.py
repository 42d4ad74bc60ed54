"""Rows read from and written into TensorFlow's variables where they lie: never the whole table as a tensor."""

from collections.abc import Callable
from typing import Any

import keras
import psutil
import tensorflow as tf

from traintime.deferred import at_once
from traintime.deferred.at_once import (  # noqa: F401 (a backend's module has them)
    apart,
    build,
    drawn,
    initializer,
    iterations,
    once,
    rate,
    refusal,
    seen,
    settle,
    still,
    told,
)
from traintime.deferred.optimizers import Problem, untold

ROUND = 256  # rows that XLA's operation is made for, and multiples of it


def free_bytes() -> int | None:
    """Memory that is free where the table will lie; None where nobody knows."""
    return None if tf.config.list_physical_devices("GPU") else psutil.virtual_memory().available


def busy(layer: Any) -> bool:
    """Whether a step is being made, so that nothing can be done at once."""
    return not tf.executing_eagerly()


def take(variable: keras.Variable, rows: Any) -> tf.Tensor:
    """These rows of a variable. Were it read as a tensor, each scatter would have to copy all of it."""
    handle, dtype = variable.value.handle, variable.value.dtype
    return tf.raw_ops.ResourceGather(resource=handle, indices=rows, dtype=dtype)


def put(variable: keras.Variable, rows: Any, values: tf.Tensor) -> None:
    """Write rows in their places; each of them once. Values beyond these rows made their number round."""
    variable.value.scatter_update(tf.IndexedSlices(values[: tf.size(rows)], rows))


def as_one(function: Callable[..., list[tf.Tensor]]) -> Callable[..., list[tf.Tensor]]:
    """Arithmetic on rows as one operation of XLA, which goes over them once and not once for each operation."""
    return tf.function(function, jit_compile=True, reduce_retracing=True)


def add(variable: keras.Variable, rows: Any, values: tf.Tensor) -> None:
    """Add to rows in their places."""
    variable.value.scatter_add(tf.IndexedSlices(values, rows))


def training_step(layer: Any) -> Any:
    """What tells one training step from another: the graph of it, or else the call of the model."""
    context = at_once.training_step(layer)
    return context if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


class _Place:
    """Where a number will stand in a text, once it is known."""

    def __repr__(self) -> str:
        return "{}"


def refuse(layer: Any, problem: Problem, wrong: Any, *numbers: Any) -> Any:
    """An operation that stops the step where something is wrong; what should not happen then has to wait for it."""

    def stop() -> Any:
        # TensorFlow would write a quotation mark with a backslash before it.
        text = str(problem.error(layer, *(_Place() for _ in numbers))).replace("'", "")
        return tf.raw_ops.Assert(condition=False, data=[tf.strings.format(text, numbers) if numbers else text])

    return tf.cond(wrong, lambda: tf.group(stop()), tf.no_op)


def lookup(layer: Any, inputs: tf.Tensor, learns: bool) -> tf.Tensor:
    """The rows of the inputs; where it learns their gradient moves them, and is handed on to nobody."""
    flat = tf.reshape(inputs, [-1])
    shape = tf.concat([tf.shape(inputs), [layer.output_dim]], 0)
    used, places = tf.unique(flat)
    low, high = (tf.cast(end(used), tf.int64) for end in (tf.reduce_min, tf.reduce_max))
    row = tf.where(low < 0, low, high)
    with tf.control_dependencies([refuse(layer, Problem.ROW, (row < 0) | (row >= layer.input_dim), row)]):
        # XLA compiles for each number of rows: some more of row 0, which nobody reads, keep these numbers few.
        more = -tf.size(used) % ROUND
        now = layer.trainer.now(tf.pad(tf.cast(used, tf.int32), [[0, more]]))
    if not learns:
        read = tf.reshape(tf.gather(now[0], places), shape)
        return _still(layer, read) if layer.trainable else read

    @tf.custom_gradient
    def rows(key: tf.Tensor) -> Any:
        def way_back(gradients: tf.Tensor) -> tf.Tensor:
            if tf.executing_eagerly():
                once(layer)
            gradients = tf.reshape(gradients, [-1, layer.output_dim])
            total = tf.math.unsorted_segment_sum(gradients, places, tf.size(used) + more)
            layer.trainer.step(tf.cast(used, tf.int32), now, total)
            return tf.zeros_like(key)

        return tf.reshape(tf.gather(now[0], places), shape), way_back

    return rows(tf.convert_to_tensor(layer.key.value))


def _still(layer: Any, read: tf.Tensor) -> tf.Tensor:
    """Rows that are read and not trained: whoever asks for their gradient means to train them."""

    @tf.custom_gradient
    def rows(key: tf.Tensor) -> Any:
        def way_back(gradients: tf.Tensor) -> tf.Tensor:
            # An operation: to export a model TensorFlow makes the way back, too, and does not take it.
            with tf.control_dependencies([tf.raw_ops.Assert(condition=False, data=[str(untold(layer))])]):
                return tf.zeros_like(key)

        return tf.identity(read), way_back

    return rows(tf.convert_to_tensor(layer.key.value))
