"""Check a folder of measurement files by itself: nothing is run, only read."""

import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from traintime import paths
from traintime.errors import InputError
from traintime.explain import statistics
from traintime.measuring import machine, stacks
from traintime.measuring.history import WITHDRAWN, Withdrawal, withdrawals
from traintime.measuring.stacks import Stack
from traintime.measuring.worker import process
from traintime.point import Point
from traintime.store import code, records
from traintime.store.records import Description, Invocation, Record, Result

# Two runs of the sentinel further apart than this mean a stack on which hardly anything can be compared.
LOUD = 0.5
LONG_PAUSE = 3600.0  # seconds between two starts of one round that a reader should know of
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
    "versions": lambda invocation: invocation.result and str(sorted(invocation.result.facts.versions.items())),
    "path": lambda invocation: invocation.result and invocation.result.facts.path.text,
    "how fit's end was told": lambda invocation: (
        invocation.result and str([loop.trained_ns is not None for loop in invocation.result.loops])
    ),
}


@dataclass(frozen=True)
class Remark:
    """One sentence about a folder. fault: something to mend; otherwise a note, so that nothing is silent."""

    sentence: str
    fault: bool = True


def note(sentence: str) -> Remark:
    """A remark that is no fault."""
    return Remark(sentence, False)


@dataclass(frozen=True)
class StoredRun:
    """One stored invocation with its place: the file's name, its number in it, and the point on its stack."""

    file: str
    index: int
    stack: str
    key: str
    point: Point
    sentinel: bool
    invocation: Invocation

    @property
    def where(self) -> str:
        """File and key, as every sentence begins."""
        return f"{self.file}: key invocations.{self.index}"

    @property
    def thing(self) -> tuple[bool, str, str]:
        """What was run: two runs of one thing are repeats."""
        return self.sentinel, self.stack, self.key

    @property
    def kind(self) -> tuple[str, str]:
        """What has sources of its own: stack and workload. The sentinel is always of one workload."""
        return self.stack, self.key.partition("-")[0]

    @property
    def sources(self) -> str | None:
        """The oldest sources that do the same as those that measured."""
        return code.same(self.invocation.code)


def _grouped(runs: Iterable[StoredRun], key: Callable[[StoredRun], Hashable]) -> dict[Hashable, list[StoredRun]]:
    """The runs by what the key makes of them, in their order."""
    groups: dict[Hashable, list[StoredRun]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return groups


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
    """What there is to say of one machine's files, each by itself and all together."""
    name = folder.name
    wrong: list[Remark] = []

    def read(reader: Callable[[Path], Read], path: Path) -> Read | None:
        """What the reader makes of a file that is there; None, and one more remark, where it refuses it."""
        try:
            return reader(path) if path.exists() else None
        except InputError as error:
            wrong.append(Remark(f"{error.value}: {error.problem}. {error.remedy}"))
            return None

    read(records.rated, folder / "rates.json")
    description = read(records.described, folder / "machine.json")
    withdrawn = read(withdrawals, folder) or []
    if not (folder / "machine.json").exists():
        yield Remark(f"{name}/machine.json: missing; run traintime machine --to {folder.parent}")
    if description:
        if description.machine != name:
            yield Remark(f"{name}/machine.json: key machine is {description.machine!r}, the folder is {name!r}")
        # Since family and model are part of it, a machine's key follows from its description.
        keys = [make(description.model_dump()) for make in (machine.key, machine.further_key)]
        if name not in keys:
            yield Remark(f"{name}/machine.json: describes {keys[0]!r}, the folder is {name!r}")
    runs: list[StoredRun] = []
    for path in records.files(folder.parent, name):
        if record := read(records.read, path):
            yield from _record(path, name, record)
            place = (record.stack, record.key, record.point, records.is_sentinel(path))
            for number, each in enumerate(record.invocations):
                runs.append(StoredRun(records.name_of(path), number, *place, each))
                yield from _invocation(runs[-1], known, description)
    yield from wrong
    stored = {(run.stack, run.invocation.started): run.where for run in runs}
    for number, row in enumerate(withdrawn, 1):
        if where := stored.get((row.stack, row.started)):
            yield Remark(f"{name}/{WITHDRAWN}: row {number}: the invocation of {row.started} is still there: {where}")
    if withdrawn:
        yield note(f"{name}: {len(withdrawn)} invocations are withdrawn, see {WITHDRAWN}")
    yield from _sweeps(name, runs, withdrawn, at_least)
    yield from _mixed(name, [run for run in runs if not run.sentinel])
    yield from _sentinels(name, [run for run in runs if run.sentinel])
    yield from _twice(runs, seen)


# One file


def _record(path: Path, machine_key: str, record: Record) -> Iterator[Remark]:
    name = records.name_of(path)
    for key, value in {"machine": machine_key, "key": path.stem, "stack": path.parent.name}.items():
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
    stack = stacks.KNOWN.get(run.stack)
    if version := invocation.code:
        if version not in known:
            yield Remark(f"{where}.code is {version!r}, sources that code.csv does not list")
        for name, value in {"workload": run.point.workload, "api": stack.api if stack else None}.items():
            if value and (of := known.get(version, {}).get(name, value)) != value:
                yield Remark(f"{where}.code is {version!r}, sources for the {name} {of}, not {value}")
        if not invocation.protocol.fixed:
            yield Remark(f"{where}.protocol is {invocation.protocol.text!r}: the steps were not fixed beforehand")
    elif invocation.started >= CODED_SINCE:
        yield Remark(f"{where}.code is missing: nobody can tell what measured it; measure it with the present version")
    if invocation.result is not None:
        yield from _result(run, invocation.result, description)
        if stack:
            yield from _as_asked(run, stack, invocation.result)


def _result(run: StoredRun, result: Result, description: Description | None) -> Iterator[Remark]:
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
    if run.invocation.code and description:
        numbers = [description.vendor, description.family, description.model, description.stepping]
        processor = "{} family {} model {} stepping {}".format(*numbers)  # as a worker names it
        if None not in numbers and facts.path.processor != processor:
            yield Remark(f"{where}.facts.path.processor is {facts.path.processor!r}, machine.json says {processor!r}")


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
    locks = [paths.ROOT / "requirements.txt", paths.LOCKS / "torch.txt", paths.LOCKS / "gpu.txt"]
    if stack.python and stack.lock:
        locks = [paths.LOCKS / stack.lock]
    beside = {} if stack.python else BESIDE_THE_LOCKS
    found: dict[str, set[str]] = {}
    for path in locks:
        text = path.read_text() if path.exists() else ""
        for package, version in re.findall(r"^([a-z-]+)==([\w.]+)", text, re.MULTILINE):
            name = ALIASES.get(package, package)
            found.setdefault(name, set(beside.get(name, ()))).add(version)
    return found


# Several files of a machine


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
    files = _grouped(runs, lambda run: run.file)
    for name, way in WAYS.items():
        mixed = [file for file, group in files.items() if len({way(run.invocation) for run in group} - {None}) > 1]
        if mixed:
            rest = "measured at different times" if name == "sweep" else "kept apart in the table"
            yield note(f"{machine_key}: {len(mixed)} files mix runs that differ in {name}, {rest}, first {mixed[0]}")


def _sentinels(machine_key: str, runs: list[StoredRun]) -> Iterator[Remark]:
    """Stacks on which two runs of the same thing differ widely; that there is a sentinel is said of each sweep."""
    seconds: dict[str, dict[object, list[float]]] = {}
    for run in runs:
        if run.invocation.result and not run.invocation.disturbed:
            timing = run.invocation.result.timing
            steps = timing.steps_ns[timing.warmup :]
            alike = (run.invocation.protocol.text, run.sources, run.invocation.threads)
            seconds.setdefault(run.stack, {}).setdefault(alike, []).append(sum(steps) / len(steps) / 1e9)
    for stack, groups in seconds.items():
        if (noise := statistics.noise(list(groups.values()), 1)) > LOUD:
            yield note(f"{machine_key}/{records.SENTINEL}/{stack}: two runs of the same thing differ by {noise:.0%}")


# Sweeps


def _sweeps(machine_key: str, runs: list[StoredRun], withdrawn: list[Withdrawal], at_least: int) -> Iterator[Remark]:
    """Whether sweeps were what the method asks for: interleaved, repeated where disturbed, complete.

    Only invocations that recorded the sources that measured them are held to it; older ones were made by other rules.
    """
    coded = [run for run in runs if run.invocation.code]
    for group in _grouped(coded, lambda run: (run.thing, run.invocation.sweep, run.sources)).values():
        usual = group[0].invocation.protocol
        for run in group:
            if (protocol := run.invocation.protocol) != usual:
                own, others = (f"{each.text} within {each.timeout_s:g} s" for each in (protocol, usual))
                sweep = run.invocation.sweep
                yield Remark(f"{run.where}.protocol is {own}, others of the sweep {sweep} have {others}")
    gone = Counter((row.stack, row.key) for row in withdrawn)
    for name, group in _grouped(coded, lambda run: run.invocation.sweep).items():
        yield from _sweep(machine_key, f"the sweep {name}", group, gone, at_least)


def _sweep(
    machine_key: str, sweep: str, runs: list[StoredRun], gone: Counter[tuple[str, str]], at_least: int
) -> Iterator[Remark]:
    """One sweep: what the newest sources of each stack measured; what older ones did is kept, and compared with none.

    A round is closed once a later one has begun; what the last one lacks may be on its way.
    """
    codes = {run.kind: run.sources for run in sorted(runs, key=lambda run: run.invocation.started)}
    newest = [run for run in runs if run.sources == codes[run.kind]]
    if older := len(runs) - len(newest):
        yield note(f"{machine_key}: {older} invocations of {sweep} were measured by older sources than the rest")
    if off := sum(run.invocation.rates_off for run in runs):
        yield note(f"{machine_key}: {off} invocations of {sweep} ran while the machine's rates had left their range")
    times: Counter[Hashable] = Counter()
    for run in newest:
        place = (run.thing, run.invocation.round, run.invocation.again)
        times[place] += 1
        if times[place] == 2:
            again = " again" if run.invocation.again else ""
            yield Remark(f"{run.where}: round {run.invocation.round} of {sweep} has it{again} already")
    points = [run for run in newest if not run.sentinel]
    last = max((run.invocation.round for run in points), default=0)
    yield from _repeats(machine_key, sweep, newest, gone, {run.invocation.round for run in points} - {last})
    yield from _interleaved(machine_key, sweep, [run for run in points if not run.invocation.again])
    yield from _complete(machine_key, sweep, points, gone, at_least)
    watched = {run.stack for run in runs if run.sentinel}
    for stack in sorted({run.stack for run in points if run.invocation.round < last} - watched):
        yield Remark(f"{machine_key}/sentinel/{stack}: no run in {sweep}, so nobody can tell drift")


def _repeats(
    machine_key: str, sweep: str, runs: list[StoredRun], gone: Counter[tuple[str, str]], closed: set[int]
) -> Iterator[Remark]:
    """What crashed or was disturbed is run once more in its round, and nothing else is, least of all for its value.

    A sentinel that was disturbed at the end of a killed sweep stays as it is: the resumed sweep needs it no more. What
    lost time to its host before that counted is waited for, and no error.
    """
    waiting = []
    for group in _grouped(runs, lambda run: (run.thing, run.invocation.round)).values():
        number = group[0].invocation.round
        first = next((run for run in group if not run.invocation.again), None)
        again = next((run for run in group if run.invocation.again), None)
        if again and first is None:
            if (again.stack, again.key) not in gone:
                yield Remark(f"{again.where}.again is true, but round {number} of {sweep} has nothing it repeats")
        elif again and first and first.invocation.settled:
            yield Remark(f"{again.where}.again is true, but what it repeats neither crashed nor was disturbed")
        elif first and not again and not first.invocation.settled:
            if number in closed and not first.sentinel and not first.invocation.stolen_before_it_counted:
                happened = "was disturbed" if first.invocation.disturbed else first.invocation.status
                yield Remark(f"{first.where} {happened}, and round {number} of {sweep} has no repeat of it")
            else:
                waiting.append(first)
    if waiting:
        yield note(f"{machine_key}: {len(waiting)} invocations of {sweep} have no repeat yet, first {waiting[0].where}")


def _interleaved(machine_key: str, sweep: str, firsts: list[StoredRun]) -> Iterator[Remark]:
    """Both sides of a comparison stand in one round, and no other round of the sweep lies between them in time.

    A killed sweep goes on with the round that it was in, so the rule holds for it; the pause is noted. What was
    disturbed is repeated within its round or, after a kill, as the first thing later: repeats are left out.
    """
    in_time = sorted(firsts, key=lambda run: run.invocation.started)
    for number in sorted({run.invocation.round for run in firsts}):
        group = [run for run in in_time if run.invocation.round == number]
        following = next((run for run in in_time if run.invocation.round > number), None)
        late = [run for run in group if following and run.invocation.started > following.invocation.started]
        if following and late:
            last, begin = late[-1], following.invocation.started
            yield Remark(
                f"{last.where}.started is {last.invocation.started}, in round {number} of {sweep}, after round"
                f" {following.invocation.round} had begun ({begin}): {len(late)} of the round's {len(group)} runs are"
                " not interleaved with what they are compared with"
            )
        times = [datetime.fromisoformat(run.invocation.started) for run in group]
        pause = max(((b - a).total_seconds() for a, b in itertools.pairwise(times)), default=0.0)
        if pause > LONG_PAUSE:
            yield note(f"{machine_key}: round {number} of {sweep} was interrupted for {pause / 3600:.1f} hours")


def _complete(
    machine_key: str, sweep: str, points: list[StoredRun], gone: Counter[tuple[str, str]], at_least: int
) -> Iterator[Remark]:
    """Every closed round has every point of the sweep; a point that has enough rounds all the same is only noted."""
    every = {run.invocation.round for run in points}
    last = max(every, default=0)
    things = list(_grouped(points, lambda run: run.thing).values())
    for group in things:
        rounds = {run.invocation.round for run in group}
        if missing := sorted(every - {last} - rounds):
            which = f"round{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
            enough = len(rounds) >= at_least or len(missing) <= gone[group[0].stack, group[0].key]
            yield Remark(f"{group[0].file}: key invocations lacks {which} of {sweep}", fault=not enough)
    in_last = sum(any(run.invocation.round == last for run in group) for group in things)
    whole = len(every - {last}) + (in_last == len(things))
    if things and (in_last < len(things) or whole < at_least):
        under_way = f"round {last} has {in_last} of {len(things)} configurations"
        yield note(f"{machine_key}: {sweep} is unfinished: {under_way}; whole rounds {whole} of {at_least} at least")
