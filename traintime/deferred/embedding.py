"""An embedding that trains its own rows: a step costs the rows of the batch, the training is dense Adam's."""

import math
import numbers
import sys
import threading
import weakref
from typing import Any

import keras
import numpy as np
from keras import ops
from keras.src.backend.common import global_state

from traintime.deferred import rules
from traintime.deferred.optimizers import twice
from traintime.errors import InputError, unknown

# Arguments of keras.layers.Embedding that this one has not, each with what to do instead.
MISSING = {
    "embeddings_regularizer": "It would move every row at every step: take keras.layers.Embedding, or leave it out.",
    "embeddings_constraint": "It would change every row at every step: take keras.layers.Embedding, or leave it out.",
    "weights": "Give them as a start: Embedding(..., embeddings_initializer=keras.initializers.Constant(weights)).",
    "lora_rank": "Take keras.layers.Embedding, which trains two small matrices then, and no row.",
    "lora_alpha": "Take keras.layers.Embedding, which trains two small matrices then, and no row.",
    "quantization_config": "Take keras.layers.Embedding, and train it before it is quantized.",
    "input_length": "Leave it out, as in Keras 3; keras.Input((length,)) says as much.",
}


TRAINS = ("fit", "train_on_batch")  # methods of a model
# Whole numbers from 0 that a float holds, each of them exactly.
WHOLE_TO = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}


class Table(keras.Variable):
    """The table as a weight of its layer, up to date wherever it is read or set (`get_weights`, `set_weights`).

    It has no numbers of its own. `variables` holds those that steps write, with rows that are behind.
    """

    def __init__(self, layer: Any) -> None:
        # Keras' own __init__ would make room for another table.
        self.layer = layer

    def __getattr__(self, name: str) -> Any:
        if name == "layer":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self.layer.table, name)

    @property
    def value(self) -> Any:
        """The numbers, all rows up to date. Raises InputError within a step."""
        if self.layer.table._value is not None:  # else Keras holds the weights
            self.layer.refuse_within()
            self.layer.settle()
        return self.layer.table.value

    def numpy(self) -> Any:
        """A copy, all rows up to date. Nothing is written: another thread may train meanwhile."""
        return self.layer.table.numpy() if rules.of_backend().busy(self.layer) else self.layer.copy()

    def __array__(self, dtype: Any = None) -> Any:
        """The same for whatever makes arrays of it."""
        return self.numpy().astype(dtype or np.float32, copy=False)

    def assign(self, value: Any) -> Any:
        """Set all rows. What they owed until now was owed by those that they replace; their means stay, as Adam's do.

        Raises InputError within a step, and while another thread trains them.
        """
        if not rules.of_backend().busy(self.layer):
            self.layer.settle()
        elif self.layer.table._value is not None:  # else Keras holds the weights, and drops what is assigned to any
            remedy = "Set it between two steps, in a callback for instance."
            raise InputError("embeddings", self.layer.name, "is a table that is set within a step", remedy)
        return self.layer.table.assign(rules.of_backend().apart(value))


@keras.saving.register_keras_serializable("traintime")
class Embedding(keras.layers.Layer):
    """keras.layers.Embedding whose rows are trained where they are read, in the place of `Embedding(V, E)`.

    Inputs: whole numbers from 0 to input_dim - 1, of any shape, as floats only where those can tell all rows apart;
    outputs: that shape and output_dim. The rest of the model is trained by the model's optimizer as before. Rows that
    no batch reads are behind until they are read; `evaluate`, `predict`, saving and `get_weights` see what dense
    training would have made of them.

    rule: how rows are trained: "adam" (dense Adam's training, step for step), or what is another training: "lazy-adam"
    (rows that a batch does not read stand still) and "row-adagrad" (one sum of squares for each row). learning_rate: a
    number or a schedule; None: that of the Adam which the model was compiled with, whatever schedules and callbacks
    make of it. Beside a rate of its own the model may have another optimizer, whose weight decay does not reach the
    rows. beta_1, beta_2, epsilon: Adam's; they have to be those of the model's Adam if that sets the rate. most: row
    numbers in a batch, which JAX alone has to know beforehand.

    Raises InputError for sizes that are no counts, arguments that only keras.layers.Embedding has, a table that does
    not fit into memory, a backend without it, and an optimizer that needs every row, or what would pass the rows by.
    Source: Kingma & Ba 2015, in the closed form of deferred.missed.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        *,
        mask_zero: bool = False,
        rule: str = "adam",
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule | None = None,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
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
        for name, value in (("learning_rate", learning_rate), ("epsilon", epsilon)):
            if isinstance(value, str) or (isinstance(value, int | float) and not value > 0):
                raise InputError(
                    name, value, "is no number above 0", "Give one; as a rate, a schedule or None will do."
                )
        if rule not in rules.RULES:
            raise unknown("rule", rule, list(rules.RULES))
        rules.of_backend()
        super().__init__(**kwargs)
        self.input_dim, self.output_dim, self.mask_zero, self.rule = int(input_dim), int(output_dim), mask_zero, rule
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.learning_rate, self.most = learning_rate, int(most)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        # What tells the training step that last read the table from others: weakly, it may hold all arrays of a model.
        self._last: Any = lambda: None
        self.autocast = False  # row numbers are no numbers to make smaller
        self.supports_jit = keras.backend.backend() != "tensorflow"  # XLA knows no `unique` of unknown size

    def build(self, input_shape: Any = None) -> None:
        """Make the table and what its rule keeps of each row."""
        self.trainer = rules.RULES[self.rule](self)
        backend = rules.of_backend()
        self._fits(max(self.trainer.bytes(), 4 * self.input_dim * self.output_dim * backend.drawn(self)))
        self.table = self.keep("embeddings", (self.input_dim, self.output_dim), backend.initializer(self))
        self.trainer.table = Table(self)  # on the layer itself Keras would take it for one more weight
        self.trainer.build()
        backend.build(self)

    def _fits(self, needed: int) -> None:
        """Raise InputError where the table and what is kept of its rows cannot fit into the memory that is free."""
        free = rules.of_backend().free_bytes()
        if free is not None and needed > free:
            remedy = f"At most {math.floor(free / needed * 100)} % of its rows or columns would fit."
            raise InputError("input_dim", f"{needed / 1e9:.1f} GB", f"are more than the {free / 1e9:.1f} free", remedy)

    def keep(self, name: str, shape: tuple[int, ...], initializer: Any = "zeros", dtype: str = "float32") -> Any:
        """A weight of the layer that the model's optimizer leaves alone."""
        return self.add_weight(
            name=name, shape=shape, initializer=initializer, dtype=dtype, trainable=False, autocast=False
        )

    def rate(self, step: Any) -> Any:
        """The learning rate of a step, counted from 0: the layer's own, or the model's as it is now."""
        if self.learning_rate is None:
            return ops.cast(rules.of_backend().rate(self), "float32")
        if callable(self.learning_rate):
            return ops.cast(self.learning_rate(step), "float32")
        return ops.cast(self.learning_rate, "float32")

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The rows of the inputs, as they should be now. Only the way back of a training changes anything."""
        inputs = self._whole(inputs)
        learns = bool(training) and self.trainable
        if learns:
            self._once(rules.of_backend().training_step(self))
        elif self.trainable:
            rules.of_backend().still(self)
        return ops.cast(rules.of_backend().lookup(self, inputs, learns), self.compute_dtype)

    def _whole(self, inputs: Any) -> Any:
        # Keras makes floats of them in a Sequential that does not begin with an Input, as it does for its own layer.
        kind = keras.backend.standardize_dtype(inputs.dtype)
        if "int" in kind:
            return inputs
        if kind not in WHOLE_TO:
            raise InputError("inputs", kind, "are no row numbers", "Give whole numbers, int32 or int64.")
        if self.input_dim > WHOLE_TO[kind]:
            remedy = 'Let the model begin with keras.Input(shape, dtype="int32").'
            problem = f"cannot tell {self.name}'s {self.input_dim} rows apart, {WHOLE_TO[kind]} at most"
            raise InputError("inputs", kind, problem, remedy)
        return ops.cast(inputs, "int32")

    def _once(self, training_step: Any) -> None:
        # Two steps of one table in one training step would be another training.
        if training_step is not None and training_step is self._last():
            with rules.of_backend().refusal():
                raise twice(self)
        self._last = weakref.ref(training_step) if training_step is not None else lambda: None

    def copy(self) -> Any:
        """The table as it should be now, in NumPy; nothing is written."""
        rows, block = np.empty((self.input_dim, self.output_dim), np.float32), rules.Adam.block
        for start in range(0, self.input_dim, block):
            some = ops.arange(start, min(start + block, self.input_dim), dtype="int32")
            rows[start : start + block] = ops.convert_to_numpy(rules.of_backend().seen(self, some))
        return rows

    @property
    def weights(self) -> list[Any]:
        """The table, and what the model's optimizer has to know; all else that is kept stands in `variables` alone.

        So `get_weights` and `set_weights` reach what they reach with keras.layers.Embedding: there the means are the
        optimizer's, and stay what they are where a model goes back to its weights of before. Files hold everything.
        On TensorFlow and torch the optimizer has to know a number, `key`: a model's list is longer by it there.
        """
        if not self.built:
            return super().weights
        return [self.trainer.table, *rules.of_backend().told(self)]

    def get_weights(self) -> list[np.ndarray]:
        """The table alone, as keras.layers.Embedding gives it."""
        return [one.numpy() for one in self.weights[:1]]

    def set_weights(self, weights: list[Any]) -> None:
        """Set the table from what `get_weights` of either layer gives."""
        super().set_weights([*weights, *(one.numpy() for one in self.weights[1:])])

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Everything that no gradient reaches: Keras' old files (.h5) are made of these, and of the trainable ones."""
        return self.non_trainable_variables

    def settle(self) -> None:
        """Bring all rows up to date; the training goes on as if nothing had happened.

        Raises InputError while another thread trains them.
        """
        if self.built:
            self._alone()
            rules.of_backend().settle(self)
            self.trainer.settle()

    def _alone(self) -> None:
        # Two threads that write the same rows would lose steps. Only who writes all rows looks, so that no step pays.
        for thread, frame in sys._current_frames().items():
            while thread != threading.get_ident() and frame is not None:
                model = frame.f_locals.get("self") if frame.f_code.co_name in TRAINS else None
                if isinstance(model, keras.Model) and any(one is self for one in model._flatten_layers()):
                    remedy = "Do it in a callback, or take get_weights(), which only reads."
                    raise InputError("embeddings", self.name, "is a table that another thread trains", remedy)
                frame = frame.f_back

    @property
    def embeddings(self) -> Any:
        """The table, all of its rows up to date. Raises InputError inside a step: a table tied to another layer."""
        self.refuse_within()
        self.settle()
        return self.trainer.table

    def refuse_within(self) -> None:
        """Raise InputError inside a step, where the table can be handed to nobody else."""
        # Inside a call, too, where a backend does all at once: to settle would hand out rows that no gradient reaches.
        if rules.of_backend().busy(self) or global_state.get_global_attribute("current_call_ctx") is not None:
            remedy = "Take keras.layers.Embedding, whose optimizer sees both uses."
            raise InputError("embeddings", self.name, "is used by another layer, which a deferred table can't", remedy)

    @property
    def table_weights(self) -> list[Any]:
        """The weights that keras.layers.Embedding would have."""
        return [self.trainer.table]

    def save_own_variables(self, store: dict) -> None:
        """Save with all rows up to date: what reads the file need not know how they were trained."""
        self.settle()
        super().save_own_variables(store)

    def load_own_variables(self, store: dict) -> None:
        """Load what this layer saved, or keras.layers.Embedding: its table, as with `set_weights`.

        Raises InputError for a file of a layer with other weights or sizes.
        """
        own = self._trainable_variables + self._non_trainable_variables
        wanted = [tuple(variable.shape) for variable in own]
        found = [tuple(store[key].shape) for key in list(store.keys())]
        if found == [(self.input_dim, self.output_dim)]:
            self.trainer.table.assign(store["0"])
            return
        if sorted(wanted) != sorted(found):
            remedy = f"Load it into a layer like the one that was saved; this one is {self.name}, rule {self.rule}."
            raise InputError("weights", found, f"are not those of this layer, {wanted}", remedy)
        self._alone()
        for key, variable in enumerate(own):
            variable.assign(store[str(key)])
        self.trainer.reset()

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Which positions hold a word, where zero is none."""
        return ops.not_equal(inputs, 0) if self.mask_zero else None

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Shape of the inputs and a row's numbers."""
        return (*input_shape, self.output_dim)

    def get_config(self) -> dict:
        """What makes the same layer again."""
        rate = self.learning_rate
        config = {
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
            "mask_zero": self.mask_zero,
            "rule": self.rule,
            "learning_rate": rate
            if rate is None or isinstance(rate, int | float)
            else keras.saving.serialize_keras_object(rate),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "most": self.most,
        }
        return super().get_config() | config

    @classmethod
    def from_config(cls, config: dict) -> "Embedding":
        """The layer of a configuration."""
        rate = config["learning_rate"]
        if isinstance(rate, dict):
            config = config | {"learning_rate": keras.saving.deserialize_keras_object(rate)}
        return cls(**config)
