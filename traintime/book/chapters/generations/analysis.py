"""Chapter 07, Theano and TensorFlow: three generations side by side, what an allocator changes, and what it claims."""

from typing import Any

import numpy as np
import pandas as pd

from traintime.book import stored
from traintime.book.chapters import vocabulary
from traintime.book.chapters.vocabulary import VOCABULARIES
from traintime.book.claims import above
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula
from traintime.explain.statistics import Interval
from traintime.point import fields
from traintime.workloads.base import FLOAT

RIVALS = [("2017-tensorflow", "2017-theano"), ("2020-tensorflow", "2020-theano")]  # above, below
SUCCESSORS = [
    ("2017-theano", "2020-theano"),
    ("2017-tensorflow", "2020-tensorflow"),
    ("2020-tensorflow", "2026-tensorflow"),
    ("2017-tensorflow", "2026-tensorflow"),
]
YEARS = ("2017", "2020")
BATCHES = [8, 32, 128, 1024, 4096]
FREED = 200_000  # rows, of the sweep over allocators
ALLOCATORS = ["glibc", "tcmalloc"]
PAGE = 4096  # bytes


# The points


def by_vocabulary(book: Measurements) -> pd.DataFrame:
    """The invocations of the sweep over the vocabulary; of a reader's own run whatever sizes it has."""
    return book.invocations(vocabulary=VOCABULARIES if book.machine in stored.listed() else ANY)


def rivals(book: Measurements) -> dict[str, pd.DataFrame]:
    """TensorFlow over Theano in each generation, against vocabulary and batch (at 280,000 rows): tables of ratios."""
    by_batch = book.invocations(batch=BATCHES)
    return {
        "vocabulary": book.ratios(by_vocabulary(book), RIVALS, against="vocabulary"),
        "batch": book.ratios(by_batch, RIVALS, against="batch"),
    }


def successors(book: Measurements) -> pd.DataFrame:
    """Older over newer software against the vocabulary: above 1, the newer one is faster."""
    return book.ratios(by_vocabulary(book), SUCCESSORS, against="vocabulary")


def freed(book: Measurements) -> pd.DataFrame:
    """The rivals at 200,000 rows under glibc and under tcmalloc, and TensorFlow 1.15 over 1.1."""
    found = book.invocations(vocabulary=FREED, allocator=ALLOCATORS)
    return book.ratios(found, [*RIVALS, ("2020-tensorflow", "2017-tensorflow")], against="length")


def blocks(book: Measurements) -> pd.Series:
    """Blocks of the table's size that a step maps anew at 200,000 rows, by stack and allocator, from page faults."""
    found = book.invocations(vocabulary=FREED, allocator=ALLOCATORS)
    pages = FREED * fields()["embedding"].default * FLOAT / PAGE
    return found.groupby(["stack", "allocator"])["faults_a_step"].mean() / pages


# Why


def two_parts(book: Measurements) -> pd.DataFrame:
    """What a row costs on each stack, and what the rest does: seconds, one row a stack; NaN where nobody measured it.

    Columns row, row_low, row_high (see vocabulary.price_of_a_row), rest (the fixed part of the straight line through
    its vocabularies), frozen (a step with 20,000 rows frozen), versions.
    """
    found = vocabulary.by_vocabulary(book)
    prices, lines = vocabulary.price_of_a_row(book, found), book.lines(found)
    still = book.points(vocabulary=20_000, frozen=True).set_index("stack")["step_s"]
    rows = []
    for stack, group in found[found["stack"] != "numpy"].groupby("stack", sort=False):
        price = prices.get((stack, "adam"), Interval(np.nan))
        line = lines.get((stack, "adam"))
        row = {"stack": stack, "row": price.value, "row_low": price.low, "row_high": price.high}
        row |= {"rest": line.coefficients["a"] if line else np.nan, "frozen": still.get(stack, np.nan)}
        rows.append(row | {"versions": group["versions"].iloc[-1]})
    return pd.DataFrame(rows, columns=["stack", "row", "row_low", "row_high", "rest", "frozen", "versions"])


def price_ratio(book: Measurements, year: str) -> Interval:
    """How many times as much a row costs on TensorFlow as on Theano. Raises KeyError where one has no price."""
    names = (f"{year}-tensorflow", "adam"), (f"{year}-theano", "adam")
    return vocabulary.ratio_of_prices(book, vocabulary.by_vocabulary(book), *names)


def rest_ratio(book: Measurements, year: str) -> Interval:
    """Ratio of the fixed parts of the straight lines through the vocabularies, TensorFlow over Theano."""
    lines = book.lines(vocabulary.by_vocabulary(book))
    one, two = lines[f"{year}-tensorflow", "adam"], lines[f"{year}-theano", "adam"]
    return formula.interval(one.draws["a"] / two.draws["a"], one.coefficients["a"] / two.coefficients["a"])


def crossing(book: Measurements, year: str) -> float | None:
    """Rows at which the two straight lines meet; None where they do not. Raises KeyError without them."""
    lines = book.lines(vocabulary.by_vocabulary(book))
    one, two = (lines[f"{year}-{name}", "adam"].coefficients for name in ("tensorflow", "theano"))
    rows = (two["a"] - one["a"]) / (one["b"] - two["b"]) if one["b"] != two["b"] else -1.0
    return rows if rows > 0 else None


def over(one: Interval, other: Interval) -> Interval:
    """Ratio of two ratios that were measured apart from each other; their errors add up in squares, on logarithms."""
    value = one.value / other.value
    low = np.hypot(np.log(one.value / one.low), np.log(other.high / other.value))
    high = np.hypot(np.log(one.high / one.value), np.log(other.value / other.low))
    return Interval(value, float(value * np.exp(-low)), float(value * np.exp(high)))


def at_least(row: pd.Series, limit: float) -> bool | None:
    """Whether a ratio is a limit or more; what did not run side by side decides nothing."""
    return None if row["reason"] == "not interleaved" else above(stored.interval(row), limit)


def row_of(found: pd.DataFrame, **wanted: Any) -> pd.Series:
    """The row of a table of ratios with these values. Raises IndexError where there is none."""
    for name, value in wanted.items():
        found = found[found[name] == value]
    return found.iloc[0]
