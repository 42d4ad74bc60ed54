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
OLD = paths.MEASUREMENTS / "amd-epyc-2-cores-24-gib"
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
def make(invocation):
    """Build an invocation as today's sweeps make it: no two took the same time."""
    first_ns = itertools.count(50_000_000)

    def build(point, minute, status="ok", stack="numpy", **changes):
        made = invocation(status, started=at(minute), code=CODE, **changes)
        if made.get("result"):
            made["result"]["facts"]["parameters"] = point.work.parameters
            made["result"]["facts"]["path"]["allocator"] = point.run.allocator
            made["result"]["timing"]["first_ns"] = next(first_ns)
        return as_on(stack, made)

    return build


@pytest.fixture
def bare(tmp_path):
    """A folder of a real machine that has measured nothing yet."""
    root = tmp_path / "measurements"
    (root / MACHINE).mkdir(parents=True)
    for name in ("machine.json", "rates.json"):
        shutil.copy(REAL / name, root / MACHINE)
    return root


@pytest.fixture
def root(bare, make):
    """The machine with a sweep of three rounds: NumPy under two allocators, JAX, and their sentinels."""
    root = bare
    for place, (stack, point, sentinel) in enumerate(THINGS):
        runs = [make(point, 5 * (number - 1) + place, stack=stack, round=number) for number in (1, 2, 3)]
        write(root, stack, point, sentinel, runs)
    return root


def write(root, stack, point, sentinel, runs):
    """A whole measurement file at once."""
    path = records.file_of(root, MACHINE, stack, point.key, sentinel)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = records.Record(machine=MACHINE, stack=stack, key=point.key, point=point, invocations=runs)
    path.write_text(records.dumps(record.model_dump(mode="json", exclude_none=True)))


def file(root, stack="numpy", point=POINT, sentinel=False):
    return records.file_of(root, MACHINE, stack, point.key, sentinel)


@pytest.fixture
def path(root):
    return file(root)


@pytest.fixture
def old(tmp_path):
    """A real file of the first machine, from before the sources were recorded."""

    def copy(name):
        folder = tmp_path / "old" / OLD.name
        (folder / name).parent.mkdir(parents=True)
        for each in ("machine.json", name):
            shutil.copy(OLD / each, folder / each)
        return tmp_path / "old"

    return copy


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


def fail(path, index=2, **changes):
    """Turn one stored invocation into a failed one."""
    made = runs_of(path)[index]
    made.pop("result", None)
    change(path, "invocations", index, value=made | {"status": "oom", "error": "made up"} | changes)


def disturb(path, index):
    change(path, "invocations", index, "result", "evidence", "others_cpu_s", value=5.0)


def crash(path, index):
    fail(path, index, status="crashed")


def shift(path, index, minute):
    """Move one stored invocation in time."""
    change(path, "invocations", index, "started", value=at(minute))


def describe(root, **changes):
    path = described(root)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def withdraw(root, *rows):
    text = "stack,key,started,reason\n" + "".join(",".join(row) + "\n" for row in rows)
    described(root, "withdrawn.csv").write_text(text)


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


def test_a_good_folder_has_neither_faults_nor_notes(root):
    assert (faults(root), notes(root)) == ([], [])


@pytest.mark.parametrize(
    "happen",
    [
        lambda root: change_all(file(root), "protocol", "timeout_s", value=300.0),  # another point's may differ
        *[
            lambda root, error=error: fail(file(root), error=error)
            for error in ("made up", "in <checkout>/traintime/worker/x.py", "in ~/x.py", "/proc/meminfo", "a/tmp/b")
        ],
    ],
)
def test_what_is_well_has_no_fault(root, happen):
    happen(root)
    assert (faults(root), notes(root)) == ([], [])


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_measurements_is_a_problem(tmp_path, exists):
    root = tmp_path if exists else tmp_path / "nowhere"
    assert one_fault(root) == f"{root}: no measurement file below it"


# What happens to the folder, and how its only fault begins: the file, and the key in it


def elsewhere(path, *place):
    target = path.parents[len(place) - 1].joinpath(*place)
    target.parent.mkdir(exist_ok=True)
    path.rename(target)


def failed_with_a_result(path):
    change(path, "invocations", 1, "status", value="timeout")
    change(path, "invocations", 1, "error", value="made up")


def of_more_steps(path):
    change(path, "invocations", 1, "protocol", "steps", value=4)
    change(path, "invocations", 1, "result", "timing", "steps_ns", value=[10**6] * 6)


MEMORY = {"imported": 10, "built": 20, "first_step": 30, "peak": 40}
LOOP = {"sentences": 1, "ns": 1}
RUN = f"{NAME}: key invocations.1"
WRONG_RUN = f"{NAME}: has a wrong key invocations.1"
MARKUP = "<img src=x onerror=alert(1)>"
DAMAGES = [
    # A whole file
    (lambda root: file(root).write_text(file(root).read_text()[:-40]), f"{NAME}: is not whole JSON"),
    (in_file("schema_version", value=records.SCHEMA + 1), f"{NAME}: has schema version {records.SCHEMA + 1}"),
    (in_file("surprise", value=1), f"{NAME}: has a wrong key surprise ("),
    (in_file("machine", value="other-machine"), f"{NAME}: key machine is 'other-machine'"),
    (in_file("point", "sizes", "dropout", value=0.25), f"{NAME}: key point describes '{POINT.key}-d0.25'"),
    (lambda root: elsewhere(file(root), "other.json"), f"{MACHINE}/numpy/other.json: key key is '{POINT.key}'"),
    (
        lambda root: elsewhere(file(root), "2026-torch", f"{POINT.key}.json"),
        f"{MACHINE}/2026-torch/{POINT.key}.json: key stack is 'numpy'",
    ),
    (
        lambda root: write(root, "numpy", make_point(vocabulary=12, **SIZES), False, []),
        f"{MACHINE}/numpy/{POINT.key.replace('v11', 'v12')}.json: key invocations is empty",
    ),
    *[
        (lambda root, place=place: (root / place).write_text("{}"), f"{place}: is no file of measurements")
        for place in ("notes.txt", f"{MACHINE}/numpy/.x.json.part", f"{MACHINE}/x.json")
    ],
    # What nobody can have measured, one of each type
    *[
        (in_run("started", value=value), f"{WRONG_RUN}.started (")
        for value in ("yesterday", "2026-01-02T03:04:05+01:00", "2026-02-30T03:04:05Z", "2026-01-02T03:04:05Z\n")
    ],
    *[
        (in_run(*keys, value=value), f"{WRONG_RUN}.{'.'.join(map(str, keys))} (")
        for keys, value in (
            (("round",), 0),
            (("round",), True),
            (("threads",), 10**400),
            (("sweep",), MARKUP),
            (("error",), "\x1b[2J"),
            (("error",), "x" * 6_000),
            (("protocol", "timeout_s"), 0),
            (("result", "timing", "first_ns"), 0),
            (("result", "timing", "steps_ns", 3), -1),
            (("result", "timing", "warmup"), 5),
            (("result", "memory", "peak"), None),
            (("result", "facts", "versions", "numpy"), MARKUP),
            (("result", "facts", "path", "blas"), "$x$"),
        )
    ],
    # One invocation
    (in_run("shared", value=3), f"{RUN}.shared is 3"),
    (in_result("facts", "parameters", value=167), f"{RUN}.result.facts.parameters is 167, not 166"),
    *[
        (in_result("timing", "steps_ns", value=[1] * number), f"{RUN}.result.timing.steps_ns has {number - 2} counted")
        for number in (4, 6)
    ],
    (in_result("loops", value=[LOOP]), f"{RUN}.result.loops has 1"),
    *[(lambda root, e=error: fail(file(root), error=e), f"{NAME}: key invocations.2.error") for error in (None, "")],
    *[
        (lambda root, error=error: fail(file(root), error=error), f"{NAME}: key invocations.2.error holds a path of")
        for error in ("failed in /home/someone/x.py: it broke", 'File "/mnt/x.py", line 3', "exit status 1\n/tmp/x")
    ],
    (lambda root: failed_with_a_result(file(root)), f"{RUN}.status is 'timeout'"),
    (lambda root: fail(file(root), status="ok"), f"{NAME}: key invocations.2.status is 'ok'"),
    *[
        (
            in_result("facts", "path", "processor", value=each),
            f"{RUN}.result.facts.path.processor is {each!r}, machine.json says {PROCESSOR!r}",
        )
        for each in ("AuthenticAMD family 25 model 1 stepping 1", None)
    ],
    (in_run("protocol", "timeout_s", value=300.0), f"{RUN}.protocol is 2+3 within 300 s"),
    (lambda root: of_more_steps(file(root)), f"{RUN}.protocol is 2+4 within"),
    (in_run("again", value=True), f"{RUN}.again is true"),
    # What ran is what the name says
    *[
        (in_result("facts", *keys, value=value), f"{RUN}.result.facts: ")
        for keys, value in (
            (("backend",), "tensorflow"),
            (("precision",), "mixed-float16"),
            (("path", "allocator"), "tcmalloc"),
            (("threads",), {"OpenBLAS": 64}),
        )
    ],
    (in_result("facts", "versions", value={}), f"{RUN}.result.facts.versions names"),
    (in_result("facts", "versions", "numpy", value="9.9"), f"{RUN}.result.facts.versions.numpy is '9.9'"),
    (in_result("memory", value=MEMORY | {"device_allocated": 1}), f"{RUN}.result.memory has "),
    (in_result("memory", value={"imported": 10, "built": 20, "first_step": 30}), f"{RUN}.result.memory has built"),
    (in_result("memory", "peak", value=0), f"{RUN}.result.memory.peak is 0"),
    # The machine
    (lambda root: described(root).unlink(), f"{MACHINE}/machine.json: missing"),
    *[
        (lambda root, name=name, text=text: described(root, name).write_text(text), f"{MACHINE}/{name}: {how}")
        for name, text, how in (
            ("machine.json", "{", "is not whole JSON"),
            ("rates.json", "{}", "has a wrong key"),
            ("withdrawn.csv", "stack,key,started\nnumpy,a,b\n", "has a wrong key"),
            ("withdrawn.csv", "stack,key,started,reason\na,b,c,d,e\n", "has a wrong key"),
            ("withdrawn.csv", f"stack,key,started,reason\nnumpy,k,{at(5)}, \n", "has a wrong key 0.reason"),
        )
    ],
    *[
        (lambda root, it=it: describe(root, **it), f"{MACHINE}/machine.json: has a wrong key {next(iter(it))}")
        for it in ({"cpu": MARKUP}, {"schema_version": 99}, {"hostname": "mine"}, {"cores": 0}, {"caches": {"<": ""}})
    ],
    (lambda root: describe(root, machine="other"), f"{MACHINE}/machine.json: key machine is 'other'"),
    (
        lambda root: describe(root, memory_bytes=2**33),
        f"{MACHINE}/machine.json: describes 'amd-epyc-family26-model2-2-cores-8-gib'",
    ),
    *[
        (
            lambda root, value=value: change(described(root, "rates.json"), 1, "matmul_flop_per_s", value=value),
            f"{MACHINE}/rates.json: has a wrong key 1.matmul_flop_per_s (",
        )
        for value in (0, None)
    ],
    (
        lambda root: withdraw(root, ("numpy", POINT.key, at(5), "measured with the wrong BLAS")),
        f"{MACHINE}/withdrawn.csv: row 1: the invocation of {at(5)} is still there: {RUN}",
    ),
    # The sentinels
    *[
        (damage, f"{MACHINE}/sentinel/numpy: no run in the sweep made-up")
        for damage in (
            lambda root: watch(root).unlink(),
            lambda root: change_all(watch(root), "sweep", value="another"),
        )
    ],
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
    # A repeat may still come in the last round; a sweep that was killed before a sentinel's has no need of it.
    (lambda root: disturb(file(root), 2), f"{OF_SWEEP} have no repeat yet, first {NAME}: key invocations.2"),
    (lambda root: crash(file(root), 2), f"{OF_SWEEP} have no repeat yet, first {NAME}: key invocations.2"),
    (lambda root: disturb(watch(root), 0), f"{OF_SWEEP} have no repeat yet, first {MACHINE}/sentinel/numpy"),
    (
        lambda root: change(watch(root), "invocations", 1, "result", "timing", "steps_ns", value=[9 * 10**9] * 5),
        f"{MACHINE}/sentinel/numpy: two runs of the same thing differ",
    ),
    (in_result("facts", "versions", "numpy", value="2.5.2"), f"{MACHINE}: 1 files mix runs that differ in versions"),
    (in_result("facts", "path", "blas", value="other"), f"{MACHINE}: 1 files mix runs that differ in path"),
]


@pytest.mark.parametrize(("happen", "noted"), NOTED, ids=[noted for _, noted in NOTED])
def test_what_is_no_fault_may_be_worth_a_note(root, happen, noted):
    happen(root)
    assert one_note(root).startswith(noted)


def test_a_measurement_under_a_false_name_is_named_lie_by_lie(tmp_path):
    """NumPy's own file that claims to be TensorFlow's on a GPU."""
    true = next((REAL / "numpy").glob("rnn-*-adam.json"))
    record = records.read(true)
    point = make_point(**record.point.fields | {"device": "gpu"})
    path = records.file_of(tmp_path, MACHINE, "2026-tensorflow", point.key)
    path.parent.mkdir(parents=True)
    shutil.copy(REAL / "machine.json", tmp_path / MACHINE)
    false = record.model_copy(update={"stack": "2026-tensorflow", "key": point.key, "point": point})
    path.write_text(records.dumps(false.model_dump(mode="json", exclude_none=True)))
    change_all(path, "threads", value=64)
    said = " ".join(faults(tmp_path, known=None))
    lies = ["threads is 64", "ran on a GPU", "api numpy", "backend is 'numpy'", "versions names numpy", "memory has"]
    assert [lie for lie in lies if lie not in said] == []


@pytest.mark.parametrize("place", ["another machine", "another configuration"])
def test_a_run_that_is_stored_a_second_time_is_named(root, path, place):
    if place == "another machine":
        shutil.copytree(root / MACHINE, root / "copied")
        where, files = "copied/", len(THINGS)
    else:
        point = make_point(vocabulary=12, **SIZES)
        write(root, "numpy", point, False, runs_of(path))
        where, files = f"{MACHINE}/numpy/{point.key}.json", 1
    twice = [problem for problem in faults(root) if "3 of its invocations are stored in" in problem]
    assert len(twice) == files
    assert all(problem.startswith(where) for problem in twice)


# Sources


def test_sources_that_nobody_knows_or_of_another_workload_or_stack_are_named(root, path):
    unlisted = " ".join(faults(root, known=None))
    assert all(f"{NAME}: key invocations.{index}.code" in unlisted for index in range(3))
    of_blocks = next(version for version, row in code.known().items() if row["workload"] == "blocks")
    change_all(path, "code", value=of_blocks)
    assert "sources for the workload blocks, not rnn" in " ".join(faults(root, known=None))
    target = file(root, "2016-theano")
    target.parent.mkdir()
    shutil.copy(file(root, "2026-jax"), target)
    change(target, "stack", value="2016-theano")
    named = [problem for problem in faults(root) if "key stack" in problem]
    assert named == [f"{MACHINE}/2016-theano/{POINT.key}.json: key stack is '2016-theano', which is no known stack"]


def test_a_run_that_does_not_say_what_measured_it_is_named_since_all_do(root, path):
    for index, started in ((0, "2026-11-21T15:00:00Z"), (1, "2026-11-22T00:00:00Z")):
        change(path, "invocations", index, "code", value=None)
        change(path, "invocations", index, "started", value=started)
    (problem,) = (problem for problem in faults(root) if "code is missing" in problem)
    assert problem.startswith(f"{NAME}: key invocations.1.code is missing")


def test_steps_that_elapsed_time_could_end_are_named_where_the_sources_are_known(root, path):
    stopping = {"warmup": 2, "steps": 3, "timeout_s": 900.0, "seconds": 2.0, "limit_s": 5.0, "fewest": 2}
    change_all(path, "protocol", value=stopping)
    found = faults(root)
    assert len(found) == 3
    assert found[0] == (f"{NAME}: key invocations.0.protocol is '2+3, 2 to 5 s': the steps were not fixed beforehand")


# Older measurements


def test_old_runs_may_be_shorter_than_was_asked_but_not_than_the_least(old):
    name = f"2017-tensorflow/{make_point(vocabulary=800_000).key}.json"
    root = old(name)
    path = root / OLD.name / name
    first = runs_of(path)[0]
    least, steps = first["protocol"]["fewest"], len(first["result"]["timing"]["steps_ns"]) - 2
    assert least <= steps < first["protocol"]["steps"]
    assert faults(root) == []
    change(path, "invocations", 0, "result", "timing", "steps_ns", value=[10**9] * (least + 1))
    assert f"counted steps of at least {least}" in one_fault(root)


# The machine


def test_a_machine_that_does_not_tell_its_processor_believes_its_measurements(root, path):
    change_all(path, "result", "facts", "path", "processor", value=None)
    describe(root, stepping=None)
    assert not any("path.processor" in problem for problem in faults(root))


def test_each_machine_is_checked_by_itself(root):
    shutil.copytree(root / MACHINE, root / "other")
    found = faults(root)
    assert f"other/machine.json: key machine is {MACHINE!r}, the folder is 'other'" in found
    assert all(problem.startswith("other/") for problem in found)


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


@pytest.mark.parametrize("again", [False, True])
def test_a_point_that_a_round_has_twice_is_named(root, path, make, again):
    if again:
        disturb(path, 2)
        records.append(path, MACHINE, "numpy", POINT, make(POINT, 15, round=3, again=True))
    records.append(path, MACHINE, "numpy", POINT, make(POINT, 16, round=3, again=again))
    words = "it again already" if again else "it already"
    assert one_fault(root) == f"{NAME}: key invocations.{3 + again}: round 3 of the sweep made-up has {words}"


def test_a_point_with_too_few_rounds_is_named_and_one_with_enough_noted(root, path):
    remove(path, 1)
    assert (
        one_fault(root) == one_note(root, at_least=2) == f"{NAME}: key invocations lacks round 2 of the sweep made-up"
    )
    remove(path, 0)
    assert one_fault(root) == f"{NAME}: key invocations lacks rounds 1, 2 of the sweep made-up"
    assert faults(root, at_least=1) == []


def test_a_sweep_in_its_first_round_is_noted(root):
    for path in records.files(root):
        remove(path, 1, 2)
    file(root, "2026-jax").unlink()
    assert one_note(root) == (
        f"{MACHINE}: the sweep made-up is unfinished: round 1 has 2 of 2 configurations; whole rounds 1 of 3 at least"
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_sweep_that_is_killed_and_goes_on_is_without_fault_at_any_time(bare, invocation, monkeypatch, seed):
    """Whatever crashes, is disturbed or killed, however long the pause; no other test checks a sweep's own files."""
    monkeypatch.setattr(records.os, "fsync", lambda file: None)
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: True))
    monkeypatch.setattr(machine, "this", lambda: MACHINE)
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


# Sweeps: repeats


@pytest.mark.parametrize(("happen", "words"), [(disturb, "was disturbed"), (crash, "crashed")])
def test_what_was_disturbed_or_crashed_must_be_repeated(root, path, make, happen, words):
    happen(path, 0)
    problem = f"{NAME}: key invocations.0 {words}, and round 1 of the sweep made-up has no repeat of it"
    assert one_fault(root) == problem
    records.append(path, MACHINE, "numpy", POINT, make(POINT, 40, round=1, again=True))
    assert (faults(root), notes(root)) == ([], [])


@pytest.mark.parametrize(("started", "is_one"), [("2026-11-21T00:00:00Z", False), ("2026-11-23T00:00:00Z", True)])
def test_time_that_a_host_took_must_be_repeated_since_that_counts(path, started, is_one):
    change(path, "invocations", 0, "result", "evidence", "steal_s", value=5.0)
    first = records.read(path).invocations[0].model_copy(update={"started": started})
    assert first.disturbed
    assert first.stolen_before_it_counted != is_one
    disturb(path, 0)
    both = records.read(path).invocations[0].model_copy(update={"started": started})
    assert not both.stolen_before_it_counted, "others disturbed it, too"


@pytest.mark.parametrize("status", ["ok", "oom", "timeout"])
def test_a_repeat_of_what_was_well_is_named(root, path, make, status):
    if status != "ok":
        fail(path, 1, status=status)
    records.append(path, MACHINE, "numpy", POINT, make(POINT, 9, round=2, again=True))
    assert (
        one_fault(root)
        == f"{NAME}: key invocations.3.again is true, but what it repeats neither crashed nor was disturbed"
    )


# Withdrawn


def test_a_withdrawn_invocation_may_be_missing_and_is_noted(root, path):
    remove(path, 1)
    withdraw(root, ("numpy", POINT.key, at(5), "measured with the wrong BLAS"))
    assert faults(root) == []
    assert f"{MACHINE}: 1 invocations are withdrawn, see withdrawn.csv" in notes(root)
