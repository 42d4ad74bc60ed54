"""What chapter 13 says of TensorFlow's `fit`, which can sleep when an epoch ends."""

import functools

import pandas as pd

from traintime import paths
from traintime.explain import statistics
from traintime.explain.statistics import Interval
from traintime.predict.record import SLEPT_S


@functools.cache
def ends() -> pd.DataFrame:
    """Every end of an epoch that examples/tensorflow_sleep.py timed: wait_s, how long nothing happened after the last
    batch; share, of the epoch; slept, whether that was a sleep.
    """
    each = pd.read_csv(paths.DATA / "sleeps.csv")
    return each.assign(share=each["wait_s"] / each["epoch_s"], slept=each["wait_s"] > SLEPT_S)


def waited() -> Interval:
    """What an epoch's end adds to an epoch where the pipeline tunes itself, a share, on average."""
    return statistics.average(ends().query("way != 'untuned'")["share"].to_numpy())


def slept_of(*ways: str) -> str:
    """How many ends of epochs slept, of all of these ways: "4 of 24"."""
    slept = ends()["slept"][ends()["way"].isin(ways)]
    return f"{slept.sum()} of {len(slept)}"
