"""What one formula claims, and how each claim is judged on a machine."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from traintime.book.bench_formula import GOAL
from traintime.book.chapters.one_formula.analysis import (
    BENT,
    DOCUMENT,
    bent,
    floors,
    nearer,
    over_floor,
    percent,
    ratios,
    sharp,
    straight,
    too_much,
)
from traintime.book.claims import Claim, Finding, above, below, every
from traintime.book.stored import Measurements
from traintime.explain import formula
from traintime.explain.statistics import Interval


def _some(parts: list[bool | None]) -> bool | None:
    """Whether one at least holds. Raises KeyError without any."""
    if not parts:
        raise KeyError("nothing to judge")
    return True if True in parts else None if None in parts else False


def _least(intervals: Mapping[str, Interval], spec: str = ".1f") -> str:
    stack = min(intervals, key=lambda name: intervals[name].value)
    return f"least: {intervals[stack].text(spec)} on {stack}"


def _row_above_twice_its_floor(book: Measurements) -> Finding:
    floor = floors(book)
    over = {stack: one.fit.interval("b").scaled(1 / floor["b"]) for stack, one in straight(book).items()}
    return Finding(every(*(above(each, 2) for each in over.values())), _least(over))


def _rows_are_most_of_a_step(book: Measurements) -> Finding:
    at = pd.DataFrame({name: [value] for name, value in DOCUMENT.items()})
    found = {}
    for stack, one in straight(book).items():
        parts = one.fit.draws * one.fit.formula.design(at)[0]
        value = one.fit.parts(at).iloc[0]
        found[stack] = formula.interval(parts["b"] / parts.sum(axis=1), float(value["b"] / value.sum()))
    return Finding(every(*(above(each, 0.5) for each in found.values())), _least(found, ".0%"))


def _bend_halves_the_error(book: Measurements) -> Finding:
    stack = BENT[0]
    line, bend = straight(book)[stack], bent(book)[stack]
    errors = np.abs(np.column_stack([bend.left_out, line.left_out]))
    random = np.random.default_rng(0)
    means = errors[random.integers(len(errors), size=(2000, len(errors)))].mean(axis=1)
    share = formula.interval(pd.Series(means[:, 0] / means[:, 1]), bend.mean_left_out / line.mean_left_out)
    shown = f"{percent(line.mean_left_out)} to {percent(bend.mean_left_out)}, {share.text('.2f')} times"
    return Finding(below(share, 0.5), f"{shown}, {len(errors)} points")


def _rows_beyond_cost_more(book: Measurements) -> Finding:
    more = {stack: bent(book)[stack].fit.interval("m") for stack in BENT}
    shown = "; ".join(f"{stack} {each.text(',.0f', 1e9)} ns" for stack, each in more.items())
    return Finding(every(*(above(each, 0) for each in more.values())), shown)


def _surcharge_is_the_allocators(book: Measurements) -> Finding:
    bends = bent(book)
    margins = nearer(book, bends)
    chosen = {stack: margins[stack] for stack in BENT}
    return Finding(every(*(above(each, 0) for each in chosen.values())), f"with it larger by: {ratios(chosen, '.0%')}")


def _near_the_floor(book: Measurements) -> Finding:
    over = over_floor(book, bent(book), floors(book))
    return Finding(_some([below(each, 2) for each in over.values()]), _least(over) if over else "")


def _promised_too_much(book: Measurements) -> Finding:
    promised = too_much(book, bent(book))
    chosen = {stack: promised[stack] for stack in ("2026-tensorflow", "2026-jax")}
    return Finding(every(*(above(each, 1.25) for each in chosen.values())), ratios(chosen))


def _sharp_under_tcmalloc(book: Measurements) -> Finding:
    found = sharp(book)
    if len(found) < 4:
        raise KeyError("fewer than four stacks have points enough")
    within = [one.within for one in found]
    possible = len(within) - within.count(False)
    holds = True if within.count(True) >= 3 else False if possible < 3 else None
    return Finding(holds, ratios({one.stack: one.ratio for one in found}))


CLAIMS = [
    Claim(
        "14.1",
        "Under glibc a row costs more than twice its floor on every stack, by a line through all sizes.",
        "ours",
        _row_above_twice_its_floor,
    ),
    Claim(
        "14.2",
        "Under glibc the rows take more than half of a step at 280,000 rows, batch 100 and length 25, on every stack.",
        "ours",
        _rows_are_most_of_a_step,
    ),
    Claim(
        "14.3",
        "On TensorFlow 1.15 a second price for rows beyond 32 MiB at least halves the error for points left out.",
        "ours",
        _bend_halves_the_error,
    ),
    Claim(
        "14.4",
        "Under glibc a row beyond 32 MiB costs more than one before on TensorFlow 1.15, torch and NumPy.",
        "ours",
        _rows_beyond_cost_more,
    ),
    Claim(
        "14.5",
        "On these three the formula that was fitted under glibc is nearer to the points under tcmalloc without that "
        "surcharge than with it.",
        "ours",
        _surcharge_is_the_allocators,
    ),
    Claim(
        "14.6",
        "On Keras 3 with TensorFlow and with JAX even the formula without the surcharge promises more than 1.25 times "
        "what a step at 200,000 rows takes under tcmalloc.",
        "ours",
        _promised_too_much,
    ),
    Claim(
        "14.7",
        "Under tcmalloc a row costs less than twice its floor on at least one stack, at 200,000 rows.",
        "ours",
        _near_the_floor,
    ),
    Claim(
        "14.8",
        f"Under tcmalloc the formula's leave-one-out error is within {GOAL:g} times the repeat error of the points on "
        "at least three of four stacks.",
        "ours",
        _sharp_under_tcmalloc,
    ),
]
