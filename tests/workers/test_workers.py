"""Every stack does the same work, and says truly what it is.

Most points of a stack share a process, as those of a quick look do: a framework is loaded once a workload. Where the
process itself is what is tested, it is one of its own.
"""

import contextlib
import functools

import psutil
import pytest

from traintime import workloads
from traintime.errors import InputError
from traintime.measuring import machine, measure, operations, stacks
from traintime.measuring.protocol import Protocol
from traintime.point import make_point
from traintime.store import records

# Sixty tokens of twenty words: each stands in a batch about three times.
REPEATED = {"vocabulary": 20}
QUICK = Protocol(warmup=1, steps=5, timeout_s=840)
CHECK = Protocol(warmup=0, steps=1, timeout_s=840)
STACKS = list(stacks.ALL)
# Theano compiles each new graph for minutes: one optimizer is enough there.
FAST = [name for name, stack in stacks.ALL.items() if stack.backend != "theano"]
KERAS3 = [name for name, stack in stacks.ALL.items() if stack.api == "keras3"]
TODAY = [*KERAS3, "numpy"]


def small(workload, **fields):
    """The workload's small point, with these fields."""
    return make_point(workload, **workloads.get(workload).small | fields)


def can_run(workload, stack, **fields):
    """Whether the stack has a way to run the workload's small point."""
    try:
        stacks.refuse_impossible(small(workload, **fields), stacks.get(stack))
    except InputError:
        return False
    return True


def each(rows, push=(), names="workload,stack"):
    """Parameters of a test; `make test` runs those of the stacks in `push`, the others have their turn."""
    marked = [pytest.param(*row, marks=() if row[1] in push else pytest.mark.rest) for row in rows]
    return pytest.mark.parametrize(names, marked)


def on(workload, names, **fields):
    """Parameters of a test of one workload on those of these stacks that can run it."""
    return each([(workload, name) for name in names if can_run(workload, name, **fields)])


PAIRS = [(workload, name) for workload in workloads.ALL for name in STACKS if can_run(workload, name)]
# One configuration a workload on today's stacks at every push.
on_all = each(PAIRS, TODAY)


@pytest.fixture(scope="module")
def together():
    """Measures points in processes that they share, and returns the record of one that ended well.

    Three processes wait: the stack's, that of JAX, to which some are held, and one that is set up otherwise.
    """
    waiting = {}  # kind of process -> the one that waits, and what ends it; the last one used is the last

    def run(point, stack, protocol=QUICK, **task):
        kind = measure.process_of(point, stacks.get(stack))
        if kind not in waiting:
            ending = contextlib.ExitStack()
            waiting[kind] = ending.enter_context(measure.Together()), ending
        waiting[kind] = waiting.pop(kind)
        while len(waiting) > 3:
            waiting.pop(next(iter(waiting)))[1].close()
        record = waiting[kind][0].measure(point, stacks.get(stack), protocol, **task)
        assert record["status"] == "ok", record["error"]
        return record

    yield run
    for _, ending in waiting.values():
        ending.close()


@pytest.fixture(scope="module")
def losses(together):
    """Losses and facts of a stack on a small point from the shared starting weights, each run once."""

    @functools.cache
    def run(stack, workload, **changes):
        result = together(small(workload, **changes), stack, CHECK, task="check", steps=5)["result"]
        return result["losses"], result["facts"]

    return run


@pytest.fixture(scope="module")
def measured(together):
    """The record of a stack's single steps, `fit` and an epoch, each run once."""
    return functools.cache(lambda workload, stack: together(small(workload, loop="epoch", sentences=60), stack))


def reference(workload, **fields):
    """The stack whose losses the others are held to: NumPy, where every operation can be read, or else JAX."""
    return "numpy" if can_run(workload, "numpy", **fields) else "2026-jax"


# The same work


@each([pair for pair in PAIRS if pair[1] != "numpy"], TODAY)  # NumPy's worker ends with its job: nothing waits
def test_a_worker_is_on_no_network(workload, stack, measured):
    """The old stacks have known faults in what listens: what has measured and waits has no socket open."""
    measured(workload, stack)
    workers = psutil.Process().children(recursive=True)
    assert workers
    assert [one.net_connections("inet") for one in workers] == [[]] * len(workers)


@on_all
def test_the_loss_from_the_same_weights_is_the_same_and_five_steps_of_adam_go_the_same_way(workload, stack, losses):
    """Keras 2.3.1 on TensorFlow may read Adam's step counter after it was raised: hence not 1e-4 of later losses."""
    mine, facts = losses(stack, workload)
    theirs, _ = losses(reference(workload), workload)
    assert mine[0] == pytest.approx(theirs[0], rel=1e-4)
    assert mine == pytest.approx(theirs, rel=1e-3)
    assert facts["parameters"] == small(workload).work.parameters


# Keras 3.15 on TensorFlow adds a repeated token's second moments as squares of its parts, not as the square of their
# sum: known there, and hardly seen in five losses.
APART = {"2026-jax": 1e-4, "2026-torch": 1e-4, "2026-tensorflow": 1e-3, "2020-tensorflow": 1e-3}


# With SGD where it is no optimizer that is tried: Adam divides small gradients by their size, and so makes rounding
# large.
SGD = {"optimizer": "sgd"}
DEEP = SGD | {"layers": 5}  # computed again: two parts of three and two layers
# A workload's fields; which of them differ in what it is held to; the stacks; and how far losses may be apart.
ALIKE = [
    # Words that stand in a batch more than once.
    *[("rnn", REPEATED, {}, [stack], apart) for stack, apart in APART.items()],
    # A table that trains its own rows is Adam as published, on TensorFlow where Keras' own embedding is not.
    ("rnn", REPEATED | {"optimizer": "adam-deferred"}, {"optimizer": "adam"}, KERAS3, 1e-5),
    # What Keras 3 alone has: a row of two numbers, widened to sixteen; an update every second step.
    *[("rnn", fields, {}, KERAS3, 1e-3) for fields in ({"factor": 2}, {"accumulated": 2})],
    *[(workload, SGD, {}, FAST, 1e-4) for workload in workloads.ALL],
    *[("rnn", {"optimizer": optimizer}, {}, FAST, 1e-4) for optimizer in ("momentum", "rmsprop")],
    ("dense", {"optimizer": "momentum"}, {}, FAST, 1e-4),
    # Every algorithm of an LSTM is the same mathematics.
    *[
        ("lstm", SGD | {"algorithm": algorithm}, {"algorithm": "default"}, FAST, 1e-4)
        for algorithm in ("per-gate", "combined", "unrolled", "cell", "apart", "native")
    ],
    *[
        ("blocks", {"structure": structure}, {}, KERAS3, 1e-3)
        for structure in ("plain", "residual", "dense", "aggregated")
    ],
    ("blocks", SGD | {"structure": "plain", "shared": True}, {}, KERAS3, 1e-4),
    ("dense", DEEP | {"recompute": True}, {"recompute": False}, KERAS3, 1e-4),
]


@each(
    [
        (workload, stack, fields, fields | other, apart)
        for workload, fields, other, names, apart in ALIKE
        for stack in names
        if can_run(workload, stack, **fields)
    ],
    names="workload,stack,fields,usual,apart",
)
def test_what_is_the_same_training_gives_the_same_losses(workload, stack, fields, usual, apart, losses):
    mine, facts = losses(stack, workload, **fields)
    theirs, _ = losses(reference(workload, **usual), workload, **usual)
    assert mine == pytest.approx(theirs, rel=apart)
    assert facts["parameters"] == small(workload, **fields).work.parameters


@on("rnn", ["2026-jax"])
def test_gradients_that_are_added_up_wait_for_their_update(workload, stack, losses):
    """The losses up to the first step's are what they are without; the next, of weights as they were, is not."""
    once, twice = losses(stack, workload)[0], losses(stack, workload, accumulated=2)[0]
    assert twice[:2] == pytest.approx(once[:2], rel=1e-6)
    assert abs(twice[2] / once[2] - 1) > 1e-5


@on("dense", KERAS3)
def test_lower_precision_is_asked_for_told_and_not_far_off(workload, stack, losses):
    """In one process with float32 before and after: what is asked for does not outlast its training."""
    mine, facts = losses(stack, workload, precision="mixed-bfloat16")
    usual, as_usual = losses(stack, workload)
    assert (facts["precision"], as_usual["precision"]) == ("mixed-bfloat16", "float32")
    assert mine == pytest.approx(usual, rel=0.05)
    assert mine != usual
    deep = {"layers": 3}
    after, afterwards = losses(stack, workload, **deep)
    assert afterwards["precision"] == "float32"
    assert after == pytest.approx(losses("numpy", workload, **deep)[0], rel=1e-3)


@on("dense", ["2026-jax"])
def test_what_is_computed_again_need_not_be_kept(workload, stack):
    """Thirty-two layers hand on 32 MiB; XLA on a CPU would undo it, and the peak would be the same."""
    fields = {"inputs": 16, "hidden": 128, "layers": 32, "batch": 2048}
    of_both = [
        measure.measure(make_point(workload, **fields, recompute=recompute), stacks.get(stack), QUICK)
        for recompute in (False, True)
    ]
    usual, again = (record["result"]["memory"] for record in of_both)
    assert again["peak"] - again["built"] < usual["peak"] - usual["built"] - 8 * 2**20


@each(
    [("dense", "2026-tensorflow", "on"), ("dense", "2026-tensorflow", "off"), ("dense", "2026-jax", "off")],
    names="workload,stack,jit",
)
def test_compiling_the_step_is_asked_for_and_told(workload, stack, jit, losses):
    mine, facts = losses(stack, workload, jit=jit, optimizer="sgd")
    assert facts["path"]["jit"] == (jit == "on")
    assert mine == pytest.approx(losses("numpy", workload, optimizer="sgd")[0], rel=1e-4)


@each([("rnn", "2026-torch"), ("blocks", "2026-torch")])
def test_processes_that_share_a_batch_train_as_one_does(workload, stack, losses):
    alone, _ = losses(stack, workload, batch=10, optimizer="sgd")
    shared, facts = losses(stack, workload, batch=10, optimizer="sgd", replicas=2)
    assert shared == pytest.approx(alone, rel=1e-5)
    assert facts["threads"] == {"torch": measure.default_threads()}


FEEDS = [kind + way for kind in ("decoded", "fetched") for way in ("", "-ahead", "-parallel")]


@on("blocks", ["2026-tensorflow"])
@pytest.mark.parametrize("feed", FEEDS)
def test_batches_can_be_made_while_the_training_runs(feed, workload, stack, together):
    record = together(small(workload, feed=feed), stack)
    waited = record["result"]["evidence"]["waited_s"]
    assert waited > 0
    if feed == "fetched":  # each of ten samples waits 2 ms, one after the other
        assert waited > QUICK.steps * 10 * 0.002


@on("rnn", KERAS3)
@pytest.mark.parametrize("aside", [False, True])
def test_a_training_can_be_saved_while_it_runs(workload, stack, aside, together):
    """How a save is written, aside or not, is the same code everywhere: test_worker_saving."""
    together(small(workload, save_every=2, save_aside=aside), stack)


@on("rnn", ["2026-tensorflow", "2026-jax"])
def test_several_steps_at_once_are_handed_to_fit_alone(workload, stack, together):
    record = together(small(workload, loop="fit", steps_per_execution=2), stack)
    assert len(record["result"]["loops"]) == 4


@on("rnn", [name for name in FAST if name != "numpy"])
def test_a_mask_skips_padding_and_does_so_alike(workload, stack, losses):
    masked, _ = losses(stack, workload, words=2, mask=True)
    assert masked[0] == pytest.approx(losses("2026-jax", workload, words=2, mask=True)[0][0], rel=1e-4)
    assert masked[0] != pytest.approx(losses(stack, workload, words=2)[0][0], rel=1e-6)


# What is measured


@on_all
def test_fit_and_an_epoch_are_timed_beside_single_steps(workload, stack, measured):
    loops = measured(workload, stack)["result"]["loops"]
    assert [loop["sentences"] for loop in loops] == [50, 100, 50, 100, 60, 50, 100, 50, 100]
    assert all(loop["ns"] >= loop["trained_ns"] > 0 for loop in loops)


def assert_times_memory_and_facts(record, workload, stack, threads):
    """A record of five counted steps is whole, of today's schema, and says what was asked for."""
    result, facts = record["result"], record["result"]["facts"]
    assert len(result["timing"]["steps_ns"]) == 1 + 5
    assert min(result["timing"]["steps_ns"]) > 0
    memory = result["memory"]
    assert 0 < memory["imported"] <= memory["built"] <= memory["first_step"] <= memory["peak"]
    assert facts["cpus"] == threads
    assert (facts["backend"], facts["device"], facts["precision"]) == (stacks.get(stack).backend, "cpu", "float32")
    assert all(count in (None, threads) for count in facts["threads"].values())
    assert set(facts["versions"]) == set(stacks.get(stack).packages)
    assert facts["parameters"] == small(workload).work.parameters
    made = records.Invocation.model_validate(record | {"sweep": "s", "round": 1, "seed": 1})
    assert made.protocol.fixed
    assert made.protocol.text == "1+5"
    evidence = made.result.evidence
    steps = sum(made.result.timing.steps_ns[1:]) / 1e9
    assert steps <= evidence.seconds < steps + 1, "of the counted steps alone"
    assert evidence.minor_faults >= 0
    assert made.result.facts.path.allocator == "glibc"


@on_all
def test_a_measured_point_has_times_memory_and_the_facts_asked_for(workload, stack, measured):
    assert_times_memory_and_facts(measured(workload, stack), workload, stack, measure.default_threads())


@on("dense", STACKS)
def test_a_process_of_its_own_with_one_thread_has_them_too(workload, stack):
    record = measure.measure(small(workload, threads=1), stacks.get(stack), QUICK)
    assert record["status"] == "ok", record["error"]
    assert "shared" not in record
    assert_times_memory_and_facts(record, workload, stack, 1)


# Which code path


@on("rnn", ["2026-tensorflow"])
def test_onednn_off_is_honoured(workload, stack, losses):
    _, facts = losses(stack, workload, onednn="off")
    assert facts["path"]["onednn"] is False
    _, usual = losses(stack, workload)
    assert usual["path"]["onednn"] in (True, False), "what TensorFlow chose by itself is told"


# What goes wrong


def test_memory_that_runs_out_is_a_status_and_not_a_crash():
    """Two billion rows: the allocation is refused at once, and only the worker is gone."""
    record = measure.measure(make_point(vocabulary=2_000_000_000), stacks.get("numpy"), QUICK)
    assert record["status"] == "oom", record


@pytest.mark.skipif(bool(machine.gpus()), reason="there is a GPU")
@on("rnn", ["2026-jax"])
def test_a_gpu_that_is_not_there_is_an_error_and_no_number(workload, stack):
    record = measure.measure(small(workload, device="gpu"), stacks.get(stack), QUICK)
    assert record["status"] == "crashed"
    assert "device is 'cpu', asked for 'gpu'" in record["error"]


@on("lstm", operations.STACKS)
def test_a_loop_asks_for_operations_at_each_position_and_one_operation_does_not(workload, stack):
    """Counted by the stack's own profiler; the numbers stand in data/derived/operations.csv."""
    has_native = stack in ("2017-tensorflow", "2020-tensorflow", "2026-torch")
    sizes = [{"length": length} for length in (3, 4, 5)]
    sizes += [{"length": length, "algorithm": "native"} for length in (3, 5) if has_native]
    counts = operations.counts(stack, [make_point(workload, batch=2, units=4, **each) for each in sizes])
    assert counts[1] - counts[0] == counts[2] - counts[1] > 10
    if has_native:
        assert counts[3] == counts[4]


def test_a_stack_without_a_profiler_is_refused():
    with pytest.raises(InputError, match="stack: 'numpy' has no profiler that counts the operations of a step"):
        operations.counts("numpy", [])
