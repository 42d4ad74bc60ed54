"""Embedding -> LSTM -> Dropout -> Dense by hand.

Backpropagation through time as in Hochreiter & Schmidhuber (1997) with the forget gate of Gers et al. (2000);
gates in Keras' order i, f, c, o.
"""

import numpy


def sigmoid(x):
    return 1.0 / (1.0 + numpy.exp(-x))


def cross_entropy(labels, probabilities):
    clipped = numpy.clip(probabilities, 1e-7, 1 - 1e-7)
    return float(-numpy.mean(labels * numpy.log(clipped) + (1 - labels) * numpy.log(1 - clipped)))


class Network:
    """weights: as data.shapes lists them; rows: makes a gradient of some rows of the table (index, values)."""

    def __init__(self, sizes, weights, rows):
        self.sizes = sizes
        self.weights = weights
        self.trained = weights[1:] if sizes["frozen"] else weights
        self.rows = rows if sizes["optimizer"] == "adam-rows" else None

    def train(self, tokens, labels, random):
        """Loss of the batch, and the gradients of the trained weights."""
        rate = self.sizes["dropout"]
        kept = random.random_sample((len(tokens), self.sizes["units"])) >= rate
        keep = kept.astype("float32") / numpy.float32(1 - rate)
        probabilities, hidden, tape = self.forward(tokens, keep)
        gradients = self.backward(tokens, labels, probabilities, hidden, keep, tape)
        return cross_entropy(labels, probabilities), gradients

    def test(self, tokens, labels):
        """Loss of the batch without dropout."""
        return cross_entropy(labels, self.forward(tokens, numpy.float32(1))[0])

    def forward(self, tokens, keep):
        """Return the probabilities, shape (batch, 1), and what the backward pass needs of each time step."""
        embedding, kernel, recurrent, bias, dense, dense_bias = self.weights
        units = self.sizes["units"]
        hidden = cell = numpy.zeros((len(tokens), units), dtype="float32")
        tape = []
        for position in range(tokens.shape[1]):
            inputs = embedding[tokens[:, position]]
            gates = inputs @ kernel + hidden @ recurrent + bias
            i, f, o = (sigmoid(gates[:, n * units:(n + 1) * units]) for n in (0, 1, 3))
            candidate = numpy.tanh(gates[:, 2 * units:3 * units])
            previous_hidden, previous_cell = hidden, cell
            cell = f * cell + i * candidate
            squashed = numpy.tanh(cell)
            hidden = o * squashed
            tape.append((inputs, previous_hidden, previous_cell, i, f, candidate, o, squashed))
        return sigmoid((hidden * keep) @ dense + dense_bias), hidden, tape

    def backward(self, tokens, labels, probabilities, hidden, keep, tape):
        """Gradients of the mean cross-entropy, in the order of the trained weights."""
        embedding, kernel, recurrent, bias, dense, dense_bias = self.weights
        error = (probabilities - labels) / len(labels)
        gradients = [None, numpy.zeros_like(kernel), numpy.zeros_like(recurrent), numpy.zeros_like(bias),
                     (hidden * keep).T @ error, error.sum(axis=0)]
        to_inputs = numpy.empty(tokens.shape + (self.sizes["embedding"],), dtype="float32")
        to_hidden = (error @ dense.T) * keep
        to_cell = numpy.zeros_like(to_hidden)
        for position in reversed(range(tokens.shape[1])):
            inputs, previous_hidden, previous_cell, i, f, candidate, o, squashed = tape[position]
            to_cell = to_cell + to_hidden * o * (1 - squashed ** 2)
            to_gates = numpy.concatenate([
                to_cell * candidate * i * (1 - i), to_cell * previous_cell * f * (1 - f),
                to_cell * i * (1 - candidate ** 2), to_hidden * squashed * o * (1 - o)], axis=1)
            gradients[1] += inputs.T @ to_gates
            gradients[2] += previous_hidden.T @ to_gates
            gradients[3] += to_gates.sum(axis=0)
            to_inputs[:, position] = to_gates @ kernel.T
            to_hidden = to_gates @ recurrent.T
            to_cell = to_cell * f
        gradients[0] = self.to_table(embedding, tokens, to_inputs)
        return gradients[-len(self.trained):]

    def to_table(self, embedding, tokens, to_inputs):
        """The table's gradient: as large as the table, only the batch's rows, or none where it is frozen."""
        if self.sizes["frozen"]:
            return None
        if self.rows is None:
            gradient = numpy.zeros_like(embedding)
            numpy.add.at(gradient, tokens, to_inputs)
            return gradient
        used, places = numpy.unique(tokens, return_inverse=True)
        values = numpy.zeros((len(used), embedding.shape[1]), dtype="float32")
        numpy.add.at(values, places.reshape(tokens.shape), to_inputs)
        return self.rows(used, values)
