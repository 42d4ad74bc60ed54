"""One invocation: whatever a worker does, its outcome is told and nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import filelock
import psutil
import pytest
from pydantic import ValidationError

from traintime import measure, paths, stacks, store

pytestmark = pytest.mark.timeout(120)
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's /proc")
NUMPY = stacks.get("numpy")


@pytest.fixture(autouse=True)
def own_stacks_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STACKS", tmp_path / "stacks")


@pytest.fixture
def measure_fake(fake_worker, monkeypatch, tiny):
    """Measure a point on the NumPy stack with a fake in the worker's place."""

    def run(body, **options):
        monkeypatch.setattr(paths, "WORKER", fake_worker(body))
        return measure.measure(tiny, NUMPY, **options)

    return run


# The answer


def test_a_result_comes_back_as_it_was_sent(run_fake):
    outcome = run_fake('answer(status="ok", result={"twice": 2 * job["number"]})', number=21)
    assert outcome == {"status": "ok", "result": {"twice": 42}}


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


def test_a_worker_that_ends_without_a_result_is_crashed(run_fake):
    assert run_fake("send(event='phase', name='importing')") == {
        "status": "crashed",
        "error": "exit status 0",
        "killed": False,
    }


@pytest.mark.parametrize(("name", "killed"), [("SIGKILL", True), ("SIGTERM", False)])
def test_a_worker_that_a_signal_ends_is_crashed_and_the_signal_is_named(run_fake, name, killed):
    outcome = run_fake(f"os.kill(os.getpid(), signal.{name})")
    assert outcome["status"] == "crashed"
    assert f"signal {getattr(signal, name).value} ({name})" in outcome["error"]
    assert outcome["killed"] is killed


def test_an_error_that_the_worker_reports_comes_back(run_fake):
    outcome = run_fake('answer(status="oom", error="CUDA out of memory"); sys.exit(1)')
    assert outcome == {"status": "oom", "error": "CUDA out of memory"}


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


def test_a_worker_that_hangs_times_out_and_its_children_go_with_it(run_fake, tmp_path, gone):
    outcome = run_fake(HANGING + "time.sleep(100)", timeout_s=2, pids=str(tmp_path / "pids"))
    assert outcome == {"status": "timeout", "error": "no result after 2 s"}
    assert_nothing_is_left(tmp_path / "pids", gone)


def test_a_timeout_is_a_timeout_however_fast_the_worker_dies_of_it(run_fake, monkeypatch):
    """Our own SIGKILL is never taken for somebody else's."""
    kill = os.killpg

    def kill_and_wait(group, number):
        kill(group, number)
        os.waitid(os.P_PID, group, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(measure.os, "killpg", kill_and_wait)
    assert run_fake("time.sleep(100)", timeout_s=0.5)["status"] == "timeout"


def test_a_result_counts_even_if_the_worker_hangs_afterwards(run_fake, tmp_path, gone):
    body = HANGING + 'answer(status="ok", result={"n": 1})\ntime.sleep(100)'
    outcome = run_fake(body, timeout_s=2, pids=str(tmp_path / "pids"))
    assert outcome == {"status": "ok", "result": {"n": 1}}
    assert_nothing_is_left(tmp_path / "pids", gone)


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


def test_a_home_at_the_root_does_not_change_every_path(monkeypatch):
    monkeypatch.setenv("HOME", "/")
    assert measure.without_paths("cannot read /proc/meminfo") == "cannot read /proc/meminfo"


# The whole measurement


def test_a_variable_from_outside_does_not_reach_the_worker(measure_fake, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "s3cr3t")
    monkeypatch.setenv("PYTHONPATH", "/s3cr3t")
    record = measure_fake('answer(status="ok", result=dict(os.environ))', threads=1)
    assert set(record["result"]) == {*NUMPY.environment(1), "TRAINTIME_PADDING"}
    assert not any("s3cr3t" in value for value in record["result"].values())


def test_the_padding_that_the_worker_sees_is_recorded_and_varies(measure_fake):
    body = 'answer(status="ok", result=len(os.environ["TRAINTIME_PADDING"]))'
    records = [measure_fake(body) for _ in range(3)]
    assert [record["padding"] for record in records] == [record["result"] for record in records]
    assert len({record["padding"] for record in records}) > 1


def test_the_worker_gets_the_point_the_protocol_and_the_task(measure_fake, tiny):
    protocol = measure.Protocol(steps=3)
    record = measure_fake(
        'answer(status="ok", result=job)', protocol=protocol, threads=1, task="bench", steps=7, blocks=2
    )
    job = record["result"]
    assert (job["point"], job["protocol"]) == (tiny.model_dump(), protocol.model_dump())
    assert (job["backend"], job["api"], job["workload"], job["device"]) == ("numpy", "numpy", "rnn", "cpu")
    assert (job["threads"], job["task"], job["steps"], job["blocks"]) == (1, "bench", 7, 2)
    assert (record["threads"], record["protocol"]) == (1, protocol.model_dump())


def counters(monkeypatch, *oom_kills):
    values = iter(oom_kills)
    monkeypatch.setattr(measure, "_machine_counters", lambda: {"steal_s": 1.5, "oom_kills": next(values)})


@pytest.mark.parametrize(("before", "after", "status"), [(4, 5, "oom"), (4, 4, "crashed")])
def test_a_killed_worker_ran_out_of_memory_only_if_the_kernel_counted_it(
    measure_fake, monkeypatch, before, after, status
):
    counters(monkeypatch, before, after)
    record = measure_fake("os.kill(os.getpid(), signal.SIGKILL)")
    assert record["status"] == status
    assert record["machine_evidence"] == {"steal_s": 0, "oom_kills": after - before}
    assert "killed" not in record


def test_a_worker_that_ends_otherwise_is_not_blamed_on_memory(measure_fake, monkeypatch):
    counters(monkeypatch, 4, 5)
    assert measure_fake("sys.exit(3)")["status"] == "crashed"


def test_a_timeout_is_not_blamed_on_memory(measure_fake, monkeypatch):
    counters(monkeypatch, 4, 5)
    protocol = measure.Protocol(timeout_s=0.5)
    assert measure_fake("time.sleep(100)", protocol=protocol)["status"] == "timeout"


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
    thread.join(30)
    assert started.exists()
    assert records[0]["status"] == "ok"


@pytest.mark.parametrize(
    "field", [{"stepz": 3}, {"steps": 0}, {"warmup": -1}, {"seconds": -1}, {"limit_s": 0}, {"fewest": 0}]
)
def test_a_protocol_that_makes_no_sense_is_refused(field):
    with pytest.raises(ValidationError):
        measure.Protocol(**field)


# The real worker, on the NumPy stack


def test_the_real_worker_checks_its_losses(tiny):
    record = measure.measure(tiny, NUMPY, threads=1, task="check", steps=1)
    assert record["status"] == "ok", record.get("error")
    result = record["result"]
    assert len(result["losses"]) == 2
    assert all(0.6 < loss < 0.8 for loss in result["losses"])
    assert result["facts"]["threads"]["OpenBLAS"] in (1, None)
    assert result["memory"]["imported"] <= result["memory"]["peak"]


def test_what_the_real_worker_measures_can_be_stored_and_shown(tiny, tmp_path):
    protocol = measure.Protocol(warmup=1, steps=4, seconds=0)
    phases = []
    record = measure.measure(tiny, NUMPY, protocol, threads=1, progress=phases.append)
    assert record["status"] == "ok", record.get("error")
    assert [message["name"] for message in phases[:3]] == ["importing", "building", "first step"]
    path = store.file_of(tmp_path, "some-machine", "numpy", tiny.key)
    store.append(path, "some-machine", "numpy", tiny, record | {"sweep": "one", "round": 1, "seed": 7})
    row = store.table(tmp_path).iloc[0]
    assert (row.status, row.steps, row.threads) == ("ok", 4, 1)
    assert 0 < row.min_s <= row.median_s
    assert row.parameters == 11 * 3 + 4 * 4 * (3 + 4 + 1) + 4 + 1


@pytest.mark.parametrize(
    ("changes", "sentences"),
    # Four counted steps of six sentences: as many again, twice as many, both once more; an epoch amid two such sets.
    [
        ({"loop": "fit"}, [24, 48, 24, 48]),
        ({"loop": "epoch", "sentences": 25}, [24, 48, 24, 48, 25, 24, 48, 24, 48]),
        ({}, []),
    ],
)
def test_the_real_worker_times_the_loop_that_was_asked_for(tiny, changes, sentences):
    protocol = measure.Protocol(warmup=1, steps=4, seconds=0)
    record = measure.measure(tiny.model_copy(update=changes), NUMPY, protocol, threads=1)
    assert record["status"] == "ok", record.get("error")
    result = record["result"]
    assert [loop["sentences"] for loop in result["loops"]] == sentences
    assert all(loop["ns"] >= loop["trained_ns"] > 0 for loop in result["loops"])
    assert len(result["timing"]["steps_ns"]) == 5
    assert 0 <= result["faults"]["minor_in_steps"] <= result["faults"]["minor"]


@linux
@pytest.mark.parametrize("allocator", ["glibc", "glibc-keep"])
def test_the_real_worker_runs_with_the_allocator_that_was_asked_for(tiny, allocator):
    point = tiny.model_copy(update={"allocator": allocator})
    record = measure.measure(point, NUMPY, measure.Protocol(warmup=1, steps=2, seconds=0), threads=1)
    assert record["status"] == "ok", record.get("error")
    assert record["result"]["facts"]["allocator"] == allocator


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

from traintime import measure, paths, stacks
from traintime.point import make_point


def progress(message):
    if message.get("name") == "first step":
        print("training", flush=True)


measure.LOCK, paths.STACKS = Path(sys.argv[1]), Path(sys.argv[2])
point = make_point(vocabulary=11, embedding=3, units=4, length=5, batch=6)
measure.measure(point, stacks.get("numpy"), threads=1, progress=progress, task="bench", steps=10**9, blocks=1)
"""


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
