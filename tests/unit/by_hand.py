"""What the tests of every network written by hand share: its gradients against finite differences."""

import numpy as np


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
