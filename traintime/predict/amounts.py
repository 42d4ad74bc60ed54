"""Amounts of memory as people write them: "16GB", "512 MiB"."""

import math
import re

from traintime.errors import InputError

UNITS = {"": 1, "b": 1}
UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)}
UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)}
UNITS |= {letter: 1000**power for power, letter in enumerate("kmgt", start=1)}
REMEDY = 'Give an amount such as "16GB", "512 MiB" or a number of bytes.'


def bytes_of(given: str | float, field: str = "memory") -> float:
    """Bytes of a text or a number. Raises InputError, which names `field`, for what is no amount above zero."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(given).strip().lower())
    if not found or found[2] not in UNITS:
        raise InputError(field, given, "is no amount of memory", REMEDY)
    value = float(found[1]) * UNITS[found[2]]
    if not 0 < value < math.inf:
        raise InputError(field, given, "is no amount above zero", REMEDY)
    return value
