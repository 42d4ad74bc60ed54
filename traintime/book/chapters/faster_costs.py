"""Chapter 13, what a change costs in addition to time: the memory and the accuracy of half precision, the epochs of a
rate.
"""

import functools
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import stored
from traintime.book.chapters.faster_transfers import MODELS, chapter_machine, for_each, interleaved
from traintime.book.claims import Finding, claim, every_stack, within
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval, difference
from traintime.learning import results

SEEDS = 20  # of a training, fewer than which give no verdict
RATES = (0.0001, 0.001, 0.01, 0.03)  # of those that were tried, the ones that the prose names
HALVES = ("bfloat16", "float16")
WHEN_READ = "deferred rows (chapter 16), 200,000 rows"
_DIGITS, _SENTENCES = {"task": "mnist1d"}, {"task": "moods", "units": 32, "epochs": 5}
# Of a change: the trials without it, with it (the best of several counts), and what they were.
LEARNED: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str]] = {
    "bfloat16": (_DIGITS, [{"precision": "mixed-bfloat16"}], "digits"),
    "float16": (_DIGITS, [{"precision": "mixed-float16"}], "digits"),
    "batch × 4": (_DIGITS, [{"batch": 512}], "digits, batch 512 for 100, as many epochs"),
    "SGD": (_SENTENCES, [{"optimizer": "sgd", "rate": rate} for rate in (0.1, 1.0)], "sentences, the better rate"),
    WHEN_READ: (_SENTENCES, [{"table": "deferred"}], "sentences"),
}


# The memory of half precision


@functools.cache
def peaks(book: Measurements) -> pd.DataFrame:
    """Peak memory in half precision, a share of that in float32 in the same rounds: model, stack, precision, share."""
    rows = []
    for (model, fields), precision in product(MODELS.items(), ("mixed-bfloat16", "mixed-float16")):
        for stack, sides in interleaved(book, fields, fields | {"precision": precision}).items():
            full, half = (frame["peak_bytes"].max() for frame in sides.frames)
            rows.append({"model": model, "stack": stack, "precision": precision, "share": half / full})
    return pd.DataFrame(rows, columns=["model", "stack", "precision", "share"])


@claim(
    "13.3",
    "Half precision takes less than a quarter off the peak memory, on every model and stack.",
    "S1",
    on=chapter_machine,
)
def memory_stays(book: Measurements) -> Finding:
    table = peaks(book)
    least = table.loc[table.groupby("model")["share"].idxmin()].set_index("model").loc[list(MODELS)]
    texts = (f"{model} {row['share']:.0%} ({row['precision']}, {row['stack']})" for model, row in least.iterrows())
    return Finding(bool((least["share"] > 0.75).all()), "; ".join(texts))


# The accuracy


@functools.cache
def trials() -> pd.DataFrame:
    """Every stored training, a row a seed (results.table)."""
    return results.table()


def require_chapter_machine(book: Measurements) -> None:
    """Raise KeyError for another machine than the chapter's: what is learned depends on none, one is enough."""
    if book.machine != chapter_machine().machine:
        raise KeyError(book.machine)


def accuracies(change: str) -> tuple[pd.Series, pd.Series]:
    """Each seed's accuracy without a change, and with it. Raises KeyError where LEARNED does not name the change."""
    usual, ways, _ = LEARNED[change]
    without, *others = (stored.chosen(trials(), **results.settings(**usual | way))["accuracy"] for way in ({}, *ways))
    return without, max(others, key=lambda each: each.mean() if len(each) else -1)


def accuracy_change(change: str, seeds: int = 2) -> Interval:
    """Accuracy with a change less that without, a share. Raises KeyError where fewer seeds were trained."""
    without, changed = accuracies(change)
    if min(len(without), len(changed)) < seeds:
        raise KeyError(f"{change} was not trained with enough seeds")
    return difference(changed, without)


def accuracy_cost(change: str) -> str:
    """The same in words."""
    try:
        return f"accuracy {accuracy_change(change).text('+.1f', 100)} points, {LEARNED[change][2]}"
    except KeyError:
        return "accuracy: not measured"


@claim(
    "13.15",
    "In bfloat16 and in float16 an LSTM ends less than one point of accuracy away from float32.",
    "S1",
    says="inconclusive",
    on=chapter_machine,
)
def half_precision_learns_the_same(book: Measurements) -> Finding:
    require_chapter_machine(book)
    changes = {change: accuracy_change(change, SEEDS) for change in HALVES}
    return every_stack(changes, within(-0.01, 0.01), "+.1f", 100, "points")


# The learning rate


def epochs_by_rate() -> pd.DataFrame:
    """Epochs to one training loss at each of Adam's rates: that which the smallest rate has reached at its end.

    One row a rate: rate, epochs (mean over the seeds that get there), low, high (their range), reached (share of the
    seeds), accuracy (at the end, mean). Empty where one rate was tried.
    """
    usual = results.settings("mnist1d")
    tried = stored.chosen(trials(), **{name: value for name, value in usual.items() if name != "rate"})
    curves = {rate: np.array(group["training_loss"].tolist()) for rate, group in tried.groupby("rate")}
    rows = []
    for rate, losses in curves.items() if len(curves) > 1 else ():
        there = losses <= curves[min(curves)][:, -1].mean()
        epochs = there.argmax(axis=1)[there.any(axis=1)] + 1
        row = {"rate": rate, "reached": there.any(axis=1).mean()}
        row |= {"accuracy": stored.chosen(tried, rate=rate)["accuracy"].mean()}
        ends = {"epochs": epochs.mean(), "low": epochs.min(), "high": epochs.max()} if len(epochs) else {}
        rows.append(row | ends)
    return pd.DataFrame(rows, columns=["rate", "epochs", "low", "high", "reached", "accuracy"])


@claim(
    "13.14",
    "From a rate of 0.003 down to 0.0001 each smaller one needs more epochs to the same training loss.",
    "S1",
    on=chapter_machine,
)
def smaller_rates_take_longer(book: Measurements) -> Finding:
    require_chapter_machine(book)
    table = epochs_by_rate().query("rate <= 0.003")
    if len(table) < 2:
        raise KeyError("not trained")
    texts = "; ".join(f"rate {row.rate:g}: {row.epochs:.1f} epochs" for row in table.itertuples())
    return Finding(all(one > other for one, other in pairwise(table["epochs"])), texts)


def _at_rate(rate: str, value: str) -> float:
    return stored.row(epochs_by_rate(), rate=float(rate))[value]


PROSE = Prose(
    "fst",
    **for_each(MODELS, "least-memory", lambda book, model: f"{peaks(book).groupby('model')['share'].min()[model]:.0%}"),
    **for_each(HALVES, "learned", lambda book, half: accuracy_change(half, SEEDS).text("+.1f", 100)),
    **{
        f"learned-{name}": lambda book, change=change: accuracy_change(change).text("+.1f", 100)
        for name, change in {"SGD": "SGD", "batch-x-4": "batch × 4", "deferred": WHEN_READ}.items()
    },
    **for_each(map(str, RATES), "learned-epochs", lambda book, rate: f"{_at_rate(rate, 'epochs'):.1f}"),
)
