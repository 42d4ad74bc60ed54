"""Train a workload's network written by hand in NumPy: every byte that an update moves can be read off this page."""

import numpy
import on_numpy
import process
import samples
import timing


class Rows:
    """A gradient that is zero but in some rows: which ones, shape (n,), and their values, shape (n, columns)."""

    def __init__(self, index, values):
        self.index = index
        self.values = values


def adam(rate, weight, gradient, first, second):
    first += (gradient - first) * numpy.float32(0.1)
    second += (gradient ** 2 - second) * numpy.float32(0.001)
    weight -= rate * first / (numpy.sqrt(second) + numpy.float32(1e-7))


class Adam:
    """Adam (Kingma & Ba 2015, algorithm 1) over every trained number, in place.

    A gradient of Rows changes those rows alone, their moments too, and leaves all others as they are: another
    optimizer than Adam, known as lazy or sparse Adam.
    """

    def __init__(self, weights):
        self.weights = weights
        self.first = [numpy.zeros_like(weight) for weight in weights]
        self.second = [numpy.zeros_like(weight) for weight in weights]
        self.steps = 0

    def update(self, gradients):
        self.steps += 1
        rate = numpy.float32(0.001 * numpy.sqrt(1 - 0.999 ** self.steps) / (1 - 0.9 ** self.steps))
        for weight, gradient, first, second in zip(self.weights, gradients, self.first, self.second):
            if isinstance(gradient, Rows):
                parts = [numpy.take(array, gradient.index, axis=0) for array in (weight, first, second)]
                adam(rate, parts[0], gradient.values, parts[1], parts[2])
                weight[gradient.index], first[gradient.index], second[gradient.index] = parts
            else:
                adam(rate, weight, gradient, first, second)


class Sgd:
    def __init__(self, weights):
        self.weights = weights

    def update(self, gradients):
        for weight, gradient in zip(self.weights, gradients):
            gradient *= numpy.float32(0.01)
            weight -= gradient


class Momentum:
    """SGD with a velocity (Sutskever et al. 2013, without Nesterov's look ahead), as Keras writes it."""

    def __init__(self, weights):
        self.weights = weights
        self.velocities = [numpy.zeros_like(weight) for weight in weights]

    def update(self, gradients):
        for weight, gradient, velocity in zip(self.weights, gradients, self.velocities):
            velocity *= numpy.float32(0.9)
            velocity -= numpy.float32(0.01) * gradient
            weight += velocity


class RmsProp:
    """RMSprop (Tieleman & Hinton 2012)."""

    def __init__(self, weights):
        self.weights = weights
        self.squares = [numpy.zeros_like(weight) for weight in weights]

    def update(self, gradients):
        for weight, gradient, squares in zip(self.weights, gradients, self.squares):
            squares += (gradient ** 2 - squares) * numpy.float32(0.1)
            weight -= numpy.float32(0.001) * gradient / numpy.sqrt(squares + numpy.float32(1e-14))


OPTIMIZERS = {"adam": Adam, "adam-rows": Adam, "sgd": Sgd, "momentum": Momentum, "rmsprop": RmsProp}


class Trainer:
    def __init__(self, sizes, run, threads):
        self.sizes = sizes
        self.weights = samples.weights(sizes)
        self.network = on_numpy.Network(sizes, self.weights, Rows)
        self.optimizer = OPTIMIZERS[sizes["optimizer"]](self.network.trained)
        self.batches = samples.batches(sizes)
        self.random = numpy.random.RandomState(2)

    def step(self):
        return self.train(*next(self.batches))

    def train(self, inputs, targets):
        loss, gradients = self.network.train(inputs, targets, self.random)
        self.optimizer.update(gradients)
        return loss

    def fit(self, inputs, targets):
        size = self.sizes["batch"]
        for start in range(0, len(inputs), size):
            self.train(inputs[start:start + size], targets[start:start + size])
        return timing.now_ns()

    def losses(self, steps):
        start = self.network.test(*next(samples.batches(self.sizes)))
        return [start] + [self.step() for _ in range(steps)]

    def facts(self):
        return {"backend": "numpy", "device": "cpu", "precision": self.weights[0].dtype.name,
                "threads": {"OpenBLAS": process.openblas_threads()}, "versions": {"numpy": numpy.__version__},
                "parameters": int(sum(weight.size for weight in self.weights))}

    def device_memory(self):
        return {}
