"""What a measurement file holds, how it is written, and how it is read: an older one as today's, with nothing lost."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import filelock
from pydantic import BaseModel, ConfigDict, ValidationError

from traintime.errors import InputError
from traintime.point import Point

SCHEMA = 3  # 3: sizes and run apart, code path and source hash, evidence over the counted steps
# Fields of schema 1 and 2 that said how a point is run.
OF_RUN = ("loop", "sentences", "allocator", "device", "cudnn")
KERNELS = {None: "auto", True: "cudnn", False: "loop-of-cells"}
SENTINEL = "sentinel"  # folder beside the stacks' folders: repeats of one fixed point on each stack
Status = Literal["ok", "oom", "timeout", "crashed", "missing"]
STOLEN_SINCE = "2026-11-22T07:49:00Z"  # from when on an invocation that lost time to the host is repeated
DISTURBED = 0.2  # processors that others, or the host, kept busy while the counted steps ran


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StoredProtocol(_Strict):
    """Numbers of steps as they were asked for. The last three stand in old records, which stopped on elapsed time."""

    warmup: int
    steps: int
    timeout_s: float
    seconds: float | None = None
    limit_s: float | None = None
    fewest: int | None = None

    @property
    def fixed(self) -> bool:
        """Whether the number of steps was decided before the invocation."""
        return self.limit_s is None or (not self.seconds and (self.fewest or 0) >= self.steps)

    @property
    def text(self) -> str:
        """ "3+20": warm-up and counted steps; "2+30, 2 to 10 s" for a run that elapsed time could end."""
        steps = f"{self.warmup}+{self.steps}"
        return steps if self.fixed else f"{steps}, {self.seconds:g} to {self.limit_s:g} s"


class Timing(_Strict):
    first_ns: int
    steps_ns: list[int]
    warmup: int
    first_loss: float
    last_loss: float


class CodePath(_Strict):
    """What framework and libraries chose by themselves; None where nobody could tell, or nobody asked yet."""

    allocator: str | None = None
    blas: str | None = None
    libc: str | None = None
    huge_pages: str | None = None
    processor: str | None = None
    onednn: bool | None = None
    openmp: bool | None = None
    jit: bool | None = None
    implementation: int | None = None

    @property
    def text(self) -> str:
        """What decides a comparison, in words: "oneDNN, OpenBLAS Zen"."""
        words = {True: "oneDNN", False: "no oneDNN", None: None}[self.onednn], self.blas
        return ", ".join(word for word in words if word)


class Facts(_Strict):
    backend: str
    device: str
    precision: str
    cpus: int | None = None
    threads: dict[str, int | None]
    versions: dict[str, str]
    parameters: int
    path: CodePath = CodePath()


class Loop(_Strict):
    sentences: int
    ns: int
    trained_ns: int | None = None


class SystemCounts(_Strict):
    """What the operating system counted over the counted steps of an invocation, which lasted `seconds`."""

    seconds: float | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    own_cpu_s: float | None = None
    others_cpu_s: float | None = None
    steal_s: float | None = None
    pages_swapped_out: int | None = None
    waited_s: float | None = None  # of the counted steps' time, until the next batch was there (Keras 3 alone)
    # Of old records: steps that minor_faults belongs to, where it is not the counted ones, and the whole process's.
    faults_steps: int | None = None
    all_minor_faults: int | None = None
    all_major_faults: int | None = None

    @property
    def others_cores(self) -> float | None:
        """Processors that others kept busy, on average: processes here, and the host for other machines of its own.

        None where it was not counted.
        """
        if self.others_cpu_s is None or not self.seconds:
            return None
        taken = self.others_cpu_s + (self.steal_s or 0.0)
        # The kernel counts in hundredths of a second: less than five of them are no evidence.
        return taken / self.seconds if taken > 0.05 else 0.0

    @property
    def disturbed(self) -> bool:
        """Whether somebody else kept the machine busy, as far as it was counted."""
        return (self.others_cores or 0.0) > DISTURBED or bool(self.pages_swapped_out)


class Result(_Strict):
    facts: Facts
    phases: dict[str, float]
    memory: dict[str, int]
    timing: Timing
    evidence: SystemCounts = SystemCounts()
    loops: list[Loop] = []


class Invocation(_Strict):
    """One process that ran the point. code: hash of the sources that measured, None where it was not recorded;
    again: it repeats one that crashed or was disturbed; rates_off: the machine's own rates had left their range;
    shared: how many other invocations its process had run before it, whose traces (a heap that has grown, what was
    compiled) move its times, page faults and memory.
    """

    started: str
    round: int
    sweep: str
    seed: int
    threads: int
    protocol: StoredProtocol
    status: Status
    code: str | None = None
    again: bool = False
    rates_off: bool = False
    shared: int = 0
    padding: int | None = None
    result: Result | None = None
    error: str | None = None
    machine_evidence: dict[str, float] = {}

    @property
    def disturbed(self) -> bool:
        """Whether somebody else kept the machine busy while the counted steps ran, as far as it was counted."""
        return self.result is not None and self.result.evidence.disturbed

    @property
    def stolen_before_it_counted(self) -> bool:
        """Whether the host alone disturbed it, before what a host takes away had to be repeated."""
        if self.result is None or not self.disturbed or self.started >= STOLEN_SINCE:
            return False
        return not self.result.evidence.model_copy(update={"steal_s": None}).disturbed

    @property
    def settled(self) -> bool:
        """Whether it counts as done: it ran undisturbed, or showed that the point does not fit."""
        return self.status in ("oom", "timeout") or (self.status == "ok" and not self.disturbed)


class Record(_Strict):
    """All invocations of one point on one stack of one machine."""

    schema_version: int = SCHEMA
    machine: str
    stack: str
    key: str
    point: Point
    invocations: list[Invocation] = []


def file_of(root: Path, machine: str, stack: str, key: str, sentinel: bool = False) -> Path:
    """Where the invocations of a point on a stack of a machine are kept; the sentinels' apart from all others."""
    folder = root / machine / SENTINEL if sentinel else root / machine
    return folder / stack / f"{key}.json"


def is_sentinel(path: Path) -> bool:
    """Whether the file holds a sentinel."""
    return path.parent.parent.name == SENTINEL


def name_of(path: Path) -> str:
    """The file's place below the measurements' folder, for messages."""
    return "/".join(path.parts[-4:] if is_sentinel(path) else path.parts[-3:])


def read(path: Path) -> Record:
    """One measurement file, of whatever schema; raises InputError that names the file and the key."""
    name = name_of(path)
    try:
        raw = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        remedy = "Take it from version control, or delete it and measure the configuration again."
        raise InputError("measurement file", name, f"is not whole JSON ({error})", remedy) from None
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if isinstance(version, int) and version > SCHEMA:
        problem = f"has schema version {version}, newer than {SCHEMA}"
        raise InputError("measurement file", name, problem, "Update traintime: git pull, then make setup.")
    remedy = "Correct the key, or measure the configuration again."
    try:
        return Record.model_validate(upgraded(raw))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"has a wrong key {where} ({first['msg'].lower()})"
    except InputError as error:
        problem = f"has a wrong key point ({error})"
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"lacks a key ({error})"
    raise InputError("measurement file", name, problem, remedy)


def write_atomically(path: Path, text: str) -> None:
    """Replace the file as a whole: whoever kills us finds the old file or the new one.

    The text is first written to the same folder, under a name that follows from the file's, so that the next writer
    takes over what a kill left behind. Two writers at once need a lock of their own (see append).
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise InputError("folder", str(path.parent), problem, "Make it writable, or name another with --to.") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def check_writable(folder: Path) -> None:
    """Raise InputError when no file can be written into the folder, before anything is measured for it."""
    with lock(folder / "writable"):
        write_atomically(folder / "writable", "")
        (folder / "writable").unlink(missing_ok=True)


def lock(path: Path) -> filelock.FileLock:
    """The lock of a file, kept outside the measurements: whoever changes the file holds it.

    256 locks serve all files, some of them several, so that the temporary folder does not fill up.
    """
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:2]
    return filelock.FileLock(Path(tempfile.gettempdir()) / f"traintime-{digest}.lock", mode=0o666)


def append(path: Path, machine: str, stack: str, point: Point, invocation: dict[str, Any]) -> Invocation:
    """Add one invocation to the point's file, which keeps all that others added meanwhile; return it."""
    with lock(path):
        record = read(path) if path.exists() else Record(machine=machine, stack=stack, key=point.key, point=point)
        if (record.machine, record.stack, record.point) != (machine, stack, point):
            wanted = f"{stack} {point.key} of {machine}"
            raise ValueError(f"{path.name} holds {record.stack} {record.key} of {record.machine}, not {wanted}")
        added = Invocation.model_validate(invocation)
        record.invocations.append(added)
        write_atomically(path, dumps(record.model_dump(mode="json", exclude_none=True)))
    return added


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


def files(root: Path, machine: str | None = None) -> Iterator[Path]:
    """Every measurement file below root, the sentinels' among them."""
    for folder in sorted(root.glob(machine or "*")):
        for path in [*sorted(folder.glob("*/*.json")), *sorted(folder.glob(f"{SENTINEL}/*/*.json"))]:
            if path.parent.name != SENTINEL:
                yield path


# Older schemas


def upgraded(raw: dict[str, Any]) -> dict[str, Any]:
    """The record in today's schema; one that has it already is returned as it is."""
    if raw["schema_version"] == SCHEMA:
        return raw
    raw = dict(raw, schema_version=SCHEMA)
    raw["point"] = _upgraded_point(raw["point"])
    raw["invocations"] = [_upgraded_invocation(invocation) for invocation in raw.get("invocations", [])]
    return raw


def _upgraded_point(old: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 and 2 had sizes and run in one flat dict, and sentences also where there was no epoch."""
    old = dict(old)
    run = {name: old.pop(name) for name in OF_RUN if name in old}
    run["kernel"] = KERNELS[run.pop("cudnn", None)]
    if run.get("loop") != "epoch":
        run.pop("sentences", None)
    return {"workload": old.pop("workload"), "sizes": old, "run": run}


def _upgraded_invocation(old: dict[str, Any]) -> dict[str, Any]:
    """Page faults of a step were counted over all steps but the first, warm-up and all; who disturbed, not at all."""
    if not old.get("result"):
        return old
    result = dict(old["result"])
    facts = dict(result["facts"])
    path = {name: facts.pop(name, None) for name in ("allocator", "openmp")}
    path["implementation"] = facts.pop("lstm_implementation", None)
    facts.pop("blas", None)  # a Theano without BLAS never became a result
    faults = result.pop("faults")
    evidence = {}
    if "minor_in_steps" in faults:
        evidence = {"minor_faults": faults["minor_in_steps"], "faults_steps": len(result["timing"]["steps_ns"])}
    evidence |= {"all_minor_faults": faults["minor"], "all_major_faults": faults["major"]}
    result |= {"facts": facts | {"path": path}, "evidence": evidence}
    return dict(old, result=result)
