"""One invocation: start a worker, watch it, bring back its result or what went wrong."""

import contextlib
import json
import os
import random
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

from traintime import paths
from traintime.errors import InputError
from traintime.measuring.protocol import QUICK, Protocol
from traintime.measuring.stacks import Stack, refuse_impossible
from traintime.point import Point
from traintime.store import code, derived

LOCK = Path(tempfile.gettempdir()) / "traintime-measure.lock"


def default_threads() -> int:
    """As many threads as this process may use processors."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_of(point: Point) -> int:
    """Threads that a worker gets; raises InputError where its replicas cannot share them evenly."""
    threads = point.run.threads or default_threads()
    if threads % point.run.replicas:
        problem = f"cannot share {threads} threads evenly"
        raise InputError("replicas", point.run.replicas, problem, f"Take 1, or {threads}.")
    return threads


def measure(
    point: Point,
    stack: Stack,
    protocol: Protocol = QUICK,
    *,
    progress: Callable[[dict[str, Any]], None] = lambda message: None,
    **task: Any,
) -> dict[str, Any]:
    """Run one point once on one stack, in a fresh process, and return the record of that invocation.

    The record has `status` (ok, oom, timeout, crashed or missing) and, where it is ok, `result` as the worker sent
    it (times in ns, memory in bytes). One invocation runs at a time on a machine: others wait for the lock.
    task: another task than measuring and its fields (`task="check", steps=5`).
    Raises InputError for a point that the stack has no way to run.
    """
    refuse_impossible(point, stack)
    threads = threads_of(point)
    if protocol.warmup is None:
        protocol = protocol.model_copy(update={"warmup": derived.warmup(stack.name)})
    record: dict[str, Any] = {
        "threads": threads,
        "protocol": protocol.model_dump(),
        "code": code.current(point.workload, stack.api),
    }
    if not stack.present:
        missing = {"status": "missing", "error": f"{stack.name} is not installed; add it: {stack.add_command}"}
        return {"started": _now()} | record | missing
    job = {
        "workload": str(point.sizes.folder),
        "api": stack.api,
        "backend": stack.backend,
        "sizes": point.sizes.model_dump(),
        "run": point.run.model_dump(),
        "protocol": protocol.model_dump(),
        "threads": threads,
        "task": "measure",
    } | task
    environment = stack.environment(threads // point.run.replicas, point.run)
    # The size of the environment moves the stack and can turn a conclusion round (Mytkowicz et al. 2009): vary it.
    record["padding"] = random.randrange(4096)
    environment["TRAINTIME_PADDING"] = "x" * record["padding"]
    Path(environment["HOME"]).mkdir(parents=True, exist_ok=True)
    command = [str(stack.executable), str(paths.WORKER)]
    with filelock.FileLock(LOCK, mode=0o666):
        record = {"started": _now()} | record | {"code": code.current(point.workload, stack.api)}
        kills = _kernel_kills()
        outcome = run_worker(command, job, environment, protocol.timeout_s, progress)
        killed = _kernel_kills() - kills
    # The counter of kernel kills says whether a SIGKILL was the memory's end or somebody else's.
    if outcome.pop("killed", False) and killed > 0:
        outcome = {"status": "oom", "error": "the kernel ended the worker: out of memory"}
    return record | outcome


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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


def _kernel_kills() -> int:
    """How many processes the kernel has ended for want of memory; 0 where it does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
