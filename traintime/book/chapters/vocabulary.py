"""The sweep over the vocabulary, and what Adam moves for a row of the embedding table, as several pages name them."""

import functools

import pandas as pd

from traintime.book.stored import Measurements
from traintime.point import fields
from traintime.workloads.base import UPDATES

VOCABULARIES = [5_000, 20_000, 80_000, 280_000, 800_000, 2_000_000]  # rows, of the full-size sweep


@functools.cache
def by_vocabulary(book: Measurements) -> pd.DataFrame:
    """The sweep over the vocabulary as the model stands: the table trained with Adam."""
    return book.points(vocabulary=VOCABULARIES)


def bytes_a_row() -> int:
    """Bytes that Adam must move for each row of the table at every step."""
    return UPDATES["adam"].bytes * fields()["embedding"].default


def floor_s(book: Measurements) -> float:
    """Seconds that moving them takes at the memory's speed. Raises KeyError where nobody measured that speed."""
    return bytes_a_row() / book.rates["bandwidth_bytes_per_s"]
