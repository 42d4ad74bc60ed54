"""LSTM -> Dense by hand.

Backpropagation through time as in Hochreiter & Schmidhuber (1997) with the forget gate of Gers et al. (2000);
gates in Keras' order i, f, c, o. The inputs of all positions are multiplied at once before the loop, and the gradient
of their weights after it; "per-gate" does neither, and has a product for each gate at each position.
"""

import numpy


def sigmoid(x):
    return 1.0 / (1.0 + numpy.exp(-x))


class Network:
    """weights: as data.shapes lists them; rows: not used, there is no table."""

    def __init__(self, sizes, weights, rows):
        self.sizes = sizes
        self.weights = weights
        self.trained = weights
        units = sizes["units"]
        per_gate = sizes["algorithm"] == "per-gate"
        self.at_once = not per_gate
        self.parts = [slice(gate * units, (gate + 1) * units) for gate in range(4)] if per_gate else [slice(None)]

    def train(self, numbers, targets, random):
        """Loss of the batch, and the gradients of the trained weights."""
        predicted, tape = self.forward(numbers)
        error = predicted - targets
        return float(numpy.mean(error ** 2)), self.backward(numbers, 2 * error / len(error), tape)

    def test(self, numbers, targets):
        """Loss of the batch."""
        return float(numpy.mean((self.forward(numbers)[0] - targets) ** 2))

    def forward(self, numbers):
        """Return the predictions, shape (batch, 1), and what the backward pass needs of each position."""
        kernel, recurrent, bias, dense, dense_bias = self.weights
        batch, length, inputs = numbers.shape
        units = self.sizes["units"]
        if self.at_once:
            of_inputs = (numbers.reshape(-1, inputs) @ kernel + bias).reshape(batch, length, -1)
        hidden = cell = numpy.zeros((batch, units), dtype=kernel.dtype)
        tape = []
        for position in range(length):
            if self.at_once:
                gates = of_inputs[:, position] + hidden @ recurrent
            else:
                gates = numpy.concatenate([numbers[:, position] @ kernel[:, part] + hidden @ recurrent[:, part]
                                           + bias[part] for part in self.parts], axis=1)
            i, f, o = (sigmoid(gates[:, n * units:(n + 1) * units]) for n in (0, 1, 3))
            candidate = numpy.tanh(gates[:, 2 * units:3 * units])
            previous_hidden, previous_cell = hidden, cell
            cell = f * cell + i * candidate
            squashed = numpy.tanh(cell)
            hidden = o * squashed
            tape.append((previous_hidden, previous_cell, i, f, candidate, o, squashed))
        return hidden @ dense + dense_bias, tape + [hidden]

    def backward(self, numbers, error, tape):
        """Gradients of the mean squared error, in the order of the weights. error: its slope, shape (batch, 1)."""
        kernel, recurrent, bias, dense, dense_bias = self.weights
        to_kernel, to_recurrent, to_bias = (numpy.zeros_like(weight) for weight in (kernel, recurrent, bias))
        last = tape.pop()
        to_hidden = error @ dense.T
        to_cell = numpy.zeros_like(to_hidden)
        all_gates = numpy.empty(numbers.shape[:2] + bias.shape, dtype=kernel.dtype)
        for position in reversed(range(numbers.shape[1])):
            previous_hidden, previous_cell, i, f, candidate, o, squashed = tape[position]
            to_cell = to_cell + to_hidden * o * (1 - squashed ** 2)
            to_gates = numpy.concatenate([
                to_cell * candidate * i * (1 - i), to_cell * previous_cell * f * (1 - f),
                to_cell * i * (1 - candidate ** 2), to_hidden * squashed * o * (1 - o)], axis=1)
            all_gates[:, position] = to_gates
            to_hidden = 0
            for part in self.parts:
                to_recurrent[:, part] += previous_hidden.T @ to_gates[:, part]
                to_hidden = to_hidden + to_gates[:, part] @ recurrent[:, part].T
                if not self.at_once:
                    to_kernel[:, part] += numbers[:, position].T @ to_gates[:, part]
                    to_bias[part] += to_gates[:, part].sum(axis=0)
            to_cell = to_cell * f
        if self.at_once:
            flat = all_gates.reshape(-1, all_gates.shape[2])
            to_kernel, to_bias = numbers.reshape(len(flat), -1).T @ flat, flat.sum(axis=0)
        return [to_kernel, to_recurrent, to_bias, last.T @ error, error.sum(axis=0)]
