"""Measure on this machine, now; what was measured is used again while nothing that matters has changed."""

import functools
import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from IPython.display import Markdown, display

from traintime import paths
from traintime.book import PROFILE, RESULTS
from traintime.book.stored import ANY, Measurements
from traintime.errors import InputError, unknown
from traintime.measuring import allocators, machine, stacks, sweep
from traintime.measuring.protocol import Protocol
from traintime.store import records
from traintime.store.table import table

# What a GPU alone can be told: which kernel runs a recurrent layer, and to have no memory pool of its own.
GPU_ALONE = {"kernel": ("cudnn", "loop-of-cells"), "allocator": ("no-pool",)}


def follow(line: str) -> None:
    """Called with a line for each invocation that is done; the workflow puts its own in this place."""


def results_folder(chapter: str, plans: list[sweep.Plan]) -> Path:
    """Where this run of the chapter keeps what it measures: a folder for each plan and each set of installed software.

    Measured once, a plan is not measured again while stacks and workers stay as they are
    (sweep.Task.attempted_by compares the workers' hash): a changed sentence or plot only draws again. Kernels that were
    started by hand share one folder.
    """
    used = {stack.name: stack.versions() for plan in plans for stack in plan.stacks}
    digest = hashlib.sha256(repr((plans, sorted(used.items()))).encode()).hexdigest()[:12]
    by_hand = paths.ROOT / "_build" / "results" / chapter
    return Path(os.environ.get(RESULTS) or by_hand) / digest


def planned(name: str, fields: dict[str, Any], device: str = "cpu") -> sweep.Plan:
    """A sweep as this machine runs it: on this device where a stack can, on Colab with its preinstalled packages.

    fields: of a point (lists are swept) and `stacks`, as a profile has them. A single round is a look at what happens:
    it takes what it sees, and repeats nothing that was disturbed.
    """
    fields = dict(fields)
    together = [fields | extra for extra in [{}, *fields.pop("also", [])]]
    sides = [side for each in together for side in _by_device(each, device) if side["stacks"]]
    plans = [sweep.Plan.from_profile(name, side) for side in sides]
    pairs = {
        (stack.name, point.key): (point, stacks.counterpart(stack)) for plan in plans for point, stack in plan.pairs
    }
    ordered = [pairs[key] for key in sorted(pairs)]
    return replace(plans[0], pairs=ordered, settle=plans[0].rounds > 1, sentinels=False)


def _together() -> bool:
    """Whether points may share processes: the profile says so."""
    return bool(os.environ.get(PROFILE) and sweep.load_profile(os.environ[PROFILE]).get("together"))


@functools.cache
def _rates() -> dict[str, Any]:
    """The machine's rates, measured once for all chapters of a look at it."""
    return machine.rates()


def _by_device(fields: dict[str, Any], device: str) -> list[dict[str, Any]]:
    """The fields, apart for the stacks that the device can run and for those that stay on the CPU."""
    if device == "cpu":
        return [fields]
    able = [each for each in _listed(fields["stacks"]) if stacks.get(each).api == "keras3"]
    others = [each for each in _listed(fields["stacks"]) if each not in able]
    on_cpu = dict(fields)
    for name in GPU_ALONE.keys() & fields.keys():
        on_cpu[name] = [each for each in _listed(fields[name]) if each not in GPU_ALONE[name]]
        if not on_cpu[name]:
            del on_cpu[name]  # so that it has its usual value
    return [fields | {"stacks": able, "device": device}, on_cpu | {"stacks": others}]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _crashes(root: Path) -> list[str]:
    """What a reader should know of invocations that crashed, a line for each reason."""
    found = {}
    for path in records.files(root):
        record = records.read(path)
        for one in record.invocations:
            if one.status == "crashed" and one.error:
                found.setdefault((record.stack, one.error.strip().splitlines()[-1][:300]), record.key)
    return [f"*{stack} crashed, first at `{key}`:* `{reason}`" for (stack, reason), key in sorted(found.items())]


def _disturbed(root: Path) -> list[str]:
    """What a reader should know of a look at a machine that was busy: how many of its runs were disturbed."""
    runs = [one for path in records.files(root) for one in records.read(path).invocations if one.status == "ok"]
    if not (disturbed := sum(one.disturbed for one in runs)):
        return []
    # The page's style sheet greys what the next cell shows of some disturbed runs, and hides it where all were.
    if disturbed == len(runs) and os.environ.get(RESULTS):
        return ['<em class="busy-build">The machine was busy while this page was built; run it yourself.</em>']
    said = f"Something else kept this machine busy while {disturbed} of these {len(runs)} runs were timed: their times"
    return [f'<em class="rough-look">{said} are a rough look.</em>']


def run(
    chapter: str, sweeps: dict[str, dict[str, Any]], rounds: int, protocol: Protocol, device: str = "cpu"
) -> Measurements:
    """Measure the sweeps on this machine, now, and return what was measured.

    sweeps: name -> fields of a point (lists are swept) and `stacks`; device: where Keras 3 runs, cpu or gpu. Stacks
    and allocators that this machine lacks are left out and named on the page. What was measured before with the same
    sources is not measured again. Under a profile that says so, points share processes where they can: each then takes
    a moment, and no verdict is given on it.
    Raises InputError for a device that is not here, before anything is started.
    """
    if device not in ("cpu", "gpu"):
        raise unknown("device", device, ["cpu", "gpu"])
    if device == "gpu" and not machine.gpus():
        raise InputError("device", device, "is not here: nvidia-smi lists no card", 'Set device = "cpu".')
    together = _together()
    told = {"rounds": rounds, "protocol": protocol.model_dump()}
    plans = [replace(planned(name, fields | told, device), together=together) for name, fields in sweeps.items()]
    missing = sorted({stack.name for plan in plans for stack in plan.stacks if not stack.present})
    for name in missing:
        display(Markdown(f"*{name} is not on this machine. {stacks.get(name).remedy}*"))
    for name in sorted({point.run.allocator for plan in plans for point in plan.points}):
        if not allocators.present(name):
            display(Markdown(f"*{name} is not on this machine. To add it: `{allocators.how_to_add(name)}`*"))
    root = results_folder(chapter, plans)

    def report(task: sweep.Task, progress: sweep.SweepProgress, record: dict[str, Any] | None) -> None:
        if record is not None:
            follow(f"{progress.finished}/{progress.total} {task.stack.name} {task.point.key} {record['status']}")

    sweep.run(plans, root, report=report, rates=_rates if together else machine.rates)
    for line in _crashes(root) + _disturbed(root):
        display(Markdown(line))
    # What another processor has measured here before, with these sources, is none of this run's.
    return Measurements(table(root, machine.this(root)), root=root, usual={"device": ANY})
