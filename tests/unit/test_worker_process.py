"""What the worker knows about its own process."""

import io
import re
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from traintime import paths
from traintime.store.records import CodePath, SystemCounts

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's /proc")
RUN = {"device": "cpu", "allocator": "glibc", "onednn": "auto", "precision": "float32"}
JOB = {"backend": "jax", "threads": 2, "run": RUN}
FACTS = {
    "backend": "jax",
    "device": "cpu",
    "precision": "float32",
    "path": {"allocator": "glibc", "onednn": None},
    "threads": {"intra-op": 2, "other": None},
    "cpus": 2,
}


@pytest.fixture
def process(worker_module):
    return worker_module("process")


class ResourceExhaustedError(Exception):
    """Named like TensorFlow's."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 2.24 GiB for an array"),
        ResourceExhaustedError("failed"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2400000000 bytes."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes."),
        RuntimeError("std::bad_alloc"),
        RuntimeError("OOM when allocating tensor with shape[2000000,300]"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_what_frameworks_say_when_memory_runs_out_is_understood(process, error):
    assert process.means_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("the loss is not finite: first nan, last nan"),
        RuntimeError("backend is 'torch', asked for 'jax'"),
        ImportError("No module named 'theano'"),
        KeyError("memory"),
        FileNotFoundError(2, "No such file: bedroom.txt"),
    ],
)
def test_other_errors_are_not_taken_for_memory(process, error):
    assert not process.means_out_of_memory(error)


def test_a_process_that_is_what_was_asked_for_passes(process):
    process.check_facts(JOB, FACTS)


def test_where_processors_cannot_be_chosen_they_are_not_checked(process):
    process.check_facts(JOB, FACTS | {"cpus": None})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"backend": "torch"}, "backend is 'torch', asked for 'jax'"),
        ({"device": "gpu"}, "device is 'gpu', asked for 'cpu'"),
        ({"precision": "float64"}, "precision is 'float64', asked for 'float32'"),
        ({"threads": {"other": None, "OpenBLAS": 64}}, "OpenBLAS uses 64 threads, asked for 2"),
        ({"threads": {"OpenBLAS": 2, "intra-op": 1}}, "intra-op uses 1 threads, asked for 2"),
        ({"threads": {"intra-op": 0}}, "intra-op uses 0 threads, asked for 2"),
        ({"cpus": 1}, "1 processors available, asked for 2"),
        ({"path": {"allocator": "jemalloc"}}, "allocator is jemalloc, asked for glibc"),
        ({"path": {"allocator": "glibc-keep"}}, "allocator is glibc-keep, asked for glibc"),
    ],
)
def test_a_process_that_is_something_else_is_refused(process, wrong, words):
    with pytest.raises(RuntimeError, match=words):
        process.check_facts(JOB, FACTS | wrong)


@pytest.mark.parametrize(
    ("asked", "found", "refused"),
    [
        ("jemalloc", "jemalloc", False),
        ("jemalloc", "glibc", True),
        ("glibc-keep", "glibc-keep", False),
        ("glibc-keep-arenas", "glibc-keep", False),  # the same switch, whatever the number of arenas
        ("glibc-keep-arenas", "glibc", True),
        ("no-pool", "glibc", True),
        ("jemalloc", None, False),  # where nobody can tell it is not checked
    ],
)
def test_the_allocator_that_was_asked_for_has_to_be_there(process, asked, found, refused):
    job, facts = JOB | {"run": RUN | {"allocator": asked}}, FACTS | {"path": {"allocator": found}}
    if not refused:
        process.check_facts(job, facts)
    else:
        with pytest.raises(RuntimeError, match=f"allocator is {found}, asked for {asked}"):
            process.check_facts(job, facts)


@pytest.mark.parametrize(
    ("asked", "found", "refused"),
    [
        ("auto", True, False), ("auto", False, False), ("on", True, False), ("off", False, False), ("on", False, True),
        ("off", True, True), ("on", None, False),
    ],
)  # fmt: skip
def test_onednn_has_to_be_as_it_was_asked_for(process, asked, found, refused):
    job = JOB | {"run": RUN | {"onednn": asked}}
    facts = FACTS | {"path": {"allocator": "glibc", "onednn": found}}
    if not refused:
        process.check_facts(job, facts)
    else:
        with pytest.raises(RuntimeError, match=f"oneDNN is {found}, asked for {asked}"):
            process.check_facts(job, facts)


MAPS = "7f00-7f01 r-xp 00000000 08:01 42 /usr/lib/{}\n7f02-7f03 r--p 00000000 08:01 43 /usr/lib/libc.so.6\n"


@pytest.mark.parametrize(
    ("mapped", "kept", "expected"),
    [
        ("libm.so.6", None, "glibc"),
        ("libm.so.6", "4", "glibc"),
        ("libm.so.6", "0", "glibc-keep"),
        ("libjemalloc.so.2", None, "jemalloc"),
        ("libtcmalloc_minimal.so.4", None, "tcmalloc"),
        ("libtcmalloc.so.4", None, "tcmalloc"),
        ("libjemalloc.so.2", "0", "jemalloc"),
    ],
)
def test_the_allocator_is_read_off_what_is_loaded(process, monkeypatch, mapped, kept, expected):
    opened = []

    def fake_open(path):
        opened.append(path)
        return io.StringIO(MAPS.format(mapped))

    monkeypatch.setattr(process, "open", fake_open, raising=False)
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    if kept is not None:
        monkeypatch.setenv("MALLOC_MMAP_MAX_", kept)
    assert process.allocator() == expected
    assert opened == ["/proc/self/maps"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "no-pool"),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "platform", "no-pool"),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "bfc", "glibc"),
    ],
)
def test_a_gpu_without_its_pool_is_read_off_the_switch(process, monkeypatch, name, value, expected):
    monkeypatch.setattr(process, "open", lambda path: io.StringIO(MAPS.format("libm.so.6")), raising=False)
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    monkeypatch.setenv(name, value)
    assert process.allocator() == expected


def test_without_proc_nobody_can_tell_the_allocator(process, monkeypatch):
    def no_proc(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(process, "open", no_proc, raising=False)
    assert process.allocator() is None


@pytest.mark.parametrize(("threads", "left"), [(1, {1}), (2, {1, 3}), (9, {1, 3, 5, 7})])
def test_a_process_keeps_to_its_first_processors(process, monkeypatch, threads, left):
    allowed = {1, 3, 5, 7}

    def keep(pid, processors):
        allowed.intersection_update(processors)

    monkeypatch.setattr(process.os, "sched_getaffinity", lambda pid: set(allowed), raising=False)
    monkeypatch.setattr(process.os, "sched_setaffinity", keep, raising=False)
    assert process.use_threads(threads) == len(left)
    assert allowed == left


def test_without_affinity_the_number_of_processors_is_unknown(process, monkeypatch):
    monkeypatch.delattr(process.os, "sched_setaffinity", raising=False)
    assert process.use_threads(2) is None


def test_peak_memory_is_in_bytes(process):
    now = psutil.Process().memory_info().rss
    assert 0.9 * now <= process.peak_memory() < psutil.virtual_memory().total


@linux
def test_peak_memory_is_not_the_parents():
    ballast = b"x" * (150 * 2**20)
    code = f"import sys; sys.path.insert(0, {str(paths.WORKER)!r}); import process; print(process.peak_memory())"
    child = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert int(child.stdout) < len(ballast) / 2


# What the system counts


def test_page_faults_and_own_time_are_counted(process):
    before = process.counters()
    touched = b"x" * (32 * 2**20)
    after = process.counters()
    assert after["minor_faults"] > before["minor_faults"], len(touched)
    assert after["major_faults"] >= before["major_faults"]
    assert after["own_cpu_s"] >= before["own_cpu_s"]


STAT = "cpu  100 20 30 5000 60 7 8 900 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"


@pytest.fixture
def counted(process, monkeypatch):
    """Counters of a made-up machine of which this process has used a second: a hundred ticks each."""

    def read(stat, vmstat="pgfault 12\npswpout 34\n"):
        files = {"/proc/stat": stat, "/proc/vmstat": vmstat}

        def fake_open(path):
            if files.get(path) is None:
                raise FileNotFoundError(path)
            return io.StringIO(files[path])

        usage = SimpleNamespace(ru_utime=0.75, ru_stime=0.25, ru_minflt=11, ru_majflt=2)
        monkeypatch.setattr(process, "open", fake_open, raising=False)
        monkeypatch.setattr(process.resource, "getrusage", lambda who: usage)
        monkeypatch.setattr(process.os, "sysconf", lambda name: {"SC_CLK_TCK": 100}[name])
        return process.counters()

    return read


OWN = {"minor_faults": 11, "major_faults": 2, "own_cpu_s": 1.0}


def test_others_are_user_nice_system_and_interrupts_less_ones_own(counted):
    """Neither idle time (5000) nor waiting for a disk (60), and what the host took is told apart."""
    seen = counted(STAT)
    assert seen == OWN | {"others_cpu_s": pytest.approx(1.65 - 1.0), "steal_s": 9.0, "pages_swapped_out": 34}


@pytest.mark.parametrize("stat", [None, "", "cpu 1 2\n", "nonsense\n"])
def test_where_the_system_does_not_tell_ones_own_is_counted(counted, stat):
    assert counted(stat) == OWN


def test_a_machine_without_swap_swaps_nothing(counted):
    assert counted(STAT, "pgfault 12\n")["pages_swapped_out"] == 0


@linux
def test_the_time_of_processes_beside_counts_as_ones_own(process):
    """Replicas train beside the one that is watched: none of them is a disturbance."""
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(1, flush=True)\ninput()"
    busy = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        busy.stdout.readline()
        alone, together = process.counters(), process.counters([busy.pid])
        assert together["own_cpu_s"] - alone["own_cpu_s"] > 0.25
        assert alone["others_cpu_s"] - together["others_cpu_s"] > 0.2
    finally:
        busy.kill()
        busy.communicate()


@linux
def test_the_counters_of_this_machine_are_what_a_record_takes(process):
    seen = process.counters()
    assert set(seen) <= set(SystemCounts.model_fields)
    assert seen["others_cpu_s"] > 0


@linux
def test_a_busy_neighbour_shows(process):
    """A process of ours that is not the worker: half a second of its time is others' time here."""
    before = process.counters()
    code = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
    after = process.counters()
    assert after["others_cpu_s"] - before["others_cpu_s"] > 0.4
    assert after["own_cpu_s"] - before["own_cpu_s"] < 0.2


# Which ways the libraries take


def test_the_code_path_is_what_a_record_takes(process):
    path = process.code_path()
    assert set(path) == {"allocator", "blas", "libc", "huge_pages", "processor"}
    assert CodePath(**path).allocator == path["allocator"]


@linux
def test_the_processor_is_told_by_its_numbers(process):
    told = process.code_path()["processor"]
    assert told is None or re.fullmatch(r"\w+ family \d+ model \d+ stepping \d+", told)


def test_without_proc_nobody_can_tell_the_code_path(process, monkeypatch):
    def no_proc(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(process, "open", no_proc, raising=False)
    path = process.code_path()
    assert [path[name] for name in ("allocator", "blas", "huge_pages", "processor")] == [None] * 4
    assert process.openblas_threads() is None


@linux
def test_the_blas_that_numpy_brought_tells_its_threads_and_its_kernels(process):
    pytest.importorskip("numpy")
    threads, core = process.openblas_threads(), process.openblas_core()
    assert (threads is None) == (core is None)
    if core is not None:
        assert threads >= 1
        assert re.fullmatch(r"OpenBLAS \w+", core)
