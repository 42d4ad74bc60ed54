"""Check a folder of measurement files by itself: nothing is run, only read."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from traintime import counts, stacks, store, summary
from traintime.errors import InputError

# Two runs of the sentinel further apart than this mean a machine on which nothing can be compared.
LOUDEST_NOISE = 0.5
PATH_OR_HOST = re.compile(r"(?<![\w.])/(?:home|root|Users|work|content|mnt|tmp)/\w")


def problems(root: Path, at_least: int = 3) -> Iterator[str]:
    """Everything wrong in the folder, one sentence each, naming file and key; nothing when all is well.

    at_least: invocations that a published point must have.
    """
    if not any(store.files(root)):
        yield f"{root}: no measurement file below it"
    for folder in sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []:
        yield from _machine(folder)
        for path in store.files(root, folder.name):
            yield from _file(path, folder.name, at_least)
        yield from _sentinel(root, folder.name)


def _machine(folder: Path) -> Iterator[str]:
    path = folder / "machine.json"
    if not path.exists():
        yield f"{folder.name}/machine.json: missing; run traintime machine --to {folder.parent}"
        return
    try:
        raw = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        yield f"{folder.name}/machine.json: is not whole JSON ({error})"
        return
    if not isinstance(raw, dict):
        yield f"{folder.name}/machine.json: is no JSON object"
        return
    for key in ("schema_version", "machine", "cpu", "cores", "memory_bytes", "kernel", "rates"):
        if key not in raw:
            yield f"{folder.name}/machine.json: key {key} is missing"
    if raw.get("machine") != folder.name:
        yield f"{folder.name}/machine.json: key machine is {raw.get('machine')!r}, the folder is {folder.name!r}"
    rates = raw.get("rates") if isinstance(raw.get("rates"), dict) else {}
    for rate in ("bandwidth_bytes_per_s", "matmul_flop_per_s"):
        if not isinstance(rates.get(rate), int | float) or not rates[rate] > 0:
            yield f"{folder.name}/machine.json: key rates.{rate} is not a positive number"


def _file(path: Path, machine: str, at_least: int) -> Iterator[str]:
    name = store.name_of(path)
    try:
        record = store.read(path)
    except InputError as error:
        yield f"{name}: {error.problem}"
        return
    expected = {"machine": machine, "key": path.stem, "stack": path.parent.name}
    for key, value in expected.items():
        if getattr(record, key) != value:
            yield f"{name}: key {key} is {getattr(record, key)!r}, its place says {value!r}"
    if record.point.key != record.key:
        yield f"{name}: key point describes {record.point.key!r}"
    if record.stack not in stacks.ALL:
        yield f"{name}: key stack is {record.stack!r}, which is no known stack"
    if len(record.invocations) < at_least:
        yield f"{name}: key invocations has {len(record.invocations)} of at least {at_least}"
    seen: dict[str, object] = {}
    for index, invocation in enumerate(record.invocations):
        where = f"{name}: key invocations.{index}"
        if leak := PATH_OR_HOST.search(invocation.error or ""):
            yield f"{where}.error holds a path of somebody's machine near {leak.group()!r}"
        if (invocation.status == "ok") != (invocation.result is not None):
            yield f"{where}.status is {invocation.status!r}, its result says otherwise"
        if invocation.status != "ok" and not invocation.error:
            yield f"{where}.error is missing: a failure must say what happened"
        if invocation.result is None:
            continue
        facts, timing = invocation.result.facts, invocation.result.timing
        if facts.parameters != counts.parameters(record.point):
            yield f"{where}.result.facts.parameters is {facts.parameters}, not {counts.parameters(record.point)}"
        counted = len(timing.steps_ns) - timing.warmup
        fewest = min(invocation.protocol.steps, invocation.protocol.fewest)
        if counted < fewest or min(timing.steps_ns, default=0) <= 0:
            yield f"{where}.result.timing.steps_ns has {counted} counted steps of at least {fewest}, all positive"
        for key, value in {"versions": facts.versions, "threads": invocation.threads}.items():
            if seen.setdefault(key, value) != value:
                yield f"{where}: {key} {value} differ from {seen[key]} in the same file; never pool them"


def _sentinel(root: Path, machine: str) -> Iterator[str]:
    try:
        sentinel = store.table(root, machine, sentinel=True)
    except InputError:
        return  # named above
    noise = summary.noise_floor(sentinel)
    if not len(sentinel):
        yield f"{machine}/{store.SENTINEL}: no sentinel, so nobody can tell noise from a difference"
    elif noise > LOUDEST_NOISE:
        limit = f"more than {LOUDEST_NOISE:.0%}"
        yield f"{machine}/{store.SENTINEL}: two runs of the same thing differ by {noise:.0%}, {limit}"
