"""What the network is trained on, and the shapes of its weights. Runs inside a stack's Python, 3.6 and newer."""

import numpy

LOSS = "categorical_crossentropy"


def samples(sizes, count, random):
    """Vectors, float32 of shape (count, length, embedding), and classes, one-hot, float32 of shape (count, outputs)."""
    vectors = random.standard_normal((count, sizes["length"], sizes["embedding"])).astype("float32")
    classes = numpy.zeros((count, sizes["outputs"]), dtype="float32")
    classes[numpy.arange(count), random.randint(0, sizes["outputs"], size=count)] = 1
    return vectors, classes


def shapes(sizes):
    """Shapes of the weights in Keras' order: each layer's attention, norm, dense layers, norm; dense kernel, bias.

    Attention: (E, H, E/H), (H, E/H) of queries, keys and values, (H, E/H, E), (E,); E/H rounded up.
    """
    width, heads = sizes["embedding"], sizes["heads"]
    apart = -(-width // heads)
    layer = [(width, heads, apart), (heads, apart)] * 3 + [(heads, apart, width), (width,)]
    layer += [(width,), (width,), (width, 4 * width), (4 * width,), (4 * width, width), (width,), (width,), (width,)]
    return layer * sizes["layers"] + [(width, sizes["outputs"]), (sizes["outputs"],)]
