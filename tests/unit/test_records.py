"""Measurement files: whole or not at all, read strictly, and nothing of them is ever lost."""

import errno
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

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


# Writing


@pytest.mark.parametrize(("sentinel", "name"), [(False, "m/2026-jax/k.json"), (True, "m/sentinel/2026-jax/k.json")])
def test_a_file_lies_under_machine_stack_and_key_and_is_named_from_its_machine_on(tmp_path, sentinel, name):
    path = records.file_of(tmp_path, "m", "2026-jax", "k", sentinel=sentinel)
    assert path.relative_to(tmp_path).as_posix() == records.name_of(path) == name


@pytest.mark.parametrize("name", ["replace", "fsync"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_write_leaves_the_old_file_and_no_part(tmp_path, monkeypatch, name, error):
    target = tmp_path / "file.json"
    records.write_atomically(target, "old\n")

    def interrupted(*args):
        raise error

    monkeypatch.setattr(records.os, name, interrupted)
    with pytest.raises(InputError if error is OSError else error):
        records.write_atomically(target, "new\n")
    assert target.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [target]


def test_others_may_read_the_file(tmp_path):
    before = os.umask(0o022)
    try:
        records.write_atomically(tmp_path / "file.json", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "file.json").stat().st_mode & 0o777 == 0o644


def test_a_leftover_part_is_no_measurement_and_harms_none(add, path, tmp_path):
    add()
    part = path.with_name(f".{path.name}.part")
    part.write_text("{")
    root = tmp_path / "measurements"
    assert list(records.files(root)) == [path]
    add(round=2)
    assert [done.round for done in records.read(path).invocations] == [1, 2]
    assert not part.exists()


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.EACCES, "Make it writable"), (errno.EROFS, "Make it writable"), (errno.ENOSPC, "Make room on the disk")],
)
def test_a_folder_that_cannot_be_written_is_named_and_a_full_disk_is_not_made_writable(
    tmp_path, monkeypatch, number, remedy
):
    def refused(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(records.Path, "open", refused)
    monkeypatch.setattr(records.tempfile, "TemporaryFile", refused)
    folder = tmp_path / "machine"
    for attempt in (lambda: records.write_atomically(folder / "x.json", ""), lambda: records.check_writable(folder)):
        with pytest.raises(InputError) as caught:
            attempt()
        assert (caught.value.field, caught.value.value) == ("folder", str(folder))
        assert remedy in caught.value.remedy


def test_asking_whether_a_folder_can_be_written_leaves_nothing_in_it(tmp_path):
    records.check_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize(
    ("machine", "stack", "point"),
    [
        ("some-machine", "2026-jax", POINT),
        ("other-machine", "numpy", POINT),
        ("some-machine", "numpy", make_point(**SMALL, dropout=0.25)),
    ],
    ids=["stack", "machine", "point"],
)
def test_a_record_of_something_else_is_not_appended(add, path, invocation, machine, stack, point):
    add()
    before = path.read_text()
    with pytest.raises(ValueError, match=f"holds numpy {POINT.key} of some-machine, not {stack} {point.key}"):
        records.append(path, machine, stack, point, invocation())
    assert path.read_text() == before


@pytest.mark.parametrize("cpus", [2, None])
def test_what_is_read_is_what_was_written(add, invocation, cpus):
    """Where a process cannot choose its processors (macOS) the worker reports None."""
    made = invocation()
    made["result"]["facts"]["cpus"] = cpus
    record = records.read(add(result=made["result"]))
    assert (record.machine, record.stack, record.key, record.point) == ("some-machine", "numpy", POINT.key, POINT)
    assert record.invocations == [records.Invocation.model_validate(made)]
    assert covers(record.invocations[0].model_dump(), made)


def covers(whole, part):
    """Whether every value of the part is in the whole, dicts in dicts."""
    return all(covers(whole[name], part[name]) for name in part) if isinstance(part, dict) else whole == part


@pytest.mark.parametrize("changes", [{"surprise": 1}, {"status": "fine"}, {"round": "first"}])
def test_an_invocation_that_does_not_fit_the_schema_is_not_written(add, path, changes):
    add()
    before = path.read_text()
    with pytest.raises(ValidationError):
        add(**changes)
    assert path.read_text() == before


# Two writers

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


# The text

plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
names = st.one_of(st.text(), st.sampled_from(["invocations", "steps_ns", "[", "]"]))
nested = st.recursive(plain, lambda inner: st.one_of(st.lists(inner), st.dictionaries(names, inner)), max_leaves=8)


@given(nested)
def test_the_text_means_the_value(value):
    assert json.loads(records.dumps(value)) == value


# Reading


def change(path, *keys, value):
    """Set one key of a stored file."""
    record = json.loads(path.read_text())
    inner = record
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("version", "problem", "remedy"),
    [
        (records.SCHEMA + 1, f"has schema version 4, newer than {records.SCHEMA}", "Update traintime"),
        (records.SCHEMA - 1, f"has schema version 2, not {records.SCHEMA}", "Measure the configuration again"),
        (None, f"has schema version None, not {records.SCHEMA}", "Measure the configuration again"),
    ],
)
def test_a_file_of_another_schema_is_refused_by_name(add, version, problem, remedy):
    path = add()
    change(path, "schema_version", value=version)
    change(path, "a_key_of_another_schema", value=1)
    with pytest.raises(InputError, match=problem) as caught:
        records.read(path)
    assert POINT.key in caught.value.value
    assert remedy in caught.value.remedy


def test_sizes_that_nobody_can_train_are_refused(add, path):
    add()
    change(path, "point", "sizes", "vocabulary", value=10**30)
    with pytest.raises(InputError, match="vocabulary"):
        records.read(path)


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
        *[
            (lambda path, text=text: path.write_text(text), "")
            for text in ("[]", "3", '"text"', "null", "{}", '{"schema_version": 3, "a": NaN}', '{"schema_version": 0}')
        ],
    ],
)
def test_what_is_no_record_is_refused_by_name(add, path, happen, problem):
    add()
    happen(path)
    with pytest.raises(InputError) as caught:
        records.read(path)
    assert (caught.value.field, caught.value.value) == ("measurement file", f"some-machine/numpy/{POINT.key}.json")
    assert problem in caught.value.problem


# Whether an invocation counts as done


@pytest.mark.parametrize(
    ("evidence", "disturbed"),
    [
        ({}, False),  # nobody counted
        ({"seconds": 10, "others_cpu_s": 1.9}, False),
        ({"seconds": 10, "others_cpu_s": 2.1}, True),
        ({"seconds": 0.1, "others_cpu_s": 0.04}, False),  # less than the kernel's clock can tell
        ({"seconds": 0.1, "others_cpu_s": 0.06}, True),
        ({"seconds": 10, "others_cpu_s": 0.0, "pages_swapped_out": 1}, True),
        ({"seconds": 10, "others_cpu_s": -0.3}, False),
        ({"seconds": 10, "others_cpu_s": 0.0, "steal_s": 2.1}, True),  # the host took it away
        ({"seconds": 10, "others_cpu_s": 1.2, "steal_s": 1.2}, True),
        ({"seconds": 10, "others_cpu_s": 0.9, "steal_s": 0.9}, False),
        ({"seconds": 10, "steal_s": 9.0}, False),
    ],
)
def test_who_was_disturbed_is_told_by_others_processors_and_by_swapping(invocation, evidence, disturbed):
    made = invocation()
    made["result"]["evidence"] = evidence
    read = records.Invocation.model_validate(made)
    assert read.disturbed == disturbed
    assert read.settled != disturbed


@pytest.mark.parametrize(
    ("status", "settled"),
    [("ok", True), ("oom", True), ("timeout", True), ("crashed", False), ("missing", False)],
)
def test_an_invocation_that_shows_that_the_point_does_not_fit_is_settled(invocation, status, settled):
    assert records.Invocation.model_validate(invocation(status)).settled == settled


@pytest.mark.parametrize(
    ("changes", "text", "fixed"),
    [
        ({}, "2+30", True),
        ({"seconds": 2.0, "limit_s": 10.0, "fewest": 3}, "2+30, 2 to 10 s", False),
        ({"limit_s": 10.0, "fewest": 3}, "2+30, 0 to 10 s", False),
        ({"seconds": 0.0, "limit_s": 5.0, "fewest": 3}, "2+30, 0 to 5 s", False),
        ({"seconds": 0.0, "limit_s": 5.0, "fewest": 30}, "2+30", True),
        ({"seconds": 2.0, "limit_s": 5.0, "fewest": 30}, "2+30, 2 to 5 s", False),
    ],
)
def test_a_protocol_says_whether_elapsed_time_could_end_the_run(changes, text, fixed):
    protocol = records.StoredProtocol(warmup=2, steps=30, timeout_s=900, **changes)
    assert (protocol.text, protocol.fixed) == (text, fixed)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ({}, ""),
        ({"onednn": True}, "oneDNN"),
        ({"onednn": False, "blas": "OpenBLAS Zen"}, "no oneDNN, OpenBLAS Zen"),
        ({"allocator": "glibc", "libc": "glibc 2.36"}, ""),
    ],
)
def test_a_code_path_in_words_is_what_decides_a_comparison(path, text):
    assert records.CodePath(**path).text == text


# Which files there are


def test_the_files_of_a_folder_are_the_points_and_the_sentinels_and_nothing_else(add, path, tmp_path):
    root = tmp_path / "measurements"
    sentinel = records.file_of(root, "some-machine", "numpy", POINT.key, sentinel=True)
    add()
    add(to=sentinel)
    (root / "machines.csv").write_text("machine\n")
    for name in ("machine.json", "rates.json"):
        (root / "some-machine" / name).write_text("{}")
    assert list(records.files(root)) == [path, sentinel]
    assert list(records.files(root, "some-machine")) == [path, sentinel]
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
