"""What Theano and TensorFlow claims, and how each claim is judged on a machine."""

import pandas as pd

from traintime.book import stored
from traintime.book.chapters.generations.analysis import (
    ALLOCATORS,
    RIVALS,
    SUCCESSORS,
    YEARS,
    at_least,
    blocks,
    freed,
    over,
    price_ratio,
    rest_ratio,
    rivals,
    row_of,
    successors,
)
from traintime.book.claims import Claim, Finding, above, below, every, span
from traintime.book.stored import Measurements


def _won(row: pd.Series, who: str) -> bool | None:
    """Whether that one of the two is told to be the faster one; None where nobody is."""
    return None if pd.isna(row["faster"]) else bool(row["faster"] == who)


def _aside(row: pd.Series) -> str:
    """A ratio as a claim's table shows it."""
    text = span(row)
    return text if row["reason"] == "told apart" else f"{text}, {row['reason']}"


def _listed(found: pd.DataFrame) -> str:
    """Ratios by vocabulary: "1.22 at 5,000, 1.50 at 20,000 rows"; what cannot be told apart is marked."""
    parts = [
        f"{row['ratio']:.2f}{'' if pd.notna(row['faster']) else '?'} at {row['vocabulary']:,}"
        for _, row in found.iterrows()
    ]
    return ", ".join(parts) + " rows"


def _twice_both(book: Measurements) -> Finding:
    found = rivals(book)["vocabulary"]
    rows = [row_of(found, above=pair[0], vocabulary=280_000) for pair in RIVALS]
    shown = "; ".join(f"{year}: {_aside(row)}" for year, row in zip(YEARS, rows, strict=True))
    return Finding(every(*(at_least(row, 2) for row in rows)), shown)


def _theano_in_2017(book: Measurements) -> Finding:
    found = rivals(book)["vocabulary"]
    rows = found[(found["above"] == "2017-tensorflow") & (found["vocabulary"] >= 5_000)]
    return Finding(every(*(_won(row, "2017-theano") for _, row in rows.iterrows())), _listed(rows))


def _turned_in_2020(book: Measurements) -> Finding:
    found = rivals(book)["vocabulary"]
    rows = found[found["above"] == "2020-tensorflow"]
    small, large = rows[rows["vocabulary"].between(5_000, 20_000)], rows[rows["vocabulary"] >= 80_000]
    parts = [every(*(_won(row, "2020-tensorflow") for _, row in small.iterrows()))]
    parts += [every(*(_won(row, "2020-theano") for _, row in large.iterrows()))]
    return Finding(every(*parts), _listed(pd.concat([small, large])))


def _lead_grows(book: Measurements) -> Finding:
    found = rivals(book)["vocabulary"]
    small, large = (row_of(found, above="2017-tensorflow", vocabulary=size) for size in (5_000, 280_000))
    grown = over(stored.interval(large), stored.interval(small))
    apart = "not interleaved" in (small["reason"], large["reason"])
    return Finding(None if apart else above(grown, 1), f"{grown.text()} times as large")


def _equal_at_large_batches(book: Measurements) -> Finding:
    found = rivals(book)["batch"]
    rows = [row_of(found, above=pair[0], batch=1024) for pair in RIVALS]
    parts = [None if row["reason"] == "not interleaved" else below(stored.interval(row), 2) for row in rows]
    return Finding(every(*parts), "; ".join(f"{year}: {_aside(row)}" for year, row in zip(YEARS, rows, strict=True)))


def _rows_cost_more(book: Measurements) -> Finding:
    prices = [price_ratio(book, year) for year in YEARS]
    shown = "; ".join(f"{year}: {price.text('.1f')}" for year, price in zip(YEARS, prices, strict=True))
    return Finding(every(*(above(price, 1) for price in prices)), shown)


def _rest_costs_less(book: Measurements) -> Finding:
    ratio = rest_ratio(book, "2020")
    return Finding(below(ratio, 1), f"{ratio.text()} times")


def _allocator_decides(book: Measurements) -> Finding:
    found = freed(book)
    plain, kept = (row_of(found, above="2020-tensorflow", below="2020-theano", allocator=name) for name in ALLOCATORS)
    falls = over(stored.interval(kept), stored.interval(plain))
    apart = "not interleaved" in (plain["reason"], kept["reason"])
    holds = None if apart else below(falls, 0.5)
    aside = "; not interleaved" if apart else ""
    return Finding(holds, f"{span(plain)} under glibc, {span(kept)} under tcmalloc{aside}")


def _own_allocator(book: Measurements) -> Finding:
    mapped = blocks(book)
    plain, kept = (float(mapped["2017-tensorflow", name]) for name in ALLOCATORS)
    return Finding(kept > 0.9 * plain, f"{plain:.1f} and {kept:.1f} blocks of the table's size a step")


def _newer_is_faster(book: Measurements) -> Finding:
    old, new = SUCCESSORS[3]
    found = successors(book)
    rows = found[(found["above"] == old) & (found["below"] == new)]
    return Finding(every(*(_won(row, new) for _, row in rows.iterrows())), _listed(rows))


def _not_at_every_stage(book: Measurements) -> Finding:
    old, new = SUCCESSORS[1]
    row = row_of(successors(book), above=old, below=new, vocabulary=280_000)
    return Finding(_won(row, old), _aside(row))


def _freed_stage(book: Measurements) -> Finding:
    row = row_of(freed(book), above="2020-tensorflow", below="2017-tensorflow", allocator="tcmalloc")
    return Finding(_won(row, "2020-tensorflow"), _aside(row))


CLAIMS = [
    Claim(
        "07.1",
        "At 280,000 rows and batch 100 TensorFlow takes at least twice Theano's step, in the software of 2017 and in "
        "that of 2020.",
        "S0, C5",
        _twice_both,
    ),
    Claim(
        "07.2",
        "In the software of 2017 Theano is the faster one with every table from 5,000 rows on.",
        "ours",
        _theano_in_2017,
    ),
    Claim(
        "07.3",
        "In that of 2020 TensorFlow is the faster one at 5,000 and 20,000 rows, and Theano from 80,000 rows on.",
        "ours",
        _turned_in_2020,
    ),
    Claim(
        "07.4",
        "In 2017 Theano's lead grows with the table: the ratio is larger at 280,000 rows than at 5,000.",
        "ours",
        _lead_grows,
    ),
    Claim(
        "07.5",
        "With 280,000 rows and batch 1,024 TensorFlow takes less than twice Theano's step, in both generations.",
        "ours",
        _equal_at_large_batches,
    ),
    Claim(
        "07.6",
        "A further row costs more on TensorFlow than on Theano, in both generations (80,000 to 280,000 rows, glibc).",
        "ours",
        _rows_cost_more,
    ),
    Claim(
        "07.7",
        "In 2020 the rest of a step costs less on TensorFlow than on Theano, by the straight lines through the "
        "vocabularies.",
        "ours",
        _rest_costs_less,
    ),
    Claim(
        "07.8",
        "In 2020 the allocator decides: at 200,000 rows TensorFlow's step in units of Theano's is under tcmalloc less "
        "than half of what it is under glibc.",
        "ours",
        _allocator_decides,
    ),
    Claim(
        "07.9",
        "TensorFlow 1.1 has an allocator of its own: under tcmalloc it maps more than 0.9 times as much memory anew at "
        "every step as under glibc.",
        "ours",
        _own_allocator,
    ),
    Claim(
        "07.10",
        "Newer software is faster: from TensorFlow 1.1 to Keras 3 on TensorFlow, at every vocabulary.",
        "S1",
        _newer_is_faster,
    ),
    Claim(
        "07.11",
        "But not at every stage: under glibc TensorFlow 1.15 is slower than 1.1 at 280,000 rows.",
        "ours",
        _not_at_every_stage,
    ),
    Claim(
        "07.12",
        "Under tcmalloc TensorFlow 1.15 is faster than 1.1 at 200,000 rows.",
        "ours",
        _freed_stage,
    ),
]
