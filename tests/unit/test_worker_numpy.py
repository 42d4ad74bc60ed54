"""The network by hand: its gradients and its updates."""

import numpy as np
import pytest
from by_hand import check_gradient


@pytest.fixture(scope="module")
def module(worker_module):
    return worker_module("train_numpy")


@pytest.fixture
def trainer(module, tiny):
    """Build a trainer of a tiny point with these changes."""
    return lambda **changes: module.Trainer(tiny.sizes.model_dump() | changes, tiny.run.model_dump(), 2)


@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_agree_with_finite_differences(module, trainer, frozen):
    """With larger weights in float64, so that finite differences are exact enough."""
    trainer = trainer(frozen=frozen)
    tokens, labels = next(trainer.batches)
    network = trainer.network
    network.weights = [4 * weight.astype("float64") for weight in network.weights]
    network.trained = network.weights[-len(network.trained) :]
    keep = (np.random.default_rng(0).random((6, 4)) < 0.5) * 2.0
    probabilities, hidden, tape = network.forward(tokens, keep)
    gradients = network.backward(tokens, labels, probabilities, hidden, keep, tape)
    assert len(gradients) == len(network.trained) == (5 if frozen else 6)
    assert len(np.unique(tokens)) < tokens.size, "a token that occurs twice gets both its gradients"

    def loss():
        return module.on_numpy.cross_entropy(labels, network.forward(tokens, keep)[0])

    for weight, gradient in zip(network.trained, gradients, strict=True):
        check_gradient(weight, gradient, loss)


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "adam-rows"])
def test_a_frozen_embedding_is_left_alone_and_the_rest_is_trained_in_single_precision(trainer, optimizer):
    trainer = trainer(frozen=True, optimizer=optimizer)
    before = [weight.copy() for weight in trainer.weights]
    for _ in range(3):
        assert isinstance(trainer.step(), float)
    np.testing.assert_array_equal(trainer.weights[0], before[0])
    assert not any(np.array_equal(new, old) for new, old in zip(trainer.weights[1:], before[1:], strict=True))
    assert {array.dtype for array in trainer.weights} == {np.dtype("float32")}


def test_adam_follows_the_textbook(trainer):
    trainer = trainer()
    random = np.random.default_rng(0)
    weights = [weight.astype("float64") for weight in trainer.weights]
    means, squares = [0.0] * 6, [0.0] * 6
    for step in (1, 2, 3):
        gradients = [random.uniform(0.1, 1, weight.shape).astype("float32") for weight in weights]
        for n, gradient in enumerate(gradients):
            means[n] = 0.9 * means[n] + 0.1 * gradient
            squares[n] = 0.999 * squares[n] + 0.001 * gradient.astype("float64") ** 2
            unbiased_mean, unbiased_square = means[n] / (1 - 0.9**step), squares[n] / (1 - 0.999**step)
            weights[n] = weights[n] - 0.001 * unbiased_mean / (np.sqrt(unbiased_square) + 1e-7)
        trainer.optimizer.update(gradients)
    for new, wanted in zip(trainer.weights, weights, strict=True):
        np.testing.assert_allclose(new, wanted, atol=1e-6)


def table_state(trainer):
    return [array.copy() for array in (trainer.weights[0], trainer.optimizer.first[0], trainer.optimizer.second[0])]


def test_by_rows_the_rows_that_are_not_in_the_batch_stay_as_they_are(trainer):
    rows = trainer(vocabulary=90, dropout=0.0, optimizer="adam-rows")
    for tokens, labels in [next(rows.batches) for _ in range(3)]:
        rows.batches = iter([(tokens, labels)])
        used, others = np.unique(tokens), np.setdiff1d(np.arange(90), tokens)
        assert len(others) > 0
        before = table_state(rows)
        rows.step()
        for old, new in zip(before, table_state(rows), strict=True):
            np.testing.assert_array_equal(new[others], old[others])
            assert (new[used] != old[used]).any(axis=1).all(), "every row of the batch moves, its moments too"


def test_by_rows_the_first_step_and_its_losses_are_adams_until_a_row_moves_without_its_word(trainer):
    """From moments of zero a row without a gradient stays where it is under Adam, too."""
    ways = ("adam", "adam-rows")
    dense, rows = (trainer(vocabulary=90, dropout=0.0, optimizer=optimizer) for optimizer in ways)
    assert dense.step() == rows.step()
    for expected, found in zip(table_state(dense), table_state(rows), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    dense, rows = (trainer(vocabulary=90, dropout=0.0, optimizer=optimizer).losses(40) for optimizer in ways)
    assert rows[:3] == pytest.approx(dense[:3], abs=1e-6)
    assert rows[3:] != pytest.approx(dense[3:], abs=1e-6), "a word is missing from a batch after an earlier one"


@pytest.mark.parametrize(("sentences", "steps"), [(12, 2), (13, 3)])
def test_fit_takes_every_sentence_once_and_leaves_the_pool_of_batches(trainer, sentences, steps):
    trainer = trainer()
    pool, seen, whole = trainer.batches, [], trainer.network.forward

    def forward(tokens, keep):
        seen.append(tokens)
        return whole(tokens, keep)

    trainer.network.forward = forward
    tokens = np.arange(sentences * 5, dtype="int32").reshape(sentences, 5) % 11
    assert trainer.fit(tokens, np.ones((sentences, 1), "float32")) > 0, "the clock, when the last step was done"
    assert trainer.optimizer.steps == len(seen) == steps
    np.testing.assert_array_equal(np.concatenate(seen), tokens)
    assert trainer.batches is pool
