"""Embedding -> LSTM -> Dropout -> Dense by hand in NumPy: every byte that moves can be read off this page.

Backpropagation through time as in Hochreiter & Schmidhuber (1997) with the forget gate of Gers et al. (2000);
gates in Keras' order i, f, c, o. The optimizer updates all rows of the embedding, as Keras does, or, with
"adam-rows", those of the batch alone.
"""

import batches
import numpy
import process


def build(job):
    return Trainer(job["point"])


def sigmoid(x):
    return 1.0 / (1.0 + numpy.exp(-x))


def adam(rate, weight, gradient, first, second):
    first += (gradient - first) * numpy.float32(0.1)
    second += (gradient ** 2 - second) * numpy.float32(0.001)
    weight -= rate * first / (numpy.sqrt(second) + numpy.float32(1e-7))


class Trainer:
    def __init__(self, point):
        self.point = point
        self.weights = batches.weights(point)
        self.batches = batches.batches(point)
        self.random = numpy.random.RandomState(2)
        self.steps = 0
        first = 1 if point["frozen"] else 0
        self.trained = self.weights[first:]
        if point["mask"]:
            raise ValueError("this network cannot skip padding: mask is for the Keras stacks")
        self.by_rows = point["optimizer"] == "adam-rows" and not point["frozen"]
        if point["optimizer"] != "sgd":
            self.first_moments = [numpy.zeros_like(weight) for weight in self.trained]
            self.second_moments = [numpy.zeros_like(weight) for weight in self.trained]

    def forward(self, tokens, keep):
        """Return the probabilities, shape (batch, 1), and what the backward pass needs of each time step."""
        embedding, kernel, recurrent, bias, dense, dense_bias = self.weights
        units = self.point["units"]
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
        """Gradients of the mean cross-entropy, in the order of the weights."""
        embedding, kernel, recurrent, bias, dense, dense_bias = self.weights
        error = (probabilities - labels) / len(labels)
        gradients = [None, numpy.zeros_like(kernel), numpy.zeros_like(recurrent), numpy.zeros_like(bias),
                     (hidden * keep).T @ error, error.sum(axis=0)]
        to_inputs = numpy.empty(tokens.shape + (self.point["embedding"],), dtype="float32")
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
        if self.by_rows:
            self.rows, places = numpy.unique(tokens, return_inverse=True)
            gradients[0] = numpy.zeros((len(self.rows), embedding.shape[1]), dtype="float32")
            numpy.add.at(gradients[0], places.reshape(tokens.shape), to_inputs)
        elif not self.point["frozen"]:
            gradients[0] = numpy.zeros_like(embedding)
            numpy.add.at(gradients[0], tokens, to_inputs)
        return gradients[-len(self.trained):]

    def update(self, gradients):
        """One optimizer step over every trained number, in place (Adam: Kingma & Ba 2015, algorithm 1).

        By rows, the embedding's other rows stay as they are, their moments too: another optimizer than Adam, known
        as lazy or sparse Adam.
        """
        self.steps += 1
        if self.point["optimizer"] == "sgd":
            for weight, gradient in zip(self.trained, gradients):
                gradient *= numpy.float32(0.01)
                weight -= gradient
            return
        rate = numpy.float32(0.001 * numpy.sqrt(1 - 0.999 ** self.steps) / (1 - 0.9 ** self.steps))
        moments = list(zip(self.trained, gradients, self.first_moments, self.second_moments))
        if self.by_rows:
            table, gradient, table_first, table_second = moments.pop(0)
            rows = [numpy.take(array, self.rows, axis=0) for array in (table, table_first, table_second)]
            adam(rate, rows[0], gradient, rows[1], rows[2])
            table[self.rows], table_first[self.rows], table_second[self.rows] = rows
        for weight, gradient, first, second in moments:
            adam(rate, weight, gradient, first, second)

    def step(self):
        tokens, labels = next(self.batches)
        rate = self.point["dropout"]
        kept = self.random.random_sample((len(tokens), self.point["units"])) >= rate
        keep = kept.astype("float32") / numpy.float32(1 - rate)
        probabilities, hidden, tape = self.forward(tokens, keep)
        self.update(self.backward(tokens, labels, probabilities, hidden, keep, tape))
        return self.loss(probabilities, labels)

    def fit(self, tokens, labels):
        size, pool = self.point["batch"], self.batches
        starts = range(0, len(tokens), size)
        self.batches = iter([(tokens[start:start + size], labels[start:start + size]) for start in starts])
        for _ in starts:
            self.step()
        self.batches = pool

    @staticmethod
    def loss(probabilities, labels):
        clipped = numpy.clip(probabilities, 1e-7, 1 - 1e-7)
        return float(-numpy.mean(labels * numpy.log(clipped) + (1 - labels) * numpy.log(1 - clipped)))

    def losses(self, steps):
        tokens, labels = next(batches.batches(self.point))
        probabilities, _, _ = self.forward(tokens, numpy.float32(1))
        return [self.loss(probabilities, labels)] + [self.step() for _ in range(steps)]

    def facts(self):
        return {"backend": "numpy", "device": "cpu", "precision": self.weights[0].dtype.name,
                "threads": {"OpenBLAS": process.openblas_threads()}, "versions": {"numpy": numpy.__version__},
                "parameters": int(sum(weight.size for weight in self.weights))}

    def device_memory(self):
        return {}
