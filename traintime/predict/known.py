"""Which operations of a graph there are rules for: Keras' own layers, and subclasses that compute nothing else.

Keras itself is not imported: what a class is, its name and its module tell.
"""

import re
from typing import Any

from traintime.predict.layers import LAYERS, OPERATIONS, STATES, cells

# What a user's subclass may define without computing anything else than Keras' layer does.
HARMLESS = {"build", "get_config", "from_config", "compute_output_shape", "compute_output_spec"}
HARMLESS |= {"compute_mask", "get_build_config", "build_from_config", "save_own_variables", "load_own_variables"}
HOMES = ("keras.", "traintime.deferred.")  # where classes come from that the rules are written for

# Layers that are made of others, whose work is that of those; see traintime.predict.work.
MADE_OF = {
    "Sequential": lambda layer: layer._functional.operations,
    "Functional": lambda layer: layer.operations,
    "TimeDistributed": lambda layer: [layer.layer],
    "Bidirectional": lambda layer: [layer.forward_layer, layer.backward_layer],
}


def rule_name(operation: Any) -> str:
    """The name of the operation in the tables; "" where it has no entry, or is changed."""
    return "" if why_unknown(operation) else _home(operation).__name__


def is_layer(operation: Any) -> bool:
    """Whether it is a Keras layer, and not an operation of keras.ops."""
    return any(each.__name__ == "Layer" and each.__module__.startswith(HOMES) for each in type(operation).__mro__)


def is_deferred(operation: Any) -> bool:
    """Whether it is the embedding of traintime.deferred, or a kind of it."""
    return _home(operation).__module__.startswith("traintime.deferred.")


def _home(operation: Any) -> type:
    """The first class, from the operation's own on, that is not the user's; object where all are."""
    return next((each for each in type(operation).__mro__ if each.__module__.startswith(HOMES)), object)


def why_unknown(operation: Any) -> str:
    """What is not known about an operation: its class, and what is unusual; "" where there is a rule for it."""
    kind, home = type(operation), _home(operation)
    table = LAYERS | MADE_OF if is_layer(operation) else OPERATIONS
    if home.__name__ not in table:
        return kind.__name__
    if changed := _changed(operation):
        return f"{kind.__name__}: {', '.join(changed)} is not that of {home.__name__}"
    if getattr(operation, "lora_enabled", False):
        return f"{kind.__name__} with LoRA"
    if getattr(operation, "quantization_mode", None):
        return f"{kind.__name__}, quantized"
    if getattr(operation, "_remat_mode", None):
        return f"{kind.__name__}, computed again on the way back"
    if home.__name__ == "Sequential" and operation._functional is None:
        return f"{kind.__name__}, which is no graph"
    if home.__name__ == "Einsum" and not re.fullmatch(r"[^,]+,[^,]+->[^,]*", operation.subscripts):
        return f"{kind.__name__} {operation.subscripts}"
    if home.__name__ == "RNN" or "cell" in vars(operation):
        of = cells(operation)
        strange = [type(cell).__name__ for cell in of if _home(cell).__name__ not in STATES or _changed(cell)]
        return f"{kind.__name__} of {', '.join(strange)}" if strange else ""
    return ""


def _changed(operation: Any) -> list[str]:
    """Methods that a user's subclass computes with instead of Keras'."""
    home, bases = _home(operation), type(operation).__mro__
    own = [(name, value) for each in bases[: bases.index(home)] for name, value in vars(each).items()]
    # Not what a backend's own base class has, such as torch's Module.half.
    of_keras = {name for each in home.__mro__ if each.__module__.startswith(HOMES) for name in vars(each)}
    return sorted({name for name, value in own if _is_method(name, value) and name in of_keras})


def _is_method(name: str, value: Any) -> bool:
    special = name.startswith("__") and name != "__call__"
    method = callable(value) or isinstance(value, property | staticmethod | classmethod)
    return method and not special and name not in HARMLESS
