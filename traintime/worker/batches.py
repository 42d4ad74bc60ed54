"""Inputs and starting weights: the same numbers on every stack, made from NumPy's legacy generator."""

import itertools

import numpy

POOL = 16  # distinct batches; enough that no step repeats the rows of the one before


def batches(point, seed=0):
    """Endless (tokens, labels): int32 of shape (batch, length), float32 of shape (batch, 1)."""
    random = numpy.random.RandomState(seed)
    pool = []
    for _ in range(POOL):
        tokens = random.randint(0, point["vocabulary"], size=(point["batch"], point["length"])).astype("int32")
        labels = random.randint(0, 2, size=(point["batch"], 1)).astype("float32")
        pool.append((tokens, labels))
    return itertools.cycle(pool)


def weights(point, seed=1):
    """Starting weights in Keras' order: embedding, LSTM kernel, recurrent kernel, bias, dense kernel, bias.

    Shapes (V, E), (E, 4U), (U, 4U), (4U,), (U, 1), (1,); float32; gates in Keras' order i, f, c, o.
    """
    random = numpy.random.RandomState(seed)
    vocabulary, embedding, units = point["vocabulary"], point["embedding"], point["units"]
    shapes = [(vocabulary, embedding), (embedding, 4 * units), (units, 4 * units), (4 * units,), (units, 1), (1,)]
    return [random.uniform(-0.1, 0.1, size=shape).astype("float32") for shape in shapes]
