"""Chapter 2, when to trust a step time: how far runs of one configuration differ, and what a record holds.

A step compared with the framework's own loop and with whole epochs is the chapter's second question: measuring.py.
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
from traintime.book.stored import ANY, Measurements
from traintime.explain import statistics
from traintime.explain.statistics import Interval
from traintime.measuring.history import withdrawals
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
def steps_inside(book: Measurements) -> pd.DataFrame:
    """A row for each run of the sentinel's stack: started; error: the standard error of its mean step by its own
    counted steps, as a share of that mean.
    """
    stack = sentinel(book)["stack"].iloc[0]
    files = [path for path in records.files(paths.MEASUREMENTS, book.machine) if records.is_sentinel(path)]
    rows = []
    for record in (records.read(path) for path in files if path.parent.name == stack):
        runs = [run for run in record.invocations if run.result]
        times = stored.step_times([record])
        for run, (_, seconds, skipped) in zip(runs, times, strict=True):
            steps = seconds[skipped:]
            rows.append((run.started, steps.std(ddof=1) / steps.mean() / len(steps) ** 0.5))
    return pd.DataFrame(rows, columns=["started", "error"])


def inside(book: Measurements) -> float:
    """What the steps inside one run of the sentinel suggest: the median standard error of a run's mean, a share."""
    return float(steps_inside(book)["error"].median())


def sentinel_runs(book: Measurements) -> pd.DataFrame:
    """The good runs of the sentinel in the order of time: hours since the first, step_s, and error_s, the standard
    error of the mean by the steps inside the run.
    """
    runs = sentinel(book).merge(steps_inside(book), on="started", how="left", validate="one_to_one")
    started = pd.to_datetime(runs["started"])
    hours = (started - started.min()) / pd.Timedelta("1h")
    return runs.assign(hours=hours, error_s=runs["error"] * runs["step_s"])


def rank(runs: pd.DataFrame) -> Interval:
    """Rank correlation of the runs' time with their page faults, with its 95 % interval (Fisher's z)."""
    runs = runs.dropna(subset="faults_a_step")
    value = float(stats.spearmanr(runs["step_s"], runs["faults_a_step"]).statistic)
    half = 1.96 * 1.06 / np.sqrt(len(runs) - 3)
    # A perfect order has no finite z.
    low, high = np.tanh(np.arctanh(np.clip(value, -1 + 1e-9, 1 - 1e-9)) + np.array([-half, half]))
    return Interval(value, float(low), float(high))


@claim(
    "02.1",
    "Runs of one configuration scatter by more than twice the standard error that the steps inside a run suggest.",
)
def runs_scatter_more_than_steps(book: Measurements) -> Finding:
    scatter, promised = between(sentinel(book)), inside(book)
    return Finding(above(2 * promised)(scatter), f"{scatter.text('.0f', 100, '%')}, inside a run {promised:.1%}")


@claim(
    "02.2",
    "Of the runs of one configuration under glibc, those with more page faults take longer: their rank correlation "
    "is above 0.3.",
    says="does not hold",
)
def faults_take_time(book: Measurements) -> Finding:
    return every_stack({"rank correlation": rank(sentinel(book))}, above(ALIKE_IN_ORDER))


def early() -> Measurements:
    """The machine that was measured first, which alone has runs that ended when a time was over."""
    return stored.of(stored.first())


@claim(
    "02.3",
    "With 20,000 rows, a step of TensorFlow 2.21 takes less time under tcmalloc than under glibc.",
    on=early,
)
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


def floor_table(book: Measurements) -> HTML:
    """The noise floors of each stack of a machine."""
    rows = noise(book).dropna(subset=RUNS, how="all").rename(columns=str)
    heads = ["one run per side", *(f"{number} runs per side" for number in RUNS[1:])]
    columns = {str(number): (head, 100, ".0f") for number, head in zip(RUNS, heads, strict=True)}
    return page.columns(rows, stack="noise floor, %", **columns)


@claim("02.4", "With ten runs per side, the noise floor is below 20 % on every stack.")
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
    "NumPy's runs that ended after a fixed time end in a slow step, of 1.5 times the median or more, more often than "
    "their other steps are slow.",
    on=early,
)
def the_clock_prefers_slow_steps(book: Measurements) -> Finding:
    last, others, number = ended_by_time(book)
    figure = f"last steps {last.text('.0f', 100, '%')}, others {others:.0%}, {number} runs"
    return Finding(above(others)(last), figure)


@claim(
    "02.6",
    "NumPy's gain from tcmalloc at 200,000 rows is larger by the means of the runs than by their medians.",
)
def gain_is_larger_by_means(book: Measurements) -> Finding:
    means, medians, _ = gain(book)
    holds = bool(means > medians.high) if medians.excludes(means) else None
    return Finding(holds, f"means {means:.2f}, medians {medians.text()}")


# What else a record holds


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


def restored(book: Measurements) -> int:
    """Runs of the early machine that were once taken out of its files and are back.

    Configurations of which only the single runs of a first attempt exist, with SGD or frozen at 5,000, 80,000 and
    800,000 rows; those under glibc set to keep its memory in every heap; and of `fit` those before the end of the last
    step was recorded.
    """
    rows = book.rows
    single = rows.groupby(["stack", "key"])["started"].transform("size") == 1
    way = (rows["optimizer"] == "sgd") | rows["frozen"].astype(bool)
    first = single & way & rows["vocabulary"].isin([5_000, 80_000, 800_000]) & (rows["loop"] == "steps")
    arenas = rows["allocator"] == "glibc-keep-arenas"
    told = rows["told"].eq(True).groupby([rows["stack"], rows["key"]]).transform("any")
    return int((first | arenas | (told & rows["told"].eq(False))).sum())


# What the prose names


def percent(share: float, digits: int = 0) -> str:
    """A share for a sentence: "9 %"."""
    return f"{share * 100:.{digits}f} %"


def _floors(book: Measurements) -> pd.DataFrame:
    """The noise floors of the stacks, the most repeatable first."""
    return noise(book).dropna(subset=RUNS).sort_values(1)


def _floor(book: Measurements, number: int) -> str:
    floor = noise(book)[number].dropna().sort_values()
    return f"{floor.iloc[0] * 100:.0f} to {floor.iloc[-1] * 100:.0f} %"


def _floor_under(allocator: str) -> str:
    """The noise floor of single runs of the early machine's sentinel under an allocator."""
    runs = by_allocator(early(), sentinel(early())["stack"].iloc[0])[allocator]
    return percent(statistics.noise([stored.measured(runs)["median_s"]], 1))


PROSE = Prose(
    "how",
    title=lambda book: page.title(book, sentinel(book)),
    early=lambda _: early().title,
    sentinels=lambda book: str(len(sentinel(book))),
    one_day=lambda book: str(sentinel(book)["started"].str[:10].value_counts().max()),
    inside=lambda book: percent(inside(book), 1),
    between=lambda book: percent(between(sentinel(book)).value),
    fastest=lambda book: f"{sentinel(book)['step_s'].min() * 1e3:.0f}",
    slowest=lambda book: f"{sentinel(book)['step_s'].max() * 1e3:.0f} ms",
    faults=lambda book: f"{sentinel(book)['faults_a_step'].median():.0f}",
    faults_early=lambda _: f"{sentinel(early())['faults_a_step'].median():,.0f}",
    faults_rank=lambda book: rank(sentinel(book)).text(),
    faults_rank_early=lambda _: rank(sentinel(early())).text(),
    floor_glibc=lambda _: _floor_under("glibc"),
    floor_tcmalloc=lambda _: _floor_under("tcmalloc"),
    floor_least_stack=lambda book: str(_floors(book)["stack"].iloc[0]),
    floor_1_least=lambda book: percent(_floors(book)[1].iloc[0]),
    floor_most_stack=lambda book: str(_floors(book)["stack"].iloc[-1]),
    floor_1_most=lambda book: percent(_floors(book)[1].iloc[-1]),
    floor_10_most=lambda book: percent(_floors(book)[10].iloc[-1]),
    floor_1_early=lambda _: _floor(early(), 1),
    floor_10_early=lambda _: _floor(early(), 10),
    least=lambda _: percent(statistics.LEAST),
    ended=lambda _: str(ended_by_time(early())[2]),
    ended_last=lambda _: ended_by_time(early())[0].text(".0f", 100, "%"),
    ended_others=lambda _: percent(ended_by_time(early())[1]),
    gain_means=lambda book: f"{gain(book)[0]:.2f}",
    gain_medians=lambda book: gain(book)[1].text(),
    disturbed=lambda _: f"{DISTURBED:g}",
    restored=lambda _: str(restored(early())),
    withdrawn=lambda _: str(sum(len(withdrawals(paths.MEASUREMENTS / name)) for name in stored.listed())),
)
