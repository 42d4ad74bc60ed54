"""What chapters 2 and 7 say of allocators and of TensorFlow's oneDNN; chapter 4 computes in its notebook."""

import functools

import numpy as np
import pandas as pd

from traintime.book import stored
from traintime.book.stored import ANY, Measurements
from traintime.book.values import Values, quantity

ROWS = 200_000  # of the table on which allocators are compared
BOTH = ["glibc", "tcmalloc"]


def pages() -> float:
    """Pages of the system (4 KiB) in such a table, at the 2017 post's width."""
    return 4 * ROWS * 300 / 4096


@functools.cache
def faults(book: Measurements) -> pd.Series:
    """Page faults a step, the mean over invocations, by stack and allocator; no noise floor applies to a count."""
    runs = book.invocations(vocabulary=ROWS, allocator=BOTH)
    return runs.groupby(["stack", "allocator"])["faults_a_step"].mean().dropna()


@quantity
def speeds(book: Measurements, allocator: str, *stacks: str) -> Values:
    """Speed with an allocator over plain glibc's, on these stacks or on all."""
    runs = book.invocations(vocabulary=ROWS, allocator=["glibc", allocator])
    table = book.ratios(runs, [("glibc", allocator)], of="allocator")
    return Values(stored.ratio_by_stack(table, stacks or None))


def onednn(book: Measurements) -> pd.DataFrame:
    """Invocations of Keras 3 on TensorFlow at full size that recorded what oneDNN did: `onednn`, "on" or "off"."""
    runs = book.invocations(stack="2026-tensorflow", vocabulary=ROWS, allocator=BOTH, onednn=ANY)
    path = runs["path"].fillna("").astype(str)
    runs = runs.assign(onednn=np.where(path.str.startswith("no oneDNN"), "off", "on"))
    return runs[path.str.contains("oneDNN")]


@quantity
def without_onednn(book: Measurements) -> Values:
    """Step without oneDNN over that with it, under plain glibc, by stack: one, or none."""
    return Values(stored.ratio_by_stack(book.ratios(onednn(book), [("off", "on")], of="onednn"), allocator="glibc"))
