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


def test_weights_have_keras_shapes_and_are_float32(samples, sizes):
    weights = samples.weights(sizes)
    assert [weight.shape for weight in weights] == [(11, 3), (3, 16), (4, 16), (16,), (4, 1), (1,)]
    assert {weight.dtype for weight in weights} == {np.dtype("float32")}
    assert all(np.abs(weight).max() <= 0.1 for weight in weights)


def test_the_same_seed_gives_the_same_weights_and_another_gives_others(samples, sizes):
    for one, same, other in zip(samples.weights(sizes), samples.weights(sizes), samples.weights(sizes, 2), strict=True):
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)


def test_the_numbers_are_those_of_numpys_legacy_generator_for_good(samples, sizes):
    """NumPy freezes this generator: if these change, stored losses no longer compare with new ones."""
    expected = np.random.RandomState(0).randint(0, 11, size=(6, 5))
    np.testing.assert_array_equal(next(samples.batches(sizes))[0], expected)
    assert samples.weights(sizes)[0][0, 0] == pytest.approx(-0.1 + 0.2 * 0.417022004702574)


def test_without_padding_the_batches_are_what_the_generator_gives_one_after_the_other(samples, sizes):
    """Drawn here by hand: tokens, then labels, then the next batch's, from one generator."""
    random = np.random.RandomState(3)
    for tokens, labels in itertools.islice(samples.batches(sizes, seed=3), 3):
        np.testing.assert_array_equal(tokens, random.randint(0, 11, size=(6, 5)))
        np.testing.assert_array_equal(labels, random.randint(0, 2, size=(6, 1)))


# Words as frequent as Zipf's law says


def test_the_nth_word_is_as_frequent_as_zipfs_law_says(sentences, sizes):
    point = sizes | {"vocabulary": 1000, "length": 20, "tokens": "zipf"}
    tokens, _ = sentences(point, 20_000, np.random.RandomState(0))
    counts = np.bincount(tokens.ravel(), minlength=1000)
    assert len(counts) == 1000
    assert counts[0] / counts[1] == pytest.approx(2, rel=0.03)
    expected = tokens.size / np.arange(1, 1001) / (1 / np.arange(1, 1001)).sum()
    # Six standard deviations of a count; the law's tail is in it, too.
    assert (np.abs(counts - expected) < 6 * np.sqrt(expected)).all()


def test_the_most_frequent_word_is_the_first_after_the_paddings(sentences, sizes):
    point = sizes | {"vocabulary": 50, "length": 4, "words": 3, "tokens": "zipf"}
    tokens, _ = sentences(point, 5000, np.random.RandomState(0))
    counts = np.bincount(tokens[:, 1:].ravel(), minlength=50)
    assert counts[0] == 0
    assert counts[1] == counts.max()
    assert counts[1] / counts[2] == pytest.approx(2, rel=0.1)
    assert counts[49] > 0


# Padding


def test_padding_is_in_front_and_no_word_is_its_token(sentences, sizes):
    for tokens in ("uniform", "zipf"):
        point = sizes | {"vocabulary": 3, "length": 7, "words": 4, "tokens": tokens}
        drawn, _ = sentences(point, 200, np.random.RandomState(0))
        assert (drawn[:, :3] == 0).all()
        assert set(np.unique(drawn[:, 3:])) == {1, 2}


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


def test_a_table_of_one_row_has_one_word(sentences, sizes):
    drawn, _ = sentences(sizes | {"vocabulary": 1, "tokens": "zipf"}, 50, np.random.RandomState(0))
    assert set(np.unique(drawn)) == {0}


# Every workload


@pytest.fixture(params=sorted(workloads.ALL))
def of_a_workload(request, worker_module):
    """The module as it samples for this workload, and the workload's own sizes, made small where they can be."""
    of_workload = workloads.get(request.param)
    sizes = of_workload(batch=7).model_dump()
    return worker_module("samples", request.param), sizes | {"vocabulary": 50} if "vocabulary" in sizes else sizes


def test_every_workload_gives_as_many_samples_as_are_asked_for_and_the_same_ones_again(of_a_workload):
    module, sizes = of_a_workload
    for count in (1, 7):
        (inputs, targets), again = (module.data.samples(sizes, count, np.random.RandomState(3)) for _ in range(2))
        assert len(inputs) == len(targets) == count
        np.testing.assert_array_equal(inputs, again[0])
        np.testing.assert_array_equal(targets, again[1])


def test_every_workload_says_its_loss_and_the_shapes_of_its_weights(of_a_workload):
    module, sizes = of_a_workload
    assert isinstance(module.data.LOSS, str)
    assert all(isinstance(number, int) for shape in module.data.shapes(sizes) for number in shape)


def test_the_shapes_of_the_weights_add_up_to_the_parameters(of_a_workload, request):
    module, sizes = of_a_workload
    of_workload = workloads.get(request.node.callspec.params["of_a_workload"])
    counted = sum(int(np.prod(shape)) for shape in module.data.shapes(sizes))
    assert counted == of_workload.model_validate(sizes).work().parameters


def test_a_large_table_is_drawn_in_blocks_and_does_not_depend_on_them(samples, monkeypatch):
    whole = samples.uniform((100, 3), np.random.RandomState(0))
    monkeypatch.setattr(samples, "BLOCK", 7)
    np.testing.assert_array_equal(samples.uniform((100, 3), np.random.RandomState(0)), whole)
    assert whole.dtype == np.float32
