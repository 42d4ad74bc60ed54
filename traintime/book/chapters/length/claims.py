"""What sentence length claims, and how each claim is judged on a machine."""

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import pandas as pd

from traintime.book import stored
from traintime.book.chapters.length.analysis import (
    LENGTHS,
    exponents,
    intervals,
    kept,
    missed,
    on,
    padding,
    some,
    table_of,
    tail,
)
from traintime.book.claims import Claim, Finding, above, below, every, higher, span, within
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval


def _range(found: pd.DataFrame) -> str:
    """Exponents of several stacks: "0.11 to 0.43"."""
    low, high = f"{found['exponent'].min():.2f}", f"{found['exponent'].max():.2f}"
    return low if low == high else f"{low} to {high}"


def _whole(found: pd.DataFrame) -> pd.DataFrame:
    """The stacks that were measured from 3 to 400 tokens. Raises KeyError without any."""
    return some(found[(found["from"] <= LENGTHS[0]) & (found["to"] >= LENGTHS[-1])])


def _limited(way: str, limit: float, side: Literal["below", "above"]) -> Callable[[Measurements], Finding]:
    """Judge whether each stack's exponent from 3 to 400 tokens, on 280,000 rows, lies on that side of a limit."""

    def find(book: Measurements) -> Finding:
        found = _whole(exponents(book).loc[way])
        nearest = found["exponent"].idxmax() if side == "below" else found["exponent"].idxmin()
        judge = below if side == "below" else above
        holds = every(*(judge(value, limit) for value in intervals(found).values()))
        return Finding(holds, f"{_range(found)}; nearest {nearest} {span(found.loc[nearest], 'exponent')}")

    return find


def _sub_linear(book: Measurements) -> Finding:
    table = table_of(book, frozen=False)
    found = exponents(book, table).loc["adam"]
    steepest = found["exponent"].idxmax()
    holds = every(*(below(value, 1) for value in intervals(found).values()))
    shown = f"{table:,} rows: {_range(found)}; steepest {steepest} {span(found.loc[steepest], 'exponent')}"
    return Finding(holds, shown)


def _frozen_steeper(book: Measurements) -> Finding:
    table = table_of(book)
    found = exponents(book, table)
    still, free = intervals(found.loc["adam"]), intervals(found.loc["frozen"])
    both = [stack for stack in still if stack in free]
    holds = every(*(higher(free[stack], still[stack]) for stack in both))
    ranges = [_range(found.loc[way].loc[both]) for way in ("adam", "frozen")]
    return Finding(holds, f"{table:,} rows: {ranges[0]}, frozen {ranges[1]}")


def _smaller_steeper(book: Measurements) -> Finding:
    found = exponents(book)
    sizes = [name for name in ("adam", "20K rows", "1K rows") if name in found.index.get_level_values("how")]
    verdicts = []
    for larger, smaller in pairwise(sizes):
        one, two = intervals(found.loc[larger]), intervals(found.loc[smaller])
        verdicts += [higher(two[stack], one[stack]) for stack in one if stack in two]
    names = {"adam": "280K rows"}
    return Finding(every(*verdicts), "; ".join(f"{names.get(s, s)} {_range(found.loc[s])}" for s in sizes))


def _sgd_between(book: Measurements) -> Finding:
    table = table_of(book)
    found = exponents(book, table)
    adam, sgd, frozen = (intervals(found.loc[way]) for way in ("adam", "sgd", "frozen"))
    both = [stack for stack in sgd if stack in adam and stack in frozen]
    steps = [(higher(sgd[stack], adam[stack]), higher(frozen[stack], sgd[stack])) for stack in both]
    hidden = [stack for stack, parts in zip(both, steps, strict=True) if None in parts]
    tail = f"; intervals overlap on {on(hidden)}" if hidden else ""
    return Finding(every(*(part for parts in steps for part in parts)), f"{_range(found.loc['sgd'])}{tail}")


def _rows_steeper(book: Measurements) -> Finding:
    table = table_of(book)
    found = exponents(book, table)
    dense = stored.interval(found.loc[("adam", "numpy")], "exponent")
    rows = stored.interval(found.loc[("adam-rows", "numpy")], "exponent")
    holds = every(higher(rows, dense), above(rows, 0.85))
    return Finding(holds, f"{table:,} rows: {rows.text()} against {dense.text()}")


def _foretold(book: Measurements) -> Finding:
    off = missed(book)
    worst = max(off, key=lambda stack: abs(off[stack].value), default="")
    parts = [verdict for value in off.values() for verdict in (below(value, 0.1), above(value, -0.1))]
    return Finding(every(*parts), f"worst {worst} {off[worst].text('+.2f')}")


def _proportional(book: Measurements) -> Finding:
    found = some(tail(book))
    holds = every(*(above(value, 0.9) for value in intervals(found).values()))
    lowest = found["low"].fillna(found["exponent"]).idxmin()
    return Finding(holds, f"{_range(found)}; lowest {lowest} {span(found.loc[lowest], 'exponent')}")


def _not_the_allocators(book: Measurements) -> Finding:
    found = some(kept(book))["tcmalloc"]
    steepest = max(found.index, key=lambda stack: found[stack].value)
    return Finding(every(*(below(value, 1) for value in found)), f"steepest {steepest} {found[steepest].text()}")


def _ratio(place: int, judge: Callable[[Interval], bool | None]) -> Callable[[Measurements], Finding]:
    """Judge each ratio of a table of `padding`; nothing is said of what ran at other times."""

    def find(book: Measurements) -> Finding:
        found = some(padding(book)[place])
        apart = found["reason"] == "not interleaved"
        parts = [
            None if away else judge(stored.interval(row))
            for away, (_, row) in zip(apart, found.iterrows(), strict=True)
        ]
        least = found.loc[found["ratio"].idxmin()]
        aside = ", not interleaved" if apart.any() else ""
        return Finding(every(*parts), f"least {least['stack']} {span(least)}{aside}")

    return find


CLAIMS = [
    Claim(
        "06.1",
        "Time is sub-linear in sentence length: with a large table in training, the exponent is below 1 on every "
        "stack.",
        "S0, C4",
        _sub_linear,
    ),
    Claim(
        "06.2",
        "With Adam on 280,000 rows, from 3 to 400 tokens, it is below 0.5.",
        "ours",
        _limited("adam", 0.5, "below"),
    ),
    Claim(
        "06.3",
        "The table's update is the cause: with the table frozen the exponent is higher, on every stack.",
        "ours",
        _frozen_steeper,
    ),
    Claim(
        "06.4",
        "With 280,000 rows frozen, from 3 to 400 tokens, it is above 0.85.",
        "ours",
        _limited("frozen", 0.85, "above"),
    ),
    Claim(
        "06.5",
        "The fewer rows the table has, the higher the exponent, on every stack.",
        "ours",
        _smaller_steeper,
    ),
    Claim(
        "06.6",
        "With plain SGD it lies between Adam's and the frozen table's, on every stack.",
        "ours",
        _sgd_between,
    ),
    Claim(
        "06.7",
        "Adam that writes only the batch's rows takes NumPy's exponent above 0.85, and above that of dense Adam.",
        "ours",
        _rows_steeper,
    ),
    Claim(
        "06.8",
        "Two measurements at 25 tokens, 280,000 rows and 5,000, foretell the exponent with Adam to within 0.1.",
        "ours",
        _foretold,
    ),
    Claim(
        "06.9",
        "Frozen, from 100 tokens on, it is above 0.9 on every stack.",
        "ours",
        _proportional,
    ),
    Claim(
        "06.10",
        "A padded token costs what a word costs: 25 words padded to 100 take at least 0.85 times as long as 100 words.",
        "ours",
        _ratio(0, lambda value: above(value, 0.85)),
    ),
    Claim(
        "06.11",
        "A mask gives no time back: with it a padded step takes at least 0.9 times as long as without.",
        "ours",
        _ratio(1, lambda value: above(value, 0.9)),
    ),
    Claim(
        "06.12",
        "The allocator is not the cause: under tcmalloc, too, the exponent from 3 to 100 tokens with Adam on 280,000 "
        "rows is below 1 on every stack.",
        "ours",
        _not_the_allocators,
    ),
    Claim(
        "06.13",
        "With 280,000 rows frozen, from 3 to 400 tokens, it is above 0.7.",
        "ours, as predicted",
        _limited("frozen", 0.7, "above"),
    ),
    Claim(
        "06.14",
        "Padding costs as much as words, within 5 %: 25 words padded to 100 against 100 words.",
        "ours, as predicted",
        _ratio(0, lambda value: within(value, 0.95, 1.05)),
    ),
]
