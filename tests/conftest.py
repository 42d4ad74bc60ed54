"""What several tests share: a lock of their own, made-up results, the worker's modules.

What takes long to import (the package, pandas) is imported by the fixture that needs it: a module's tests start in a
second where they need none of it.
"""

import contextlib
import importlib
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import filelock
import hypothesis
import pytest
import rings
from xdist.scheduler import LoadScopeScheduling

from traintime import paths

# With TensorFlow loaded first, triton 3.7 ends the process where torch makes an optimizer.
with contextlib.suppress(ImportError):
    importlib.import_module("triton")

# The same examples every time, and no deadline: these tests run on busy machines.
busy = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("repeatable", derandomize=True, max_examples=60, **busy)
hypothesis.settings.load_profile("repeatable")

# The folders whose tests take minutes each come first: what is short fills the end, when a process has nothing left.
LONG = ("backends", "workers", "colab", "book")


class ByWhatTheyShare(LoadScopeScheduling):
    """Tests of a module share a process, and so do a stack's, which share its losses; those of a backend do not."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, test = nodeid.partition("::")
        kind = Path(path).parent.name
        if kind == "workers":
            from traintime.measuring import stacks

            return next((stack for stack in stacks.ALL if stack in test), kind)
        if Path(path).stem in ("test_chapters", "test_verdicts"):  # what verdicts rest on is worked out once
            return "verdicts"
        return nodeid if kind == "backends" else path


def pytest_addoption(parser):
    parser.addoption("--ring", default=rings.PUSH, choices=rings.RINGS, help="which tests (tests/rings.py)")
    parser.addoption("--built", action="store_true", help="the book was just built: do not look whether it is current")
    parser.addoption("--golden", action="store_true", help="write tests/golden anew from the built book")
    parser.addoption("--faults", metavar="FILE", help="keep there how often each fault was tried and held")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave the tests of this ring, the long ones first."""
    ring, of_item = config.getoption("ring"), {}
    for item in items:
        stack = item.callspec.params.get("stack") if hasattr(item, "callspec") else None
        if item.path.parent.name == "workers" and stack:
            item.add_marker(pytest.mark.stack(stack))
        needed = [mark.args[0] for mark in item.iter_markers("stack")]
        of_item[item] = rings.rings_of(item.nodeid, needed, item.get_closest_marker("rest") is not None)
    config.stash[rings.COUNTED] = Counter(ring for those in of_item.values() for ring in those)
    if ring != rings.ALL:
        config.hook.pytest_deselected(items=[item for item in items if ring not in of_item[item]])
        items[:] = [item for item in items if ring in of_item[item]]
    items.sort(key=place_of)


def place_of(item):
    """The long folders first; of the workers' tests those beside each other that can share a process of a stack."""
    folder = item.path.parent.name
    given = item.callspec.params if folder == "workers" and hasattr(item, "callspec") else {}
    # A test that no stack here can run is parametrised by nothing, which has no order.
    shared = (str(given.get(name, "")) for name in ("stack", "workload"))
    return LONG.index(folder) if folder in LONG else len(LONG), *shared


def pytest_runtest_setup(item):
    for mark in item.iter_markers("stack"):
        from traintime.measuring import stacks

        stack = stacks.get(mark.args[0])
        if not stack.present:
            if not stacks.can_have(stack):
                pytest.skip(f"{stack.name} cannot be had here: no Python {stack.python}")
            rings.lacks(item.config, f"{stack.name} is not here: {stack.add_command}")
        if stack.backend == "theano" and not shutil.which("g++"):
            rings.lacks(item.config, f"{stack.name} lacks a C++ compiler: install g++")

    for mark in item.iter_markers("fault"):
        item.user_properties.append(("fault", mark.args))


FAULTS = {}  # (what, holds) of each that was tried -> times, and failed tests


def pytest_runtest_logreport(report):
    about = dict(report.user_properties)
    if "fault" in about and report.when == "call" and not report.skipped:
        tried, failed = FAULTS.get(tuple(about["fault"]), (0, 0))
        FAULTS[tuple(about["fault"])] = tried + about.get("tried", 1), failed + report.failed


def pytest_sessionfinish(session, exitstatus):
    """Keep what came of faults: those that were not tried now keep their rows.

    A test that tries a fault many times and fails counts as one.
    """
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
    """With `-n`: which tests go to which process, in the order in which they were collected."""
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
def in_full(request):
    """Whether faults are tried in full, as `make faults` does: some of them twenty times, or ten thousand."""
    return request.config.getoption("faults") is not None


@pytest.fixture
def gone():
    """Whether a process ends, a minute at most; a zombie that nobody has collected yet has ended."""
    import psutil

    def wait(pid: int) -> bool:
        end = time.monotonic() + 60
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
        protocol = Protocol(warmup=2, steps=3).model_dump()
        made = {"started": "2026-01-02T03:04:05Z", "round": 1, "sweep": "made-up", "seed": 7, "threads": 2}
        made |= {"protocol": protocol, "code": "0123456789ab", "padding": 12, "status": status}
        if status != "ok":
            return made | {"error": "made up"} | changes
        facts = {"backend": "numpy", "device": "cpu", "precision": "float32", "cpus": 2, "threads": {"OpenBLAS": 2}}
        facts |= {"versions": {"numpy": "2.0.0"}, "parameters": 166}
        facts |= {"path": {"allocator": "glibc", "blas": "OpenBLAS Zen"}}
        timing = {"first_ns": 50_000_000, "steps_ns": [900_000_000, 800_000_000, 1_000_000, 2_000_000, 6_000_000]}
        made["result"] = {
            "facts": facts,
            "phases": {"import_s": 0.5, "build_s": 0.1},
            "memory": {"imported": 10, "built": 20, "first_step": 30, "peak": 40},
            "evidence": {"seconds": 0.01, "minor_faults": 21, "others_cpu_s": 0.0, "pages_swapped_out": 0},
            "timing": timing | {"warmup": 2, "first_loss": 0.7, "last_loss": 0.6},
        }
        return made | changes

    return build


@pytest.fixture(scope="session")
def html(request):
    """Folder of the built book's pages, brought up to date by the workflow under the quick profile."""
    if request.config.getoption("built"):
        return paths.ROOT / "_build" / "html"
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
