"""Stage and build the book, and the workflow's steps as commands."""

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import nbformat
import typer
import yaml

from traintime import paths
from traintime.book import appendix, glue, prose, reader
from traintime.book.calculator import page as calculator
from traintime.book.execute import chapters, measure_chapter, parameters, run_chapter
from traintime.errors import InputError
from traintime.measuring import sweep

# Sphinx looks for MathJax on a server of its own choice; the book must read without a network.
MATHJAX = "mathjax/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full"


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


def published_version() -> str:
    """What a reader's notebook fetches: the tag of this very commit, else the branch main."""
    command = ["git", "-C", str(paths.ROOT), "describe", "--tags", "--exact-match"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "main"
    return answer.stdout.strip() or "main"


def stage(profile: str, executed: Path, staging: Path) -> None:
    """Lay out what Jupyter Book reads: the pages, the executed chapters at their sources' places, the settings."""
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "chapters").mkdir(parents=True)
    for name in ("_toc.yml", "index.md", "calculator.md", "glossary.md", "bibliography.md", "references.bib"):
        shutil.copy(paths.ROOT / name, staging)
    shutil.copytree(paths.ROOT / "figures", staging / "figures")
    shutil.copytree(paths.ROOT / "_static", staging / "_static")
    for chapter in chapters():
        shutil.copy(executed / f"{chapter}.ipynb", staging / "chapters")
    pages = [executed / f"{chapter}.ipynb" for chapter in chapters()]
    for name, text in calculator.fragments().items():
        (staging / name).write_text(text)
    (staging / "claims.md").write_text(appendix.page((paths.ROOT / "claims.md").read_text(), pages))
    config = yaml.safe_load((paths.ROOT / "_config.yml").read_text())
    if url := repository_url():
        # What a launch button opens is the reader's copy, and that lies beside the published pages.
        config["repository"] = {"url": url, "branch": "gh-pages", "path_to_book": "_sources"}
        config["html"]["use_repository_button"] = True
        if url.startswith("https://github.com/"):
            config["launch_buttons"]["colab_url"] = "https://colab.research.google.com"
    config["sphinx"]["config"]["mathjax_path"] = MATHJAX
    config["parse"]["myst_substitutions"] = glue.front_page(pages) | calculator.values() | {"profile": profile}
    (staging / "_config.yml").write_text(yaml.safe_dump(config, allow_unicode=True))


def build(staging: Path, output: Path, copies: Path) -> None:
    """Build the HTML, warnings being errors; raises RuntimeError with the builder's words, or for a missing page.

    copies: folder for the reader's notebooks, which are what the pages' download buttons give, too; those in it that a
    reader has changed stay, and are named.
    """
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
    executed, published = staging / "chapters", (repository_url(), published_version())
    for path in reader.write(executed, copies, *published):
        print(f"{path} was changed and stays as it is; delete it to get the new one")
    for chapter in chapters():
        copy = reader.notebook(chapter, executed / f"{chapter}.ipynb", *published)
        nbformat.write(copy, html / "_sources" / "chapters" / f"{chapter}.ipynb")
    shutil.rmtree(output, ignore_errors=True)
    shutil.move(html, output)


app = typer.Typer(help="The steps of the book's workflow.", no_args_is_help=True, add_completion=False)
Profile = Annotated[str, typer.Option(help="Profile of parameters (profiles/*.yaml).")]


@app.command("chapter")
def chapter_command(name: str, output: Path, results: Path, profile: Profile = "quick") -> None:
    """Execute one chapter."""
    run_chapter(name, profile, output, results)


@app.command("measure")
def measure_command(name: str, stamp: Path, results: Path, profile: Profile = "quick") -> None:
    """Measure what a chapter measures."""
    measure_chapter(name, profile, stamp, results)


@app.command("stage")
def stage_command(executed: Path, staging: Path, profile: Profile = "quick") -> None:
    """Lay out what Jupyter Book reads."""
    stage(profile, executed, staging)


@app.command("build")
def build_command(staging: Path, output: Path, copies: Path) -> None:
    """Build the HTML and the reader's notebooks."""
    build(staging, output, copies)
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
