"""What may be said of repeated runs: intervals, noise floors, and which of two things is faster.

All but `difference` works on logarithms of seconds, since run-to-run error is a share of the step, not a number of
milliseconds.
A point has few invocations (3 to 10), so its own spread says little; the spread is pooled over the points of a stack.
tests/unit/test_statistics.py checks by simulation, with the residuals
of the stored runs, that intervals have their stated coverage and that tables of identical things stay silent.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import fdtri, ndtri, stdtrit

Array = NDArray[np.float64]
Reason = Literal[
    "significant", "within noise", "significant before correction", "less than 5 %", "one run", "not interleaved"
]

DRAWS = 4000  # of a resampled interval, and of a p-value
LEVEL = 0.95  # share of intervals that hold the truth
CLEARLY = 0.999  # of points that repeat like their stack do not scatter so much more than it
LEAST = 0.05  # a difference below 5 % is never called one
NAN = float("nan")


@dataclass(frozen=True)
class Interval:
    """A value with its confidence interval; `low` and `high` are NaN where repeats are missing and there is none."""

    value: float
    low: float = NAN
    high: float = NAN

    def __contains__(self, x: float) -> bool:
        """Whether x lies inside; no number lies inside an interval that does not exist."""
        return bool(self.low <= x <= self.high)

    def excludes(self, x: float) -> bool:
        """Whether x lies outside. False without an interval, so it is not the opposite of `in`."""
        return bool(x < self.low or x > self.high)

    def scaled(self, factor: float) -> "Interval":
        """The interval in another unit. Raises ValueError unless the factor is positive."""
        if not factor > 0:
            raise ValueError(f"a unit's factor is positive, not {factor}")
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def one_of(self, number: int) -> "Interval":
        """The interval where `number` of them are looked at together and each might be the one that refutes.

        Bonferroni's, with the ends moved as for a normal error: of the logarithm where all is positive.
        """
        if number < 2 or np.isnan(self.low):
            return self
        times = float(ndtri(1 - 0.025 / number) / ndtri(0.975))
        if self.low > 0:
            return Interval(self.value, *(self.value * (end / self.value) ** times for end in (self.low, self.high)))
        return Interval(self.value, *(self.value + (end - self.value) * times for end in (self.low, self.high)))

    def text(self, spec: str = ".2f", scale: float = 1.0, unit: str = "") -> str:
        """As a reader sees it: "1.24 (1.10 to 1.31)", with a unit "1.24 s (1.10 to 1.31)", or the value alone."""
        scaled = self.scaled(scale)
        text = f"{scaled.value:{spec}} {unit}".rstrip()
        return text if np.isnan(self.low) else f"{text} ({scaled.low:{spec}} to {scaled.high:{spec}})"


@dataclass(frozen=True)
class Spread:
    """Run-to-run error of a stack: pooled standard deviation of log seconds, and its degrees of freedom.

    An sd of 0.05 is about 5 %. `sd` is NaN and `degrees` 0 where no point has two invocations.
    """

    sd: float
    degrees: int


def _seconds(values: ArrayLike) -> Array:
    """Values as an array, shape (invocations,). Raises ValueError where one has no logarithm."""
    seconds = np.asarray(values, dtype=float)
    if seconds.ndim != 1 or not seconds.size:
        raise ValueError(f"needs the seconds of one or more invocations, not shape {seconds.shape}")
    if not (seconds.min() > 0 and seconds.max() < np.inf):
        raise ValueError(f"seconds are positive and finite, not {seconds.tolist()}")
    return seconds


def _centred(groups: Iterable[ArrayLike]) -> tuple[Array, Array]:
    """Logs less their point's mean, of the points that have two invocations or more, and each point's number."""
    points = [np.asarray(group, dtype=float) for group in groups]
    if not points:
        return np.empty(0), np.empty(0, dtype=int)
    if any(point.ndim != 1 or not point.size for point in points):
        raise ValueError("needs the seconds of each configuration's invocations, one array each")
    numbers = np.array([len(point) for point in points])
    logs = np.log(_seconds(np.concatenate(points))[np.repeat(numbers > 1, numbers)])
    numbers = numbers[numbers > 1]
    if not numbers.size:
        return logs, numbers
    starts = np.cumsum(numbers) - numbers
    return logs - np.repeat(np.add.reduceat(logs, starts) / numbers, numbers), numbers


def _spread_of(centred: Array, numbers: Array) -> Spread:
    degrees = int(numbers.sum() - len(numbers))
    return Spread(float(np.sqrt(centred @ centred / degrees)), degrees) if degrees else Spread(NAN, 0)


def _inflated(centred: Array, numbers: Array) -> Array:
    # Centring takes 1/n of the variance away; without it back, sets of three would look a fifth too quiet.
    return centred * np.repeat(np.sqrt(numbers / (numbers - 1)), numbers)


def pooled_spread(groups: Iterable[ArrayLike]) -> Spread:
    """Run-to-run error of one stack, from all its points.

    groups: one array a point, seconds a step of its invocations (medians). Points of one invocation say nothing of it.
    """
    return _spread_of(*_centred(groups))


def spread_of(values: ArrayLike, pooled: Spread | None = None) -> Spread:
    """The run-to-run error of one point: its stack's, unless the point itself scatters clearly more than that.

    Points differ in how well they repeat, far more than chance allows. values: seconds of the point's invocations;
    pooled: the stack's; without it (or with 0 degrees) the values' own. Clearly more: beyond what one point in a
    thousand would, by an F test of the two variances.
    """
    own = pooled_spread([values])
    if pooled is None or not pooled.degrees:
        return own
    clearly = own.degrees and own.sd**2 > pooled.sd**2 * fdtri(own.degrees, pooled.degrees, CLEARLY)
    # A deviation that was taken because it is large is no sooner larger still: the stack's degrees stay.
    return Spread(own.sd, pooled.degrees) if clearly else pooled


def _around(
    value: float, centre: float, error: float, degrees: float, back: Callable[[float], float] = np.exp
) -> Interval:
    """Interval by Student's t from the centre, its standard error and its degrees of freedom; none without these.

    back: from the scale of the centre to that of the value, which is a logarithm's.
    """
    if not degrees > 0:
        return Interval(value)
    half = float(stdtrit(degrees, (1 + LEVEL) / 2)) * error
    # Rounding, or a mean far from its stack's ordinary scatter, must not leave the value outside its own interval.
    return Interval(value, min(value, float(back(centre - half))), max(value, float(back(centre + half))))


def geometric(values: ArrayLike, spread: Spread | None = None) -> Interval:
    """Geometric mean of the invocations' medians, with a t interval on logarithms.

    values: seconds, shape (invocations,). spread: the stack's; without it (or with 0 degrees) the values' own. One
    value without a spread has no interval. Raises ValueError for empty or non-positive values.

    The interval's 95 % hold over the points of a stack, not for each: a quiet point is covered more often. One that
    scatters clearly more than its stack is judged by its own scatter (spread_of).
    """
    logs = np.log(_seconds(values))
    spread = spread_of(values, spread)
    centre = float(logs.mean())
    return _around(float(np.exp(centre)), centre, spread.sd / np.sqrt(len(logs)), spread.degrees)


def mean(values: ArrayLike, spread: Spread | None = None) -> Interval:
    """Arithmetic mean over invocations, for cost models and totals: only means add up to an epoch.

    Arguments and errors as for `geometric`. The interval is Cox's for a mean of lognormal values (Zhou & Gao 1997),
    with t for the normal quantile: it allows for the few slow runs that a handful of invocations mostly misses.
    Without that, 95 % covered 92 % on the stored runs of NumPy.
    """
    seconds = _seconds(values)
    spread = spread_of(values, spread)
    if not spread.degrees:
        return Interval(float(seconds.mean()))
    variance = spread.sd**2
    error = np.sqrt(variance / len(seconds) + variance**2 / (2 * spread.degrees))
    centre = float(np.log(seconds).mean()) + variance / 2
    return _around(float(seconds.mean()), centre, error, spread.degrees)


def average(values: Array) -> Interval:
    """The mean of errors, of any sign, with its 95 % interval (Student's t); without one of a single value."""
    value = float(np.mean(values))
    if len(values) < 2:
        return Interval(value)
    return _around(value, value, float(np.std(values, ddof=1) / np.sqrt(len(values))), len(values) - 1, float)


def share(happened: Array) -> Interval:
    """How often something happened, with its exact 95 % interval (Clopper and Pearson 1934)."""
    from scipy.stats import binomtest  # half a second of import, which no prediction needs

    ends = binomtest(int(np.sum(happened)), len(happened)).proportion_ci(method="exact")
    return Interval(float(np.mean(happened)), float(ends.low), float(ends.high))


def ratio(
    above: ArrayLike, below: ArrayLike, spread_above: Spread | None = None, spread_below: Spread | None = None
) -> Interval:
    """Ratio of the geometric means of two things' invocations, with a t interval on logarithms.

    above, below: seconds, shape (invocations,); spreads as for `geometric`. Welch's degrees of freedom, from the
    pooled spreads; two sides with the same spread (one stack, two settings) share one estimate, so its degrees are not
    counted twice. No interval where a side has neither repeats nor a spread.
    """
    logs = [np.log(_seconds(side)) for side in (above, below)]
    spreads = [spread_of(above, spread_above), spread_of(below, spread_below)]
    centre = float(logs[0].mean() - logs[1].mean())
    if not all(spread.degrees for spread in spreads):
        return Interval(float(np.exp(centre)))
    squares = [spread.sd**2 / len(values) for spread, values in zip(spreads, logs, strict=True)]
    total = sum(squares)
    degrees = float(min(spread.degrees for spread in spreads))
    if spreads[0] != spreads[1] and total:
        degrees = total**2 / sum(square**2 / each.degrees for square, each in zip(squares, spreads, strict=True))
    return _around(float(np.exp(centre)), centre, float(np.sqrt(total)), degrees)


def slope(sizes: ArrayLike, groups: Sequence[ArrayLike], spread: Spread | None = None) -> Interval:
    """Apparent exponent of time in a size: 1 means proportional, 0 that the size does not matter.

    The least squares slope of log geometric mean over log size, each point weighing the same. sizes: shape (points,);
    groups: seconds of each point's invocations; spread: the stack's, else that of these points. Raises ValueError
    for fewer than two different sizes.

    The interval holds run-to-run error alone, not lack of fit: it says where the slope of *these* sizes would land if
    they were run again, also where the law is no power.
    """
    x = np.log(_seconds(sizes))
    if len(x) != len(groups):
        raise ValueError(f"{len(x)} sizes for {len(groups)} configurations")
    if np.ptp(x) == 0:
        raise ValueError("a slope needs two different sizes")
    y = np.array([np.log(_seconds(group)).mean() for group in groups])
    x, y, numbers = x - x.mean(), y - y.mean(), np.array([len(group) for group in groups])
    if spread is None or not spread.degrees:
        spread = pooled_spread(groups)
    square = float(x @ x)
    value = float(x @ y) / square
    return _around(value, value, spread.sd * float(np.sqrt(x**2 @ (1 / numbers))) / square, spread.degrees, float)


def noise(groups: Iterable[ArrayLike], number: int, draws: int = DRAWS) -> float:
    """Noise floor: how far apart two sets of invocations of the same thing land, a share (0.1 is 10 %).

    The 95 % quantile of larger / smaller - 1 of the sets' geometric means, over pairs of sets of `number` invocations
    each, resampled from the stack's pooled residuals. groups: as for `pooled_spread`. NaN without repeats. Raises
    ValueError for a number below 1.
    """
    if number < 1:
        raise ValueError(f"a set has one invocation or more, not {number}")
    residuals = _inflated(*_centred(groups))
    if not residuals.size:
        return NAN
    drawn = np.random.default_rng(0).choice(residuals, size=(2, draws, number)).mean(axis=2)
    return float(np.expm1(np.quantile(np.abs(drawn[0] - drawn[1]), LEVEL)))


def log_errors(random: np.random.Generator, spread: Spread, numbers: ArrayLike, draws: int) -> Array:
    """Errors of the logarithm of a step, t-distributed, shape (draws,); missing (NaN) without a spread.

    numbers: invocations behind the step, one number or one for each draw.
    """
    error = spread.sd / np.sqrt(numbers) if spread.degrees else NAN
    # With one degree of freedom a draw can leave the range of a float: e^50 times as slow is slow enough.
    return np.clip(error * random.standard_t(max(spread.degrees, 1), draws), -50, 50)


def redrawn(
    groups: Sequence[ArrayLike], spreads: Sequence[Spread], arithmetic: bool = True, draws: int = DRAWS, seed: int = 0
) -> tuple[Array, Array]:
    """Several steps, shape (steps,), and as they might have come out, shape (steps, draws).

    groups: each step's invocations, s; spreads: each one's stack's. A step is the arithmetic mean of its invocations,
    of which an epoch is made, or their geometric mean, by which two things are compared. Each draw gives each step a
    t-distributed error on its logarithm, by the invocations behind it; without a spread it is missing (NaN). Raises
    KeyError for a step without invocations.
    """
    if not all(len(group) for group in groups):
        raise KeyError("a step without invocations")
    means = [np.mean(group) if arithmetic else np.exp(np.log(_seconds(group)).mean()) for group in groups]
    random, own = np.random.default_rng(seed), zip(groups, spreads, strict=True)
    errors = [log_errors(random, spread_of(group, spread), len(group), draws) for group, spread in own]
    return np.array(means), np.array(means)[:, None] * np.exp(errors)


def central(drawn: ArrayLike, value: float, level: float = LEVEL) -> Interval:
    """Central interval of the draws, widened where need be to hold the value itself; none where a draw is missing."""
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value) if np.isnan(low) else Interval(value, min(float(low), value), max(float(high), value))


@dataclass(frozen=True)
class Comparison:
    """Two things' times, by their names: ratio above / below, invocations of the smaller side, and the A/A p-value.

    p: how often two sets of the same thing differ at least that much; NaN where no repeats say so.
    """

    above: str
    below: str
    ratio: Interval
    number: int
    p: float
    interleaved: bool = True


@dataclass(frozen=True)
class Side:
    """One of the two things that are compared: its name, and its invocations' seconds, shape (invocations,).

    groups: seconds of the invocations of all points of its stack, its own included; both sides have the same ones
    where one stack is compared with itself.
    """

    name: str
    seconds: ArrayLike
    groups: Collection[ArrayLike]


def compare(above: Side, below: Side, interleaved: bool = True, draws: int = DRAWS, seed: int = 0) -> Comparison:
    """Compare two things by their invocations' seconds.

    A single invocation is allowed where its stack has other points with repeats; without any, there is no interval and
    no p.

    The p-value is the share (k + 1) / (n + 1) of `draws` pairs of sets of the same thing that differ at least as much,
    on |log ratio|. A set is drawn from its stack's pooled residuals, as many as there are invocations on that side.
    Three things make that hold at the small p that Holm's correction asks for:

    - Residuals of ten points of three give 20 degrees of freedom; each draw is scaled by sqrt(degrees / chi-squared),
      which gives t for normal residuals, and keeps their tails where they are not.
    - Residuals lose variance by centring and get it back.
    - Points differ in how well they repeat, far more than chance allows. Where the two things themselves scatter more
      than their stacks do, they are judged by their own spread. Resampling alone gave a false verdict in 10 to 18 %
      of simulated tables with the stored stacks' differences from point to point; so it is 2 to 4 % with 5 or 10 a
      side, 5 to 7 % with 3, and 1 to 3 % where all points repeat alike.
    """
    logs = np.log(_seconds(above.seconds)), np.log(_seconds(below.seconds))
    pools, spreads = [], []
    for side in (above, below):
        centred, numbers = _centred(side.groups)
        if not centred.size:
            centred, numbers = _centred([side.seconds])
        pools.append(_inflated(centred, numbers))
        spreads.append(_spread_of(centred, numbers))
    interval = ratio(above.seconds, below.seconds, *spreads)
    number = min(len(logs[0]), len(logs[1]))
    if np.isnan(interval.low):
        return Comparison(above.name, below.name, interval, number, NAN, interleaved)

    random = np.random.default_rng(seed)
    scales = [np.sqrt(spread.degrees / random.chisquare(spread.degrees, draws)) for spread in spreads]
    if spreads[0] == spreads[1]:
        scales[1] = scales[0]  # one estimate: it errs on both sides alike
    sets = [
        random.choice(pool, size=(draws, len(values))).mean(axis=1) * scale
        for pool, values, scale in zip(pools, logs, scales, strict=True)
    ]
    reference = np.abs(sets[0] - sets[1])
    pooled = sum(spread.sd**2 / len(values) for spread, values in zip(spreads, logs, strict=True))
    judged = sum(
        max(spread.sd**2, values.var(ddof=1) if len(values) > 1 else 0.0) / len(values)
        for spread, values in zip(spreads, logs, strict=True)
    )
    distance = abs(float(logs[0].mean() - logs[1].mean())) * (np.sqrt(pooled / judged) if judged else 1.0)
    # Equal things must count as equal whatever the last bit of a logarithm says.
    p = (np.count_nonzero(reference >= distance - 1e-12) + 1) / (draws + 1)
    return Comparison(above.name, below.name, interval, number, float(p), interleaved)


def difference(one: ArrayLike, other: ArrayLike) -> Interval:
    """Difference of two means of shape (n,) and (m,), the first less the second (Welch 1947), of values as they are.

    Raises KeyError where a side has no two values.
    """
    sides = [np.asarray(side, float) for side in (one, other)]
    if min(map(len, sides)) < 2:
        raise KeyError("fewer than two trainings")
    value = float(sides[0].mean() - sides[1].mean())
    squares = np.array([side.var(ddof=1) / len(side) for side in sides])
    if not squares.any():  # no spread, and nothing to reckon with
        return Interval(value, value, value)
    degrees = squares.sum() ** 2 / sum(square**2 / (len(side) - 1) for square, side in zip(squares, sides, strict=True))
    return _around(value, value, float(np.sqrt(squares.sum())), degrees, float)


def holm(p_values: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which hypotheses Holm's step-down procedure rejects, in the order given (Holm 1979).

    At most `level` of tables reject anything that is true. NaN (nothing could be tested) is never rejected and does
    not count among the tests.
    """
    rejected = [False] * len(p_values)
    tested = sorted((p, index) for index, p in enumerate(p_values) if not np.isnan(p))
    for rank, (p, index) in enumerate(tested):
        if p > level / (len(tested) - rank):
            break
        rejected[index] = True
    return rejected


def verdicts(comparisons: Sequence[Comparison], least: float = LEAST) -> list[tuple[str | None, Reason]]:
    """What may be said of each comparison of one table, in its order: the name of the faster one, or None, and why.

    Two things differ significantly where Holm's procedure over the table rejects that they are the same, the interval
    of their ratio excludes 1 (so that a reader never sees two marks that disagree), and they differ by `least` or more.
    What was not measured interleaved, or has no repeats, is not tested and does not weaken the other tests.
    "significant before correction": the interval, which is of one comparison by itself, excludes 1, and the procedure
    does not.
    """
    rejected = holm([comparison.p if comparison.interleaved else NAN for comparison in comparisons])
    return [_verdict(comparison, apart, least) for comparison, apart in zip(comparisons, rejected, strict=True)]


def _verdict(comparison: Comparison, apart: bool, least: float) -> tuple[str | None, Reason]:
    ratio = comparison.ratio
    if not comparison.interleaved:
        return None, "not interleaved"
    if np.isnan(comparison.p):
        return None, "one run"
    if not ratio.excludes(1):
        return None, "within noise"
    if not apart:
        return None, "significant before correction"
    if max(ratio.value, 1 / ratio.value) < 1 + least:
        return None, "less than 5 %"
    return (comparison.below if ratio.value > 1 else comparison.above), "significant"
