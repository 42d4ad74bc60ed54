"""What the steps of a training cost where they grow: a schedule of sequence lengths or of batch sizes."""

import math
from collections.abc import Callable

import numpy as np

from traintime.errors import InputError

# A training may have a hundred million steps, and each cost is a call of a Python function, about a microsecond. So
# the steps to come are summed up once, from so many calls at most: of every step where there are no more, else of one
# step of each of so many stretches. That one is drawn, since a regular grid would always meet the same step of
# a schedule that repeats, such as one long step in eight.
MOST = 2**14
REMEDY = "Give a function of a step's number, which counts from 0, such as `lambda step: lengths[step]`."


class Costs:
    """Costs of steps in any unit, of which only the ratios matter.

    cost: a function of a step's number. Numbers count from 0 over the whole training, also after it was resumed.
    Raises InputError where it cannot be called, raises, or gives no positive finite number.
    """

    def __init__(self, cost: Callable[[int], float]) -> None:
        if not callable(cost):
            raise InputError("cost", cost, "is nothing that can be called", REMEDY)
        self._cost = cost
        # Numbers of steps, and the cost of those that were summed up before each.
        self._steps = self._sums = np.zeros(1)

    def of(self, step: int) -> float:
        """The cost of one step."""
        try:
            given = self._cost(step)
        except Exception as error:
            raise InputError("cost", self._cost, f"raises {error!r} for step {step}", REMEDY) from error
        try:
            cost = math.nan if isinstance(given, str) else float(given)
        except (TypeError, ValueError, OverflowError):
            cost = math.nan
        if not 0 < cost < math.inf:
            raise InputError("cost", given, f"is no positive finite number, and the cost of step {step}", REMEDY)
        return cost

    def between(self, first: int, end: int) -> float:
        """The cost of the steps from `first` to the one before `end`."""
        if end <= first:
            return 0.0
        if not self._steps[0] <= first < end <= self._steps[-1]:
            self._sum(first, end)
        before, after = np.interp((first, end), self._steps, self._sums)
        return float(after - before)

    def _sum(self, first: int, end: int) -> None:
        number = min(end - first, MOST)
        edges = first + (end - first) * np.arange(number + 1) // number
        lengths = np.diff(edges)
        drawn = edges[:-1] + np.random.default_rng(0).integers(lengths)
        costs = np.array([self.of(int(step)) for step in drawn])
        self._steps, self._sums = edges.astype(float), np.concatenate([[0.0], np.cumsum(costs * lengths)])
