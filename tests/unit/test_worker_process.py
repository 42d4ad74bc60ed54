"""What the worker knows about its own process."""

import io
import subprocess
import sys

import psutil
import pytest

from traintime import paths

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's /proc")
JOB = {"backend": "jax", "device": "cpu", "threads": 2, "point": {"allocator": "glibc"}}
FACTS = {
    "backend": "jax",
    "device": "cpu",
    "precision": "float32",
    "allocator": "glibc",
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
        ({"allocator": "jemalloc"}, "allocator is jemalloc, asked for glibc"),
        ({"allocator": "glibc-keep"}, "allocator is glibc-keep, asked for glibc"),
    ],
)
def test_a_process_that_is_something_else_is_refused(process, wrong, words):
    with pytest.raises(RuntimeError, match=words):
        process.check_facts(JOB, FACTS | wrong)


def test_an_allocator_that_was_asked_for_and_is_not_there_is_refused(process):
    job = JOB | {"point": {"allocator": "jemalloc"}}
    process.check_facts(job, FACTS | {"allocator": "jemalloc"})
    with pytest.raises(RuntimeError, match="allocator is glibc, asked for jemalloc"):
        process.check_facts(job, FACTS)


def test_where_nobody_can_tell_the_allocator_it_is_not_checked(process):
    process.check_facts(JOB, FACTS | {"allocator": None})


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


def test_page_faults_are_counted(process):
    before = process.page_faults()
    touched = b"x" * (32 * 2**20)
    after = process.page_faults()
    assert after["minor"] > before["minor"], len(touched)
    assert after["major"] >= before["major"]
