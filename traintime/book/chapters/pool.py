"""The memory pool: what an allocator is worth, by time and by page faults, and where a framework has its own."""

import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from traintime.book import claims, page, stored
from traintime.book.claims import Claim, Finding, every
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula, statistics
from traintime.explain.statistics import Interval, Spread
from traintime.measuring import allocators
from traintime.point import make_point

ROWS = 200_000  # of the table on which allocators are compared
NAMES = ["glibc", "glibc-keep", "glibc-keep-arenas", "jemalloc", "tcmalloc"]
BEND = [20_000, 80_000, 800_000]  # rows at which both allocators of the bend run in the same rounds
BOTH = ["glibc", "tcmalloc"]
GAIN = 1.24  # the document's 24 % for CNMeM, as speed gained
PAGE = 4096  # bytes
HEAP = 2 * allocators.MAPPED_FROM  # a thread's own heap in glibc: malloc/arena.c, HEAP_MAX_SIZE, 64-bit
TENSORFLOW = "2026-tensorflow"
NOT_YET = "not measured yet"
NOT_INTERLEAVED = "not interleaved"
DRAWS = 2000
FEWEST = 3  # rounds that a comparison should have


def table_bytes(rows: int = ROWS) -> int:
    """Bytes of an embedding table of so many rows, at the document's width."""
    return 4 * rows * make_point().sizes.embedding


def pages(rows: int = ROWS) -> float:
    """Pages of the system (4 KiB) in such a table."""
    return table_bytes(rows) / PAGE


# Tables


def faults(book: Measurements, rows: int = ROWS) -> pd.Series:
    """Page faults a step, the mean over good invocations, by stack and allocator; no noise floor applies to a count."""
    found = book.invocations(vocabulary=rows, allocator=NAMES)
    return found.groupby(["stack", "allocator"])["faults_a_step"].mean().dropna()


def full_size(book: Measurements) -> pd.DataFrame:
    """Points at full size of the stacks with glibc and one allocator to compare it with, and `faults_a_step`."""
    points = book.points(vocabulary=ROWS, allocator=NAMES)
    tried = points.groupby("stack")["allocator"].agg(set)
    wanted = [name for name, found in tried.items() if "glibc" in found and len(found) > 1]
    points = points[points["stack"].isin(wanted)]
    counts = faults(book)
    each = [counts.get((row.stack, row.allocator), np.nan) for row in points.itertuples()]
    order = [NAMES.index(name) for name in points["allocator"]]
    points = points.assign(faults_a_step=each, _order=order)
    return points.sort_values(["stack", "_order"], ignore_index=True).drop(columns="_order")


def compared(book: Measurements) -> pd.DataFrame:
    """Invocations at full size that comparisons rest on.

    Where three rounds or more were measured before sources were recorded, newer ones count from their third round on:
    otherwise a single round would stand for the machine (stored.interleaved prefers recorded sources).
    """
    found = book.invocations(vocabulary=ROWS, allocator=NAMES)
    newer = found["code"] != ""
    older_rounds, newer_rounds = (found.loc[part, "round"].nunique() for part in (~newer, newer))
    return found[~newer] if newer_rounds < FEWEST <= older_rounds else found


@functools.cache
def gains(book: Measurements) -> pd.DataFrame:
    """Speed with each allocator over plain glibc's (Measurements.ratios), a row a stack and `allocator`."""
    table = book.ratios(compared(book), [("glibc", name) for name in NAMES[1:]], of="allocator")
    table = table.rename(columns={"below": "allocator"})
    return table.sort_values("stack", kind="stable", ignore_index=True)


def live_table(points: pd.DataFrame, counts: Sequence[np.ndarray]) -> list[list[str]]:
    """Rows for the page of what was measured here: stack, allocator, ms and faults a step.

    counts: faults a step of each point's invocations.
    """
    means = [pd.Series(each, dtype=float).mean() for each in counts]
    number = ["" if np.isnan(mean) else f"{mean:,.0f}" for mean in means]
    texts = points.assign(faults=number).sort_values(["stack", "typical_s"])
    return [[row.stack, row.allocator, milliseconds(row.typical_s), row.faults] for row in texts.itertuples()]


def milliseconds(seconds: float) -> str:
    """As the tables show a step: "183", and "not measured yet" for none."""
    return NOT_YET if np.isnan(seconds) else f"{seconds * 1e3:,.0f}"


def gains_table(points: pd.DataFrame, table: pd.DataFrame) -> list[list[str]]:
    """Rows for the page: stack, allocator, step, faults, peak, speed in units of glibc's, and whether it differs."""
    known = table.set_index(["stack", "allocator"])
    rows = []
    for row in points.itertuples():
        speed, reason = "1", ""
        if (row.stack, row.allocator) in known.index:
            gain = known.loc[(row.stack, row.allocator)]
            speed, reason = page.span(gain), gain["reason"]
        peak = f"{row.peak_bytes / 2**30:.1f}"
        numbers = [milliseconds(row.typical_s), f"{row.faults_a_step:,.0f}", peak, speed, reason]
        rows.append([row.stack, row.allocator, *numbers])
    return rows


def side_by_side(book: Measurements) -> list[list[str]]:
    """Rows for the page: each allocator beside plain glibc, both from the same rounds.

    Stack, allocator, ms of glibc and of the other, faults of both, speed in units of glibc's, rounds, verdict.
    """
    found, counts = compared(book), faults(book)
    rows = []
    for row in gains(book).to_dict("records"):
        names = ["glibc", row["allocator"]]
        groups, rounds = in_same_rounds(*(_chosen(found, stack=row["stack"], allocator=name) for name in names))
        steps = [milliseconds(float(np.exp(np.log(group).mean()))) for group in groups]
        texts = [_count(counts, row["stack"], name) for name in names]
        rows.append([row["stack"], names[1], *steps, *texts, page.span(row), str(rounds), row["reason"]])
    return rows


# Things that are derived from several steps


def in_same_rounds(*sides: pd.DataFrame) -> tuple[list[np.ndarray], int]:
    """Median steps (s) of several things in the rounds that measured all of them, and how many such rounds.

    As stored.interleaved does for two; all there are, and 0, where no sweep measured them together.
    """
    best: tuple[bool, int, str] = (False, 0, "")
    chosen = [side["median_s"].to_numpy() for side in sides]
    for sweep, recorded in {(row.sweep, bool(row.code)) for row in sides[0].itertuples()}:
        parts = [side[(side["sweep"] == sweep) & ((side["code"] != "") == recorded)] for side in sides]
        rounds = set.intersection(*(set(part["round"]) for part in parts))
        if rounds and (rank := (recorded, len(rounds), str(sweep))) > best:
            best = rank
            chosen = [part.loc[part["round"].isin(rounds), "median_s"].to_numpy() for part in parts]
    return chosen, best[1]


def derived(groups: Sequence[np.ndarray], spread: Spread, function: Callable[[np.ndarray], np.ndarray]) -> Interval:
    """A function of several steps (s) with the interval that their run-to-run error gives it.

    function: of shape (groups,) a number, of shape (groups, draws) one a draw. Raises KeyError where a group is empty.
    """
    if not all(len(group) for group in groups):
        raise KeyError("a group without invocations")
    seconds = np.array([np.exp(np.log(group).mean()) for group in groups])
    numbers = np.array([len(group) for group in groups])
    redraw = formula.repeated(np.tile(seconds, DRAWS), np.tile(numbers, DRAWS), spread)
    drawn = redraw(np.random.default_rng(0)).reshape(DRAWS, len(groups)).T
    return formula.interval(pd.Series(function(drawn)), float(function(seconds)))


def _chosen(found: pd.DataFrame, **wanted: object) -> pd.DataFrame:
    for name, value in wanted.items():
        found = found[found[name] == value]
    return found


def fault_prices(book: Measurements) -> pd.DataFrame:
    """Seconds that tcmalloc saves for each fault that it spares, where it spares half a table's pages or more.

    Columns stack, spared (faults a step), seconds, low, high, rounds (0 where the two sides are not interleaved).
    """
    counts = faults(book).unstack()
    found = compared(book)
    rows = []
    for stack in counts.index if set(BOTH) <= set(counts) else []:
        spared = counts.loc[stack, "glibc"] - counts.loc[stack, "tcmalloc"]
        if spared > pages() / 2:
            groups, rounds = in_same_rounds(*(_chosen(found, stack=stack, allocator=name) for name in BOTH))
            price = derived(groups, book.spread(stack), lambda s, spared=spared: (s[0] - s[1]) / spared)
            rows.append((stack, spared, price.value, price.low, price.high, rounds))
    table = pd.DataFrame(rows, columns=["stack", "spared", "seconds", "low", "high", "rounds"])
    return table.sort_values("seconds", ignore_index=True)


# TensorFlow with oneDNN and without


def onednn(book: Measurements) -> pd.DataFrame:
    """Invocations of Keras 3 on TensorFlow at full size; `onednn` says what it did: "on", "off" or "not recorded"."""
    found = book.invocations(stack=TENSORFLOW, vocabulary=ROWS, allocator=BOTH, onednn=ANY)
    path = found["path"].fillna("").astype(str)
    did = np.select([path.str.startswith("oneDNN"), path.str.startswith("no oneDNN")], ["on", "off"], "not recorded")
    found = found.assign(onednn=did)
    recorded = found["onednn"] != "not recorded"
    return found[recorded] if recorded.any() else found


def onednn_table(books: Iterable[Measurements]) -> list[list[str]]:
    """Rows for the page: machine, oneDNN, allocator, invocations, ms and faults a step."""
    rows = []
    for book in books:
        found = onednn(book)
        for state in ("not recorded", "on", "off"):
            for name in BOTH:
                one = _chosen(found, onednn=state, allocator=name)
                if len(one):
                    step = statistics.geometric(one["median_s"], book.spread(TENSORFLOW))
                    numbers = [str(len(one)), step.text(",.0f", 1e3), f"{one['faults_a_step'].mean():,.0f}"]
                    rows.append([book.title, state, name, *numbers])
                elif state == "off":
                    rows.append([book.title, state, name, "0", NOT_YET, ""])
    return rows


def without_onednn(book: Measurements) -> pd.DataFrame:
    """Step without oneDNN over that with it, under each allocator (Measurements.ratios)."""
    return book.ratios(onednn(book), [("off", "on")], of="onednn")


def taken_away(book: Measurements) -> tuple[Interval, int]:
    """Share of what oneDNN's absence costs under glibc that tcmalloc takes away, and the rounds of all three sides.

    Raises KeyError where one of them was not measured.
    """
    found = onednn(book)
    ways = (("off", "glibc"), ("on", "glibc"), ("off", "tcmalloc"))
    groups, rounds = in_same_rounds(*(_chosen(found, onednn=state, allocator=name) for state, name in ways))
    share = derived(groups, book.spread(TENSORFLOW), lambda s: (s[0] - s[2]) / (s[0] - s[1]))
    return share, rounds


# The bend: what a row costs below and above glibc's threshold


def bend(book: Measurements) -> pd.DataFrame:
    """Points of those stacks that ran all of four vocabularies under both allocators; `how` is the allocator.

    `faults_a_step`, and `tables`: as many tables' worth of pages are those faults.
    """
    sizes = sorted([*BEND, ROWS])
    points = book.points(vocabulary=sizes, allocator=BOTH).dropna(subset="step_s")
    whole = points.groupby("stack")["key"].count()
    points = points[points["stack"].isin(whole.index[whole == len(sizes) * len(BOTH)])]
    # Not every old record has counted them: pandas' mean leaves those out.
    each = [pd.Series(values, dtype=float).mean() for values in book.values(points, "faults_a_step")]
    worth = np.array(each) / np.array([pages(rows) for rows in points["vocabulary"]])
    return points.assign(how=points["allocator"], faults_a_step=each, tables=worth)


@functools.cache
def bend_ratios(book: Measurements) -> pd.DataFrame:
    """Step under glibc over that under tcmalloc, at each vocabulary (Measurements.ratios)."""
    found = book.invocations(vocabulary=sorted([*BEND, ROWS]), allocator=BOTH)
    return book.ratios(found, [tuple(BOTH)], of="allocator").rename(columns={"below": "allocator"})


def further_rows(book: Measurements, stack: str, allocator: str) -> tuple[Interval, int]:
    """Price of a further row from 80,000 to 800,000 rows over that from 20,000 to 80,000, and the rounds of all three.

    Raises KeyError where one was not measured.
    """
    found = book.invocations(stack=stack, vocabulary=BEND, allocator=allocator)
    groups, rounds = in_same_rounds(*(_chosen(found, vocabulary=rows) for rows in BEND))
    few, some, many = BEND

    def change(s: np.ndarray) -> np.ndarray:
        return (s[2] - s[1]) / (many - some) / ((s[1] - s[0]) / (some - few))

    return derived(groups, book.spread(stack), change), rounds


def row_prices(book: Measurements, stack: str) -> tuple[Interval, list[float], int]:
    """Price of a row under glibc over that under tcmalloc, 20,000 to 800,000 rows; both, s; the rounds behind them.

    Raises KeyError where one of the four steps was not measured.
    """
    found = book.invocations(stack=stack, vocabulary=BEND, allocator=BOTH)
    few, many = BEND[0], BEND[-1]
    groups, rounds = in_same_rounds(
        *(_chosen(found, vocabulary=rows, allocator=name) for name in BOTH for rows in (few, many))
    )
    spread = book.spread(stack)
    ratio = derived(groups, spread, lambda s: (s[1] - s[0]) / (s[3] - s[2]))
    dear, cheap = (derived(pair, spread, lambda s: (s[1] - s[0]) / (many - few)) for pair in (groups[:2], groups[2:]))
    return ratio, [dear.value, cheap.value], rounds


def bend_table(book: Measurements, table: pd.DataFrame) -> list[list[str]]:
    """Rows for the page: glibc over tcmalloc at each vocabulary of `bend_ratios`, and the ratio of a row's prices."""
    rows = []
    for stack in dict.fromkeys(bend(book)["stack"]):
        known = table[table["stack"] == stack].set_index("vocabulary")
        cells = [_marked(known.loc[size]) for size in sorted([*BEND, ROWS])]
        price, _, rounds = row_prices(book, stack)
        rows.append([stack, *cells, f"{price.text('.1f')}, {rounding(rounds)}"])
    return rows


def _marked(row: pd.Series) -> str:
    return f"{page.span(row, spec='.1f')}, {row['reason']}"


# On a GPU

KERNELS = {"cudnn": "one kernel", "loop-of-cells": "loop of cells", "auto": "as it chooses"}


def without_pool(points: pd.DataFrame) -> list[list[str]]:
    """Rows for the page: machine, stack, LSTM, step with the framework's pool and without it, and their ratio.

    points: as stored.on_gpus gives them, of the allocators "glibc" and "no-pool".
    """
    wide = points.pivot_table("typical_s", ["machine", "stack", "kernel"], "allocator", aggfunc="first")
    wide = wide.reindex(columns=["glibc", "no-pool"]).dropna()
    return [
        [
            *name[:2],
            KERNELS[name[2]],
            f"{row['glibc'] * 1e3:.1f}",
            f"{row['no-pool'] * 1e3:.1f}",
            f"{row['no-pool'] / row['glibc']:.2f}",
        ]
        for name, row in wide.iterrows()
    ]


# Numbers for the prose


def second(book: Measurements) -> Measurements:
    """Of the other machines that the book shows the first one; this one where there is none."""
    others = [name for name in stored.listed() if name != book.machine]
    return stored.of(others[0]) if others else book


def values(book: Measurements, other: Measurements) -> dict[str, str]:
    """The chapter's numbers as its prose shows them; other: the machine whose comparisons are interleaved."""
    return _sizes() | _counts(book) | _speeds(book, other) | _onednn(book, other) | _bend(book)


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
    plain = counts[counts.index.get_level_values("allocator") == "glibc"].droplevel("allocator")
    found = {
        "pool-faults-jax": _count(counts, "2026-jax", "glibc"),
        "pool-faults-plain": _count(counts, "2020-tensorflow", "glibc"),
        "pool-faults-arenas": _count(counts, "2020-tensorflow", "glibc-keep-arenas"),
        "pool-faults-keep": _count(counts, "2020-tensorflow", "glibc-keep"),
        "pool-faults-own": _count(counts, "2017-tensorflow", "glibc"),
        "pool-faults-theano": " and ".join(_count(counts, n, "glibc") for n in ("2017-theano", "2020-theano")),
    }
    return found | {
        "pool-faults-most": f"{plain.max():,.0f}" if len(plain) else NOT_YET,
        "pool-faults-most-stack": plain.idxmax() if len(plain) else NOT_YET,
        "pool-faults-least": f"{plain.min():,.0f}" if len(plain) else NOT_YET,
        "pool-faults-least-stack": plain.idxmin() if len(plain) else NOT_YET,
        "pool-passes": f"{plain.max() / pages():.0f}" if len(plain) else NOT_YET,
    }


def on_stacks(table: pd.DataFrame, value: str = "ratio") -> str:
    """ "3.4 on 2020-tensorflow, 2.6 on 2026-torch", the largest first; "not measured yet" for nothing."""
    table = table.sort_values(value, ascending=False)
    return ", ".join(f"{row[value]:.1f} on {row['stack']}" for _, row in table.iterrows()) or NOT_YET


def _gain(table: pd.DataFrame, stack: str, allocator: str) -> str:
    found = _chosen(table, stack=stack, allocator=allocator)
    return page.span(found.iloc[0]) if len(found) else NOT_YET


def _speeds(book: Measurements, other: Measurements) -> dict[str, str]:
    table, there = gains(book), gains(other)
    by_name = {name: _chosen(table, allocator=name) for name in NAMES[1:]}
    jemalloc = by_name["jemalloc"]["ratio"]
    prices, prices_there = (_micro(fault_prices(each)) for each in (book, other))
    told = {each.title: _told(gains(each)) for each in (book, other)}
    best = max(((row["ratio"], name, row) for name, rows in told.items() for _, row in rows.iterrows()), default=None)
    points = full_size(book)
    memory = points.pivot_table("peak_bytes", "stack", "allocator", aggfunc="first").reindex(columns=NAMES)
    memory = memory[["glibc-keep", "tcmalloc"]].div(memory["glibc"], axis=0)
    numpy = points[(points["stack"] == "numpy") & points["allocator"].isin(BOTH)].set_index("allocator")["step_s"]
    return {
        "pool-best": page.span(best[2], spec=".1f") if best else NOT_YET,
        "pool-best-where": f"{best[2]['allocator']} on {best[2]['stack']}, {best[1]}" if best else NOT_YET,
        "pool-glibc-keep": on_stacks(by_name["glibc-keep"]),
        "pool-tcmalloc": on_stacks(by_name["tcmalloc"][by_name["tcmalloc"]["ratio"] > GAIN]),
        "pool-arenas": _gain(table, "2020-tensorflow", "glibc-keep-arenas"),
        "pool-keep": _gain(table, "2020-tensorflow", "glibc-keep"),
        "pool-numpy": _gain(table, "numpy", "tcmalloc"),
        "pool-numpy-mean": f"{numpy['glibc'] / numpy['tcmalloc']:.1f}" if len(numpy) == len(BOTH) else NOT_YET,
        "pool-numpy-there": _gain(there, "numpy", "tcmalloc"),
        "pool-jemalloc": f"{jemalloc.min():.2f} to {jemalloc.max():.2f}" if len(jemalloc) else NOT_YET,
        "pool-own": _gain(table, "2017-tensorflow", "tcmalloc"),
        "pool-theano": " and ".join(_gain(table, name, "tcmalloc") for name in ("2017-theano", "2020-theano")),
        "pool-fault": prices[0],
        "pool-fault-stacks": prices[1],
        "pool-fault-there": prices_there[0],
        "pool-interleaved": str(int((table["sweep"] != "").sum())),
        "pool-all": str(len(table)),
        "pool-there": other.title,
        "pool-there-told": on_stacks(told[other.title]),
        "pool-there-keep": on_stacks(_chosen(there, allocator="glibc-keep")),
        "pool-there-jemalloc": on_stacks(_chosen(there, allocator="jemalloc")),
        "pool-memory": f"{memory.max().max():.1f}" if memory.notna().any(axis=None) else NOT_YET,
    }


def _told(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table["reason"] == "told apart") & (table["faster"] == table["allocator"])]


def _micro(prices: pd.DataFrame) -> tuple[str, str]:
    if prices.empty:
        return NOT_YET, NOT_YET
    low, high = prices["seconds"].min() * 1e6, prices["seconds"].max() * 1e6
    return f"{low:.1f} to {high:.1f} µs", ", ".join(prices["stack"])


def _onednn(book: Measurements, other: Measurements) -> dict[str, str]:
    found = onednn(other)

    def count(state: str) -> str:
        one = _chosen(found, onednn=state, allocator="glibc")["faults_a_step"]
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
        names = ["often", "even", "saved", "row-glibc", "row-stack", "row-tcmalloc", "told-small", "told-large"]
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
        "bend-row-stack": dearest,
        "bend-row-glibc": f"{prices[dearest][1][0] * 1e9:,.0f} ns",
        "bend-row-tcmalloc": f"{prices[dearest][1][1] * 1e9:,.0f} ns",
        "bend-often": _gain(_chosen(bend_ratios(book), vocabulary=BEND[0]), TENSORFLOW, "tcmalloc"),
        "bend-told-small": _apart(book, BEND[0]),
        "bend-told-large": _apart(book, BEND[-1]),
        "bend-before": f"{worth[BEND[0]].max():.1f}",
        "bend-before-stack": worth[BEND[0]].idxmax(),
        "bend-after": f"{worth[BEND[1]].max():.1f}",
        "bend-after-stack": worth[BEND[1]].idxmax(),
    }


def _apart(book: Measurements, rows: int) -> str:
    """Of the stacks of the bend those on which glibc and tcmalloc are told apart at a vocabulary."""
    table = _chosen(bend_ratios(book), vocabulary=rows)
    table = table[table["stack"].isin(bend(book)["stack"])]
    return ", ".join(table.loc[table["reason"] == "told apart", "stack"]) or "none"


# Claims


def above(found: Interval, bound: float, rounds: int) -> bool | None:
    """Whether the value exceeds the bound; None where its interval holds it, or where no round measured both sides."""
    return claims.above(found, bound) if rounds else None


def below(found: Interval, bound: float, rounds: int) -> bool | None:
    """Whether the value stays below the bound; None as for `above`."""
    return claims.below(found, bound) if rounds else None


def told(parts: dict[str, tuple[bool | None, str]], rounds: int | None = None) -> Finding:
    """A finding over several parts, name -> verdict and figure. Raises KeyError without any.

    rounds: how many measured both sides of each comparison, 0 where none did; None where there is none.
    """
    shown = [f"{name} {text}".strip() for name, (_, text) in parts.items()]
    words = [] if rounds is None else [rounding(rounds)]
    return Finding(every(*(one for one, _ in parts.values())), "; ".join(shown + words))


def rounding(rounds: int) -> str:
    """How many rounds measured both sides of a comparison, in words."""
    return {0: NOT_INTERLEAVED, 1: "one round"}.get(rounds, f"{rounds} rounds")


def _rounds(table: pd.DataFrame) -> int:
    """Rounds of the comparison of a table that has the fewest; 0 where one is not interleaved."""
    return int(table["number"].where(table["sweep"] != "", 0).min()) if len(table) else 0


def _row(table: pd.DataFrame, **wanted: object) -> pd.Series:
    found = _chosen(table, **wanted)
    if found.empty:
        raise KeyError(str(wanted))
    return found.iloc[0]


def _share(counts: pd.Series, stack: str, allocator: str) -> float:
    return float(counts[stack, allocator] / counts[stack, "glibc"])


MANY = ("2017-tensorflow", "2020-tensorflow", "2026-torch")
FEW = ("2017-theano", "2020-theano", "numpy")


def faults_by_stack(book: Measurements) -> Finding:
    """Faults a step under plain glibc, in tables' worth of pages."""
    counts = faults(book)
    worth = {stack: float(counts[stack, "glibc"]) / pages() for stack in (*MANY, *FEW)}
    return told({stack: (x >= 5 if stack in MANY else x <= 0.2, f"{x:.1f}") for stack, x in worth.items()})


def gain_on(
    stacks: Sequence[str], allocator: str, judge: Callable[[Interval, float, int], bool | None]
) -> Callable[[Measurements], Finding]:
    """A judge of the allocator's gain over plain glibc on these stacks, against the document's 24 %."""

    def find(book: Measurements) -> Finding:
        rows = {stack: _row(gains(book), stack=stack, allocator=allocator) for stack in stacks}
        rounds = {stack: _rounds(pd.DataFrame([row])) for stack, row in rows.items()}
        judged = {
            stack: (judge(stored.interval(row), GAIN, rounds[stack]), page.span(row)) for stack, row in rows.items()
        }
        return told(judged, min(rounds.values()))

    return find


def numpy_gains(book: Measurements) -> Finding:
    """Whether NumPy's steps are told apart, tcmalloc's being the shorter ones."""
    row = _row(gains(book), stack="numpy", allocator="tcmalloc")
    holds = row["faster"] == "tcmalloc" if row["reason"] in ("told apart", "less than 5 %") else None
    return Finding(holds, f"{page.span(row)}; {row['reason']}")


def faults_left(wanted: dict[tuple[str, str], tuple[float, float]]) -> Callable[[Measurements], Finding]:
    """A judge of the share of glibc's faults that are left; wanted: (stack, allocator) -> lowest and highest share."""

    def find(book: Measurements) -> Finding:
        counts = faults(book)
        parts = {}
        for (stack, allocator), (low, high) in wanted.items():
            share = _share(counts, stack, allocator)
            parts[stack] = low <= share <= high, f"{share:.1%}"
        return told(parts)

    return find


def spared_faults(book: Measurements) -> Finding:
    """Time that a spared fault saves, on every stack that has many to spare."""
    prices = fault_prices(book)
    parts = {}
    for row in prices.to_dict("records"):
        price = stored.interval(row, "seconds").scaled(1e6) if row["seconds"] > 0 else Interval(row["seconds"])
        more, less = above(price, 0.5, row["rounds"]), below(price, 2.5, row["rounds"])
        parts[row["stack"]] = every(more, less), price.text(".1f", unit="µs")
    return told(parts, int(prices["rounds"].min()) if len(prices) else 0)


def slower_without_onednn(book: Measurements) -> Finding:
    """Step without oneDNN over that with it, under glibc."""
    row = _row(without_onednn(book), allocator="glibc")
    rounds = _rounds(pd.DataFrame([row]))
    return told({"": (above(stored.interval(row), 1.5, rounds), page.span(row))}, rounds)


def difference_taken_away(book: Measurements) -> Finding:
    """Share of the difference that tcmalloc takes away."""
    share, rounds = taken_away(book)
    return told({"": (above(share, 0.8, rounds), share.text(".0%"))}, rounds)


def pool_of_onednn(book: Measurements) -> Finding:
    """Faults with oneDNN under glibc, and what tcmalloc adds to it."""
    found = _chosen(onednn(book), onednn="on")
    plain = _chosen(found, allocator="glibc")["faults_a_step"].mean()
    row = _row(book.ratios(found, [tuple(BOTH)], of="allocator"))
    rounds = _rounds(pd.DataFrame([row]))
    less = below(stored.interval(row), GAIN, rounds)
    parts = {"faults": (bool(plain < pages() / 100), f"{plain:,.0f}"), "glibc over tcmalloc": (less, page.span(row))}
    return told(parts, rounds)


BENT = ("2020-tensorflow", "2026-torch", "numpy")


def even_rows(book: Measurements) -> Finding:
    """Price of a further row under tcmalloc, at large tables over that at small ones."""
    found = {stack: further_rows(book, stack, "tcmalloc") for stack in ("2017-theano", *BENT)}
    parts = {
        stack: (every(above(change, 1 / 1.5, rounds), below(change, 1.5, rounds)), change.text())
        for stack, (change, rounds) in found.items()
    }
    return told(parts, min(rounds for _, rounds in found.values()))


def dearer_rows(book: Measurements) -> Finding:
    """Price of a row under glibc over that under tcmalloc."""
    found = {stack: row_prices(book, stack) for stack in BENT}
    parts = {stack: (above(ratio, 1.5, rounds), ratio.text(".1f")) for stack, (ratio, _, rounds) in found.items()}
    return told(parts, min(rounds for _, _, rounds in found.values()))


def memory_kept(book: Measurements) -> Finding:
    """Peak memory under tcmalloc over that under plain glibc."""
    peaks = full_size(book).pivot_table("peak_bytes", "stack", "allocator", aggfunc="first")
    share = (peaks["tcmalloc"] / peaks["glibc"]).dropna()
    if share.empty:
        return told({})
    return Finding(bool(share.max() <= 1.5), f"{share.max():.2f} on {share.idxmax()}")


def gpu_without_pool(book: Measurements) -> Finding:
    """Step on a GPU without the framework's pool over that with it."""
    found = book.invocations(vocabulary=280_000, device="gpu", kernel=ANY, allocator=["glibc", "no-pool"])
    table = book.ratios(found, [("no-pool", "glibc")], of="allocator")
    parts = {
        f"{row['stack']}, {KERNELS[row['kernel']]}": (
            above(stored.interval(row), GAIN, _rounds(pd.DataFrame([row]))),
            page.span(row),
        )
        for _, row in table.iterrows()
    }
    return told(parts, _rounds(table))


MOST_LEFT, FEWEST_LEFT = (0.9, 1.1), (0.0, 0.1)  # shares of glibc's faults

CLAIMS = [
    Claim(
        "07.1",
        "Without its pool of memory a GPU takes more than 1.24 times as long for a step at 280,000 rows.",
        "S0, C6",
        gpu_without_pool,
    ),
    Claim(
        "07.2",
        "Under plain glibc a step at 200,000 rows faults at least five times for each page of the table on TensorFlow "
        "1.1 and 1.15 and on torch, and at most once for five pages on both Theanos and NumPy (figures: tables' worth "
        "of pages).",
        "ours",
        faults_by_stack,
    ),
    Claim(
        "07.3",
        "tcmalloc makes a step at 200,000 rows more than 1.24 times as fast as plain glibc on TensorFlow 1.15, torch "
        "and JAX.",
        "ours",
        gain_on(("2020-tensorflow", "2026-torch", "2026-jax"), "tcmalloc", above),
    ),
    Claim(
        "07.4",
        "On TensorFlow 1.1, which has an allocator of its own, and on both Theanos, which hardly fault, it gains less "
        "than that.",
        "ours",
        gain_on(("2017-tensorflow", "2017-theano", "2020-theano"), "tcmalloc", below),
    ),
    Claim("07.5", "NumPy, which hardly faults either, is faster under tcmalloc.", "ours", numpy_gains),
    Claim(
        "07.6",
        "glibc told to keep its memory, in one arena, leaves less than a tenth of the faults of TensorFlow 1.15 and of "
        "torch.",
        "ours",
        faults_left({("2020-tensorflow", "glibc-keep"): FEWEST_LEFT, ("2026-torch", "glibc-keep"): FEWEST_LEFT}),
    ),
    Claim(
        "07.7",
        "With an arena for each thread it leaves nine tenths or more of them on TensorFlow 1.15, and less than a tenth "
        "on torch.",
        "ours",
        faults_left(
            {("2020-tensorflow", "glibc-keep-arenas"): MOST_LEFT, ("2026-torch", "glibc-keep-arenas"): FEWEST_LEFT}
        ),
    ),
    Claim(
        "07.8",
        "jemalloc, as packaged, leaves nine tenths or more of the faults of TensorFlow 1.15 and of torch.",
        "ours",
        faults_left({("2020-tensorflow", "jemalloc"): MOST_LEFT, ("2026-torch", "jemalloc"): MOST_LEFT}),
    ),
    Claim(
        "07.9",
        "A fault that tcmalloc spares saves between 0.5 and 2.5 µs, on each stack that it spares half a table's pages "
        "or more.",
        "ours",
        spared_faults,
    ),
    Claim(
        "07.10",
        "With oneDNN TensorFlow 2.21 faults less than once for a hundred pages of the table under plain glibc, and "
        "tcmalloc gains less than 24 %.",
        "ours",
        pool_of_onednn,
    ),
    Claim(
        "07.11",
        "Without oneDNN its step under plain glibc takes more than 1.5 times as long as with it.",
        "ours",
        slower_without_onednn,
    ),
    Claim("07.12", "tcmalloc takes at least 80 % of that difference away.", "ours", difference_taken_away),
    Claim(
        "07.13",
        "Under tcmalloc a further row costs the same, within a factor of 1.5, from 80,000 to 800,000 rows as from "
        "20,000 to 80,000, on Theano 0.9, TensorFlow 1.15, torch and NumPy.",
        "ours",
        even_rows,
    ),
    Claim(
        "07.14",
        "From 20,000 to 800,000 rows a row costs more than 1.5 times as much under plain glibc as under tcmalloc, on "
        "TensorFlow 1.15, torch and NumPy.",
        "ours",
        dearer_rows,
    ),
    Claim(
        "07.15",
        "The peak of memory under tcmalloc is at most 1.5 times that under plain glibc, on any stack.",
        "ours",
        memory_kept,
    ),
]
