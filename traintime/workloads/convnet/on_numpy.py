"""Convolution -> ReLU -> pooling -> dense layer by hand, and their gradients.

The convolution is one matrix product: each place of the window is a row of pixels (Chellapilla et al. 2006).
"""

import numpy

BLOCK = 16  # images


def softmax(x):
    powers = numpy.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def cross_entropy(classes, probabilities):
    """Sum over the images."""
    clipped = numpy.clip(probabilities, 1e-7, 1 - 1e-7)
    return float(-(classes * numpy.log(clipped)).sum())


class Network:
    """weights: as data.shapes lists them; rows: not used, there is no table."""

    def __init__(self, sizes, weights, rows):
        self.sizes = sizes
        self.weights = weights
        self.trained = weights
        self.places = (sizes["side"] - sizes["window"] + 1) // 2 * 2  # pooling leaves an odd one out
        self.block = {"at-once": None, "blocks": BLOCK, "one-by-one": 1}[sizes["images"]]

    def blocks(self, images, classes):
        """The batch as it is gone through."""
        size = self.block or len(images)
        for start in range(0, len(images), size):
            yield images[start:start + size], classes[start:start + size]

    def train(self, images, classes, random):
        """Loss of the batch, and the gradients of the trained weights."""
        loss, gradients = 0.0, [numpy.zeros_like(weight) for weight in self.weights]
        for some, theirs in self.blocks(images, classes):
            probabilities, tape = self.forward(some)
            loss += cross_entropy(theirs, probabilities)
            for gradient, part in zip(gradients, self.backward((probabilities - theirs) / len(images), tape)):
                gradient += part
        return loss / len(images), gradients

    def test(self, images, classes):
        """Loss of the batch."""
        losses = [cross_entropy(theirs, self.forward(some)[0]) for some, theirs in self.blocks(images, classes)]
        return sum(losses) / len(images)

    def forward(self, images):
        """Return the probabilities, shape (images, outputs), and what the backward pass needs."""
        filters, bias, dense, dense_bias = self.weights
        patches = self.patches(images)
        convolved = patches @ filters.reshape(-1, filters.shape[-1]) + bias
        convolved = convolved.reshape(len(images), self.places, self.places, -1)
        pooled = self.windows(convolved).max(axis=(2, 4))
        given = numpy.maximum(pooled, 0).reshape(len(images), -1)
        return softmax(given @ dense + dense_bias), (patches, convolved, pooled, given)

    def backward(self, error, tape):
        """Gradients in the order of the weights. error: slope of the loss before the softmax."""
        filters, bias, dense, dense_bias = self.weights
        patches, convolved, pooled, given = tape
        to_pooled = (error @ dense.T).reshape(pooled.shape) * (pooled > 0)
        # Of each window of four places the largest, where its ReLU lets the error through.
        largest = self.windows(convolved) == pooled[:, :, None, :, None]
        to_places = (largest * to_pooled[:, :, None, :, None]).reshape(len(patches), -1)
        return [(patches.T @ to_places).reshape(filters.shape), to_places.sum(axis=0), given.T @ error,
                error.sum(axis=0)]

    def patches(self, images):
        """The pixels under each place of the window, shape (images places², window²)."""
        window = self.sizes["window"]
        views = numpy.lib.stride_tricks.sliding_window_view(images[..., 0], (window, window), axis=(1, 2))
        return views[:, :self.places, :self.places].reshape(-1, window ** 2)

    def windows(self, convolved):
        """Its places in windows of two by two, shape (images, P, 2, P, 2, filters)."""
        count, places, _, filters = convolved.shape
        return convolved.reshape(count, places // 2, 2, places // 2, 2, filters)
