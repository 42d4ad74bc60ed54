"""What was committed and the files no longer have: an invocation stays as it was, or is withdrawn with a reason."""

import contextlib
import csv
import json
import subprocess
from pathlib import Path
from typing import Annotated

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
    whole = TypeAdapter(list[Withdrawal])
    return records.validated(path, lambda: whole.validate_python(rows), "Say what was withdrawn, and why.")


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
    head, before = (_git(folder, "rev-parse", "--verify", name) for name in ("HEAD", "HEAD~"))
    left = [_git(folder, "merge-base", "HEAD", main) for main in ("origin/main", "main")]
    return list(filter(None, [head, next((each for each in left if each not in (None, head)), before)]))


def lost(root: Path, since: str | None = None) -> list[str]:
    """One sentence for each committed invocation that the files below root no longer have as it was.

    It may stand in another file; one that is listed in its machine's withdrawn.csv may be gone. since: the commit to
    compare with, in the place of `commits`. Raises InputError where there is none of that name.
    """
    before: dict[tuple[str, str, tuple[int, ...]], str] = {}
    for commit in commits(root) if since is None else [since]:
        names = _git(root, "diff", "--name-only", "--relative", "--no-renames", "-z", commit, "--", ".")
        if names is None:
            raise InputError("since", commit, "is no commit of this checkout", "Leave --since out, or name another.")
        for name in names.split("\0"):
            before |= dict.fromkeys(_identities(_git(root, "show", f"{commit}:./{name}") or ""), name)
    here, withdrawn = set(), set()
    for path in records.files(root) if before else ():
        here |= _identities(path.read_text(errors="replace"))
    for folder in root.iterdir():
        with contextlib.suppress(InputError):  # the checker names it
            withdrawn |= {(row.stack, row.started) for row in withdrawals(folder)}
    return sorted(
        f"{records.name_of(Path(before[each]))}: key invocations: the one of {each[1]} is gone or has other times;"
        " restore it, or withdraw it"
        for each in before.keys() - here
        if each[:2] not in withdrawn
    )


def _identities(text: str) -> set[tuple[str, str, tuple[int, ...]]]:
    """What identifies the invocations of a measurement file, whatever its name and schema: stack, start, step times.

    Times are of the first step and of all others, ns; none of a run that failed. Empty for any other file, or a
    damaged one.
    """
    found = set()
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raw = json.loads(text)
        for each in raw["invocations"]:
            timing = (each.get("result") or {}).get("timing")
            times = (timing["first_ns"], *timing["steps_ns"]) if timing else ()
            found.add((raw["stack"], each["started"], times))
    return found
