"""Measure and explain how long a model trains and how much memory it needs."""

import importlib
from typing import Any

__version__ = "0.2.0"

# What `traintime.NAME` gives, and the module that has it. They are imported when they are first asked for (PEP 562):
# Keras takes seconds to import, and the package has to be there without it.
PUBLIC = {
    "Estimate": "traintime.predict.answer",
    "Eta": "traintime.predict.ending.eta",
    "TrainingLoop": "traintime.predict.ending.loop",
    "estimate": "traintime.predict.estimate",
    "largest": "traintime.predict.largest",
    "module_memory": "traintime.predict.largest",
    "track": "traintime.predict.ending.loop",
}


def __getattr__(name: str) -> Any:
    if name == "deferred":  # a module
        return importlib.import_module("traintime.deferred")
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with importlib.import_module("traintime.predict.own").loading():
        found = getattr(importlib.import_module(PUBLIC[name]), name)
    globals()[name] = found  # asked for once only
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC, "deferred"})
