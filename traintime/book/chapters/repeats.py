"""Chapter 2, how we measure: how far repeats of one thing differ, between runs and within one, and what a record holds.

A step against the framework's own loop and whole epochs are the chapter's second question: measuring.py.
"""

import functools
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML
from scipy import stats

from traintime import paths
from traintime.book import page, stored
from traintime.book.claims import Finding, above, claim, every_stack
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements, largest, smallest
from traintime.explain import statistics
from traintime.explain.statistics import Interval
from traintime.measuring.findings import withdrawals
from traintime.point import Run
from traintime.store import records
from traintime.store.records import DISTURBED, Record
from traintime.store.table import ALIKE
from traintime.workloads.rnn import Rnn

TENSORFLOW = "2026-tensorflow"
VOCABULARY = 20_000  # rows of the sentinel's table, and of the first steps that the page shows
ALLOCATORS = ("glibc", "tcmalloc")
RUNS = [1, 3, 5, 10]  # invocations a side, of the noise floors
REPEATS = 10  # degrees of freedom that a noise floor needs to be judged
ALIKE_IN_ORDER = 0.3  # rank correlation from which two orders are called alike
SLOW = 1.5  # times a run's median: a slow step


def stored_records(book: Measurements, **wanted: Any) -> list[Record]:
    """Whole stored records; raises KeyError for this run, whose records lie elsewhere."""
    if book.machine not in stored.listed():
        raise KeyError(book.machine)
    return book.records(**wanted)


# The same thing, twice


@functools.cache
def sentinel(book: Measurements) -> pd.DataFrame:
    """The good runs of one of the machine's sentinels in the order of time.

    Of the stacks whose sentinel ran next to the same point under tcmalloc, where there are such, the one with most
    runs. Raises KeyError for a machine without one: this run's has none.
    """
    if book.machine not in stored.listed():
        raise KeyError(book.machine)
    rows = stored.sentinel_of(book.machine)
    rows = rows[(rows["status"] == "ok") & ~rows["disturbed"].astype(bool)]
    counts = rows["stack"].value_counts()
    stacks = stored.stack_order(counts.index)
    compared = [stack for stack in stacks if len(by_allocator(book, stack)["tcmalloc"])]
    return rows[rows["stack"] == counts.reindex(compared or stacks).idxmax()].sort_values("started", ignore_index=True)


def by_allocator(book: Measurements, stack: str) -> dict[str, pd.DataFrame]:
    """The sentinel's point under glibc and under tcmalloc, from the same rounds of one sweep; empty without one."""
    sides = [book.invocations(stack=stack, vocabulary=VOCABULARY, allocator=name) for name in ALLOCATORS]
    common, sweep, _ = stored.same_rounds(*sides)
    return dict(zip(ALLOCATORS, common if sweep else [side[:0] for side in sides], strict=True))


def between(runs: pd.DataFrame) -> Interval:
    """Run-to-run error, a share: the standard deviation of log seconds between runs of the same thing.

    Its interval is that of a standard deviation (chi-squared).
    """
    spread = statistics.pooled_spread(group for _, group in runs.groupby(ALIKE, dropna=False)["step_s"])
    low, high = spread.sd * np.sqrt(spread.degrees / stats.chi2.ppf([0.975, 0.025], spread.degrees))
    return Interval(spread.sd, float(low), float(high))


@functools.cache
def inside(book: Measurements) -> float:
    """What the steps inside one run of the sentinel promise: the median standard error of a run's mean, a share."""
    stack = sentinel(book)["stack"].iloc[0]
    files = [path for path in records.files(paths.MEASUREMENTS, book.machine) if records.is_sentinel(path)]
    runs = stored.step_times([records.read(path) for path in files if path.parent.name == stack])
    steps = [seconds[skipped:] for _, seconds, skipped in runs]
    return float(np.median([each.std(ddof=1) / each.mean() / len(each) ** 0.5 for each in steps]))


def rank(runs: pd.DataFrame) -> Interval:
    """Rank correlation of the runs' time with their page faults, with its 95 % interval (Fisher's z)."""
    runs = runs.dropna(subset="faults_a_step")
    value = float(stats.spearmanr(runs["step_s"], runs["faults_a_step"]).statistic)
    half = 1.96 * 1.06 / np.sqrt(len(runs) - 3)
    # A perfect order has no finite z.
    low, high = np.tanh(np.arctanh(np.clip(value, -1 + 1e-9, 1 - 1e-9)) + np.array([-half, half]))
    return Interval(value, float(low), float(high))


@claim("02.1", "Runs of one and the same point scatter by more than twice what the steps inside a run promise.")
def runs_scatter_more_than_steps(book: Measurements) -> Finding:
    scatter, promised = between(sentinel(book)), inside(book)
    return Finding(above(2 * promised)(scatter), f"{scatter.text('.0f', 100, '%')}, promised {promised:.1%}")


@claim(
    "02.2",
    "Of the runs of one point under glibc, those with more page faults take longer: rank correlation above 0.3.",
)
def faults_take_time(book: Measurements) -> Finding:
    return every_stack({"rank correlation": rank(sentinel(book))}, above(ALIKE_IN_ORDER))


@claim("02.3", "At 20,000 rows TensorFlow 2.21 takes less time a step under tcmalloc than under glibc.")
def tcmalloc_is_faster(book: Measurements) -> Finding:
    runs = book.invocations(stack=TENSORFLOW, vocabulary=VOCABULARY, allocator=list(ALLOCATORS))
    row = book.ratios(runs, [ALLOCATORS], of="allocator").iloc[0]
    holds = None if row["faster"] is None else row["faster"] == "tcmalloc"
    return Finding(holds, f"glibc / tcmalloc {stored.interval(row).text()}, {row['reason']}")


# Noise floors


@functools.cache
def noise(book: Measurements) -> pd.DataFrame:
    """Noise floors of each stack (Measurements.noise), drawn once."""
    return book.noise()


def floors() -> pd.DataFrame:
    """Those of every machine that the book shows, a row a stack and machine: columns stack, machine, one of RUNS."""
    tables = pd.concat([noise(stored.of(name)) for name in stored.listed()])
    return stored.in_order(tables.dropna(subset=RUNS, how="all")[["stack", "machine", *RUNS]])


def floor_table() -> HTML:
    """The noise floors of each stack, those of the machines in one cell."""
    rows = [
        {"stack": stack} | {str(n): " · ".join(f"{floor:.0%}" for floor in machines[n]) for n in RUNS}
        for stack, machines in floors().groupby("stack", sort=False)
    ]
    heads = ["one run", *(f"{n} runs a side" for n in RUNS[1:])]
    return page.columns(pd.DataFrame(rows), stack="noise floor", **dict(zip(map(str, RUNS), heads, strict=True)))


@claim("02.4", "With ten runs a side the noise floor is below 20 % on every stack.")
def ten_runs_are_enough(book: Measurements) -> Finding:
    floor = noise(book).query("degrees >= @REPEATS").set_index("stack")[10].sort_values()
    least, most = (f"{floor.iloc[place]:.0%} ({floor.index[place]})" for place in (0, -1))
    return Finding(bool(floor.iloc[-1] < 0.2), f"{least} to {most}")


# Runs that ended when a time was over


@functools.cache
def ended_by_time(book: Measurements, stack: str = "numpy") -> tuple[Interval, float, int]:
    """Share of runs whose last step is a slow one, with Wilson's interval; share among a run's other steps; runs.

    Of the stack's runs that ended when a time was over and counted three steps or more. Raises KeyError without any.
    """
    last, others = [], []
    everything = dict.fromkeys([*Rnn.model_fields, *Run.model_fields], ANY)
    for record in stored_records(book, stack=stack, **everything):
        for invocation in record.invocations:
            if invocation.result and not invocation.protocol.fixed:
                steps = np.array(invocation.result.timing.steps_ns[invocation.result.timing.warmup :])
                if len(steps) > 2:
                    slow = steps >= SLOW * np.median(steps)
                    last.append(bool(slow[-1]))
                    others.append(float(slow[:-1].mean()))
    if not last:
        raise KeyError("no run ended when a time was over")
    wilson = stats.binomtest(sum(last), len(last)).proportion_ci(method="wilson")
    return Interval(float(np.mean(last)), wilson.low, wilson.high), float(np.mean(others)), len(last)


def gain(book: Measurements) -> tuple[float, Interval, pd.DataFrame]:
    """NumPy's gain from tcmalloc at 200,000 rows: by the means of the runs, by their medians; its glibc runs.

    Raises KeyError where a side was not measured.
    """
    sides = book.sides(*({"allocator": name} for name in ALLOCATORS), stack="numpy", vocabulary=200_000)
    means = [side["step_s"].mean() for side in sides.frames]
    return means[0] / means[1], sides.interval(lambda s: s[0] / s[1]), sides.frames[0]


@claim(
    "02.5",
    "NumPy's runs that the clock could end do end after a slow step, 1.5 times the median or more, more often than "
    "their other steps are slow.",
)
def the_clock_prefers_slow_steps(book: Measurements) -> Finding:
    last, others, number = ended_by_time(book)
    figure = f"last steps {last.text('.0f', 100, '%')}, others {others:.0%}, {number} runs"
    return Finding(above(others)(last), figure)


@claim(
    "02.6",
    "NumPy's gain from tcmalloc at 200,000 rows is larger by the means of the runs than by their medians.",
    says="cannot be told",
)
def gain_is_larger_by_means(book: Measurements) -> Finding:
    means, medians, _ = gain(book)
    holds = bool(means > medians.high) if medians.excludes(means) else None
    return Finding(holds, f"means {means:.2f}, medians {medians.text()}")


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


@claim("02.7", "The first step takes longer than a later one on every stack, at least 1.2 times.")
def first_step_is_slow(book: Measurements) -> Finding:
    return every_stack(first_step(book), above(1.2), ".1f")


@claim("02.8", "From the fourth step on the medians over runs lie between 0.7 and 1.4 of a later step, on every stack.")
def fourth_step_is_steady(book: Measurements) -> Finding:
    low, high = _later(book)
    return Finding(low > 0.7 and high < 1.4, f"{low:.2f} to {high:.2f} ({warm_up(book).loc[4:].max().idxmax()})")


def _later(book: Measurements) -> tuple[float, float]:
    """The least and the largest from the fourth step on. Raises KeyError where no run had ten steps."""
    later = warm_up(book).loc[4:]
    if later.empty:
        raise KeyError("not measured")
    return float(later.min(axis=None)), float(later.max(axis=None))


# What else a record holds


def machine_table() -> HTML:
    """What the machines of the book are, and their rates."""
    rows = []
    for name in stored.named():
        title = stored.of(name).title + (" (the reference)" if name == stored.reference() else "")
        rows.append(stored.described(name) | stored.of(name).rates | {"machine": f"{title}<br>{name}"})
    return page.columns(
        pd.DataFrame(rows),
        machine="machine",
        cores="cores",
        memory_bytes=("memory (GiB)", 2**-30, ".0f"),
        bandwidth_bytes_per_s=("memory (GB/s)", 1e-9, ".0f"),
        matmul_flop_per_s=("GFLOP/s", 1e-9, ".0f"),
    )


def code_paths() -> pd.DataFrame:
    """A step of TensorFlow with 200,000 rows by the code path that it took, on every machine that the book shows.

    Under glibc. Columns machine (its title), path, runs, ms with low and high, faults_a_step.
    """
    rows = []
    for book in map(stored.of, stored.listed()):
        runs = book.invocations(stack=TENSORFLOW, vocabulary=200_000, onednn=["auto", "off"])
        for path, group in runs.groupby(runs["path"].fillna("").str.partition(",")[0].replace("", "not recorded")):
            step = statistics.geometric(group["median_s"], book.spread(TENSORFLOW)).scaled(1e3)
            row = {"machine": book.title, "path": path, "runs": len(group), "ms": step.value}
            rows.append(row | {"low": step.low, "high": step.high, "faults_a_step": group["faults_a_step"].mean()})
    return pd.DataFrame(rows)


def path_table() -> HTML:
    """One TensorFlow on several code paths."""
    return page.columns(
        code_paths(),
        machine="machine",
        path="code path",
        runs="runs",
        ms=("a step (ms)", lambda row: page.span(row, "ms", ".0f")),
        faults_a_step=("page faults a step", 1, ",.0f"),
    )


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


# What the prose names


def _floor(book: Measurements, number: int) -> str:
    floor = noise(book)[number].dropna().sort_values()
    return f"{floor.iloc[0]:.0%} to {floor.iloc[-1]:.0%}"


def _floor_under(allocator: str, book: Measurements) -> str:
    runs = by_allocator(book, sentinel(book)["stack"].iloc[0])[allocator]
    if runs.empty:
        raise KeyError("not measured")
    return f"{statistics.noise([runs['median_s']], 1):.0%}"


def _resembles(book: Measurements) -> str:
    return "resembles" if above(ALIKE_IN_ORDER)(rank(sentinel(book))) else "tells little about"


def _hours(book: Measurements) -> str:
    return f"{np.ptp(pd.to_datetime(sentinel(book)['started'])) / pd.Timedelta('1h'):.0f}"


def _first() -> Measurements:
    """The machine on which the clock ended the early runs, whichever the page shows."""
    return stored.of(stored.first())


def _gain_with_fixed_steps(_: Measurements) -> str:
    """A sentence about the same gain on the first other machine whose runs were of a fixed number of steps."""
    for book in (stored.of(name) for name in stored.listed() if name != stored.first()):
        try:
            means, medians, glibc = gain(book)
        except KeyError:
            continue
        if glibc["fixed"].all():
            text = f"On {book.title}, with {glibc['steps'].min():.0f} steps fixed beforehand, the two still differ, "
            return f"{text}{means:.2f} and {medians.text()}: slow steps are real, however a run ends."
    return "With steps fixed beforehand it is not measured yet."


PROSE = Prose(
    "how",
    sentinel=lambda book: sentinel(book)["stack"].iloc[0],
    sentinels=lambda book: str(len(sentinel(book))),
    hours=_hours,
    inside=lambda book: f"{inside(book):.1%}",
    between=lambda book: f"{between(sentinel(book)).value:.0%}",
    fastest=lambda book: f"{sentinel(book)['step_s'].min() * 1e3:.0f} ms",
    slowest=lambda book: f"{sentinel(book)['step_s'].max() * 1e3:.0f} ms",
    faults_rank=lambda book: rank(sentinel(book)).text(),
    faults_resembles=_resembles,
    floor_glibc=functools.partial(_floor_under, "glibc"),
    floor_tcmalloc=functools.partial(_floor_under, "tcmalloc"),
    floor_1=lambda book: _floor(book, 1),
    floor_3=lambda book: _floor(book, 3),
    floor_10=lambda book: _floor(book, 10),
    least=lambda _: f"{statistics.LEAST:.0%}",
    ended=lambda _: str(ended_by_time(_first())[2]),
    ended_last=lambda _: ended_by_time(_first())[0].text(".0f", 100, "%"),
    ended_others=lambda _: f"{ended_by_time(_first())[1]:.0%}",
    gain_means=lambda _: f"{gain(_first())[0]:.1f}",
    gain_medians=lambda _: gain(_first())[1].text(),
    gain_fixed=_gain_with_fixed_steps,
    first_low=lambda book: f"{first_step(book)[smallest(first_step(book))].value:.1f}",
    first_low_stack=lambda book: smallest(first_step(book)),
    first_high=lambda book: f"{first_step(book)[largest(first_step(book))].value:.0f}",
    first_high_stack=lambda book: largest(first_step(book)),
    first_numpy=lambda book: f"{first_step(book)['numpy'].value:.1f}",
    later_low=lambda book: f"{_later(book)[0]:.2f}",
    later_high=lambda book: f"{_later(book)[1]:.2f}",
    disturbed=lambda _: f"{DISTURBED:g}",
    restored=lambda _: str(restored(_first())),
    withdrawn=lambda _: str(sum(len(withdrawals(paths.MEASUREMENTS / name)) for name in stored.listed())),
)
