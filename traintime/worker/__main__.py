"""Run one job: set the process up, build the model, time its steps, answer on the pipe."""

import json
import os
import sys
import traceback

import process

# One file a workload and API generation; each has build(job) -> a trainer (see timing.py for what it must offer).
IMPLEMENTATIONS = {
    ("rnn", "keras2"): "rnn_keras2",
    ("rnn", "keras3"): "rnn_keras3",
    ("rnn", "numpy"): "rnn_numpy",
}


def run(job, send):
    """Do the job and return its result.

    job: dict with `workload`, `api`, `backend`, `point`, `protocol`, `threads`, `device` and `task`
    (`measure`, `check` or `bench`). send: called with one dict for each piece of progress.
    """
    import timing

    cpus = process.use_threads(job["threads"])
    clock = timing.Stopwatch()
    send({"event": "phase", "name": "importing"})
    implementation = __import__(IMPLEMENTATIONS[job["workload"], job["api"]])
    phases = {"import_s": clock.lap()}
    memory = {"imported": process.peak_memory()}

    send({"event": "phase", "name": "building"})
    trainer = implementation.build(job)
    phases["build_s"] = clock.lap()
    memory["built"] = process.peak_memory()
    facts = trainer.facts()
    facts["cpus"] = cpus
    facts["allocator"] = process.allocator()
    process.check_facts(job, facts)

    result = {"facts": facts, "phases": phases, "memory": memory}
    send({"event": "phase", "name": "first step"})
    if job["task"] == "measure":
        before = {}

        def after_first():
            memory["first_step"] = process.peak_memory()
            before.update(process.page_faults())

        result["timing"] = timing.measure(trainer.step, job["protocol"], send, after_first=after_first)
        # Of all steps but the first: what a step in the middle of training costs the system.
        in_steps = process.page_faults()["minor"] - before["minor"]
        result["loops"] = loops(job, trainer, result["timing"], send)
    elif job["task"] == "check":
        result["losses"] = trainer.losses(job["steps"])
    elif job["task"] == "bench":
        result["bench"] = timing.bench(trainer.step, job["steps"], job["blocks"])
    memory["peak"] = process.peak_memory()
    memory.update(trainer.device_memory())
    result["faults"] = process.page_faults()
    if job["task"] == "measure":
        result["faults"]["minor_in_steps"] = in_steps
    return result


def loops(job, trainer, measured, send):
    """Times of the framework's own loop, as the point asks: none, N and 2N batches, or a whole epoch amid those."""
    import batches
    import numpy
    import timing

    point = job["point"]
    if point["loop"] == "steps":
        return []
    warm_up = 2 * point["batch"]
    # As many batches as the counted steps were, twice as many, and both once more, so that a drift shows.
    count = (len(measured["steps_ns"]) - measured["warmup"]) * point["batch"]
    sizes = [warm_up, count, 2 * count, count, 2 * count]
    if point["loop"] == "epoch":
        # Again after the epoch: what it took and the loops on both sides promised tells a drift from a wrong formula.
        sizes += [point["sentences"], count, 2 * count, count, 2 * count]
    random = numpy.random.RandomState(3)
    return timing.loops(trainer.fit, lambda count: batches.sentences(point, count, random), sizes, send)


def main():
    process.die_with_parent()
    process.first_to_go()
    job = json.loads(sys.stdin.read())
    channel = os.fdopen(job["channel"], "w")

    def send(message):
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    try:
        send({"event": "result", "status": "ok", "result": run(job, send)})
    except MemoryError:
        send({"event": "result", "status": "oom", "error": "MemoryError: " + traceback.format_exc(limit=-1)})
    except Exception as error:  # whatever a framework raises belongs in the record, not on a lost terminal
        status = "oom" if process.means_out_of_memory(error) else "crashed"
        lines = traceback.format_exception_only(type(error), error)
        send({"event": "result", "status": status, "error": "".join(lines).strip()})
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
