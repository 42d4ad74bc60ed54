"""What the page of the memory pool shows: tables, and the numbers of its prose."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.pool.analysis import (
    BEND,
    BOTH,
    HEAP,
    KERNELS,
    NAMES,
    NOT_YET,
    ROWS,
    TENSORFLOW,
    bend,
    bend_ratios,
    compared,
    fault_prices,
    faults,
    full_size,
    further_rows,
    gains,
    in_same_rounds,
    onednn,
    pages,
    rounding,
    row_prices,
    table_bytes,
    taken_away,
    without_onednn,
)
from traintime.book.stored import Measurements
from traintime.explain import statistics
from traintime.measuring import allocators


def live_table(run: Measurements, points: pd.DataFrame) -> HTML:
    """What was measured here: stack, allocator, ms and faults a step."""
    means = [pd.Series(each, dtype=float).mean() for each in run.values(points, "faults_a_step")]
    number = ["" if np.isnan(mean) else f"{mean:,.0f}" for mean in means]
    texts = points.assign(faults=number).sort_values(["stack", "typical_s"])
    rows = [[row.stack, row.allocator, milliseconds(row.typical_s), row.faults] for row in texts.itertuples()]
    return page.table(["stack", "allocator", "ms a step", "faults a step"], rows)


def milliseconds(seconds: float) -> str:
    """As the tables show a step: "183", and "not measured yet" for none."""
    return NOT_YET if np.isnan(seconds) else f"{seconds * 1e3:,.0f}"


def gains_table(points: pd.DataFrame, table: pd.DataFrame) -> HTML:
    """Each allocator on each stack: step, faults, peak, and speed in units of glibc's with what may be said of it."""
    known = table.set_index(["stack", "allocator"])
    rows = []
    for row in points.itertuples():
        speed = "1"
        if (row.stack, row.allocator) in known.index:
            gain = known.loc[(row.stack, row.allocator)]
            speed = f"{page.span(gain)}<br>{gain['reason']}"
        peak = f"{row.peak_bytes / 2**30:.1f}"
        rows.append([
            row.stack, row.allocator, milliseconds(row.typical_s), f"{row.faults_a_step:,.0f}", peak, speed
        ])  # fmt: skip
    heads = ["stack", "allocator", "ms a step", "faults a step", "peak (GiB)", "speed (glibc 1)"]
    return page.table(heads, rows, fold="All points")


def side_by_side(book: Measurements) -> HTML:
    """Each allocator beside plain glibc, both from the same rounds: step and faults of both, speed, verdict."""
    found, counts = compared(book), faults(book)
    rows = []
    for row in gains(book).to_dict("records"):
        names = ["glibc", row["allocator"]]
        groups, rounds = in_same_rounds(*(stored.chosen(found, stack=row["stack"], allocator=name) for name in names))
        steps = [milliseconds(float(np.exp(np.log(group).mean()))) for group in groups]
        texts = [_count(counts, row["stack"], name) for name in names]
        verdict = f"{row['reason']}, {rounds} rounds" if rounds else row["reason"]
        rows.append([row["stack"], names[1], " → ".join(steps), " → ".join(texts), page.span(row, below=True), verdict])
    heads = ["stack", "glibc →", "ms a step", "faults a step", "speed (glibc 1)", "verdict"]
    return page.table(heads, rows, fold="All comparisons")


def onednn_table(books: Iterable[Measurements]) -> HTML:
    """TensorFlow with oneDNN and without: machine, oneDNN, allocator, invocations, ms and faults a step."""
    rows = []
    for book in books:
        found = onednn(book)
        for state in ("not recorded", "on", "off"):
            for name in BOTH:
                one = stored.chosen(found, onednn=state, allocator=name)
                if len(one):
                    step = statistics.geometric(one["median_s"], book.spread(TENSORFLOW))
                    numbers = [str(len(one)), step.text(",.0f", 1e3), f"{one['faults_a_step'].mean():,.0f}"]
                    rows.append([book.title, state, name, *numbers])
                elif state == "off" and (found["onednn"] == "on").any():
                    rows.append([book.title, state, name, "0", NOT_YET, ""])
    return page.table(["machine", "oneDNN", "allocator", "runs", "ms a step", "faults a step"], rows)


def bend_table(book: Measurements, table: pd.DataFrame) -> HTML:
    """glibc over tcmalloc at each vocabulary of `bend_ratios`, and the ratio of a row's prices."""
    sizes = sorted([*BEND, ROWS])
    rows = []
    for stack in dict.fromkeys(bend(book)["stack"]):
        known = table[table["stack"] == stack].set_index("vocabulary")
        price, _, rounds = row_prices(book, stack)
        rows.append(
            [
                stack,
                *(_marked(known.loc[size]) for size in sizes),
                f"{price.text('.1f').replace(' (', '<br>(')}<br>{rounding(rounds)}",
            ]
        )
    if not rows:
        return page.nothing()
    return page.table(["glibc / tcmalloc", *(f"{size:,} rows" for size in sizes), "a row's price"], rows)


def _marked(row: pd.Series) -> str:
    return f"{page.span(row, spec='.1f', below=True)}<br>{row['reason']}"


# On a GPU


def without_pool(points: pd.DataFrame) -> HTML:
    """A step on a GPU with the framework's pool and without it, and their ratio.

    points: as stored.on_gpus gives them, of the allocators "glibc" and "no-pool".
    """
    wide = points.pivot_table("typical_s", ["machine", "stack", "kernel"], "allocator", aggfunc="first")
    wide = wide.reindex(columns=["glibc", "no-pool"]).dropna()
    rows = [
        [
            *name[:2],
            KERNELS[name[2]],
            f"{row['glibc'] * 1e3:.1f}",
            f"{row['no-pool'] * 1e3:.1f}",
            f"{row['no-pool'] / row['glibc']:.2f}",
        ]
        for name, row in wide.iterrows()
    ]
    if not rows:
        return page.nothing("`make measure-gpu` does it on a GPU.")
    return page.table(["machine", "stack", "LSTM", "with its pool (ms)", "without (ms)", "times as long"], rows)


def values(first: Measurements, here: Measurements) -> dict[str, str]:
    """The chapter's numbers as its prose shows them. first, here: as `machines` gives them."""
    return _sizes() | _counts(first) | _there(here) | _speeds(first, here) | _onednn(first, here) | _bend(first)


def _sizes() -> dict[str, str]:
    return {
        "pool-table": f"{table_bytes() / 2**20:.0f} MiB",
        "pool-pages": f"{pages():,.0f}",
        "pool-mapped": f"{allocators.MAPPED_FROM / 2**20:.0f} MiB",
        "pool-mapped-rows": f"{allocators.MAPPED_FROM / table_bytes(1):,.0f}",
        "pool-heap": f"{HEAP / 2**20:.0f} MiB",
    }


def _count(counts: pd.Series, stack: str, allocator: str) -> str:
    value = counts.get((stack, allocator), np.nan)
    return NOT_YET if np.isnan(value) else f"{value:,.0f}"


def _counts(book: Measurements) -> dict[str, str]:
    counts = faults(book)
    return {
        "pool-faults-plain": _count(counts, "2020-tensorflow", "glibc"),
        "pool-faults-arenas": _count(counts, "2020-tensorflow", "glibc-keep-arenas"),
        "pool-faults-keep": _count(counts, "2020-tensorflow", "glibc-keep"),
    }


def _there(here: Measurements) -> dict[str, str]:
    """Who faults most under plain glibc."""
    counts = faults(here)
    plain = counts[counts.index.get_level_values("allocator") == "glibc"].droplevel("allocator")
    return {
        "pool-there-most": f"{plain.max():,.0f}" if len(plain) else NOT_YET,
        "pool-there-most-stack": plain.idxmax() if len(plain) else NOT_YET,
        "pool-there-passes": f"{plain.max() / pages():.0f}" if len(plain) else NOT_YET,
        "pool-faults-own": _count(counts, "2017-tensorflow", "glibc"),
    }


def on_stacks(table: pd.DataFrame, value: str = "ratio") -> str:
    """ "3.4 on 2020-tensorflow, 2.6 on 2026-torch", the largest first; "not measured yet" for nothing."""
    table = table.sort_values(value, ascending=False)
    return ", ".join(f"{row[value]:.1f} on {row['stack']}" for _, row in table.iterrows()) or NOT_YET


def _gain(table: pd.DataFrame, stack: str, allocator: str) -> str:
    found = stored.chosen(table, stack=stack, allocator=allocator)
    return page.span(found.iloc[0]) if len(found) else NOT_YET


def _speeds(book: Measurements, other: Measurements) -> dict[str, str]:
    table = gains(book)
    jemalloc = stored.chosen(table, allocator="jemalloc")["ratio"]
    told = {each.title: _told(gains(each)) for each in (book, other)}
    best = max(((row["ratio"], name, row) for name, rows in told.items() for _, row in rows.iterrows()), default=None)
    points = full_size(book)
    memory = points.pivot_table("peak_bytes", "stack", "allocator", aggfunc="first").reindex(columns=NAMES)
    memory = memory[["glibc-keep", "tcmalloc"]].div(memory["glibc"], axis=0)
    return {
        "pool-best": page.span(best[2], spec=".1f") if best else NOT_YET,
        "pool-best-where": f"{best[2]['allocator']} on {best[2]['stack']}, {best[1]}" if best else NOT_YET,
        "pool-keep": _gain(table, "2020-tensorflow", "glibc-keep"),
        "pool-jemalloc": f"{jemalloc.min():.2f} to {jemalloc.max():.2f}" if len(jemalloc) else NOT_YET,
        "pool-fault": _micro(fault_prices(book)),
        "pool-fault-there": _micro(fault_prices(other)),
        "pool-interleaved": str(int((table["sweep"] != "").sum())),
        "pool-all": str(len(table)),
        "pool-there": other.title,
        "pool-elsewhere": book.title,
        "pool-there-told": on_stacks(told[other.title]),
        "pool-memory": f"{memory.max().max():.1f}" if memory.notna().any(axis=None) else NOT_YET,
    }


def _told(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table["reason"] == "told apart") & (table["faster"] == table["allocator"])]


def _micro(prices: pd.DataFrame) -> str:
    if prices.empty:
        return NOT_YET
    low, high = prices["seconds"].min() * 1e6, prices["seconds"].max() * 1e6
    return f"{low:.1f} to {high:.1f} µs"


def _onednn(book: Measurements, other: Measurements) -> dict[str, str]:
    found = onednn(other)

    def count(state: str) -> str:
        one = stored.chosen(found, onednn=state, allocator="glibc")["faults_a_step"]
        return f"{one.mean():,.0f}" if len(one) else NOT_YET

    off = without_onednn(other)
    off = off[off["allocator"] == "glibc"]
    try:
        share = f"{taken_away(other)[0].text('.0%')}"
    except KeyError:
        share = NOT_YET
    return {
        "pool-onednn-first": _count(faults(book), TENSORFLOW, "glibc"),
        "pool-onednn-first-gain": _gain(gains(book), TENSORFLOW, "tcmalloc"),
        "pool-onednn-second": _count(faults(other), TENSORFLOW, "glibc"),
        "pool-onednn-second-gain": _gain(gains(other), TENSORFLOW, "tcmalloc"),
        "pool-onednn-off": page.span(off.iloc[0]) if len(off) else NOT_YET,
        "pool-onednn-off-faults": count("off"),
        "pool-onednn-share": share,
    }


def _bend(book: Measurements) -> dict[str, str]:
    points = bend(book)
    stacks = list(dict.fromkeys(points["stack"]))
    if not stacks:
        names = ["even", "saved", "half", "row-glibc", "row-stack", "row-tcmalloc"]
        names += ["before", "before-stack", "after", "after-stack"]
        return {f"bend-{name}": NOT_YET for name in names}
    changes = [further_rows(book, stack, "tcmalloc")[0].value for stack in stacks]
    prices = {stack: row_prices(book, stack) for stack in stacks}
    saved = pd.DataFrame({"stack": stacks, "ratio": [ratio.value for ratio, _, _ in prices.values()]})
    dearest = max(stacks, key=lambda stack: prices[stack][1][0])
    worth = points[points["allocator"] == "glibc"].pivot_table("tables", "stack", "vocabulary")
    return {
        "bend-even": f"{min(changes):.1f} and {max(changes):.1f}",
        "bend-saved": on_stacks(saved),
        "bend-half": ", ".join(stack for stack, (ratio, _, _) in prices.items() if ratio.value >= 2) or "no stack",
        "bend-row-stack": dearest,
        "bend-row-glibc": f"{prices[dearest][1][0] * 1e9:,.0f} ns",
        "bend-row-tcmalloc": f"{prices[dearest][1][1] * 1e9:,.0f} ns",
        "bend-before": f"{worth[BEND[0]].max():.1f}",
        "bend-before-stack": worth[BEND[0]].idxmax(),
        "bend-after": f"{worth[BEND[1]].max():.1f}",
        "bend-after-stack": worth[BEND[1]].idxmax(),
    }


def _apart(book: Measurements, rows: int) -> str:
    """Of the stacks of the bend those on which glibc and tcmalloc are told apart at a vocabulary."""
    table = stored.chosen(bend_ratios(book), vocabulary=rows)
    table = table[table["stack"].isin(bend(book)["stack"])]
    return ", ".join(table.loc[table["reason"] == "told apart", "stack"]) or "none"
