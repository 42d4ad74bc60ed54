"""The specification, in NumPy: a table whose rows dense Adam trains, each brought up to date when it is next read."""

import numpy as np
from numpy.typing import NDArray

from traintime.deferred.missed import Missed

Array = NDArray[np.floating]


class DeferredAdam:
    """Adam over a table of shape (rows, columns), in place; a step costs the rows that it is given.

    After `settle` the table, and both moments, are what dense Adam would have made of them, but for rounding.
    rate: Adam's, or one for each step with `apply`. Source: Adam as in `missed`.
    """

    def __init__(
        self, table: Array, rate: float = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7
    ) -> None:
        self.table, self.rate, self.betas, self.epsilon = table, rate, (beta_1, beta_2), epsilon
        self.first, self.second = np.zeros_like(table), np.zeros_like(table)
        self.last = np.zeros(len(table), np.int64)  # the step after which each row is as it should be
        self.missed = Missed(beta_1, beta_2)

    def settle(self, rows: NDArray[np.integer] | slice = slice(None)) -> None:
        """Give these rows (different ones; all without) every step that they have missed."""
        kind = self.table.dtype
        coefficients = self.missed.of(self.last[rows]).astype(kind)
        first, second = self.first[rows], self.second[rows]
        root = np.sqrt(second)
        x = root / (root + kind.type(self.epsilon))
        polynomial = np.zeros_like(x)
        for column in coefficients.T[::-1]:
            polynomial = polynomial * x + column[:, None]
        self.table[rows] -= first / (root + kind.type(self.epsilon)) * polynomial
        steps = (self.missed.steps - self.last[rows])[:, None]
        self.first[rows] = first * (self.betas[0] ** steps).astype(kind)
        self.second[rows] = second * (self.betas[1] ** steps).astype(kind)
        self.last[rows] = self.missed.steps

    def read(self, rows: NDArray[np.integer]) -> Array:
        """These rows as they should be now, shape (rows, columns); a row may be asked for more than once."""
        self.settle(np.unique(rows))
        return self.table[rows]

    def apply(self, rows: NDArray[np.integer], gradients: Array, rate: float | None = None) -> None:
        """One step of Adam, by the gradients of these rows, shape (rows, columns); a repeated row's are added up.

        rate: of this step (the usual one without). Every other row has the gradient zero.
        """
        used, places = np.unique(rows, return_inverse=True)
        total = np.zeros((len(used), self.table.shape[1]), self.table.dtype)
        np.add.at(total, places.reshape(-1), gradients)
        self.settle(used)
        step, (beta_1, beta_2) = self.missed.steps + 1, self.betas
        corrected = (self.rate if rate is None else rate) * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        self.missed.step(corrected)
        kind = self.table.dtype.type
        first, second = self.first[used], self.second[used]
        first += (total - first) * kind(1 - beta_1)
        second += (total**2 - second) * kind(1 - beta_2)
        self.table[used] -= kind(corrected) * first / (np.sqrt(second) + kind(self.epsilon))
        self.first[used], self.second[used], self.last[used] = first, second, step
