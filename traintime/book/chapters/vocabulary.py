"""The sweep over the vocabulary and what a row of the embedding table costs, for chapters 1, 6, 7, 9 and 14.

Chapter 3 computes in its own notebook.
"""

import functools

import pandas as pd

from traintime.book import stored
from traintime.book.stored import Measurements
from traintime.book.values import Values, quantity
from traintime.explain.statistics import Interval
from traintime.point import fields
from traintime.workloads.base import UPDATES

VOCABULARIES = [5_000, 20_000, 80_000, 280_000, 800_000, 2_000_000]  # rows, of the full-size sweep
PRICED = (80_000, 280_000)  # rows between which the price of a row is taken
ON_CARD = {"device": "gpu", "kernel": "cudnn"}
Name = tuple[str, str]  # stack, how


@functools.cache
def by_vocabulary(book: Measurements) -> pd.DataFrame:
    """The sweep over the vocabulary as the model stands: the table trained with Adam."""
    return book.points(vocabulary=VOCABULARIES)


def bytes_a_row() -> int:
    """Bytes that Adam must move for each row of the table at every step."""
    return UPDATES["adam"].bytes * fields()["embedding"].default


def price_of_a_row(book: Measurements, found: pd.DataFrame) -> dict[Name, Interval]:
    """Seconds per step that each further row costs from 80,000 to 280,000, by stack and way of training (`how`).

    Both steps are of the same rounds where some measured both. A stack without both has no cost.
    """
    pairs = {name: pair_of(found, name) for name in found[["stack", "how"]].itertuples(index=False, name=None)}
    return {
        name: book.interval(lambda s: (s[1] - s[0]) / (PRICED[1] - PRICED[0]), pair)
        for name, pair in pairs.items()
        if len(pair) == 2
    }


def pair_of(found: pd.DataFrame, name: Name) -> pd.DataFrame:
    """The points of a stack and way of training at two vocabularies, the smaller first; fewer where one has no time."""
    rows = stored.chosen(found, stack=name[0], how=name[1]).dropna(subset="step_s")
    return rows[rows["vocabulary"].isin(PRICED)].sort_values("vocabulary")


def ratio_of_prices(book: Measurements, found: pd.DataFrame, above: Name, below: Name) -> Interval:
    """How many times as much a row costs in one (stack, how) as in another. Raises KeyError where one has no cost."""
    pairs = [pair_of(found, name) for name in (above, below)]
    if any(len(pair) < 2 for pair in pairs):
        raise KeyError("a row has no known cost")
    # The rows between the two steps of each are the same.
    return book.interval(lambda s: (s[1] - s[0]) / (s[3] - s[2]), pd.concat(pairs))


def card() -> Measurements:
    """The first of the book's machines that ran the vocabulary on a GPU."""
    return stored.having(stored.of(), lambda book: book.points(vocabulary=VOCABULARIES, **ON_CARD))


@quantity
def card_growth(book: Measurements, rows: int) -> Values:
    """Times longer a step on a GPU takes with so many rows than with 20,000, with cuDNN's kernel, by stack."""
    sides = [{"vocabulary": each} | ON_CARD for each in (20_000, rows)]
    stacks = stored.stack_order(book.points(vocabulary=VOCABULARIES, **ON_CARD)["stack"])
    return Values({stack: book.sides(*sides, stack=stack).interval(lambda s: s[1] / s[0]) for stack in stacks})
