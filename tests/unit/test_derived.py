"""Numbers that code needs and that were measured: how they are derived (anew by `make check`), read and written."""

import copy

import pandas as pd
import pytest

from traintime import derive, paths
from traintime.explain import memory
from traintime.measuring import stacks
from traintime.point import make_point
from traintime.store import derived, records


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


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([1] * 20, 2),  # never fewer than two
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
    assert derived.derive_warmup([record([1] * 20), record(steps), record([1] * 20)])["warmup"].item() == 2


def test_a_run_that_is_short_or_of_today_does_not_calibrate(record):
    """Those that the calibration itself has led to must not change it."""
    cold = [9] * 8 + [1] * 12
    assert derived.derive_warmup([record(cold[:19]), record(cold, code="0123456789ab")]).empty


LARGE = {"vocabulary": 280_000, "embedding": 100, "units": 1, "length": 1, "batch": 1}


def test_copies_are_what_the_peak_holds_above_the_idle_stack(record):
    """A large table of 112 MB: four of it, and ten million bytes that the framework holds before it trains."""
    work = make_point(**LARGE).work
    table = 4 * work.parameters
    small = {"imported": 10_000_000, "built": 11_000_000, "peak": 12_000_000}
    large = {"imported": 10_000_000, "built": 10_000_000 + table, "peak": 10**7 + 4 * table + work.activation_bytes}
    found = memory.derive([record(memory=small, vocabulary=1000), record(memory=large, **LARGE)])
    assert found.to_dict("records") == [{"stack": "numpy", "how": "adam", "copies": 4, "idle_bytes": 10**7, "runs": 1}]
    assert pd.api.types.is_integer_dtype(found["idle_bytes"]), "written with all its digits"


def test_small_tables_and_other_allocators_say_nothing_of_copies(record):
    others = [{"vocabulary": 279_999}, {"allocator": "tcmalloc"}, {"device": "gpu"}]
    assert memory.derive([record(**fields) for fields in others]).empty


def test_every_stack_is_calibrated():
    assert set(derived.read("warm-up")["stack"]) == set(stacks.ALL)


@pytest.fixture
def tables(tmp_path, monkeypatch):
    (tmp_path / "warm-up.csv").write_text("stack,warmup,runs\nnumpy,2,9\n2026-torch,8,9\n")
    (tmp_path / "memory.csv").write_text("stack,how,copies,idle_bytes,runs\nnumpy,adam,5.9,100,1\nnumpy,sgd,,90,1\n")
    monkeypatch.setattr(paths, "DERIVED", tmp_path)
    derived.read.cache_clear()
    yield tmp_path
    derived.read.cache_clear()


def test_a_stack_that_was_never_calibrated_warms_up_the_longest(tables):
    assert [derived.warmup(stack) for stack in ("numpy", "2026-torch", "2031-something")] == [2, 8, 8]


def test_what_a_stack_was_seen_to_hold_is_known_and_no_more(tables):
    assert (memory.copies("numpy"), memory.idle_bytes("numpy")) == ({"adam": 5.9}, 100.0)
    assert (memory.copies("2026-jax"), memory.idle_bytes("2026-jax")) == ({}, memory.IDLE)


def test_a_table_is_written_and_read_anew_and_another_processor_s_rounding_is_left_alone(tables, monkeypatch):
    table = pd.DataFrame({"stack": ["numpy"], "cost": [0.0342714499]})
    monkeypatch.setattr(derive, "TABLES", {"costs": lambda: table})
    derive.main("costs")
    table["cost"] *= 1 + 1e-7
    derive.main("costs")
    assert (tables / "costs.csv").read_text() == "stack,cost\nnumpy,0.0342714\n"
    assert derived.read("costs", "stack").loc["numpy", "cost"] == 0.0342714
    table["cost"] *= 1.001
    derive.main("costs")
    assert (tables / "costs.csv").read_text() == "stack,cost\nnumpy,0.0343057\n"
    assert derived.read("costs", "stack").loc["numpy", "cost"] == 0.0343057
    derived.write("costs", pd.concat([table, table]))
    assert len((tables / "costs.csv").read_text().splitlines()) == 3
