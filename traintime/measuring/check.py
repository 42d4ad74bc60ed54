"""Check a folder of measurement files by itself: nothing is run, only read."""

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from traintime.errors import InputError
from traintime.explain import statistics
from traintime.measuring import machine, rounds, stacks
from traintime.measuring.history import COLUMNS, WITHDRAWN, Withdrawal, withdrawals
from traintime.measuring.rounds import Remark, StoredRun, note
from traintime.store import code, records
from traintime.store.records import Invocation, Record

# Two runs of the sentinel further apart than this mean a stack on which hardly anything can be compared.
LOUD = 0.5
PATH_OR_HOST = re.compile(r"(?<![\w.])/(?:home|root|Users|work|content|mnt|tmp)/\w")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
# What one file may hold in several ways; the table keeps them apart (store.table.ALIKE), and a note says so.
WAYS = {
    "sweep": lambda invocation: invocation.sweep,
    "protocol": lambda invocation: invocation.protocol.text,
    "code": lambda invocation: code.same(invocation.code) or "",
    "threads": lambda invocation: invocation.threads,
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
    known = code.known() if known is None else known
    if not any(records.files(root)):
        yield Remark(f"{root}: no measurement file below it")
    for folder in sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []:
        yield from _machine(root, folder, at_least, known)


def _machine(root: Path, folder: Path, at_least: int, known: Collection[str]) -> Iterator[Remark]:
    description = _json(folder / "machine.json", dict)
    yield from _description(folder, description)
    yield from _rates(folder)
    runs: list[StoredRun] = []
    for path in records.files(root, folder.name):
        try:
            record = records.read(path)
        except InputError as error:
            yield Remark(f"{records.name_of(path)}: {error.problem}")
            continue
        yield from _record(path, folder.name, record)
        for run in _runs(path, record):
            runs.append(run)
            yield from _invocation(run, record, known, _processor(description))
    yield from _folder(folder, runs, at_least)


def _folder(folder: Path, runs: list[StoredRun], at_least: int) -> Iterator[Remark]:
    """What concerns several files of the machine."""
    try:
        withdrawn = withdrawals(folder)
    except ValueError as error:
        withdrawn = []
        yield Remark(f"{folder.name}/{WITHDRAWN}: {error}")
    yield from _withdrawn(folder.name, withdrawn, runs)
    yield from rounds.check(
        folder.name, [run for run in runs if TIME.fullmatch(run.invocation.started)], withdrawn, at_least
    )
    yield from _older(folder.name, runs, at_least)
    yield from _mixed(folder.name, runs)
    yield from _sentinels(folder.name, runs)


def _runs(path: Path, record: Record) -> list[StoredRun]:
    place = (record.stack, record.key, records.is_sentinel(path))
    return [StoredRun(records.name_of(path), number, *place, each) for number, each in enumerate(record.invocations)]


# The machine


def _json(path: Path, kind: type) -> Any:
    """What the file holds; a sentence where it is not whole JSON of this kind, None where there is no file."""
    if not path.exists():
        return None
    try:
        raw = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        return f"is not whole JSON ({error})"
    return raw if isinstance(raw, kind) else f"is no JSON {'object' if kind is dict else 'list'}"


def _description(folder: Path, description: Any) -> Iterator[Remark]:
    name = f"{folder.name}/machine.json"
    if description is None:
        yield Remark(f"{name}: missing; run traintime machine --to {folder.parent}")
        return
    if isinstance(description, str):
        yield Remark(f"{name}: {description}")
        return
    for key in ("schema_version", "machine", "cpu", "cores", "memory_bytes", "kernel", "rates"):
        if key not in description:
            yield Remark(f"{name}: key {key} is missing")
    if description.get("machine") != folder.name:
        yield Remark(f"{name}: key machine is {description.get('machine')!r}, the folder is {folder.name!r}")
    yield from _positive_rates(f"{name}: key rates.", description.get("rates"))
    if description.get("schema_version") == records.SCHEMA:
        yield from _named_after(name, folder.name, description)


def _named_after(name: str, folder: str, description: dict[str, Any]) -> Iterator[Remark]:
    """Since family and model are part of it, a machine's key follows from its description."""
    try:
        keys = (machine.key(description), machine.further_key(description))
    except (KeyError, TypeError, IndexError) as error:
        yield Remark(f"{name}: the machine's key does not follow from it ({type(error).__name__}: {error})")
        return
    if folder not in keys:
        yield Remark(f"{name}: describes {keys[0]!r}, the folder is {folder!r}")


def _positive_rates(where: str, rates: Any) -> Iterator[Remark]:
    rates = rates if isinstance(rates, dict) else {}
    for rate in machine.RATES:
        value = rates.get(rate)
        if type(value) not in (int, float) or not value > 0:
            yield Remark(f"{where}{rate} is not a positive number")


def _rates(folder: Path) -> Iterator[Remark]:
    history = _json(folder / "rates.json", list)
    if isinstance(history, str):
        yield Remark(f"{folder.name}/rates.json: {history}")
        return
    for index, rates in enumerate(history or []):
        yield from _positive_rates(f"{folder.name}/rates.json: key {index}.", rates)


def _processor(description: Any) -> str | None:
    """The processor as a worker names it; None where the description does not tell all of it."""
    fields = description if isinstance(description, dict) else {}
    vendor, family, model, stepping = (fields.get(name) for name in ("vendor", "family", "model", "stepping"))
    if None in (vendor, family, model, stepping):
        return None
    return f"{vendor} family {family} model {model} stepping {stepping}"


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
    if not record.invocations:
        yield Remark(f"{name}: key invocations is empty")


def _invocation(run: StoredRun, record: Record, known: Collection[str], processor: str | None) -> Iterator[Remark]:
    """One invocation by itself."""
    invocation, where = run.invocation, run.where
    if not TIME.fullmatch(invocation.started):
        yield Remark(f"{where}.started is {invocation.started!r}, not a time like 2026-01-02T03:04:05Z")
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
        if invocation.code not in known:
            yield Remark(f"{where}.code is {invocation.code!r}, sources that code.csv does not list")
        if not invocation.protocol.fixed:
            yield Remark(f"{where}.protocol is {invocation.protocol.text!r}: the steps were not fixed beforehand")
    if invocation.result is not None:
        yield from _result(where, record, invocation, processor)


def _result(where: str, record: Record, invocation: Invocation, processor: str | None) -> Iterator[Remark]:
    assert invocation.result
    facts, timing, protocol = invocation.result.facts, invocation.result.timing, invocation.protocol
    if facts.parameters != record.point.work.parameters:
        yield Remark(f"{where}.result.facts.parameters is {facts.parameters}, not {record.point.work.parameters}")
    counted = len(timing.steps_ns) - timing.warmup
    if protocol.fixed:
        wanted, right = f"{protocol.steps}", counted == protocol.steps
    else:
        fewest = min(protocol.steps, protocol.fewest or protocol.steps)
        wanted, right = f"at least {fewest}", counted >= fewest
    if not right or min(timing.first_ns, *timing.steps_ns) <= 0:
        yield Remark(f"{where}.result.timing.steps_ns has {counted} counted steps of {wanted}, all positive")
    ran_on = facts.path.processor
    if invocation.code is not None and processor and ran_on != processor:
        yield Remark(f"{where}.result.facts.path.processor is {ran_on!r}, machine.json says {processor!r}")


# Several files of a machine


def _withdrawn(machine_key: str, withdrawn: list[Withdrawal], runs: list[StoredRun]) -> Iterator[Remark]:
    stored = {(run.stack, run.invocation.started): run for run in runs}
    for number, row in enumerate(withdrawn, 1):
        where = f"{machine_key}/{WITHDRAWN}: row {number}"
        for key in COLUMNS:
            if not getattr(row, key).strip():
                yield Remark(f"{where}: key {key} is empty")
        if run := stored.get((row.stack, row.started)):
            yield Remark(f"{where}: the invocation of {row.started} is still there: {run.where}")
    if withdrawn:
        yield note(f"{machine_key}: {len(withdrawn)} invocations are withdrawn, see {WITHDRAWN}")


def _older(machine_key: str, runs: list[StoredRun], at_least: int) -> Iterator[Remark]:
    """Files that hold only measurements of before the sources were recorded, fewer than are asked for today."""
    few = [
        name
        for name, each in rounds.grouped(runs, lambda run: run.file).items()
        if len(each) < at_least and not each[0].sentinel and not any(run.invocation.code for run in each)
    ]
    if few:
        yield note(f"{machine_key}: {len(few)} files of older records hold fewer than {at_least} runs, first {few[0]}")


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
    """Older measurements have a sentinel somewhere; those of today one a stack and sweep (see rounds)."""
    watches = [run for run in runs if run.sentinel]
    old = [run for run in runs if not run.sentinel and run.invocation.code is None]
    if not watches and (old or not runs):
        yield Remark(f"{machine_key}/{records.SENTINEL}: no sentinel, so nobody can tell noise from a difference")
    seconds: dict[str, dict[object, list[float]]] = {}
    for run in watches:
        result = run.invocation.result
        if result and not run.invocation.disturbed and (steps := result.timing.steps_ns[result.timing.warmup :]):
            alike = (run.invocation.protocol.text, code.same(run.invocation.code), run.invocation.threads)
            seconds.setdefault(run.stack, {}).setdefault(alike, []).append(sum(steps) / len(steps) / 1e9)
    for stack, groups in seconds.items():
        if all(value > 0 for group in groups.values() for value in group):
            noise = statistics.noise(list(groups.values()), 1)
            if noise > LOUD:
                yield note(
                    f"{machine_key}/{records.SENTINEL}/{stack}: two runs of the same thing differ by {noise:.0%}"
                )
