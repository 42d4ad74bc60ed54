"""Which of Keras' optimizers a deferred table can stand in for, or stand beside: what would be another training is
refused by name."""

import enum
from typing import Any

from traintime.errors import InputError

ROWS = "needs every row, or every weight, at every step"
# What a Keras optimizer may ask for that cannot be done row by row, and why. False, None and 0 ask for nothing.
REFUSED = {
    "amsgrad": ROWS,
    "weight_decay": ROWS,
    "global_clipnorm": "is a norm over all gradients, and would be taken without those of the rows",
    "clipnorm": "would not clip the gradients of the rows",
    "clipvalue": "would not clip the gradients of the rows",
    "use_ema": "would average all weights but the rows",
    "gradient_accumulation_steps": "would let all weights wait but the rows",
    "loss_scale_factor": "would reach the gradients of the rows, and be taken out of all others alone",
}
# These say how the optimizer treats its own weights. The rows are none of them: they have a rule and a rate of their
# own. All else says what is done with the gradients, or the weights, of the whole model, and the rows would miss it.
ITS_OWN = ("amsgrad", "weight_decay")

SCALES = "LossScaleOptimizer"  # Keras puts it around any optimizer, where a model computes in float16


def scaled() -> InputError:
    """The error for a loss that is scaled as the training goes on."""
    remedy = "Take mixed_bfloat16, or compile the model with auto_scale_loss=False."
    return InputError("optimizer", SCALES, REFUSED["loss_scale_factor"], remedy)


def untold(layer: Any) -> InputError:
    """The error for a training of which the layer is not told, so that its rows would stand still."""
    remedy = (
        "Call the model with training=True, and let a model of your own hand it on: "
        f"self.{layer.name}(inputs, training=training)."
    )
    return InputError("training", False, f"is all that the model lets {layer.name} know", remedy)


def twice(layer: Any) -> InputError:
    """The error for a table that is read twice before the optimizer's step."""
    remedy = "Look all of them up at once: concatenate the inputs, and split what comes out."
    return InputError("inputs", layer.name, "is a table that is read twice in one training step", remedy)


class Problem(enum.IntEnum):
    """What only a step that runs can find wrong. Its number and two more are all that JAX can hand on; 0 is nothing."""

    ROW = 1  # the number
    RETURNED = 2
    OTHER_STEP = 3  # the step of the file, the step of the model's optimizer

    def error(self, layer: Any, *numbers: Any) -> InputError:
        """The error, which says it in words."""
        name, rows = layer.name, layer.input_dim
        if self is Problem.ROW:
            remedy = "Look at the data, or give the layer as many rows as there are words."
            return InputError("inputs", numbers[0], f"is no row of {name}, which has {rows}: 0 to {rows - 1}", remedy)
        if self is Problem.RETURNED:
            remedy = "Compile the model with a new keras.optimizers.Adam, or take keras.layers.Embedding."
            return InputError("optimizer", "Adam", f"is one that another has replaced in training {name}", remedy)
        remedy = (
            "Load a file that was saved with a compiled model after its first step, into a model that has been "
            "trained for a step, or compile the model with a new keras.optimizers.Adam."
        )
        problem = f"is the step of the Adam that {name} was saved with, and the model's Adam is at step {numbers[1]}"
        return InputError("weights", numbers[0], problem, remedy)


def replaced(layer: Any) -> InputError:
    """The error for a second optimizer, where the means of the first cannot be told from its own."""
    remedy = f'Give {layer.name} a rate of its own, or take rule="adam", which starts anew with each optimizer.'
    return InputError("optimizer", "Adam", f"is the second to train {layer.name}, rule {layer.rule}", remedy)


def deferrable(optimizer: Any, layer: Any) -> Any:
    """The model's optimizer, if the layer can train its rows as this model trains; else InputError, which says why not.

    A layer without a rate stands in for it: it has to be the same Adam. One with a rate stands beside it: any will do
    that asks for nothing of all gradients or all weights; None is no optimizer, and asks for nothing.
    """
    follows = layer.learning_rate is None
    if type(optimizer).__name__ == SCALES:
        raise scaled()
    if follows:
        _same_adam(optimizer, layer)
    for one in (optimizer, *getattr(optimizer, "optimizers", ())):  # Keras' MultiOptimizer has some
        for name, why in REFUSED.items():
            value = getattr(one, name, None)
            if value and (follows or name not in ITS_OWN):
                remedy = f"Leave {name} out of the model's optimizer, or take keras.layers.Embedding."
                raise InputError(name, value, why, remedy)
    return optimizer


def _same_adam(optimizer: Any, layer: Any) -> None:
    name = type(optimizer).__name__
    remedy = (
        "Compile the model with keras.optimizers.Adam, or give the layer a rate: Embedding(..., learning_rate=...)."
    )
    if optimizer is None:
        raise InputError("optimizer", None, "is set by no model that this layer is part of", remedy)
    if name != "Adam" or layer.rule == "row-adagrad":  # AdamW, too, is an Adam to isinstance
        raise InputError("optimizer", name, f"does not do what the rule {layer.rule} does", remedy)
    for name in ("beta_1", "beta_2", "epsilon"):
        value, own = getattr(optimizer, name), getattr(layer, name)
        if value != own:
            remedy = f"Give the layer the same: Embedding(..., {name}={value:g})."
            raise InputError(name, value, f"is the model's, and {own:g} the layer's", remedy)
