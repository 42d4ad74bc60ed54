"""From invocations to points: means, their intervals, the noise floor."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintime import summary
from traintime.point import make_point

times = st.floats(1e-4, 1e4)
several = st.lists(times, min_size=2, max_size=8).map(np.array)


def row(step_s=None, status="ok", stack="numpy", **changes):
    point = make_point(**changes)
    fields = {name: getattr(point, name) for name in summary.POINT_FIELDS}
    measured = {} if step_s is None else {"step_s": step_s, "peak_bytes": 1000 * step_s}
    return {"machine": "some-machine", "stack": stack, "key": point.key, "status": status} | fields | measured


# Intervals


@given(several)
def test_the_interval_of_a_mean_lies_within_the_values(values):
    low, high = summary.mean_interval(values)
    assert values.min() * (1 - 1e-12) <= low <= high <= values.max() * (1 + 1e-12)


def test_the_interval_of_a_mean_is_as_wide_as_the_spread_asks():
    """For many values it is the textbook's mean plus and minus 1.96 standard errors."""
    values = np.random.default_rng(1).normal(10, 2, 400)
    low, high = summary.mean_interval(values)
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.2 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.2 * error)


def test_a_lower_level_gives_a_narrower_interval():
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    (low, high), (inner_low, inner_high) = (summary.mean_interval(values, level) for level in (0.95, 0.5))
    assert low < inner_low < inner_high < high


def test_equal_values_have_an_interval_without_width():
    assert summary.mean_interval(np.array([3.0, 3.0, 3.0])) == (3.0, 3.0)


def test_a_single_value_has_no_interval():
    assert all(math.isnan(limit) for limit in summary.mean_interval(np.array([3.0])))


def test_the_same_values_have_the_same_interval():
    values = np.array([1.0, 2.0, 4.0])
    assert summary.mean_interval(values) == summary.mean_interval(values)


@given(several, several)
def test_the_interval_of_a_ratio_lies_within_the_extreme_ratios(above, below):
    low, high = summary.ratio_interval(above, below)
    assert above.min() / below.max() * (1 - 1e-9) <= low <= high <= above.max() / below.min() * (1 + 1e-9)


def test_the_ratio_of_equal_values_is_exact():
    assert summary.ratio_interval(np.array([6.0, 6.0]), np.array([2.0, 2.0, 2.0])) == (3.0, 3.0)


def test_the_interval_of_a_ratio_holds_it_and_grows_with_the_level():
    above, below = np.array([9.0, 10.0, 11.0]), np.array([1.9, 2.0, 2.1])
    low, high = summary.ratio_interval(above, below)
    inner_low, inner_high = summary.ratio_interval(above, below, level=0.5)
    assert low < inner_low < 5 < inner_high < high


# Points


def test_a_point_has_the_mean_its_interval_and_the_largest_peak():
    table = pd.DataFrame([row(1.0), row(2.0), row(6.0)])
    point = summary.points(table).iloc[0]
    assert (point.status, point.invocations, point.step_s, point.peak_bytes) == ("ok", 3, 3.0, 6000)
    assert (point.low_s, point.high_s) == summary.mean_interval(np.array([1.0, 2.0, 6.0]))


@pytest.mark.parametrize("status", ["oom", "timeout", "crashed", "missing"])
def test_a_point_that_never_ended_well_has_a_status_and_no_time(status):
    table = pd.DataFrame([row(status=status), row(status=status), row(2.0, vocabulary=10)])
    point = summary.points(table).set_index("vocabulary").loc[280_000]
    assert (point.status, point.invocations) == (status, 2)
    for column in ("step_s", "low_s", "high_s", "peak_bytes"):
        assert math.isnan(point[column]), column


def test_a_table_of_failures_alone_has_points_without_times():
    points = summary.points(pd.DataFrame([row(status="oom"), row(status="oom", vocabulary=10)]))
    assert list(points.status) == ["oom", "oom"]
    assert points["step_s"].isna().all()


def test_a_point_that_failed_once_says_so_and_keeps_the_times_of_the_others():
    table = pd.DataFrame([row(1.0), row(status="timeout"), row(3.0)])
    point = summary.points(table).iloc[0]
    assert (point.status, point.invocations, point.step_s) == ("timeout", 3, 2.0)


def test_a_point_that_was_run_once_has_a_time_and_no_interval():
    point = summary.points(pd.DataFrame([row(1.0)])).iloc[0]
    assert point.step_s == 1.0
    assert math.isnan(point.low_s)
    assert math.isnan(point.high_s)


def test_points_that_differ_in_any_field_are_kept_apart():
    changes = [{}, {"vocabulary": 10}, {"batch": 7}, {"optimizer": "sgd"}, {"frozen": True}, {"length": 3}]
    table = pd.DataFrame([row(1.0, **change) for change in changes] + [row(1.0, stack="2026-jax")])
    assert list(summary.points(table).invocations) == [1] * 7


def test_points_come_in_order_of_stack_and_size():
    table = pd.DataFrame([row(1.0, vocabulary=v, stack=s) for v in (20, 5, 10) for s in ("numpy", "2026-jax")])
    points = summary.points(table)
    assert list(points["stack"]) == ["2026-jax"] * 3 + ["numpy"] * 3
    assert list(points.vocabulary) == [5, 10, 20] * 2
    assert list(points.index) == list(range(6))


# The noise floor


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([1.0, 1.1], 0.1),
        ([1.1, 1.0], 0.1),
        ([2.0, 2.0, 2.0], 0.0),
        ([1.0, 1.1, 1.21], 0.1 + 0.9 * 0.11),  # gaps 0.1, 0.1 and 0.21: the quantile lies nine tenths between
    ],
)
def test_the_noise_floor_of_known_times(steps, expected):
    assert summary.noise_floor(pd.DataFrame([row(step) for step in steps])) == pytest.approx(expected)


def test_a_failed_sentinel_has_no_part_in_the_noise_floor():
    table = pd.DataFrame([row(1.0), row(status="crashed"), row(1.1)])
    assert summary.noise_floor(table) == pytest.approx(0.1)


@pytest.mark.parametrize("table", [pd.DataFrame(), pd.DataFrame([row(1.0)])], ids=["none", "one"])
def test_fewer_than_two_sentinels_give_no_noise_floor(table):
    assert math.isnan(summary.noise_floor(table))


@given(several, st.floats(0.1, 10))
def test_the_noise_floor_has_no_unit(steps, factor):
    here, there = (summary.noise_floor(pd.DataFrame({"status": "ok", "step_s": s})) for s in (steps, steps * factor))
    assert here == pytest.approx(there, rel=1e-6, abs=1e-9)
    assert here >= 0
