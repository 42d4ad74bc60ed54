"""Chapter 04, batch size: the line of a step in the batch, the critical batch, the price in memory, what it claims."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from IPython.display import Markdown

from traintime.book import original, page, plots, stored
from traintime.book.chapters import vocabulary
from traintime.book.claims import Claim, Finding, above, below, every
from traintime.book.stored import Measurements
from traintime.explain import formula, statistics
from traintime.explain.statistics import Interval

VOCABULARY = 280_000  # rows, the document's
BATCHES = [8, 32, 128, 1024, 4096]  # sentences
SWEPT = BATCHES[:4]  # those that every stack runs
SMALL, LARGE = 128, 1024  # between which the document says "four times as fast"
SENTENCES = 1_000_000  # of an epoch


def by_batch(book: Measurements, batches: list[int] = BATCHES) -> pd.DataFrame:
    """The sweep over the batch at the document's vocabulary, with `epoch_s`: seconds of a million sentences."""
    found = book.points(vocabulary=VOCABULARY, batch=batches)
    return found.assign(epoch_s=found["step_s"] * np.ceil(SENTENCES / found["batch"]))


def a_sentence(points: pd.DataFrame) -> Markdown:
    """Microseconds a sentence, a row a stack, a column a batch size."""
    sizes = sorted(points["batch"].unique())
    rows = []
    for stack, group in points.groupby("stack", sort=False):
        each = (group["step_s"] / group["batch"] * 1e6).set_axis(group["batch"])
        rows.append([stack, *(f"{each[size]:,.0f}" if size in each and each[size] > 0 else "" for size in sizes)])
    return page.table(["µs a sentence, at batch", *(plots.short(size) for size in sizes)], rows)


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


def critical_table(ours: pd.DataFrame, document: pd.DataFrame) -> Markdown:
    """The parts of a step and the critical batch of each stack, and of the document's devices."""
    heads = ["stack", "fixed F (ms a step)", "c (µs a sentence)", "critical batch", "mean error of the line"]
    rows = []
    for name, row in ours.iterrows():
        at = page.span(row, "critical", ",.0f")
        rows.append([name, f"{row['F'] * 1e3:,.0f}", f"{row['c'] * 1e6:,.0f}", at, f"{row['error']:.0%}"])
    for device, row in document.iterrows():
        rows.append([f"*the document's {device}*", "", "", page.span(row, "critical", ",.0f"), ""])
    return page.table(heads, rows)


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
    prices = vocabulary.drawn_prices(book, found, {(stack, "adam"): vocabulary.PRICED for stack in fits})
    both = [stack for stack in fits if (stack, "adam") in prices]
    if len(both) < 3:
        raise KeyError("a rank correlation needs three stacks")
    number = min(len(fits[stack].draws) for stack in both)
    price = np.array([prices[stack, "adam"][1][:number] for stack in both])
    batch = np.array([(fits[stack].draws["F"] / fits[stack].draws["c"]).to_numpy()[:number] for stack in both])
    value = _rank_correlation(
        np.array([[prices[stack, "adam"][0]] for stack in both]),
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


def memory_table(peak: pd.DataFrame) -> Markdown:
    """Peak memory by batch, and what a sentence adds."""
    each = bytes_a_sentence(peak)
    rows = [
        [
            stack,
            *("" if np.isnan(value) else f"{value / 2**30:.2f}" for value in row),
            f"{each[stack] / 2**10:.0f}" if stack in each else "",
        ]
        for stack, row in peak.iterrows()
    ]
    return page.table(
        ["peak, GiB, at batch", *(f"{size:,}" for size in peak.columns), "KiB a sentence, at least"], rows
    )


# For the prose


def values(book: Measurements, document: pd.DataFrame) -> dict[str, str]:
    """Every number that the chapter's sentences name."""
    given = {f"bat-critical-{device}": page.span(row, "critical", ",.0f") for device, row in document.iterrows()}
    given |= {f"bat-gain-{device}": f"{row['gain']:.1f}" for device, row in document.iterrows()}
    given |= {f"bat-seen-{device}": f"{row['seen']:.1f}" for device, row in document.iterrows()}
    return given | _of_batches(book) | _of_memory(book) | _elsewhere(book)


NOT_MEASURED = "(not measured)"


def _of_batches(book: Measurements) -> dict[str, str]:
    names = ("least", "least-stack", "most", "most-stack", "error", "error-stack", "noise", "order", "gains")
    found = by_batch(book)
    fits = lines(book, found)
    if len(fits) < 3:
        return dict.fromkeys((f"bat-{name}" for name in names), NOT_MEASURED)
    ours = critical_batches(fits)
    worst = ours["error"].idxmax()
    noise = book.noise().set_index("stack")[3]
    gains = gain(book, found)
    slow, fast = (pick(gains, key=lambda stack: gains[stack].value) for pick in (min, max))
    texts = [
        f"{ours['critical'].min():,.0f}",
        ours["critical"].idxmin(),
        f"{ours['critical'].max():,.0f}",
        ours["critical"].idxmax(),
        f"{ours['error'].max():.0%}",
        worst,
        f"{noise[worst]:.0%}",
        order(book, fits).text(".2f"),
        f"{gains[slow].text('.1f')} times ({slow}) to {gains[fast].text('.1f')} times ({fast})",
    ]
    return {f"bat-{name}": text for name, text in zip(names, texts, strict=True)}


def _of_memory(book: Measurements) -> dict[str, str]:
    found = by_batch(book)
    each, critical = bytes_a_sentence(peaks(found)), critical_batches(lines(book, found))["critical"]
    if each.empty:
        return dict.fromkeys(("bat-kib-low", "bat-kib-high", "bat-kib-high-stack", "bat-at-critical"), NOT_MEASURED)
    return {
        "bat-kib-low": f"{each.min() / 2**10:,.0f}",
        "bat-kib-high": f"{each.max() / 2**10:,.0f}",
        "bat-kib-high-stack": each.idxmax(),
        "bat-at-critical": f"{(each * critical).max() / 2**30:.1f} GiB",
    }


def _elsewhere(book: Measurements) -> dict[str, str]:
    """What other machines that the book shows say of the same."""
    said = []
    for other in (stored.of(name) for name in stored.listed() if name != book.machine):
        ours = critical_batches(lines(other, by_batch(other)))["critical"]
        if len(ours) > 1:
            ends = (f"{ours[stack]:,.0f} ({stack})" for stack in (ours.idxmin(), ours.idxmax()))
            said.append(f"on {other.title} it runs from {' to '.join(ends)}")
    return {"bat-elsewhere": "; ".join(said) or "no other machine has run this sweep yet"}


# Claims


def _line_fits(book: Measurements) -> Finding:
    errors = {stack: fit.mean_error for stack, fit in lines(book, by_batch(book, SWEPT)).items()}
    close = [stack for stack, error in errors.items() if error <= 0.1]
    if len(errors) < 6:
        raise KeyError("fewer than six stacks ran")
    worst = max(errors, key=errors.__getitem__)
    shown = f"{len(close)} of {len(errors)} stacks; {errors[worst]:.0%} on {worst} at most"
    return Finding(len(close) >= 6, shown)


def _gains_less_than_eight(book: Measurements) -> Finding:
    gains = gain(book, by_batch(book))
    holds = every(*(verdict for each in gains.values() for verdict in (above(each, 1), below(each, LARGE / SMALL))))
    slow, fast = (pick(gains, key=lambda stack: gains[stack].value) for pick in (min, max))
    return Finding(holds, f"{gains[slow].text('.1f')} times on {slow} to {gains[fast].text('.1f')} times on {fast}")


def _software_decides(book: Measurements) -> Finding:
    least, most, ratio = apart(lines(book, by_batch(book)))
    return Finding(above(ratio, 3), f"{ratio.text('.0f')} times, {most} over {least}")


def _follows_the_price(book: Measurements) -> Finding:
    correlation = order(book, lines(book, by_batch(book)))
    return Finding(above(correlation, 0.5), correlation.text(".2f"))


def _memory_is_no_limit(book: Measurements) -> Finding:
    found = by_batch(book)
    peak, at = peaks(found), critical_batches(lines(book, found))["critical"]
    needed = (bytes_a_sentence(peak) * at).dropna()
    shares = needed / peak.loc[needed.index, SMALL]
    if shares.empty:
        raise KeyError("no batch above 128 ran")
    return Finding(bool(shares.max() < 1), f"{shares.max():.0%} of the peak on {shares.idxmax()} at most")


CLAIMS: list[Claim] = [
    Claim(
        "04.1",
        "A fixed part and a part per sentence give each stack's steps at batches of 8 to 1,024 back with a mean error "
        "of at most 10 %, on at least six stacks.",
        "ours",
        _line_fits,
    ),
    Claim(
        "04.2",
        "Eight times the batch, from 128 to 1,024, makes an epoch faster, by less than eight times, on every stack.",
        "S0, C3",
        _gains_less_than_eight,
    ),
    Claim(
        "04.3",
        "The critical batch differs by more than 3 times between the stacks of one machine.",
        "ours",
        _software_decides,
    ),
    Claim(
        "04.4",
        "The critical batch is the larger, the more a row of the table costs: their rank correlation over the stacks "
        "is above 0.5.",
        "ours",
        _follows_the_price,
    ),
    Claim(
        "04.5",
        "At the critical batch the sentences add less to the peak of memory than it is at a batch of 128.",
        "ours",
        _memory_is_no_limit,
    ),
]
