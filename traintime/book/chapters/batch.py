"""Chapter 5, batch size: the line of a step in the batch, the batch at which its two parts are equal, the memory."""

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import original, page, stored
from traintime.book.chapters import vocabulary
from traintime.book.claims import Finding, above, claim, every_stack, within
from traintime.book.page import Prose
from traintime.book.plots import short
from traintime.book.stored import Measurements, largest, smallest
from traintime.explain import formula, statistics
from traintime.explain.statistics import Interval

VOCABULARY = 280_000  # rows, the document's
BATCHES = (8, 32, 128, 1024, 4096)  # sentences
SWEPT = BATCHES[:4]  # those that every stack runs
UNDER_TCMALLOC = (8, 32, 100, 1024)
SMALL, LARGE = 128, 1024  # between which the document says "four times as fast"
SENTENCES = 1_000_000  # of an epoch


@functools.cache
def by_batch(book: Measurements) -> pd.DataFrame:
    """The sweep over the batch at the 2017 post's vocabulary, with `epoch_s`: seconds of a million sentences."""
    points = book.points(vocabulary=VOCABULARY, batch=list(BATCHES))
    return points.assign(epoch_s=points["step_s"] * np.ceil(SENTENCES / points["batch"]))


# The critical batch


@functools.cache
def lines(book: Measurements, batches: tuple[int, ...] = BATCHES, allocator: str = "glibc") -> dict[str, formula.Fit]:
    """A straight line in the batch, F + c B, through each stack's points; without those that do not grow with it."""
    points = book.points(vocabulary=VOCABULARY, batch=list(batches), allocator=allocator)
    fits = book.lines(points, formula.BATCH_LINE)
    return {stack: fit for (stack, _), fit in fits.items() if fit.coefficients["c"] > 0}


def critical_batch(fit: formula.Fit) -> Interval:
    """Batch at which the part per sentence has grown to the fixed part: F / c, with the interval of its draws."""
    return formula.interval(fit.draws["F"] / fit.draws["c"], fit.coefficients["F"] / fit.coefficients["c"])


def critical_batches(book: Measurements, batches: tuple[int, ...] = BATCHES, allocator: str = "glibc") -> pd.DataFrame:
    """A row a stack: F (s a step), c (s a sentence), mean error of the line, break-even batch with its interval."""
    rows = []
    for stack, fit in lines(book, batches, allocator).items():
        at = critical_batch(fit)
        row = {"stack": stack, **fit.coefficients, "error": fit.mean_error}
        rows.append(row | {"critical": at.value, "low": at.low, "high": at.high})
    return pd.DataFrame(rows, columns=["stack", "F", "c", "error", "critical", "low", "high"]).set_index("stack")


def least_and_most(book: Measurements) -> tuple[str, str]:
    """The stacks of the smallest and of the largest break-even batch. Raises KeyError without two."""
    at = {stack: critical_batch(fit) for stack, fit in lines(book).items()}
    if len(at) < 2:
        raise KeyError("fewer than two stacks have a line")
    return smallest(at), largest(at)


def document_devices(draws: int = 1000) -> pd.DataFrame:
    """The 2017 post's devices: break-even batch with its interval, and what 128 to 1,024 gains by it and as printed.

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


@claim(
    "05.1",
    "A fixed part and a part per sentence give each stack's steps at batches of 8 to 1,024 back with a mean error of "
    "at most 10 %, on at least six stacks.",
)
def a_line_fits(book: Measurements) -> Finding:
    errors = {stack: fit.mean_error for stack, fit in lines(book, SWEPT).items()}
    if len(errors) < 6:
        raise KeyError("fewer than six stacks ran")
    close, worst = sum(error <= 0.1 for error in errors.values()), max(errors, key=errors.__getitem__)
    return Finding(close >= 6, f"{close} of {len(errors)} stacks; {errors[worst]:.0%} on {worst} at most")


@functools.cache
def epoch_gains(book: Measurements) -> dict[str, Interval]:
    """How many times as fast an epoch is with a batch of 1,024 as with one of 128, by stack that ran both."""
    ran = by_batch(book).dropna(subset="step_s").groupby("stack", sort=False)["batch"].agg(set)
    gains = {}
    for stack in ran.index[[{SMALL, LARGE} <= batches for batches in ran]]:
        sides = book.sides({"batch": SMALL}, {"batch": LARGE}, stack=stack, vocabulary=VOCABULARY)
        gains[stack] = sides.interval(lambda s: s[0] / s[1] * LARGE / SMALL)
    return gains


@claim(
    "05.2",
    "Eight times the batch, from 128 to 1,024, makes an epoch faster, by less than eight times, on every stack.",
    source="S0, C3",
)
def gains_less_than_eight(book: Measurements) -> Finding:
    return every_stack(epoch_gains(book), within(1, LARGE / SMALL), ".1f")


@claim("05.3", "The critical batch differs by more than 3 times between the stacks of one machine.")
def software_decides(book: Measurements) -> Finding:
    least, most = least_and_most(book)
    over, under = lines(book)[most], lines(book)[least]
    drawn = (over.draws["F"] / over.draws["c"]) / (under.draws["F"] / under.draws["c"])
    ratio = formula.interval(drawn, critical_batch(over).value / critical_batch(under).value)
    return every_stack({f"{most} over {least}": ratio}, above(3), ".0f")


@functools.cache
def rank_correlation(book: Measurements) -> Interval:
    """Rank correlation of the break-even batch with the cost of a row (see the chapter on the vocabulary).

    Over the stacks that have both; the interval carries the run-to-run error of both. Raises KeyError for fewer than
    three stacks.
    """
    points = vocabulary.by_vocabulary(book)
    pairs = {stack: vocabulary.pair_of(points, (stack, "adam"), vocabulary.PRICED) for stack in lines(book)}
    fits = [lines(book)[stack] for stack, pair in pairs.items() if len(pair) == 2]
    if len(fits) < 3:
        raise KeyError("a rank correlation needs three stacks")
    pair = pd.concat(each for each in pairs.values() if len(each) == 2)
    steps, drawn = book.redrawn(list(pair["stack"]), book.values(pair))
    batches = np.array([(fit.draws["F"] / fit.draws["c"]).to_numpy() for fit in fits])
    value = spearman((steps[1::2] - steps[::2])[:, None], np.array([[critical_batch(fit).value] for fit in fits]))
    prices = (drawn[1::2] - drawn[::2])[:, : batches.shape[1]]
    return statistics.central(spearman(prices, batches), float(value[0]))


def spearman(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Rank correlation of each column of the two, shape (stacks, draws); a draw that is missing has none (NaN)."""
    ranks = [pd.DataFrame(each).rank().to_numpy() for each in (one, two)]
    first, second = (each - each.mean(axis=0) for each in ranks)
    return (first * second).sum(axis=0) / np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))


@claim(
    "05.4",
    "The critical batch is the larger, the more a row of the table costs: their rank correlation over the stacks is "
    "above 0.5.",
    says="cannot be told",
)
def follows_the_price(book: Measurements) -> Finding:
    return every_stack({"": rank_correlation(book)}, above(0.5))


# What an allocator that keeps its memory leaves of both parts


def under_tcmalloc(book: Measurements) -> pd.DataFrame:
    """`critical_batches` under glibc and under tcmalloc, of the stacks that ran under both: F-glibc, F-tcmalloc, …

    Two sweeps that ran at different times: no verdict.
    """
    pooled = critical_batches(book, UNDER_TCMALLOC, "tcmalloc")
    return critical_batches(book, SWEPT).add_suffix("-glibc").join(pooled.add_suffix("-tcmalloc"), how="inner")


# Memory


def peaks(book: Measurements) -> pd.DataFrame:
    """Peak memory (bytes), a row a stack, a column a batch, of what ran."""
    ran = by_batch(book).dropna(subset="peak_bytes")
    return ran.pivot_table("peak_bytes", "stack", "batch", sort=False).sort_index(axis=1)


def largest_batch(book: Measurements) -> pd.DataFrame:
    """The point of the largest batch that ran, a row a stack."""
    return by_batch(book).dropna(subset="peak_bytes").sort_values("batch").groupby("stack").last()


def bytes_a_sentence(book: Measurements) -> pd.Series:
    """What a sentence adds to the peak between a batch of 128 and the stack's largest, at the least (bytes)."""
    small = stored.chosen(by_batch(book), batch=SMALL).set_index("stack")["peak_bytes"]
    large = largest_batch(book).query("batch > @SMALL")
    return ((large["peak_bytes"] - small) / (large["batch"] - SMALL)).dropna()


def bytes_at_critical(book: Measurements) -> pd.Series:
    """What the sentences of a break-even batch add to the peak (bytes), by stack. Raises KeyError without any."""
    added = (bytes_a_sentence(book) * critical_batches(book)["critical"]).dropna()
    if added.empty:
        raise KeyError("no batch above 128 ran")
    return added


@claim("05.5", "At the critical batch the sentences add less to the peak of memory than it is at a batch of 128.")
def memory_is_no_limit(book: Measurements) -> Finding:
    shares = bytes_at_critical(book) / peaks(book)[SMALL]
    return Finding(bool(shares.max() < 1), f"{shares.max():.0%} of the peak on {shares.idxmax()} at most")


# What the page shows


def a_sentence(points: pd.DataFrame) -> HTML:
    """Microseconds a sentence, a row a stack, a column a batch size."""
    each = points.assign(each=points["step_s"] / points["batch"]).pivot_table("each", "stack", "batch", sort=False)
    sizes = {str(size): (short(size), 1e6, ",.0f") for size in sorted(each)}
    return page.columns(each.rename(columns=str).reset_index(), stack="µs a sentence, at batch", **sizes)


def critical_table(book: Measurements, document: pd.DataFrame) -> HTML:
    """The parts of a step and the break-even batch of each stack, and of the 2017 post's devices."""
    theirs = document.rename(index=lambda device: f"*the document's {device}*")
    return page.columns(
        pd.concat([critical_batches(book), theirs]).rename_axis("stack").reset_index(),
        stack="stack",
        F=("fixed F (ms a step)", 1e3, ",.0f"),
        c=("c (µs a sentence)", 1e6, ",.0f"),
        critical=("critical batch", lambda row: page.span(row, "critical", ",.0f")),
        error=("mean error of the line", 1, ".0%"),
    )


def tcmalloc_table(book: Measurements) -> HTML:
    """F, c and the break-even batch of each stack under glibc and under tcmalloc."""

    def both(name: str, scale: float) -> Callable[[pd.Series], str]:
        return lambda row: " → ".join(
            f"{row[f'{name}-{allocator}'] * scale:,.0f}" for allocator in ("glibc", "tcmalloc")
        )

    def critical(allocator: str) -> Callable[[pd.Series], str]:
        ends = [f"{name}-{allocator}" for name in ("critical", "low", "high")]
        return lambda row: Interval(*row[ends]).text(",.0f")

    return page.columns(
        under_tcmalloc(book).reset_index(),
        stack="glibc → tcmalloc",
        F=("*F* (ms a step)", both("F", 1e3)),
        c=("*c* (µs a sentence)", both("c", 1e6)),
        glibc=("critical batch", critical("glibc")),
        tcmalloc=("under tcmalloc", critical("tcmalloc")),
    )


def memory_table(book: Measurements) -> HTML:
    """Peak memory at the smallest batch and the three largest, and what a sentence adds."""
    table = peaks(book)
    sizes = [*table.columns[:-3][:1], *table.columns[-3:]]
    return page.columns(
        table.assign(each=bytes_a_sentence(book)).rename(columns=str).reset_index(),
        stack="peak, GiB, at batch",
        **{str(size): (f"{size:,}", 2**-30, ".2f") for size in sizes},
        each=("KiB a sentence, at least", 2**-10, ".0f"),
    )


def document_numbers(document: pd.DataFrame) -> dict[str, str]:
    """The numbers of the page's sentences about the 2017 post. document: as `document_devices` gives it."""
    numbers = {}
    for device, row in document.iterrows():
        numbers[f"bat-critical-{device}"] = page.span(row, "critical", ",.0f")
        numbers |= {f"bat-{name}-{device}": f"{row[name]:.1f}" for name in ("gain", "seen")}
    return numbers


EXAMPLE_STACK, EXAMPLE = "2026-tensorflow", (128, 1024, 4096)  # sentences: two steps that predict a third


def example_steps(book: Measurements) -> tuple[float, float, float, float]:
    """Steps (s) at the example's batches, and what the first two predict of the third. Raises KeyError without one."""
    ran = stored.chosen(by_batch(book), stack=EXAMPLE_STACK).dropna(subset="step_s").set_index("batch")["step_s"]
    one, two, third = (float(ran[batch]) for batch in EXAMPLE)
    return one, two, third, one + (two - one) / (EXAMPLE[1] - EXAMPLE[0]) * (EXAMPLE[2] - EXAMPLE[0])


def example_line(book: Measurements) -> tuple[float, float]:
    """Seconds a step that the example's first two steps leave for a step whatever its batch, and for each sentence."""
    one, two, _, _ = example_steps(book)
    each = (two - one) / (EXAMPLE[1] - EXAMPLE[0])
    return one - EXAMPLE[0] * each, each


def _example_off(book: Measurements) -> str:
    _, _, took, predicted = example_steps(book)
    return f"{abs(predicted / took - 1):.0%} {'less' if predicted > took else 'more'} than promised"


def _critical(book: Measurements, place: int) -> str:
    return f"{critical_batches(book).loc[least_and_most(book)[place], 'critical']:,.0f}"


def _elsewhere(book: Measurements) -> str:
    least, most = (f"{_critical(book, place)} ({least_and_most(book)[place]})" for place in (0, 1))
    return f"on {book.title} it runs from {least} to {most}"


def _worst_line(book: Measurements) -> str:
    return largest({stack: Interval(fit.mean_error) for stack, fit in lines(book).items()})


def _gains(book: Measurements) -> str:
    gains = epoch_gains(book)
    return " to ".join(f"{gains[pick(gains)].text('.1f')} times ({pick(gains)})" for pick in (smallest, largest))


def _left(column: str) -> Callable[[Measurements], str]:
    """What tcmalloc leaves of a part, least and most, on the machine that ran both allocators."""

    def text(book: Measurements) -> str:
        table = under_tcmalloc(stored.having(book, under_tcmalloc))
        left = (table[f"{column}-tcmalloc"] / table[f"{column}-glibc"]).sort_values()
        return f"{left.iloc[0]:.0%} ({left.index[0]}) to {left.iloc[-1]:.0%} ({left.index[-1]})"

    return text


def _peak(book: Measurements) -> str:
    critical = critical_batches(book)["critical"]
    beyond = largest_batch(book).join(critical, how="inner").query("batch >= critical")
    if beyond.empty:
        raise KeyError("no stack ran a batch above its critical one")
    which = "Each stack" if len(beyond) == len(critical) else f"{len(beyond)} of {len(critical)} stacks"
    most = f"a peak of {beyond['peak_bytes'].max() / 2**30:.1f} GiB at most"
    return f"{which} ran a batch above its critical one, with {most}: memory is not what stops you here."


PROSE = Prose(
    "bat",
    least=lambda book: _critical(book, 0),
    least_stack=lambda book: least_and_most(book)[0],
    most=lambda book: _critical(book, 1),
    most_stack=lambda book: least_and_most(book)[1],
    elsewhere=lambda book: (
        "; ".join(page.on_each_machine(_elsewhere, book.machine)) or "no other machine has run this sweep yet"
    ),
    order=lambda book: rank_correlation(book).text(),
    gains=_gains,
    error=lambda book: f"{lines(book)[_worst_line(book)].mean_error:.0%}",
    error_stack=_worst_line,
    noise=lambda book: f"{book.noise().set_index('stack')[3][_worst_line(book)]:.0%}",
    example_stack=lambda book: EXAMPLE_STACK,
    example_one=lambda book: f"{example_steps(book)[0] * 1e3:.0f} ms",
    example_two=lambda book: f"{example_steps(book)[1] * 1e3:.0f} ms",
    example_fixed=lambda book: f"{example_line(book)[0] * 1e3:.0f} ms",  # the front page's, and the next two
    example_each=lambda book: f"{example_line(book)[1] * 1e3:.2f} ms",
    example_epoch=lambda book: f"{SENTENCES / EXAMPLE[2] * example_steps(book)[3] / 60:.0f} minutes",
    example_took=lambda book: f"{example_steps(book)[2] * 1e3:.0f} ms",
    example_promised=lambda book: f"{example_steps(book)[3] * 1e3:.0f} ms",
    example_off=_example_off,
    kept_where=lambda book: stored.having(book, under_tcmalloc).title,
    kept_fixed=_left("F"),
    kept_each=_left("c"),
    kept_batch=_left("critical"),
    kib_low=lambda book: f"{bytes_a_sentence(book).nsmallest(1).iloc[0] / 2**10:,.0f}",
    kib_high=lambda book: f"{bytes_a_sentence(book).nlargest(1).iloc[0] / 2**10:,.0f}",
    kib_high_stack=lambda book: bytes_a_sentence(book).nlargest(1).index[0],
    at_critical=lambda book: f"{bytes_at_critical(book).max() / 2**30:.1f} GiB",
    peak=_peak,
)
