"""Inputs and starting weights: the same for everybody."""

import itertools

import numpy as np
import pytest


@pytest.fixture
def batches(worker_module):
    return worker_module("batches")


@pytest.fixture
def sizes(tiny):
    return tiny.model_dump()


def test_tokens_and_labels_have_the_shapes_and_types_that_the_models_expect(batches, sizes):
    tokens, labels = next(batches.batches(sizes))
    assert (tokens.shape, tokens.dtype) == ((6, 5), np.int32)
    assert (labels.shape, labels.dtype) == ((6, 1), np.float32)
    assert set(np.unique(labels)) <= {0, 1}


def test_every_token_is_a_row_of_the_table_and_both_labels_occur(batches, sizes):
    pool = list(itertools.islice(batches.batches(sizes), batches.POOL))
    tokens = np.concatenate([tokens.ravel() for tokens, _ in pool])
    assert set(tokens) == set(range(11))
    assert {label for _, labels in pool for label in labels.ravel()} == {0, 1}


def test_the_same_seed_gives_the_same_batches(batches, sizes):
    for one, other in itertools.islice(zip(batches.batches(sizes), batches.batches(sizes), strict=True), 20):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


def test_another_seed_gives_other_batches(batches, sizes):
    assert not np.array_equal(next(batches.batches(sizes))[0], next(batches.batches(sizes, seed=1))[0])


def test_batches_differ_from_one_to_the_next_and_never_end(batches, sizes):
    many = list(itertools.islice(batches.batches(sizes), 2 * batches.POOL + 1))
    assert not any(np.array_equal(one[0], other[0]) for one, other in itertools.pairwise(many))
    assert many[0] is many[batches.POOL] is many[2 * batches.POOL]


def test_weights_have_keras_shapes_and_are_float32(batches, sizes):
    weights = batches.weights(sizes)
    assert [weight.shape for weight in weights] == [(11, 3), (3, 16), (4, 16), (16,), (4, 1), (1,)]
    assert {weight.dtype for weight in weights} == {np.dtype("float32")}
    assert all(np.abs(weight).max() <= 0.1 for weight in weights)


def test_the_same_seed_gives_the_same_weights_and_another_gives_others(batches, sizes):
    for one, same, other in zip(batches.weights(sizes), batches.weights(sizes), batches.weights(sizes, 2), strict=True):
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)


def test_the_numbers_are_those_of_numpys_legacy_generator_for_good(batches, sizes):
    """NumPy freezes this generator: if these change, stored losses no longer compare with new ones."""
    expected = np.random.RandomState(0).randint(0, 11, size=(6, 5))
    np.testing.assert_array_equal(next(batches.batches(sizes))[0], expected)
    assert batches.weights(sizes)[0][0, 0] == pytest.approx(-0.1 + 0.2 * 0.417022004702574)
