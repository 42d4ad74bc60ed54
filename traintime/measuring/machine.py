"""What this machine is, and how fast its memory and its arithmetic are: no host or user names."""

import contextlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from traintime import paths
from traintime.errors import InputError
from traintime.measuring.measure import default_threads
from traintime.store import records

MEND = "Take it from version control, or delete it: the next sweep writes it again."
ALIKE = ("stepping", "instruction_sets")  # what two machines of one key must agree in
# Instruction sets by which libraries choose their code path, as /proc/cpuinfo names them.
DECISIVE = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8")


def processor() -> dict[str, Any]:
    """What tells one processor model from another: name, vendor, family, model, stepping, decisive instruction sets.

    Several hosts may call themselves by one name and differ in all the rest. Numbers that the system does not tell
    are None.
    """
    fields: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
            name, _, value = line.partition(":")
            fields[name.strip()] = value.strip()
    texts = {"family": fields.get("cpu family"), "model": fields.get("model"), "stepping": fields.get("stepping")}
    flags = fields.get("flags", "").split()
    return {
        "cpu": fields.get("model name") or platform.processor() or platform.machine(),
        "vendor": fields.get("vendor_id"),
        **{name: int(text) if text and text.isdigit() else None for name, text in texts.items()},
        "instruction_sets": [flag for flag in DECISIVE if flag in flags],
        "caches": caches(),
    }


def caches() -> dict[str, str]:
    """Size of each cache as the first processor sees it: "L1d", "L2", "L3" -> "48K"."""
    sizes = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        with contextlib.suppress(OSError):
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
            sizes[f"L{level}" + {"Data": "d", "Instruction": "i"}.get(kind, "")] = size
    return sizes


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
        **processor(),
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
    """A readable name made of what matters: `amd-epyc-family26-model2-2-cores-24-gib`, plus the GPU if there is one."""
    memory = round(machine["memory_bytes"] / 2**30)
    cpu = re.sub(r"\(.*?\)|\bCPU\b|\bProcessor\b|@.*", "", machine["cpu"])
    which = [f"{name}{machine[name]}" for name in ("family", "model") if machine.get(name) is not None]
    parts = [cpu, *which, f"{machine['cores']} cores", f"{memory} GiB", *(gpu["name"] for gpu in machine["gpus"][:1])]
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")


def this(root: Path = paths.MEASUREMENTS) -> str:
    """The key of this machine, among those that the book and the folder root of measurements describe.

    Two processors may agree in all that a key is made of, and differ: where the machine that has the key is of another
    stepping, or has other instruction sets, this one's tells its own stepping, too.
    """
    here = describe()
    name = key(here)
    others = (described(folder / name) for folder in {paths.MEASUREMENTS, root})
    if all(other.get(each) in (None, here.get(each)) for other in others for each in ALIKE):
        return name
    return further_key(here)


def described(folder: Path) -> dict[str, Any]:
    """What machine.json in a machine's folder says; {} where there is none.

    Raises InputError for a file that holds no description.
    """
    path = folder / "machine.json"
    description = records.parsed(path) if path.exists() else {}
    if not isinstance(description, dict):
        raise InputError("measurement file", records.name_of(path), "is no JSON object", MEND)
    return description


def rated(folder: Path) -> list[dict[str, Any]]:
    """The rates of a folder's machine at each time that they were measured: rates.json, or else those of machine.json.

    Raises InputError for a file that holds none.
    """
    path, beside = folder / "rates.json", folder / "machine.json"
    before = records.rated(path) if path.exists() else []
    if not before and (first := described(folder).get("rates")):
        before = [records.validated(beside, lambda: records.MeasuredRates.model_validate(first), MEND)]
    return [each.model_dump(exclude_unset=True) for each in before]


def pooled_rates(times: list[dict[str, Any]]) -> dict[str, Any]:
    """Bytes and float32 operations a second: medians over all times that they were measured, and every repeat.

    One time is not enough: on a shared host the memory's rate has nearly doubled from one hour to the next.
    """
    medians = {name: float(np.median([each[name] for each in times])) for name in RATES if name in times[0]}
    return medians | {name: [one for each in times for one in each.get(name, [])] for name in REPEATS}


def further_key(machine: dict[str, Any]) -> str:
    """The key of a machine whose usual key another one has."""
    return f"{key(machine)}-stepping{machine.get('stepping')}"


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
    """Rate of a float32 matmul in FLOP/s (2 n^3 operations), one value a repeat."""
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
        "measured": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "threads": threads,
        "bandwidth_bytes_per_s": statistics.median(memory),
        "bandwidth_repeats": memory,
        "matmul_flop_per_s": statistics.median(matrix),
        "matmul_repeats": matrix,
        "numpy": np.__version__,
        "load_average": os.getloadavg()[0],
    }


RATES = ("bandwidth_bytes_per_s", "matmul_flop_per_s")
REPEATS = ("bandwidth_repeats", "matmul_repeats")
OFF = 0.15  # how far a rate may leave the range that the machine has shown


def off(now: dict[str, Any], before: list[dict[str, Any]]) -> list[str]:
    """The rates that lie more than 15 % outside of the machine's own range, each with a sentence; [] at first.

    The range is that of the earlier rates within 15 % of their median: one that was off must not widen it.
    """
    sentences = []
    for name in RATES if before else ():
        middle = statistics.median(each[name] for each in before)
        usual = [each[name] for each in before if abs(each[name] / middle - 1) <= OFF] or [middle]
        low, high = min(usual), max(usual)
        if not low * (1 - OFF) <= now[name] <= high * (1 + OFF):
            sentences.append(f"{name} is {now[name]:.3g}, and {low:.3g} to {high:.3g} before")
    return sentences


def refuse_missing(device: str) -> None:
    """Raise InputError for a device that is not here."""
    if device == "gpu" and not gpus():
        raise InputError("device", device, "is not here: nvidia-smi lists no card", "Take the device cpu.")


def free_memory(device: str = "cpu") -> float:
    """Bytes that a worker could have now: what the system has free, or a GPU's whole memory."""
    cards = gpus() if device == "gpu" else []
    return (cards[0]["memory_mib"] or 0) * 2**20 if cards else psutil.virtual_memory().available


if __name__ == "__main__":  # a worker that answers with the rates, on its channel
    job = json.loads(sys.stdin.read())
    os.write(job["channel"], json.dumps({"event": "result", "status": "ok", "result": rates()}).encode() + b"\n")
