"""What history had and the files no longer have: an invocation once committed stays, or is withdrawn with a reason."""

import contextlib
import csv
import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from traintime.errors import InputError
from traintime.store import records

WITHDRAWN = "withdrawn.csv"
COLUMNS = ["stack", "key", "started", "reason"]


class Withdrawal(BaseModel):
    """An invocation that was taken out of the files, and why (a row of withdrawn.csv)."""

    model_config = ConfigDict(frozen=True)

    stack: records.Slug
    key: records.Slug
    started: records.Time
    reason: Annotated[records.Lines, Field(pattern=r"\S")]


WITHDRAWALS = TypeAdapter(list[Withdrawal])


def withdrawals(folder: Path) -> list[Withdrawal]:
    """The machine's withdrawn invocations; raises InputError for a file with other columns, or that is no CSV."""
    path = folder / WITHDRAWN
    if not path.exists():
        return []
    try:
        columns, *rows = [row for row in csv.reader(io.StringIO(records.text(path), newline="")) if row] or [[]]
    except (csv.Error, UnicodeDecodeError) as error:
        problem = f"has text that is no CSV ({error})"
    else:
        problem = "has a row with more cells than columns" if any(len(row) > len(COLUMNS) for row in rows) else ""
        if columns != COLUMNS:
            problem = f"has the columns {', '.join(columns)}, not {', '.join(COLUMNS)}"
    if problem:
        remedy = "Take it from version control."
        raise InputError("measurement file", records.name_of(path), records.printable(problem), remedy)
    given = [dict(zip(COLUMNS, row, strict=False)) for row in rows]
    return records.validated(path, lambda: WITHDRAWALS.validate_python(given), "Say what was withdrawn, and why.")


class Identity(NamedTuple):
    """What identifies an invocation, whatever its file: a run keeps its step times when its file is renamed."""

    stack: str
    started: str
    times: tuple[int | None, ...]  # the first step and all others, ns; empty for a run that failed


def _git(folder: Path, *words: str, given: str | None = None) -> bytes | None:
    """What git answers, or None where there is no git, no checkout, or no such thing in it."""
    command = ["git", "-C", str(folder), *words]
    try:
        answer = subprocess.run(command, input=given.encode() if given else None, capture_output=True, check=False)
    except OSError:
        return None
    return answer.stdout if answer.returncode == 0 else None


def checkout(folder: Path) -> Path | None:
    """The git checkout with at least one commit that the folder lies in, or None."""
    top = _git(folder, "rev-parse", "--show-toplevel") if folder.is_dir() else None
    if top is None or _git(folder, "rev-parse", "--verify", "HEAD") is None:
        return None
    return Path(top.decode().strip())


def shallow(repository: Path) -> bool:
    """Whether the checkout holds only the newest part of its history."""
    return (_git(repository, "rev-parse", "--is-shallow-repository") or b"").strip() == b"true"


def lost(root: Path, repository: Path) -> list[str]:
    """One sentence for each committed invocation that the files below root no longer have as it was.

    Every committed version of each file counts, whatever its name or schema; one that is listed in its machine's
    withdrawn.csv may be gone.
    """
    here, withdrawn = set(), set()
    for path in records.files(root):
        with contextlib.suppress(ValueError):  # the checker names it
            here |= identities(records.text(path).encode())
    starts = {(identity.stack, identity.started) for identity in here}
    for folder in root.iterdir():
        with contextlib.suppress(ValueError):
            withdrawn |= {(row.stack, row.started) for row in withdrawals(folder)}
    sentences = {}
    for name, text in _versions(root, repository):
        for identity in identities(text) - here:
            stack, started, _ = identity
            if (stack, started) not in withdrawn:
                file = records.name_of(Path(name))
                rest = "no longer has the times that were committed" if (stack, started) in starts else "is gone"
                told = f"{file}: key invocations: the one of {started} {rest}; restore it, or withdraw it"
                sentences[identity] = records.printable(told)
    return sorted(sentences.values())


def identities(text: bytes) -> set[Identity]:
    """The invocations of a measurement file of any schema; none of any other file, or a damaged one."""
    try:
        raw = json.loads(text)
        return {Identity(raw["stack"], each["started"], _times(each)) for each in raw["invocations"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()


def _times(invocation: dict[str, Any]) -> tuple[int | None, ...]:
    timing = (invocation.get("result") or {}).get("timing")
    return (timing["first_ns"], *timing["steps_ns"]) if timing else ()


def _versions(root: Path, repository: Path) -> Iterator[tuple[str, bytes]]:
    """Name and text of every committed version of every JSON file below root, read in two calls of git."""
    below = str(root.resolve().relative_to(repository.resolve()))
    listed = _git(repository, "rev-list", "--full-history", "--objects", "HEAD", "--", below) or b""
    names = dict(line.split(" ", 1) for line in listed.decode().splitlines() if line.endswith(".json"))
    blobs = "".join(f"{blob}\n" for blob in names)
    texts = (_git(repository, "cat-file", "--batch", given=blobs) if names else None) or b""
    place = 0
    while place < len(texts):
        head = texts.index(b"\n", place)
        blob, _, size = texts[place:head].decode().split()
        place = head + 1 + int(size)
        yield names[blob], texts[head + 1 : place]
        place += 1  # the newline after each
