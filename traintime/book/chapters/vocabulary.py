"""Chapter 03, vocabulary: which points it shows, what a row costs, what the interventions show, what it claims."""

import pandas as pd

from traintime.book.stored import Measurements

VOCABULARIES = [5_000, 20_000, 80_000, 280_000, 800_000, 2_000_000]  # rows, of the full-size sweep
WAYS = ["adam", "sgd", "frozen"]


def by_vocabulary(book: Measurements) -> pd.DataFrame:
    """The sweep over the vocabulary as the model stands: Adam, the table trained."""
    return book.points(vocabulary=VOCABULARIES)


def intervened(book: Measurements) -> pd.DataFrame:
    """The points of those stacks on which every way of training was tried at two vocabularies or more.

    Where one sweep measured all ways in the same rounds its invocations alone, so that nothing lies between the sides
    of the comparison; else all there are.
    """
    wanted = {"vocabulary": VOCABULARIES, "optimizer": ["adam", "sgd"], "frozen": [False, True]}
    found = book.invocations(**wanted)
    ways = found.assign(how=found["optimizer"] + found["frozen"].astype(str)).groupby("sweep")["how"].nunique()
    together = list(ways.index[ways >= len(WAYS)])
    if together:
        book = Measurements(book.rows[book.rows["sweep"].isin(together)], book.machine)
    return in_every_way(book.points(**wanted))


def in_every_way(points: pd.DataFrame, against: str = "vocabulary") -> pd.DataFrame:
    """The rows of those stacks on which every way of training was tried at two sizes or more."""
    points = points[points["how"].isin(WAYS)]
    sizes = points.groupby(["stack", "how"])[against].nunique().unstack(fill_value=0).reindex(columns=WAYS, fill_value=0)
    return points[points["stack"].isin(sizes.index[(sizes > 1).all(axis=1)])]
