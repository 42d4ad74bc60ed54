"""Measurement files: whole or not at all, read strictly, shown as one table."""

import errno
import json
import math
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from traintime import store
from traintime.errors import InputError
from traintime.point import make_point

POINT = make_point(vocabulary=11, embedding=3, units=4, length=5, batch=6)


@pytest.fixture
def path(tmp_path):
    return store.file_of(tmp_path / "measurements", "some-machine", "numpy", POINT.key)


@pytest.fixture
def add(path, invocation):
    """Append one invocation to the file; keywords as for the fixture `invocation`."""

    def append(status="ok", to=path, **changes):
        store.append(to, "some-machine", "numpy", POINT, invocation(status, **changes))
        return to

    return append


def leftovers(folder):
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix == ".part"]


# Writing


def test_a_file_lies_under_machine_stack_and_key(tmp_path):
    assert store.file_of(tmp_path, "m", "2026-jax", "k").relative_to(tmp_path).as_posix() == "m/2026-jax/k.json"


def test_the_sentinels_file_lies_apart_from_its_stacks_others(tmp_path):
    path = store.file_of(tmp_path, "m", "2026-jax", "k", sentinel=True)
    assert path.relative_to(tmp_path).as_posix() == "m/sentinel/2026-jax/k.json"


@pytest.mark.parametrize("name", ["replace", "fsync"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_write_leaves_the_old_file_and_no_part(tmp_path, monkeypatch, name, error):
    target = tmp_path / "file.json"
    store.write_atomically(target, "old\n")

    def interrupted(*args):
        raise error

    monkeypatch.setattr(store.os, name, interrupted)
    with pytest.raises(error):
        store.write_atomically(target, "new\n")
    assert target.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [target]


def test_a_write_replaces_the_whole_file_and_makes_its_folders(tmp_path):
    target = tmp_path / "a" / "b" / "file.json"
    store.write_atomically(target, "a long first text\n")
    store.write_atomically(target, "short\n")
    assert target.read_text() == "short\n"
    assert list(target.parent.iterdir()) == [target]


def test_others_may_read_the_file(tmp_path):
    store.write_atomically(tmp_path / "file.json", "text")
    assert (tmp_path / "file.json").stat().st_mode & 0o777 == 0o644


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refused)
    with pytest.raises(InputError, match=r"cannot be written .*Permission denied.*--to") as caught:
        store.write_atomically(tmp_path / "machine" / "file.json", "text")
    assert (caught.value.field, caught.value.value) == ("folder", str(tmp_path / "machine"))


def test_a_folder_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(InputError, match=r"^folder: .*cannot be written"):
        store.write_atomically(tmp_path / "taken" / "numpy" / "file.json", "text")


def test_append_keeps_every_invocation_in_order(add):
    for number in (1, 2, 3):
        path = add("ok" if number != 2 else "timeout", round=number)
    assert [(i.round, i.status) for i in store.read(path).invocations] == [(1, "ok"), (2, "timeout"), (3, "ok")]


@pytest.mark.parametrize(
    ("machine", "stack", "point"),
    [
        ("some-machine", "2026-jax", POINT),
        ("other-machine", "numpy", POINT),
        ("some-machine", "numpy", POINT.model_copy(update={"dropout": 0.25})),
    ],
    ids=["stack", "machine", "point"],
)
def test_a_record_of_something_else_is_not_appended(add, path, invocation, machine, stack, point):
    add()
    before = path.read_text()
    with pytest.raises(ValueError, match=f"holds numpy {POINT.key} of some-machine, not {stack} {point.key}"):
        store.append(path, machine, stack, point, invocation())
    assert path.read_text() == before


def test_what_is_read_is_what_was_written(add, invocation):
    record = store.read(add())
    assert (record.machine, record.stack, record.key, record.point) == ("some-machine", "numpy", POINT.key, POINT)
    assert record.invocations[0].model_dump(exclude_none=True, exclude={"result": {"loops"}}) == invocation()


def test_a_file_in_which_the_number_of_processors_is_unknown_can_be_read_again(add, invocation):
    """Where a process cannot choose its processors (macOS) the worker reports None."""
    result = invocation()["result"]
    result["facts"]["cpus"] = None
    record = store.read(add(result=result))
    assert record.invocations[0].result.facts.cpus is None


@pytest.mark.parametrize("changes", [{"surprise": 1}, {"status": "fine"}, {"round": "first"}])
def test_an_invocation_that_does_not_fit_the_schema_is_not_written(add, path, changes):
    add()
    before = path.read_text()
    with pytest.raises(ValidationError):
        add(**changes)
    assert path.read_text() == before


def test_the_parts_of_a_killed_write_are_cleared_and_nothing_else(add, path, tmp_path):
    add()
    root = tmp_path / "measurements"
    sentinel = store.file_of(root, "some-machine", "numpy", POINT.key, sentinel=True)
    add(to=sentinel)
    parts = [folder / ".abc123.part" for folder in (path.parent, root / "some-machine", sentinel.parent)]
    for part in parts:
        part.write_text("{")
    store.clear_parts(root)
    assert leftovers(root) == []
    assert path.exists()
    assert sentinel.exists()


# The text

plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
names = st.one_of(st.text(), st.sampled_from(["invocations", "steps_ns", "[", "]"]))
nested = st.recursive(plain, lambda inner: st.one_of(st.lists(inner), st.dictionaries(names, inner)), max_leaves=8)


@given(nested)
def test_the_text_means_the_value(value):
    assert json.loads(store.dumps(value)) == value


def test_a_list_of_numbers_is_one_line_and_each_invocation_has_its_own_lines():
    text = store.dumps({"invocations": [{"steps_ns": [1, 2, 3]}, {"steps_ns": []}], "key": "x"})
    lines = [line.strip() for line in text.splitlines()]
    assert '"steps_ns": [1, 2, 3]' in lines
    assert '"steps_ns": []' in lines
    assert lines.index('"invocations": [') < lines.index('"steps_ns": [1, 2, 3]')
    assert text.endswith("}\n")


# Reading


def test_a_cut_file_is_refused_by_name(add):
    path = add()
    path.write_text(path.read_text()[:-40])
    with pytest.raises(InputError, match="is not whole JSON") as caught:
        store.read(path)
    assert caught.value.value == f"some-machine/numpy/{POINT.key}.json"
    assert "measure the point again" in caught.value.remedy


def test_a_file_that_is_not_text_is_refused_by_name(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not whole JSON"):
        store.read(path)


def change(path, *keys, value):
    """Set one key of a stored file."""
    record = json.loads(path.read_text())
    inner = record
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(record))


def test_a_file_of_a_newer_schema_asks_for_an_update(add):
    path = add()
    change(path, "schema_version", value=store.SCHEMA + 1)
    change(path, "a_key_of_the_future", value=1)
    with pytest.raises(InputError, match=f"has schema version {store.SCHEMA + 1}, newer than {store.SCHEMA}") as caught:
        store.read(path)
    assert POINT.key in caught.value.value
    assert "Update traintime" in caught.value.remedy


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("surprise",), 1),
        (("point", "vocabulary"), -5),
        (("invocations", 0, "status"), "fine"),
        (("invocations", 0, "result", "timing", "steps_ns"), "many"),
        (("invocations", 0, "result", "facts", "gpu"), True),
    ],
)
def test_a_wrong_key_is_refused_with_file_and_key(add, keys, value):
    path = add()
    change(path, *keys, value=value)
    with pytest.raises(InputError) as caught:
        store.read(path)
    assert caught.value.value == f"some-machine/numpy/{POINT.key}.json"
    assert f"has a wrong key {'.'.join(map(str, keys))} (" in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "3", '"text"', "null", "{}"])
def test_json_that_is_no_record_is_refused(path, text):
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(InputError, match=r"^measurement file: "):
        store.read(path)


# The table


def test_a_row_has_the_steady_steps_in_seconds_without_warm_up(add, tmp_path):
    add()
    row = store.table(tmp_path / "measurements").iloc[0]
    assert (row.machine, row.stack, row.key, row.vocabulary) == ("some-machine", "numpy", POINT.key, 11)
    assert row.step_s == pytest.approx(0.003)
    assert row.median_s == pytest.approx(0.002)
    assert row.min_s == pytest.approx(0.001)
    assert row.first_s == pytest.approx(0.05)
    assert (row.steps, row.peak_bytes, row.parameters, row.steal_s) == (3, 40, 166, 0.25)
    assert row.versions == "numpy 2.0.0"


@pytest.mark.parametrize("status", ["oom", "timeout", "crashed", "missing"])
def test_a_failed_invocation_has_holes_and_not_zeros(add, tmp_path, status):
    add()
    add(status)
    failed = store.table(tmp_path / "measurements").set_index("status").loc[status]
    for column in ("step_s", "median_s", "min_s", "first_s", "peak_bytes", "steps"):
        assert math.isnan(failed[column]), column
    assert failed.vocabulary == 11


def add_point(root, invocation, loops=(), faults=None, **changes):
    """Store one good invocation of the small point with these changes; return its row of the table."""
    point = POINT.model_copy(update=changes)
    made = invocation()
    made["result"]["loops"] = list(loops)
    made["result"]["faults"] |= faults or {}
    store.append(store.file_of(root, "some-machine", "numpy", point.key), "some-machine", "numpy", point, made)
    return store.table(root).set_index("key").loc[point.key]


def fit_loops(step_ns, start_ns):
    """N batches of six sentences, 2N, and both again, as a loop that does nothing but start and step would take."""
    return [{"sentences": 6 * steps, "ns": start_ns + steps * step_ns} for steps in (30, 60, 30, 60)]


@pytest.mark.parametrize(("step_ns", "start_ns"), [(2_000_000, 50_000_000), (31_234, 7), (900_000_000, 0)])
def test_the_time_of_a_step_of_fit_and_of_its_start_are_taken_apart(tmp_path, invocation, step_ns, start_ns):
    row = add_point(tmp_path, invocation, fit_loops(step_ns, start_ns), loop="fit")
    assert row.fit_step_s == pytest.approx(step_ns / 1e9, rel=1e-9)
    assert row.fit_start_s == pytest.approx(start_ns / 1e9, rel=1e-6, abs=1e-9)
    assert row.step_s == pytest.approx(0.003), "single steps are told beside it"


def test_a_drift_between_the_two_pairs_of_loops_is_shared(tmp_path, invocation):
    times = [(30, 100), (60, 160), (30, 120), (60, 180)]
    loops = [{"sentences": 6 * steps, "ns": ms * 10**6} for steps, ms in times]
    row = add_point(tmp_path, invocation, loops, loop="fit")
    assert (row.fit_step_s, row.fit_start_s) == pytest.approx((0.002, 0.05))


def with_epoch(before, after, ns, sentences=1000):
    """The short loops of an epoch's point on both sides of the epoch itself."""
    return [*fit_loops(*before), {"sentences": sentences, "ns": ns}, *fit_loops(*after)]


def test_the_epoch_stands_in_the_middle_and_has_no_part_in_the_lines_through_the_others(tmp_path, invocation):
    loops = with_epoch((2_000_000, 50_000_000), (3_000_000, 10_000_000), 3_210_000_000)
    row = add_point(tmp_path, invocation, loops, loop="epoch", sentences=1000)
    assert row.epoch_s == 3.21
    assert (row.fit_step_s, row.fit_start_s) == pytest.approx((0.002, 0.05))
    assert row.fit_after_s == pytest.approx(0.003)
    assert math.isnan(row.epoch_idle_s), "nobody told when the last step was done"


def test_what_a_loop_does_after_its_last_step_is_kept_out_of_the_lines(tmp_path, invocation):
    def told(loop):
        return loop | {"ns": 10**10, "trained_ns": loop["ns"]}

    loops = [told(loop) for loop in with_epoch((2_000_000, 50_000_000), (3_000_000, 0), 3_210_000_000)]
    row = add_point(tmp_path, invocation, loops, loop="epoch", sentences=1000)
    assert (row.fit_step_s, row.fit_start_s) == pytest.approx((0.002, 0.05))
    assert (row.epoch_s, row.epoch_idle_s) == pytest.approx((10, 6.79))
    assert row.sentences == 1000


def test_a_point_of_single_steps_has_no_loop(tmp_path, invocation):
    row = add_point(tmp_path, invocation)
    loops = with_epoch((2_000_000, 0), (2_000_000, 0), 10)
    add_point(tmp_path, invocation, loops, loop="epoch", sentences=1000)
    assert row[list(store.LOOPS)].isna().all()
    assert math.isnan(store.table(tmp_path).set_index("key").loc[POINT.key, "epoch_s"])


def test_page_faults_are_told_a_step(tmp_path, invocation):
    """Two warm-up steps and three counted ones: the faults of all five, the first step's apart."""
    assert add_point(tmp_path, invocation, faults={"minor_in_steps": 35}).faults_a_step == 7.0


def test_a_file_from_before_faults_were_counted_by_step_has_a_hole(tmp_path, invocation):
    assert math.isnan(add_point(tmp_path, invocation).faults_a_step)


# Files of the first schema

NEW_IN_2 = ("tokens", "words", "mask", "loop", "sentences", "allocator", "cudnn")


@pytest.fixture
def first_schema(add):
    """A file as the first schema had it: no word of tokens, padding, loops or allocators."""
    path = add()
    record = json.loads(path.read_text())
    record["schema_version"] = 1
    for name in NEW_IN_2:
        record["point"].pop(name, None)
    for made in record["invocations"]:
        made["result"].pop("loops")
        assert "allocator" not in made["result"]["facts"]
    path.write_text(json.dumps(record))
    return path


def test_a_file_of_the_first_schema_is_of_a_point_that_ran_in_the_usual_way(first_schema, tmp_path):
    record = store.read(first_schema)
    assert record.schema_version == 1
    assert record.point == POINT
    assert record.point.key == record.key == first_schema.stem
    row = store.table(tmp_path / "measurements").iloc[0]
    assert (row.tokens, row.loop, row.allocator, row["mask"]) == ("uniform", "steps", "glibc", False)
    assert row.words is None
    assert row.step_s == pytest.approx(0.003)


def test_a_file_of_the_first_schema_can_be_added_to_and_is_then_of_the_second(first_schema, add):
    add(round=2)
    record = store.read(first_schema)
    assert store.SCHEMA == record.schema_version == 2
    assert [made.round for made in record.invocations] == [1, 2]
    stored = json.loads(first_schema.read_text())
    assert stored["schema_version"] == 2
    assert {name: stored["point"][name] for name in ("tokens", "loop", "allocator")} == {
        "tokens": "uniform",
        "loop": "steps",
        "allocator": "glibc",
    }


def test_a_stored_point_that_cannot_be_is_refused_with_its_file(add):
    path = add()
    change(path, "point", "words", value=6)
    with pytest.raises(InputError, match=r"has a wrong key point \(.*words: 6 is more than the length 5") as caught:
        store.read(path)
    assert caught.value.value == f"some-machine/numpy/{POINT.key}.json"


@pytest.mark.parametrize("loop", [{"sentences": 10}, {"ns": 10}, {"sentences": 10, "ns": 10, "steps": 1}])
def test_a_loop_that_does_not_fit_the_schema_is_not_written(tmp_path, invocation, loop):
    with pytest.raises(ValidationError):
        add_point(tmp_path, invocation, [loop], loop="fit")
    assert not list(store.files(tmp_path))


def test_the_sentinel_is_kept_apart(add, tmp_path):
    root = tmp_path / "measurements"
    add()
    add(to=store.file_of(root, "some-machine", "numpy", POINT.key, sentinel=True), sweep="sentinel")
    assert list(store.table(root).sweep) == ["made-up"]
    sentinel = store.table(root, sentinel=True)
    assert list(sentinel.sweep) == ["sentinel"]
    assert list(sentinel["stack"]) == ["numpy"]
    assert len(list(store.files(root))) == 2


def test_one_machine_can_be_asked_for(add, tmp_path):
    root = tmp_path / "measurements"
    add()
    store.append(store.file_of(root, "other", "numpy", POINT.key), "other", "numpy", POINT, _first(root))
    assert set(store.table(root).machine) == {"some-machine", "other"}
    assert set(store.table(root, machine="other").machine) == {"other"}


def _first(root):
    record = store.read(next(store.files(root)))
    return record.invocations[0].model_dump(exclude_none=True)


def test_the_machines_own_file_is_no_measurement(add, tmp_path):
    root = tmp_path / "measurements"
    add()
    (root / "some-machine" / "machine.json").write_text("{}")
    assert len(store.table(root)) == 1


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_folder_gives_an_empty_table_with_its_columns(tmp_path, exists):
    root = tmp_path if exists else tmp_path / "nowhere"
    table = store.table(root)
    assert len(table) == 0
    assert {"machine", "stack", "key", "status", "step_s"} <= set(table.columns)
