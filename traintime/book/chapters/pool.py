"""What chapter 2 says of TensorFlow's oneDNN; chapter 4 computes in its notebook."""

import numpy as np
import pandas as pd

from traintime.book import stored
from traintime.book.stored import ANY, Measurements
from traintime.book.values import Values, quantity

ROWS = 200_000  # of the table on which allocators are compared
BOTH = ["glibc", "tcmalloc"]


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
