"""Chapter 2, when to trust a step time: how far runs of one configuration differ, the first steps, single steps and
short fits as predictions of whole epochs, and `fit` that sleeps before it returns.
"""

import functools
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML
from scipy import stats

from traintime import paths
from traintime.book import claims, page, stored
from traintime.book.claims import Finding, above
from traintime.book.numbers import NOT_MEASURED
from traintime.book.stored import ANY, Measurements
from traintime.book.values import Values, exact, quantity
from traintime.explain import points, statistics
from traintime.explain.statistics import Interval
from traintime.measuring.history import withdrawals
from traintime.predict.record import SLEPT_S
from traintime.store import records
from traintime.store.table import ALIKE

TENSORFLOW = "2026-tensorflow"
VOCABULARY = 20_000  # rows of the sentinel's table, and of the first steps that the page shows
RUNS = [1, 3, 5, 10]  # invocations a side, of the noise floors
REPEATS = 10  # degrees of freedom that a noise floor needs to be judged
SIZES: dict[str, Any] = {"vocabulary": ANY, "batch": ANY, "length": ANY, "sentences": ANY}  # of epochs
# Estimates of an epoch: name -> label in a figure. The first three are predictions.
ESTIMATES = {
    "steps": "50 single steps",
    "slope": "short fits, slope",
    "mean": "short fits, mean",
    "all": "fits before and after, mean",
}
PREDICTIONS = list(ESTIMATES)[:3]
# How `fit` is given its samples, in the order of a table: as examples/tensorflow_sleep.py calls it -> words
WAYS = {"arrays": "arrays", "dataset": "a `tf.data.Dataset`", "untuned": "the same Dataset, not tuned"}
claim = claims.of_chapter("02")


# The same thing, twice


@functools.cache
def sentinel(book: Measurements) -> pd.DataFrame:
    """The good runs of one of the machine's sentinels in the order of time.

    Of several stacks the one with most runs. Also hours since the first run; error and error_s: the standard error of
    the run's mean step by its own counted steps, as a share of that mean and in s. Raises KeyError for a machine
    without one: this run's has none.
    """
    if book.machine not in stored.listed():
        raise KeyError(book.machine)
    rows = stored.sentinel_of(book.machine)
    rows = rows[(rows["status"] == "ok") & ~rows["disturbed"].astype(bool)]
    counts = rows["stack"].value_counts()
    stack = counts.reindex(stored.stack_order(counts.index)).idxmax()
    runs = rows[rows["stack"] == stack].sort_values("started", ignore_index=True)
    started = pd.to_datetime(runs["started"])
    error = runs["started"].map(steps_inside(book, stack))
    hours = (started - started.min()) / pd.Timedelta("1h")
    return runs.assign(error=error, hours=hours, error_s=error * runs["step_s"])


def steps_inside(book: Measurements, stack: str) -> dict[str, float]:
    """The standard error of the mean step of each run of a stack's sentinel by its own counted steps, a share of that
    mean, by the time at which the run started.
    """
    errors = {}
    for path in records.files(paths.MEASUREMENTS, book.machine):
        if records.is_sentinel(path) and path.parent.name == stack:
            record = records.read(path)
            runs = [run for run in record.invocations if run.result]
            for run, (_, seconds, skipped) in zip(runs, stored.step_times([record]), strict=True):
                steps = seconds[skipped:]
                errors[run.started] = steps.std(ddof=1) / steps.mean() / len(steps) ** 0.5
    return errors


def between(runs: pd.DataFrame) -> Interval:
    """Run-to-run error, a share: the standard deviation of log seconds between runs of the same thing.

    Its interval is that of a standard deviation (chi-squared).
    """
    spread = statistics.pooled_spread(points.runs(group, "step_s") for _, group in runs.groupby(ALIKE, dropna=False))
    low, high = spread.sd * np.sqrt(spread.degrees / stats.chi2.ppf([0.975, 0.025], spread.degrees))
    return Interval(spread.sd, float(low), float(high))


def rank(runs: pd.DataFrame) -> Interval:
    """Rank correlation of the runs' time with their page faults, with its 95 % interval (Fisher's z)."""
    runs = runs.dropna(subset="faults_a_step")
    value = float(stats.spearmanr(runs["step_s"], runs["faults_a_step"]).statistic)
    half = 1.96 * 1.06 / np.sqrt(len(runs) - 3)
    # A perfect order has no finite z.
    low, high = np.tanh(np.arctanh(np.clip(value, -1 + 1e-9, 1 - 1e-9)) + np.array([-half, half]))
    return Interval(value, float(low), float(high))


def scatter_more(book: Measurements) -> Finding:
    """Whether runs scatter by more than twice what the steps inside one of them suggest, at the median run."""
    scatter, promised = between(sentinel(book)), float(sentinel(book)["error"].median())
    return Finding(above(2 * promised)(scatter), f"{scatter.text('.0f', 100, '%')}, inside a run {promised:.1%}")


claim(
    1,
    "Runs of one configuration scatter by more than twice the standard error that the steps inside a run suggest.",
    scatter_more,
)


# Noise floors


noise = functools.cache(lambda book: points.noise_table(book.rows))  # of each stack, drawn once


@quantity
def floors(book: Measurements, runs: int) -> Values:
    """By how much two sets of so many runs of one configuration differ by chance at most, a share, by stack."""
    return exact(noise(book).set_index("stack")[runs].dropna().to_dict(), ".0f", 100, "%")


def every_floor() -> pd.DataFrame:
    """Those of every machine that the book shows, a row a stack and machine: columns stack, machine, one of RUNS."""
    tables = pd.concat([noise(stored.of(name)) for name in stored.listed()])
    return stored.in_order(tables.dropna(subset=RUNS, how="all")[["stack", "machine", *RUNS]])


def ten_are_enough(book: Measurements) -> Finding:
    """Whether the floor of ten runs is below 20 % on every stack with REPEATS degrees of freedom."""
    enough = noise(book).query("degrees >= @REPEATS")["stack"]
    floor = floors(book, 10).only(*enough).written(".0%")
    least, most = (f"{end.alone} ({end.name})" for end in (floor.least, floor.most))
    return Finding(floor.most.value < 0.2, f"{least} to {most}")


claim(4, "With ten runs per side, the noise floor is below 20 % on every stack.", ten_are_enough)


# The first steps


@functools.cache
def warm_up(book: Measurements, steps: int = 10) -> pd.DataFrame:
    """The first steps of stored runs in units of the run's median counted step: medians over runs, a column a stack.

    Runs of fewer steps are left out.
    """
    curves: dict[str, list[np.ndarray]] = {}
    for stack, seconds, skipped in stored.step_times(book.records(vocabulary=VOCABULARY)):
        if len(seconds) >= steps:
            curves.setdefault(stack, []).append(seconds[:steps] / np.median(seconds[skipped:]))
    table = {stack: np.median(each, axis=0) for stack, each in curves.items()}
    return pd.DataFrame(table, index=pd.RangeIndex(1, steps + 1, name="step"))


@quantity
def first_steps(book: Measurements) -> Values:
    """How many times as long the first step takes as a later one, at the median over runs, by stack."""
    return exact(warm_up(book).loc[1].to_dict(), ".3g", unit="times")


# Whole epochs


@functools.cache
def epochs(book: Measurements) -> pd.DataFrame:
    """Whole epochs that were run, one row a run, compared with what was predicted: error of each estimate, a share.

    training_s is the epoch without what `fit` slept after its last step. Estimates (ESTIMATES): steps, from the mean of
    the single steps; slope, from the line through the short fits before the epoch; mean, from what a step of those took
    altogether; all, the same from the fits on both sides of the epoch, which is no prediction. drift: by how much the
    short fits after the epoch differ from those before.
    """
    runs = book.invocations(loop="epoch", **SIZES).dropna(subset="epoch_s")
    number = np.ceil(runs["sentences"].astype(float) / runs["batch"])
    training = runs["epoch_s"] - runs["epoch_idle_s"].fillna(0)
    estimates = {
        "steps": number * runs["step_s"],
        "slope": number * runs["fit_step_s"] + runs["fit_start_s"],
        "mean": number * runs["fit_mean_s"],
        "all": number * runs[["fit_mean_s", "fit_mean_after_s"]].mean(axis=1),
    }
    errors = {f"{name}_error": estimate / training - 1 for name, estimate in estimates.items()}
    return runs.assign(training_s=training, **errors, drift=(runs["fit_mean_after_s"] / runs["fit_mean_s"] - 1).abs())


def of_fifty(book: Measurements) -> pd.DataFrame:
    """The epochs that were predicted from fifty steps or more."""
    return epochs(book).query("steps >= 50")


@quantity
def missed(book: Measurements, what: str) -> Values:
    """How far each of ESTIMATES missed those epochs, and the drift between the fits before and after them, shares.

    what: "half" (of the epochs by at most that), "worst" or "rms", the root mean square.
    """
    runs = of_fifty(book)
    off = pd.DataFrame({name: runs[f"{name}_error"].abs() for name in ESTIMATES} | {"drift": runs["drift"]})
    found = {"half": off.median(), "worst": off.max(), "rms": (off**2).mean() ** 0.5}[what]
    return exact(found.dropna().to_dict(), ".1f", 100, "%")


def worst_epoch(book: Measurements) -> Finding:
    """Whether each prediction of each epoch is within 20 % of its training time."""
    worst = missed(book, "worst").only(*PREDICTIONS)
    figure = ", ".join(f"{ESTIMATES[name]} {share.value:.0%}" for name, share in worst.items())
    return Finding(worst.most.value < 0.2, f"worst: {figure}")


claim(10, "Fifty single steps, or short fits, predict the training time of every epoch within 20 %.", worst_epoch)


def mean_is_better(book: Measurements) -> Finding:
    """Whether the mean step of the short fits predicts with at most that error, and better than the slope."""
    mean, slope = (missed(book, "rms")[name].value for name in ("mean", "slope"))
    figure = f"root mean square {mean:.1%}, by the slope {slope:.1%}, {len(of_fifty(book))} epochs"
    return Finding(mean <= 0.06 and mean < slope, figure)


claim(
    14,
    "The mean time of a step in short fits predicts whole epochs with a root mean square error of at most 6 %, and "
    "better than the slope between them does.",
    mean_is_better,
    source="ours, as predicted",
)


# Fit can sleep before it returns


@functools.cache
def calls(book: Measurements) -> pd.DataFrame:
    """Every stored call of TensorFlow's own loop, which can sleep, whose last step was timed separately.

    Columns seconds, idle_s (from the end of the last step on), slept (whether that is a sleep).
    """
    times = [
        (loop.ns / 1e9, (loop.ns - loop.trained_ns) / 1e9)
        for record in book.records(stack=TENSORFLOW, loop=["fit", "epoch"], **SIZES)
        for invocation in record.invocations
        if invocation.result
        for loop in invocation.result.loops
        if loop.trained_ns is not None
    ]
    table = pd.DataFrame(times, columns=["seconds", "idle_s"], dtype=float)
    return table.assign(slept=table["idle_s"] > SLEPT_S)


@functools.cache
def ends() -> pd.DataFrame:
    """Every end of an epoch that examples/tensorflow_sleep.py timed: wait_s, how long nothing happened after the last
    batch; share, of the epoch; slept, whether that was a sleep; training, of which the epoch is one.
    """
    each = pd.read_csv(paths.DATA / "sleeps.csv")
    training = each["last_of_fit"].shift(fill_value=False).cumsum()
    return each.assign(share=each["wait_s"] / each["epoch_s"], slept=each["wait_s"] > SLEPT_S, training=training)


def waited() -> Interval:
    """What an epoch's end adds to an epoch where the pipeline tunes itself, a share, on average."""
    return statistics.average(ends().query("way != 'untuned'")["share"].to_numpy())


def slept_of(*ways: str) -> str:
    """How many ends of epochs slept, of all of these ways: "4 of 24"."""
    slept = ends()["slept"][ends()["way"].isin(ways)]
    return f"{slept.sum()} of {len(slept)}"


def cured_by_chance() -> float:
    """Probability that so few trainings sleep without tuning if it changes nothing: Fisher's exact test, two-sided, of
    the two Datasets. The epochs of one training share a timer, so a training counts once.
    """
    slept = ends().groupby(["way", "training"])["slept"].any()
    counts = [[slept[way].sum(), (~slept[way]).sum()] for way in ("untuned", "dataset")]
    return float(stats.fisher_exact(counts).pvalue)


# What the page shows


def here_table(run: Measurements, book: Measurements) -> HTML:
    """The epochs of a run with what was timed before them, and how far the same stack's predictions missed on `book`.

    Errors, in per cent, are of the epoch predicted by single steps.
    """

    def others(row: pd.Series) -> str:
        errors = stored.chosen(epochs(book), stack=row["stack"])["steps_error"] * 100
        return f"{errors.min():+.0f} to {errors.max():+.0f}" if len(errors) else NOT_MEASURED

    return page.columns(
        epochs(run),
        stack="stack",
        step_s=("single step (ms)", 1e3, ",.1f"),
        fit_mean_s=("step in a short `fit` (ms)", 1e3, ",.1f"),
        epoch_s=("epoch (s)", 1, ",.2f"),
        steps_error=("error here (%)", 100, "+.0f"),
        missed=(f"errors on {book.title} (%)", others),
    )


def waits_table() -> HTML:
    """What the cure does, as a table."""
    of_way = ends().groupby("way").agg(ends=("slept", "size"), slept=("slept", "sum"), longest=("wait_s", "max"))
    return page.columns(
        of_way.loc[list(WAYS)].reset_index(),
        way=("samples as", lambda row: WAYS[row["way"]]),
        ends=("ends of epochs", 1.0, "d"),
        slept=("slept", 1.0, "d"),
        longest=("longest sleep, s", 1.0, ".2f"),
    )


def floor_table(book: Measurements) -> HTML:
    """The noise floors of each stack of a machine."""
    rows = noise(book).dropna(subset=RUNS, how="all").rename(columns=str)
    heads = ["one run per side", *(f"{number} runs per side" for number in RUNS[1:])]
    columns = {str(number): (head, 100, ".0f") for number, head in zip(RUNS, heads, strict=True)}
    return page.columns(rows, stack="noise floor, %", **columns)


def machine_table() -> HTML:
    """What the machines of the book are, and their rates."""
    rows = []
    for name in stored.named():
        title = stored.of(name).title + (" (the reference)" if name == stored.reference() else "")
        rows.append(stored.described(name) | stored.of(name).rates | {"machine": f"{title}<br>{name}"})
    return page.columns(
        pd.DataFrame(rows),
        fold="The machines of this book",
        machine="machine",
        cores="cores",
        memory_bytes=("memory (GiB)", 2**-30, ".0f"),
        bandwidth_bytes_per_s=("bandwidth (GB/s)", 1e-9, ".0f"),
        matmul_flop_per_s=("arithmetic (GFLOP/s)", 1e-9, ".0f"),
    )


def withdrawn() -> pd.DataFrame:
    """Runs of the machines that were withdrawn, with their reasons."""
    return pd.DataFrame(vars(one) for name in stored.named() for one in withdrawals(paths.MEASUREMENTS / name))
