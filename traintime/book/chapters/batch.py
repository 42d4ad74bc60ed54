"""Chapter 5, batch size: a step's line in the batch, the batch at which its two costs are equal, and what it costs."""

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import external, original, page, predictions, stored
from traintime.book.chapters import fused_accuracy, vocabulary
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


# The break-even batch


@functools.cache
def lines(book: Measurements, batches: tuple[int, ...] = BATCHES, allocator: str = "glibc") -> dict[str, formula.Fit]:
    """A straight line in the batch, F + c B, through each stack's points; without those that do not grow with it."""
    points = book.points(vocabulary=VOCABULARY, batch=list(batches), allocator=allocator)
    fits = book.lines(points, formula.BATCH_LINE)
    return {stack: fit for (stack, _), fit in fits.items() if fit.coefficients["c"] > 0}


def break_even(fit: formula.Fit) -> Interval:
    """Batch at which the cost of its sentences equals the fixed cost: F / c, with the interval of its draws."""
    return statistics.central(fit.draws["F"] / fit.draws["c"], fit.coefficients["F"] / fit.coefficients["c"])


def break_evens(book: Measurements, batches: tuple[int, ...] = BATCHES, allocator: str = "glibc") -> pd.DataFrame:
    """A row a stack: F (s a step), c (s a sentence), mean error of the line, break-even batch with its interval."""
    rows = []
    for stack, fit in lines(book, batches, allocator).items():
        at = break_even(fit)
        row = {"stack": stack, **fit.coefficients, "error": fit.mean_error}
        rows.append(row | {"break_even": at.value, "low": at.low, "high": at.high})
    return pd.DataFrame(rows, columns=["stack", "F", "c", "error", "break_even", "low", "high"]).set_index("stack")


def least_and_most(book: Measurements) -> tuple[str, str]:
    """The stacks of the smallest and of the largest break-even batch. Raises KeyError without two."""
    at = {stack: break_even(fit) for stack, fit in lines(book).items()}
    if len(at) < 2:
        raise KeyError("fewer than two stacks have a line")
    return smallest(at), largest(at)


@functools.cache
def document_devices(draws: int = 1000) -> pd.DataFrame:
    """The 2017 post's devices: break-even batch with its interval, and what 128 to 1,024 gains by it and as printed.

    Its three coefficients put the fixed cost at a + b V, with V = 280,000 rows.
    """
    rows = original.s0()
    printed = rows[rows["sweep"] == "batch"].pivot_table("epoch_s", "batch", "device")
    result = {}
    for device, fit in original.s0_fits(draws).items():
        value, drawn = fit.coefficients, fit.draws
        at = statistics.central(
            (drawn["a"] + drawn["b"] * VOCABULARY) / drawn["c"], (value["a"] + value["b"] * VOCABULARY) / value["c"]
        )
        gain = (1 / SMALL + 1 / at.value) / (1 / LARGE + 1 / at.value)
        seen = printed.loc[SMALL, device] / printed.loc[LARGE, device]
        result[device] = {"break_even": at.value, "low": at.low, "high": at.high, "gain": gain, "seen": seen}
    return pd.DataFrame(result).T


@claim(
    "05.1",
    "A fixed cost and a cost per sentence reproduce each stack's steps at batches of 8 to 1,024 with a mean error of "
    "at most 10 %, on at least six stacks.",
)
def a_line_fits(book: Measurements) -> Finding:
    close, stacks, figure = _close_lines(book)
    return Finding(close >= 6, f"{close} of {stacks} stacks; {figure}")


@claim(
    "05.6",
    "A fixed cost and a cost per sentence reproduce the steps at batches of 8 to 1,024 with a mean error of at most "
    "10 % on every stack.",
)
def a_line_fits_everywhere(book: Measurements) -> Finding:
    close, stacks, figure = _close_lines(book)
    return Finding(close == stacks, f"{close} of {stacks} stacks; {figure}")


def _close_lines(book: Measurements) -> tuple[int, int, str]:
    """On how many stacks the line's mean error is at most 10 %, of how many, and the largest such error in words."""
    errors = {stack: fit.mean_error for stack, fit in lines(book, SWEPT).items()}
    if len(errors) < 6:
        raise KeyError("fewer than six stacks ran")
    worst = max(errors, key=errors.__getitem__)
    return sum(error <= 0.1 for error in errors.values()), len(errors), f"{errors[worst]:.0%} on {worst} at most"


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
    "Eight times the batch, 1,024 instead of 128, makes an epoch faster, by less than eight times, on every stack.",
    source="S0, C3",
)
def gains_less_than_eight(book: Measurements) -> Finding:
    return every_stack(epoch_gains(book), within(1, LARGE / SMALL), ".1f")


@claim(
    "05.7",
    "With a batch of 1,024 instead of 128 an epoch is four times as fast, to within a half, on every stack.",
    source="S0, C3",
    says="does not hold",
)
def gains_four(book: Measurements) -> Finding:
    return every_stack(epoch_gains(book), within(3.5, 4.5), ".1f")


@functools.cache
def most_over_least(book: Measurements) -> Interval:
    """How many times as large the largest break-even batch is as the smallest. Raises KeyError without two."""
    under, over = (lines(book)[stack] for stack in least_and_most(book))
    drawn = (over.draws["F"] / over.draws["c"]) / (under.draws["F"] / under.draws["c"])
    return statistics.central(drawn, break_even(over).value / break_even(under).value)


@claim("05.3", "The break-even batch differs by more than 3 times between the stacks of one machine.")
def software_decides(book: Measurements) -> Finding:
    least, most = least_and_most(book)
    return every_stack({f"{most} over {least}": most_over_least(book)}, above(3), ".0f")


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
    value = spearman((steps[1::2] - steps[::2])[:, None], np.array([[break_even(fit).value] for fit in fits]))
    prices = (drawn[1::2] - drawn[::2])[:, : batches.shape[1]]
    return statistics.central(spearman(prices, batches), float(value[0]))


def spearman(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Rank correlation of each column of the two, shape (stacks, draws); a draw that is missing has none (NaN)."""
    ranks = [pd.DataFrame(each).rank().to_numpy() for each in (one, two)]
    first, second = (each - each.mean(axis=0) for each in ranks)
    return (first * second).sum(axis=0) / np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))


@claim(
    "05.4",
    "Stacks on which a row of the table costs more have a larger break-even batch: the rank correlation over the "
    "stacks is above 0.5.",
    says="inconclusive",
)
def follows_the_price(book: Measurements) -> Finding:
    return every_stack({"": rank_correlation(book)}, above(0.5))


# What an allocator that keeps its memory leaves of both costs


def under_tcmalloc(book: Measurements) -> pd.DataFrame:
    """`break_evens` under glibc and under tcmalloc, of the stacks that ran under both: F-glibc, F-tcmalloc, …

    Two sweeps that ran at different times: no verdict.
    """
    pooled = break_evens(book, UNDER_TCMALLOC, "tcmalloc")
    return break_evens(book, SWEPT).add_suffix("-glibc").join(pooled.add_suffix("-tcmalloc"), how="inner")


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


def bytes_at_break_even(book: Measurements) -> pd.Series:
    """What the sentences of a break-even batch add to the peak (bytes), by stack. Raises KeyError without any."""
    added = (bytes_a_sentence(book) * break_evens(book)["break_even"]).dropna()
    if added.empty:
        raise KeyError("no batch above 128 ran")
    return added


@claim("05.5", "At the break-even batch the sentences add less to the peak memory than the peak at a batch of 128.")
def memory_is_no_limit(book: Measurements) -> Finding:
    shares = bytes_at_break_even(book) / peaks(book)[SMALL]
    return Finding(bool(shares.max() < 1), f"{shares.max():.0%} of the peak on {shares.idxmax()} at most")


# What the page shows


def a_sentence(points: pd.DataFrame) -> HTML:
    """Microseconds per sentence, a row a stack, a column a batch size."""
    each = points.assign(each=points["step_s"] / points["batch"]).pivot_table("each", "stack", "batch", sort=False)
    sizes = {str(size): (short(size), 1e6, ",.0f") for size in sorted(each)}
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
        F=("fixed cost F (ms per step)", 1e3, ",.0f"),
        c=("c (µs per sentence)", 1e6, ",.0f"),
        break_even=("break-even batch", lambda row: page.span(row, "break_even", ",.0f")),
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


def example_errors(book: Measurements) -> "pd.Series[float]":
    """By how much the example's two steps miss the third on each stack, a share. Raises KeyError without any."""
    ran = stored.measured(list(lines(book, SWEPT)))
    steps = {stack: example_steps(book, stack) for stack in ran}
    return pd.Series({stack: abs(predicted / took - 1) for stack, (_, _, took, predicted) in steps.items()})


def _break_even(book: Measurements, place: int) -> str:
    return f"{break_evens(book).loc[least_and_most(book)[place], 'break_even']:,.0f}"


def _elsewhere(book: Measurements) -> str:
    least, most = (f"{_break_even(book, place)} ({least_and_most(book)[place]})" for place in (0, 1))
    return f"on {book.title} between {least} and {most}"


def _fixed_ms(book: Measurements) -> str:
    return f"{break_evens(book).loc[EXAMPLE_STACK, 'F'] * 1e3:.0f} ms"


def _worst_line(book: Measurements) -> str:
    return largest({stack: Interval(fit.mean_error) for stack, fit in lines(book).items()})


def _gain(pick: Callable[[dict[str, Interval]], str]) -> Callable[[Measurements], str]:
    """The smallest or largest gain of an epoch, with its stack."""

    def text(book: Measurements) -> str:
        gains = epoch_gains(book)
        return f"{gains[pick(gains)].value:.1f} ({pick(gains)})"

    return text


def _left(column: str) -> Callable[[Measurements], str]:
    """What tcmalloc leaves of a cost, least and most, on the machine that ran both allocators."""

    def text(book: Measurements) -> str:
        table = under_tcmalloc(stored.having(book, under_tcmalloc))
        left = (table[f"{column}-tcmalloc"] / table[f"{column}-glibc"]).sort_values()
        return f"{left.iloc[0]:.0%} ({left.index[0]}) to {left.iloc[-1]:.0%} ({left.index[-1]})"

    return text


def _of_device(device: str) -> dict[str, Callable[[Measurements], str]]:
    """What is said of one of the 2017 post's devices."""
    return {
        f"break_even_{device}": lambda _: page.span(document_devices().loc[device], "break_even", ",.0f"),
        **{
            f"{name}_{device}": lambda _, name=name: f"{document_devices().loc[device, name]:.1f}"
            for name in ("gain", "seen")
        },
    }


def _loss(way: str, place: int) -> Callable[[Measurements], str]:
    """The test loss of the smallest (0) or largest (1) batch, trained in a way."""
    return lambda _: f"{fused_accuracy.loss_ends(way)[place].value:.2f}"


def on_a100() -> pd.DataFrame:
    """Our fits to other people's networks on an A100 (external.networks_on_a100), with the break-even batch of each."""
    networks = external.networks_on_a100()
    return networks.assign(break_even=networks["step_s"] / networks["sample_s"])


def _a100_error(name: str, given: int) -> str:
    """The mean error over all batch sizes that were predicted. name: of the column; given: how many were not."""
    networks = on_a100()
    number = networks["batches"] - given
    return f"{(networks[name] * number).sum() / number.sum():.1%}"


def _a100_break_even(depth: int, filters: int) -> Callable[[Measurements], str]:
    return lambda _: f"{stored.row(on_a100(), depth=depth, filters=filters)['break_even']:.0f}"


PROSE = Prose(
    "bat",
    least=lambda book: _break_even(book, 0),
    least_stack=lambda book: least_and_most(book)[0],
    most=lambda book: _break_even(book, 1),
    most_stack=lambda book: least_and_most(book)[1],
    most_over_least=lambda book: most_over_least(book).text(".0f"),
    elsewhere=lambda book: "; ".join(page.on_each_machine(_elsewhere, book.machine)),
    order=lambda book: rank_correlation(book).text(),
    gain_low=_gain(smallest),
    gain_high=_gain(largest),
    error=lambda book: f"{lines(book)[_worst_line(book)].mean_error:.0%}",
    error_stack=_worst_line,
    noise=lambda book: f"{book.noise().set_index('stack')[3][_worst_line(book)]:.0%}",
    straight=lambda _: predictions.told("05", "a"),
    ordered=lambda _: predictions.told("05", "b"),
    # The next four are on the front page, too.
    example_batch=lambda _: f"{EXAMPLE[2]:,}",
    example_one=lambda book: f"{example_steps(book)[0] * 1e3:.0f} ms",
    example_two=lambda book: f"{example_steps(book)[1] * 1e3:.0f} ms",
    example_took=lambda book: f"{example_steps(book)[2] * 1e3:.0f} ms",
    example_predicted=lambda book: f"{example_steps(book)[3] * 1e3:.0f} ms",
    example_stack=lambda _: EXAMPLE_STACK,
    example_error=lambda book: f"{example_errors(book).mean():.0%}",
    example_worst=lambda book: f"{example_errors(book).max():.0%}",
    tf_fixed=lambda book: _fixed_ms(book),
    tf_fixed_a=lambda _: _fixed_ms(stored.of(stored.first())),
    kept_where=lambda book: stored.having(book, under_tcmalloc).title,
    kept_fixed=_left("F"),
    kept_each=_left("c"),
    kib_low=lambda book: f"{bytes_a_sentence(book).min() / 2**10:,.0f}",
    kib_high=lambda book: f"{bytes_a_sentence(book).max() / 2**10:,.0f}",
    at_break_even=lambda book: f"{bytes_at_break_even(book).max() / 2**30:.1f} GiB",
    **_of_device("CPU"),
    **_of_device("GPU"),
    loss_small=_loss("equal epochs, rate fixed", 0),
    loss_large=_loss("equal epochs, rate fixed", 1),
    scaled_small=_loss("equal epochs, rate scaled", 0),
    scaled_large=_loss("equal epochs, rate scaled", 1),
    a100_networks=lambda _: f"{len(on_a100())}",
    a100_batches=lambda _: f"{on_a100()['batches'].sum()}",
    a100_epochs=lambda _: f"{on_a100()['epochs'].sum()}",
    a100_disturbed=lambda _: f"{on_a100()['disturbed'].sum()}",
    a100_error=lambda _: _a100_error("left_out_mean", 0),
    a100_worst=lambda _: f"{on_a100()['left_out_most'].max():.1%}",
    a100_two=lambda _: _a100_error("two_mean", 2),
    a100_two_worst=lambda _: f"{on_a100()['two_most'].max():.1%}",
    **{f"a100_{depth}_{width}": _a100_break_even(depth, width) for depth in (2, 5) for width in (16, 128)},
)
