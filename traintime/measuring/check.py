"""Check a folder of measurement files by itself: nothing is run, only read."""

import functools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from traintime import paths
from traintime.errors import InputError
from traintime.explain import statistics
from traintime.measuring import machine, rounds, stacks
from traintime.measuring.history import WITHDRAWN, Withdrawal, withdrawals
from traintime.measuring.rounds import Remark, StoredRun, note
from traintime.measuring.stacks import Stack
from traintime.measuring.worker import process
from traintime.store import code, records
from traintime.store.records import Description, Record, Result

# Two runs of the sentinel further apart than this mean a stack on which hardly anything can be compared.
LOUD = 0.5
PATH_OR_HOST = re.compile(r"(?<![\w.])/(?:home|root|Users|work|content|mnt|tmp)/\w")
MEMORY = {"imported", "built", "first_step", "peak"}
ON_A_GPU = {"device_allocated", "device_reserved", "device_in_use"}
LOOPS = {"steps": 0, "fit": 4, "epoch": 9}  # that a worker times: short and long ones, an epoch amid them
# Versions that no lock names, of machines whose owners could not choose: a maintainer who trusts others adds them.
BESIDE_THE_LOCKS = {"numpy": {"2.5.2"}, "jax": {"0.11.2"}, "torch": {"2.11.0"}}
ALIASES = {"tensorflow-cpu": "tensorflow", "theano-pymc": "theano"}
CODED_SINCE = "2026-11-21T15:48:00Z"  # from when on every invocation records the sources that measured it
Read = TypeVar("Read")
Known = Mapping[str, Mapping[str, str]]
# What one file may hold in several ways; the table keeps them apart (store.table.ALIKE), and a note says so.
WAYS = {
    "sweep": lambda invocation: invocation.sweep,
    "protocol": lambda invocation: invocation.protocol.text,
    "code": lambda invocation: code.same(invocation.code) or "",
    "versions": lambda invocation: invocation.result and sorted(invocation.result.facts.versions.items()),
    "path": lambda invocation: invocation.result and invocation.result.facts.path.text,
    "how fit's end was told": lambda invocation: (
        invocation.result and [loop.trained_ns is not None for loop in invocation.result.loops]
    ),
}


def findings(root: Path, at_least: int = 3, known: Collection[str] | None = None) -> Iterator[Remark]:
    """Faults and notes of the folder, machine by machine: one sentence each, of a fault with its file and key.

    at_least: rounds that each point of a sweep must have once others have them; known: hashes of the sources whose
    measurements are accepted, those of the workloads' code.csv by default.
    """
    accepted: Known = code.known() if known is None else {version: {} for version in known}
    folders = sorted(path for path in root.glob("*") if path.is_dir())
    if not (files := set(records.files(root))):
        yield Remark(f"{root}: no measurement file below it")
    files |= {root / "machines.csv", *(folder / name for folder in folders for name in records.BESIDE)}
    for path in sorted(set(root.rglob("*")) - files):
        if path.is_file():
            yield Remark(f"{path.relative_to(root)}: is no file of measurements; remove it")
    seen: dict[tuple[int, ...], str] = {}
    for folder in folders:
        yield from _machine(folder, at_least, accepted, seen)


def _machine(folder: Path, at_least: int, known: Known, seen: dict[tuple[int, ...], str]) -> Iterator[Remark]:
    wrong: list[Remark] = []
    _read(records.rated, folder / "rates.json", wrong)
    description = _read(records.described, folder / "machine.json", wrong)
    withdrawn = _read(withdrawals, folder, wrong) or []
    if not (folder / "machine.json").exists():
        yield Remark(f"{folder.name}/machine.json: missing; run traintime machine --to {folder.parent}")
    if description:
        yield from _description(folder.name, description)
    runs: list[StoredRun] = []
    for path in records.files(folder.parent, folder.name):
        if record := _read(records.read, path, wrong):
            yield from _record(path, folder.name, record)
            place = (record.stack, record.key, record.point, records.is_sentinel(path))
            for number, each in enumerate(record.invocations):
                runs.append(StoredRun(records.name_of(path), number, *place, each))
                yield from _invocation(runs[-1], known, description)
    yield from wrong
    yield from _withdrawn(folder.name, withdrawn, runs)
    yield from rounds.check(folder.name, runs, withdrawn, at_least)
    yield from _mixed(folder.name, runs)
    yield from _sentinels(folder.name, runs)
    yield from _twice(runs, seen)


def _read(read: Callable[[Path], Read], path: Path, wrong: list[Remark]) -> Read | None:
    """What `read` makes of a file that is there; None, and one more remark, where it refuses it."""
    try:
        return read(path) if path.exists() else None
    except InputError as error:
        wrong.append(Remark(f"{error.value}: {error.problem}. {error.remedy}"))
        return None


# The machine


def _description(folder: str, description: Description) -> Iterator[Remark]:
    """Since family and model are part of it, a machine's key follows from its description."""
    name = f"{folder}/machine.json"
    if description.machine != folder:
        yield Remark(f"{name}: key machine is {description.machine!r}, the folder is {folder!r}")
    keys = [make(description.model_dump()) for make in (machine.key, machine.further_key)]
    if folder not in keys:
        yield Remark(f"{name}: describes {keys[0]!r}, the folder is {folder!r}")


def _processor(description: Description | None) -> str | None:
    """The processor as a worker names it; None where the description does not tell all of it."""
    if description is None:
        return None
    fields = [getattr(description, name) for name in ("vendor", "family", "model", "stepping")]
    return None if None in fields else "{} family {} model {} stepping {}".format(*fields)


# One file


def _record(path: Path, machine_key: str, record: Record) -> Iterator[Remark]:
    name = records.name_of(path)
    expected = {"machine": machine_key, "key": path.stem, "stack": path.parent.name}
    for key, value in expected.items():
        if getattr(record, key) != value:
            yield Remark(f"{name}: key {key} is {getattr(record, key)!r}, its place says {value!r}")
    if record.point.key != record.key:
        yield Remark(f"{name}: key point describes {record.point.key!r}")
    if record.stack not in stacks.KNOWN:
        yield Remark(f"{name}: key stack is {record.stack!r}, which is no known stack")
    else:
        try:
            stacks.refuse_impossible(record.point, stacks.KNOWN[record.stack])
        except InputError as error:
            yield Remark(f"{name}: key point: {error}")
    if not record.invocations:
        yield Remark(f"{name}: key invocations is empty")


def _invocation(run: StoredRun, known: Known, description: Description | None) -> Iterator[Remark]:
    """One invocation by itself, and on this machine."""
    invocation, where, asked = run.invocation, run.where, run.point.run
    if description and invocation.threads != (wanted := asked.threads or description.cores):
        yield Remark(f"{where}.threads is {invocation.threads}, and {wanted} follow from the key and machine.json")
    if description and asked.device == "gpu" and not description.gpus:
        yield Remark(f"{where} ran on a GPU, and machine.json lists none; take it out, or describe the machine again")
    if leak := PATH_OR_HOST.search(invocation.error or ""):
        yield Remark(f"{where}.error holds a path of somebody's machine near {leak.group()!r}")
    if (invocation.status == "ok") != (invocation.result is not None):
        yield Remark(f"{where}.status is {invocation.status!r}, its result says otherwise")
    if invocation.status != "ok" and not invocation.error:
        yield Remark(f"{where}.error is missing: a failure must say what happened")
    if invocation.shared:
        problem = f"is {invocation.shared}: other invocations had used its process before it"
        remedy = f"withdraw it (see {WITHDRAWN}) and measure the configuration again with traintime sweep"
        yield Remark(f"{where}.shared {problem}; {remedy}")
    if invocation.code is not None:
        yield from _sources(run, invocation.code, known)
        if not invocation.protocol.fixed:
            yield Remark(f"{where}.protocol is {invocation.protocol.text!r}: the steps were not fixed beforehand")
    elif invocation.started >= CODED_SINCE:
        yield Remark(f"{where}.code is missing: nobody can tell what measured it; measure it with the present version")
    if invocation.result is not None:
        yield from _result(run, invocation.result, _processor(description))
        if run.stack in stacks.KNOWN:
            yield from _as_asked(run, stacks.KNOWN[run.stack], invocation.result)


def _sources(run: StoredRun, version: str, known: Known) -> Iterator[Remark]:
    """Whether the sources that measured are known, and are those of the workload on the stack's API."""
    if version not in known:
        yield Remark(f"{run.where}.code is {version!r}, sources that code.csv does not list")
        return
    stack = stacks.KNOWN.get(run.stack)
    wanted = {"workload": run.point.workload, "api": stack.api if stack else None}
    for name, value in wanted.items():
        if value and known[version].get(name, value) != value:
            yield Remark(f"{run.where}.code is {version!r}, sources for the {name} {known[version][name]}, not {value}")


def _result(run: StoredRun, result: Result, processor: str | None) -> Iterator[Remark]:
    """What was measured, by itself."""
    where, point, protocol = f"{run.where}.result", run.point, run.invocation.protocol
    facts, timing, loops = result.facts, result.timing, result.loops
    if facts.parameters != point.work.parameters:
        yield Remark(f"{where}.facts.parameters is {facts.parameters}, not {point.work.parameters}")
    counted = len(timing.steps_ns) - timing.warmup
    fewest = protocol.steps if protocol.fixed else min(protocol.steps, protocol.fewest or protocol.steps)
    if counted < fewest or (protocol.fixed and counted > fewest):
        wanted = f"{fewest}" if protocol.fixed else f"at least {fewest}"
        yield Remark(f"{where}.timing.steps_ns has {counted} counted steps of {wanted}")
    kind, number = point.run.loop, LOOPS[point.run.loop]
    lines = [loops] if number < LOOPS["epoch"] else [loops[: number // 2], loops[number // 2 + 1 :]]
    if len(loops) != number or (number and any(len({loop.sentences for loop in line}) < 2 for line in lines)):
        yield Remark(f"{where}.loops has {len(loops)}, where {kind} has {number}, short and long ones in turn")
    if any(loop.trained_ns is not None and loop.trained_ns > loop.ns for loop in loops):
        yield Remark(f"{where}.loops: a trained_ns is above its ns")
    ran_on = facts.path.processor
    if run.invocation.code is not None and processor and ran_on != processor:
        yield Remark(f"{where}.facts.path.processor is {ran_on!r}, machine.json says {processor!r}")


def _as_asked(run: StoredRun, stack: Stack, result: Result) -> Iterator[Remark]:
    """Whether what ran is what the file's name says: backend, device, precision, threads, versions, memory."""
    asked, where, memory = run.point.run, f"{run.where}.result", result.memory.keys()
    job = {"backend": stack.backend, "run": asked.model_dump(), "threads": run.invocation.threads}
    try:
        process.check_facts(job, result.facts.model_dump())  # what a worker refuses to measure in the first place
    except RuntimeError as error:
        yield Remark(f"{where}.facts: {error}; take the file out, or measure the configuration again")
    beside = memory - MEMORY
    if not (memory >= MEMORY and beside <= ON_A_GPU and (asked.device == "gpu") == bool(beside)):
        wanted = ", ".join(sorted(MEMORY | (ON_A_GPU if asked.device == "gpu" else set())))
        yield Remark(f"{where}.memory has {', '.join(sorted(memory))}; on a {asked.device} it is of {wanted}")
    if empty := sorted(name for name in MEMORY & memory if not result.memory[name]):
        yield Remark(f"{where}.memory.{empty[0]} is 0 bytes, and no process is so small; measure it again")
    if result.facts.versions.keys() != set(stack.packages):
        named, wanted = (", ".join(sorted(names)) for names in (result.facts.versions, stack.packages))
        yield Remark(f"{where}.facts.versions names {named}; {stack.name} is of {wanted}")
    for package, version in result.facts.versions.items():
        accepted = accepted_versions(stack).get(package, set())
        if accepted and version.partition("+")[0] not in accepted:
            remedy = "measure with the locked ones, or have a maintainer list it in traintime/measuring/check.py"
            has = ", ".join(sorted(accepted))
            yield Remark(f"{where}.facts.versions.{package} is {version!r}, {stack.name} is known with {has}; {remedy}")


@functools.cache
def accepted_versions(stack: Stack) -> dict[str, set[str]]:
    """Versions that the stack may have: what its locks name, and of today's stacks a few more. Colab has its own."""
    if stack.colab:
        return {}
    today = [paths.ROOT / "requirements.txt", paths.LOCKS / "torch.txt", paths.LOCKS / "gpu.txt"]
    locks = [paths.LOCKS / stack.lock] if stack.python and stack.lock else today
    found: dict[str, set[str]] = {}
    for path in locks:
        text = path.read_text() if path.exists() else ""
        for package, version in re.findall(r"^([a-z-]+)==([\w.]+)", text, re.MULTILINE):
            found.setdefault(ALIASES.get(package, package), set()).add(version)
    return {name: each | (set() if stack.python else BESIDE_THE_LOCKS.get(name, set())) for name, each in found.items()}


# Several files of a machine


def _withdrawn(machine_key: str, withdrawn: list[Withdrawal], runs: list[StoredRun]) -> Iterator[Remark]:
    stored = {(run.stack, run.invocation.started): run for run in runs}
    for number, row in enumerate(withdrawn, 1):
        where = f"{machine_key}/{WITHDRAWN}: row {number}"
        if run := stored.get((row.stack, row.started)):
            yield Remark(f"{where}: the invocation of {row.started} is still there: {run.where}")
    if withdrawn:
        yield note(f"{machine_key}: {len(withdrawn)} invocations are withdrawn, see {WITHDRAWN}")


def _twice(runs: list[StoredRun], seen: dict[tuple[int, ...], str]) -> Iterator[Remark]:
    """Files with runs that another file holds: no two runs ever took the same times, to the nanosecond.

    seen: the file of each run by its times, to which these are added.
    """
    copies: Counter[tuple[str, str]] = Counter()
    for run in runs:
        if run.invocation.result:
            timing = run.invocation.result.timing
            times = (timing.first_ns, *timing.steps_ns)
            if times in seen:
                copies[run.file, seen[times]] += 1
            seen.setdefault(times, run.file)
    for (file, other), number in copies.items():
        yield Remark(f"{file}: {number} of its invocations are stored in {other}, too; take them out of one of them")


def _mixed(machine_key: str, runs: list[StoredRun]) -> Iterator[Remark]:
    """Which files hold runs of several kinds: no two kinds are pooled, and old sweeps were not interleaved."""
    for name, way in WAYS.items():
        values_of: dict[str, list[Any]] = {}
        for run in runs:
            value = way(run.invocation)
            if not run.sentinel and value is not None and value not in values_of.setdefault(run.file, []):
                values_of[run.file].append(value)
        mixed = [file for file, values in values_of.items() if len(values) > 1]
        if mixed:
            rest = "measured at different times" if name == "sweep" else "kept apart in the table"
            yield note(f"{machine_key}: {len(mixed)} files mix runs that differ in {name}, {rest}, first {mixed[0]}")


def _sentinels(machine_key: str, runs: list[StoredRun]) -> Iterator[Remark]:
    """Stacks on which two runs of the same thing differ widely; that there is a sentinel is said in `rounds`."""
    seconds: dict[str, dict[object, list[float]]] = {}
    for run in runs:
        result = run.invocation.result
        if run.sentinel and result and not run.invocation.disturbed:
            steps = result.timing.steps_ns[result.timing.warmup :]
            alike = (run.invocation.protocol.text, code.same(run.invocation.code), run.invocation.threads)
            seconds.setdefault(run.stack, {}).setdefault(alike, []).append(sum(steps) / len(steps) / 1e9)
    for stack, groups in seconds.items():
        if (noise := statistics.noise(list(groups.values()), 1)) > LOUD:
            yield note(f"{machine_key}/{records.SENTINEL}/{stack}: two runs of the same thing differ by {noise:.0%}")
