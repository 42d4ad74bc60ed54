"""Chapter 01, the question: what the document's two tables say by arithmetic alone, and what our machines say to that.

Its claims are judged on the document's own figures, and on the same six cells measured on Theano of 2017.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from traintime.book import external, original, stored
from traintime.book.claims import Claim, Finding, above, below, every
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula
from traintime.explain.formula import Fit
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import UPDATE_BYTES

DOCUMENT = "the document's figures"
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


def coefficients(fits: dict[str, Fit]) -> list[list[str]]:
    """Rows of a table: each coefficient with its interval, three digits, and the mean error; a column a device."""
    units = {"a": (1e3, "ms a step"), "b": (1e9, "ns a row"), "c": (1e3, "ms a sentence")}
    rows = []
    for name, (scale, unit) in units.items():
        found = [fit.interval(name).scaled(scale) for fit in fits.values()]
        texts = [[f"{float(f'{x:.3g}'):g}" for x in (one.value, one.low, one.high)] for one in found]
        rows.append([f"${name}$, {unit}", *("{} ({} to {})".format(*text) for text in texts)])
    return [*rows, ["mean error", *(f"{fit.mean_error:.1%}" for fit in fits.values())]]


def values(lines: dict[str, Fit], fits: dict[str, Fit]) -> dict[str, str]:
    """The numbers of the chapter's prose. lines, fits: device -> straight line, formula with three terms."""
    found = {}
    for device, line in lines.items():
        found |= {
            f"{device}-line-start": f"{line.coefficients['a'] * 1e3:.0f} ms",
            f"{device}-line-slope": f"{line.coefficients['b'] * 1e9:.0f} ns",
            f"{device}-line-error": f"{np.abs(line.errors).max():.1%}",
        }
    row_bytes = UPDATE_BYTES["adam"] * make_point().sizes.embedding
    k40m = external.hardware("K40m")
    least_s, seen_s = row_bytes / k40m["bandwidth measured"], lines["GPU"].coefficients["b"]
    found |= {
        "row-bytes": f"{row_bytes:,}",
        "row-k40m": f"{k40m['bandwidth measured'] / 1e9:.1f} GB/s",
        "row-k40m-peak": f"{k40m['bandwidth peak'] / 1e9:.0f}",
        "row-least": f"{least_s * 1e9:.0f} ns",
        "row-seen": f"{seen_s * 1e9:.0f} ns",
        "row-over": f"{seen_s / least_s:.1f}",
    }
    gpu = fits["GPU"].parts(FAVOURITE).iloc[0] * 1e3
    found |= {
        "GPU-error": f"{fits['GPU'].mean_error:.1%}",
        "CPU-error": f"{fits['CPU'].mean_error:.1%}",
        "GPU-step": f"{gpu.sum():.0f} ms",
        "GPU-fixed": f"{gpu['a'] + gpu['b']:.0f} ms",
        "GPU-a": f"{gpu['a']:.0f} ms",
        "GPU-b": f"{gpu['b']:.0f} ms",
        "GPU-c": f"{gpu['c']:.0f} ms",
    }
    for device, fit in fits.items():
        found[f"{device}-table-share"] = _percent(share(fit, ["b"]))
    for name, limit in limits(fits).items():
        found |= {f"limit-{name}": f"{limit.value:.1f}", f"limit-{name}-range": f"{limit.low:.1f} to {limit.high:.1f}"}
    return found | {f"exponent-{name}": f"{one.value:.2f}" for name, one in exponents(fits["GPU"]).items()}


def _percent(share: Interval) -> str:
    return share.text(".0f", 100, "%")


# Claims


def _three_terms(measurements: Measurements) -> Finding | None:
    found = {name: fit.mean_error for name, fit in fits(measurements).items()}
    return _at_most(found, 0.1)


def _straight(measurements: Measurements) -> Finding | None:
    return _at_most(line_errors(measurements), 0.1)


def _at_most(errors: dict[str, float], most: float) -> Finding | None:
    shown = ", ".join(f"{name} {error:.1%}" for name, error in errors.items())
    return Finding(every(*(error <= most for error in errors.values())), shown)


def _shares_above(found: dict[str, Interval], least: float) -> Finding | None:
    """Whether each share lies above `least`, by its interval."""
    holds = every(*(above(one, least) for one in found.values()))
    return Finding(holds, ", ".join(f"{name} {_percent(one)}" for name, one in found.items()))


def _fixed(measurements: Measurements) -> Finding | None:
    return _shares_above({name: share(fit, ["a", "b"]) for name, fit in fits(measurements).items()}, 0.5)


def _table(measurements: Measurements) -> Finding | None:
    return _shares_above({name: share(fit, ["b"]) for name, fit in fits(measurements).items()}, 0.5)


def _lead(measurements: Measurements) -> Finding | None:
    found = limits(fits(measurements))
    holds = every(*(below(one, 20) for one in found.values()))
    shown = "; ".join(f"{name} {found[key].text('.1f')}" for name, key in (("rows", "b"), ("sentences", "c")))
    return Finding(holds, shown)


def _length(measurements: Measurements) -> Finding | None:
    if measurements.machine == DOCUMENT:
        both = [exponents(fit) for fit in fits(measurements).values()]
        low, high = min(one["low"].low for one in both), max(one["high"].high for one in both)
        return Finding(high < 1, f"from the other tables, {low:.2f} to {high:.2f}")
    points = measurements.points(stack=SOFTWARE, vocabulary=280_000, length=ANY)
    row = measurements.exponents(points, "length").iloc[0]
    one = stored.interval(row, "exponent")
    return Finding(below(one, 1), f"{SOFTWARE} {one.text()} from {row['from']} to {row['to']} tokens")


CLAIMS = [
    Claim(
        "01.1",
        "On the document's software a step is a straight line in the vocabulary: through 20,000, 280,000 and 2 million "
        "rows it misses none by more than 10 %.",
        "ours, from S0's tables",
        _straight,
    ),
    Claim(
        "01.2",
        "One formula with three terms, a part for the step, one for each row and one for each sentence, gives the six "
        "cells over vocabulary and batch back with a mean error of at most 10 %.",
        "ours, from S0's tables",
        _three_terms,
    ),
    Claim(
        "01.3",
        "At 280,000 rows and batch 100 more than half of a step is paid whatever the batch.",
        "ours, from S0's tables",
        _fixed,
    ),
    Claim(
        "01.4",
        "At 280,000 rows and batch 100 more than half of a step is paid for the rows of the table.",
        "ours, from S0's tables",
        _table,
    ),
    Claim(
        "01.5",
        "The GPU's lead over the CPU stays below 20, whether the vocabulary grows or the batch.",
        "ours, against S0, C2",
        _lead,
    ),
    Claim(
        "01.6",
        "With 280,000 rows time grows less than in proportion to the length of the sentences.",
        "S0, C4",
        _length,
    ),
]
