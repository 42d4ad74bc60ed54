"""Run one job: set the process up, build the model, time its steps, answer on the pipe."""

import json
import os
import sys
import traceback

import process


def run(job, send):
    """Do the job and return its result.

    job: dict with `workload` (the folder of its model files), `api`, `backend`, `sizes`, `run`, `protocol`,
    `threads` and `task` (`measure`, `check` or `bench`). send: called with one dict for each piece of progress.
    """
    import timing

    cpus = process.use_threads(job["threads"])
    clock = timing.Stopwatch()
    send({"event": "phase", "name": "importing"})
    sys.path.insert(1, job["workload"])
    implementation = __import__("train_" + job["api"])
    phases = {"import_s": clock.lap()}
    memory = {"imported": process.peak_memory()}

    send({"event": "phase", "name": "building"})
    trainer = implementation.Trainer(job["sizes"], job["run"], job["threads"])
    phases["build_s"] = clock.lap()
    memory["built"] = process.peak_memory()
    facts = trainer.facts()
    facts["cpus"] = cpus
    facts["path"] = dict(process.code_path(), **facts.get("path", {}))
    process.check_facts(job, facts)

    result = {"facts": facts, "phases": phases, "memory": memory}
    send({"event": "phase", "name": "first step"})
    if job["task"] == "measure":
        def after_first():
            memory["first_step"] = process.peak_memory()

        def counters():
            of_trainer = trainer.counters() if hasattr(trainer, "counters") else {}
            return dict(process.counters(getattr(trainer, "others", ())), **of_trainer)

        timed, evidence = timing.measure(trainer.step, job["protocol"], send, after_first, counters)
        result["timing"], result["evidence"] = timed, evidence
        result["loops"] = loops(job, trainer, send)
    elif job["task"] == "check":
        result["losses"] = trainer.losses(job["steps"])
    elif job["task"] == "bench":
        result["bench"] = timing.bench(trainer.step, job["steps"], job["blocks"])
    memory["peak"] = process.peak_memory()
    memory.update(trainer.device_memory())
    return result


def loops(job, trainer, send):
    """Times of the framework's own loop, as the run asks: none, N and 2N batches, or a whole epoch amid those."""
    import data
    import numpy
    import timing

    run, batch = job["run"], job["sizes"]["batch"]
    if run["loop"] == "steps":
        return []
    # As many batches as there were counted steps, twice as many, and both once more, so that a drift shows.
    count = job["protocol"]["steps"] * batch
    sizes = [2 * batch, count, 2 * count, count, 2 * count]
    if run["loop"] == "epoch":
        # Again after the epoch: what it took and the loops on both sides promised tells a drift from a wrong formula.
        sizes += [run["sentences"], count, 2 * count, count, 2 * count]
    random = numpy.random.RandomState(3)
    return timing.loops(trainer.fit, lambda count: data.samples(job["sizes"], count, random), sizes, send)


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
