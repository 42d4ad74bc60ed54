"""One invocation: whatever a worker does, its outcome is told and nothing of it is left."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import filelock
import psutil
import pytest

from traintime import paths
from traintime.errors import InputError
from traintime.measuring import measure, stacks
from traintime.measuring.protocol import QUICK, Protocol
from traintime.point import make_point
from traintime.store import code, derived, records
from traintime.store.table import table

pytestmark = pytest.mark.timeout(120)
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's /proc")
NUMPY, JAX = stacks.get("numpy"), stacks.get("2026-jax")
SMALL = {"vocabulary": 11, "embedding": 3, "units": 4, "length": 5, "batch": 6}
KEEPING = ("glibc-keep", "glibc-keep-arenas")
ALONE = make_point(**SMALL, threads=1)


@pytest.fixture(autouse=True)
def own_stacks_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STACKS", tmp_path / "stacks")


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


def test_a_message_in_pieces_is_put_together(run_fake):
    body = """
    text = json.dumps({"event": "result", "status": "ok", "result": {"long": list(range(30_000))}}).encode() + b"\\n"
    os.write(job["channel"], text[:7])
    time.sleep(0.05)
    rest = text[7:]
    while rest:
        rest = rest[os.write(job["channel"], rest):]
    """
    assert run_fake(body)["result"]["long"][-1] == 29_999


def test_progress_is_passed_on_in_order(fake_worker):
    script = fake_worker("""
    for number in range(3):
        send(event="steps", done=number)
    answer(status="ok", result={})
    """)
    seen = []
    measure.run_worker([sys.executable, str(script)], {}, {}, 30, seen.append)
    assert seen == [{"event": "steps", "done": number} for number in range(3)]


# What goes wrong


def test_a_worker_that_exits_is_crashed_and_its_last_words_are_kept(run_fake):
    outcome = run_fake("""
    print("x" * 10_000)
    print("these are the last words", file=sys.stderr)
    sys.exit(3)
    """)
    assert outcome["status"] == "crashed"
    assert "result" not in outcome
    assert outcome["error"].startswith("exit status 3\n")
    assert outcome["error"].endswith("these are the last words")
    assert len(outcome["error"]) < 2100


@pytest.mark.parametrize(
    ("body", "cause", "killed"),
    [
        ("send(event='phase', name='importing')", "exit status 0", False),
        ("os.kill(os.getpid(), signal.SIGKILL)", "signal 9 (SIGKILL)", True),
        ("os.kill(os.getpid(), signal.SIGTERM)", "signal 15 (SIGTERM)", False),
        pytest.param("os.kill(os.getpid(), 40)", "signal 40 (real-time)", False, marks=linux),
    ],
)
def test_a_worker_that_ends_without_a_result_is_crashed_and_its_end_is_named(run_fake, body, cause, killed):
    assert run_fake(body) == {"status": "crashed", "error": cause, "killed": killed}


# What a worker may put on its channel in the place of a message.
NO_MESSAGES = {
    "no JSON": b"Segmentation fault",
    "a list": b"[1, 2]",
    "an event that is no text": b'{"event": ["result"]}',
    "no UTF-8": b'{"event": "\xff\xfe"}',
    "deep nesting": b"[" * 100_000,
    "no result": b'{"event": "result", "status": "ok"}',
    "a status that is no text": b'{"event": "result", "status": ["ok"], "result": {}}',
    "an error that is no text": b'{"event": "result", "status": "crashed", "error": {"at": 3}}',
}


@pytest.mark.fault(
    "A worker answers nonsense on its channel",
    "it counts as crashed, with what it said, and the sweep goes on",
)
@pytest.mark.parametrize("line", NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_what_is_no_message_is_a_crash_and_what_comes_after_it_is_not_believed(run_fake, line):
    outcome = run_fake(f"os.write(job['channel'], {line + bytes([10])!r}); answer(status='ok', result={{'n': 1}})")
    assert outcome["status"] == "crashed"
    assert measure.BROKEN in outcome["error"]
    assert "result" not in outcome


def test_a_message_without_an_end_does_not_fill_the_memory(run_fake, monkeypatch):
    monkeypatch.setattr(measure, "LONGEST", 2**20)
    outcome = run_fake("while True: os.write(job['channel'], b'x' * 4096)", timeout_s=60)
    assert (outcome["status"], measure.BROKEN in outcome["error"]) == ("crashed", True)


# What a worker may answer that no record can hold.
WRONG_ANSWERS = {
    "a status that nobody knows": {"status": "fine", "result": {}},
    "a stack that is missing, says the worker": {"status": "missing", "error": "so it says"},
    "an empty result": {"status": "ok", "result": {}},
    "a result that is a list": {"status": "ok", "result": [1]},
}


@pytest.mark.parametrize("answered", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
def test_an_answer_that_no_record_can_hold_is_a_crash(measure_fake, answered):
    record = measure_fake(f"answer(**{answered!r})", task="measure")
    assert record["status"] == "crashed"
    assert measure.BROKEN in record["error"]
    assert "result" not in record


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), 10**400])
def test_a_loss_that_is_no_number_is_a_crash(measure_fake, invocation, loss):
    right = invocation()["result"]
    body = "answer(status='ok', result=json.loads({!r}))"
    assert measure_fake(body.format(json.dumps(right)), task="measure")["status"] == "ok"
    wrong = right | {"timing": right["timing"] | {"last_loss": loss}}
    assert measure_fake(body.format(json.dumps(wrong)), task="measure")["status"] == "crashed"


@pytest.mark.parametrize(
    "said", [{}, {"result": 5}, {"error": "\ud800 is half a character"}, {"error": "\x1b[31mred\0"}]
)
def test_what_failed_has_a_reason_that_can_be_stored_and_nothing_else(measure_fake, said):
    record = measure_fake(f"answer(status='oom', **{said!r})", task="measure")
    assert (record["status"], "result" in record) == ("oom", False)
    assert record["error"].encode()
    assert record["error"].isprintable()


HANGING = """
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
with open(job["pids"] + ".new", "w") as file:
    json.dump([os.getpid(), child.pid], file)
os.rename(job["pids"] + ".new", job["pids"])
"""


def assert_nothing_is_left(pids, gone):
    group, child = json.loads(pids.read_text())
    assert gone(group)
    assert gone(child)
    left = [process for process in psutil.process_iter() if _group(process.pid) == group]
    assert [process for process in left if process.status() != psutil.STATUS_ZOMBIE] == []


def _group(pid):
    try:
        return os.getpgid(pid)
    except OSError:
        return None


@pytest.mark.fault(
    "A worker hangs, with children of its own",
    "worker and children are ended; a result that it gave before counts",
)
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("", {"status": "timeout", "error": "no result after 2 s"}),
        ('answer(status="ok", result={"n": 1})\n', {"status": "ok", "result": {"n": 1}}),
    ],
    ids=["before a result", "after it"],
)
def test_a_worker_that_hangs_goes_with_its_children_and_a_result_counts(run_fake, tmp_path, gone, body, outcome):
    assert run_fake(HANGING + body + "time.sleep(100)", timeout_s=2, pids=str(tmp_path / "pids")) == outcome
    assert_nothing_is_left(tmp_path / "pids", gone)


# The child begins a session of its own; its parent, which it outlives, is the worker or a process between the two.
SESSION = """
start = "import os, subprocess, sys, time; "
start += "sleep = [sys.executable, '-c', 'import time; time.sleep(100)']; "
start += "print(subprocess.Popen(sleep, start_new_session=True, stdout=subprocess.DEVNULL).pid)"
child = subprocess.run([sys.executable, "-c", start], stdout=subprocess.PIPE, check=True, start_new_session=True)
near = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
with open(job["pids"] + ".new", "w") as file:
    json.dump([int(child.stdout), near.pid], file)
os.rename(job["pids"] + ".new", job["pids"])
"""


@pytest.mark.fault(
    "A worker starts processes in another session",
    "they end with it",
)
@pytest.mark.parametrize("end", ["answer(status='ok', result=1)", "sys.exit(3)", "time.sleep(100)"])
def test_what_a_worker_started_in_another_session_goes_with_it(run_fake, tmp_path, gone, end):
    run_fake(SESSION + end, timeout_s=3, pids=str(tmp_path / "pids"))
    for pid in json.loads((tmp_path / "pids").read_text()):
        assert gone(pid, 0.1)


def test_a_timeout_is_a_timeout_however_fast_the_worker_dies_of_it(run_fake, monkeypatch):
    """Our own SIGKILL is never taken for somebody else's."""
    kill = os.killpg

    def kill_and_wait(group, number):
        kill(group, number)
        os.waitid(os.P_PID, group, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(measure.os, "killpg", kill_and_wait)
    assert run_fake("time.sleep(100)", timeout_s=0.5)["status"] == "timeout"


@pytest.mark.fault(
    "Ctrl-C during a measurement",
    "no process is left",
)
def test_an_interrupted_measurement_leaves_no_worker(fake_worker, tmp_path, gone):
    def interrupt(message):
        raise KeyboardInterrupt

    script = fake_worker(HANGING + 'send(event="steps")\ntime.sleep(100)')
    with pytest.raises(KeyboardInterrupt):
        measure.run_worker([sys.executable, str(script)], {"pids": str(tmp_path / "pids")}, {}, 30, interrupt)
    assert_nothing_is_left(tmp_path / "pids", gone)


def test_no_descriptor_is_left_open(run_fake):
    run_fake('answer(status="ok", result={})')
    before = psutil.Process().num_fds()
    run_fake('answer(status="ok", result={})')
    run_fake("sys.exit(3)")
    assert psutil.Process().num_fds() == before


# What an error may say

ELSEWHERE = ("print({text!r}); sys.exit(1)", 'answer(status="crashed", error={text!r}); sys.exit(1)')


@pytest.mark.parametrize("body", ELSEWHERE)
def test_an_error_does_not_say_where_the_checkout_or_the_home_lies(run_fake, body):
    text = f"in {paths.ROOT}/traintime/worker/x.py and {Path.home()}/y.py: failed"
    error = run_fake(body.format(text=text))["error"]
    assert "in <checkout>/traintime/worker/x.py and ~/y.py: failed" in error
    assert str(paths.ROOT) not in error


def test_not_even_half_a_path_is_left_where_a_long_output_is_cut(run_fake):
    text = f"{paths.ROOT}/x.py"
    text += "." * (2000 + len(str(paths.ROOT)) // 2 - len(text))  # the cut falls into the middle of the path
    error = run_fake(f"sys.stdout.write({text!r}); sys.exit(1)")["error"]
    half = str(paths.ROOT)[-3:] + "/x.py"
    assert "....." in error
    assert half not in error


# The whole measurement


def test_a_variable_from_outside_does_not_reach_the_worker(measure_fake, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "s3cr3t")
    monkeypatch.setenv("PYTHONPATH", "/s3cr3t")
    record = measure_fake('answer(status="ok", result=dict(os.environ))', ALONE)
    assert set(record["result"]) == {*NUMPY.environment(1), "TRAINTIME_PADDING", measure.OWN}
    assert not any("s3cr3t" in value for value in record["result"].values())


def test_the_padding_that_the_worker_sees_is_recorded_and_varies(measure_fake):
    body = 'answer(status="ok", result=len(os.environ["TRAINTIME_PADDING"]))'
    records = [measure_fake(body) for _ in range(3)]
    assert [record["padding"] for record in records] == [record["result"] for record in records]
    assert len({record["padding"] for record in records}) > 1


def test_a_point_without_a_number_of_threads_gets_all_processors(measure_fake, tiny, monkeypatch):
    monkeypatch.setattr(measure, "default_threads", lambda: 5)
    record = measure_fake('answer(status="ok", result=job["threads"])', tiny)
    assert (record["result"], record["threads"]) == (5, 5)


def test_the_code_is_hashed_when_it_is_run_and_not_when_it_began_to_wait(measure_fake, monkeypatch):
    """Whoever waits for the lock for an hour runs what lies there then."""
    moments = iter(["when it began", "when it ran"])
    monkeypatch.setattr(code, "current", lambda workload, api: f"{workload} on {api} {next(moments)}")
    assert measure_fake('answer(status="ok", result={})')["code"] == "rnn on numpy when it ran"


def test_the_warm_up_is_the_stacks_own_and_decided_before_it_starts(measure_fake, monkeypatch):
    monkeypatch.setattr(derived, "warmup", {"numpy": 4}.__getitem__)
    record = measure_fake('answer(status="ok", result=job["protocol"]["warmup"])', protocol=Protocol(steps=3))
    assert record["result"] == record["protocol"]["warmup"] == 4
    record = measure_fake('answer(status="ok", result=job["protocol"]["warmup"])', protocol=Protocol(warmup=0))
    assert record["result"] == record["protocol"]["warmup"] == 0


@pytest.mark.parametrize("changes", [{"device": "gpu"}, {"words": 3, "mask": True}, {"onednn": "off"}])
def test_what_the_stack_cannot_do_is_refused_before_anything_is_started(measure_fake, changes):
    """The worker would leave out a mask without a word: a wrong set-up must never become a number."""
    with pytest.raises(InputError):
        measure_fake("raise SystemExit('must not be started')", make_point(**SMALL, **changes))


@pytest.mark.parametrize(
    ("body", "after", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 5, "oom"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 4, "crashed"),
        ("sys.exit(3)", 5, "crashed"),
        ("time.sleep(100)", 5, "timeout"),
    ],
)
def test_a_killed_worker_and_no_other_ran_out_of_memory_where_the_kernel_counted_it(
    measure_fake, monkeypatch, body, after, status
):
    monkeypatch.setattr(measure, "_kernel_kills", iter([4, after]).__next__)
    record = measure_fake(body, protocol=Protocol(timeout_s=0.5 if status == "timeout" else 30))
    assert record["status"] == status
    assert "killed" not in record


def test_a_missing_stack_is_missing_and_not_fatal(measure_fake, monkeypatch, tiny):
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: False))
    alone = measure_fake("raise SystemExit('must not be started')")
    with measure.Together() as several:
        together = several.measure(tiny, JAX)
    assert [record["status"] for record in (alone, together)] == ["missing"] * 2
    assert "traintime stacks add numpy" in alone["error"]


def test_one_measurement_at_a_time(measure_fake, tmp_path):
    started = tmp_path / "started"
    body = f"open({str(started)!r}, 'w').close()\nanswer(status='ok', result={{}})"
    records = []
    thread = threading.Thread(target=lambda: records.append(measure_fake(body)))
    with filelock.FileLock(measure.LOCK):
        thread.start()
        time.sleep(0.5)
        assert not started.exists()
    thread.join(30)
    assert started.exists()
    assert records[0]["status"] == "ok"


# Several in one process

SEVERAL = """
import json, os, signal, sys, time

for line in iter(sys.stdin.readline, ""):
    job = json.loads(line)

    def send(**message):
        os.write(job["channel"], json.dumps(message).encode() + b"\\n")

    batch = job["sizes"]["batch"]
    BODY
    send(event="phase", name="training")
    send(event="result", status="ok", result={"pid": os.getpid(), "batch": batch, "task": job["task"]})
    AFTERWARDS
    send(event="ready")
"""


def batch_of(number, workload="rnn", **changes):
    return make_point(workload, batch=number, **{"threads": 1} | changes)


@pytest.fixture
def together(tmp_path, monkeypatch):
    """Measure these points on the JAX stack, one after the other, with a fake in the place of the worker."""
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: True))
    monkeypatch.setattr(paths, "WORKER", tmp_path)
    monkeypatch.setattr(code, "current", lambda workload, api: f"hash of {workload} on {api}")
    with contextlib.ExitStack() as ending:

        def run(*points, body="pass", afterwards="pass", protocol=QUICK, **options):
            (tmp_path / "several.py").write_text(SEVERAL.replace("BODY", body).replace("AFTERWARDS", afterwards))
            several = ending.enter_context(measure.Together())
            return [several.measure(point, JAX, protocol, **{"task": "echo"} | options) for point in points]

        yield run


def pids(records):
    return [record["result"]["pid"] for record in records]


def test_points_of_one_environment_share_a_process_and_their_records_say_so(together):
    messages = []
    points = [batch_of(5), batch_of(7, optimizer="sgd"), batch_of(5, precision="mixed-bfloat16")]
    made = together(*points, task="check", progress=messages.append)
    assert [record["result"]["batch"] for record in made] == [5, 7, 5]
    assert {record["result"]["task"] for record in made} == {"check"}
    assert len(set(pids(made))) == 1
    assert [record["shared"] for record in made] == [0, 1, 2]
    assert len({record["padding"] for record in made}) == 1, "that of the process"
    assert {record["code"] for record in made} == {"hash of rnn on keras3"}
    assert messages == [{"event": "phase", "name": "training"}] * 3


@pytest.mark.parametrize(
    "other",
    [
        batch_of(5, threads=2),
        batch_of(5, allocator="glibc-keep"),
        batch_of(5, "dense"),
        batch_of(5, "dense", recompute=True),
    ],
    ids=lambda point: point.key,
)
def test_what_sets_a_process_up_in_another_way_gets_another_one(together, other):
    first = batch_of(5, other.workload) if other.run.recompute else batch_of(5)
    made = together(first, other)
    assert len(set(pids(made))) == 2
    assert [record["shared"] for record in made] == [0, 0]


def test_sources_that_were_changed_meanwhile_are_read_anew(together, monkeypatch):
    versions = itertools.chain(["old"] * 3, itertools.repeat("new"))
    monkeypatch.setattr(code, "current", lambda workload, api: next(versions))
    made = together(batch_of(5), batch_of(5), batch_of(5))
    assert [record["shared"] for record in made] == [0, 0, 1]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("print(batch, flush=True); batch == 7 and os._exit(3)", "crashed", "exit status 3\n7"),
        ("batch == 7 and os.kill(os.getpid(), signal.SIGTERM)", "crashed", "signal 15 (SIGTERM)"),
        ("batch == 7 and time.sleep(100)", "timeout", "no result after 2 s"),
        ("if batch == 7: send(event='result', status='oom', error='out of memory'); break", "oom", "out of memory"),
    ],
)
def test_one_that_fails_has_its_own_status_and_the_rest_goes_on_in_a_new_process(together, body, status, words):
    made = together(*map(batch_of, (5, 7, 6, 5)), body=body, protocol=Protocol(warmup=1, steps=1, timeout_s=2))
    assert [record["status"] for record in made] == ["ok", status, "ok", "ok"]
    assert made[1]["error"] == words, "and nothing that the one before it printed"
    assert [record["shared"] for record in made] == [0, 1, 0, 1]


@pytest.mark.parametrize("afterwards", ["os._exit(3)", "time.sleep(100)"])
def test_a_process_that_dies_or_hangs_between_two_jobs_is_blamed_on_neither(together, monkeypatch, afterwards):
    monkeypatch.setattr(measure, "READY_S", 0.5)
    made = together(batch_of(5), batch_of(6), afterwards=afterwards)
    assert [record["status"] for record in made] == ["ok", "ok"]
    assert [record["shared"] for record in made] == [0, 0]


@pytest.mark.parametrize("line", [b"no JSON", b'{"event": "result", "status": "ok", "result": {"pid": 0}}'])
def test_what_is_said_between_two_jobs_is_no_answer_to_the_next(together, line):
    made = together(batch_of(5), batch_of(6), afterwards=f"os.write(job['channel'], {line!r} + b'\\n')")
    assert [record["result"]["batch"] for record in made] == [5, 6]
    assert [record["shared"] for record in made] == [0, 0]


def test_no_process_is_left_when_all_are_measured(tmp_path, together, gone):
    (record,) = together(batch_of(5))
    assert psutil.pid_exists(*pids([record]))
    with measure.Together() as several:
        record = several.measure(batch_of(5), JAX, task="echo")
    assert gone(*pids([record]))


@pytest.mark.parametrize(
    ("stack", "changes"),
    [
        ("numpy", {}),
        ("2026-jax", {"device": "gpu"}),
        ("2026-torch", {"replicas": 2, "batch": 4, "threads": 2}),
        ("2026-torch", {"save_every": 2, "save_aside": True}),
    ],
)
def test_what_leaves_something_behind_needs_a_process_of_its_own(stack, changes):
    assert measure.process_of(make_point(**changes), stacks.get(stack)) is None
    assert measure.process_of(make_point(), JAX) is not None


def test_a_point_that_shares_nothing_is_measured_as_ever(measure_fake, tiny):
    measure_fake('answer(status="ok", result={})')
    with measure.Together() as several:
        record = several.measure(tiny, NUMPY, task="echo")
    assert record["status"] == "ok"
    assert "shared" not in record


@linux
def test_the_peak_of_memory_is_each_jobs_own():
    """A large one, then a small one: what the kernel had counted is forgotten, and the memory given back."""
    environment = NUMPY.environment(1)
    command = [str(NUMPY.executable), str(paths.WORKER / "several.py")]
    peaks = []
    with measure._started(command, environment) as worker:
        for number in (200_000, 11, 200_000):
            point = make_point(**SMALL | {"vocabulary": number, "embedding": 60}, threads=1)
            job = {"workload": str(point.sizes.folder), "api": "numpy", "backend": "numpy", "threads": 1}
            job |= {"sizes": point.sizes.model_dump(), "run": point.run.model_dump(), "task": "check", "steps": 1}
            peaks.append(result_of(worker.answer(job, 60, more=True))["memory"]["peak"])
            assert worker.next("ready", time.monotonic() + 60)
    assert peaks[1] < peaks[0] - 3 * 200_000 * 60 * 4, "weights and two moments are gone"
    assert peaks[2] == pytest.approx(peaks[0], rel=0.1)


# The real worker, on the NumPy stack


def result_of(record):
    assert record["status"] == "ok", record.get("error")
    return record["result"]


def test_what_the_real_worker_measures_can_be_stored_and_shown(tmp_path):
    protocol = Protocol(warmup=1, steps=4)
    phases = []
    record = measure.measure(ALONE, NUMPY, protocol, progress=phases.append)
    assert result_of(record)
    assert [message["name"] for message in phases[:3]] == ["importing", "building", "first step"]
    path = records.file_of(tmp_path, "some-machine", "numpy", ALONE.key)
    stored = records.append(path, "some-machine", "numpy", ALONE, record | {"sweep": "one", "round": 1, "seed": 7})
    row = table(tmp_path).iloc[0]
    assert (row.status, row.steps, row.threads, row.protocol) == ("ok", 4, 1, "1+4")
    assert 0 < row.min_s <= row.median_s
    assert row.parameters == ALONE.work.parameters == 11 * 3 + 4 * 4 * (3 + 4 + 1) + 4 + 1
    assert row.code == code.same(code.current("rnn", "numpy"))
    evidence = stored.result.evidence
    steps = sum(stored.result.timing.steps_ns[1:]) / 1e9
    assert steps <= evidence.seconds < steps + 0.5, "of the counted steps alone"
    assert evidence.minor_faults >= 0
    if sys.platform == "linux":
        assert evidence.others_cores is not None
        assert row.path.startswith("OpenBLAS") or not row.path


@linux
@pytest.mark.parametrize(("allocator", "answers"), [("glibc", "glibc"), *((name, "glibc-keep") for name in KEEPING)])
def test_the_real_worker_runs_with_the_allocator_that_was_asked_for(allocator, answers):
    point = make_point(**SMALL, threads=1, allocator=allocator)
    result = result_of(measure.measure(point, NUMPY, Protocol(warmup=1, steps=2)))
    assert result["facts"]["path"]["allocator"] == answers


@linux
def test_the_worker_offers_itself_to_the_kernel_and_the_parent_does_not(run_fake):
    score = Path("/proc/self/oom_score_adj")
    before = score.read_text()
    outcome = run_fake(f"""
    sys.path.insert(0, {str(paths.WORKER)!r})
    import process
    process.first_to_go()
    answer(status="ok", result=open("/proc/self/oom_score_adj").read())
    """)
    assert outcome["result"].strip() == "1000"
    assert score.read_text() == before


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


@pytest.mark.fault(
    "kill -9 of the sweep while its worker trains",
    "the worker ends, too",
)
@linux
def test_the_worker_dies_with_its_parent_however_that_dies(tmp_path, gone):
    command = [sys.executable, "-c", PARENT, str(tmp_path / "lock"), str(tmp_path / "stacks")]
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        workers = []
        try:
            assert parent.stdout.readline() == "training\n"
            workers = psutil.Process(parent.pid).children()
            assert len(workers) == 1
            parent.kill()
            parent.wait()
            assert gone(workers[0].pid)
        finally:
            parent.kill()
            for worker in workers:
                if worker.is_running():
                    worker.kill()
