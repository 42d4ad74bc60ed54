"""What an optimizer's update costs for each trained parameter, of Keras' optimizers and of PyTorch's."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from traintime.errors import InputError, unknown
from traintime.predict.work.layers import HOMES
from traintime.workloads.base import ADAM, UPDATES, Update

DECAY = 3  # two scalings and a difference

# The update of each optimizer with the arguments that Keras gives it where none are given; operations as Keras 3 writes
# it. Kingma & Ba 2015 (Adam, Adamax), Duchi et al. 2011 (Adagrad), Zeiler 2012 (Adadelta), Dozat 2016 (Nadam), Chen et
# al. 2023 (Lion), McMahan et al. 2013 (FTRL).
USUAL = {
    "adam": UPDATES["adam"],
    "adamw": UPDATES["adam"],
    "sgd": UPDATES["sgd"],
    "rmsprop": UPDATES["rmsprop"],
    # the sum of squares; the step: scale, add, root, divide, subtract
    "adagrad": Update(1, 2 + 5),
    # two means of squares; two roots of sums; the step: multiply, divide, negate; scale, add
    "adadelta": Update(2, 4 + 4 + 4 + 3 + 2),
    # Adam's two means; the mean that looks ahead; the other one corrected; the step
    "nadam": Update(2, 3 + 4 + 5 + 1 + 5),
    # the mean; the largest gradient; the step
    "adamax": Update(2, 3 + 3 + 5),
    # the sign of a mean, scaled and subtracted; the mean
    "lion": Update(1, 6 + 3),
    # shrinkage; sum of squares; linear term, a power counted as one; quadratic one; the step
    "ftrl": Update(2, 2 + 2 + 7 + 3 + 4),
}
# What an argument adds where it is set: slots, operations, and times that the gradient is read before the update.
ADDS = {
    "amsgrad": (1, 1, 0),
    "momentum": (1, 2, 0),
    "centered": (1, 5, 0),
    "use_ema": (1, 3, 0),
    "weight_decay": (0, DECAY, 0),
    "loss_scale_factor": (0, 1, 0),
    "clipvalue": (0, 2, 0),
    "clipnorm": (0, 3, 1),  # no gradient can be scaled before all have been read for the norm
    "global_clipnorm": (0, 3, 1),
}
NESTEROV = 3  # where there is a velocity: two scalings and a difference more

# By name: an argument's part where the name alone says that it is set; "momentum" is SGD with a velocity.
NAMED = USUAL | {"adamw": Update(2, ADAM + DECAY), "momentum": UPDATES["momentum"]}


def of(optimizer: Any) -> Update:
    """The update of a Keras optimizer, or of a name. One that is not in USUAL is asked for the variables that it makes
    for a small matrix; its operations are taken to be 2, and 5 for each number of optimizer state, as Adam has. Raises
    InputError for a name that is not known and for what is no Keras optimizer.
    """
    if isinstance(optimizer, str):
        if optimizer.lower() not in NAMED:
            raise unknown("optimizer", optimizer, list(NAMED))
        return NAMED[optimizer.lower()]
    kind = type(optimizer)
    if not any(each.__name__ == "BaseOptimizer" and each.__module__.startswith("keras.") for each in kind.__mro__):
        raise InputError("optimizer", optimizer, "is no Keras 3 optimizer", "Give one, or its name.")
    if kind.__name__ == "LossScaleOptimizer":
        inner = of(optimizer.inner_optimizer)
        return replace(inner, flops=inner.flops + 1, again=inner.again + 1)
    steps = optimizer.gradient_accumulation_steps or 1
    if not kind.__module__.startswith(HOMES) or kind.__name__.lower() not in USUAL:
        slots = _slots_made(optimizer)
        return Update(slots, 2 + 5 * slots, accumulated=steps)
    return _with_arguments(kind.__name__, lambda argument: getattr(optimizer, argument, None), steps)


def of_torch(optimizer: Any) -> Update:
    """The update of an optimizer of PyTorch, from its name and arguments; one that is not in USUAL counts as Adam."""
    name = type(optimizer).__name__
    return _with_arguments(name if name.lower() in USUAL else "adam", optimizer.defaults.get)


def _with_arguments(name: str, argument: Callable[[str], Any], accumulated: int = 1) -> Update:
    """The update of an optimizer in USUAL; argument: what it was given by an argument's name."""
    slots, flops, again = USUAL[name.lower()].slots, USUAL[name.lower()].flops, 0
    for each, (more_slots, more_flops, more_reads) in ADDS.items():
        if argument(each):
            slots, flops, again = slots + more_slots, flops + more_flops, again + more_reads
    if argument("momentum") and argument("nesterov"):
        flops += NESTEROV
    return Update(slots, flops, again, accumulated)


def _slots_made(optimizer: Any) -> int:
    """Variables as large as the parameter that an optimizer of this configuration makes for a matrix."""
    import keras

    try:
        made = type(optimizer).from_config(optimizer.get_config())
        made.build([keras.Variable("zeros", shape=(3, 5))])
    except Exception as error:
        problem = f"cannot be asked what it keeps ({error})"
        raise InputError("optimizer", type(optimizer).__name__, problem, "Give the name of one like it.") from error
    kept = sum(math.prod(variable.shape) for variable in made.variables if len(variable.shape) == 2) // (3 * 5)
    return kept - bool(optimizer.gradient_accumulation_steps)  # the sum of gradients is no slot, and paid apart
