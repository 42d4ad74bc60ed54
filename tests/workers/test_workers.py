"""Every stack does the same work, and says truly what it is.

Most points of a stack share a process: a framework is loaded once a workload. Where the process itself is what is
tested, it is one of its own.
"""

import functools
import itertools
import json
import subprocess

import psutil
import pytest

from traintime import paths, workloads
from traintime.errors import InputError
from traintime.measuring import machine, measure, operations, stacks
from traintime.measuring.protocol import Protocol
from traintime.point import make_point
from traintime.store import records

# Sixty tokens of twenty words: each stands in a batch about three times.
REPEATED = {"vocabulary": 20}
# Where it is no optimizer that is tried: Adam divides small gradients by their size, and so makes rounding large.
SGD = {"optimizer": "sgd"}
EPOCH = {"loop": "epoch", "sentences": 60}
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
    """Parameters of a test; `make test` runs the rows in `push`, the others have their turn."""
    marked = [pytest.param(*row, marks=() if row in push else pytest.mark.rest) for row in rows]
    return pytest.mark.parametrize(names, marked)


def on(workload, names, **fields):
    """Parameters of a test of one workload on those of these stacks that can run it."""
    return each([(workload, name) for name in names if can_run(workload, name, **fields)])


PAIRS = [(workload, name) for workload in workloads.ALL for name in STACKS if can_run(workload, name)]


def at_push(rows):
    """Those of today's stacks."""
    return [row for row in rows if row[1] in TODAY]


# A worker for one job after the other; what a framework prints goes where errors do.
SEVERAL = f"""
import importlib.util, json, os, sys

sys.path.insert(0, {str(paths.WORKER)!r})
import operations

spec = importlib.util.spec_from_file_location("worker", {str(paths.WORKER / "__main__.py")!r})
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in iter(sys.stdin.readline, ""):
    answers.write(json.dumps(worker.run(json.loads(line), lambda message: None)) + "\\n")
    answers.flush()
    operations.clear()
"""


@pytest.fixture(scope="module", autouse=True)
def shared_processes():
    """Points of a stack and a workload are run in one process; at most three wait for further ones.

    A process of its own is for one thread, where the process is what is tested, and for what outlasts its training.
    """
    waiting, run_worker = {}, measure.run_worker  # kind of process -> the one that waits; the last used is the last

    def share(command, job, environment, *more):
        run = job["run"]
        if run["threads"] or run["replicas"] > 1 or run["save_aside"] or job["api"] == "numpy":
            return run_worker(command, job, environment, *more)
        del environment["TRAINTIME_PADDING"]
        kind = command[0], job["workload"], run["recompute"], *sorted(environment.items())
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
        process = waiting.pop(kind, None) or subprocess.Popen([command[0], "-c", SEVERAL], **pipes)
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        if not (line := process.stdout.readline()):
            process.communicate()
            return {"status": "crashed", "error": "its last words are among the errors"}
        waiting[kind] = process
        while len(waiting) > 3:
            waiting.pop(next(iter(waiting))).communicate()
        return {"status": "ok", "result": json.loads(line)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "run_worker", share)
        yield
    for process in waiting.values():
        process.communicate()


def run(workload, stack, protocol, fields, **task):
    record = measure.measure(small(workload, **fields), stacks.get(stack), protocol, **task)
    assert record["status"] == "ok", record["error"]
    return record


@functools.cache
def losses(workload, stack, **fields):
    """Losses and facts of a stack on a small point from the shared starting weights, each run once."""
    result = run(workload, stack, CHECK, fields, task="check", steps=5)["result"]
    return result["losses"], result["facts"]


@functools.cache
def measured(workload, stack, **fields):
    """The record of a stack's measurement of a small point, each run once."""
    return run(workload, stack, QUICK, fields)


def reference(workload, **fields):
    """The stack whose losses the others are held to: NumPy, where every operation can be read, or else JAX."""
    return "numpy" if can_run(workload, "numpy", **fields) else "2026-jax"


# The same work


@each([("dense", name) for name in STACKS if name != "numpy"], [("dense", name) for name in KERAS3])
def test_a_worker_is_on_no_network(workload, stack):
    """The old stacks have known faults in what listens: what has measured and waits has no socket open."""
    measured(workload, stack, **EPOCH)
    workers = psutil.Process().children(recursive=True)
    assert workers
    assert [one.net_connections("inet") for one in workers] == [[]] * len(workers)


# Keras 2.3.1 on TensorFlow may read Adam's step counter after it was raised: hence not 1e-4 of later losses.
USUAL = [(*pair, {}, {}, 1e-3) for pair in PAIRS]
# Keras 3.15 on TensorFlow adds a repeated token's second moments as squares of its parts, not as the square of their
# sum: known there, and hardly seen in five losses.
APART = {"2026-jax": 1e-4, "2026-torch": 1e-4, "2026-tensorflow": 1e-3, "2020-tensorflow": 1e-3}
DEEP = SGD | {"layers": 5}  # computed again: two parts of three and two layers
ALGORITHMS = ("per-gate", "combined", "unrolled", "cell", "apart", "native")
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
    *[("lstm", SGD | {"algorithm": name}, {"algorithm": "default"}, FAST, 1e-4) for name in ALGORITHMS],
    *[("blocks", {"structure": name}, {}, KERAS3, 1e-3) for name in ("plain", "residual", "dense", "aggregated")],
    ("blocks", SGD | {"structure": "plain", "shared": True}, {}, KERAS3, 1e-4),
    ("dense", DEEP | {"recompute": True}, {"recompute": False}, KERAS3, 1e-4),
    ("dense", SGD | {"jit": "on"}, {"jit": "auto"}, ["2026-tensorflow"], 1e-4),
    ("dense", SGD | {"jit": "off"}, {"jit": "auto"}, ["2026-tensorflow", "2026-jax"], 1e-4),
    ("rnn", {"onednn": "off"}, {"onednn": "auto"}, ["2026-tensorflow"], 1e-3),
]
ROWS = USUAL + [
    (workload, stack, fields, fields | other, apart)
    for workload, fields, other, names, apart in ALIKE
    for stack in names
    if can_run(workload, stack, **fields)
]


@each(ROWS, at_push(USUAL), names="workload,stack,fields,usual,apart")
def test_what_is_the_same_training_gives_the_same_losses(workload, stack, fields, usual, apart):
    mine, facts = losses(workload, stack, **fields)
    theirs, _ = losses(workload, reference(workload, **usual), **usual)
    assert mine[0] == pytest.approx(theirs[0], rel=1e-4)
    assert mine == pytest.approx(theirs, rel=apart)
    assert facts["parameters"] == small(workload, **fields).work.parameters
    for switch in {"jit", "onednn"} & fields.keys():
        assert facts["path"][switch] is (fields[switch] == "on")


@on("rnn", ["2026-jax"])
def test_gradients_that_are_added_up_wait_for_their_update(workload, stack):
    """The losses up to the first step's are what they are without; the next, of weights as they were, is not."""
    once, twice = losses(workload, stack)[0], losses(workload, stack, accumulated=2)[0]
    assert twice[:2] == pytest.approx(once[:2], rel=1e-6)
    assert abs(twice[2] / once[2] - 1) > 1e-5


@on("dense", KERAS3)
def test_lower_precision_is_asked_for_told_and_not_far_off(workload, stack):
    mine, facts = losses(workload, stack, precision="mixed-bfloat16")
    usual, _ = losses(workload, stack)
    assert facts["precision"] == "mixed-bfloat16"
    assert mine == pytest.approx(usual, rel=0.05)
    assert mine != usual


@on("dense", ["2026-jax"])
def test_what_is_computed_again_need_not_be_kept(workload, stack):
    """Thirty-two layers hand on 32 MiB; XLA on a CPU would undo it, and the peak would be the same."""
    fields = {"inputs": 16, "hidden": 128, "layers": 32, "batch": 2048, "threads": 1}
    usual, again = (
        measured(workload, stack, **fields, recompute=recompute)["result"]["memory"] for recompute in (False, True)
    )
    assert again["peak"] - again["built"] < usual["peak"] - usual["built"] - 8 * 2**20


@each([("rnn", "2026-torch"), ("blocks", "2026-torch")])
def test_processes_that_share_a_batch_train_as_one_does(workload, stack):
    alone, _ = losses(workload, stack, batch=10, **SGD)
    shared, facts = losses(workload, stack, batch=10, replicas=2, **SGD)
    assert shared == pytest.approx(alone, rel=1e-5)
    assert facts["threads"] == {"torch": measure.default_threads()}


@on("blocks", ["2026-tensorflow"])
@pytest.mark.parametrize("feed", [kind + way for kind in ("decoded", "fetched") for way in ("", "-ahead", "-parallel")])
def test_batches_can_be_made_while_the_training_runs(feed, workload, stack):
    waited = measured(workload, stack, feed=feed)["result"]["evidence"]["waited_s"]
    # Each of ten fetched samples waits 2 ms, one after the other.
    assert waited > (QUICK.steps * 10 * 0.002 if feed == "fetched" else 0)


@on("rnn", KERAS3)
@pytest.mark.parametrize("aside", [False, True])
def test_a_training_can_be_saved_while_it_runs(workload, stack, aside):
    """How a save is written, aside or not, is the same code everywhere: test_worker_saving."""
    measured(workload, stack, save_every=2, save_aside=aside)


@on("rnn", ["2026-tensorflow", "2026-jax"])
def test_several_steps_at_once_are_handed_to_fit_alone(workload, stack):
    assert len(measured(workload, stack, loop="fit", steps_per_execution=2)["result"]["loops"]) == 4


@on("rnn", [name for name in FAST if name != "numpy"])
def test_a_mask_skips_padding_and_does_so_alike(workload, stack):
    masked, _ = losses(workload, stack, words=2, mask=True)
    assert masked[0] == pytest.approx(losses(workload, "2026-jax", words=2, mask=True)[0][0], rel=1e-4)
    assert masked[0] != pytest.approx(losses(workload, stack, words=2)[0][0], rel=1e-6)


# What is measured

SHARED = [(*pair, None) for pair in PAIRS]
ALONE = [(workload, stack, 1) for workload, stack in PAIRS if workload == "dense"]


@each(SHARED + ALONE, at_push(SHARED), names="workload,stack,threads")
def test_a_measured_point_has_times_memory_and_the_facts_asked_for(workload, stack, threads):
    record = measured(workload, stack, threads=threads, **EPOCH)
    made = records.Invocation.model_validate(record | {"sweep": "s", "round": 1, "seed": 1})
    assert (made.protocol.fixed, made.protocol.text) == (True, "1+5")
    timing, memory, facts = made.result.timing, made.result.memory, made.result.facts
    assert len(timing.steps_ns) == 1 + 5
    assert min(timing.steps_ns) > 0
    peaks = [memory[name] for name in ("imported", "built", "first_step", "peak")]
    # Linux sums up its processors' counts when it likes: of 4,567 stored peaks 75 are below an earlier one, by 0.4 MB
    # at most.
    assert peaks[0] > 0 and all(later > earlier - 2**20 for earlier, later in itertools.pairwise(peaks))
    assert (facts.backend, facts.device, facts.precision) == (stacks.get(stack).backend, "cpu", "float32")
    asked = threads or measure.default_threads()
    assert facts.cpus == asked
    assert all(count in (None, asked) for count in facts.threads.values())
    assert set(facts.versions) == set(stacks.get(stack).packages)
    assert facts.parameters == small(workload).work.parameters
    assert facts.path.allocator == "glibc"
    assert sum(timing.steps_ns[1:]) / 1e9 <= made.result.evidence.seconds
    loops = record["result"]["loops"]
    assert [loop["sentences"] for loop in loops] == [50, 100, 50, 100, 60, 50, 100, 50, 100]
    assert all(loop["ns"] >= loop["trained_ns"] > 0 for loop in loops)


# What goes wrong


def test_memory_that_runs_out_is_a_status_and_not_a_crash():
    """Two billion rows: the allocation is refused at once, and only the worker is gone."""
    record = measure.measure(make_point(vocabulary=2_000_000_000), stacks.get("numpy"), QUICK)
    assert record["status"] == "oom", record


@pytest.mark.skipif(bool(machine.gpus()), reason="there is a GPU")
@on("rnn", ["2026-jax"])
def test_a_gpu_that_is_not_there_is_an_error_and_no_number(workload, stack):
    record = measure.measure(small(workload, device="gpu", threads=1), stacks.get(stack), QUICK)
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
