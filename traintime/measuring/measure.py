"""One invocation: start a worker, watch it, bring back its result or what went wrong."""

import contextlib
import json
import os
import random
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import filelock
import psutil
from pydantic import ValidationError

from traintime import paths
from traintime.errors import InputError
from traintime.measuring.protocol import QUICK, Protocol
from traintime.measuring.stacks import Stack, refuse_impossible
from traintime.point import Point
from traintime.store import code, derived, records

Progress = Callable[[dict[str, Any]], None]  # is told each message of a worker but its result
LOCK = Path(tempfile.gettempdir()) / "traintime-measure.lock"
BROKEN = "the worker's answer cannot be used"
OWN = "TRAINTIME_WORKER"  # variable by which a worker's descendants are known, whatever session they began
LONGEST = 2**26  # bytes of a message; a worker that says more without an end would fill the memory of this process


def default_threads() -> int:
    """As many threads as this process may use processors."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_of(point: Point) -> int:
    """Threads that a worker gets; raises InputError for more than there are processors, and where its replicas cannot
    share them evenly.
    """
    here = default_threads()
    threads = point.run.threads or here
    if threads > here:
        raise InputError("threads", threads, f"are more than the {here} processors here", f"Give {here} or fewer.")
    if threads % point.run.replicas:
        problem = f"cannot share {threads} threads evenly"
        raise InputError("replicas", point.run.replicas, problem, f"Take 1, or {threads}.")
    return threads


def _unheard(message: dict[str, Any]) -> None:
    """In the place of somebody who follows a worker's messages."""


def measure(
    point: Point, stack: Stack, protocol: Protocol = QUICK, *, progress: Progress = _unheard, **task: Any
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
    sources = code.current(point.workload, stack.api)
    record: dict[str, Any] = {"threads": threads, "protocol": protocol.model_dump(), "code": sources}
    if not stack.present:
        error = f"{stack.name} is not installed; add it: {stack.add_command}"
        return {"started": _now()} | record | {"status": "missing", "error": error}
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
    records.check_writable(stack.state)
    with filelock.FileLock(LOCK, mode=0o666):
        record = {"started": _now()} | record | {"code": code.current(point.workload, stack.api)}
        kills = _kernel_kills()
        command = [str(stack.executable), str(paths.WORKER)]
        outcome = run_worker(command, job, environment, protocol.timeout_s, progress)
        killed = _kernel_kills() - kills
    # The counter of kernel kills says whether a SIGKILL was the memory's end or somebody else's.
    if outcome.pop("killed", False) and killed > 0:
        outcome = outcome | {"status": "oom", "error": "the kernel ended the worker: out of memory"}
    return record | _believed(outcome, job["task"])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _believed(outcome: dict[str, Any], task: str) -> dict[str, Any]:
    """The outcome, where a record can hold it; else that the worker crashed, with what is wrong with its answer."""
    status, error = outcome["status"], outcome.get("error") or "the worker did not say why"
    if status not in ("ok", "oom", "timeout", "crashed"):
        status, error = "crashed", f"{BROKEN}: its status is {status!r}"
    elif status == "ok":
        try:
            if task == "measure":
                records.Result.model_validate(outcome["result"])
            return outcome
        except ValidationError as refused:
            first = refused.errors()[0]
            status, error = "crashed", f"{BROKEN}: result.{'.'.join(map(str, first['loc']))}: {first['msg']}"
    about = {name: value for name, value in outcome.items() if name != "result"}
    # A framework colours what it prints, and redraws its bars: a file holds lines of text.
    shown = "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in error)
    return about | {"status": status, "error": shown[:2000]}


def run_worker(
    command: list[str],
    job: dict[str, Any],
    environment: dict[str, str],
    timeout_s: float,
    progress: Progress = _unheard,
) -> dict[str, Any]:
    """Start the process, hand it the job, follow its messages; return `status` and `result` or `error`.

    Whatever happens, neither it nor a process that it started is left when this returns.
    """
    deadline = time.monotonic() + timeout_s
    reading, writing = os.pipe()
    mark = uuid.uuid4().hex
    # A worker may start workers of its own (predict.file): they have its mark, too.
    environment = environment | {OWN: environment.get(OWN, "") + mark}
    with tempfile.TemporaryFile() as output, os.fdopen(reading, "rb") as channel:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=(writing,),
                start_new_session=True,
            )
        finally:
            os.close(writing)
        try:
            assert process.stdin
            with contextlib.suppress(BrokenPipeError), process.stdin as given:
                given.write(json.dumps(job | {"channel": writing}).encode())
            answer = _result(channel, deadline, progress)
            if answer is None or answer["status"] == "ok":
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(30, max(0.1, deadline - time.monotonic())))
            if answer is None and process.poll() is None:
                return {"status": "timeout", "error": f"no result after {timeout_s:g} s"}
            return _ended(process.returncode, output) if answer is None else answer
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _end_marked(mark)


def run_module(
    name: str, job: dict[str, Any], environment: dict[str, str], timeout_s: float, progress: Progress = _unheard
) -> dict[str, Any]:
    """`run_worker` for a module of this package, by this interpreter.

    The process is told where this package lies: on Colab `sys.path` alone names the folder, and no child inherits that.
    """
    found = os.pathsep.join(filter(None, (str(paths.ROOT), environment.get("PYTHONPATH"))))
    return run_worker([sys.executable, "-m", name], job, environment | {"PYTHONPATH": found}, timeout_s, progress)


def _end_marked(mark: str) -> None:
    """End what a worker has started outside of its group: a child with a session of its own, and that one's."""
    for _ in range(10):  # one that starts another while it is looked for is found the next time
        left = [each for each in psutil.process_iter(["environ"]) if mark in (each.info["environ"] or {}).get(OWN, "")]
        if not left:
            return
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(left, timeout=1)


def _ended(code: int, output: IO[bytes]) -> dict[str, Any]:
    """What became of a process that ended without a result: its exit status or signal, and its last words."""
    output.seek(max(0, output.seek(0, os.SEEK_END) - 8000))
    # Cut after hiding: half a path would not be recognised.
    last = without_paths(output.read().decode(errors="replace").strip())[-2000:]
    names = {number.value: number.name for number in signal.Signals}  # those of real time have none
    cause = f"signal {-code} ({names.get(-code, 'real-time')})" if code < 0 else f"exit status {code}"
    return {"status": "crashed", "error": f"{cause}\n{last}".strip(), "killed": code == -signal.SIGKILL}


def _result(channel: IO[bytes], deadline: float, progress: Progress) -> dict[str, Any] | None:
    """A worker's result, the messages before it passed on; None at the pipe's end or the deadline."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and selector.select(left):
            chunk = os.read(channel.fileno(), 1 << 16)
            if not chunk:
                return None
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LONGEST:
                lines.append(b"")  # which is no message
            for line in lines:
                message = _message(line)
                if message["event"] == "result":
                    if "error" in message:
                        message["error"] = without_paths(message["error"])[:2000]
                    return {key: message[key] for key in ("status", "result", "error") if key in message}
                progress(message)
    return None


def _message(line: bytes) -> dict[str, Any]:
    """What a worker says in a line; where that is no message, a result that says so and ends the job."""
    try:
        message = json.loads(line)
        if not isinstance(message, dict) or not isinstance(message.get("event"), str):
            raise ValueError("it is no object with an event")
        if message["event"] == "result":
            status = message.get("status")
            if not isinstance(status, str) or (status == "ok" and "result" not in message):
                raise ValueError(f"it has the status {status!r} and no result")
            if not isinstance(message.get("error", ""), str):
                raise ValueError("its error is no text")
    except (ValueError, RecursionError) as error:
        return {"event": "result", "status": "crashed", "error": f"{BROKEN}: {error}"}
    return message


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
