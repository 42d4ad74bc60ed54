"""Chapter 1, the question: what the 2017 post's two tables say by arithmetic alone, and what our machines say to that.

Its claims are judged on the 2017 post's own figures, and on the same six cells measured on Theano of 2017, which one
machine alone has.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import claims, external, original, stored
from traintime.book.chapters.vocabulary import bytes_a_row
from traintime.book.claims import Finding
from traintime.book.stored import ANY, Measurements
from traintime.book.values import Values, exact, quantity
from traintime.explain import formula, statistics
from traintime.explain.formula import Fit
from traintime.explain.statistics import Interval
from traintime.point import make_point

claim = claims.of_chapter("01")
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
def fits(book: Measurements) -> dict[str, Fit]:
    """The formula with three terms, fitted to the six cells of each device, or of the 2017 post's software."""
    if book.machine == DOCUMENT:
        return original.s0_fits()
    lines = [book.lines(cells, formula.THREE_TERMS) for cells in table_cells(book).values()]
    return {stack: fit for each in lines for (stack, _), fit in each.items()}


@quantity
def errors(book: Measurements) -> Values:
    """Mean relative error of the formula with three terms over the six cells, by device."""
    return exact({name: fit.mean_error for name, fit in fits(book).items()}, ".1%")


claim(
    2,
    "One formula with three terms, a cost per step, one per row and one per sentence, reproduces the six cells over "
    "vocabulary and batch with a mean error of at most 10 %.",
    lambda book: errors(book) < 0.1,
    source="ours, from S0's tables",
    on=of_cells,
)


# What the fits say


def share_of_terms(fit: Fit, terms: Iterable[str]) -> Interval:
    """Share of these terms in a step at the 2017 post's favourite configuration, 280,000 rows and batch 100."""
    drawn, value = fit.draws * fit.formula.design(FAVOURITE)[0], fit.parts(FAVOURITE).iloc[0]
    shares = drawn[list(terms)].sum(axis=1) / drawn.sum(axis=1)
    return statistics.central(shares, float(value[list(terms)].sum() / value.sum()))


@quantity
def shares(book: Measurements, terms: str) -> Values:
    """Share of these terms ("ab") in that step, by device."""
    return Values({name: share_of_terms(fit, terms) for name, fit in fits(book).items()}, ".0f", 100, "%")


@quantity
def lead_ends(book: Measurements) -> Values:
    """Where the GPU's lead over the CPU ends as the rows, or the sentences, outgrow all else."""
    found = fits(book)
    prices = {"rows": "b", "sentences": "c"}
    ends = {name: formula.price_ratio(found["CPU"], found["GPU"], price) for name, price in prices.items()}
    return Values(ends, ".1f")


claim(
    4,
    "At 280,000 rows and batch 100 more than half of a step is the cost of the rows of the table.",
    lambda book: shares(book, "b") > 0.5,
    source="ours, from S0's tables",
    on=of_cells,
)
claim(
    5,
    "The GPU's lead over the CPU stays below 20, whether the vocabulary grows or the batch.",
    lambda book: lead_ends(book) < 20,
    source="ours, against S0, C2",
    says="not measured",
)


def length_is_sub_linear(book: Measurements) -> Finding:
    """Whether time grows less than the length: by the exponent of a machine, of the 2017 post by its two ends at 25
    tokens, where the fixed part stays as it is (low) and where it grows.
    """
    if book.machine == DOCUMENT:
        low = min(share_of_terms(fit, "c").low for fit in fits(book).values())
        high = max(share_of_terms(fit, "ac").high for fit in fits(book).values())
        return Finding(high < 1, f"from the other tables, {low:.2f} to {high:.2f}")
    row = length_exponents(book, frozen=False).loc[SOFTWARE]
    exponent = stored.interval(row, "exponent")
    return Finding(claims.below(1)(exponent), f"{SOFTWARE} {exponent.text()} from {row['from']} to {row['to']} tokens")


claim(
    6,
    "With 280,000 rows time grows less than in proportion to the length of the sentences.",
    length_is_sub_linear,
    source="S0, C4",
)


@functools.cache
def length_exponents(book: Measurements, frozen: bool) -> pd.DataFrame:
    """Apparent exponents in the length with 280,000 rows, trained or frozen, a row a stack (Measurements.exponents)."""
    return book.exponents(book.points(vocabulary=280_000, length=ANY, frozen=frozen), "length").set_index("stack")


@quantity
def frozen_exponents(book: Measurements) -> Values:
    """With the table frozen, of the stacks that were measured from 3 to 400 tokens."""
    rows = length_exponents(book, frozen=True)
    whole = rows[(rows["from"] <= LENGTHS[0]) & (rows["to"] >= LENGTHS[-1])]
    return Values({str(stack): stored.interval(row, "exponent") for stack, row in whole.iterrows()})


claim(
    7,
    "With the table of 280,000 rows frozen the exponent from 3 to 400 tokens stays below 1 on at least one stack.",
    lambda book: frozen_exponents(book).some < 1,
)


def rule_of_thumb(_: Measurements) -> Finding:
    """Whether the GPU of the 2017 post's figures leads by about ten."""
    steps = original.s0().query("vocabulary == 280_000").pivot_table("step_s", "batch", "device")
    lead = steps["CPU"] / steps["GPU"]
    return Finding(bool(lead.between(8, 12).all()), f"{lead.min():.1f} to {lead.max():.1f} times as fast")


claim(
    8,
    "At 280,000 rows the 2017 post's GPU is 10 times as fast as its CPU, to within a fifth, at each of its batches.",
    rule_of_thumb,
    source="S0, C7",
    without=original.FIGURES,
)


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


def least_s() -> float:
    """Seconds that moving a row's bytes takes at the bandwidth that others measured on a K40m."""
    return bytes_a_row() / external.hardware("K40m")["bandwidth measured"]


def swept() -> Measurements:
    """The first machine of the book that has the length swept with the table frozen."""
    return stored.having(stored.of(), frozen_exponents)


def software_exponent(frozen: bool) -> str:
    """The exponent of the 2017 post's software there."""
    return f"{length_exponents(swept(), frozen).loc[SOFTWARE, 'exponent']:.2f}"


def below_one() -> str:
    """How many of that machine's frozen exponents have intervals below 1: "4 of 4"."""
    found = frozen_exponents(swept())
    return f"{sum(one.high < 1 for one in found.values())} of {len(found)}"
