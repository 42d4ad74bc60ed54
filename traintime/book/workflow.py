"""`make book`: whatever is out of date is measured, run and built again, and nothing else.

What a product rests on is one hash, written to a small file that changes only with it; Snakemake compares those files
with the products and runs what is left. Measuring comes first and alone: nothing may run at the same time.
"""

import ast
import contextlib
import functools
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest import mock

import filelock

from traintime import paths
from traintime.book import PROFILE, RESULTS, VERDICTS, build, execute, kept, run, uses, verdicts
from traintime.book.contents import chapters
from traintime.book.processes import die_with_parent, end_children
from traintime.errors import InputError
from traintime.measuring import sweep
from traintime.store.records import write_atomically

BUILD = paths.BUILD
HTML, JUDGED = BUILD / "html", BUILD / "verdicts.csv"
MEASURES = re.compile(r"\w+ = run\.run\(")  # the one call in a chapter that measures


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
    measured = _measure(profile, work / "results")
    rows = verdicts.fresh(JUDGED)
    for chapter, notebook in chapters().items():
        of_chapter = rows[chapter]
        _write(work / "inputs" / chapter, uses.page(notebook), given[chapter], measured[chapter], of_chapter)
    _write(work / "inputs" / "figures", uses.digest(uses.closure(["traintime.book.figures"])))
    _write(BUILD / "inputs", profile, uses.digest(uses.closure(["traintime.book.build"]), *_pages()))
    if not (HTML / "index.html").exists():
        (BUILD / "built").unlink(missing_ok=True)
    left, seconds = execute.stale(work), execute.durations(work)
    write_atomically(
        work / "plan.json", json.dumps({"book": list(given), "alone": execute.alone(), "seconds": seconds})
    )
    if left:
        execute.say(f"{len(left)} of {len(given)} chapters to run, {execute.about(left, seconds)}; then the pages")
    _snakemake(profile)


def _pages() -> Iterable[Path]:
    """What the pages are built from, besides the chapters, the figures and what makes the HTML: texts and styles."""
    texts = (*build.PAGES, "_toc.yml", "_config.yml", "references.bib", "CITATION.cff")
    yield from (paths.ROOT / name for name in texts)
    for folder in ("_static", "traintime/book/calculator"):
        yield from (paths.ROOT / folder).rglob("*.*")


def _measure(profile: str, results: Path) -> dict[str, str]:
    """Measure what the chapters measure and has not been measured; a hash of what there is, for each chapter."""
    with_runs = [chapter for chapter in chapters() if measuring_part(chapter)]
    for count, chapter in enumerate(with_runs, 1):
        start, lines = time.monotonic(), []
        title = f"Measuring {count} of {len(with_runs)}: {chapter}"

        def follow(line: str, lines: list[str] = lines, title: str = title) -> None:
            lines.append(line)
            if sys.stdout.isatty():
                print(f"\r\033[K{title}, {line}"[:119], end="", flush=True)

        measure_chapter(chapter, profile, results / chapter, follow)
        if lines:
            erase = "\r\033[K" if sys.stdout.isatty() else ""
            execute.say(f"{erase}{title}, {len(lines)} runs in {time.monotonic() - start:.0f} s")
    return {chapter: kept.digest((results / chapter).rglob("*.json")) for chapter in chapters()}


def measuring_part(chapter: str) -> str:
    """The statements of the chapter that its measuring call needs, as source; "" where it measures nothing.

    They are found backwards from the call, by the names that each one needs: what only draws is not among them, so
    that a changed figure measures nothing again.
    """
    needed: set[str] = set()
    part: list[str] = []
    for node in reversed(ast.parse(uses.code_of(chapters()[chapter])).body):
        text = ast.unparse(node)
        if (not part and MEASURES.match(text)) or needed & uses.names(node, ast.Store):
            needed |= uses.names(node, ast.Load)
            part.insert(0, text)
    return "\n".join(part)


def measure_chapter(chapter: str, profile: str, results: Path, say: Callable[[str], None]) -> None:
    """Measure what the chapter measures, and nothing that lies in `results` already.

    In this very process: the statements that plan it are few, and a kernel would have to import the package first.
    say: called with a line for each invocation. Raises RuntimeError with the chapter's own error.
    """
    part = execute.with_values(measuring_part(chapter), execute.parameters(profile, chapter))
    told = {RESULTS: str(results), PROFILE: profile}
    with mock.patch.dict(os.environ, told), contextlib.redirect_stdout(io.StringIO()):
        run.follow = say
        try:
            exec(compile(part, chapter, "exec"), {"__name__": chapter})
        except InputError:
            raise
        except Exception as error:
            raise RuntimeError(f"{chapter} failed while measuring: {type(error).__name__}: {error}") from error


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
