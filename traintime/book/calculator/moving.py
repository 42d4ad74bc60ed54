"""A figure that moves: measured steps, the line of the formula that is fitted to them, and a slider for each size.

moving.js draws the figure in a browser. It has no formula of its own: a line is a sum of costs, each with the power of
every size that it is multiplied by. The data lie in the page. Where no script runs, on
paper and in JupyterLab nothing of the figure is shown.
"""

import functools
import html
import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import sympy
from IPython.display import HTML

from traintime import lab
from traintime.explain import formula as formulas
from traintime.explain.formula import SIZES, Fit
from traintime.workloads.rnn import Rnn

SCRIPT = Path(__file__).with_name("moving.js")  # the build copies it into _static
ROUND = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)  # tenths of a power of ten at which a slider stops
# What each slider is called, what it counts, and where it is at first.
CLASSIFIER = {
    "vocabulary": ("Vocabulary", "rows", Rnn().vocabulary),
    "batch": ("Batch", "sentences", Rnn().batch),
    "length": ("Length", "tokens", Rnn().length),
}
FORMULA = 'the sum of four costs (<a href="15-one-formula.html">chapter 15</a>)'


def classifier(machine: str, against: str, formula: str = FORMULA) -> HTML:
    """The 2017 post's classifier on a machine, a line a stack; empty without a line. against: the size on the axis,
    "vocabulary", "batch" or "length"; formula: what the line is, in HTML.
    """
    lines = fitted(machine)
    if not lines:
        return HTML("")
    measured = pd.concat([rows for rows, _ in lines.values()])
    stopping = {name: stops(measured[name]) for name in CLASSIFIER}
    data = {
        "sizes": [{"unit": unit, "stops": stopping[name]} for name, (_, unit, _) in CLASSIFIER.items()],
        "lines": [{"costs": _summands(fit), "points": _points(rows)} for rows, fit in lines.values()],
    }
    axes = [label for label, _, _ in CLASSIFIER.values()]
    sliders = [_slider(name, *about, stopping[name]) for name, about in CLASSIFIER.items()]
    return HTML(
        f"""<div class="moving" style="display: none" role="group" aria-labelledby="moving-title">
<p id="moving-title"><strong>Move the sizes.</strong> Dots: steps measured on {html.escape(machine)}, with 95\u00a0%
intervals. Line: {formula}. Grey: all others.</p>
<div class="moving-fields">
{_select("line", "Software", lines, "2026-tensorflow")}
{_select("axis", "Horizontal axis", axes, CLASSIFIER[against][0])}
</div>
<svg role="img" aria-label="Measured steps and the line; the sliders stop at each of these steps"><g></g></svg>
<p class="moving-reading" aria-live="polite"></p>
<div class="moving-fields">
{"".join(sliders)}</div>
<script type="application/json">{json.dumps(data, allow_nan=False, separators=(",", ":"))}</script>
</div>
<noscript><style>.bd-article .moving {{ display: none !important; }}</style></noscript>
<script defer src="../_static/{SCRIPT.name}"></script>"""
    )


@functools.cache
def fitted(machine: str) -> dict[str, tuple[pd.DataFrame, Fit]]:
    """Each stack's steps of the classifier on a machine, and the sum of four costs fitted to them, as in chapter 15.

    A cost needs three values of its size, and a fit two steps more than costs.
    """
    steps = lab.configurations(machine, **dict.fromkeys(CLASSIFIER, ...))
    steps = steps.astype(dict.fromkeys(CLASSIFIER, int))
    lines = {}
    for stack, rows in steps.groupby("stack"):
        rows = formulas.varied(rows)
        shape, seconds = formulas.shape(rows), rows["step_s"].to_numpy()
        if "b" in shape.terms and len(rows) >= len(shape.terms) + 2:
            lines[stack] = rows, formulas.fit(shape, rows, seconds, seconds[None])
    return lines


def _summands(fit: Fit) -> list[list[float]]:
    """For each term its cost (s), then the power of each size by which it is multiplied."""
    symbols = {name: sympy.Symbol(letter, positive=True) for letter, name in SIZES.items()}
    powers = {name: term.as_powers_dict() for name, term in fit.formula.terms.items()}
    costs = fit.coefficients
    return [[costs[name], *(int(each[symbols[size]]) for size in CLASSIFIER)] for name, each in powers.items()]


def stops(measured: Iterable[int]) -> list[int]:
    """Where a slider stops: at every measured size, and at round ones between the least and the largest."""
    found = {int(size) for size in measured}
    even = {part * 10**power // 10 for part in ROUND for power in range(8) if part * 10**power % 10 == 0}
    return sorted(found | {size for size in even if min(found) < size < max(found)})


def _points(rows: pd.DataFrame) -> list[list[float | None]]:
    """For each point its sizes, then the step with the ends of its interval (s): None where it was measured once, or so
    seldom that the interval reaches below zero.
    """
    names = [*CLASSIFIER, "step_s", "low_s", "high_s"]
    rows = rows[names].astype({"low_s": float, "high_s": float})
    rows.loc[~(rows["low_s"] > 0), ["low_s", "high_s"]] = float("nan")
    return [[None if pd.isna(value) else value for value in row] for row in rows.astype(object).to_numpy()]


def _select(name: str, label: str, options: Iterable[str], first: str) -> str:
    words, first = map(lab.in_words, options), lab.in_words(first)
    inside = "".join(f"<option{' selected' * (each == first)}>{html.escape(each)}</option>" for each in words)
    return f'<div><label for="moving-{name}">{label}</label><select id="moving-{name}">{inside}</select></div>'


def _slider(name: str, label: str, unit: str, start: int, values: list[int]) -> str:
    """A slider over the places in a list of values, which the script puts into words."""
    place = min(range(len(values)), key=lambda index: abs(values[index] - start))
    return f"""<div><label for="moving-{name}">{label}</label> <span>{values[place]:,} {unit}</span>
<input type="range" id="moving-{name}" min="0" max="{len(values) - 1}" step="1" value="{place}"></div>
"""
