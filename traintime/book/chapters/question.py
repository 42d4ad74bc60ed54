"""Chapter 1, the question: what the 2017 post's two tables say by arithmetic alone, and what our machines say to that.

Its claims are judged on the 2017 post's own figures, and on the same six cells measured on Theano of 2017, which one
machine alone has.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import external, original, page, stored
from traintime.book.chapters.vocabulary import bytes_a_row
from traintime.book.claims import Finding, above, any_stack, below, claim, claim_without_machine, every, every_stack
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula, statistics
from traintime.explain.formula import Fit
from traintime.explain.statistics import Interval
from traintime.point import make_point

DOCUMENT, document = original.FIGURES, original.document
SOFTWARE = "2017-theano"  # of the 2017 post
VOCABULARIES, BATCHES = [20_000, 280_000, 2_000_000], [32, 128, 1024]  # of its two tables
FAVOURITE = pd.DataFrame({"vocabulary": [280_000], "batch": [100]})
SENTENCES = 1_000_000  # of an epoch
LENGTHS = [3, 6, 12, 25, 50, 100, 200, 400]  # tokens, of the lost table


# The two tables, of the 2017 post and ours


def table_cells(book: Measurements) -> dict[str, pd.DataFrame]:
    """The two tables' six cells, seconds a step: of each device of the 2017 post, of a machine on Theano of 2017.

    A machine that lacks one of the six has none.
    """
    if book.machine == DOCUMENT:
        return dict(iter(book.rows.groupby("device")))
    parts = [
        book.points(stack=SOFTWARE, vocabulary=VOCABULARIES),
        book.points(stack=SOFTWARE, vocabulary=280_000, batch=BATCHES),
    ]
    points = pd.concat(parts).dropna(subset="step_s")
    return {SOFTWARE: points} if len(points) == len(VOCABULARIES) + len(BATCHES) else {}


@functools.cache
def of_cells() -> Measurements:
    """The first machine of the book that has all six cells."""
    return stored.having(stored.of(), table_cells)


@functools.cache
def straight_lines(book: Measurements) -> dict[str, Fit]:
    """The straight line through the three vocabularies of each device, or of the 2017 post's software; no draws."""
    fitted = {}
    for name, rows in table_cells(book).items():
        rows = rows[rows["batch"] == 100]
        seconds = rows["step_s"].to_numpy()
        fitted[name] = formula.fit(formula.STRAIGHT_LINE, rows, seconds, lambda random, same=seconds: same, draws=1)
    return fitted


@functools.cache
def fits(book: Measurements) -> dict[str, Fit]:
    """The formula with three terms, fitted to the six cells of each device, or of the 2017 post's software."""
    if book.machine == DOCUMENT:
        return original.s0_fits()
    fitted = {}
    for name, rows in table_cells(book).items():
        seconds = rows["step_s"].to_numpy()
        redraw = formula.repeated(seconds, rows["runs"].to_numpy(), book.spread(name, "step_s"))
        fitted[name] = formula.fit(formula.THREE_TERMS, rows, seconds, redraw)
    return fitted


def at_most(errors: dict[str, float], most: float) -> Finding:
    """Whether each relative error is at most that large. Raises KeyError without any."""
    texts = (f"{name} {error:.1%}" for name, error in errors.items())
    return Finding(every(*(error <= most for error in errors.values())), ", ".join(texts))


@claim(
    "01.1",
    "On the 2017 post's software a step is a straight line in the vocabulary: the line misses no step at 20,000, "
    "280,000 and 2 million rows by more than 10 %.",
    source="ours, from S0's tables",
    on=of_cells,
)
def line_is_straight(book: Measurements) -> Finding:
    return at_most({name: np.abs(line.errors).max() for name, line in straight_lines(book).items()}, 0.1)


@claim(
    "01.2",
    "One formula with three terms, a cost per step, one per row and one per sentence, reproduces the six cells over "
    "vocabulary and batch with a mean error of at most 10 %.",
    source="ours, from S0's tables",
    on=of_cells,
)
def three_terms(book: Measurements) -> Finding:
    return at_most({name: fit.mean_error for name, fit in fits(book).items()}, 0.1)


# What the fits say


def share_of_terms(fit: Fit, terms: Iterable[str]) -> Interval:
    """Share of these terms in a step at the 2017 post's favourite configuration, 280,000 rows and batch 100."""
    drawn, value = fit.draws * fit.formula.design(FAVOURITE)[0], fit.parts(FAVOURITE).iloc[0]
    shares = drawn[list(terms)].sum(axis=1) / drawn.sum(axis=1)
    return statistics.central(shares, float(value[list(terms)].sum() / value.sum()))


def limits(fits: dict[str, Fit]) -> dict[str, Interval]:
    """Where the GPU's lead over the CPU ends as one term outgrows the others: the ratio of its coefficients."""
    return {name: formula.price_ratio(fits["CPU"], fits["GPU"], name) for name in ("b", "c")}


def exponent_ends(fit: Fit) -> dict[str, Interval]:
    """Apparent exponent in the length at 25 tokens where the fixed part stays as it is (low), and where it grows."""
    return {"low": share_of_terms(fit, ["c"]), "high": share_of_terms(fit, ["a", "c"])}


def mostly(book: Measurements, terms: Iterable[str]) -> Finding:
    """Whether these terms are more than half of the step at the favourite configuration."""
    return every_stack(
        {name: share_of_terms(fit, terms) for name, fit in fits(book).items()}, above(0.5), ".0f", 100, "%"
    )


@claim(
    "01.3",
    "At 280,000 rows and batch 100 more than half of a step is fixed cost, whatever the batch.",
    source="ours, from S0's tables",
    on=of_cells,
)
def mostly_fixed(book: Measurements) -> Finding:
    return mostly(book, ["a", "b"])


@claim(
    "01.4",
    "At 280,000 rows and batch 100 more than half of a step is the cost of the rows of the table.",
    source="ours, from S0's tables",
    on=of_cells,
)
def mostly_the_table(book: Measurements) -> Finding:
    return mostly(book, ["b"])


@claim(
    "01.5",
    "The GPU's lead over the CPU stays below 20, whether the vocabulary grows or the batch.",
    source="ours, against S0, C2",
    says="not measured",
)
def lead_is_limited(book: Measurements) -> Finding:
    ends = limits(fits(book))
    return every_stack({"rows": ends["b"], "sentences": ends["c"]}, below(20), ".1f")


@claim(
    "01.6",
    "With 280,000 rows time grows less than in proportion to the length of the sentences.",
    source="S0, C4",
)
def length_is_sub_linear(book: Measurements) -> Finding:
    if book.machine == DOCUMENT:
        both = [exponent_ends(fit) for fit in fits(book).values()]
        low, high = min(one["low"].low for one in both), max(one["high"].high for one in both)
        return Finding(high < 1, f"from the other tables, {low:.2f} to {high:.2f}")
    row = length_exponents(book, frozen=False).loc[SOFTWARE]
    exponent = stored.interval(row, "exponent")
    return Finding(below(1)(exponent), f"{SOFTWARE} {exponent.text()} from {row['from']} to {row['to']} tokens")


@functools.cache
def length_exponents(book: Measurements, frozen: bool) -> pd.DataFrame:
    """Apparent exponents in the length with 280,000 rows, trained or frozen, a row a stack (Measurements.exponents)."""
    return book.exponents(book.points(vocabulary=280_000, length=ANY, frozen=frozen), "length").set_index("stack")


def frozen_exponents(book: Measurements) -> dict[str, Interval]:
    """With the table frozen, of the stacks that were measured from 3 to 400 tokens."""
    rows = length_exponents(book, frozen=True)
    whole = rows[(rows["from"] <= LENGTHS[0]) & (rows["to"] >= LENGTHS[-1])]
    return {str(stack): stored.interval(row, "exponent") for stack, row in whole.iterrows()}


@claim(
    "01.7",
    "With the table of 280,000 rows frozen the exponent from 3 to 400 tokens stays below 1 on at least one stack.",
)
def frozen_stays_below_one(book: Measurements) -> Finding:
    return any_stack(frozen_exponents(book), below(1))


@claim_without_machine(
    "01.8",
    "At 280,000 rows the 2017 post's GPU is 10 times as fast as its CPU, to within a fifth, at each of its batches.",
    source="S0, C7",
)
def rule_of_thumb() -> Finding:
    steps = original.s0().query("vocabulary == 280_000").pivot_table("step_s", "batch", "device")
    lead = steps["CPU"] / steps["GPU"]
    return Finding(bool(lead.between(8, 12).all()), f"{lead.min():.1f} to {lead.max():.1f} times as fast")


# The lost table: an epoch at other lengths, from the other two tables


def lost_epochs(gpu: Fit, lengths: Sequence[int]) -> pd.DataFrame:
    """Seconds of an epoch at each sentence length, by the GPU's costs: if none of its fixed part grew, and if all did.

    Index length; columns low_s, high_s.
    """
    ends = [[_epoch(gpu.coefficients, tokens, grown) for tokens in lengths] for grown in (0, 1)]
    table = pd.DataFrame({"low_s": np.minimum(*ends), "high_s": np.maximum(*ends)})
    return table.set_index(pd.Index(lengths, name="length"))


def _epoch(coefficients: Mapping[str, Any], tokens: int, grown: Any) -> Any:
    """Seconds of an epoch, by the formula's coefficients or draws of them; grown: the share of `a` that grows."""
    ratio = tokens / make_point().sizes.length
    a, b, c = (coefficients[name] for name in "abc")
    rows, batch = FAVOURITE.iloc[0]
    return (a * (1 - grown + grown * ratio) + b * rows + c * batch * ratio) * SENTENCES / batch


@functools.cache
def epoch_draws() -> pd.DataFrame:
    """Draws of an epoch's seconds, a column a device and length of the lost table, from the other two tables.

    What does not grow is the rows; what grows is the sentences' part. Of the fixed part, launching an LSTM's operations
    is paid for each word, and nobody knows how much of it there was: anything between none and all.
    """
    drawn = {device: fit.draws for device, fit in original.s0_fits().items()}
    grown = np.random.default_rng(0).uniform(0, 1, len(drawn["GPU"]))
    return pd.DataFrame({(device, at): _epoch(drawn[device], at, grown) for device in drawn for at in LENGTHS})


def reconstructed() -> pd.DataFrame:
    """Seconds of an epoch by device and length: the middle and 95 % of `epoch_draws` (low, middle, high)."""
    quantiles = epoch_draws().quantile([0.025, 0.5, 0.975]).T.rename_axis(["device", "length"])
    return quantiles.set_axis(["low", "middle", "high"], axis=1)


def reconstructed_table(epochs: pd.DataFrame) -> HTML:
    """The 2017 post's lost table, a row a length. epochs: as `reconstructed` gives them."""
    texts = epochs.assign(text=[page.span(row, "middle", ",.0f") for _, row in epochs.iterrows()])["text"]
    return page.frame(texts.unstack("device").rename(columns=lambda device: f"{device}, s an epoch"))


def doubled(device: str) -> str:
    """How many times as long an epoch of twice the 2017 post's length takes: the ends of 95 % of the draws."""
    low, high = (epoch_draws()[device, 50] / epoch_draws()[device, 25]).quantile([0.025, 0.975])
    return f"{low:.2f} to {high:.2f}"


# What the page shows


def coefficients(fits: dict[str, Fit]) -> list[list[str]]:
    """Rows of a table: each coefficient with its interval, three digits, and the mean error; a column a device."""
    units = {"a": (1e3, "ms per step"), "b": (1e9, "ns per row"), "c": (1e3, "ms per sentence")}
    rows = []
    for name, (scale, unit) in units.items():
        scaled = [fit.interval(name).scaled(scale) for fit in fits.values()]
        texts = [[f"{float(f'{x:.3g}'):,g}" for x in (one.value, one.low, one.high)] for one in scaled]
        rows.append([f"*{name}*, {unit}", *("{} ({} to {})".format(*text) for text in texts)])
    return [*rows, ["mean error", *(f"{fit.mean_error * 100:.1f}\u00a0%" for fit in fits.values())]]


def _of_device(device: str) -> dict[str, Callable[[Measurements], str]]:
    """What is said of a device of the 2017 post: its line, its fit, the table's share, its break-even batch."""
    return {
        f"{device}_line_start": lambda book: f"{straight_lines(book)[device].coefficients['a'] * 1e3:.0f} ms",
        f"{device}_line_slope": lambda book: f"{straight_lines(book)[device].coefficients['b'] * 1e9:,.0f} ns",
        f"{device}_line_error": lambda book: _worst(straight_lines(book)[device]),
        f"{device}_error": lambda book: _mean(fits(book)[device]),
        f"{device}_table_share": lambda book: share_of_terms(fits(book)[device], ["b"]).text(".0f", 100, "%"),
        f"{device}_break_even": lambda book: f"{_break_even(fits(book)[device]):.0f}",
    }


def _mean(fit: Fit) -> str:
    return f"{fit.mean_error * 100:.1f}\u00a0%"


def _worst(fit: Fit) -> str:
    return f"{np.abs(fit.errors).max() * 100:.1f}\u00a0%"


def _break_even(fit: Fit) -> float:
    """The batch whose sentences cost as much as the fixed part of a step, at 280,000 rows."""
    at = fit.coefficients
    return (at["a"] + at["b"] * FAVOURITE["vocabulary"].iloc[0]) / at["c"]


def _gpu_ms(terms: str) -> Callable[[Measurements], str]:
    """What these terms ("ab") take of the GPU's step at the favourite configuration."""
    return lambda book: f"{fits(book)['GPU'].parts(FAVOURITE).iloc[0][list(terms)].sum() * 1e3:.0f} ms"


def _of_limit(name: str) -> dict[str, Callable[[Measurements], str]]:
    return {
        f"limit_{name}": lambda book: f"{limits(fits(book))[name].value:.1f}",
        f"limit_{name}_range": lambda book: "{0.low:.1f} to {0.high:.1f}".format(limits(fits(book))[name]),
    }


def _k40m(name: str) -> float:
    return external.hardware("K40m")[f"bandwidth {name}"]


def _least_s() -> float:
    """Seconds that moving a row's bytes takes at the memory's measured speed."""
    return bytes_a_row() / _k40m("measured")


def _swept() -> Measurements:
    """The first machine of the book that has the length swept with the table frozen."""
    return stored.having(stored.of(), frozen_exponents)


def _software_exponent(frozen: bool) -> str:
    return f"{length_exponents(_swept(), frozen).loc[SOFTWARE, 'exponent']:.2f}"


def _below_one() -> str:
    """How many of a machine's frozen exponents have intervals below 1: "4 of 4"."""
    found = frozen_exponents(_swept())
    return f"{sum(below(1)(one) is True for one in found.values())} of {len(found)}"


PROSE = Prose(
    "",
    **_of_device("CPU"),
    **_of_device("GPU"),
    row_bytes=lambda book: f"{bytes_a_row():,}",
    row_k40m=lambda book: f"{_k40m('measured') / 1e9:.1f} GB/s",
    row_least=lambda book: f"{_least_s() * 1e9:.0f} ns",
    row_over=lambda book: f"{straight_lines(book)['GPU'].coefficients['b'] / _least_s():.1f}",
    GPU_overhead_share=lambda book: f"{share_of_terms(fits(book)['GPU'], ['a']).value * 100:.0f}\u00a0%",
    GPU_step=_gpu_ms("abc"),
    GPU_fixed=_gpu_ms("ab"),
    **_of_limit("b"),
    **_of_limit("c"),
    exponent_low=lambda book: f"{exponent_ends(fits(book)['GPU'])['low'].low:.2f}",
    exponent_high=lambda book: f"{exponent_ends(fits(book)['GPU'])['high'].high:.2f}",
    cells_title=lambda _: page.title(of_cells(), table_cells(of_cells())),
    cells_line_error=lambda _: _worst(straight_lines(of_cells())[SOFTWARE]),
    cells_error=lambda _: _mean(fits(of_cells())[SOFTWARE]),
    cells_share=lambda _: share_of_terms(fits(of_cells())[SOFTWARE], ["b"]).text(".0f", 100, "%"),
    swept_title=lambda _: page.title(_swept(), frozen_exponents(_swept())),
    swept_trained=lambda _: _software_exponent(frozen=False),
    swept_frozen=lambda _: _software_exponent(frozen=True),
    swept_below=lambda _: _below_one(),
    swept_came=lambda _: "failed" if frozen_stays_below_one(_swept()).holds else "is inconclusive",
)
