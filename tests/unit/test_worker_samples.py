"""Inputs and starting weights: the same for everybody."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintime import workloads


@pytest.fixture(scope="module")
def samples(worker_module):
    return worker_module("samples")


@pytest.fixture(scope="module")
def sentences(samples):
    """The classifier's own: tokens and labels of as many sentences as are asked for."""
    return samples.data.samples


@pytest.fixture
def sizes(tiny):
    return tiny.sizes.model_dump()


def test_batches_differ_from_one_to_the_next_and_never_end(samples, sizes):
    many = list(itertools.islice(samples.batches(sizes), 2 * samples.POOL + 1))
    assert not any(np.array_equal(one[0], other[0]) for one, other in itertools.pairwise(many))
    assert many[0] is many[samples.POOL] is many[2 * samples.POOL]


def test_the_numbers_are_those_of_numpys_legacy_generator_for_good(samples, sizes):
    """NumPy freezes this generator: if these change, stored losses no longer compare with new ones.

    Drawn here by hand: tokens, then labels, then the next batch's, from one generator.
    """
    random = np.random.RandomState(3)
    for tokens, labels in itertools.islice(samples.batches(sizes, seed=3), 3):
        np.testing.assert_array_equal(tokens, random.randint(0, 11, size=(6, 5)))
        np.testing.assert_array_equal(labels, random.randint(0, 2, size=(6, 1)))
    assert samples.weights(sizes)[0][0, 0] == pytest.approx(-0.1 + 0.2 * 0.417022004702574)


def test_a_large_table_is_drawn_in_blocks_and_does_not_depend_on_them(samples, monkeypatch):
    whole = samples.uniform((100, 3), np.random.RandomState(0))
    monkeypatch.setattr(samples, "BLOCK", 7)
    np.testing.assert_array_equal(samples.uniform((100, 3), np.random.RandomState(0)), whole)
    assert np.abs(whole).max() <= 0.1


@pytest.mark.parametrize("words", [None, 19])
def test_the_nth_word_is_as_frequent_as_zipfs_law_says(sentences, sizes, words):
    point = sizes | {"vocabulary": 1000, "length": 20, "words": words, "tokens": "zipf"}
    tokens, _ = sentences(point, 20_000, np.random.RandomState(0))
    tokens, paddings = (tokens, 0) if words is None else (tokens[:, 1:], 1)
    counts = np.bincount(tokens.ravel(), minlength=1000)
    assert len(counts) == 1000
    expected = 1 / np.arange(1, 1001 - paddings)
    expected *= tokens.size / expected.sum()
    # Six standard deviations of a count; the law's tail is in it, too.
    assert (np.abs(counts[paddings:] - expected) < 6 * np.sqrt(expected)).all()
    assert counts[:paddings].sum() == 0


@given(st.integers(1, 40), st.integers(1, 8), st.data(), st.sampled_from(["uniform", "zipf"]), st.integers(0, 99))
def test_every_token_is_a_row_of_the_table_and_padding_is_in_front(sentences, vocabulary, length, data, tokens, seed):
    words = data.draw(st.none() | st.integers(1, length)) if vocabulary > 1 else None
    point = {"vocabulary": vocabulary, "length": length, "words": words, "tokens": tokens}
    drawn, labels = sentences(point, 9, np.random.RandomState(seed))
    assert (drawn.shape, drawn.dtype) == ((9, length), np.int32)
    assert (labels.shape, labels.dtype) == ((9, 1), np.float32)
    assert 0 <= drawn.min() <= drawn.max() < vocabulary
    padding = 0 if words is None else length - words
    assert (drawn[:, :padding] == 0).all()
    if padding:
        assert drawn[:, padding:].min() > 0


@pytest.mark.parametrize("name", workloads.ALL)
def test_every_workload_gives_as_many_samples_as_are_asked_for_and_the_same_ones_again(name, worker_module):
    module = worker_module("samples", name)
    sizes = workloads.get(name)(batch=7).model_dump()
    if "vocabulary" in sizes:
        sizes["vocabulary"] = 50
    for count in (1, 7):
        (inputs, targets), again = (module.data.samples(sizes, count, np.random.RandomState(3)) for _ in range(2))
        assert len(inputs) == len(targets) == count
        np.testing.assert_array_equal(inputs, again[0])
        np.testing.assert_array_equal(targets, again[1])
