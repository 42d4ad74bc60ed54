"""The closed form: what a row has missed is a polynomial, whatever the gap, the rates, the decays and epsilon."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from traintime.deferred.missed import powers
from traintime.errors import InputError


def moved(first, second, rates, beta_1, beta_2, epsilon):
    """How far Adam moves a number whose gradient stays zero, step by step, as Keras 3 writes it."""
    far = 0.0
    for rate in rates:
        first, second = first * beta_1, second * beta_2
        far += rate * first / (np.sqrt(second) + epsilon)
    return far


def polynomial(first, second, rates, beta_1, beta_2, epsilon):
    """The same in closed form."""
    missed = powers(beta_1, beta_2)
    coefficients = (np.array(rates)[: len(missed), None] * missed[: len(rates)]).sum(axis=0)
    below = np.sqrt(second) + epsilon
    return first / below * np.polynomial.Polynomial(coefficients)(np.sqrt(second) / below)


@settings(max_examples=200)
@given(
    st.floats(0, 0.97),
    st.floats(0.99, 0.99999),
    st.sampled_from([1e-10, 1e-8, 1e-7, 1e-4, 1e-2]),
    st.integers(1, 1500),  # longer than a mean lives
    st.floats(-20, 2),  # from a second moment where epsilon is all, to one where it is nothing
    st.integers(0, 1000),
)
def test_any_decay_epsilon_gap_and_schedule(beta_1, beta_2, epsilon, gap, size, seed):
    rates = 10 ** np.random.default_rng(seed).uniform(-5, -1, gap)  # no schedule is as wild
    try:
        powers(beta_1, beta_2)
    except InputError:
        assume(False)
    given = 10 ** (size / 2), 10**size, rates, beta_1, beta_2, epsilon
    assert polynomial(*given) == pytest.approx(moved(*given), rel=1e-5, abs=1e-9 * rates.max())


def test_the_usual_decays_need_few_terms():
    horizon, terms = powers(0.9, 0.999).shape
    assert horizon < 250
    assert terms <= 6


@pytest.mark.parametrize(("one", "two", "field"), [(1.0, 0.999, "beta_1"), (0.9, -0.1, "beta_2"), (0.9, 0.5, "beta_2")])
def test_decays_that_no_short_form_can_follow_are_refused(one, two, field):
    with pytest.raises(InputError, match=f"^{field}: "):
        powers(one, two)
