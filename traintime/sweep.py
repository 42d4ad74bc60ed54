"""Rounds of points in random order: what is to be measured, what is done already, what comes next."""

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock
import yaml

from traintime import allocators, machine, memory, paths, stacks, store
from traintime.errors import InputError, unknown
from traintime.measure import LOCK, Protocol, measure
from traintime.point import Point, make_point, validated
from traintime.stacks import Stack

# Short, and sensitive to what disturbs us: arithmetic, memory traffic and Python all have a part in its time.
Sentinel = tuple[Point, Stack]
SENTINEL: Sentinel = (make_point(vocabulary=20_000), stacks.get("2026-tensorflow"))
SEED = 2017
SENTINEL_EVERY = 12  # other invocations between two of the sentinel's, about


@dataclass(frozen=True)
class Task:
    """One invocation to be done: a point on a stack in a round of a sweep."""

    sweep: str
    round: int
    point: Point
    stack: Stack
    protocol: Protocol
    beyond_memory: bool = False
    sentinel: bool = False

    def path(self, root: Path, machine_key: str) -> Path:
        """The file that takes the invocation."""
        return store.file_of(root, machine_key, self.stack.name, self.point.key, self.sentinel)


@dataclass(frozen=True)
class Plan:
    """A sweep as a profile names it: every combination of the listed values on every listed stack."""

    name: str
    points: list[Point]
    stacks: list[Stack]
    rounds: int
    protocol: Protocol
    beyond_memory: bool = False

    @classmethod
    def from_profile(cls, name: str, fields: dict[str, Any]) -> "Plan":
        """Read one entry of a profile's `sweeps`; unknown names and bad sizes raise InputError."""
        fields = dict(fields)
        rounds = fields.pop("rounds", 3)
        if type(rounds) is not int or rounds < 1:
            raise InputError("rounds", rounds, "is refused", "Give a whole number of 1 or more.")
        protocol = validated(Protocol, fields.pop("protocol", {}), "field of a protocol")
        beyond_memory = fields.pop("beyond_memory", False)
        lists = {key: value if isinstance(value, list) else [value] for key, value in fields.items()}
        names = lists.pop("stacks", list(stacks.ALL))
        for key, values in {"stacks": names, **lists}.items():
            if not values:
                raise InputError(key, values, f"is empty in the sweep {name}", "Name at least one value.")
        points = [make_point(**dict(zip(lists, row, strict=True))) for row in itertools.product(*lists.values())]
        on = [stacks.get(stack) for stack in names]
        for point, stack in itertools.product(points, on):
            stacks.refuse_impossible(point, stack)
        return cls(name, points, on, rounds, protocol, beyond_memory)


def load_profile(name: str) -> dict[str, Any]:
    """The profile's settings; raises InputError for an unknown one."""
    path = paths.PROFILES / f"{name}.yaml"
    if not path.exists():
        raise unknown("profile", name, sorted(p.stem for p in paths.PROFILES.glob("*.yaml")))
    return yaml.safe_load(path.read_text())


def plans(profile: str, only: list[str] | None = None) -> list[Plan]:
    """The sweeps of a profile, all or only the named ones."""
    sweeps = load_profile(profile).get("sweeps", {})
    for name in only or []:
        if name not in sweeps:
            raise unknown("sweep", name, sorted(sweeps))
    return [Plan.from_profile(name, sweeps[name]) for name in only or sweeps]


def sentinel_of(profile: str) -> Sentinel:
    """The fixed point of a profile's noise floor: its own, or the usual one."""
    fields = dict(load_profile(profile).get("sentinel") or {})
    if not fields:
        return SENTINEL
    return make_point(**{name: value for name, value in fields.items() if name != "stack"}), stacks.get(fields["stack"])


def round_order(plans: list[Plan], number: int, seed: int) -> list[Task]:
    """One round of all sweeps together, each point on each stack once, in random order.

    A point that several sweeps share is one task: its invocations serve them all.
    """
    tasks: dict[tuple[str, str], Task] = {}
    for plan in plans:
        if number <= plan.rounds:
            for point, stack in itertools.product(plan.points, plan.stacks):
                task = Task(plan.name, number, point, stack, plan.protocol, plan.beyond_memory)
                tasks.setdefault((stack.name, point.key), task)
    order = [tasks[name] for name in sorted(tasks)]
    random.Random(f"{seed} {number}").shuffle(order)
    return order


def with_sentinel(order: list[Task], sentinel: Sentinel) -> list[Task]:
    """The tasks of one round, with the sentinel before the first, after the last, and at even distances between."""
    if not order:
        return []
    point, stack = sentinel
    watch = Task(store.SENTINEL, order[0].round, point, stack, Protocol(), sentinel=True)
    parts = max(2, len(order) // SENTINEL_EVERY)
    size = -(-len(order) // parts)
    watched = [watch]
    for start in range(0, len(order), size):
        watched += [*order[start : start + size], watch]
    return watched


def outstanding(
    plans: list[Plan], root: Path, machine_key: str, seed: int = SEED, sentinel: Sentinel = SENTINEL
) -> list[Task]:
    """What is left to do, round by round: round n is done for a point that has n invocations in its file.

    A stack or an allocator that is missing here is left out: the table says so, and adding it later completes the
    sweep, with sentinels of its own.
    """
    present = {stack.name: stack.present for plan in plans for stack in (*plan.stacks, sentinel[1])}
    done: dict[Path, int] = {}
    tasks = []
    for number in range(1, max((plan.rounds for plan in plans), default=0) + 1):
        left = []
        for task in round_order(plans, number, seed):
            path = task.path(root, machine_key)
            if path not in done:
                done[path] = len(store.read(path).invocations) if path.exists() else 0
            here = present[task.stack.name] and allocators.present(task.point.allocator)
            if here and done[path] < number:
                left.append(task)
        tasks += with_sentinel(left, sentinel) if present[sentinel[1].name] else left
    return tasks


@dataclass
class Progress:
    """How far a sweep is, and how long the rest will take by the invocations so far."""

    total: int
    finished: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def left_s(self) -> float | None:
        """Expected seconds to the end; None before the first invocation."""
        if not self.seconds:
            return None
        return sum(self.seconds) / len(self.seconds) * (self.total - self.finished)


def run(
    plans: list[Plan],
    root: Path,
    *,
    seed: int = SEED,
    threads: int | None = None,
    report: Callable[[Task, Progress, dict[str, Any] | None], None] = lambda task, progress, record: None,
    follow: Callable[[dict[str, Any]], None] = lambda message: None,
    within_s: float = float("inf"),
    measure: Callable[..., dict[str, Any]] = measure,
    machine_key: str | None = None,
    sentinel: Sentinel = SENTINEL,
) -> Progress:
    """Do what is outstanding and store each invocation as soon as it ends.

    report: called before each invocation (record None) and after it; follow: with each message of the worker;
    within_s: start no invocation after so many seconds.
    Raises InputError before anything is started where the folder cannot be written or a point cannot fit.
    """
    machine_key = machine_key or machine.this()
    store.clear_parts(root)
    tasks = outstanding(plans, root, machine_key, seed, sentinel)
    for task in tasks:
        if not task.beyond_memory:
            memory.refuse_beyond_memory(task.point, task.stack)
    for folder in {task.path(root, machine_key).parent for task in tasks}:
        store.check_writable(folder)
    describe_machine(root, machine_key)
    progress = Progress(len(tasks))
    end = time.monotonic() + within_s
    for task in tasks:
        if time.monotonic() >= end:
            break
        report(task, progress, None)
        start = time.monotonic()
        record = measure(task.point, task.stack, task.protocol, threads=threads, progress=follow)
        record |= {"sweep": task.sweep, "round": task.round, "seed": seed}
        store.append(task.path(root, machine_key), machine_key, task.stack.name, task.point, record)
        progress.finished += 1
        progress.seconds.append(time.monotonic() - start)
        report(task, progress, record)
    return progress


def describe_machine(root: Path, machine_key: str, again: bool = False) -> Path:
    """Write machine.json once: what the machine is and its measured rates."""
    path = root / machine_key / "machine.json"
    if again or not path.exists():
        description = {"schema_version": store.SCHEMA, "machine": machine_key}
        with filelock.FileLock(LOCK, mode=0o666):
            description |= machine.describe() | {"rates": machine.rates()}
        store.write_atomically(path, store.dumps(description))
    return path
