"""This process, as the operating system sees it: threads, memory, and who dies first."""

import ctypes
import os
import resource
import signal
import sys


def die_with_parent():
    """Ask the kernel to end this process when the measuring process dies, however it dies (Linux)."""
    if sys.platform == "linux":
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def first_to_go():
    """When memory runs out, the kernel should end this process and nothing else (no privilege needed)."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # not Linux


def use_threads(threads):
    """Keep the process on its first `threads` processors; return how many it may use now.

    Affinity is the one setting that every framework obeys: XLA on the CPU sizes its pool from it.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
    return len(os.sched_getaffinity(0))


def openblas_threads():
    """Threads of the OpenBLAS that NumPy's wheel brought into this process, or None where there is none."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "openblas" in line}
    except OSError:
        return None
    names = ("openblas_get_num_threads", "openblas_get_num_threads64_", "scipy_openblas_get_num_threads",
             "scipy_openblas_get_num_threads64_")
    counts = []
    for path in paths:
        library = ctypes.CDLL(path)
        counts += [getattr(library, name)() for name in names if hasattr(library, name)]
    return max(counts) if counts else None


def peak_memory():
    """Peak resident memory of this process so far, bytes.

    VmHWM and not ru_maxrss: Linux hands a child its parent's ru_maxrss at exec.
    """
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def allocator():
    """Who answers malloc in this process: a library that was loaded first, or glibc; None where nobody can tell.

    "no-pool" where a GPU's pool is switched off.
    """
    switches = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
    if any(os.environ.get(name) == value for name, value in switches.items()):
        return "no-pool"
    try:
        with open("/proc/self/maps") as maps:
            loaded = maps.read()
    except OSError:
        return None
    for name in ("jemalloc", "tcmalloc"):
        if "lib" + name in loaded:
            return name
    return "glibc-keep" if os.environ.get("MALLOC_MMAP_MAX_") == "0" else "glibc"


def page_faults():
    """Page faults of this process so far: minor (a page to map or zero) and major (a page to read from disk)."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"minor": usage.ru_minflt, "major": usage.ru_majflt}


def means_out_of_memory(error):
    """Whether a framework's exception says that memory ran out."""
    text = (type(error).__name__ + " " + str(error)).lower()
    signs = ("out of memory", "resourceexhausted", "resource_exhausted", "bad_alloc", "can't allocate memory",
             "cannot allocate memory", "unable to allocate", "failed to allocate",
             "alloc_failed", "oom when allocating", "memoryerror")
    return any(sign in text for sign in signs)


def check_facts(job, facts):
    """Refuse a process that is not what was asked for: a wrong set-up must never become a number."""
    expected = {"backend": job["backend"], "device": job["device"], "precision": "float32"}
    for name, value in expected.items():
        if facts[name] != value:
            raise RuntimeError("{} is {!r}, asked for {!r}".format(name, facts[name], value))
    if facts["allocator"] not in (None, job["point"]["allocator"]):
        raise RuntimeError("allocator is {}, asked for {}".format(facts["allocator"], job["point"]["allocator"]))
    for name, value in facts["threads"].items():
        if value is not None and value != job["threads"]:
            raise RuntimeError("{} uses {} threads, asked for {}".format(name, value, job["threads"]))
    if facts["cpus"] is not None and facts["cpus"] != job["threads"]:
        raise RuntimeError("{} processors available, asked for {}".format(facts["cpus"], job["threads"]))
