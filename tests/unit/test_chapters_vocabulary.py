"""What a row costs, what the interventions show, and the claims of the vocabulary chapter, on made-up measurements."""

import pandas as pd
import pytest
from made_up import made_up, verdict, verdicts

from traintime.book import stored
from traintime.book.chapters import vocabulary
from traintime.book.stored import Measurements

pytestmark = pytest.mark.usefixtures("few_draws")
CHAPTER = "03-vocabulary"
BANDWIDTH = 9600 / 100e-9  # bytes a second at which a row's floor is 100 ns
FIXED = 0.02  # s a step


def machine(prices, sizes=vocabulary.VOCABULARIES, **more):
    """Steps of FIXED + price * rows. prices: (stack, how) -> s a row."""
    steps = []
    for (stack, how), price in prices.items():
        fields = {"frozen": True} if how == "frozen" else {"optimizer": how}
        steps += [(stack, {"vocabulary": size, **fields}, FIXED + price * size) for size in sizes]
    book = made_up(*steps, **more)
    book.rates = {"bandwidth_bytes_per_s": BANDWIDTH}
    return book


def without(book, stack, how, size, runs=0):
    """The machine with so many runs of a point of three."""
    rows = book.rows
    of_point = (rows["stack"] == stack) & (stored.how(rows) == how) & (rows["vocabulary"] == size)
    return Measurements(rows[~of_point | (rows["round"] < runs)], "made-up")


def adam(**prices):
    """Prices (s a row) of stacks with Adam: numpy=1e-6, jax=2e-6."""
    return {({"numpy": "numpy"}.get(name, f"2026-{name}"), "adam"): price for name, price in prices.items()}


def ways(sgd, frozen, price=1e-6, stacks=("2017-theano", "numpy")):
    """Prices of every way on these stacks, as shares of Adam's."""
    shares = {"adam": 1.0, "sgd": sgd, "frozen": frozen}
    return {(stack, how): price * share for stack in stacks for how, share in shares.items()}


# The price of a row


def test_the_price_is_the_slope_between_two_sizes_with_an_interval_around_it():
    book = machine(adam(numpy=1e-6, jax=5e-7))
    prices = vocabulary.price_of_a_row(book, vocabulary.by_vocabulary(book))
    assert prices["numpy", "adam"].value == pytest.approx(1e-6, rel=1e-3)
    assert prices["2026-jax", "adam"].value == pytest.approx(5e-7, rel=1e-3)
    assert all(price.low < price.value < price.high for price in prices.values())
    assert prices["numpy", "adam"].low == pytest.approx(1e-6, rel=0.2)  # a sweep shifts both steps


# Interventions


@pytest.mark.parametrize("size", [20_000, 80_000])
@pytest.mark.parametrize("how", vocabulary.WAYS)
def test_a_stack_that_lacks_a_size_of_a_way_is_left_out(how, size):
    book = machine(ways(0.5, 0.01), [20_000, 80_000])
    kept = vocabulary.intervened(without(book, "numpy", how, size))
    assert set(kept["stack"]) == {"2017-theano"}
    assert len(kept) == 6


def test_single_runs_enter_no_figure():
    book = without(machine(ways(0.5, 0.01)), "numpy", "frozen", 2_000_000, runs=1)
    ends = vocabulary.growth(book).set_index(["stack", "how"])["to"]
    assert set(ends["numpy"]) == {800_000}
    assert set(ends["2017-theano"]) == {2_000_000}


def test_growth_compares_the_same_two_sizes_in_every_way():
    book = machine(ways(0.5, 0.0, stacks=["numpy"]))
    grown = vocabulary.growth(book).set_index("how")
    assert (grown["from"] == 20_000).all()
    assert (grown["to"] == 2_000_000).all()
    assert grown.loc["adam", "times"].value == pytest.approx(2.02 / 0.04)
    assert grown.loc["frozen", "times"].value == pytest.approx(1)
    assert 1 in grown.loc["frozen", "times"]
    assert grown.loc["sgd", "share"].value == pytest.approx(0.5)


# Claims

FLOOR = 100e-9


@pytest.mark.parametrize(
    ("label", "prices", "expected"),
    [
        ("03.1", adam(numpy=3 * FLOOR, jax=2 * FLOOR), "holds"),
        ("03.1", adam(numpy=3 * FLOOR, jax=0.5 * FLOOR), "does not hold"),
        ("03.1", adam(numpy=3 * FLOOR, jax=FLOOR), "inconclusive"),
        ("03.3", adam(numpy=10 * FLOOR, jax=2 * FLOOR), "holds"),
        ("03.3", adam(numpy=3 * FLOOR, jax=2 * FLOOR), "does not hold"),
        ("03.3", adam(numpy=6 * FLOOR, jax=2 * FLOOR), "inconclusive"),
        ("03.3", adam(numpy=6 * FLOOR), "not measured"),
        ("03.5", ways(0.5, 0.01), "holds"),
        ("03.5", ways(0.5, 0.2), "does not hold"),
        ("03.5", ways(0.5, 0.05), "inconclusive"),
        ("03.6", ways(0.5, 0.01), "holds"),
        ("03.6", ways(1.2, 0.01), "does not hold"),
        ("03.6", ways(1.0, 0.01), "inconclusive"),
    ],
)
def test_a_claim_is_judged_by_its_interval(label, prices, expected):
    assert verdict(label, machine(prices)) == expected


def test_a_line_that_is_too_low_at_the_top_is_seen():
    book = machine(adam(numpy=1e-6, jax=1e-6))
    steep = (book.rows["stack"] == "numpy") & (book.rows["vocabulary"] == 2_000_000)
    for column in ("step_s", "median_s"):
        book.rows.loc[steep, column] *= 3
    missed = vocabulary.too_short(book)
    assert missed.most.name == "numpy"
    assert 0.3 < missed["numpy"].low < missed["numpy"].value
    assert abs(missed["2026-jax"].value) < 0.02


def test_a_machine_that_nobody_described_has_no_floor_and_raises_nothing():
    found = verdicts(CHAPTER, Measurements(machine(adam(numpy=1e-6, jax=1e-7)).rows, "made-up"))
    assert found["03.1"] == "not measured"


def test_single_runs_decide_nothing():
    book = machine(ways(0.5, 0.01, stacks=["2017-theano", "numpy"]), noise=(1.0,))
    assert set(verdicts(CHAPTER, book).values()) <= {"inconclusive", "not measured"}


# The page


def test_a_configuration_has_one_value_from_all_sweeps_of_todays_code():
    book = machine(adam(numpy=1e-6), [80_000])
    again = book.rows.assign(sweep="another", protocol="2+12", started="2026-02-02T03:04:05Z")
    old = book.rows.assign(sweep="old", code="", step_s=9.0, median_s=9.0, started="2026-01-01T03:04:05Z")
    (row,) = Measurements(pd.concat([old, book.rows, again]), "made-up").points(vocabulary=80_000).itertuples()
    assert row.runs == 6
    assert row.step_s < 1


# On a card


def on_card(row_s, step_s=4e-3):
    """Steps of two stacks on a card over the vocabulary; row_s: what a row costs."""
    sizes = (vocabulary.SMALL, vocabulary.MIDDLE, vocabulary.MOST)
    steps = [
        (stack, {"vocabulary": rows} | vocabulary.ON_CARD, step_s + row_s * rows)
        for stack in ("2026-jax", "2026-torch")
        for rows in sizes
    ]
    return made_up(*steps, described={"gpus": [{"name": "NVIDIA H200"}]})


@pytest.mark.parametrize(("row_s", "expected"), [(4e-9, "holds"), (1e-10, "does not hold")])
def test_the_claim_of_the_card_follows_its_growth(row_s, expected):
    assert verdict("03.11", on_card(row_s)) == expected


def test_a_row_on_a_card_is_held_against_its_data_sheet():
    book = on_card(4e-9)
    in_floors = 4e-9 / vocabulary.card_floor_s(book)
    assert vocabulary.card_floors(book)["2026-jax"].value == pytest.approx(in_floors, rel=1e-3)
