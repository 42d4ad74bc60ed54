"""What several tests share: a lock of their own, fake workers, made-up results, the worker's modules.

What takes long to import (the package, pandas) is imported by the fixture that needs it: a module's tests start in a
second where they need none of it.
"""

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import filelock
import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from traintime import paths

# The same examples every time, and no deadline: these tests run on shared machines.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("repeatable")

# What every fake worker starts with: its job, and a way to answer.
FAKE_WORKER = """
import json, os, signal, subprocess, sys, time

job = json.loads(sys.stdin.read())


def send(**message):
    os.write(job["channel"], json.dumps(message).encode() + b"\\n")


def answer(**message):
    send(event="result", **message)


"""


# The folders whose tests take minutes each come first: what is short fills the end, when a process has nothing left.
LONG = ("predict", "deferred", "workers", "colab", "book")


class ByWhatTheyShare(LoadScopeScheduling):
    """Tests of a module share a process, and so do a stack's, which share its losses; those of a backend do not."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, test = nodeid.partition("::")
        kind = Path(path).parent.name
        if kind == "workers":
            from traintime.measuring import stacks

            return next((stack for stack in stacks.ALL if stack in test), kind)
        return nodeid if kind in ("deferred", "predict") else path


def pytest_addoption(parser):
    parser.addoption("--faults", metavar="FILE", help="keep there how often each fault was tried and held")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Tests marked `everything` belong to `make test-all` alone, which says so with TRAINTIME_ALL."""
    if not os.environ.get("TRAINTIME_ALL"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("everything")])
        items[:] = [item for item in items if not item.get_closest_marker("everything")]
    items.sort(key=lambda item: LONG.index(item.path.parent.name) if item.path.parent.name in LONG else len(LONG))


def pytest_runtest_setup(item):
    for mark in item.iter_markers("stack"):
        from traintime.measuring import stacks

        stack = stacks.get(mark.args[0])
        if not stack.present and not os.environ.get("TRAINTIME_ALL_STACKS"):
            pytest.skip(f"{stack.name} is not here: {stack.add_command}")

    for mark in item.iter_markers("fault"):
        item.user_properties.append(("fault", mark.args))


FAULTS = {}  # (what, holds) of each that was tried -> times, and failed tests


def pytest_runtest_logreport(report):
    about = dict(report.user_properties)
    if "fault" in about and report.when == "call" and not report.skipped:
        tried, failed = FAULTS.get(tuple(about["fault"]), (0, 0))
        FAULTS[tuple(about["fault"])] = tried + about.get("tried", 1), failed + report.failed


def pytest_sessionfinish(session):
    """Faults that were not tried now keep their rows; a test that tries one many times and fails counts as one."""
    path = session.config.getoption("--faults")
    if not path or not FAULTS or hasattr(session.config, "workerinput"):
        return
    import pandas as pd

    columns = ["fault", "holds", "tried", "failed", "on"]
    before = pd.read_csv(path) if Path(path).exists() else pd.DataFrame(columns=columns)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    now = pd.DataFrame([[*name, *counts, today] for name, counts in FAULTS.items()], columns=columns)
    kept = before[~before["fault"].isin(now["fault"])]
    pd.concat([kept, now]).sort_values("fault").to_csv(path, index=False)


def pytest_xdist_make_scheduler(config, log):
    """With `-n 2`: which tests go to which process, in the order in which they were collected."""
    config.option.loadscopereorder = False
    return ByWhatTheyShare(config, log)


@pytest.fixture(autouse=True)
def private_lock(tmp_path, monkeypatch):
    """No test waits for a measurement that runs on the same machine, or holds one up.

    A test that measures imports what measures at the head of its module; without it there is no lock to replace.
    """
    for name in ("traintime.measuring.measure", "traintime.measuring.sweep"):
        if name in sys.modules:
            monkeypatch.setattr(sys.modules[name], "LOCK", tmp_path / "measure.lock")


# Modules of the worker that mean another file for each workload.
OF_A_WORKLOAD = ("data", "on_numpy", "samples", "train_numpy")


@pytest.fixture(scope="module")
def worker_module():
    """Import a module of the worker as the worker does: from its own folder and a workload's, without the package."""
    from traintime import workloads

    with pytest.MonkeyPatch.context() as patch:

        def load(name: str, workload: str = "rnn"):
            patch.syspath_prepend(str(workloads.get(workload).folder))
            patch.syspath_prepend(str(paths.WORKER))
            for module in OF_A_WORKLOAD:
                sys.modules.pop(module, None)
            return importlib.import_module(name)

        yield load
    for module in OF_A_WORKLOAD:
        sys.modules.pop(module, None)


@pytest.fixture
def tiny():
    """A point that trains in well under a millisecond a step."""
    from traintime.point import make_point

    return make_point(vocabulary=11, embedding=3, units=4, length=5, batch=6)


@pytest.fixture
def fake_worker(tmp_path):
    """Write a script that has `job`, `send()` and `answer()`; return its path."""

    def write(body: str) -> Path:
        script = tmp_path / "fake_worker.py"
        script.write_text(FAKE_WORKER + dedent(body))
        return script

    return write


@pytest.fixture
def run_fake(fake_worker):
    """Run a fake worker to its end through measure.run_worker and return the outcome."""
    from traintime.measuring import measure

    def run(body: str, timeout_s: float = 30, **job):
        return measure.run_worker([sys.executable, str(fake_worker(body))], job, {"LANG": "C.UTF-8"}, timeout_s)

    return run


@pytest.fixture
def gone():
    """Whether a process ends within some seconds; a zombie that nobody has collected yet has ended."""
    import psutil

    def wait(pid: int, seconds: float = 10) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                    return True
            except psutil.NoSuchProcess:
                return True
            time.sleep(0.02)
        return False

    return wait


@pytest.fixture
def invocation():
    """Build one invocation as measure() and sweep.run() make it; keywords replace its fields."""
    from traintime.measuring.protocol import Protocol

    def build(status: str = "ok", **changes):
        made = {
            "started": "2026-01-02T03:04:05Z",
            "round": 1,
            "sweep": "made-up",
            "seed": 7,
            "threads": 2,
            "protocol": Protocol(warmup=2, steps=3).model_dump(),
            "code": "0123456789ab",
            "padding": 12,
            "status": status,
        }
        if status == "ok":
            made["result"] = {
                "facts": {
                    "backend": "numpy",
                    "device": "cpu",
                    "precision": "float32",
                    "cpus": 2,
                    "threads": {"OpenBLAS": 2},
                    "versions": {"numpy": "2.0.0"},
                    "parameters": 166,
                    "path": {"allocator": "glibc", "blas": "OpenBLAS Zen"},
                },
                "phases": {"import_s": 0.5, "build_s": 0.1},
                "memory": {"imported": 10, "built": 20, "first_step": 30, "peak": 40},
                "evidence": {"seconds": 0.01, "minor_faults": 21, "others_cpu_s": 0.0, "pages_swapped_out": 0},
                "timing": {
                    "first_ns": 50_000_000,
                    "steps_ns": [900_000_000, 800_000_000, 1_000_000, 2_000_000, 6_000_000],
                    "warmup": 2,
                    "first_loss": 0.7,
                    "last_loss": 0.6,
                },
            }
        else:
            made["error"] = "made up"
        return made | changes

    return build


@pytest.fixture
def few_draws(monkeypatch):
    """A tenth of the draws behind a fit's intervals: what made-up machines differ in is far larger than that blurs."""
    from traintime.explain import formula

    draws, *others = formula.fit.__defaults__
    monkeypatch.setattr(formula.fit, "__defaults__", (draws // 10, *others))


@pytest.fixture(scope="session")
def html():
    """Folder of the built book's pages, brought up to date by the workflow under the quick profile."""
    command = [sys.executable, "-m", "traintime.book", "make", "--profile", "quick"]
    paths.BUILD.mkdir(exist_ok=True)
    # Both processes of the tests ask for it, and a second build at once is refused.
    with filelock.FileLock(paths.BUILD / "tests.lock"):
        answer = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, (answer.stdout + answer.stderr)[-6000:]
    return paths.ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def executed(html):
    """Folder of the executed chapters."""
    return paths.ROOT / "_build" / "quick" / "executed"
