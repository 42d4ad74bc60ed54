"""What this machine is, and how fast its memory and its arithmetic are: no host or user names."""

import os
import platform
import re
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from traintime.measure import default_threads


def cpu_model() -> str:
    """The processor's own name."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def gpus() -> list[dict[str, Any]]:
    """Name, memory (MiB) and driver of each NVIDIA GPU; empty without one."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in lines]
    return [
        {"name": name, "memory_mib": int(memory) if memory.isdigit() else None, "driver": driver}
        for name, memory, driver in rows
    ]


def describe() -> dict[str, Any]:
    """The machine without measuring anything. Memory in bytes."""
    return {
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "cores": default_threads(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.system(),
        "kernel": platform.release().split("-")[0],
        "distribution": _distribution(),
        "gpus": gpus(),
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.platform(terse=True)


def key(machine: dict[str, Any]) -> str:
    """A readable name made of what matters: `amd-epyc-2-cores-24-gib`, plus the GPU where there is one."""
    memory = round(machine["memory_bytes"] / 2**30)
    cpu = re.sub(r"\(.*?\)|\bCPU\b|\bProcessor\b|@.*", "", machine["cpu"])
    parts = [cpu, f"{machine['cores']} cores", f"{memory} GiB", *(gpu["name"] for gpu in machine["gpus"][:1])]
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")


def this() -> str:
    """The key of this machine."""
    return key(describe())


def bandwidth(threads: int, mib: int = 512, repeats: int = 7) -> list[float]:
    """Memory bandwidth in bytes a second of `x *= s` over an array too large for the cache, one value a repeat.

    Each element is read and written once, which is what a dense optimizer update does; several threads, each on
    its own part. Counted as 8 bytes an element of float32.
    """
    array = np.ones(mib * 2**20 // 4, dtype=np.float32)
    factor = np.float32(0.999)
    parts = np.array_split(array, threads)
    rates = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(repeats + 1):
            start = time.perf_counter()
            list(pool.map(lambda part: np.multiply(part, factor, out=part), parts))
            rates.append(2 * array.nbytes / (time.perf_counter() - start))
    return rates[1:]


def matmul_rate(threads: int, size: int = 2048, repeats: int = 7) -> list[float]:
    """Rate of a float32 matrix product in FLOP/s (2 n^3 operations), one value a repeat."""
    a, b = np.random.default_rng(0).random((2, size, size), dtype=np.float32)
    out = np.empty_like(a)
    rates = []
    with threadpool_limits(threads):
        for _ in range(repeats + 1):
            start = time.perf_counter()
            np.matmul(a, b, out=out)
            rates.append(2 * size**3 / (time.perf_counter() - start))
    return rates[1:]


def rates() -> dict[str, Any]:
    """Measured rates of this machine: medians, with every repeat kept."""
    threads = default_threads()
    memory, matrix = bandwidth(threads), matmul_rate(threads)
    return {
        "threads": threads,
        "bandwidth_bytes_per_s": statistics.median(memory),
        "bandwidth_repeats": memory,
        "matmul_flop_per_s": statistics.median(matrix),
        "matmul_repeats": matrix,
        "numpy": np.__version__,
        "load_average": os.getloadavg()[0],
    }
