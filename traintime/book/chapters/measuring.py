"""Chapter 2, how we measure: a step against the framework's own loop and whole epochs.

How far repeats of one thing differ, and what a record holds, is the chapter's first question: repeats.py.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML
from scipy import stats

from traintime.book import page, stored
from traintime.book.chapters import repeats
from traintime.book.chapters.repeats import TENSORFLOW, stored_records
from traintime.book.claims import Finding, claim, every_stack, within
from traintime.book.page import Prose
from traintime.book.plots import short
from traintime.book.stored import ANY, Measurements, largest, smallest
from traintime.explain import formula, statistics
from traintime.explain.statistics import Comparison
from traintime.store.table import ALIKE

SIZES: dict[str, Any] = {"vocabulary": ANY, "batch": ANY, "length": ANY, "sentences": ANY}
SLEPT = 0.1  # seconds of a call of fit after its last step, more than any framework needs to come back
SAME = "not told apart"
# Estimates of an epoch: name -> head of a table's column. The first three are predictions.
ESTIMATES = {
    "steps": "50 steps",
    "slope": "fits, slope",
    "mean": "fits, mean",
    "both": "both sides, slope",
    "all": "both sides, mean",
}
PREDICTIONS = list(ESTIMATES)[:3]


# A step of the framework's own loop


def looped(book: Measurements) -> pd.DataFrame:
    """The good runs that timed the framework's own loop, of each point those made in one way.

    Where the end of the last step was told in some of a point's runs, those: elsewhere `fit` counts until it returned.
    Of several such ways the one with the most runs, of several of those the newest.
    """
    runs = book.invocations(loop=["fit", "epoch"], **SIZES)
    runs = runs.assign(_way=runs.groupby(ALIKE, dropna=False).ngroup())
    ways = runs.groupby(["stack", "key", "_way"]).agg(
        told=("told", "first"), runs=("started", "size"), newest=("started", "max")
    )
    ways = ways.reset_index().sort_values(["told", "runs", "newest"], kind="stable")
    chosen = ways.drop_duplicates(["stack", "key"], keep="last")["_way"]
    return runs[runs["_way"].isin(chosen)].drop(columns="_way")


@functools.cache
def gaps(book: Measurements) -> pd.DataFrame:
    """One more step of the framework's own loop over a single step, each waited for, of the same process.

    One row a point: stack, vocabulary, batch, length, told, step_s and fit_step_s (means, s), runs, and ratio, low,
    high: the geometric mean over runs, with the run-to-run error of the ratio pooled over the stack's points. faster:
    "fit", "single steps", or SAME, by the rules of all verdicts; both sides ran in one process, so the test is of
    their ratio (t). A run in which the longer calls took less time than the shorter ones has no time of a further
    step, and is left out.
    """
    runs = looped(book)
    runs = runs[runs["fit_step_s"] > 0]
    runs = runs.assign(gap=runs["fit_step_s"] / runs["step_s"])
    rows, comparisons = [], []
    for stack, mine in runs.groupby("stack", sort=False):
        points = [point for _, point in mine.groupby("key", sort=False)]
        spread = statistics.pooled_spread([point["gap"] for point in points])
        for point in points:
            gap = statistics.geometric(point["gap"], spread)
            error = spread.sd / np.sqrt(len(point))
            distance = abs(np.log(gap.value)) / error if error else np.inf
            p = 2 * float(stats.t.sf(distance, spread.degrees))
            comparisons.append(Comparison("fit", "single steps", gap, len(point), p))
            row = {"stack": stack, "runs": len(point), "ratio": gap.value, "low": gap.low, "high": gap.high}
            row |= {name: point[name].iloc[0] for name in ("vocabulary", "batch", "length", "told")}
            rows.append(row | {name: point[name].mean() for name in ("step_s", "fit_step_s")})
    for row, verdict in zip(rows, statistics.verdicts(comparisons), strict=True):
        row["faster"] = verdict.faster or SAME
    columns = ["stack", "vocabulary", "batch", "length", "told", "runs", "ratio", "low", "high", "faster"]
    return stored.in_order(pd.DataFrame(rows, columns=[*columns, "step_s", "fit_step_s"]))


def _sizes(row: pd.Series) -> str:
    return " · ".join(short(row[name]) for name in ("vocabulary", "batch", "length"))


def gap_table(book: Measurements) -> HTML:
    """A step of `fit` next to a single one."""
    return page.columns(
        gaps(book),
        stack="stack",
        sizes=("rows · batch · length", _sizes),
        step_s=("single (ms)", 1e3, ".1f"),
        fit_step_s=("in fit (ms)", 1e3, ".1f"),
        ratio=("fit / step", page.span),
        faster="faster",
    )


@claim(
    "02.9",
    "One more step of `fit` takes between 0.8 and 1.3 times a single synchronised step, on every stack and size.",
    says="cannot be told",
)
def fit_costs_what_steps_cost(book: Measurements) -> Finding:
    ratios = {f"{row['stack']}, {_sizes(row)}": stored.interval(row) for _, row in gaps(book).iterrows()}
    ends = (f"{ratios[point].text()} on {point}" for point in (smallest(ratios), largest(ratios)))
    return Finding(every_stack(ratios, within(0.8, 1.3)).holds, " to ".join(ends))


# Whole epochs


@functools.cache
def epochs(book: Measurements) -> pd.DataFrame:
    """Whole epochs that were run, one row a run, compared with what was predicted: error of each estimate, a share.

    training_s is the epoch without what `fit` slept after its last step. Estimates (ESTIMATES): steps, from the mean of
    the single steps; slope, from the line through the short fits before the epoch; mean, from what a step of those took
    altogether; both and all, the same from the fits on both sides of the epoch, which is no prediction.
    """
    runs = stored.chosen(looped(book), loop="epoch").dropna(subset="epoch_s")
    number = np.ceil(runs["sentences"].astype(float) / runs["batch"])
    training = runs["epoch_s"] - runs["epoch_idle_s"].fillna(0)
    around = runs[["fit_step_s", "fit_after_s"]].mean(axis=1)
    around_mean = runs[["fit_mean_s", "fit_mean_after_s"]].mean(axis=1)
    return runs.assign(
        training_s=training,
        steps_error=number * runs["step_s"] / training - 1,
        slope_error=(number * runs["fit_step_s"] + runs["fit_start_s"]) / training - 1,
        mean_error=number * runs["fit_mean_s"] / training - 1,
        both_error=(number * around + runs["fit_start_s"]) / training - 1,
        all_error=number * around_mean / training - 1,
        drift=(runs["fit_after_s"] / runs["fit_step_s"] - 1).abs(),
    )


def misses(runs: pd.DataFrame) -> pd.DataFrame:
    """How far the estimates missed the epochs: half, worst, rms (shares), near (epochs missed by less than 5 %).

    A row for each of ESTIMATES, and one for drift: by how much the short fits after an epoch differ from those before.
    Raises KeyError for no epoch.
    """
    if runs.empty:
        raise KeyError("no epoch was run")
    off = pd.DataFrame({name: runs[f"{name}_error"].abs() for name in ESTIMATES} | {"drift": runs["drift"]})
    rms = (off**2).mean() ** 0.5
    return pd.DataFrame({"half": off.median(), "worst": off.max(), "near": (off < 0.05).sum(), "rms": rms})


def of_fifty(book: Measurements) -> pd.DataFrame:
    """The epochs that were predicted from fifty steps or more."""
    return epochs(book).query("steps >= 50")


def epoch_table(book: Measurements) -> HTML:
    """What each extrapolation missed each epoch by, a row an epoch."""
    return page.columns(
        epochs(book),
        fold="Every epoch",
        remedy="A small one ran here, see below.",
        epoch=("epoch", lambda row: f"{row['stack']}, {short(row['vocabulary'])} rows"),
        epoch_s=("took (s)", 1, ".0f"),
        idle=("idle (s)", lambda row: "not told" if pd.isna(row["epoch_idle_s"]) else f"{row['epoch_idle_s']:.0f}"),
        **{f"{name}_error": (ESTIMATES[name], 1, "+.1%") for name in PREDICTIONS},
    )


def here_table(run: Measurements) -> HTML:
    """The epochs of a run and what was timed before them, ms."""
    return page.columns(
        epochs(run),
        stack="stack",
        step_s=("step (ms)", 1e3, ",.1f"),
        fit_step_s=("more of `fit` (ms)", 1e3, ",.1f"),
        fit_mean_s=("step of a short `fit` (ms)", 1e3, ",.1f"),
        epoch_s=("whole epoch (ms)", 1e3, ",.1f"),
    )


@claim("02.10", "Fifty single steps, or short fits, foretell the training time of every epoch within 20 %.")
def epochs_within_a_fifth(book: Measurements) -> Finding:
    worst = misses(of_fifty(book)).loc[PREDICTIONS, "worst"]
    figure = ", ".join(f"{ESTIMATES[name]} {share:.0%}" for name, share in worst.items())
    return Finding(bool(worst.max() < 0.2), f"worst: {figure}")


@claim(
    "02.11",
    "Fifty single steps, or short fits, foretell the training time of every epoch within 5 %.",
    "ours, as predicted",
    says="does not hold",
)
def epochs_within_a_twentieth(book: Measurements) -> Finding:
    number, near = len(of_fifty(book)), misses(of_fifty(book)).loc[PREDICTIONS, "near"]
    figure = ", ".join(f"{ESTIMATES[name]} {epochs:.0f}" for name, epochs in near.items())
    return Finding(bool(near.min() == number), f"of {number} epochs: {figure}")


@claim(
    "02.14",
    "The mean time of a step of short fits foretells whole epochs to a root mean square error of at most 6 %, and "
    "better than the slope between them does.",
    "ours, as predicted",
    says="does not hold",
)
def mean_is_better_than_slope(book: Measurements) -> Finding:
    number, rms = len(of_fifty(book)), misses(of_fifty(book))["rms"]
    figure = f"root mean square {rms['mean']:.1%}, by the slope {rms['slope']:.1%}, {number} epochs"
    return Finding(bool(rms["mean"] <= 0.06 and rms["mean"] < rms["slope"]), figure)


# Fit can sleep before it returns


@functools.cache
def calls(book: Measurements) -> pd.DataFrame:
    """Every stored call of TensorFlow's own loop, which can sleep, whose last step was timed separately.

    Columns sentences, seconds, idle_s, done_s (when the last step was), predicted_s (formula.tf_data_end).
    """
    loops = [
        loop
        for record in stored_records(book, stack=TENSORFLOW, loop=["fit", "epoch"], **SIZES)
        for invocation in record.invocations
        if invocation.result
        for loop in invocation.result.loops
        if loop.trained_ns is not None
    ]
    rows = [(one.sentences, one.ns / 1e9, (one.ns - one.trained_ns) / 1e9, one.trained_ns / 1e9) for one in loops]
    table = pd.DataFrame(rows, columns=["sentences", "seconds", "idle_s", "done_s"], dtype=float)
    return table.assign(predicted_s=[formula.tf_data_end(seconds) for seconds in table["done_s"]])


def slept(book: Measurements) -> pd.DataFrame:
    """Those that slept after their last step."""
    return calls(book).query("idle_s > @SLEPT")


def timer_missed(book: Measurements) -> float:
    """How far the timer missed the ends of the calls that slept, at most, a share. Raises KeyError where none did."""
    if slept(book).empty:
        raise KeyError("no call slept")
    return float((slept(book)["predicted_s"] / slept(book)["seconds"] - 1).abs().max())


def sleep_table(book: Measurements) -> HTML:
    """When calls of `fit` that slept were done, and returned, by when the tuning thread wakes."""
    ends = (
        slept(book)
        .groupby("predicted_s", as_index=False)
        .agg(
            calls=("seconds", "size"),
            done=("done_s", "min"),
            done_last=("done_s", "max"),
            returned=("seconds", "min"),
            returned_last=("seconds", "max"),
        )
    )
    return page.columns(
        ends,
        predicted_s=("thread wakes at (s)", 1, ".2f"),
        calls=("calls", 1, ".0f"),
        done=("last step done at (s)", lambda row: f"{row['done']:.2f} to {row['done_last']:.2f}"),
        returned=("`fit` returned at (s)", lambda row: f"{row['returned']:.2f} to {row['returned_last']:.2f}"),
    )


@claim(
    "02.12",
    "Where `fit` on TensorFlow slept after its last step, it returned within 5 % of the time that the timer in "
    "TensorFlow's source foretells.",
)
def timer_tells_the_end(book: Measurements) -> Finding:
    missed = timer_missed(book)
    return Finding(missed < 0.05, f"missed by {missed:.1%} at most, {len(slept(book))} calls")


# What the words are


@functools.cache
def zipf(book: Measurements) -> pd.DataFrame:
    """A step with words drawn by Zipf's law over one with evenly drawn ones, a row a stack (Measurements.ratios)."""
    drawn = book.invocations(vocabulary=200_000, tokens=["zipf", "uniform"])
    return book.ratios(drawn, [("zipf", "uniform")], of="tokens")


def word_table(book: Measurements) -> HTML:
    """Zipf's words over uniform ones."""
    rows = zipf(book).assign(told=lambda rows: rows["faster"].fillna(rows["reason"]))
    return page.columns(rows, stack="stack", ratio=("Zipf / uniform", page.span), told="faster")


@claim(
    "02.13",
    "Words drawn by Zipf's law instead of evenly change a step by less than 15 %, on every stack.",
    says="cannot be told",
)
def words_do_not_matter(book: Measurements) -> Finding:
    return every_stack(stored.ratio_by_stack(zipf(book)), within(0.85, 1.15))


# What the prose names


def _gap(book: Measurements, place: int) -> pd.Series:
    """The row of the least ratio (0) or of the largest (-1)."""
    return gaps(book).sort_values("ratio").iloc[place]


def _sure(book: Measurements) -> str:
    """In which rows something is faster: "2 of 11 rows (2026-jax: fit is faster)"."""
    sure = gaps(book).query("faster != @SAME")
    names = ", ".join(sorted({f"{row.stack}: {row.faster}" for row in sure.itertuples()}))
    return f"{len(sure)} of {len(gaps(book))} rows" + (f" ({names} is faster)" if names else "")


def _missed(name: str, what: str, spec: str = ".1%") -> Callable[[Measurements], str]:
    return lambda book: f"{misses(epochs(book)).loc[name, what]:{spec}}"


def _zipf(book: Measurements) -> str:
    rows = zipf(book)
    if rows.empty:
        return "Whether it does is not measured yet."
    return (
        f"A step with Zipf's words takes {rows['ratio'].min():.2f} to {rows['ratio'].max():.2f} times as long as one "
        f"with evenly drawn ones; on {rows['faster'].notna().sum()} of {len(rows)} stacks the two can be told apart. "
        f"The widest interval is {rows['low'].min():.2f} to {rows['high'].max():.2f}."
    )


PROSE = Prose(
    "how",
    gap_low=lambda book: f"{_gap(book, 0)['ratio']:.2f}",
    gap_low_stack=lambda book: _gap(book, 0)["stack"],
    gap_high=lambda book: f"{_gap(book, -1)['ratio']:.2f}",
    gap_high_stack=lambda book: _gap(book, -1)["stack"],
    gap_sure=_sure,
    epochs=lambda book: str(len(epochs(book))),
    drift_half=_missed("drift", "half"),
    drift_worst=_missed("drift", "worst", ".0%"),
    steps_half=_missed("steps", "half"),
    steps_worst=_missed("steps", "worst", ".0%"),
    slope_half=_missed("slope", "half"),
    slope_worst=_missed("slope", "worst", ".0%"),
    mean_half=_missed("mean", "half"),
    mean_worst=_missed("mean", "worst", ".0%"),
    calls=lambda book: str(len(calls(book))),
    slept=lambda book: str(len(slept(book))),
    foretold=lambda book: f"{timer_missed(book):.1%}",
    idle_most=lambda book: f"{slept(book)['idle_s'].sort_values().iloc[-1]:.0f} s",
    idle_share=lambda book: f"{(slept(book)['idle_s'] / slept(book)['seconds']).sort_values().iloc[-1]:.0%}",
    zipf=_zipf,
)

# Of what this run measured
HERE = Prose(
    "how-here",
    points=lambda run: str(len(run.points(loop="epoch", **SIZES))),
    error=lambda run: ", ".join(f"{row.stack} {row.steps_error:+.0%}" for row in epochs(run).itertuples()),
)


def numbers(book: Measurements, live: Measurements) -> dict[str, str]:
    """The numbers of the page's sentences: of the machine that it shows, and of what it measured itself."""
    return repeats.PROSE.values(book) | PROSE.values(book) | HERE.values(live)
