"""Chapter 02, how we measure: what a step time is worth, by repeats, by the framework's own loop, by whole epochs."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from traintime import paths
from traintime.book import stored
from traintime.book.claims import Claim, Finding, above, every
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula, statistics
from traintime.explain.statistics import Interval
from traintime.point import Run
from traintime.store import derived, records
from traintime.store.records import DISTURBED, Record
from traintime.store.table import ALIKE
from traintime.workloads.rnn import Rnn

SIZES: dict[str, Any] = {"vocabulary": ANY, "batch": ANY, "length": ANY, "sentences": ANY}
TENSORFLOW = "2026-tensorflow"  # of the sentinel on the first machine; its `fit` can sleep
SLOW = 1.5  # times a run's median: a slow step
SLEPT = 0.1  # seconds of a call of fit after its last step, more than any framework needs to come back
STEPS = ["step_s", "fit_step_s"]  # a single step, and one more of the framework's own loop
SAME = "not told apart"
REPEATS = 10  # degrees of freedom that a noise floor needs to be judged
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


def steps_per_epoch(sentences: int, batch: int) -> int:
    """Training steps of one epoch; the last batch may be smaller."""
    return -(-sentences // batch)


# Repeats of one thing


def sentinel(book: Measurements) -> pd.DataFrame:
    """The good runs of the machine's sentinel in the order of time, on the stack that has most of them.

    Raises KeyError for a machine without one: this run's has none.
    """
    if book.machine not in stored.listed():
        raise KeyError(book.machine)
    rows = stored.sentinel_of(book.machine)
    rows = rows[(rows["status"] == "ok") & ~rows["disturbed"].astype(bool)]
    most = rows["stack"].value_counts().index[0]
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


def beside(book: Measurements) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The sentinel's point under glibc and under tcmalloc, from the same rounds of one sweep."""
    found = book.invocations(stack=TENSORFLOW, vocabulary=20_000, allocator=["glibc", "tcmalloc"])
    glibc, tcmalloc = (found[found["allocator"] == name] for name in ("glibc", "tcmalloc"))
    sweep = stored.interleaved(glibc, tcmalloc)[2]
    return glibc[glibc["sweep"] == sweep], tcmalloc[tcmalloc["sweep"] == sweep]


def allocators(book: Measurements) -> pd.Series:
    """The ratio of the two, glibc's step over tcmalloc's, with its verdict (Measurements.ratios)."""
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


def calibrated() -> pd.DataFrame:
    """The stored calibration of the warm-up: index stack, columns warmup (steps after the first) and runs."""
    return pd.read_csv(paths.DERIVED / "warm-up.csv").set_index("stack")


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


def disturbed(book: Measurements) -> tuple[int, int]:
    """Invocations of which somebody counted who else kept the machine busy, and how many of them were disturbed."""
    told = book.rows[book.rows["others_cores"].notna()]
    return len(told), int(told["disturbed"].sum())


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


# The numbers of the prose


def values(book: Measurements, live: Measurements) -> dict[str, str]:
    """The numbers of the chapter's prose. book: the machine that it shows; live: what this run measured.

    Where that machine lacks the measurements, "not measured" stands in the place of each number.
    """
    found = _of_records() | _of_this_run(live)
    for part in (_of_repeats, _of_the_rules, _of_first_steps, _of_loops, _of_sleep, _of_words):
        try:
            found |= part(book)
        except (KeyError, IndexError, ValueError):
            found |= dict.fromkeys(part(stored.of()), "not measured")
    return found


def _of_repeats(book: Measurements) -> dict[str, str]:
    runs = sentinel(book)
    scatter, together = between(runs), rank(runs)
    counted = runs.dropna(subset="faults_a_step")
    glibc, tcmalloc = beside(book)
    ratio = allocators(book)
    return {
        "how-sentinels": str(len(runs)),
        "how-inside": f"{inside(book):.1%}",
        "how-between": f"{scatter.value:.0%}",
        "how-fastest": f"{runs['step_s'].min() * 1e3:.0f} ms",
        "how-slowest": f"{runs['step_s'].max() * 1e3:.0f} ms",
        "how-hours": f"{np.ptp(pd.to_datetime(runs['started'])) / pd.Timedelta('1h'):.0f}",
        "how-faults-low": f"{counted['faults_a_step'].min():,.0f}",
        "how-faults-high": f"{counted['faults_a_step'].max():,.0f}",
        "how-faults-rank": together.text(),
        "how-faults-runs": str(len(counted)),
        "how-beside": f"{len(glibc)} and {len(tcmalloc)}",
        "how-step-glibc": f"{glibc['step_s'].mean() * 1e3:.0f} ms",
        "how-step-tcmalloc": f"{tcmalloc['step_s'].mean() * 1e3:.0f} ms",
        "how-beside-ratio": stored.interval(ratio).text(),
        "how-beside-reason": ratio["reason"],
        "how-floor-glibc": f"{statistics.noise([glibc['median_s']], 1):.0%}",
        "how-floor-tcmalloc": f"{statistics.noise([tcmalloc['median_s']], 1):.0%}",
    }


def _of_the_rules(book: Measurements) -> dict[str, str]:
    noise = book.noise()
    last, others, number = ended_by_time(book)
    rows = book.rows
    means, medians, glibc = gain(book)
    found = {
        "how-least": f"{statistics.LEAST:.0%}",
        "how-ended": str(number),
        "how-ended-last": last.text(".0f", 100, "%"),
        "how-ended-others": f"{others:.0%}",
        "how-two-steps": str(int((~rows["fixed"].astype(bool) & (rows["steps"] == 2)).sum())),
        "how-runs": str(len(rows)),
        "how-gain-means": f"{means:.1f}",
        "how-gain-medians": stored.interval(medians).text(),
        "how-gain-reason": medians["reason"],
        "how-gain-steps": f"{glibc['steps'].min():.0f} or {glibc['steps'].max():.0f}",
    }
    for number in RUNS:
        found[f"how-floor-{number}"] = f"{noise[number].min():.0%} to {noise[number].max():.0%}"
    return found | {"how-gain-fixed": _gain_with_fixed_steps(book)}


def _gain_with_fixed_steps(book: Measurements) -> str:
    """A sentence about the same gain on the first other machine whose runs were of a fixed number of steps."""
    for other in (stored.of(name) for name in stored.listed() if name != book.machine):
        try:
            means, medians, glibc = gain(other)
        except (KeyError, IndexError):
            continue
        if glibc["fixed"].all():
            said = f"On the {other.title}, with {glibc['steps'].min():.0f} steps fixed beforehand, the means give "
            return f"{said}{means:.2f} and the medians {stored.interval(medians).text()}, {medians['reason']}."
    return "With steps fixed beforehand it is not measured yet."


def _of_first_steps(book: Measurements) -> dict[str, str]:
    curves = warm_up(book)
    first, later = curves.loc[1].sort_values(), curves.loc[4:].stack()
    needed = calibrated()["warmup"]
    return {
        "how-first-low": f"{first.iloc[0]:.1f}",
        "how-first-low-stack": first.index[0],
        "how-first-high": f"{first.iloc[-1]:.0f}",
        "how-first-high-stack": first.index[-1],
        "how-first-numpy": f"{first['numpy']:.1f}",
        "how-later-low": f"{later.min():.2f}",
        "how-later-high": f"{later.max():.2f}",
        "how-warm": f"{derived.WARM:.0%}",
        "how-warm-least": str(needed.min()),
        "how-warm-most": str(needed.max()),
        "how-warm-most-stack": str(needed.idxmax()),
    }


def _of_loops(book: Measurements) -> dict[str, str]:
    found, run = gaps(book), epochs(book)
    lowest, highest = found.loc[found["ratio"].idxmin()], found.loc[found["ratio"].idxmax()]
    off = misses(run)
    values = {
        "how-gap-low": f"{lowest['ratio']:.2f}",
        "how-gap-low-stack": lowest["stack"],
        "how-gap-high": f"{highest['ratio']:.2f}",
        "how-gap-high-stack": highest["stack"],
        "how-gap-sure": _sure(found),
        "how-gap-all": str(len(found)),
        "how-gap-left": str(len(book.invocations(loop=["fit", "epoch"], **SIZES)) - len(looped(book))),
        "how-epochs": str(len(run)),
        "how-drift-half": f"{run['drift'].median():.1%}",
        "how-drift-worst": f"{run['drift'].max():.0%}",
    }
    for name, row in off.iterrows():
        values |= {f"how-{name}-{what}": f"{row[what]:.1%}" for what in ("half", "rms")}
        values |= {f"how-{name}-worst": f"{row['worst']:.0%}", f"how-{name}-near": f"{row['near']:.0f}"}
    return values


def _sure(found: pd.DataFrame) -> str:
    """In which rows something is faster: "2 of 11 rows (2026-jax: fit)"."""
    sure = found[found["faster"] != SAME]
    names = sorted({f"{row.stack}: {row.faster}" for row in sure.itertuples()})
    return f"{len(sure)} of {len(found)} rows" + (f" ({', '.join(names)} is faster)" if names else "")


def _of_sleep(book: Measurements) -> dict[str, str]:
    every_call = calls(book)
    slept = every_call[every_call["idle_s"] > SLEPT]
    if slept.empty:
        raise KeyError("no call slept")
    return {
        "how-calls": str(len(every_call)),
        "how-slept": str(len(slept)),
        "how-foretold": f"{_missed(slept):.1%}",
        "how-idle-most": f"{slept['idle_s'].max():.0f} s",
        "how-idle-share": f"{(slept['idle_s'] / slept['seconds']).max():.0%}",
        "how-rungs": ", ".join(f"{formula.tf_data_end(s):.0f}" for s in (3, 6, 11, 21, 41, 82, 142)),
    }


def _missed(slept: pd.DataFrame) -> float:
    """How far the timer missed the ends of the calls that slept, at most, a share."""
    return float((slept["foretold_s"] / slept["seconds"] - 1).abs().max())


def _of_words(book: Measurements) -> dict[str, str]:
    found = zipf(book)
    if found.empty:
        return {"how-zipf": "Whether it does is not measured yet."}
    low, high = found["ratio"].min(), found["ratio"].max()
    text = f"A step with Zipf's words takes {low:.2f} to {high:.2f} times as long as one with evenly drawn ones; "
    text += f"on {found['faster'].notna().sum()} of {len(found)} stacks the two can be told apart. "
    return {"how-zipf": text + f"The widest interval is {found['low'].min():.2f} to {found['high'].max():.2f}."}


def _of_records() -> dict[str, str]:
    counts = {stored.of(name).title: disturbed(stored.of(name)) for name in stored.listed()}
    told = [f"{bad} of {number} runs on {title}" for title, (number, bad) in counts.items() if number]
    return {
        "how-disturbed": f"{DISTURBED:g}",
        "how-disturbed-runs": "; ".join(told) or "no run so far",
        "how-restored": str(restored(stored.of())),
    }


def _of_this_run(live: Measurements) -> dict[str, str]:
    points = live.points(loop="epoch", **SIZES)
    ran = epochs(live)
    return {
        "how-here-points": str(len(points)),
        "how-here-error": ", ".join(f"{row.stack} {row.steps_error:+.0%}" for row in ran.itertuples()),
    }


# Claims


def _scatter(book: Measurements) -> Finding | None:
    one, promised = between(sentinel(book)), inside(book)
    shown = f"{one.text('.0f', 100, '%')}, promised {promised:.1%}"
    return Finding(above(one, 2 * promised), shown)


def _faults(book: Measurements) -> Finding | None:
    one = rank(sentinel(book))
    return Finding(above(one, 0.3), f"rank correlation {one.text()}")


def _allocator(book: Measurements) -> Finding | None:
    row = allocators(book)
    holds = None if row["faster"] is None else row["faster"] == "tcmalloc"
    return Finding(holds, f"glibc / tcmalloc {stored.interval(row).text()}, {row['reason']}")


def _ten_runs(book: Measurements) -> Finding | None:
    noise = book.noise()
    noise = noise[noise["degrees"] >= REPEATS].set_index("stack")[10]
    if noise.empty:
        return None
    shown = f"{noise.min():.0%} ({noise.idxmin()}) to {noise.max():.0%} ({noise.idxmax()})"
    return Finding(bool(noise.max() < 0.2), shown)


def _ended(book: Measurements) -> Finding | None:
    last, others, number = ended_by_time(book)
    shown = f"last steps {last.text('.0f', 100, '%')}, others {others:.0%}, {number} runs"
    return Finding(above(last, others), shown)


def _gain(book: Measurements) -> Finding | None:
    means, medians, _ = gain(book)
    one = stored.interval(medians)
    holds = bool(means > one.high) if one.excludes(means) else None
    return Finding(holds, f"means {means:.2f}, medians {one.text()}, {medians['reason']}")


def _first(book: Measurements) -> Finding | None:
    each = first_step(book)
    holds = every(*(above(one, 1.2) for one in each.values()))
    least = min(each, key=lambda stack: each[stack].value)
    return Finding(holds, f"least: {least} {each[least].text('.1f')}")


def _later(book: Measurements) -> Finding | None:
    later = warm_up(book).loc[4:]
    low, high = later.min(axis=None), later.max(axis=None)
    return Finding(bool(low > 0.7 and high < 1.4), f"{low:.2f} to {high:.2f} ({later.max().idxmax()})")


def _fit(book: Measurements) -> Finding | None:
    found = gaps(book)
    holds = every(*(_within(stored.interval(row), 0.8, 1.3) for _, row in found.iterrows()))
    ends = found.loc[[found["ratio"].idxmin(), found["ratio"].idxmax()]]
    return Finding(holds, " to ".join(f"{stored.interval(row).text()} on {row['stack']}" for _, row in ends.iterrows()))


def _within(one: Interval, low: float, high: float) -> bool | None:
    """Whether a value lies in a range: yes where its whole interval does, no where none of it does."""
    if one.low >= low and one.high <= high:
        return True
    return False if one.high < low or one.low > high else None


def _of_fifty(found: pd.DataFrame) -> pd.DataFrame:
    """The epochs that were foretold from fifty steps or more."""
    return found[found["steps"] >= 50]


def _foretold(book: Measurements) -> Finding | None:
    found = _of_fifty(epochs(book))
    if found.empty:
        return None
    off = misses(found).loc[PREDICTIONS, "worst"]
    shown = ", ".join(f"{ESTIMATES[name]} {worst:.0%}" for name, worst in off.items())
    return Finding(bool(off.max() < 0.2), f"worst: {shown}")


def _near(book: Measurements) -> Finding | None:
    found = _of_fifty(epochs(book))
    if found.empty:
        return None
    near = misses(found).loc[PREDICTIONS, "near"]
    shown = ", ".join(f"{ESTIMATES[name]} {number:.0f}" for name, number in near.items())
    return Finding(bool(near.min() == len(found)), f"of {len(found)} epochs: {shown}")


def _sleep(book: Measurements) -> Finding | None:
    found = calls(book)
    slept = found[found["idle_s"] > SLEPT]
    if slept.empty:
        return None
    missed = _missed(slept)
    return Finding(missed < 0.05, f"missed by {missed:.1%} at most, {len(slept)} calls")


def _words(book: Measurements) -> Finding | None:
    found = zipf(book)
    holds = every(*(_within(stored.interval(row), 0.85, 1.15) for _, row in found.iterrows()))
    return Finding(holds, f"{found['ratio'].min():.2f} to {found['ratio'].max():.2f} on {len(found)} stacks")


CLAIMS = [
    Claim(
        "02.1",
        "Runs of one and the same point scatter by more than twice what the steps inside a run promise.",
        "ours",
        _scatter,
    ),
    Claim(
        "02.2",
        "Of the runs of one point under glibc, those with more page faults take longer: rank correlation above 0.3.",
        "ours",
        _faults,
    ),
    Claim(
        "02.3",
        "At 20,000 rows TensorFlow 2.21 takes less time a step under tcmalloc than under glibc.",
        "ours",
        _allocator,
    ),
    Claim(
        "02.4",
        "With ten runs a side the noise floor is below 20 % on every stack.",
        "ours",
        _ten_runs,
    ),
    Claim(
        "02.5",
        "NumPy's runs that the clock could end do end after a slow step, 1.5 times the median or more, more often than "
        "their other steps are slow.",
        "ours",
        _ended,
    ),
    Claim(
        "02.6",
        "NumPy's gain from tcmalloc at 200,000 rows is larger by the means of the runs than by their medians.",
        "ours",
        _gain,
    ),
    Claim(
        "02.7",
        "The first step takes longer than a later one on every stack, at least 1.2 times.",
        "ours",
        _first,
    ),
    Claim(
        "02.8",
        "From the fourth step on the medians over runs lie between 0.7 and 1.4 of a later step, on every stack.",
        "ours",
        _later,
    ),
    Claim(
        "02.9",
        "One more step of `fit` takes between 0.8 and 1.3 times a single synchronised step, on every stack and size.",
        "ours",
        _fit,
    ),
    Claim(
        "02.10",
        "Fifty single steps, or short fits, foretell the training time of every epoch within 20 %.",
        "ours",
        _foretold,
    ),
    Claim(
        "02.11",
        "Fifty single steps, or short fits, foretell the training time of every epoch within 5 %.",
        "ours, as predicted",
        _near,
    ),
    Claim(
        "02.12",
        "Where `fit` on TensorFlow slept after its last step, it returned within 5 % of the time that the timer in "
        "TensorFlow's source foretells.",
        "ours",
        _sleep,
    ),
    Claim(
        "02.13",
        "Words drawn by Zipf's law instead of evenly change a step by less than 15 %, on every stack.",
        "ours",
        _words,
    ),
]
