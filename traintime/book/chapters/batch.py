"""Chapter 5, batch size: a step's line in the batch, the batch at which its two costs are equal, and what it costs.

A step is here the mean of all steps: an epoch adds them up (stored.totals).
"""

import functools
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, external, original, page, stored
from traintime.book.claims import Finding
from traintime.book.stored import Measurements
from traintime.book.values import Values, exact, quantity
from traintime.explain import formula, statistics
from traintime.explain.statistics import Interval

VOCABULARY = 280_000  # rows, the document's
BATCHES = (8, 32, 128, 1024, 4096)  # sentences
SWEPT = BATCHES[:4]  # those that every stack runs
UNDER_TCMALLOC = (8, 32, 100, 1024)
ON_GPU = {"vocabulary": VOCABULARY, "device": "gpu", "kernel": "cudnn"}
GPU_BATCHES = (32, 128, 1024, 4096)
SMALL, LARGE = 128, 1024  # between which the post says "four times as fast"
SENTENCES = 1_000_000  # of an epoch
claim = claims.of_chapter("05")


@functools.cache
def by_batch(book: Measurements) -> pd.DataFrame:
    """The sweep over the batch at the 2017 post's vocabulary, with `epoch_s`: seconds of a million sentences."""
    points = stored.totals(book.points(vocabulary=VOCABULARY, batch=list(BATCHES)))
    return points.assign(epoch_s=points["step_s"] * np.ceil(SENTENCES / points["batch"]))


# The break-even batch


@functools.cache
def lines(book: Measurements, batches: tuple[int, ...] = BATCHES, allocator: str = "glibc") -> dict[str, formula.Fit]:
    """A straight line in the batch, F + c B, through each stack's steps; without those that do not grow with it."""
    points = stored.totals(book.points(vocabulary=VOCABULARY, batch=list(batches), allocator=allocator))
    fits = book.lines(points, formula.BATCH_LINE, "step_s")
    return {stack: fit for (stack, _), fit in fits.items() if fit.coefficients["c"] > 0}


def break_even(fit: formula.Fit) -> Interval:
    """Batch at which the cost of its sentences equals the fixed cost, with the interval of its draws: F / c of a line,
    (a + b V) / c of the formula with three terms.
    """

    def equal(costs: Any) -> Any:
        return (costs["F"] if "F" in costs else costs["a"] + costs["b"] * VOCABULARY) / costs["c"]

    return statistics.central(equal(fit.draws), equal(fit.coefficients))


def break_evens(book: Measurements) -> pd.DataFrame:
    """A row a stack: F (s a step), c (s a sentence), mean error of the line, break-even batch with its interval."""
    rows = []
    for stack, fit in lines(book).items():
        equal = break_even(fit)
        row = {"stack": stack, **fit.coefficients, "error": fit.mean_error}
        rows.append(row | {"break_even": equal.value, "low": equal.low, "high": equal.high})
    return pd.DataFrame(rows, columns=["stack", "F", "c", "error", "break_even", "low", "high"]).set_index("stack")


@quantity
def at(book: Measurements) -> Values:
    """The break-even batch by stack."""
    return Values({stack: break_even(fit) for stack, fit in lines(book).items()}, ",.0f")


@functools.cache
def document_devices() -> pd.DataFrame:
    """The 2017 post's devices: break-even batch with its interval, and what 128 to 1,024 gains by it and as printed."""
    rows = original.s0()
    printed = rows[rows["sweep"] == "batch"].pivot_table("epoch_s", "batch", "device")
    result = {}
    for device, fit in original.s0_fits().items():
        equal = break_even(fit)
        gain = (1 / SMALL + 1 / equal.value) / (1 / LARGE + 1 / equal.value)
        seen = printed.loc[SMALL, device] / printed.loc[LARGE, device]
        result[device] = {"break_even": equal.value, "low": equal.low, "high": equal.high, "gain": gain, "seen": seen}
    return pd.DataFrame(result).T


@quantity
def errors(book: Measurements, batches: tuple[int, ...] = BATCHES) -> Values:
    """The mean error of each stack's line."""
    return exact({stack: fit.mean_error for stack, fit in lines(book, batches).items()}, ".0%")


def a_line_fits(book: Measurements) -> Finding:
    """Whether six stacks or more have a line that misses by at most 10 %. Raises KeyError where fewer ran."""
    found = errors(book, SWEPT)
    if len(found) < 6:
        raise KeyError("fewer than six stacks ran")
    close = sum(error.value <= 0.1 for error in found.values())
    return Finding(close >= 6, f"{close} of {len(found)} stacks; {found.most.named} at most")


claim(
    1,
    "A fixed cost and a cost per sentence reproduce each stack's steps at batches of 8 to 1,024 with a mean error of "
    "at most 10 %, on at least six stacks.",
    a_line_fits,
)


@quantity
def epoch_gains(book: Measurements) -> Values:
    """How many times as fast an epoch is with a batch of 1,024 as with one of 128, by stack that ran both."""
    ran = by_batch(book).dropna(subset="step_s").groupby("stack", sort=False)["batch"].agg(set)
    gains = {}
    for stack in ran.index[[{SMALL, LARGE} <= batches for batches in ran]]:
        sides = book.sides({"batch": SMALL}, {"batch": LARGE}, stack=stack, vocabulary=VOCABULARY)
        gains[stack] = sides.interval(lambda s: s[0] / s[1] * LARGE / SMALL, "step_s")
    return Values(gains, ".1f")


claim(
    2,
    "Eight times the batch, 1,024 instead of 128, makes an epoch faster, by less than eight times, on every stack.",
    lambda book: epoch_gains(book).within(1, LARGE / SMALL),
    source="S0, C3",
    says="inconclusive",
)
claim(
    7,
    "With a batch of 1,024 instead of 128 an epoch is four times as fast, to within a half, on every stack.",
    lambda book: epoch_gains(book).within(3.5, 4.5),
    source="S0, C3",
    says="does not hold",
)


@quantity
def most_over_least(book: Measurements) -> Values:
    """How many times as large the largest break-even batch is as the smallest. Raises KeyError without two."""
    least, most = at(book).extremes
    under, over = (lines(book)[each.name] for each in (least, most))
    drawn = (over.draws["F"] / over.draws["c"]) / (under.draws["F"] / under.draws["c"])
    return Values({f"{most.name} over {least.name}": statistics.central(drawn, most.value / least.value)}, ".0f")


claim(
    3,
    "The break-even batch differs by more than 3 times between the stacks of one machine.",
    lambda book: most_over_least(book) > 3,
)


# What changes the two costs: another allocator, another device, other networks


@quantity
def left(book: Measurements, cost: str) -> Values:
    """What tcmalloc leaves of a cost ("F" or "c") under glibc, a share, by stack that ran under both.

    Two sweeps that ran at different times: no interval.
    """
    plain, pooled = lines(book, SWEPT), lines(book, UNDER_TCMALLOC, "tcmalloc")
    both = [stack for stack in plain if stack in pooled]
    shares = {stack: pooled[stack].coefficients[cost] / plain[stack].coefficients[cost] for stack in both}
    return exact(shares, ".0f", 100, "%")


def on_gpu(book: Measurements) -> pd.DataFrame:
    """Steps on the machine's GPU over the batch, with cuDNN's kernel for the LSTM; empty without one."""
    return stored.totals(book.points(batch=list(GPU_BATCHES), **ON_GPU).dropna(subset="step_s"))


@quantity
def gpu_break_evens(book: Measurements) -> Values:
    """The break-even batch of the line through the least and the largest of these batches, by stack, in thousands."""
    small, *_, large = GPU_BATCHES
    ends = [{"batch": size} | ON_GPU for size in (small, large)]
    sides = {stack: book.sides(*ends, stack=stack) for stack in stored.stack_order(on_gpu(book)["stack"])}
    equal = {
        stack: each.interval(lambda s: (s[0] * large - s[1] * small) / (s[1] - s[0]), "step_s")
        for stack, each in sides.items()
    }
    return Values(equal, ".0f", 1e-3, "thousand")


def on_a100() -> pd.DataFrame:
    """Our fits to other people's networks on an A100 (external.networks_on_a100), with the break-even batch of each."""
    networks = external.networks_on_a100()
    return networks.assign(break_even=networks["step_s"] / networks["sample_s"])


def on_a100_error() -> str:
    """The mean error of all epochs that were predicted from two batch sizes of the same network."""
    networks = on_a100()
    return f"{np.average(networks['two_mean'], weights=networks['batches'] - 2):.1%}"


# Memory


def bytes_a_sentence(book: Measurements) -> pd.Series:
    """What a sentence adds to the peak between a batch of 128 and one of 1,024 (bytes), by stack."""
    peaks = by_batch(book).pivot_table("peak_bytes", "stack", "batch", sort=False)
    return ((peaks[LARGE] - peaks[SMALL]) / (LARGE - SMALL)).dropna()


# What the page shows


def a_sentence(points: pd.DataFrame, spec: str = ",.0f") -> HTML:
    """Microseconds per sentence, a row a stack, a column a batch size."""
    each = points.assign(each=points["step_s"] / points["batch"]).pivot_table("each", "stack", "batch", sort=False)
    sizes = {str(size): (f"{size:,}", 1e6, spec) for size in sorted(each)}
    return page.columns(each.rename(columns=str).reset_index(), stack="µs per sentence, at batch", **sizes)


def cost_table(book: Measurements) -> HTML:
    """The two costs of a step and the break-even batch of each stack, and of the 2017 post's devices."""
    if (ours := break_evens(book)).empty:
        return page.nothing()
    theirs = document_devices().rename(index=lambda device: f"*the 2017 post's {device}*")
    return page.columns(
        pd.concat([ours, theirs]).rename_axis("stack").reset_index(),
        fold=f"The two costs of each stack on {book.title}",
        stack="stack",
        F=("F (ms per step)", 1e3, ",.0f"),
        c=("c (µs per sentence)", 1e6, ",.0f"),
        break_even=("B*, break-even", lambda row: page.span(row, "break_even", ",.0f")),
        error=("mean error of the line", 1, ".0%"),
    )


EXAMPLE_STACK, EXAMPLE = "2026-tensorflow", (128, 1024, 32)  # sentences: two steps that predict a third


def example_steps(book: Measurements, stack: str = EXAMPLE_STACK) -> tuple[float, float, float, float]:
    """A stack's steps (s) at the example's batches, and what the first two predict of the third.

    Raises KeyError without one.
    """
    ran = stored.chosen(by_batch(book), stack=stack).dropna(subset="step_s").set_index("batch")["step_s"]
    one, two, third = (float(ran[batch]) for batch in EXAMPLE)
    return one, two, third, one + (two - one) / (EXAMPLE[1] - EXAMPLE[0]) * (EXAMPLE[2] - EXAMPLE[0])


@quantity
def example_errors(book: Measurements) -> Values:
    """By how much the example's two steps miss the third on each stack, a share."""
    steps = {stack: example_steps(book, stack) for stack in lines(book, SWEPT)}
    return exact({stack: abs(predicted / took - 1) for stack, (_, _, took, predicted) in steps.items()}, ".0%")
