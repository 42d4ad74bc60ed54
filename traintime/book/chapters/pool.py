"""Chapter 4, the memory pool: a framework's own pool, what a row costs where glibc has none, the cost in memory."""

import functools
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.pool_gains import (
    BOTH,
    GAIN,
    NAMES,
    ROWS,
    fault_prices,
    faults,
    gains,
    most_compared,
    pages,
    plain_faults,
    table_bytes,
)
from traintime.book.claims import Finding, above, below, claim, every_stack, judged_together, within
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements, Sides, largest, smallest
from traintime.explain import statistics
from traintime.explain.statistics import Interval
from traintime.measuring import allocators

TENSORFLOW = "2026-tensorflow"
HEAP = 2 * allocators.MAPPED_FROM  # a thread's own heap in glibc: malloc/arena.c, HEAP_MAX_SIZE, 64-bit


# TensorFlow with oneDNN and without


def onednn(book: Measurements) -> pd.DataFrame:
    """Invocations of Keras 3 on TensorFlow at full size; `onednn` says what it did: "on", "off" or "not recorded"."""
    runs = book.invocations(stack=TENSORFLOW, vocabulary=ROWS, allocator=BOTH, onednn=ANY)
    path = runs["path"].fillna("").astype(str)
    did = np.select([path.str.startswith("oneDNN"), path.str.startswith("no oneDNN")], ["on", "off"], "not recorded")
    runs = runs.assign(onednn=did)
    recorded = runs["onednn"] != "not recorded"
    return runs[recorded] if recorded.any() else runs


def onednn_faults(book: Measurements) -> pd.Series:
    """Their page faults a step, by what oneDNN did and the allocator."""
    return onednn(book).groupby(["onednn", "allocator"])["faults_a_step"].mean().dropna()


def without_onednn(book: Measurements) -> dict[str, Interval]:
    """Step without oneDNN over that with it, under plain glibc, by stack: one, or none."""
    return stored.ratio_by_stack(book.ratios(onednn(book), [("off", "on")], of="onednn"), allocator="glibc")


def taken_away(book: Measurements) -> Interval:
    """Share of what oneDNN's absence costs under glibc that tcmalloc takes away. Raises KeyError where a side lacks."""
    runs, ways = onednn(book), [("off", "glibc"), ("on", "glibc"), ("off", "tcmalloc")]
    frames = [stored.chosen(runs, onednn=state, allocator=name) for state, name in ways]
    if any(frame.empty for frame in frames):
        raise KeyError("not measured")
    common, sweep, rounds = stored.same_rounds(*frames)
    return Sides(common, book, sweep, rounds).interval(lambda s: (s[0] - s[2]) / (s[0] - s[1]))


@claim(
    "04.10",
    "With oneDNN TensorFlow 2.21 faults less than once for a hundred pages of the table under plain glibc, and "
    "tcmalloc gains less than 24 %.",
    on=most_compared,
)
def onednn_has_a_pool(book: Measurements) -> Finding:
    plain = onednn_faults(book)["on", "glibc"]
    table = book.ratios(stored.chosen(onednn(book), onednn="on"), [("glibc", "tcmalloc")], of="allocator")
    gain = stored.ratio_by_stack(table, [TENSORFLOW])[TENSORFLOW]
    few = Finding(bool(plain < pages() / 100), f"faults {plain:,.0f}")
    return judged_together(few, every_stack({"glibc over tcmalloc": gain}, below(GAIN)))


@claim(
    "04.11",
    "Without oneDNN its step under plain glibc takes more than 1.5 times as long as with it.",
    on=most_compared,
)
def slower_without_onednn(book: Measurements) -> Finding:
    return every_stack(without_onednn(book), above(1.5))


@claim("04.12", "tcmalloc takes at least 80 % of that difference away.", on=most_compared)
def tcmalloc_is_as_good(book: Measurements) -> Finding:
    return every_stack({"": taken_away(book)}, above(0.8), ".0%")


# The bend: what a row costs below and above glibc's threshold


BEND = [20_000, 80_000, 800_000]  # rows at which both allocators of the bend run in the same rounds
SIZES = sorted([*BEND, ROWS])
BENT = ("2020-tensorflow", "2026-torch", "numpy")


@functools.cache
def bend(book: Measurements) -> pd.DataFrame:
    """Points of those stacks that ran all of four vocabularies under both allocators; `how` is the allocator.

    `faults_a_step`, and `tables`: as many tables' worth of pages are those faults.
    """
    points = book.points(vocabulary=SIZES, allocator=BOTH).dropna(subset="step_s")
    whole = points.groupby("stack")["key"].count()
    points = points[points["stack"].isin(whole.index[whole == len(SIZES) * len(BOTH)])]
    # Not every old record has counted them: pandas' mean leaves those out.
    each = [pd.Series(values, dtype=float).mean() for values in book.values(points, "faults_a_step")]
    worth = np.array(each) / np.array([pages(rows) for rows in points["vocabulary"]])
    return points.assign(how=points["allocator"], faults_a_step=each, tables=worth)


def bend_ratios(book: Measurements) -> pd.DataFrame:
    """Step under glibc over that under tcmalloc, at each vocabulary (Measurements.ratios)."""
    runs = book.invocations(vocabulary=SIZES, allocator=BOTH)
    return book.ratios(runs, [("glibc", "tcmalloc")], of="allocator")


def further_rows(book: Measurements, stack: str) -> Interval:
    """Under tcmalloc, the cost of a further row from 80,000 to 800,000 rows over that from 20,000 to 80,000.

    Raises KeyError where one of the steps was not measured.
    """
    few, some, many = BEND
    sides = book.sides(*({"vocabulary": rows} for rows in BEND), stack=stack, allocator="tcmalloc")
    return sides.interval(lambda s: (s[2] - s[1]) / (many - some) / ((s[1] - s[0]) / (some - few)))


@functools.cache
def row_sides(book: Measurements, stack: str) -> Sides:
    """Steps at 20,000 and at 800,000 rows, under glibc and then under tcmalloc. Raises KeyError where one lacks."""
    ends = [{"vocabulary": rows, "allocator": name} for name in BOTH for rows in (BEND[0], BEND[-1])]
    return book.sides(*ends, stack=stack)


def row_ratio(book: Measurements, stack: str) -> Interval:
    """The cost of a row between the two under glibc over that under tcmalloc."""
    return row_sides(book, stack).interval(lambda s: (s[1] - s[0]) / (s[3] - s[2]))


def row_prices(book: Measurements, stack: str) -> tuple[Interval, Interval]:
    """Both prices: seconds a row under glibc and under tcmalloc."""
    sides, rows = row_sides(book, stack), BEND[-1] - BEND[0]
    return sides.interval(lambda s: (s[1] - s[0]) / rows), sides.interval(lambda s: (s[3] - s[2]) / rows)


@claim(
    "04.13",
    "Under tcmalloc a further row costs the same, within a factor of 1.5, from 80,000 to 800,000 rows as from 20,000 "
    "to 80,000, on Theano 0.9, TensorFlow 1.15, torch and NumPy.",
    says="cannot be told",
)
def rows_cost_the_same(book: Measurements) -> Finding:
    return every_stack({stack: further_rows(book, stack) for stack in ("2017-theano", *BENT)}, within(1 / 1.5, 1.5))


@claim(
    "04.14",
    "From 20,000 to 800,000 rows a row costs more than 1.5 times as much under plain glibc as under tcmalloc, on "
    "TensorFlow 1.15, torch and NumPy.",
)
def rows_cost_more_under_glibc(book: Measurements) -> Finding:
    return every_stack({stack: row_ratio(book, stack) for stack in BENT}, above(1.5), ".1f")


# Memory


def peaks_over_glibc(book: Measurements) -> pd.Series:
    """Peak of memory in units of plain glibc's, by stack and allocator."""
    peaks = book.points(vocabulary=ROWS, allocator=NAMES).set_index(["stack", "allocator"])["peak_bytes"]
    return peaks.div(peaks.xs("glibc", level="allocator"), level="stack").dropna()


@claim("04.15", "The peak of memory under tcmalloc is at most 1.5 times that under plain glibc, on any stack.")
def what_is_kept(book: Measurements) -> Finding:
    share = peaks_over_glibc(book).xs("tcmalloc", level="allocator")
    return Finding(bool(share.max() <= 1.5), f"{share.max():.2f} on {share.idxmax()}")


# What the page shows


def onednn_table(books: Iterable[Measurements]) -> HTML:
    """TensorFlow with oneDNN and without: machine, oneDNN, allocator, invocations, ms and faults a step."""
    rows = []
    for book in books:
        runs = onednn(book).sort_values(["onednn", "allocator"], ascending=[False, True])
        for (state, name), same in runs.groupby(["onednn", "allocator"], sort=False):
            step = statistics.geometric(same["median_s"], book.spread(TENSORFLOW))
            row = {"machine": book.title, "onednn": state, "allocator": name, "runs": str(len(same)), "step": step}
            rows.append(row | {"faults": same["faults_a_step"].mean()})
    return page.columns(
        pd.DataFrame(rows),
        machine="machine",
        onednn="oneDNN",
        allocator="allocator",
        runs="runs",
        step=("ms a step", 1e3, ",.0f"),
        faults=("faults a step", 1, ",.0f"),
    )


def bend_table(book: Measurements) -> HTML:
    """glibc over tcmalloc at each vocabulary, and the ratio of a row's costs."""
    table = bend_ratios(book)
    texts = [f"{page.span(row, spec='.1f', below=True)}<br>{row['reason']}" for _, row in table.iterrows()]
    wide = table.assign(text=texts).pivot(index="stack", columns="vocabulary", values="text").rename(columns=str)

    def price(row: pd.Series) -> str:
        text = row_ratio(book, row["stack"]).text(".1f").replace(" (", "<br>(")
        return f"{text}<br>{row_sides(book, row['stack']).how}"

    return page.columns(
        wide.loc[list(dict.fromkeys(bend(book)["stack"]))].reset_index(),
        stack="glibc / tcmalloc",
        **{str(size): f"{size:,} rows" for size in SIZES},
        price=("a row's price", price),
    )


def _on_stacks(ratios: Mapping[str, Interval]) -> str:
    """ "3.4 on 2020-tensorflow, 2.6 on 2026-torch", the largest first. Raises KeyError without any."""
    if not ratios:
        raise KeyError("not measured")
    largest_first = sorted(ratios.items(), key=lambda item: -item[1].value)
    return ", ".join(f"{ratio.value:.1f} on {stack}" for stack, ratio in largest_first)


def _ends(values: Mapping[str, Interval], spec: str, scale: float = 1.0, between: str = " to ") -> str:
    """The smallest and the largest value. Raises KeyError without any."""
    return between.join(f"{values[pick(values)].value * scale:{spec}}" for pick in (smallest, largest))


def _gain(book: Measurements, stack: str, allocator: str) -> str:
    return stored.interval(stored.row(gains(book), stack=stack, allocator=allocator)).text()


def _told_apart(book: Measurements) -> dict[str, Interval]:
    apart = {"allocator": "tcmalloc", "faster": "tcmalloc", "reason": "told apart"}
    return stored.ratio_by_stack(gains(book), **apart)


def best_gain() -> tuple[pd.Series, str]:
    """The largest significant gain of an allocator on a machine that every chapter shows, and where: a row of `gains`
    and its place in words. Raises KeyError without any.
    """
    rows = [(row, book.title) for book in map(stored.of, stored.listed()) for _, row in gains(book).iterrows()]
    apart = [(row, title) for row, title in rows if row["reason"] == "told apart" and row["faster"] == row["allocator"]]
    if not apart:
        raise KeyError("not measured")
    row, title = max(apart, key=lambda each: each[0]["ratio"])
    return row, f"{row['allocator']} on {row['stack']}, {title}"


def _largest_peak(book: Measurements) -> str:
    """Of the allocators that keep their memory."""
    peaks = peaks_over_glibc(book)
    return f"{peaks[peaks.index.isin(['glibc-keep', 'tcmalloc'], level='allocator')].nlargest(1).iloc[0]:.1f}"


def _bent(book: Measurements, value: Callable[[Measurements, str], Interval]) -> dict[str, Interval]:
    """A value of each stack that has the whole bend. Raises KeyError without any."""
    if not (stacks := dict.fromkeys(bend(book)["stack"])):
        raise KeyError("not measured")
    return {stack: value(book, stack) for stack in stacks}


def _halved(book: Measurements) -> str:
    """The stacks on which glibc's mapping is half or more of a row's cost."""
    return ", ".join(stack for stack, ratio in _bent(book, row_ratio).items() if ratio.value >= 2) or "no stack"


def _dearest_row(book: Measurements) -> str:
    return largest(_bent(book, lambda book, stack: row_prices(book, stack)[0]))


def _most_tables(book: Measurements, rows: int) -> pd.Series:
    """The point under glibc, at so many rows, that faults in the most tables' worth of pages."""
    return stored.chosen(bend(book), allocator="glibc", vocabulary=rows).nlargest(1, "tables").iloc[0]


PROSE = Prose(
    "pool",
    table=lambda book: f"{table_bytes() / 2**20:.0f} MiB",
    pages=lambda book: f"{pages():,.0f}",
    mapped=lambda book: f"{allocators.MAPPED_FROM / 2**20:.0f} MiB",
    mapped_rows=lambda book: f"{allocators.MAPPED_FROM / table_bytes(1):,.0f}",
    heap=lambda book: f"{HEAP / 2**20:.0f} MiB",
    best=lambda book: page.span(best_gain()[0], spec=".1f"),  # of the front page
    best_where=lambda book: best_gain()[1],
    there=lambda book: book.title,
    there_told=lambda book: _on_stacks(_told_apart(book)),
    there_most=lambda book: f"{plain_faults(book).max():,.0f}",
    there_most_stack=lambda book: plain_faults(book).idxmax(),
    there_passes=lambda book: f"{plain_faults(book).max() / pages():.0f}",
    faults_own=lambda book: f"{plain_faults(book)['2017-tensorflow']:,.0f}",
    fault_there=lambda book: f"{_ends(fault_prices(book), '.1f', 1e6)} µs",
    onednn_second=lambda book: f"{plain_faults(book)[TENSORFLOW]:,.0f}",
    onednn_second_gain=lambda book: _gain(book, TENSORFLOW, "tcmalloc"),
    onednn_off=lambda book: without_onednn(book)[TENSORFLOW].text(),
    onednn_off_faults=lambda book: f"{onednn_faults(book)['off', 'glibc']:,.0f}",
    onednn_share=lambda book: taken_away(book).text(".0%"),
)

# Of the other machine, on which further allocators and vocabularies were tried.
ELSEWHERE = Prose(
    "",
    pool_elsewhere=lambda book: book.title,
    pool_fault=lambda book: f"{_ends(fault_prices(book), '.1f', 1e6)} µs",
    pool_onednn_first=lambda book: f"{plain_faults(book)[TENSORFLOW]:,.0f}",
    pool_onednn_first_gain=lambda book: _gain(book, TENSORFLOW, "tcmalloc"),
    pool_interleaved=lambda book: str(int((gains(book)["sweep"] != "").sum())),
    pool_all=lambda book: str(len(gains(book))),
    pool_faults_plain=lambda book: f"{faults(book)['2020-tensorflow', 'glibc']:,.0f}",
    pool_faults_arenas=lambda book: f"{faults(book)['2020-tensorflow', 'glibc-keep-arenas']:,.0f}",
    pool_faults_keep=lambda book: f"{faults(book)['2020-tensorflow', 'glibc-keep']:,.0f}",
    pool_keep=lambda book: _gain(book, "2020-tensorflow", "glibc-keep"),
    pool_jemalloc=lambda book: _ends(stored.ratio_by_stack(gains(book), allocator="jemalloc"), ".2f"),
    pool_memory=_largest_peak,
    bend_even=lambda book: _ends(_bent(book, further_rows), ".1f", between=" and "),
    bend_saved=lambda book: _on_stacks(_bent(book, row_ratio)),
    bend_half=_halved,
    bend_row_stack=_dearest_row,
    bend_row_glibc=lambda book: f"{row_prices(book, _dearest_row(book))[0].value * 1e9:,.0f} ns",
    bend_row_tcmalloc=lambda book: f"{row_prices(book, _dearest_row(book))[1].value * 1e9:,.0f} ns",
    bend_before=lambda book: f"{_most_tables(book, BEND[0])['tables']:.1f}",
    bend_before_stack=lambda book: _most_tables(book, BEND[0])["stack"],
    bend_after=lambda book: f"{_most_tables(book, BEND[1])['tables']:.1f}",
    bend_after_stack=lambda book: _most_tables(book, BEND[1])["stack"],
)
