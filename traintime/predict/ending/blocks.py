"""What so many further steps will take, told from those that were: means of blocks, and how far apart these lie."""

import math
from collections import deque

import numpy as np
from scipy.special import ndtri, stdtrit

from traintime.explain.statistics import Array, Interval

MOST = 64  # blocks; at so many two and two become one
FEWEST = 5  # below that neither is one left out, nor is the spread taken at its word
COARSE = (8, 4)  # numbers of groups that the blocks are put together to
# The speed of a machine itself goes up and down, by about this share (a standard deviation) between now and far later:
# what whole epochs missed, in the second chapter, of what short trainings just before them had promised.
WANDER = 0.04
LEAST = 0.005  # the same, where little is left: shorter than what was seen
FARTHEST = 4.0  # how many times the square of a drift that was seen may go on to grow
NOTHING = Interval(0.0, 0.0, 0.0)
# A change of speed: the later part is so many standard errors from the earlier one and slower or faster by FACTOR, has
# FEW calls or blocks, and lasts so long. Pauses of a machine are shorter, its slow hours a smaller factor.
SURE, FACTOR, FEW, LASTS_S = 6.0, 1.5, 3, 0.25
EQUAL = 1e-6  # variance of logarithms below which noise is none
LATEST = 8  # groups of calls that are kept, so that a change is seen before its block is full


class BlockMeans:
    """Durations of steps in the order they came, in at most MOST blocks of equally many: memory and work are bounded.

    The mean of all tells what is to come, since only means add up to totals. Neighbouring steps are alike, and n of
    them are worth fewer than n; means of long blocks are less so (batch means: Schmeiser 1982, Operations Research 30;
    Law & Kelton, Simulation Modeling and Analysis). How long is long enough is not known: the blocks are also put
    together to 8 and to 4 groups, and the widest t interval holds (Flyvbjerg & Petersen 1989, Journal of Chemical
    Physics 91).

    When MOST are full, two and two become one. Where the speed changes by more than noise explains, what was before is
    forgotten, and `changed` holds seconds per step before and after. level: of intervals, between 0 and 1. once: the
    first duration counts only until there is a second, since it holds what is done once: to compile, fill caches.
    """

    def __init__(self, level: float, once: bool = False) -> None:
        self._level, self._once = level, once
        self.changed: tuple[float, float] | None = None
        self._begin([], [], 1)

    def _begin(self, seconds: list[float], steps: list[int], size: int) -> None:
        """Take these blocks, of so many calls of `add`, for all that was."""
        self._seconds, self._steps, self._size = seconds, steps, size
        self._open = [0.0, 0, 0]  # the block under way: its seconds, steps, calls
        self._group = [0.0, 0, 0]  # the same of calls of which FEW groups last LASTS_S
        self._latest: deque[list[float]] = deque(maxlen=LATEST)  # groups
        self._before = np.zeros(3)  # of the groups before those, the sum of `_powers`
        self.unsettled = False  # whether FEW more like the last one would be a change of speed

    def __len__(self) -> int:
        """How many blocks are full."""
        return len(self._steps)

    @property
    def blocks_s(self) -> Array:
        """Mean seconds of a step in each full block, shape (blocks,)."""
        return np.array(self._seconds) / np.array(self._steps)

    def add(self, seconds: float, steps: int = 1) -> None:
        """So many steps took so many seconds."""
        if self._once and self._steps:
            self._begin([], [], 1)
            self._once = False
        for part in (self._open, self._group):
            part[0] += seconds
            part[1] += steps
            part[2] += 1
        if self._open[2] == self._size:
            self._seconds.append(self._open[0])
            self._steps.append(self._open[1])
            self._open = [0.0, 0, 0]
            if len(self._steps) == MOST:
                self._seconds = [sum(self._seconds[i : i + 2]) for i in range(0, MOST, 2)]
                self._steps = [sum(self._steps[i : i + 2]) for i in range(0, MOST, 2)]
                self._size *= 2
            self._forget(self._seconds, self._steps, self._size, np.zeros(3))
        if self._group[0] >= LASTS_S / FEW:
            if len(self._latest) == LATEST:
                self._before += _powers(*([each] for each in self._latest[0][:2]))[:, 0]
            self._latest.append(self._group)
            self._group = [0.0, 0, 0]
            lasted, lengths, calls = map(list, zip(*self._latest, strict=True))
            self._forget(lasted, lengths, calls[-1], self._before)

    def _forget(self, seconds: list[float], steps: list[int], size: int, before: Array) -> None:
        """Keep what came after the clearest change of speed in these blocks; before: `_powers` of those before them."""
        powers = np.cumsum(_powers(seconds, steps), axis=1)
        early = before[:, None] + powers[:, :-1]  # for each place to cut: what comes before it, and after
        late = powers[:, -1:] - powers[:, :-1]
        means, squares = zip(*((part[1] / part[0], part[2] / part[0]) for part in (early, late)), strict=True)
        noise = np.maximum(squares[0] - means[0] ** 2 + squares[1] - means[1] ** 2, 0.0) + EQUAL
        apart, shorter = np.abs(means[1] - means[0]), np.minimum(early[0], late[0])
        clear = (apart > math.log(FACTOR)) & (early[0] >= FEW)
        self.unsettled = bool((clear & (apart > SURE * np.sqrt(noise / FEW)))[-1:].any())
        clear &= (late[0] >= FEW) & (sum(seconds) - np.cumsum(seconds)[:-1] >= LASTS_S)
        errors = np.where(clear, apart / np.sqrt(noise / shorter), 0.0)
        if errors.max(initial=0.0) > SURE:
            place = int(errors.argmax())
            self.changed = math.exp(means[0][place]), math.exp(means[1][place])
            self._begin(seconds[place + 1 :], steps[place + 1 :], size)

    def total(self, steps: int) -> Interval:
        """Seconds of so many further steps, with an interval that holds them in a share `level` of trainings; nothing
        where none are to come, or no block is full yet.

        The value is the mean of the last blocks, as many as there are steps to come (a quarter of them and 8 at the
        least), so that a machine which has become slower counts as slower. One block alone that stands out above the
        others counts like the next one: a disturbance that came once. The interval has four parts, of which the squares
        are added: the widest t interval of the mean of the past; noise of what is to come; drift, the second half of
        these blocks against the first as far as noise does not explain it, which a random walk repeats while as many
        steps pass (FARTHEST bounds that); and what nobody has seen yet: WANDER, falling with the square root of the
        share of steps to come, LEAST at last.

        It reaches up to the plain mean at least: a disturbance may come again as often as it came. From fewer than
        FEWEST blocks it lies within half and twice the value, and from one alone it is that.
        tests/unit/test_predict_ending.py counts how many of simulated trainings are held: fewer where noise lasts
        longer than what was seen.
        """
        if steps <= 0 or not self._steps:
            return NOTHING
        past, number = sum(self._steps), len(self._steps)
        window = min(number, max(math.ceil(steps * number / past), math.ceil(number / 4), COARSE[0]))
        lengths = np.array(self._steps[-window:], float)
        seconds = np.array(self._seconds[-window:])
        plain, means = float(seconds.sum() / lengths.sum()), seconds / lengths
        if window >= FEWEST:
            means = np.minimum(means, np.sort(means)[-2])  # the highest as high as the next (one-sided winsorising)
        value = float(means @ lengths / lengths.sum())
        if window == 1:
            return Interval(value * steps, value * steps / 2, value * steps * 2)
        normal = float(ndtri((1 + self._level) / 2))
        variance = _of_the_means(means, float(lengths.mean()), steps, self._level)
        variance += normal**2 * _drift(means) * min(1 + steps / float(lengths.sum()), FARTHEST)
        variance += (normal * value) ** 2 * max(WANDER**2 * steps / (past + steps), LEAST**2)
        half = math.sqrt(variance)
        low, high = max(value - half, 0.0), max(value + half, plain)
        if window < FEWEST:
            low, high = max(low, value / 2), min(high, value * 2)
        return Interval(value * steps, low * steps, high * steps)


def _powers(seconds: list[float], steps: list[int]) -> Array:
    """1, the logarithm of seconds per step (of none, that of a nanosecond), and its square; a column per block."""
    logs = np.log(np.maximum(np.array(seconds) / np.array(steps), 1e-9))
    return np.array([np.ones(len(logs)), logs, logs**2])


def _of_the_means(means: Array, size: float, steps: int, level: float) -> float:
    """Square of the half-width that noise leaves in the means of past and future steps; size: of a block."""
    window = len(means)
    widest = 0.0
    for groups in (window, *(number for number in COARSE if number < window)):
        each = window // groups
        grouped = means[window - groups * each :].reshape(groups, each).mean(axis=1)
        quantile = float(stdtrit(groups - 1, (1 + level) / 2))
        widest = max(widest, quantile**2 * float(grouped.var(ddof=1)) / groups)
    quantile = float(stdtrit(window - 1, (1 + level) / 2))
    return widest + quantile**2 * float(means.var(ddof=1)) * size / steps


def _drift(means: Array) -> float:
    """Square of how far the halves lie apart, less what noise from block to block makes of it (4 of its variances)."""
    half = len(means) // 2
    if half < 2:
        return 0.0
    apart = float(means[-half:].mean() - means[:half].mean())
    noise = float((np.diff(means) ** 2).mean()) / 2
    return max(apart**2 - 4 * noise / len(means), 0.0)
