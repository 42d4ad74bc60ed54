"""Measurement files: one a point, written whole or not at all, read into one tidy table."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from traintime.errors import InputError
from traintime.measure import Protocol
from traintime.point import RnnPoint

SCHEMA = 2  # 2: points with tokens, words, mask, loop, allocator and cudnn; loops in results
SENTINEL = "sentinel"  # folder beside the stacks' folders: repeats of one fixed point, the noise floor's source
LOOPS = ("fit_step_s", "fit_start_s", "fit_after_s", "epoch_s", "epoch_idle_s")
TIMES = ("first_s", "step_s", "median_s", "min_s", "steps", *LOOPS)
MEASURED = ("parameters", *TIMES, "peak_bytes", "versions")
Status = Literal["ok", "oom", "timeout", "crashed", "missing"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Timing(_Strict):
    first_ns: int
    steps_ns: list[int]
    warmup: int
    first_loss: float
    last_loss: float


class Facts(_Strict):
    backend: str
    device: str
    precision: str
    cpus: int | None = None
    threads: dict[str, int | None]
    versions: dict[str, str]
    parameters: int
    lstm_implementation: int | None = None
    allocator: str | None = None
    openmp: bool | None = None
    blas: bool | None = None


class Loop(_Strict):
    sentences: int
    ns: int
    trained_ns: int | None = None


class Result(_Strict):
    facts: Facts
    phases: dict[str, float]
    memory: dict[str, int]
    faults: dict[str, int]
    timing: Timing
    loops: list[Loop] = []


class Invocation(_Strict):
    started: str
    round: int
    sweep: str
    seed: int
    threads: int
    protocol: Protocol
    status: Status
    padding: int | None = None
    result: Result | None = None
    error: str | None = None
    machine_evidence: dict[str, float] = {}


class Record(_Strict):
    """All invocations of one point on one stack of one machine."""

    schema_version: int = SCHEMA
    machine: str
    stack: str
    key: str
    point: RnnPoint
    invocations: list[Invocation] = []


def file_of(root: Path, machine: str, stack: str, key: str, sentinel: bool = False) -> Path:
    """Where the invocations of a point on a stack of a machine are kept; the sentinel's apart from all others."""
    folder = root / machine / SENTINEL if sentinel else root / machine
    return folder / stack / f"{key}.json"


def name_of(path: Path) -> str:
    """The file's place below the measurements' folder, for messages."""
    sentinel = path.parent.parent.name == SENTINEL
    return "/".join(path.parts[-4:] if sentinel else path.parts[-3:])


def read(path: Path) -> Record:
    """One measurement file; raises InputError that names the file and the key."""
    name = name_of(path)
    try:
        raw = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        remedy = "Take it from version control, or delete it and measure the point again."
        raise InputError("measurement file", name, f"is not whole JSON ({error})", remedy) from None
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if isinstance(version, int) and version > SCHEMA:
        problem = f"has schema version {version}, newer than {SCHEMA}"
        raise InputError("measurement file", name, problem, "Update traintime: git pull, then make setup.")
    try:
        return Record.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"has a wrong key {where} ({first['msg'].lower()})"
        raise InputError("measurement file", name, problem, "Correct the key, or measure the point again.") from None


def write_atomically(path: Path, text: str) -> None:
    """Replace the file as a whole: whoever kills us finds the old file or the new one."""
    handle, temporary = _open_beside(path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def check_writable(folder: Path) -> None:
    """Raise InputError when no file can be written into the folder, before anything is measured for it."""
    handle, temporary = _open_beside(folder)
    os.close(handle)
    os.unlink(temporary)


def _open_beside(folder: Path) -> tuple[int, str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise InputError("folder", str(folder), problem, "Make it writable, or name another with --to.") from None


def append(path: Path, machine: str, stack: str, point: RnnPoint, invocation: dict[str, Any]) -> None:
    """Add one invocation to the point's file."""
    record = read(path) if path.exists() else Record(machine=machine, stack=stack, key=point.key, point=point)
    if (record.machine, record.stack, record.point) != (machine, stack, point):
        raise ValueError(f"{path.name} holds {record.stack} {record.key} of {record.machine}, not {stack} {point.key}")
    record.schema_version = SCHEMA
    record.invocations.append(Invocation.model_validate(invocation))
    write_atomically(path, dumps(record.model_dump(mode="json", exclude_none=True)))


def dumps(value: Any) -> str:
    """JSON that a person can read and git can compare: one key a line, a list of numbers on one line."""
    text = json.dumps(value, indent=1)
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        stripped = line.strip()
        if inside:
            lines[-1] += stripped if lines[-1].endswith("[") or stripped.startswith("]") else " " + stripped
            inside = not stripped.startswith("]")
        else:
            lines.append(line)
            inside = stripped.endswith("[") and '"invocations"' not in stripped
    return "\n".join(lines) + "\n"


def clear_parts(root: Path) -> None:
    """Remove what a kill in the middle of a write left behind."""
    for pattern in ("*/.*.part", "*/*/.*.part", "*/*/*/.*.part"):
        for part in root.glob(pattern):
            part.unlink(missing_ok=True)


def files(root: Path, machine: str | None = None) -> Iterator[Path]:
    """Every measurement file below root, the sentinel's among them."""
    for pattern in ("*/*.json", f"{SENTINEL}/*/*.json"):
        yield from sorted(root.glob(f"{machine or '*'}/{pattern}"))


def table(root: Path, machine: str | None = None, sentinel: bool = False) -> pd.DataFrame:
    """One row an invocation: machine, stack, the point's fields, status, mean and median step (s), peak memory.

    sentinel: the sentinel's rows instead of all others. Columns of a failed invocation that it has no value for
    are missing (NaN), never zero.
    """
    rows = []
    for path in files(root, machine):
        if (path.parent.parent.name == SENTINEL) != sentinel:
            continue
        record = read(path)
        rows += [_row(record, invocation) for invocation in record.invocations]
    table = pd.DataFrame(rows, columns=None if rows else ["machine", "stack", "key", "status"])
    # Where nothing ended well the measured columns are there all the same, and empty.
    missing = [name for name in MEASURED if name not in table.columns]
    return table.assign(**dict.fromkeys(missing, float("nan")))


def _row(record: Record, invocation: Invocation) -> dict[str, Any]:
    row: dict[str, Any] = {"machine": record.machine, "stack": record.stack, "key": record.key}
    row |= record.point.model_dump()
    row |= {"sweep": invocation.sweep, "round": invocation.round, "started": invocation.started}
    row |= {"status": invocation.status, "threads": invocation.threads}
    if invocation.result is not None:
        timing, result = invocation.result.timing, invocation.result
        steps = pd.Series(timing.steps_ns[timing.warmup :]) / 1e9
        row |= {
            "parameters": result.facts.parameters,
            "first_s": timing.first_ns / 1e9,
            "step_s": steps.mean(),
            "median_s": steps.median(),
            "min_s": steps.min(),
            "steps": len(steps),
            "peak_bytes": result.memory["peak"],
            "imported_bytes": result.memory["imported"],
            "faults_a_step": result.faults.get("minor_in_steps", np.nan) / len(timing.steps_ns),
            "steal_s": invocation.machine_evidence.get("steal_s"),
            "versions": " ".join(f"{k} {v}" for k, v in sorted(result.facts.versions.items())),
        }
        row |= _loops(record.point, result.loops)
    return row


def _loops(point: RnnPoint, loops: list[Loop]) -> dict[str, float]:
    """Seconds of one more step of the framework's own loop and of starting it; with an epoch amid the loops its own.

    A worker runs as many loops after the epoch as before it; `fit_after_s` is one more step of those. Lines go through
    the times until the last step was done; `epoch_s` is until fit returned, `epoch_idle_s` of it after the last step
    (NaN where nobody told that apart).
    """

    def line(short: list[Loop]) -> tuple[float, float]:
        steps, seconds = ([n.sentences / point.batch for n in short], [(n.trained_ns or n.ns) / 1e9 for n in short])
        slope, start = np.polyfit(steps, seconds, 1)
        return float(slope), float(start)

    if point.loop == "steps":
        return {}
    if point.loop == "fit":
        return dict(zip(("fit_step_s", "fit_start_s"), line(loops), strict=True))
    middle = len(loops) // 2
    fit_step_s, fit_start_s = line(loops[:middle])
    fit_after_s, _ = line(loops[middle + 1 :])
    epoch = loops[middle]
    idle_s = np.nan if epoch.trained_ns is None else (epoch.ns - epoch.trained_ns) / 1e9
    times = {"epoch_s": epoch.ns / 1e9, "epoch_idle_s": idle_s}
    return {"fit_step_s": fit_step_s, "fit_start_s": fit_start_s, "fit_after_s": fit_after_s} | times
