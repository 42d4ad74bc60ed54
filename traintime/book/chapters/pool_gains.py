"""Chapter 4, first question: what each allocator gains, in time and in page faults, and a GPU's pool."""

import functools
from collections.abc import Mapping

import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.claims import Finding, Limits, above, below, claim, every_stack, judged_together, within
from traintime.book.stored import ANY, Measurements
from traintime.explain import statistics
from traintime.explain.statistics import Interval
from traintime.point import make_point

ROWS = 200_000  # of the table on which allocators are compared
NAMES = ["glibc", "glibc-keep", "glibc-keep-arenas", "jemalloc", "tcmalloc"]
BOTH = ["glibc", "tcmalloc"]
GAIN = 1.24  # the document's 24 % for CNMeM, as speed gained
PAGE = 4096  # bytes


def table_bytes(rows: int = ROWS) -> int:
    """Bytes of an embedding table of so many rows, at the 2017 post's width."""
    return 4 * rows * make_point().sizes.embedding


def pages(rows: int = ROWS) -> float:
    """Pages of the system (4 KiB) in such a table."""
    return table_bytes(rows) / PAGE


# On a GPU: the pool that the document switched on


KERNELS = {"cudnn": "one kernel", "loop-of-cells": "loop of cells", "auto": "as it chooses"}


@claim(
    "04.1",
    "Without its pool of memory a GPU takes more than 1.24 times as long for a step at 280,000 rows.",
    source="S0, C6",
    says="not measured",
)
def gpu_without_pool(book: Measurements) -> Finding:
    runs = book.invocations(vocabulary=280_000, device="gpu", kernel=ANY, allocator=["glibc", "no-pool"])
    table = book.ratios(runs, [("no-pool", "glibc")], of="allocator")
    kernels = table.assign(stack=[f"{row.stack}, {KERNELS[row.kernel]}" for row in table.itertuples()])
    return every_stack(stored.ratio_by_stack(kernels), above(GAIN))


# Page faults of a step


@functools.cache
def faults(book: Measurements) -> pd.Series:
    """Page faults a step, the mean over invocations, by stack and allocator; no noise floor applies to a count."""
    runs = book.invocations(vocabulary=ROWS, allocator=NAMES)
    return runs.groupby(["stack", "allocator"])["faults_a_step"].mean().dropna()


def plain_faults(book: Measurements) -> pd.Series:
    """Those under plain glibc by stack. Raises KeyError where nobody counted them."""
    return faults(book).xs("glibc", level="allocator")


def faults_left(book: Measurements, allocator: str) -> pd.Series:
    """The share of plain glibc's faults that another allocator leaves, by stack. Raises KeyError where none ran it."""
    counts = faults(book).unstack()
    return (counts[allocator] / counts["glibc"]).dropna()


def counted(values: pd.Series, limits: Mapping[str, Limits], spec: str) -> Finding:
    """Whether each stack's count lies within its limits. Raises KeyError where one was not counted."""
    findings = []
    for stack, inside in limits.items():
        count = float(values[stack])
        findings.append(Finding(inside(Interval(count, count, count)), f"{stack} {count:{spec}}"))
    return judged_together(*findings)


MANY = ("2017-tensorflow", "2020-tensorflow", "2026-torch")
FEW = ("2017-theano", "2020-theano", "numpy")
MOST_LEFT, FEWEST_LEFT = within(0.9, 1.1), below(0.1)


@claim(
    "04.2",
    "Under plain glibc a step at 200,000 rows faults at least five times for each page of the table on TensorFlow 1.1 "
    "and 1.15 and on torch, and at most once for five pages on both Theanos and NumPy (figures: tables' worth of "
    "pages).",
)
def updates_with_temporaries_fault(book: Measurements) -> Finding:
    limits = dict.fromkeys(MANY, above(5)) | dict.fromkeys(FEW, below(0.2))
    return counted(plain_faults(book) / pages(), limits, ".1f")


# Speed


@functools.cache
def gains(book: Measurements) -> pd.DataFrame:
    """Speed with each allocator over plain glibc's (Measurements.ratios), a row a stack and `allocator`."""
    runs = book.invocations(vocabulary=ROWS, allocator=NAMES)
    table = book.ratios(runs, [("glibc", name) for name in NAMES[1:]], of="allocator")
    return table.rename(columns={"below": "allocator"}).sort_values("stack", kind="stable", ignore_index=True)


def most_compared(machine: str = "") -> Measurements:
    """The machine that measured the most allocators in the same rounds as plain glibc; or the one that is named."""
    return stored.best(lambda book: int((gains(book)["sweep"] != "").sum()) or None, machine)


def another(book: Measurements) -> Measurements:
    """Another machine, on which further allocators were tried; the same where the book shows no other."""
    return next((stored.of(name) for name in stored.listed() if name != book.machine), book)


@claim(
    "04.3",
    "tcmalloc makes a step at 200,000 rows more than 1.24 times as fast as plain glibc on TensorFlow 1.15, torch and "
    "JAX.",
    on=most_compared,
)
def tcmalloc_gains(book: Measurements) -> Finding:
    stacks = ("2020-tensorflow", "2026-torch", "2026-jax")
    return every_stack(stored.ratio_by_stack(gains(book), stacks, allocator="tcmalloc"), above(GAIN))


@claim(
    "04.4",
    "On TensorFlow 1.1, which has an allocator of its own, and on both Theanos, which hardly fault, it gains less than "
    "that.",
    says="cannot be told",
    on=most_compared,
)
def tcmalloc_gains_less(book: Measurements) -> Finding:
    stacks = ("2017-tensorflow", "2017-theano", "2020-theano")
    return every_stack(stored.ratio_by_stack(gains(book), stacks, allocator="tcmalloc"), below(GAIN))


@claim(
    "04.5",
    "NumPy, which hardly faults either, is faster under tcmalloc.",
    says="cannot be told",
    on=most_compared,
)
def numpy_gains(book: Measurements) -> Finding:
    row = stored.row(gains(book), stack="numpy", allocator="tcmalloc")
    holds = row["faster"] == "tcmalloc" if row["reason"] in ("told apart", "less than 5 %") else None
    return Finding(holds, f"{stored.interval(row).text()}; {row['reason']}")


@claim(
    "04.6",
    "glibc told to keep its memory, in one arena, leaves less than a tenth of the faults of TensorFlow 1.15 and of "
    "torch.",
)
def one_arena_keeps(book: Measurements) -> Finding:
    limits = {"2020-tensorflow": FEWEST_LEFT, "2026-torch": FEWEST_LEFT}
    return counted(faults_left(book, "glibc-keep"), limits, ".1%")


@claim(
    "04.7",
    "With an arena for each thread it leaves nine tenths or more of them on TensorFlow 1.15, and less than a tenth on "
    "torch.",
)
def an_arena_for_each_thread_keeps_less(book: Measurements) -> Finding:
    limits = {"2020-tensorflow": MOST_LEFT, "2026-torch": FEWEST_LEFT}
    return counted(faults_left(book, "glibc-keep-arenas"), limits, ".1%")


@claim("04.8", "jemalloc, as packaged, leaves nine tenths or more of the faults of TensorFlow 1.15 and of torch.")
def jemalloc_keeps_nothing(book: Measurements) -> Finding:
    limits = {"2020-tensorflow": MOST_LEFT, "2026-torch": MOST_LEFT}
    return counted(faults_left(book, "jemalloc"), limits, ".1%")


@functools.cache
def fault_prices(book: Measurements) -> dict[str, Interval]:
    """Seconds that tcmalloc saves for each fault that it spares, by stack, where it spares half a table's pages."""
    counts = faults(book).unstack().reindex(columns=BOTH)
    spared = counts["glibc"] - counts["tcmalloc"]
    prices = {}
    for stack, number in spared[spared > pages() / 2].items():
        sides = book.sides(*({"allocator": name} for name in BOTH), stack=stack, vocabulary=ROWS)
        prices[stack] = sides.interval(lambda s, number=number: (s[0] - s[1]) / number)
    return prices


@claim(
    "04.9",
    "A fault that tcmalloc spares saves between 0.5 and 2.5 µs, on each stack that it spares half a table's pages or "
    "more.",
    on=most_compared,
)
def a_fault_costs_microseconds(book: Measurements) -> Finding:
    return every_stack(fault_prices(book), within(0.5e-6, 2.5e-6), ".1f", 1e6, "µs")


# What the page shows


def live_table(run: Measurements, points: pd.DataFrame) -> HTML:
    """What was measured here: stack, allocator, ms and faults a step."""
    means = [pd.Series(each, dtype=float).mean() for each in run.values(points, "faults_a_step")]
    return page.columns(
        points.assign(faults=means).sort_values(["stack", "typical_s"]),
        stack="stack",
        allocator="allocator",
        typical_s=("ms a step", 1e3, ",.0f"),
        faults=("faults a step", 1, ",.0f"),
    )


def gains_table(book: Measurements) -> HTML:
    """Each allocator on each stack: step, faults, peak, and speed in units of glibc's with what may be said of it."""
    table, counts = gains(book).set_index(["stack", "allocator"]), faults(book)
    points = book.points(vocabulary=ROWS, allocator=NAMES)
    points = points[points["stack"].isin(gains(book)["stack"])].sort_values(["stack", "allocator"])

    def speed(row: pd.Series) -> str:
        if (name := (row["stack"], row["allocator"])) not in table.index:
            return "1"
        return f"{stored.interval(table.loc[name]).text()}<br>{table.loc[name, 'reason']}"

    return page.columns(
        points,
        fold="All points",
        stack="stack",
        allocator="allocator",
        typical_s=("ms a step", 1e3, ",.0f"),
        faults=("faults a step", lambda row: _count(counts, row["stack"], row["allocator"])),
        peak_bytes=("peak (GiB)", 2**-30, ".1f"),
        speed=("speed (glibc 1)", speed),
    )


def _count(counts: pd.Series, stack: str, allocator: str) -> str:
    return f"{counts[stack, allocator]:,.0f}" if (stack, allocator) in counts.index else ""


def side_by_side(book: Measurements) -> HTML:
    """Each allocator next to plain glibc, both from the same rounds: step and faults of both, speed, verdict."""
    table, counts = gains(book), faults(book)
    ways = [({"allocator": "glibc"}, {"allocator": name}) for name in table["allocator"]]
    sides = [book.sides(*way, stack=stack, vocabulary=ROWS) for way, stack in zip(ways, table["stack"], strict=True)]
    steps = [[statistics.geometric(frame["median_s"]).value * 1e3 for frame in each.frames] for each in sides]

    def both_faults(row: pd.Series) -> str:
        return " → ".join(_count(counts, row["stack"], name) for name in ("glibc", row["allocator"]))

    return page.columns(
        table.assign(steps=steps, how=[each.how for each in sides]),
        fold="All comparisons",
        stack="stack",
        allocator="glibc →",
        steps=("ms a step", lambda row: " → ".join(f"{step:,.0f}" for step in row["steps"])),
        faults=("faults a step", both_faults),
        speed=("speed (glibc 1)", lambda row: page.span(row, below=True)),
        verdict=("verdict", lambda row: f"{row['reason']}, {row['how']}" if row["sweep"] else row["reason"]),
    )


def without_pool(points: pd.DataFrame) -> HTML:
    """A step on a GPU with the framework's pool and without it, and their ratio.

    points: as stored.on_gpus gives them, of the allocators "glibc" and "no-pool".
    """
    wide = points.pivot_table("typical_s", ["machine", "stack", "kernel"], "allocator", aggfunc="first")
    return page.columns(
        wide.reindex(columns=["glibc", "no-pool"]).dropna().reset_index(),
        remedy="`make measure-gpu` does it on a GPU.",
        machine="machine",
        stack="stack",
        kernel=("LSTM", lambda row: KERNELS[row["kernel"]]),
        glibc=("with its pool (ms)", 1e3, ".1f"),
        without=("without (ms)", lambda row: f"{row['no-pool'] * 1e3:.1f}"),
        times=("times as long", lambda row: f"{row['no-pool'] / row['glibc']:.2f}"),
    )
