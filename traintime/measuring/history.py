"""What was committed and the files no longer have: an invocation stays as it was, or is withdrawn with a reason."""

import contextlib
import csv
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from traintime.errors import InputError
from traintime.store import records

WITHDRAWN = "withdrawn.csv"


class Withdrawal(BaseModel):
    """An invocation that was taken out of the files, and why (a row of withdrawn.csv)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (csv.Error, UnicodeDecodeError) as error:
        problem = f"has text that is no CSV ({error})"
        raise InputError("measurement file", records.name_of(path), problem, "Take it from version control.") from None
    return records.validated(path, lambda: WITHDRAWALS.validate_python(rows), "Say what was withdrawn, and why.")


class Identity(NamedTuple):
    """What identifies an invocation, whatever its file: a run keeps its step times when its file is renamed."""

    stack: str
    started: str
    times: tuple[int | None, ...]  # the first step and all others, ns; empty for a run that failed


def _git(folder: Path, *words: str) -> str | None:
    """What git answers, or None where there is no git, no checkout, or no such thing in it."""
    try:
        answer = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=False)
    except OSError:
        return None
    return answer.stdout.decode(errors="replace").strip() if answer.returncode == 0 else None


def commits(folder: Path) -> list[str]:
    """The commits that a folder is compared with: the last one, and where its branch left main, or the one before.

    Empty where it lies in no git checkout with a commit.
    """
    head = _git(folder, "rev-parse", "--verify", "HEAD")
    left = [_git(folder, "merge-base", "HEAD", main) for main in ("origin/main", "main")]
    earlier = [*(each for each in left if each != head), _git(folder, "rev-parse", "--verify", "HEAD~")]
    return list(filter(None, [head, next(filter(None, earlier), None)]))


def lost(root: Path, since: str | None = None) -> list[str]:
    """One sentence for each committed invocation that the files below root no longer have as it was.

    It may stand in another file; one that is listed in its machine's withdrawn.csv may be gone. since: the commit to
    compare with, in the place of `commits`. Raises InputError where there is none of that name.
    """
    before: dict[Identity, str] = {}
    for commit in commits(root) if since is None else [since]:
        for name, text in _changed(root, commit):
            before |= dict.fromkeys(identities(text), name)
    here, withdrawn = set(), set()
    for path in records.files(root) if before else ():
        here |= identities(path.read_text(errors="replace"))
    for folder in root.iterdir():
        with contextlib.suppress(ValueError):  # the checker names it
            withdrawn |= {(row.stack, row.started) for row in withdrawals(folder)}
    starts = {(identity.stack, identity.started) for identity in here}
    sentences = []
    for identity in before.keys() - here:
        stack, started, _ = identity
        if (stack, started) not in withdrawn:
            file = records.name_of(Path(before[identity]))
            rest = "no longer has the times that were committed" if (stack, started) in starts else "is gone"
            sentences.append(f"{file}: key invocations: the one of {started} {rest}; restore it, or withdraw it")
    return sorted(sentences)


def _changed(root: Path, since: str) -> Iterator[tuple[str, str]]:
    """Name and text, as they were at a commit, of each JSON file below root that is gone or other now."""
    names = _git(root, "diff", "--name-only", "--relative", "--no-renames", "--diff-filter=DMT", "-z", since, "--", ".")
    if names is None:
        raise InputError("since", since, "is no commit of this checkout", "Leave --since out, or name another.")
    for name in names.split("\0"):
        if name.endswith(".json"):
            yield name, _git(root, "show", f"{since}:./{name}") or ""


def identities(text: str) -> set[Identity]:
    """The invocations of a measurement file of any schema; none of any other file, or a damaged one."""
    try:
        raw = json.loads(text)
        return {Identity(raw["stack"], each["started"], _times(each)) for each in raw["invocations"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()


def _times(invocation: dict[str, Any]) -> tuple[int | None, ...]:
    timing = (invocation.get("result") or {}).get("timing")
    return (timing["first_ns"], *timing["steps_ns"]) if timing else ()
