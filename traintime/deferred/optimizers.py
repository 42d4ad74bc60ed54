"""Which of Keras' optimizers a deferred table can stand in for: what would be another training is refused by name."""

from typing import Any

from traintime.errors import InputError

# What a Keras Adam may ask for that cannot be done row by row, with the value at which it asks for nothing.
REFUSED = {
    "amsgrad": False,
    "weight_decay": None,
    "global_clipnorm": None,
    "clipnorm": None,
    "clipvalue": None,
    "use_ema": False,
    "gradient_accumulation_steps": None,
    "loss_scale_factor": None,
}


def deferrable(optimizer: Any, layer: Any) -> Any:
    """The model's optimizer, if it is the Adam that the layer can stand in for; else InputError, which says why not."""
    name = type(optimizer).__name__
    remedy = (
        "Compile the model with keras.optimizers.Adam, or give the layer a rate: Embedding(..., learning_rate=...)."
    )
    if optimizer is None:
        raise InputError("optimizer", None, "is set by no model that this layer is part of", remedy)
    if name != "Adam" or layer.rule == "row-adagrad":  # AdamW, too, is an Adam to isinstance
        raise InputError("optimizer", name, f"does not do what the rule {layer.rule} does", remedy)
    for name, nothing in REFUSED.items():
        value = getattr(optimizer, name)
        if value != nothing:
            remedy = f"Leave {name} out of the model's Adam, or take keras.layers.Embedding."
            raise InputError(name, value, "needs every row, or every weight, at every step", remedy)
    for name in ("beta_1", "beta_2", "epsilon"):
        value, own = getattr(optimizer, name), getattr(layer, name)
        if value != own:
            remedy = f"Give the layer the same: Embedding(..., {name}={value:g})."
            raise InputError(name, value, f"is the model's, and {own:g} the layer's", remedy)
    return optimizer
