"""The memory pool: what an allocator is worth, by time and by page faults, and where a framework has its own."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from traintime.book import stored
from traintime.book.claims import Finding, every
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula
from traintime.explain.statistics import Interval, Spread
from traintime.measuring import allocators
from traintime.point import make_point

ROWS = 200_000  # of the table on which allocators are compared
NAMES = ["glibc", "glibc-keep", "glibc-keep-arenas", "jemalloc", "tcmalloc"]
BEND = [20_000, 80_000, 800_000]  # rows at which both allocators of the bend run in the same rounds
BOTH = ["glibc", "tcmalloc"]
GAIN = 1.24  # the document's 24 % for CNMeM, as speed gained
PAGE = 4096  # bytes
HEAP = 2 * allocators.MAPPED_FROM  # a thread's own heap in glibc: malloc/arena.c, HEAP_MAX_SIZE, 64-bit
TENSORFLOW = "2026-tensorflow"
NOT_YET = "not measured yet"
KERNELS = {"cudnn": "one kernel", "loop-of-cells": "loop of cells", "auto": "as it chooses"}
NOT_INTERLEAVED = "not interleaved"
DRAWS = 2000
FEWEST = 3  # rounds that a comparison should have


def table_bytes(rows: int = ROWS) -> int:
    """Bytes of an embedding table of so many rows, at the document's width."""
    return 4 * rows * make_point().sizes.embedding


def pages(rows: int = ROWS) -> float:
    """Pages of the system (4 KiB) in such a table."""
    return table_bytes(rows) / PAGE


# Tables


def faults(book: Measurements, rows: int = ROWS) -> pd.Series:
    """Page faults a step, the mean over good invocations, by stack and allocator; no noise floor applies to a count."""
    found = book.invocations(vocabulary=rows, allocator=NAMES)
    return found.groupby(["stack", "allocator"])["faults_a_step"].mean().dropna()


def full_size(book: Measurements) -> pd.DataFrame:
    """Points at full size of the stacks with glibc and one allocator to compare it with, and `faults_a_step`."""
    points = book.points(vocabulary=ROWS, allocator=NAMES)
    tried = points.groupby("stack")["allocator"].agg(set)
    wanted = [name for name, found in tried.items() if "glibc" in found and len(found) > 1]
    points = points[points["stack"].isin(wanted)]
    counts = faults(book)
    each = [counts.get((row.stack, row.allocator), np.nan) for row in points.itertuples()]
    order = [NAMES.index(name) for name in points["allocator"]]
    points = points.assign(faults_a_step=each, _order=order)
    return points.sort_values(["stack", "_order"], ignore_index=True).drop(columns="_order")


def compared(book: Measurements) -> pd.DataFrame:
    """Invocations at full size that comparisons rest on.

    Where three rounds or more were measured before sources were recorded, newer ones count from their third round on:
    otherwise a single round would stand for the machine (stored.interleaved prefers recorded sources).
    """
    found = book.invocations(vocabulary=ROWS, allocator=NAMES)
    newer = found["code"] != ""
    older_rounds, newer_rounds = (found.loc[part, "round"].nunique() for part in (~newer, newer))
    return found[~newer] if newer_rounds < FEWEST <= older_rounds else found


@functools.cache
def gains(book: Measurements) -> pd.DataFrame:
    """Speed with each allocator over plain glibc's (Measurements.ratios), a row a stack and `allocator`."""
    table = book.ratios(compared(book), [("glibc", name) for name in NAMES[1:]], of="allocator")
    table = table.rename(columns={"below": "allocator"})
    return table.sort_values("stack", kind="stable", ignore_index=True)


# Things that are derived from several steps


def in_same_rounds(*sides: pd.DataFrame) -> tuple[list[np.ndarray], int]:
    """Median steps (s) of several things in the rounds that measured all of them, and how many such rounds.

    As stored.interleaved does for two; all there are, and 0, where no sweep measured them together.
    """
    best: tuple[bool, int, str] = (False, 0, "")
    chosen = [side["median_s"].to_numpy() for side in sides]
    for sweep, recorded in {(row.sweep, bool(row.code)) for row in sides[0].itertuples()}:
        parts = [side[(side["sweep"] == sweep) & ((side["code"] != "") == recorded)] for side in sides]
        rounds = set.intersection(*(set(part["round"]) for part in parts))
        if rounds and (rank := (recorded, len(rounds), str(sweep))) > best:
            best = rank
            chosen = [part.loc[part["round"].isin(rounds), "median_s"].to_numpy() for part in parts]
    return chosen, best[1]


def derived(groups: Sequence[np.ndarray], spread: Spread, function: Callable[[np.ndarray], np.ndarray]) -> Interval:
    """A function of several steps (s) with the interval that their run-to-run error gives it.

    function: of shape (groups,) a number, of shape (groups, draws) one a draw. Raises KeyError where a group is empty.
    """
    if not all(len(group) for group in groups):
        raise KeyError("a group without invocations")
    seconds = np.array([np.exp(np.log(group).mean()) for group in groups])
    numbers = np.array([len(group) for group in groups])
    redraw = formula.repeated(np.tile(seconds, DRAWS), np.tile(numbers, DRAWS), spread)
    drawn = redraw(np.random.default_rng(0)).reshape(DRAWS, len(groups)).T
    return formula.interval(pd.Series(function(drawn)), float(function(seconds)))


def fault_prices(book: Measurements) -> pd.DataFrame:
    """Seconds that tcmalloc saves for each fault that it spares, where it spares half a table's pages or more.

    Columns stack, spared (faults a step), seconds, low, high, rounds (0 where the two sides are not interleaved).
    """
    counts = faults(book).unstack()
    found = compared(book)
    rows = []
    for stack in counts.index if set(BOTH) <= set(counts) else []:
        spared = counts.loc[stack, "glibc"] - counts.loc[stack, "tcmalloc"]
        if spared > pages() / 2:
            groups, rounds = in_same_rounds(*(stored.chosen(found, stack=stack, allocator=name) for name in BOTH))
            price = derived(groups, book.spread(stack), lambda s, spared=spared: (s[0] - s[1]) / spared)
            rows.append((stack, spared, price.value, price.low, price.high, rounds))
    table = pd.DataFrame(rows, columns=["stack", "spared", "seconds", "low", "high", "rounds"])
    return table.sort_values("seconds", ignore_index=True)


# TensorFlow with oneDNN and without


def onednn(book: Measurements) -> pd.DataFrame:
    """Invocations of Keras 3 on TensorFlow at full size; `onednn` says what it did: "on", "off" or "not recorded"."""
    found = book.invocations(stack=TENSORFLOW, vocabulary=ROWS, allocator=BOTH, onednn=ANY)
    path = found["path"].fillna("").astype(str)
    did = np.select([path.str.startswith("oneDNN"), path.str.startswith("no oneDNN")], ["on", "off"], "not recorded")
    found = found.assign(onednn=did)
    recorded = found["onednn"] != "not recorded"
    return found[recorded] if recorded.any() else found


def without_onednn(book: Measurements) -> pd.DataFrame:
    """Step without oneDNN over that with it, under each allocator (Measurements.ratios)."""
    return book.ratios(onednn(book), [("off", "on")], of="onednn")


def taken_away(book: Measurements) -> tuple[Interval, int]:
    """Share of what oneDNN's absence costs under glibc that tcmalloc takes away, and the rounds of all three sides.

    Raises KeyError where one of them was not measured.
    """
    found = onednn(book)
    ways = (("off", "glibc"), ("on", "glibc"), ("off", "tcmalloc"))
    groups, rounds = in_same_rounds(*(stored.chosen(found, onednn=state, allocator=name) for state, name in ways))
    share = derived(groups, book.spread(TENSORFLOW), lambda s: (s[0] - s[2]) / (s[0] - s[1]))
    return share, rounds


# The bend: what a row costs below and above glibc's threshold


def bend(book: Measurements) -> pd.DataFrame:
    """Points of those stacks that ran all of four vocabularies under both allocators; `how` is the allocator.

    `faults_a_step`, and `tables`: as many tables' worth of pages are those faults.
    """
    sizes = sorted([*BEND, ROWS])
    points = book.points(vocabulary=sizes, allocator=BOTH).dropna(subset="step_s")
    whole = points.groupby("stack")["key"].count()
    points = points[points["stack"].isin(whole.index[whole == len(sizes) * len(BOTH)])]
    # Not every old record has counted them: pandas' mean leaves those out.
    each = [pd.Series(values, dtype=float).mean() for values in book.values(points, "faults_a_step")]
    worth = np.array(each) / np.array([pages(rows) for rows in points["vocabulary"]])
    return points.assign(how=points["allocator"], faults_a_step=each, tables=worth)


@functools.cache
def bend_ratios(book: Measurements) -> pd.DataFrame:
    """Step under glibc over that under tcmalloc, at each vocabulary (Measurements.ratios)."""
    found = book.invocations(vocabulary=sorted([*BEND, ROWS]), allocator=BOTH)
    return book.ratios(found, [tuple(BOTH)], of="allocator").rename(columns={"below": "allocator"})


def further_rows(book: Measurements, stack: str, allocator: str) -> tuple[Interval, int]:
    """Price of a further row from 80,000 to 800,000 rows over that from 20,000 to 80,000, and the rounds of all three.

    Raises KeyError where one was not measured.
    """
    found = book.invocations(stack=stack, vocabulary=BEND, allocator=allocator)
    groups, rounds = in_same_rounds(*(stored.chosen(found, vocabulary=rows) for rows in BEND))
    few, some, many = BEND

    def change(s: np.ndarray) -> np.ndarray:
        return (s[2] - s[1]) / (many - some) / ((s[1] - s[0]) / (some - few))

    return derived(groups, book.spread(stack), change), rounds


def row_prices(book: Measurements, stack: str) -> tuple[Interval, list[float], int]:
    """Price of a row under glibc over that under tcmalloc, 20,000 to 800,000 rows; both, s; the rounds behind them.

    Raises KeyError where one of the four steps was not measured.
    """
    found = book.invocations(stack=stack, vocabulary=BEND, allocator=BOTH)
    few, many = BEND[0], BEND[-1]
    groups, rounds = in_same_rounds(
        *(stored.chosen(found, vocabulary=rows, allocator=name) for name in BOTH for rows in (few, many))
    )
    spread = book.spread(stack)
    ratio = derived(groups, spread, lambda s: (s[1] - s[0]) / (s[3] - s[2]))
    dear, cheap = (derived(pair, spread, lambda s: (s[1] - s[0]) / (many - few)) for pair in (groups[:2], groups[2:]))
    return ratio, [dear.value, cheap.value], rounds


def told(parts: dict[str, tuple[bool | None, str]], rounds: int | None = None) -> Finding:
    """A finding over several parts, name -> verdict and figure. Raises KeyError without any.

    rounds: how many measured both sides of each comparison, 0 where none did; None where there is none.
    """
    shown = [f"{name} {text}".strip() for name, (_, text) in parts.items()]
    words = [] if rounds is None else [rounding(rounds)]
    return Finding(every(*(one for one, _ in parts.values())), "; ".join(shown + words))


def rounding(rounds: int) -> str:
    """How many rounds measured both sides of a comparison, in words."""
    return {0: NOT_INTERLEAVED, 1: "one round"}.get(rounds, f"{rounds} rounds")


# Which machines


def machines(reference: str = "") -> tuple[Measurements, Measurements]:
    """The machine that ran the most comparisons side by side, and another one, which tried further allocators.

    reference: a machine to take for the first of the two; twice the same where the book shows only one.
    """
    listed = [stored.of(name) for name in stored.listed()]
    found = stored.of(reference) if reference else max(listed, key=lambda one: int((gains(one)["sweep"] != "").sum()))
    return found, next((one for one in listed if one.machine != found.machine), found)
