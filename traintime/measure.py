"""One invocation: start a worker, watch it, bring back its result or what went wrong."""

import contextlib
import json
import os
import random
import resource
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import filelock
import psutil
from pydantic import BaseModel, ConfigDict, Field

from traintime import paths
from traintime.point import Point
from traintime.stacks import Stack

LOCK = Path(tempfile.gettempdir()) / "traintime-measure.lock"


class Protocol(BaseModel):
    """How long one invocation measures.

    warmup: steps after the first one that do not count; steps, seconds: counted steps last at least this many
    and this long; limit_s: but stop after this long; fewest: never with fewer steps; timeout_s: for the whole
    process, compiling included.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    warmup: int = Field(default=2, ge=0)
    steps: int = Field(default=30, gt=0)
    seconds: float = Field(default=2.0, ge=0)
    limit_s: float = Field(default=5.0, gt=0)
    fewest: int = Field(default=3, gt=0)
    timeout_s: float = Field(default=900.0, gt=0, allow_inf_nan=False)


QUICK = Protocol(warmup=2, steps=10, seconds=0.3, limit_s=5, fewest=5, timeout_s=300)


def default_threads() -> int:
    """As many threads as this process may use processors."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure(
    point: Point,
    stack: Stack,
    protocol: Protocol = QUICK,
    *,
    threads: int | None = None,
    progress: Callable[[dict[str, Any]], None] = lambda message: None,
    **task: Any,
) -> dict[str, Any]:
    """Run one point once on one stack, in a fresh process, and return the record of that invocation.

    The record has `status` (ok, oom, timeout, crashed or missing) and, where it is ok, `result` as the worker sent
    it (times in ns, memory in bytes). One invocation runs at a time on a machine: others wait for the lock.
    task: another task than measuring and its fields (`task="check", steps=5`).
    """
    started = datetime.now(UTC).replace(microsecond=0)
    record: dict[str, Any] = {
        "started": started.isoformat().replace("+00:00", "Z"),
        "threads": threads or default_threads(),
        "protocol": protocol.model_dump(),
    }
    if not stack.present:
        return record | {"status": "missing", "error": f"{stack.name} is not installed; add it: {stack.add_command}"}
    job = {
        "workload": point.workload,
        "api": stack.api,
        "backend": stack.backend,
        "device": point.device,
        "point": point.model_dump(),
        "protocol": protocol.model_dump(),
        "threads": record["threads"],
        "task": "measure",
    } | task
    environment = stack.environment(record["threads"], point.device, point.allocator)
    # The size of the environment moves the stack and can turn a conclusion round (Mytkowicz et al. 2009): vary it.
    record["padding"] = random.randrange(4096)
    environment["TRAINTIME_PADDING"] = "x" * record["padding"]
    Path(environment["HOME"]).mkdir(parents=True, exist_ok=True)
    command = [str(stack.executable), str(paths.WORKER)]
    with filelock.FileLock(LOCK, mode=0o666):
        before = _machine_counters()
        outcome = run_worker(command, job, environment, protocol.timeout_s, progress)
        evidence = _difference(before, _machine_counters())
    # The counter of kernel kills says whether a SIGKILL was the memory's end or somebody else's.
    if outcome.pop("killed", False) and evidence.get("oom_kills", 0) > 0:
        outcome = {"status": "oom", "error": "the kernel ended the worker: out of memory"}
    return record | outcome | {"machine_evidence": evidence}


def run_worker(
    command: list[str],
    job: dict[str, Any],
    environment: dict[str, str],
    timeout_s: float,
    progress: Callable[[dict[str, Any]], None] = lambda message: None,
) -> dict[str, Any]:
    """Start the process, hand it the job, follow its messages; return `status` and `result` or `error`.

    Whatever happens, no process of its group is left when this returns.
    """
    reading, writing = os.pipe()
    deadline = time.monotonic() + timeout_s
    with tempfile.TemporaryFile() as output, os.fdopen(reading, "rb") as channel:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=(writing,),
            start_new_session=True,
        )
        os.close(writing)
        try:
            assert process.stdin
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(json.dumps(job | {"channel": writing}).encode())
            answer = _follow(channel, deadline, progress)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(30, max(0.1, deadline - time.monotonic())))
        finally:
            finished_by_itself = process.poll() is not None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if answer is not None:
            return {key: answer[key] for key in ("status", "result", "error") if key in answer}
        if not finished_by_itself:
            return {"status": "timeout", "error": f"no result after {timeout_s:g} s"}
        output.seek(0, os.SEEK_END)
        output.seek(max(0, output.tell() - 8000))
        # Cut after hiding: half a path would not be recognised.
        last = without_paths(output.read().decode(errors="replace").strip())[-2000:]
        code = process.returncode
        cause = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit status {code}"
        return {"status": "crashed", "error": f"{cause}\n{last}".strip(), "killed": code == -signal.SIGKILL}


def _follow(channel: Any, deadline: float, progress: Callable[[dict[str, Any]], None]) -> dict[str, Any] | None:
    """Read messages until the result, the end of the pipe, or the deadline."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                return None
            chunk = os.read(channel.fileno(), 1 << 16)
            if not chunk:
                return None
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message["event"] == "result":
                    if "error" in message:
                        message["error"] = without_paths(message["error"])[:2000]
                    return message
                progress(message)
    return None


def without_paths(text: str) -> str:
    """Hide where the checkout and the home folder lie: a record is published."""
    text = text.replace(str(paths.ROOT), "<checkout>")
    with contextlib.suppress(RuntimeError):  # a user without a home
        if Path.home() != Path(Path.home().anchor):
            text = text.replace(str(Path.home()), "~")
    return text


def _machine_counters() -> dict[str, float]:
    """What may have disturbed the run: time stolen by the host, swapping, kernel kills, others' processor time."""
    machine, workers = psutil.cpu_times(), resource.getrusage(resource.RUSAGE_CHILDREN)
    others = machine.user + machine.system - workers.ru_utime - workers.ru_stime
    counters: dict[str, float] = {"steal_s": getattr(machine, "steal", 0.0), "others_cpu_s": others}
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, value = line.split()
            if name == "oom_kill":
                counters["oom_kills"] = int(value)
            elif name == "pswpout":
                counters["pages_swapped_out"] = int(value)
    return counters


def _difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: round(after[name] - value, 3) for name, value in before.items()}
