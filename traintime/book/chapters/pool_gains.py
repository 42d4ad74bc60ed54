"""Chapter 4, first question: what each allocator gains, in time and in page faults."""

import functools
from collections.abc import Mapping

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.claims import Finding, Limits, above, below, claim, every_stack, judged_together, within
from traintime.book.stored import ANY, Measurements
from traintime.explain.statistics import Interval
from traintime.point import make_point

ROWS = 200_000  # of the table on which allocators are compared
NAMES = ["glibc", "glibc-keep", "glibc-keep-arenas", "jemalloc", "tcmalloc"]
BOTH = ["glibc", "tcmalloc"]
GAIN = 1.24  # the 2017 post's 24 % for CNMeM, as speed gained
PAGE = 4096  # bytes


def table_bytes(rows: int = ROWS) -> int:
    """Bytes of an embedding table of so many rows, at the 2017 post's width."""
    return 4 * rows * make_point().sizes.embedding


def pages(rows: int = ROWS) -> float:
    """Pages of the system (4 KiB) in such a table."""
    return table_bytes(rows) / PAGE


# On a GPU: the pool that the 2017 post switched on


KERNELS = {"cudnn": "one kernel", "loop-of-cells": "loop of cells", "auto": "as it chooses"}


@claim(
    "04.1",
    "Without the framework's memory pool a step at 280,000 rows takes more than 1.24 times as long on a GPU.",
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
    return (counts.loc[:, allocator] / counts.loc[:, "glibc"]).dropna()


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
    "Under plain glibc a step at 200,000 rows incurs at least five page faults per page of the table on TensorFlow 1.1 "
    "and 1.15 and on torch, and at most one per five pages on both Theanos and NumPy (figures: page faults per page of "
    "the table).",
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


def elsewhere() -> Measurements:
    """The other machine that every chapter shows, on which further allocators and vocabularies were measured."""
    return stored.of(next((name for name in stored.listed() if name != stored.reference()), ""))


@claim(
    "04.3",
    "tcmalloc makes a step at 200,000 rows more than 1.24 times as fast as plain glibc on TensorFlow 1.15, torch and "
    "JAX.",
)
def tcmalloc_gains(book: Measurements) -> Finding:
    stacks = ("2020-tensorflow", "2026-torch", "2026-jax")
    return every_stack(stored.ratio_by_stack(gains(book), stacks, allocator="tcmalloc"), above(GAIN))


@claim(
    "04.4",
    "On TensorFlow 1.1, which has an allocator of its own, and on both Theanos, which incur few page faults, it gains "
    "less than that.",
    says="inconclusive",
)
def tcmalloc_gains_less(book: Measurements) -> Finding:
    stacks = ("2017-tensorflow", "2017-theano", "2020-theano")
    return every_stack(stored.ratio_by_stack(gains(book), stacks, allocator="tcmalloc"), below(GAIN))


@claim(
    "04.5",
    "NumPy, which incurs few page faults as well, is faster under tcmalloc.",
    says="inconclusive",
)
def numpy_gains(book: Measurements) -> Finding:
    row = stored.row(gains(book), stack="numpy", allocator="tcmalloc")
    holds = row["faster"] == "tcmalloc" if row["reason"] in ("significant", "less than 5 %") else None
    return Finding(holds, f"{stored.interval(row).text()}; {row['reason']}")


@claim(
    "04.6",
    "With glibc set to keep its memory, in one arena, TensorFlow 1.15 and torch incur less than a tenth of the page "
    "faults.",
    on=elsewhere,
)
def one_arena_keeps(book: Measurements) -> Finding:
    limits = {"2020-tensorflow": FEWEST_LEFT, "2026-torch": FEWEST_LEFT}
    return counted(faults_left(book, "glibc-keep"), limits, ".1%")


@claim(
    "04.7",
    "With an arena per thread TensorFlow 1.15 still incurs nine tenths or more of them, and torch less than a tenth.",
    on=elsewhere,
)
def an_arena_for_each_thread_keeps_less(book: Measurements) -> Finding:
    limits = {"2020-tensorflow": MOST_LEFT, "2026-torch": FEWEST_LEFT}
    return counted(faults_left(book, "glibc-keep-arenas"), limits, ".1%")


@claim(
    "04.8",
    "With jemalloc, as packaged, TensorFlow 1.15 and torch still incur nine tenths or more of the page faults.",
    on=elsewhere,
)
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
    "A page fault that tcmalloc avoids saves between 0.5 and 2.5 µs, on each stack where it avoids half a table's "
    "pages or more.",
)
def a_fault_costs_microseconds(book: Measurements) -> Finding:
    return every_stack(fault_prices(book), within(0.5e-6, 2.5e-6), ".1f", 1e6, "µs")


# What the page shows


def worth(book: Measurements) -> dict[str, str]:
    """Page faults per step under plain glibc by stack, in tables: as many as so many tables have pages."""
    return {stack: f"{count / pages():.1f}" for stack, count in plain_faults(book).items()}


def here_table(run: Measurements, points: pd.DataFrame, book: Measurements) -> HTML:
    """What was measured here, and where a machine stored the same configuration, its step: ms and page faults."""
    means = [pd.Series(each, dtype=float).mean() for each in run.values(points, "faults_a_step")]
    asked = {name: list(points[name].unique()) for name in ("stack", "vocabulary", "allocator")}
    known = book.points(**asked).set_index(["stack", "key"])["typical_s"]
    also = [known.get((row["stack"], row["key"]), np.nan) for _, row in points.iterrows()]
    return page.columns(
        points.assign(faults=means, known=also).sort_values(["stack", "typical_s"]),
        stack="stack",
        allocator="allocator",
        typical_s=("ms per step, this run", 1e3, ",.0f"),
        faults=("page faults per step", 1, ",.0f"),
        known=(f"ms per step, {book.title}", 1e3, ",.0f"),
    )


def gains_table(book: Measurements) -> HTML:
    """Each allocator on each stack: step, page faults, peak, and speed in units of glibc's with its verdict."""
    table, counts = gains(book).set_index(["stack", "allocator"]), faults(book)
    points = book.points(vocabulary=ROWS, allocator=NAMES)
    points = points[points["stack"].isin(gains(book)["stack"])].sort_values(["stack", "allocator"])

    def speed(row: pd.Series) -> str:
        if (name := (row["stack"], row["allocator"])) not in table.index:
            return "1"
        return f"{stored.interval(table.loc[name]).text()}<br>{table.loc[name, 'reason']}"

    return page.columns(
        points,
        fold=f"Each allocator on {book.title}",
        stack="stack",
        allocator="allocator",
        typical_s=("ms per step", 1e3, ",.0f"),
        faults=("page faults per step", lambda row: _count(counts, row["stack"], row["allocator"])),
        peak_bytes=("peak (GiB)", 2**-30, ".1f"),
        speed=("speed / glibc's", speed),
    )


def _count(counts: pd.Series, stack: str, allocator: str) -> str:
    return f"{counts[stack, allocator]:,.0f}" if (stack, allocator) in counts.index else ""
