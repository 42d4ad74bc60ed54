"""Chapter 02, how we measure: what a step time is worth, by repeats, by the framework's own loop, by whole epochs."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from traintime import paths
from traintime.book import stored
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula, statistics
from traintime.explain.statistics import Interval
from traintime.point import Run
from traintime.store import records
from traintime.store.records import Record
from traintime.store.table import ALIKE
from traintime.workloads.rnn import Rnn

SIZES: dict[str, Any] = {"vocabulary": ANY, "batch": ANY, "length": ANY, "sentences": ANY}
TENSORFLOW = "2026-tensorflow"  # its `fit` can sleep
SLOW = 1.5  # times a run's median: a slow step
SLEPT = 0.1  # seconds of a call of fit after its last step, more than any framework needs to come back
STEPS = ["step_s", "fit_step_s"]  # a single step, and one more of the framework's own loop
SAME = "not told apart"
REPEATS = 10  # degrees of freedom that a noise floor needs to be judged
ALIKE_IN_ORDER = 0.3  # rank correlation from which two orders are called alike
HERE = [
    "step (ms)",
    "more of `fit` (ms)",
    "step of a short `fit` (ms)",
    "whole epoch (ms)",
]  # heads of the table of this run
CLOCKS = ("done_s", "seconds")  # of a call of fit: its last step done, and returned
RUNS = [1, 3, 5, 10]  # invocations a side, of the noise floors


# Of an epoch: name -> head of a table's column. The first three are predictions.
ESTIMATES = {
    "steps": "50 steps",
    "slope": "fits, slope",
    "mean": "fits, mean",
    "both": "both sides, slope",
    "all": "both sides, mean",
}
PREDICTIONS = list(ESTIMATES)[:3]


# Repeats of one thing


def sentinel(book: Measurements) -> pd.DataFrame:
    """The good runs of one of the machine's sentinels in the order of time.

    Of the stacks whose sentinel ran beside the same point under tcmalloc, where there are such, the one with most runs.

    Raises KeyError for a machine without one: this run's has none.
    """
    if book.machine not in stored.listed():
        raise KeyError(book.machine)
    rows = stored.sentinel_of(book.machine)
    rows = rows[(rows["status"] == "ok") & ~rows["disturbed"].astype(bool)]
    counts = rows["stack"].value_counts()
    compared = [stack for stack in stored.stack_order(counts.index) if len(beside(book, stack)[1])]
    most = counts.reindex(compared or stored.stack_order(counts.index)).idxmax()
    return rows[rows["stack"] == most].sort_values("started", ignore_index=True)


def between(runs: pd.DataFrame) -> Interval:
    """Run-to-run error, a share: the standard deviation of log seconds between runs of the same thing.

    Its interval is that of a standard deviation (chi-squared).
    """
    groups = [group.to_numpy() for _, group in runs.groupby(ALIKE, dropna=False)["step_s"]]
    known = statistics.pooled_spread(groups)
    low, high = known.sd * np.sqrt(known.degrees / stats.chi2.ppf([0.975, 0.025], known.degrees))
    return Interval(known.sd, float(low), float(high))


def inside(book: Measurements) -> float:
    """What the steps inside one run of the sentinel promise: the median standard error of a run's mean, a share."""
    stack = sentinel(book)["stack"].iloc[0]
    files = (path for path in records.files(paths.MEASUREMENTS, book.machine) if records.is_sentinel(path))
    found = [records.read(path) for path in files if path.parent.name == stack]
    errors = []
    for _, seconds, skipped in stored.step_times(found):
        counted = seconds[skipped:]
        errors.append(counted.std(ddof=1) / counted.mean() / len(counted) ** 0.5)
    return float(np.median(errors))


def rank(runs: pd.DataFrame) -> Interval:
    """Rank correlation of the runs' time with their page faults, with its 95 % interval (Fisher's z)."""
    runs = runs.dropna(subset="faults_a_step")
    value = float(stats.spearmanr(runs["step_s"], runs["faults_a_step"]).statistic)
    half = 1.96 * 1.06 / np.sqrt(len(runs) - 3)
    # A perfect order has no finite z.
    low, high = np.tanh(np.arctanh(np.clip(value, -1 + 1e-9, 1 - 1e-9)) + np.array([-half, half]))
    return Interval(value, float(low), float(high))


def beside(book: Measurements, stack: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The sentinel's point under glibc and under tcmalloc, from the same rounds of one sweep; empty without one."""
    found = book.invocations(stack=stack, vocabulary=20_000, allocator=["glibc", "tcmalloc"])
    glibc, tcmalloc = (found[found["allocator"] == name] for name in ("glibc", "tcmalloc"))
    sweep = stored.same_rounds(glibc, tcmalloc)[1]
    return tuple(side[(side["sweep"] == sweep) & bool(sweep)] for side in (glibc, tcmalloc))


def allocators(book: Measurements) -> pd.Series:
    """The ratio of the two on TENSORFLOW, glibc's step over tcmalloc's, with its verdict (Measurements.ratios)."""
    found = book.invocations(stack=TENSORFLOW, vocabulary=20_000, allocator=["glibc", "tcmalloc"])
    return book.ratios(found, [("glibc", "tcmalloc")], of="allocator").iloc[0]


def floors() -> pd.DataFrame:
    """Noise floors of every machine that the book shows: index stack, columns (machine, number of runs)."""
    tables = {name: stored.of(name).noise().set_index("stack")[RUNS] for name in stored.listed()}
    found = pd.concat(tables, axis=1).dropna(how="all")
    return found.loc[stored.in_order(found.index.to_frame(index=False))["stack"]]


# Runs that ended when a time was over


def ended_by_time(book: Measurements, stack: str = "numpy") -> tuple[Interval, float, int]:
    """Share of runs whose last step is a slow one, with Wilson's interval; share among a run's other steps; runs.

    Of the stack's runs that ended when a time was over and counted three steps or more. Raises IndexError without any.
    """
    last, others = [], []
    everything = dict.fromkeys([*Rnn.model_fields, *Run.model_fields], ANY)
    for record in _stored(book, stack=stack, **everything):
        for invocation in record.invocations:
            if invocation.result and not invocation.protocol.fixed:
                steps = np.array(invocation.result.timing.steps_ns[invocation.result.timing.warmup :])
                if len(steps) > 2:
                    slow = steps >= SLOW * np.median(steps)
                    last.append(bool(slow[-1]))
                    others.append(float(slow[:-1].mean()))
    if not last:
        raise IndexError("no run ended when a time was over")
    wilson = stats.binomtest(sum(last), len(last)).proportion_ci(method="wilson")
    return Interval(float(np.mean(last)), wilson.low, wilson.high), float(np.mean(others)), len(last)


def gain(book: Measurements) -> tuple[float, pd.Series, pd.DataFrame]:
    """NumPy's gain from tcmalloc at 200,000 rows: by means of means, by medians (Measurements.ratios); its glibc runs.

    Of the runs with the sources with which most were made. Raises IndexError or KeyError where a side was not measured.
    """
    wanted = {"stack": "numpy", "vocabulary": 200_000, "allocator": ["glibc", "tcmalloc"]}
    found = book.invocations(**wanted)
    found = found[found["code"] == found["code"].value_counts().index[0]]
    means = found.groupby("allocator")["step_s"].mean()
    ratio = book.ratios(found, [("glibc", "tcmalloc")], of="allocator").iloc[0]
    return float(means["glibc"] / means["tcmalloc"]), ratio, found[found["allocator"] == "glibc"]


# The first steps


def warm_up(book: Measurements, steps: int = 10, vocabulary: int = 20_000) -> pd.DataFrame:
    """The first steps of stored runs in units of their median counted step: medians, a column a stack."""
    return in_units_of_a_later_one(stored.step_times(_stored(book, vocabulary=vocabulary)), steps)


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


def first_step(book: Measurements, vocabulary: int = 20_000) -> dict[str, Interval]:
    """The first step over the run's median step by stack: geometric mean over runs, its spread pooled over points."""
    rows = book.good[book.good["loop"] == "steps"]
    rows = rows.assign(first=rows["first_s"] / rows["median_s"])
    found = {}
    for stack, mine in rows.groupby("stack", sort=False):
        spread = statistics.pooled_spread([group["first"] for _, group in mine.groupby(ALIKE, dropna=False)])
        shown = book.invocations(stack=stack, vocabulary=vocabulary).index
        if len(shown):
            found[stack] = statistics.geometric(mine.loc[shown, "first"], spread)
    return found


# The framework's own loop


def looped(book: Measurements) -> pd.DataFrame:
    """The good runs that timed the framework's own loop, of each point those made in one way.

    Where the end of the last step was told in some of a point's runs, those: elsewhere `fit` counts until it returned.
    Of several such ways the one with the most runs, of several of those the newest.
    """
    found = book.invocations(loop=["fit", "epoch"], **SIZES)
    found = found.assign(_way=found.groupby(ALIKE, dropna=False).ngroup())
    ways = found.groupby(["stack", "key", "_way"]).agg(
        told=("told", "first"), runs=("started", "size"), newest=("started", "max")
    )
    ways = ways.reset_index().sort_values(["told", "runs", "newest"], kind="stable")
    chosen = ways.drop_duplicates(["stack", "key"], keep="last")["_way"]
    return found[found["_way"].isin(chosen)].drop(columns="_way")


def gaps(book: Measurements) -> pd.DataFrame:
    """One more step of the framework's own loop over a single step, each waited for, of the same process.

    One row a point: stack, vocabulary, batch, length, told, step_s and fit_step_s (means, s), runs, and ratio, low,
    high: the geometric mean over runs, with the run-to-run error of the ratio pooled over the stack's points. faster:
    "fit", "single steps", or SAME, by the rules of all verdicts; both sides ran in one process, so the test is of
    their ratio (t, Holm over the table, the interval excludes 1, 5 % or more). A run in which the longer calls took
    less time than the shorter ones has no time of a further step, and is left out.
    """
    found = looped(book)
    found = found[found["fit_step_s"] > 0]
    found = found.assign(gap=found["fit_step_s"] / found["step_s"])
    rows, p_values = [], []
    for stack, mine in found.groupby("stack", sort=False):
        groups = [group for _, group in mine.groupby("key", sort=False)]
        spread = statistics.pooled_spread([group["gap"] for group in groups])
        for group in groups:
            one = statistics.geometric(group["gap"], spread)
            row = {"stack": stack, "runs": len(group), "ratio": one.value, "low": one.low, "high": one.high}
            row |= {name: group[name].iloc[0] for name in ("vocabulary", "batch", "length", "told")}
            rows.append(row | {name: group[name].mean() for name in STEPS})
            error = spread.sd / np.sqrt(len(group))
            distance = abs(np.log(one.value)) / error if error else np.inf
            p_values.append(2 * float(stats.t.sf(distance, spread.degrees)))
    for row, apart in zip(rows, statistics.holm(p_values), strict=True):
        far = max(row["ratio"], 1 / row["ratio"]) >= 1 + statistics.LEAST
        told = apart and far and stored.interval(pd.Series(row)).excludes(1)
        row["faster"] = ("fit" if row["ratio"] < 1 else "single steps") if told else SAME
    columns = ["stack", "vocabulary", "batch", "length", "told", "runs", "ratio", "low", "high", "faster", *STEPS]
    return stored.in_order(pd.DataFrame(rows, columns=columns))


def epochs(book: Measurements) -> pd.DataFrame:
    """Whole epochs that were run, one row a run, beside what was promised: error of each estimate, a share.

    training_s is the epoch without what `fit` slept after its last step. Estimates (ESTIMATES): steps, from the mean of
    the single steps; slope, from the line through the short fits before the epoch; mean, from what a step of those took
    altogether; both and all, the same from the fits on both sides of the epoch, which is no prediction.
    """
    found = looped(book)
    found = found[found["loop"] == "epoch"].dropna(subset="epoch_s")
    number = np.ceil(found["sentences"].astype(float) / found["batch"])
    training = found["epoch_s"] - found["epoch_idle_s"].fillna(0)
    around = found[["fit_step_s", "fit_after_s"]].mean(axis=1)
    around_mean = found[["fit_mean_s", "fit_mean_after_s"]].mean(axis=1)
    return found.assign(
        training_s=training,
        steps_error=number * found["step_s"] / training - 1,
        slope_error=(number * found["fit_step_s"] + found["fit_start_s"]) / training - 1,
        mean_error=number * found["fit_mean_s"] / training - 1,
        both_error=(number * around + found["fit_start_s"]) / training - 1,
        all_error=number * around_mean / training - 1,
        drift=(found["fit_after_s"] / found["fit_step_s"] - 1).abs(),
    )


def misses(found: pd.DataFrame) -> pd.DataFrame:
    """How far the estimates missed the epochs, a row each of ESTIMATES: half, worst, rms (shares), near (in 5 %)."""
    off = {name: found[f"{name}_error"].abs() for name in ESTIMATES}
    rows = {
        name: {"half": one.median(), "worst": one.max(), "near": int((one < 0.05).sum()), "rms": (one**2).mean() ** 0.5}
        for name, one in off.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def calls(book: Measurements, stack: str = TENSORFLOW) -> pd.DataFrame:
    """Every stored call of the stack's own loop whose last step was told apart.

    Columns sentences, seconds, idle_s, done_s (when the last step was), foretold_s (formula.tf_data_end).
    """
    loops = [
        loop
        for record in _stored(book, stack=stack, loop=["fit", "epoch"], **SIZES)
        for invocation in record.invocations
        if invocation.result
        for loop in invocation.result.loops
        if loop.trained_ns is not None
    ]
    rows = [(one.sentences, one.ns / 1e9, (one.ns - one.trained_ns) / 1e9) for one in loops]
    found = pd.DataFrame(rows, columns=["sentences", "seconds", "idle_s"], dtype=float)
    done = found["seconds"] - found["idle_s"]
    return found.assign(done_s=done, foretold_s=[formula.tf_data_end(seconds) for seconds in done])


# What the words are, and what else is written down


def zipf(book: Measurements) -> pd.DataFrame:
    """A step with words drawn by Zipf's law over one with evenly drawn ones, a row a stack (Measurements.ratios)."""
    drawn = book.invocations(vocabulary=200_000, tokens=["zipf", "uniform"])
    return book.ratios(drawn, [("zipf", "uniform")], of="tokens")


def code_paths(stack: str = TENSORFLOW, vocabulary: int = 200_000) -> pd.DataFrame:
    """A step of one stack by the code path that it took, on every machine that the book shows, under glibc.

    Columns machine (its title), path, runs, ms with low and high, faults_a_step.
    """
    rows = []
    for name in stored.listed():
        book = stored.of(name)
        found = book.invocations(stack=stack, vocabulary=vocabulary, onednn=["auto", "off"])
        for path, group in found.groupby(found["path"].fillna("").str.partition(",")[0].replace("", "not recorded")):
            one = statistics.geometric(group["median_s"], book.spread(stack)).scaled(1e3)
            row = {
                "machine": book.title,
                "path": path,
                "runs": len(group),
                "faults_a_step": group["faults_a_step"].mean(),
            }
            rows.append(row | {"ms": one.value, "low": one.low, "high": one.high})
    return pd.DataFrame(rows)


def restored(book: Measurements) -> int:
    """Runs of the first machine that were once taken out of its files and are back.

    Points of which only the single runs of a first attempt exist, with SGD or frozen at 5,000, 80,000 and 800,000 rows;
    those under glibc told to keep its memory in every heap; and of `fit` those before the last step was told.
    """
    rows = book.rows
    single = rows.groupby(["stack", "key"])["started"].transform("size") == 1
    way = (rows["optimizer"] == "sgd") | rows["frozen"].astype(bool)
    first = single & way & rows["vocabulary"].isin([5_000, 80_000, 800_000]) & (rows["loop"] == "steps")
    arenas = rows["allocator"] == "glibc-keep-arenas"
    told = rows["told"].eq(True).groupby([rows["stack"], rows["key"]]).transform("any")
    return int((first | arenas | (told & rows["told"].eq(False))).sum())


def _stored(book: Measurements, **wanted: Any) -> list[Record]:
    """Whole stored records; raises KeyError for this run, whose records lie elsewhere."""
    if book.machine not in stored.listed():
        raise KeyError(book.machine)
    return book.records(**wanted)


def most_missed(slept: pd.DataFrame) -> float:
    """How far the timer missed the ends of the calls that slept, at most, a share."""
    return float((slept["foretold_s"] / slept["seconds"] - 1).abs().max())
