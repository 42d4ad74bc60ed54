"""All measurement files of a folder as one tidy table."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from traintime import paths
from traintime.point import make_point
from traintime.store import records
from traintime.store.table import ALIKE, LOOPS, MEASURED, table

SMALL = {"vocabulary": 11, "embedding": 3, "units": 4, "length": 5, "batch": 6}
POINT = make_point(**SMALL)
FIT, EPOCH = {"loop": "fit"}, {"loop": "epoch", "sentences": 1000}
BEFORE = Path(__file__).parent / "data" / "table-of-schema-2.csv.gz"


@pytest.fixture
def root(tmp_path):
    return tmp_path / "measurements"


@pytest.fixture
def add(root, invocation):
    """Store one invocation of the small point; return its row of the table. Keywords as for the fixture `invocation`.

    of: what differs in the point; result: what differs in the invocation's result.
    """

    def add(status="ok", machine="some-machine", sentinel=False, of=None, result=None, **changes):
        point, made = make_point(**SMALL, **of or {}), invocation(status, **changes)
        if result:
            made["result"] |= result
        path = records.file_of(root, machine, "numpy", point.key, sentinel)
        records.append(path, machine, "numpy", point, made)
        return table(root, sentinel=sentinel).query("key == @point.key").iloc[-1]

    return add


# As it was before


def test_the_table_says_what_it_said_before_the_package_got_its_floors():
    """Every row of the files of schema 1 and 2, as commit 3968aae read them: nine significant digits."""
    name = ["machine", "stack", "key", "sentinel", "sweep", "round", "started"]
    before = pd.read_csv(BEFORE)
    read = [table(paths.MEASUREMENTS, sentinel=which).assign(sentinel=which) for which in (False, True)]
    after = pd.concat(read, ignore_index=True)
    assert not before.duplicated(name).any()
    assert not after.duplicated(name).any()
    both = before.merge(after, on=name, how="left", suffixes=("", "_now"), indicator=True)
    lost = both[both["_merge"] != "both"]
    assert not len(lost), f"lost: {lost[name].to_dict('records')[:3]}"
    assert len(before) == 933
    for column in set(before.columns) - set(name):
        then, now = both[column], both[f"{column}_now"]
        if column == "status":
            assert (then == now).all()
        else:
            np.testing.assert_allclose(now.astype(float), then, rtol=6e-9, err_msg=column)
    assert before["fit_step_s"].notna().sum() == 33
    assert before["faults_a_step"].notna().any()


# A row


def test_a_row_has_the_steady_steps_in_seconds_without_warm_up(add):
    row = add()
    assert (row.machine, row.stack, row.key, row.vocabulary) == ("some-machine", "numpy", POINT.key, 11)
    assert row.step_s == pytest.approx(0.003)
    assert row.median_s == pytest.approx(0.002)
    assert row.min_s == pytest.approx(0.001)
    assert row.first_s == pytest.approx(0.05)
    assert (row.steps, row.peak_bytes, row.parameters) == (3, 40, 166)
    assert (POINT.run.threads, row.threads) == (None, 2), "those that it ran with"
    assert (row.versions, row.path, row.code) == ("numpy 2.0.0", "OpenBLAS Zen", "0123456789ab")
    assert (row.protocol, row.fixed, row.disturbed, row.again) == ("2+3", True, False, False)
    assert set(POINT.fields) <= set(row.index)


@pytest.mark.parametrize("status", ["oom", "timeout", "crashed", "missing"])
def test_a_failed_invocation_has_holes_and_not_zeros(add, status):
    add()
    failed = add(status)
    for column in ("step_s", "median_s", "min_s", "first_s", "peak_bytes", "steps", "faults_a_step"):
        assert math.isnan(failed[column]), column
    assert failed.vocabulary == 11


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ({"code": None}, "code"),
        ({"threads": 1}, "threads"),
        ({"protocol": {"warmup": 2, "steps": 9, "timeout_s": 1}}, "protocol"),
    ],
)
def test_what_was_measured_in_another_way_is_told_apart(add, root, changes, column):
    add()
    add(**changes)
    rows = table(root)
    assert column in ALIKE
    assert rows[column].nunique() == 2
    assert len(rows.groupby(ALIKE, dropna=False)) == 2


# The framework's own loop


def fit_loops(step_ns, start_ns):
    """N batches of six sentences, 2N, and both again, as a loop that does nothing but start and step would take."""
    return [{"sentences": 6 * steps, "ns": start_ns + steps * step_ns} for steps in (30, 60, 30, 60)]


@pytest.mark.parametrize(("step_ns", "start_ns"), [(2_000_000, 50_000_000), (31_234, 7), (900_000_000, 0)])
def test_the_time_of_a_step_of_fit_and_of_its_start_are_taken_apart(add, step_ns, start_ns):
    row = add(of=FIT, result={"loops": fit_loops(step_ns, start_ns)})
    assert row.fit_step_s == pytest.approx(step_ns / 1e9, rel=1e-9)
    assert row.fit_start_s == pytest.approx(start_ns / 1e9, rel=1e-6, abs=1e-9)
    assert row.step_s == pytest.approx(0.003), "single steps are told beside it"


def with_epoch(before, after, ns):
    """The short loops of an epoch's point on both sides of the epoch itself."""
    return [*fit_loops(*before), {"sentences": EPOCH["sentences"], "ns": ns}, *fit_loops(*after)]


def test_the_epoch_stands_in_the_middle_and_has_no_part_in_the_lines_through_the_others(add):
    loops = with_epoch((2_000_000, 50_000_000), (3_000_000, 10_000_000), 3_210_000_000)
    row = add(of=EPOCH, result={"loops": loops})
    assert row.epoch_s == 3.21
    assert (row.fit_step_s, row.fit_start_s) == pytest.approx((0.002, 0.05))
    assert row.fit_mean_s == pytest.approx(0.002 + 4 * 0.05 / 180), "all the time of short loops over all their steps"
    assert (row.fit_after_s, row.fit_mean_after_s) == pytest.approx((0.003, 0.003 + 4 * 0.01 / 180))
    assert math.isnan(row.epoch_idle_s), "nobody told when the last step was done"


def test_what_a_loop_does_after_its_last_step_is_kept_out_of_the_lines(add):
    def told(loop):
        return loop | {"ns": 10**10, "trained_ns": loop["ns"]}

    loops = [told(loop) for loop in with_epoch((2_000_000, 50_000_000), (3_000_000, 0), 3_210_000_000)]
    row = add(of=EPOCH, result={"loops": loops})
    assert (row.fit_step_s, row.fit_start_s) == pytest.approx((0.002, 0.05))
    assert (row.epoch_s, row.epoch_idle_s) == pytest.approx((10, 6.79))
    assert row.sentences == 1000


@pytest.mark.parametrize("missing", [None, 0, 3])
def test_runs_that_told_every_last_step_are_told_apart_from_others(add, missing):
    loops = [loop | {"trained_ns": loop["ns"]} for loop in fit_loops(2_000_000, 0)]
    if missing is not None:
        del loops[missing]["trained_ns"]
    assert bool(add(of=FIT, result={"loops": loops}).told) == (missing is None)
    assert "told" in ALIKE


def test_a_point_of_single_steps_has_no_loop(add):
    add(of=EPOCH, result={"loops": with_epoch((2_000_000, 0), (2_000_000, 0), 10)})
    row = add()
    assert row[[*LOOPS, "told"]].isna().all()


@pytest.mark.parametrize("loop", [{"sentences": 10}, {"ns": 10}, {"sentences": 10, "ns": 10, "steps": 1}])
def test_a_loop_that_does_not_fit_the_schema_is_not_written(add, root, loop):
    with pytest.raises(ValueError, match="validation error"):
        add(of=FIT, result={"loops": [loop]})
    assert not list(records.files(root))


def test_what_the_system_counted_is_told_a_step_or_a_second_and_else_is_a_hole(add):
    """Two warm-up steps and three counted ones: the faults of the counted ones alone."""
    row = add(result={"evidence": {"minor_faults": 21, "seconds": 2.0, "others_cpu_s": 1.0}})
    assert (row.faults_a_step, row.disturbed, row.others_cores) == (7.0, True, 0.5)
    row = add(result={"evidence": {}})
    assert math.isnan(row.faults_a_step) and math.isnan(row.others_cores)


# Which files


def test_the_sentinel_is_kept_apart(add, root):
    add()
    add(sentinel=True, sweep="watched")
    assert list(table(root).sweep) == ["made-up"]
    sentinel = table(root, sentinel=True)
    assert list(sentinel.sweep) == ["watched"]
    assert list(sentinel["stack"]) == ["numpy"]
    assert len(list(records.files(root))) == 2


def test_one_machine_can_be_asked_for(add, root):
    add()
    add(machine="other")
    assert set(table(root).machine) == {"some-machine", "other"}
    assert set(table(root, machine="other").machine) == {"other"}


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_folder_gives_an_empty_table_with_its_columns(tmp_path, exists):
    empty = table(tmp_path if exists else tmp_path / "nowhere")
    assert len(empty) == 0
    assert {"machine", "stack", "key", "status", "sweep", "round", *MEASURED, *ALIKE} <= set(empty.columns)
