"""Chapter 15, trainings of ten minutes to an hour: predicted by the probe before, then trained to the end, once."""

import functools
from collections.abc import Callable

import pandas as pd
from IPython.display import HTML

from traintime import paths
from traintime.book import claims, page, stored
from traintime.book.chapters.predicting_tried import NINE_IN_TEN, some, withdrawn
from traintime.book.claims import Finding, above, below
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.explain.statistics import average, share
from traintime.predict import durations
from traintime.predict.bench import kept

# What was predicted of them (15.35 to 15.37): the mean error, an interval's upper end over its lower one, and what the
# slowest epoch takes more than the fastest.
MISSED, WIDTH, SPREAD = 0.10, 1.6, 0.10
HALF = above(0.5)


def trainings(book: Measurements) -> pd.DataFrame:
    """A row for each long training on a machine, in the order in which they were drawn.

    Columns stack, kind, probed_s with low_s and high_s, took_s, error (probed over true time, less one), held, width
    (of the interval, a factor), memory_error and memory_held (of the peak, as error and held are of the time), spread
    (the slowest epoch over the fastest, less one, without the first: that one compiles) and withdrawn.
    """
    rows, gone = [], withdrawn(book, "time")
    for case in kept(paths.PREDICTED, book.machine):
        if case.epochs_s is not None:
            total, epochs_s = case.predicted["probed"].total, case.epochs_s[1:]
            one = {"stack": case.stack.removeprefix("2026-"), "kind": case.kind, "took_s": case.true_s}
            one |= {"probed_s": total.value, "low_s": total.low, "high_s": total.high}
            one |= {"held": case.true_s in total, "width": total.high / total.low}
            one |= {"memory_error": case.errors()["probed memory"], "memory_held": case.inside()["probed memory"]}
            one |= {"error": total.value / case.true_s - 1, "spread": max(epochs_s) / min(epochs_s) - 1}
            rows.append(one | {"withdrawn": case.started in gone})
    return pd.DataFrame(rows)


def counted(book: Measurements) -> pd.DataFrame:
    """Those that are not withdrawn. Raises KeyError without any."""
    every = some(trainings(book))
    return some(every[~every["withdrawn"]])


def shown() -> Measurements:
    """The first machine of the book that has trained a model for so long."""
    return stored.having(stored.of(), trainings)


claim = functools.partial(claims.claim, on=shown)


def _withdrawn(book: Measurements) -> pd.DataFrame:
    every = some(trainings(book))
    return some(every[every["withdrawn"]])


@claim(
    "15.39",
    "Trainings of ten minutes are predicted by the probe with a mean error of at most 10 %.",
    says="inconclusive",
)
def missed(book: Measurements) -> Finding:
    error = average(counted(book)["error"].abs().to_numpy())
    return Finding(below(MISSED)(error), error.text(".1%"))


@claim("15.40", "Nine in ten of the probe's intervals cover what a training of ten minutes takes.", says="inconclusive")
def covered(book: Measurements) -> Finding:
    held = share(counted(book)["held"].to_numpy(bool))
    return Finding(NINE_IN_TEN(held), held.text(".0%"))


@claim(
    "15.41",
    "Of the probe's intervals for trainings of ten minutes half or more span a factor of 1.6 at most.",
    says="inconclusive",
)
def narrow(book: Measurements) -> Finding:
    width = counted(book)["width"]
    return Finding(HALF(share((width <= WIDTH).to_numpy())), f"{width.min():.2f} to {width.max():.2f}")


@claim(
    "15.42",
    "In half or more of the trainings of ten minutes the slowest epoch after the first takes at most a tenth longer "
    "than the fastest.",
    says="inconclusive",
)
def steady(book: Measurements) -> Finding:
    spread = counted(book)["spread"]
    return Finding(HALF(share((spread <= SPREAD).to_numpy())), f"{spread.min():.0%} to {spread.max():.0%}")


def table(book: Measurements) -> HTML:
    """Each long training: what the probe predicted, and what it took, in minutes; where that is outside, it says so."""
    return page.columns(
        trainings(book),
        kind=("model", lambda row: f"{row['kind'].replace('-', ' ')}, {row['stack']}"),
        probed=(
            "predicted, min",
            lambda row: "{:.0f} ({:.0f} to {:.0f})".format(*_minutes(row, "probed", "low", "high")),
        ),
        took=("took, min", _took),
    )


def _minutes(row: pd.Series, *names: str) -> list[float]:
    return [row[f"{name}_s"] / 60 for name in names]


def _took(row: pd.Series) -> str:
    notes = [word for word, said in (("outside", not row["held"]), ("withdrawn", row["withdrawn"])) if said]
    return ", ".join([f"{row['took_s'] / 60:.0f}", *notes])


def _long(say: Callable[[pd.DataFrame], str]) -> Callable[[Measurements], str]:
    """A number of the prose: of those that are not withdrawn, whichever machine the page shows."""
    return lambda _: say(counted(shown()))


def _all(say: Callable[[pd.DataFrame], str]) -> Callable[[Measurements], str]:
    """The same of all of them."""
    return lambda _: say(some(trainings(shown())))


PROSE = Prose(
    "predict-long",
    title=lambda _: page.title(shown(), trainings(shown())),
    tried=_all(lambda tried: str(len(tried))),
    models=_long(lambda tried: str(len(tried))),
    error=_long(lambda tried: f"{tried['error'].abs().mean() * 100:.0f} %"),
    error_tried=_all(lambda tried: f"{tried['error'].abs().mean() * 100:.0f} %"),
    held=_all(lambda tried: str(int(tried["held"].sum()))),
    width=_all(lambda tried: f"{tried['width'].median():.2f}"),
    low=_long(lambda tried: str(int((tried["error"] < 0).sum()))),
    spread=_all(lambda tried: f"{tried['spread'].median() * 100:.0f} %"),
    spread_most=_all(lambda tried: f"{tried['spread'].max() * 100:.0f} %"),
    memory=_long(lambda tried: f"{tried['memory_error'].abs().mean() * 100:.0f} %"),
    memory_low=_long(lambda tried: str(int((tried["memory_error"] < 0).sum()))),
    memory_held=_long(lambda tried: str(int(tried["memory_held"].sum()))),
    memory_most=_long(lambda tried: f"{tried['memory_error'].abs().max() * 100:.0f} %"),
    disturbed=lambda _: f"{_withdrawn(shown())['error'].max() + 1:.0f}",
    most=_all(lambda tried: durations.text(tried["took_s"].max())),
)
