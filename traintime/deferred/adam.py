"""keras.optimizers.Adam, step for step, which trains tables of deferred.Embedding at the price of the rows in use."""

import secrets
import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from traintime.deferred.missed import IN_FLOAT32, powers
from traintime.deferred.table import JAX, TERMS, Owned, Table, rows_of
from traintime.errors import InputError

# What a Keras optimizer may be asked for that cannot be done row by row, and why. False, None and 0 ask for nothing.
ROWS = "needs every row, or every weight, at every step"
NORM = "needs the gradients of all rows added up first"
REFUSED = {
    "amsgrad": ROWS,
    "weight_decay": ROWS,
    "use_ema": ROWS,
    "global_clipnorm": NORM,
    "clipnorm": NORM,
    "clipvalue": NORM,
    "gradient_accumulation_steps": NORM,
    "loss_scale_factor": "is taken out of dense gradients alone",
}
FREE = ("ema_momentum", "ema_overwrite_frequency")  # ask for nothing without use_ema


@keras.saving.register_keras_serializable("traintime")
class Adam(type(keras.optimizers.Adam())):
    """keras.optimizers.Adam, for models with a deferred.Embedding.

    It trains every other weight as Keras' Adam does, and the table, too, as Adam is published: gradients of the same
    row are added up first (Keras' own on TensorFlow squares each by itself). learning_rate: a number or a schedule.
    Files hold what Keras' Adam keeps, in its order, so that either loads the other's.

    Raises InputError for what cannot be done row by row (REFUSED), and for rates of decay that no short polynomial can
    follow, and at a step for a table that another optimizer, or another step of this one, has trained last. Gradients
    may be added up, scaled and dropped on TensorFlow and torch, and clipped while they are those of one lookup: on
    TensorFlow those of two stand beside each other, and torch's own functions clip no sparse ones. On JAX a change of
    them is refused. Source: Kingma & Ba 2015, in the closed form of deferred.missed.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str = "adam",
        **other: Any,
    ) -> None:
        for field, value in other.items():
            if value and field not in FREE:
                remedy = f"Leave {field} out, or take keras.layers.Embedding and keras.optimizers.Adam."
                raise InputError(field, value, REFUSED.get(field, "is nothing that this optimizer has"), remedy)
        missed = powers(beta_1, beta_2, IN_FLOAT32).astype(np.float32)
        if missed.shape[1] > TERMS:
            remedy = "Take a smaller beta_1, or a larger beta_2: the mean has to fade before the mean of squares does."
            raise InputError("beta_2", beta_2, f"decays almost as fast as beta_1 = {beta_1:g} does", remedy)
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name=name)
        self.powers, self._betas = missed, (beta_1, beta_2)

    def __setattr__(self, name: str, value: Any) -> None:
        # Keras sets this, and nothing else does, where it puts an optimizer into one that scales the loss.
        if name == "loss_scale_factor" and hasattr(self, "powers"):
            remedy = "Take mixed_bfloat16, or compile the model with auto_scale_loss=False."
            raise InputError("optimizer", "LossScaleOptimizer", "scales the gradients of the rows", remedy)
        super().__setattr__(name, value)

    def build(self, variables: list[Any]) -> None:
        """Make what it keeps of each weight; of tables these keep it themselves."""
        if self.built:
            return
        super().build(variables)
        start = keras.initializers.Constant(secrets.randbelow(2**23) + 1)
        self.identity = self.add_variable((), start, "float32", name="identity")  # by which a table knows its own
        with rows_of().outside():
            for table in self._tables:
                table.begin(self)

    @property
    def _tables(self) -> list[Table]:
        return [one for one in self._trainable_variables if isinstance(one, Table)]

    @property
    def own(self) -> Any:
        """Epsilon and the logarithms of both decays, as tables keep them."""
        logs = (np.log(max(beta, 1e-43)) for beta in (self.beta_1, self.beta_2))
        return np.array([self.epsilon, *logs], "float32")

    @property
    def fresh(self) -> tuple[float, float]:
        """The parts of both means that come from a step's gradient."""
        return 1 - self.beta_1, 1 - self.beta_2

    def alpha(self) -> Any:
        """The rate of the coming step, corrected for bias."""
        step = ops.cast(self.iterations + 1, "float32")
        beta_1, beta_2 = (ops.power(ops.cast(beta, "float32"), step) for beta in (self.beta_1, self.beta_2))
        return ops.cast(self.learning_rate, "float32") * ops.sqrt(1 - beta_2) / (1 - beta_1)

    def apply(self, grads: list[Any], trainable_variables: list[Any] | None = None) -> None:
        """One step. Raises InputError, before anything is written, where a table cannot take it."""
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            with keras.name_scope(self.name, caller=self):
                self.build(trainable_variables)
        self._refuse_changed()
        variables = self._trainable_variables if trainable_variables is None else trainable_variables
        if not self._tables or len(grads) != len(variables) or all(gradient is None for gradient in grads):
            super().apply(grads, trainable_variables)
            return
        self._check_variables_are_known(variables)
        rows = rows_of()
        given = {id(variable): gradient for variable, gradient in zip(variables, grads, strict=True)}
        steps = [table.step(given, self) for table in self._tables]
        if lacking := [step.table.path for step in steps if step.ids is None and id(step.table) in given]:
            warnings.warn(f"Gradients do not exist for variables {lacking} when minimizing the loss.", stacklevel=2)
        rest = [variable for variable in variables if not isinstance(variable, Owned)]
        others = [given[id(variable)] for variable in rest]
        with rows.refusing(self, steps, [*rest, *self.variables]):
            for step in steps:
                rows.write(step, self)
            if any(gradient is not None for gradient in others):
                super().apply(others, rest)
            else:
                self._iterations.assign_add(1)

    def _refuse_changed(self) -> None:
        """Raise InputError for what was set since it was made and cannot be done row by row."""
        wrong = [(name, getattr(self, name), why) for name, why in REFUSED.items() if getattr(self, name, None)]
        if (given := (self.beta_1, self.beta_2)) != self._betas:
            wrong.append(("beta_1, beta_2", given, f"were {self._betas} when it was made"))
        for about in wrong:
            if JAX:
                rows_of().spare()
            raise InputError(*about, f"Leave {about[0]} out, or compile the model with a new traintime.deferred.Adam.")

    def _overwrite_variable_with_gradient(self, variable: Any) -> bool:
        return isinstance(variable, Owned) or super()._overwrite_variable_with_gradient(variable)

    def finalize_variable_values(self, variables: list[Any]) -> None:
        """At the end of `fit`, so that whatever reads the table finds it up to date."""
        for table in self._tables:
            table.settle()

    def _kept(self) -> Iterator[tuple[Any, int | None]]:
        """What Keras' Adam keeps, in its order: a variable, or a table and which of its moments."""
        yield from ((one, None) for one in self._variables[: 1 + isinstance(self._learning_rate, keras.Variable)])
        if self.built:
            for variable, *means in zip(self._trainable_variables, self._momentums, self._velocities, strict=True):
                if isinstance(variable, Table):
                    yield from ((variable, 0), (variable, 1))
                elif not isinstance(variable, Owned):
                    yield from ((mean, None) for mean in means)

    def save_own_variables(self, store: Any) -> None:
        """Write what Keras' Adam would have kept."""
        for place, (variable, moment) in enumerate(self._kept()):
            if moment == 0:
                moments = variable.moments_of(self)
            store[str(place)] = variable.numpy() if moment is None else moments[moment]

    def load_own_variables(self, store: Any) -> None:
        """Read what this optimizer or Keras' Adam has written; warns, as Keras does, where that has other sizes."""
        kept = list(self._kept())
        if len(kept) != len(store.keys()):
            problem = f"because it has {len(kept)} variables whereas the saved optimizer has {len(store.keys())}"
            warnings.warn(f"Skipping variable loading for optimizer '{self.name}', {problem}.", stacklevel=2)
            return
        for place, (variable, moment) in enumerate(kept):
            if moment is None:
                variable.assign(store[str(place)])
        for place, (variable, moment) in enumerate(kept):
            if moment == 0:
                variable.adopt(*(np.asarray(store[str(each)]) for each in (place, place + 1)), self)

    def get_config(self) -> dict:
        """What makes the same optimizer again."""
        config = super().get_config()
        return {key: config[key] for key in ("name", "learning_rate", "beta_1", "beta_2", "epsilon")}
