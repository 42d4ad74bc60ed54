"""Closed forms against numbers counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintime import counts
from traintime.point import make_point

sizes = st.integers(1, 1000)


@pytest.mark.parametrize(
    ("inputs", "units", "expected"),
    [
        (1, 1, 12),  # four gates, each with one input weight, one recurrent weight, one bias
        (3, 4, 128),  # each gate: 3 x 4 + 4 x 4 + 4 = 32
        (300, 128, 219_648),
    ],
)
def test_an_lstm_has_four_gates_of_weights(inputs, units, expected):
    assert counts.lstm_parameters(inputs, units) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"vocabulary": 1, "embedding": 1, "units": 1}, 1 + 12 + 2),
        ({"vocabulary": 11, "embedding": 3, "units": 4}, 33 + 128 + 5),
        ({"vocabulary": 5000, "embedding": 300, "units": 128}, 1_719_777),
        ({}, 84_219_777),
    ],
)
def test_parameters_are_counted_as_by_hand(changes, expected):
    assert counts.parameters(make_point(**changes)) == expected


@given(sizes, sizes, sizes, sizes)
def test_one_more_row_adds_the_numbers_of_one_row(vocabulary, embedding, units, more):
    point = make_point(vocabulary=vocabulary, embedding=embedding, units=units)
    larger = point.model_copy(update={"vocabulary": vocabulary + more})
    assert counts.parameters(larger) - counts.parameters(point) == more * embedding


@pytest.mark.parametrize("changes", [{"length": 7}, {"batch": 9}, {"optimizer": "sgd"}, {"frozen": True}])
def test_parameters_depend_on_the_model_alone(changes):
    assert counts.parameters(make_point(**changes)) == counts.parameters(make_point())


def test_a_frozen_table_is_not_trained():
    sizes = {"vocabulary": 11, "embedding": 3, "units": 4}
    assert counts.trained_parameters(make_point(**sizes)) == 166
    assert counts.trained_parameters(make_point(**sizes, frozen=True)) == 133


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ({"batch": 1, "length": 5}, 5),
        ({"batch": 2, "length": 5}, 10),
        ({"batch": 3, "length": 5}, 11),  # the whole table
        ({"batch": 1, "length": 5, "frozen": True}, 0),
    ],
)
def test_by_rows_no_more_rows_are_trained_than_a_batch_has_words(changes, rows):
    point = make_point(vocabulary=11, embedding=3, units=4, optimizer="adam-rows", **changes)
    assert counts.trained_parameters(point) == 133 + 3 * rows
    assert counts.update_bytes(point) == (133 + 3 * rows) * 8 * 4


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Eight float32 numbers a parameter: one zeroed, four read (gradient, parameter, two moments), three written.
        ({}, 166 * 8 * 4),
        # Four of them: one zeroed, two read (gradient, parameter), one written.
        ({"optimizer": "sgd"}, 166 * 4 * 4),
        ({"frozen": True}, 133 * 8 * 4),
    ],
)
def test_the_bytes_of_an_update(changes, expected):
    assert counts.update_bytes(make_point(vocabulary=11, embedding=3, units=4, **changes)) == expected


def test_the_operations_of_the_smallest_step():
    """Four gates with an input and a recurrent weight: 8 weights, each 1 product forward and 2 back, 2 operations."""
    point = make_point(vocabulary=1, embedding=1, units=1, length=1, batch=1)
    assert counts.matmul_flops(point) == 8 * 3 * 2


@pytest.mark.parametrize("field", ["length", "batch"])
def test_operations_grow_with_the_words_of_a_step_and_not_with_the_vocabulary(field):
    point = make_point()
    twice = point.model_copy(update={field: 2 * getattr(point, field)})
    assert counts.matmul_flops(twice) == 2 * counts.matmul_flops(point)
    assert counts.matmul_flops(make_point(vocabulary=1)) == counts.matmul_flops(point)


@pytest.mark.parametrize(
    ("sentences", "batch", "expected"),
    [(1, 1, 1), (100, 100, 1), (101, 100, 2), (99, 100, 1), (1_000_000, 100, 10_000), (1_000_000, 128, 7813)],
)
def test_steps_of_an_epoch(sentences, batch, expected):
    assert counts.steps_per_epoch(sentences, batch) == expected


@given(st.integers(1, 10**9), st.integers(1, 10**5))
def test_an_epoch_has_room_for_every_sentence_and_no_empty_step(sentences, batch):
    steps = counts.steps_per_epoch(sentences, batch)
    assert (steps - 1) * batch < sentences <= steps * batch


@pytest.mark.parametrize(
    ("changes", "expected"), [({}, 166 * 12), ({"optimizer": "sgd"}, 166 * 2), ({"frozen": True}, 133 * 12)]
)
def test_the_operations_of_an_update(changes, expected):
    assert counts.update_flops(make_point(vocabulary=11, embedding=3, units=4, **changes)) == expected


def test_the_bytes_of_the_smallest_steps_products():
    """One input and one state, each times four gates: 1 + 4 + 4 numbers a product, two products, three times each."""
    point = make_point(vocabulary=1, embedding=1, units=1, length=1, batch=1)
    assert counts.matmul_bytes(point) == 2 * 3 * 9 * 4


def test_the_weights_of_the_state_are_fetched_for_every_position_and_those_of_the_input_once():
    """Two positions: inputs 2 x 1, weights 1 x 4, gates 2 x 4; and twice 1 + 4 + 4 for the state."""
    point = make_point(vocabulary=1, embedding=1, units=1, length=2, batch=1)
    assert counts.matmul_bytes(point) == 3 * 4 * ((2 + 4 + 8) + 2 * 9)
