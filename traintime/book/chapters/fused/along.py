"""Keras' loop on torch over ever more positions: as it is, and with what it reads at each taken apart before it.

In Keras 3.15 the loop reads the product of all positions' inputs position by position; the gradient of each such
reading is as large as all of them (torch's SelectBackward), so that the way back is quadratic in the length.
"""

from collections.abc import Callable

import pandas as pd

from traintime.book import page, stored
from traintime.book.chapters.fused.analysis import SIZES, WAYS, ways
from traintime.book.claims import Claim, Finding, above, below
from traintime.book.stored import ANY, Measurements
from traintime.explain.statistics import Interval

TORCH = "2026-torch"
BATCH = 64  # of these steps alone, so that the chapter's other sizes are others
LOOP, APART, CELL, ONE = (WAYS[name] for name in ("default", "apart", "cell", "native"))
Judge = Callable[[Measurements], Finding]
ENDS = (50, 200)  # positions that the growth is told between


def over_positions(book: Measurements) -> pd.DataFrame:
    """Steps over the positions, one row a stack, way (`how`) and length; empty where nobody measured them."""
    found = book.points(**SIZES | {"batch": BATCH}, algorithm=ANY)
    if "algorithm" not in found or not {"apart", "default"} <= set(found["algorithm"]):
        return found.iloc[:0]
    return found.assign(how=ways(found))


def growth(book: Measurements, stack: str, how: str, between: tuple[int, int] = ENDS) -> Interval:
    """Times a step takes longer with the larger number of positions. Raises KeyError where it was not measured."""
    found = over_positions(book)
    found = found[(found["stack"] == stack) & (found["how"] == how) & found["length"].isin(between)]
    if len(found) < 2:
        raise KeyError(f"{stack}, {how}")
    slope = book.exponents(found, "length").iloc[0]
    times = between[1] / between[0]
    return Interval(*(float(times ** slope[name]) for name in ("exponent", "low", "high")))


def gains(book: Measurements) -> pd.DataFrame:
    """The loop over each other way on torch, by length: Measurements.ratios, `below` the other way."""
    found = book.invocations(**SIZES | {"stack": TORCH, "batch": BATCH}, algorithm=ANY)
    if "algorithm" not in found:
        return found.iloc[:0]
    pairs = [(LOOP, way) for way in (CELL, APART, ONE)]
    ratios = book.ratios(found.assign(algorithm=ways(found)), pairs, of="algorithm", against="length")
    return ratios[ratios["sweep"] != ""].reset_index(drop=True)


def gain(book: Measurements, way: str) -> pd.Series:
    """The row of `gains` at the most positions. Raises KeyError where it was not measured."""
    found = gains(book)
    if found.empty or not (rows := found[(found["below"] == way) & (found["length"] == ENDS[1])]).shape[0]:
        raise KeyError(way)
    return rows.iloc[0]


def values(book: Measurements) -> dict[str, str]:
    """Every number that the section's sentences name."""
    asked: dict[str, Callable[[], str]] = {
        "along-there": lambda: page.title(book, over_positions(book)),
        "along-loop": lambda: growth(book, TORCH, LOOP).text(),
        "along-apart": lambda: growth(book, TORCH, APART).text(),
        "along-tensorflow": lambda: growth(book, "2026-tensorflow", LOOP, (25, 200)).text(),
        "along-jax": lambda: growth(book, "2026-jax", LOOP, (25, 200)).text(),
        "along-gain": lambda: page.span(gain(book, APART)),
        "along-cell": lambda: page.span(gain(book, CELL)),
        "along-one": lambda: page.span(gain(book, ONE)),
    }
    return {f"fus-{name}": page.or_not_measured(give) for name, give in asked.items()}


def _grows(
    how: str, judge: Callable[[Interval, float], bool | None], limit: float
) -> Callable[[Measurements], Finding]:
    def find(book: Measurements) -> Finding:
        times = growth(book, TORCH, how)
        return Finding(judge(times, limit), f"{times.text()} times for four times the positions")

    return find


def _gains(way: str, limit: float) -> Judge:
    def find(book: Measurements) -> Finding:
        row = gain(book, way)
        return Finding(above(stored.interval(row), limit), f"{page.span(row)} times as fast, {row['reason']}")

    return find


CLAIMS = [
    Claim(
        "08.13",
        "On torch Keras' loop is far from proportional to its positions: 200 take more than six times as long as 50.",
        "ours",
        _grows(LOOP, above, 6),
    ),
    Claim(
        "08.14",
        "With the inputs of the positions taken apart before the loop, 200 take less than five times as long as 50.",
        "ours",
        _grows(APART, below, 5),
    ),
    Claim(
        "08.15",
        "Taking them apart makes a step of 200 positions on torch at least three times as fast.",
        "ours",
        _gains(APART, 3),
    ),
    Claim(
        "08.16",
        "Keras' RNN around an LSTMCell makes a step of 200 positions on torch at least one and a half times as fast.",
        "ours",
        _gains(CELL, 1.5),
    ),
]
