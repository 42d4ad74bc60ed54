"""From invocations to points: what is pooled, the times and their intervals, the noise table."""

import made_up
import numpy as np
import pandas as pd
import pytest

from traintime import paths
from traintime.explain import statistics
from traintime.explain.points import COLUMNS, between, counted, noise_table, points, pooled_spreads, that_count
from traintime.point import fields, make_point
from traintime.store.table import ALIKE, table


def row(step_s=np.nan, status="ok", stack="numpy", disturbed=False, how=None, **changes):
    """One row of the table, of which a failed run tells little; how: values of ALIKE that are not the usual ones."""
    told = dict.fromkeys(["versions", "path", "told"], np.nan) if status != "ok" else {}
    run = {"status": status, "disturbed": disturbed} | told | (how or {})
    return made_up.row(stack, make_point(**changes), 1, step_s, median_s=step_s / 2, peak_bytes=1000 * step_s, **run)


def frame(*rows):
    return pd.DataFrame(list(rows))


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([row(1.0), row(2.0), row(6.0)], {"status": "ok", "invocations": 3, "step_s": 3.0, "peak_bytes": 6000}),
        ([row(1.0), row(4.0)], {"typical_s": 1.0}),
        ([row(1.0), row(status="timeout"), row(3.0)], {"status": "timeout", "invocations": 3, "step_s": 2.0}),
        ([row(1.0), row(9.0, disturbed=True), row(3.0)], {"invocations": 3, "disturbed": 1, "step_s": 2.0}),
        ([row(1.0, disturbed=True), row(3.0, disturbed=True)], {"disturbed": 2, "step_s": 2.0}),  # all there is
        ([row(status="oom"), row(status="oom")], {"status": "oom", "invocations": 2, "step_s": None, "low_s": None}),
    ],
)
def test_a_point_has_the_times_of_what_counts_and_says_what_failed_or_was_disturbed(runs, expected):
    found = points(frame(*runs, row(9.0, vocabulary=10))).set_index("vocabulary").loc[[280_000]]
    assert len(found) == 1
    point = found.iloc[0]
    for name, value in expected.items():
        assert pd.isna(point[name]) if value is None else point[name] == pytest.approx(value), name


def test_the_interval_has_the_spread_of_the_stacks_points_and_a_single_run_none_without():
    quiet = [row(step, vocabulary=10) for step in (2.0, 2.0, 2.0)]
    loud = [row(step, vocabulary=20) for step in (1.0, 2.0, 4.0)]
    others = [row(step, stack="2026-jax") for step in (1.0, 9.0)]
    alone = row(1.0, stack="2026-torch")
    found = points(frame(*quiet, *loud, row(3.0, vocabulary=30), *others, alone)).set_index(["stack", "vocabulary"])
    spread = statistics.pooled_spread([[2.0] * 3, [1.0, 2.0, 4.0]])
    for vocabulary, steps in ((10, [2.0] * 3), (20, [1.0, 2.0, 4.0]), (30, [3.0])):
        expected = statistics.mean(steps, spread, between())
        point = found.loc[("numpy", vocabulary)]
        assert (point.step_s, point.low_s, point.high_s) == (expected.value, expected.low, expected.high)
    assert found.loc[("2026-torch", 280_000), ["low_s", "high_s"]].isna().all()


def test_a_failure_that_may_belong_to_two_ways_stands_alone():
    other = {"path": "OpenBLAS SkylakeX"}
    found = points(frame(row(1.0), row(3.0, how=other), row(status="crashed")))
    assert sorted(found.status) == ["crashed", "ok", "ok"]
    assert list(found.invocations) == [1, 1, 1]


def test_points_that_differ_in_any_field_are_kept_apart_in_order_of_stack_and_size():
    changes = [{"vocabulary": 20}, {"vocabulary": 10}, {"batch": 7}, {"frozen": True}, {"words": 5}]
    changes += [{"words": 5, "mask": True}, {"loop": "fit"}]
    found = points(frame(*(row(1.0, **change) for change in changes), row(1.0, stack="2026-jax")))
    assert list(found.invocations) == [1] * 8
    assert list(found["stack"]) == ["2026-jax"] + ["numpy"] * 7
    assert [rows for rows in found.vocabulary if rows < 280_000] == [10, 20]


HOW = {"threads": 1, "versions": "numpy 2.1.0", "code": "", "protocol": "2+30", "path": np.nan}


@pytest.mark.parametrize("name", HOW)
def test_what_must_not_be_pooled_is_kept_apart(name):
    how = {name: HOW[name]}
    found = points(frame(row(1.0), row(2.0), row(8.0, how=how)))
    assert sorted(zip(found.invocations, found.step_s, strict=True)) == [(1, 8.0), (2, 1.5)]
    spread = pooled_spreads(frame(row(1.0), row(2.0), row(8.0, how=how)), "step_s")["made-up", "numpy"]
    assert spread == statistics.pooled_spread([[1.0, 2.0], [8.0]])


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


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([row(9.0, how={"code": "older", "started": "2025"})] * 3, [1.0, 2.0]),  # history, however many
        ([row(9.0, disturbed=True), row(status="crashed")], [1.0, 2.0]),
        ([row(9.0, how={"protocol": "3+50"})], [1.0, 2.0, 9.0]),
        ([row(9.0, how={"path": "another"})], [1.0, 2.0]),
        ([row(8.0, how={"path": "another"}), row(9.0, how={"path": "another", "started": "2027"})], [8.0, 9.0]),
        ([row(9.0, vocabulary=10)], [1.0, 2.0, 9.0]),
    ],
)
def test_one_way_of_measuring_a_configuration_counts(others, expected):
    assert sorted(that_count(frame(row(1.0), row(2.0), *others))["step_s"]) == expected
