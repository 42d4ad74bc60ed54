"""Dense Adam deferred: the table that comes out is dense Adam's, whatever the gaps, rates, decays and epsilon."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from traintime.deferred.missed import Missed, powers
from traintime.deferred.reference import DeferredAdam
from traintime.errors import InputError


class Dense:
    """Adam over every row at every step, as Keras 3 writes it."""

    def __init__(self, table, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
        self.table, self.betas, self.epsilon = table, (beta_1, beta_2), epsilon
        self.first, self.second, self.steps = np.zeros_like(table), np.zeros_like(table), 0

    def apply(self, rows, gradients, rate):
        gradient = np.zeros_like(self.table)
        np.add.at(gradient, rows, gradients)
        self.steps += 1
        beta_1, beta_2 = self.betas
        kind = self.table.dtype.type
        corrected = rate * np.sqrt(1 - beta_2**self.steps) / (1 - beta_1**self.steps)
        self.first += (gradient - self.first) * kind(1 - beta_1)
        self.second += (gradient**2 - self.second) * kind(1 - beta_2)
        self.table -= kind(corrected) * self.first / (np.sqrt(self.second) + kind(self.epsilon))


def trained(steps, kind=np.float64, scale=1.0, rate=lambda step: 0.001, rows=60, seed=0, **adam):
    """Both ways over Zipf-distributed rows, some of them twice in a batch: dense, deferred, largest error of a read."""
    random = np.random.default_rng(seed)
    table = (0.05 * random.normal(size=(rows, 3))).astype(kind)
    dense, deferred = Dense(table.copy(), **adam), DeferredAdam(table.copy(), **adam)
    often = 1 / np.arange(1, rows + 1)
    worst = 0.0
    for step in range(1, steps + 1):
        used = random.choice(rows, 8, p=often / often.sum())
        gradients = (scale * random.normal(size=(8, 3))).astype(kind)
        worst = max(worst, np.abs(deferred.read(used) - dense.table[used]).max())
        dense.apply(used, gradients, rate(step))
        deferred.apply(used, gradients, rate(step))
    deferred.settle()
    return dense, deferred, worst


def far(one, other):
    """Largest difference, relative to the largest number."""
    return np.abs(one - other).max() / np.abs(other).max()


@pytest.mark.parametrize(("kind", "tolerance"), [(np.float64, 1e-9), (np.float32, 5e-6)])
# From gradients so large that epsilon is nothing to such that it is all: where a closed form without it fails.
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-5, 1e-6, 1e-8])
def test_after_a_thousand_steps_the_table_is_dense_adams(kind, tolerance, scale):
    dense, deferred, worst = trained(1000, kind, scale)
    assert far(deferred.table, dense.table) < tolerance
    assert worst < tolerance
    assert far(deferred.first, dense.first) < 20 * tolerance
    assert far(deferred.second, dense.second) < 20 * tolerance


@settings(max_examples=25)
@given(
    st.floats(0, 0.97),
    st.floats(0.99, 0.99999),
    st.sampled_from([1e-10, 1e-8, 1e-7, 1e-4, 1e-2]),
    st.integers(0, 1000),
)
def test_any_decay_epsilon_gaps_and_schedule(beta_1, beta_2, epsilon, seed):
    try:
        powers(beta_1, beta_2)
    except InputError:
        assume(False)
    random = np.random.default_rng(seed)
    rates = 10 ** random.uniform(-5, -1, 201)  # no schedule is as wild
    dense, deferred, worst = trained(
        200, scale=1e-3, rate=lambda step: rates[step], seed=seed, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon
    )
    assert far(deferred.table, dense.table) < 1e-7
    assert worst < 1e-7 * np.abs(dense.table).max() + 1e-9


def test_a_row_that_is_never_read_is_brought_up_to_date_at_the_end():
    dense, deferred = Dense(np.ones((3, 2))), DeferredAdam(np.ones((3, 2)))
    for rows in ([0], *[[1]] * 3000):  # past the horizon, and past the room that is made at once
        for one in (dense, deferred):
            one.apply(np.array(rows), np.ones((1, 2)), 0.001)
    assert deferred.table[0] == pytest.approx(1 - 0.001)  # stale
    deferred.settle()
    assert far(deferred.table, dense.table) < 1e-9
    assert deferred.table[2].tolist() == [1, 1]


def test_a_repeated_row_has_the_sum_of_its_gradients():
    once, twice = DeferredAdam(np.ones((2, 1))), DeferredAdam(np.ones((2, 1)))
    once.apply(np.array([1]), np.array([[3.0]]))
    twice.apply(np.array([1, 1]), np.array([[1.0], [2.0]]))
    assert once.second.tolist() == twice.second.tolist()
    assert once.table.tolist() == twice.table.tolist()


def test_to_bring_up_to_date_twice_changes_nothing():
    _, deferred, _ = trained(50)
    before = deferred.table.copy()
    deferred.settle()
    assert (deferred.table == before).all()


def test_the_usual_decays_need_few_terms():
    horizon, terms = powers(0.9, 0.999).shape
    assert horizon < 250
    assert terms <= 6


@pytest.mark.parametrize(
    ("changes", "field"), [({"beta_1": 1.0}, "beta_1"), ({"beta_2": -0.1}, "beta_2"), ({"beta_2": 0.5}, "beta_2")]
)
def test_decays_that_no_short_form_can_follow_are_refused(changes, field):
    with pytest.raises(InputError, match=f"^{field}: ") as caught:
        Missed(**changes)
    assert caught.value.remedy
