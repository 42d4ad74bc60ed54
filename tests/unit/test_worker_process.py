"""What the worker knows about its own process."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from traintime import paths
from traintime.point import make_point
from traintime.store.records import SystemCounts

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's /proc")
RUN = {"device": "cpu", "allocator": "glibc", "onednn": "auto", "precision": "float32"}
JOB = {"backend": "jax", "threads": 2, "run": RUN}
FACTS = {"backend": "jax", "device": "cpu", "precision": "float32", "cpus": 2}
FACTS |= {"path": {"allocator": "glibc", "onednn": None}, "threads": {"intra-op": 2, "other": None}}


@pytest.fixture
def process(worker_module):
    return worker_module("process")


@linux
def test_the_peak_is_what_the_process_once_held_and_not_its_parent(process):
    before = process.peak_memory()
    held = np.ones(before + 2**27, np.uint8)
    code = f"import sys; sys.path.insert(0, {str(paths.WORKER)!r}); import process; print(process.peak_memory())"
    child = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert int(child.stdout) < held.nbytes / 2
    del held
    assert process.peak_memory() > before + 2**27
    assert psutil.Process().memory_info().rss < process.peak_memory() - 2**26


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2400000000 bytes."), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1."), True),
        (OSError(12, "Cannot allocate memory"), True),
        (ValueError("the loss is not finite: first nan, last nan"), False),
        (KeyError("memory"), False),
    ],
)
def test_what_frameworks_say_when_memory_runs_out_is_understood_and_nothing_else(process, error, memory):
    assert bool(process.means_out_of_memory(error)) == memory


def on_path(**found):
    return {"path": {"allocator": "glibc", "onednn": None} | found}


@pytest.mark.parametrize(
    ("asked", "found", "refused"),
    [
        ({}, {}, None),
        ({}, {"cpus": None}, None),  # where processors cannot be chosen
        ({}, {"backend": "torch"}, "backend is 'torch', asked for 'jax'"),
        ({}, {"device": "gpu"}, "device is 'gpu', asked for 'cpu'"),
        ({}, {"precision": "float64"}, "precision is 'float64', asked for 'float32'"),
        ({}, {"threads": {"other": None, "OpenBLAS": 64}}, "OpenBLAS uses 64 threads, asked for 2"),
        ({}, {"cpus": 1}, "1 processors available, asked for 2"),
        ({}, on_path(allocator="jemalloc"), "allocator is jemalloc, asked for glibc"),
        ({"allocator": "glibc-keep-arenas"}, on_path(allocator="glibc-keep"), None),  # whatever the number of arenas
        ({"allocator": "no-pool"}, {}, "allocator is glibc, asked for no-pool"),
        ({}, on_path(onednn=True), None),
        ({"onednn": "on"}, on_path(onednn=False), "oneDNN is False, asked for on"),
    ],
)
def test_a_process_that_is_not_what_was_asked_for_is_refused(process, asked, found, refused):
    with pytest.raises(RuntimeError, match=refused) if refused else contextlib.nullcontext():
        process.check_facts(JOB | {"run": RUN | asked}, FACTS | found)


MAPS = "7f00-7f01 r-xp 00000000 08:01 42 /usr/lib/{}\n7f02-7f03 r--p 00000000 08:01 43 /usr/lib/libc.so.6\n"


@pytest.mark.parametrize(
    ("mapped", "switches", "expected"),
    [
        ("libm.so.6", {}, "glibc"),
        ("libm.so.6", {"MALLOC_MMAP_MAX_": "0"}, "glibc-keep"),
        ("libjemalloc.so.2", {}, "jemalloc"),
        ("libtcmalloc_minimal.so.4", {}, "tcmalloc"),
        ("libm.so.6", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "no-pool"),
        ("libm.so.6", {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, "no-pool"),
    ],
)
def test_the_allocator_is_read_off_what_is_loaded_and_its_switches(process, monkeypatch, mapped, switches, expected):
    files = {"/proc/self/maps": MAPS.format(mapped)}
    monkeypatch.setattr(process, "open", lambda path, **_: io.StringIO(files[path]), raising=False)
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    for name, value in switches.items():
        monkeypatch.setenv(name, value)
    assert process.allocator() == expected


@pytest.mark.parametrize(("threads", "left"), [(1, {1}), (2, {1, 3}), (9, {1, 3, 5, 7})])
def test_a_process_keeps_to_its_first_processors(process, monkeypatch, threads, left):
    allowed = {1, 3, 5, 7}

    def keep(pid, processors):
        allowed.intersection_update(processors)

    monkeypatch.setattr(process.os, "sched_getaffinity", lambda pid: set(allowed), raising=False)
    monkeypatch.setattr(process.os, "sched_setaffinity", keep, raising=False)
    assert process.use_threads(threads) == len(left)
    assert allowed == left


STAT = "cpu  100 20 30 5000 60 7 8 900 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"


def test_others_are_user_nice_system_and_interrupts_less_ones_own_where_the_system_tells(process, monkeypatch):
    """Neither idle time (5000) nor waiting for a disk (60), and what the host took is told apart.

    On a made-up machine of which this process has used a second: a hundred ticks each.
    """
    files = {"/proc/stat": STAT, "/proc/vmstat": "pgfault 12\npswpout 34\n"}
    usage = SimpleNamespace(ru_utime=0.75, ru_stime=0.25, ru_minflt=11, ru_majflt=2)
    monkeypatch.setattr(process, "open", lambda path: io.StringIO(files[path]), raising=False)
    monkeypatch.setattr(process.resource, "getrusage", lambda who: usage)
    monkeypatch.setattr(process.os, "sysconf", lambda name: {"SC_CLK_TCK": 100}[name])
    own = {"minor_faults": 11, "major_faults": 2, "own_cpu_s": 1.0}
    others = {"others_cpu_s": pytest.approx(1.65 - 1.0), "steal_s": 9.0, "pages_swapped_out": 34}
    assert process.counters() == own | others
    files["/proc/stat"] = "cpu 1 2\n"
    assert process.counters() == own


@linux
def test_the_time_of_processes_beside_counts_as_ones_own(process):
    """Replicas train beside the one that is watched: none of them is a disturbance."""
    code = "import time\nwhile time.process_time() < 2: pass\nprint(1, flush=True)\ninput()"
    busy = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        busy.stdout.readline()
        alone, together = process.counters(), process.counters([busy.pid])
        assert together["own_cpu_s"] - alone["own_cpu_s"] > 1.9
        # Less what others have used between the two looks.
        assert alone["others_cpu_s"] - together["others_cpu_s"] > 0.5
        assert set(alone) <= set(SystemCounts.model_fields)
    finally:
        busy.kill()
        busy.communicate()


OF_A_COPY = """
import ctypes, sys
from traintime.measuring.worker import process
ctypes.CDLL(sys.argv[1])
print(process.ask_openblas(["openblas_get_num_threads"], ctypes.c_int))
"""


@linux
def test_a_library_in_a_folder_with_blanks_and_other_letters_is_asked(tmp_path):
    libraries = shutil.copytree(Path(np.__file__).parents[1] / "numpy.libs", tmp_path / "mit Leerstellen ö")
    openblas = next(libraries.glob("*openblas*"))
    command, environment = [sys.executable, "-c", OF_A_COPY, str(openblas)], os.environ | {"LC_ALL": "C"}
    done = subprocess.run(command, cwd=paths.ROOT, env=environment, capture_output=True, text=True, check=False)
    assert re.fullmatch(r"\[\d+(, \d+)*\]", done.stdout.strip()), done.stderr


def test_the_classifier_of_keras_3_drops_what_it_was_asked_to(worker_module):
    """The small point of the workers' tests drops nothing, since dropping is random."""
    keras = pytest.importorskip("keras")
    sizes = make_point(vocabulary=11, embedding=3, units=4, length=5, dropout=0.25).sizes.model_dump()
    made = worker_module("on_keras3").model(sizes, {"kernel": "auto"})
    assert [layer.rate for layer in made.layers if isinstance(layer, keras.layers.Dropout)] == [0.25]
