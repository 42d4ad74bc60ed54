"""What history had and the files no longer have: an invocation once committed stays, or is withdrawn with a reason."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from traintime.errors import InputError
from traintime.measuring.findings import withdrawals
from traintime.store import records


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


def lost(root: Path, repository: Path, since: str | None = None) -> list[str]:
    """One sentence for each committed invocation that the files below root no longer have as it was.

    Every committed version of each file counts, whatever its name or schema; one that is listed in its machine's
    withdrawn.csv may be gone. since: a commit, to look at its versions and newer ones alone; raises InputError where
    there is no such commit.
    """
    if since and _git(repository, "rev-parse", "--verify", f"{since}^{{commit}}") is None:
        raise InputError("since", since, "is no commit of this repository", "Take one that git log names.")
    here = set()
    for path in records.files(root):
        here |= _identities(path.read_bytes())
    starts = {(identity.stack, identity.started) for identity in here}
    gone = _withdrawn(root)
    found = {}
    for name, text in _versions(root, repository, since):
        for identity in _identities(text) - here:
            stack, started, _ = identity
            if (stack, started) not in gone:
                file = records.name_of(Path(name))
                rest = "no longer has the times that were committed" if (stack, started) in starts else "is gone"
                found[identity] = f"{file}: key invocations: the one of {started} {rest}; restore it, or withdraw it"
    return sorted(found.values())


def _withdrawn(root: Path) -> set[tuple[str, str]]:
    found = set()
    for folder in root.iterdir():
        try:
            found |= {(row.stack, row.started) for row in withdrawals(folder)}
        except ValueError:
            continue  # the checker names it
    return found


def _identities(text: bytes) -> set[Identity]:
    """The invocations of a measurement file of any schema; none of any other file, or a damaged one."""
    try:
        raw = json.loads(text)
        return {Identity(raw["stack"], each["started"], _times(each)) for each in raw["invocations"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        return set()


def _times(invocation: dict[str, Any]) -> tuple[int | None, ...]:
    timing = (invocation.get("result") or {}).get("timing")
    return (timing["first_ns"], *timing["steps_ns"]) if timing else ()


def _versions(root: Path, repository: Path, since: str | None) -> Iterator[tuple[str, bytes]]:
    """Name and text of every committed version of every JSON file below root, read in two calls of git."""
    below = str(root.resolve().relative_to(repository.resolve()))
    commits = f"{since}..HEAD" if since else "HEAD"
    listed = _git(repository, "rev-list", "--full-history", "--objects", commits, "--", below) or b""
    pairs = [tuple(line.split(" ", 1)) for line in listed.decode().splitlines() if line.endswith(".json")]
    if since:
        tree = (_git(repository, "ls-tree", "-r", since, "--", below) or b"").decode().splitlines()
        pairs += [(line.split("\t")[0].split()[2], line.split("\t")[1]) for line in tree if line.endswith(".json")]
    names = dict(pairs)
    asked = "".join(f"{blob}\n" for blob in names)
    texts = (_git(repository, "cat-file", "--batch", given=asked) if names else None) or b""
    place = 0
    while place < len(texts):
        head = texts.index(b"\n", place)
        blob, _, size = texts[place:head].decode().split()
        place = head + 1 + int(size)
        yield names[blob], texts[head + 1 : place]
        place += 1  # the newline after each
