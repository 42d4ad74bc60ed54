"""Data sets that Keras fetches once and keeps in a folder: where a file lies, and what to do where it cannot be had."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traintime.errors import InputError


def load(name: str, reader: Callable[[], Any], field: str, value: str, instead: str) -> Any:
    """What the reader makes of the file of this name.

    field, value: what was asked for; instead: what needs no file. Raises InputError where the file cannot be had: one
    that is damaged, which Keras removes and would fetch again, is named, and where a sound one belongs.
    """
    path = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras") / "datasets" / name  # where Keras keeps it
    was_there = path.exists()  # before Keras looks at it
    try:
        return reader()
    except Exception as error:  # what Keras raises differs with what went wrong
        problem, remedy = "cannot be fetched", "Connect to the network"
        if was_there:
            problem = f"cannot be had: {path} was damaged, and no other could be fetched"
            remedy = f"Put a sound {name} there"
        raise InputError(field, value, f"{problem} ({type(error).__name__})", f"{remedy}, or {instead}.") from None
