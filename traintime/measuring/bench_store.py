"""What many machines' measurements cost to check and to read: made-up ones, in folders of several sizes.

Run by `make bench-store`. Whoever merges checks one machine at a time; `check` refuses a folder above its limit.
"""

import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from traintime import paths
from traintime.measuring import machine
from traintime.point import make_point
from traintime.store import records

MACHINES, CONFIGURATIONS = (5, 10, 20, 40), 500
MANY, GOAL_S = 1_000, 60  # machines, and how long each task should take for so many
GIB = 2**30
# What they are made from.
MACHINE, STACK, KEY = "amd-epyc-family26-model2-2-cores-24-gib", "2026-jax", "rnn-v20000-e300-u128-l25-b100-adam"
TASKS = {
    "check": "from traintime.measuring import check; found = list(check.findings(root, at_least=1))",
    "table": "from traintime.store.table import table; found = table(root)",
}
TIMED = """
import resource, sys, time
from pathlib import Path
root, start = Path(sys.argv[1]), time.perf_counter()
{task}
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(found))
"""


def make(root: Path, machines: int, configurations: int = CONFIGURATIONS) -> None:
    """Write a folder of so many machines, each with one invocation of so many configurations."""
    held = records.file_of(paths.MEASUREMENTS, MACHINE, STACK, KEY)
    template = json.loads(held.read_text())["invocations"][-1]
    description = json.loads((held.parents[1] / "machine.json").read_text())
    points = [make_point(vocabulary=1_000 + number) for number in range(configurations)]
    for number in range(machines):
        of_machine = description | {"memory_bytes": (number + 1) * GIB}
        of_machine["machine"] = machine.key(of_machine)
        folder = root / of_machine["machine"]
        folder.mkdir(parents=True)
        (folder / "machine.json").write_text(records.dumps(of_machine))
        for file, point in _files(folder, points):
            one = copy.deepcopy(template)
            one["result"]["facts"]["parameters"] = point.work.parameters
            about: dict[str, Any] = {"schema_version": records.SCHEMA, "machine": of_machine["machine"], "stack": STACK}
            about |= {"key": point.key, "point": point.model_dump(mode="json", exclude_none=True)}
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(records.dumps(about | {"invocations": [one]}))


def _files(folder: Path, points: list[Any]) -> Iterator[tuple[Path, Any]]:
    """Where each point is stored; the first one is the sentinel, too."""
    yield records.file_of(folder.parent, folder.name, STACK, points[0].key, sentinel=True), points[0]
    for point in points:
        yield records.file_of(folder.parent, folder.name, STACK, point.key), point


def timed(task: str, root: Path) -> tuple[float, float, int]:
    """Seconds, peak memory in bytes, and the number of findings or rows, of a task in a process of its own."""
    command = [sys.executable, "-c", TIMED.format(task=TASKS[task]), str(root)]
    said = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, check=True).stdout.split()
    return float(said[0]), 1024 * float(said[1]), int(said[2])


def main() -> None:
    """Print seconds and memory for each size, and the time that many machines would take."""
    print(f"{'machines':>8} {'files':>7} {'MB':>5}  " + "  ".join(f"{task:>6}: s, MB, found" for task in TASKS))
    for machines in MACHINES:
        with tempfile.TemporaryDirectory() as name:
            make(Path(name), machines)
            files = list(records.files(Path(name)))
            size = sum(path.stat().st_size for path in files) / 1e6
            told = [timed(task, Path(name)) for task in TASKS]
        cells = "  ".join(f"{seconds:8.1f} {peak / 1e6:5.0f} {found:6}" for seconds, peak, found in told)
        print(f"{machines:8} {len(files):7,} {size:5.0f}  {cells}", flush=True)
    many = ", ".join(f"{task} {one[0] / machines * MANY:.0f} s" for task, one in zip(TASKS, told, strict=True))
    print(f"{MANY:,} machines at this rate: {many} (goal: {GOAL_S} s each)")


if __name__ == "__main__":
    main()
