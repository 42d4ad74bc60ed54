"""What the page of Theano and TensorFlow shows: tables, and the numbers of its prose."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.generations.analysis import (
    RIVALS,
    SUCCESSORS,
    YEARS,
    at_least,
    blocks,
    crossing,
    freed,
    price_ratio,
    rivals,
    row_of,
    successors,
    two_parts,
)
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval

THEANO = [f"{year}-theano" for year in YEARS]
# What the sentences say of the other machine, too, as tf-other-...
ELSEWHERE = (
    *("280-2017", "280-2020", "cross-2017", "cross-2020", "turned-glibc", "turned-tcmalloc", "turned-verdict"),
    *("kept-glibc", "kept-tcmalloc", "turned-own", "turned-free", "mid-verdict", "last-280"),
)


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that a machine cannot give says so."""
    given = {f"tf-{name}": page.or_not_measured(give) for name, give in _asked(book).items()}
    others = [name for name in stored.listed() if name != stored.reference()]
    other = _asked(stored.of(others[0])) if others else {}
    return given | {f"tf-other-{name}": page.or_not_measured(other[name]) for name in ELSEWHERE if name in other}


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
        "rest-theano": partial(milliseconds, "2020-theano", "rest"),
        "frozen-2020-tensorflow": partial(milliseconds, "2020-tensorflow", "frozen"),
        "blas": _blas,
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
        "new-2m": partial(at, newer, whole, ".1f", vocabulary=2_000_000),
        "mid-5": partial(at, newer, middle, ".1f", vocabulary=5_000),
        "mid-280": partial(at, newer, middle, vocabulary=280_000),
        "mid-2m": partial(at, newer, middle, vocabulary=2_000_000),
        "mid-verdict": lambda: _stage(newer),
        "last-280": partial(at, newer, last, ".1f", vocabulary=280_000),
    }
    return asked


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
    holds = at_least(row_of(found, above=pair[0], below=pair[1], vocabulary=280_000), 2)
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
        winner = "TensorFlow" if len(ahead) else "Theano"
        told = len(rows) - len(open_to)
        said = f"{winner} is the faster one at {told} of {len(rows)} sizes" if told else "nobody can tell at any size"
    else:
        last, first = ahead["vocabulary"].max(), behind["vocabulary"].min()
        said = f"the order turns between {last:,} and {first:,} rows, from TensorFlow to Theano"
    crossed = crossing(book, year)
    if crossed is None:
        return f"{said}, and the straight lines through the sizes do not cross"
    return f"{said} (straight lines through the points, which bend, cross at {round(crossed, -3):,.0f})"


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


def _blas() -> str:
    """The processor that the OpenBLAS of the Theano stacks takes ours for ("Barcelona"). KeyError if unrecorded."""
    of_theano = [book.every[book.every["stack"].isin(THEANO)] for book in map(stored.of, stored.listed())]
    paths = pd.concat([found["path"] for found in of_theano]).dropna()
    names = sorted(set(paths.str.extract(r"OpenBLAS (\w+)")[0].dropna()))
    if not names:
        raise KeyError("no path was recorded")
    return " and ".join(names)


# Tables


def ratio_table(ratios: Mapping[str, pd.DataFrame]) -> HTML:
    """Every ratio of `rivals` with what may be said of it."""
    rows = []
    for _, row in pd.concat(ratios.values()).iterrows():
        verdict = row["reason"] if pd.isna(row["faster"]) else row["faster"]
        sizes = [f"{row['vocabulary']:,}", f"{row['batch']:,}"]
        rows.append([f"{row['above']} / {row['below']}", *sizes, page.span(row), verdict])
    return page.table(["steps of", "rows", "batch", "ratio", "faster"], rows, fold="All ratios")


def part_table(why: pd.DataFrame) -> HTML:
    """The parts of a step on each stack. why: as `two_parts` gives them."""
    rows = []
    for _, row in why.iterrows():
        price = Interval(row["row"], row["row_low"], row["row_high"]).text(",.0f", 1e9).replace(" (", "<br>(")
        rest = ["" if pd.isna(row[name]) else f"{row[name] * 1e3:,.0f}" for name in ("rest", "frozen")]
        rows.append([row["stack"], price, *rest])
    return page.table(["stack", "per row (ns)", "the rest, by the line (ms)", "with the table frozen (ms)"], rows)


def freed_table(table: pd.DataFrame) -> HTML:
    """The ratios of `freed`, a row a pair, a column an allocator."""
    texts = table.assign(text=[page.span(row) for _, row in table.iterrows()])
    texts["pair"] = table["above"] + " / " + table["below"]
    texts = texts.pivot_table("text", "pair", "allocator", aggfunc="first", sort=False)
    rows = [[name, *row] for name, row in texts.iterrows()]
    return page.table(["steps of", *(f"under {name}" for name in texts.columns)], rows)


def successor_table(newer: pd.DataFrame) -> HTML:
    """The ratios of `successors`, a row a vocabulary, a column a pair; a question mark where nobody can tell."""
    marks = ["" if pd.notna(who) else " ?" for who in newer["faster"]]
    texts = [page.span(row, below=True) + mark for (_, row), mark in zip(newer.iterrows(), marks, strict=True)]
    pairs = newer["above"] + "<br>/ " + newer["below"]
    wide = newer.assign(text=texts, pair=pairs)
    wide = wide.pivot_table("text", "vocabulary", "pair", aggfunc="first", sort=False).fillna("")
    rows = [[f"{size:,}", *row] for size, row in wide.iterrows()]
    return page.table(["older / newer, rows", *wide.columns], rows)
