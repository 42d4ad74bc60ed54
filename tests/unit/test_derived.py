"""Numbers that code needs and that were measured: what data/derived holds is what data/measurements give."""

import copy

import numpy as np
import pandas as pd
import pytest

from traintime import paths
from traintime.measuring import stacks
from traintime.point import make_point
from traintime.store import derived, records


@pytest.fixture(scope="module")
def anew():
    return derived.derived()


@pytest.fixture
def record(invocation):
    """A record of one good invocation with these step times (ms) and this memory; keywords are the point's fields."""

    def build(steps=(1,) * 20, stack="numpy", code=None, memory=None, **fields):
        point = make_point(**fields)
        made = copy.deepcopy(invocation(code=code))
        made["result"]["timing"] |= {"steps_ns": [round(step * 1e6) for step in steps]}
        made["result"]["memory"] |= memory or {}
        raw = {"machine": "m", "stack": stack, "key": point.key, "point": point, "invocations": [made]}
        return records.Record.model_validate(raw)

    return build


# What is committed


def test_the_warm_up_is_what_the_measurements_give(anew):
    """Exactly: it is part of the protocol, and measurements of a later date do not enter it."""
    stored = pd.read_csv(paths.DERIVED / "warm-up.csv")
    pd.testing.assert_frame_equal(stored, anew["warm-up"], check_dtype=False)


def test_every_stack_is_calibrated():
    assert set(pd.read_csv(paths.DERIVED / "warm-up.csv")["stack"]) == set(stacks.ALL)


def test_the_copies_are_near_what_the_measurements_give(anew):
    """They drift as measurements come in: test_memory holds them against the stored peaks."""
    name = ["stack", "how"]
    stored = pd.read_csv(paths.DERIVED / "memory.csv").set_index(name)
    now = anew["memory"].set_index(name)
    assert set(stored.index) <= set(now.index)
    now = now.loc[stored.index]
    np.testing.assert_allclose(stored["copies"], now["copies"], rtol=0.1)
    np.testing.assert_allclose(stored["idle_bytes"], now["idle_bytes"], rtol=0.25)


# How they are derived


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([1] * 20, 2),  # never fewer than two
        ([9, 1] + [1] * 18, 2),
        ([9, 9, 9] + [1] * 17, 3),
        ([9, 1, 1, 1, 9] + [1] * 15, 5),  # the last one that is slow decides
        ([1.04] * 9 + [1] * 11, 2),
        ([1.06] * 9 + [1] * 11, 9),
        ([1] * 18 + [50, 50], 2),  # slow ones at the end are no warm-up
    ],
)
def test_a_stack_is_warm_when_the_median_step_is_near_the_later_ones(record, steps, expected):
    found = derived.derive_warmup([record(steps)])
    assert found.to_dict("records") == [{"stack": "numpy", "warmup": expected, "runs": 1}]


def test_one_slow_run_of_three_makes_no_warm_up(record):
    slow, quick = [9] * 8 + [1] * 12, [1] * 20
    assert derived.derive_warmup([record(quick), record(slow), record(quick)])["warmup"].item() == 2
    assert derived.derive_warmup([record(slow), record(slow), record(quick)])["warmup"].item() == 8


def test_a_run_that_is_short_or_of_today_does_not_calibrate(record):
    """Those that the calibration itself has led to must not change it."""
    cold = [9] * 8 + [1] * 12
    assert derived.derive_warmup([record(cold[:19])]).empty
    assert derived.derive_warmup([record(cold, code="0123456789ab")]).empty


LARGE = {"vocabulary": 280_000, "embedding": 100, "units": 1, "length": 1, "batch": 1}


def test_copies_are_what_the_peak_holds_above_the_idle_stack(record):
    """A large table of 112 MB: four of it, and ten million bytes that the framework holds before it trains."""
    work = make_point(**LARGE).work
    table = 4 * work.parameters
    small = {"imported": 10_000_000, "built": 11_000_000, "peak": 12_000_000}
    large = {"imported": 10_000_000, "built": 10_000_000 + table, "peak": 10**7 + 4 * table + work.activation_bytes}
    found = derived.derive_memory([record(memory=small, vocabulary=1000), record(memory=large, **LARGE)])
    assert found["copies"].item() == pytest.approx(4)
    assert (found["how"].item(), found["idle_bytes"].item(), found["runs"].item()) == ("adam", 10_000_000, 1)


def test_small_tables_and_other_allocators_say_nothing_of_copies(record):
    others = [{"vocabulary": 279_999}, {"allocator": "tcmalloc"}, {"device": "gpu"}]
    assert derived.derive_memory([record(**fields) for fields in others]).empty


# How they are read


@pytest.fixture
def tables(tmp_path, monkeypatch):
    (tmp_path / "warm-up.csv").write_text("stack,warmup,runs\nnumpy,2,9\n2026-torch,8,9\n")
    (tmp_path / "memory.csv").write_text("stack,how,copies,idle_bytes,runs\nnumpy,adam,5.9,100,1\nnumpy,sgd,,90,1\n")
    monkeypatch.setattr(paths, "DERIVED", tmp_path)
    derived._csv.cache_clear()
    yield
    derived._csv.cache_clear()


def test_a_stack_that_was_never_calibrated_warms_up_the_longest(tables):
    assert [derived.warmup(stack) for stack in ("numpy", "2026-torch", "2031-something")] == [2, 8, 8]


def test_a_footprint_is_what_was_seen_and_no_more(tables):
    assert derived.footprint("numpy") == derived.Footprint({"adam": 5.9}, 100.0)
    assert derived.footprint("2026-jax") == derived.Footprint({}, None)


def test_the_files_are_written_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "DERIVED", tmp_path / "derived")
    tables = {name: pd.DataFrame({"stack": ["numpy"], "warmup": [2]}) for name in ("warm-up", "memory")}
    monkeypatch.setattr(derived, "derived", lambda: tables)
    derived.main()
    assert sorted(path.name for path in (tmp_path / "derived").iterdir()) == ["memory.csv", "warm-up.csv"]
    assert (tmp_path / "derived" / "warm-up.csv").read_text() == "stack,warmup\nnumpy,2\n"


def test_a_file_that_another_processor_rounds_otherwise_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "DERIVED", tmp_path)
    table = pd.DataFrame({"stack": ["numpy"], "cost": [0.0342714499]})
    derived.write("costs", table)
    derived.write("costs", table.assign(cost=table["cost"] * (1 + 1e-7)))
    assert (tmp_path / "costs.csv").read_text() == "stack,cost\nnumpy,0.0342714\n"
    derived.write("costs", table.assign(cost=table["cost"] * 1.001))
    assert (tmp_path / "costs.csv").read_text() == "stack,cost\nnumpy,0.0343057\n"
    derived.write("costs", pd.concat([table, table]))
    assert len((tmp_path / "costs.csv").read_text().splitlines()) == 3
