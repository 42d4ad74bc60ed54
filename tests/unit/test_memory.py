"""The memory check before a sweep: how it grows, and what it says when it refuses."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintime import paths
from traintime.errors import InputError
from traintime.explain.memory import (
    GIB,
    IDLE,
    LEAST_COPIES,
    READY,
    copies,
    holding,
    predicted_peak,
    refuse_beyond_memory,
)
from traintime.measuring import stacks
from traintime.point import make_point
from traintime.store import derived, records
from traintime.store.derived import Footprint
from traintime.workloads.base import BY_ROW, UPDATES

NAMES = list(stacks.ALL)
SEEN = [(stack, how) for stack in NAMES for how in derived.footprint(stack).copies]
NOTHING = Footprint({}, None)
all_stacks = st.sampled_from(NAMES)
sizes = st.integers(1, 3_000_000)


def peak(stack, **fields):
    return predicted_peak(make_point(**fields), derived.footprint(stack))


@given(all_stacks, st.sampled_from(["adam", "sgd"]), st.booleans(), sizes, st.integers(1, 2000), sizes)
def test_a_larger_table_never_needs_less(stack, optimizer, frozen, vocabulary, embedding, more):
    how = {"optimizer": optimizer, "frozen": frozen}
    small = peak(stack, vocabulary=vocabulary, embedding=embedding, **how)
    assert small < peak(stack, vocabulary=vocabulary + more, embedding=embedding, **how)
    assert small < peak(stack, vocabulary=vocabulary, embedding=embedding + more, **how)


@pytest.mark.parametrize("stack", NAMES)
def test_adam_needs_more_than_sgd_and_than_a_frozen_table(stack):
    adam, sgd, frozen = (peak(stack, **how) for how in ({}, {"optimizer": "sgd"}, {"frozen": True}))
    assert max(frozen, sgd) < adam


@pytest.mark.parametrize("how", [{}, {"optimizer": "sgd"}, {"frozen": True}])
@pytest.mark.parametrize("stack", NAMES)
def test_no_figure_is_below_what_the_optimizer_cannot_do_without(stack, how):
    least = {"adam": 4, "sgd": 2}[how.get("optimizer", "adam")] if "frozen" not in how else 1
    assert peak(stack, **how) >= least * 4 * 280_000 * 300


def test_without_a_measurement_the_least_possible_counts_and_a_gibibyte_of_the_framework():
    point = make_point()
    work = point.work
    assert copies(point, NOTHING) == LEAST_COPIES["adam"] == 4
    assert predicted_peak(point, NOTHING) == IDLE + 4 * 4 * work.parameters + work.activation_bytes
    known = Footprint({"adam": 6.5}, 1000.0)
    assert predicted_peak(point, known) == 1000 + 6.5 * 4 * work.parameters + work.activation_bytes
    assert copies(make_point(optimizer="sgd"), known) == LEAST_COPIES["sgd"], "not seen in this way"


def test_every_way_of_training_has_a_least():
    moved = [{"optimizer": name} for name in UPDATES]
    summed = [{"optimizer": name, "accumulated": 2} for name in UPDATES if name not in BY_ROW]
    assert {make_point(**fields).sizes.how for fields in moved + summed} | {"frozen"} == set(LEAST_COPIES)


def test_a_point_that_does_not_fit_is_refused_with_need_supply_and_remedy():
    point = make_point(vocabulary=2_000_000)
    with pytest.raises(InputError) as caught:
        refuse_beyond_memory(point, "numpy", NOTHING, available=2 * GIB)
    needed = predicted_peak(point, NOTHING) / GIB
    assert (caught.value.field, caught.value.value) == ("vocabulary", 2_000_000)
    assert f"needs about {needed:.1f} GiB on numpy and 2.0 GiB are free" in str(caught.value)
    assert "--beyond-memory" in caught.value.remedy


def test_what_is_named_is_the_largest_size():
    point = make_point(vocabulary=10, batch=500_000, dropout=0.9)
    with pytest.raises(InputError, match=r"^batch: 500000 needs about"):
        refuse_beyond_memory(point, "numpy", NOTHING, available=GIB)


def test_the_last_byte_decides():
    point = make_point()
    needed = predicted_peak(point, NOTHING)
    refuse_beyond_memory(point, "2026-jax", NOTHING, available=needed)
    with pytest.raises(InputError):
        refuse_beyond_memory(point, "2026-jax", NOTHING, available=needed - 1)


def test_more_tokens_never_need_less():
    assert peak("numpy", batch=4096) > peak("numpy", batch=100)


# Against what was measured


@functools.cache
def seen_peaks():
    """The highest peak of each large point under glibc on a CPU: (stack, how) -> point -> bytes."""
    peaks = {}
    for record in map(records.read, records.files(paths.MEASUREMENTS)):
        point = record.point
        large = getattr(point.sizes, "vocabulary", 0) >= derived.LARGE
        if point.run.allocator != "glibc" or point.run.device != "cpu" or not large:
            continue  # an allocator that keeps its memory needs up to half as much again; that is not predicted
        done = [invocation.result.memory["peak"] for invocation in record.invocations if invocation.result]
        if not done:
            continue  # memory ended before a peak was told
        of = peaks.setdefault((record.stack, point.sizes.how), {})
        of[point] = max([*done, of.get(point, 0)])
    return peaks


def test_every_stack_was_seen_with_adam():
    assert {stack for stack, how in SEEN if how == "adam"} == set(NAMES)


@pytest.mark.parametrize(("stack", "how"), SEEN)
def test_the_copies_agree_with_the_stored_measurements(stack, how):
    peaks = seen_peaks().get((stack, how))
    assert peaks, "a figure without a measurement behind it"
    for point, highest in peaks.items():
        predicted = predicted_peak(point, derived.footprint(stack))
        assert predicted > 0.7 * highest, point.key
        # Many tokens: some stacks free what others keep, and a prediction that refuses must not be too small.
        if point.sizes.batch * point.sizes.length <= 2500:
            assert predicted < 1.3 * highest, point.key


def test_as_many_batches_lie_ready_as_the_worker_keeps(worker_module):
    assert worker_module("samples", "dense").POOL == READY


def test_three_parts_need_four_points():
    with pytest.raises(ValueError, match="3 configurations cannot determine three parts"):
        holding([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], [1.0, 2.0, 3.0])


def test_what_is_held_is_told_apart_into_three_parts():
    parameters, activations = np.array([1e6, 1e8, 1e9, 1e8, 3e8]), np.array([1e7, 1e7, 1e7, 5e8, 1e8])
    found = holding(parameters, activations, 4e7 + 6 * parameters + 0.5 * activations)
    assert (found.runtime, found.copies, found.kept) == pytest.approx((4e7, 6, 0.5))
    assert np.abs(found.errors).max() < 1e-9
    assert np.abs(found.left_out).max() < 1e-9
    assert found.bytes(1e6, 1e7) == pytest.approx(4e7 + 6e6 + 5e6)
