"""The calculator's page: a form, its data and its script as one piece of HTML that nothing else loads."""

import functools
import html
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from traintime import lab
from traintime.book import markup
from traintime.book.calculator import choices, formulas
from traintime.book.calculator.answer import (
    LEVEL,
    THEIRS,
    Measured,
    Settings,
    Z,
    answer,
    efficiencies,
    misses,
    on,
    slow_without_vnni,
    steps_of,
    worst_misses,
)
from traintime.book.calculator.choices import Machine, Number
from traintime.book.plots import PALETTE
from traintime.explain.formula import STEP
from traintime.explain.memory import CONTEXT, memory_model
from traintime.explain.statistics import Interval
from traintime.explain.terms import PARTS, TERMS
from traintime.predict import advice
from traintime.predict.cards import THE_DOCUMENTS
from traintime.predict.costs import REACHED, Costs
from traintime.store import machines
from traintime.workloads.rnn import Rnn

HERE = Path(__file__).parent
# Pages include these by name (calculator.md, index.md); the first holds everything that moves.
CALCULATOR, EXAMPLES, TWO_STEPS = "calculator.html", "calculator-examples.html", "two-steps.html"
GB = 1e9
DAY = 86_400.0
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
SET = (*formulas.SIZES, "optimizer", "frozen", "allocator")  # what a measured step depends on, on a machine and stack
NAMED = 2.0  # how far off the worst prediction for a machine and stack has to be for an answer to name it
A_LINE = 2  # terms of the formula, so that a phone shows it
Units = Sequence[tuple[float | None, float, str]]
# One colour a part, as in the figures: grey for a step as such, orange for the update, blue for arithmetic.
COLOURS = dict(zip(PARTS, (PALETTE[each] for each in (7, 0, 2, 1)), strict=True))


def shown(value: float, units: Units = SECONDS) -> str:
    """Seconds, or bytes, with two digits that count: "8.4 min"."""
    size, name = next((size, name) for limit, size, name in units if limit is None or value < limit)
    rounded = float(f"{value / size:.2g}")
    return f"{rounded:#.2g} {name}" if rounded < 10 else f"{rounded:,.0f} {name}"


def between(interval: Interval, units: Units = SECONDS) -> str:
    """A value with its interval, if it has one: "8.4 min (3.8 min to 18 min)"."""
    ends = f" ({shown(interval.low, units)} to {shown(interval.high, units)})" if interval.low > 0 else ""
    return f"{shown(interval.value, units)}{ends}"


def milliseconds(known: Measured) -> str:
    """A measured step as the chapters have it: "146 ms (140 to 152), 5 runs"; the post printed two digits."""
    if not known.runs:
        return f"{shown(known.step.value)}, by the 2017 post"
    step = known.step.text(f",.{0 if known.step.value > 0.1 else 1}f", 1e3, "ms")
    return f"{step}, {known.runs} run{'s' * (known.runs > 1)}"


@functools.cache
def data() -> dict[str, Any]:
    """All that the script computes with and that is no formula."""
    offered, names = choices.machines(), choices.stack_names()
    reached = (
        "Give what your machine reaches, not what its data sheet promises: of that we take "
        f"{_percent(REACHED['float32 peak'])} for arithmetic and {_percent(REACHED['bandwidth peak'])} for memory. "
        "The software's efficiency factors come from processors, not from cards."
    )
    other = Machine(choices.BY_RATES, "Another machine, by its rates", reached)
    return {
        "usual": asdict(Settings()),
        "numbers": {number.name: asdict(number) for number in choices.SIZES + choices.RATES},
        "rates": [number.name for number in choices.RATES],
        "curves": choices.CURVES,
        "terms": {name: term.part for name, term in TERMS.items()},
        "parts": {name: asdict(part) for name, part in PARTS.items()},
        "changes": [asdict(change) for change in choices.CHANGES],
        "worth": choices.WORTH,
        "level": LEVEL,
        "z": Z,
        "machines": {name: asdict(machine) for name, machine in (offered | {other.name: other}).items()},
        "deferred": choices.with_deferred(),
        "deferred_above": advice.DEFERRED_ABOVE,
        "costs": {
            machine: {stack: _costs_under(functools.partial(on, machine, stack), machine, stack) for stack in names}
            for machine in offered
        },
        "efficiencies": {
            stack: _costs_under(functools.partial(efficiencies, stack), choices.BY_RATES, stack) for stack in names
        },
        "sizes": formulas.SIZES,
        "measured": {machine: _measured(machine) for machine in offered},
        "misses": {machine: _misses(machine) for machine in offered},
        "without_vnni": slow_without_vnni(),
        "holdings": {stack: _held(stack) for stack in names},
        "seconds": SECONDS,
        "bytes": BYTES,
        "context": CONTEXT,
    }


def _costs_under(under: Callable[[str], Costs], machine: str, stack: str) -> dict[str, Any]:
    """Costs by allocator."""
    found = {allocator: under(allocator) for allocator in choices.allocators(machine, stack)}
    return {allocator: {"seconds": dict(its.seconds), "error": its.error} for allocator, its in found.items()}


def _measured(machine: str) -> dict[str, list[list[Any]]]:
    """The classifier's steps on a machine, by stack: sizes, way to train, allocator, step with its interval (s; None
    without one), runs, mean step with its interval.
    """
    found: dict[str, list[list[Any]]] = {}
    for its, known in steps_of(machine).items():
        step, mean = (
            [None if math.isnan(value) else float(f"{value:.7g}") for value in (each.value, each.low, each.high)]
            for each in (known.step, known.mean)
        )
        way, sizes = its.optimizer + formulas.FROZEN * its.frozen, [getattr(its, name) for name in formulas.SIZES]
        found.setdefault(its.stack, []).append([sizes, way, its.allocator, *step, known.runs, *mean])
    return found


def _misses(machine: str) -> dict[str, Any]:
    """The worst prediction for each stack on a machine, where it is NAMED: how far off, where, and these settings."""
    found: dict[str, Any] = {}
    for ratio, at in misses(machine):
        if at.stack not in found and max(ratio, 1 / ratio) > NAMED:
            its = {name: getattr(at, name) for name in SET}
            found[at.stack] = {"off": _far(ratio), "where": _where(at), "at": its}
    return found


def _far(ratio: float) -> str:
    """How far off a prediction was; ratio: of measured to predicted."""
    off = f"{max(ratio, 1 / ratio):#.2g}".rstrip(".")
    return f"{off} times too {'short' if ratio > 1 else 'long'}"


def _where(at: Settings) -> str:
    """What differs from the sizes of the 2017 post, in words."""
    usual, named = Settings(machine=at.machine), {"frozen": "a frozen table", "allocator": at.allocator}
    named["optimizer"] = choices.OPTIMIZER_NAMES[at.optimizer]
    values = {name: getattr(at, name) for name in SET}
    words = [named.get(name) or f"{name} {value:,}" for name, value in values.items() if value != getattr(usual, name)]
    return ", ".join(words) or "the sizes of the 2017 post"


def _worst() -> str:
    """The worst predictions of all machines and stacks, folded: measured against predicted steps."""
    heads, rows = ["machine", "software", "sizes", "measured", "predicted", "the prediction is"], []
    for ratio, at in worst_misses():
        known, title = steps_of(at.machine)[at], choices.machines()[at.machine].title.split(" (")[0]
        took_s, once = known.step.value, " (one run)" * (known.runs == 1)
        rows.append([title, at.stack, _where(at), shown(took_s) + once, shown(took_s / ratio), _far(ratio)])
    return markup.fold("The formula's ten worst misses among all measured steps", markup.table(heads, rows))


def _held(stack: str) -> dict[str, Any]:
    held = memory_model(stack)
    hows = {name: Rnn.model_construct(optimizer=way[0], frozen=way[1]).how for name, way in formulas.WAYS.items()}
    its = {name: value for name, value in asdict(held).items() if name not in ("stack", "copies")}
    return its | {"copies": {name: held.copies_of(how) for name, how in hows.items()}}


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"


def fragments() -> dict[str, str]:
    """The pieces of HTML that calculator.md and index.md include, by file name."""
    return {CALCULATOR: _calculator(), EXAMPLES: _examples(), TWO_STEPS: _two_steps()}


def values() -> dict[str, str]:
    """What calculator.md names as {{ name }}."""
    terms = STEP.latex_terms()
    lines = [" + ".join(terms[place : place + A_LINE]) for place in range(0, len(terms), A_LINE)]
    aligned = r"t_{\mathrm{step}} ={}& " + "\\\\\n&+ ".join(lines)
    first = answer(Settings())
    assert first.measured
    return {
        "calculator_measured": between(first.from_measured(first.epoch)),
        "calculator_epoch": between(first.epoch),
        "calculator_memory": between(first.peak, BYTES),
        "calculator_formula": f"$$\n\\small\\begin{{aligned}}\n{aligned}\n\\end{{aligned}}\n$$",
        "calculator_machine": machines.titles()[Settings().machine],
        "calculator_level": _percent(LEVEL),
        "calculator_stacks": str(len(choices.stack_names())),
    }


def _calculator() -> str:
    # "<" as an escape: no text in the data can end the element that holds it.
    its = json.dumps(data(), ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    colours = "".join(f"  --calculator-{name}: {colour};\n" for name, colour in COLOURS.items())
    style = f"#calculator-root {{\n{colours}}}\n{(HERE / 'calculator.css').read_text()}"
    written = "\n".join((HERE / f"{name}.js").read_text() for name in ("curves", "calculator"))
    script = f'(() => {{\n"use strict";\n{formulas.javascript()}\n\n{written}}})();'
    body = (HERE / "calculator.html").read_text()
    for place, made in _places().items():
        body = body.replace(f"<!-- {place} -->", made)
    return f"""<style>
{style}</style>
{body}
<script type="application/json" id="calculator-data">{its}</script>
<script>
{script}
</script>
"""


def _two_steps() -> str:
    """Hours from the step times at two batch sizes: a form that starts with the front page's example."""
    batches = {"small": 32, "batch": 128, "large": 1024}
    swept = lab.runs(machines.titles()[machines.reference()], stack="2026-tensorflow", batch=list(batches.values()))
    step = lab.steps(swept, "batch", "step_s").iloc[0] * 1e3
    usual = {"one": f"{step[batches['small']]:.1f}", "two": f"{step[batches['large']]:.1f}"}
    usual |= {name: str(size) for name, size in batches.items()}
    form = (HERE / "two_steps.html").read_text()
    for place, value in usual.items():
        form = form.replace(f"<!-- {place} -->", value)
    return form


def _places() -> dict[str, str]:
    """What replaces each comment in calculator.html."""
    numbers = {name: _number(number) for name, number in choices.NUMBERS.items()}
    offered = {name: each["title"] for name, each in data()["machines"].items()}
    model, training = ("vocabulary", "embedding", "units", "length"), ("batch", "sentences", "epochs")
    return {
        "worst": _worst(),
        "model": "\n".join(numbers[name] for name in model),
        "training": "\n".join(numbers[name] for name in training),
        "rates": "\n".join(numbers[number.name] for number in choices.RATES),
        "optimizers": _options(choices.OPTIMIZER_NAMES, "adam"),
        "machines": _options(offered, Settings().machine),
        "stacks": _options({name: name for name in choices.stack_names()}, choices.STACK),
        "allocators": _options(choices.ALLOCATOR_NAMES, Settings().allocator),
        "curves": "\n".join(f'<div class="calculator-curve" data-curve="{name}"></div>' for name in choices.CURVES),
    }


def _options(titles: dict[str, str], chosen: str) -> str:
    return "\n".join(
        f'<option value="{html.escape(name)}"{" selected" * (name == chosen)}>{html.escape(title)}</option>'
        for name, title in titles.items()
    )


def _number(number: Number) -> str:
    """A number field with a slider next to it, what it counts, and the place for what is wrong with it."""
    one, step = f"calculator-{number.name}", "1" if number.whole else "any"
    values = (number.lowest, number.highest, number.usual)
    least, most, usual = (f"{value:g}" if value < 1 else f"{value:.0f}" for value in values)
    return f"""<div class="calculator-field">
<label for="{one}">{number.label}</label>
<span class="calculator-hint" id="{one}-hint">{html.escape(number.unit)}</span>
<input type="number" id="{one}" name="{number.name}" min="{least}" max="{most}" step="{step}" value="{usual}" required
 aria-describedby="{one}-hint {one}-problem">
<input type="range" data-slider="{number.name}" aria-label="{number.label}, slider" min="0" max="1" step="1" value="0">
<p class="calculator-problem" id="{one}-problem" data-problem="{number.name}" hidden></p>
</div>"""


def _examples() -> str:
    rows = {
        "The 2017 post's network": Settings(),
        "… with a vocabulary of 20,000": Settings(vocabulary=20_000),
        "… with batches of 1,024": Settings(batch=1_024),
        "… with the table frozen": Settings(frozen=True),
        "… with the deferred embedding": Settings(optimizer=choices.DEFERRED),
        "… on a K40m, with Theano 0.9": Settings(machine=THE_DOCUMENTS, stack=THEIRS),
    }
    lines = []
    for name, settings in rows.items():
        its = answer(settings)
        step, epoch = (milliseconds(its.measured), its.from_measured(its.epoch)) if its.measured else ("", its.epoch)
        lines.append([name, step, between(its.step), between(epoch), between(its.peak, BYTES)])
    heads = ["", "step, measured", "step, predicted", "epoch", "memory, predicted"]
    return markup.table(heads, lines) + "\n"
