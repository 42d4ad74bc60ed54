"""What the network is trained on, and the shapes of its weights. Runs inside a stack's Python, 3.6 and newer."""

import numpy

LOSS = "categorical_crossentropy"


def samples(sizes, count, random):
    """Images, float32 of shape (count, side, side, 1) between 0 and 1, and classes, one-hot, float32."""
    images = random.random_sample((count, sizes["side"], sizes["side"], 1)).astype("float32")
    classes = numpy.zeros((count, sizes["outputs"]), dtype="float32")
    classes[numpy.arange(count), random.randint(0, sizes["outputs"], size=count)] = 1
    return images, classes


def shapes(sizes):
    """Shapes of the weights in Keras' order: filters, bias, dense kernel, bias.

    (W, W, 1, F), (F,), (P P F, O), (O,), with P half of the window's places along a side.
    """
    window, filters, outputs = sizes["window"], sizes["filters"], sizes["outputs"]
    pooled = (sizes["side"] - window + 1) // 2
    return [(window, window, 1, filters), (filters,), (pooled ** 2 * filters, outputs), (outputs,)]
