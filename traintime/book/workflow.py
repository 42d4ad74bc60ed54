"""`make book`: whatever is out of date is judged, run and built again, and nothing else.

What a product rests on is one hash, written to a small file that changes only with it; Snakemake compares those files
with the products and runs what is left.
"""

import functools
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import filelock
import nbformat

from traintime import paths
from traintime.book import VERDICTS, build, execute, kept, numbers, predictions, uses, verdicts
from traintime.book.contents import chapters
from traintime.book.processes import die_with_parent, end_children
from traintime.errors import InputError
from traintime.measuring import sweep
from traintime.store.records import write_atomically

BUILD = paths.BUILD
HTML, JUDGED = BUILD / "html", BUILD / "verdicts.csv"


def make(profile: str) -> None:
    """Bring the pages up to date under a profile of parameters (profiles/*.yaml).

    Raises InputError for an unknown profile or parameter, or while another build runs here; RuntimeError, with the
    chapter and the cell, where one fails. What was done before stays done.
    """
    sweep.plans(profile)
    given = {chapter: execute.parameters(profile, chapter) for chapter in chapters()}
    BUILD.mkdir(exist_ok=True)
    if not os.access(Path.home(), os.W_OK):  # Jupyter and Snakemake keep files in it, and end without
        home = BUILD / "home"
        home.mkdir(exist_ok=True)
        os.environ["HOME"] = str(home)
    builder = BUILD / "builder"  # not the lock itself: who waits for that empties it
    try:
        with filelock.FileLock(BUILD / "lock", timeout=0):
            builder.write_text(str(os.getpid()))
            _make(profile, given)
    except filelock.Timeout:
        problem = f"is being built by process {builder.read_text() if builder.exists() else '?'}"
        raise InputError("make book", "_build", problem, "Wait until it is done.") from None


def _make(profile: str, given: dict[str, dict]) -> None:
    work = BUILD / profile
    verdicts.update(JUDGED, execute.say)
    rows = verdicts.fresh(JUDGED)
    # Of the file of all verdicts a chapter shows its own, and what came of predictions.
    of_all = {verdicts.FILE, verdicts.bases(verdicts.FILE)}
    foretold = {label.lstrip("!") for one in predictions.read() for label in one.claims.split()}
    came = [row for its in rows.values() for row in its if row.claim in foretold]
    for chapter, notebook in chapters().items():
        expressions = numbers.named(nbformat.read(notebook, as_version=4))
        rests_on = (uses.run(notebook, of_all), expressions, given[chapter], rows[chapter], came)
        _write(work / "inputs" / chapter, *rests_on)
    _write(work / "inputs" / "figures", uses.digest(uses.closure(["traintime.book.figures"])))
    _write(BUILD / "inputs", profile, uses.digest(uses.closure(["traintime.book.build"]), *_pages()))
    if not (HTML / "index.html").exists():
        (BUILD / "built").unlink(missing_ok=True)
    left, seconds = execute.stale(work), execute.durations(work)
    write_atomically(work / "plan.json", json.dumps({"book": list(given), "seconds": seconds}))
    if left:
        execute.say(f"{len(left)} of {len(given)} chapters to run, {execute.about(left, seconds)}; then the pages")
    _snakemake(profile)


def _pages() -> Iterable[Path]:
    """What the pages are built from, besides what chapters ran to, the figures and what makes the HTML: texts and
    styles.
    """
    texts = (*build.PAGES, "_toc.yml", "_config.yml", "references.bib", "CITATION.cff")
    yield from (paths.ROOT / name for name in texts)
    yield from chapters().values()
    for folder in ("_static", "traintime/book/calculator"):
        yield from (paths.ROOT / folder).rglob("*.*")


def _snakemake(profile: str) -> None:
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--quiet", "all", "--rerun-triggers", "mtime"]
    # The lock above guards this folder, and ends with its process however that ends; Snakemake's would stay.
    command += ["--nolock", "--rerun-incomplete", "--keep-going", "--config", f"profile={profile}"]
    # What was judged above holds for all of it: no chapter and no page judges anew.
    told = os.environ | {VERDICTS: str(JUDGED)}
    # Snakemake catches a mild signal, and where that comes at a bad moment it waits for its own lock for ever.
    ends = functools.partial(die_with_parent, signal.SIGKILL)
    try:
        answer = subprocess.Popen(command, cwd=paths.ROOT, env=told, preexec_fn=ends).wait()
    except BaseException:
        end_children()  # Snakemake by itself would wait for the chapters that run
        raise
    if answer:
        raise RuntimeError("the book was not built; see the errors above. The pages are as they were before")


def _write(path: Path, *rests_on: object) -> None:
    """Write the hash of what a product rests on."""
    kept.write_where_it_differs(path, hashlib.sha256(repr(rests_on).encode()).hexdigest() + "\n")
