"""All measurement files of a folder as one tidy table."""

import math

import pytest

from traintime.point import make_point
from traintime.store import records
from traintime.store.table import ALIKE, table

SMALL = {"vocabulary": 11, "embedding": 3, "units": 4, "length": 5, "batch": 6}
POINT = make_point(**SMALL)
FIT, EPOCH = {"loop": "fit"}, {"loop": "epoch", "sentences": 1000}


@pytest.fixture
def add(tmp_path, invocation):
    """Store one invocation of the small point; return its row of the table. Keywords as for the fixture `invocation`.

    of: what differs in the point; result: what differs in the invocation's result.
    """

    def add(status="ok", sentinel=False, of=None, result=None, **changes):
        point, made = make_point(**SMALL, **of or {}), invocation(status, **changes)
        if result:
            made["result"] |= result
        path = records.file_of(tmp_path, "some-machine", "numpy", point.key, sentinel)
        records.append(path, "some-machine", "numpy", point, made)
        return table(tmp_path, sentinel=sentinel).query("key == @point.key").iloc[-1]

    return add


def test_a_row_has_the_steady_steps_in_seconds_without_warm_up(add):
    row = add()
    assert (row.machine, row.stack, row.key, row.vocabulary) == ("some-machine", "numpy", POINT.key, 11)
    assert (row.step_s, row.median_s, row.min_s, row.first_s) == pytest.approx((0.003, 0.002, 0.001, 0.05))
    assert (row.steps, row.peak_bytes, row.imported_bytes, row.parameters) == (3, 40, 10, 166)
    assert (POINT.run.threads, row.threads) == (None, 2), "those that it ran with"
    assert (row.versions, row.path, row.code) == ("numpy 2.0.0", "OpenBLAS Zen", "0123456789ab")
    assert add(code=None).code == "", "a value like another: what was measured so is pooled, and with nothing else"
    assert (row.protocol, row.fixed, row.disturbed, row.again) == ("2+3", True, False, False)
    assert set(POINT.fields) <= set(row.index)


@pytest.mark.parametrize("status", ["oom", "crashed"])
def test_a_failed_invocation_has_holes_and_not_zeros(add, status):
    failed = add(status)
    for column in ("step_s", "median_s", "min_s", "first_s", "peak_bytes", "steps"):
        assert math.isnan(failed[column]), column
    assert failed.vocabulary == 11


def fit_loops(step_ns, start_ns):
    """N batches of six sentences, 2N, and both again, as a loop that does nothing but start and step would take."""
    return [{"sentences": 6 * steps, "ns": start_ns + steps * step_ns} for steps in (30, 60, 30, 60)]


@pytest.mark.parametrize("missing", [None, 3])
def test_the_time_of_a_step_of_fit_and_of_its_start_are_taken_apart(add, missing):
    """From when the last step was done, where that was told; runs that told it of every loop are told apart."""
    loops = [loop | {"ns": 10**10, "trained_ns": loop["ns"]} for loop in fit_loops(31_234, 7_000)]
    if missing:
        loops[missing] = {"sentences": loops[missing]["sentences"], "ns": loops[missing]["trained_ns"]}
    row = add(of=FIT, result={"loops": loops})
    assert (row.fit_step_s, row.fit_start_s) == pytest.approx((31_234e-9, 7e-6))
    assert row.step_s == pytest.approx(0.003), "single steps are told beside it"
    assert bool(row.told) == (missing is None)
    assert "told" in ALIKE


@pytest.mark.parametrize("told", [False, True])
def test_the_epoch_stands_in_the_middle_and_has_no_part_in_the_lines_through_the_others(add, told):
    loops = [*fit_loops(2_000_000, 50_000_000), {"sentences": EPOCH["sentences"], "ns": 3_210_000_000}]
    loops += fit_loops(3_000_000, 10_000_000)
    if told:
        loops = [loop | {"ns": 10**10, "trained_ns": loop["ns"]} for loop in loops]
    row = add(of=EPOCH, result={"loops": loops})
    assert (row.fit_step_s, row.fit_start_s) == pytest.approx((0.002, 0.05))
    assert row.fit_mean_s == pytest.approx(0.002 + 4 * 0.05 / 180), "all the time of short loops over all their steps"
    assert (row.fit_after_s, row.fit_mean_after_s) == pytest.approx((0.003, 0.003 + 4 * 0.01 / 180))
    idle = (10, 6.79) if told else (3.21, math.nan)  # where nobody told when the last step was done
    assert (row.epoch_s, row.epoch_idle_s) == pytest.approx(idle, nan_ok=True)


def test_what_the_system_counted_is_told_a_step_or_a_second_and_else_is_a_hole(add):
    """Two warm-up steps and three counted ones: the faults of the counted ones alone."""
    row = add(result={"evidence": {"minor_faults": 21, "seconds": 2.0, "others_cpu_s": 1.0}})
    assert (row.faults_a_step, row.disturbed, row.others_cores) == (7.0, True, 0.5)
    row = add(result={"evidence": {"minor_faults": 21, "faults_steps": 7}})
    assert row.faults_a_step == 3, "older runs counted them over other steps"
    row = add(result={"evidence": {}})
    assert math.isnan(row.faults_a_step) and math.isnan(row.others_cores)


def test_the_sentinel_is_kept_apart(add, tmp_path):
    add()
    add(sentinel=True, sweep="watched")
    assert list(table(tmp_path).sweep) == ["made-up"]
    assert list(table(tmp_path, sentinel=True).sweep) == ["watched"]
    assert len(list(records.files(tmp_path))) == 2
