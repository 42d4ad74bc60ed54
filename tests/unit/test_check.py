"""The checker: a good folder passes, each kind of damage is one sentence that names the file and the key."""

import contextlib
import copy
import functools
import itertools
import json
import operator
import random
from datetime import datetime, timedelta

import pytest

from traintime import paths
from traintime.measuring import check, machine, stacks, sweep
from traintime.measuring.protocol import Protocol
from traintime.point import make_point
from traintime.store import code, records

MACHINE = "amd-epyc-family26-model2-2-cores-24-gib"
SIZES = {"embedding": 3, "units": 4, "length": 5, "batch": 6}
POINT, OTHER = (make_point(vocabulary=11, allocator=name, **SIZES) for name in ("glibc", "tcmalloc"))
SENTINEL = make_point(vocabulary=7, **SIZES)
DESCRIBED, RATES = f"{MACHINE}/machine.json", f"{MACHINE}/rates.json"
NAME, SIDE = (f"{MACHINE}/numpy/{point.key}.json" for point in (POINT, OTHER))
JAX = f"{MACHINE}/2026-jax/{POINT.key}.json"
WATCH = f"{MACHINE}/sentinel/numpy/{SENTINEL.key}.json"
RUN = f"{NAME}: key invocations"
THINGS = {NAME: ("numpy", POINT), SIDE: ("numpy", OTHER), JAX: ("2026-jax", POINT), WATCH: ("numpy", SENTINEL)}


def listed(api, workload="rnn"):
    """The hash of sources that code.csv lists."""
    return next(each for each, row in code.known().items() if (row["api"], row["workload"]) == (api, workload))


def as_on(name, made, point):
    """An invocation with what a worker of this stack finds on this machine."""
    if made.get("result"):
        stack = stacks.KNOWN[name]
        versions = {package: min(check.accepted_versions(stack)[package]) for package in stack.packages}
        path = {"allocator": point.run.allocator, "processor": "AuthenticAMD family 26 model 2 stepping 1"}
        facts = {"backend": stack.backend, "versions": versions, "parameters": point.work.parameters, "path": path}
        made["result"]["facts"] |= facts
    return made


def at(minute):
    return f"2026-01-02T{3 + minute // 60:02}:{minute % 60:02}:05Z"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "measurements").mkdir()
    return tmp_path / "measurements"


@pytest.fixture
def files(invocation):
    """What a machine's files hold after a sweep of three rounds: NumPy under two allocators, JAX, and a sentinel."""
    files = {name: json.loads((paths.MEASUREMENTS / name).read_text()) for name in (DESCRIBED, RATES)}
    first_ns = itertools.count(50_000_000)  # no two took the same time
    for place, (name, (stack, point)) in enumerate(THINGS.items()):
        version, runs = listed(stacks.KNOWN[stack].api), []
        for number in (1, 2, 3):
            run = invocation(started=at(5 * (number - 1) + place), code=version, round=number)
            runs.append(as_on(stack, run, point))
            run["result"]["timing"]["first_ns"] = next(first_ns)
        files[name] = {"schema_version": records.SCHEMA, "machine": MACHINE, "stack": stack, "key": point.key}
        files[name] |= {"point": point.model_dump(), "invocations": runs}
    return files


def found(root, files, fault):
    """Faults, or notes, of a folder that holds these files."""
    for name, whole in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(whole if isinstance(whole, str) else json.dumps(whole))
    return [remark.sentence for remark in check.findings(root) if remark.fault == fault]


def put(keys, value, name=NAME):
    """A damage: one key of a file gets another value ("invocations.1.threads")."""

    def damage(files):
        *way, last = (int(key) if key.isdigit() else key for key in keys.split("."))
        functools.reduce(operator.getitem, way, files[name])[last] = value

    return damage


def in_run(keys, value):
    return put(f"invocations.1.{keys}", value)


def add(minute, name=NAME, **changes):
    """One more invocation: the last one but for its time and these changes."""

    def damage(files):
        run = copy.deepcopy(files[name]["invocations"][-1]) | {"started": at(minute)} | changes
        run["result"]["timing"]["first_ns"] += 10**6 + minute
        files[name]["invocations"].append(run)

    return damage


def remove(*indices):
    return lambda files: [files[NAME]["invocations"].pop(index) for index in reversed(indices)]


def fail(status="oom", error="made up"):
    def damage(files):
        run = files[NAME]["invocations"][2]
        del run["result"]
        run |= {"status": status, "error": error}

    return damage


def disturb(index):
    return put(f"invocations.{index}.result.evidence.others_cpu_s", 5.0)


def withdraw(reason):
    """NumPy's run of the second round."""
    row = f"stack,key,started,reason\nnumpy,{POINT.key},{at(5)},{reason}\n"
    return lambda files: files.update({f"{MACHINE}/withdrawn.csv": row})


def move(old, new):
    return lambda files: files.update({new: files.pop(old)})


def copy_runs(files):
    files[SIDE]["invocations"] = [as_on("numpy", run, OTHER) for run in copy.deepcopy(files[NAME]["invocations"])]


def each(*damages):
    return lambda files: [damage(files) for damage in damages]


def test_a_good_folder_has_neither_faults_nor_notes_and_an_empty_one_is_a_fault(files, root):
    assert found(root, {}, True) == [f"{root}: no measurement file below it"]
    assert [found(root, files, fault) for fault in (True, False)] == [[], []]


# What happens to the folder, and how its only fault begins: the file, and the key in it
DAMAGES = [
    (lambda files: files.update({NAME: json.dumps(files[NAME])[:-40]}), f"{NAME}: is not whole JSON"),
    (put("hostname", "mine"), f"{NAME}: has a wrong key hostname ("),
    (in_run("round", 0), f"{NAME}: has a wrong key invocations.1.round ("),
    (put("machine", "other"), f"{NAME}: belongs at other/numpy/{POINT.key}.json"),
    (move(NAME, f"{MACHINE}/numpy/x.json"), f"{MACHINE}/numpy/x.json: belongs at {NAME}"),
    (move(JAX, JAX.replace("jax", "torch")), f"{JAX.replace('jax', 'torch')}: belongs at {JAX}"),
    (put("point.sizes.dropout", 0.25), f"{NAME}: belongs at {MACHINE}/numpy/{POINT.key}-d0.25"),
    (put("key", OTHER.key), f"{NAME}: belongs at {NAME} by its machine, stack and configuration, and its key is"),
    (put("invocations", []), f"{RUN} is empty"),
    (lambda files: files.update({f"{MACHINE}/x.json": "{}"}), f"{MACHINE}/x.json: is no file of measurements"),
    # One run
    (in_run("code", "cccccccccccc"), f"{RUN}.1.code is 'cccccccccccc'"),
    (in_run("code", listed("numpy", "dense")), f"{RUN}.1.code"),
    (each(in_run("code", None), in_run("started", "2026-11-22T00:00:00Z")), f"{RUN}.1.code is None"),
    (in_run("shared", 3), f"{RUN}.1.shared is 3"),
    (fail(error=None), f"{RUN}.2.status is 'oom'"),
    (fail(status="ok"), f"{RUN}.2.status is 'ok'"),
    (fail(error="failed in /home/someone/x.py: it broke"), f"{RUN}.2.error holds a path of"),
    (in_run("result.facts.parameters", 167), f"{RUN}.1.result.facts.parameters is 167, not 166"),
    (in_run("result.facts.path.allocator", "tcmalloc"), f"{RUN}.1.result.facts: allocator is tcmalloc"),
    (in_run("result.facts.path.processor", None), f"{RUN}.1.result.facts.path.processor is None"),
    (in_run("result.facts.versions.numpy", "9.9"), f"{RUN}.1.result.facts.versions.numpy is '9.9'"),
    (in_run("result.memory.peak", 0), f"{RUN}.1.result.memory has"),
    (in_run("result.timing.steps_ns", [1] * 4), f"{RUN}.1.number of result.timing.steps_ns is 4, not 5"),
    (in_run("result.loops", [{"sentences": 1, "ns": 1}]), f"{RUN}.1.result.loops has 1"),
    # The machine
    (lambda files: files.pop(DESCRIBED), f"{DESCRIBED}: missing"),
    (put("hostname", "mine", DESCRIBED), f"{DESCRIBED}: has a wrong key hostname"),
    (put("machine", "other", DESCRIBED), f"{DESCRIBED}: describes"),
    (put("memory_bytes", 2**33, DESCRIBED), f"{DESCRIBED}: describes 'amd-epyc-family26-model2-2-cores-8-gib'"),
    (put("1.matmul_flop_per_s", 0, RATES), f"{RATES}: has a wrong key 1.matmul_flop_per_s ("),
    (withdraw(" "), f"{MACHINE}/withdrawn.csv: has a wrong key 0.reason"),
    (withdraw("beside a build"), f"{RUN}.1 is still there"),
    # Sweeps
    (in_run("protocol.warmup", 1), f"{RUN} has several protocols in the sweep made-up"),
    (remove(0, 1), f"{RUN} lacks round 1, 2 of the sweep made-up"),
    (add(16), f"{RUN}.3: round 3 of the sweep made-up has it already"),
    (add(16, again=True), f"{RUN}.3: round 3 of the sweep made-up has it already"),
    (each(disturb(2), add(15, again=True), add(16, again=True)), f"{RUN}.4: round 3 of the sweep made-up has it"),
    (put("invocations.0.started", at(7)), f"{RUN}.0.started is {at(7)}, in round 1 of the sweep made-up, after"),
    (copy_runs, f"{NAME}: 3 of its invocations are stored in {SIDE}"),
]


@pytest.mark.parametrize(("damage", "begin"), DAMAGES, ids=[begin for _, begin in DAMAGES])
def test_each_damage_is_one_fault_that_names_the_file_and_the_key(files, root, damage, begin):
    damage(files)
    (fault,) = found(root, files, True)
    assert fault.startswith(begin)


OF_SWEEP = f"{MACHINE}: 1 invocations of the sweep made-up"
NOTED = [
    (in_run("rates_off", True), f"{OF_SWEEP} ran while the machine's rates had left their range"),
    (remove(2), f"{MACHINE}: the sweep made-up is unfinished: round 3 has 2 of 3"),
    (disturb(2), f"{OF_SWEEP} have no repeat yet, first {NAME}: key invocations.2"),
    (put("invocations.1.result.timing.steps_ns", [9 * 10**9] * 5, WATCH), f"{MACHINE}/sentinel/numpy: two runs of the"),
    (in_run("result.facts.versions.numpy", "2.5.2"), f"{MACHINE}: 1 files mix runs that differ in the table's column"),
    (each(remove(1), withdraw("beside a build")), f"{MACHINE}: 1 invocations are withdrawn"),
    (each(remove(1), add(16, round=4), add(17, SIDE, round=4)), f"{RUN} lacks round 2"),
]


@pytest.mark.parametrize(("happen", "begin"), NOTED, ids=[begin for _, begin in NOTED])
def test_what_is_no_fault_may_be_worth_a_note(files, root, happen, begin):
    happen(files)
    assert found(root, files, True) == []
    assert any(note.startswith(begin) for note in found(root, files, False))


def test_a_disturbed_run_that_was_repeated_after_a_pause_of_hours_is_in_order(files, root):
    each(disturb(0), add(240, round=1, again=True))(files)
    assert [found(root, files, fault) for fault in (True, False)] == [[], []]


def test_what_was_measured_by_older_sources_is_not_compared(files, root, monkeypatch):
    """The sources changed, and all was measured again under the same names of sweep and rounds."""
    known = code.known() | {f"{api}-changed": {"workload": "rnn", "api": api} for api in ("numpy", "keras3")}
    monkeypatch.setattr(code, "known", lambda: known)
    for (place, (name, (stack, _))), number in itertools.product(enumerate(THINGS.items()), (1, 2, 3)):
        add(360 + 5 * number + place, name, round=number, code=f"{stacks.KNOWN[stack].api}-changed")(files)
    assert found(root, files, True) == []


def test_each_field_that_contradicts_its_filename_is_reported(files, root):
    """NumPy's own file that claims to be TensorFlow's on a GPU."""
    point = make_point(**POINT.fields | {"device": "gpu"})
    each(put("point", point.model_dump()), put("key", point.key), put("stack", "2026-tensorflow"))(files)
    each(in_run("threads", 64), move(NAME, f"{MACHINE}/2026-tensorflow/{point.key}.json"))(files)
    said = " ".join(found(root, files, True))
    lies = ["threads is 64", "is of a GPU", "on keras3", "backend is 'numpy'", "versions is ['numpy']", "memory has"]
    assert [lie for lie in lies if lie not in said] == []


@pytest.mark.parametrize("seed", range(4))
def test_a_sweep_that_is_killed_and_goes_on_is_without_fault_at_any_time(files, root, invocation, monkeypatch, seed):
    """Whatever crashes, is disturbed or killed, however long the pause; no other test checks a sweep's own files."""
    monkeypatch.setattr(records.os, "fsync", lambda file: None)
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: True))
    monkeypatch.setattr(machine, "this", lambda *_: MACHINE)
    chance, clock, first_ns = random.Random(seed), [datetime(2026, 1, 2, 3, 4, 5)], itertools.count(10**6)
    pairs = [(POINT, stacks.get(name)) for name in ("numpy", "2026-jax", "2026-torch")]
    plans = [sweep.Plan(name, pairs, 4, Protocol(steps=3)) for name in ("one", "two")]

    def measure(point, stack, protocol):
        if chance.random() < 0.1:
            clock[0] += timedelta(hours=chance.randint(1, 30))
            raise KeyboardInterrupt
        clock[0] += timedelta(seconds=chance.randint(0, 90))
        status = chance.choices(["ok", "crashed", "oom"], [8, 1, 1])[0]
        started, version = clock[0].strftime("%Y-%m-%dT%H:%M:%SZ"), code.current(point.workload, stack.api)
        steps = Protocol(warmup=2, steps=protocol.steps).model_dump()
        made = as_on(stack.name, invocation(status, started=started, code=version, protocol=steps), point)
        if status == "ok":
            made["result"]["timing"] |= {"first_ns": next(first_ns), "steps_ns": [10**6] * (2 + protocol.steps)}
            made["result"]["evidence"]["others_cpu_s"] = chance.choice([0.0, 0.0, 0.0, 5.0])
        return made

    found(root, {DESCRIBED: files[DESCRIBED]}, True)  # writes it
    ended = False
    while not ended:
        with contextlib.suppress(KeyboardInterrupt):
            sweep.run(plans, root, measure=measure, rates=lambda: files[RATES][0])
            ended = True
        assert found(root, {}, True) == []
    assert not any("unfinished" in note for note in found(root, {}, False))
