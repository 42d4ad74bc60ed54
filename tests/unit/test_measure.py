"""One invocation: whatever a worker does, its outcome is told and nothing of it is left."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from unittest import mock

import filelock
import psutil
import pytest

from traintime import paths
from traintime.errors import InputError
from traintime.measuring import measure, stacks
from traintime.measuring.protocol import Protocol
from traintime.point import make_point
from traintime.store import code, derived, records
from traintime.store.table import table

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's /proc")
NUMPY = stacks.get("numpy")
SMALL = {"vocabulary": 11, "embedding": 3, "units": 4, "length": 5, "batch": 6}
ALONE = make_point(**SMALL, threads=1)


@pytest.fixture(autouse=True)
def own_stacks_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STACKS", tmp_path / "stacks")


# What every fake worker starts with: its job, and a way to answer.
FAKE_WORKER = """
import json, os, signal, subprocess, sys, time

job = json.loads(sys.stdin.read())


def send(**message):
    os.write(job["channel"], json.dumps(message).encode() + b"\\n")


def answer(**message):
    send(event="result", **message)


"""


@pytest.fixture
def fake_worker(tmp_path):
    """Write a script that has `job`, `send()` and `answer()`; return its path."""

    def write(body):
        (tmp_path / "fake_worker.py").write_text(FAKE_WORKER + dedent(body))
        return tmp_path / "fake_worker.py"

    return write


@pytest.fixture
def run_fake(fake_worker):
    """Run a fake worker to its end through measure.run_worker and return the outcome."""

    def run(body, progress=lambda message: None, **job):
        return measure.run_worker([sys.executable, str(fake_worker(body))], job, {"LANG": "C.UTF-8"}, 300, progress)

    return run


@pytest.fixture
def measure_fake(fake_worker, monkeypatch, tiny):
    """Run a point on the NumPy stack with a fake in the worker's place, which may answer a task of ours in any way."""
    monkeypatch.setattr(code, "current", lambda workload, api: f"hash of {workload} on {api}")

    def run(body, point=tiny, **options):
        monkeypatch.setattr(paths, "WORKER", fake_worker(body))
        return measure.measure(point, NUMPY, **{"task": "echo"} | options)

    return run


# The answer


def test_nothing_that_is_printed_can_spoil_the_result(run_fake):
    body = """
    lie = json.dumps({"event": "result", "status": "crashed", "error": "a lie"})
    for stream in (sys.stdout, sys.stderr):
        print(lie, file=stream)
        print("x" * 300_000, end="", file=stream, flush=True)
    os.write(1, b"\\xff\\xfe no text")
    answer(status="ok", result={"n": 1})
    print("afterwards")
    """
    assert run_fake(body) == {"status": "ok", "result": {"n": 1}}


def test_a_worker_that_exits_is_crashed_and_its_last_words_are_kept_without_anybodys_folders(run_fake):
    outcome = run_fake(f"""
    print("x" * 10_000)
    print("in {paths.ROOT}/traintime/worker/x.py and {Path.home()}/y.py: the last words", file=sys.stderr)
    sys.exit(3)
    """)
    assert outcome["status"] == "crashed"
    assert "result" not in outcome
    assert outcome["error"].startswith("exit status 3\n")
    assert outcome["error"].endswith("in <checkout>/traintime/worker/x.py and ~/y.py: the last words")
    assert len(outcome["error"]) < 2100
    told = run_fake(f"answer(status='crashed', error='in {paths.ROOT}/x.py'); sys.exit(1)")
    assert told["error"] == "in <checkout>/x.py"


def test_a_worker_that_is_killed_is_crashed_and_the_signal_is_named(run_fake):
    outcome = run_fake("os.kill(os.getpid(), signal.SIGKILL)")
    assert outcome == {"status": "crashed", "error": "signal 9 (SIGKILL)", "killed": True}


# What a worker may put on its channel in the place of a message.
NO_MESSAGES = {
    "no JSON": b"Segmentation fault",
    "an event that is no text": b'{"event": ["result"]}',
    "deep nesting": b"[" * 100_000,
    "no result": b'{"event": "result", "status": "ok"}',
}


@pytest.mark.fault(
    "A worker answers nonsense on its channel", "it counts as crashed, with what it said, and the sweep goes on"
)
@pytest.mark.parametrize("line", NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_what_is_no_message_is_a_crash_and_what_comes_after_it_is_not_believed(run_fake, line):
    outcome = run_fake(f"os.write(job['channel'], {line + bytes([10])!r}); answer(status='ok', result={{'n': 1}})")
    assert outcome["status"] == "crashed"
    assert measure.BROKEN in outcome["error"]
    assert "result" not in outcome


def test_a_message_without_an_end_does_not_fill_the_memory(run_fake, monkeypatch):
    monkeypatch.setattr(measure, "LONGEST", 2**20)
    outcome = run_fake("while True: os.write(job['channel'], b'x' * 4096)")
    assert (outcome["status"], measure.BROKEN in outcome["error"]) == ("crashed", True)


@pytest.mark.parametrize("wrong", ["status = 'fine'", "result['timing']['last_loss'] = float('nan')", "result = {}"])
def test_an_answer_that_no_record_can_hold_is_a_crash(measure_fake, invocation, wrong):
    given = f"result = json.loads({json.dumps(invocation()['result'])!r}); status = 'ok'\n"
    answer = "\nanswer(status=status, result=result)"
    assert measure_fake(given + answer, task="measure")["status"] == "ok"
    record = measure_fake(given + wrong + answer, task="measure")
    assert (record["status"], "result" in record) == ("crashed", False)
    assert measure.BROKEN in record["error"]


@pytest.mark.parametrize("said", [{"result": 5}, {"error": "\x1b[31mred\0 \ud800 is half a character"}])
def test_what_failed_has_a_reason_that_can_be_stored_and_nothing_else(measure_fake, said):
    record = measure_fake(f"answer(status='oom', **{said!r})", task="measure")
    assert (record["status"], "result" in record) == ("oom", False)
    assert record["error"].encode()
    assert record["error"].isprintable()


# What is left of it

# A worker with a child, with one that begins a session of its own, and with one whose parent has ended, too.
WITH_CHILDREN = """
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
start = f"import subprocess; quiet = subprocess.DEVNULL; sleep = {sleep}; "
start += "print(subprocess.Popen(sleep, start_new_session=True, stdout=quiet).pid)"
orphan = subprocess.run([sys.executable, "-c", start], stdout=subprocess.PIPE, check=True, start_new_session=True)
children = [subprocess.Popen(sleep, start_new_session=apart).pid for apart in (False, True)]
with open(job["pids"], "w") as file:
    json.dump([os.getpid(), int(orphan.stdout), *children], file)
send(event="started")
"""


@pytest.fixture
def none_left(tmp_path, gone):
    """Whether all processes have ended of which WITH_CHILDREN wrote the numbers into the file `pids`."""
    return lambda: all(map(gone, json.loads((tmp_path / "pids").read_text())))


@pytest.mark.fault(
    "A worker hangs, with children of its own", "worker and children are ended; a result that it gave before counts"
)
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("", {"status": "timeout", "error": "no result after 300 s"}),
        ('answer(status="ok", result={"n": 1})\n', {"status": "ok", "result": {"n": 1}}),
    ],
    ids=["before a result", "after it"],
)
def test_a_worker_that_hangs_goes_with_its_children(run_fake, tmp_path, none_left, monkeypatch, body, outcome):
    """By a clock that stands still until it has started its children, and then shows that three seconds are left."""
    clock = [0]
    monkeypatch.setattr(measure, "time", SimpleNamespace(monotonic=lambda: clock[-1]))
    body = WITH_CHILDREN + body + "time.sleep(600)"
    assert run_fake(body, lambda message: clock.append(297), pids=str(tmp_path / "pids")) == outcome
    assert none_left()


@pytest.mark.fault("A worker starts processes in another session", "they end with it")
def test_what_a_worker_that_fails_has_started_goes_with_it(run_fake, tmp_path, none_left):
    run_fake(WITH_CHILDREN + "sys.exit(3)", pids=str(tmp_path / "pids"))
    assert none_left()


@pytest.mark.fault("Ctrl-C during a measurement", "no process is left")
def test_an_interrupted_measurement_leaves_no_worker(run_fake, tmp_path, none_left):
    interrupt = mock.Mock(side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        run_fake(WITH_CHILDREN + "time.sleep(600)", interrupt, pids=str(tmp_path / "pids"))
    assert none_left()


def test_a_module_is_found_where_its_parent_found_this_package(tmp_path, monkeypatch):
    """As on Colab, where a notebook's `sys.path` alone names the folder: `-S` leaves out what is installed."""
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.chdir(tmp_path)
    answer = measure.run_module("traintime.errors", {}, {}, 300)
    assert "exit status 1" not in answer["error"]


def test_no_descriptor_is_left_open(run_fake):
    run_fake('answer(status="ok", result={})')
    before = psutil.Process().num_fds()
    run_fake('answer(status="ok", result={})')
    run_fake("sys.exit(3)")
    assert psutil.Process().num_fds() == before


# The whole measurement


def test_the_worker_sees_no_variable_from_outside_and_a_padding_that_varies_and_is_recorded(measure_fake, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "s3cr3t")
    monkeypatch.setenv("PYTHONPATH", "/s3cr3t")
    made = [measure_fake('answer(status="ok", result=dict(os.environ))', ALONE) for _ in range(3)]
    for record in made:
        assert set(record["result"]) == {*NUMPY.environment(1), "TRAINTIME_PADDING", measure.OWN}
        assert not any("s3cr3t" in value for value in record["result"].values())
        assert len(record["result"]["TRAINTIME_PADDING"]) == record["padding"]
    assert len({record["padding"] for record in made}) > 1


def test_the_code_is_hashed_when_it_is_run_and_not_when_it_began_to_wait(measure_fake, monkeypatch):
    """Whoever waits for the lock for an hour runs what lies there then."""
    moments = iter(["when it began", "when it ran"])
    monkeypatch.setattr(code, "current", lambda workload, api: f"{workload} on {api} {next(moments)}")
    assert measure_fake('answer(status="ok", result={})')["code"] == "rnn on numpy when it ran"


@pytest.mark.parametrize(("protocol", "steps"), [(Protocol(steps=3), 4), (Protocol(warmup=0), 0)])
def test_the_warm_up_is_the_stacks_own_unless_it_is_given(measure_fake, monkeypatch, protocol, steps):
    monkeypatch.setattr(derived, "warmup", {"numpy": 4}.__getitem__)
    record = measure_fake('answer(status="ok", result=job["protocol"]["warmup"])', protocol=protocol)
    assert record["result"] == record["protocol"]["warmup"] == steps


def test_what_the_stack_cannot_do_is_refused_before_anything_is_started(measure_fake):
    """The worker would leave out a mask without a word: a wrong set-up must never become a number."""
    with pytest.raises(InputError):
        measure_fake("raise SystemExit('must not be started')", make_point(**SMALL, words=3, mask=True))


@pytest.mark.parametrize(
    ("body", "after", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 5, "oom"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 4, "crashed"),
        ("sys.exit(3)", 5, "crashed"),
        ("time.sleep(600)", 5, "timeout"),
    ],
)
def test_a_killed_worker_ran_out_of_memory_where_the_kernel_counted_it(measure_fake, monkeypatch, body, after, status):
    monkeypatch.setattr(measure, "_kernel_kills", iter([4, after]).__next__)
    record = measure_fake(body, protocol=Protocol(timeout_s=0.5 if status == "timeout" else 300))
    assert record["status"] == status
    assert "killed" not in record


def test_a_missing_stack_is_missing_and_not_fatal(measure_fake, monkeypatch):
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: False))
    record = measure_fake("raise SystemExit('must not be started')")
    assert record["status"] == "missing"
    assert "traintime stacks add numpy" in record["error"]


def test_one_measurement_at_a_time(measure_fake, tmp_path):
    started = tmp_path / "started"
    body = f"open({str(started)!r}, 'w').close()\nanswer(status='ok', result={{}})"
    records = []
    thread = threading.Thread(target=lambda: records.append(measure_fake(body)))
    with filelock.FileLock(measure.LOCK):
        thread.start()
        time.sleep(0.5)
        assert not started.exists()
    thread.join()
    assert started.exists()
    assert records[0]["status"] == "ok"


# The real worker, on the NumPy stack


def result_of(record):
    assert record["status"] == "ok", record.get("error")
    return record["result"]


def test_what_the_real_worker_measures_can_be_stored_and_shown(tmp_path):
    phases = []
    record = measure.measure(ALONE, NUMPY, Protocol(warmup=1, steps=4), progress=phases.append)
    assert result_of(record)
    assert [message["name"] for message in phases[:3]] == ["importing", "building", "first step"]
    path = records.file_of(tmp_path, "some-machine", "numpy", ALONE.key)
    stored = records.append(path, "some-machine", "numpy", ALONE, record | {"sweep": "one", "round": 1, "seed": 7})
    row = table(tmp_path).iloc[0]
    assert (row.status, row.steps, row.threads, row.protocol) == ("ok", 4, 1, "1+4")
    assert 0 < row.min_s <= row.median_s
    assert row.parameters == ALONE.work.parameters == 11 * 3 + 4 * 4 * (3 + 4 + 1) + 4 + 1
    assert row.code == code.same(code.current("rnn", "numpy"))
    if sys.platform == "linux":
        assert stored.result.evidence.others_cores is not None
        assert row.path.startswith("OpenBLAS") or not row.path


# A parent whose worker says nothing for a long time: only the kernel can tell it that the parent is gone.
PARENT = """
import sys
from pathlib import Path

from traintime import paths
from traintime.measuring import measure, stacks
from traintime.point import make_point


def progress(message):
    if message.get("name") == "first step":
        print("training", flush=True)


measure.LOCK, paths.STACKS = Path(sys.argv[1]), Path(sys.argv[2])
point = make_point(vocabulary=11, embedding=3, units=4, length=5, batch=6, threads=1)
measure.measure(point, stacks.get("numpy"), progress=progress, task="bench", steps=10**9, blocks=1)
"""


@pytest.mark.fault("kill -9 of the sweep while its worker trains", "the worker ends, too")
@linux
def test_the_worker_dies_with_its_parent_however_that_dies_and_is_the_first_where_memory_runs_out(tmp_path, gone):
    command = [sys.executable, "-c", PARENT, str(tmp_path / "lock"), str(tmp_path / "stacks")]
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        workers = []
        try:
            assert parent.stdout.readline() == "training\n"
            workers = psutil.Process(parent.pid).children()
            assert len(workers) == 1
            scores = [Path(f"/proc/{pid}/oom_score_adj").read_text().strip() for pid in (workers[0].pid, parent.pid)]
            assert scores == ["1000", Path("/proc/self/oom_score_adj").read_text().strip()]
            parent.kill()
            parent.wait()
            assert gone(workers[0].pid)
        finally:
            parent.kill()
            for worker in workers:
                if worker.is_running():
                    worker.kill()
