"""What the classifier is trained on, and the shapes of its weights. Runs inside a stack's Python, 3.6 and newer."""

import numpy

LOSS = "binary_crossentropy"


def samples(sizes, count, random):
    """Tokens, int32 of shape (count, length), and labels, float32 of shape (count, 1)."""
    shape, vocabulary = (count, sizes["length"]), sizes["vocabulary"]
    padding = 0 if sizes["words"] is None else sizes["length"] - sizes["words"]
    first = 1 if padding else 0  # token 0 is the padding's
    if sizes["tokens"] == "zipf":
        # Token ids in order of frequency, as tokenizers give them: the n-th word occurs 1/n as often as the first.
        cumulated = numpy.cumsum(1.0 / numpy.arange(1, vocabulary - first + 1))
        tokens = first + numpy.searchsorted(cumulated, random.random_sample(shape) * cumulated[-1])
    else:
        tokens = random.randint(first, vocabulary, size=shape)
    tokens = tokens.astype("int32")
    tokens[:, :padding] = 0  # in front, where Keras' pad_sequences puts it
    return tokens, random.randint(0, 2, size=(count, 1)).astype("float32")


def shapes(sizes):
    """Shapes of the weights in Keras' order: embedding, LSTM kernel, recurrent kernel, bias, dense kernel, bias.

    (V, E), (E, 4U), (U, 4U), (4U,), (U, 1), (1,); gates in Keras' order i, f, c, o. With a factor F the table is
    (V, F) and (F, E).
    """
    vocabulary, embedding, units, factor = (sizes[name] for name in ("vocabulary", "embedding", "units", "factor"))
    table = [(vocabulary, factor), (factor, embedding)] if factor else [(vocabulary, embedding)]
    return table + [(embedding, 4 * units), (units, 4 * units), (4 * units,), (units, 1), (1,)]
