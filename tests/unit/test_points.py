"""From invocations to points: what is pooled, the times and their intervals, the noise table."""

import made_up
import numpy as np
import pandas as pd
import pytest

from traintime import paths
from traintime.explain import statistics
from traintime.explain.points import COLUMNS, counted, noise_table, points, pooled_spreads
from traintime.point import fields, make_point
from traintime.store.table import ALIKE, table


def row(
    step_s=np.nan, status="ok", stack="numpy", disturbed=False, started="2026-01-02T03:04:05Z", how=None, **changes
):
    """One row of the table, of which a failed run tells little; how: values of ALIKE that are not the usual ones."""
    told = dict.fromkeys(["versions", "path", "told"], np.nan) if status != "ok" else {}
    run = {"status": status, "disturbed": disturbed, "started": started} | told | (how or {})
    return made_up.row(stack, make_point(**changes), 1, step_s, median_s=step_s / 2, peak_bytes=1000 * step_s, **run)


def frame(*rows):
    return pd.DataFrame(list(rows))


def test_a_point_has_means_and_the_largest_peak():
    point = points(frame(row(1.0), row(2.0), row(6.0))).iloc[0]
    assert (point.status, point.invocations, point.step_s, point.peak_bytes) == ("ok", 3, 3.0, 6000)
    assert point.typical_s == pytest.approx(12 ** (1 / 3) / 2)


def test_the_interval_has_the_spread_of_the_stacks_points():
    quiet = [row(step, vocabulary=10) for step in (2.0, 2.0, 2.0)]
    loud = [row(step, vocabulary=20) for step in (1.0, 2.0, 4.0)]
    others = [row(step, stack="2026-jax") for step in (1.0, 9.0)]
    found = points(frame(*quiet, *loud, *others)).set_index(["stack", "vocabulary"])
    spread = statistics.pooled_spread([[2.0] * 3, [1.0, 2.0, 4.0]])
    for vocabulary, steps in ((10, [2.0] * 3), (20, [1.0, 2.0, 4.0])):
        expected = statistics.mean(steps, spread)
        point = found.loc[("numpy", vocabulary)]
        assert (point.step_s, point.low_s, point.high_s) == (expected.value, expected.low, expected.high)


def test_a_single_run_has_an_interval_only_where_its_stack_was_repeated():
    alone = points(frame(row(1.0))).iloc[0]
    assert alone.step_s == 1.0
    assert alone[["low_s", "high_s"]].isna().all()
    beside = points(frame(row(1.0), row(2.0, vocabulary=10), row(2.2, vocabulary=10))).set_index("vocabulary")
    assert beside.loc[280_000].low_s < 1.0 < beside.loc[280_000].high_s


# What failed or was disturbed


@pytest.mark.parametrize("status", ["oom", "timeout", "crashed", "missing"])
def test_a_point_that_never_ended_well_has_a_status_and_no_time(status):
    found = points(frame(row(status=status), row(status=status), row(2.0, vocabulary=10)))
    point = found.set_index("vocabulary").loc[280_000]
    assert (point.status, point.invocations) == (status, 2)
    assert point[["step_s", "low_s", "high_s", "typical_s", "peak_bytes"]].isna().all()


def test_a_point_that_failed_once_says_so_and_keeps_the_times_of_the_others():
    found = points(frame(row(1.0), row(status="timeout"), row(3.0)))
    assert len(found) == 1
    assert tuple(found.loc[0, ["status", "invocations", "step_s", "versions"]]) == ("timeout", 3, 2.0, "x 1")


def test_a_failure_that_may_belong_to_two_ways_stands_alone():
    other = {"path": "OpenBLAS SkylakeX"}
    found = points(frame(row(1.0), row(3.0, how=other), row(status="crashed")))
    assert sorted(found.status) == ["crashed", "ok", "ok"]
    assert list(found.invocations) == [1, 1, 1]


def test_a_disturbed_invocation_is_counted_and_its_time_is_not():
    found = points(frame(row(1.0), row(9.0, disturbed=True), row(3.0)))
    assert tuple(found.loc[0, ["invocations", "disturbed", "step_s", "peak_bytes"]]) == (3, 1, 2.0, 3000)


def test_where_every_invocation_was_disturbed_their_times_are_all_there_is():
    found = points(frame(row(1.0, disturbed=True), row(3.0, disturbed=True), row(9.0, vocabulary=10)))
    assert tuple(found.set_index("vocabulary").loc[280_000, ["disturbed", "step_s"]]) == (2, 2.0)


# What is kept apart


def test_points_that_differ_in_any_field_are_kept_apart():
    changes = [{}, {"vocabulary": 10}, {"batch": 7}, {"optimizer": "sgd"}, {"frozen": True}, {"length": 3}]
    changes += [{"onednn": "off"}, {"words": 5}, {"words": 5, "mask": True}, {"loop": "fit"}]
    found = points(frame(*(row(1.0, **change) for change in changes), row(1.0, stack="2026-jax")))
    assert list(found.invocations) == [1] * 11


@pytest.mark.parametrize(
    "how",
    [
        {"threads": 1},
        {"versions": "numpy 2.1.0"},
        {"code": ""},
        {"protocol": "2+30"},
        {"path": "OpenBLAS SkylakeX"},
        {"path": np.nan},
        {"told": True},
    ],
    ids=str,
)
def test_what_must_not_be_pooled_is_kept_apart(how):
    assert set(how) <= set(ALIKE)
    found = points(frame(row(1.0), row(2.0), row(8.0, how=how)))
    assert sorted(zip(found.invocations, found.step_s, strict=True)) == [(1, 8.0), (2, 1.5)]
    spread = pooled_spreads(frame(row(1.0), row(2.0), row(8.0, how=how)), "step_s")["made-up", "numpy"]
    assert spread == statistics.pooled_spread([[1.0, 2.0], [8.0]])


def test_points_come_in_order_of_stack_and_size():
    found = points(frame(*(row(1.0, vocabulary=v, stack=s) for v in (20, 5, 10) for s in ("numpy", "2026-jax"))))
    assert list(found["stack"]) == ["2026-jax"] * 3 + ["numpy"] * 3
    assert list(found.vocabulary) == [5, 10, 20] * 2
    assert list(found.index) == list(range(6))


def test_a_table_of_nothing_has_no_points_and_all_columns(tmp_path):
    found = points(table(tmp_path))
    assert found.empty
    assert {*ALIKE, "workload", *fields(), "threads_asked", *COLUMNS} == set(found.columns)
    assert noise_table(table(tmp_path)).empty


def test_the_stored_table_loses_no_invocation():
    stored = table(paths.MEASUREMENTS)
    found = points(stored)
    assert found.invocations.sum() == len(stored)
    assert not found.duplicated(ALIKE).any()
    names = ["machine", "stack", "key"]
    assert set(map(tuple, found[names].to_numpy())) == set(map(tuple, stored[names].to_numpy()))


# The noise table


def test_the_noise_table_is_that_of_the_medians_of_what_counts():
    rows = [row(1.0), row(1.2), row(50.0, disturbed=True), row(status="oom"), row(3.0, how={"code": ""})]
    noise = noise_table(frame(*rows)).iloc[0]
    assert (noise["machine"], noise["stack"], noise["degrees"]) == ("made-up", "numpy", 1)
    assert noise["spread"] == pytest.approx(np.std(np.log([1.0, 1.2]), ddof=1))
    # Residuals of +-ln(1.2)/sqrt(2): two single runs are the same or 1.2 ** sqrt(2) apart.
    assert noise[1] == pytest.approx(1.2 ** np.sqrt(2) - 1)
    once = noise_table(frame(row(1.0))).iloc[0]
    assert once["degrees"] == 0
    assert once[["spread", 1, 10]].isna().all()


def test_what_counts_keeps_its_index():
    rows = frame(row(1.0), row(2.0, disturbed=True), row(status="oom"), row(3.0)).set_index(pd.Index([5, 6, 7, 8]))
    assert list(counted(rows).index) == [5, 8]
