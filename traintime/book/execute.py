"""Run chapters with papermill, for their pages; how far a build is, and how long the rest will take."""

import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import filelock
import nbformat
import papermill
from nbclient.exceptions import DeadKernelError
from papermill.execute import remove_error_markers
from papermill.iorw import load_notebook_node

from traintime import paths
from traintime.book import PROFILE, numbers
from traintime.book.contents import chapters
from traintime.errors import unknown
from traintime.measuring import sweep

# Errors of a cell after which a notebook goes on, see lab.NotMeasured.
ALLOWED = ["NotMeasured", "NameError", "ModuleNotFoundError"]
WIDEST = 79  # characters of a line of code that fit a page
# What TensorFlow logs of itself on some processors, whatever its level of logs is (2.21): no warning, and no result.
LOGGED = re.compile(r"^(WARNING: All log messages|To enable the follow|I\d{4} \S+ +\d+ \S+:\d+\]).*\n?", re.MULTILINE)
USUAL_S = (20, 60)  # seconds of a chapter that has never run here, on the fastest and the slowest of our machines


def taking_turns() -> Callable[..., None]:
    """What nbclient calls before each cell: one that times something, tagged `alone`, waits until no other chapter's
    cell runs, and while it runs, none does. A kernel starts as an ordinary cell runs.
    """
    turn = filelock.ReadWriteLock(paths.BUILD / "turn")
    turn.acquire_read()

    def begin(cell: nbformat.NotebookNode, cell_index: int) -> None:
        turn.release()
        (turn.acquire_write if "alone" in cell.metadata.get("tags", []) else turn.acquire_read)()

    return begin


def parameters(profile: str, chapter: str) -> dict[str, Any]:
    """What the profile sets for the chapter; raises InputError for a name that the chapter does not declare."""
    if chapter not in chapters():
        raise unknown("chapter", chapter, list(chapters()))
    settings = sweep.load_profile(profile).get("chapters", {})
    for name in settings:
        if name not in chapters():
            raise unknown("chapter in a profile", name, list(chapters()))
    given = settings.get(chapter) or {}
    declared = papermill.inspect_notebook(str(chapters()[chapter]))
    for name in given:
        if name not in declared:
            raise unknown(f"parameter of {chapter}", name, sorted(declared))
    return given


def run_chapter(chapter: str, profile: str, output: Path) -> None:
    """Execute a chapter into `output`; nothing is left there unless it ran to its end.

    Raises RuntimeError with the cell's own error where the chapter fails.
    """
    given = parameters(profile, chapter)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        aside, asking = Path(folder, f"{chapter}.ipynb"), Path(folder, f"{chapter}-asking.ipynb")
        nbformat.write(numbers.with_cell(nbformat.read(chapters()[chapter], as_version=4)), asking)
        try:
            with mock.patch.dict(os.environ, {PROFILE: profile}):
                notebook = by_papermill(asking, aside, given, on_cell_start=taking_turns())
        except papermill.PapermillExecutionError as error:
            raise RuntimeError(f"{chapter} failed in cell {error.exec_count}: {error.ename}: {error.evalue}") from None
        except DeadKernelError:
            cells = load_notebook_node(str(aside)).cells
            running = [cell.source for cell in cells if cell.metadata.get("papermill", {}).get("status") == "running"]
            where = f"in the cell {running[0].strip().splitlines()[0]!r}" if running else "between two cells"
            raise RuntimeError(f"{chapter}: its kernel ended by itself {where}; was there too little memory?") from None
        prepare_page(notebook, given)
        nbformat.write(notebook, aside)
        aside.replace(output)


def by_papermill(asking: Path, executed: Path, given: dict[str, Any], **hooks: Any) -> nbformat.NotebookNode:
    """The notebook executed with these parameters; a cell that is not measured (lab.NotMeasured), or that lacks its
    framework, says so, and the others go on. hooks: of nbclient.

    Raises PapermillExecutionError where a cell fails for another reason.
    """
    try:
        papermill.execute_notebook(
            str(asking),
            str(executed),
            parameters=given,
            kernel_name="python3",
            cwd=str(paths.ROOT),
            progress_bar=False,
            execution_timeout=None,
            autosave_cell_every=0,
            extra_arguments=["--IPKernelApp.log_level=50"],  # its own words; cells say theirs
            allow_error_names=ALLOWED,
            **hooks,
        )
    except papermill.PapermillExecutionError as error:
        if error.ename not in ALLOWED:
            raise
    notebook = remove_error_markers(load_notebook_node(str(executed)))
    gone: set[str] = set()
    for number, cell in enumerate(notebook.cells):
        for error in [output for output in cell.get("outputs", []) if output.output_type == "error"]:
            from traintime import lab  # here: it imports much, and few pages lack a run

            named = re.search(r"'(\w+)'", error.evalue)
            known = {"NameError": gone, "ModuleNotFoundError": lab.FRAMEWORKS}.get(error.ename)
            if known is not None and not (named and named[1] in known):
                told = (cell.source, error.ename, error.evalue, error.traceback)
                raise papermill.PapermillExecutionError(number, cell.execution_count, *told)
            gone |= lab.given_by(cell.source, error.ename == "ModuleNotFoundError")
            said = {"text/markdown": f"*Not measured*: {error.evalue}"}
            cell.outputs = [nbformat.v4.new_output("display_data", said)]
    return notebook


def prepare_page(notebook: nbformat.NotebookNode, given: dict[str, Any]) -> None:
    """What a reader of the page should not see: papermill's injected cell, logs, where this machine keeps its files."""
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        for output in [each for each in cell.get("outputs", []) if each.get("name") == "stderr"]:
            output.text = LOGGED.sub("", output.text)
            if not output.text.strip():
                cell.outputs.remove(output)
        if "injected-parameters" in tags:
            cell.metadata["tags"] = [*tags, "remove-cell"]
        elif "parameters" in tags and given:
            # The parameters cell shows what this page ran with, at its place and with its comments.
            cell.source = with_values(cell.source, given)
    for name in ("input_path", "output_path"):
        notebook.metadata.get("papermill", {}).pop(name, None)


def with_values(source: str, given: dict[str, Any]) -> str:
    """The source of a parameters cell, one `name = value  # comment` a line, with these values for the defaults."""
    lines = []
    for line in source.splitlines():
        match = re.match(r"(\w+)\s*=\s*.*?(\s+# .*)?$", line)
        if match and match[1] in given:
            value, comment = given[match[1]], match[2] or ""
            line = f"{match[1]} = {value!r}{comment}"
            if len(line) > WIDEST and isinstance(value, list):
                line = "\n".join([f"{match[1]} = [{comment}", *(f"    {one!r}," for one in value), "]"])
        lines.append(line)
    return "\n".join(lines)


def stale(work: Path) -> list[str]:
    """Chapters that are to be run."""
    made = {chapter: work / "executed" / f"{chapter}.ipynb" for chapter in chapters()}
    changed = {chapter: (work / "inputs" / chapter).stat().st_mtime for chapter in made}
    return [name for name, page in made.items() if not page.exists() or page.stat().st_mtime < changed[name]]


def durations(work: Path) -> dict[str, float]:
    """What each chapter took when it last ran here, s."""
    made = (work / "executed").glob("*.ipynb")
    return {path.stem: json.loads(path.read_text())["metadata"]["papermill"]["duration"] for path in made}


def about(left: Iterable[str], seconds: dict[str, float]) -> str:
    """How long these chapters will take, two at a time. seconds: what chapters took before, with their waiting; one
    that never ran here has a range.
    """
    ends = []
    for end in (0, 1):
        total = sum(seconds.get(chapter, USUAL_S[end]) for chapter in left) / 2
        ends.append(f"{total / 60:.0f} min" if total > 100 else f"{10 * math.ceil(total / 10)} s")
    return f"about {ends[0]}" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def say_how_far(work: Path, chapter: str, took_s: float) -> None:
    """Say that a chapter is done, how many are left, and about how long those take."""
    plan = json.loads((work / "plan.json").read_text())
    left = [name for name in stale(work) if name != chapter]
    seconds = plan["seconds"] | durations(work) | {chapter: took_s}
    rest = f"{len(left)} left, {about(left, seconds)}" if left else "now the pages"
    say(f"{chapter} ran in {took_s:.0f} s; {rest}")


def say(line: str) -> None:
    """Print a line at once, also into a pipe."""
    print(line, flush=True)
