"""Every claim on every stored machine, judged once: data/derived/verdicts.csv, from which all pages read.

`python -m traintime.book.verdicts` judges again what has changed. A row holds as long as its `basis` does, a hash of
the data and of what the code does that judges it; a row that no longer holds is judged again and never shown.
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
from typing import NamedTuple, get_args

from traintime import paths
from traintime.book import VERDICTS, chapters, kept, original, stored, uses
from traintime.book.claims import NOT_MEASURED, Claim, Judged, Verdict, judge
from traintime.book.processes import die_with_parent
from traintime.book.stored import Measurements

FILE = paths.DERIVED / "verdicts.csv"


class Row(NamedTuple):
    """One claim on one machine. figure: the value that decides, as text; basis: hash of what the verdict rests on."""

    claim: str
    machine: str
    verdict: str
    figure: str
    basis: str


def read(path: Path) -> dict[tuple[str, str], Row]:
    """Rows of a file by claim and machine; none of a file that is missing, damaged or of another version."""
    try:
        first, *lines = csv.reader(io.StringIO(path.read_text()))
        rows = [Row(*line) for line in lines]
    except (OSError, ValueError, TypeError, csv.Error):
        return {}
    if tuple(first) != Row._fields or not {row.verdict for row in rows} <= set(get_args(Verdict)):
        return {}
    return {(row.claim, row.machine): row for row in rows}


@functools.cache
def basis(chapter: str) -> str:
    """Hash of what the chapter's verdicts rest on: all data, and what the judging code and all behind it does."""
    module = chapters.module(chapter)
    return f"{uses.meaning(uses.judging(module), module)}-{_data()}"


@functools.cache
def _data() -> str:
    beside = (FILE, paths.DATA / "faults.csv")  # what tests tried decides no claim
    files = (path for path in paths.DATA.rglob("*") if path.suffix in (".json", ".csv") and path not in beside)
    return kept.digest(files)[:12]


@functools.cache
def _rows() -> dict[tuple[str, str], Row]:
    return read(Path(os.environ.get(VERDICTS) or FILE))


def judge_stored(claim: Claim, machine: str) -> Judged:
    """The claim on a stored machine, judged now.

    Runs that lost time to the host do not count, also those from before that rule: its verdict says so where it rests
    on them.
    """
    book = stored.of(machine)
    judged = judge(claim, book)
    if book.before_the_rule is None:
        return judged
    otherwise = judge(claim, book.before_the_rule).verdict
    if otherwise == judged.verdict:
        return judged
    return replace(judged, figure=f"{judged.figure}; *{otherwise}* {COUNTED}".removeprefix("; "))


COUNTED = "if runs that the host disturbed count, too, as they did before there was a rule against it"


def on(claim: Claim, machine: str) -> Judged:
    """The claim on a stored machine: from the file, or judged now where the file's row does not hold."""
    row = _rows().get((claim.label, machine))
    if row and (os.environ.get(VERDICTS) or row.basis == basis(chapters.of_label(claim.label))):
        return Judged(claim, stored.of(machine).title, row.verdict, row.figure)
    return judge_stored(claim, machine)


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


def rows_of(chapter: str) -> list[Row]:
    """The chapter's claims on every stored machine, judged now."""
    rows = []
    for claim in chapters.of(chapter):
        for machine in stored.named():
            one = judge_stored(claim, machine)
            rows.append(Row(claim.label, machine, one.verdict, one.figure, basis(chapter)))
    return rows


def _holds(row: Row) -> bool:
    return row.basis == basis(chapters.of_label(row.claim))


def stale(rows: dict[tuple[str, str], Row]) -> list[str]:
    """Chapters of which a row is missing, or does not hold any more."""
    left = {chapters.of_label(name[0]) for name in _names() if name not in rows or not _holds(rows[name])}
    return [chapter for chapter in chapters.MODULES if chapter in left]


@functools.cache
def every_claim() -> dict[str, Claim]:
    """Every chapter's claims by label, in their order."""
    return {claim.label: claim for chapter in chapters.MODULES for claim in chapters.of(chapter)}


def _names() -> list[tuple[str, str]]:
    """Claim and machine of each row, in the order of the file."""
    return [(label, machine) for label in every_claim() for machine in stored.named()]


def update(path: Path = FILE, say: Callable[[str], None] = print) -> None:
    """Write a file in which every row holds: those of data/derived that do, and the others judged now.

    Each chapter is written as soon as it is judged, so that a build that is stopped goes on where it was.
    """
    rows = {name: row for each in (FILE, path) for name, row in read(each).items() if _holds(row)}
    _write(path, rows)
    left = stale(rows)
    if not left:
        return
    say(f"Claims of {len(left)} chapters rest on something new: judging them, about {5 * len(left)} s")
    # Two processes of their own: this one may have threads, and a fork of it could hang.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn, initializer=die_with_parent) as pool:
        for count, done in enumerate(as_completed([pool.submit(rows_of, chapter) for chapter in left]), 1):
            rows |= {(row.claim, row.machine): row for row in done.result()}
            _write(path, rows)
            say(f"  {count} of {len(left)} judged")


def _write(path: Path, rows: dict[tuple[str, str], Row]) -> None:
    """Replace the file where it differs; rows in the order of the claims, then of the machines."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([Row._fields, *(rows[name] for name in _names() if name in rows)])
    kept.write_where_it_differs(path, text.getvalue())


if __name__ == "__main__":
    update()
