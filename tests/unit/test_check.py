"""The checker: a good folder passes, each kind of damage is one sentence that names the file and the key."""

import contextlib
import itertools
import json
import random
import shutil
from datetime import datetime, timedelta

import pytest

from traintime import paths
from traintime.measuring import check, machine, stacks, sweep
from traintime.measuring.protocol import Protocol
from traintime.point import make_point
from traintime.store import code, records

REAL = paths.MEASUREMENTS / "amd-epyc-family26-model2-2-cores-24-gib"
MACHINE = REAL.name
PROCESSOR = "AuthenticAMD family 26 model 2 stepping 1"
CODE = "0123456789ab"
SIZES = {"embedding": 3, "units": 4, "length": 5, "batch": 6}
POINT = make_point(vocabulary=11, **SIZES)
OTHER = make_point(vocabulary=11, allocator="tcmalloc", **SIZES)
SENTINEL = make_point(vocabulary=7, **SIZES)
NAME = f"{MACHINE}/numpy/{POINT.key}.json"
THINGS = [("numpy", POINT, False), ("numpy", OTHER, False), ("2026-jax", POINT, False)]
THINGS += [("numpy", SENTINEL, True), ("2026-jax", SENTINEL, True)]


def as_on(name, made):
    """An invocation with what a worker of this stack finds on this machine."""
    if made.get("result"):
        stack = stacks.KNOWN[name]
        versions = {package: min(each) for package, each in check.accepted_versions(stack).items()}
        versions = {package: versions[package] for package in stack.packages}
        made["result"]["facts"] |= {"backend": stack.backend, "versions": versions}
        made["result"]["facts"]["path"]["processor"] = PROCESSOR
    return made


def at(minute):
    return f"2026-01-02T{3 + minute // 60:02}:{minute % 60:02}:05Z"


@pytest.fixture
def bare(tmp_path):
    """A folder of a real machine that has measured nothing yet."""
    root = tmp_path / "measurements"
    (root / MACHINE).mkdir(parents=True)
    for name in ("machine.json", "rates.json"):
        shutil.copy(REAL / name, root / MACHINE)
    return root


@pytest.fixture
def root(bare, invocation):
    """The machine with a sweep of three rounds: NumPy under two allocators, JAX, and their sentinels."""
    first_ns = itertools.count(50_000_000)  # no two took the same time
    for place, (stack, point, sentinel) in enumerate(THINGS):
        runs = []
        for number in (1, 2, 3):
            made = as_on(stack, invocation(started=at(5 * (number - 1) + place), code=CODE, round=number))
            made["result"]["facts"]["parameters"] = point.work.parameters
            made["result"]["facts"]["path"]["allocator"] = point.run.allocator
            made["result"]["timing"]["first_ns"] = next(first_ns)
            runs.append(made)
        write(bare, stack, point, sentinel, runs)
    return bare


def write(root, stack, point, sentinel, runs):
    """A whole measurement file at once."""
    path = file(root, stack, point, sentinel)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = records.Record(machine=MACHINE, stack=stack, key=point.key, point=point, invocations=runs)
    path.write_text(records.dumps(record.model_dump(mode="json", exclude_none=True)))


def file(root, stack="numpy", point=POINT, sentinel=False):
    return records.file_of(root, MACHINE, stack, point.key, sentinel)


def watch(root):
    """NumPy's sentinel."""
    return file(root, point=SENTINEL, sentinel=True)


def described(root, name="machine.json"):
    return root / MACHINE / name


def change(path, *keys, value):
    """Set one key of a JSON file."""
    whole = json.loads(path.read_text())
    inner = whole
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(records.dumps(whole))


def runs_of(path):
    return json.loads(path.read_text())["invocations"]


def change_all(path, *keys, value):
    """Set one key of every invocation."""
    for index in range(len(runs_of(path))):
        change(path, "invocations", index, *keys, value=value)


def in_file(*keys, value):
    return lambda root: change(file(root), *keys, value=value)


def in_run(*keys, value):
    return in_file("invocations", 1, *keys, value=value)


def in_result(*keys, value):
    return in_run("result", *keys, value=value)


def remove(path, *indices):
    """Take out stored invocations."""
    change(path, "invocations", value=[each for i, each in enumerate(runs_of(path)) if i not in indices])


def add(path, minute, **changes):
    """Store one more invocation: the last one but for its time and these changes."""
    last = runs_of(path)[-1]
    last["result"]["timing"]["first_ns"] += 10**6 + minute
    change(path, "invocations", value=[*runs_of(path), last | {"started": at(minute)} | changes])


def fail(path, index=2, **changes):
    """Turn one stored invocation into a failed one."""
    made = runs_of(path)[index]
    made.pop("result", None)
    change(path, "invocations", index, value=made | {"status": "oom", "error": "made up"} | changes)


def disturb(path, index):
    change(path, "invocations", index, "result", "evidence", "others_cpu_s", value=5.0)


def repeat_twice(path):
    disturb(path, 2)
    add(path, 15, round=3, again=True)
    add(path, 16, round=3, again=True)


def shift(path, index, minute):
    """Move one stored invocation in time."""
    change(path, "invocations", index, "started", value=at(minute))


def describe(root, **changes):
    path = described(root)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def withdraw(root, *row):
    described(root, "withdrawn.csv").write_text(f"stack,key,started,reason\n{','.join(row)}\n")


def sentences(root, fault, known=(CODE,), **options):
    return [found.sentence for found in check.findings(root, known=known, **options) if found.fault == fault]


def faults(root, **options):
    return sentences(root, True, **options)


def notes(root, **options):
    return sentences(root, False, **options)


def one_fault(root, **options):
    (problem,) = faults(root, **options)
    return problem


def one_note(root, **options):
    assert faults(root, **options) == []
    (note,) = notes(root, **options)
    return note


def test_a_good_folder_has_neither_faults_nor_notes_and_an_empty_one_is_a_fault(root, tmp_path):
    assert (faults(root), notes(root)) == ([], [])
    (tmp_path / "empty").mkdir()
    assert one_fault(tmp_path / "empty") == f"{tmp_path}/empty: no measurement file below it"


# What happens to the folder, and how its only fault begins: the file, and the key in it

RUN = f"{NAME}: key invocations.1"
WRONG_RUN = f"{NAME}: has a wrong key invocations.1"
DAMAGES = [
    # A whole file
    (lambda root: file(root).write_text(file(root).read_text()[:-40]), f"{NAME}: is not whole JSON"),
    (in_file("surprise", value=1), f"{NAME}: has a wrong key surprise ("),
    (in_file("machine", value="other-machine"), f"{NAME}: key machine is 'other-machine'"),
    (in_file("point", "sizes", "dropout", value=0.25), f"{NAME}: key point describes '{POINT.key}-d0.25'"),
    (
        lambda root: file(root).rename(file(root).with_name("other.json")),
        f"{MACHINE}/numpy/other.json: key key is '{POINT.key}'",
    ),
    (
        lambda root: (root / MACHINE / "2026-jax").rename(root / MACHINE / "2026-torch"),
        f"{MACHINE}/2026-torch/{POINT.key}.json: key stack is '2026-jax'",
    ),
    (in_file("invocations", value=[]), f"{NAME}: key invocations is empty"),
    (lambda root: (root / MACHINE / "x.json").write_text("{}"), f"{MACHINE}/x.json: is no file of measurements"),
    # What nobody can have measured, one of each type
    (in_run("started", value="2026-02-30T03:04:05Z"), f"{WRONG_RUN}.started ("),
    (in_run("round", value=0), f"{WRONG_RUN}.round ("),
    (in_run("threads", value=10**400), f"{WRONG_RUN}.threads ("),
    (in_run("sweep", value="<img src=x onerror=alert(1)>"), f"{WRONG_RUN}.sweep ("),
    (in_run("error", value="\x1b[2J"), f"{WRONG_RUN}.error ("),
    (in_result("timing", "warmup", value=5), f"{WRONG_RUN}.result.timing.warmup ("),
    # One invocation
    (in_result("facts", "parameters", value=167), f"{RUN}.result.facts.parameters is 167, not 166"),
    (in_result("timing", "steps_ns", value=[1] * 4), f"{RUN}.result.timing.steps_ns has 2 counted"),
    (in_result("loops", value=[{"sentences": 1, "ns": 1}]), f"{RUN}.result.loops has 1"),
    (in_run("shared", value=3), f"{RUN}.shared is 3"),
    (lambda root: fail(file(root), error=None), f"{NAME}: key invocations.2.error"),
    (
        lambda root: fail(file(root), error="failed in /home/someone/x.py: it broke"),
        f"{NAME}: key invocations.2.error holds a path of",
    ),
    (lambda root: fail(file(root), status="ok"), f"{NAME}: key invocations.2.status is 'ok'"),
    # What ran is what the name says
    (in_result("facts", "path", "allocator", value="tcmalloc"), f"{RUN}.result.facts: allocator is tcmalloc"),
    (
        in_result("facts", "path", "processor", value=None),
        f"{RUN}.result.facts.path.processor is None, machine.json says {PROCESSOR!r}",
    ),
    (in_result("facts", "versions", "numpy", value="9.9"), f"{RUN}.result.facts.versions.numpy is '9.9'"),
    (in_result("memory", "peak", value=0), f"{RUN}.result.memory.peak is 0"),
    # The machine
    (lambda root: described(root).unlink(), f"{MACHINE}/machine.json: missing"),
    (lambda root: describe(root, hostname="mine"), f"{MACHINE}/machine.json: has a wrong key hostname"),
    (lambda root: describe(root, machine="other"), f"{MACHINE}/machine.json: key machine is 'other'"),
    (
        lambda root: describe(root, memory_bytes=2**33),
        f"{MACHINE}/machine.json: describes 'amd-epyc-family26-model2-2-cores-8-gib'",
    ),
    (
        lambda root: change(described(root, "rates.json"), 1, "matmul_flop_per_s", value=0),
        f"{MACHINE}/rates.json: has a wrong key 1.matmul_flop_per_s (",
    ),
    (lambda root: withdraw(root, "numpy", "k", at(5), " "), f"{MACHINE}/withdrawn.csv: has a wrong key 0.reason"),
    (
        lambda root: withdraw(root, "numpy", POINT.key, at(5), "measured with the wrong BLAS"),
        f"{MACHINE}/withdrawn.csv: row 1: the invocation of {at(5)} is still there: {RUN}",
    ),
    # Sweeps
    (in_run("protocol", "timeout_s", value=300.0), f"{RUN}.protocol is 2+3 within 300 s"),
    (in_run("again", value=True), f"{RUN}.again is true, but round 2 of the sweep made-up has nothing it repeats"),
    (lambda root: remove(file(root), 0, 1), f"{NAME}: key invocations lacks rounds 1, 2 of the sweep made-up"),
    (lambda root: add(file(root), 16), f"{NAME}: key invocations.3: round 3 of the sweep made-up has it already"),
    (
        lambda root: repeat_twice(file(root)),
        f"{NAME}: key invocations.4: round 3 of the sweep made-up has it again already",
    ),
    (
        lambda root: add(file(root), 9, round=2, again=True),
        f"{NAME}: key invocations.3.again is true, but what it repeats neither crashed nor was disturbed",
    ),
    (
        lambda root: fail(file(root), 0, status="crashed"),
        f"{NAME}: key invocations.0 crashed, and round 1 of the sweep made-up has no repeat of it",
    ),
    # The sentinels
    (lambda root: watch(root).unlink(), f"{MACHINE}/sentinel/numpy: no run in the sweep made-up"),
    (
        lambda root: change(watch(root), "invocations", 0, "result", "facts", "parameters", value=1),
        f"{MACHINE}/sentinel/numpy/{SENTINEL.key}.json: key invocations.0.result.facts.parameters is 1",
    ),
]


@pytest.mark.parametrize(("damage", "named"), DAMAGES, ids=[named for _, named in DAMAGES])
def test_each_damage_is_one_fault_that_names_the_file_and_the_key(root, damage, named):
    damage(root)
    assert one_fault(root).startswith(named)


OF_SWEEP = f"{MACHINE}: 1 invocations of the sweep made-up"
NOTED = [
    (in_run("rates_off", value=True), f"{OF_SWEEP} ran while the machine's rates had left their range"),
    (lambda root: remove(file(root), 2), f"{MACHINE}: the sweep made-up is unfinished: round 3 has 2 of 3"),
    # A repeat may still come in the last round.
    (lambda root: disturb(file(root), 2), f"{OF_SWEEP} have no repeat yet, first {NAME}: key invocations.2"),
    (
        lambda root: change(watch(root), "invocations", 1, "result", "timing", "steps_ns", value=[9 * 10**9] * 5),
        f"{MACHINE}/sentinel/numpy: two runs of the same thing differ",
    ),
    (in_result("facts", "versions", "numpy", value="2.5.2"), f"{MACHINE}: 1 files mix runs that differ in versions"),
]


@pytest.mark.parametrize(("happen", "noted"), NOTED, ids=[noted for _, noted in NOTED])
def test_what_is_no_fault_may_be_worth_a_note(root, happen, noted):
    happen(root)
    assert one_note(root).startswith(noted)


def test_a_measurement_under_a_false_name_is_named_lie_by_lie(tmp_path):
    """NumPy's own file that claims to be TensorFlow's on a GPU."""
    record = records.read(next((REAL / "numpy").glob("rnn-*-adam.json")))
    point = make_point(**record.point.fields | {"device": "gpu"})
    write(tmp_path, "2026-tensorflow", point, False, record.invocations)
    shutil.copy(REAL / "machine.json", tmp_path / MACHINE)
    change_all(file(tmp_path, "2026-tensorflow", point), "threads", value=64)
    said = " ".join(faults(tmp_path, known=None))
    lies = ["threads is 64", "ran on a GPU", "api numpy", "backend is 'numpy'", "versions names numpy", "memory has"]
    assert [lie for lie in lies if lie not in said] == []


@pytest.mark.parametrize("place", ["another machine", "another configuration"])
def test_a_run_that_is_stored_a_second_time_is_named(root, place):
    if place == "another machine":
        shutil.copytree(root / MACHINE, root / "copied")
        where, files = "copied/", len(THINGS)
    else:
        point = make_point(vocabulary=12, **SIZES)
        write(root, "numpy", point, False, runs_of(file(root)))
        where, files = f"{MACHINE}/numpy/{point.key}.json", 1
    twice = [problem for problem in faults(root) if "3 of its invocations are stored in" in problem]
    assert len(twice) == files
    assert all(problem.startswith(where) for problem in twice)


def test_sources_that_nobody_knows_or_named_or_of_another_workload_and_steps_that_time_could_end_are_named(root):
    path = file(root)
    unlisted = " ".join(faults(root, known=None))
    assert all(f"{NAME}: key invocations.{index}.code" in unlisted for index in range(3))
    of_blocks = next(version for version, row in code.known().items() if row["workload"] == "blocks")
    change_all(path, "code", value=of_blocks)
    assert "sources for the workload blocks, not rnn" in " ".join(faults(root, known=None))
    change_all(path, "code", value=CODE)
    stopping = {"warmup": 2, "steps": 3, "timeout_s": 900.0, "seconds": 2.0, "limit_s": 5.0, "fewest": 2}
    change_all(path, "protocol", value=stopping)
    assert [problem.partition(" is ")[2] for problem in faults(root)] == [
        "'2+3, 2 to 5 s': the steps were not fixed beforehand"
    ] * 3
    change(path, "invocations", 2, value=runs_of(path)[2] | {"code": None, "started": "2026-11-22T00:00:00Z"})
    assert f"{NAME}: key invocations.2.code is missing" in " ".join(faults(root))


# Sweeps: rounds


def test_a_baseline_from_an_earlier_hour_is_not_interleaved(root):
    """One allocator in one hour, the other in the next, both as the same rounds of the same sweep."""
    for index in range(3):
        shift(file(root, point=OTHER), index, 70 + index)
    problem, _ = faults(root)
    assert problem.startswith(f"{MACHINE}/numpy/{OTHER.key}.json: key invocations.0.started is 2026-01-02T04:10:05Z")
    assert "in round 1 of the sweep made-up, after round 2 had begun (2026-01-02T03:05:05Z)" in problem
    assert "1 of the round's 3 runs are not interleaved" in problem


def test_a_killed_sweep_that_goes_on_hours_later_is_interleaved_and_the_pause_is_noted(root):
    for stack, point in (("numpy", OTHER), ("2026-jax", POINT)):
        for index in (1, 2):
            shift(file(root, stack, point), index, 240 + 10 * index)
    shift(file(root), 2, 255)
    assert one_note(root) == f"{MACHINE}: round 2 of the sweep made-up was interrupted for 4.1 hours"


def test_what_was_measured_by_older_sources_is_noted_and_not_compared(root):
    """The sources changed, and all was measured again under the same names of sweep and rounds."""
    for path in records.files(root):
        later = runs_of(path)
        for each in later:
            each |= {"started": each["started"].replace("T03", "T09"), "code": "cccccccccccc"}
            each["result"]["timing"]["first_ns"] += 10**6
        change(path, "invocations", value=[*runs_of(path), *later])
    both = {CODE, "cccccccccccc"}
    assert faults(root, known=both) == []
    found = notes(root, known=both)
    assert f"{MACHINE}: 15 invocations of the sweep made-up were measured by older sources than the rest" in found
    assert len([note for note in found if "differ in code" in note]) == 1


def test_a_lacking_round_is_a_note_with_enough_others_and_none_where_it_was_withdrawn(root):
    remove(file(root), 1)
    lacks = f"{NAME}: key invocations lacks round 2 of the sweep made-up"
    assert one_fault(root) == one_note(root, at_least=2) == lacks
    withdraw(root, "numpy", POINT.key, at(5), "measured with the wrong BLAS")
    assert faults(root) == []
    assert f"{MACHINE}: 1 invocations are withdrawn, see withdrawn.csv" in notes(root)


def test_what_was_disturbed_must_be_repeated(root):
    disturb(file(root), 0)
    problem = f"{NAME}: key invocations.0 was disturbed, and round 1 of the sweep made-up has no repeat of it"
    assert one_fault(root) == problem
    add(file(root), 40, round=1, again=True)
    assert (faults(root), notes(root)) == ([], [])


@pytest.mark.parametrize("seed", range(8))
def test_a_sweep_that_is_killed_and_goes_on_is_without_fault_at_any_time(bare, invocation, monkeypatch, seed):
    """Whatever crashes, is disturbed or killed, however long the pause; no other test checks a sweep's own files."""
    monkeypatch.setattr(records.os, "fsync", lambda file: None)
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: True))
    monkeypatch.setattr(machine, "this", lambda *_: MACHINE)
    chance, clock, first_ns = random.Random(seed), [datetime(2026, 1, 2, 3, 4, 5)], itertools.count(10**6)
    pairs = [(POINT, stacks.get("numpy")), (POINT, stacks.get("2026-jax")), (POINT, stacks.get("2026-torch"))]
    plans = [sweep.Plan(name, pairs, 4, Protocol(steps=3)) for name in ("one", "two")]

    def measure(point, stack, protocol):
        if chance.random() < 0.1:
            clock[0] += timedelta(hours=chance.randint(1, 30))
            raise KeyboardInterrupt
        clock[0] += timedelta(seconds=chance.randint(0, 90))
        status = chance.choices(["ok", "crashed", "oom"], [8, 1, 1])[0]
        started, hash_ = clock[0].strftime("%Y-%m-%dT%H:%M:%SZ"), code.current(point.workload, stack.api)
        steps = Protocol(warmup=2, steps=protocol.steps).model_dump()
        made = invocation(status, started=started, code=hash_, protocol=steps)
        if status == "ok":
            made["result"]["facts"]["parameters"] = point.work.parameters
            made["result"]["timing"] |= {"first_ns": next(first_ns), "steps_ns": [10**6] * (2 + protocol.steps)}
            made["result"]["evidence"]["others_cpu_s"] = chance.choice([0.0, 0.0, 0.0, 5.0])
        return as_on(stack.name, made)

    rates = json.loads((REAL / "rates.json").read_text())[0]
    ended = False
    while not ended:
        with contextlib.suppress(KeyboardInterrupt):
            sweep.run(plans, bare, measure=measure, rates=lambda: rates)
            ended = True
        assert faults(bare, known=None) == []
    assert not any("unfinished" in note for note in notes(bare, known=None))
