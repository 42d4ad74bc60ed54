"""Closed forms: parameters, operations and bytes of a training step."""

from traintime.point import RnnPoint

# Bytes that a dense float32 update must move for each parameter, at the least:
# zero the gradient (4) + read gradient and parameter, and Adam's two moments + write parameter, and the moments.
# SGD without a velocity: Keras 2 keeps one even at momentum 0, which adds 8.
UPDATE_BYTES = {"adam": 4 + 16 + 12, "adam-rows": 4 + 16 + 12, "sgd": 4 + 8 + 4}


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


def matmul_flops(point: RnnPoint) -> int:
    """Operations of the LSTM's matrix products in one step: 2 forward and 4 backward for each weight and token."""
    return 6 * point.batch * point.length * 4 * point.units * (point.embedding + point.units)


def steps_per_epoch(sentences: int, batch: int) -> int:
    """Training steps of one epoch; the last batch may be smaller."""
    return -(-sentences // batch)
