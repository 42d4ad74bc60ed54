"""What the memory pool claims, and how each claim is judged on a machine."""

from collections.abc import Callable, Sequence

import pandas as pd

from traintime.book import claims, stored
from traintime.book.chapters.pool.analysis import (
    BOTH,
    GAIN,
    KERNELS,
    fault_prices,
    faults,
    full_size,
    further_rows,
    gains,
    onednn,
    pages,
    row_prices,
    taken_away,
    told,
    without_onednn,
)
from traintime.book.claims import Claim, Finding, every, span
from traintime.book.stored import ANY, Measurements
from traintime.explain.statistics import Interval


def above(found: Interval, bound: float, rounds: int) -> bool | None:
    """Whether the value exceeds the bound; None where its interval holds it, or where no round measured both sides."""
    return claims.above(found, bound) if rounds else None


def below(found: Interval, bound: float, rounds: int) -> bool | None:
    """Whether the value stays below the bound; None as for `above`."""
    return claims.below(found, bound) if rounds else None


def _rounds(table: pd.DataFrame) -> int:
    """Rounds of the comparison of a table that has the fewest; 0 where one is not interleaved."""
    return int(table["number"].where(table["sweep"] != "", 0).min()) if len(table) else 0


def _row(table: pd.DataFrame, **wanted: object) -> pd.Series:
    found = stored.chosen(table, **wanted)
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
        judged = {stack: (judge(stored.interval(row), GAIN, rounds[stack]), span(row)) for stack, row in rows.items()}
        return told(judged, min(rounds.values()))

    return find


def numpy_gains(book: Measurements) -> Finding:
    """Whether NumPy's steps are told apart, tcmalloc's being the shorter ones."""
    row = _row(gains(book), stack="numpy", allocator="tcmalloc")
    holds = row["faster"] == "tcmalloc" if row["reason"] in ("told apart", "less than 5 %") else None
    return Finding(holds, f"{span(row)}; {row['reason']}")


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
    return told({"": (above(stored.interval(row), 1.5, rounds), span(row))}, rounds)


def difference_taken_away(book: Measurements) -> Finding:
    """Share of the difference that tcmalloc takes away."""
    share, rounds = taken_away(book)
    return told({"": (above(share, 0.8, rounds), share.text(".0%"))}, rounds)


def pool_of_onednn(book: Measurements) -> Finding:
    """Faults with oneDNN under glibc, and what tcmalloc adds to it."""
    found = stored.chosen(onednn(book), onednn="on")
    plain = stored.chosen(found, allocator="glibc")["faults_a_step"].mean()
    row = _row(book.ratios(found, [tuple(BOTH)], of="allocator"))
    rounds = _rounds(pd.DataFrame([row]))
    less = below(stored.interval(row), GAIN, rounds)
    parts = {"faults": (bool(plain < pages() / 100), f"{plain:,.0f}"), "glibc over tcmalloc": (less, span(row))}
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
            span(row),
        )
        for _, row in table.iterrows()
    }
    return told(parts, _rounds(table))


MOST_LEFT, FEWEST_LEFT = (0.9, 1.1), (0.0, 0.1)  # shares of glibc's faults
CLAIMS = [
    Claim(
        "04.1",
        "Without its pool of memory a GPU takes more than 1.24 times as long for a step at 280,000 rows.",
        "S0, C6",
        gpu_without_pool,
    ),
    Claim(
        "04.2",
        "Under plain glibc a step at 200,000 rows faults at least five times for each page of the table on TensorFlow "
        "1.1 and 1.15 and on torch, and at most once for five pages on both Theanos and NumPy (figures: tables' worth "
        "of pages).",
        "ours",
        faults_by_stack,
    ),
    Claim(
        "04.3",
        "tcmalloc makes a step at 200,000 rows more than 1.24 times as fast as plain glibc on TensorFlow 1.15, torch "
        "and JAX.",
        "ours",
        gain_on(("2020-tensorflow", "2026-torch", "2026-jax"), "tcmalloc", above),
    ),
    Claim(
        "04.4",
        "On TensorFlow 1.1, which has an allocator of its own, and on both Theanos, which hardly fault, it gains less "
        "than that.",
        "ours",
        gain_on(("2017-tensorflow", "2017-theano", "2020-theano"), "tcmalloc", below),
    ),
    Claim("04.5", "NumPy, which hardly faults either, is faster under tcmalloc.", "ours", numpy_gains),
    Claim(
        "04.6",
        "glibc told to keep its memory, in one arena, leaves less than a tenth of the faults of TensorFlow 1.15 and of "
        "torch.",
        "ours",
        faults_left({("2020-tensorflow", "glibc-keep"): FEWEST_LEFT, ("2026-torch", "glibc-keep"): FEWEST_LEFT}),
    ),
    Claim(
        "04.7",
        "With an arena for each thread it leaves nine tenths or more of them on TensorFlow 1.15, and less than a tenth "
        "on torch.",
        "ours",
        faults_left(
            {("2020-tensorflow", "glibc-keep-arenas"): MOST_LEFT, ("2026-torch", "glibc-keep-arenas"): FEWEST_LEFT}
        ),
    ),
    Claim(
        "04.8",
        "jemalloc, as packaged, leaves nine tenths or more of the faults of TensorFlow 1.15 and of torch.",
        "ours",
        faults_left({("2020-tensorflow", "jemalloc"): MOST_LEFT, ("2026-torch", "jemalloc"): MOST_LEFT}),
    ),
    Claim(
        "04.9",
        "A fault that tcmalloc spares saves between 0.5 and 2.5 µs, on each stack that it spares half a table's pages "
        "or more.",
        "ours",
        spared_faults,
    ),
    Claim(
        "04.10",
        "With oneDNN TensorFlow 2.21 faults less than once for a hundred pages of the table under plain glibc, and "
        "tcmalloc gains less than 24 %.",
        "ours",
        pool_of_onednn,
    ),
    Claim(
        "04.11",
        "Without oneDNN its step under plain glibc takes more than 1.5 times as long as with it.",
        "ours",
        slower_without_onednn,
    ),
    Claim("04.12", "tcmalloc takes at least 80 % of that difference away.", "ours", difference_taken_away),
    Claim(
        "04.13",
        "Under tcmalloc a further row costs the same, within a factor of 1.5, from 80,000 to 800,000 rows as from "
        "20,000 to 80,000, on Theano 0.9, TensorFlow 1.15, torch and NumPy.",
        "ours",
        even_rows,
    ),
    Claim(
        "04.14",
        "From 20,000 to 800,000 rows a row costs more than 1.5 times as much under plain glibc as under tcmalloc, on "
        "TensorFlow 1.15, torch and NumPy.",
        "ours",
        dearer_rows,
    ),
    Claim(
        "04.15",
        "The peak of memory under tcmalloc is at most 1.5 times that under plain glibc, on any stack.",
        "ours",
        memory_kept,
    ),
]
