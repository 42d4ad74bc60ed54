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


def ask_openblas(functions, result):
    """What each OpenBLAS in this process answers to the first of these functions that it has (ctypes result type)."""
    try:
        with open("/proc/self/maps", errors="surrogateescape") as maps:  # a folder's name may be in any letters
            lines = [line.rstrip("\n") for line in maps if "openblas" in line]
    except OSError:
        return []
    answers = []
    for path in sorted({line.split(None, 5)[5] for line in lines}):  # and have blanks
        library = ctypes.CDLL(path)
        for name in (prefix + function + suffix for function in functions
                     for prefix in ("", "scipy_") for suffix in ("", "64_")):
            if hasattr(library, name):
                getattr(library, name).restype = result
                answers.append(getattr(library, name)())
                break
    return answers


def openblas_threads():
    """Threads of the OpenBLAS that NumPy's wheel brought into this process, or None where there is none."""
    return max(ask_openblas(["openblas_get_num_threads"], ctypes.c_int), default=None)


def openblas_core():
    """The processor that OpenBLAS has chosen its kernels for ("Zen", "SkylakeX"), or None where there is none."""
    names = ask_openblas(["openblas_get_corename"], ctypes.c_char_p)
    return "OpenBLAS " + names[0].decode() if names else None


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
        with open("/proc/self/maps", errors="surrogateescape") as maps:
            loaded = maps.read()
    except OSError:
        return None
    for name in ("jemalloc", "tcmalloc"):
        if "lib" + name in loaded:
            return name
    return "glibc-keep" if os.environ.get("MALLOC_MMAP_MAX_") == "0" else "glibc"


def cpu_s(number):
    """Processor time that another process has used so far, s."""
    with open("/proc/{}/stat".format(number)) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def counters(beside=()):
    """What the system has counted so far: this process's page faults and processor time, and everybody's.

    minor_faults (a page to map or to clear), major_faults (a page to read from disk), own_cpu_s; others_cpu_s is the
    machine's user, nice, system and interrupt time less this process's; steal_s was taken by the host;
    pages_swapped_out counts the whole machine's. Where there is no /proc only the first three are there.
    beside: numbers of further processes whose processor time counts as this one's.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    own = usage.ru_utime + usage.ru_stime + sum(cpu_s(number) for number in beside)
    seen = {"minor_faults": usage.ru_minflt, "major_faults": usage.ru_majflt, "own_cpu_s": own}
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq, steal = [int(ticks) for ticks in file.readline().split()[1:9]]
        with open("/proc/vmstat") as file:
            swapped = [int(line.split()[1]) for line in file if line.startswith("pswpout ")]
    except (OSError, ValueError):
        return seen
    ticks_a_second = os.sysconf("SC_CLK_TCK")
    seen["others_cpu_s"] = (user + nice + system + irq + softirq) / ticks_a_second - own
    seen["steal_s"] = steal / ticks_a_second
    seen["pages_swapped_out"] = swapped[0] if swapped else 0
    return seen


def libc():
    """Name and version of the C library, or None where it does not tell."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return None


def code_path():
    """Which ways the libraries below the framework take on this machine, as far as they can be read off.

    allocator: who answers malloc; huge_pages: the kernel's setting for transparent ones; libc: name and version;
    blas: the core that OpenBLAS has chosen; processor: vendor, family, model and stepping.
    """
    path = {"allocator": allocator(), "blas": openblas_core(), "libc": libc()}
    path["huge_pages"] = path["processor"] = None
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
            path["huge_pages"] = file.read().split("[")[1].split("]")[0]
    except (OSError, IndexError):
        pass
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read().split("\n\n")[0]
        values = dict((part.strip() for part in line.split(":", 1)) for line in first.splitlines() if ":" in line)
        path["processor"] = "{vendor_id} family {cpu family} model {model} stepping {stepping}".format(**values)
    except (OSError, KeyError):
        pass
    return path


def means_out_of_memory(error):
    """Whether a framework's exception says that memory ran out."""
    text = (type(error).__name__ + " " + str(error)).lower()
    signs = ("out of memory", "resourceexhausted", "resource_exhausted", "bad_alloc", "can't allocate memory",
             "cannot allocate memory", "unable to allocate", "failed to allocate",
             "alloc_failed", "oom when allocating", "memoryerror")
    return any(sign in text for sign in signs)


def check_facts(job, facts):
    """Refuse a process that is not what was asked for: a wrong set-up must never become a number."""
    run, path = job["run"], facts["path"]
    expected = {"backend": job["backend"], "device": run["device"], "precision": run["precision"]}
    for name, value in expected.items():
        if facts[name] != value:
            raise RuntimeError("{} is {!r}, asked for {!r}".format(name, facts[name], value))
    # "glibc-keep-arenas" is glibc-keep with an arena a thread: the same switch answers.
    allocator = "glibc-keep" if run["allocator"].startswith("glibc-keep") else run["allocator"]
    if path["allocator"] not in (None, allocator):
        raise RuntimeError("allocator is {}, asked for {}".format(path["allocator"], run["allocator"]))
    if run["onednn"] != "auto" and path.get("onednn") not in (None, run["onednn"] == "on"):
        raise RuntimeError("oneDNN is {}, asked for {}".format(path["onednn"], run["onednn"]))
    for name, value in facts["threads"].items():
        if value is not None and value != job["threads"]:
            raise RuntimeError("{} uses {} threads, asked for {}".format(name, value, job["threads"]))
    if facts["cpus"] is not None and facts["cpus"] != job["threads"]:
        raise RuntimeError("{} processors available, asked for {}".format(facts["cpus"], job["threads"]))
