"""What a row costs, as other chapters ask for it, on a made-up machine."""

import pytest
from made_up import made_up

from traintime.book.chapters import vocabulary

pytestmark = pytest.mark.usefixtures("few_draws")


def test_the_price_is_the_slope_between_two_sizes_with_an_interval_around_it():
    prices = {"numpy": 1e-6, "2026-jax": 5e-7}
    sizes = [(stack, size) for stack in prices for size in vocabulary.VOCABULARIES]
    book = made_up(*((stack, {"vocabulary": size}, 0.02 + prices[stack] * size) for stack, size in sizes))
    found = vocabulary.price_of_a_row(book, vocabulary.by_vocabulary(book))
    assert {name: price.value for name, price in found.items()} == {
        (stack, "adam"): pytest.approx(price, rel=1e-3) for stack, price in prices.items()
    }
    assert all(price.low < price.value < price.high for price in found.values())
    assert found["numpy", "adam"].low == pytest.approx(1e-6, rel=0.2)  # a sweep shifts both steps
