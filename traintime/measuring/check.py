"""Check a folder of measurement files by itself: nothing is run, only read."""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from traintime import paths
from traintime.errors import InputError
from traintime.explain import statistics
from traintime.measuring import machine, stacks
from traintime.measuring.history import WITHDRAWN, Withdrawal, withdrawals
from traintime.measuring.stacks import Stack
from traintime.measuring.worker import process
from traintime.store import code, records
from traintime.store.records import Description, Invocation, Record
from traintime.store.table import ALIKE, row_of

# Two runs of the sentinel further apart than this mean a stack on which hardly anything can be compared.
LOUD = 0.5
PATH_OR_HOST = re.compile(r"(?<![\w.])/(?:home|root|Users|work|content|mnt|tmp)/\w")
MEMORY = {"imported", "built", "first_step", "peak"}
ON_A_GPU = {"device_allocated", "device_reserved", "device_in_use"}  # each framework tells some of them
LOOPS = {"steps": 0, "fit": 4, "epoch": 9}  # that a worker times: short and long ones, an epoch amid them
# Versions that no lock names, of machines whose owners could not choose: a maintainer who trusts others adds them.
BESIDE_THE_LOCKS = {"numpy": {"2.5.2"}, "jax": {"0.11.2"}, "torch": {"2.11.0"}}
ALIASES = {"tensorflow-cpu": "tensorflow", "theano-pymc": "theano"}
CODED_SINCE = "2026-11-21T15:48:00Z"  # from when on every invocation records the sources that measured it
OF_A_SWEEP = ["stack", "workload", "key", "sentinel", "round", "started", "code", "protocol", "again"]
OF_A_SWEEP += ["file", "where", "settled", "rates_off"]
Read = TypeVar("Read")


@dataclass(frozen=True)
class Remark:
    """One sentence about a folder. fault: something to mend; otherwise a note, so that nothing is silent."""

    sentence: str
    fault: bool = True


note = functools.partial(Remark, fault=False)


def findings(root: Path, at_least: int = 3) -> Iterator[Remark]:
    """Faults and notes of the folder, machine by machine: one sentence each, of a fault with its file and key.

    at_least: rounds that each point of a sweep must have once others have them. A file with a fault is compared with
    no other until it is mended.
    """
    folders = sorted(path for path in root.glob("*") if path.is_dir())
    if not (files := set(records.files(root))):
        yield Remark(f"{root}: no measurement file below it")
    files |= {root / "machines.csv", *(folder / name for folder in folders for name in records.BESIDE)}
    for path in sorted(set(root.rglob("*")) - files):
        if path.is_file():
            yield Remark(f"{path.relative_to(root)}: is no file of measurements; remove it")
    every: list[dict[str, Any]] = []
    for folder in folders:
        faults, withdrawn, rows = _read(folder)
        yield from map(Remark, faults)
        if rows:
            yield from _compared(folder.name, pd.DataFrame(rows), withdrawn, at_least)
        every += rows
    # No two runs ever took the same times, to the nanosecond.
    timed = pd.DataFrame(every, columns=["file", "times"]).dropna()
    timed["first"] = timed.groupby("times")["file"].transform("first")
    for (file, other), copies in timed[timed.duplicated("times")].groupby(["file", "first"]):
        yield Remark(f"{file}: {len(copies)} of its invocations are stored in {other}, too; remove them from one")


def _read(folder: Path) -> tuple[list[str], list[Withdrawal], list[dict[str, Any]]]:
    """Faults of a machine's files, what is withdrawn of it, and a row for each run of the files without a fault."""
    faults, rows, known = [], [], code.known()

    def read(reader: Callable[[Path], Read], path: Path) -> Read | None:
        try:
            return reader(path) if path.exists() else None
        except InputError as error:
            faults.append(f"{error.value}: {error.problem}. {error.remedy}")
            return None

    read(records.rated, folder / "rates.json")
    withdrawn = read(withdrawals, folder) or []
    description = read(records.described, folder / "machine.json")
    if not (folder / "machine.json").exists():
        faults.append(f"{folder.name}/machine.json: missing; run traintime machine --to {folder.parent}")
    if description:
        # Family and model are part of it, so that a machine's key follows from its description.
        keys = [make(description.model_dump()) for make in (machine.key, machine.further_key)]
        if description.machine != folder.name or folder.name not in keys:
            faults.append(f"{folder.name}/machine.json: describes {keys[0]!r} under the name {description.machine!r}")
    for path in records.files(folder.parent, folder.name):
        if record := read(records.read, path):
            name, sentinel = records.name_of(path), records.is_sentinel(path)
            runs = [(f"key invocations.{number}", run) for number, run in enumerate(record.invocations)]
            found = list(_of_file(path, record)) or [
                f"{where}.{fault}" for where, run in runs for fault in _of_run(record, run, description, known)
            ]
            faults += [f"{name}: {fault}" for fault in found]
            for where, run in runs if not found else ():
                timing = run.result and run.result.timing
                times = timing and (timing.first_ns, *timing.steps_ns)
                more = {"file": name, "where": f"{name}: {where}", "sentinel": sentinel, "times": times}
                more |= {"settled": run.settled, "rates_off": run.rates_off}
                rows.append(row_of(record, run) | more)
    return faults, withdrawn, rows


def _of_file(path: Path, record: Record) -> Iterator[str]:
    """What contradicts the file's place, or cannot be measured at all."""
    own = (record.machine, record.stack, record.point.key, records.is_sentinel(path))
    belongs = records.file_of(Path(), *own).as_posix()
    if belongs != records.name_of(path) or record.key != record.point.key:
        yield f"belongs at {belongs} by its machine, stack and configuration, and its key is {record.key!r}"
    try:
        stacks.refuse_impossible(record.point, stacks.get(record.stack))
    except InputError as error:
        yield f"cannot have been measured: {error}"
    if not record.invocations:
        yield "key invocations is empty"


def _of_run(
    record: Record, run: Invocation, description: Description | None, known: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """What is wrong with one run by itself: the key in it, and what it contradicts."""
    stack, point, asked = stacks.get(record.stack), record.point, record.point.run
    listed, of = known.get(run.code or "", {}), (point.workload, stack.api)
    if (run.code or run.started >= CODED_SINCE) and (listed.get("workload"), listed.get("api")) != of:
        yield f"code is {run.code!r}, which code.csv does not list for {point.workload} on {stack.api}"
    if PATH_OR_HOST.search(run.error or ""):
        yield "error holds a path of somebody's machine"
    ok = run.status == "ok"
    if ok != (run.result is not None) or ok == bool(run.error):
        yield f"status is {run.status!r}: to 'ok' belongs a result, to any other an error"
    equal: dict[str, tuple[object, object]] = {"shared": (run.shared, 0)}
    if description:
        equal["threads"] = (run.threads, asked.threads or description.cores)
        if asked.device == "gpu" and not description.gpus:
            yield "result is of a GPU, and machine.json lists none"
    if result := run.result:
        facts, timing = result.facts, result.timing
        equal["result.facts.parameters"] = (facts.parameters, point.work.parameters)
        equal["result.facts.versions"] = (sorted(facts.versions), sorted(stack.packages))
        if run.protocol.fixed:
            equal["number of result.timing.steps_ns"] = (len(timing.steps_ns), timing.warmup + run.protocol.steps)
        if run.code and description:
            numbers = [description.vendor, description.family, description.model, description.stepping]
            processor = "{} family {} model {} stepping {}".format(*numbers)  # as a worker names it
            if None not in numbers:
                equal["result.facts.path.processor"] = (facts.path.processor, processor)
        loops = [loop.sentences for loop in result.loops]
        lines = {"steps": [], "fit": [loops], "epoch": [loops[:4], loops[5:]]}[asked.loop]
        if len(loops) != LOOPS[asked.loop] or any(len(set(line)) < 2 for line in lines):
            yield f"result.loops has {len(loops)} of {LOOPS[asked.loop]} for {asked.loop}, short and long ones in turn"
        memory = {name for name, size in result.memory.items() if size or name not in MEMORY}
        if not MEMORY <= memory <= MEMORY | ON_A_GPU or bool(memory - MEMORY) != (asked.device == "gpu"):
            yield f"result.memory has {', '.join(sorted(memory))} above 0 bytes, not what a {asked.device} has"
        try:  # what a worker refuses to measure in the first place
            job = {"backend": stack.backend, "run": asked.model_dump(), "threads": run.threads}
            process.check_facts(job, facts.model_dump())
        except RuntimeError as error:
            yield f"result.facts: {error}"
        for package, version in facts.versions.items():
            accepted = accepted_versions(stack).get(package, set())
            if accepted and version.partition("+")[0] not in accepted:
                has = f"{stack.name} is known with {', '.join(sorted(accepted))}"
                remedy = "measure with the locked ones, or have a maintainer list it in traintime/measuring/check.py"
                yield f"result.facts.versions.{package} is {version!r}, {has}; {remedy}"
    for key, (found, wanted) in equal.items():
        if found != wanted:
            yield f"{key} is {found!r}, not {wanted!r}"


@functools.cache
def accepted_versions(stack: Stack) -> dict[str, set[str]]:
    """Versions that the stack may have: what its locks name, and of today's stacks a few more. Colab has its own."""
    if stack.colab:
        return {}
    locks = [paths.ROOT / "requirements.txt", paths.LOCKS / "torch.txt", paths.LOCKS / "gpu.txt"]
    if stack.python and stack.lock:
        locks = [paths.LOCKS / stack.lock]
    found = {} if stack.python else {package: set(versions) for package, versions in BESIDE_THE_LOCKS.items()}
    text = "\n".join(path.read_text() for path in locks if path.exists())
    for package, version in re.findall(r"^([a-z-]+)==([\w.]+)", text, re.MULTILINE):
        found.setdefault(ALIASES.get(package, package), set()).add(version)
    return found


def _compared(name: str, runs: pd.DataFrame, withdrawn: list[Withdrawal], at_least: int) -> Iterator[Remark]:
    """What there is to say of a machine's sweeps, and of how well its runs can be compared."""
    for each in withdrawn:
        for where in runs["where"][(runs["stack"] == each.stack) & (runs["started"] == each.started)]:
            yield Remark(f"{where} is still there, and {WITHDRAWN} names it; take it out of one of them")
    if withdrawn:
        yield note(f"{name}: {len(withdrawn)} invocations are withdrawn, see {WITHDRAWN}")
    gone = Counter((each.stack, each.key) for each in withdrawn)
    # Those that did not record their sources were made by other rules.
    for sweep, group in runs[runs["code"] != ""].groupby("sweep", sort=False):
        yield from _sweep(name, f"the sweep {sweep}", group[OF_A_SWEEP], gone, at_least)
    for column in runs.columns.intersection(ALIKE):
        ways = runs[~runs["sentinel"]].groupby("file")[column].nunique()
        if len(mixed := ways.index[ways > 1]):
            rest = f"differ in the table's column {column}, which keeps them apart, first {mixed[0]}"
            yield note(f"{name}: {len(mixed)} files mix runs that {rest}")
    quiet = runs[runs["sentinel"] & (runs["status"] == "ok") & ~runs["disturbed"]]
    for stack, group in quiet.groupby("stack"):
        alike = group.groupby(["protocol", "code", "threads"], sort=False)["step_s"].agg(list)
        if (noise := statistics.noise(alike, 1)) > LOUD:
            yield note(f"{name}/{records.SENTINEL}/{stack}: two runs of the same thing differ by {noise:.0%}")


def _sweep(
    name: str, sweep: str, runs: pd.DataFrame, gone: Mapping[tuple[str, str], int], at_least: int
) -> Iterator[Remark]:
    """Whether a sweep was what the method asks for: nothing done twice, interleaved, complete.

    It is what the newest sources of each stack measured; what older ones did is kept, and compared with nothing.
    """
    runs = runs.sort_values(["started", "round"], kind="stable")
    newest = runs[runs["code"] == runs.groupby(["stack", "workload"])["code"].transform("last")]
    if off := runs["rates_off"].sum():
        yield note(f"{name}: {off} invocations of {sweep} ran while the machine's rates had left their range")
    for file, protocols in newest.groupby("file")["protocol"].unique().items():
        if len(protocols) > 1:
            yield Remark(f"{file}: key invocations has several protocols in {sweep}: {', '.join(protocols)}")
    # What crashed or was disturbed is run once more, and nothing else is, least of all for its value.
    attempts = newest.groupby(["file", "round"])
    settled_before = attempts["settled"].cumsum() > newest["settled"]
    for run in newest[settled_before | (attempts.cumcount() > 1)].itertuples():
        yield Remark(f"{run.where}: round {run.round} of {sweep} has it already")
    waiting = newest[~newest["settled"] & (attempts["settled"].transform("size") == 1)].sort_index()
    if len(waiting):
        first = waiting["where"].iloc[0]
        yield note(f"{name}: {len(waiting)} invocations of {sweep} have no repeat yet, first {first}")
    points = newest[~newest["sentinel"]]
    if points.empty:
        return
    # Both sides of a comparison stand in one round, and no other round of the sweep lies between them in time. Repeats
    # are left out: a sweep that was killed does them first when it goes on.
    firsts = points[~points["again"]]
    for number, late in firsts[firsts["round"] < firsts["round"].cummax()].groupby("round"):
        run, of = late.iloc[-1], (firsts["round"] == number).sum()
        yield Remark(
            f"{run['where']}.started is {run['started']}, in round {number} of {sweep}, after a later round had begun:"
            f" {len(late)} of the round's {of} runs are not interleaved with what they are compared with"
        )
    # A round is closed once a later one has begun; what the last one lacks may be on its way.
    rounds = points.groupby(["file", "stack", "key"])["round"].agg(set)
    *closed, last = sorted(set(points["round"]))
    for (file, stack, key), own in rounds.items():
        if missing := sorted(set(closed) - own):
            enough = len(own) >= at_least or len(missing) <= gone[stack, key]
            yield Remark(f"{file}: key invocations lacks round {', '.join(map(str, missing))} of {sweep}", not enough)
    in_last = sum(last in own for own in rounds)
    whole = len(closed) + (in_last == len(rounds))
    if in_last < len(rounds) or whole < at_least:
        under_way = f"round {last} has {in_last} of {len(rounds)} configurations"
        yield note(f"{name}: {sweep} is unfinished: {under_way}; whole rounds {whole} of {at_least} at least")
