"""Sweeps: what they contain, in which order, and that a kill loses and doubles nothing."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import made_up
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import MACHINE, RATES

from traintime import paths
from traintime.errors import InputError
from traintime.measuring import machine, stacks, sweep
from traintime.measuring.protocol import Protocol
from traintime.point import make_point
from traintime.store import code, records

SMALL = {"stacks": ["numpy", "2026-jax"], "vocabulary": [10, 20, 30], "embedding": 4, "units": 4, "rounds": 2}
DISTURBED = {"seconds": 10.0, "others_cpu_s": 9.0}


def plan(name="small", **changes):
    return sweep.Plan.from_profile(name, SMALL | changes)


@pytest.fixture
def missing():
    """Names of the stacks and allocators that this machine lacks: none, until a test adds one."""
    return set()


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch, missing, tmp_path):
    made_up.quiet_machine(monkeypatch, tmp_path, missing)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "measurements"


@pytest.fixture
def fake_measure(invocation):
    """Make a stand-in for measure(): it notes each call, and may be interrupted before the one of this number.

    ends: what becomes of the n-th call, by number: a status, or "disturbed"; all others end well.
    """

    def make(interrupted_before=None, ends=None):
        calls = []

        def measure(point, stack, protocol):
            if len(calls) == interrupted_before:
                raise KeyboardInterrupt
            end = (ends or {}).get(len(calls), "ok")
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


def counted(tasks, sentinel=False):
    """How often each round of each point is among the tasks; the sentinels' tasks instead of all others."""
    return Counter((t.sweep, t.stack.name, t.point.key, t.round) for t in tasks if t.sentinel == sentinel)


def planned(plans, sentinel=False):
    tasks = (task for plan in plans for number in range(1, plan.rounds + 1) for task in plan.order(number))
    return counted(tasks, sentinel)


def left(plans, root):
    """What is outstanding; each round of it has something beside sentinels."""
    tasks = sweep.outstanding(plans, root, machine.this())
    for _, group in itertools.groupby(tasks, key=lambda task: (task.sweep, task.round)):
        assert not all(task.sentinel for task in group)
    return tasks


# Reading a profile


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
        ({"rounds": 1.5}, "rounds", 1.5),
        ({"batch": [10, 0]}, "batch", 0),
        ({"stacks": ["numpy", "2016-theano"]}, "stack", "2016-theano"),
        ({"vocabulary": []}, "vocabulary", []),
        ({"also": [{"vocabluary": 5}]}, "field of a configuration", "vocabluary"),
        ({"protocol": {"stepz": 5}}, "field of a protocol", "stepz"),
        ({"device": ["cpu", "gpu"]}, "device", "gpu"),
    ],
)
def test_what_no_sweep_or_none_of_these_stacks_can_have_is_refused_by_its_field(changes, field, value):
    with pytest.raises(InputError) as caught:
        plan(**changes)
    assert (caught.value.field, caught.value.value) == (field, value)


PROFILE = yaml.safe_dump({"sweeps": {"one": SMALL, "two": SMALL | {"rounds": 5}}})


def test_a_profile_gives_all_its_sweeps_or_the_named_ones_and_what_is_none_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "PROFILES", tmp_path)
    for name, text in {"mine": PROFILE, "bare": "chapters: {}"}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    assert [(p.name, p.rounds) for p in sweep.plans("mine")] == [("one", 2), ("two", 5)]
    assert [p.name for p in sweep.plans("mine", only=["two"])] == ["two"]
    assert sweep.plans("bare") == []
    texts = ["- a\n- b\n", "a: [", "\0", "sweeps: 3", "sweeps: {../out: {vocabulary: 5}}"]
    for fields in ("also: [3]", "protocol: 3", "stacks: 3", "units: {a: 1}", f"units: {'9' * 400}"):
        texts.append(f"sweeps: {{one: {{{fields}}}}}")
    for text in texts:
        (tmp_path / "wrong.yaml").write_text(text)
        for name in ("wrong", "../wrong", "\0"):  # a file of its folder alone
            with pytest.raises(InputError):
                sweep.plans(name)


@pytest.mark.parametrize("path", sorted(paths.PROFILES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_profile_of_the_book_can_be_read(path):
    for made in sweep.plans(path.stem):
        assert made.points
        assert made.stacks


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
    assert (inner.calls, len(beside.calls), len(invocations(root))) == ([], 16, 16)
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


def test_a_point_of_two_sweeps_is_measured_in_both_and_a_sentinel_is_counted_apart(root, fake_measure):
    """A comparison is interleaved or it is none: a value from another sweep is no side of it."""
    shared = sweep.Plan("shared", [(make_point(vocabulary=20_000), stacks.get("numpy"))], 2, Protocol())
    plans = [plan("one"), plan("two", vocabulary=[30, 40]), shared]
    run(plans[:1], root, fake_measure())
    assert counted(left(plans, root)) == planned(plans[1:]), "what is added later"
    run(plans, root, fake_measure())
    assert (stored(root), stored(root, sentinel=True)) == (planned(plans), planned(plans, sentinel=True))
    (path,) = (root / MACHINE / "numpy").glob("*v30-*.json")
    done = [(invocation.sweep, invocation.round) for invocation in records.read(path).invocations]
    assert done == [("one", 1), ("one", 2), ("two", 1), ("two", 2)]
    assert left(plans, root) == []


# What is left to do


@pytest.mark.parametrize(
    "before",
    [
        [],
        [{"rounds": 1}],
        [{"interrupted_before": number} for number in (3, 0, 4, 1)],
        [{"ends": {2: "crashed"}, "interrupted_before": 10}],  # a sentinel is all that a round lacks
        [{"lacks": "2026-jax"}],
        [{"lacks": "jemalloc"}],
        [{}],
    ],
    ids=str,
)
def test_the_same_command_measures_what_is_left_and_nothing_twice(root, fake_measure, missing, before):
    made, calls = plan(vocabulary=[10, 20], allocator=["glibc", "jemalloc"]), []

    def go(rounds=2, lacks=None, **options):
        measure = fake_measure(**options)
        missing.add(lacks)
        with contextlib.suppress(KeyboardInterrupt):
            run([replace(made, rounds=rounds)], root, measure)
        missing.clear()
        if lacks:  # a stack or an allocator is left out, and nothing else is
            assert {lacks in (task.stack.name, *task.point.key.split("-")) for task in left([made], root)} == {True}
        calls.append(measure.calls)
        return measure.calls

    for options in before:
        go(**options)
    assert len(invocations(root)) == sum(map(len, calls)), "each is stored as soon as it ends"
    tasks, rates = left([made], root), history(root)
    assert counted(tasks) == planned([made]) - stored(root)
    assert [(stack, key) for stack, key, _ in go()] == [(task.stack.name, task.point.key) for task in tasks]
    assert (stored(root), stored(root, sentinel=True)) == (planned([made]), planned([made], sentinel=True))
    assert left([made], root) == []
    assert len(history(root)) == len(rates) + len({task.round for task in tasks}), "no rates where nothing is left"
    for path in records.files(root):
        assert [each.round for each in records.read(path).invocations] == [1, 2]


@pytest.mark.parametrize(
    ("patched", "changes"),
    [
        ((machine, "this", lambda *_: "another-machine"), {}),
        ((code, "current", lambda workload, api: f"new{api}"), {}),
        (None, {"protocol": {"steps": 12}}),
    ],
    ids=["another machine", "other sources", "another number of steps"],
)
def test_what_was_measured_in_another_way_does_not_count_and_is_kept(root, fake_measure, monkeypatch, patched, changes):
    run([plan()], root, fake_measure())
    before = len(invocations(root))
    if patched:
        monkeypatch.setattr(*patched)
    made, measure = plan(**changes), fake_measure()
    again = left([made], root)
    assert counted(again) == planned([made])
    assert not any(task.again for task in again), "it is no repetition"
    run([made], root, measure)
    assert left([made], root) == []
    assert len(invocations(root)) == before + len(measure.calls)


# What is done once more


@pytest.mark.parametrize("again", [None, "the same"])
@pytest.mark.parametrize("end", ["crashed", "disturbed"])
def test_what_crashed_or_was_disturbed_is_kept_and_done_once_more_in_its_round(root, fake_measure, end, again):
    """Once, however that ends, and never a third time."""
    measure = fake_measure(ends={3: end} | ({8: end} if again else {}))
    progress = run([plan(rounds=2)], root, measure)
    assert progress.finished == progress.total == len(measure.calls) == len(invocations(root)) == 8 + 1 + 8
    assert measure.calls[8] == measure.calls[3]
    status = "crashed" if end == "crashed" else "ok"
    second = (1, status if again else "ok", True)
    of_it = [each for path, each in invocations(root) if (path.parent.name, path.stem) == measure.calls[3][:2]]
    attempts = [(each.round, each.status, each.again) for each in of_it]
    assert attempts == [(1, status, False), second, (2, "ok", False)]
    assert left([plan(rounds=2)], root) == []


# Killed


# One process that forks: the imports are done once, and each child is a whole sweep until it is killed.
KILLED = """
import json, os, pathlib, random, signal, sys, time

import pytest
import test_sweep

root, made, rounds, kills = pathlib.Path(sys.argv[1]), *map(json.loads, sys.argv[2:])
test_sweep.made_up.quiet_machine(pytest.MonkeyPatch(), root.parent)
test_sweep.sweep.LOCK = root.parent / "lock"


def measure(point, stack, protocol):
    os.write(1, b"started\\n")
    time.sleep(0.002)
    made["protocol"]["steps"] = protocol.steps
    return made | {"code": test_sweep.code.current(point.workload, stack.api)}


def report(task, progress, record):
    if record:
        os.write(1, b"stored\\n")


seeded = random.Random(2017)
for attempt in range(kills + 1):
    child = os.fork()
    if not child:
        test_sweep.run([test_sweep.plan(rounds=rounds)], root, measure, report=report)
        os._exit(0)
    if attempt < kills:
        time.sleep(seeded.uniform(0.0, 0.2))
        os.kill(child, signal.SIGKILL)
    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    os.write(1, b"killed\\n" if killed else b"ended\\n")
"""


@pytest.mark.fault(
    "kill -9 of a sweep at a random moment",
    "nothing that was stored is lost, nothing is measured twice, no lock or half-written file is left",
)
def test_a_killed_sweep_loses_at_most_the_invocation_in_flight(root, invocation, in_full, record_property):
    kills = 20 if in_full else 5
    rounds = 2 * kills
    command = [sys.executable, "-c", KILLED, root, json.dumps(invocation()), str(rounds), str(kills)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[-2000:]
    lines = Counter(answer.stdout.split())
    assert lines["killed"] + lines["ended"] == kills + 1
    assert lines["killed"] >= 3, "or nothing was tested"
    record_property("tried", lines["killed"])
    plans = [plan(rounds=rounds)]
    assert (stored(root), stored(root, sentinel=True)) == (planned(plans), planned(plans, sentinel=True))
    done = len(invocations(root))
    assert lines["stored"] <= done <= lines["started"] <= done + lines["killed"]
    assert left(plans, root) == []
    assert list(root.rglob(".*")) == [], "what a killed writer had begun is gone"


# Running


def test_each_invocation_keeps_its_sweep_and_seed_and_has_its_sweeps_protocol_a_sentinel_the_usual(root, fake_measure):
    measure = fake_measure()
    run([plan("mine", protocol={"steps": 7})], root, measure)
    assert {(each.sweep, each.seed) for _, each in invocations(root)} == {("mine", 2017)}
    steps = {(key.startswith("rnn-v20000-"), protocol) for _, key, protocol in measure.calls}
    assert steps == {(False, Protocol(steps=7)), (True, Protocol())}


def test_nothing_is_started_after_the_time_that_was_given(root, fake_measure, monkeypatch):
    """By a clock of its own an invocation takes ten seconds."""
    measure = fake_measure()
    monkeypatch.setattr(sweep, "time", SimpleNamespace(monotonic=lambda: 1000.0 + 10 * len(measure.calls)))
    progress = run([plan()], root, measure, within_s=25)
    assert len(measure.calls) == progress.finished == len(invocations(root)) == 3
    assert (progress.total, progress.seconds, progress.left_s) == (16, [10.0] * 3, 130)
    assert stored(root) + counted(left([plan()], root)) == planned([plan()]), "the rest is outstanding"


# The machine


def history(root):
    path = root / MACHINE / "rates.json"
    return json.loads(path.read_text()) if path.exists() else []


def test_the_machine_is_described_once_and_its_rates_are_measured_each_round(root, fake_measure):
    """Which rates are off: test_machine."""
    now = RATES | {"bandwidth_bytes_per_s": 116.0}
    run([plan(rounds=1)], root, fake_measure())
    described, said = (root / MACHINE / "machine.json").read_text(), []
    assert (json.loads(described)["machine"], json.loads(described)["rates"]) == (MACHINE, RATES)
    run([plan(rounds=2)], root, fake_measure(), rates=lambda: now, warn=said.append)
    assert (root / MACHINE / "machine.json").read_text() == described
    assert history(root) == [RATES, now]
    assert [sentence.split()[0] for sentence in said] == ["bandwidth_bytes_per_s"]
    assert {(each.round, each.rates_off) for _, each in invocations(root)} == {(1, False), (2, True)}
    assert left([plan(rounds=2)], root) == [], "flagged, and not done again"


# Refused before anything is started


@pytest.mark.parametrize(
    ("changes", "broken", "field"),
    [
        ({"vocabulary": [10, 900_000_000]}, None, "vocabulary"),
        ({"stacks": ["2026-jax"], "device": "gpu"}, None, "device"),
        ({"threads": [1, 3]}, None, "threads"),
        ({}, lambda root: paths.STACKS, "folder"),
        ({}, lambda root: records.file_of(root, MACHINE, "numpy", plan().points[0].key), "measurement file"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_started(root, fake_measure, monkeypatch, changes, broken, field):
    monkeypatch.setattr(machine, "gpus", list)
    if broken:
        records.write_atomically(broken(root), "{")
    measure = fake_measure()
    with pytest.raises(InputError) as refused:
        run([plan(), plan("other", **changes)], root, measure)
    assert (refused.value.field, measure.calls) == (field, [])


def test_what_is_expected_to_be_beyond_memory_is_measured_where_the_profile_says_so(root, fake_measure):
    plans = [plan(vocabulary=[10, 900_000_000], beyond_memory=True)]
    run(plans, root, fake_measure())
    assert stored(root) == planned(plans)
