"""The formula: what is paid per step and what per sample, fitted with non-negative coefficients."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import sympy

from traintime.explain.least_squares import Array, solve
from traintime.explain.terms import TERMS

DRAWS = 1000  # of a fit's coefficients
V, B, L = sympy.symbols("V B L", positive=True)  # vocabulary, batch, sentence length
SIZES = {"V": "vocabulary", "B": "batch", "L": "length"}
WORK = {"P": "parameters", "N": "flops", "A": "activation_bytes"}
WORK |= {"K": "launches", "M": "product_bytes", "U": "update_bytes", "E": "update_flops", "G": "slice_bytes"}
COLUMNS = SIZES | WORK


@dataclass(frozen=True)
class Formula:
    """A sum of terms, each a coefficient (seconds a unit of the term) times an expression in the symbols of COLUMNS.

    terms: coefficient name -> expression; fit, evaluation and the printed mathematics all read it. The formula of any
    model's step is STEP.
    """

    terms: Mapping[str, sympy.Expr]

    def latex_terms(self) -> list[str]:
        """Each term as LaTeX, in the order of the terms: sympy would sort them.

        A coefficient of several letters is a word, and not their product.
        """
        printed = []
        for name, term in self.terms.items():
            coefficient = name if len(name) == 1 else rf"\mathit{{{name}}}"
            printed.append(coefficient if term == 1 else rf"{coefficient} \cdot {sympy.latex(term)}")
        return printed

    def design(self, rows: pd.DataFrame) -> Array:
        """Value of each term in each row, shape (rows, terms)."""
        columns = []
        for term in self.terms.values():
            names, function = _computed(term)
            columns.append(np.broadcast_to(function(*(rows[name].to_numpy(float) for name in names)), len(rows)))
        return np.column_stack(columns).astype(float)


@functools.cache
def _computed(term: sympy.Expr) -> tuple[list[str], Callable[..., Array]]:
    """The columns that a term is computed from, and the function of their values; slow to make."""
    names = sorted(term.free_symbols, key=str)
    return [COLUMNS[str(name)] for name in names], sympy.lambdify(names, term, "numpy")


THREE_TERMS = Formula({"a": sympy.Integer(1), "b": V, "c": B})
# All three sizes: a step as such, each position of a sentence, each row, each token of the batch.
FOUR_TERMS = Formula({"a": sympy.Integer(1), "l": L, "b": V, "c": B * L})
# Any model's step, by the table of terms.
_SYMBOLS = {"": sympy.Integer(1)} | {column: sympy.Symbol(letter, positive=True) for letter, column in WORK.items()}
STEP = Formula({name: _SYMBOLS[term.amount] for name, term in TERMS.items()})


@dataclass(frozen=True)
class Fit:
    """Coefficients of a formula, with draws of them that carry their uncertainty (one row a draw)."""

    formula: Formula
    coefficients: dict[str, float]
    draws: pd.DataFrame

    def parts(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Seconds that each term contributes, one column a coefficient."""
        amounts = pd.DataFrame(self.formula.design(rows), rows.index, list(self.coefficients))
        return amounts * pd.Series(self.coefficients)


def fit(formula: Formula, rows: pd.DataFrame, seconds: Array, drawn: Array) -> Fit:
    """Fit the formula to seconds a step.

    rows: sizes, columns `vocabulary`, `batch`, `length` as the formula needs; seconds: shape (rows,); drawn: the
    seconds as they might have been, shape (draws, rows). Raises ValueError with fewer rows than coefficients.
    """
    if len(rows) < len(formula.terms):
        raise ValueError(f"{len(rows)} rows cannot determine {len(formula.terms)} coefficients")
    design = formula.design(rows)
    draws = np.array([solve(design, each) for each in drawn])
    coefficients = dict(zip(formula.terms, solve(design, seconds).tolist(), strict=True))
    return Fit(formula, coefficients, pd.DataFrame(draws, columns=list(coefficients)))


def varied(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows in which each size has one value, or three and more: what a cost and a left-out point need.

    Of a size with two values the rows of its more frequent one stay, of two as frequent ones those of the larger.
    """
    for size in SIZES.values():
        counts = rows[size].value_counts().sort_index(ascending=False)
        if len(counts) == 2:
            return varied(rows[rows[size] == counts.idxmax()])
    return rows


def shape(rows: pd.DataFrame) -> Formula:
    """The formula's terms that these rows can distinguish, by which of the three sizes has more than one value."""
    vocabulary, batch, length = (rows[size].nunique() > 1 for size in SIZES.values())
    told_apart = {"a": True, "l": length, "b": vocabulary, "c": batch}
    terms = {**FOUR_TERMS.terms, "c": B * L if length else B}
    return Formula({name: term for name, term in terms.items() if told_apart[name]})


def rounded(seconds: Array, half_unit: Array, draws: int = DRAWS, seed: int = 0) -> Array:
    """Printed figures as they might have been, shape (draws, rows): anywhere within half a unit of the last digit."""
    return seconds + np.random.default_rng(seed).uniform(-1, 1, (draws, len(seconds))) * half_unit
