"""Chapter 05, batch size: the line of a step in the batch, the critical batch, the price in memory, what it claims."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from traintime.book import original
from traintime.book.chapters import vocabulary
from traintime.book.stored import Measurements
from traintime.explain import formula, statistics
from traintime.explain.statistics import Interval

VOCABULARY = 280_000  # rows, the document's
BATCHES = [8, 32, 128, 1024, 4096]  # sentences
SWEPT = BATCHES[:4]  # those that every stack runs
KEPT = [8, 32, 100, 1024]  # under tcmalloc
SMALL, LARGE = 128, 1024  # between which the document says "four times as fast"
SENTENCES = 1_000_000  # of an epoch


def by_batch(book: Measurements, batches: list[int] = BATCHES) -> pd.DataFrame:
    """The sweep over the batch at the document's vocabulary, with `epoch_s`: seconds of a million sentences."""
    found = book.points(vocabulary=VOCABULARY, batch=batches)
    return found.assign(epoch_s=found["step_s"] * np.ceil(SENTENCES / found["batch"]))


# The critical batch


def critical_batch(fit: formula.Fit) -> Interval:
    """Batch at which the part per sentence has grown to the fixed part: F / c, with the interval of its draws."""
    return formula.interval(fit.draws["F"] / fit.draws["c"], fit.coefficients["F"] / fit.coefficients["c"])


def lines(book: Measurements, found: pd.DataFrame) -> dict[str, formula.Fit]:
    """A straight line in the batch, F + c B, through each stack's points."""
    fits = book.lines(found, formula.BATCH_LINE)
    return {stack: fit for (stack, _), fit in fits.items() if fit.coefficients["c"] > 0}


def critical_batches(fits: Mapping[str, formula.Fit]) -> pd.DataFrame:
    """A row a stack: F (s a step), c (s a sentence), mean error of the line, critical batch with its interval."""
    rows = []
    for stack, fit in fits.items():
        at = critical_batch(fit)
        row = {"stack": stack, **fit.coefficients, "error": fit.mean_error}
        rows.append(row | {"critical": at.value, "low": at.low, "high": at.high})
    return pd.DataFrame(rows, columns=["stack", "F", "c", "error", "critical", "low", "high"]).set_index("stack")


def kept(book: Measurements) -> pd.DataFrame:
    """The line of a step under an allocator that keeps its memory, and under glibc: a row a stack that ran under both.

    Columns for each allocator: its name (the critical batch), and with -low, -high, -F (s a step) and -c (s a
    sentence). Two sweeps that ran at different times: no verdict.
    """
    freed = book.points(vocabulary=VOCABULARY, batch=KEPT, allocator="tcmalloc")
    sides = {"tcmalloc": freed, "glibc": by_batch(book, SWEPT)}
    tables = {name: critical_batches(lines(book, found)) for name, found in sides.items()}
    columns = {
        f"{name}{end}": table[column]
        for name, table in tables.items()
        for end, column in (("", "critical"), ("-low", "low"), ("-high", "high"), ("-F", "F"), ("-c", "c"))
    }
    return pd.DataFrame(columns).dropna().rename_axis("stack")


def of_the_document(draws: int = 1000) -> pd.DataFrame:
    """The document's devices: critical batch with its interval, and what 128 to 1,024 gains by it and as printed.

    Its three coefficients put the fixed part at a + b V, with V = 280,000 rows.
    """
    rows = original.s0()
    printed = rows[rows["sweep"] == "batch"].pivot_table("epoch_s", "batch", "device")
    result = {}
    for device, fit in original.s0_fits(draws).items():
        value, drawn = fit.coefficients, fit.draws
        at = formula.interval(
            (drawn["a"] + drawn["b"] * VOCABULARY) / drawn["c"], (value["a"] + value["b"] * VOCABULARY) / value["c"]
        )
        gain = (1 / SMALL + 1 / at.value) / (1 / LARGE + 1 / at.value)
        seen = printed.loc[SMALL, device] / printed.loc[LARGE, device]
        result[device] = {"critical": at.value, "low": at.low, "high": at.high, "gain": gain, "seen": seen}
    return pd.DataFrame(result).T


def apart(fits: Mapping[str, formula.Fit]) -> tuple[str, str, Interval]:
    """The stacks of the smallest and of the largest critical batch, and their ratio. Raises KeyError without two."""
    if len(fits) < 2:
        raise KeyError("fewer than two stacks have a line")
    at = {stack: critical_batch(fit).value for stack, fit in fits.items()}
    least, most = min(at, key=at.__getitem__), max(at, key=at.__getitem__)
    drawn = [fits[stack].draws["F"] / fits[stack].draws["c"] for stack in (most, least)]
    return least, most, formula.interval(drawn[0] / drawn[1], at[most] / at[least])


def order(book: Measurements, fits: Mapping[str, formula.Fit]) -> Interval:
    """Rank correlation of the critical batch with the price of a row (see the chapter on the vocabulary).

    Over the stacks that have both; the interval carries the run-to-run error of both. Raises KeyError for fewer than
    three stacks.
    """
    found = vocabulary.by_vocabulary(book)
    pairs = {stack: vocabulary.pair_of(found, (stack, "adam"), vocabulary.PRICED) for stack in fits}
    both = [stack for stack, pair in pairs.items() if len(pair) == 2]
    if len(both) < 3:
        raise KeyError("a rank correlation needs three stacks")
    number = min(len(fits[stack].draws) for stack in both)
    pair = pd.concat(pairs[stack] for stack in both)
    steps, drawn = book.redrawn(list(pair["stack"]), book.values(pair))
    price = (drawn[1::2] - drawn[::2])[:, :number]
    batch = np.array([(fits[stack].draws["F"] / fits[stack].draws["c"]).to_numpy()[:number] for stack in both])
    value = _rank_correlation(
        (steps[1::2] - steps[::2])[:, None],
        np.array([[critical_batch(fits[stack]).value] for stack in both]),
    )[0]
    return formula.interval(pd.Series(_rank_correlation(price, batch)), float(value))


def _rank_correlation(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Of each column of the two, shape (stacks, draws); a draw that is missing has none (NaN)."""
    ranks = [pd.DataFrame(each).rank().to_numpy() for each in (one, two)]
    first, second = (each - each.mean(axis=0) for each in ranks)
    return (first * second).sum(axis=0) / np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))


def gain(book: Measurements, found: pd.DataFrame) -> dict[str, Interval]:
    """How many times as fast an epoch is with a batch of 1,024 as with one of 128, by stack."""
    gains = {}
    for stack, rows in found.dropna(subset="step_s").groupby("stack", sort=False):
        rows = rows.set_index("batch", drop=False)
        if {SMALL, LARGE} <= set(rows.index):
            small, large = book.values(rows.loc[[SMALL, LARGE]], "median_s")
            steps = statistics.ratio(small, large, book.spread(stack), book.spread(stack))
            gains[stack] = steps.scaled(LARGE / SMALL)
    return gains


# Memory


def peaks(found: pd.DataFrame) -> pd.DataFrame:
    """Peak memory (bytes), a row a stack, a column a batch, of what ran."""
    return found.dropna(subset="peak_bytes").pivot_table("peak_bytes", "stack", "batch", sort=False).sort_index(axis=1)


def bytes_a_sentence(peak: pd.DataFrame) -> pd.Series:
    """What a sentence adds to the peak between a batch of 128 and the stack's largest, at the least (bytes)."""
    each = {}
    for stack, row in peak.iterrows():
        ran = row.dropna()
        if SMALL in ran.index and ran.index[-1] > SMALL:
            each[stack] = (ran.iloc[-1] - ran[SMALL]) / (ran.index[-1] - SMALL)
    return pd.Series(each, dtype=float)
