"""What the page of how we measure shows: tables, and the numbers of its prose."""

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime import paths
from traintime.book import page, plots, stored
from traintime.book.chapters.measuring.analysis import (
    ALIKE_IN_ORDER,
    CLOCKS,
    ESTIMATES,
    PREDICTIONS,
    RUNS,
    SAME,
    SIZES,
    SLEPT,
    STEPS,
    beside,
    between,
    calls,
    ended_by_time,
    epochs,
    first_step,
    gain,
    gaps,
    inside,
    misses,
    most_missed,
    rank,
    restored,
    sentinel,
    warm_up,
    zipf,
)
from traintime.book.stored import Measurements
from traintime.explain import statistics
from traintime.measuring.findings import withdrawals
from traintime.store.records import DISTURBED


def values(book: Measurements, live: Measurements) -> dict[str, str]:
    """The numbers of the chapter's prose. book: the machine that it shows; live: what this run measured.

    Where that machine lacks the measurements, "not measured" stands in the place of each number.
    """
    found = _of_records() | _of_this_run(live)
    for part in (_of_repeats, _of_allocators, _of_the_rules, _of_first_steps, _of_loops, _of_sleep, _of_words):
        try:
            found |= part(book)
        except (KeyError, IndexError, ValueError):
            found |= dict.fromkeys(part(stored.of()), "not measured")
    return found | _of_the_clock(stored.of(stored.first()))


def _of_repeats(book: Measurements) -> dict[str, str]:
    runs = sentinel(book)
    scatter, together = between(runs), rank(runs)
    resembles = "resembles" if together.low > ALIKE_IN_ORDER else "tells little about"
    return {
        "how-sentinel": str(runs["stack"].iloc[0]),
        "how-sentinels": str(len(runs)),
        "how-inside": f"{inside(book):.1%}",
        "how-between": f"{scatter.value:.0%}",
        "how-fastest": f"{runs['step_s'].min() * 1e3:.0f} ms",
        "how-slowest": f"{runs['step_s'].max() * 1e3:.0f} ms",
        "how-hours": f"{np.ptp(pd.to_datetime(runs['started'])) / pd.Timedelta('1h'):.0f}",
        "how-faults-rank": together.text(),
        "how-faults-resembles": resembles,
    }


def _of_allocators(book: Measurements) -> dict[str, str]:
    glibc, tcmalloc = beside(book, sentinel(book)["stack"].iloc[0])
    return {
        "how-floor-glibc": f"{statistics.noise([glibc['median_s']], 1):.0%}",
        "how-floor-tcmalloc": f"{statistics.noise([tcmalloc['median_s']], 1):.0%}",
    }


def _of_the_rules(book: Measurements) -> dict[str, str]:
    noise = book.noise()
    if noise.empty:
        raise KeyError("no invocation")
    found = {"how-least": f"{statistics.LEAST:.0%}"}
    for number in RUNS:
        found[f"how-floor-{number}"] = f"{noise[number].min():.0%} to {noise[number].max():.0%}"
    return found


def _of_the_clock(book: Measurements) -> dict[str, str]:
    """What runs that end when a time is over do, of the machine whose runs did."""
    last, others, number = ended_by_time(book)
    means, medians, _ = gain(book)
    return {
        "how-ended": str(number),
        "how-ended-last": last.text(".0f", 100, "%"),
        "how-ended-others": f"{others:.0%}",
        "how-gain-means": f"{means:.1f}",
        "how-gain-medians": stored.interval(medians).text(),
        "how-gain-fixed": _gain_with_fixed_steps(book),
    }


def _gain_with_fixed_steps(book: Measurements) -> str:
    """A sentence about the same gain on the first other machine whose runs were of a fixed number of steps."""
    for other in (stored.of(name) for name in stored.listed() if name != book.machine):
        try:
            means, medians, glibc = gain(other)
        except (KeyError, IndexError):
            continue
        if glibc["fixed"].all():
            said = f"On {other.title}, with {glibc['steps'].min():.0f} steps fixed beforehand, the two still differ, "
            said += f"{means:.2f} and {stored.interval(medians).text()}: slow steps are real, however a run ends."
            return said
    return "With steps fixed beforehand it is not measured yet."


def _of_first_steps(book: Measurements) -> dict[str, str]:
    curves = warm_up(book)
    later = curves.loc[4:].stack(future_stack=True)
    first = pd.Series({stack: ratio.value for stack, ratio in first_step(book).items()}).sort_values()
    return {
        "how-first-low": f"{first.iloc[0]:.1f}",
        "how-first-low-stack": first.index[0],
        "how-first-high": f"{first.iloc[-1]:.0f}",
        "how-first-high-stack": first.index[-1],
        "how-first-numpy": f"{first['numpy']:.1f}",
        "how-later-low": f"{later.min():.2f}",
        "how-later-high": f"{later.max():.2f}",
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
        "how-foretold": f"{most_missed(slept):.1%}",
        "how-idle-most": f"{slept['idle_s'].max():.0f} s",
        "how-idle-share": f"{(slept['idle_s'] / slept['seconds']).max():.0%}",
    }


def _of_words(book: Measurements) -> dict[str, str]:
    found = zipf(book)
    if found.empty:
        return {"how-zipf": "Whether it does is not measured yet."}
    low, high = found["ratio"].min(), found["ratio"].max()
    text = f"A step with Zipf's words takes {low:.2f} to {high:.2f} times as long as one with evenly drawn ones; "
    text += f"on {found['faster'].notna().sum()} of {len(found)} stacks the two can be told apart. "
    return {"how-zipf": text + f"The widest interval is {found['low'].min():.2f} to {found['high'].max():.2f}."}


def _of_records() -> dict[str, str]:
    return {
        "how-disturbed": f"{DISTURBED:g}",
        "how-restored": str(restored(stored.of(stored.first()))),
        "how-withdrawn": str(sum(len(withdrawals(paths.MEASUREMENTS / name)) for name in stored.listed())),
    }


def _of_this_run(live: Measurements) -> dict[str, str]:
    points = live.points(loop="epoch", **SIZES)
    ran = epochs(live)
    return {
        "how-here-points": str(len(points)),
        "how-here-error": ", ".join(f"{row.stack} {row.steps_error:+.0%}" for row in ran.itertuples()),
    }


# Tables


def machine_table() -> HTML:
    """What the machines of the book are, and their rates."""
    rows = []
    for name in stored.named():
        what, rates = stored.described(name), stored.of(name).rates
        title = stored.of(name).title + (" (the reference)" if name == stored.reference() else "")
        speeds = [f"{rates['bandwidth_bytes_per_s'] / 1e9:.0f}", f"{rates['matmul_flop_per_s'] / 1e9:.0f}"]
        rows.append([f"{title}<br>{name}", str(what["cores"]), f"{what['memory_bytes'] / 2**30:.0f}", *speeds])
    return page.table(["machine", "cores", "memory (GiB)", "memory (GB/s)", "GFLOP/s"], rows)


def floor_table(floors: pd.DataFrame) -> HTML:
    """The noise floors of each stack, on each machine that the book shows. floors: as the function of that name."""
    rows = [
        [stack, *(" · ".join(f"{floors.loc[stack, (name, n)]:.0%}" for name in stored.listed()) for n in RUNS)]
        for stack in floors.index
    ]
    return page.table(["noise floor", "one run", *(f"{n} runs a side" for n in RUNS[1:])], rows)


def floor_rows(floors: pd.DataFrame) -> pd.DataFrame:
    """The noise floors with a row for each stack and machine."""
    return floors.stack(0, future_stack=True).rename_axis(["stack", "machine"]).reset_index()


def gap_table(gaps: pd.DataFrame) -> HTML:
    """A step of `fit` beside a single one. gaps: as the function of that name gives them."""
    rows = []
    for _, row in gaps.iterrows():
        times = [f"{row[name] * 1e3:.1f}" for name in STEPS]
        sizes = " · ".join(plots.short(row[name]) for name in ("vocabulary", "batch", "length"))
        rows.append([row["stack"], sizes, *times, page.span(row), row["faster"]])
    heads = ["stack", "rows · batch · length", "single (ms)", "in fit (ms)", "fit / step", "faster"]
    return page.table(heads, rows) if rows else page.nothing()


def epoch_table(epochs: pd.DataFrame) -> HTML:
    """What each extrapolation missed each epoch by, a row an epoch. epochs: as the function of that name."""
    rows = []
    for _, row in epochs.iterrows():
        name = f"{row['stack']}, {plots.short(row['vocabulary'])} rows"
        idle = "not told" if pd.isna(row["epoch_idle_s"]) else f"{row['epoch_idle_s']:.0f}"
        errors = [f"{row[f'{estimate}_error']:+.1%}" for estimate in PREDICTIONS]
        rows.append([name, f"{row['epoch_s']:.0f}", idle, *errors])
    heads = ["epoch", "took (s)", "idle (s)", *(ESTIMATES[name] for name in PREDICTIONS)]
    return page.table(heads, rows, fold="Every epoch") if rows else page.nothing("A small one ran here, see below.")


def sleep_table(slept: pd.DataFrame) -> HTML:
    """When calls of `fit` that slept were done, and returned, by when the tuning thread wakes."""
    rows = [
        [f"{wakes:.2f}", f"{len(at)}", *(f"{at[name].min():.2f} to {at[name].max():.2f}" for name in CLOCKS)]
        for wakes, at in slept.groupby("foretold_s")
    ]
    heads = ["thread wakes at (s)", "calls", "last step done at (s)", "`fit` returned at (s)"]
    return page.table(heads, rows) if rows else page.nothing()


def word_table(content: pd.DataFrame) -> HTML:
    """Zipf's words over uniform ones. content: as `zipf` gives it."""
    told = content["faster"].fillna(content["reason"])
    rows = [[row["stack"], page.span(row), faster] for (_, row), faster in zip(content.iterrows(), told, strict=True)]
    return page.table(["stack", "Zipf / uniform", "faster"], rows) if rows else page.nothing()


def path_table(paths: pd.DataFrame) -> HTML:
    """One TensorFlow on several code paths. paths: as `code_paths` gives them."""
    rows = [
        [row["machine"], row["path"], f"{row['runs']}", page.span(row, "ms", ".0f"), f"{row['faults_a_step']:,.0f}"]
        for _, row in paths.iterrows()
    ]
    return page.table(["machine", "code path", "runs", "a step (ms)", "page faults a step"], rows)
