"""Every claim on every stored machine, judged once: data/derived/verdicts.csv, from which all pages read.

`python -m traintime.book.verdicts` judges the chapters again whose verdicts rest on something that has changed: next to
the file, judged.csv keeps each chapter's `basis`, a hash of that. A verdict on an old basis is never shown.
"""

import csv
import functools
import io
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from traintime import paths
from traintime.book import VERDICTS, chapters, kept, notebooks, original, stored, uses
from traintime.book.claims import NOT_MEASURED, Claim, Judged, judge
from traintime.book.processes import die_with_parent
from traintime.book.stored import Measurements
from traintime.errors import InputError

FILE, CLOSED = paths.DERIVED / "verdicts.csv", paths.DATA / "closed.csv"
BASIS = ("chapter", "basis")  # columns of judged.csv


class Row(NamedTuple):
    """One claim on one machine. figure: the value that decides, as text."""

    claim: str
    machine: str
    verdict: str
    figure: str


def bases(path: Path) -> Path:
    """The file next to a file of verdicts that says what they rest on: a hash for each chapter."""
    return path.with_name("judged.csv")


def _lines(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Rows of a file; none of one that is missing or damaged, as by a merge."""
    try:
        _, *lines = csv.reader(io.StringIO(path.read_text()))
    except (OSError, ValueError):
        return []
    return lines if all(len(line) == len(columns) for line in lines) else []


def read(path: Path) -> dict[tuple[str, str], Row]:
    """Rows of a file by claim and machine; none of a file that is missing or damaged."""
    return {(row.claim, row.machine): row for row in map(Row._make, _lines(path, Row._fields))}


def fresh(path: Path) -> dict[tuple[str, str], Row]:
    """The rows of a file that rest on today's data and code."""
    given = dict(_lines(bases(path), BASIS))
    known = {chapter for chapter in chapters.MODULES if given.get(chapter) == basis(chapter)}
    return {name: row for name, row in read(path).items() if chapters.of_label(row.claim) in known}


@functools.cache
def basis(chapter: str) -> str:
    """Hash of what the chapter's verdicts rest on: its judging code, all behind it, and the data that they read."""
    without = {FILE, bases(FILE)}
    if not chapters.MODULES[chapter]:
        return notebooks.basis(chapter, without)[:12]
    return uses.digest(uses.closure([chapters.module(chapter)], showing=False), without=without)[:12]


@functools.cache
def _rows() -> dict[tuple[str, str], Row]:
    return read(Path(told)) if (told := os.environ.get(VERDICTS)) else fresh(FILE)


def judge_stored(claim: Claim, machine: str) -> Judged:
    """The claim on a stored machine, judged now.

    Runs that lost time to the host do not count, also those from before that rule: its verdict says so where it rests
    on them.
    """
    book = stored.of(machine)
    judged, before = judge(claim, book), book.before_the_rule
    otherwise = judge(claim, before).verdict if before else judged.verdict
    if otherwise == judged.verdict:
        return judged
    return replace(judged, figure=f"{judged.figure}; *{otherwise}* {COUNTED}".removeprefix("; "))


COUNTED = "if runs that the host disturbed count, too, as they did before there was a rule against it"


def on(claim: Claim, machine: str) -> Judged:
    """The claim on a stored machine: from the file, or judged now where the file's row does not hold."""
    row = _rows().get((claim.label, machine))
    if row:
        return Judged(claim, stored.of(machine).title, row.verdict, row.figure)
    return judge_stored(claim, machine)


@functools.cache
def closed() -> dict[tuple[str, str], Judged]:
    """The last verdicts on claims that the book no longer judges, by label and machine (data/closed.csv)."""
    found = {}
    with CLOSED.open(newline="") as file:
        for row in csv.DictReader(file):
            claim = Claim(row["claim"], row["sentence"], lambda book: None, row["source"])
            title = stored.named().get(row["machine"], {"title": row["machine"]})["title"]
            found[row["claim"], row["machine"]] = Judged(claim, title, row["verdict"], row["figure"])
    return found


def of_label(label: str, machine: str) -> Judged:
    """The claim of a label on a stored machine; of one that was closed its last verdict there.

    Raises KeyError for a label that no claim has or had.
    """
    if label in every_claim():
        return on(every_claim()[label], machine)
    if (label, machine) in closed():
        return closed()[label, machine]
    elsewhere = {name: one for (name, _), one in closed().items()}[label]
    return replace(elsewhere, machine=stored.named()[machine]["title"], verdict=NOT_MEASURED, figure="")


def everywhere(claim: Claim) -> list[Judged]:
    """The claim on every stored machine; where none measured it, on published figures or by arithmetic if that does."""
    return _or_without([on(claim, machine) for machine in stored.named()])


def _or_without(found: list[Judged]) -> list[Judged]:
    if any(one.verdict != NOT_MEASURED for one in found):
        return found
    each = (judge(found[0].claim, original.document(kind)) for kind in (original.FIGURES, original.ARITHMETIC))
    return [one for one in each if one.verdict != NOT_MEASURED] or found


def judged(claims: Sequence[Claim], run: Measurements | None = None) -> list[list[Judged]]:
    """Each claim on every machine that the book shows, and on this run where one is given; a list a claim. One that
    none of them measured, as it needs no machine, is judged by what it needs (`everywhere`).

    A machine that ran some sweeps only is left out where it decides none of the claims, and so are the others where
    one that did is all that decides.
    """
    found = {machine: [on(claim, machine) for claim in claims] for machine in stored.named()}
    deciding = [machine for machine in found if any(one.verdict != NOT_MEASURED for one in found[machine])]
    in_part = [machine for machine in deciding if machine not in stored.listed()]
    shown = [machine for machine in found if machine in deciding or (machine in stored.listed() and not in_part)]
    columns = [found[machine] for machine in shown]
    if run is not None:
        columns.append([judge(claim, run) for claim in claims])
    return [_or_without(list(row)) for row in zip(*columns, strict=True)]


def rows_of(chapter: str) -> dict[tuple[str, str], Row]:
    """The chapter's claims on every stored machine, judged now, by claim and machine."""
    each = ((claim.label, name, judge_stored(claim, name)) for claim in chapters.of(chapter) for name in stored.named())
    return {(label, name): Row(label, name, one.verdict, one.figure) for label, name, one in each}


def stale(rows: dict[tuple[str, str], Row]) -> list[str]:
    """Chapters of which a row is missing."""
    left = {chapters.of_label(name[0]) for name in _names() if name not in rows}
    return [chapter for chapter in chapters.MODULES if chapter in left]


@functools.cache
def every_claim() -> dict[str, Claim]:
    """Every chapter's claims by label, in their order. Raises InputError for the number of one that was closed."""
    found = {claim.label: claim for chapter in chapters.MODULES for claim in chapters.of(chapter)}
    if used := found.keys() & {label for label, _ in closed()}:
        remedy = "Give yours a number that neither the chapter nor data/closed.csv has."
        raise InputError("claim", min(used), "is the number of a claim that was closed", remedy)
    return found


def _names() -> list[tuple[str, str]]:
    """Claim and machine of each row, in the order of the file."""
    return [(label, machine) for label in every_claim() for machine in stored.named()]


def update(path: Path = FILE, say: Callable[[str], None] = print) -> None:
    """Write a file of which every row is fresh: those of data/derived that are, and the others judged now.

    Each chapter is written as soon as it is judged, so that a build that is stopped goes on where it was.
    """
    rows = fresh(FILE) | fresh(path)
    _write(path, rows)
    if not (left := stale(rows)):
        return
    say(f"Claims of {len(left)} chapters rest on something new: judging them, about {5 * len(left)} s")
    # Two processes of their own: this one may have threads, and a fork of it could hang.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn, initializer=die_with_parent) as pool:
        for count, done in enumerate(as_completed([pool.submit(rows_of, chapter) for chapter in left]), 1):
            rows |= done.result()
            _write(path, rows)
            say(f"  {count} of {len(left)} judged")


def _write(path: Path, rows: dict[tuple[str, str], Row]) -> None:
    """Replace the files where they differ; rows in the order of the claims, then of the machines."""
    done = [chapter for chapter in chapters.MODULES if chapter not in stale(rows)]
    written = {
        path: [Row._fields, *(rows[name] for name in _names() if name in rows)],
        bases(path): [BASIS, *((chapter, basis(chapter)) for chapter in done)],
    }
    for file, lines in written.items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        kept.write_where_it_differs(file, text.getvalue())


if __name__ == "__main__":
    update()
