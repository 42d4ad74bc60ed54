"""Run chapters with papermill, stage and build the book: the workflow's steps."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import nbformat
import papermill
import typer
import yaml
from papermill.iorw import load_notebook_node

from traintime import paths
from traintime.book import page, prose, run
from traintime.errors import InputError, unknown
from traintime.measuring import sweep

# Sphinx looks for MathJax on a server of its own choice; the book must read without a network.
MATHJAX = "mathjax/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full"


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


def run_chapter(chapter: str, profile: str, output: Path, results: Path) -> None:
    """Execute a chapter into `output`; nothing is left there unless it ran to its end.

    results: folder of what the chapter measures; what lies there and was measured with the same sources, software and
    plan is used again, so that a changed sentence or plot only draws anew (see run.results_folder).
    Raises RuntimeError with the cell's own error where the chapter fails.
    """
    given = parameters(profile, chapter)
    source = chapters()[chapter]
    results.mkdir(parents=True, exist_ok=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    aside = results / source.name
    environment = {run.RESULTS: str(results), run.PROFILE: profile, run.PROGRESS: str(results / "progress.log")}
    print(f"[{chapter}] running under profile {profile}", flush=True)
    started = time.monotonic()
    with _environment(environment), _echo(Path(environment[run.PROGRESS]), f"[{chapter}] "):
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
    notebook = load_notebook_node(str(aside))
    prepare_page(notebook, given)
    nbformat.write(notebook, aside)
    aside.replace(output)
    print(f"[{chapter}] done in {time.monotonic() - started:.0f} s", flush=True)


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
            line = f"{match[1]} = {given[match[1]]!r}{match[2] or ''}"
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


def repository_url() -> str | None:
    """Where the sources are published: TRAINTIME_REPOSITORY, else the git remote; None leaves the button out."""
    url = os.environ.get("TRAINTIME_REPOSITORY", "")
    if not url:
        command = ["git", "-C", str(paths.ROOT), "remote", "get-url", "origin"]
        try:
            url = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        except OSError:
            return None
    if match := re.fullmatch(r"git@([^:]+):(.+)", url):
        url = f"https://{match[1]}/{match[2]}"
    # A remote may carry a user name or a token; a page must not.
    url = re.sub(r"^https://[^/@]*@", "https://", url)
    return url.removesuffix(".git") if url.startswith("https://") else None


def stage(profile: str, executed: Path, staging: Path) -> None:
    """Lay out what Jupyter Book reads: the pages, the executed chapters at their sources' places, the settings."""
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "chapters").mkdir(parents=True)
    for name in ("_toc.yml", "index.md", "bibliography.md", "references.bib"):
        shutil.copy(paths.ROOT / name, staging)
    shutil.copytree(paths.ROOT / "figures", staging / "figures")
    shutil.copytree(paths.ROOT / "_static", staging / "_static")
    for chapter in chapters():
        shutil.copy(executed / f"{chapter}.ipynb", staging / "chapters")
    config = yaml.safe_load((paths.ROOT / "_config.yml").read_text())
    if url := repository_url():
        config["repository"] = {"url": url, "branch": "main"}
        config["html"]["use_repository_button"] = True
    config["sphinx"]["config"]["mathjax_path"] = MATHJAX
    config["parse"]["myst_substitutions"] = page.front_page(executed) | {"profile": profile}
    (staging / "_config.yml").write_text(yaml.safe_dump(config, allow_unicode=True))


def build(staging: Path, output: Path) -> None:
    """Build the HTML, warnings being errors; raises RuntimeError with the builder's words, or for a missing page."""
    command = [
        str(Path(sys.executable).with_name("jupyter-book")),
        "build",
        str(staging),
        "-W",
        "-n",
        "--keep-going",
        "-q",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise RuntimeError(f"jupyter-book failed:\n{answer.stdout[-4000:]}\n{answer.stderr[-6000:]}")
    html = staging / "_build" / "html"
    pages = ["index.html", *(f"chapters/{chapter}.html" for chapter in chapters())]
    if missing := [page for page in pages if not (html / page).exists()]:
        raise RuntimeError(f"the build wrote no {', '.join(missing)}")
    import jupyter_server_mathjax

    shutil.copytree(Path(jupyter_server_mathjax.__file__).parent / "static", html / "_static" / "mathjax")
    shutil.rmtree(output, ignore_errors=True)
    shutil.move(html, output)


app = typer.Typer(help="The steps of the book's workflow.", no_args_is_help=True, add_completion=False)
Profile = Annotated[str, typer.Option(help="Profile of parameters (profiles/*.yaml).")]


@app.command("chapter")
def chapter_command(name: str, output: Path, results: Path, profile: Profile = "quick") -> None:
    """Execute one chapter."""
    run_chapter(name, profile, output, results)


@app.command("stage")
def stage_command(executed: Path, staging: Path, profile: Profile = "quick") -> None:
    """Lay out what Jupyter Book reads."""
    stage(profile, executed, staging)


@app.command("build")
def build_command(staging: Path, output: Path) -> None:
    """Build the HTML."""
    build(staging, output)
    print(f"built {datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {output / 'index.html'}")


@app.command("check-profile")
def check_profile_command(profile: str) -> None:
    """Refuse an unknown profile, chapter or parameter before anything is started."""
    sweep.plans(profile)
    for chapter in chapters():
        parameters(profile, chapter)


@app.command("check-notebooks")
def check_notebooks_command() -> None:
    """Fail when a source notebook holds outputs, lacks its parameters cell, or has a measured number in its prose."""
    notebooks = sorted(paths.CHAPTERS.glob("*.ipynb"))
    found = prose.notebooks_with_outputs(notebooks)
    for notebook in notebooks:
        found += prose.typed_numbers(notebook)
    for problem in found:
        print(problem)
    raise typer.Exit(1 if found else 0)


def main() -> None:
    """Run one step; bad input is one clear line and exit status 2."""
    try:
        app()
    except (InputError, RuntimeError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2 if isinstance(problem, InputError) else 1)


if __name__ == "__main__":
    main()
