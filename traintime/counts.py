"""Closed forms: parameters, operations and bytes of a training step."""

from traintime.point import RnnPoint

# Bytes that a dense float32 update must move for each parameter, at the least:
# zero the gradient (4) + read gradient and parameter, and Adam's two moments + write parameter, and the moments.
# SGD without a velocity: Keras 2 keeps one even at momentum 0, which adds 8.
UPDATE_BYTES = {"adam": 4 + 16 + 12, "adam-rows": 4 + 16 + 12, "sgd": 4 + 8 + 4}

# Operations of a dense update for each parameter, the root counted as one. Adam: a mean takes 3 (subtract, scale, add),
# the mean of squares 4, the step 5 (scale, root, add, divide, subtract); Kingma & Ba 2015, as Keras 3 writes it.
UPDATE_FLOPS = {"adam": 3 + 4 + 5, "adam-rows": 3 + 4 + 5, "sgd": 2}


def lstm_parameters(inputs: int, units: int) -> int:
    """Weights of an LSTM: four gates, each with input weights, recurrent weights and a bias (Gers et al. 2000)."""
    return 4 * units * (inputs + units + 1)


def parameters(point: RnnPoint) -> int:
    """All parameters of the model, the frozen ones included: V E + 4 U (E + U + 1) + U + 1."""
    return point.vocabulary * point.embedding + lstm_parameters(point.embedding, point.units) + point.units + 1


def trained_parameters(point: RnnPoint) -> int:
    """Parameters that the optimizer updates at every step; by rows, the most that a batch can reach."""
    rows = 0 if point.frozen else point.vocabulary
    if point.optimizer == "adam-rows":
        rows = min(rows, point.batch * point.length)
    return parameters(point) - (point.vocabulary - rows) * point.embedding


def update_bytes(point: RnnPoint) -> int:
    """Bytes that one dense optimizer update must move at the least (float32)."""
    return trained_parameters(point) * UPDATE_BYTES[point.optimizer]


def update_flops(point: RnnPoint) -> int:
    """Operations that one dense optimizer update takes."""
    return trained_parameters(point) * UPDATE_FLOPS[point.optimizer]


def matmul_flops(point: RnnPoint) -> int:
    """Operations of the LSTM's matrix products in one step: 2 forward and 4 backward for each weight and token."""
    return 6 * point.batch * point.length * 4 * point.units * (point.embedding + point.units)


def matmul_bytes(point: RnnPoint) -> int:
    """Bytes (float32) that the same products move if each reads its two factors and writes its result once.

    The inputs of all tokens are multiplied at once, the units of the state one position after the other. Between
    products nothing is kept near the processor; where a cache keeps something, fewer bytes move.
    """
    tokens, gates = point.batch * point.length, 4 * point.units
    inputs = tokens * point.embedding + point.embedding * gates + tokens * gates
    state = point.batch * point.units + point.units * gates + point.batch * gates
    # One product forward and two backward, each over the same three arrays in another order.
    return 4 * 3 * (inputs + point.length * state)


def steps_per_epoch(sentences: int, batch: int) -> int:
    """Training steps of one epoch; the last batch may be smaller."""
    return -(-sentences // batch)
