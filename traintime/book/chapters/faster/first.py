"""What to try first: all that was tried, by what limits the step, with its gain and its price as measured."""

import functools
from typing import Any

import numpy as np
import pandas as pd

from traintime.book.chapters.faster.analysis import (
    AS_READ,
    AT_ONCE,
    EVERY,
    LEARNED,
    MODELS,
    OTHERWISE,
    SELDOM,
    SMALL,
    Pair,
    changes,
    learned,
    paired,
)
from traintime.book.stored import Measurements
from traintime.point import make_point

# What limits a step, and how one sees it, in the table's order.
LIMITS = {
    "arithmetic": ("products of matrices", "four times the batch takes about four times as long"),
    "table": ("the update of every row", "four times the batch takes far less than that; most weights are a table's"),
    "loop": ("small operations, position by position", "a recurrent layer"),
    "data": ("waiting for the next batch", "the same batch over and over is faster"),
    "saving": ("saving", "a step that saves takes far longer than the others"),
    "starts": ("starting a step", "a step is very short"),
}
TWO = "two processes of one thread"
IN_TURN, ASIDE = {"save_aside": False}, {"save_aside": True}
PAIRS: dict[str, list[Pair]] = {
    "arithmetic": [Pair(TWO, MODELS["arithmetic"], {"replicas": 1}, {"replicas": 2})],
    "table": [Pair(TWO, MODELS["table"], {"replicas": 1}, {"replicas": 2}), AS_READ],
    "data": [
        Pair(f"{name}: {word}", MODELS["arithmetic"], {"feed": feed}, {"feed": f"{feed}-{how}"})
        for feed, name in (("fetched", "fetching"), ("decoded", "decoding"))
        for how, word in (("ahead", "ahead"), ("parallel", "in parallel"))
    ],
    "saving": [
        Pair(f"every {SELDOM} steps, not each", SMALL, {"save_every": 1}, {"save_every": SELDOM}),
        Pair("aside, each step", SMALL | {"save_every": 1}, IN_TURN, ASIDE),
        Pair(f"aside, every {EVERY} steps", MODELS["table"] | {"save_every": EVERY}, IN_TURN, ASIDE),
    ],
    "starts": [AT_ONCE],
}


def tried(book: Measurements, saved: Measurements) -> pd.DataFrame:
    """Every comparison of the chapter: a row a limit, change and stack, by limit; of a limit the largest gain first.

    saved: the machine that saved after every hundredth step. Columns: limit, change, stack, ratio with low and high,
    memory, disturbed, told (whether it can be told from 1). A comparison of disturbed runs alone is among them; one
    that nobody measured has a row without a stack.
    """
    found = _tried(book, saved)
    # Of a point's runs the disturbed ones are left out; where nothing is left to compare with, they are shown as such.
    every = _tried(_undisturbed(book), _undisturbed(saved)).assign(disturbed=True, told=False)
    found = pd.concat([found, every]).drop_duplicates(["limit", "change", "stack"])
    if found["stack"].isna().all():
        return found.iloc[:0]
    change = ["limit", "change"]
    found = found[found["stack"].notna() | ~found.duplicated(change, keep=False)]
    best = found["ratio"].where(found["told"]).groupby([found[name] for name in change]).transform("max").fillna(0)
    place = found["limit"].map(list(LIMITS).index)
    return found.iloc[np.lexsort([-best, place])].reset_index(drop=True)


@functools.cache
def _undisturbed(book: Measurements) -> Measurements:
    """The same measurements, as if no run had been disturbed."""
    return Measurements(book.rows.assign(disturbed=False), book.machine, book.root, book.usual)


def _tried(book: Measurements, saved: Measurements) -> pd.DataFrame:
    alone = changes(book)
    parts = [alone.assign(limit=alone["model"], told=alone["faster"].notna())]
    for limit, pairs in PAIRS.items():
        for pair in pairs:
            table = paired(saved if pair.fields.items() >= SMALL.items() else book, pair)
            if table.empty:
                table = table.reindex([0]).assign(change=pair.name, stack=None, disturbed=False)
            told = (table["low"] > 1) | (table["high"] < 1)
            parts.append(table.assign(limit=limit, told=told))
    found = pd.concat([part for part in parts if len(part)], ignore_index=True)
    found["told"] &= ~found["disturbed"].astype(bool)
    return found[["limit", "change", "stack", "ratio", "low", "high", "memory", "disturbed", "told"]]


def price(limit: str, change: str, rows: pd.DataFrame) -> str:
    """What a change costs, as far as it was measured. rows: of the change, as `tried` gives them."""
    parts = [_memory(rows["memory"])]
    if change == "shared weights":
        own, one = (make_point(**MODELS[limit], shared=shared).work.parameters for shared in (False, True))
        parts.append(f"parameters × {one / own:.2f}")
    if change in OTHERWISE:
        parts.append(_accuracy(change))
    if limit == "saving" and str(SELDOM) in change:
        parts.append(f"up to {SELDOM - 1} steps lost in a crash")
    return "; ".join(parts)


def _memory(ratios: Any) -> str:
    known = [each for each in ratios if not np.isnan(each)]
    if not known:
        return "memory: not measured"
    ends = dict.fromkeys(f"{end:.2f}" for end in (min(known), max(known)))
    return f"peak memory × {' to '.join(ends)}"


def _accuracy(change: str) -> str:
    try:
        return f"accuracy {learned(change).text('+.1f', 100)} points, {LEARNED[change][2]}"
    except KeyError:
        return "accuracy: not measured"
