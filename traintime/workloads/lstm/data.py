"""What the network is trained on, and the shapes of its weights. Runs inside a stack's Python, 3.6 and newer."""

LOSS = "mean_squared_error"


def samples(sizes, count, random):
    """Numbers, float32 of shape (count, length, inputs), and one number each, float32 of shape (count, 1)."""
    numbers = random.standard_normal((count, sizes["length"], sizes["inputs"])).astype("float32")
    return numbers, random.standard_normal((count, 1)).astype("float32")


def shapes(sizes):
    """Shapes of the weights in Keras' order: kernel, recurrent kernel, bias, dense kernel, dense bias.

    (I, 4U), (U, 4U), (4U,), (U, 1), (1,); gates in Keras' order i, f, c, o.
    """
    inputs, units = sizes["inputs"], sizes["units"]
    return [(inputs, 4 * units), (units, 4 * units), (4 * units,), (units, 1), (1,)]
