"""Chapter 08, the fused LSTM: what a position costs in each way of running it, and what a change of layer teaches."""

from typing import Any

import numpy as np
import pandas as pd
import sympy
from scipy import stats

from traintime.book import stored
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula
from traintime.explain.formula import Formula
from traintime.explain.statistics import Interval, difference
from traintime.learning import results
from traintime.measuring import operations
from traintime.point import make_point

BATCHES = [32, 512]
LENGTHS = [10, 50]
OTHERS = ["units", "positions", "faster-loop"]  # sweeps of this model at other sizes, for other pages and sections
SIZES: dict[str, Any] = {"workload": "lstm", "batch": ANY, "length": ANY, "units": ANY, "inputs": ANY}
# A step as such, each position that waits for the one before, each token of the batch.
POSITIONS = Formula({"a": sympy.Integer(1), "l": formula.L, "c": formula.B * formula.L})

# The ways of running one LSTM: algorithm -> how a reader sees it. The default is the framework's own loop.
WAYS = {
    "default": "loop",
    "per-gate": "loop, gate by gate",
    "combined": "loop, all gates at once",
    "unrolled": "written out",
    "cell": "RNN of a cell",
    "apart": "loop, taken apart",
    "native": "one operation",
}
COMPILED = "loop, compiled"
KERNELS = {"loop-of-cells": "loop of cells", "cudnn": "one kernel"}  # on a GPU that is told which
ORDER = [*WAYS.values(), COMPILED, *KERNELS.values()]

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
# The data, by the name that a reader sees. On MNIST-1D forty epochs at the usual rate end early.
LATE = "mnist1d, rate 0.003"
TASKS: dict[str, dict[str, Any]] = {
    "mnist1d": {"task": "mnist1d"},
    LATE: {"task": "mnist1d", "rate": 0.003},
    "padded": {"task": "padded"},
    "imdb": {"task": "imdb"},
}
FEWEST = 20  # seeds a side


# Speed


def ways(found: pd.DataFrame) -> pd.Series:
    """How each row's LSTM was run, as a reader sees it."""
    if "algorithm" not in found:  # nothing of this workload
        return pd.Series(index=found.index, dtype=object)
    named = found["algorithm"].map(WAYS).where(found["jit"] != "on", COMPILED)
    return found["kernel"].map(KERNELS).fillna(named) if "kernel" in found else named


def points(book: Measurements, **wanted: Any) -> pd.DataFrame:
    """The points of the sweep, with `how`: a stored machine's on its CPU, this run's where it ran; another's fields are
    given by `wanted`.
    """
    found = _own(book).points(**SIZES, **{"algorithm": ANY, "jit": ["auto", "on"], "kernel": ANY} | wanted)
    found = found.assign(how=ways(found))
    keys = {"stack": stored.stack_order(found["stack"]).index, "how": ORDER.index}
    return found.sort_values(list(keys), key=lambda of: of.map(keys[of.name]), kind="stable", ignore_index=True)


def _own(book: Measurements) -> Measurements:
    """A machine's measurements without the sweeps that train this model at other sizes, for other pages."""
    if "sweep" not in book.rows or not (others := book.rows["sweep"].isin(OTHERS)).any():
        return book
    return Measurements(book.rows[~others], book.machine, book.root, book.usual)


def kept(book: Measurements) -> pd.DataFrame:
    """The same points under an allocator that keeps its memory."""
    return points(book, allocator="tcmalloc")


def prices(book: Measurements, found: pd.DataFrame) -> dict[tuple[str, str], formula.Fit]:
    """What a step, a position and a token cost on each stack in each way: (stack, way) -> fit of POSITIONS."""
    fits = book.lines(found, POSITIONS)
    return dict(sorted(fits.items(), key=lambda item: ORDER.index(item[0][1])))


def position(fit: formula.Fit) -> Interval:
    """Seconds that a position costs, however many samples it has."""
    return fit.interval("l")


def by_position(book: Measurements, found: pd.DataFrame) -> pd.DataFrame:
    """What one more position takes, at each batch: the slope of a step between the two lengths.

    One row a stack, way and batch: stack, how, batch, position_s with its interval low and high, s.
    """
    rows = []
    ran = found.dropna(subset="step_s")
    for seed, ((stack, how, batch), two) in enumerate(ran.groupby(["stack", "how", "batch"], sort=False)):
        two = two.sort_values("length")
        if two["length"].tolist() != LENGTHS:
            continue
        seconds = two["step_s"].to_numpy()
        redraw = formula.repeated(seconds, two["invocations"].to_numpy(), book.spread(stack, "step_s"))
        random = np.random.default_rng(seed)
        drawn = pd.Series([np.diff(redraw(random))[0] for _ in range(1000)])
        one = formula.interval(drawn, float(np.diff(seconds)[0])).scaled(1 / (LENGTHS[1] - LENGTHS[0]))
        rows.append((stack, how, int(batch), one.value, one.low, one.high))
    table = pd.DataFrame(rows, columns=["stack", "how", "batch", "position_s", "low", "high"])
    order = stored.stack_order(table["stack"])
    keys = {"stack": order.index, "how": ORDER.index, "batch": lambda batch: batch}
    return table.sort_values(list(keys), key=lambda of: of.map(keys[of.name]), kind="stable", ignore_index=True)


def counted(each: pd.DataFrame) -> pd.DataFrame:
    """What one more position asks for, as profilers counted it, and what each of those operations takes.

    each: as `by_position` gives it. One row a stack and way: stack, how, once (operations of a step without any
    position), operations (of one more), position_s (of the smallest batch) and operation_s with low and high, s.
    """
    found = operations.stored().assign(how=lambda rows: rows["algorithm"].map(WAYS))
    wide = found.pivot_table("operations", ["stack", "how"], "length", sort=False)
    rows = []
    times = each[each["batch"] == BATCHES[0]].set_index(["stack", "how"])
    for (stack, how), counts in wide.iterrows():
        more = float(counts[LENGTHS[1]] - counts[LENGTHS[0]]) / (LENGTHS[1] - LENGTHS[0])
        row = {"stack": stack, "how": how, "once": counts[LENGTHS[0]] - more * LENGTHS[0], "operations": more}
        if (stack, how) in times.index and more:
            time = times.loc[(stack, how)]
            row |= {"position_s": time["position_s"], "operation_s": time["position_s"] / more}
            row |= {"low": time["low"] / more, "high": time["high"] / more}
        rows.append(row)
    columns = ["stack", "how", "once", "operations", "position_s", "operation_s", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def floor_s(book: Measurements, batch: int) -> float:
    """Seconds of one more position's matrix products at the machine's own rate for large ones. KeyError without it."""
    short, long = (make_point("lstm", batch=batch, length=length).sizes.work().flops for length in LENGTHS)
    return (long - short) / (LENGTHS[1] - LENGTHS[0]) / book.rates["matmul_flop_per_s"]


def gains(book: Measurements) -> pd.DataFrame:
    """The framework's loop over each other way of running it, a row a stack, way, batch and length.

    As Measurements.ratios gives them: `below` is the other way; above 1 it is the faster one.
    """
    found = _own(book).invocations(**SIZES, algorithm=ANY, jit=["auto", "on"])
    found = found.assign(algorithm=ways(found), jit="auto")
    pairs = [("loop", way) for way in ORDER if way != "loop"]
    return book.ratios(found, pairs, of="algorithm", against="batch")


def kept_gains(book: Measurements) -> pd.DataFrame:
    """A loop's step under glibc over that under tcmalloc, a row a stack, batch and length (Measurements.ratios).

    Only where both were measured in the same rounds.
    """
    found = _own(book).invocations(**SIZES, algorithm="default", allocator=["glibc", "tcmalloc"])
    ratios = book.ratios(found, [("glibc", "tcmalloc")], of="allocator", against="batch")
    return ratios[ratios["sweep"] != ""].reset_index(drop=True)


# Accuracy


def trials() -> pd.DataFrame:
    """Every stored training, one row a seed."""
    return results.table()


def causes(found: pd.DataFrame) -> pd.DataFrame:
    """What each cause does to the accuracy: CuDNNLSTM's way less LSTM's, on the data that can show it.

    One row a task and cause: task, cause, difference, low, high (shares), layer and cudnn (mean accuracies), spread
    (standard deviation between seeds of CuDNNLSTM's way), seeds (of the smaller side).
    """
    rows = []
    for task, of_task in TASKS.items():
        for cause, sides in CAUSES.items():
            if of_task["task"] == "mnist1d" and sides[0].get("mask"):
                continue  # nothing is padded there
            trained = (stored.chosen(found, **results.settings(**of_task | side))["accuracy"] for side in sides)
            layer, cudnn = trained
            if min(len(layer), len(cudnn)) < 2:
                continue
            one = difference(cudnn, layer)
            row = {"task": task, "cause": cause, "difference": one.value, "low": one.low, "high": one.high}
            row |= {"layer": layer.mean(), "cudnn": cudnn.mean(), "spread": cudnn.std()}
            rows.append(row | {"seeds": min(len(layer), len(cudnn))})
    columns = ["task", "cause", "difference", "low", "high", "layer", "cudnn", "spread", "seeds"]
    return pd.DataFrame(rows, columns=columns)


def batches(found: pd.DataFrame, task: str = "mnist1d") -> pd.DataFrame:
    """Accuracy and loss against the batch, at equal epochs and at equal steps, with the rate fixed and scaled.

    One row a batch and way: batch, way, accuracy and loss with their intervals (accuracy_low, ...), seeds. None where
    a single batch was trained: there is nothing that it could be held against. Scaled is a rate that follows the square
    root of the batch; at the usual batch that is the usual rate, which stands in both ways. Other rates are left out.
    """
    usual = results.settings(task)
    other = [name for name in usual if name not in ("batch", "rate", "steps")]
    found = stored.chosen(found, **{name: usual[name] for name in other})
    found = found if found["batch"].nunique() > 1 else found.iloc[:0]
    rows = []
    for (batch, rate, steps), group in found.groupby(["batch", "rate", "steps"], dropna=False):
        if len(group) < 2:
            continue
        how = "equal epochs" if pd.isna(steps) else "equal steps"
        follows = usual["rate"] * np.sqrt(batch / usual["batch"])
        ways = [way for way, its in (("fixed", usual["rate"]), ("scaled", follows)) if np.isclose(rate, its, rtol=0.01)]
        row = {"batch": int(batch), "seeds": len(group)}
        for name in ("accuracy", "loss"):
            half = stats.t.ppf(0.975, len(group) - 1) * group[name].std() / np.sqrt(len(group))
            row |= {name: group[name].mean(), f"{name}_low": group[name].mean() - half}
            row |= {f"{name}_high": group[name].mean() + half}
        rows += [row | {"way": f"{how}, rate {way}"} for way in ways]
    columns = ["batch", "way", "seeds"]
    columns += [f"{name}{end}" for name in ("accuracy", "loss") for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=columns).sort_values(["way", "batch"], ignore_index=True)
