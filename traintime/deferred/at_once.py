"""What backends share on which a layer can write on the way back: a step is done when its gradients are there."""

from contextlib import nullcontext as refusal  # noqa: F401 (a refused step costs nothing here)
from typing import Any

from traintime.deferred.optimizers import deferrable, twice, untold


def build(layer: Any) -> None:
    """Make what only these need: without a weight that is trained no gradient would come by."""
    layer.key = layer.add_weight(name="key", shape=(), initializer="zeros", dtype="float32", autocast=False)


def training_step(layer: Any) -> Any:
    """What tells one call of the model from another; its optimizer is looked at."""
    context = layer._get_call_context()
    layer.trainer.adam = deferrable(getattr(context.entry_layer, "optimizer", None), layer)
    if layer.learning_rate is None:
        layer.trainer.begin(layer.trainer.number(layer.trainer.adam), iterations(layer))
    return context


def once(layer: Any) -> None:
    """Raise InputError where the rows have moved since the optimizer's last step: none is known of without one."""
    if (adam := layer.trainer.adam) is not None:
        if layer.trainer.moved_at == (now := (layer.trainer.number(adam), int(adam.iterations))):
            raise twice(layer)
        layer.trainer.moved_at = now


def still(layer: Any) -> None:
    """A pass in which the rows stay. Raises InputError where the model that is trained could hand on nothing else."""
    model = layer._get_call_context().entry_layer
    if getattr(model, "optimizer", None) is not None and not model._call_has_training_arg:
        raise untold(layer)


def rate(layer: Any) -> Any:
    """The model's rate, as schedules and callbacks have made it by now."""
    return layer.trainer.adam.learning_rate


def iterations(layer: Any) -> Any:
    """The steps that the model's optimizer has made by now."""
    return layer.trainer.adam.iterations


def seen(layer: Any, rows: Any) -> Any:
    """These rows as they should be now; nothing is written."""
    return layer.trainer.now(rows)[0]


def apart(value: Any) -> Any:
    """What is assigned, which is copied anyway."""
    return value


def told(layer: Any) -> list[Any]:
    """Weights that are none of keras.layers.Embedding's, and that the model's optimizer has to know."""
    return [layer.key]


def initializer(layer: Any) -> Any:
    """What the table starts from: what Keras draws from the same seed."""
    return layer.embeddings_initializer


def drawn(layer: Any) -> int:
    """Tables that lie in memory while the initializer draws one: it does so where the table will lie."""
    return 1


def settle(layer: Any) -> None:
    """Do what still waits: nothing does."""
