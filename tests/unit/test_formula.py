"""The formula: fitted to times made of known coefficients, and what it says of its own uncertainty."""

import itertools

import numpy as np
import pandas as pd
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sympy.parsing.latex import parse_latex

from traintime.explain import formula

GRID = list(itertools.product([5_000, 20_000, 280_000, 2_000_000], [32, 100, 1024], [10, 50]))
ROWS = pd.DataFrame(GRID, columns=["vocabulary", "batch", "length"])
PER_WORD = formula.Formula({"a": sympy.Integer(1), "b": formula.V, "c": formula.B * formula.L})
FORMULAS = [formula.THREE_TERMS, formula.FOUR_TERMS, PER_WORD]


def times(a, b, c):
    """Seconds of a step of the three-term formula, written out."""
    return (a + b * ROWS["vocabulary"] + c * ROWS["batch"]).to_numpy()


def unchanged(seconds):
    """One draw, without any error."""
    return seconds[None, :]


# Seconds a step, a row and a sentence, between a fast machine's and a slow one's.
@given(st.tuples(st.floats(1e-4, 1), st.floats(1e-9, 1e-5), st.floats(1e-6, 1e-2)))
def test_the_fit_recovers_the_coefficients_that_made_the_times(known):
    seconds = times(*known)
    found = formula.fit(formula.THREE_TERMS, ROWS, seconds, unchanged(seconds))
    assert found.coefficients == pytest.approx(dict(zip("abc", known, strict=True)), rel=1e-6)


@given(arrays(float, len(ROWS), elements=st.floats(1e-3, 1e3)), st.sampled_from(FORMULAS))
def test_no_coefficient_is_ever_negative(seconds, shape):
    found = formula.fit(shape, ROWS, seconds, formula.rounded(seconds, seconds / 10, draws=3))
    assert min(found.coefficients.values()) >= 0
    assert (found.draws >= 0).all(axis=None)


def test_one_per_cent_counts_the_same_for_a_short_step_and_a_long_one():
    """Two constants a hundredfold apart: the best in relative error is near the shorter, in seconds near the middle."""
    shape = formula.Formula({"a": sympy.Integer(1)})
    solution = formula.solve(shape.design(ROWS.head(2)), np.array([1.0, 100.0]))
    assert solution == pytest.approx([(1 + 1 / 100) / (1 + 1 / 100**2)])


def test_fewer_rows_than_coefficients_are_refused():
    with pytest.raises(ValueError, match="2 rows cannot determine 3 coefficients"):
        formula.fit(formula.THREE_TERMS, ROWS.head(2), np.ones(2), unchanged(np.ones(2)))


def test_the_draws_of_a_fit_carry_the_rounding_of_its_figures():
    widths = []
    for share in (0.001, 0.1):
        seconds = times(0.03, 2e-7, 1e-4)
        made = formula.fit(formula.THREE_TERMS, ROWS, seconds, formula.rounded(seconds, share * seconds, draws=60))
        widths.append(made.draws.quantile(0.975) - made.draws.quantile(0.025))
    assert all(0 < narrow < wide for narrow, wide in zip(*widths, strict=True))


def sizes(*points):
    return pd.DataFrame(points, columns=["vocabulary", "batch", "length"])


@pytest.mark.parametrize(
    ("points", "terms"),
    [
        ([(1, 8, 3), (2, 8, 3), (3, 9, 3)], {"a": 1, "b": formula.V, "c": formula.B}),
        ([(1, 8, 3), (2, 9, 3), (3, 8, 4)], formula.FOUR_TERMS.terms),
        ([(1, 8, 3)], {"a": 1}),
    ],
)
def test_a_cost_needs_a_size_that_varies(points, terms):
    assert formula.shape(sizes(*points)).terms == terms


def test_a_size_with_two_values_keeps_the_more_frequent_one():
    """Left out, the lone point's own cost would be anybody's guess."""
    rows = sizes((1, 100, 25), (2, 100, 25), (3, 100, 25), (3, 8, 25))
    assert formula.varied(rows)["batch"].tolist() == [100, 100, 100]


# Every formula that the package has: the chapters print some, the calculator's page prints formula.STEP.
ALL = [one for one in vars(formula).values() if isinstance(one, formula.Formula)]
ALL += [PER_WORD]


def printed_terms(shape):
    """Coefficient and term of each part of the printed sum, as a reader of its LaTeX reads it."""
    for text in shape.latex_terms():
        coefficient, _, term = text.partition(r" \cdot ")
        yield coefficient.removeprefix(r"\mathit{").removesuffix("}"), parse_latex(term or "1", backend="lark")


def at_random(number=50):
    """Sizes, work and pages of so many points, of all magnitudes: on both sides of each bend and condition."""
    random = np.random.default_rng(0)
    return pd.DataFrame({name: np.floor(10 ** random.uniform(0, 9, number)) for name in formula.COLUMNS.values()})


def value_of(expression, row, coefficients=()):
    """The expression at this point."""
    values = {sign: row[name] for sign, name in formula.COLUMNS.items()} | dict(coefficients)
    return float(expression.subs({symbol: values[str(symbol)] for symbol in expression.free_symbols}))


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: "-".join(shape.terms))
def test_what_is_printed_what_is_fitted_and_what_predicts_are_one_formula(shape):
    """LaTeX, read back; sympy; NumPy; and the fit, to seconds that have such costs. In JavaScript:
    test_calculator_page.
    """
    rows, design = at_random(), shape.design(at_random())
    read_back = list(printed_terms(shape))
    assert [name for name, _ in read_back] == list(shape.terms)
    for column, (_, term) in zip(design.T, read_back, strict=True):
        assert [value_of(term, row) for _, row in rows.iterrows()] == pytest.approx(column, rel=1e-12)
    costs = 10 ** np.random.default_rng(1).uniform(-3, 0, len(design.T)) / np.maximum(np.median(design, axis=0), 1)
    seconds = design @ costs
    coefficients = dict(zip(shape.terms, costs, strict=True))
    expression = sympy.Add(*(sympy.Symbol(name) * term for name, term in shape.terms.items()))
    for place, row in rows.iterrows():
        assert value_of(expression, row, coefficients) == pytest.approx(seconds[place], rel=1e-9)
    fit = formula.fit(shape, rows, seconds, unchanged(seconds))
    assert fit.parts(rows).sum(axis=1).to_numpy() == pytest.approx(seconds, rel=1e-6)
