"""Dense layers by hand: ReLU between them, softmax at the end, and their gradients."""

import numpy


def softmax(x):
    powers = numpy.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def cross_entropy(classes, probabilities):
    clipped = numpy.clip(probabilities, 1e-7, 1 - 1e-7)
    return float(-numpy.mean((classes * numpy.log(clipped)).sum(axis=1)))


class Network:
    """weights: as data.shapes lists them; rows: not used, there is no table."""

    def __init__(self, sizes, weights, rows):
        self.weights = weights
        self.trained = weights

    def train(self, numbers, classes, random):
        """Loss of the batch, and the gradients of the trained weights."""
        probabilities, tape = self.forward(numbers)
        return cross_entropy(classes, probabilities), self.backward(classes, probabilities, tape)

    def test(self, numbers, classes):
        """Loss of the batch."""
        return cross_entropy(classes, self.forward(numbers)[0])

    def forward(self, numbers):
        """Return the probabilities, shape (batch, outputs), and what each layer was given."""
        tape = [numbers]
        for kernel, bias in zip(self.weights[:-2:2], self.weights[1:-2:2]):
            tape.append(numpy.maximum(tape[-1] @ kernel + bias, 0))
        return softmax(tape[-1] @ self.weights[-2] + self.weights[-1]), tape

    def backward(self, classes, probabilities, tape):
        """Gradients of the mean cross-entropy, in the order of the weights."""
        error = (probabilities - classes) / len(classes)
        gradients = []
        for layer in reversed(range(len(tape))):
            given = tape[layer]
            gradients[:0] = [given.T @ error, error.sum(axis=0)]
            if layer:  # the data needs none
                error = (error @ self.weights[2 * layer].T) * (given > 0)
        return gradients
