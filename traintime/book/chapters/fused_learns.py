"""Chapter 17, what the fused LSTM learns: accuracy and loss of trainings with the settings of Keras 2's LSTM and with
those of CuDNNLSTM. They depend on no machine.
"""

import functools
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML
from scipy import stats

from traintime.book import claims, page, stored
from traintime.book.chapters.fused import lstm_machine
from traintime.book.claims import Finding, higher
from traintime.book.values import Values
from traintime.explain.statistics import Interval, difference
from traintime.learning import results
from traintime.learning.trial import make_trial

# The chapter in which they were written; chapters.MOVED names each.
claim = functools.partial(claims.of_chapter("08"), source="S4", on=lstm_machine)

# What a change from LSTM to CuDNNLSTM does to accuracy

# What LSTM of Keras 2 has and CuDNNLSTM has not, beside its speed: name -> LSTM's settings, CuDNNLSTM's. Its own are a
# Trial's usual ones. In Keras the forget gate's bias is 1 at the start in both; outside of it cuDNN's is 0.
BOTH: dict[str, Any] = {"gates": "hard", "recurrent_dropout": 0.2}
NO_BIAS: dict[str, Any] = {"forget_bias": 0.0}
CAUSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sigmoid gates": ({"gates": "hard"}, {}),
    "no recurrent dropout": ({"recurrent_dropout": 0.2}, {}),
    "a mask": ({"mask": True}, {}),
    "gates and dropout": (BOTH, {}),
    "a forget bias": ({}, NO_BIAS),
    "a mask, no bias in either": ({"mask": True} | NO_BIAS, NO_BIAS),
    "gates, dropout, bias": (BOTH, NO_BIAS),
}
IN_KERAS, OUTSIDE = "gates and dropout", "gates, dropout, bias"  # all that differs without padding
# The data, by the name that a reader sees. On MNIST-1D forty epochs at the usual rate end early.
DIGITS, LATE, PADDED = "mnist1d", "mnist1d, rate 0.003", "padded"
TASKS: dict[str, dict[str, Any]] = {
    DIGITS: {"task": "mnist1d"},
    LATE: {"task": "mnist1d", "rate": 0.003},
    PADDED: {"task": "padded"},
}
FEWEST = 20  # seeds a side
THREE_POINTS = 0.03  # what the document saw the accuracy fall by


trials = functools.cache(results.table)  # every stored training, a row a seed


def causes() -> pd.DataFrame:
    """What each cause does to the accuracy: CuDNNLSTM's way less LSTM's, on the data that can show it.

    One row a task and cause: task, cause, difference, low, high (shares), layer and cudnn (mean accuracies), spread
    (standard deviation between seeds of CuDNNLSTM's way), seeds (of the smaller side).
    """
    accuracies, rows = dict(list(trials().groupby("key")["accuracy"])), []
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
    return causes().query("seeds >= @FEWEST")


def gained(task: str) -> Values:
    """The accuracy that CuDNNLSTM's way gains on a task, by cause, written in percentage points."""
    rows = stored.chosen(well_repeated(), task=task)
    return Values({row["cause"]: stored.interval(row, "difference") for _, row in rows.iterrows()}, "+.1f", 100)


def effect(task: str, cause: str = IN_KERAS) -> pd.Series:
    """The row of `causes` of one of them. Raises KeyError where too few seeds were trained."""
    return stored.row(well_repeated(), task=task, cause=cause)


def chance_of_three_points(task: str) -> float:
    """The probability that the second of two trainings of one network ends three points of accuracy or more below."""
    return float(stats.norm.sf(THREE_POINTS / (effect(task)["spread"] * np.sqrt(2))))


def resolved(task: str, seeds: int) -> float:
    """Half the 95 % interval of a difference of two accuracies, each the mean of so many seeds (Student's t)."""
    return float(stats.t.ppf(0.975, 2 * seeds - 2) * effect(task)["spread"] * np.sqrt(2 / seeds))


def costs_in_keras() -> Finding:
    """Whether all that differs in Keras costs more than three points of accuracy, at the usual rate."""
    gain = {f"{IN_KERAS} on {DIGITS}": gained(DIGITS)[IN_KERAS]}
    return Values(gain, "+.1f", 100, "points") < -THREE_POINTS


def costs_when_trained_out() -> Finding:
    """Whether all that differs costs accuracy at three times the usual rate, in Keras and outside of it."""
    gain = {"in Keras": gained(LATE)[IN_KERAS], "where the bias starts at 0": gained(LATE)[OUTSIDE]}
    return Values(gain, "+.1f", 100, "points") < 0


claim(
    8,
    "All that differs in Keras, taken together, costs CuDNNLSTM more than three points of accuracy on sequences "
    "without padding.",
    claims.once(costs_in_keras, lstm_machine),
    says="does not hold",
)
claim(
    21,
    "At three times the usual rate all that differs, without padding, costs CuDNNLSTM accuracy, in Keras and where "
    "its forget gate starts at 0.",
    claims.once(costs_when_trained_out, lstm_machine),
)


# The batch and the loss


def batches() -> pd.DataFrame:
    """Test loss on MNIST-1D against the batch, at equal epochs and at equal steps, with the rate fixed and scaled.

    One row a batch and way: batch, way, seeds, loss, loss_low, loss_high. None where a single batch was trained: there
    is nothing that it could be held against. Scaled is a rate that follows the square root of the batch; at the usual
    batch that is the usual rate, which belongs to both ways. Other rates are left out.
    """
    usual = results.settings("mnist1d")
    same = {name: value for name, value in usual.items() if name not in ("batch", "rate", "steps")}
    groups = stored.chosen(trials(), **same).groupby(["batch", "rate", "steps"], dropna=False)
    table = groups["loss"].agg(seeds="count", loss="mean", deviation="std").reset_index()
    table = table[(table["seeds"] > 1) & (table["batch"].nunique() > 1)]
    half = stats.t.ppf(0.975, table["seeds"] - 1) * table["deviation"] / np.sqrt(table["seeds"])
    table = table.assign(loss_low=table["loss"] - half, loss_high=table["loss"] + half)
    equal = table["steps"].isna().map({True: "equal epochs", False: "equal steps"}).astype(str)
    rates = {"fixed": usual["rate"], "scaled": usual["rate"] * np.sqrt(table["batch"] / usual["batch"])}
    each = [
        table.assign(way=equal + f", rate {name}")[np.isclose(table["rate"], rate, rtol=0.01)]
        for name, rate in rates.items()
    ]
    return pd.concat(each).sort_values(["way", "batch"], ignore_index=True)


def losses(way: str) -> Values:
    """The mean test loss of trainings in one way of `batches` ("equal steps, rate fixed"), by batch."""
    rows = stored.chosen(batches(), way=way)
    return Values({row.batch: Interval(row.loss, row.loss_low, row.loss_high) for row in rows.itertuples()})


def ends_higher(way: str, batch: int, than: int) -> Finding:
    """Whether trainings in one way with a batch end with a higher test loss than those with another."""
    loss, (small, large) = losses(way), sorted((batch, than))
    return Finding(higher(loss[batch], loss[than]), f"loss {loss[small]} at {small}, {loss[large]} at {large}")


claim(
    9,
    "At equal epochs and an unchanged learning rate a batch of 2,048 ends with a higher test loss than one of 100.",
    claims.once(lambda: ends_higher("equal epochs, rate fixed", 2048, 100), lstm_machine),
)
claim(
    17,
    "A smaller batch raises the loss: at an equal number of steps and an unchanged learning rate one of 16 ends "
    "with a higher test loss than one of 2,048.",
    claims.once(lambda: ends_higher("equal steps, rate fixed", 16, 2048), lstm_machine),
)


# What the page shows

# The tasks of digits, as the figure names them: at the usual rate forty epochs end before the network has learned.
SHOWN = {DIGITS: "the usual rate, 0.001", LATE: "three times that, 0.003"}
DIFFERENCES = {"a forget bias": "forget bias 0 for 1", OUTSIDE: "all three"}  # causes in the figure


def shown() -> pd.DataFrame:
    """The rows of `causes` that the figure shows, by its names: the digits, where no side has collapsed."""
    rows = causes().query("task in @SHOWN")
    return rows.assign(task=rows["task"].map(SHOWN), cause=rows["cause"].replace(DIFFERENCES))


def each_seed() -> pd.DataFrame:
    """Every training on digits with all of LSTM's settings in Keras, and with CuDNNLSTM's: rate, layer, accuracy."""
    sides = dict(zip(("LSTM", "CuDNNLSTM"), CAUSES[IN_KERAS], strict=True))
    rows = [
        stored.chosen(trials(), key=make_trial(**TASKS[task] | side).key).assign(rate=rate, layer=layer)
        for task, rate in SHOWN.items()
        for layer, side in sides.items()
    ]
    return pd.concat(rows, ignore_index=True)[["rate", "layer", "seed", "accuracy"]]


def settings_table() -> HTML:
    """What differs between the two layers, and how each difference alone changes the accuracy, in percentage points:
    on digits at three times the usual rate, a mask on padded sentences.
    """
    late, padded = gained(LATE), gained(PADDED)
    rows = [
        ["`recurrent_activation`", "hard sigmoid (up to 2.2)", "sigmoid", str(late["sigmoid gates"])],
        ["recurrent dropout", "as you set it, here 0.2", "none", str(late["no recurrent dropout"])],
        ["mask", "skips padding", "refused", str(padded["a mask"])],
        ["forget gate's bias", "1", "1 in Keras, 0 elsewhere", f"if 0: {late['a forget bias']}"],
        ["random seed", "one start", "another", f"± {effect(LATE)['spread'] * 100:.1f} (standard deviation)"],
    ]
    heads = ["setting", "`LSTM`, Keras 2", "`CuDNNLSTM`", "change of accuracy, percentage points"]
    return page.table(heads, rows, right=False)
