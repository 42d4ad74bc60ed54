"""Rounds of points in random order: what is to be measured, what is done already, what comes next."""

import bisect
import contextlib
import hashlib
import itertools
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import filelock
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from traintime import paths
from traintime.errors import LARGEST, InputError, unknown
from traintime.explain import memory
from traintime.measuring import allocators, machine, stacks
from traintime.measuring.measure import LOCK, measure, threads_of
from traintime.measuring.protocol import Protocol
from traintime.measuring.stacks import Stack
from traintime.point import Point, make_point
from traintime.store import code, records
from traintime.workloads.base import validated

SEED = 2017
ROUNDS = 5  # that a figure needs
WAVES = (3, *range(ROUNDS, 100, ROUNDS))  # every sweep gets three rounds, enough to explore, before any gets five
NAME = TypeAdapter(records.SweepName)
ATTEMPTS = 2  # of one invocation that crashed or was disturbed


class Entry(BaseModel):
    """A sweep in a profile: what is not of a point or its stacks; those, a value or a list each, are further fields."""

    model_config = ConfigDict(extra="allow", strict=True)

    rounds: int = Field(default=ROUNDS, gt=0, le=1000)
    protocol: dict[str, Any] = {}
    beyond_memory: bool = False
    also: list[dict[str, Any]] = []


@dataclass(frozen=True)
class Plan:
    """A sweep as a profile names it: every combination of the listed values on every listed stack.

    What is compared belongs to one sweep: each round measures all of its points, so that both sides
    of a comparison follow each other in time. A point that two sweeps share is measured in both. sentinels: whether
    each stack's sentinel is run as well.
    """

    name: str
    pairs: list[tuple[Point, Stack]]
    rounds: int
    protocol: Protocol
    beyond_memory: bool = False
    sentinels: bool = True

    @classmethod
    def from_profile(cls, name: str, fields: dict[str, Any]) -> "Plan":
        """Read one entry of a profile's `sweeps`; unknown names and bad sizes raise InputError.

        In addition to lists of a point's fields, and of stacks, it may have `also`: more such sets, each joined to the
        others' values, for what does not follow from combining everything with everything (frozen, and under SGD).
        """
        try:
            NAME.validate_python(name)
        except ValidationError:
            remedy = "Begin with a letter or a digit; take those, spaces and any of . _ + : , × - for the rest."
            raise InputError("sweep", name, "is no name that a file can hold", remedy) from None
        entry = validated(Entry, fields, "field of a sweep")
        protocol = validated(Protocol, entry.protocol, "field of a protocol")
        where = f"the sweep {name}"
        pairs: dict[tuple[str, str], tuple[Point, Stack]] = {}
        for extra in [{}, *entry.also]:
            wanted = {"stacks": list(stacks.ALL)} | (entry.model_extra or {}) | extra
            for row in combinations(wanted, where):
                stack, point = stacks.get(row.pop("stacks")), make_point(**row)
                stacks.refuse_impossible(point, stack)
                pairs.setdefault((stack.name, point.key), (point, stack))
        return cls(name, [pairs[key] for key in sorted(pairs)], entry.rounds, protocol, entry.beyond_memory)

    @property
    def points(self) -> list[Point]:
        """Every point of the sweep once."""
        return list({point.key: point for point, _ in self.pairs}.values())

    @property
    def stacks(self) -> list[Stack]:
        """Every stack of the sweep once."""
        return list({stack.name: stack for _, stack in self.pairs}.values())

    def order(self, number: int, seed: int = SEED) -> "list[Task]":
        """One round: each point on each stack once, in random order, the stacks' sentinels at even distances.

        A sentinel is a fixed point, small and on the sweep's device: it shows drift and disturbance.
        """
        tasks = [Task(self, number, *pair) for pair in self.pairs]
        shuffle = random.Random(f"{seed} {self.name} {number}")
        shuffle.shuffle(tasks)
        point = make_point(vocabulary=20_000, device=self.points[0].run.device)
        watches = [Task(self, number, point, stack, sentinel=True) for stack in self.stacks if self.sentinels]
        shuffle.shuffle(watches)
        between = len(tasks) / len(watches) if watches else 0
        for place, watch in enumerate(watches):
            tasks.insert(round((place + 0.5) * between) + place, watch)
        return tasks


@dataclass(frozen=True)
class Task:
    """One invocation to be done: a point on a stack in a round of a sweep. again: it was disturbed, or crashed."""

    plan: Plan
    round: int
    point: Point
    stack: Stack
    sentinel: bool = False
    again: bool = False

    @property
    def sweep(self) -> str:
        """The sweep's name."""
        return self.plan.name

    @property
    def protocol(self) -> Protocol:
        """The sweep's own; of a sentinel always the usual one."""
        return Protocol() if self.sentinel else self.plan.protocol

    def path(self, root: Path, machine_key: str) -> Path:
        """The file that takes the invocation."""
        return records.file_of(root, machine_key, self.stack.name, self.point.key, self.sentinel)

    def attempted_by(self, invocation: records.Invocation) -> bool:
        """Whether the stored invocation is an attempt at this task: same sweep, round, sources and steps."""
        same = (self.sweep, self.round, self.protocol.steps)
        if (invocation.sweep, invocation.round, invocation.protocol.steps) != same:
            return False
        if invocation.status == "missing":
            return False
        return code.same(invocation.code) == code.same(code.current(self.point.workload, self.stack.api))


def combinations(fields: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """Every combination of the values of these fields, one or a list each; where: the profile's entry that has them.

    Raises InputError for an empty list, and for what is no single value.
    """
    lists = {key: value if isinstance(value, list) else [value] for key, value in fields.items()}
    for key, values in lists.items():
        if not values:
            raise InputError(key, values, f"is empty in {where}", "Name at least one value.")
        for value in values:
            if isinstance(value, list | dict):
                raise InputError(key, value, f"is no single value in {where}", "List single values.")
            if isinstance(value, int) and abs(value) > LARGEST:
                problem = f"has {len(str(abs(value)))} digits in {where}"
                raise InputError(key, value, problem, f"Give at most {LARGEST:,}.")
    yield from (dict(zip(lists, row, strict=True)) for row in itertools.product(*lists.values()))


def load_profile(name: str) -> dict[str, Any]:
    """A profile's settings, which are the sizes that a command or a chapter runs at.

    Raises InputError for an unknown one, and for a file that holds no settings.
    """
    path = paths.of_checkout(paths.PROFILES) / f"{name}.yaml"
    import yaml  # here: a prediction reads no profile

    known = sorted(p.stem for p in paths.PROFILES.glob("*.yaml"))
    if name not in known:
        raise unknown("profile", name, known)
    try:
        value = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = f"is not whole YAML ({' '.join(str(error).split())})"
        raise InputError("profile", name, problem, f"Correct {path.name}.") from None
    return settings("profile", name, value)


def settings(kind: str, name: str, value: Any) -> dict[str, Any]:
    """The value, where it is a mapping from names; raises InputError for anything else."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        what = "is empty" if value is None else f"holds {type(value).__name__}, no names with values"
        raise InputError(kind, name, what, "Give names with values, as the book's own profiles do.")
    return value


def plans(profile: str, only: list[str] | None = None) -> list[Plan]:
    """The sweeps of a profile in its order, all or only the named ones."""
    sweeps = settings("sweeps", profile, load_profile(profile).get("sweeps", {}))
    for name in only or []:
        if name not in sweeps:
            raise unknown("sweep", name, sorted(sweeps))
    return [Plan.from_profile(name, settings("sweep", name, sweeps[name])) for name in only or sweeps]


def outstanding(plans: list[Plan], root: Path, machine_key: str) -> list[Task]:
    """What is left to do: the first rounds of every sweep in their order, then the further rounds of those that ask.

    A task is done when an undisturbed attempt, or one that ran out of memory or time, is in its file, and given up
    after two attempts. A stack or an allocator that is missing here is left out; adding it later completes the sweep.
    """
    present = {stack.name: stack.present for plan in plans for stack in plan.stacks}
    files: dict[Path, list[records.Invocation]] = {}
    rounds = [(plan, number) for plan in plans for number in range(1, plan.rounds + 1)]
    rounds.sort(key=lambda each: bisect.bisect_left(WAVES, each[1]))
    left = []
    for plan, number in rounds:
        for task in plan.order(number):
            if not present[task.stack.name] or not allocators.present(task.point.run.allocator):
                continue
            path = task.path(root, machine_key)
            if path not in files:
                files[path] = records.read(path).invocations if path.exists() else []
            attempts = [each for each in files[path] if task.attempted_by(each)]
            if len(attempts) < ATTEMPTS and not any(each.settled for each in attempts):
                left.append(replace(task, again=bool(attempts)))
    # A round whose points are all there needs no sentinel any more.
    open_rounds = {(task.sweep, task.round) for task in left if not task.sentinel}
    return [task for task in left if not task.sentinel or (task.sweep, task.round) in open_rounds]


@dataclass
class SweepProgress:
    """How far a sweep is, and how long the rest will take by the invocations so far."""

    total: int
    finished: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def left_s(self) -> float | None:
        """Expected seconds to the end; None before the first invocation."""
        return sum(self.seconds) / len(self.seconds) * (self.total - self.finished) if self.seconds else None


def run(
    plans: list[Plan],
    root: Path,
    *,
    report: Callable[[Task, SweepProgress, dict[str, Any] | None], None] = lambda task, progress, record: None,
    warn: Callable[[str], None] = lambda sentence: None,
    within_s: float = float("inf"),
    measure: Callable[..., dict[str, Any]] = measure,
    rates: Callable[[], dict[str, Any]] = machine.rates,
) -> SweepProgress:
    """Do what is outstanding and store each invocation as soon as it ends.

    report: called before each invocation (record None) and after it; warn: with a sentence where the machine's rates
    have left their range; within_s: start no invocation after so many seconds; measure, rates: what measures a point in
    a process of its own, and the machine's rates. What crashed, or was disturbed, is done once more at the end of its
    round.
    Raises InputError before anything is started where the folder cannot be written, or another sweep measures into it,
    or where a point cannot run or fit here.
    """
    machine_key = machine.this(root)
    end = time.monotonic() + within_s
    with _alone(root / machine_key):
        records.clear(root / machine_key)
        tasks = outstanding(plans, root, machine_key)
        devices = {task.point.run.device for task in tasks}
        for device in devices:
            machine.refuse_missing(device)
        available = {device: machine.free_memory(device) for device in devices}
        for task in tasks:
            threads_of(task.point)
            if task.sentinel or not task.plan.beyond_memory:
                memory.refuse_beyond_memory(task.point, task.stack.name, available[task.point.run.device])
        for folder in {task.path(root, machine_key).parent for task in tasks} | {task.stack.state for task in tasks}:
            records.check_writable(folder)
        progress = SweepProgress(len(tasks))
        for _, round_tasks in itertools.groupby(tasks, key=lambda task: (task.sweep, task.round)):
            # Anew for each round: on a shared host the memory's rate has nearly doubled within a quarter of an hour.
            rates_off = describe_machine(root, machine_key, rates)
            for sentence in rates_off:
                warn(sentence)
            queue = list(round_tasks)
            for task in queue:  # grows while it is gone through
                if time.monotonic() >= end:
                    return progress
                report(task, progress, None)
                start = time.monotonic()
                record = measure(task.point, task.stack, task.protocol)
                record |= {"sweep": task.sweep, "round": task.round, "seed": SEED, "again": task.again}
                record |= {"rates_off": bool(rates_off)}
                path = task.path(root, machine_key)
                stored = records.append(path, machine_key, task.stack.name, task.point, record)
                if not stored.settled and not task.again:
                    queue.append(replace(task, again=True))
                    progress.total += 1
                progress.finished += 1
                progress.seconds.append(time.monotonic() - start)
                report(task, progress, record)
    return progress


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder of a machine's measurements; raises InputError where another process's sweep does.

    Two at once would each measure what the other has begun, and one's rounds would run into the other's.
    """
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    lock = filelock.FileLock(Path(tempfile.gettempdir()) / f"traintime-sweep-{digest}.lock", mode=0o666)
    file = Path(lock.lock_file)
    holder = file.read_text() if file.exists() else ""
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        problem = f"is measured into by process {holder or '(number unknown)'}"
        raise InputError("folder", str(folder), problem, "Wait until that ends, or name another folder.") from None
    try:
        # Another user's file may be locked, but not written.
        with contextlib.suppress(OSError), file.open("r+") as text:
            text.truncate()
            text.write(str(os.getpid()))
        yield
    finally:
        lock.release()


def describe_machine(root: Path, machine_key: str, rates: Callable[[], dict[str, Any]] = machine.rates) -> list[str]:
    """Keep what the machine is (machine.json) and its rates now (rates.json); say which rates left their range."""
    folder = root / machine_key
    path, history = folder / "machine.json", folder / "rates.json"
    with records.lock(path):
        description, before = machine.described(folder), machine.rated(folder)
        with filelock.FileLock(LOCK, mode=0o666):
            now = rates()
        if not description:
            named = {"schema_version": records.SCHEMA, "machine": machine_key}
            records.write_atomically(path, records.dumps(named | machine.describe() | {"rates": now}))
        records.write_atomically(history, records.dumps([*before, now]))
    return machine.off(now, before)
