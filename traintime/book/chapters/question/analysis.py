"""Chapter 01, the question: what the document's two tables say by arithmetic alone, and what our machines say to that.

Its claims are judged on the document's own figures, and on the same six cells measured on Theano of 2017.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from traintime.book import original
from traintime.book.stored import Measurements
from traintime.explain import formula
from traintime.explain.formula import Fit
from traintime.explain.statistics import Interval
from traintime.point import make_point

DOCUMENT = original.FIGURES
SOFTWARE = "2017-theano"  # the document's
VOCABULARIES, BATCHES = [20_000, 280_000, 2_000_000], [32, 128, 1024]  # of its two tables
FAVOURITE = pd.DataFrame({"vocabulary": [280_000], "batch": [100]})
SENTENCES = 1_000_000


# The two tables, the document's and ours


def document() -> Measurements:
    """The document's twelve cells, to stand beside the machines in the chapter's table of claims."""
    return Measurements(original.s0().assign(protocol=""), DOCUMENT)


def cells(measurements: Measurements) -> dict[str, pd.DataFrame]:
    """The two tables' six cells, seconds a step: of each device of the document, of a machine on Theano of 2017.

    A machine that lacks one of the six has none.
    """
    if measurements.machine == DOCUMENT:
        return dict(iter(measurements.rows.groupby("device")))
    parts = [
        measurements.points(stack=SOFTWARE, vocabulary=VOCABULARIES),
        measurements.points(stack=SOFTWARE, vocabulary=280_000, batch=BATCHES),
    ]
    found = pd.concat(parts).dropna(subset="step_s")
    return {SOFTWARE: found} if len(found) == len(VOCABULARIES) + len(BATCHES) else {}


def fits(measurements: Measurements) -> dict[str, Fit]:
    """The formula with three terms, fitted to the six cells of each device, or of the document's software."""
    if measurements.machine == DOCUMENT:
        return original.s0_fits()
    found = {}
    for name, rows in cells(measurements).items():
        seconds = rows["step_s"].to_numpy()
        redraw = formula.repeated(seconds, rows["invocations"].to_numpy(), measurements.spread(name, "step_s"))
        found[name] = formula.fit(formula.THREE_TERMS, rows, seconds, redraw)
    return found


def line_errors(measurements: Measurements) -> dict[str, float]:
    """The largest relative error of a straight line through the three vocabularies."""
    errors = {}
    for name, rows in cells(measurements).items():
        rows = rows[rows["batch"] == 100]
        seconds = rows["step_s"].to_numpy()
        fit = formula.fit(formula.STRAIGHT_LINE, rows, seconds, lambda random, same=seconds: same, draws=1)
        errors[name] = float(np.abs(fit.errors).max())
    return errors


# What the fits say


def share(fit: Fit, terms: Iterable[str]) -> Interval:
    """Share of these terms in a step at the document's favourite point, 280,000 rows and batch 100."""
    each = fit.draws * fit.formula.design(FAVOURITE)[0]
    value = fit.parts(FAVOURITE).iloc[0]
    return formula.interval(
        each[list(terms)].sum(axis=1) / each.sum(axis=1), float(value[list(terms)].sum() / value.sum())
    )


def limits(fits: dict[str, Fit]) -> dict[str, Interval]:
    """Where the GPU's lead over the CPU ends as one term outgrows the others: the ratio of its coefficients."""
    cpu, gpu = fits["CPU"], fits["GPU"]
    return {
        name: formula.interval(cpu.draws[name] / gpu.draws[name], cpu.coefficients[name] / gpu.coefficients[name])
        for name in ("b", "c")
    }


def exponents(fit: Fit) -> dict[str, Interval]:
    """Apparent exponent in the length at 25 tokens where the fixed part stays as it is (low), and where it grows."""
    return {"low": share(fit, ["c"]), "high": share(fit, ["a", "c"])}


def percent(share: Interval) -> str:
    return share.text(".0f", 100, "%")


def lost(gpu: Fit, lengths: Sequence[int]) -> pd.DataFrame:
    """Seconds of an epoch at each sentence length, by the GPU's prices: if none of its fixed part grew, and if all did.

    Index length; columns low_s, high_s.
    """
    price, ratio = gpu.coefficients, np.array(lengths) / make_point().sizes.length
    table, sentences = price["b"] * FAVOURITE["vocabulary"][0], price["c"] * FAVOURITE["batch"][0] * ratio
    ends = [price["a"] + table + sentences, price["a"] * ratio + table + sentences]
    steps = SENTENCES / FAVOURITE["batch"][0]
    found = pd.DataFrame({"low_s": np.minimum(*ends), "high_s": np.maximum(*ends)}) * steps
    return found.set_index(pd.Index(lengths, name="length"))
