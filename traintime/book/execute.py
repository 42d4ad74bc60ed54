"""Run chapters with papermill: first what they measure, then all of them, for their pages."""

import contextlib
import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import papermill
import yaml
from papermill.iorw import load_notebook_node

from traintime import paths
from traintime.book import PROFILE, PROGRESS, RESULTS
from traintime.errors import unknown
from traintime.measuring import sweep

WIDEST = 79  # characters of a line of code that fit a page
MEASURES = re.compile(r"^\w+ = run\.run\(", re.MULTILINE)  # the one call in a chapter that measures


def chapters() -> dict[str, Path]:
    """Source notebook of every chapter in the table of contents, by name, in reading order."""
    contents = yaml.safe_load((paths.ROOT / "_toc.yml").read_text())
    files = [chapter["file"] for part in contents["parts"] for chapter in part["chapters"]]
    notebooks = [paths.ROOT / f"{file}.ipynb" for file in files if file.startswith("chapters/")]
    return {path.stem: path for path in notebooks}


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


def measuring_part(chapter: str) -> nbformat.NotebookNode | None:
    """The chapter's code up to the cell that measures, as a notebook; None where it measures nothing."""
    notebook = nbformat.read(chapters()[chapter], as_version=4)
    places = [n for n, cell in enumerate(notebook.cells) if cell.cell_type == "code" and MEASURES.search(cell.source)]
    if not places:
        return None
    notebook.cells = [cell for cell in notebook.cells[: places[-1] + 1] if cell.cell_type == "code"]
    return notebook


def measuring_digest(chapter: str) -> str:
    """Changes with the code up to the cell that measures; a changed sentence or figure leaves it as it is."""
    part = measuring_part(chapter)
    code = "\0".join(cell.source for cell in part.cells) if part else ""
    return hashlib.sha256(code.encode()).hexdigest()


def measure_chapter(chapter: str, profile: str, stamp: Path, results: Path) -> None:
    """Measure what the chapter measures, and nothing that lies in `results` already; write the stamp when done.

    Raises RuntimeError with the cell's own error where the chapter fails.
    """
    part = measuring_part(chapter)
    stamp.unlink(missing_ok=True)
    if part is not None:
        results.mkdir(parents=True, exist_ok=True)
        source = results / f"measuring-{chapter}.ipynb"
        nbformat.write(part, source)
        _execute(chapter, source, source, parameters(profile, chapter), profile, results)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.touch()


def run_chapter(chapter: str, profile: str, output: Path, results: Path) -> None:
    """Execute a chapter into `output`; nothing is left there unless it ran to its end.

    results: folder of what the chapter measures; what lies there and was measured with the same sources, software and
    plan is used again (see run.results_folder).
    Raises RuntimeError with the cell's own error where the chapter fails.
    """
    given = parameters(profile, chapter)
    source = chapters()[chapter]
    results.mkdir(parents=True, exist_ok=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    aside = results / source.name
    started = time.monotonic()
    _execute(chapter, source, aside, given, profile, results)
    notebook = load_notebook_node(str(aside))
    prepare_page(notebook, given)
    nbformat.write(notebook, aside)
    aside.replace(output)
    print(f"[{chapter}] done in {time.monotonic() - started:.0f} s", flush=True)


def _execute(chapter: str, source: Path, aside: Path, given: dict[str, Any], profile: str, results: Path) -> None:
    environment = {RESULTS: str(results), PROFILE: profile, PROGRESS: str(results / "progress.log")}
    print(f"[{chapter}] running under profile {profile}", flush=True)
    with _environment(environment), _echo(Path(environment[PROGRESS]), f"[{chapter}] "):
        try:
            papermill.execute_notebook(
                str(source),
                str(aside),
                parameters=given,
                kernel_name="python3",
                cwd=str(paths.ROOT),
                progress_bar=False,
                execution_timeout=None,  # a sweep has timeouts of its own, one an invocation
                autosave_cell_every=0,
            )
        except papermill.PapermillExecutionError as error:
            raise RuntimeError(f"{chapter} failed in cell {error.exec_count}: {error.ename}: {error.evalue}") from None


def prepare_page(notebook: nbformat.NotebookNode, given: dict[str, Any]) -> None:
    """What a reader of the page should not see: papermill's injected cell, and where this machine keeps its files."""
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
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


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """These variables for the kernel that papermill starts."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _echo(log: Path, prefix: str) -> Iterator[None]:
    """Print the kernel's progress lines as they come: a notebook's own output stays in the notebook."""
    log.write_text("")
    finished = threading.Event()

    def follow() -> None:
        with log.open() as file:
            while True:
                last_look = finished.is_set()
                for line in file:
                    print(prefix + line, end="", flush=True)
                if last_look:
                    return
                finished.wait(0.3)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
