"""Older measurement files, read as today's: nothing is lost, nothing is invented."""

import copy
import json

import pytest

from traintime import paths
from traintime.point import make_point
from traintime.store import records
from traintime.store.records import SCHEMA, upgraded
from traintime.store.table import table

SMALL = {"vocabulary": 11, "embedding": 3, "units": 4, "length": 5, "batch": 6}
POINT = make_point(**SMALL)
STORED = list(records.files(paths.MEASUREMENTS))
NEW_IN_2 = ("tokens", "words", "mask", "loop", "sentences", "allocator", "cudnn")


def old(version, **changes):
    """A file as the schema had it: the first one without a word of tokens, padding, loops or allocators."""
    point = {"workload": "rnn", **SMALL, "optimizer": "adam", "frozen": False, "dropout": 0.5, "device": "cpu"}
    facts = {
        "backend": "theano",
        "device": "cpu",
        "precision": "float32",
        "cpus": 2,
        "threads": {"OpenBLAS": 2},
        "versions": {"keras": "2.0.4", "theano": "0.9.0"},
        "parameters": 166,
        "lstm_implementation": 0,
    }
    faults = {"minor": 500, "major": 3}
    if version == 2:
        point |= {"tokens": "uniform", "mask": False, "loop": "steps", "sentences": 1_000_000, "allocator": "glibc"}
        facts |= {"allocator": "glibc", "openmp": True, "blas": True}
        faults |= {"minor_in_steps": 35}
    invocation = {
        "started": "2026-01-02T03:04:05Z",
        "round": 1,
        "sweep": "made-up",
        "seed": 7,
        "threads": 2,
        "protocol": {
            "warmup": 2, "steps": 30, "seconds": 2.0, "limit_s": 5.0, "fewest": 3, "timeout_s": 900.0
        },
        "padding": 12,
        "status": "ok",
        "machine_evidence": {"steal_s": 0.25, "others_cpu_s": 12.5, "oom_kills": 0, "pages_swapped_out": 0},
        "result": {
            "facts": facts,
            "phases": {"import_s": 0.5, "build_s": 0.1},
            "memory": {"imported": 10, "built": 20, "first_step": 30, "peak": 40},
            "faults": faults,
            "timing": {
                "first_ns": 50_000_000,
                "steps_ns": [900_000_000, 800_000_000, 1_000_000, 2_000_000, 6_000_000],
                "warmup": 2,
                "first_loss": 0.7,
                "last_loss": 0.6,
            },
        },
    }  # fmt: skip
    point |= changes
    return {
        "schema_version": version,
        "machine": "some-machine",
        "stack": "2017-theano",
        "key": POINT.key,
        "point": point,
        "invocations": [invocation],
    }


@pytest.fixture
def write(tmp_path):
    """Write a record's raw values into a file below the folder of measurements; return its path."""

    def write(raw):
        path = records.file_of(tmp_path, raw["machine"], raw["stack"], raw["key"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(raw))
        return path

    return write


def test_todays_schema_is_left_as_it_is():
    raw = {"schema_version": SCHEMA, "anything": object()}
    assert upgraded(raw) is raw


@pytest.mark.parametrize("version", [1, 2])
def test_what_was_read_from_the_file_is_not_changed(version):
    raw = old(version)
    before = copy.deepcopy(raw)
    assert upgraded(raw)["schema_version"] == SCHEMA
    assert raw == before


@pytest.mark.parametrize("version", [1, 2])
def test_an_old_file_is_of_a_point_that_ran_in_the_usual_way(write, version, tmp_path):
    path = write(old(version))
    record = records.read(path)
    assert record.schema_version == SCHEMA
    assert record.point == POINT
    assert record.point.key == record.key == path.stem
    row = table(tmp_path).iloc[0]
    assert (row.tokens, row.loop, row.allocator, row["mask"], row.kernel) == (
        "uniform", "steps", "glibc", False, "auto",
    )  # fmt: skip
    assert row.words is None
    assert row.sentences is None, "schema 2 had a number of sentences without an epoch"
    assert row.step_s == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("changes", "today"),
    [
        ({"loop": "epoch", "sentences": 5000}, {"loop": "epoch", "sentences": 5000}),
        ({"loop": "fit"}, {"loop": "fit"}),
        ({"device": "gpu", "cudnn": True}, {"device": "gpu", "kernel": "cudnn"}),
        ({"device": "gpu", "cudnn": False}, {"device": "gpu", "kernel": "loop-of-cells"}),
        ({"device": "gpu", "cudnn": None}, {"device": "gpu"}),
        ({"allocator": "jemalloc", "frozen": True}, {"allocator": "jemalloc", "frozen": True}),
        ({"words": 3, "mask": True, "tokens": "zipf"}, {"words": 3, "mask": True, "tokens": "zipf"}),
    ],
)
def test_sizes_and_run_are_taken_apart(write, changes, today):
    assert records.read(write(old(2, **changes))).point == make_point(**SMALL, **today)


def test_the_code_path_moves_and_nothing_of_it_is_invented(write):
    first, second = (records.read(write(old(version))).invocations[0].result.facts.path for version in (1, 2))
    assert (second.allocator, second.openmp, second.implementation) == ("glibc", True, 0)
    assert (first.allocator, first.openmp, first.implementation) == (None, None, 0)
    for path in (first, second):
        assert (path.onednn, path.blas, path.libc, path.jit) == (None,) * 4, "nobody asked then"


def test_faults_are_of_all_steps_but_the_first_or_of_the_whole_process(write, tmp_path):
    evidence = records.read(write(old(2))).invocations[0].result.evidence
    assert (evidence.minor_faults, evidence.faults_steps) == (35, 5)
    assert (evidence.all_minor_faults, evidence.all_major_faults) == (500, 3)
    assert table(tmp_path).faults_a_step.item() == 7.0
    evidence = records.read(write(old(1))).invocations[0].result.evidence
    assert (evidence.minor_faults, evidence.all_minor_faults) == (None, 500)
    assert table(tmp_path).faults_a_step.isna().all()


def test_the_whole_process_s_neighbours_disturbed_nothing_that_was_counted(write):
    """They were counted over importing and compiling as well: kept, and no reason to repeat anything."""
    invocation = records.read(write(old(2))).invocations[0]
    assert invocation.machine_evidence["others_cpu_s"] == 12.5
    assert invocation.result.evidence.others_cores is None
    assert not invocation.disturbed
    assert (invocation.code, invocation.again, invocation.protocol.fixed) == (None, False, False)


def test_a_failed_invocation_stays_as_it_was(write):
    raw = old(2)
    failed = raw["invocations"][0]
    del failed["result"]
    failed |= {"status": "oom", "error": "MemoryError"}
    read = records.read(write(raw)).invocations[0]
    assert (read.status, read.error, read.result) == ("oom", "MemoryError", None)


@pytest.mark.parametrize("version", [1, 2])
def test_an_old_file_can_be_added_to_and_is_then_todays(write, invocation, version):
    path = write(old(version))
    before = records.read(path)
    records.append(path, "some-machine", "2017-theano", POINT, invocation(round=2))
    stored = json.loads(path.read_text())
    assert stored["schema_version"] == SCHEMA
    assert set(stored["point"]) == {"workload", "sizes", "run"}
    record = records.read(path)
    assert [made.round for made in record.invocations] == [1, 2]
    assert record.invocations[0] == before.invocations[0], "nothing is lost by writing it anew"


# Every file that is stored


def test_every_stored_file_is_read_as_its_own_name_without_a_loss_and_is_the_same_written_anew():
    """Seconds for thousands of files: no other test reads all that is stored beside what it was."""
    versions = set()
    for path in STORED:
        raw, record = json.loads(path.read_text()), records.read(path)
        versions.add(raw["schema_version"])
        assert record.point.key == record.key == path.stem, path
        assert record.stack == path.parent.name
        assert record.machine == path.relative_to(paths.MEASUREMENTS).parts[0]
        assert record.invocations, path
        for before, after in zip(raw["invocations"], record.invocations, strict=True):
            if result := before.get("result"):
                assert after.result.timing.model_dump() == result["timing"]
                assert after.result.memory == result["memory"]
                assert [loop.ns for loop in after.result.loops] == [loop["ns"] for loop in result.get("loops", [])]
            assert after.machine_evidence == before.get("machine_evidence", {})
            assert (after.started, after.status, after.padding) == tuple(
                before.get(name) for name in ("started", "status", "padding")
            )
        text = records.dumps(record.model_dump(mode="json", exclude_none=True))
        assert records.Record.model_validate(json.loads(text)) == record, path
    assert {1, 2} <= versions <= {1, 2, SCHEMA}, "every schema that was published"
