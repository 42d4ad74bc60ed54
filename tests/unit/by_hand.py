"""What the tests of every network written by hand share: its gradients against finite differences."""

import numpy as np


def check_gradients(network, inputs, targets, scale=8.0):
    """Hold each gradient of a batch against finite differences of its loss.

    The weights are made larger, in float64: so finite differences are exact enough, and units are not at their bend.
    """
    network.weights = network.trained = [scale * weight.astype("float64") for weight in network.weights]
    loss, gradients = network.train(inputs, targets, None)
    assert abs(loss - network.test(inputs, targets)) < 1e-12 * max(1, abs(loss))
    for weight, gradient in zip(network.trained, gradients, strict=True):
        check_gradient(weight, gradient, lambda: network.test(inputs, targets))


def check_gradient(weight, gradient, loss):
    """Hold one weight's gradient against finite differences of loss(), which reads the weight."""
    assert gradient.shape == weight.shape
    numeric = np.zeros_like(weight)
    for index in np.ndindex(weight.shape):
        value = weight[index]
        losses = []
        for shifted in (value + 1e-5, value - 1e-5):
            weight[index] = shifted
            losses.append(loss())
        weight[index] = value
        numeric[index] = (losses[0] - losses[1]) / 2e-5
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-8)
    assert np.abs(gradient).max() > 1e-4


def check_training(trainer, steps=20):
    """Hold that training on one batch changes every array in place, in float32, and lowers the loss."""
    before = [weight.copy() for weight in trainer.weights]
    batch = next(trainer.batches)
    start = trainer.network.test(*batch)
    for _ in range(steps):
        trainer.train(*batch)
    assert trainer.network.test(*batch) < start
    assert not any(np.array_equal(new, old) for new, old in zip(trainer.weights, before, strict=True))
    assert all(weight.dtype == np.float32 for weight in trainer.weights)
