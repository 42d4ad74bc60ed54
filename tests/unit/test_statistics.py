"""Statistics, checked by simulation: with made-up scatter, and with the scatter of the runs that are stored."""

from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from traintime.explain import statistics
from traintime.explain.statistics import (
    Comparison,
    Interval,
    Side,
    Spread,
    compare,
    geometric,
    holm,
    mean,
    noise,
    pooled_spread,
    ratio,
    slope,
    verdicts,
)
from traintime.store import records

MEASUREMENTS = Path(__file__).parents[2] / "data" / "measurements"
POINTS = 10  # of a stack in a simulated sweep
SWEEPS = 1000  # simulated; each gives several intervals, so that a share is known to within a per cent
# What may be missing from 95 %, and what chance adds in so many sweeps.
LOW, HIGH = 0.93, 0.97


@cache
def stored() -> dict[str, dict[str, list[np.ndarray]]]:
    """Logs of the median step of stored invocations that count, by stack and machine.

    One array a point, threads, protocol and sweep.
    """
    points = defaultdict(list)
    for path in sorted(MEASUREMENTS.glob("*/*/*.json")):
        record = records.read(path)
        for invocation in record.invocations:
            if invocation.status == "ok" and not invocation.disturbed:
                timing = invocation.result.timing
                same = (invocation.threads, invocation.protocol.text, invocation.sweep)
                points[record.stack, path, same].append(np.log(np.median(timing.steps_ns[timing.warmup :]) / 1e9))
    stacks = defaultdict(lambda: defaultdict(list))
    for (stack, path, _), logs in points.items():
        if len(logs) > 1:
            stacks[stack][path.parts[-3]].append(np.array(logs))
    return stacks


@cache
def pool(stack: str) -> np.ndarray:
    """Residuals of a stack's stored invocations, with the variance that centring took away."""
    points = [logs for machine in stored()[stack].values() for logs in machine]
    return np.concatenate([(logs - logs.mean()) * np.sqrt(len(logs) / (len(logs) - 1)) for logs in points])


def alike(kind: float | str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Log errors of sweeps whose points all repeat alike: normal with this spread, or a stack's stored residuals."""
    return random.standard_normal(shape) * kind if isinstance(kind, float) else random.choice(pool(kind), shape)


def unlike(stack: str, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
    """Log errors of a sweep whose points each have their own spread: that of one of the stack's stored points.

    A sweep is one machine's: all its points are drawn from the same one, a machine as often as it has points.
    """
    machines = list(stored()[stack].values())
    weights = np.array([len(points) for points in machines]) / sum(map(len, machines))
    points = machines[random.choice(len(machines), p=weights)]
    drawn = random.choice([logs.std(ddof=1) for logs in points], shape[0])
    return random.standard_normal(shape) * drawn[:, None]


def expected(kind: float | str) -> tuple[float, float]:
    """The truth behind `alike`: expected log, and log of the expected value."""
    if isinstance(kind, float):
        return 0.0, kind**2 / 2
    return float(pool(kind).mean()), float(np.log(np.exp(pool(kind)).mean()))


STACKS = sorted(stored())


def compared(above, below, of_above, of_below, **options) -> Comparison:
    """Two things, "a" and "b", compared; of_above, of_below: the points of their stacks."""
    return compare(Side("a", above, of_above), Side("b", below, of_below), **options)


@pytest.mark.parametrize("number", [5, *(pytest.param(number, marks=pytest.mark.rest) for number in (3, 10))])
@pytest.mark.parametrize("kind", [0.02, 0.15, *STACKS])
def test_intervals_cover_what_they_promise(kind, number):
    """In sweeps of ten points with so many invocations each.

    The pooled spread is estimated in each sweep anew. Of each sweep four points are looked at, two ratios of
    points (whose sides share their stack's spread), and two ratios of a point on two stacks.
    """
    random = np.random.default_rng(number)
    seconds = np.exp(alike(kind, (SWEEPS, POINTS, number), random))
    others = np.exp(alike(kind, (SWEEPS, POINTS, number), random))
    log, arithmetic = np.exp(expected(kind))
    inside = defaultdict(list)
    for sweep, other in zip(seconds, others, strict=True):
        spread, spread_other = pooled_spread(sweep), pooled_spread(other)
        for point in range(4):
            inside["geometric"].append(log in geometric(sweep[point], spread))
            inside["mean"].append(arithmetic in mean(sweep[point], spread))
        for point in range(2):
            inside["ratio"].append(1 in ratio(sweep[point], sweep[5 + point], spread, spread))
            inside["ratio of stacks"].append(1 in ratio(sweep[point], other[point], spread, spread_other))
    for name, hits in inside.items():
        assert LOW <= np.mean(hits) <= HIGH, f"{name} of {number} invocations, scatter {kind}: {np.mean(hits):.3f}"


@pytest.mark.rest
@pytest.mark.parametrize(
    ("tables", "errors", "numbers"),
    [
        pytest.param(1000, alike, [3, 5, 10], id="stored residuals"),
        pytest.param(600, unlike, [5, 10], id="each point its own spread"),
    ],
)
def test_tables_of_identical_things_stay_silent(tables, errors, numbers):
    """The share of tables with a false "significant": eight points on two stacks, of ten, all the same in truth."""
    random, false = np.random.default_rng(0), 0
    pairs = list(zip(STACKS, STACKS[1:] + STACKS[:1], strict=True))
    for index in range(tables):
        kinds, number = pairs[index % len(pairs)], numbers[index // len(pairs) % len(numbers)]
        above, below = (np.exp(errors(kind, (POINTS, number), random)) for kind in kinds)
        table = [compared(above[i], below[i], above, below, draws=300, seed=index) for i in range(8)]
        # Without the rule of 5 %, so that nothing but the statistics keeps the table silent.
        false += any(faster for faster, _ in verdicts(table, least=0))
    assert false / tables <= 0.06


@pytest.mark.parametrize("one_stack", [False, True])
def test_p_values_are_a_share_of_identical_things(one_stack):
    # Neither too bold nor too shy: about 5 % of single comparisons fall below 5 %.
    random = np.random.default_rng(1)
    p = []
    for _ in range(700):
        above, below = np.exp(random.standard_normal((2, POINTS, 5)) * 0.08)
        pools = [np.concatenate([above, below])] * 2 if one_stack else [above, below]
        p += [compared(above[i], below[i], *pools, draws=400).p for i in range(3)]
    assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.06
    assert 0.4 <= np.mean(np.array(p) <= 0.5) <= 0.6


def test_a_clear_difference_is_told_apart():
    random = np.random.default_rng(3)
    found = 0
    for index in range(100):
        above, below = np.exp(random.standard_normal((2, POINTS, 5)) * 0.05)
        above *= 1.3
        table = [compared(above[i], below[i], above, below, draws=1000, seed=index) for i in range(10)]
        found += sum(verdict == ("b", "significant") for verdict in verdicts(table))
    assert found / 1000 >= 0.98


# Worked by hand.


def test_means_and_their_intervals_by_hand():
    # Mean log ln 2, standard deviation ln 2, t of 0.975 with 2 degrees 4.302653.
    found = geometric([1.0, 2.0, 4.0])
    half = 4.302653 * np.log(2) / np.sqrt(3)
    assert (found.value, found.low, found.high) == pytest.approx((2, 2 * np.exp(-half), 2 * np.exp(half)), rel=1e-6)
    found = mean([1.0, 3.0])
    assert found.value == 2 and found.value in found
    assert mean([1.0, 1.1, 5.0], Spread(0.01, 40)).high >= 7.1 / 3  # its own value stays inside


def test_pooled_spread_by_hand_and_one_run_has_an_interval_only_through_its_stack():
    # Deviations of +-0.1 and +-0.3, one degree each; the single run adds nothing.
    groups = [np.exp([0.9, 1.1]), np.exp([1.7, 2.3]), np.array([5.0])]
    assert pooled_spread(groups) == Spread(pytest.approx(np.sqrt((0.02 + 0.18) / 2)), 2)
    alone = geometric([2.0])
    assert alone.value == pytest.approx(2) and np.isnan([alone.low, alone.high]).all()
    assert np.isnan(mean([2.0]).low) and np.isnan(ratio([1.0], [2.0, 2.1]).low)
    with_stack = geometric([2.0], Spread(0.05, 20))
    assert np.log(with_stack.high / 2) == pytest.approx(2.085963 * 0.05, rel=1e-6)
    # A stack where nothing was repeated knows no more than the values.
    assert geometric([1.0, 2.0], pooled_spread([[1.0], [2.0]])) == geometric([1.0, 2.0])


def test_ratio_counts_a_shared_spread_once():
    shared, like = Spread(0.05, 6), Spread(0.05 + 1e-12, 6)
    once = ratio([1.2], [1.0], shared, shared)
    twice = ratio([1.2], [1.0], shared, like)
    assert np.log(once.high / 1.2) == pytest.approx(2.446912 * 0.05 * np.sqrt(2), rel=1e-6)  # 6 degrees
    assert np.log(twice.high / 1.2) == pytest.approx(2.178813 * 0.05 * np.sqrt(2), rel=1e-6)  # 12 degrees
    # The side with nearly all the error brings nearly all the degrees: 3, not 43.
    uneven = ratio([1.2], [1.0], Spread(0.2, 3), Spread(0.001, 40))
    assert np.log(uneven.high / 1.2) == pytest.approx(3.182446 * 0.2, rel=1e-3)


def test_slope_of_a_power_law():
    sizes = [10.0, 100.0, 1000.0]
    groups = [np.array([size**0.7 * 0.9, size**0.7 / 0.9]) for size in sizes]
    found = slope(sizes, groups)
    assert found.value == pytest.approx(0.7)
    # Standard error sd / sqrt(n * sum of squares), 3 degrees.
    sd, square = np.log(1 / 0.9) * np.sqrt(2), 2 * np.log(10) ** 2
    assert found.high - found.value == pytest.approx(3.182446 * sd / np.sqrt(2 * square), rel=1e-6)
    assert np.isnan(slope(sizes, [group[:1] for group in groups]).low)
    with pytest.raises(ValueError, match="two different sizes"):
        slope([10.0, 10.0], groups[:2])


def test_noise_of_normal_residuals_is_what_theory_says():
    random = np.random.default_rng(5)
    groups = np.exp(random.standard_normal((300, 3)) * 0.1)
    for number in (1, 10):
        expect = np.expm1(1.959964 * pooled_spread(groups).sd * np.sqrt(2 / number))
        assert noise(groups, number, draws=40_000) == pytest.approx(expect, rel=0.05)


@pytest.mark.parametrize("values", [[], [0.0], [1.0, float("nan")], [float("inf")], [[1.0]]])
def test_seconds_that_have_no_logarithm_are_refused(values):
    for statistic in (geometric, mean, lambda wrong: ratio(wrong, [1.0]), lambda wrong: pooled_spread([wrong])):
        with pytest.raises(ValueError, match="seconds"):
            statistic(values)


# Verdicts.


def made(value: float, p: float, interval: tuple[float, float] = (1.01, 3.0), **changes) -> Comparison:
    return Comparison("a", "b", Interval(value, *interval), 5, p, **changes)


def test_each_reason_and_what_is_not_tested_does_not_weaken_the_table():
    table = [
        made(1.4, 0.001),
        made(0.7, 0.001, (0.6, 0.8)),
        made(1.04, 0.001, (1.03, 1.05)),
        made(1.4, 0.3),
        made(1.4, 0.001, (0.9, 2.0)),  # no second mark that disagrees with the interval
        made(1.4, float("nan"), (float("nan"),) * 2),
        made(9.0, 0.001, interleaved=False),
    ]
    assert verdicts(table) == [
        ("b", "significant"),
        ("a", "significant"),
        (None, "less than 5 %"),
        (None, "significant before correction"),
        (None, "within noise"),
        (None, "one run"),
        (None, "not interleaved"),
    ]
    untested = [made(2.0, float("nan")), made(2.0, 0.9, interleaved=False)]
    assert verdicts([made(2.0, 0.04), *untested])[0][0] == "b"
    assert verdicts([made(2.0, 0.04), made(2.0, 0.9)])[0][0] is None


def test_holm_by_hand():
    # Four tests: 0.0125, 0.0167, 0.025, 0.05; the third fails, so the fourth stays although it is below 0.05.
    assert holm([0.04, 0.01, 0.03, 0.015]) == [False, True, False, True]
    assert holm([0.03, float("nan"), 0.02]) == [True, False, True]


# Several steps


def test_a_difference_of_two_means_has_welchs_interval():
    random = np.random.default_rng(1)
    one, other = random.normal(size=10), random.normal(size=4)
    expected = stats.ttest_ind(one, other, equal_var=False).confidence_interval()
    found = statistics.difference(one, other)
    assert found.value == pytest.approx(one.mean() - other.mean())
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_a_function_of_several_steps_is_covered_as_promised():
    """The difference of two noisy steps, drawn many times: 95 % of the intervals hold the truth."""
    random, covered = np.random.default_rng(0), 0
    for _ in range(150):
        groups = [step * np.exp(random.normal(0, 0.1, 5)) for step in (0.1, 0.3)]
        steps, drawn = statistics.redrawn(groups, [Spread(0.1, 30)] * 2, draws=500)
        covered += 0.2 in statistics.central(drawn[1] - drawn[0], float(steps[1] - steps[0]))
    assert 0.9 <= covered / 150 <= 1


def test_a_step_is_the_arithmetic_mean_of_its_invocations_or_their_geometric_one():
    spreads = [Spread(0.1, 30)]
    assert statistics.redrawn([[1.0, 4.0]], spreads)[0] == pytest.approx([2.5])
    assert statistics.redrawn([[1.0, 4.0]], spreads, arithmetic=False)[0] == pytest.approx([2.0])
