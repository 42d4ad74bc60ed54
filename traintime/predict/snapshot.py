"""All that a training changes in a model of Keras or PyTorch and around it, kept and put back."""

import functools
import random
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

HOMES = ("keras.", "torch.nn.", "torch.optim.")  # modules of the classes whose objects are looked into
TENSORS = ("torch.Tensor", "tensorflow.Variable")  # which training changes in place


class Snapshot:
    """The state of what trains (a model; a module, its optimizer and loss): of each object of Keras that can be reached
    from it, of PyTorch's modules, optimizers and generators, of classes that the file of the first one's class defines,
    and of the lists, dicts and sets between them. Random numbers are drawn again from where they were. values: whether
    the numbers in variables are kept as well, which needs a copy of them.
    """

    def __init__(self, *trained: Any, values: bool = True) -> None:
        self._contents: list[tuple[Any, list[Any]]] = []
        self._values: list[tuple[Callable[[Any], Any], Any]] = []
        self._copies: list[tuple[Callable[[Any], Any], Any]] = []
        self._random = _random_states()
        homes = (*HOMES, f"{type(trained[0]).__module__}.")
        seen, left = {}, [*trained, self._random[-1][1]]
        while left:
            thing = left.pop()
            if id(thing) in seen:
                continue
            seen[id(thing)] = thing  # so that nothing else gets its id
            if type(thing).__module__.startswith("tensorflow.python.trackable."):  # around a plain list or dict
                left.append(thing.__wrapped__ if hasattr(thing, "__wrapped__") else getattr(thing, "__dict__", None))
            elif isinstance(thing, dict):
                self._contents.append((thing, list(thing.items())))
                left += thing.values()
            elif isinstance(thing, list | set | tuple):
                self._contents += [] if isinstance(thing, tuple) else [(thing, list(thing))]
                left += thing
            elif _is_a(thing, *TENSORS):
                if getattr(thing, "is_leaf", False):  # of torch
                    self._values.append((functools.partial(setattr, thing, "grad"), thing.grad))
                if values and hasattr(thing, "detach"):  # of torch; copied into the processor's memory
                    self._copies.append((thing.detach().copy_, thing.detach().to("cpu", copy=True)))
                elif values:
                    self._copies.append((thing.assign, np.array(thing)))
            elif _is_a(thing, "torch.Generator"):
                self._values.append((thing.set_state, thing.get_state()))
            elif _is_a(thing, "keras.Variable"):
                self._variable(thing, values)
                left.append(thing._value)
            elif any(f"{each.__module__}.".startswith(homes) for each in type(thing).__mro__):
                left.append(getattr(thing, "__dict__", None))

    def _variable(self, variable: Any, values: bool) -> None:
        self._values.append((lambda trainable: setattr(variable, "trainable", trainable), variable.trainable))
        # A deferred table says how what its rows owe is kept.
        others = {name: value for name, value in vars(variable).items() if name != "_value"}
        self._values.append((vars(variable).update, others))
        if variable._value is None:  # a variable of a model that is not built, without numbers yet
            self._values.append((lambda none: setattr(variable, "_value", none), None))
        elif values and not _is_a(variable._value, *TENSORS):
            # A deferred table's own `assign` would first train the rows that are behind.
            put_back = functools.partial(sys.modules["keras"].Variable.assign, variable)
            self._copies.append((put_back, np.array(variable._value)))

    @property
    def bytes(self) -> int:
        """Memory of this process that the copies of numbers take."""
        return sum(copy.nbytes for _, copy in self._copies)

    def put_back(self) -> None:
        """Make everything what it was."""
        for thing, content in self._contents:
            _refill(thing, content)
        for put_back, value in [*self._values, *self._copies, *self._random]:
            put_back(value)


def _refill(thing: Any, content: list[Any]) -> None:
    """Give a list, dict or set its elements back, by its base's methods: Keras' own kinds keep books of changes."""
    if isinstance(thing, dict):
        if len(thing) == len(content) and all(thing.get(name, thing) is value for name, value in content):
            return
        base = OrderedDict if isinstance(thing, OrderedDict) else dict
        for name in list(thing):
            base.__delitem__(thing, name)
        for name, value in content:
            base.__setitem__(thing, name, value)
    elif len(thing) != len(content) or any(a is not b for a, b in zip(thing, content, strict=True)):
        base, fill = (list, list.extend) if isinstance(thing, list) else (set, set.update)
        base.clear(thing)
        fill(thing, content)


def _is_a(thing: Any, *kinds: str) -> bool:
    """Whether it is of one of these classes, of modules that may not be loaded."""
    homes = (kind.split(".") for kind in kinds)
    return isinstance(thing, tuple(getattr(sys.modules.get(home), name, ()) for home, name in homes))


def _random_states() -> list[tuple[Callable[[Any], Any], Any]]:
    """What puts back each generator that all draw from, and its state; Keras' own of seeds, or None, comes last."""
    found: list[tuple[Callable[[Any], Any], Any]] = [(random.setstate, random.getstate())]
    found.append((np.random.set_state, np.random.get_state()))
    if torch := sys.modules.get("torch"):
        found.append((torch.set_rng_state, torch.get_rng_state()))
        if torch.cuda.is_initialized():
            found.append((torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
    if "keras" not in sys.modules:
        return [*found, (lambda none: None, None)]
    from keras.src.backend.common import global_state
    from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR

    put_back = functools.partial(global_state.set_global_attribute, GLOBAL_SEED_GENERATOR)
    return [*found, (put_back, global_state.get_global_attribute(GLOBAL_SEED_GENERATOR))]
