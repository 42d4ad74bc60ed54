"""Run chapters with papermill, stage and build the book: the workflow's steps, `python -m traintime.book --help`."""

import contextlib
import json
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

from traintime import here, page, paths, sweep
from traintime.errors import InputError, unknown

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

    results: folder for what the chapter measures, emptied first, so that the page shows this run.
    Raises RuntimeError with the cell's own error where the chapter fails.
    """
    given = parameters(profile, chapter)
    source = chapters()[chapter]
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    aside = results / source.name
    environment = {here.RESULTS: str(results), here.PROFILE: profile, here.PROGRESS: str(results / "progress.log")}
    print(f"[{chapter}] running under profile {profile}", flush=True)
    started = time.monotonic()
    with _environment(environment), _echo(Path(environment[here.PROGRESS]), f"[{chapter}] "):
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
    log.touch()
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


def notebooks_with_outputs(notebooks: list[Path]) -> list[str]:
    """What is wrong with committed notebooks: outputs, execution counts, no parameters cell."""
    found = []
    for path in notebooks:
        cells = json.loads(path.read_text())["cells"]
        if any(cell.get("outputs") or cell.get("execution_count") for cell in cells):
            found.append(f"{path.name} has outputs; clear them before committing")
        if sum("parameters" in cell["metadata"].get("tags", []) for cell in cells) != 1:
            found.append(f"{path.name} needs one cell tagged parameters")
    return found


# What a sentence may hold beside prose: code, MyST's roles, mathematics, links, tags. A fenced directive holds prose.
FENCED = r"^[ ]*(?P<fence>`{3,}|~{3,})(?!\{(?!code|math))[^\n]*\n(?s:.*?)(?:^[ ]*(?P=fence)[`~]*[ ]*$|\Z)"
MATHEMATICS = r"\$\$(?s:.+?)\$\$|(?<![\\$])\$(?![\s$])[^$\n]+?(?<!\s)\$(?!\d)|\{math\}`[^`]*`"
ROLE_OR_CODE = r"\{[\w:+.-]+\}`[^`]*`|(?<!`)(?P<ticks>``?)(?!`)(?:(?!\n\s*\n)(?s:.))+?(?<!`)(?P=ticks)(?!`)"
LINK = r"(?<=\])\([^)\n]*\)|^[ ]*\[[^\]\n]+\]:.*$|https?://\S+|<!--(?s:.*?)-->|</?[A-Za-z][^>]*>"
NO_PROSE = re.compile(rf"(?m){FENCED}|(?P<mathematics>{MATHEMATICS})|{ROLE_OR_CODE}|{LINK}")
CODE, SYMBOL = "\0", "\1"  # what stands in the place of each of their characters
BLOCK_END = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:(?:[-*+>]|\d+[.)]|#+)[ \t]|\||:::|```|~~~))")
SENTENCE_END = re.compile(rf"(?<=[.!?])[*_\"”’')\]]*\s+(?=[*_\"“‘'(\[]*[A-Z0-9{{{CODE}{SYMBOL}])")
# A number with a unit of time, memory, rate, ratio or share; a product of sizes (300 × 128) is none.
UNIT = (
    r"[nuµμm]?s|(?:nano|micro|milli)?seconds?|min|minutes?|h|hours?|days?|[MGT]i?B(?:/s)?|[MGT]?FLOPs?(?:/s)?"
    rf"|\\?%|‰|per\s?cent|times(?!\s+\d)|[×x](?!\s*(?:\d|{SYMBOL}|[A-Z]\b))"
)
QUANTITY = re.compile(
    r"(?<![^\W_])(?<![.,])(?!(?:19|20)\d0s)\d+(?:[.,]\d+)*(?:\s(?:thousand|million|billion))?"
    rf"[*_]*(?:&nbsp;|[\s-])?[*_]*(?:{UNIT})(?!\w)"
)
LEVEL = re.compile(r"95\s?(?:%|per\s?cent)")  # of an interval: chosen, and in every chapter the same
OF_AN_INTERVAL = re.compile(r"(?i)\b(?:intervals?|confidence|quantiles?|draws|coefficients)\b")
OF_A_SOURCE = re.compile(r"(?i)\{cite|\bdocuments?\b|\bdata\ssheets?\b")
OF_THE_PAGE = re.compile(
    r"(?i)\b(?:running|to\srun)\sth(?:is|e|ese)\s(?:page|chapter|notebook|cells?)\b"
    r"|\bth(?:is|e)\s(?:page|chapter|notebook)\s(?:runs|takes|needs)\b"
)


def typed_numbers(notebook: Path) -> list[str]:
    """Measured quantities that are typed into a chapter's prose, where code should give them: one sentence each.

    A quantity is a number and a unit of time, memory, rate, ratio or share, outside code, mathematics, roles and
    links. Not ours to measure is what a sentence has from its source (it cites one, or names the document or a data
    sheet), what is said of running the page itself, and an interval's level.
    """
    found = []
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "markdown":
            for quantity, sentence in _quantities("".join(cell["source"])):
                found.append(f"{notebook.name} has {quantity!r} typed into its prose; let code give it: {sentence}")
    return found


def _quantities(text: str) -> Iterator[tuple[str, str]]:
    """Each typed quantity of a text, with its sentence."""
    # As long as the text, so that places in the one are places in the other.
    prose = NO_PROSE.sub(lambda match: re.sub(r"[^\n]", SYMBOL if match["mathematics"] else CODE, match[0]), text)
    for block in _parts(prose, BLOCK_END, slice(0, len(prose))):
        before = ""
        for place in _parts(prose, SENTENCE_END, block):
            sentence = " ".join(text[place].split())
            if not OF_A_SOURCE.search(sentence) and not OF_THE_PAGE.search(before + sentence):
                for quantity in QUANTITY.finditer(prose[place]):
                    if not (LEVEL.fullmatch(quantity[0]) and OF_AN_INTERVAL.search(sentence)):
                        yield " ".join(quantity[0].split()), sentence
            before = f"{sentence} "


def _parts(text: str, end: re.Pattern[str], whole: slice) -> Iterator[slice]:
    """The places between one end and the next."""
    start = whole.start
    for match in end.finditer(text, whole.start, whole.stop):
        yield slice(start, match.start())
        start = match.end()
    yield slice(start, whole.stop)


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
    found = notebooks_with_outputs(notebooks)
    for notebook in notebooks:
        found += typed_numbers(notebook)
    for problem in found:
        print(problem)
    raise typer.Exit(1 if found else 0)


if __name__ == "__main__":
    try:
        app()
    except (InputError, RuntimeError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2 if isinstance(problem, InputError) else 1)
