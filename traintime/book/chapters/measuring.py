"""Chapter 2, when to trust a step time: the first steps, a step compared with the framework's own loop, whole epochs.

How far runs of one configuration differ, and what a record holds, is the chapter's first question: repeats.py.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML
from scipy import stats

from traintime import paths
from traintime.book import page, predictions, stored
from traintime.book.chapters import pool, repeats
from traintime.book.chapters.repeats import TENSORFLOW, VOCABULARY, early, percent, stored_records
from traintime.book.claims import Finding, above, claim, every_stack, within
from traintime.book.page import Prose
from traintime.book.plots import short
from traintime.book.stored import ANY, Measurements, largest, smallest
from traintime.explain import statistics
from traintime.explain.statistics import Comparison, Interval, average
from traintime.predict import evidence
from traintime.predict.record import SLEPT_S
from traintime.store.table import ALIKE

SIZES: dict[str, Any] = {"vocabulary": ANY, "batch": ANY, "length": ANY, "sentences": ANY}
SAME = "not significant"
# Estimates of an epoch: name -> label in a figure. The first three are predictions.
ESTIMATES = {
    "steps": "50 single steps",
    "slope": "short fits, slope",
    "mean": "short fits, mean",
    "both": "fits before and after, slope",
    "all": "fits before and after, mean",
}
PREDICTIONS = list(ESTIMATES)[:3]


# The first steps


@functools.cache
def warm_up(book: Measurements) -> pd.DataFrame:
    """The first steps of stored runs in units of their median counted step: medians, a column a stack."""
    return in_units_of_a_later_one(stored.step_times(stored_records(book, vocabulary=VOCABULARY)))


def in_units_of_a_later_one(times: list[tuple[str, np.ndarray, int]], steps: int = 10) -> pd.DataFrame:
    """Medians over runs of the first steps over the run's median counted step; runs of fewer steps are left out.

    times: stack, seconds of every step, steps that do not count (stored.step_times).
    """
    curves: dict[str, list[np.ndarray]] = {}
    for stack, seconds, skipped in times:
        if len(seconds) >= steps:
            curves.setdefault(stack, []).append(seconds[:steps] / np.median(seconds[skipped:]))
    table = {stack: np.median(each, axis=0) for stack, each in curves.items()}
    return pd.DataFrame(table, index=pd.RangeIndex(1, steps + 1, name="step"))


@functools.cache
def first_step(book: Measurements) -> dict[str, Interval]:
    """The first step over the run's median step by stack: geometric mean over runs, its spread pooled over points."""
    rows = book.good[book.good["loop"] == "steps"]
    rows = rows.assign(first=rows["first_s"] / rows["median_s"])
    ratios = {}
    for stack, mine in rows.groupby("stack", sort=False):
        spread = statistics.pooled_spread(group for _, group in mine.groupby(ALIKE, dropna=False)["first"])
        runs = book.invocations(stack=stack, vocabulary=VOCABULARY).index
        if len(runs):
            ratios[stack] = statistics.geometric(mine.loc[runs, "first"], spread)
    return ratios


@claim("02.7", "The first step takes at least 1.2 times as long as a later one, on every stack.")
def first_step_is_slow(book: Measurements) -> Finding:
    return every_stack(first_step(book), above(1.2), ".1f")


@claim(
    "02.8",
    "From the fourth step on, the medians over runs lie between 0.7 and 1.4 times a later step, on every stack.",
)
def fourth_step_is_steady(book: Measurements) -> Finding:
    low, high = _later(book)
    return Finding(low > 0.7 and high < 1.4, f"{low:.2f} to {high:.2f} ({warm_up(book).loc[4:].max().idxmax()})")


def _later(book: Measurements) -> tuple[float, float]:
    """The least and the largest from the fourth step on. Raises KeyError where no run had ten steps."""
    later = warm_up(book).loc[4:]
    if later.empty:
        raise KeyError("not measured")
    return float(later.min(axis=None)), float(later.max(axis=None))


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
    for row, (faster, _) in zip(rows, statistics.verdicts(comparisons), strict=True):
        row["faster"] = faster or SAME
    columns = ["stack", "vocabulary", "batch", "length", "told", "runs", "ratio", "low", "high", "faster"]
    return stored.in_order(pd.DataFrame(rows, columns=[*columns, "step_s", "fit_step_s"]))


def _sizes(row: pd.Series) -> str:
    return " · ".join(short(row[name]) for name in ("vocabulary", "batch", "length"))


@claim(
    "02.9",
    "One more step of `fit` takes between 0.8 and 1.3 times as long as a single step, on every stack and size.",
    says="inconclusive",
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


def here_table(run: Measurements, book: Measurements) -> HTML:
    """The epochs of a run with what was timed before them, and how far the same stack's predictions missed on `book`.

    Errors, in per cent, are of the epoch predicted by single steps.
    """

    def missed(row: pd.Series) -> str:
        errors = stored.chosen(epochs(book), stack=row["stack"])["steps_error"] * 100
        return f"{errors.min():+.0f} to {errors.max():+.0f}" if len(errors) else page.NOT_MEASURED

    return page.columns(
        epochs(run),
        stack="stack",
        step_s=("single step (ms)", 1e3, ",.1f"),
        fit_mean_s=("step in a short `fit` (ms)", 1e3, ",.1f"),
        epoch_s=("epoch (s)", 1, ",.2f"),
        steps_error=("error here (%)", 100, "+.0f"),
        missed=(f"errors on {book.title} (%)", missed),
    )


@claim("02.10", "Fifty single steps, or short fits, predict the training time of every epoch within 20 %.")
def epochs_within_a_fifth(book: Measurements) -> Finding:
    worst = misses(of_fifty(book)).loc[PREDICTIONS, "worst"]
    figure = ", ".join(f"{ESTIMATES[name]} {share:.0%}" for name, share in worst.items())
    return Finding(bool(worst.max() < 0.2), f"worst: {figure}")


@claim(
    "02.11",
    "Fifty single steps, or short fits, predict the training time of every epoch within 5 %.",
    "ours, as predicted",
    says="does not hold",
)
def epochs_within_a_twentieth(book: Measurements) -> Finding:
    number, near = len(of_fifty(book)), misses(of_fifty(book)).loc[PREDICTIONS, "near"]
    figure = ", ".join(f"{ESTIMATES[name]} {epochs:.0f}" for name, epochs in near.items())
    return Finding(bool(near.min() == number), f"of {number} epochs: {figure}")


@claim(
    "02.14",
    "The mean time of a step in short fits predicts whole epochs with a root mean square error of at most 6 %, and "
    "better than the slope between them does.",
    "ours, as predicted",
)
def mean_is_better_than_slope(book: Measurements) -> Finding:
    number, rms = len(of_fifty(book)), misses(of_fifty(book))["rms"]
    figure = f"root mean square {rms['mean']:.1%}, by the slope {rms['slope']:.1%}, {number} epochs"
    return Finding(bool(rms["mean"] <= 0.06 and rms["mean"] < rms["slope"]), figure)


# Fit can sleep before it returns


@functools.cache
def calls(book: Measurements) -> pd.DataFrame:
    """Every stored call of TensorFlow's own loop, which can sleep, whose last step was timed separately.

    Columns sentences, seconds, idle_s, done_s (when the last step was), predicted_s (evidence.tf_data_end).
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
    return table.assign(predicted_s=[evidence.tf_data_end(seconds) for seconds in table["done_s"]])


def slept(book: Measurements) -> pd.DataFrame:
    """Those that slept after their last step."""
    return calls(book).query("idle_s > @SLEPT_S")


def timer_missed(book: Measurements) -> float:
    """How far the timer missed the ends of the calls that slept, at most, a share. Raises KeyError where none did."""
    if slept(book).empty:
        raise KeyError("no call slept")
    return float((slept(book)["predicted_s"] / slept(book)["seconds"] - 1).abs().max())


@claim(
    "02.12",
    "Where `fit` on TensorFlow slept after its last step, it returned within 5 % of the time that the timer in "
    "TensorFlow's source predicts.",
)
def timer_tells_the_end(book: Measurements) -> Finding:
    missed = timer_missed(book)
    return Finding(missed < 0.05, f"missed by {missed:.1%} at most, {len(slept(book))} calls")


# How `fit` is given its samples, in the order of a table: as examples/tensorflow_sleep.py calls it -> words
WAYS = {"arrays": "arrays", "dataset": "a `tf.data.Dataset`", "untuned": "the same Dataset, not tuned"}


@functools.cache
def waits() -> pd.DataFrame:
    """How long nothing happened after an epoch's last batch, a row for each way to give `fit` its samples.

    Columns way, ends (of epochs), slept (of these), share (of the epoch that the longest sleep took), longest (s).
    """
    each = pd.read_csv(paths.DATA / "sleeps.csv").set_index("way").loc[list(WAYS)]
    long = each.assign(slept=each["wait_s"] > SLEPT_S, share=each["wait_s"] / each["epoch_s"])
    of_way = long.groupby("way", sort=False)
    found = {"ends": of_way.size(), "slept": of_way["slept"].sum(), "longest": of_way["wait_s"].max()}
    return pd.DataFrame(found | {"share": of_way["share"].max()}).reset_index()


def waited() -> Interval:
    """What an epoch's end adds to an epoch where the pipeline tunes itself, a share, on average."""
    each = pd.read_csv(paths.DATA / "sleeps.csv").query("way != 'untuned'")
    return average((each["wait_s"] / each["epoch_s"]).to_numpy())


def waits_table() -> HTML:
    """What the cure does, as a table."""
    return page.columns(
        waits(),
        way=("samples as", lambda row: WAYS[row["way"]]),
        ends=("ends of epochs", 1.0, "d"),
        slept=("slept", 1.0, "d"),
        longest=("longest sleep, s", 1.0, ".2f"),
    )


def slept_of(*ways: str) -> str:
    """How many ends of epochs slept, of all of these ways: "4 of 24"."""
    rows = waits().set_index("way").loc[list(ways)]
    return f"{rows['slept'].sum()} of {rows['ends'].sum()}"


def cured_by_chance() -> float:
    """Probability that so few trainings sleep without tuning if it changes nothing: Fisher's exact test, one-sided, of
    the two Datasets. The epochs of one training share a timer, so a training counts once.
    """
    each = pd.read_csv(paths.DATA / "sleeps.csv")
    training = each["last_of_fit"].shift(fill_value=False).cumsum().rename("training")
    slept = (each["wait_s"] > SLEPT_S).groupby([each["way"], training]).any()
    counts = [[slept[way].sum(), (~slept[way]).sum()] for way in ("untuned", "dataset")]
    return float(stats.fisher_exact(counts, "less").pvalue)


def _longest_wait() -> str:
    """The longest sleep, and how `fit` was given its samples."""
    row = waits().sort_values("longest").iloc[-1]
    return f"{row['longest']:.1f} seconds, from {WAYS[row['way']].replace('`', '')}"


# What the words are


@functools.cache
def zipf(book: Measurements) -> pd.DataFrame:
    """A step with words drawn by Zipf's law over one with evenly drawn ones, a row a stack (Measurements.ratios)."""
    drawn = book.invocations(vocabulary=200_000, tokens=["zipf", "uniform"])
    return book.ratios(drawn, [("zipf", "uniform")], of="tokens")


@claim(
    "02.13",
    "Words drawn by Zipf's law instead of evenly change a step by less than 15 %, on every stack.",
    says="inconclusive",
)
def words_do_not_matter(book: Measurements) -> Finding:
    return every_stack(stored.ratio_by_stack(zipf(book)), within(0.85, 1.15))


# What the prose names


def _gap(book: Measurements, place: int) -> str:
    """The least ratio (0) or the largest (-1), and its stack."""
    row = gaps(book).sort_values("ratio").iloc[place]
    return f"{row['ratio']:.2f} times ({row['stack']})"


def _missed(name: str, what: str) -> Callable[[Measurements], str]:
    """What an estimate missed the epochs by, in per cent: "half" of them by at most, or the "worst"."""
    return lambda book: percent(misses(epochs(book)).loc[name, what], 1)


def _missed_early(name: str, what: str) -> Callable[[Measurements], str]:
    return lambda _: _missed(name, what)(early())


def _came(machine: str, number: str) -> str:
    return predictions.told("02", number, machine)


def _first(book: Measurements, place: int) -> str:
    """The least first step (0) or the largest (-1), at the median, and its stack."""
    first = stored.measured(warm_up(book)).loc[1].sort_values()
    return f"{first.iloc[place]:.3g} times ({first.index[place]})"


PROSE = Prose(
    "how",
    first_low=lambda book: _first(book, 0),
    first_high=lambda book: _first(book, -1),
    later_low=lambda book: f"{_later(book)[0]:.2f}",
    later_high=lambda book: f"{_later(book)[1]:.2f}",
    gap_low=lambda book: _gap(book, 0),
    gap_high=lambda book: _gap(book, -1),
    gap_sure=lambda book: f"{(gaps(book)['faster'] != SAME).sum()} of {len(gaps(book))}",
    epochs=lambda book: str(len(stored.measured(epochs(book)))),
    longest=lambda book: f"{stored.measured(epochs(book))['training_s'].max():.0f} seconds",
    drift_half=_missed("drift", "half"),
    drift_worst=_missed("drift", "worst"),
    steps_half=_missed("steps", "half"),
    steps_worst=_missed("steps", "worst"),
    mean_half=_missed("mean", "half"),
    mean_worst=_missed("mean", "worst"),
    steps_half_early=_missed_early("steps", "half"),
    steps_worst_early=_missed_early("steps", "worst"),
    mean_half_early=_missed_early("mean", "half"),
    mean_worst_early=_missed_early("mean", "worst"),
    epochs_worst=lambda book: percent(
        max(misses(epochs(of)).loc[["steps", "mean"], "worst"].max() for of in (book, early()))
    ),
    calls=lambda book: str(len(calls(book))),
    slept=lambda book: str(len(slept(book))),
    timer=lambda book: percent(timer_missed(book), 1),
    idle_most=lambda book: f"{slept(book)['idle_s'].sort_values().iloc[-1]:.0f} seconds",
    idle_of=lambda book: f"{slept(book).sort_values('idle_s')['seconds'].iloc[-1]:.0f} seconds",
    wait_arrays=lambda _: slept_of("arrays"),
    wait_dataset=lambda _: slept_of("dataset"),
    wait_untuned=lambda _: slept_of("untuned"),
    wait_longest=lambda _: _longest_wait(),
    path_off=lambda book: pool.without_onednn(book)[pool.TENSORFLOW].text(),
    wait_chance=lambda _: f"{cured_by_chance():.1g}",
    zipf_low=lambda book: f"{stored.measured(zipf(book))['ratio'].min():.2f}",
    zipf_high=lambda book: f"{stored.measured(zipf(book))['ratio'].max():.2f}",
    came_fifty=lambda _: _came(stored.first(), "4"),
    came_scatter=lambda _: _came(stored.first(), "1"),
    came_fits=lambda _: _came(stored.reference(), "2"),
)


def numbers(book: Measurements) -> dict[str, str]:
    """The numbers of the page's sentences, of the machine that it shows."""
    return repeats.PROSE.values(book) | PROSE.values(book)
