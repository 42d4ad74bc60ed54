"""Chapter 06, Theano and TensorFlow: three generations side by side, what an allocator changes, and what it claims."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import page, stored
from traintime.book.chapters import vocabulary
from traintime.book.chapters.vocabulary import VOCABULARIES
from traintime.book.claims import Claim, Finding, above, below, every
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


# For the prose


def row_of(found: pd.DataFrame, **wanted: Any) -> pd.Series:
    """The row of a table of ratios with these values. Raises IndexError where there is none."""
    for name, value in wanted.items():
        found = found[found[name] == value]
    return found.iloc[0]


# What the sentences say of the second machine, too, as tf-second-...
ELSEWHERE = (
    *("280-2017", "280-2020", "cross-2017", "cross-2020", "told", "blas", "turned-glibc", "turned-tcmalloc"),
    *("turned-verdict", "kept-glibc", "kept-tcmalloc", "turned-own", "turned-free", "mid-verdict", "last-280"),
    *("new-5", "new-280"),
)


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that a machine cannot give says so."""
    given = {f"tf-{name}": page.or_not_measured(give) for name, give in _asked(book).items()}
    others = [name for name in stored.listed() if name != stored.reference()]
    second = _asked(stored.of(others[0])) if others else {}
    return given | {f"tf-second-{name}": page.or_not_measured(second[name]) for name in ELSEWHERE if name in second}


def _asked(book: Measurements) -> dict[str, Callable[[], str]]:
    sides, newer, by_allocator, mapped = rivals(book), successors(book), freed(book), blocks(book)
    parts = two_parts(book).set_index("stack")
    size, batch = sides["vocabulary"], sides["batch"]

    def at(found: pd.DataFrame, pair: tuple[str, str], spec: str = ".2f", **wanted: Any) -> str:
        return page.span(row_of(found, above=pair[0], below=pair[1], **wanted), spec=spec)

    def milliseconds(stack: str, part: str) -> str:
        seconds = parts.loc[stack, part]
        if np.isnan(seconds):
            raise KeyError(stack)
        return f"{seconds * 1e3:.0f} ms"

    asked: dict[str, Callable[[], str]] = {}
    for year, pair in zip(YEARS, RIVALS, strict=True):
        asked |= {
            f"5-{year}": partial(at, size, pair, vocabulary=5_000),
            f"280-{year}": partial(at, size, pair, ".1f", vocabulary=280_000),
            f"800-{year}": partial(at, size, pair, ".1f", vocabulary=800_000),
            f"twice-{year}": partial(_twice, size, pair),
            f"1024-{year}": partial(at, batch, pair, batch=1024),
            f"cross-{year}": partial(_order, book, size, year),
            f"row-{year}": lambda year=year: price_ratio(book, year).text(".1f"),
        }
    middle, whole, last = SUCCESSORS[1], SUCCESSORS[3], SUCCESSORS[2]
    asked |= {
        "1024-verdict": lambda: _told(batch[batch["batch"] == 1024]),
        "rest-theano": lambda: milliseconds("2020-theano", "rest"),
        "rest-2020": lambda: milliseconds("2020-tensorflow", "rest"),
        "told": lambda: f"{size['faster'].notna().sum()} of {len(size)}",
        "blas": lambda: _blas(book),
        "kept-glibc": partial(at, by_allocator, RIVALS[0], ".1f", allocator="glibc"),
        "kept-tcmalloc": partial(at, by_allocator, RIVALS[0], ".1f", allocator="tcmalloc"),
        "turned-glibc": partial(at, by_allocator, RIVALS[1], ".1f", allocator="glibc"),
        "turned-tcmalloc": partial(at, by_allocator, RIVALS[1], ".1f", allocator="tcmalloc"),
        "turned-verdict": lambda: _told(_under(by_allocator, RIVALS[1], "tcmalloc")),
        "turned-own": partial(at, by_allocator, middle[::-1], allocator="glibc"),
        "turned-free": partial(at, by_allocator, middle[::-1], allocator="tcmalloc"),
        "blocks-2020": lambda: f"{mapped['2020-tensorflow', 'glibc']:.0f}",
        "blocks-2020-kept": lambda: f"{mapped['2020-tensorflow', 'tcmalloc']:.1f}",
        "blocks-2017": lambda: f"{mapped['2017-tensorflow', 'glibc']:.0f}",
        "blocks-2017-kept": lambda: f"{mapped['2017-tensorflow', 'tcmalloc']:.0f}",
        "blocks-theano": lambda: f"{max(mapped[f'{year}-theano', 'glibc'] for year in YEARS):.1f}",
        "new-5": partial(at, newer, whole, ".1f", vocabulary=5_000),
        "new-280": partial(at, newer, whole, ".1f", vocabulary=280_000),
        "new-2m": partial(at, newer, whole, ".1f", vocabulary=2_000_000),
        "mid-5": partial(at, newer, middle, ".1f", vocabulary=5_000),
        "mid-280": partial(at, newer, middle, vocabulary=280_000),
        "mid-2m": partial(at, newer, middle, vocabulary=2_000_000),
        "mid-verdict": lambda: _stage(newer),
        "last-280": partial(at, newer, last, ".1f", vocabulary=280_000),
        "noise-low": lambda: f"{_noise(book).min():.0%}",
        "noise-high": lambda: f"{_noise(book).max():.0%}",
    }
    asked |= {
        f"frozen-{stack}": partial(milliseconds, stack, "frozen")
        for stack in ("2017-theano", "2020-tensorflow", "2026-tensorflow")
    }
    return asked


def _noise(book: Measurements, invocations: int = 3) -> pd.Series:
    """Noise floors of the stacks that are compared."""
    stacks = sorted({stack for pair in RIVALS + SUCCESSORS for stack in pair})
    return book.noise().set_index("stack")[invocations].reindex(stacks).dropna()


def _under(found: pd.DataFrame, pair: tuple[str, str], allocator: str) -> pd.DataFrame:
    return found[(found["above"] == pair[0]) & (found["below"] == pair[1]) & (found["allocator"] == allocator)]


def _told(found: pd.DataFrame) -> str:
    """What may be said of these ratios, as the end of a sentence. Raises KeyError without any."""
    if found.empty:
        raise KeyError("not measured")
    if (found["reason"] == "not interleaved").any():
        return "not interleaved, so no verdict"
    faster = found["faster"].dropna()
    if faster.empty:
        return "which cannot be told from one"
    if len(faster) < len(found) or faster.nunique() > 1:
        return "of which not all can be told from one"
    return f"so {faster.iloc[0]} is the faster one"


def _twice(found: pd.DataFrame, pair: tuple[str, str]) -> str:
    """Whether it is so that TensorFlow takes twice the time of Theano at 280,000 rows."""
    holds = _at_least(row_of(found, above=pair[0], below=pair[1], vocabulary=280_000), 2)
    return {True: "is certain", False: "is wrong", None: "cannot be told"}[holds]


def _sizes(found: pd.DataFrame) -> str:
    """ "5,000 and 20,000 rows"."""
    names = [f"{size:,}" for size in found["vocabulary"]]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) + " rows"


def _order(book: Measurements, found: pd.DataFrame, year: str) -> str:
    """Who is faster where, by the verdicts, and where the straight lines cross. Raises IndexError without any."""
    above, below = f"{year}-tensorflow", f"{year}-theano"
    rows = found[found["above"] == above].sort_values("vocabulary")
    ahead, behind = rows[rows["faster"] == above], rows[rows["faster"] == below]
    open_to = rows[rows["faster"].isna()]
    if len(behind) == len(rows) > 0:
        said = f"Theano is the faster one at each of the {len(rows)} sizes, from {rows['vocabulary'].iloc[0]:,} rows on"
    elif ahead.empty or behind.empty:
        said = f"one of the two is told to be faster at {len(rows) - len(open_to)} of {len(rows)} sizes"
    else:
        last, first = ahead["vocabulary"].max(), behind["vocabulary"].min()
        said = f"the order turns between {last:,} and {first:,} rows, from TensorFlow to Theano"
    crossed = crossing(book, year)
    if crossed is None:
        return f"{said}, and the straight lines through the sizes do not cross"
    return f"{said} (the straight lines, which bend, cross at {round(crossed, -3):,.0f})"


def _stage(newer: pd.DataFrame) -> str:
    """From TensorFlow 1.1 to 1.15: which sizes became faster, which slower, which cannot be told."""
    old, new = SUCCESSORS[1]
    rows = newer[(newer["above"] == old) & (newer["below"] == new)].sort_values("vocabulary")
    groups = [
        ("1.15 is the faster one at", rows[rows["faster"] == new]),
        ("1.1 at", rows[rows["faster"] == old]),
        ("the two cannot be told apart at", rows[rows["faster"].isna()]),
    ]
    return "; ".join(f"{words} {_sizes(found)}" for words, found in groups if len(found))


def _blas(book: Measurements) -> str:
    """The processor that the OpenBLAS of the Theano stacks takes this one for ("Barcelona"). KeyError if unrecorded."""
    found = book.invocations(vocabulary=ANY, allocator=ANY, batch=ANY, length=ANY)
    paths = found.loc[found["stack"].isin(["2017-theano", "2020-theano"]), "path"].dropna()
    names = sorted(set(paths.str.extract(r"OpenBLAS (\w+)")[0].dropna()))
    if not names:
        raise KeyError("no path was recorded")
    return " and ".join(names)


# What is claimed


def _at_least(row: pd.Series, limit: float) -> bool | None:
    """Whether a ratio is a limit or more; what did not run side by side decides nothing."""
    return None if row["reason"] == "not interleaved" else above(stored.interval(row), limit)


def _won(row: pd.Series, who: str) -> bool | None:
    """Whether that one of the two is told to be the faster one; None where nobody is."""
    return None if pd.isna(row["faster"]) else bool(row["faster"] == who)


def _aside(row: pd.Series) -> str:
    """A ratio as a claim's table shows it."""
    text = page.span(row)
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
    return Finding(every(*(_at_least(row, 2) for row in rows)), shown)


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
    return Finding(holds, f"{page.span(plain)} under glibc, {page.span(kept)} under tcmalloc{aside}")


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
        "06.1",
        "At 280,000 rows and batch 100 TensorFlow takes at least twice Theano's step, in the software of 2017 and in "
        "that of 2020.",
        "S0, C5",
        _twice_both,
    ),
    Claim(
        "06.2",
        "In the software of 2017 Theano is the faster one with every table from 5,000 rows on.",
        "ours",
        _theano_in_2017,
    ),
    Claim(
        "06.3",
        "In that of 2020 TensorFlow is the faster one at 5,000 and 20,000 rows, and Theano from 80,000 rows on.",
        "ours",
        _turned_in_2020,
    ),
    Claim(
        "06.4",
        "In 2017 Theano's lead grows with the table: the ratio is larger at 280,000 rows than at 5,000.",
        "ours",
        _lead_grows,
    ),
    Claim(
        "06.5",
        "With 280,000 rows and batch 1,024 TensorFlow takes less than twice Theano's step, in both generations.",
        "ours",
        _equal_at_large_batches,
    ),
    Claim(
        "06.6",
        "A further row costs more on TensorFlow than on Theano, in both generations (80,000 to 280,000 rows, glibc).",
        "ours",
        _rows_cost_more,
    ),
    Claim(
        "06.7",
        "In 2020 the rest of a step costs less on TensorFlow than on Theano, by the straight lines through the "
        "vocabularies.",
        "ours",
        _rest_costs_less,
    ),
    Claim(
        "06.8",
        "In 2020 the allocator decides: at 200,000 rows TensorFlow's step in units of Theano's is under tcmalloc less "
        "than half of what it is under glibc.",
        "ours",
        _allocator_decides,
    ),
    Claim(
        "06.9",
        "TensorFlow 1.1 has an allocator of its own: under tcmalloc it maps more than 0.9 times as much memory anew at "
        "every step as under glibc.",
        "ours",
        _own_allocator,
    ),
    Claim(
        "06.10",
        "Newer software is faster: from TensorFlow 1.1 to Keras 3 on TensorFlow, at every vocabulary.",
        "S1",
        _newer_is_faster,
    ),
    Claim(
        "06.11",
        "But not at every stage: under glibc TensorFlow 1.15 is slower than 1.1 at 280,000 rows.",
        "ours",
        _not_at_every_stage,
    ),
    Claim(
        "06.12",
        "Under tcmalloc TensorFlow 1.15 is faster than 1.1 at 200,000 rows.",
        "ours",
        _freed_stage,
    ),
]
