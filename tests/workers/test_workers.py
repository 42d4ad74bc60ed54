"""Every stack does the same work, and says truly what it is."""

import os

import pytest

from traintime import counts, measure, stacks
from traintime.point import make_point

pytestmark = pytest.mark.worker
SMALL = {"vocabulary": 200, "embedding": 16, "units": 8, "length": 6, "batch": 10, "dropout": 0.0}
PRESENT = [stack for stack in stacks.ALL.values() if stack.present]
QUICK = measure.Protocol(warmup=1, steps=5, seconds=0, limit_s=5, timeout_s=840)
# Theano compiles each new graph for minutes: one optimizer is enough there.
FAST = [stack.name for stack in PRESENT if stack.backend != "theano"]


@pytest.fixture(scope="module")
def losses():
    """Losses and facts of a stack on the small point from the shared starting weights, each run once."""
    known = {}

    def run(stack, optimizer, **how):
        name = (stack, optimizer, *how.items())
        if name not in known:
            point = make_point(**SMALL, optimizer=optimizer, **how)
            protocol = measure.Protocol(timeout_s=840)
            record = measure.measure(point, stacks.get(stack), protocol, task="check", steps=5)
            assert record["status"] == "ok", record["error"]
            known[name] = record["result"]["losses"], record["result"]["facts"]
        return known[name]

    return run


def test_every_stack_that_this_machine_can_have_is_here():
    """Elsewhere a missing stack is a missing row; where all were asked for, it is an error."""
    absent = [stack.name for stack in stacks.ALL.values() if not stack.present and stacks.can_have(stack)]
    if os.environ.get("TRAINTIME_ALL_STACKS"):
        assert absent == []
    assert {"2026-tensorflow", "2026-jax", "numpy"} <= {stack.name for stack in PRESENT}


@pytest.mark.parametrize("stack", [stack.name for stack in PRESENT])
def test_the_loss_from_the_same_weights_is_the_same(stack, losses):
    mine, facts = losses(stack, "adam")
    reference, _ = losses("numpy", "adam")
    assert mine[0] == pytest.approx(reference[0], rel=1e-4)
    assert facts["parameters"] == counts.parameters(make_point(**SMALL))


@pytest.mark.parametrize("stack", [stack.name for stack in PRESENT])
def test_five_steps_of_adam_go_the_same_way(stack, losses):
    """Keras 2.3.1 on TensorFlow may read Adam's step counter after it was raised: hence not 1e-4 here."""
    mine, _ = losses(stack, "adam")
    assert mine == pytest.approx(losses("numpy", "adam")[0], rel=1e-3)


@pytest.mark.parametrize("stack", FAST)
def test_five_steps_of_sgd_give_the_same_losses(stack, losses):
    assert losses(stack, "sgd")[0] == pytest.approx(losses("numpy", "sgd")[0], rel=1e-4)


@pytest.mark.parametrize("stack", [name for name in FAST if name != "numpy"])
def test_a_mask_skips_padding_and_does_so_alike(stack, losses):
    masked, _ = losses(stack, "adam", words=2, mask=True)
    assert masked[0] == pytest.approx(losses("2026-tensorflow", "adam", words=2, mask=True)[0][0], rel=1e-4)
    assert masked[0] != pytest.approx(losses(stack, "adam", words=2)[0][0], rel=1e-6)


@pytest.mark.parametrize("stack", PRESENT, ids=lambda stack: stack.name)
def test_fit_and_an_epoch_are_timed_beside_single_steps(stack):
    record = measure.measure(make_point(**SMALL, loop="epoch", sentences=60), stack, QUICK)
    assert record["status"] == "ok", record["error"]
    loops = record["result"]["loops"]
    assert [loop["sentences"] for loop in loops] == [50, 100, 50, 100, 60, 50, 100, 50, 100]
    assert all(loop["ns"] >= loop["trained_ns"] > 0 for loop in loops)


@pytest.mark.parametrize("stack", PRESENT, ids=lambda stack: stack.name)
def test_a_measured_point_has_times_memory_and_the_facts_asked_for(stack):
    record = measure.measure(make_point(**SMALL), stack, QUICK, threads=1)
    assert record["status"] == "ok", record["error"]
    result = record["result"]
    assert len(result["timing"]["steps_ns"]) == 6
    assert min(result["timing"]["steps_ns"]) > 0
    memory = result["memory"]
    assert 0 < memory["imported"] <= memory["built"] <= memory["first_step"] <= memory["peak"]
    facts = result["facts"]
    assert facts["cpus"] == 1
    assert (facts["backend"], facts["device"], facts["precision"]) == (stack.backend, "cpu", "float32")
    assert all(count in (None, 1) for count in facts["threads"].values())
    assert set(facts["versions"]) == set(stack.packages)


def test_memory_that_runs_out_is_a_status_and_not_a_crash():
    """Two billion rows: the allocation is refused at once, and only the worker is gone."""
    record = measure.measure(make_point(vocabulary=2_000_000_000), stacks.get("numpy"), QUICK)
    assert record["status"] == "oom", record


def test_a_worker_that_takes_too_long_is_ended():
    slow = measure.Protocol(steps=10**9, limit_s=10**6, timeout_s=3)
    record = measure.measure(make_point(**SMALL), stacks.get("numpy"), slow)
    assert record["status"] == "timeout"


def test_a_gpu_that_is_not_there_is_an_error_and_no_number():
    record = measure.measure(make_point(**SMALL, device="gpu"), stacks.get("numpy"), QUICK)
    assert record["status"] == "crashed"
    assert "device is 'cpu', asked for 'gpu'" in record["error"]
