"""Sweeps: what they contain, in which order, and that a kill loses and doubles nothing."""

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from traintime import paths
from traintime.errors import InputError
from traintime.measuring import allocators, machine, stacks, sweep
from traintime.measuring import measure as measuring
from traintime.measuring.protocol import Protocol
from traintime.point import make_point
from traintime.store import code, records

MACHINE = "some-machine"
SMALL = {"stacks": ["numpy", "2026-jax"], "vocabulary": [10, 20, 30], "embedding": 4, "units": 4, "rounds": 2}
RATES = {"bandwidth_bytes_per_s": 100.0, "matmul_flop_per_s": 200.0}


def plan(name="small", **changes):
    return sweep.Plan.from_profile(name, SMALL | changes)


@pytest.fixture
def missing():
    """Names of the stacks and allocators that this machine lacks: none, until a test adds one."""
    return set()


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch, missing, tmp_path):
    """A machine that has every stack and 8 GiB, that nobody measures, and whose files need not outlive a blackout."""
    monkeypatch.setattr(records.os, "fsync", lambda file: None)
    monkeypatch.setattr(paths, "STACKS", tmp_path / "stacks")
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: stack.name not in missing))
    monkeypatch.setattr(allocators, "present", lambda name: name not in missing)
    monkeypatch.setattr(machine, "this", lambda: MACHINE)
    monkeypatch.setattr(machine, "describe", lambda: {"cpu": "Some", "cores": 2, "memory_bytes": 2**33, "gpus": []})
    monkeypatch.setattr(machine, "free_memory", lambda device: 8 * 2**30)
    monkeypatch.setattr(measuring, "default_threads", lambda: 2)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "measurements"


DISTURBED = {"seconds": 10.0, "others_cpu_s": 9.0}


@pytest.fixture
def fake_measure(invocation):
    """Make a stand-in for measure(): it notes each call, and may be interrupted before the one of this number.

    ends: what becomes of the n-th call, by number: a status, or "disturbed"; all others end well.
    """

    def make(interrupted_before=None, ends=None, status="ok"):
        calls = []

        def measure(point, stack, protocol):
            if len(calls) == interrupted_before:
                raise KeyboardInterrupt
            end = (ends or {}).get(len(calls), status)
            calls.append((stack.name, point.key, protocol))
            made = invocation("ok" if end == "disturbed" else end, code=code.current(point.workload, stack.api))
            made["protocol"] |= {"steps": protocol.steps}
            if end == "disturbed":
                made["result"]["evidence"] = DISTURBED
            return made

        measure.calls = calls
        return measure

    return make


def run(plans, root, measure, **options):
    return sweep.run(plans, root, **{"measure": measure, "rates": lambda: dict(RATES)} | options)


def invocations(root):
    """Each invocation in the files, with its file."""
    return [(path, each) for path in records.files(root) for each in records.read(path).invocations]


def stored(root, sentinel=False):
    """How often each round of each point and sweep is in the files; the sentinels' files instead of all others."""
    return Counter(
        (each.sweep, path.parent.name, path.stem, each.round)
        for path, each in invocations(root)
        if records.is_sentinel(path) == sentinel
    )


def everything(root):
    return len(invocations(root))


def counted(tasks, sentinel=False):
    """How often each round of each point is among the tasks; the sentinels' tasks instead of all others."""
    return Counter((t.sweep, t.stack.name, t.point.key, t.round) for t in tasks if t.sentinel == sentinel)


def planned(plans, sentinel=False):
    tasks = (task for plan in plans for number in range(1, plan.rounds + 1) for task in plan.order(number))
    return counted(tasks, sentinel)


def left(plans, root):
    """What is outstanding; each round of it has something beside sentinels."""
    tasks = sweep.outstanding(plans, root, MACHINE)
    for _, group in itertools.groupby(tasks, key=lambda task: (task.sweep, task.round)):
        assert not all(task.sentinel for task in group)
    return tasks


# Reading a profile


def test_a_sweep_is_every_combination_of_its_lists():
    made = plan(vocabulary=[10, 20], optimizer=["adam", "sgd"], batch=3)
    assert {(p.sizes.vocabulary, p.sizes.optimizer, p.sizes.batch) for p in made.points} == set(
        itertools.product([10, 20], ["adam", "sgd"], [3])
    )
    assert {stack.name for stack in made.stacks} == {"numpy", "2026-jax"}
    assert len(made.pairs) == len(made.points) * 2 == 8


def test_a_sweep_may_have_further_sets_joined_to_its_values():
    """Frozen, and under SGD, and not both at once; one for NumPy alone; what two sets share is one point."""
    also = [{"frozen": True}, {"optimizer": "sgd"}, {"stacks": ["numpy"], "vocabulary": 10}, {"vocabulary": 99}]
    also += [{"stacks": ["numpy"], "vocabulary": 10, "optimizer": "adam-rows"}]
    made = plan(vocabulary=[10, 20], also=also)
    found = {(p.sizes.vocabulary, p.sizes.frozen, p.sizes.optimizer, stack.name) for p, stack in made.pairs}
    of_both = {(10, False, "adam"), (20, False, "adam"), (10, True, "adam"), (20, True, "adam")}
    of_both |= {(10, False, "sgd"), (20, False, "sgd"), (99, False, "adam")}
    of_one = {(10, False, "adam-rows", "numpy")}
    assert found == of_one | {(*point, stack) for point in of_both for stack in ("numpy", "2026-jax")}
    assert len(made.pairs) == len(found)


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        *[({"rounds": value}, "rounds", value) for value in (0, "many", 1.5)],
        *[({field: [10, value]}, field, value) for field in ("vocabulary", "batch") for value in (0, "many", 1.5)],
        ({"stacks": ["numpy", "2016-theano"]}, "stack", "2016-theano"),
        ({"stacks": []}, "stacks", []),
        ({"vocabulary": []}, "vocabulary", []),
        ({"workload": "cnn"}, "workload", "cnn"),
        ({"vocabluary": 5}, "field of a configuration", "vocabluary"),
        ({"also": [{"vocabluary": 5}]}, "field of a configuration", "vocabluary"),
        ({"together": True}, "field of a configuration", "together"),
        ({"protocol": {"stepz": 5}}, "field of a protocol", "stepz"),
        ({"protocol": {"steps": 0}}, "steps", 0),
        ({"optimizer": ["adam", "adam-rows"]}, "optimizer", "adam-rows"),
        ({"device": ["cpu", "gpu"]}, "device", "gpu"),
        ({"words": [5, 26]}, "words", 26),
    ],
)
def test_what_no_sweep_or_none_of_these_stacks_can_have_is_refused_by_its_field(changes, field, value):
    with pytest.raises(InputError) as caught:
        plan(**changes)
    assert (caught.value.field, caught.value.value) == (field, value)


@pytest.fixture
def profile(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "PROFILES", tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"sweeps": {"one": SMALL, "two": SMALL | {"rounds": 5}}}))
    (tmp_path / "bare.yaml").write_text("chapters: {}\n")
    return "mine"


def test_all_sweeps_of_a_profile_or_only_the_named_ones(profile):
    assert [(p.name, p.rounds) for p in sweep.plans(profile)] == [("one", 2), ("two", 5)]
    assert [p.name for p in sweep.plans(profile, only=["two"])] == ["two"]
    assert sweep.plans("bare") == []


@pytest.mark.parametrize(
    "text",
    ["", "- a\n- b\n", "only words", "{", "a: [", "\0", "1: 2", "sweeps: 3", "sweeps:\n  one:"]
    + ['sweeps: {"<b>": {vocabulary: 5}}', "sweeps: {../out: {vocabulary: 5}}"]
    + [
        f"sweeps: {{one: {{vocabulary: 5, {fields}}}}}"
        for fields in (
            *("also: [3]", "protocol: 3", "beyond_memory: maybe", "rounds: 99999", "stacks: [[numpy]]", "stacks: 3"),
            *("workload: [[rnn]]", "units: {a: 1}", "batch:", f"units: {'9' * 400}"),
        )
    ],
    ids=lambda text: text[:60],
)
def test_a_profile_that_is_none_is_refused(profile, text):
    (paths.PROFILES / "wrong.yaml").write_text(text)
    for name in ("wrong", "../wrong", "\0"):  # a file of its folder alone
        with pytest.raises(InputError):
            sweep.plans(name)


@pytest.mark.parametrize("path", sorted(paths.PROFILES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_profile_of_the_book_can_be_read(path):
    for made in sweep.plans(path.stem):
        assert made.points
        assert made.stacks
        assert not made.together, "a profile's measurements are stored"
        assert len(made.order(1, seed=1)) >= 2


# The order of a round


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(0, 2**32), st.integers(1, 3))
def test_a_round_has_every_point_on_every_stack_once(points, seed, number):
    made = plan(vocabulary=list(range(1, points + 1)), rounds=3)
    order = made.order(number, seed)
    expected = {("small", stack.name, point.key, number): 1 for stack in made.stacks for point in made.points}
    assert counted(order) == Counter(expected)
    watched = [task for task in order if task.sentinel]
    assert sorted(task.stack.name for task in watched) == ["2026-jax", "numpy"], "one on each stack"


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 99))
def test_the_sentinels_are_spread_evenly(points, on, seed):
    made = plan(vocabulary=list(range(1, points + 1)), stacks=list(stacks.ALL)[:on])
    watched = [place for place, task in enumerate(made.order(1, seed)) if task.sentinel]
    assert len(watched) == on
    for number, place in enumerate(watched):
        assert abs(place - number - (number + 0.5) * points) <= 0.5, "in the middle of its share of the round"


@pytest.mark.parametrize(
    ("made", "device"),
    [
        (plan(vocabulary=99, protocol={"steps": 50}), "cpu"),
        (plan(stacks=["2026-jax"], device="gpu"), "gpu"),
    ],
)
def test_a_sentinel_is_one_small_point_on_the_sweeps_device_with_the_usual_protocol(made, device):
    watched = {(task.point.key, task.protocol) for task in made.order(1) if task.sentinel}
    assert watched == {(make_point(vocabulary=20_000, device=device).key, Protocol())}


def test_the_order_follows_from_seed_sweep_and_round_alone():
    """What a record says gives the order again, in any process: this one was made on another day."""
    order = plan().order(1, seed=2017)
    assert [f"{task.stack.name} {task.point.sizes.vocabulary}" for task in order] == [
        *("2026-jax 10", "2026-jax 30", "2026-jax 20000", "2026-jax 20"),
        *("numpy 30", "numpy 20000", "numpy 20", "numpy 10"),
    ]
    assert plan(vocabulary=[30, 20, 10], stacks=["2026-jax", "numpy"]).order(1, seed=2017) == order
    others = [plan().order(1, 8), plan().order(2, 2017), plan("other").order(1, 2017)]
    assert len({tuple((task.stack.name, task.point.key) for task in each) for each in (order, *others)}) == 4


# Several sweeps


def test_every_sweep_gets_three_rounds_before_any_gets_five_and_so_on(root):
    plans = [plan("long", rounds=12), plan("short", rounds=3), plan("usual", rounds=6)]
    order = [key for key, _ in itertools.groupby((task.sweep, task.round) for task in left(plans, root))]
    assert order == [
        *((name, number) for name in ("long", "short", "usual") for number in range(1, 4)),
        *((name, number) for name in ("long", "usual") for number in (4, 5)),
        *(("long", number) for number in range(6, 11)),
        ("usual", 6),
        *(("long", number) for number in (11, 12)),
    ]


@pytest.mark.fault(
    "A second sweep into the same folder",
    "refused, and the first is named; a sweep into another folder goes on beside it",
)
def test_a_second_sweep_into_a_folder_is_refused_and_the_first_is_named(root, fake_measure):
    """Both would measure what the other has begun: a folder has one sweep at a time, and others go on beside it."""
    inner, outer, beside = fake_measure(), fake_measure(), fake_measure()

    def measure(*given, **more):
        if not outer.calls:
            with pytest.raises(InputError, match=str(os.getpid())) as caught:
                run([plan()], root, inner)
            assert caught.value.field == "folder"
            run([plan()], root.parent / "another folder", beside)
        return outer(*given, **more)

    run([plan()], root, measure)
    assert (inner.calls, len(beside.calls), everything(root)) == ([], 16, 16)
    assert run([plan()], root, inner).total == 0, "once the first has ended"


def test_what_was_measured_until_a_sweep_may_begin_is_not_measured_again(root, fake_measure, monkeypatch):
    """Two are started at once, and one is slow to begin: it looks at the folder when it is its own, not before."""
    alone, first, second = sweep._alone, fake_measure(), fake_measure()

    def late(folder):
        monkeypatch.setattr(sweep, "_alone", alone)
        run([plan()], root, first)
        return alone(folder)

    monkeypatch.setattr(sweep, "_alone", late)
    run([plan()], root, second)
    assert (len(first.calls), second.calls) == (16, [])


def test_a_point_of_two_sweeps_is_measured_in_both(root, fake_measure):
    """A comparison is interleaved or it is none: a value from another sweep is no side of it."""
    plans = [plan("one"), plan("two", vocabulary=[30, 40])]
    run(plans[:1], root, fake_measure())
    assert counted(left(plans, root)) == planned(plans[1:]), "what is added later"
    run(plans, root, fake_measure())
    assert stored(root) == planned(plans)
    (path,) = (root / MACHINE / "numpy").glob("*v30-*.json")
    done = [(invocation.sweep, invocation.round) for invocation in records.read(path).invocations]
    assert done == [("one", 1), ("one", 2), ("two", 1), ("two", 2)]
    assert left(plans, root) == []


# What is left to do


def interrupted(*numbers):
    """Before so many invocations each time."""

    def happen(go, missing):
        for number in numbers:
            with pytest.raises(KeyboardInterrupt):
                go(interrupted_before=number)

    return happen


def lacking(name):
    """A stack or an allocator is left out, and so is nothing else."""

    def happen(go, missing):
        missing.add(name)
        calls = go()
        assert calls and not any(name in (stack, *key.split("-")) for stack, key, _ in calls)
        missing.clear()

    return happen


BEFORE = {
    "nothing": lambda go, missing: None,
    "fewer rounds": lambda go, missing: go(rounds=1),
    **{f"interrupted {numbers}": interrupted(*numbers) for numbers in ([0], [15], [3, 0, 4, 1])},
    **{f"{name} is missing": lacking(name) for name in ("2026-jax", "jemalloc")},
    "all of it": lambda go, missing: go(),
}


@pytest.mark.parametrize("happen", BEFORE.values(), ids=BEFORE)
def test_whatever_came_before_the_same_command_measures_what_is_left_and_nothing_twice(
    root, fake_measure, missing, happen
):
    made, calls = plan(vocabulary=[10, 20], allocator=["glibc", "jemalloc"]), []

    def go(rounds=2, **options):
        measure = fake_measure(**options)
        calls.append(measure.calls)
        run([replace(made, rounds=rounds)], root, measure)
        return measure.calls

    happen(go, missing)
    assert everything(root) == sum(map(len, calls)), "each is stored as soon as it ends"
    tasks, rates = left([made], root), history(root)
    assert counted(tasks) == planned([made]) - stored(root)
    assert [(stack, key) for stack, key, _ in go()] == [(task.stack.name, task.point.key) for task in tasks]
    assert (stored(root), stored(root, sentinel=True)) == (planned([made]), planned([made], sentinel=True))
    assert left([made], root) == []
    assert len(history(root)) == len(rates) + len({task.round for task in tasks}), "no rates where nothing is left"
    for path in records.files(root):
        assert [each.round for each in records.read(path).invocations] == [1, 2]


def of_another_machine(monkeypatch):
    monkeypatch.setattr(machine, "this", lambda: "another-machine")


def of_other_sources(monkeypatch):
    monkeypatch.setattr(code, "current", lambda workload, api: f"new{api}")


@pytest.mark.parametrize(
    ("happen", "changes"),
    [(of_another_machine, {}), (of_other_sources, {}), (lambda _: None, {"protocol": {"steps": 12}})],
    ids=["another machine", "other sources", "another number of steps"],
)
def test_what_was_measured_in_another_way_does_not_count_and_is_kept(root, fake_measure, monkeypatch, happen, changes):
    run([plan()], root, fake_measure())
    before = everything(root)
    happen(monkeypatch)
    made, here = plan(**changes), machine.this()
    again = sweep.outstanding([made], root, here)
    assert counted(again) == planned([made])
    assert not any(task.again for task in again), "it is no repetition"
    measure = fake_measure()
    run([made], root, measure)
    assert sweep.outstanding([made], root, here) == []
    assert everything(root) == before + len(measure.calls)


# What is done once more


def attempts(root, stack, key):
    """Round, status and whether it is a repeat, of each invocation of a point on a stack."""
    return [
        (each.round, each.status, each.again)
        for path, each in invocations(root)
        if (path.parent.name, path.stem) == (stack, key)
    ]


@pytest.mark.parametrize("again", [None, "the same"])
@pytest.mark.parametrize("end", ["crashed", "disturbed"])
def test_what_crashed_or_was_disturbed_is_kept_and_done_once_more_at_the_end_of_its_round(
    root, fake_measure, end, again
):
    """Once, however that ends, and never a third time."""
    measure = fake_measure(ends={3: end} | ({8: end} if again else {}))
    progress = run([plan(rounds=2)], root, measure)
    assert progress.finished == progress.total == len(measure.calls) == everything(root) == 8 + 1 + 8
    assert measure.calls[8] == measure.calls[3]
    status = "crashed" if end == "crashed" else "ok"
    second = (1, status if again else "ok", True)
    assert attempts(root, *measure.calls[3][:2]) == [(1, status, False), second, (2, "ok", False)]
    assert left([plan(rounds=2)], root) == []


def test_a_look_keeps_what_was_disturbed_as_it_is_and_does_only_what_crashed_once_more(root, fake_measure):
    look = replace(plan(rounds=1), settle=False)
    measure = fake_measure(ends={2: "disturbed", 3: "crashed"})
    assert run([look], root, measure).finished == len(measure.calls) == 9
    assert measure.calls[-1] == measure.calls[3]
    assert attempts(root, *measure.calls[2][:2]) == [(1, "ok", False)]
    assert left([look], root) == []


def test_a_repetition_that_a_kill_prevented_is_made_up_for(root, fake_measure):
    measure = fake_measure(ends={3: "crashed"}, interrupted_before=8)
    with pytest.raises(KeyboardInterrupt):
        run([plan(rounds=1)], root, measure)
    (again,) = left([plan(rounds=1)], root)
    assert (again.again, (again.stack.name, again.point.key)) == (True, measure.calls[3][:2])
    run([plan(rounds=1)], root, fake_measure(ends={0: "crashed"}))
    assert left([plan(rounds=1)], root) == [], "given up after two"


def test_a_point_that_is_the_sentinel_too_is_counted_apart(root, fake_measure):
    point, stack = make_point(vocabulary=20_000), stacks.get("numpy")
    shared = sweep.Plan("shared", [(point, stack)], 2, Protocol())
    run([shared], root, fake_measure())
    for sentinel in (False, True):
        assert stored(root, sentinel) == Counter({("shared", "numpy", point.key, number): 1 for number in (1, 2)})


# Killed


# One process that forks: the imports are done once, and each child is a whole sweep until it is killed.
KILLED = """
import json, os, random, signal, sys, time
from pathlib import Path

from traintime import paths
from traintime.measuring import machine, stacks, sweep
from traintime.store import code

root, log, lock, fields, made = Path(sys.argv[1]), sys.argv[2], sys.argv[3], *map(json.loads, sys.argv[4:6])
kills = int(sys.argv[6])
sweep.LOCK, paths.STACKS = Path(lock), root.parent / "stacks"
stacks.Stack.present = property(lambda stack: True)
machine.this = lambda: "some-machine"
machine.describe = lambda: {"cpu": "Some", "cores": 2, "memory_bytes": 2**33, "gpus": []}
machine.free_memory = lambda device: 2**33
rates = {"bandwidth_bytes_per_s": 1.0, "matmul_flop_per_s": 1.0}
notes = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def measure(point, stack, protocol):
    os.write(notes, b"started\\n")
    time.sleep(0.002)
    now = made | {"code": code.current(point.workload, stack.api)}
    return now | {"protocol": {"warmup": 2, "steps": protocol.steps, "timeout_s": 1}}


def report(task, progress, record):
    if record:
        os.write(notes, b"stored\\n")


plans = [sweep.Plan.from_profile("small", fields)]
seeded = random.Random(2017)
for attempt in range(kills + 1):
    child = os.fork()
    if not child:
        sweep.run(plans, root, measure=measure, report=report, rates=lambda: rates)
        os._exit(0)
    if attempt < kills:
        time.sleep(seeded.uniform(0.0, 0.2))
        os.kill(child, signal.SIGKILL)
    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    os.write(notes, b"killed\\n" if killed else b"ended\\n")
"""


@pytest.mark.fault(
    "kill -9 of a sweep at a random moment",
    "nothing that was stored is lost, nothing is measured twice, no lock or half-written file is left",
)
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_sweep_that_is_killed_at_any_moment_loses_at_most_the_invocation_in_flight(
    root, tmp_path, invocation, in_full, record_property
):
    kills = 20 if in_full else 5
    rounds = 2 * kills
    fields = SMALL | {"rounds": rounds}
    log = tmp_path / "log"
    arguments = [str(root), str(log), str(tmp_path / "lock"), json.dumps(fields), json.dumps(invocation()), str(kills)]
    command = [sys.executable, "-W", "ignore", "-c", KILLED, *arguments]
    answer = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert answer.returncode == 0, answer.stderr[-2000:]
    lines = Counter(log.read_text().split())
    assert lines["killed"] + lines["ended"] == kills + 1
    assert lines["killed"] >= 3, "or nothing was tested"
    record_property("tried", lines["killed"])
    plans = [plan(rounds=rounds)]
    assert stored(root) == planned(plans)
    assert stored(root, sentinel=True) == planned(plans, sentinel=True), "nothing is lost, and nothing twice"
    assert lines["stored"] <= everything(root) <= lines["started"] <= everything(root) + lines["killed"]
    assert left(plans, root) == []
    assert list(root.rglob(".*")) == [], "what a killed writer had begun is gone"


# Running


def test_each_invocation_keeps_its_sweep_and_seed_and_has_its_sweeps_protocol_a_sentinel_the_usual(root, fake_measure):
    measure = fake_measure()
    run([plan("mine", protocol={"steps": 7})], root, measure)
    assert {(each.sweep, each.seed) for _, each in invocations(root)} == {("mine", 2017)}
    steps = {(key.startswith("rnn-v20000-"), protocol) for _, key, protocol in measure.calls}
    assert steps == {(False, Protocol(steps=7)), (True, Protocol())}


@pytest.mark.parametrize(("within_s", "started"), [(0, 0), (10, 1), (25, 3), (float("inf"), 16)])
def test_nothing_is_started_after_the_time_that_was_given(root, fake_measure, monkeypatch, within_s, started):
    """By a clock of its own an invocation takes ten seconds."""
    measure = fake_measure()
    monkeypatch.setattr(sweep, "time", SimpleNamespace(monotonic=lambda: 1000.0 + 10 * len(measure.calls)))
    progress = run([plan()], root, measure, within_s=within_s)
    assert len(measure.calls) == progress.finished == started == everything(root)
    assert (progress.total, progress.seconds) == (16, [10.0] * started)
    assert stored(root) + counted(left([plan()], root)) == planned([plan()]), "the rest is outstanding"


# Together, for a quick look

TOGETHER = {"stacks": ["numpy", "2026-jax", "2026-torch"], "threads": [1, 2]}


@pytest.fixture
def fake_together(fake_measure, monkeypatch):
    """A stand-in for Together: it notes each call as fake_measure does, and says that another ran before each."""

    class Fake(sweep.Together):
        noted = staticmethod(fake_measure())

        def measure(self, *args, **options):
            return self.noted(*args, **options) | {"shared": 1}

    monkeypatch.setattr(sweep, "Together", Fake)
    return Fake.noted


def together(**changes):
    return replace(plan(**TOGETHER | {"rounds": 1} | changes), together=True, sentinels=False)


def test_points_that_share_a_process_follow_each_other_and_the_order_is_random_all_the_same(root, fake_together):
    made = together(vocabulary=list(range(1, 11)))
    run([made], root, None)
    assert stored(root) == planned([made])
    points = {point.key: point for point, _ in made.pairs}
    processes = [
        sweep.process_of(points[key], stacks.get(stack)) or ("numpy", key) for stack, key, _ in fake_together.calls
    ]
    groups = [process for process, _ in itertools.groupby(processes)]
    assert len(groups) == len(set(groups)) == 20 + 2 * 2, "NumPy shares none, the others one for each number of threads"
    for stack in ("2026-jax", "2026-torch"):
        sizes = [points[key].sizes.vocabulary for name, key, _ in fake_together.calls if name == stack]
        assert sizes != sorted(sizes)
    assert groups != sorted(groups)


def test_what_was_measured_together_is_told_and_is_nothing_to_a_sweep_whose_points_have_processes_of_their_own(
    root, fake_together, fake_measure
):
    fresh, measure = replace(together(), together=False), fake_measure()
    run([together()], root, None)
    assert {each.shared for _, each in invocations(root)} == {1}
    assert run([together()], root, None).total == 0
    run([fresh], root, measure)
    assert len(measure.calls) == len(fresh.pairs)
    other = root.parent / "other"
    run([fresh], other, fake_measure())
    assert run([together()], other, None).total == 0, "the other way round it counts"


def test_a_report_comes_before_and_after_each_invocation_with_the_time_that_is_left(root, fake_measure):
    seen, measure = [], fake_measure()

    def report(task, progress, record):
        seen.append((task.stack.name, task.point.key, progress.finished, record and record["status"]))

    progress = run([plan(rounds=1)], root, measure, report=report)
    before, after = seen[::2], seen[1::2]
    assert [status for *_, status in before] == [None] * progress.total
    assert [status for *_, status in after] == ["ok"] * progress.total
    assert [finished for *_, finished, _ in before] == list(range(progress.total))
    assert [each[:2] for each in before] == [each[:2] for each in after] == [call[:2] for call in measure.calls]
    assert sweep.SweepProgress(total=10).left_s is None
    assert sweep.SweepProgress(total=10, finished=2, seconds=[1.0, 3.0]).left_s == 2.0 * 8


def test_what_shares_processes_is_refused_among_the_stored_measurements(tmp_path, fake_together, monkeypatch):
    monkeypatch.setattr(paths, "MEASUREMENTS", tmp_path / "data")
    for root in (tmp_path / "data", tmp_path / "data" / "below"):
        with pytest.raises(InputError, match=r"^folder: '.*data.*' takes what ran in a process of its own"):
            run([together()], root, None)
    assert fake_together.calls == []
    assert not (tmp_path / "data").exists()


# The machine


def history(root):
    path = root / MACHINE / "rates.json"
    return json.loads(path.read_text()) if path.exists() else []


@pytest.mark.parametrize(
    ("now", "names"),
    [
        ({"bandwidth_bytes_per_s": 86.0}, []),
        ({"bandwidth_bytes_per_s": 116.0, "matmul_flop_per_s": 100.0}, ["bandwidth_bytes_per_s", "matmul_flop_per_s"]),
    ],
)
def test_the_machine_is_described_once_and_its_rates_are_measured_each_round_and_held_against_its_range(
    root, fake_measure, now, names
):
    run([plan(rounds=1)], root, fake_measure())
    described, said = (root / MACHINE / "machine.json").read_text(), []
    assert (json.loads(described)["machine"], json.loads(described)["rates"]) == (MACHINE, RATES)
    run([plan(rounds=2)], root, fake_measure(), rates=lambda: RATES | now, warn=said.append)
    assert (root / MACHINE / "machine.json").read_text() == described
    assert history(root) == [RATES, RATES | now]
    assert [sentence.split()[0] for sentence in said] == names
    assert {(each.round, each.rates_off) for _, each in invocations(root)} == {(1, False), (2, bool(names))}
    assert left([plan(rounds=2)], root) == [], "flagged, and not done again"


# Refused before anything is started


def a_file_for_a_folder(root):
    paths.STACKS.write_text("a file in the place of the folder")


def a_broken_file(root):
    records.write_atomically(records.file_of(root, MACHINE, "numpy", plan().points[0].key), "{")


@pytest.mark.parametrize(
    ("changes", "happen", "field"),
    [
        ({"vocabulary": [10, 900_000_000]}, None, "vocabulary"),
        ({"stacks": ["2026-jax"], "device": "gpu"}, None, "device"),
        ({"threads": [1, 3]}, None, "threads"),
        ({}, a_file_for_a_folder, "folder"),
        ({}, a_broken_file, "measurement file"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_started(root, fake_measure, monkeypatch, changes, happen, field):
    monkeypatch.setattr(machine, "gpus", list)
    if happen:
        happen(root)
    measure = fake_measure()
    with pytest.raises(InputError) as caught:
        run([plan(), plan("other", **changes)], root, measure)
    assert (caught.value.field, measure.calls) == (field, [])


def test_a_point_beyond_the_memory_is_tried_where_the_sweep_says_so(root, fake_measure):
    large = plan(vocabulary=[10, 900_000_000], beyond_memory=True)
    run([large], root, fake_measure(status="oom"))
    assert stored(root) == planned([large])
