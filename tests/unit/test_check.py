"""The checker: a good folder passes, each kind of damage is one sentence that names the file and the key."""

import contextlib
import copy
import itertools
import json
import os
import random
import shutil
from datetime import datetime, timedelta

import pytest

from traintime import paths
from traintime.measuring import check, history, machine, stacks, sweep
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
    """Real files of the first machine, from before the sources were recorded."""

    def copy(name):
        folder = tmp_path / "old" / OLD.name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(OLD / "sentinel", folder / "sentinel")
        (folder / name).parent.mkdir()
        for each in ("machine.json", name):
            shutil.copy(OLD / each, folder / each)
        return tmp_path / "old"

    return copy


def watch(root):
    """NumPy's sentinel."""
    return file(root, point=SENTINEL, sentinel=True)


def change(path, *keys, value):
    """Set one key of a JSON file."""
    whole = json.loads(path.read_text())
    inner = whole
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(records.dumps(whole))


def change_all(path, *keys, value):
    """Set one key of every invocation."""
    for index in range(len(json.loads(path.read_text())["invocations"])):
        change(path, "invocations", index, *keys, value=value)


def remove(path, *indices):
    """Take out stored invocations."""
    kept = [each for i, each in enumerate(json.loads(path.read_text())["invocations"]) if i not in indices]
    change(path, "invocations", value=kept)


def fail(path, index=2, **changes):
    """Turn one stored invocation into a failed one."""
    made = json.loads(path.read_text())["invocations"][index]
    made.pop("result", None)
    change(path, "invocations", index, value=made | {"status": "oom", "error": "made up"} | changes)


def sentences(root, fault, known=(CODE,), **options):
    return [found.sentence for found in check.findings(root, known=known, **options) if found.fault == fault]


def disturb(path, index):
    change(path, "invocations", index, "result", "evidence", "others_cpu_s", value=5.0)


def crash(path, index):
    fail(path, index, status="crashed")


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
    ("happen", "noted"),
    [
        (lambda root: fail(file(root)), []),
        (lambda root: change_all(file(root), "protocol", "timeout_s", value=300.0), []),  # another point's may differ
        *[
            (lambda root, error=error: fail(file(root), error=error), [])
            for error in ("in <checkout>/traintime/worker/x.py", "in ~/x.py", "/proc/meminfo", "a/tmp/b")
        ],
        (lambda root: [crash(watch(root), index) for index in range(3)], ["have no repeat yet"]),
    ],
)
def test_what_is_well_has_no_fault(root, happen, noted):
    happen(root)
    assert faults(root) == []
    assert [words in note for words, note in zip(noted, notes(root), strict=True)] == [True] * len(noted)


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_measurements_is_a_problem(tmp_path, exists):
    root = tmp_path if exists else tmp_path / "nowhere"
    assert one_fault(root) == f"{root}: no measurement file below it"


# Whole files


def described(root, name="machine.json"):
    return root / MACHINE / name


def lacks(path, key):
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != key}))


def elsewhere(path, *place):
    target = path.parents[len(place) - 1].joinpath(*place)
    target.parent.mkdir(exist_ok=True)
    path.rename(target)


def failed_with_a_result(path):
    change(path, "invocations", 1, "status", value="timeout")
    change(path, "invocations", 1, "error", value="made up")


def empty(root):
    write(root, "numpy", make_point(vocabulary=12, **SIZES), False, [])


def of_more_steps(path):
    change(path, "invocations", 1, "protocol", "steps", value=4)
    change(path, "invocations", 1, "result", "timing", "steps_ns", value=[10**6] * 6)


def in_file(*keys, value):
    return lambda root: change(file(root), *keys, value=value)


def in_run(*keys, value):
    return in_file("invocations", 1, *keys, value=value)


def in_result(*keys, value):
    return in_run("result", *keys, value=value)


def lacks_peak(path):
    change(path, "invocations", 1, "result", "memory", value={k: v for k, v in MEMORY.items() if k != "peak"})


def stray(path):
    path.write_text("{}")
    return path


def linked(path, to):
    path.unlink()
    path.symlink_to(to)


MEMORY = {"imported": 10, "built": 20, "first_step": 30, "peak": 40}
LOOP = {"sentences": 1, "ns": 1}
TEXTS = [("machine.json", "{", "is not whole JSON"), ("rates.json", "[", "is not whole JSON")]
TEXTS += [("machine.json", "[]", "has a wrong key"), ("rates.json", "{}", "has a wrong key")]
TEXTS += [("rates.json", "3", "has a wrong key")]
RATES = ["bandwidth_bytes_per_s", "matmul_flop_per_s"]
PROCESSORS = ["AuthenticAMD family 25 model 1 stepping 1", None]
STEPS = [([1] * 4, 2), ([1] * 6, 4)]
UNREADABLE = ["", "stack,key,started\nnumpy,a,b\n", "stack,key,started,reason\na,b,c,d,e\n"]
# Keys of an invocation, and what nobody can have measured
MARKUP = "<img src=x onerror=alert(1)>"
TIMES = ["yesterday", "2026-01-02 03:04:05", "2026-01-02T03:04:05+01:00", "2026-99-02T03:04:05Z"]
TIMES += ["2026-02-30T03:04:05Z", "٢٠٢٦-01-02T03:04:05Z", "2026-01-02T03:04:05Z\n", 3]
WRONG = [
    *[((2, "started"), value) for value in TIMES],
    *[((1, "round"), value) for value in (-7, 0, True, 1.0, "1", 10**400)],
    *[((1, "threads"), value) for value in (0, -1, 10**9)],
    *[((1, "sweep"), value) for value in (MARKUP, "", "a\x1b[31m", "s" * 300, "a|b", "*a*")],
    *[((1, "error"), value) for value in ("\x1b[2J", "a\u202eb", "x" * 6_000)],
    *[((1, "protocol", name), value) for name in ("steps", "timeout_s") for value in (0, -3, 10**400)],
    *[((1, "result", "timing", "first_ns"), value) for value in (-1, 0, 1.5)],
    *[((1, "result", "timing", "steps_ns", 3), value) for value in (0, -1, 10**400)],
    *[((1, "result", "memory", "peak"), value) for value in (-1, 10**400, None)],
    *[((1, "result", "facts", "versions", "numpy"), value) for value in (MARKUP, "[a](b)", "2" * 300, "`2`", 2)],
    *[
        ((1, "result", "facts", "path", "blas"), value)
        for value in (MARKUP, "$x$", "b" * 300, "a\nb", "OpenBLAS ＜b＞")
    ],
]
WRONG_OF_A_MACHINE = [
    *[{"cpu": value} for value in (None, MARKUP, "c" * 300, "cpu\x07")],
    *[{"schema_version": value} for value in (0, 99, "3")],
    {"hostname": "somebodys-computer"},
    {"cores": 0},
    {"memory_bytes": -1},
    {"gpus": [{"name": MARKUP, "memory_mib": 1, "driver": "1"}]},
    {"caches": {"L1d": MARKUP}},
]
# What happens to the folder, and how its only fault begins: the file, and the key in it
DAMAGES = [
    # A whole file
    (in_run("shared", value=3), f"{NAME}: key invocations.1.shared is 3"),
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
    (empty, f"{MACHINE}/numpy/{POINT.key.replace('v11', 'v12')}.json: key invocations is empty"),
    # One invocation
    (in_result("facts", "parameters", value=167), f"{NAME}: key invocations.1.result.facts.parameters is 167, not 166"),
    *[
        (
            in_result("timing", "steps_ns", value=steps),
            f"{NAME}: key invocations.1.result.timing.steps_ns has {number} counted steps of 3",
        )
        for steps, number in STEPS
    ],
    (in_result("timing", "warmup", value=5), f"{NAME}: has a wrong key invocations.1.result.timing.warmup ("),
    *[(lambda root, e=error: fail(file(root), error=e), f"{NAME}: key invocations.2.error") for error in (None, "")],
    (lambda root: failed_with_a_result(file(root)), f"{NAME}: key invocations.1.status is 'timeout'"),
    (lambda root: fail(file(root), status="ok"), f"{NAME}: key invocations.2.status is 'ok'"),
    *[
        (
            in_file("invocations", *keys, value=value),
            f"{NAME}: has a wrong key invocations.{'.'.join(map(str, keys))} (",
        )
        for keys, value in WRONG
    ],
    *[
        (
            in_result("facts", "path", "processor", value=each),
            f"{NAME}: key invocations.1.result.facts.path.processor is {each!r}, machine.json says {PROCESSOR!r}",
        )
        for each in PROCESSORS
    ],
    # What ran is what the name says
    *[
        (in_result("facts", name, value=value), f"{NAME}: key invocations.1.result.facts: ")
        for name, value in (("backend", "tensorflow"), ("device", "gpu"), ("precision", "mixed-float16"), ("cpus", 1))
    ],
    (in_result("facts", "path", "allocator", value="tcmalloc"), f"{NAME}: key invocations.1.result.facts: allocator"),
    (in_result("facts", "threads", value={"OpenBLAS": 64}), f"{NAME}: key invocations.1.result.facts: OpenBLAS"),
    (in_result("facts", "versions", value={}), f"{NAME}: key invocations.1.result.facts.versions names"),
    (
        in_result("facts", "versions", "numpy", value="9.9"),
        f"{NAME}: key invocations.1.result.facts.versions.numpy is '9.9'",
    ),
    *[
        (in_result("memory", value=MEMORY | changed), f"{NAME}: key invocations.1.result.memory has ")
        for changed in ({"device_allocated": 1}, {"other": 1})
    ],
    (lambda root: lacks_peak(file(root)), f"{NAME}: key invocations.1.result.memory has built"),
    (in_result("memory", "peak", value=0), f"{NAME}: key invocations.1.result.memory.peak is 0"),
    (in_result("loops", value=[LOOP]), f"{NAME}: key invocations.1.result.loops has 1"),
    # Beside the files
    *[
        (lambda root, place=place: stray(root / place), f"{place}: is no file of measurements")
        for place in ("notes.txt", f"{MACHINE}/numpy/.x.json.part", f"{MACHINE}/numpy/a<b>.json", f"{MACHINE}/x.json")
    ],
    (lambda root: stray(root / "\x1b[31m\udcff"), "\\x1b[31m\\udcff: is no file of measurements"),
    (lambda root: os.truncate(stray(file(root)), 200 * 2**20), f"{NAME}: has more than "),
    (lambda root: os.truncate(stray(described(root)), 200 * 2**20), f"{MACHINE}/machine.json: has more than "),
    (lambda root: (root / MACHINE / "numpy/deep/er").mkdir(parents=True), f"{MACHINE}/numpy/deep: is no folder"),
    (lambda root: (root / MACHINE / "numpy/x.json").mkdir(), f"{MACHINE}/numpy/x.json: is no folder"),
    (lambda root: (root / MACHINE / "2026-torch").symlink_to(root), f"{MACHINE}/2026-torch: is a link"),
    (lambda root: (root / "other").symlink_to("other"), "other: is a link"),
    (lambda root: linked(file(root), "/dev/zero"), f"{NAME}: is a link"),
    (lambda root: linked(described(root, "rates.json"), "rates.json"), f"{MACHINE}/rates.json: is a link"),
    (lambda root: os.mkfifo(root / MACHINE / "numpy" / "x.json"), f"{MACHINE}/numpy/x.json: is neither"),
    (lambda root: os.mkfifo(root / MACHINE / "withdrawn.csv"), f"{MACHINE}/withdrawn.csv: is neither"),
    *[
        (lambda root, t=text: described(root, "withdrawn.csv").write_text(t), f"{MACHINE}/withdrawn.csv: has ")
        for text in (f"stack,key,started,reason\na,b,c,{'d' * 200_000}\n", "stack,key,started,reason\na,b,c,\x00\n")
    ],
    (in_run("protocol", "timeout_s", value=300.0), f"{NAME}: key invocations.1.protocol is 2+3 within 300 s"),
    (lambda root: of_more_steps(file(root)), f"{NAME}: key invocations.1.protocol is 2+4 within"),
    (in_run("again", value=True), f"{NAME}: key invocations.1.again is true"),
    # The machine
    (lambda root: described(root).unlink(), f"{MACHINE}/machine.json: missing"),
    *[(lambda root, n=n, t=t: described(root, n).write_text(t), f"{MACHINE}/{n}: {how}") for n, t, how in TEXTS],
    *[
        (lambda root, key=key: lacks(described(root), key), f"{MACHINE}/machine.json: has a wrong key {key} (")
        for key in ("schema_version", "kernel")
    ],
    *[
        (lambda root, it=it: describe(root, **it), f"{MACHINE}/machine.json: has a wrong key {next(iter(it))}")
        for it in WRONG_OF_A_MACHINE
    ],
    (lambda root: describe(root, machine="other"), f"{MACHINE}/machine.json: key machine is 'other'"),
    (
        lambda root: describe(root, memory_bytes=2**33),
        f"{MACHINE}/machine.json: describes 'amd-epyc-family26-model2-2-cores-8-gib'",
    ),
    (
        lambda root: describe(root, cpu="Intel Xeon"),
        f"{MACHINE}/machine.json: describes 'intel-xeon-family26-model2-2-",
    ),
    *[
        (
            lambda root, rate=rate, value=value: change(described(root), "rates", rate, value=value),
            f"{MACHINE}/machine.json: has a wrong key rates.{rate} (",
        )
        for rate in RATES
        for value in (0, -1.0, None, True, 10**400)
    ],
    (
        lambda root: change(described(root, "rates.json"), 1, RATES[1], value=0),
        f"{MACHINE}/rates.json: has a wrong key 1.{RATES[1]} (",
    ),
    *[
        (lambda root, text=text: described(root, "withdrawn.csv").write_text(text), f"{MACHINE}/withdrawn.csv: has ")
        for text in UNREADABLE
    ],
    (
        lambda root: withdraw(root, ("numpy", POINT.key, at(5), "measured with the wrong BLAS")),
        f"{MACHINE}/withdrawn.csv: row 1: the invocation of {at(5)} is still there: {NAME}: key invocations.1",
    ),
    # The sentinels
    (
        lambda root: file(root, "2026-jax", SENTINEL, sentinel=True).unlink(),
        f"{MACHINE}/sentinel/2026-jax: no run in the sweep made-up",
    ),
    (
        lambda root: change_all(watch(root), "sweep", value="another"),
        f"{MACHINE}/sentinel/numpy: no run in the sweep made-up",
    ),
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
    (in_result("facts", "path", "onednn", value=True), f"{MACHINE}: 1 files mix runs that differ in path"),
]


@pytest.mark.parametrize(("happen", "noted"), NOTED, ids=[noted for _, noted in NOTED])
def test_what_is_no_fault_may_be_worth_a_note(root, happen, noted):
    happen(root)
    assert one_note(root).startswith(noted)


def test_a_measurement_under_a_false_name_is_named_lie_by_lie(tmp_path):
    """NumPy's own file that claims to be TensorFlow's on a GPU."""
    true = next((REAL / "numpy").glob("rnn-*-adam.json"))
    point = records.read(true).point
    false = make_point(**point.fields | {"device": "gpu", "precision": "mixed-float16"})
    path = records.file_of(tmp_path, MACHINE, "2026-tensorflow", false.key)
    path.parent.mkdir(parents=True)
    shutil.copy(REAL / "machine.json", tmp_path / MACHINE)
    shutil.copy(true, path)
    for keys, value in {
        ("stack",): "2026-tensorflow",
        ("key",): false.key,
        ("point",): false.model_dump(mode="json"),
    }.items():
        change(path, *keys, value=value)
    change_all(path, "result", "facts", "versions", value={"torch": "9.9"})
    change_all(path, "threads", value=64)
    said = " ".join(faults(tmp_path, known=None))
    for lie in (
        "threads is 64",
        "ran on a GPU",
        "api numpy",
        "backend is 'numpy'",
        "versions names torch",
        "memory has",
    ):
        assert lie in said


def test_sources_of_another_workload_are_named(root, path):
    of_blocks = next(version for version, row in code.known().items() if row["workload"] == "blocks")
    change_all(path, "code", value=of_blocks)
    assert "sources for the workload blocks, not rnn" in " ".join(faults(root, known=None))


def test_an_unknown_stack_is_named(root):
    target = file(root, "2016-theano")
    target.parent.mkdir()
    shutil.copy(file(root, "2026-jax"), target)
    change(target, "stack", value="2016-theano")
    named = [problem for problem in faults(root) if "key stack" in problem]
    assert named[0] == f"{MACHINE}/2016-theano/{POINT.key}.json: key stack is '2016-theano', which is no known stack"


@pytest.mark.parametrize("home", ["/home/someone/x.py", "/mnt/x.py", "/Users/someone/x.py", "/tmp/x", "/content/x"])
@pytest.mark.parametrize("error", ["failed in {}: it broke", 'File "{}", line 3', "exit status 1\n{}: failed"])
def test_a_path_of_somebodys_machine_is_named(root, path, home, error):
    fail(path, error=error.format(home))
    problem = one_fault(root)
    assert problem.startswith(f"{NAME}: key invocations.2.error holds a path of somebody's machine")
    assert home[:6] in problem


# One invocation


def test_a_run_that_does_not_say_what_measured_it_is_named_since_all_do(root, path):
    for index, started in ((0, "2026-11-21T15:00:00Z"), (1, "2026-11-22T00:00:00Z")):
        change(path, "invocations", index, "code", value=None)
        change(path, "invocations", index, "started", value=started)
    (problem,) = (problem for problem in faults(root) if "code is missing" in problem)
    assert problem.startswith(f"{NAME}: key invocations.1.code is missing")


def test_sources_that_nobody_knows_are_named(root, path):
    unlisted = " ".join(faults(root, known=None))
    assert all(f"{NAME}: key invocations.{index}.code" in unlisted for index in range(3))
    change_all(path, "code", value="ffffffffffff")
    assert len(faults(root)) == 3
    assert faults(root)[1] == (f"{NAME}: key invocations.1.code is 'ffffffffffff', sources that code.csv does not list")


# The protocol


def test_steps_that_elapsed_time_could_end_are_named_where_the_sources_are_known(root, path):
    stopping = {"warmup": 2, "steps": 3, "timeout_s": 900.0, "seconds": 2.0, "limit_s": 5.0, "fewest": 2}
    change_all(path, "protocol", value=stopping)
    found = faults(root)
    assert len(found) == 3
    assert found[0] == (f"{NAME}: key invocations.0.protocol is '2+3, 2 to 5 s': the steps were not fixed beforehand")


def test_old_runs_may_be_shorter_than_was_asked_but_not_than_the_least(old):
    name = f"2017-tensorflow/{make_point(vocabulary=800_000).key}.json"
    root = old(name)
    path = root / OLD.name / name
    protocol = json.loads(path.read_text())["invocations"][0]["protocol"]
    steps = len(json.loads(path.read_text())["invocations"][0]["result"]["timing"]["steps_ns"]) - protocol["warmup"]
    assert protocol["fewest"] <= steps < protocol["steps"]
    assert faults(root) == []
    change(path, "invocations", 0, "result", "timing", "steps_ns", value=[10**9] * (protocol["fewest"] + 1))
    assert f"counted steps of at least {protocol['fewest']}" in one_fault(root)


# The machine


def describe(root, **changes):
    path = root / MACHINE / "machine.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_machine_that_does_not_tell_its_processor_believes_its_measurements(root, path):
    change_all(path, "result", "facts", "path", "processor", value=None)
    describe(root, stepping=None)
    assert not any("path.processor" in problem for problem in faults(root))


def test_each_machine_is_checked_by_itself(root):
    shutil.copytree(root / MACHINE, root / "other")
    found = faults(root)
    assert f"other/machine.json: key machine is {MACHINE!r}, the folder is 'other'" in found
    assert all(problem.startswith(("other/", "sentinel/")) for problem in found)


# Sweeps: rounds


def shift(path, index, minute, **changes):
    """Move one stored invocation in time."""
    change(path, "invocations", index, "started", value=at(minute))
    for name, value in changes.items():
        change(path, "invocations", index, name, value=value)


def test_a_baseline_from_an_earlier_hour_is_not_interleaved(root):
    """One allocator in one hour, the other in the next, both as the same rounds of the same sweep."""
    for index in range(3):
        shift(file(root, point=OTHER), index, 70 + index)
    problem, _ = faults(root)
    assert problem.startswith(f"{MACHINE}/numpy/{OTHER.key}.json: key invocations.0.started is 2026-01-02T04:10:05Z")
    assert "in round 1 of the sweep made-up, after round 2 had begun (2026-01-02T03:05:05Z)" in problem
    assert "1 of the round's 3 runs are not interleaved" in problem


def test_each_round_that_is_not_interleaved_is_told(root):
    path = file(root, "2026-jax")
    for index, minute in ((0, 71), (1, 72), (2, 73)):
        shift(path, index, minute)
    shift(file(root), 2, 80)
    assert [problem.split(",")[1] for problem in faults(root)] == [
        " in round 1 of the sweep made-up",
        " in round 2 of the sweep made-up",
    ]


def test_a_killed_sweep_that_goes_on_hours_later_is_interleaved_and_the_pause_is_noted(root):
    for stack, point in (("numpy", OTHER), ("2026-jax", POINT)):
        for index in (1, 2):
            shift(file(root, stack, point), index, 240 + 10 * index)
    shift(file(root), 2, 255)
    assert one_note(root) == f"{MACHINE}: round 2 of the sweep made-up was interrupted for 4.1 hours"


def test_a_stack_that_was_added_when_the_others_were_done_is_not_interleaved(root, make):
    path = records.file_of(root, MACHINE, "2026-torch", POINT.key)
    for number in (1, 2, 3):
        records.append(path, MACHINE, "2026-torch", POINT, make(POINT, 60 + number, stack="2026-torch", round=number))
    watch = records.file_of(root, MACHINE, "2026-torch", SENTINEL.key, sentinel=True)
    records.append(watch, MACHINE, "2026-torch", SENTINEL, make(SENTINEL, 90, stack="2026-torch", round=1))
    found = faults(root)
    assert len(found) == 2
    assert all(f"{MACHINE}/2026-torch/{POINT.key}.json" in problem for problem in found)


def test_what_was_measured_by_older_sources_is_noted_and_not_compared(root):
    """The sources changed, and all was measured again under the same names of sweep and rounds."""
    made = {}
    for stack, point, sentinel in THINGS:
        path = file(root, stack, point, sentinel)
        made[path] = json.loads(path.read_text())["invocations"]
    for path, before in made.items():
        later = copy.deepcopy(before)
        for each in later:
            each |= {"started": each["started"].replace("T03", "T09"), "code": "cccccccccccc"}
            each["result"]["timing"]["first_ns"] += 10**6
        change(path, "invocations", value=[*before, *later])
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
    for stack, point, sentinel in THINGS:
        path = file(root, stack, point, sentinel)
        if (stack, point) == ("2026-jax", POINT):
            path.unlink()
        else:
            remove(path, 1, 2)
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


# The sentinel


def test_old_measurements_without_a_sentinel_are_named(old):
    root = old(f"numpy/{make_point(vocabulary=5000).key}.json")
    shutil.rmtree(root / OLD.name / "sentinel")
    assert one_fault(root) == f"{OLD.name}/sentinel: no sentinel, so nobody can tell noise from a difference"


# Withdrawn


def withdraw(root, *rows):
    text = ",".join(history.COLUMNS) + "\n" + "".join(",".join(row) + "\n" for row in rows)
    (root / MACHINE / "withdrawn.csv").write_text(text)


def test_a_withdrawn_invocation_may_be_missing_and_is_noted(root, path):
    remove(path, 1)
    withdraw(root, ("numpy", POINT.key, at(5), "measured with the wrong BLAS"))
    assert faults(root) == []
    assert f"{MACHINE}: 1 invocations are withdrawn, see withdrawn.csv" in notes(root)


@pytest.mark.parametrize("column", history.COLUMNS)
def test_a_withdrawal_that_lacks_something_is_named(root, path, column):
    remove(path, 1)
    whole = {"stack": "numpy", "key": POINT.key, "started": at(5), "reason": "a reason"}
    withdraw(root, (whole | {column: " "}).values())
    assert any(problem.startswith(f"{MACHINE}/withdrawn.csv: has a wrong key 0.{column} (") for problem in faults(root))


# Older measurements


def test_an_older_point_of_a_single_run_is_noted(old):
    name = f"2017-theano/{make_point(vocabulary=5000, optimizer='sgd').key}.json"
    assert (
        one_note(old(name)) == f"{OLD.name}: 1 files of older records hold fewer than 3 runs, first {OLD.name}/{name}"
    )


def test_older_files_that_mix_protocols_and_sweeps_are_noted(old):
    protocols = f"2017-tensorflow/{make_point(vocabulary=20_000).key}.json"
    sweeps = f"2017-theano/{make_point(vocabulary=20_000).key}.json"
    assert one_note(old(protocols)) == (
        f"{OLD.name}: 1 files mix runs that differ in protocol, kept apart in the table, first {OLD.name}/{protocols}"
    )
    assert (
        f"{OLD.name}: 1 files mix runs that differ in sweep, measured at different times, first {OLD.name}/{sweeps}"
    ) in notes(old(sweeps))


# Stored twice


@pytest.mark.parametrize("place", ["another machine", "another configuration"])
def test_a_run_that_is_stored_a_second_time_is_named(root, path, place):
    if place == "another machine":
        shutil.copytree(root / MACHINE, root / "copied")
        where, files = "copied", len(THINGS)
    else:
        copied = json.loads(path.read_text())["invocations"]
        point = make_point(vocabulary=12, **SIZES)
        write(root, "numpy", point, False, copied)
        where, files = f"{MACHINE}/numpy/{point.key}.json", 1
    twice = [problem for problem in faults(root) if "3 of its invocations are stored in" in problem]
    assert len(twice) == files
    assert all(problem.startswith(where) for problem in twice)


def test_a_folder_that_would_fill_the_memory_is_not_read(root, monkeypatch):
    monkeypatch.setattr(check, "MOST", 1_000)
    assert one_fault(root).startswith(f"{root}: ")
