"""What a row costs, as other chapters ask for it, on a made-up machine."""

import pytest
from made_up import made_up

from traintime.book.chapters import vocabulary

pytestmark = pytest.mark.usefixtures("few_draws")


def test_the_cost_is_the_slope_between_two_sizes_with_an_interval_around_it():
    costs = {"numpy": 1e-6, "2026-jax": 5e-7}
    sizes = [(stack, size) for stack in costs for size in vocabulary.VOCABULARIES]
    book = made_up(*((stack, {"vocabulary": size}, 0.02 + costs[stack] * size) for stack, size in sizes))
    found = vocabulary.cost_of_a_row(book, vocabulary.by_vocabulary(book))
    assert {name: cost.value for name, cost in found.items()} == {
        (stack, "adam"): pytest.approx(cost, rel=1e-3) for stack, cost in costs.items()
    }
    assert all(cost.low < cost.value < cost.high for cost in found.values())
    assert found["numpy", "adam"].low == pytest.approx(1e-6, rel=0.2)  # a sweep shifts both steps
