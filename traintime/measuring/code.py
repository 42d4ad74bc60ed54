"""The code that measured is part of the record: a hash of the sources that ran inside the stack's Python."""

import csv
import functools
import hashlib
from pathlib import Path

from traintime import paths, workloads

COMMON = ("__main__.py", "process.py", "samples.py", "timing.py")


def sources(workload: str, api: str) -> list[Path]:
    """The files that a worker runs for this workload on this API, in a fixed order."""
    folder = workloads.get(workload).folder
    common = [paths.WORKER / name for name in (*COMMON, f"train_{api}.py")]
    return [*common, folder / "data.py", folder / f"on_{api}.py"]


@functools.cache
def current(workload: str, api: str) -> str:
    """Hash of those sources as they are now, twelve hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sources(workload, api):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def known() -> dict[str, dict[str, str]]:
    """Every version of the sources whose measurements are accepted: hash -> workload, api, since, note."""
    with (paths.DATA / "code.csv").open(newline="") as file:
        return {row["code"]: row for row in csv.DictReader(file)}
