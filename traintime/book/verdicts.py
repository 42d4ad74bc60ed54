"""Every claim on every stored machine, judged once: data/derived/verdicts.csv, from which all pages read.

A claim is a call of `lab.judge` in a chapter's notebook. One kernel runs the notebook for all machines, one after the
other, but for the cells tagged `here`, which time something on this machine or show what a page alone shows.

`python -m traintime.book.verdicts` judges the chapters again whose verdicts rest on something that has changed: next to
the file, judged.csv keeps each chapter's `basis`, a hash of that.
"""

import ast
import csv
import functools
import hashlib
import io
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from traintime import lab, paths
from traintime.book import VERDICTS, contents, kept, uses
from traintime.book.processes import die_with_parent
from traintime.errors import InputError
from traintime.store import derived, machines

FILE, CLOSED = paths.DERIVED / "verdicts.csv", paths.DATA / "closed.csv"
BASIS = ("chapter", "basis")  # columns of judged.csv
HERE = "here"
FIGURES, ARITHMETIC = "published figures", "arithmetic"  # in the place of a machine, where a claim needs none
NOT_MEASURED = "not measured"
DECIDED = ("holds", "does not hold")
COUNTED = "if runs that the host disturbed count, too, as they did before there was a rule against it"


class Claim(NamedTuple):
    """A sentence that a chapter judges. source, on: as `lab.judge` has them; of two calls for one claim both `on`."""

    label: str
    chapter: str
    sentence: str
    source: str
    on: tuple[str, ...]


class Row(NamedTuple):
    """One claim on one machine, or on what it needs in its place. figure: the value that decides, as text."""

    claim: str
    machine: str
    verdict: str
    figure: str

    @property
    def title(self) -> str:
        """The machine's name as a reader sees it."""
        return machines.titles().get(self.machine, self.machine)


# Which claims there are


@functools.cache
def claims() -> dict[str, Claim]:
    """Every chapter's claims by label, in their order. Raises InputError for a label that is used twice, or closed."""
    found = {}
    for chapter, notebook in contents.chapters().items():
        for claim in of_notebook(chapter, notebook):
            if claim.label in found or claim.label in closed():
                remedy = "Give yours a number that neither a chapter nor data/closed.csv has."
                raise InputError("claim", claim.label, "is the number of another claim", remedy)
            found[claim.label] = claim
    return found


def of_notebook(chapter: str, notebook: Path) -> list[Claim]:
    """What a notebook judges, in the order of the numbers: each call of lab.judge, with what it says of the claim.

    Raises InputError where two calls for one claim have other sentences or sources.
    """
    tree = ast.parse(uses.code_of(notebook, without=HERE))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "lab.judge"]
    found: dict[str, Claim] = {}
    for call in calls:
        label, sentence = (ast.literal_eval(argument) for argument in call.args[:2])
        given = {"source": "ours", "on": ""} | {each.arg: ast.literal_eval(each.value) for each in call.keywords}
        said = Claim(label, chapter, " ".join(sentence.split()), given["source"], ())
        before = found.get(label, said)
        if before._replace(on=()) != said:
            raise InputError("claim", label, "has two sentences or sources", "Give both calls of lab.judge the same.")
        found[label] = before._replace(on=(*before.on, given["on"]))
    return sorted(found.values(), key=lambda claim: int(claim.label.rpartition(".")[2]))


# What comes of them


def judged(chapter: str, notebook: Path | None = None) -> list[Row]:
    """The chapter's claims on every stored machine, judged now.

    Runs that lost time to the host do not count, also those from before that rule: a verdict says so where it rests on
    them. Raises PapermillExecutionError where the notebook fails.
    """
    notebook = notebook or contents.chapters()[chapter]
    late = derived.read("runs").query("late")["folder"].unique()
    asked = [
        (name, otherwise) for otherwise in (False, True) for name in machines.titles() if not otherwise or name in late
    ]
    came, rows = _executed(notebook, asked), []
    nothing = NOT_MEASURED, ""
    for claim in of_notebook(chapter, notebook):
        for on in {*claim.on} & {FIGURES, ARITHMETIC}:
            rows.append(Row(claim.label, on, *came[machines.reference(), False].get((claim.label, on), nothing)))
        for name, title in machines.titles().items() if {*claim.on} - {FIGURES, ARITHMETIC} else ():
            its = claim.label, ""
            verdict, figure = came[name, False].get(its, nothing) if {"", title} & {*claim.on} else nothing
            otherwise = came.get((name, True), {its: (verdict, "")}).get(its, nothing)[0]
            if otherwise != verdict and verdict != NOT_MEASURED:
                figure = f"{figure}; *{otherwise}* {COUNTED}".removeprefix("; ")
            rows.append(Row(claim.label, name, verdict, figure))
    return rows


Came = dict[tuple[str, str], tuple[str, str]]  # verdict and figure, by label and what needs no machine


def _executed(notebook: Path, asked: Sequence[tuple[str, bool]]) -> dict[tuple[str, bool], Came]:
    """What came of the claims for each machine that is asked for; and whether runs count, too, that counted before a
    rule which is younger than they.
    """
    import nbformat  # here: on Colab, which judges nothing, there is no papermill

    from traintime.book import execute

    made = nbformat.read(notebook, as_version=4)
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    given = [cell.source for cell in code if "parameters" in cell.metadata.get("tags", [])]
    judging = [cell.source for cell in code if not {"parameters", HERE} & {*cell.metadata.get("tags", [])}]
    made.cells = []
    for name, late in asked:
        again = f"from traintime import lab\nlab.late = {late}\nlab.gone.clear()"
        for text in ("%reset -f", again, *given, f"machine = {machines.titles()[name]!r}", *judging):
            made.cells.append(nbformat.v4.new_code_cell(text, metadata={"of": (name, late)}))
    with tempfile.TemporaryDirectory() as folder:
        asking = Path(folder, "asking.ipynb")
        nbformat.write(made, asking)
        cells = execute.by_papermill(asking, Path(folder, "executed.ipynb"), {}).cells
    found: dict[tuple[str, bool], Came] = {one: {} for one in asked}
    for cell in cells:
        for output in cell.outputs:
            if its := output.get("data", {}).get(lab.VERDICT):
                on = its["on"] if its["on"] in (FIGURES, ARITHMETIC) else ""
                found[tuple(cell.metadata["of"])][its["claim"], on] = its["verdict"], its["figure"]
    return found


# The file


@functools.cache
def basis(chapter: str, notebook: Path | None = None) -> str:
    """Hash of what the chapter's verdicts rest on: the code of its cells, the modules behind them, and their data."""
    code = uses.code_of(notebook or contents.chapters()[chapter], without=HERE)
    behind = uses.digest(uses.imported(code), without={FILE, bases(FILE)})
    return hashlib.sha256(f"{behind} {code}".encode()).hexdigest()[:12]


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


def read(path: Path) -> dict[str, list[Row]]:
    """Rows of a file by claim; none of a file that is missing or damaged."""
    found: dict[str, list[Row]] = {}
    for line in _lines(path, Row._fields):
        found.setdefault(line[0], []).append(Row._make(line))
    return found


def fresh(path: Path) -> dict[str, list[Row]]:
    """The rows of a file that rest on today's data and code, by chapter."""
    given, rows, found = dict(_lines(bases(path), BASIS)), read(path), {}
    for chapter in contents.chapters():
        labels = [claim.label for claim in claims().values() if claim.chapter == chapter]
        if given.get(chapter) == basis(chapter) and rows.keys() >= set(labels):
            found[chapter] = [row for label in labels for row in rows[label]]
    return found


def update(path: Path = FILE, say: Callable[[str], None] = print) -> None:
    """Write a file of which every row is fresh: those of data/derived that are, and the others judged now.

    Each chapter is written as soon as it is judged, so that a build that is stopped goes on where it was.
    """
    rows = fresh(FILE) | fresh(path)
    _write(path, rows)
    if not (left := [chapter for chapter in contents.chapters() if chapter not in rows]):
        return
    say(f"Judging claims that rest on something new: chapters left {len(left)}, about {5 * len(left)} s")
    # Two processes of their own: this one may have threads, and a fork of it could hang.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn, initializer=die_with_parent) as pool:
        futures = {pool.submit(judged, chapter): chapter for chapter in left}
        for count, done in enumerate(as_completed(futures), 1):
            rows[futures[done]] = done.result()
            _write(path, rows)
            say(f"  {count} of {len(left)} judged")


def _write(path: Path, rows: dict[str, list[Row]]) -> None:
    """Replace the files where they differ; rows in the order of the chapters."""
    done = [chapter for chapter in contents.chapters() if chapter in rows]
    written = {
        path: [Row._fields, *(row for chapter in done for row in rows[chapter])],
        bases(path): [BASIS, *((chapter, basis(chapter)) for chapter in done)],
    }
    for file, lines in written.items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        kept.write_where_it_differs(file, text.getvalue())


# What pages show


def deciding(label: str) -> list[Row]:
    """The claim's rows, but for machines that have not measured it."""
    return [row for row in every(label) if row.verdict != NOT_MEASURED]


def every(label: str) -> list[Row]:
    """The claim's rows, of a closed claim as they were last."""
    return _shown().get(label) or closed().get(label, [])


@functools.cache
def _shown() -> dict[str, list[Row]]:
    return read(Path(os.environ.get(VERDICTS) or FILE))


@functools.cache
def closed() -> dict[str, list[Row]]:
    """The last verdicts on claims that the book no longer judges, by label (data/closed.csv)."""
    rows = pd.read_csv(CLOSED, dtype=str, keep_default_na=False)[list(Row._fields)]
    return {label: [Row(*each) for each in group.itertuples(index=False)] for label, group in rows.groupby("claim")}


def once() -> dict[str, str]:
    """The labels that claims had when they were named after their chapters' numbers, by today's."""
    return pd.read_csv(paths.DATA / "labels.csv", dtype=str, index_col="claim")["once"].to_dict()


def said(label: str) -> list[str]:
    """The claim's verdicts as lines of text, one for machines that say the same."""
    saying: dict[tuple[str, str], list[str]] = {}
    for row in deciding(label):
        saying.setdefault((row.verdict, row.figure), []).append(row.title)
    return [
        f"{', '.join(titles)}: **{verdict}**{', ' if figure else ''}{lab.in_words(figure)}"
        for (verdict, figure), titles in saying.items()
    ] or [NOT_MEASURED]


if __name__ == "__main__":
    update()
