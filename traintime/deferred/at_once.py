"""What backends share on which a layer can write on the way back: a step is done when its gradients are there."""

from typing import Any

from traintime.deferred.optimizers import deferrable


def build(layer: Any) -> None:
    """Make what only these need: without a weight that is trained no gradient would come by."""
    layer.key = layer.add_weight(name="key", shape=(), initializer="zeros", dtype="float32", autocast=False)


def forward_pass(layer: Any) -> Any:
    """What tells one forward pass of the model from another; its optimizer, if that sets the rate, is looked at."""
    context = layer._get_call_context()
    if layer.learning_rate is None:
        layer.trainer.adam = deferrable(getattr(context.entry_layer, "optimizer", None), layer)
    return context


def rate(layer: Any) -> Any:
    """The model's rate, as schedules and callbacks have made it by now."""
    return layer.trainer.adam.learning_rate


def settle(layer: Any) -> None:
    """Do what still waits: nothing does."""
