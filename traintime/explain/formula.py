"""The formula: what is paid per step and what per sample, fitted with non-negative coefficients."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import sympy
from numpy.typing import NDArray
from scipy.optimize import nnls

V, B, L = sympy.symbols("V B L", positive=True)  # vocabulary, batch, sentence length
COLUMNS = {"V": "vocabulary", "B": "batch", "L": "length"}
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Formula:
    """A sum of terms, each a coefficient (seconds a unit of the term) times an expression in V, B and L.

    terms: coefficient name -> expression. The one place where the formula stands: fit, evaluation and the
    printed mathematics all read it.
    """

    terms: Mapping[str, sympy.Expr]

    @property
    def expression(self) -> sympy.Expr:
        """The whole right-hand side, with its coefficients as symbols."""
        return sympy.Add(*(sympy.Symbol(name) * term for name, term in self.terms.items()), evaluate=False)

    def latex(self, left: str = r"t_{\mathrm{step}}") -> str:
        """The formula as LaTeX."""
        # In the order of the terms: sympy would sort them.
        parts = [name if term == 1 else rf"{name} \cdot {sympy.latex(term)}" for name, term in self.terms.items()]
        return f"{left} = " + " + ".join(parts)

    def design(self, rows: pd.DataFrame) -> Array:
        """Value of each term in each row, shape (rows, terms)."""
        columns = []
        for term in self.terms.values():
            names = sorted(term.free_symbols, key=str)
            values = [rows[COLUMNS[str(name)]].to_numpy(float) for name in names]
            columns.append(np.broadcast_to(sympy.lambdify(names, term, "numpy")(*values), len(rows)))
        return np.column_stack(columns).astype(float)


STRAIGHT_LINE = Formula({"a": sympy.Integer(1), "b": V})
THREE_TERMS = Formula({"a": sympy.Integer(1), "b": V, "c": B})
BATCH_LINE = Formula({"F": sympy.Integer(1), "c": B})
# All three sizes: a step as such, each position of a sentence, each row, each token of the batch.
FOUR_TERMS = Formula({"a": sympy.Integer(1), "l": L, "b": V, "c": B * L})


def bent(formula: Formula, rows: float) -> Formula:
    """The formula with a surcharge `m` on each row of the table beyond the first `rows`."""
    return Formula({**formula.terms, "m": sympy.Max(V - int(rows), 0)})


@dataclass(frozen=True)
class Fit:
    """Coefficients of a formula, with draws of them that carry their uncertainty (one row a draw)."""

    formula: Formula
    coefficients: dict[str, float]
    draws: pd.DataFrame
    errors: Array

    def predict(self, rows: pd.DataFrame) -> Array:
        """Seconds a step, shape (rows,)."""
        return self.formula.design(rows) @ np.array(list(self.coefficients.values()))

    def parts(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Seconds that each term contributes, one column a coefficient."""
        return pd.DataFrame(
            self.formula.design(rows) * np.array(list(self.coefficients.values())),
            columns=list(self.coefficients),
            index=rows.index,
        )

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Interval of one coefficient from its draws; the fitted value is always inside it."""
        return interval(self.draws[name], self.coefficients[name], level)

    @property
    def mean_error(self) -> float:
        """Mean absolute relative error of the fit."""
        return float(np.abs(self.errors).mean())


def interval(draws: pd.Series, value: float, level: float = 0.95) -> tuple[float, float]:
    """Central interval of the draws, widened where need be to hold the value itself."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return min(float(low), value), max(float(high), value)


def solve(formula: Formula, rows: pd.DataFrame, seconds: Array) -> Array:
    """Non-negative least squares in relative error: a cost is never negative, and 1 % counts the same everywhere."""
    solution, _ = nnls(formula.design(rows) / seconds[:, None], np.ones(len(seconds)))
    return solution


def fit(
    formula: Formula,
    rows: pd.DataFrame,
    seconds: Array,
    redraw: Callable[[np.random.Generator], Array],
    draws: int = 1000,
    seed: int = 0,
) -> Fit:
    """Fit the formula to seconds a step.

    rows: sizes, columns `vocabulary`, `batch`, `length` as the formula needs; seconds: shape (rows,);
    redraw: returns the seconds as they might have been (see rounded and resampled). Raises ValueError with fewer
    rows than coefficients.
    """
    if len(rows) < len(formula.terms):
        raise ValueError(f"{len(rows)} rows cannot determine {len(formula.terms)} coefficients")
    solution = solve(formula, rows, seconds)
    random = np.random.default_rng(seed)
    drawn = np.array([solve(formula, rows, redraw(random)) for _ in range(draws)])
    names = list(formula.terms)
    predicted = formula.design(rows) @ solution
    return Fit(
        formula,
        dict(zip(names, solution.tolist(), strict=True)),
        pd.DataFrame(drawn, columns=names),
        predicted / seconds - 1,
    )


def ratio(above: Fit, below: Fit, rows: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """Predicted seconds of one fit over another's in each row: columns ratio, low, high.

    The draws are paired as they stand, so fit the two with different seeds.
    """
    drawn = [fit.draws.to_numpy() @ fit.formula.design(rows).T for fit in (above, below)]
    low, high = np.quantile(drawn[0] / drawn[1], [(1 - level) / 2, (1 + level) / 2], axis=0)
    value = above.predict(rows) / below.predict(rows)
    return pd.DataFrame(
        {"ratio": value, "low": np.minimum(low, value), "high": np.maximum(high, value)}, index=rows.index
    )


def leave_one_out(formula: Formula, rows: pd.DataFrame, seconds: Array) -> Array:
    """Relative error for each row of a fit to all the others, shape (rows,)."""
    errors = []
    for index in range(len(rows)):
        others = np.arange(len(rows)) != index
        solution = solve(formula, rows[others], seconds[others])
        errors.append(float((formula.design(rows[~others]) @ solution / seconds[~others])[0] - 1))
    return np.array(errors)


def tf_data_end(seconds: float) -> float:
    """Seconds after which Keras 3's `fit` over arrays returns on TensorFlow, given what its steps take together.

    The input pipeline ends only when the thread that tunes it wakes: after 10 ms, then after pauses that double, up
    to a minute each. Source: TensorFlow 2.21, core/framework/model.h, kOptimizationPeriodMinMs and -MaxMs.
    """
    pause, end = 0.01, 0.0
    while end < seconds:
        end += pause
        pause = min(2 * pause, 60.0)
    return end


def rounded(seconds: Array, half_unit: Array) -> Callable[[np.random.Generator], Array]:
    """Printed figures: the truth lies anywhere within half a unit of the last printed digit."""
    return lambda random: seconds + random.uniform(-1, 1, len(seconds)) * half_unit


def resampled(invocations: list[Array]) -> Callable[[np.random.Generator], Array]:
    """Measured points: the mean of a bootstrap sample of each point's invocations."""
    return lambda random: np.array([random.choice(values, len(values)).mean() for values in invocations])


def exponent(sizes: Array, invocations: list[Array], draws: int = 1000, seed: int = 0) -> tuple[float, float, float]:
    """Apparent exponent of time in a size, with its 95 % interval: the slope of log time over log size.

    sizes: shape (points,); invocations: seconds a step of each point's invocations. 1 means proportional, 0 that
    the size does not matter.
    """
    redraw, random = resampled(invocations), np.random.default_rng(seed)
    logs = np.log(np.asarray(sizes, dtype=float))

    def slope(seconds: Array) -> float:
        return float(np.polyfit(logs, np.log(seconds), 1)[0])

    value = slope(np.array([values.mean() for values in invocations]))
    low, high = interval(pd.Series([slope(redraw(random)) for _ in range(draws)]), value)
    return value, low, high
