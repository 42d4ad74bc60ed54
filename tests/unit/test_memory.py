"""Memory: the check before a sweep, what it says when it refuses, and the memory model of each stack."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from traintime import paths
from traintime.errors import InputError
from traintime.explain import memory
from traintime.explain.memory import GIB, IDLE, LARGE, LEAST_COPIES, memory_model, predicted_peak, refuse_beyond_memory
from traintime.measuring import stacks
from traintime.point import make_point
from traintime.store import records
from traintime.workloads.base import BY_ROW, UPDATES

NAMES = list(stacks.ALL)
SEEN = [(stack, how) for stack in NAMES for how in memory.copies(stack)]
NOBODY = "2031-jax"  # a stack that was never measured


def peak(stack, **fields):
    return predicted_peak(make_point(**fields), stack)


@pytest.mark.parametrize("stack", NAMES)
def test_adam_needs_more_than_sgd_and_than_a_frozen_table_and_no_way_less_than_it_must(stack):
    adam, sgd, frozen = (peak(stack, **how) for how in ({}, {"optimizer": "sgd"}, {"frozen": True}))
    assert max(frozen, sgd) < adam
    for needed, least in ((adam, 4), (sgd, 2), (frozen, 1)):
        assert needed >= least * 4 * 280_000 * 300


def test_without_a_measurement_the_least_possible_counts_and_a_gibibyte_of_the_framework(monkeypatch):
    point = make_point()
    work = point.work
    assert predicted_peak(point, NOBODY) == IDLE + 4 * 4 * work.parameters + work.activation_bytes
    monkeypatch.setattr(memory, "copies", lambda stack: {"adam": 6.5})
    assert predicted_peak(point, NOBODY) == IDLE + 6.5 * 4 * work.parameters + work.activation_bytes
    sgd = make_point(optimizer="sgd")
    assert predicted_peak(sgd, NOBODY) == IDLE + 2 * 4 * work.parameters + work.activation_bytes, "not seen in this way"


def test_every_way_of_training_has_a_least():
    moved = [{"optimizer": name} for name in UPDATES]
    summed = [{"optimizer": name, "accumulated": 2} for name in UPDATES if name not in BY_ROW]
    assert {make_point(**fields).sizes.how for fields in moved + summed} | {"frozen"} == set(LEAST_COPIES)


def test_a_point_that_does_not_fit_is_refused_with_need_supply_and_remedy_and_the_last_byte_decides():
    point = make_point(vocabulary=2_000_000)
    needed = predicted_peak(point, NOBODY)
    refuse_beyond_memory(point, NOBODY, available=needed)
    with pytest.raises(InputError) as caught:
        refuse_beyond_memory(point, NOBODY, available=needed - 1)
    assert (caught.value.field, caught.value.value) == ("vocabulary", 2_000_000)
    gib = f"{needed / GIB:.1f} GiB"
    assert f"needs about {gib} on {NOBODY} and {gib} are free" in str(caught.value)
    assert "--beyond-memory" in caught.value.remedy


def test_what_is_named_is_the_largest_size():
    point = make_point(vocabulary=10, batch=500_000, dropout=0.9)
    with pytest.raises(InputError, match=r"^batch: 500000 needs about"):
        refuse_beyond_memory(point, "numpy", available=GIB)


@functools.cache
def seen_peaks():
    """The highest peak of each large point under glibc on a CPU: (stack, how) -> point -> bytes."""
    peaks, found = {}, []
    for record in map(records.read, records.files(paths.MEASUREMENTS)):
        point = record.point
        if point.run.allocator != "glibc" or point.run.device != "cpu" or getattr(point.sizes, "vocabulary", 0) < LARGE:
            continue  # an allocator that keeps its memory needs up to half as much again; that is not predicted
        for one in (each for each in record.invocations if each.result):  # else memory ended before a peak was told
            found.append((one.started, record.stack, point.sizes.how, one.code, point, one.result.memory["peak"]))
    newest = {(stack, how): code for _, stack, how, code, *_ in sorted(found, key=lambda each: each[0])}
    for _, stack, how, code, point, peak in found:
        if code == newest[stack, how]:
            of = peaks.setdefault((stack, how), {})
            of[point] = max(peak, of.get(point, 0))
    return peaks


@pytest.mark.parametrize(("stack", "how"), SEEN)
def test_the_copies_agree_with_the_stored_measurements(stack, how):
    peaks = seen_peaks().get((stack, how))
    assert peaks, "a figure without a measurement behind it"
    for point, highest in peaks.items():
        predicted = predicted_peak(point, stack)
        assert predicted > 0.7 * highest, point.key
        # Many tokens: some stacks free what others keep, and a prediction that refuses must not be too small.
        if point.sizes.batch * point.sizes.length <= 2500:
            assert predicted < 1.3 * highest, point.key


def test_as_many_batches_lie_ready_as_the_worker_keeps(worker_module):
    assert worker_module("samples", "dense").POOL == memory.READY


def test_memory_grows_with_what_an_optimizer_keeps(monkeypatch):
    held = memory_model("2026-tensorflow")
    work = make_point(vocabulary=500_000).work
    frozen, deferred, adam = (held.peak_bytes(work, how) for how in ("frozen", "adam-deferred", "adam"))
    assert frozen <= deferred < adam
    assert held.peak_bytes(work) - held.beyond_idle(work) == pytest.approx(held.idle)
    seen = memory.copies(held.stack)
    between = seen["adam"] - seen["momentum"]
    assert between > 1, "temporaries, beside the slot"
    assert held.copies_of("adam") - held.copies_of("momentum") == pytest.approx(between)
    monkeypatch.setattr(memory, "copies", lambda stack: {"adam": seen["adam"]})
    assert held.copies_of("adam") - held.copies_of("momentum") == pytest.approx(1), "the least, where nobody measured"


def test_recurrent_positions_have_a_cost_of_their_own_in_memory():
    held = replace(memory_model("2026-jax"), kept=2.0, recurrent=5.0)
    work = replace(make_point().work, activation_bytes=1000, recurrent_bytes=600)
    nothing = replace(work, activation_bytes=0, recurrent_bytes=0)
    assert held.beyond_idle(work) - held.beyond_idle(nothing) == pytest.approx(2 * 400 + 5 * 600)


def test_what_is_held_is_told_apart_into_its_parts_and_each_point_by_the_others_alone():
    parameters, activations = np.array([1e6, 1e8, 1e9, 1e8, 3e8]), np.array([1e7, 1e7, 1e7, 5e8, 1e8])
    design = np.column_stack([np.ones(5), parameters, activations])
    held = 4e7 + 6 * parameters + 0.5 * activations
    parts, by_others = memory.told_apart(design, held, held)
    assert parts == pytest.approx([4e7, 6, 0.5])
    assert by_others == pytest.approx(held)
    more = held * [1, 1, 1, 1, 2]
    assert memory.told_apart(design, more, more)[1][4] == pytest.approx(held[4]), "its own has no part in it"


def test_every_stack_was_seen_with_adam_and_another_has_no_memory_model():
    assert {stack for stack, how in SEEN if how == "adam"} == set(NAMES)
    with pytest.raises(InputError, match=f"stack: '{NOBODY}'"):
        memory_model(NOBODY)
