"""The checker: a good folder passes, each kind of damage is one sentence that names the file and the key."""

import json
import shutil

import pytest

from traintime import check, counts, store
from traintime.measure import Protocol
from traintime.point import make_point

MACHINE = "some-machine"
POINT = make_point(vocabulary=11, embedding=3, units=4, length=5, batch=6)
SENTINEL = make_point(vocabulary=7, embedding=3, units=4, length=5, batch=6)
NAME = f"{MACHINE}/numpy/{POINT.key}.json"
DESCRIPTION = {
    "schema_version": store.SCHEMA,
    "machine": MACHINE,
    "cpu": "Some",
    "cores": 2,
    "memory_bytes": 2**33,
    "kernel": "6.1.0",
    "rates": {"bandwidth_bytes_per_s": 1e10, "matmul_flop_per_s": 1e11},
}


@pytest.fixture
def root(tmp_path, invocation):
    """A folder with one point and the sentinel, three invocations each."""
    root = tmp_path / "measurements"
    for point, sentinel in ((POINT, False), (SENTINEL, True)):
        path = store.file_of(root, MACHINE, "numpy", point.key, sentinel)
        for number in (1, 2, 3):
            made = invocation(round=number, protocol=Protocol(fewest=5).model_dump())
            made["result"]["facts"]["parameters"] = counts.parameters(point)
            made["result"]["timing"]["steps_ns"] += [3_000_000, 3_000_000]
            store.append(path, MACHINE, "numpy", point, made)
    (root / MACHINE / "machine.json").write_text(store.dumps(DESCRIPTION))
    return root


@pytest.fixture
def path(root):
    return store.file_of(root, MACHINE, "numpy", POINT.key)


def change(path, *keys, value):
    """Set one key of a JSON file."""
    whole = json.loads(path.read_text())
    inner = whole
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(store.dumps(whole))


def fail(path, index=1, **changes):
    """Turn one stored invocation into a failed one."""
    made = json.loads(path.read_text())["invocations"][index]
    del made["result"]
    change(path, "invocations", index, value=made | {"status": "crashed", "error": "made up"} | changes)


def one_problem(root):
    (problem,) = check.problems(root)
    return problem


def test_a_good_folder_has_no_problem(root):
    assert list(check.problems(root)) == []


def test_a_failure_that_says_what_happened_is_no_problem(root, path):
    fail(path)
    assert list(check.problems(root)) == []


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_measurements_is_a_problem(tmp_path, exists):
    root = tmp_path if exists else tmp_path / "nowhere"
    assert one_problem(root) == f"{root}: no measurement file below it"


# Whole files


def test_a_cut_file_is_named(root, path):
    path.write_text(path.read_text()[:-40])
    assert one_problem(root).startswith(f"{NAME}: is not whole JSON")


def test_a_file_of_a_newer_schema_is_named(root, path):
    change(path, "schema_version", value=store.SCHEMA + 1)
    assert one_problem(root) == f"{NAME}: has schema version {store.SCHEMA + 1}, newer than {store.SCHEMA}"


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("surprise",), 1),
        (("point", "vocabulary"), -5),
        (("invocations", 0, "status"), "fine"),
        (("invocations", 2, "result", "timing", "steps_ns"), "many"),
    ],
)
def test_a_wrong_key_is_named_with_its_file(root, path, keys, value):
    change(path, *keys, value=value)
    assert one_problem(root).startswith(f"{NAME}: has a wrong key {'.'.join(map(str, keys))} (")


def test_a_file_in_another_stacks_folder_is_named(root, path):
    (root / MACHINE / "2026-jax").mkdir()
    path.rename(root / MACHINE / "2026-jax" / path.name)
    name = f"{MACHINE}/2026-jax/{POINT.key}.json"
    assert one_problem(root) == f"{name}: key stack is 'numpy', its place says '2026-jax'"


def test_a_file_in_another_machines_folder_is_named(root, path):
    change(path, "machine", value="other-machine")
    assert one_problem(root) == f"{NAME}: key machine is 'other-machine', its place says 'some-machine'"


def test_a_file_under_another_name_is_named(root, path):
    path.rename(path.with_name("other.json"))
    name = f"{MACHINE}/numpy/other.json"
    assert one_problem(root) == f"{name}: key key is '{POINT.key}', its place says 'other'"


def test_a_point_that_is_not_the_keys_is_named(root, path):
    change(path, "point", "dropout", value=0.25)
    assert one_problem(root) == f"{NAME}: key point describes '{POINT.key}-d0.25'"


def test_an_unknown_stack_is_named(root, path):
    change(path, "stack", value="2016-theano")
    path.parent.rename(root / MACHINE / "2016-theano")
    name = f"{MACHINE}/2016-theano/{POINT.key}.json"
    assert one_problem(root) == f"{name}: key stack is '2016-theano', which is no known stack"


def test_too_few_invocations_are_counted(root, path):
    change(path, "invocations", value=json.loads(path.read_text())["invocations"][:2])
    assert one_problem(root) == f"{NAME}: key invocations has 2 of at least 3"
    assert list(check.problems(root, at_least=2)) == []


@pytest.mark.parametrize("home", ["/home/someone/x.py", "/mnt/x.py", "/Users/someone/x.py", "/tmp/x", "/content/x"])
@pytest.mark.parametrize("error", ["failed in {}: it broke", 'File "{}", line 3', "{} is missing"])
def test_a_path_of_somebodys_machine_is_named(root, path, home, error):
    fail(path, error=error.format(home))
    problem = one_problem(root)
    assert problem.startswith(f"{NAME}: key invocations.1.error holds a path of somebody's machine")
    assert home[:6] in problem


@pytest.mark.parametrize("error", ["exit status 1\n/home/someone/x.py: failed", "one\ttab\t/home/someone"])
def test_a_path_at_the_start_of_a_line_is_named_too(root, path, error):
    fail(path, error=error)
    assert one_problem(root).startswith(f"{NAME}: key invocations.1.error holds a path of somebody's machine")


@pytest.mark.parametrize("error", ["in <checkout>/traintime/worker/x.py", "in ~/x.py", "/proc/meminfo", "a/tmp/b"])
def test_a_path_that_every_machine_has_is_no_problem(root, path, error):
    fail(path, error=error)
    assert list(check.problems(root)) == []


# Invocations


@pytest.mark.parametrize(
    ("keys", "value", "words"),
    [
        (("facts", "parameters"), 167, "result.facts.parameters is 167, not 166"),
        (("facts", "versions"), {"numpy": "2.1.0"}, ": versions {'numpy': '2.1.0'} differ from {'numpy': '2.0.0'}"),
        (("timing", "steps_ns"), [1] * 6, "result.timing.steps_ns has 4 counted steps of at least 5"),
        (("timing", "steps_ns"), [1] * 6 + [0], "result.timing.steps_ns has 5 counted steps of at least 5"),
        (("timing", "steps_ns"), [], "result.timing.steps_ns has -2 counted steps of at least 5"),
    ],
)
def test_a_result_that_cannot_be_is_named(root, path, keys, value, words):
    change(path, "invocations", 1, "result", *keys, value=value)
    problem = one_problem(root)
    assert problem.startswith(f"{NAME}: key invocations.1")
    assert words in problem


def test_results_with_different_threads_are_never_pooled(root, path):
    change(path, "invocations", 2, "threads", value=3)
    problem = one_problem(root)
    assert problem.startswith(f"{NAME}: key invocations.2: threads 3 differ from 2")
    assert problem.endswith("never pool them")


def test_a_protocol_of_fewer_steps_asks_for_fewer(root, path):
    change(path, "invocations", 1, "result", "timing", "steps_ns", value=[1] * 5)
    change(path, "invocations", 1, "protocol", "steps", value=3)
    assert list(check.problems(root)) == []


@pytest.mark.parametrize("error", [None, ""])
def test_a_failure_without_an_error_is_named(root, path, error):
    fail(path, error=error)
    assert one_problem(root).startswith(f"{NAME}: key invocations.1.error is missing")


def test_a_failure_with_a_result_is_named(root, path):
    change(path, "invocations", 1, "status", value="timeout")
    change(path, "invocations", 1, "error", value="made up")
    assert one_problem(root) == f"{NAME}: key invocations.1.status is 'timeout', its result says otherwise"


def test_a_success_without_a_result_is_named(root, path):
    fail(path, status="ok")
    assert one_problem(root) == f"{NAME}: key invocations.1.status is 'ok', its result says otherwise"


# The machine


def test_a_missing_description_of_the_machine_is_named(root):
    (root / MACHINE / "machine.json").unlink()
    problem = one_problem(root)
    assert problem.startswith(f"{MACHINE}/machine.json: missing")
    assert f"traintime machine --to {root}" in problem


def test_a_cut_description_of_the_machine_is_named(root):
    (root / MACHINE / "machine.json").write_text("{")
    assert one_problem(root).startswith(f"{MACHINE}/machine.json: is not whole JSON")


@pytest.mark.parametrize("key", ["schema_version", "cpu", "cores", "memory_bytes", "kernel"])
def test_a_description_that_lacks_a_key_is_named(root, key):
    lacking = {name: value for name, value in DESCRIPTION.items() if name != key}
    (root / MACHINE / "machine.json").write_text(store.dumps(lacking))
    assert one_problem(root) == f"{MACHINE}/machine.json: key {key} is missing"


def test_a_description_of_another_machine_is_named(root):
    change(root / MACHINE / "machine.json", "machine", value="other")
    assert one_problem(root) == f"{MACHINE}/machine.json: key machine is 'other', the folder is 'some-machine'"


@pytest.mark.parametrize("rate", list(DESCRIPTION["rates"]))
@pytest.mark.parametrize("value", [0, -1.0])
def test_a_rate_that_cannot_be_is_named(root, rate, value):
    change(root / MACHINE / "machine.json", "rates", rate, value=value)
    assert one_problem(root) == f"{MACHINE}/machine.json: key rates.{rate} is not a positive number"


def test_each_machine_is_checked_by_itself(root):
    shutil.copytree(root / MACHINE, root / "other")
    found = list(check.problems(root))
    assert len(found) == 3
    assert all(problem.startswith(("other/", "sentinel/")) for problem in found)


# The sentinel


def test_a_missing_sentinel_is_named(root):
    shutil.rmtree(root / MACHINE / store.SENTINEL)
    assert one_problem(root).startswith(f"{MACHINE}/sentinel: no sentinel")


def test_a_noisy_sentinel_is_named(root):
    path = store.file_of(root, MACHINE, "numpy", SENTINEL.key, sentinel=True)
    change(path, "invocations", 1, "result", "timing", "steps_ns", value=[9_000_000] * 7)
    problem = one_problem(root)
    assert problem.startswith(f"{MACHINE}/sentinel: two runs of the same thing differ by")
    assert problem.endswith("more than 50%")


def test_the_sentinels_files_are_checked_too(root):
    path = store.file_of(root, MACHINE, "numpy", SENTINEL.key, sentinel=True)
    change(path, "invocations", 0, "result", "facts", "parameters", value=1)
    assert one_problem(root) == (
        f"{MACHINE}/sentinel/numpy/{SENTINEL.key}.json: key invocations.0.result.facts.parameters is 1, "
        f"not {counts.parameters(SENTINEL)}"
    )


def test_a_sentinel_that_never_ended_well_can_be_checked(root):
    path = store.file_of(root, MACHINE, "numpy", SENTINEL.key, sentinel=True)
    for index in range(3):
        fail(path, index)
    assert isinstance(list(check.problems(root)), list)


def test_several_damages_are_all_told(root, path):
    fail(path, error=None)
    change(path, "invocations", 0, "result", "facts", "parameters", value=1)
    (root / MACHINE / "machine.json").unlink()
    assert len(list(check.problems(root))) == 3
