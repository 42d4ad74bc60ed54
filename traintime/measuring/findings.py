"""What the checker works on and what it says: runs with their place, withdrawals, and sentences about them."""

import csv
from dataclasses import dataclass
from pathlib import Path

from traintime.store.records import Invocation

WITHDRAWN = "withdrawn.csv"
COLUMNS = ["stack", "key", "started", "reason"]


@dataclass(frozen=True)
class Remark:
    """One sentence about a folder. fault: something to mend; otherwise a note, so that nothing is silent."""

    sentence: str
    fault: bool = True


def note(sentence: str) -> Remark:
    """A remark that is no fault."""
    return Remark(sentence, False)


@dataclass(frozen=True)
class StoredRun:
    """One stored invocation with its place: the file's name, its number in it, and the point on its stack."""

    file: str
    index: int
    stack: str
    key: str
    sentinel: bool
    invocation: Invocation

    @property
    def where(self) -> str:
        """File and key, as every sentence begins."""
        return f"{self.file}: key invocations.{self.index}"

    @property
    def thing(self) -> tuple[bool, str, str]:
        """What was run: two runs of one thing are repeats."""
        return self.sentinel, self.stack, self.key


@dataclass(frozen=True)
class Withdrawal:
    """An invocation that was taken out of the files, and why (a row of withdrawn.csv)."""

    stack: str
    key: str
    started: str
    reason: str


def withdrawals(folder: Path) -> list[Withdrawal]:
    """The machine's withdrawn invocations; raises ValueError for a file with other columns or text that is not CSV."""
    path = folder / WITHDRAWN
    if not path.exists():
        return []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise ValueError(f"has the columns {', '.join(reader.fieldnames or [])}, not {', '.join(COLUMNS)}")
        rows = [{name: value or "" for name, value in row.items()} for row in reader]
    if any(None in row for row in rows):
        raise ValueError("has a row with more cells than columns")
    return [Withdrawal(**row) for row in rows]
