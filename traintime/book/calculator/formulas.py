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


def unknown(names: Iterable[str], **known: bool) -> dict[str, Any]:
    """Numbers that are not known yet, by name. known: what sympy may assume of all of them (WHOLE)."""
    return {name: sympy.Symbol(name, **known) for name in names}


def work(optimizer: str, frozen: bool) -> dict[str, sympy.Expr]:
    """Each field of the classifier's Work, in SIZES."""
    # Without validation, which would refuse a symbol.
    sizes = Rnn.model_construct(**unknown(SIZES, **WHOLE), optimizer=optimizer, frozen=frozen)
    return {name: sympy.sympify(each) for name, each in vars(sizes.work(least=sympy.Min)).items()}


class _Unknown(MemoryModel):
    """What a stack that is not known yet holds; copies: those of the way to train."""

    def copies_of(self, how: str) -> Any:
        return self.copies


def javascript() -> str:
    """Constants of JavaScript, each a function of objects whose properties have the names above.

    `work[way](sizes)`: fields of Work; `parts(work, costs)`: seconds of a step by term; `costed(costs, rates)`: costs
    by term, from those at rates of 1 a second; `peak(work, held)`: bytes; `steps(settings)`: of an epoch;
    `epoch(parts, settings)`: seconds.
    """
    of_work, of_rates, of_held = ([each.name for each in fields(of)] for of in (Work, Rates, MemoryModel))
    terms, sizes = unknown(TERMS), unknown(of_epoch := ("sentences", "batch"), **WHOLE)
    parts = {name: terms[name] * (sympy.Symbol(term.amount) if term.amount else 1) for name, term in TERMS.items()}
    least, unit = Rates(**unknown(of_rates)).least, Rates(1, 1).least
    costed = {name: terms[name] * least[name] / unit[name] for name in TERMS}
    peak = _Unknown(**unknown(of_held)).peak_bytes(Work(**unknown(of_work)))
    batches = sizes["sentences"] / sizes["batch"]  # the last may not be full
    # Each step pays the FIXED terms, each sentence its share of the others.
    fixed, shared = (sympy.Add(*(terms[name] for name in TERMS if (name in FIXED) == every)) for every in (True, False))
    lines = ["const work = {"]
    lines += [f'  "{name}": {_function(work(*way), SIZES)},' for name, way in WAYS.items()]
    lines += ["};"]
    lines += [f"const parts = {_function(parts, of_work, TERMS)};"]
    lines += [f"const costed = {_function(costed, TERMS, of_rates)};"]
    lines += [f"const peak = {_function(sympy.sympify(peak), of_work, of_held)};"]
    lines += [f"const steps = {_function(sympy.ceiling(batches), of_epoch)};"]
    lines += [f"const epoch = {_function(sympy.ceiling(batches) * fixed + batches * shared, TERMS, of_epoch)};"]
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
