"""Chapter 7, Theano and TensorFlow: three generations compared, why, and what another allocator changes."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters import vocabulary
from traintime.book.chapters.vocabulary import VOCABULARIES
from traintime.book.claims import Finding, above, below, claim, every, every_stack, judged_together, span
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula
from traintime.explain.statistics import Interval
from traintime.point import fields
from traintime.workloads.base import FLOAT

YEARS = ("2017", "2020")
RIVALS = {year: (f"{year}-tensorflow", f"{year}-theano") for year in YEARS}  # above, below
MIDDLE = ("2017-tensorflow", "2020-tensorflow")  # older, newer
WHOLE = ("2017-tensorflow", "2026-tensorflow")
LAST = ("2020-tensorflow", "2026-tensorflow")
SUCCESSORS = [("2017-theano", "2020-theano"), MIDDLE, LAST, WHOLE]
BATCHES = [8, 32, 128, 1024, 4096]
FREED = 200_000  # rows, of the sweep over allocators
ALLOCATORS = ["glibc", "tcmalloc"]
PAGE = 4096  # bytes
Pair = tuple[str, str]
Number = Callable[[Measurements], str]  # of the prose


# Who is faster


def sweep(book: Measurements) -> pd.DataFrame:
    """The invocations of the sweep over the vocabulary; of a reader's own run whatever sizes it has."""
    return book.invocations(vocabulary=VOCABULARIES if book.machine in stored.listed() else ANY)


@functools.cache
def rivals_by_size(book: Measurements) -> pd.DataFrame:
    """TensorFlow over Theano in each generation, against the vocabulary: a table of ratios."""
    return book.ratios(sweep(book), RIVALS.values(), against="vocabulary")


@functools.cache
def rivals_by_batch(book: Measurements) -> pd.DataFrame:
    """The same at 280,000 rows, against the batch."""
    return book.ratios(book.invocations(batch=BATCHES), RIVALS.values(), against="batch")


@functools.cache
def successors(book: Measurements) -> pd.DataFrame:
    """Older over newer software against the vocabulary: above 1, the newer one is faster."""
    return book.ratios(sweep(book), SUCCESSORS, against="vocabulary")


def of_pair(ratios: pd.DataFrame, pair: Pair) -> pd.DataFrame:
    """The rows of a table of ratios that compare these two."""
    return stored.chosen(ratios, above=pair[0], below=pair[1])


def pair_ratio(ratios: pd.DataFrame, pair: Pair, **wanted: Any) -> Interval:
    """One ratio; without an interval where the two were not interleaved. Raises KeyError where there is none."""
    row = stored.row(of_pair(ratios, pair), **wanted)
    return Interval(row["ratio"]) if row["reason"] == "not interleaved" else stored.interval(row)


def in_each_year(ratios: pd.DataFrame, **wanted: Any) -> dict[str, Interval]:
    """TensorFlow over Theano by generation."""
    return {year: pair_ratio(ratios, pair, **wanted) for year, pair in RIVALS.items()}


def grown(book: Measurements, pair: Pair, base: Mapping[str, Any], other: Mapping[str, Any]) -> Interval:
    """How many times as large a pair's ratio is at the other configuration as at the base.

    All four sides come from the same rounds; without an interval where no sweep measured them together.
    """
    sides = book.sides(*({"stack": stack, **configuration} for configuration in (other, base) for stack in pair))
    return sides.interval(lambda s: s[0] / s[1] / (s[2] / s[3]))


def is_faster(row: pd.Series, stack: str) -> bool | None:
    """Whether this one of the two is significantly faster; None where neither is."""
    return None if pd.isna(row["faster"]) else bool(row["faster"] == stack)


def faster_at_every_size(rows: pd.DataFrame, stack: str) -> Finding:
    """Whether this one of the two is faster at every vocabulary; a size without a verdict has a question mark."""
    holds = every(*(is_faster(row, stack) for _, row in rows.iterrows()))
    marks = {True: "?", False: ""}
    texts = (f"{x['ratio']:.2f}{marks[pd.isna(x['faster'])]} at {x['vocabulary']:,}" for _, x in rows.iterrows())
    return Finding(holds, f"{', '.join(texts)} rows")


def faster_once(row: pd.Series, stack: str) -> Finding:
    """Whether this one of the two is faster in one comparison."""
    aside = "" if row["reason"] == "told apart" else f", {row['reason']}"
    return Finding(is_faster(row, stack), f"{span(row)}{aside}")


@claim(
    "07.1",
    "At 280,000 rows and batch 100 TensorFlow takes at least twice Theano's step, in the software of 2017 and in "
    "that of 2020.",
    source="S0, C5",
    says="cannot be told",
)
def twice_in_both(book: Measurements) -> Finding:
    return every_stack(in_each_year(rivals_by_size(book), vocabulary=280_000), above(2))


@claim("07.2", "In the software of 2017 Theano is the faster one with every table from 5,000 rows on.")
def theano_in_2017(book: Measurements) -> Finding:
    rows = of_pair(rivals_by_size(book), RIVALS["2017"])
    return faster_at_every_size(rows[rows["vocabulary"] >= 5_000], "2017-theano")


@claim("07.3", "In that of 2020 TensorFlow is the faster one at 5,000 and 20,000 rows, and Theano from 80,000 rows on.")
def turned_in_2020(book: Measurements) -> Finding:
    rows = of_pair(rivals_by_size(book), RIVALS["2020"])
    small, large = rows[rows["vocabulary"].between(5_000, 20_000)], rows[rows["vocabulary"] >= 80_000]
    return judged_together(faster_at_every_size(small, "2020-tensorflow"), faster_at_every_size(large, "2020-theano"))


@claim("07.4", "In 2017 Theano's lead grows with the table: the ratio is larger at 280,000 rows than at 5,000.")
def lead_grows(book: Measurements) -> Finding:
    times = grown(book, RIVALS["2017"], {"vocabulary": 5_000}, {"vocabulary": 280_000})
    return every_stack({"from 5,000 to 280,000 rows": times}, above(1), unit="times")


@claim("07.5", "With 280,000 rows and batch 1,024 TensorFlow takes less than twice Theano's step, in both generations.")
def near_at_large_batches(book: Measurements) -> Finding:
    return every_stack(in_each_year(rivals_by_batch(book), batch=1024), below(2))


# Why: what a row costs, and the rest of a step


def two_parts(book: Measurements) -> pd.DataFrame:
    """What a row costs on each stack, and what the rest does: seconds, one row a stack; missing where not measured.

    Columns stack, row (Interval, see vocabulary.price_of_a_row), rest (the fixed part of the straight line through its
    vocabularies), frozen (a step with 20,000 rows frozen).
    """
    points = vocabulary.by_vocabulary(book)
    prices, lines = vocabulary.price_of_a_row(book, points), book.lines(points)
    frozen = book.points(vocabulary=20_000, frozen=True).set_index("stack")["step_s"]
    stacks = dict.fromkeys(points.loc[points["stack"] != "numpy", "stack"])
    rest = {name[0]: line.coefficients["a"] for name, line in lines.items()}
    rows = [[stack, prices.get((stack, "adam")), rest.get(stack), frozen.get(stack)] for stack in stacks]
    return pd.DataFrame(rows, columns=["stack", "row", "rest", "frozen"])


def row_price_ratio(book: Measurements, year: str) -> Interval:
    """How many times as much a row costs on TensorFlow as on Theano. Raises KeyError where one has no cost."""
    names = [(stack, "adam") for stack in RIVALS[year]]
    return vocabulary.ratio_of_prices(book, vocabulary.by_vocabulary(book), *names)


def rival_lines(book: Measurements, year: str) -> list[formula.Fit]:
    """The straight lines through the vocabularies of TensorFlow and Theano. Raises KeyError without them."""
    lines = book.lines(vocabulary.by_vocabulary(book))
    return [lines[stack, "adam"] for stack in RIVALS[year]]


def line_crossing(book: Measurements, year: str) -> float | None:
    """Rows at which the two straight lines meet; None where they do not. Raises KeyError without them."""
    one, two = (line.coefficients for line in rival_lines(book, year))
    rows = (two["a"] - one["a"]) / (one["b"] - two["b"]) if one["b"] != two["b"] else -1.0
    return rows if rows > 0 else None


@claim(
    "07.6",
    "A further row costs more on TensorFlow than on Theano, in both generations (80,000 to 280,000 rows, glibc).",
)
def rows_cost_more(book: Measurements) -> Finding:
    return every_stack({year: row_price_ratio(book, year) for year in YEARS}, above(1), ".1f")


@claim(
    "07.7",
    "In 2020 the rest of a step costs less on TensorFlow than on Theano, by the straight lines through the "
    "vocabularies.",
)
def rest_costs_less(book: Measurements) -> Finding:
    one, two = rival_lines(book, "2020")
    rest = formula.interval(one.draws["a"] / two.draws["a"], one.coefficients["a"] / two.coefficients["a"])
    return every_stack({"2020": rest}, below(1), unit="times")


# What another allocator changes


@functools.cache
def freed(book: Measurements) -> pd.DataFrame:
    """The rivals at 200,000 rows under glibc and under tcmalloc, and TensorFlow 1.15 over 1.1."""
    runs = book.invocations(vocabulary=FREED, allocator=ALLOCATORS)
    return book.ratios(runs, [*RIVALS.values(), MIDDLE[::-1]], against="length")


def blocks(book: Measurements) -> pd.Series:
    """Blocks of the table's size that a step maps as fresh pages at 200,000 rows, by stack and allocator, from page
    faults.
    """
    runs = book.invocations(vocabulary=FREED, allocator=ALLOCATORS)
    pages = FREED * fields()["embedding"].default * FLOAT / PAGE
    return runs.groupby(["stack", "allocator"])["faults_a_step"].mean() / pages


@claim(
    "07.8",
    "In 2020 the allocator decides: at 200,000 rows TensorFlow's step in units of Theano's is under tcmalloc less "
    "than half of what it is under glibc.",
    says="cannot be told",
)
def allocator_decides(book: Measurements) -> Finding:
    glibc, tcmalloc = ({"vocabulary": FREED, "allocator": name} for name in ALLOCATORS)
    return every_stack({"tcmalloc over glibc": grown(book, RIVALS["2020"], glibc, tcmalloc)}, below(0.5))


@claim(
    "07.9",
    "TensorFlow 1.1 has an allocator of its own: under tcmalloc it maps more than 0.9 times as much memory anew at "
    "every step as under glibc.",
)
def own_allocator(book: Measurements) -> Finding:
    glibc, tcmalloc = (float(blocks(book)["2017-tensorflow", name]) for name in ALLOCATORS)
    return Finding(tcmalloc > 0.9 * glibc, f"{glibc:.1f} and {tcmalloc:.1f} blocks of the table's size a step")


@claim(
    "07.10", "Newer software is faster: from TensorFlow 1.1 to Keras 3 on TensorFlow, at every vocabulary.", source="S1"
)
def newer_is_faster(book: Measurements) -> Finding:
    return faster_at_every_size(of_pair(successors(book), WHOLE), WHOLE[1])


@claim("07.11", "But not at every stage: under glibc TensorFlow 1.15 is slower than 1.1 at 280,000 rows.")
def not_at_every_stage(book: Measurements) -> Finding:
    return faster_once(stored.row(of_pair(successors(book), MIDDLE), vocabulary=280_000), MIDDLE[0])


@claim("07.12", "Under tcmalloc TensorFlow 1.15 is faster than 1.1 at 200,000 rows.", says="cannot be told")
def freed_stage(book: Measurements) -> Finding:
    return faster_once(stored.row(of_pair(freed(book), MIDDLE[::-1]), allocator="tcmalloc"), MIDDLE[1])


# What the page shows


def rival_table(book: Measurements) -> HTML:
    """Every ratio of TensorFlow and Theano with what may be said of it."""
    return page.columns(
        pd.concat([rivals_by_size(book), rivals_by_batch(book)]),
        fold="All ratios",
        pair=("steps of", lambda row: f"{row['above']} / {row['below']}"),
        vocabulary=("rows", 1, ","),
        batch=("batch", 1, ","),
        ratio=("ratio", page.span),
        faster=("faster", lambda row: row["reason"] if pd.isna(row["faster"]) else row["faster"]),
    )


def part_table(book: Measurements) -> HTML:
    """The parts of a step on each stack."""
    return page.columns(
        two_parts(book),
        stack="stack",
        row=("per row (ns)", 1e9, ",.0f"),
        rest=("the rest, by the line (ms)", 1e3, ",.0f"),
        frozen=("with the table frozen (ms)", 1e3, ",.0f"),
    )


def ratio_grid(ratios: pd.DataFrame, head: str, rows: str, columns: str) -> HTML:
    """A table of ratios by two of their fields ("pair" for the two stacks); a question mark where neither is faster."""
    marks = ["" if isinstance(faster, str) else " ?" for faster in ratios["faster"]]
    texts = [page.span(row, below=True) + mark for (_, row), mark in zip(ratios.iterrows(), marks, strict=True)]
    cells = ratios.assign(text=texts, pair=ratios["above"] + "<br>/ " + ratios["below"])
    return page.frame(cells.pivot_table("text", rows, columns, aggfunc="first", sort=False).rename_axis(head))


def _at(ratios: Callable[[Measurements], pd.DataFrame], pair: Pair, spec: str = ".2f", **wanted: Any) -> Number:
    return lambda book: page.span(stored.row(of_pair(ratios(book), pair), **wanted), spec=spec)


def _milliseconds(stack: str, part: str) -> Number:
    return lambda book: f"{stored.row(two_parts(book).dropna(subset=part), stack=stack)[part] * 1e3:.0f} ms"


def _said(rows: pd.DataFrame) -> str:
    """What may be said of these ratios, as the end of a sentence. Raises IndexError without any."""
    if (rows["reason"] == "not interleaved").any():
        return "not interleaved, so no verdict"
    names = rows["faster"].unique()
    if len(names) > 1:
        return "of which not all can be told from one"
    return "which cannot be told from one" if pd.isna(names[0]) else f"so {names[0]} is the faster one"


TWICE = {True: "is certain", False: "is wrong", None: "cannot be told"}  # that TensorFlow takes twice as long


def _order(book: Measurements, year: str) -> str:
    """Who is faster where, by the verdicts, and where the straight lines cross. Raises KeyError without any."""
    rows = of_pair(rivals_by_size(book), RIVALS[year])
    ahead, behind = (rows.loc[rows["faster"] == stack, "vocabulary"] for stack in RIVALS[year])
    crossed = line_crossing(book, year)
    if len(behind) == len(rows) > 0:
        said = f"Theano is the faster one at each of the {len(rows)} sizes, from {behind.min():,} rows on"
    elif ahead.empty or behind.empty:
        winner, told = "TensorFlow" if len(ahead) else "Theano", len(ahead) + len(behind)
        said = f"{winner} is the faster one at {told} of {len(rows)} sizes" if told else "nobody can tell at any size"
    else:
        said = f"the order turns between {ahead.max():,} and {behind.min():,} rows, from TensorFlow to Theano"
    if crossed is None:
        return f"{said}, and the straight lines through the sizes do not cross"
    return f"{said} (straight lines through the points, which bend, cross at {round(crossed, -3):,.0f})"


def _stage(book: Measurements) -> str:
    """From TensorFlow 1.1 to 1.15: which sizes became faster, which slower, which are inconclusive."""
    rows = of_pair(successors(book), MIDDLE)
    groups = {
        "1.15 is the faster one at": rows["faster"] == MIDDLE[1],
        "1.1 at": rows["faster"] == MIDDLE[0],
        "the two cannot be told apart at": rows["faster"].isna(),
    }
    sizes = {words: [f"{size:,}" for size in rows.loc[group, "vocabulary"]] for words, group in groups.items()}
    return "; ".join(f"{words} {_joined(texts)} rows" for words, texts in sizes.items() if texts)


def _joined(texts: list[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def _blas(_: Measurements) -> str:
    """The processor that the OpenBLAS of the Theano stacks takes ours for ("Barcelona"). KeyError if unrecorded."""
    points = pd.concat([stored.of(name).every[["stack", "path"]] for name in stored.listed()])
    paths = points.loc[points["stack"].str.endswith("-theano"), "path"]
    names = sorted(set(paths.str.extract(r"OpenBLAS (\w+)")[0].dropna()))
    if not names:
        raise KeyError("no path was recorded")
    return " and ".join(names)


def _of_year(year: str) -> dict[str, Number]:
    pair = RIVALS[year]
    return {
        f"5_{year}": _at(rivals_by_size, pair, vocabulary=5_000),
        f"280_{year}": _at(rivals_by_size, pair, ".1f", vocabulary=280_000),
        f"800_{year}": _at(rivals_by_size, pair, ".1f", vocabulary=800_000),
        f"twice_{year}": lambda book: TWICE[above(2)(pair_ratio(rivals_by_size(book), pair, vocabulary=280_000))],
        f"1024_{year}": _at(rivals_by_batch, pair, batch=1024),
        f"cross_{year}": lambda book: _order(book, year),
        f"row_{year}": lambda book: row_price_ratio(book, year).text(".1f"),
    }


NUMBERS: dict[str, Number] = {
    **_of_year("2017"),
    **_of_year("2020"),
    "1024_verdict": lambda book: _said(stored.chosen(rivals_by_batch(book), batch=1024)),
    "rest_theano": _milliseconds("2020-theano", "rest"),
    "frozen_2020_tensorflow": _milliseconds("2020-tensorflow", "frozen"),
    "blas": _blas,
    **{f"kept_{name}": _at(freed, RIVALS["2017"], ".1f", allocator=name) for name in ALLOCATORS},
    **{f"turned_{name}": _at(freed, RIVALS["2020"], ".1f", allocator=name) for name in ALLOCATORS},
    "turned_verdict": lambda book: _said(stored.chosen(of_pair(freed(book), RIVALS["2020"]), allocator="tcmalloc")),
    "turned_own": _at(freed, MIDDLE[::-1], allocator="glibc"),
    "turned_free": _at(freed, MIDDLE[::-1], allocator="tcmalloc"),
    "blocks_2020": lambda book: f"{blocks(book)['2020-tensorflow', 'glibc']:.0f}",
    "blocks_2020_kept": lambda book: f"{blocks(book)['2020-tensorflow', 'tcmalloc']:.1f}",
    "blocks_2017": lambda book: f"{blocks(book)['2017-tensorflow', 'glibc']:.0f}",
    "blocks_2017_kept": lambda book: f"{blocks(book)['2017-tensorflow', 'tcmalloc']:.0f}",
    "blocks_theano": lambda book: f"{max(blocks(book)[f'{year}-theano', 'glibc'] for year in YEARS):.1f}",
    "new_5": _at(successors, WHOLE, ".1f", vocabulary=5_000),
    "new_2m": _at(successors, WHOLE, ".1f", vocabulary=2_000_000),
    "mid_5": _at(successors, MIDDLE, ".1f", vocabulary=5_000),
    "mid_280": _at(successors, MIDDLE, vocabulary=280_000),
    "mid_2m": _at(successors, MIDDLE, vocabulary=2_000_000),
    "mid_verdict": _stage,
    "last_280": _at(successors, LAST, ".1f", vocabulary=280_000),
}
# What the sentences say of the second machine, too.
SECOND = ["280_2017", "280_2020", "cross_2017", "cross_2020", "turned_glibc", "turned_tcmalloc", "turned_verdict"]
SECOND += ["kept_glibc", "kept_tcmalloc", "turned_own", "turned_free", "mid_verdict", "last_280"]


def _on_second(number: Number) -> Number:
    """A number of the listed machine that follows the reference; of no machine where there is none."""
    return lambda _: number(stored.of(list(stored.listed())[1]))


PROSE = Prose("tf", **NUMBERS, **{f"other_{name}": _on_second(NUMBERS[name]) for name in SECOND})
