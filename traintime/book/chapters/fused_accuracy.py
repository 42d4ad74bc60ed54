"""Chapter 8, second question: what a change from LSTM to CuDNNLSTM does to accuracy, and the batch to the loss.

A training depends on no machine, so its claims are judged on the machine that the chapter shows alone.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from traintime.book import external, stored
from traintime.book.chapters.fused_published import claim_once
from traintime.book.claims import Finding, Limits, above, below, every, every_stack, higher, within
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval, difference
from traintime.learning import results
from traintime.learning.trial import make_trial

# What LSTM of Keras 2 has and CuDNNLSTM has not, beside its speed: name -> LSTM's settings, CuDNNLSTM's. Its own are a
# Trial's usual ones. In Keras the forget gate's bias is 1 at the start in both; outside of it cuDNN's is 0.
BOTH: dict[str, Any] = {"gates": "hard", "recurrent_dropout": 0.2}
NO_BIAS: dict[str, Any] = {"forget_bias": 0.0}
CAUSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "hard gates": ({"gates": "hard"}, {}),
    "recurrent dropout": ({"recurrent_dropout": 0.2}, {}),
    "a mask": ({"mask": True}, {}),
    "gates and dropout": (BOTH, {}),
    "gates, dropout, mask": (BOTH | {"mask": True}, {}),
    "a forget bias": ({}, NO_BIAS),
    "a mask, no bias in either": ({"mask": True} | NO_BIAS, NO_BIAS),
    "gates, dropout, bias": (BOTH, NO_BIAS),
    "all four": (BOTH | {"mask": True}, NO_BIAS),
}
ALONE = ["hard gates", "recurrent dropout", "a forget bias"]  # causes of which each is one setting, beside the mask
IN_KERAS, OUTSIDE = "gates and dropout", "gates, dropout, bias"  # all that differs without padding
# The data, by the name that a reader sees. On MNIST-1D forty epochs at the usual rate end early.
DIGITS, LATE = "mnist1d", "mnist1d, rate 0.003"
TASKS: dict[str, dict[str, Any]] = {
    DIGITS: {"task": "mnist1d"},
    LATE: {"task": "mnist1d", "rate": 0.003},
    "padded": {"task": "padded"},
    "imdb": {"task": "imdb"},
}
FEWEST = 20  # seeds a side
THREE_POINTS = 0.03  # what the document saw the accuracy fall by


# What each difference between the two layers does


@functools.cache
def trials() -> pd.DataFrame:
    """Every stored training, one row a seed."""
    return results.table()


def causes(trained: pd.DataFrame) -> pd.DataFrame:
    """What each cause does to the accuracy: CuDNNLSTM's way less LSTM's, on the data that can show it.

    One row a task and cause: task, cause, difference, low, high (shares), layer and cudnn (mean accuracies), spread
    (standard deviation between seeds of CuDNNLSTM's way), seeds (of the smaller side).
    """
    accuracies, rows = dict(list(trained.groupby("key")["accuracy"])), []
    for task, data in TASKS.items():
        for cause, sides in CAUSES.items():
            if data["task"] == "mnist1d" and sides[0].get("mask"):
                continue  # nothing is padded there
            keys = [make_trial(**data | side).key for side in sides]
            layer, cudnn = (accuracies.get(key, pd.Series(dtype=float)) for key in keys)
            if (seeds := min(len(layer), len(cudnn))) > 1:
                gain = difference(cudnn, layer)
                ends = (gain.value, gain.low, gain.high)
                rows.append((task, cause, *ends, layer.mean(), cudnn.mean(), cudnn.std(), seeds))
    columns = ["task", "cause", "difference", "low", "high", "layer", "cudnn", "spread", "seeds"]
    return pd.DataFrame(rows, columns=columns)


def well_repeated() -> pd.DataFrame:
    """The rows of `causes` with enough seeds on both sides for a verdict."""
    return causes(trials()).query(f"seeds >= {FEWEST}")


def gain(task: str, cause: str) -> Interval:
    """The accuracy that CuDNNLSTM's way gains, a share. Raises KeyError where too few seeds were trained."""
    return stored.interval(stored.row(well_repeated(), task=task, cause=cause), "difference")


def gain_in_points(task: str, cause: str, limits: Limits) -> Finding:
    """Whether the gain lies within the limits (shares), with the gain in points of accuracy."""
    return every_stack({f"{cause} on {task}": gain(task, cause)}, limits, "+.1f", 100, "points")


@claim_once(
    "08.6",
    "Neither the gates nor recurrent dropout nor the forget gate's bias alone moves the accuracy by three points.",
    says="does not hold",
)
def no_cause_alone() -> Finding:
    rows = well_repeated()
    # As it was predicted: of the trainings at the usual rate.
    rows = rows[rows["cause"].isin(ALONE) & (rows["task"] != LATE)]
    gains = {f"{row['cause']} on {row['task']}": stored.interval(row, "difference") for _, row in rows.iterrows()}
    holds = every(*map(within(-THREE_POINTS, THREE_POINTS), gains.values()))
    farthest = max(gains, key=lambda name: abs(gains[name].value))
    return Finding(holds, f"farthest: {farthest}, {gains[farthest].text('+.1f', 100)} points")


@claim_once("08.7", "Reading the padding that a mask would skip costs accuracy.", says="inconclusive")
def padding_costs() -> Finding:
    return gain_in_points("padded", "a mask", below(0))


@claim_once(
    "08.8",
    "All that differs in Keras, taken together, costs CuDNNLSTM more than three points of accuracy on sequences "
    "without padding.",
    source="S4",
    says="does not hold",
)
def all_together_costs() -> Finding:
    return gain_in_points(DIGITS, IN_KERAS, below(-THREE_POINTS))


@claim_once(
    "08.18",
    "With the forget gate's bias at 1 in both, as in Keras, hard gates and recurrent dropout together cost LSTM "
    "more than three points on MNIST-1D: CuDNNLSTM's accuracy rises.",
)
def all_together_gains() -> Finding:
    return gain_in_points(DIGITS, IN_KERAS, above(THREE_POINTS))


@claim_once(
    "08.19",
    "At three times the usual rate, where the network learns most of what it can, both together move the accuracy "
    "by less than half as much.",
)
def moves_less_when_trained_out() -> Finding:
    early, late = gain(DIGITS, IN_KERAS), gain(LATE, IN_KERAS)
    figure = f"{early.text('+.1f', 100)} points at the usual rate, {late.text('+.1f', 100)} at 0.003"
    return Finding(higher(_distance(early).scaled(0.5), _distance(late)), figure)


def _distance(change: Interval) -> Interval:
    """How far a change is from none, in either direction."""
    ends = sorted((abs(change.low), abs(change.high)))
    return Interval(abs(change.value), 0.0 if 0 in change else ends[0], ends[1])


@claim_once(
    "08.21",
    "At three times the usual rate all that differs, without padding, costs CuDNNLSTM accuracy, in Keras and where "
    "its forget gate starts at 0.",
    source="S4",
)
def costs_when_trained_out() -> Finding:
    gains = {"in Keras": gain(LATE, IN_KERAS), "where the bias starts at 0": gain(LATE, OUTSIDE)}
    return every_stack(gains, below(0), "+.1f", 100, "points")


@claim_once(
    "08.20",
    "With the forget gate's bias at 0, reading the padding that a mask would skip costs more than thirty points.",
)
def padding_is_fatal_without_bias() -> Finding:
    return gain_in_points("padded", "a mask, no bias in either", below(-0.3))


# The batch and the loss


def batches(trained: pd.DataFrame) -> pd.DataFrame:
    """Test loss on MNIST-1D against the batch, at equal epochs and at equal steps, with the rate fixed and scaled.

    One row a batch and way: batch, way, seeds, loss, loss_low, loss_high. None where a single batch was trained: there
    is nothing that it could be held against. Scaled is a rate that follows the square root of the batch; at the usual
    batch that is the usual rate, which belongs to both ways. Other rates are left out.
    """
    usual = results.settings("mnist1d")
    same = {name: value for name, value in usual.items() if name not in ("batch", "rate", "steps")}
    groups = stored.chosen(trained, **same).groupby(["batch", "rate", "steps"], dropna=False)
    table = groups["loss"].agg(seeds="count", loss="mean", deviation="std").reset_index()
    table = table[(table["seeds"] > 1) & (table["batch"].nunique() > 1)]
    half = stats.t.ppf(0.975, table["seeds"] - 1) * table["deviation"] / np.sqrt(table["seeds"])
    table = table.assign(loss_low=table["loss"] - half, loss_high=table["loss"] + half)
    equal = table["steps"].isna().map({True: "equal epochs", False: "equal steps"}).astype(str)
    rates = {"fixed": usual["rate"], "scaled": usual["rate"] * np.sqrt(table["batch"] / usual["batch"])}
    ways = [
        table.assign(way=equal + f", rate {name}")[np.isclose(table["rate"], rate, rtol=0.01)]
        for name, rate in rates.items()
    ]
    return pd.concat(ways).sort_values(["way", "batch"], ignore_index=True)


def loss_ends(way: str, least: int = 1) -> tuple[Interval, Interval, str]:
    """Test losses of the smallest batch of at least so many and of the largest, and both in words."""
    rows = stored.chosen(batches(trials()), way=way).query(f"batch >= {least}")
    if len(rows) < 2:
        raise KeyError("not trained")
    small, large = (Interval(row.loss, row.loss_low, row.loss_high) for row in rows.iloc[[0, -1]].itertuples())
    return small, large, f"loss {small.text()} at {rows['batch'].min()}, {large.text()} at {rows['batch'].max()}"


@claim_once(
    "08.9",
    "At equal epochs and an unchanged learning rate a batch of 2,048 ends with a higher test loss than one of 100.",
    source="S4",
)
def large_batches_learn_less() -> Finding:
    small, large, figure = loss_ends("equal epochs, rate fixed", least=100)
    return Finding(higher(large, small), figure)


@claim_once(
    "08.17",
    "A smaller batch raises the loss: at an equal number of steps and an unchanged learning rate one of 16 ends "
    "with a higher test loss than one of 2,048.",
    source="S4",
)
def small_batches_learn_less_a_step() -> Finding:
    small, large, figure = loss_ends("equal steps, rate fixed")
    return Finding(higher(small, large), figure)


# What the page shows

# The tasks of digits, as the figure names them: at the usual rate forty epochs end before the network has learned.
SHOWN = {DIGITS: "the usual rate, 0.001", LATE: "three times that, 0.003"}
DIFFERENCES = {"a forget bias": "forget bias 0 for 1", "gates, dropout, bias": "all three"}  # causes in the figure


def shown() -> pd.DataFrame:
    """The rows of `causes` that the figure shows, by its names: the digits, where no side has collapsed."""
    rows = causes(trials())
    rows = rows[rows["task"].isin(list(SHOWN))]
    return rows.assign(task=rows["task"].map(SHOWN), cause=rows["cause"].replace(DIFFERENCES))


def chance_of_three_points(task: str) -> float:
    """The probability that the second of two trainings of one network ends three points of accuracy or more below."""
    spread = stored.row(well_repeated(), task=task, cause=IN_KERAS)["spread"]
    return float(stats.norm.sf(THREE_POINTS / (spread * np.sqrt(2))))


def resolved(task: str, seeds: int) -> float:
    """Half the 95 % interval of a difference of two accuracies, each the mean of so many seeds (Student's t)."""
    spread = stored.row(well_repeated(), task=task, cause=IN_KERAS)["spread"]
    return float(stats.t.ppf(0.975, 2 * seeds - 2) * spread * np.sqrt(2 / seeds))


def _of(task: str, cause: str, column: str, spec: str, scale: float = 1) -> Callable[[Measurements], str]:
    return lambda book: f"{stored.row(well_repeated(), task=task, cause=cause)[column] * scale:{spec}}"


def _gain(task: str, cause: str) -> Callable[[Measurements], str]:
    return lambda book: gain(task, cause).text("+.1f", 100)


def _loss(way: str, end: int, least: int = 1) -> Callable[[Measurements], str]:
    return lambda book: f"{loss_ends(way, least)[end].value:.2f}"


PROSE = Prose(
    "fus",
    together=_gain(DIGITS, IN_KERAS),
    together_late=_gain(LATE, IN_KERAS),
    late_gates=_gain(LATE, "hard gates"),
    late_dropout=_gain(LATE, "recurrent dropout"),
    late_bias=_gain(LATE, "a forget bias"),
    outside_late=_gain(LATE, OUTSIDE),
    early_dropout=_gain(DIGITS, "recurrent dropout"),
    masked=_gain("padded", "a mask"),
    collapsed=_of("padded", "a mask, no bias in either", "cudnn", ".0%"),
    spread_early=_of(DIGITS, IN_KERAS, "spread", ".1f", 100),
    spread_late=_of(LATE, IN_KERAS, "spread", ".1f", 100),
    chance_early=lambda book: f"{chance_of_three_points(DIGITS):.0%}",
    chance_late=lambda book: f"{chance_of_three_points(LATE):.0%}",
    resolved_five=lambda book: f"{100 * resolved(LATE, 5):.1f}",
    resolved_twenty=lambda book: f"{100 * resolved(LATE, 20):.1f}",
    published=lambda book: f"{external.accuracies('MNIST-1D')['GRU']:.0%}",
    reached=_of(DIGITS, IN_KERAS, "cudnn", ".0%"),
    reached_late=_of(LATE, IN_KERAS, "cudnn", ".0%"),
    loss_epochs_small=_loss("equal epochs, rate fixed", 0, 100),
    loss_epochs_large=_loss("equal epochs, rate fixed", 1, 100),
    loss_steps_small=_loss("equal steps, rate fixed", 0),
    loss_steps_large=_loss("equal steps, rate fixed", 1),
)
