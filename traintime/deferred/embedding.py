"""An embedding whose table deferred.Adam trains: a step costs the rows of the batch, the training is dense Adam's."""

import math
import numbers
from typing import Any

import keras
import numpy as np
import psutil
from keras import ops
from keras.src.backend.common import global_state

from traintime.deferred.arithmetic import CURRENT, EPSILON, PROBLEM, ROOM
from traintime.deferred.table import JAX, TERMS, Owned, Table, rows_of
from traintime.errors import InputError

# Arguments of keras.layers.Embedding, and of this layer as it was, that it has not; each with what to do instead.
MISSING = {
    "embeddings_regularizer": "It would move every row at every step: take keras.layers.Embedding, or leave it out.",
    "embeddings_constraint": "It would change every row at every step: take keras.layers.Embedding, or leave it out.",
    "weights": "Give them as a start: Embedding(..., embeddings_initializer=keras.initializers.Constant(weights)).",
    "lora_rank": "Take keras.layers.Embedding, which trains two small matrices then, and no row.",
    "lora_alpha": "Take keras.layers.Embedding, which trains two small matrices then, and no row.",
    "quantization_config": "Take keras.layers.Embedding, and train it before it is quantized.",
    "input_length": "Leave it out, as in Keras 3; keras.Input((length,)) says as much.",
    "rule": "Leave it out: traintime.deferred.Adam is the only one that trains rows.",
    **dict.fromkeys(("learning_rate", "beta_1", "beta_2", "epsilon"), "Give it to traintime.deferred.Adam."),
}
# Whole numbers from 0 that a float holds, each of them exactly.
WHOLE_TO = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}


def _start_of_state(shape: Any, dtype: Any) -> Any:
    """Nothing is owed; an epsilon, so that no row is divided by zero."""
    places = ops.arange(shape[0])
    return ops.cast(places == CURRENT, dtype) + 1e-7 * ops.cast(places == EPSILON, dtype)


@keras.saving.register_keras_serializable("traintime")
class Embedding(keras.layers.Embedding):
    """keras.layers.Embedding whose table deferred.Adam trains, in the place of `Embedding(V, E)`.

    Inputs: whole numbers from 0 to input_dim - 1, of any shape, as floats only where those can tell all rows apart;
    outputs: that shape and output_dim. A lookup writes nothing. Rows that no batch reads are behind until they are
    read: predictions, get_weights(), saving and `embeddings` see what dense training would have made of them. Raw
    tensors are behind (`.value` of a variable, what is computed of a model's variables without numpy(), and a torch
    state_dict of a whole model, which may be loaded again) until `settle()`; whoever writes them trains something else.

    most: row numbers in a step, which JAX alone has to know beforehand. Raises InputError for sizes that are no counts,
    arguments that only keras.layers.Embedding has, a table that does not fit into memory, a backend without it,
    tf.distribute, and within a step for a table that another layer uses.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        *,
        mask_zero: bool = False,
        most: int = 8192,
        **kwargs: Any,
    ) -> None:
        for name, remedy in MISSING.items():
            value = kwargs.pop(name, None)  # None is Keras' own default, and asks for nothing
            if value is not None:
                raise InputError(name, value, "is nothing that a deferred embedding has", remedy)
        for name, value in (("input_dim", input_dim), ("output_dim", output_dim), ("most", most)):
            # NumPy's are as good: who counts words with it has one.
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
                raise InputError(name, value, "is no count", "Give a whole number of 1 or more.")
        rows_of()
        super().__init__(int(input_dim), int(output_dim), embeddings_initializer, mask_zero=mask_zero, **kwargs)
        self.most, self.supports_jit = int(most), keras.backend.backend() != "tensorflow"

    def build(self, input_shape: Any = None) -> None:
        """Make the table and what is kept of its rows."""
        if self.built:
            return
        if self.variable_dtype != "float32":
            remedy = "Take float32, or a mixed precision, whose weights are float32."
            raise InputError("dtype", self.variable_dtype, "is not what a deferred table is kept in", remedy)
        rows, (count, width), start = rows_of(), (self.input_dim, self.output_dim), self.embeddings_initializer
        self._fits(4 * count * (3 * width + 1))
        with keras.name_scope(self.name, caller=self):

            def made(kind: type, name: str, shape: tuple[int, ...], start: Any, trained: bool) -> Any:
                return kind(start, shape, "float32", trained, False, name=name)

            table = made(Table, "embeddings", (count, width), rows.drawn(start), True)
            table.moments = made(Owned, "moments", (count, 2 * width + 1), "zeros", JAX)
            table.missed = made(Owned, "missed", (ROOM, TERMS), "zeros", JAX)
            table.state = made(Owned, "state", (PROBLEM + 1,), _start_of_state, JAX)
            own = [table, table.moments, table.missed, table.state, *rows.more(self, table, made)]
        for variable in own:
            variable.table = table
            self._track_variable(variable)
        self._embeddings, self.built = table, True
        self._moments, self._missed, self._state = own[1:4]  # what tf.train.Checkpoint looks for stands on the layer

    def _fits(self, needed: int) -> None:
        """Raise InputError where the table and what is kept of its rows cannot fit into the memory that is free."""
        free = math.inf if rows_of().on_gpu() else psutil.virtual_memory().available
        if needed > free:
            remedy = f"At most {math.floor(free / needed * 100)} % of its rows or columns would fit."
            raise InputError("input_dim", f"{needed / 1e9:.1f} GB", f"are more than the {free / 1e9:.1f} free", remedy)

    def call(self, inputs: Any) -> Any:
        """The rows of the inputs, as dense training would have left them."""
        ids = ops.reshape(self._whole(inputs), (-1,))
        rows = rows_of().read(self._embeddings, ids)
        return ops.cast(ops.reshape(rows, (*ops.shape(inputs), self.output_dim)), self.compute_dtype)

    def _whole(self, inputs: Any) -> Any:
        # Keras makes floats of them in a Sequential that does not begin with an Input, as it does for its own layer.
        kind = keras.backend.standardize_dtype(inputs.dtype)
        if "int" not in kind:
            if kind not in WHOLE_TO:
                raise InputError("inputs", kind, "are no row numbers", "Give whole numbers, int32 or int64.")
            if self.input_dim > WHOLE_TO[kind]:
                remedy = 'Let the model begin with keras.Input(shape, dtype="int32").'
                problem = f"cannot tell {self.name}'s {self.input_dim} rows apart, {WHOLE_TO[kind]} at most"
                raise InputError("inputs", kind, problem, remedy)
        return inputs if kind in ("int32", "int64") else ops.cast(inputs, "int32")

    def enable_lora(self, *_: Any, **named: Any) -> None:
        """Raises InputError: the table would not be trained any more."""
        raise InputError("lora_rank", self.name, "is nothing that a deferred embedding has", MISSING["lora_rank"])

    def settle(self) -> None:
        """Bring all rows up to date; the training goes on as if nothing had happened.

        Raises InputError while another thread trains them.
        """
        if self.built:
            self._embeddings.settle()

    @property
    def embeddings(self) -> Any:
        """The table, all of its rows up to date. Raises InputError inside a step: a table tied to another layer."""
        if (self.built and not rows_of().alive(self._embeddings)) or global_state.get_global_attribute(
            "current_call_ctx"
        ) is not None:
            remedy = "Take keras.layers.Embedding, whose optimizer sees both uses."
            raise InputError("embeddings", self.name, "is used by another layer, which a deferred table can't", remedy)
        self.settle()
        return self._embeddings

    @property
    def weights(self) -> list[Any]:
        """The table, as keras.layers.Embedding has it; what is kept of its rows stands in `variables` alone."""
        return [self._embeddings] if self.built else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Everything that no optimizer is told of."""
        return self.non_trainable_variables

    def save_own_variables(self, store: Any) -> None:
        """Write the table, all rows up to date, as keras.layers.Embedding does; its optimizer writes the moments."""
        store["0"] = self._embeddings.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Read what this layer or keras.layers.Embedding has written. Raises InputError for other sizes."""
        found = [tuple(store[key].shape) for key in list(store.keys())]
        if found != [(self.input_dim, self.output_dim)]:
            remedy = (
                "Load it into a layer like the one that was saved; of the layer before version 0.2 take get_weights()."
            )
            raise InputError("weights", found, f"are not one table of {self.input_dim} rows", remedy)
        self._embeddings.assign(np.asarray(store["0"]))

    def get_config(self) -> dict:
        """What makes the same layer again."""
        config = super().get_config()
        return {key: value for key, value in config.items() if key not in MISSING} | {"most": self.most}
