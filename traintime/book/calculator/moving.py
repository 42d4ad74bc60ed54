"""A figure that moves: measured steps, the line of the formula that is fitted to them, and a slider for each size.

moving.js draws the figure in a browser. It has no formula of its own: a line is a sum of costs, each with the power of
every size that it is multiplied by, as sympy expands the formula. The data lie in the page. Where no script runs, on
paper and in JupyterLab nothing of the figure is shown.
"""

import functools
import html
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import sympy
from IPython.display import HTML

from traintime import lab
from traintime.explain import formula as formulas
from traintime.explain.formula import SIZES, B, Fit, Formula, L
from traintime.workloads.rnn import Rnn

SCRIPT = Path(__file__).with_name("moving.js")  # the build copies it into _static
# One LSTM: a per-step overhead, each time step that waits for the one before, each token of the batch.
POSITIONS = Formula({"a": sympy.Integer(1), "l": L, "c": B * L})
ROUND = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)  # tenths of a power of ten at which a slider stops
Lines = Mapping[str, tuple[pd.DataFrame, Fit]]


@dataclass(frozen=True)
class Kind:
    """What a figure shows. sizes: what each slider is called, and what it counts; start: where it is at first;
    chosen: the first line; lines: what a line is, and formula: where the formula is explained, in HTML.
    """

    sizes: Mapping[str, tuple[str, str]]
    start: Mapping[str, int]
    chosen: str
    lines: str
    formula: str


CLASSIFIER = Kind(
    {"vocabulary": ("Vocabulary", "rows"), "batch": ("Batch", "sentences"), "length": ("Length", "tokens")},
    {name: Rnn.model_fields[name].default for name in SIZES.values()},
    "2026-tensorflow",
    "Stack",
    'the sum of four costs (<a href="14-one-formula.html">chapter 14</a>)',
)
LSTM = Kind(
    {"length": ("Length", "time steps"), "batch": ("Batch", "sequences")},
    {"length": 50, "batch": 32},
    "2026-tensorflow, loop",
    "Stack and way",
    "the sum of three costs above",
)


def classifier(machine: str, against: str, formula: str = CLASSIFIER.formula) -> HTML:
    """The 2017 post's classifier on a machine, a line a stack, against a size: "vocabulary", "batch" or "length"."""
    return figure(replace(CLASSIFIER, formula=formula), fitted(machine), against, machine)


@functools.cache
def fitted(machine: str) -> dict[str, tuple[pd.DataFrame, Fit]]:
    """Each stack's steps of the classifier on a machine, and the sum of four costs fitted to them, as in chapter 14.

    A cost needs three values of its size, and a fit two steps more than costs.
    """
    steps = lab.configurations(machine, **dict.fromkeys(CLASSIFIER.sizes, ...))
    steps = steps.astype(dict.fromkeys(CLASSIFIER.sizes, int))
    lines = {}
    for stack, rows in steps.groupby("stack"):
        rows = formulas.varied(rows)
        shape, seconds = formulas.shape(rows), rows["step_s"].to_numpy()
        if "b" in shape.terms and len(rows) >= len(shape.terms) + 2:
            lines[stack] = rows, formulas.fit(shape, rows, seconds, seconds[None])
    return lines


def lstm(lines: Mapping[str, tuple[pd.DataFrame, Mapping[str, float]]], title: str) -> HTML:
    """One LSTM on a machine, a line each, against the time steps: points as in `figure`; costs a, l and c, s."""
    fits = {
        name: (rows, Fit(POSITIONS, {cost: costs[cost] for cost in POSITIONS.terms}, pd.DataFrame(), np.array([])))
        for name, (rows, costs) in lines.items()
    }
    return figure(LSTM, fits, "length", title)


def figure(kind: Kind, lines: Lines, against: str, title: str) -> HTML:
    """The figure as HTML; empty without a line.

    lines: for each its name, the measured points (columns: the sizes, step_s, low_s, high_s, in s), and the fit to
    them; against: the size on the horizontal axis; title: of the machine that measured them.
    """
    if not lines:
        return HTML("")
    chosen = kind.chosen if kind.chosen in lines else next(iter(lines))
    measured = pd.concat([rows for rows, _ in lines.values()])
    stopping = {name: stops(measured[name]) for name in kind.sizes}
    data = {
        "sizes": [{"unit": unit, "stops": stopping[name]} for name, (_, unit) in kind.sizes.items()],
        "lines": [
            {"costs": costs(fit, kind.sizes), "points": _points(rows, kind.sizes)} for rows, fit in lines.values()
        ],
    }
    axes = {label: label == kind.sizes[against][0] for label, _ in kind.sizes.values()}
    sliders = [_slider(name, *words, stopping[name], kind.start[name]) for name, words in kind.sizes.items()]
    return HTML(
        f"""<div class="moving" style="display: none" role="group" aria-labelledby="moving-title">
<p id="moving-title"><strong>Move the sizes.</strong> Dots: steps measured on {html.escape(title)}, with 95\u00a0%
intervals. Line: {kind.formula}. Grey: all others.</p>
<div class="moving-fields">
{_select("line", kind.lines, {name: name == chosen for name in lines})}
{_select("axis", "Horizontal axis", axes)}
</div>
<svg role="group" aria-label="The measured steps; arrow keys go from one to the next"><g></g></svg>
<p class="moving-reading" aria-live="polite"></p>
<div class="moving-fields">
{"".join(sliders)}</div>
<script type="application/json">{json.dumps(data, allow_nan=False, separators=(",", ":"))}</script>
</div>
<noscript><style>.bd-article .moving {{ display: none !important; }}</style></noscript>
<script defer src="../_static/{SCRIPT.name}"></script>"""
    )


def costs(fit: Fit, sizes: Iterable[str]) -> list[list[float]]:
    """The fit as a sum: for each summand its cost (s), then the power of each size by which it is multiplied."""
    symbols = {name: sympy.Symbol(letter, positive=True) for letter, name in SIZES.items()}
    named = [symbols[name] for name in sizes]
    return [
        [fit.coefficients[name] * float(factor), *powers]
        for name, term in fit.formula.terms.items()
        for powers, factor in sympy.Poly(term, *named).terms()
    ]


def stops(measured: Iterable[int]) -> list[int]:
    """Where a slider stops: at every measured size, and at round ones between the least and the largest."""
    found = {int(size) for size in measured}
    even = {part * 10**power // 10 for part in ROUND for power in range(8) if part * 10**power % 10 == 0}
    return sorted(found | {size for size in even if min(found) < size < max(found)})


def _points(rows: pd.DataFrame, sizes: Iterable[str]) -> list[list[float | None]]:
    """For each point its sizes, then the step with the ends of its interval (s): None where it was measured once, or so
    seldom that the interval reaches below zero.
    """
    names = [*sizes, "step_s", "low_s", "high_s"]
    rows = rows[names].astype({"low_s": float, "high_s": float})
    rows.loc[~(rows["low_s"] > 0), ["low_s", "high_s"]] = float("nan")
    return [[None if pd.isna(value) else value for value in row] for row in rows.astype(object).to_numpy()]


def _select(name: str, label: str, options: Mapping[str, bool]) -> str:
    """A choice; options: what can be chosen, and whether it is at first."""
    inside = "".join(f"<option{' selected' * first}>{html.escape(each)}</option>" for each, first in options.items())
    return f'<div><label for="moving-{name}">{label}</label><select id="moving-{name}">{inside}</select></div>'


def _slider(name: str, label: str, unit: str, values: list[int], start: int) -> str:
    """A slider over the places in a list of values, which the script puts into words."""
    place = min(range(len(values)), key=lambda index: abs(values[index] - start))
    return f"""<div><label for="moving-{name}">{label}</label> <span>{values[place]:,} {unit}</span>
<input type="range" id="moving-{name}" min="0" max="{len(values) - 1}" step="1" value="{place}"></div>
"""
