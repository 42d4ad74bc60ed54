"""Chapter 4, allocators: what each gains in time and page faults, a framework's own pool, what a row costs where glibc
does not pool, the cost in memory.
"""

import functools
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, page, stored
from traintime.book.chapters import numpy_batches
from traintime.book.stored import ANY, Measurements, Sides
from traintime.book.values import Values, exact, quantity
from traintime.explain import points
from traintime.point import make_point

ROWS = 200_000  # of the table on which allocators are compared
NAMES = ["glibc", "glibc-keep", "glibc-keep-arenas", "jemalloc", "tcmalloc"]
BOTH = ["glibc", "tcmalloc"]
GAIN = 1.24  # the 2017 post's 24 % for CNMeM, as speed gained
TENSORFLOW = "2026-tensorflow"
MANY = ("2017-tensorflow", "2020-tensorflow", "2026-torch")
FEW = ("2017-theano", "2020-theano", "numpy")
KERNELS = {"cudnn": "one kernel", "loop-of-cells": "loop of cells", "auto": "as it chooses"}
TITLES = {"2020-tensorflow": "TensorFlow 1.15", "2026-torch": "torch", "2026-jax": "JAX", "numpy": "NumPy"}
claim = claims.of_chapter("04")


def table_bytes(rows: int = ROWS) -> int:
    """Bytes of an embedding table of so many rows, at the 2017 post's width."""
    return 4 * rows * make_point().sizes.embedding


def pages(rows: int = ROWS) -> float:
    """Pages of the system (4 KiB) in such a table."""
    return table_bytes(rows) / 4096


# On a GPU: the pool that the 2017 post switched on


@quantity
def without_pool(book: Measurements) -> Values:
    """A step without the framework's memory pool over one with it, on a GPU, by stack and kernel."""
    runs = book.invocations(vocabulary=280_000, device="gpu", kernel=ANY, allocator=["glibc", "no-pool"])
    table = book.ratios(runs, [("no-pool", "glibc")], of="allocator")
    names = [f"{one.stack}, {KERNELS[one.kernel]}" for one in table.itertuples()]
    return Values(stored.ratio_by_stack(table.assign(stack=names)))


claim(
    1,
    "Without the framework's memory pool a step at 280,000 rows takes more than 1.24 times as long on a GPU.",
    lambda book: without_pool(book) > GAIN,
    source="S0, C6",
    says="not measured",
)


# Page faults of a step


@functools.cache
def faults(book: Measurements, **fields: Any) -> pd.Series:
    """Page faults a step, the mean over invocations, by stack and allocator; no noise floor applies to a count.

    fields: in which the runs differ from the usual ones.
    """
    runs = book.invocations(vocabulary=ROWS, allocator=NAMES, **fields)
    return runs.groupby(["stack", "allocator"])["faults_a_step"].mean().dropna()


def plain_faults(book: Measurements) -> pd.Series:
    """Those under plain glibc by stack. Raises KeyError where nobody counted them."""
    return faults(book).xs("glibc", level="allocator")


@quantity
def faults_a_page(book: Measurements, *stacks: str) -> Values:
    """Page faults of a step under plain glibc for each page of the table, on these stacks or on all."""
    counts = (plain_faults(book) / pages()).dropna()
    return exact(counts.loc[list(stacks)].to_dict() if stacks else counts.to_dict(), ".1f")


claim(
    2,
    "Under plain glibc a step at 200,000 rows incurs at least five page faults per page of the table on TensorFlow 1.1 "
    "and 1.15 and on torch, and at most one per five pages on both Theanos and NumPy (figures: page faults per page of "
    "the table).",
    lambda book: (faults_a_page(book, *MANY) > 5) & (faults_a_page(book, *FEW) < 0.2),
)


# Speed


@functools.cache
def gains(book: Measurements) -> pd.DataFrame:
    """Speed with each allocator over plain glibc's (Measurements.ratios), a row a stack and `allocator`."""
    runs = book.invocations(vocabulary=ROWS, allocator=NAMES)
    table = book.ratios(runs, [("glibc", name) for name in NAMES[1:]], of="allocator")
    return table.rename(columns={"below": "allocator"}).sort_values("stack", kind="stable", ignore_index=True)


@quantity
def speeds(book: Measurements, allocator: str, *stacks: str) -> Values:
    """Speed with an allocator over plain glibc's, on these stacks or on all."""
    return Values(stored.ratio_by_stack(gains(book), stacks or None, allocator=allocator))


claim(
    3,
    "tcmalloc makes a step at 200,000 rows more than 1.24 times as fast as plain glibc on TensorFlow 1.15, torch and "
    "JAX.",
    lambda book: speeds(book, "tcmalloc", "2020-tensorflow", "2026-torch", "2026-jax") > GAIN,
)


@quantity
def fault_prices(book: Measurements, **fields: Any) -> Values:
    """Seconds that tcmalloc saves for each page fault that it avoids, by stack where it avoids half a table's pages.

    fields: in which the runs differ from the usual ones.
    """
    counts = faults(book, **fields).unstack().reindex(columns=BOTH)
    avoided = counts["glibc"] - counts["tcmalloc"]
    costs = {}
    for stack, number in avoided[avoided > pages() / 2].items():
        sides = book.sides(*({"allocator": name} for name in BOTH), stack=stack, vocabulary=ROWS, **fields)
        costs[stack] = sides.interval(lambda s, number=number: (s[0] - s[1]) / number)
    return Values(costs, ".1f", 1e6, "µs")


@quantity
def fault_costs(book: Measurements) -> Values:
    """Seconds that a page fault costs, which every page quotes: in each comparison in which it was measured.

    On the stacks of fault_prices, on TensorFlow with oneDNN switched off, and in chapter 10's network.
    """
    costs = dict(fault_prices(book).by_name)
    costs |= {f"{stack}, no oneDNN": cost for stack, cost in fault_prices(book, onednn="off").by_name.items()}
    if network := stored.or_none(lambda: numpy_batches.three_prices(book).interval("w")):
        costs["chapter 10's network"] = network
    return Values(costs, ".1f", 1e6, "µs")


claim(
    9,
    "A page fault that tcmalloc avoids saves between 0.5 and 2.5 µs, on each stack where it avoids half a table's "
    "pages or more.",
    lambda book: fault_prices(book).within(0.5e-6, 2.5e-6),
)


# TensorFlow with oneDNN and without


def onednn(book: Measurements) -> pd.DataFrame:
    """Invocations of Keras 3 on TensorFlow at full size that recorded what oneDNN did: `onednn`, "on" or "off"."""
    runs = book.invocations(stack=TENSORFLOW, vocabulary=ROWS, allocator=BOTH, onednn=ANY)
    path = runs["path"].fillna("").astype(str)
    runs = runs.assign(onednn=np.where(path.str.startswith("no oneDNN"), "off", "on"))
    return runs[path.str.contains("oneDNN")]


@quantity
def without_onednn(book: Measurements) -> Values:
    """Step without oneDNN over that with it, under plain glibc, by stack: one, or none."""
    return Values(stored.ratio_by_stack(book.ratios(onednn(book), [("off", "on")], of="onednn"), allocator="glibc"))


@quantity
def taken_away(book: Measurements) -> Values:
    """Share of what oneDNN's absence costs under glibc that tcmalloc takes away. Empty where a side lacks."""
    runs, ways = onednn(book), [("off", "glibc"), ("on", "glibc"), ("off", "tcmalloc")]
    frames = [stored.measured(stored.chosen(runs, onednn=state, allocator=name)) for state, name in ways]
    common, sweep, rounds = stored.same_rounds(*frames)
    return Values({"": Sides(common, book, sweep, rounds).interval(lambda s: (s[0] - s[2]) / (s[0] - s[1]))}, ".0%")


claim(
    11,
    "Without oneDNN its step under plain glibc takes more than 1.5 times as long as with it.",
    lambda book: without_onednn(book) > 1.5,
)
claim(12, "tcmalloc removes at least 80 % of that difference.", lambda book: taken_away(book) > 0.8)


# The bend: what a row costs below and above glibc's threshold


BEND = [20_000, 80_000, 800_000]  # rows at which both allocators of the bend run in the same rounds
SIZES = sorted([*BEND, ROWS])
BENT = ("2020-tensorflow", "2026-torch", "numpy")


def bend(book: Measurements) -> pd.DataFrame:
    """Points of those stacks that ran all of four vocabularies under both allocators; `how` is the allocator."""
    points = book.points(vocabulary=SIZES, allocator=BOTH).dropna(subset="step_s")
    whole = points.groupby("stack")["key"].count()
    points = points[points["stack"].isin(whole.index[whole == len(SIZES) * len(BOTH)])]
    return points.assign(how=points["allocator"])


@quantity
def row_ratios(book: Measurements, *stacks: str) -> Values:
    """A row's cost from 20,000 to 800,000 under glibc over that under tcmalloc, by all runs: without an interval."""
    steps = bend(book).pivot_table("step_s", "stack", ["how", "vocabulary"]).loc[list(stacks)]
    glibc, tcmalloc = (steps[name, BEND[-1]] - steps[name, BEND[0]] for name in BOTH)
    return exact((glibc / tcmalloc).to_dict(), ".1f")


# Memory


def highest_peak(book: Measurements) -> float:
    """Peak of memory under tcmalloc in units of plain glibc's, on the stack where it is highest."""
    points = book.points(vocabulary=ROWS, allocator=BOTH)
    peaks = points.pivot(index="stack", columns="allocator", values="peak_bytes")
    return float((peaks["tcmalloc"] / peaks["glibc"]).max())


# What the page shows


def here_table(run: Measurements, points: pd.DataFrame, book: Measurements) -> HTML:
    """What was measured here, and where a machine stored the same configuration, its step: ms and page faults."""
    means = [pd.Series(each, dtype=float).mean() for each in run.values(points, "faults_a_step")]
    asked = {name: list(points[name].unique()) for name in ("stack", "vocabulary", "allocator")}
    known = book.points(**asked).set_index(["stack", "key"])["step_s"]
    also = [known.get((row["stack"], row["key"]), np.nan) for _, row in points.iterrows()]
    return page.columns(
        points.assign(faults=means, known=also).sort_values(["stack", "step_s"]),
        stack="stack",
        allocator="allocator",
        step_s=("ms per step, this run", 1e3, ",.0f"),
        faults=("page faults per step", 1, ",.0f"),
        known=(f"ms per step, {book.title}", 1e3, ",.0f"),
    )


def gains_table(book: Measurements) -> HTML:
    """Each allocator on each stack: step, page faults, peak, and speed in units of glibc's with its verdict."""
    table = gains(book).set_index(["stack", "allocator"])
    points = book.points(vocabulary=ROWS, allocator=NAMES).join(faults(book).rename("faults"), on=table.index.names)
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
        step_s=("ms per step", 1e3, ",.0f"),
        faults=("page faults per step", 1, ",.0f"),
        peak_bytes=("peak (GiB)", 2**-30, ".1f"),
        speed=("speed / glibc's", speed),
    )


def onednn_table(book: Measurements) -> HTML:
    """TensorFlow with oneDNN and without, by allocator: runs of the same rounds, ms and page faults per step."""
    runs, rows = onednn(book).sort_values(["onednn", "allocator"], ascending=[False, True]), []
    sides = [side for _, side in runs.groupby(["onednn", "allocator"], sort=False)]
    for same in stored.same_rounds(*sides)[0] if sides else []:
        step = book.steps([TENSORFLOW], [points.runs(same)]).product([1])
        row = dict(same.iloc[0][["onednn", "allocator"]]) | {"runs": str(len(same)), "step": step}
        rows.append(row | {"faults": same["faults_a_step"].mean()})
    return page.columns(
        pd.DataFrame(rows),
        onednn="oneDNN",
        allocator="allocator",
        runs="runs",
        step=("ms per step", 1e3, ",.0f"),
        faults=("page faults per step", 1, ",.0f"),
    )
