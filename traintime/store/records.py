"""What a measurement file holds, how it is written, and how it is read."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import filelock
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from traintime.errors import InputError, of_system
from traintime.point import Point

SCHEMA = 3  # 3: sizes and run apart, code path and source hash, evidence over the counted steps
SENTINEL = "sentinel"  # folder beside the stacks' folders: repeats of one fixed point on each stack
BESIDE = ("machine.json", "rates.json", "withdrawn.csv")  # of a machine, beside the stacks' folders
Some = TypeVar("Some")
Status = Literal["ok", "oom", "timeout", "crashed", "missing"]
STOLEN_SINCE = "2026-11-22T07:49:00Z"  # from when on an invocation that lost time to the host is repeated
DISTURBED = 0.2  # processors that others, or the host, kept busy while the counted steps ran


def _a_time(text: str) -> str:
    datetime.fromisoformat(text)  # raises ValueError for the 31st of February
    return text


def _lines(text: str) -> str:
    if not all(each.isprintable() for each in text if each not in "\n\t"):
        raise ValueError("holds characters that cannot be printed")
    return text


# What files hold may come from strangers and ends up on pages. No text but an error may hold a sign that
# HTML, Markdown or mathematics gives a meaning, and every number has a range in which it can be summed and shown.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 .,:+()/@!_-]*$", max_length=100)]
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=200)]
# As people read it on the pages: "batch × 4", "fetching: ahead".
SweepName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+:,×-]*$", max_length=200)]
Time = Annotated[
    str,
    Field(pattern=r"^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"),
    AfterValidator(_a_time),
]
Lines = Annotated[str, Field(max_length=5_000), AfterValidator(_lines)]
Ordinal = Annotated[int, Field(ge=0, le=10**6)]
Natural = Annotated[int, Field(ge=1, le=10**6)]
Total = Annotated[int, Field(ge=0, le=10**15)]
Nanoseconds = Annotated[int, Field(ge=1, le=10**16)]
Bytes = Annotated[int, Field(ge=1, le=10**15)]
Real = Annotated[float, Field(ge=-1e12, le=1e12)]
Positive = Annotated[float, Field(gt=0, le=1e9)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Rate = Annotated[float, Field(gt=0, le=1e18)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class StoredProtocol(_Strict):
    """Numbers of steps as they were asked for. The last three stand in old records, which stopped on elapsed time."""

    warmup: Ordinal
    steps: Natural
    timeout_s: Positive
    seconds: Seconds | None = None
    limit_s: Positive | None = None
    fewest: Natural | None = None

    @property
    def fixed(self) -> bool:
        """Whether the number of steps was decided before the invocation."""
        return self.limit_s is None or (not self.seconds and (self.fewest or 0) >= self.steps)

    @property
    def text(self) -> str:
        """ "3+20": warm-up and counted steps; "2+30, 2 to 10 s" for a run that elapsed time could end."""
        steps = f"{self.warmup}+{self.steps}"
        return steps if self.fixed else f"{steps}, {self.seconds or 0:g} to {self.limit_s:g} s"


class Timing(_Strict):
    first_ns: Nanoseconds
    steps_ns: Annotated[list[Nanoseconds], Field(min_length=1, max_length=10**5)]
    warmup: Ordinal
    first_loss: Real
    last_loss: Real

    @field_validator("warmup")
    @classmethod
    def leaves_steps_that_count(cls, warmup: int, others: ValidationInfo) -> int:
        """Refuse a file none of whose steps counts."""
        if warmup >= len(others.data.get("steps_ns", [])):
            raise ValueError("no step is left that counts")
        return warmup


class CodePath(_Strict):
    """What framework and libraries chose by themselves; None where nobody could tell, or nobody asked yet."""

    allocator: Name | None = None
    blas: Name | None = None
    libc: Name | None = None
    huge_pages: Name | None = None
    processor: Name | None = None
    onednn: bool | None = None
    openmp: bool | None = None
    jit: bool | None = None
    implementation: Ordinal | None = None

    @property
    def text(self) -> str:
        """What decides a comparison, in words: "oneDNN, OpenBLAS Zen"."""
        words = {True: "oneDNN", False: "no oneDNN", None: None}[self.onednn], self.blas
        return ", ".join(word for word in words if word)


class Facts(_Strict):
    backend: Slug
    device: Slug
    precision: Slug
    cpus: Natural | None = None
    threads: dict[Slug, Natural | None]
    versions: dict[Slug, Slug]
    parameters: Total
    path: CodePath = CodePath()


class Loop(_Strict):
    sentences: Nanoseconds
    ns: Nanoseconds
    trained_ns: Nanoseconds | None = None


class SystemCounts(_Strict):
    """What the operating system counted over the counted steps of an invocation, which lasted `seconds`."""

    seconds: Seconds | None = None
    minor_faults: Total | None = None
    major_faults: Total | None = None
    own_cpu_s: Real | None = None
    others_cpu_s: Real | None = None
    steal_s: Real | None = None
    pages_swapped_out: Total | None = None
    waited_s: Seconds | None = None  # of the counted steps' time, until the next batch was there (Keras 3 alone)
    # Of old records: steps that minor_faults belongs to, where it is not the counted ones, and the whole process's.
    faults_steps: Natural | None = None
    all_minor_faults: Total | None = None
    all_major_faults: Total | None = None

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
    phases: dict[Slug, Seconds]
    memory: dict[Slug, Total]
    timing: Timing
    evidence: SystemCounts = SystemCounts()
    loops: list[Loop] = []


class Invocation(_Strict):
    """One process that ran the point. code: hash of the sources that measured, None where it was not recorded;
    again: it repeats one that crashed or was disturbed; rates_off: the machine's own rates had left their range;
    shared: how many other invocations its process had run before it, whose traces (a heap that has grown, what was
    compiled) move its times, page faults and memory.
    """

    started: Time
    round: Natural
    sweep: SweepName
    seed: Total
    threads: Natural
    protocol: StoredProtocol
    status: Status
    code: Slug | None = None
    again: bool = False
    rates_off: bool = False
    shared: Ordinal = 0
    padding: Ordinal | None = None
    result: Result | None = None
    error: Lines | None = None
    machine_evidence: dict[Slug, Real] = {}

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
    machine: Slug
    stack: Slug
    key: Slug
    point: Point
    invocations: list[Invocation] = []

    @field_validator("point")
    @classmethod
    def sizes_have_a_range(cls, point: Point) -> Point:
        """Refuse sizes that no machine of the next years can train."""
        for name, value in point.fields.items():
            if isinstance(value, int | float) and not value <= 10**12:
                raise ValueError(f"{name} is above {10**12:,}")
        return point


class Gpu(_Strict):
    name: Name
    memory_mib: Natural | None = None
    driver: Name | None = None


class MeasuredRates(_Strict):
    """How fast a machine's memory and arithmetic were at a time: bytes and float32 operations a second."""

    measured: Time | None = None
    threads: Natural | None = None
    bandwidth_bytes_per_s: Rate
    bandwidth_repeats: list[Rate] = []
    matmul_flop_per_s: Rate
    matmul_repeats: list[Rate] = []
    numpy: Slug | None = None
    load_average: Seconds | None = None


class Description(_Strict):
    """What a machine is (machine.json): nothing that names a host or a user."""

    schema_version: Annotated[int, Field(ge=SCHEMA, le=SCHEMA)]
    machine: Slug
    cpu: Name
    vendor: Name | None = None
    family: Ordinal | None = None
    model: Ordinal | None = None
    stepping: Ordinal | None = None
    instruction_sets: list[Slug] = []
    caches: dict[Slug, Slug] = {}
    architecture: Name | None = None
    cores: Natural
    memory_bytes: Bytes
    system: Name | None = None
    kernel: Slug
    distribution: Name | None = None
    gpus: list[Gpu] = []
    rates: MeasuredRates


HISTORY = TypeAdapter(list[MeasuredRates])  # rates.json


def file_of(root: Path, machine: str, stack: str, key: str, sentinel: bool = False) -> Path:
    """Where the invocations of a point on a stack of a machine are kept; the sentinels' apart from all others."""
    folder = root / machine / SENTINEL if sentinel else root / machine
    return folder / stack / f"{key}.json"


def is_sentinel(path: Path) -> bool:
    """Whether the file holds a sentinel."""
    return path.parent.parent.name == SENTINEL


def name_of(path: Path) -> str:
    """The file's place below the measurements' folder, for messages."""
    depth = 2 if path.name in BESIDE else 4 if is_sentinel(path) else 3
    return "/".join(path.parts[-depth:])


def read(path: Path) -> Record:
    """One measurement file; raises InputError that names the file and the key."""
    raw = parsed(path)
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    remedy = "Measure the configuration again, or take the file out."
    if version != SCHEMA:
        problem = f"has schema version {version}, not {SCHEMA}"
        if isinstance(version, int) and version > SCHEMA:
            problem = f"has schema version {version}, newer than {SCHEMA}"
            remedy = "Update traintime: git pull, then make setup."
        raise InputError("measurement file", name_of(path), problem, remedy)
    return validated(path, lambda: Record.model_validate(raw), remedy)


DESCRIBE = "On the machine that it describes, run: traintime machine --to FOLDER"


def described(path: Path) -> Description:
    """A machine's description; raises InputError as `read` does."""
    return validated(path, lambda: Description.model_validate(parsed(path)), DESCRIBE)


def rated(path: Path) -> list[MeasuredRates]:
    """A machine's rates at each time that they were measured; raises InputError as `read` does."""
    return validated(path, lambda: HISTORY.validate_python(parsed(path)), "Take the file from where it was measured.")


def validated(path: Path, validate: Callable[[], Some], remedy: str) -> Some:
    """What `validate` gives; where pydantic refuses a key, an InputError that names it and its value."""
    try:
        return validate()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    value = "" if first["type"] == "missing" else f"; it is {repr(first['input'])[:60]}"
    why = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
    if first["type"] == "extra_forbidden":
        why = "nothing else is kept, so that no name of a person or a host gets in"
    raise InputError("measurement file", name_of(path), f"has a wrong key {where} ({why}{value})", remedy)


def parsed(path: Path) -> Any:
    """What a JSON file holds; raises InputError for one that cannot be read, or is no JSON."""
    try:
        return json.loads(path.read_bytes())
    except OSError:
        problem, remedy = "cannot be read", "Put the file itself there, as it was measured."
    except (ValueError, RecursionError) as error:
        problem = f"is not whole JSON ({error})"
        remedy = "Take it as it was measured, from version control or its sender, or measure the configuration again."
    raise InputError("measurement file", name_of(path), problem, remedy)


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
        raise of_system(error, "folder", path.parent) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def clear(folder: Path) -> None:
    """Take away what writers that were killed have left below the folder."""
    for part in list(folder.rglob(".*.part")):
        with lock(part.with_name(part.name.removeprefix(".").removesuffix(".part"))):
            part.unlink(missing_ok=True)


def check_writable(folder: Path) -> None:
    """Raise InputError when no file can be written into the folder, before anything is measured for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # It has no name on Linux: whoever kills us leaves nothing.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        raise of_system(error, "folder", folder) from None


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
        yield from (path for path in sorted(folder.glob("*/*.json")) if path.parent.name != SENTINEL)
        yield from sorted(folder.glob(f"{SENTINEL}/*/*.json"))
