"""What the question claims, and how each claim is judged on a machine."""

from traintime.book import stored
from traintime.book.chapters.question.analysis import (
    DOCUMENT,
    SOFTWARE,
    exponents,
    fits,
    limits,
    line_errors,
    percent,
    share,
)
from traintime.book.claims import Claim, Finding, above, below, every
from traintime.book.stored import ANY, Measurements
from traintime.explain.statistics import Interval


def _three_terms(measurements: Measurements) -> Finding | None:
    found = {name: fit.mean_error for name, fit in fits(measurements).items()}
    return _at_most(found, 0.1)


def _straight(measurements: Measurements) -> Finding | None:
    return _at_most(line_errors(measurements), 0.1)


def _at_most(errors: dict[str, float], most: float) -> Finding | None:
    shown = ", ".join(f"{name} {error:.1%}" for name, error in errors.items())
    return Finding(every(*(error <= most for error in errors.values())), shown)


def _shares_above(found: dict[str, Interval], least: float) -> Finding | None:
    """Whether each share lies above `least`, by its interval."""
    holds = every(*(above(one, least) for one in found.values()))
    return Finding(holds, ", ".join(f"{name} {percent(one)}" for name, one in found.items()))


def _fixed(measurements: Measurements) -> Finding | None:
    return _shares_above({name: share(fit, ["a", "b"]) for name, fit in fits(measurements).items()}, 0.5)


def _table(measurements: Measurements) -> Finding | None:
    return _shares_above({name: share(fit, ["b"]) for name, fit in fits(measurements).items()}, 0.5)


def _lead(measurements: Measurements) -> Finding | None:
    found = limits(fits(measurements))
    holds = every(*(below(one, 20) for one in found.values()))
    shown = "; ".join(f"{name} {found[key].text('.1f')}" for name, key in (("rows", "b"), ("sentences", "c")))
    return Finding(holds, shown)


def _length(measurements: Measurements) -> Finding | None:
    if measurements.machine == DOCUMENT:
        both = [exponents(fit) for fit in fits(measurements).values()]
        low, high = min(one["low"].low for one in both), max(one["high"].high for one in both)
        return Finding(high < 1, f"from the other tables, {low:.2f} to {high:.2f}")
    points = measurements.points(stack=SOFTWARE, vocabulary=280_000, length=ANY)
    row = measurements.exponents(points, "length").iloc[0]
    one = stored.interval(row, "exponent")
    return Finding(below(one, 1), f"{SOFTWARE} {one.text()} from {row['from']} to {row['to']} tokens")


CLAIMS = [
    Claim(
        "01.1",
        "On the document's software a step is a straight line in the vocabulary: through 20,000, 280,000 and 2 million "
        "rows it misses none by more than 10 %.",
        "ours, from S0's tables",
        _straight,
    ),
    Claim(
        "01.2",
        "One formula with three terms, a part for the step, one for each row and one for each sentence, gives the six "
        "cells over vocabulary and batch back with a mean error of at most 10 %.",
        "ours, from S0's tables",
        _three_terms,
    ),
    Claim(
        "01.3",
        "At 280,000 rows and batch 100 more than half of a step is paid whatever the batch.",
        "ours, from S0's tables",
        _fixed,
    ),
    Claim(
        "01.4",
        "At 280,000 rows and batch 100 more than half of a step is paid for the rows of the table.",
        "ours, from S0's tables",
        _table,
    ),
    Claim(
        "01.5",
        "The GPU's lead over the CPU stays below 20, whether the vocabulary grows or the batch.",
        "ours, against S0, C2",
        _lead,
    ),
    Claim(
        "01.6",
        "With 280,000 rows time grows less than in proportion to the length of the sentences.",
        "S0, C4",
        _length,
    ),
]
