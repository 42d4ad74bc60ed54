"""The formula: fitted to times made of known coefficients, and what it says of its own uncertainty."""

import itertools

import numpy as np
import pandas as pd
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from traintime import cost

GRID = list(itertools.product([5_000, 20_000, 280_000, 2_000_000], [32, 100, 1024], [10, 50]))
ROWS = pd.DataFrame(GRID, columns=["vocabulary", "batch", "length"])
PER_WORD = cost.Formula({"a": sympy.Integer(1), "b": cost.V, "c": cost.B * cost.L})
FORMULAS = [cost.STRAIGHT_LINE, cost.THREE_TERMS, cost.FOUR_TERMS, PER_WORD]
# Seconds a step, a row and a sentence, between a fast machine's and a slow one's.
coefficients = st.tuples(st.floats(1e-4, 1), st.floats(1e-9, 1e-5), st.floats(1e-6, 1e-2))


def times(a, b, c):
    """Seconds of a step of the three-term formula, written out."""
    return (a + b * ROWS["vocabulary"] + c * ROWS["batch"]).to_numpy()


def unchanged(seconds):
    return lambda random: seconds


def fitted(formula=cost.THREE_TERMS, seconds=None, redraw=None, **options):
    seconds = times(0.03, 2e-7, 1e-4) if seconds is None else seconds
    return cost.fit(formula, ROWS, seconds, redraw or unchanged(seconds), **{"draws": 20} | options)


# The fit


@given(coefficients)
def test_the_fit_recovers_the_coefficients_that_made_the_times(known):
    found = fitted(seconds=times(*known), draws=1)
    assert list(found.coefficients.values()) == pytest.approx(known, rel=1e-6)
    assert list(found.coefficients) == ["a", "b", "c"]
    assert found.mean_error < 1e-9


@pytest.mark.parametrize("zero", [0, 1, 2])
def test_a_cost_that_is_not_there_is_found_to_be_nothing(zero):
    known = [0.03, 2e-7, 1e-4]
    known[zero] = 0
    found = list(fitted(seconds=times(*known)).coefficients.values())
    assert found == pytest.approx(known, rel=1e-6, abs=1e-12)
    assert found[zero] >= 0


def test_terms_may_be_products():
    seconds = (0.01 + 3e-8 * ROWS["vocabulary"] + 5e-6 * ROWS["batch"] * ROWS["length"]).to_numpy()
    found = fitted(PER_WORD, seconds)
    assert found.coefficients == pytest.approx({"a": 0.01, "b": 3e-8, "c": 5e-6}, rel=1e-6)


@pytest.mark.parametrize("zero", [None, "a", "l", "b", "c"])
def test_the_four_terms_are_told_apart(zero):
    """A step as such, each position of a sentence, each row and each token, made up and found again."""
    known = {"a": 0.02, "l": 4e-4, "b": 2e-8, "c": 3e-6}
    if zero:
        known[zero] = 0.0
    vocabulary, batch, length = (ROWS[name] for name in ("vocabulary", "batch", "length"))
    seconds = known["a"] + known["l"] * length + known["b"] * vocabulary + known["c"] * batch * length
    found = fitted(cost.FOUR_TERMS, seconds.to_numpy())
    assert found.coefficients == pytest.approx(known, rel=1e-6, abs=1e-12)
    assert found.mean_error < 1e-9


@given(arrays(float, len(ROWS), elements=st.floats(1e-3, 1e3)), st.sampled_from(FORMULAS))
def test_no_coefficient_is_ever_negative(seconds, formula):
    found = cost.fit(formula, ROWS, seconds, cost.rounded(seconds, seconds / 10), draws=3)
    assert min(found.coefficients.values()) >= 0
    assert (found.draws >= 0).all(axis=None)


def test_time_that_falls_with_the_size_is_not_a_negative_cost():
    found = fitted(cost.STRAIGHT_LINE, 1 / ROWS["vocabulary"].to_numpy())
    assert found.coefficients["b"] == 0


@given(st.floats(1e-3, 1e3))
def test_another_unit_of_time_changes_the_coefficients_and_not_the_fit(factor):
    seconds = times(0.03, 2e-7, 1e-4) * np.linspace(0.9, 1.1, len(ROWS))
    here, there = fitted(seconds=seconds, draws=1), fitted(seconds=factor * seconds, draws=1)
    for name, value in here.coefficients.items():
        assert there.coefficients[name] == pytest.approx(factor * value, rel=1e-6)
    assert there.errors == pytest.approx(here.errors, abs=1e-9)


def test_one_per_cent_counts_the_same_for_a_short_step_and_a_long_one():
    """Two constants a hundredfold apart: the best in relative error is near the shorter, in seconds near the middle."""
    formula = cost.Formula({"a": sympy.Integer(1)})
    seconds = np.array([1.0, 100.0])
    solution = cost.solve(formula, ROWS.head(2), seconds)
    assert solution == pytest.approx([(1 + 1 / 100) / (1 + 1 / 100**2)])


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.005, 0.01), (0.02, 0.03), (9, 10.23), (41, 81.91), (82, 141.91), (142, 201.91)]
)
def test_a_pipeline_ends_when_its_thread_wakes(seconds, expected):
    assert cost.tf_data_end(seconds) == pytest.approx(expected)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_too_few_rows_are_refused(number):
    seconds = np.ones(number)
    with pytest.raises(ValueError, match=f"{number} rows cannot determine 3 coefficients"):
        cost.fit(cost.THREE_TERMS, ROWS.head(number), seconds, unchanged(seconds))


def test_as_many_rows_as_coefficients_are_enough():
    rows = pd.DataFrame({"vocabulary": [1000, 2000, 1000], "batch": [10, 10, 20]})
    seconds = 1.0 + 0.001 * rows["vocabulary"].to_numpy() + 0.1 * rows["batch"].to_numpy()
    found = cost.fit(cost.THREE_TERMS, rows, seconds, unchanged(seconds), draws=1)
    assert found.coefficients == pytest.approx({"a": 1.0, "b": 0.001, "c": 0.1})


# What a fit says


def test_a_prediction_is_the_sum_of_its_parts():
    found = fitted()
    parts = found.parts(ROWS)
    assert list(parts) == ["a", "b", "c"]
    assert list(parts.index) == list(ROWS.index)
    assert parts.sum(axis=1).to_numpy() == pytest.approx(found.predict(ROWS))
    assert found.predict(ROWS) == pytest.approx(times(0.03, 2e-7, 1e-4))


def test_a_prediction_for_other_sizes_follows_the_formula():
    other = pd.DataFrame({"vocabulary": [1_000_000], "batch": [10]})
    assert fitted().predict(other) == pytest.approx([0.03 + 0.2 + 0.001])


def test_the_error_is_relative_and_its_sign_does_not_cancel():
    seconds = np.array([0.9, 1.1])
    found = cost.fit(cost.Formula({"a": sympy.Integer(1)}), ROWS.head(2), seconds, unchanged(seconds), draws=1)
    value = found.coefficients["a"]
    assert found.errors == pytest.approx([value / 0.9 - 1, value / 1.1 - 1])
    assert found.mean_error == pytest.approx(np.mean([abs(value / 0.9 - 1), abs(value / 1.1 - 1)]))


def test_the_draws_carry_the_uncertainty_of_the_times():
    seconds = times(0.03, 2e-7, 1e-4)
    narrow, wide = (fitted(redraw=cost.rounded(seconds, share * seconds), draws=60) for share in (0.001, 0.1))
    for name in narrow.coefficients:
        assert 0 < np.ptp(narrow.interval(name)) < np.ptp(wide.interval(name))
    assert len(narrow.draws) == 60
    assert list(narrow.draws) == ["a", "b", "c"]


def test_times_without_uncertainty_give_intervals_without_width():
    found = fitted()
    for name, value in found.coefficients.items():
        assert found.interval(name) == pytest.approx((value, value))


def test_the_same_seed_draws_the_same():
    seconds = times(0.03, 2e-7, 1e-4)
    one, same, other = (fitted(redraw=cost.rounded(seconds, 0.1 * seconds), seed=seed) for seed in (1, 1, 2))
    assert one.draws.equals(same.draws)
    assert not one.draws.equals(other.draws)


# Intervals

numbers = st.floats(-1e6, 1e6)


@given(st.lists(numbers, min_size=1, max_size=30).map(pd.Series), numbers, st.floats(0.01, 0.99))
def test_an_interval_always_holds_its_value(draws, value, level):
    low, high = cost.interval(draws, value, level)
    assert low <= value <= high
    assert min(draws.min(), value) <= low
    assert high <= max(draws.max(), value)


@pytest.mark.parametrize(
    ("value", "level", "expected"),
    [
        (50, 0.95, (2.5, 97.5)),
        (50, 0.5, (25, 75)),
        (99, 0.5, (25, 99)),
        (-1, 0.5, (-1, 75)),
    ],
)
def test_an_interval_is_the_middle_of_the_draws(value, level, expected):
    assert cost.interval(pd.Series(range(101)), value, level) == pytest.approx(expected)


# Draws


@given(arrays(float, 5, elements=st.floats(1, 1e3)), arrays(float, 5, elements=st.floats(0, 0.5)), st.integers(0, 99))
def test_a_rounded_figure_stays_within_half_a_unit(seconds, half_unit, seed):
    drawn = cost.rounded(seconds, half_unit)(np.random.default_rng(seed))
    assert drawn.shape == seconds.shape
    assert (np.abs(drawn - seconds) <= half_unit + 1e-12 * seconds).all()


def test_rounding_moves_each_figure_by_itself_and_both_ways():
    redraw = cost.rounded(np.zeros(4), np.ones(4))
    random = np.random.default_rng(0)
    drawn = np.array([redraw(random) for _ in range(200)])
    assert (drawn.min(axis=0) < -0.8).all()
    assert (drawn.max(axis=0) > 0.8).all()
    assert len(np.unique(drawn[0])) == 4


@given(st.lists(arrays(float, st.integers(1, 5), elements=st.floats(1e-3, 1e3)), min_size=1, max_size=5))
def test_a_resampled_mean_stays_within_its_invocations(invocations):
    drawn = cost.resampled(invocations)(np.random.default_rng(0))
    assert len(drawn) == len(invocations)
    for mean, values in zip(drawn, invocations, strict=True):
        assert values.min() * (1 - 1e-12) <= mean <= values.max() * (1 + 1e-12)


def test_resampling_draws_invocations_again():
    redraw = cost.resampled([np.array([1.0, 2.0]), np.array([5.0])])
    random = np.random.default_rng(0)
    drawn = np.array([redraw(random) for _ in range(100)])
    assert set(drawn[:, 0]) == {1.0, 1.5, 2.0}
    assert set(drawn[:, 1]) == {5.0}


# Exponents

LENGTHS = np.array([3, 10, 25, 100, 400])


def noisy(exponent, spread, seed=1):
    """Five invocations of each length whose times follow the power, each off by its own factor."""
    random = np.random.default_rng(seed)
    return [0.01 * length**exponent * np.exp(random.normal(0, spread, 5)) for length in LENGTHS]


@given(st.floats(-1, 3), st.floats(1e-5, 10), st.integers(1, 4))
def test_a_power_law_has_its_exponent_and_no_doubt(exponent, factor, invocations):
    times = [np.full(invocations, factor * length**exponent) for length in LENGTHS]
    value, low, high = cost.exponent(LENGTHS, times, draws=5)
    assert value == pytest.approx(exponent, abs=1e-9)
    assert (low, high) == pytest.approx((exponent, exponent), abs=1e-9)


def test_two_sizes_have_the_exponent_of_the_line_between_them():
    value, low, high = cost.exponent(np.array([10, 40]), [np.array([1.0, 3.0]), np.array([4.0])], draws=200)
    assert value == pytest.approx(np.log(4 / 2) / np.log(4))
    assert (low, high) == pytest.approx((np.log(4 / 3) / np.log(4), 1.0)), "between the two invocations' own slopes"


def test_the_interval_of_an_exponent_holds_it_and_grows_with_the_noise():
    widths = []
    for spread in (0.001, 0.02, 0.3):
        value, low, high = cost.exponent(LENGTHS, noisy(0.7, spread), draws=300)
        assert low <= value <= high
        assert low < 0.7 < high
        widths.append(high - low)
    assert widths == sorted(widths)
    assert widths[0] > 0
    assert widths[2] > 5 * widths[0]


def test_an_exponent_has_no_unit():
    times = noisy(0.7, 0.1)
    here = cost.exponent(LENGTHS, times, draws=50)
    there = cost.exponent(1000 * LENGTHS, [1000 * values for values in times], draws=50)
    assert here == pytest.approx(there)


def test_the_same_seed_draws_the_same_interval():
    times = noisy(0.7, 0.1)
    one, same, other = (cost.exponent(LENGTHS, times, draws=50, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one[0] == other[0]
    assert one[1:] != other[1:]


# The formula in print


def test_a_row_beyond_the_bend_costs_its_surcharge_and_a_row_before_it_none():
    rows = pd.DataFrame({"vocabulary": [10, 100, 101, 1000, 5000], "batch": [1, 2, 3, 4, 5], "length": [5, 4, 3, 2, 1]})
    bent = cost.bent(cost.FOUR_TERMS, 100.7)
    assert bent.design(rows)[:, -1].tolist() == [0, 0, 1, 900, 4900]
    assert bent.design(rows)[:, :-1].tolist() == cost.FOUR_TERMS.design(rows).tolist()
    within, beyond = 1e-3, 5e-3
    seconds = 1 + within * rows["vocabulary"].to_numpy() + beyond * bent.design(rows)[:, -1]
    line = cost.bent(cost.STRAIGHT_LINE, 100)
    assert cost.solve(line, rows, seconds) == pytest.approx([1, within, beyond])


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_printed_formula_names_every_term_in_its_order(formula):
    left, right = formula.latex().split(" = ")
    printed = right.split(" + ")
    assert left == r"t_{\mathrm{step}}"
    assert len(printed) == len(formula.terms)
    for text, (name, term) in zip(printed, formula.terms.items(), strict=True):
        assert set(text.replace(r"\cdot", " ").split()) == {name, *map(str, term.free_symbols)}


def test_the_left_side_may_be_named():
    assert cost.STRAIGHT_LINE.latex("t").startswith("t = a + ")


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_expression_means_what_the_fit_evaluates(formula):
    sizes = {cost.V: 3, cost.B: 5, cost.L: 7}
    at = pd.DataFrame({"vocabulary": [3], "batch": [5], "length": [7]})
    coefficients = {sympy.Symbol(name): number for number, name in enumerate(formula.terms, start=2)}
    value = formula.expression.subs(sizes).subs(coefficients)
    assert float(value) == pytest.approx((formula.design(at) @ np.array(list(coefficients.values())))[0])


def test_the_design_has_a_column_a_term():
    at = pd.DataFrame({"vocabulary": [3, 4], "batch": [5, 6], "length": [7, 8]})
    assert PER_WORD.design(at).tolist() == [[1, 3, 35], [1, 4, 48]]
