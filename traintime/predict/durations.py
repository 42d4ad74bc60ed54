"""Durations as people write them: "8h", "1h30m", "2d 4h", and back to "1 h 12 min"."""

import math
import re
from datetime import timedelta
from numbers import Real

from traintime.errors import InputError

REMEDY = 'Give a time such as "8h", "90m", "1h30m", "2d 4h" or "45s".'
UNITS = {"d|days?": 86_400.0, "h|hours?": 3600.0, "m|min|minutes?": 60.0, "s|sec|seconds?": 1.0}
# A unit twice or after a shorter one ("5m 2h") is rather a slip of the pen than a sum.
WORDS = re.compile(r"(-?)\s*" + "".join(rf"(?:(\d+(?:\.\d+)?)\s*(?:{names})\s*)?" for names in UNITS))
LIMIT = 2**1000  # where Python's whole numbers outgrow its floats
YEARS, YEAR_S = 10_000, 365.25 * 86_400  # a calendar has no more years than so many


def seconds(given: str | float | timedelta, field: str = "duration") -> float:
    """Seconds of a text ("8h", "90m", "1h30m", "2d 4h", "45s", "1.5 h"), of a timedelta, or of a number of seconds.

    Units: d, h, m or min, s, or their names, each once at most, longer ones first. Raises InputError, which names
    `field`, for what is no duration, negative, not finite, or longer than YEARS.
    """
    words = WORDS.fullmatch(given.strip().lower()) if isinstance(given, str) else None
    if words and any(words.groups()[1:]):
        sign, *numbers = words.groups()
        found = sum(float(number or 0) * unit for number, unit in zip(numbers, UNITS.values(), strict=True))
        negative = sign == "-"
    elif isinstance(given, timedelta):
        found, negative = given.total_seconds(), given.total_seconds() < 0
    elif isinstance(given, Real) and not isinstance(given, bool):
        # NaN, too, is not below the limit.
        found, negative = float(given) if abs(given) < LIMIT else math.inf, given < 0
    else:
        raise InputError(field, given, "is no duration", REMEDY)
    if negative:
        raise InputError(field, given, "is negative", REMEDY)
    if not math.isfinite(found):
        raise InputError(field, given, "is not finite", REMEDY)
    if found > YEARS * YEAR_S:
        raise InputError(field, given, f"is longer than {YEARS:,} years", REMEDY)
    return found


def text(duration: float) -> str:
    """Seconds in the two largest units, rounded to the smaller: "2 d 4 h", "1 h 12 min", "3 min 20 s", "45 s", "4.2 s".
    `seconds` reads it back, unless it is longer than YEARS. Raises InputError as `seconds` does.
    """
    if YEARS * YEAR_S < duration < math.inf:
        return f"more than {YEARS:,} years"
    left = seconds(duration)
    if left < 9.95:
        return f"{left:.1f}".removesuffix(".0") + " s"
    # Each rounds first and then looks whether the next unit is reached: 59.6 s are 1 min and not 60 s.
    if (whole := round(left)) < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(whole, 60, "min", "s")
    if (whole := round(left / 60)) < 24 * 60:
        return _two(whole, 60, "h", "min")
    return _two(round(left / 3600), 24, "d", "h")


def _two(number: int, size: int, large: str, small: str) -> str:
    whole, rest = divmod(number, size)
    return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"
