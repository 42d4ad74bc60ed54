"""The machines that the book knows (data/measurements/machines.csv), and what each is."""

import functools

import pandas as pd

from traintime import paths
from traintime.store import records
from traintime.store.records import Description


@functools.cache
def titles() -> dict[str, str]:
    """What the book calls its machines, by their folders, the reference first. A folder that is not among them changes
    no page.
    """
    return pd.read_csv(paths.MEASUREMENTS / "machines.csv", index_col="machine")["title"].to_dict()


def reference() -> str:
    """The folder of the machine that the book's front pages show."""
    return next(iter(titles()))


def described(folder: str) -> Description:
    """The stored description of a machine."""
    return records.described(paths.MEASUREMENTS / folder / "machine.json")
