"""What a row costs, what the interventions show, and the claims of the vocabulary chapter, on made-up measurements."""

import numpy as np
import pandas as pd
import pytest
from made_up import made_up, verdict, verdicts
from tables import cells

from traintime.book.chapters import vocabulary, vocabulary_card
from traintime.book.stored import Measurements

pytestmark = pytest.mark.usefixtures("few_draws")
CHAPTER = "03-vocabulary"
BANDWIDTH = 9600 / 100e-9  # bytes a second at which a row's floor is 100 ns
FIXED = 0.02  # s a step
NOISE = (0.99, 1.01, 1.0)


def machine(prices, sizes=vocabulary.VOCABULARIES, noise=NOISE, sweep="all", once=()):
    """Steps of FIXED + price * rows. prices: (stack, how) -> s a row; once: (stack, how, rows) of single runs."""
    repeated, single = [], []
    for (stack, how), price in prices.items():
        fields = {"frozen": True} if how == "frozen" else {"optimizer": how}
        for size in sizes:
            steps = single if (stack, how, size) in once else repeated
            steps.append((stack, {"vocabulary": size, **fields}, FIXED + price * size))
    parts = [made_up(*repeated, noise=noise, sweep=sweep)]
    parts += [made_up(*single, noise=noise[:1], sweep=sweep)] if single else []
    book = whole(*parts)
    book.rates = {"bandwidth_bytes_per_s": BANDWIDTH}
    return book


def whole(*parts):
    """All of these as one machine's, of which nobody knows the rates."""
    return Measurements(pd.concat([part.rows for part in parts], ignore_index=True), "made-up")


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
    assert prices["numpy", "adam"].value == pytest.approx(1e-6)
    assert prices["2026-jax", "adam"].value == pytest.approx(5e-7)
    assert all(price.low < price.value < price.high for price in prices.values())
    assert prices["numpy", "adam"].low == pytest.approx(1e-6, rel=0.1)


def test_the_price_looks_at_its_two_sizes_alone():
    book = machine(adam(numpy=1e-6))
    others = ~book.rows["vocabulary"].isin(vocabulary.PRICED)
    book.rows.loc[others, ["step_s", "median_s"]] *= 7
    found = vocabulary.by_vocabulary(book)
    assert vocabulary.price_of_a_row(book, found)["numpy", "adam"].value == pytest.approx(1e-6)


def test_a_stack_without_both_sizes_has_no_price():
    book = machine(adam(numpy=1e-6), sizes=[80_000, 800_000])
    found = vocabulary.by_vocabulary(book)
    assert vocabulary.price_of_a_row(book, found) == {}
    assert vocabulary.price_of_a_row(book, found, (80_000, 800_000))["numpy", "adam"].value == pytest.approx(1e-6)


def test_two_prices_are_divided_with_an_interval():
    book = machine(adam(numpy=1e-6, jax=5e-7))
    found = vocabulary.by_vocabulary(book)
    ratio = vocabulary.ratio_of_prices(book, found, ("numpy", "adam"), ("2026-jax", "adam"))
    assert ratio.value == pytest.approx(2)
    assert ratio.low < 2 < ratio.high


# Interventions


def points(*rows):
    """Points of these (stack, how, vocabulary)."""
    return pd.DataFrame(rows, columns=["stack", "how", "vocabulary"]).assign(length=25)


WHOLE = [("jax", how, size) for how in vocabulary.WAYS for size in (10, 20)]


def test_a_stack_on_which_every_way_was_tried_is_kept_with_its_ways():
    kept = vocabulary.in_every_way(points(*WHOLE))
    assert list(kept["how"]) == ["adam", "adam", "sgd", "sgd", "frozen", "frozen"]
    assert list(kept["vocabulary"]) == [10, 20] * 3


@pytest.mark.parametrize("lost", range(6))
def test_a_stack_that_lacks_a_size_of_a_way_is_left_out(lost):
    poorer = [("torch", *row[1:]) for place, row in enumerate(WHOLE) if place != lost]
    kept = vocabulary.in_every_way(points(*WHOLE, *poorer))
    assert set(kept["stack"]) == {"jax"}
    assert len(kept) == 6


def test_a_stack_that_lacks_a_way_is_left_out_also_where_no_stack_has_it():
    poorer = [("torch", *row[1:]) for row in WHOLE if row[1] != "sgd"]
    assert set(vocabulary.in_every_way(points(*WHOLE, *poorer))["stack"]) == {"jax"}
    assert vocabulary.in_every_way(points(*poorer)).empty


def test_another_optimizer_is_no_part_of_the_intervention():
    others = [("jax", "adam-rows", 10), ("numpy", "adam-rows", 10), ("numpy", "adam-rows", 20)]
    kept = vocabulary.in_every_way(points(*WHOLE, *others))
    assert set(kept["how"]) == {"adam", "sgd", "frozen"}
    assert set(kept["stack"]) == {"jax"}


def test_the_two_sizes_are_those_of_the_sweep_that_is_asked_about():
    assert vocabulary.in_every_way(points(*WHOLE), against="length").empty


def test_where_one_sweep_measured_all_ways_only_its_invocations_count():
    together = machine(ways(0.5, 0.01), sweep="interventions")
    alone = machine({("numpy", "adam"): 3e-6}, sweep="vocabulary")
    assert set(vocabulary.intervened(whole(together, alone))["invocations"]) == {3}
    apart = machine({("numpy", "adam"): 1e-6, ("numpy", "sgd"): 5e-7}, sweep="one")
    rest = machine({("numpy", "frozen"): 1e-8}, sweep="two")
    assert set(vocabulary.intervened(whole(apart, rest))["how"]) == {"adam", "sgd", "frozen"}


def test_single_runs_enter_no_figure():
    single = ("numpy", "frozen", 2_000_000)
    book = machine(ways(0.5, 0.01), once=[single])
    ends = vocabulary.growth(book).set_index(["stack", "how"])["to"]
    assert set(ends["numpy"]) == {800_000}
    assert set(ends["2017-theano"]) == {2_000_000}


def test_where_nothing_was_repeated_single_runs_are_all_there_is():
    book = machine(ways(0.5, 0.01), noise=(1.0,))
    grown = vocabulary.growth(book)
    assert len(grown) == 6
    assert all(np.isnan(share.low) for share in grown[grown["how"] != "adam"]["share"])


def test_growth_compares_the_same_two_sizes_in_every_way():
    book = machine(ways(0.5, 0.0, stacks=["numpy"]))
    grown = vocabulary.growth(book).set_index("how")
    assert (grown["from"] == 20_000).all()
    assert (grown["to"] == 2_000_000).all()
    assert grown.loc["adam", "times"].value == pytest.approx(2.02 / 0.04)
    assert grown.loc["frozen", "times"].value == pytest.approx(1)
    assert 1 in grown.loc["frozen", "times"]
    assert grown.loc["sgd", "share"].value == pytest.approx(0.5)
    assert grown.loc["sgd", "price"].value == pytest.approx(5e-7)


# Claims

FLOOR = 100e-9


@pytest.mark.parametrize(
    ("label", "prices", "expected"),
    [
        ("03.1", adam(numpy=3 * FLOOR, jax=2 * FLOOR), "holds"),
        ("03.1", adam(numpy=3 * FLOOR, jax=0.5 * FLOOR), "does not hold"),
        ("03.1", adam(numpy=3 * FLOOR, jax=FLOOR), "inconclusive"),
        ("03.2", adam(numpy=3 * FLOOR, jax=10 * FLOOR), "holds"),
        ("03.2", adam(numpy=3 * FLOOR, jax=30 * FLOOR), "does not hold"),
        ("03.2", adam(numpy=3 * FLOOR, jax=20 * FLOOR), "inconclusive"),
        ("03.3", adam(numpy=10 * FLOOR, jax=2 * FLOOR), "holds"),
        ("03.3", adam(numpy=3 * FLOOR, jax=2 * FLOOR), "does not hold"),
        ("03.3", adam(numpy=6 * FLOOR, jax=2 * FLOOR), "inconclusive"),
        ("03.3", adam(numpy=6 * FLOOR), "not measured"),
        ("03.4", adam(numpy=10 * FLOOR), "does not hold"),
        ("03.5", ways(0.5, 0.01), "holds"),
        ("03.5", ways(0.5, 0.2), "does not hold"),
        ("03.5", ways(0.5, 0.05), "inconclusive"),
        ("03.6", ways(0.5, 0.01), "holds"),
        ("03.6", ways(1.2, 0.01), "does not hold"),
        ("03.6", ways(1.0, 0.01), "inconclusive"),
        ("03.7", ways(0.5, 0.01), "holds"),
        ("03.7", ways(0.02, 0.01), "does not hold"),
        ("03.7", ways(0.1, 0.01), "inconclusive"),
        ("03.8", ways(0.5, 0.01), "holds"),
        ("03.8", ways(0.9, 0.01), "does not hold"),
        ("03.8", ways(0.75, 0.01), "inconclusive"),
        ("03.8", ways(0.5, 0.01, stacks=["2026-jax"]), "not measured"),
    ],
)
def test_a_claim_is_judged_by_its_interval(label, prices, expected):
    assert verdict(label, machine(prices)) == expected


def test_a_line_that_is_too_low_at_the_top_is_seen():
    book = machine(adam(numpy=1e-6, jax=1e-6))
    steep = (book.rows["stack"] == "numpy") & (book.rows["vocabulary"] == 2_000_000)
    for column in ("step_s", "median_s"):
        book.rows.loc[steep, column] *= 3
    assert verdict("03.4", book) == "holds"
    missed = vocabulary.misses(book, vocabulary.by_vocabulary(book))
    assert missed["numpy"].value < -0.3
    assert abs(missed["2026-jax"].value) < 0.02


def test_a_machine_that_nobody_described_has_no_floor_and_raises_nothing():
    found = verdicts(CHAPTER, whole(machine(adam(numpy=1e-6, jax=1e-7))))
    assert (found["03.1"], found["03.2"]) == ("not measured", "not measured")


def test_single_runs_decide_nothing():
    book = machine(ways(0.5, 0.01, stacks=["2017-theano", "numpy"]), noise=(1.0,))
    assert set(verdicts(CHAPTER, book).values()) <= {"inconclusive", "not measured"}


# The page


def test_a_table_row_a_stack_says_what_it_pays():
    book = machine(adam(numpy=1e-6, jax=5e-7))
    rows = {row[0]: row[1:] for row in cells(vocabulary.per_row_table(book))}
    assert rows.keys() == {"2026-jax", "numpy"}
    assert rows["numpy"][1:] == ["10.0", "5.61 at 2M"]


def test_this_runs_rows_stand_next_to_the_stored_ones():
    book, live = machine(ways(0.5, 0.0, stacks=["numpy"])), machine(ways(0.25, 0.0, 2e-6, ["numpy"]), [20_000, 80_000])
    points = live.points(**vocabulary.WANTED)
    rows = {row[1]: row[2:] for row in cells(vocabulary.here_table(live, book, points))}
    assert rows["adam"][:2] == ["60", "180"]
    assert [cell.split(" ")[0] for cell in rows["adam"][2:]] == ["2,000", "1,000"]
    assert [cell.split(" ")[0] for cell in rows["sgd"]] == ["30", "60", "500", "500"]
    once = machine(ways(0.25, 0.0, 2e-6, ["numpy"]), [20_000, 80_000], noise=[1.0])
    assert cells(vocabulary.here_table(once, book, once.points(**vocabulary.WANTED)))[0][4] == "one run"


def test_runs_that_a_time_ended_are_one_point_whatever_that_time_was():
    """Of each round of the first machine's sweeps; a number of steps fixed beforehand stays a way of its own."""
    book = machine(adam(numpy=1e-6), [80_000])
    rows = book.rows.assign(fixed=False, protocol=["2+30, 2 to 5 s", "2+30, 2 to 10 s", "2+30, 2 to 2.5 s"])
    assert Measurements(rows, "made-up").points(vocabulary=80_000)["invocations"].tolist() == [3]
    rows = book.rows.assign(protocol=["2+30, 2 to 5 s", "2+30, 2 to 10 s", "2+30"])
    assert Measurements(rows, "made-up").points(vocabulary=80_000)["invocations"].tolist() == [2]


# On a card


def on_card(row_s, step_s=4e-3):
    """Steps of two stacks on a card over the vocabulary; row_s: what a row costs."""
    sizes = (vocabulary_card.SMALL, vocabulary_card.MIDDLE, vocabulary_card.LARGE)
    steps = [
        (stack, {"vocabulary": rows} | vocabulary_card.ON_CARD, step_s + row_s * rows)
        for stack in ("2026-jax", "2026-torch")
        for rows in sizes
    ]
    return made_up(*steps, described={"gpus": [{"name": "NVIDIA H200"}]})


def test_a_cards_row_is_compared_with_its_data_sheet():
    book = on_card(4e-9)
    assert vocabulary_card.of_a_row(book)["2026-jax"].value == pytest.approx(4e-9, rel=1e-3)
    assert vocabulary_card.floor_s(book) == pytest.approx(9600 / 4.8e12)


@pytest.mark.parametrize(
    ("row_s", "small", "large"),
    [(4e-9, "holds", "holds"), (1e-8, "does not hold", "holds"), (1e-10, "holds", "does not hold")],
)
def test_claims_of_the_card_follow_its_growth(row_s, small, large):
    book = on_card(row_s)
    assert (verdict("03.10", book), verdict("03.11", book)) == (small, large)
