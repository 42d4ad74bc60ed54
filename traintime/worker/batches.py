"""Inputs and starting weights: the same numbers on every stack, made from NumPy's legacy generator."""

import itertools

import numpy

POOL = 16  # distinct batches; enough that no step repeats the rows of the one before


def sentences(point, count, random):
    """Tokens, int32 of shape (count, length), and labels, float32 of shape (count, 1)."""
    shape, vocabulary = (count, point["length"]), point["vocabulary"]
    padding = 0 if point["words"] is None else point["length"] - point["words"]
    first = 1 if padding else 0  # token 0 is the padding's
    if point["tokens"] == "zipf":
        # Token ids in order of frequency, as tokenizers give them: the n-th word occurs 1/n as often as the first.
        cumulated = numpy.cumsum(1.0 / numpy.arange(1, vocabulary - first + 1))
        tokens = first + numpy.searchsorted(cumulated, random.random_sample(shape) * cumulated[-1])
    else:
        tokens = random.randint(first, vocabulary, size=shape)
    tokens = tokens.astype("int32")
    tokens[:, :padding] = 0  # in front, where Keras' pad_sequences puts it
    return tokens, random.randint(0, 2, size=(count, 1)).astype("float32")


def batches(point, seed=0):
    """Endless (tokens, labels): int32 of shape (batch, length), float32 of shape (batch, 1)."""
    random = numpy.random.RandomState(seed)
    return itertools.cycle([sentences(point, point["batch"], random) for _ in range(POOL)])


def weights(point, seed=1):
    """Starting weights in Keras' order: embedding, LSTM kernel, recurrent kernel, bias, dense kernel, bias.

    Shapes (V, E), (E, 4U), (U, 4U), (4U,), (U, 1), (1,); float32; gates in Keras' order i, f, c, o.
    """
    random = numpy.random.RandomState(seed)
    vocabulary, embedding, units = point["vocabulary"], point["embedding"], point["units"]
    shapes = [(vocabulary, embedding), (embedding, 4 * units), (units, 4 * units), (4 * units,), (units, 1), (1,)]
    return [random.uniform(-0.1, 0.1, size=shape).astype("float32") for shape in shapes]
