"""Inputs and starting weights: the same for everybody."""

import importlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintime import paths


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


def test_without_padding_the_batches_are_what_the_generator_gives_one_after_the_other(batches, sizes):
    """Drawn here by hand: tokens, then labels, then the next batch's, from one generator."""
    random = np.random.RandomState(3)
    for tokens, labels in itertools.islice(batches.batches(sizes, seed=3), 3):
        np.testing.assert_array_equal(tokens, random.randint(0, 11, size=(6, 5)))
        np.testing.assert_array_equal(labels, random.randint(0, 2, size=(6, 1)))


# Words as frequent as Zipf's law says


def test_the_nth_word_is_as_frequent_as_zipfs_law_says(batches, sizes):
    point = sizes | {"vocabulary": 1000, "length": 20, "tokens": "zipf"}
    tokens, _ = batches.sentences(point, 20_000, np.random.RandomState(0))
    counts = np.bincount(tokens.ravel(), minlength=1000)
    assert len(counts) == 1000
    assert counts[0] / counts[1] == pytest.approx(2, rel=0.03)
    expected = tokens.size / np.arange(1, 1001) / (1 / np.arange(1, 1001)).sum()
    # Six standard deviations of a count; the law's tail is in it, too.
    assert (np.abs(counts - expected) < 6 * np.sqrt(expected)).all()


def test_the_most_frequent_word_is_the_first_after_the_paddings(batches, sizes):
    point = sizes | {"vocabulary": 50, "length": 4, "words": 3, "tokens": "zipf"}
    tokens, _ = batches.sentences(point, 5000, np.random.RandomState(0))
    counts = np.bincount(tokens[:, 1:].ravel(), minlength=50)
    assert counts[0] == 0
    assert counts[1] == counts.max()
    assert counts[1] / counts[2] == pytest.approx(2, rel=0.1)
    assert counts[49] > 0


# Padding


def test_padding_is_in_front_and_no_word_is_its_token(batches, sizes):
    for tokens in ("uniform", "zipf"):
        point = sizes | {"vocabulary": 3, "length": 7, "words": 4, "tokens": tokens}
        drawn, _ = batches.sentences(point, 200, np.random.RandomState(0))
        assert (drawn[:, :3] == 0).all()
        assert set(np.unique(drawn[:, 3:])) == {1, 2}


@pytest.fixture(scope="module")
def sentences():
    """The function itself, for tests with many examples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(paths.WORKER))
        yield importlib.import_module("batches").sentences


@given(st.integers(2, 40), st.integers(1, 8), st.data(), st.sampled_from(["uniform", "zipf"]), st.integers(0, 99))
def test_every_token_is_a_row_of_the_table_however_it_is_drawn(sentences, vocabulary, length, data, tokens, seed):
    words = data.draw(st.none() | st.integers(1, length))
    point = {"vocabulary": vocabulary, "length": length, "words": words, "tokens": tokens}
    drawn, labels = sentences(point, 9, np.random.RandomState(seed))
    assert (drawn.shape, drawn.dtype) == ((9, length), np.int32)
    assert (labels.shape, labels.dtype) == ((9, 1), np.float32)
    assert 0 <= drawn.min() <= drawn.max() < vocabulary
    padding = 0 if words is None else length - words
    assert (drawn[:, :padding] == 0).all()
    if padding:
        assert drawn[:, padding:].min() > 0


def test_a_table_of_one_row_has_one_word(batches, sizes):
    drawn, _ = batches.sentences(sizes | {"vocabulary": 1, "tokens": "zipf"}, 50, np.random.RandomState(0))
    assert set(np.unique(drawn)) == {0}
