"""Run chapters with papermill, for their pages."""

import contextlib
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import papermill
import yaml
from nbclient.exceptions import DeadKernelError
from papermill.iorw import load_notebook_node

from traintime import paths
from traintime.book import PROFILE, RESULTS
from traintime.errors import unknown
from traintime.measuring import sweep

WIDEST = 79  # characters of a line of code that fit a page


def chapters() -> dict[str, Path]:
    """Source notebook of every chapter in the table of contents, by name, in reading order."""
    files = _files((paths.ROOT / "_toc.yml").read_text())
    notebooks = [paths.ROOT / f"{file}.ipynb" for file in files if file.startswith("chapters/")]
    return {path.stem: path for path in notebooks}


@functools.cache  # a build asks some five hundred times
def _files(contents: str) -> list[str]:
    return [chapter["file"] for part in yaml.safe_load(contents)["parts"] for chapter in part["chapters"]]


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
    aside = results / source.name
    _execute(chapter, source, aside, given, profile, results)
    notebook = load_notebook_node(str(aside))
    prepare_page(notebook, given)
    nbformat.write(notebook, aside)
    aside.replace(output)


def _execute(chapter: str, source: Path, aside: Path, given: dict[str, Any], profile: str, results: Path) -> None:
    with environment({RESULTS: str(results), PROFILE: profile}):
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
                extra_arguments=["--IPKernelApp.log_level=50"],  # its own words; cells say theirs
            )
        except papermill.PapermillExecutionError as error:
            raise RuntimeError(f"{chapter} failed in cell {error.exec_count}: {error.ename}: {error.evalue}") from None
        except DeadKernelError:
            cell = running(load_notebook_node(str(aside)))
            raise RuntimeError(f"{chapter}: its kernel ended by itself {cell}; was there too little memory?") from None


def running(notebook: nbformat.NotebookNode) -> str:
    """Where a notebook that papermill was executing stands: "in cell 3 (model = build())"."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for place, cell in enumerate(code, 1):
        if cell.metadata.get("papermill", {}).get("status") == "running":
            return f"in cell {place} ({cell.source.strip().splitlines()[0]})"
    return "between two cells"


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
def environment(values: dict[str, str]) -> Iterator[None]:
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
