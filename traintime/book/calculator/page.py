"""The calculator's page: a form, its data and its script as one piece of HTML that nothing else loads.

The script alone answers. The few answers in the page's text are Python's, and a test compares them with the script's.
"""

import functools
import html
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traintime import lab
from traintime.book import markup
from traintime.book.calculator import choices, formulas, near
from traintime.book.calculator.choices import NUMBERS, RATES, Number
from traintime.book.plots import PALETTE
from traintime.explain.formula import STEP
from traintime.explain.memory import CONTEXT, memory_model
from traintime.explain.statistics import Interval
from traintime.explain.terms import PARTS, TERMS
from traintime.measuring import stacks
from traintime.point import make_point
from traintime.predict import advice, costs
from traintime.predict.answer import LEVEL, SURE, around
from traintime.predict.cards import THE_DOCUMENTS
from traintime.predict.estimate import conclude
from traintime.predict.evidence import formula_evidence
from traintime.predict.request import ModelDescription, Request
from traintime.store import machines
from traintime.workloads.base import BY_ROW
from traintime.workloads.rnn import Rnn

HERE = Path(__file__).parent
# Pages include these by name (calculator.md, index.md); the first holds everything that moves.
CALCULATOR, EXAMPLES, TWO_STEPS = "calculator.html", "calculator-examples.html", "two-steps.html"
GB = 1e9
DAY, NIGHT = 86_400.0, 8 * 3_600.0
# Up to which value, in a unit of what size, under what name; the last has no end.
SECONDS = (
    (1e-3, 1e-6, "µs"),
    (1.0, 1e-3, "ms"),
    (100.0, 1.0, "s"),
    (6_000.0, 60.0, "min"),
    (2 * DAY, 3_600.0, "h"),
    (730 * DAY, DAY, "days"),
    (None, 365.25 * DAY, "years"),
)
BYTES = ((GB, 1e6, "MB"), (1000 * GB, GB, "GB"), (None, 1000 * GB, "TB"))
A_LINE = 2  # terms of the formula, so that a phone shows it
# One colour a part, as in the figures: grey for a step as such, orange for the update, blue for arithmetic.
COLOURS = dict(zip(PARTS, (PALETTE[each] for each in (7, 0, 2, 1)), strict=True))


# What the script computes with


def usual() -> dict[str, Any]:
    """The settings that the page starts with."""
    numbers = {name: number.usual for name, number in (NUMBERS | RATES).items()}
    its = {"optimizer": "adam", "frozen": False, "machine": machines.reference(), "stack": choices.STACK}
    return numbers | its | {"allocator": costs.USUAL}


@functools.cache
def data() -> dict[str, Any]:
    """All that the script computes with and that is no formula."""
    names, offered = choices.stack_names(), choices.machines()
    return {
        "usual": usual(),
        "numbers": {name: number._asdict() for name, number in (NUMBERS | RATES).items()},
        "rates": list(RATES),
        "terms": {name: term.part for name, term in TERMS.items()},
        "parts": {name: asdict(part) for name, part in PARTS.items()},
        "level": LEVEL,
        # How many standard deviations an interval of this level reaches to either side.
        "z": math.log(around(1.0, (1.0, SURE), level=LEVEL).high),
        "machines": offered,
        "choices": {
            "optimizer": choices.OPTIMIZER_NAMES,
            "machine": {name: each["title"] for name, each in offered.items()},
            "stack": {name: lab.in_words(name) for name in names},
            "allocator": choices.ALLOCATOR_NAMES,
        },
        "deferred": [name for name in names if stacks.ALL[name].api == BY_ROW[choices.DEFERRED]],
        "deferred_above": advice.DEFERRED_ABOVE,
        "costs": {machine: {stack: _plain(near.costs_of(machine, stack)) for stack in names} for machine in offered},
        "set": choices.SET,
        "measured": _measured(),
        "near": near.constants(),
        "holdings": {stack: _held(stack) for stack in names},
        "seconds": SECONDS,
        "bytes": BYTES,
        "context": CONTEXT,
    }


def _plain(found: dict[str, costs.Costs]) -> dict[str, Any]:
    return {allocator: {"seconds": dict(its.seconds), "error": its.error} for allocator, its in found.items()}


def _measured() -> dict[str, dict[str, list[list[Any]]]]:
    """The measured steps by machine and stack: SET, step with its interval (s; None without one), runs, mean step with
    its interval, memory.
    """
    found: dict[str, dict[str, list[list[Any]]]] = {}
    for machine, stack, *row in choices.steps().itertuples(index=False):
        row = [None if pd.isna(each) else float(f"{each:.7g}") if isinstance(each, float) else each for each in row]
        found.setdefault(machine, {}).setdefault(stack, []).append(row)
    return found


def _held(stack: str) -> dict[str, Any]:
    held = memory_model(stack)
    hows = {name: Rnn.model_construct(optimizer=way[0], frozen=way[1]).how for name, way in formulas.WAYS.items()}
    return asdict(held) | {"copies": {name: held.copies_of(how) for name, how in hows.items()}}


# The page


def fragments() -> dict[str, str]:
    """The pieces of HTML that calculator.md and index.md include, by file name."""
    return {CALCULATOR: _calculator(), EXAMPLES: _examples(), TWO_STEPS: _two_steps()}


def values() -> dict[str, str]:
    """What calculator.md names as {{ name }}."""
    terms = STEP.latex_terms()
    lines = [" + ".join(terms[place : place + A_LINE]) for place in range(0, len(terms), A_LINE)]
    aligned = r"t_{\mathrm{step}} ={}& " + "\\\\\n&+ ".join(lines)
    (_, epoch, _), (large, night, _) = answer(), answer(vocabulary=500_000)
    outside = [size / GB for size in choices.outside_pools().values()]
    off = {name: np.exp(logs.abs()) for name, logs in near.left_out()[["formula", "carried"]].items()}
    return {
        "calculator_measured": between(epoch),
        "calculator_context": f"{CONTEXT / GB:.1f} GB",
        "calculator_outside": f"{min(outside):.1f} to {max(outside):.1f} GB",
        "calculator_500k": large,
        "calculator_500k_epoch": between(night),
        "calculator_night": f"{NIGHT // night.value:.0f} ({NIGHT // night.high:.0f} to {NIGHT // night.low:.0f})",
        "calculator_steps": f"{len(near.steps())}",
        "calculator_within": f"{off['carried'].quantile(LEVEL):.2f}",
        "calculator_worst": f"{off['carried'].max():.1f}",
        "calculator_alone": f"{off['formula'].quantile(LEVEL):.2f}",
        "calculator_formula": f"$$\n\\small\\begin{{aligned}}\n{aligned}\n\\end{{aligned}}\n$$",
        "calculator_machine": machines.titles()[machines.reference()],
        "calculator_level": f"{100 * LEVEL:.0f}\u00a0%",
        "calculator_stacks": str(len(choices.stack_names())),
    }


def _calculator() -> str:
    # "<" as an escape: no text in the data can end the element that holds it.
    its = json.dumps(data(), ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    colours = "".join(f"  --calculator-{name}: {colour};\n" for name, colour in COLOURS.items())
    written = "\n".join((HERE / f"{name}.js").read_text() for name in ("curves", "calculator"))
    numbers = {name: _number(name, number) for name, number in (NUMBERS | RATES).items()}
    fields = {"model": ("vocabulary", "embedding", "units", "length"), "training": ("batch", "sentences", "epochs")}
    body = (HERE / "calculator.html").read_text()
    for place, names in (fields | {"rates": tuple(RATES)}).items():
        body = body.replace(f"<!-- {place} -->", "\n".join(numbers[name] for name in names))
    return f"""<style>
#calculator-root {{
{colours}}}
{(HERE / "calculator.css").read_text()}</style>
{body}
<script type="application/json" id="calculator-data">{its}</script>
<script>
(() => {{
"use strict";
{formulas.javascript()}

{written}}})();
</script>
"""


def _number(name: str, number: Number) -> str:
    """A number field with a slider next to it, what it counts, and the place for what is wrong with it."""
    one, step = f"calculator-{name}", "1" if number.whole else "any"
    return f"""<div class="calculator-field">
<label for="{one}">{number.label}</label>
<span class="calculator-hint" id="{one}-hint">{html.escape(number.unit)}</span>
<input type="number" id="{one}" name="{name}" min="{number.lowest}" max="{number.highest:.0f}" step="{step}" required
 aria-describedby="{one}-hint {one}-problem">
<input type="range" data-slider="{name}" aria-label="{number.label}, slider" min="0" max="1" step="1" value="0">
<p class="calculator-problem" id="{one}-problem" data-problem="{name}" hidden></p>
</div>"""


def _two_steps() -> str:
    """Hours from the step times at two batch sizes: a form that starts with the front page's example."""
    batches = {"small": 32, "batch": 128, "large": 1024}
    swept = lab.runs(machines.titles()[machines.reference()], stack=choices.STACK, batch=list(batches.values()))
    step = lab.steps(swept, "batch", "step_s").iloc[0] * 1e3
    starts = {"one": f"{step[batches['small']]:.1f}", "two": f"{step[batches['large']]:.1f}"}
    form = (HERE / "two_steps.html").read_text()
    for place, value in (starts | batches).items():
        form = form.replace(f"<!-- {place} -->", str(value))
    return form


# A few answers in the text


def shown(value: float, units: Sequence[tuple[float | None, float, str]] = SECONDS) -> str:
    """Seconds, or bytes, with two digits that count: "8.4 min"."""
    size, name = next((size, name) for limit, size, name in units if limit is None or value < limit)
    rounded = float(f"{value / size:.2g}")
    return f"{rounded:#.2g} {name}" if rounded < 10 else f"{rounded:,.0f} {name}"


def between(interval: Interval, units: Sequence[tuple[float | None, float, str]] = SECONDS) -> str:
    """A value with its interval, if it has one: "8.4 min (3.8 min to 18 min)"."""
    ends = f" ({shown(interval.low, units)} to {shown(interval.high, units)})" if interval.low > 0 else ""
    return f"{shown(interval.value, units)}{ends}"


def answer(machine: str = "", stack: str = choices.STACK, **sizes: Any) -> tuple[str, Interval, Interval]:
    """A step in words; an epoch, s; and the memory, bytes: measured, or carried over from what was measured near it."""
    machine, its, point = machine or machines.reference(), usual() | sizes, make_point(**sizes)
    device = None if machine in machines.titles() else machine
    model = replace(ModelDescription.from_point(point), stack=stack)
    request = Request(its["sentences"], its["batch"], its["epochs"], device=device, stack=stack)
    rates = None if device else costs.own_rates(machine)
    predicted = conclude(request, formula_evidence(request, model, rates=rates))
    assert predicted.memory
    at = [its[name] for name in choices.SET]
    row = next((row[len(at) :] for row in data()["measured"][machine][stack] if row[: len(at)] == at), None)
    if row is None:
        step, mean, error = near.factors(machine, stack, its)
        step, epoch = (
            around(one.value * factor, (error, SURE), level=LEVEL)
            for one, factor in ((predicted.step, step), (predicted.epoch, mean))
        )
        return between(step), epoch, predicted.memory
    step, low, high, runs, *mean, peak = (math.nan if each is None else each for each in row)
    epoch = Interval(*mean).scaled(predicted.epoch.value / predicted.step.value)
    memory = Interval(peak) if peak > 0 else predicted.memory
    if not runs:  # the post printed two digits
        return f"{shown(step)}, by the 2017 post", epoch, memory
    told = Interval(step, low, high).text(f",.{0 if step > 0.1 else 1}f", 1e3, "ms")
    return f"{told}, {runs} run{'s' * (runs > 1)}", epoch, memory


def _examples() -> str:
    rows: dict[str, dict[str, Any]] = {
        "The 2017 post's network": {},
        "… with a vocabulary of 20,000": {"vocabulary": 20_000},
        "… with a vocabulary of 500,000": {"vocabulary": 500_000},
        "… with batches of 1,024": {"batch": 1_024},
        "… with the table frozen": {"frozen": True},
        "… with the deferred embedding": {"optimizer": choices.DEFERRED},
        "… on a K40m, with Theano 0.9": {"machine": THE_DOCUMENTS, "stack": choices.THEIRS},
    }
    lines = []
    for name, settings in rows.items():
        step, epoch, memory = answer(**settings)
        lines.append([name, step, between(epoch), between(memory, BYTES)])
    return markup.table(["", "a step", "an epoch", "memory"], lines) + "\n"
