"""Measurement files: whole or not at all, read strictly, and nothing of them is ever lost."""

import json
import subprocess
import sys
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintime import paths
from traintime.errors import InputError
from traintime.point import make_point
from traintime.store import records

SMALL = {"vocabulary": 11, "embedding": 3, "units": 4, "length": 5, "batch": 6}
POINT = make_point(**SMALL)


@pytest.fixture
def path(tmp_path):
    return records.file_of(tmp_path / "measurements", "some-machine", "numpy", POINT.key)


@pytest.fixture
def add(path, invocation):
    """Append one invocation to the file; keywords as for the fixture `invocation`."""

    def append(status="ok", to=path, **changes):
        records.append(to, "some-machine", "numpy", POINT, invocation(status, **changes))
        return to

    return append


@pytest.mark.parametrize(("name", "error"), [("replace", KeyboardInterrupt), ("fsync", OSError)])
def test_an_interrupted_write_leaves_the_old_file_and_no_part(tmp_path, monkeypatch, name, error):
    target = tmp_path / "file.json"
    records.write_atomically(target, "old\n")
    monkeypatch.setattr(records.os, name, mock.Mock(side_effect=error))
    with pytest.raises(InputError if error is OSError else error):
        records.write_atomically(target, "new\n")
    assert target.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("of", "changes", "words"),
    [
        ({"stack": "2026-jax"}, {}, f"holds numpy {POINT.key} of some-machine, not 2026-jax {POINT.key}"),
        ({"machine": "other-machine"}, {}, "not numpy .* of other-machine"),
        ({"point": make_point(**SMALL, dropout=0.25)}, {}, f"not numpy {POINT.key}-d0.25"),
        ({}, {"surprise": 1}, "surprise"),
        ({}, {"status": "fine"}, "status"),
        ({}, {"round": 0}, "round"),
    ],
)
def test_what_is_of_something_else_or_does_not_fit_the_schema_is_not_written(add, path, invocation, of, changes, words):
    add()
    before = path.read_text()
    given = {"machine": "some-machine", "stack": "numpy", "point": POINT} | of
    with pytest.raises(ValueError, match=words):
        records.append(path, **given, invocation=invocation() | changes)
    assert path.read_text() == before


def test_what_is_read_is_what_was_written(add, invocation):
    """Where a process cannot choose its processors (macOS) the worker reports None."""
    made = invocation()
    made["result"]["facts"]["cpus"] = None
    record = records.read(add(result=made["result"]))
    assert (record.machine, record.stack, record.key, record.point) == ("some-machine", "numpy", POINT.key, POINT)
    assert record.invocations == [records.Invocation.model_validate(made)]


WRITER = """
import json, sys
from pathlib import Path
from traintime.point import Point
from traintime.store import records

path, first, point, invocation = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
point = Point.model_validate_json(point)
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    records.append(path, "some-machine", "numpy", point, invocation | {"round": first + number})
"""


def test_two_writers_of_one_file_lose_nothing(path, invocation):
    path.parent.mkdir(parents=True)
    link = path.parent.parent / "the-same-folder"
    link.symlink_to(path.parent)
    writers = []
    for first, to in ((1, path), (21, link / path.name)):
        command = [sys.executable, "-c", WRITER, str(to), str(first), POINT.model_dump_json(), json.dumps(invocation())]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": paths.ROOT}
        writers.append(subprocess.Popen(command, **pipes))
    try:
        assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * 2
        for writer in writers:
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert [writer.wait(60) for writer in writers] == [0, 0]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    rounds = [done.round for done in records.read(path).invocations]
    assert sorted(rounds) == list(range(1, 41))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
names = st.one_of(st.text(), st.sampled_from(["invocations", "steps_ns", "[", "]"]))
nested = st.recursive(plain, lambda inner: st.one_of(st.lists(inner), st.dictionaries(names, inner)), max_leaves=8)


@given(nested)
def test_the_text_means_the_value(value):
    assert json.loads(records.dumps(value)) == value


@pytest.mark.parametrize(("step", "remedy"), [(1, "Update traintime"), (-1, "Measure the configuration again")])
def test_a_file_of_another_schema_is_refused_by_name(add, step, remedy):
    path = add()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": records.SCHEMA + step, "other": 1}))
    with pytest.raises(InputError, match=f"has schema version {records.SCHEMA + step}") as caught:
        records.read(path)
    assert POINT.key in caught.value.value
    assert remedy in caught.value.remedy


def as_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("happen", "problem"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "is not whole JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "is not whole JSON"),
        (lambda path: path.write_text("[" * 100_000), "is not whole JSON"),
        (as_folder, "cannot be read"),
        (lambda path: path.write_text("[]"), ""),
        (lambda path: path.write_text('{"schema_version": 3, "a": NaN}'), ""),
        (lambda path: path.write_text(path.read_text().replace(": 11,", f": {10**30},")), "vocabulary"),
    ],
)
def test_what_is_no_record_is_refused_by_name(add, path, happen, problem):
    add()
    happen(path)
    with pytest.raises(InputError) as caught:
        records.read(path)
    assert (caught.value.field, caught.value.value) == ("measurement file", f"some-machine/numpy/{POINT.key}.json")
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("evidence", "disturbed"),
    [
        ({}, False),  # nobody counted
        ({"seconds": 10, "others_cpu_s": 1.9}, False),
        ({"seconds": 10, "others_cpu_s": 2.1}, True),
        ({"seconds": 0.1, "others_cpu_s": 0.04}, False),  # less than the kernel's clock can tell
        ({"seconds": 0.1, "others_cpu_s": 0.06}, True),
        ({"seconds": 10, "others_cpu_s": 0.0, "pages_swapped_out": 1}, True),
        ({"seconds": 10, "others_cpu_s": 1.2, "steal_s": 1.2}, True),  # half of it the host took away
        ({"seconds": 10, "others_cpu_s": 0.9, "steal_s": 0.9}, False),
    ],
)
def test_who_was_disturbed_is_told_by_others_processors_and_by_swapping(invocation, evidence, disturbed):
    made = invocation()
    made["result"]["evidence"] = evidence
    read = records.Invocation.model_validate(made)
    assert (read.disturbed, read.settled) == (disturbed, not disturbed)


def test_an_invocation_that_shows_that_the_point_does_not_fit_is_settled(invocation):
    found = {each: records.Invocation.model_validate(invocation(each)) for each in ("oom", "timeout", "crashed")}
    assert {status: each.settled for status, each in found.items()} == {"oom": True, "timeout": True, "crashed": False}


@pytest.mark.parametrize(
    ("changes", "text", "fixed"),
    [
        ({}, "2+30", True),
        ({"seconds": 2.0, "limit_s": 10.0, "fewest": 3}, "2+30, 2 to 10 s", False),
        ({"seconds": 0.0, "limit_s": 5.0, "fewest": 30}, "2+30", True),
    ],
)
def test_a_protocol_says_whether_elapsed_time_could_end_the_run(changes, text, fixed):
    protocol = records.StoredProtocol(warmup=2, steps=30, timeout_s=900, **changes)
    assert (protocol.text, protocol.fixed) == (text, fixed)


def test_the_files_of_a_folder_are_the_points_and_the_sentinels_and_nothing_else(add, path, tmp_path):
    root = tmp_path / "measurements"
    sentinel = records.file_of(root, "some-machine", "numpy", POINT.key, sentinel=True)
    assert records.name_of(add(to=sentinel)) == f"some-machine/sentinel/numpy/{POINT.key}.json"
    add()
    (root / "machines.csv").write_text("machine\n")
    (root / "some-machine" / "machine.json").write_text("{}")
    assert list(records.files(root)) == list(records.files(root, "some-machine")) == [path, sentinel]
    assert list(records.files(root, "another-machine")) == []
    assert [records.is_sentinel(file) for file in (path, sentinel)] == [False, True]


def test_every_stored_file_is_read_as_its_own_name_and_is_the_same_written_anew():
    for path in records.files(paths.MEASUREMENTS):
        record = records.read(path)
        assert record.point.key == record.key == path.stem, path
        assert record.stack == path.parent.name
        assert record.machine == path.relative_to(paths.MEASUREMENTS).parts[0]
        assert record.invocations, path
        text = records.dumps(record.model_dump(mode="json", exclude_none=True))
        assert records.Record.model_validate(json.loads(text)) == record, path
