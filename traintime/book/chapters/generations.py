"""Chapter 7, Theano and TensorFlow: three generations, why they differ, another allocator, other kernels, another
processor.
"""

import functools
from typing import Any

import pandas as pd
from IPython.display import HTML

from traintime.book import claims, page, stored
from traintime.book.chapters import vocabulary
from traintime.book.chapters.vocabulary import VOCABULARIES
from traintime.book.claims import Finding, every, span
from traintime.book.stored import ANY, Measurements
from traintime.book.values import Value, Values, quantity

YEARS = ("2017", "2020")
RIVALS = {year: (f"{year}-tensorflow", f"{year}-theano") for year in YEARS}  # above, below
MIDDLE = ("2017-tensorflow", "2020-tensorflow")  # older, newer
WHOLE = ("2017-tensorflow", "2026-tensorflow")
LAST = ("2020-tensorflow", "2026-tensorflow")
TODAY = ("2026-tensorflow", "2020-theano")  # no newer Theano was released
ENDS = [5_000, 280_000]  # rows: a small table, and the 2017 post's
FREED = 200_000  # rows, of the sweep over allocators
ALLOCATORS = ["glibc", "tcmalloc"]
KERNELS = {"auto": "OpenBLAS's choice", "Haswell": "Haswell's kernels"}
VARIED_ON = "amd-epyc-family25-model17-2-cores-24-gib"  # the machine on which its kernels were varied
Pair = tuple[str, str]
Panel = tuple[pd.DataFrame, dict[str, str]]  # points, and what to call each stack
RELEASES = {"2017": "1.1", "2020": "1.15", "2026": "2.21"}  # of TensorFlow
NAMES = {f"{year}-tensorflow": f"TensorFlow {release}" for year, release in RELEASES.items()}
NAMES |= {"2017-theano": "Theano 0.9", "2020-theano": "Theano-PyMC"}  # what the page calls each stack
TITLES = {
    RIVALS["2017"]: "2017: TensorFlow 1.1, Theano 0.9",
    RIVALS["2020"]: "2020: TensorFlow 1.15, Theano-PyMC",
    TODAY: "today: TensorFlow 2.21, Theano-PyMC",
    MIDDLE[::-1]: "TensorFlow 1.15 / TensorFlow 1.1",
}
claim = claims.of_chapter("07")


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
    return book.ratios(book.invocations(batch=[8, 32, 128, 1024, 4096]), RIVALS.values(), against="batch")


@functools.cache
def successors(book: Measurements) -> pd.DataFrame:
    """Older over newer software against the vocabulary: above 1, the newer one is faster."""
    return book.ratios(sweep(book), [("2017-theano", "2020-theano"), MIDDLE, LAST, WHOLE], against="vocabulary")


def of_pair(ratios: pd.DataFrame, pair: Pair) -> pd.DataFrame:
    """The rows of a table of ratios that compare these two."""
    return stored.chosen(ratios, above=pair[0], below=pair[1])


def pair_ratio(ratios: pd.DataFrame, pair: Pair, spec: str = ".1f", **wanted: Any) -> Value:
    """One ratio; without an interval where the two were not interleaved. Raises KeyError where there is none."""
    row = stored.row(of_pair(ratios, pair), **wanted)
    ends = () if row["reason"] == "not interleaved" else (row["low"], row["high"])
    return Value(row["ratio"], *ends, spec=spec)


def in_each_year(ratios: pd.DataFrame, **wanted: Any) -> Values:
    """TensorFlow over Theano by generation."""
    return Values({year: pair_ratio(ratios, pair, **wanted) for year, pair in RIVALS.items()})


def is_faster(row: pd.Series, stack: str) -> bool | None:
    """Whether this one of the two is significantly faster; None where neither is."""
    return None if pd.isna(row["faster"]) else bool(row["faster"] == stack)


def faster_at_every_size(rows: pd.DataFrame, stack: str) -> Finding:
    """Whether this one of the two is faster at every vocabulary; a size without a verdict has a question mark."""
    holds = every(*(is_faster(row, stack) for _, row in rows.iterrows()))
    texts = (f"{x['ratio']:.2f}{'?' * pd.isna(x['faster'])} at {x['vocabulary']:,}" for _, x in rows.iterrows())
    return Finding(holds, f"{', '.join(texts)} rows")


def faster_once(row: pd.Series, stack: str) -> Finding:
    """Whether this one of the two is faster in one comparison."""
    aside = "" if row["reason"] == "significant" else f", {row['reason']}"
    return Finding(is_faster(row, stack), f"{span(row)}{aside}")


def turned_in_2020(book: Measurements) -> Finding:
    """Whether TensorFlow 1.15 is faster with small tables and Theano with large ones."""
    rows = of_pair(rivals_by_size(book), RIVALS["2020"])
    small, large = rows[rows["vocabulary"].between(5_000, 20_000)], rows[rows["vocabulary"] >= 80_000]
    return faster_at_every_size(small, "2020-tensorflow") & faster_at_every_size(large, "2020-theano")


claim(
    1,
    "At 280,000 rows and batch 100 TensorFlow takes at least twice Theano's step, in the software of 2017 and in "
    "that of 2020.",
    lambda book: in_each_year(rivals_by_size(book), vocabulary=280_000) > 2,
    source="S0, C5",
)
claim(
    3,
    "In the software of 2020 TensorFlow is faster at 5,000 and 20,000 rows, and Theano from 80,000 rows on.",
    turned_in_2020,
)
claim(
    5,
    "With 280,000 rows and batch 1,024 TensorFlow takes less than twice Theano's step, in both generations.",
    lambda book: in_each_year(rivals_by_batch(book), batch=1024) < 2,
)


# Why: what a row costs, and the rest of a step


@quantity
def row_ratios(book: Measurements) -> Values:
    """How many times as much a row costs on TensorFlow as on Theano, by generation."""
    points, ratios = vocabulary.by_vocabulary(book), {}
    for year, pair in RIVALS.items():
        ratios[year] = vocabulary.ratio_of_prices(book, points, *((stack, "adam") for stack in pair))
    return Values(ratios, ".1f")


# What another allocator changes


@functools.cache
def freed(book: Measurements) -> pd.DataFrame:
    """The rivals at 200,000 rows under glibc and under tcmalloc, and TensorFlow 1.15 over 1.1."""
    runs = book.invocations(vocabulary=FREED, allocator=ALLOCATORS)
    return book.ratios(runs, [*RIVALS.values(), MIDDLE[::-1]], against="length")


@quantity
def allocator_shift(book: Measurements) -> Values:
    """What tcmalloc makes of the ratio of TensorFlow's step to Theano's in 2020, of what it is under glibc."""
    asked = [{"stack": stack, "allocator": name} for name in reversed(ALLOCATORS) for stack in RIVALS["2020"]]
    sides = book.sides(*asked, vocabulary=FREED)
    return Values({"tcmalloc over glibc": sides.interval(lambda s: s[0] / s[1] / (s[2] / s[3]))})


claim(
    8,
    "In 2020 the allocator decides: at 200,000 rows the ratio of TensorFlow's step to Theano's under tcmalloc is less "
    "than half of the ratio under glibc.",
    lambda book: allocator_shift(book) < 0.5,
)
claim(
    10,
    "Newer software is faster: from TensorFlow 1.1 to Keras 3 on TensorFlow, at every vocabulary.",
    lambda book: faster_at_every_size(of_pair(successors(book), WHOLE), WHOLE[1]),
    source="S1",
)
claim(
    11,
    "But not at every stage: under glibc TensorFlow 1.15 is slower than 1.1 at 280,000 rows.",
    lambda book: faster_once(stored.row(of_pair(successors(book), MIDDLE), vocabulary=280_000), MIDDLE[0]),
    says="inconclusive",
)


# What other kernels of OpenBLAS change


@quantity
def with_haswell(book: Measurements) -> Values:
    """A step at 5,000 rows with Haswell's kernels over one with OpenBLAS's own choice, by Theano."""
    ratios = {}
    for _, theano in RIVALS.values():
        sides = book.sides(*({"openblas": name} for name in KERNELS), stack=theano, vocabulary=ENDS[0])
        ratios[theano] = sides.interval(lambda s: s[1] / s[0])
    return Values(ratios)


claim(
    13,
    "With Haswell's kernels a step with 5,000 rows takes at most 0.8 times as long on both Theano stacks.",
    lambda book: with_haswell(book) < 0.8,
    says="inconclusive",
    on=lambda: stored.of(VARIED_ON),
)


@quantity
def behind(book: Measurements) -> Values:
    """Step of Theano-PyMC over that of TensorFlow 1.15 with 5,000 rows, by the kernels of Theano's OpenBLAS."""
    tensorflow, theano = RIVALS["2020"]
    ways = ({"stack": theano, "openblas": name} for name in KERNELS)
    sides = book.sides({"stack": tensorflow}, *ways, vocabulary=ENDS[0])
    ratios = [sides.interval(lambda s, place=place: s[place] / s[0]) for place in (1, 2)]
    return Values(dict(zip(KERNELS, ratios, strict=True)), ".1f")


# What the page shows


def answer_table(book: Measurements) -> HTML:
    """TensorFlow's step over Theano's in each generation, with a small table and a large one."""
    ratios = book.ratios(book.invocations(vocabulary=ENDS), [*RIVALS.values(), TODAY], against="vocabulary")
    return ratio_grid(ratios.assign(vocabulary=[f"{rows:,} rows" for rows in ratios["vocabulary"]]), "vocabulary")


def ratio_grid(ratios: pd.DataFrame, columns: str) -> HTML:
    """A table of ratios, a row a pair, by one of their fields; it says where a difference is inconclusive."""
    if ratios.empty:
        return page.nothing()
    marks = ["" if isinstance(faster, str) else "<br>inconclusive" for faster in ratios["faster"]]
    texts = [page.span(row, below=True) + mark for (_, row), mark in zip(ratios.iterrows(), marks, strict=True)]
    pairs = [TITLES[pair] for pair in zip(ratios["above"], ratios["below"], strict=True)]
    cells = ratios.assign(text=texts, pair=pairs).pivot_table("text", "pair", columns, aggfunc="first", sort=False)
    return page.frame(cells.rename_axis("TensorFlow's step / Theano's"))


def both_frameworks(book: Measurements) -> dict[str, Panel]:
    """TensorFlow and Theano against the vocabulary, as plots.crossing takes them: a panel a generation."""
    points, names = vocabulary.by_vocabulary(book), ("TensorFlow", "Theano")
    return {TITLES[pair]: (points, dict(zip(pair, names, strict=True))) for pair in RIVALS.values()}


def releases(*books: Measurements) -> dict[str, Panel]:
    """Three releases of TensorFlow against the vocabularies of the first machine, as plots.crossing takes them: a panel
    a machine.
    """
    sizes = set(vocabulary.by_vocabulary(books[0])["vocabulary"])
    names = {f"{year}-tensorflow": release for year, release in RELEASES.items()}
    return {
        book.title: (points[points["vocabulary"].isin(sizes)], names)
        for book, points in zip(books, map(vocabulary.by_vocabulary, books), strict=True)
    }


def named(points: pd.DataFrame) -> pd.DataFrame:
    """The points with their stacks called as in the text."""
    return points.assign(stack=points["stack"].replace(NAMES))


def part_table(book: Measurements) -> HTML:
    """What a row costs on each rival, and all else: a step with a small frozen table, or a straight line's constant."""
    points = book.points(stack=[stack for pair in RIVALS.values() for stack in pair], vocabulary=VOCABULARIES)
    prices, frozen = vocabulary.price_of_a_row(book, points), book.points(vocabulary=20_000, frozen=True)
    known, rows = frozen.dropna(subset="step_s").set_index("stack")["step_s"], []
    for (stack, how), line in book.lines(points).items():
        rest, source = (known[stack], "frozen") if stack in known else (line.coefficients["a"], "by the line")
        rows.append([stack, prices.get((stack, how)), f"{rest * 1e3:,.0f} ({source})"])
    table = named(pd.DataFrame(rows, columns=["stack", "row", "rest"]))
    return page.columns(table, stack="stack", row=("per row (ns)", 1e9, ",.0f"), rest="all but the rows (ms)")


def blas_table(book: Measurements) -> HTML:
    """A step of Theano with OpenBLAS's own choice of kernels and with Haswell's, and of the year's TensorFlow."""
    points = book.points(stack=[*RIVALS["2017"], *RIVALS["2020"]], vocabulary=ENDS, openblas=list(KERNELS))
    if points.empty:
        return page.nothing()
    points = stored.in_order(points.sort_values("openblas", ascending=False))
    kernels = points["openblas"].map(KERNELS).where(points["stack"].str.endswith("-theano"), "its own kernels")
    return page.step_table(named(points.assign(how=kernels)))


def blas(book: Measurements) -> str:
    """The processor for which a machine's OpenBLAS chooses kernels ("Barcelona"). Raises KeyError if unrecorded."""
    points = book.points(stack=[theano for _, theano in RIVALS.values()], vocabulary=VOCABULARIES)
    found = points["path"].dropna().astype(str).str.extract(r"OpenBLAS (\w+)")[0].dropna()
    return " and ".join(stored.measured(sorted(set(found))))


@quantity
def today_over_last(book: Measurements) -> Values:
    """Step of today's TensorFlow over that of the last Theano, at 280,000 rows."""
    sides = book.sides(*({"stack": stack} for stack in TODAY), vocabulary=ENDS[1])
    return Values({"": sides.interval(lambda s: s[0] / s[1])}, ".1f")
