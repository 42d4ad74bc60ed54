"""The memory check before a sweep: how it grows, and what it says when it refuses."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintime import memory, paths, stacks, store
from traintime.errors import InputError
from traintime.memory import GIB, predicted_peak, refuse_beyond_memory
from traintime.point import make_point

all_stacks = st.sampled_from(list(stacks.ALL.values()))
sizes = st.integers(1, 3_000_000)


@given(all_stacks, st.sampled_from(["adam", "sgd"]), st.booleans(), sizes, st.integers(1, 2000), sizes)
def test_a_larger_table_never_needs_less(stack, optimizer, frozen, vocabulary, embedding, more):
    small = make_point(vocabulary=vocabulary, embedding=embedding, optimizer=optimizer, frozen=frozen)
    longer = small.model_copy(update={"vocabulary": vocabulary + more})
    wider = small.model_copy(update={"embedding": embedding + more})
    assert predicted_peak(small, stack) < predicted_peak(longer, stack)
    assert predicted_peak(small, stack) < predicted_peak(wider, stack)


@pytest.mark.parametrize("name", list(stacks.ALL))
def test_adam_needs_more_than_sgd_and_a_frozen_table_least(name):
    stack = stacks.get(name)
    adam, sgd, frozen = (
        predicted_peak(make_point(**how), stack) for how in ({}, {"optimizer": "sgd"}, {"frozen": True})
    )
    assert frozen <= sgd < adam


@pytest.mark.parametrize("how", [{}, {"optimizer": "sgd"}, {"frozen": True}])
def test_no_figure_is_below_what_the_optimizer_cannot_do_without(how):
    least = {"adam": 4, "sgd": 2}[how.get("optimizer", "adam")] if "frozen" not in how else 1
    table = 4 * 280_000 * 300
    for stack in stacks.ALL.values():
        assert predicted_peak(make_point(**how), stack) >= least * table


def test_a_point_that_does_not_fit_is_refused_with_need_supply_and_remedy():
    point = make_point(vocabulary=2_000_000)
    with pytest.raises(InputError) as caught:
        refuse_beyond_memory(point, stacks.get("numpy"), available=2 * GIB)
    needed = predicted_peak(point, stacks.get("numpy")) / GIB
    assert (caught.value.field, caught.value.value) == ("vocabulary", 2_000_000)
    assert f"needs about {needed:.1f} GiB on numpy and 2.0 GiB are free" in str(caught.value)
    assert "--beyond-memory" in caught.value.remedy


def test_the_last_byte_decides():
    point, stack = make_point(), stacks.get("2026-jax")
    refuse_beyond_memory(point, stack, available=predicted_peak(point, stack))
    with pytest.raises(InputError):
        refuse_beyond_memory(point, stack, available=predicted_peak(point, stack) - 1)


def test_without_a_figure_the_memory_that_is_free_now_counts(monkeypatch):
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=3 * GIB))
    refuse_beyond_memory(make_point(), stacks.get("numpy"))
    with pytest.raises(InputError, match=r"3.0 GiB are free"):
        refuse_beyond_memory(make_point(vocabulary=5_000_000), stacks.get("numpy"))


@pytest.mark.parametrize(("name", "how"), [(name, how) for name, row in memory.COPIES.items() for how in row])
def test_the_copies_agree_with_the_stored_measurements(name, how):
    peaks = {}
    for record in map(store.read, store.files(paths.MEASUREMENTS)):
        point = record.point
        if point.allocator != "glibc":
            continue  # one that keeps its memory needs up to half as much again; that is not predicted
        if record.stack == name and ("frozen" if point.frozen else point.optimizer) == how:
            done = [invocation.result.memory["peak"] for invocation in record.invocations if invocation.result]
            if done and point.vocabulary >= 280_000:
                peaks[point] = max(done)
    assert peaks, "a figure without a measurement behind it"
    for point, peak in peaks.items():
        predicted = predicted_peak(point, stacks.get(name))
        assert predicted > 0.7 * peak, point.key
        # Many tokens: some stacks free what others keep, and a prediction that refuses must not be too small.
        if point.batch * point.length <= 2500:
            assert predicted < 1.3 * peak, point.key


def test_on_a_gpu_the_card_s_memory_counts(monkeypatch):
    monkeypatch.setattr(memory.machine, "gpus", lambda: [{"name": "some card", "memory_mib": 4096, "driver": "1"}])
    stack = stacks.get("2026-torch")
    refuse_beyond_memory(make_point(vocabulary=20_000, device="gpu"), stack)
    with pytest.raises(InputError, match=r"4.0 GiB are free"):
        refuse_beyond_memory(make_point(vocabulary=2_000_000, device="gpu"), stack)


def test_more_tokens_never_need_less():
    few, many = (predicted_peak(make_point(batch=batch), stacks.get("numpy")) for batch in (100, 4096))
    assert many > few
