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
SIZES = {"embedding": 3, "units": 4, "length": 5, "batch": 6}
POINT, OTHER = (make_point(vocabulary=11, allocator=name, **SIZES) for name in ("glibc", "tcmalloc"))
SENTINEL = make_point(vocabulary=7, **SIZES)
NAME = f"{MACHINE}/numpy/{POINT.key}.json"
RUN = f"{NAME}: key invocations"
THINGS = [("numpy", POINT, False), ("numpy", OTHER, False), ("2026-jax", POINT, False)]
THINGS += [("numpy", SENTINEL, True), ("2026-jax", SENTINEL, True)]


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
def bare(tmp_path):
    """A folder of a real machine that has measured nothing yet."""
    (tmp_path / "measurements" / MACHINE).mkdir(parents=True)
    for name in ("machine.json", "rates.json"):
        shutil.copy(REAL / name, tmp_path / "measurements" / MACHINE)
    return tmp_path / "measurements"


@pytest.fixture
def root(bare, invocation):
    """The machine with a sweep of three rounds: NumPy under two allocators, JAX, and their sentinels."""
    first_ns = itertools.count(50_000_000)  # no two took the same time
    for place, (stack, point, sentinel) in enumerate(THINGS):
        runs = []
        for number in (1, 2, 3):
            started, version = at(5 * (number - 1) + place), listed(stacks.KNOWN[stack].api)
            runs.append(as_on(stack, invocation(started=started, code=version, round=number), point))
            runs[-1]["result"]["timing"]["first_ns"] = next(first_ns)
        write(bare, stack, point, runs, sentinel)
    return bare


def write(root, stack, point, runs, sentinel=False):
    path = records.file_of(root, MACHINE, stack, point.key, sentinel)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = records.Record(machine=MACHINE, stack=stack, key=point.key, point=point, invocations=runs)
    path.write_text(records.dumps(record.model_dump(mode="json", exclude_none=True)))


def put(keys, value, name=NAME):
    """Set one key of a JSON file: "invocations.1.threads"."""

    def damage(root):
        whole = inner = json.loads((root / name).read_text())
        *way, last = (int(key) if key.isdigit() else key for key in keys.split("."))
        for key in way:
            inner = inner[key]
        inner[last] = value
        (root / name).write_text(records.dumps(whole))

    return damage


def in_run(keys, value):
    return put(f"invocations.1.{keys}", value)


def runs_of(root, name=NAME):
    return json.loads((root / name).read_text())["invocations"]


def add(minute, name=NAME, **changes):
    """Store one more invocation: the last one but for its times and these changes."""

    def damage(root):
        runs = runs_of(root, name)
        last = json.loads(json.dumps(runs[-1])) | {"started": at(minute)} | changes
        last["result"]["timing"]["first_ns"] += 10**6 + minute
        put("invocations", [*runs, last], name)(root)

    return damage


def remove(*indices):
    return lambda root: put("invocations", [run for i, run in enumerate(runs_of(root)) if i not in indices])(root)


def fail(index, status="oom", error="made up"):
    def damage(root):
        run = {name: value for name, value in runs_of(root)[index].items() if name != "result"}
        put(f"invocations.{index}", run | {"status": status, "error": error})(root)

    return damage


def disturb(index):
    return put(f"invocations.{index}.result.evidence.others_cpu_s", 5.0)


def withdraw(reason):
    """NumPy's run of the second round."""
    row = f"stack,key,started,reason\nnumpy,{POINT.key},{at(5)},{reason}\n"
    return lambda root: (root / MACHINE / "withdrawn.csv").write_text(row)


def move(old, new):
    return lambda root: (root / old).rename(root / new)


def each(*damages):
    return lambda root: [damage(root) for damage in damages]


def sentences(root, fault, **options):
    return [found.sentence for found in check.findings(root, **options) if found.fault == fault]


def test_a_good_folder_has_neither_faults_nor_notes_and_an_empty_one_is_a_fault(root, tmp_path):
    assert list(check.findings(root)) == []
    (tmp_path / "empty").mkdir()
    assert sentences(tmp_path / "empty", True) == [f"{tmp_path}/empty: no measurement file below it"]


DESCRIBED, RATES = f"{MACHINE}/machine.json", f"{MACHINE}/rates.json"
ON_ANOTHER_DAY = [put(f"invocations.{i}.started", at(70 + i), f"{MACHINE}/numpy/{OTHER.key}.json") for i in range(3)]
# What happens to the folder, and how its only fault begins: the file, and the key in it
DAMAGES = [
    (lambda root: (root / NAME).write_text((root / NAME).read_text()[:-40]), f"{NAME}: is not whole JSON"),
    (put("hostname", "mine"), f"{NAME}: has a wrong key hostname ("),
    (in_run("round", 0), f"{NAME}: has a wrong key invocations.1.round ("),
    (put("machine", "other"), f"{NAME}: belongs at other/numpy/{POINT.key}.json"),
    (move(NAME, f"{MACHINE}/numpy/x.json"), f"{MACHINE}/numpy/x.json: belongs at {NAME}"),
    (
        move(f"{MACHINE}/2026-jax", f"{MACHINE}/2026-torch"),
        f"{MACHINE}/2026-torch/{POINT.key}.json: belongs at {MACHINE}/2026-jax/",
    ),
    (put("point.sizes.dropout", 0.25), f"{NAME}: belongs at {MACHINE}/numpy/{POINT.key}-d0.25"),
    (put("key", OTHER.key), f"{NAME}: belongs at {NAME} by its machine, stack and point, and its key is '{OTHER.key}'"),
    (put("invocations", []), f"{RUN} is empty"),
    (lambda root: (root / MACHINE / "x.json").write_text("{}"), f"{MACHINE}/x.json: is no file of measurements"),
    # One run
    (in_run("code", "cccccccccccc"), f"{RUN}.1.code is 'cccccccccccc'"),
    (in_run("code", listed("numpy", "dense")), f"{RUN}.1.code"),
    (each(in_run("code", None), in_run("started", "2026-11-22T00:00:00Z")), f"{RUN}.1.code is None"),
    (in_run("shared", 3), f"{RUN}.1.shared is 3"),
    (fail(2, error=None), f"{RUN}.2.status is 'oom'"),
    (fail(2, status="ok"), f"{RUN}.2.status is 'ok'"),
    (fail(2, error="failed in /home/someone/x.py: it broke"), f"{RUN}.2.error holds a path of"),
    (in_run("result.facts.parameters", 167), f"{RUN}.1.result.facts.parameters is 167, not 166"),
    (in_run("result.facts.path.allocator", "tcmalloc"), f"{RUN}.1.result.facts: allocator is tcmalloc"),
    (in_run("result.facts.path.processor", None), f"{RUN}.1.result.facts.path.processor is None"),
    (in_run("result.facts.versions.numpy", "9.9"), f"{RUN}.1.result.facts.versions.numpy is '9.9'"),
    (in_run("result.memory.peak", 0), f"{RUN}.1.result.memory has"),
    (in_run("result.timing.steps_ns", [1] * 4), f"{RUN}.1.result.timing.steps_ns has 2 counted"),
    (in_run("result.loops", [{"sentences": 1, "ns": 1}]), f"{RUN}.1.result.loops has 1"),
    # The machine
    (lambda root: (root / DESCRIBED).unlink(), f"{DESCRIBED}: missing"),
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
    (
        lambda root: write(root, "numpy", OTHER, [as_on("numpy", run, OTHER) for run in runs_of(root)]),
        f"{NAME}: 3 of its invocations are stored in {MACHINE}/numpy/{OTHER.key}.json",
    ),
]


@pytest.mark.parametrize(("damage", "begin"), DAMAGES, ids=[begin for _, begin in DAMAGES])
def test_each_damage_is_one_fault_that_names_the_file_and_the_key(root, damage, begin):
    damage(root)
    (fault,) = sentences(root, True)
    assert fault.startswith(begin)


OF_SWEEP = f"{MACHINE}: 1 invocations of the sweep made-up"
WATCH = f"{MACHINE}/sentinel/numpy/{SENTINEL.key}.json"
NOTED = [
    (in_run("rates_off", True), f"{OF_SWEEP} ran while the machine's rates had left their range"),
    (remove(2), f"{MACHINE}: the sweep made-up is unfinished: round 3 has 2 of 3"),
    (disturb(2), f"{OF_SWEEP} have no repeat yet, first {NAME}: key invocations.2"),
    (
        put("invocations.1.result.timing.steps_ns", [9 * 10**9] * 5, WATCH),
        f"{MACHINE}/sentinel/numpy: two runs of the same thing differ",
    ),
    (in_run("result.facts.versions.numpy", "2.5.2"), f"{MACHINE}: 1 files mix runs that differ in versions"),
    (each(remove(1), withdraw("beside a build")), f"{MACHINE}: 1 invocations are withdrawn"),
    (each(remove(1), add(16, round=4), add(17, f"{MACHINE}/numpy/{OTHER.key}.json", round=4)), f"{RUN} lacks round 2"),
]


@pytest.mark.parametrize(("happen", "begin"), NOTED, ids=[begin for _, begin in NOTED])
def test_what_is_no_fault_may_be_worth_a_note(root, happen, begin):
    happen(root)
    assert sentences(root, True) == []
    assert any(note.startswith(begin) for note in sentences(root, False))


def test_a_disturbed_run_that_was_repeated_after_a_pause_of_hours_is_in_order(root):
    each(disturb(0), add(240, round=1, again=True))(root)
    assert list(check.findings(root)) == []


def test_what_was_measured_by_older_sources_is_not_compared(root, monkeypatch):
    """The sources changed, and all was measured again under the same names of sweep and rounds."""
    new = {f"{api}-changed": {"workload": "rnn", "api": api} for api in ("numpy", "keras3")}
    known = code.known() | new
    monkeypatch.setattr(code, "known", lambda: known)
    for place, (stack, point, sentinel) in enumerate(THINGS):
        name = records.file_of(root, MACHINE, stack, point.key, sentinel).relative_to(root)
        for number in (1, 2, 3):
            add(360 + 5 * number + place, name, round=number, code=f"{stacks.KNOWN[stack].api}-changed")(root)
    assert sentences(root, True) == []


def test_each_field_that_contradicts_its_filename_is_reported(tmp_path):
    """NumPy's own file that claims to be TensorFlow's on a GPU."""
    record = records.read(next((REAL / "numpy").glob("rnn-*-adam.json")))
    point = make_point(**record.point.fields | {"device": "gpu"})
    runs = [run.model_copy(update={"threads": 64}) for run in record.invocations]
    write(tmp_path, "2026-tensorflow", point, runs)
    shutil.copy(REAL / "machine.json", tmp_path / MACHINE)
    said = " ".join(sentences(tmp_path, True))
    lies = ["threads is 64", "is of a GPU", "on keras3", "backend is 'numpy'", "versions is ['numpy']", "memory has"]
    assert [lie for lie in lies if lie not in said] == []


@pytest.mark.parametrize("seed", range(4))
def test_a_sweep_that_is_killed_and_goes_on_is_without_fault_at_any_time(bare, invocation, monkeypatch, seed):
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

    rates = json.loads((REAL / "rates.json").read_text())[0]
    ended = False
    while not ended:
        with contextlib.suppress(KeyboardInterrupt):
            sweep.run(plans, bare, measure=measure, rates=lambda: rates)
            ended = True
        assert sentences(bare, True) == []
    assert not any("unfinished" in note for note in sentences(bare, False))
