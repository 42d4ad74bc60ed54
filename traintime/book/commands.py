"""`python -m traintime.book`: `make book`, and the steps that its workflow runs in processes of their own.

Each command imports what it needs and no more: a build starts some twenty of them.
"""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from traintime import paths
from traintime.book.processes import die_with_parent
from traintime.errors import InputError, missing, unknown

# jsonschema, behind every notebook, builds a grammar of web addresses when this is there: two seconds at each start.
sys.modules["rfc3987_syntax"] = None

app = typer.Typer(help="The steps of the book's workflow.", no_args_is_help=True, add_completion=False)


@app.command("make")
def make_command(
    profile: Annotated[str, typer.Option(help="Profile of parameters (profiles/*.yaml).")] = "quick",
) -> None:
    """Bring the pages up to date."""
    from traintime.book import workflow

    start = time.monotonic()
    try:
        workflow.make(profile)
    except KeyboardInterrupt:
        typer.echo("Stopped. The pages are as they were, and what was done is kept: `make book` goes on.", err=True)
        raise typer.Exit(130) from None
    typer.echo(f"Up to date after {time.monotonic() - start:.0f} s. Open {workflow.HTML / 'index.html'}")


@app.command("chapter")
def chapter_command(profile: str, name: str) -> None:
    """Execute one chapter."""
    from traintime.book import execute

    die_with_parent()
    start, work = time.monotonic(), paths.BUILD / profile
    executed = work / "executed" / f"{name}.ipynb"
    execute.run_chapter(name, profile, executed)
    if (work / "plan.json").exists():  # of `make book`
        execute.say_how_far(work, name, time.monotonic() - start)
    else:
        typer.echo(f"It ran into {executed}; its page needs make book.")


@app.command("figures")
def figures_command(folder: Path) -> None:
    """Draw the key figures into a folder."""
    from traintime.book import figures

    die_with_parent()
    figures.draw(folder)
    (folder / "drawn").touch()


@app.command("build")
def build_command(profile: str, built: Path) -> None:
    """Build the HTML and the reader's notebooks."""
    from traintime.book import build

    die_with_parent()
    build.build(profile)
    built.touch()


@app.command("judge")
def judge_command(label: Annotated[str, typer.Argument(help="A claim's label, such as vocabulary.6.")]) -> None:
    """Judge one claim on every stored machine, now."""
    from traintime.book import verdicts

    if label not in verdicts.claims():
        raise unknown("claim", label, list(verdicts.claims()))
    for row in verdicts.judged(verdicts.claims()[label].chapter):
        if row.claim == label:
            typer.echo(f"{row.title}: {row.verdict}; {row.figure}".removesuffix("; "))


@app.command("check-notebooks")
def check_notebooks_command() -> None:
    """Fail when a source notebook holds outputs, lacks its parameters cell, or has a measured number in its prose, or
    when it or a page names a number that nothing defines.
    """
    from traintime.book import build, numbers, prose

    notebooks = sorted(paths.CHAPTERS.glob("*.ipynb"))
    problems = prose.notebooks_with_outputs(notebooks)
    for path in notebooks:
        problems += prose.typed_numbers(path)
    for path in [*notebooks, *(paths.ROOT / page for page in build.PAGES)]:
        problems += numbers.unknown(path)
    _end(problems)


@app.command("check-words")
def check_words_command() -> None:
    """Fail when a docstring, message or page has a private word, or a page says what came of a claim by itself."""
    from traintime.book import words

    _end(words.problems())


def _end(problems: list[str]) -> None:
    """Print the problems; end with exit status 1 where there are any."""
    for problem in problems:
        typer.echo(problem)
    raise typer.Exit(1 if problems else 0)


def main() -> None:
    """Run one step; bad input is one clear line and exit status 2."""
    try:
        app()
    except (InputError, RuntimeError, ModuleNotFoundError) as problem:
        if isinstance(problem, ModuleNotFoundError):
            problem = missing(problem)
        typer.echo(f"error: {problem}", err=True)
        sys.exit(2 if isinstance(problem, InputError) else 1)
