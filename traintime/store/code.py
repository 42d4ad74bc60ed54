"""The code that measured is part of the record: a hash of the sources that ran inside the stack's Python."""

import csv
import functools
import hashlib
from datetime import UTC, datetime
from pathlib import Path

from traintime import paths, workloads
from traintime.workloads.base import APIS

LIST = "code.csv"
NOTE = "say here what changed"
COMMON = ("__main__.py", "process.py", "samples.py", "timing.py")
OF_API = {"keras3": ("feeds.py", "replicas.py", "saving.py")}


def sources(workload: str, api: str) -> list[Path]:
    """The files that a worker runs for this workload on this API, in a fixed order."""
    folder = workloads.get(workload).folder
    common = [paths.WORKER / name for name in (*COMMON, *OF_API.get(api, ()), f"train_{api}.py")]
    deferred = sorted(paths.DEFERRED.glob("*.py")) if workloads.get(workload).table and api == "keras3" else []
    return [*common, folder / "data.py", folder / f"on_{api}.py", *deferred]


def current(workload: str, api: str) -> str:
    """Hash of those sources as they are now, twelve hexadecimal digits."""
    # A sweep runs for hours and each of its workers reads the sources anew: so does the hash, once they have changed.
    states = ((path, path.stat()) for path in sources(workload, api))
    return _hash(tuple((path, state.st_mtime_ns, state.st_size) for path, state in states))


@functools.cache
def _hash(files: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, *_ in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def known() -> dict[str, dict[str, str]]:
    """Every version of the sources whose measurements are accepted: hash -> workload, api, since, note, same_as.

    Each workload lists its own in its folder, code.csv; what is not listed there is unknown. same_as: an older version
    that does the same for everything that the older one could do, so that the two may be pooled; the note says why.
    """
    versions: dict[str, dict[str, str]] = {}
    for name, sizes in workloads.ALL.items():
        path = sizes.folder / LIST
        if path.exists():
            with path.open(newline="") as file:
                versions |= {row["code"]: {"workload": name} | row for row in csv.DictReader(file)}
    return versions


def same(version: str | None) -> str | None:
    """The oldest version that does the same as this one: by it invocations are compared and pooled."""
    while version and (older := _older().get(version)):
        version = older
    return version


@functools.cache
def _older() -> dict[str, str]:
    return {version: row["same_as"] for version, row in known().items() if row["same_as"]}


def main() -> None:
    """List the present sources of every workload and API in the workload's code.csv, where they are not listed yet."""
    today = datetime.now(UTC).date().isoformat()
    for name, sizes in workloads.ALL.items():
        path = sizes.folder / LIST
        if not path.exists():
            path.write_text("code,api,since,note,same_as\n")
        apis = [api for api in APIS if (sizes.folder / f"on_{api}.py").exists()]
        new = [(current(name, api), api) for api in apis if current(name, api) not in known()]
        with path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([code, api, today, NOTE, ""] for code, api in new)


if __name__ == "__main__":
    main()
