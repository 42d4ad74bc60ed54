"""Chapter 7, Theano and TensorFlow: three generations, why they differ, another allocator, another processor."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
from IPython.display import HTML

from traintime.book import page, predictions, stored
from traintime.book.chapters import pool, vocabulary
from traintime.book.chapters.vocabulary import VOCABULARIES
from traintime.book.claims import Finding, above, below, claim, every, every_stack, judged_together, span
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula, statistics
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
Panel = tuple[pd.DataFrame, dict[str, str]]  # points, and what to call each stack
RELEASES = {"2017": "1.1", "2020": "1.15", "2026": "2.21"}  # of TensorFlow


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
    aside = "" if row["reason"] == "significant" else f", {row['reason']}"
    return Finding(is_faster(row, stack), f"{span(row)}{aside}")


@claim(
    "07.1",
    "At 280,000 rows and batch 100 TensorFlow takes at least twice Theano's step, in the software of 2017 and in "
    "that of 2020.",
    source="S0, C5",
)
def twice_in_both(book: Measurements) -> Finding:
    return every_stack(in_each_year(rivals_by_size(book), vocabulary=280_000), above(2))


@claim("07.2", "In the software of 2017 Theano is faster with every table from 5,000 rows on.", says="inconclusive")
def theano_in_2017(book: Measurements) -> Finding:
    rows = of_pair(rivals_by_size(book), RIVALS["2017"])
    return faster_at_every_size(rows[rows["vocabulary"] >= 5_000], "2017-theano")


@claim("07.3", "In the software of 2020 TensorFlow is faster at 5,000 and 20,000 rows, and Theano from 80,000 rows on.")
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

    Columns stack, row (Interval, see vocabulary.price_of_a_row), rest (the constant of the straight line through its
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
    "In 2020 what a step takes besides its rows is less on TensorFlow than on Theano, by the straight lines through "
    "the vocabularies.",
)
def rest_costs_less(book: Measurements) -> Finding:
    one, two = rival_lines(book, "2020")
    rest = statistics.central(one.draws["a"] / two.draws["a"], one.coefficients["a"] / two.coefficients["a"])
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
    "In 2020 the allocator decides: at 200,000 rows the ratio of TensorFlow's step to Theano's under tcmalloc is less "
    "than half of the ratio under glibc.",
)
def allocator_decides(book: Measurements) -> Finding:
    glibc, tcmalloc = ({"vocabulary": FREED, "allocator": name} for name in ALLOCATORS)
    return every_stack({"tcmalloc over glibc": grown(book, RIVALS["2020"], glibc, tcmalloc)}, below(0.5))


@claim(
    "07.9",
    "TensorFlow 1.1 has an allocator of its own: per step it uses more than 0.9 times as many fresh pages under "
    "tcmalloc as under glibc.",
)
def own_allocator(book: Measurements) -> Finding:
    glibc, tcmalloc = (float(blocks(book)["2017-tensorflow", name]) for name in ALLOCATORS)
    return Finding(tcmalloc > 0.9 * glibc, f"{glibc:.1f} and {tcmalloc:.1f} blocks of the table's size a step")


@claim(
    "07.10", "Newer software is faster: from TensorFlow 1.1 to Keras 3 on TensorFlow, at every vocabulary.", source="S1"
)
def newer_is_faster(book: Measurements) -> Finding:
    return faster_at_every_size(of_pair(successors(book), WHOLE), WHOLE[1])


@claim(
    "07.11",
    "But not at every stage: under glibc TensorFlow 1.15 is slower than 1.1 at 280,000 rows.",
    says="inconclusive",
)
def not_at_every_stage(book: Measurements) -> Finding:
    return faster_once(stored.row(of_pair(successors(book), MIDDLE), vocabulary=280_000), MIDDLE[0])


@claim("07.12", "Under tcmalloc TensorFlow 1.15 is faster than 1.1 at 200,000 rows.")
def freed_stage(book: Measurements) -> Finding:
    return faster_once(stored.row(of_pair(freed(book), MIDDLE[::-1]), allocator="tcmalloc"), MIDDLE[1])


# What the page shows


def both_frameworks(book: Measurements) -> dict[str, Panel]:
    """TensorFlow and Theano against the vocabulary, as plots.crossing takes them: a panel a generation."""
    titles = {"2017": "2017: TensorFlow 1.1, Theano 0.9", "2020": "2020: TensorFlow 1.15, Theano-PyMC"}
    points, names = sweep_points(book), ("TensorFlow", "Theano")
    return {titles[year]: (points, dict(zip(pair, names, strict=True))) for year, pair in RIVALS.items()}


def releases(*books: Measurements) -> dict[str, Panel]:
    """Three releases of TensorFlow against the vocabularies of the first machine, as plots.crossing takes them: a panel
    a machine.
    """
    sizes = set(sweep_points(books[0])["vocabulary"])
    names = {f"{year}-tensorflow": release for year, release in RELEASES.items()}
    return {
        book.title: (points[points["vocabulary"].isin(sizes)], names)
        for book, points in zip(books, map(sweep_points, books), strict=True)
    }


def sweep_points(book: Measurements) -> pd.DataFrame:
    """The points of the sweep over the vocabulary."""
    return book.points(vocabulary=VOCABULARIES)


def second() -> Measurements:
    """The listed machine that follows the reference. Raises IndexError where there is none."""
    return stored.of(list(stored.listed())[1])


def part_table(book: Measurements) -> HTML:
    """The parts of a step on each stack."""
    return page.columns(
        two_parts(book),
        stack="stack",
        row=("per row (ns)", 1e9, ",.0f"),
        rest=("all but the rows, by the line (ms)", 1e3, ",.0f"),
        frozen=("step with a frozen table (ms)", 1e3, ",.0f"),
    )


def ratio_grid(ratios: pd.DataFrame, head: str, rows: str, columns: str) -> HTML:
    """A table of ratios by two of their fields ("pair" for the two stacks); a question mark where the difference is
    inconclusive.
    """
    marks = ["" if isinstance(faster, str) else " ?" for faster in ratios["faster"]]
    texts = [page.span(row, below=True) + mark for (_, row), mark in zip(ratios.iterrows(), marks, strict=True)]
    cells = ratios.assign(text=texts, pair=ratios["above"] + " / " + ratios["below"])
    return page.frame(cells.pivot_table("text", rows, columns, aggfunc="first", sort=False).rename_axis(head))


def _inverse(value: Interval) -> Interval:
    return Interval(1 / value.value, 1 / value.high, 1 / value.low)


def _at(ratios: Callable[[Measurements], pd.DataFrame], pair: Pair, spec: str = ".1f", **wanted: Any) -> Number:
    return lambda book: page.span(stored.row(of_pair(ratios(book), pair), **wanted), spec=spec)


def _value_at(ratios: Callable[[Measurements], pd.DataFrame], pair: Pair, spec: str = ".1f", **wanted: Any) -> Number:
    """A ratio without its interval, which another sentence or a table of the page has."""
    return lambda book: f"{stored.row(of_pair(ratios(book), pair), **wanted)['ratio']:{spec}}"


def _milliseconds(stack: str, part: str) -> Number:
    return lambda book: f"{stored.row(two_parts(book).dropna(subset=part), stack=stack)[part] * 1e3:.0f} ms"


def _blas(_: Measurements) -> str:
    """The processor that the OpenBLAS of the Theano stacks takes ours for ("Barcelona"). KeyError if unrecorded."""
    points = pd.concat([stored.of(name).every[["stack", "path"]] for name in stored.listed()])
    paths = points.loc[points["stack"].str.endswith("-theano"), "path"]
    names = sorted(set(paths.str.extract(r"OpenBLAS (\w+)")[0].dropna()))
    if not names:
        raise KeyError("no path was recorded")
    return " and ".join(names)


# What another allocator changes


def allocator_gain(book: Measurements, stack: str) -> Interval:
    """How many times faster a step at 200,000 rows is under tcmalloc than under glibc."""
    runs = book.invocations(stack=stack, vocabulary=FREED, allocator=ALLOCATORS)
    return stored.ratio_by_stack(book.ratios(runs, [tuple(ALLOCATORS)], of="allocator"), [stack])[stack]


def _blocks(stack: str, allocator: str, spec: str = ".0f") -> Number:
    return lambda book: f"{blocks(book)[stack, allocator]:{spec}}"


def _of_year(year: str) -> dict[str, Number]:
    pair = RIVALS[year]
    return {
        f"280_{year}": _at(rivals_by_size, pair, vocabulary=280_000),
        f"280_{year}_value": _value_at(rivals_by_size, pair, vocabulary=280_000),
        f"1024_{year}": _at(rivals_by_batch, pair, ".2f", batch=1024),
        f"row_{year}": lambda book: row_price_ratio(book, year).text(".1f"),
    }


NUMBERS: dict[str, Number] = {
    **_of_year("2017"),
    **_of_year("2020"),
    "5_2017": _at(rivals_by_size, RIVALS["2017"], ".2f", vocabulary=5_000),
    "5_2020": lambda book: f"{_inverse(pair_ratio(rivals_by_size(book), RIVALS['2020'], vocabulary=5_000)).value:.1f}",
    "predicted": lambda book: predictions.told("07", "1", book.machine),
    "rest_theano": _milliseconds("2020-theano", "rest"),
    "rest_tensorflow": _milliseconds("2020-tensorflow", "rest"),
    "frozen_tensorflow": _milliseconds("2020-tensorflow", "frozen"),
    "blas": _blas,
    **{f"kept_{name}": _value_at(freed, RIVALS["2017"], ".2f", allocator=name) for name in ALLOCATORS},
    **{f"turned_{name}": _value_at(freed, RIVALS["2020"], ".2f", allocator=name) for name in ALLOCATORS},
    "turned_free": lambda book: _inverse(pair_ratio(freed(book), MIDDLE[::-1], allocator="tcmalloc")).text(".1f"),
    "gain_2020": lambda book: f"{allocator_gain(book, MIDDLE[1]).value:.1f}",
    "blocks_2020": _blocks("2020-tensorflow", "glibc"),
    "blocks_2020_kept": _blocks("2020-tensorflow", "tcmalloc", ".2f"),
    "blocks_2017": _blocks("2017-tensorflow", "glibc", ".1f"),
    "blocks_2017_kept": _blocks("2017-tensorflow", "tcmalloc", ".1f"),
    "blocks_theano": lambda book: f"{max(blocks(book)[f'{year}-theano', 'glibc'] for year in YEARS):.1f}",
    "blocks_2026": _blocks("2026-tensorflow", "glibc", ".3f"),
    "new": _value_at(successors, WHOLE, vocabulary=280_000),
    "mid_5": _at(successors, MIDDLE, vocabulary=5_000),
    "mid_280": _at(successors, MIDDLE, ".2f", vocabulary=280_000),
    "last_280": _at(successors, LAST, vocabulary=280_000),
    "last_280_value": _value_at(successors, LAST, vocabulary=280_000),
    "onednn_off": lambda book: pool.without_onednn(book)[pool.TENSORFLOW].text(".1f"),
}
# What the sentences say of the second machine, too.
SECOND = ["280_2017", "280_2017_value", "280_2020", "280_2020_value", "mid_280", "last_280", "last_280_value", "new"]


def _new_over_old(book: Measurements) -> str:
    """How many times as long as the Theano of 2017 today's TensorFlow takes at 280,000 rows."""
    sides = book.sides({"stack": WHOLE[1]}, {"stack": RIVALS["2017"][1]}, vocabulary=280_000)
    return f"{sides.interval(lambda s: s[0] / s[1]).value:.1f}"


def _on_second(number: Number) -> Number:
    return lambda _: number(second())


PROSE = Prose(
    "tf",
    **NUMBERS,
    **{f"other_{name}": _on_second(NUMBERS[name]) for name in SECOND},
    other_new_over_old=_on_second(_new_over_old),
    other_blocks_2026=_on_second(_blocks("2026-tensorflow", "glibc", ".1f")),
    other_gain_2026=_on_second(lambda book: f"{allocator_gain(book, '2026-tensorflow').value:.1f}"),
)
