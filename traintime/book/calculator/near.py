"""Steps that nobody measured, carried over from measurements near them, and how far such answers miss.

An answer is the formula's, times the factor by which the formula missed the measurements of that machine and stack,
the nearer the more. Each step, left out in turn, tells how far such answers are off. calculator.js computes the same.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from traintime.book.calculator import choices
from traintime.book.calculator.formulas import SIZES
from traintime.explain.least_squares import Array, solve
from traintime.explain.terms import TERMS
from traintime.predict import costs
from traintime.predict.answer import LEVEL
from traintime.predict.costs import USUAL, Costs
from traintime.workloads.rnn import Rnn

WAYS = ("optimizer", "frozen", "allocator")
FAR = math.log(100)  # another optimizer, a frozen table, another allocator: as far as a factor of 100 in a size
POWER = 3  # a measurement weighs as the inverse of its distance, to this power
CARDS = "cards"  # they miss by more than any stack on processors does: their errors are kept apart
SCALED = {"overhead": 0, "arithmetic": 1, "activations": 1, "update": 2}  # parts that a card's steps can separate


@functools.cache
def steps() -> pd.DataFrame:
    """The measured steps (choices.steps), with the amount of each of TERMS."""
    rows = choices.steps().reset_index(drop=True)
    works = [Rnn(**{name: row[name] for name in (*SIZES, *WAYS[:2])}).work() for row in rows.to_dict("records")]
    return rows.assign(**dict(zip(TERMS, costs.design(works).T, strict=True)))


def costs_of(machine: str, stack: str, rows: pd.DataFrame | None = None) -> dict[str, Costs]:
    """Costs by allocator (choices.costs_of). On a card with measured steps each of SCALED has a factor, by which they
    fit the steps whose update is dense; rows: those steps, all where not given.
    """
    found = choices.costs_of(machine, stack)
    rows = steps().query("machine == @machine and stack == @stack") if rows is None else rows
    rows = rows[rows["optimizer"] != choices.DEFERRED]
    if rows.empty or group(machine, stack) != CARDS:
        return found
    seconds, parts = pd.Series(found[USUAL].seconds), [SCALED[term.part] for term in TERMS.values()]
    design = (rows[list(TERMS)] * seconds).T.groupby(parts).sum().T.to_numpy()
    factors = solve(design, rows["step_s"].to_numpy())
    return {USUAL: replace(found[USUAL], seconds=(seconds * factors[parts]).to_dict())}


def group(machine: str, stack: str) -> str:
    """Whose error an answer has: the stack's, or that of CARDS."""
    return CARDS if choices.machines()[machine].get("card") else stack


def missed(rows: pd.DataFrame, by: Mapping[str, Costs]) -> Array:
    """Logarithm of measured over predicted of steps and mean steps, shape (rows, 2); by: costs by allocator."""
    seconds = pd.DataFrame({name: its.seconds for name, its in by.items()})[rows["allocator"]].to_numpy().T
    return np.log(rows[["step_s", "mean_s"]].to_numpy() / (rows[list(TERMS)] * seconds).sum(axis=1).to_numpy()[:, None])


def carried(its: Mapping[str, Any], rows: pd.DataFrame, by: Mapping[str, Costs]) -> tuple[Array, float]:
    """What the formula misses a step and a mean step by at these settings, as the measured steps at others have it,
    logarithms; and how far the nearest of those is: sizes by the logarithms of their ratios, WAYS that differ by FAR.
    """
    far = np.abs(np.log(rows[list(SIZES)].to_numpy(float) / [its[name] for name in SIZES])).sum(axis=1)
    far += FAR * (rows[list(WAYS)] != [its[name] for name in WAYS]).to_numpy().sum(axis=1)
    far[far == 0] = math.inf
    return np.average(missed(rows, by), axis=0, weights=far**-POWER), float(far.min())


def factors(machine: str, stack: str, its: Mapping[str, Any]) -> tuple[float, float, float]:
    """What the formula's step and mean step are multiplied by, and the standard deviation of the logarithm: 1 and the
    formula's own where machine and stack have no measured steps.
    """
    rows, by = steps().query("machine == @machine and stack == @stack"), costs_of(machine, stack)
    error = by[its["allocator"]].error
    if rows.empty:
        return 1.0, 1.0, error
    logs, far = carried(its, rows, by)
    own = math.hypot(costs.repeat(stack), math.sqrt(constants()["spread"][group(machine, stack)] * far))
    return *np.exp(logs).tolist(), min(error, own)


@functools.cache
def left_out() -> pd.DataFrame:
    """Each measured step, predicted without itself: whose error it is (group), the stack, how far the nearest other one
    is, and the logarithms of measured over predicted by the formula and by what was carried over.
    """
    found = []
    for (machine, stack), rows in steps().groupby(["machine", "stack"]):
        for place, its in enumerate(rows.to_dict("records") if len(rows) > 1 else []):
            by = costs_of(machine, stack, rows.drop(rows.index[place]))
            (log, _), far = carried(its, rows, by)
            formula = missed(rows.iloc[[place]], by)[0, 0]
            found.append([group(machine, stack), stack, far, formula, formula - log])
    return pd.DataFrame(found, columns=["group", "stack", "far", "formula", "carried"])


@functools.cache
def constants() -> dict[str, Any]:
    """What a script needs to carry steps over. spread: by group, what a unit of distance adds to the variance of an
    answer's logarithm, so that LEVEL of the steps that were left out lie in their interval; repeat: by stack, its
    standard deviation at no distance.
    """
    rows, repeat = left_out(), {stack: costs.repeat(stack) for stack in choices.stack_names()}
    own = ((rows["carried"] / ndtri(0.5 + LEVEL / 2)) ** 2 - rows["stack"].map(repeat) ** 2) / rows["far"]
    spread = own.groupby(rows["group"]).quantile(LEVEL).clip(lower=0)
    return {"far": FAR, "power": POWER, "cards": CARDS, "ways": WAYS, "repeat": repeat, "spread": spread.to_dict()}
