import math

import keras


class ComputedAgain(keras.layers.Layer):
    """Some layers of which the way back gets the input alone: it computes what they hand on a second time."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def call(self, numbers):
        # Not RematScope: TensorFlow takes no named arguments in a graph. A function of this call's own: JAX remembers
        # by the function what it traced, and with it the weights as they were then.
        return keras.remat(lambda given: self.part(given))(numbers)

    def compute_output_shape(self, shape):
        return self.part.compute_output_shape(shape)


def in_parts(layers):
    """As many parts as layers in each, about: what is kept between the parts and within one is then the least."""
    size = math.ceil(math.sqrt(len(layers)))
    return [ComputedAgain(keras.Sequential(layers[first:first + size])) for first in range(0, len(layers), size)]


def model(sizes, run):
    hidden = [keras.layers.Dense(sizes["hidden"], activation="relu") for _ in range(sizes["layers"])]
    return keras.Sequential([
        keras.Input((sizes["inputs"],), dtype="float32"),
        *(in_parts(hidden) if run["recompute"] else hidden),
        keras.layers.Dense(sizes["outputs"], activation="softmax"),
    ])
