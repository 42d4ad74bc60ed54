"""Chapter 4, allocators: a framework's own pool, what a row costs where glibc does not pool, the cost in memory."""

import functools
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, predictions, stored
from traintime.book.chapters.pool_gains import (
    BOTH,
    GAIN,
    NAMES,
    ROWS,
    elsewhere,
    fault_prices,
    faults,
    gains,
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
    "With oneDNN TensorFlow 2.21 incurs less than one page fault per hundred pages of the table under plain glibc, and "
    "tcmalloc gains less than 24 %.",
)
def onednn_has_a_pool(book: Measurements) -> Finding:
    plain = onednn_faults(book)["on", "glibc"]
    table = book.ratios(stored.chosen(onednn(book), onednn="on"), [("glibc", "tcmalloc")], of="allocator")
    gain = stored.ratio_by_stack(table, [TENSORFLOW])[TENSORFLOW]
    few = Finding(bool(plain < pages() / 100), f"faults {plain:,.0f}")
    return judged_together(few, every_stack({"glibc over tcmalloc": gain}, below(GAIN)))


@claim("04.11", "Without oneDNN its step under plain glibc takes more than 1.5 times as long as with it.")
def slower_without_onednn(book: Measurements) -> Finding:
    return every_stack(without_onednn(book), above(1.5))


@claim("04.12", "tcmalloc removes at least 80 % of that difference.")
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
    says="inconclusive",
    on=elsewhere,
)
def rows_cost_the_same(book: Measurements) -> Finding:
    return every_stack({stack: further_rows(book, stack) for stack in ("2017-theano", *BENT)}, within(1 / 1.5, 1.5))


@claim(
    "04.14",
    "From 20,000 to 800,000 rows a row costs more than 1.5 times as much under plain glibc as under tcmalloc, on "
    "TensorFlow 1.15, torch and NumPy.",
    on=elsewhere,
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
    """TensorFlow with oneDNN and without: machine, oneDNN, allocator, runs, ms and page faults per step."""
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
        step=("ms per step", 1e3, ",.0f"),
        faults=("page faults per step", 1, ",.0f"),
    )


TITLES = {"2020-tensorflow": "TensorFlow 1.15", "2026-torch": "torch", "2026-jax": "JAX", "numpy": "NumPy"}


def _on_stacks(ratios: Mapping[str, Interval]) -> str:
    """ "4.0× on TensorFlow 1.15, 3.5× on torch and 1.9× on JAX", the largest first. Raises KeyError without any."""
    largest_first = sorted(stored.measured(ratios).items(), key=lambda item: -item[1].value)
    *texts, last = [f"{ratio.value:.1f}× on {TITLES.get(stack, stack)}" for stack, ratio in largest_first]
    return f"{', '.join(texts)} and {last}" if texts else last


def _ends(values: Mapping[str, Interval], spec: str, scale: float = 1.0, between: str = " to ") -> str:
    """The smallest and the largest value. Raises KeyError without any."""
    return between.join(f"{values[pick(values)].value * scale:{spec}}" for pick in (smallest, largest))


def _gain(book: Measurements, stack: str, allocator: str) -> str:
    """Speed over plain glibc's, with its interval where both ran in the same rounds."""
    return stored.ratio_by_stack(gains(book), [stack], allocator=allocator)[stack].text()


def _told_apart(book: Measurements) -> dict[str, Interval]:
    apart = {"allocator": "tcmalloc", "faster": "tcmalloc", "reason": "significant"}
    return stored.ratio_by_stack(gains(book), **apart)


def _bent(book: Measurements, value: Callable[[Measurements, str], Interval]) -> dict[str, Interval]:
    """A value of each stack that has the whole bend. Raises KeyError without any."""
    if not (stacks := dict.fromkeys(bend(book)["stack"])):
        raise KeyError("not measured")
    return {stack: value(book, stack) for stack in stacks}


def _costliest_row(book: Measurements) -> str:
    return largest(_bent(book, lambda book, stack: row_prices(book, stack)[0]))


PROSE = Prose(
    "pool",
    array_ms=lambda book: f"{pages() * 1e-6 * 1e3:.0f} ms",  # a microsecond per page
    mapped=lambda book: f"{allocators.MAPPED_FROM / 2**20:.0f} MiB",
    mapped_rows=lambda book: f"{allocators.MAPPED_FROM / table_bytes(1):,.0f}",
    heap=lambda book: f"{HEAP / 2**20:.0f} MiB",
    there=lambda book: book.title,
    there_told=lambda book: _on_stacks(_told_apart(book)).replace("×", "× faster", 1),
    there_most=lambda book: f"{plain_faults(book).max():,.0f}",
    there_most_stack=lambda book: TITLES.get(plain_faults(book).idxmax(), plain_faults(book).idxmax()),
    there_passes=lambda book: f"{plain_faults(book).max() / pages():.0f}",
    numpy_gain=lambda book: _gain(book, "numpy", "tcmalloc"),
    numpy_faults=lambda book: f"{plain_faults(book)['numpy']:,.0f}",
    faults_own=lambda book: f"{plain_faults(book)['2017-tensorflow']:,.0f}",
    gain_own=lambda book: _gain(book, "2017-tensorflow", "tcmalloc"),
    fault_there=lambda book: f"{_ends(fault_prices(book), '.1f', 1e6)} µs",
    onednn_second=lambda book: f"{onednn_faults(book)['on', 'glibc']:,.0f}",
    onednn_second_gain=lambda book: _gain(book, TENSORFLOW, "tcmalloc"),
    onednn_off=lambda book: without_onednn(book)[TENSORFLOW].text(),
    onednn_share=lambda book: taken_away(book).text(".0f", 100, "%"),
    memory=lambda book: f"{peaks_over_glibc(book).xs('tcmalloc', level='allocator').max():.1f}",
    predicted_faults=lambda _: predictions.told("04", "1"),
    predicted_kept=lambda _: predictions.told("04", "2"),
    predicted_between=lambda _: predictions.told("04", "3"),
)

# Of the other machine, on which further allocators and vocabularies were measured.
ELSEWHERE = Prose(
    "",
    pool_elsewhere=lambda book: book.title,
    pool_onednn_first=lambda book: f"{plain_faults(book)[TENSORFLOW]:,.0f}",
    pool_onednn_first_gain=lambda book: _gain(book, TENSORFLOW, "tcmalloc"),
    pool_faults_plain=lambda book: f"{faults(book)['2020-tensorflow', 'glibc']:,.0f}",
    pool_faults_arenas=lambda book: f"{faults(book)['2020-tensorflow', 'glibc-keep-arenas']:,.0f}",
    pool_faults_keep=lambda book: f"{faults(book)['2020-tensorflow', 'glibc-keep']:,.0f}",
    pool_jemalloc=lambda book: _ends(stored.ratio_by_stack(gains(book), allocator="jemalloc"), ".2f"),
    bend_even=lambda book: _ends(_bent(book, further_rows), ".1f", between=" and "),
    bend_saved=lambda book: _on_stacks({stack: row_ratio(book, stack) for stack in BENT}),
    bend_theano=lambda book: row_ratio(book, "2017-theano").text(".1f"),
    bend_before=lambda book: (
        f"{stored.row(bend(book), stack='2026-torch', allocator='glibc', vocabulary=BEND[0])['tables']:.1f}"
    ),
    bend_row_stack=lambda book: TITLES.get(_costliest_row(book), _costliest_row(book)),
    bend_row_glibc=lambda book: f"{row_prices(book, _costliest_row(book))[0].value * 1e9:,.0f} ns",
    bend_row_tcmalloc=lambda book: f"{row_prices(book, _costliest_row(book))[1].value * 1e9:,.0f} ns",
)
