"""What the network is trained on, and the shapes of its weights. Runs inside a stack's Python, 3.6 and newer."""

import numpy

LOSS = "categorical_crossentropy"


def samples(sizes, count, random):
    """Numbers, float32 of shape (count, inputs), and classes, one-hot, float32 of shape (count, outputs)."""
    numbers = random.standard_normal((count, sizes["inputs"])).astype("float32")
    classes = numpy.zeros((count, sizes["outputs"]), dtype="float32")
    classes[numpy.arange(count), random.randint(0, sizes["outputs"], size=count)] = 1
    return numbers, classes


def shapes(sizes):
    """Shapes of the weights in Keras' order: kernel and bias of each layer.

    (I, H), (H,), (H, H), (H,), ..., (H, O), (O,).
    """
    widths = [sizes["inputs"]] + [sizes["hidden"]] * sizes["layers"] + [sizes["outputs"]]
    return [shape for inner, columns in zip(widths, widths[1:]) for shape in ((inner, columns), (columns,))]
