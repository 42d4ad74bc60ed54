"""Count the operations of one training step of each model with the framework's own profiler; answer on the pipe.

Runs as a worker of its own, beside the one that measures: nothing here is timed. An operation that another one calls
is part of it, and what a compiler has put together is one.
"""

import gc
import glob
import json
import os
import sys
import tempfile
import traceback

import process


def main():
    process.die_with_parent()
    job = json.loads(sys.stdin.read())
    channel = os.fdopen(job["channel"], "w")
    try:
        process.use_threads(job["threads"])
        sys.path.insert(1, job["workload"])
        counts = [count(job["api"], each, job["threads"]) for each in job["jobs"]]
        answer = {"status": "ok", "result": {"operations": counts}}
    except Exception:
        answer = {"status": "crashed", "error": traceback.format_exc()}
    channel.write(json.dumps(dict(answer, event="result")) + "\n")
    channel.flush()


def count(api, job, threads):
    clear()
    trainer = __import__("train_" + api).Trainer(job["sizes"], job["run"], threads)
    return COUNTERS[api, trainer.facts()["backend"]](trainer)


def clear():
    """Let go what a framework and Python keep of the models so far."""
    if "keras" in sys.modules:
        # Keras 2 has nothing of the kind on Theano.
        getattr(sys.modules["keras"].backend, "clear_session", lambda: None)()
    gc.collect()


def of_torch(trainer):
    from torch.profiler import ProfilerActivity, profile

    trainer.step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        trainer.step()
    return sum(event.name.startswith("aten::") and not under_another(event) for event in profiler.events())


def under_another(event):
    while event.cpu_parent is not None:
        event = event.cpu_parent
        if event.name.startswith("aten::"):
            return True
    return False


def of_jax(trainer):
    import jax

    return traced(trainer, jax.profiler.start_trace, jax.profiler.stop_trace)


def of_tensorflow(trainer):
    import tensorflow as tf

    return traced(trainer, tf.profiler.experimental.start, tf.profiler.experimental.stop)


def traced(trainer, start, stop):
    """Operations in the profiler's trace of a step."""
    from jax.profiler import ProfileData  # reads TensorFlow's traces, too

    trainer.step()
    with tempfile.TemporaryDirectory() as folder:
        start(folder)
        trainer.step()
        stop()
        (path,) = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
        lines = [line for plane in ProfileData.from_file(path).planes for line in plane.lines]
        return sum(is_operation(event) for line in lines for event in line.events)


def is_operation(event):
    """One of a compiled program, which says which; or of a graph, whose name ends in its kind: "lstm/add:AddV2"."""
    if any(name == "hlo_op" for name, _ in event.stats):
        return True
    return ":" in event.name and "::" not in event.name and " " not in event.name


def of_tensorflow_1(trainer):
    """Every node of the graph that the executor ran, those that steer a loop among them."""
    import keras
    import tensorflow as tf
    from keras import backend

    trainer.step()
    told = tf.RunMetadata()
    asked = {"options": tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), "run_metadata": told}
    if keras.__version__.startswith("2.0."):  # it calls the session's run, and cannot be asked to hand anything on
        session = backend.get_session()
        plain = session.run
        session.run = lambda *given, **named: plain(*given, **dict(named, **asked))
        trainer.step()
        session.run = plain
    else:
        trainer.model._function_kwargs = asked
        trainer.model.train_function = None  # made anew at the next step
        trainer.step()
    return sum(len(device.node_stats) for device in told.step_stats.dev_stats)


COUNTERS = {("keras3", "torch"): of_torch, ("keras3", "jax"): of_jax, ("keras3", "tensorflow"): of_tensorflow,
            ("keras2", "tensorflow"): of_tensorflow_1}

if __name__ == "__main__":
    main()
