"""The closed forms that the calculator needs, printed as JavaScript from those that the package computes with.

Each is asked for its answer with symbols in the place of numbers: the classifier's Work, a step's terms, the costs at
a device's rates, the peak of memory. None of them is written a second time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import sympy

from traintime.explain.memory import MemoryModel
from traintime.explain.terms import TERMS
from traintime.predict.costs import FIXED, Rates
from traintime.workloads.base import Work
from traintime.workloads.rnn import Rnn

SIZES = ("vocabulary", "embedding", "units", "length", "batch")
OPTIMIZERS = ("adam", "sgd", "momentum", "rmsprop", "adam-deferred")
FROZEN = " frozen"  # after an optimizer's name: the table is not trained
# Ways to train: name -> optimizer, and whether the table is frozen.
WAYS = {name + FROZEN * frozen: (name, frozen) for name in OPTIMIZERS for frozen in (False, True)}
WHOLE = {"integer": True, "positive": True}
Expressions = dict[str, sympy.Expr]


def unknown(names: Iterable[str], **known: bool) -> dict[str, Any]:
    """Numbers that are not known yet, by name. known: what sympy may assume of all of them (WHOLE)."""
    return {name: sympy.Symbol(name, **known) for name in names}


def work(optimizer: str, frozen: bool) -> Expressions:
    """Each field of the classifier's Work, in SIZES."""
    # Without validation, which would refuse a symbol.
    sizes = Rnn.model_construct(**unknown(SIZES, **WHOLE), optimizer=optimizer, frozen=frozen)
    return {name: sympy.sympify(each) for name, each in vars(sizes.work(least=sympy.Min)).items()}


def parts() -> Expressions:
    """Seconds of a step by term, in the fields of Work and the costs, which have the terms' names."""
    amounts = {name: sympy.Symbol(term.amount) if term.amount else 1 for name, term in TERMS.items()}
    return {name: sympy.Symbol(name) * amount for name, amount in amounts.items()}


def costed() -> Expressions:
    """Costs by term, in a stack's efficiency factors, which have the terms' names, and a device's rates: flops,
    bytes.
    """
    rates = Rates(**unknown(["flops", "bytes"]))
    return {name: sympy.Symbol(name) * least for name, least in rates.least.items()}


class _Unknown(MemoryModel):
    """What a stack that is not known yet holds."""

    def copies_of(self, how: str) -> Any:
        return self.copies


def peak() -> sympy.Expr:
    """Peak memory, bytes, in the fields of Work and MemoryModel, whose copies are those of the way to train."""
    held = _Unknown(**unknown(each.name for each in fields(MemoryModel)))
    return sympy.sympify(held.peak_bytes(Work(**unknown(each.name for each in fields(Work)))))


def steps() -> sympy.Expr:
    """Steps of an epoch; the last batch may not be full."""
    sizes = unknown(["sentences", "batch"], **WHOLE)
    return sympy.ceiling(sizes["sentences"] / sizes["batch"])


def epoch() -> sympy.Expr:
    """Seconds of an epoch, in the terms of a full step: each step pays the FIXED ones, each sentence its share."""
    sizes, terms = unknown(["sentences", "batch"], **WHOLE), unknown(TERMS)
    fixed = sympy.Add(*(terms[name] for name in FIXED))
    shared = sympy.Add(*(terms[name] for name in TERMS if name not in FIXED))
    return steps() * fixed + sizes["sentences"] / sizes["batch"] * shared


def javascript() -> str:
    """Constants of JavaScript, each a function of objects whose properties have the names above.

    `work[way](sizes)`: fields of Work; `parts(work, costs)`: seconds by term; `costed(efficiencies, rates)`: costs by
    term; `peak(work, held)`: bytes; `steps(settings)`: a number; `epoch(parts, settings)`: seconds.
    """
    of_work, of_rates = [each.name for each in fields(Work)], [each.name for each in fields(Rates)]
    of_held = [each.name for each in fields(MemoryModel)]
    lines = ["const work = {"]
    lines += [f'  "{name}": {_function(work(*way), SIZES)},' for name, way in WAYS.items()]
    lines += ["};"]
    lines += [f"const parts = {_function(parts(), of_work, TERMS)};"]
    lines += [f"const costed = {_function(costed(), TERMS, of_rates)};"]
    lines += [f"const peak = {_function(peak(), of_work, of_held)};"]
    lines += [f"const steps = {_function(steps(), ('sentences', 'batch'))};"]
    lines += [f"const epoch = {_function(epoch(), TERMS, ('sentences', 'batch'))};"]
    return "\n".join(lines)


def _function(value: sympy.Expr | Mapping[str, sympy.Expr], *objects: Iterable[str]) -> str:
    """An arrow function that takes what it needs from each object, and gives a number or an object of numbers."""
    values = value.values() if isinstance(value, Mapping) else [value]
    needed = {str(symbol) for each in values for symbol in each.free_symbols}
    arguments = ", ".join("{" + ", ".join(name for name in names if name in needed) + "}" for names in objects)
    if isinstance(value, Mapping):
        inside = ",\n    ".join(f"{name}: {sympy.jscode(each)}" for name, each in value.items())
        return f"({arguments}) => ({{\n    {inside}}})"
    return f"({arguments}) => {sympy.jscode(value)}"
