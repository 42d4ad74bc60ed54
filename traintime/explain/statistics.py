"""What may be said of repeated runs: intervals, noise floors, and which of two things is faster.

All works on logarithms of seconds, since run-to-run error is a share of the step, not a number of milliseconds.
A configuration has few runs (3 to 10), so its own spread says little: `Steps` pools it over a stack, and adds what
differs from one sweep to the next. tests/unit/test_statistics.py checks by simulation, with the residuals of the stored
runs, that intervals have their stated coverage and that tables of identical things stay silent.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

Array = NDArray[np.float64]
Runs = Sequence[ArrayLike]
Function = Callable[[Array], Array]

DRAWS = 4000  # of a drawn interval, and of a noise floor
LEVEL = 0.95  # share of intervals that hold the truth
LEAST = 0.05  # a difference below 5 % is never called one
NAN = float("nan")


@dataclass(frozen=True)
class Interval:
    """A value with its confidence interval; `low` and `high` are NaN where repeats are missing and there is none.

    degrees: of freedom of the error that the interval comes from; infinite where nothing else is said (Estimated).
    """

    value: float
    low: float = NAN
    high: float = NAN
    degrees = float("inf")

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
        return replace(self, value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def one_of(self, number: int) -> "Interval":
        """The interval where `number` of them are looked at together and each might be the one that refutes.

        Bonferroni's, with the ends moved as Student's t of its degrees asks: on the logarithm where all is positive.
        """
        if number < 2 or np.isnan(self.low):
            return self
        times = float(stdtrit(self.degrees, 1 - 0.025 / number) / stdtrit(self.degrees, 0.975))
        if self.low > 0:
            ends = [self.value * (end / self.value) ** times for end in (self.low, self.high)]
        else:
            ends = [self.value + (end - self.value) * times for end in (self.low, self.high)]
        return replace(self, low=ends[0], high=ends[1])

    def text(self, spec: str = ".2f", scale: float = 1.0, unit: str = "") -> str:
        """As a reader sees it: "1.24 (1.10 to 1.31)", with a unit "1.24 s (1.10 to 1.31)", or the value alone."""
        scaled = self.scaled(scale)
        text = f"{scaled.value:{spec}} {unit}".rstrip()
        return text if np.isnan(self.low) else f"{text} ({scaled.low:{spec}} to {scaled.high:{spec}})"


@dataclass(frozen=True)
class Estimated(Interval):
    """An interval that tells the degrees of freedom of its error."""

    degrees: float = field(default=float("inf"), compare=False)


@dataclass(frozen=True)
class Spread:
    """A standard deviation of log seconds, and its degrees of freedom: of runs of a stack, or of a sweep's offset.

    An sd of 0.05 is about 5 %. `sd` is NaN and `degrees` 0 where nothing was repeated.
    """

    sd: float
    degrees: float


NO_OFFSET = Spread(0.0, 0)  # of runs that are compared with none of another sweep


def _seconds(values: ArrayLike) -> Array:
    """Values as an array, shape (invocations,). Raises ValueError where one has no logarithm."""
    seconds = np.asarray(values, dtype=float)
    if seconds.ndim != 1 or not seconds.size:
        raise ValueError(f"needs the seconds of one or more invocations, not shape {seconds.shape}")
    if not (seconds.min() > 0 and seconds.max() < np.inf):
        raise ValueError(f"seconds are positive and finite, not {seconds.tolist()}")
    return seconds


def stretches(runs: ArrayLike) -> Sequence[Any]:
    """Stretch of a sweep (store.table) in which each run was made: labels of a Series; of other values one for all."""
    return list(runs.index) if isinstance(runs, pd.Series) else [""] * len(runs)


def _centred(groups: Iterable[ArrayLike]) -> tuple[Array, Array]:
    """Logs less the mean of their configuration in their sweep, where that has two runs or more; each such number."""
    parts = []
    for group in groups:
        logs, labels = np.log(_seconds(group)), np.asarray(stretches(group), dtype=object)
        parts += [logs] if len(set(labels)) < 2 else [logs[labels == label] for label in dict.fromkeys(labels)]
    parts = [part - part.mean() for part in parts if len(part) > 1]
    return np.concatenate([np.empty(0), *parts]), np.array([len(part) for part in parts], dtype=int)


def pooled_spread(groups: Iterable[ArrayLike]) -> Spread:
    """Run-to-run error of one stack, from all its configurations, each within its sweeps.

    groups: one a configuration, seconds per step of its runs (medians), by `stretches`. A single run tells nothing.
    """
    centred, numbers = _centred(groups)
    degrees = int(numbers.sum() - len(numbers))
    return Spread(float(np.sqrt(centred @ centred / degrees)), degrees) if degrees else Spread(NAN, 0)


def spread_of(values: ArrayLike, pooled: Spread | None = None) -> Spread:
    """Run-to-run error of one configuration: its stack's, or its own where that is larger.

    Configurations differ in how well they repeat, far more than chance allows: judged by the stack's alone, tables of
    identical things of three runs a side hold a false verdict in 19 % of cases, so in 6 %; with 5 and 10 runs in 4 and
    2 % (tests/unit/test_statistics.py). The cost: where all repeat alike, 95 % intervals cover 98 or 99. values: the
    seconds of its runs; pooled: the stack's; without it (or with 0 degrees) the values' own.
    """
    own = pooled_spread([values])
    if pooled is None or not pooled.degrees:
        return own
    # A deviation that was taken because it is large is no sooner larger still: the stack's degrees stay.
    return Spread(own.sd, pooled.degrees) if own.sd > pooled.sd * (1 + 1e-9) else pooled  # but for rounding


class Steps:
    """Some configurations' steps as logarithms of geometric means, and how sure they are: the rule of every interval.

    The log of a run is that of its configuration, plus an offset that all runs of its stretch of a sweep share,
    whichever stack and configuration, plus an error of its own. The variance of a mean over n runs is therefore
    sd²/n of the run-to-run error (spread_of), plus between.sd² times the sum of the squared shares of its runs in each
    stretch. The offsets cancel in a ratio of two things that were measured in the same rounds.

    runs: each configuration's seconds, by `stretches`; spreads: its stack's run-to-run error, where known; between: the
    sweeps' offsets (sweep_offsets).
    """

    def __init__(self, runs: Runs, spreads: Sequence[Spread | None], between: Spread = NO_OFFSET) -> None:
        self.runs, self.between = runs, between
        self.logs = np.array([np.log(_seconds(values)).mean() for values in runs])
        self.spreads = [spread_of(values, spread) for values, spread in zip(runs, spreads, strict=True)]
        self.variances = np.array([s.sd**2 / len(v) for s, v in zip(self.spreads, runs, strict=True)])
        labels = [np.asarray(stretches(values), dtype=object) for values in runs]
        self.sweeps = sorted({label for each in labels for label in each})
        self.shares = np.array([[np.mean(each == sweep) for sweep in self.sweeps] for each in labels])

    def error(self, weights: ArrayLike) -> tuple[float, float]:
        """Standard error of the weighted sum of the logs and its degrees of freedom (Welch 1947, Satterthwaite 1946).

        Steps of the same spread share one estimate, so its degrees are not counted twice. 0 degrees without a spread.
        """
        weights = np.asarray(weights, dtype=float)
        parts: dict[Spread, float] = {}
        for spread, variance in zip(self.spreads, weights**2 * self.variances, strict=True):
            parts[spread] = parts.get(spread, 0.0) + variance
        shared = weights @ self.shares
        parts[self.between] = parts.get(self.between, 0.0) + self.between.sd**2 * float(shared @ shared)
        if not all(spread.degrees for spread in self.spreads):
            return NAN, 0.0
        total = sum(parts.values())
        below = sum(part**2 / spread.degrees for spread, part in parts.items() if spread.degrees)
        return float(np.sqrt(total)), total**2 / below if below else min(spread.degrees for spread in self.spreads)

    def product(self, powers: ArrayLike) -> Interval:
        """The product of the steps to these powers with a t interval: [1] a step, [1, -1] one over another.
        95 % hold over the configurations of a stack, not for each: a quiet one is covered more often.
        """
        centre = float(np.asarray(powers) @ self.logs)
        return _around(float(np.exp(centre)), centre, *self.error(powers))

    def drawn(self, draws: int = DRAWS) -> Array:
        """Errors of the logs as they might have come out, t-distributed, shape (steps, draws); NaN without a spread.

        The same runs err alike, and the same sweep shifts alike, wherever they are drawn: functions of several steps,
        lines through them and ratios of such lines are taken draw by draw.
        """
        errors = np.empty((len(self.runs), draws))
        for row, (values, spread, variance) in enumerate(zip(self.runs, self.spreads, self.variances, strict=True)):
            name = f"{getattr(values, 'name', row)} {stretches(values)}"
            errors[row] = np.sqrt(variance) * _random(name).standard_t(max(spread.degrees, 1), draws)
        if self.between.degrees:
            shifts = [_random(str(sweep)).standard_t(self.between.degrees, draws) for sweep in self.sweeps]
            errors += self.between.sd * self.shares @ np.array(shifts)
        # With one degree of freedom a draw can leave the range of a float: e^50 times as slow is slow enough.
        return np.clip(errors, -50, 50)

    def interval(self, function: Function, arithmetic: bool = False) -> Interval:
        """A function of the steps (s), with its interval by draws.

        function: of shape (steps,) a number, of shape (steps, draws) one a draw. arithmetic: a step is the arithmetic
        mean of its runs, of which an epoch is made, and not the geometric one, by which two things are compared.
        """
        means = np.array([np.mean(values) for values in self.runs]) if arithmetic else np.exp(self.logs)
        value = float(function(means))
        # How much each log counts, to first order: of that sum of logs are the degrees of freedom.
        weights = [float(function(means * np.exp(1e-6 * one))) - value for one in np.eye(len(means))]
        return central(function(means[:, None] * np.exp(self.drawn())), value, degrees=self.error(weights)[1])


def _random(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def sweep_offsets(pairs: Iterable[tuple["pd.Series[float]", Spread]]) -> Spread:
    """How much the sweeps of a machine differ in what all their runs share: sd of the offset, degrees of freedom.

    pairs: each configuration's runs, by `stretches`, and its stack's run-to-run error. A random-effects analysis of
    variance with configurations fixed and offsets random, each cell (configuration and sweep) weighted by its runs
    over their variance: the offsets' sum of squares after the configurations, less what run-to-run error makes of it,
    over its trace (Henderson's method 3, 1953); degrees by Satterthwaite. 0 degrees where no sweeps share a
    configuration or the offsets are no larger than run-to-run error makes them.
    """
    cells = [
        {"configuration": number, "sweep": sweep, "log": np.log(runs).mean(), "weight": len(runs) / spread.sd**2}
        for number, (group, spread) in enumerate(pairs)
        if spread.degrees and group.index.nunique() > 1
        for sweep, runs in group.groupby(level=0)
    ]
    if not cells:
        return NO_OFFSET
    table = pd.DataFrame(cells)
    root = np.sqrt(table["weight"].to_numpy())
    fixed, offsets = (pd.get_dummies(table[name]).to_numpy(float) * root[:, None] for name in table.columns[:2])
    base = fixed / np.linalg.norm(fixed, axis=0)
    logs, offsets = (each - base @ (base.T @ each) for each in (table["log"].to_numpy() * root, offsets))
    fitted, _, degrees, _ = np.linalg.lstsq(offsets, logs, rcond=1e-9)
    explained = float(logs @ offsets @ fitted)
    if explained <= degrees:
        return NO_OFFSET
    variance = (explained - degrees) / float((offsets**2).sum())
    return Spread(float(np.sqrt(variance)), float(degrees) * (1 - degrees / explained) ** 2)


def _around(value: float, centre: float, error: float, degrees: float) -> Interval:
    """Interval by Student's t from the centre, a log, its standard error and degrees of freedom; none without these."""
    if not degrees > 0:
        return Interval(value)
    half = float(stdtrit(degrees, (1 + LEVEL) / 2)) * error
    # Rounding, or a mean far from its stack's ordinary scatter, must not leave the value outside its own interval.
    return Estimated(value, min(value, float(np.exp(centre - half))), max(value, float(np.exp(centre + half))), degrees)


def mean(values: ArrayLike, spread: Spread | None = None, between: Spread = NO_OFFSET) -> Interval:
    """Arithmetic mean over invocations, for cost models and totals: only means add up to an epoch.

    values: seconds, shape (invocations,); spread, between: as for Steps. One value without a spread has no interval.
    Raises ValueError for empty or non-positive values. The interval is Cox's for a mean of lognormal values (Zhou & Gao
    1997), with t for the normal quantile: it allows for the few slow runs that a handful of invocations mostly misses.
    Without that, 95 % covered 92 % on the stored runs of NumPy.
    """
    steps = Steps([values], [spread], between)
    value, variance = float(np.mean(_seconds(values))), steps.spreads[0].sd ** 2
    error, degrees = steps.error([1])
    if not degrees:
        return Interval(value)
    error = np.sqrt(error**2 + variance**2 / (2 * steps.spreads[0].degrees))
    return _around(value, float(steps.logs[0]) + variance / 2, error, degrees)


def noise(groups: Iterable[ArrayLike], number: int, draws: int = DRAWS) -> float:
    """Noise floor: how far apart two sets of invocations of the same thing land, a share (0.1 is 10 %).

    The 95 % quantile of larger / smaller - 1 of the sets' geometric means, over pairs of sets of `number` invocations
    each, resampled from the stack's pooled residuals. groups: as for `pooled_spread`. NaN without repeats. Raises
    ValueError for a number below 1.
    """
    if number < 1:
        raise ValueError(f"a set has one invocation or more, not {number}")
    centred, numbers = _centred(groups)
    if not centred.size:
        return NAN
    # Centring takes 1/n of the variance away; without it back, sets of three would look a fifth too quiet.
    residuals = centred * np.repeat(np.sqrt(numbers / (numbers - 1)), numbers)
    drawn = np.random.default_rng(0).choice(residuals, size=(2, draws, number)).mean(axis=2)
    return float(np.expm1(np.quantile(np.abs(drawn[0] - drawn[1]), LEVEL)))


def central(drawn: ArrayLike, value: float, degrees: float = float("inf")) -> Interval:
    """Central interval of the draws, widened where need be to hold the value itself; none where a draw is missing."""
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value) if np.isnan(low) else Estimated(value, min(low, value), max(high, value), degrees)
