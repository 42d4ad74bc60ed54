"""Stage the executed chapters and build the HTML."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import yaml

from traintime import paths
from traintime.book import appendix, citation, finish, numbers, reader
from traintime.book.calculator import moving
from traintime.book.calculator import page as calculator
from traintime.book.contents import chapters
from traintime.store import derived, machines

PAGES = ("index.md", "learned.md", "claims.md", "calculator.md", "deferred.md", "glossary.md", "bibliography.md")
PAGES += ("CHANGELOG.md",)


def _git(*words: str) -> str:
    """What git says of these sources; "" where it cannot."""
    command = ["git", "-C", str(paths.ROOT), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def _config() -> dict[str, Any]:
    """The book's settings as they are committed."""
    return yaml.safe_load((paths.ROOT / "_config.yml").read_text())


def repository_url() -> str | None:
    """Where the sources are published: _config.yml, else the git remote; None leaves the button out."""
    url = _config()["repository"]["url"] or _git("remote", "get-url", "origin")
    if match := re.fullmatch(r"git@([^:]+):(.+)", url):
        url = f"https://{match[1]}/{match[2]}"
    # A remote may carry a user name or a token; a page must not.
    url = re.sub(r"^https://[^/@]*@", "https://", url)
    return url.removesuffix(".git") if url.startswith("https://") else None


def published_version() -> str:
    """What a reader's notebook fetches: the tag of this very commit, else the branch main."""
    return _git("describe", "--tags", "--exact-match") or "main"


def stage(profile: str, staging: Path) -> None:
    """Lay out what Jupyter Book reads: the pages, the executed chapters at their sources' places, the settings.

    What has not changed is left as it is, so that Sphinx reads it from its last run. Its run is begun again with other
    contents or settings: those are on all pages.
    """
    work = paths.BUILD / profile
    executed = {name: nbformat.read(work / "executed" / f"{name}.ipynb", as_version=4) for name in chapters()}
    texts = [*PAGES, "_toc.yml", "references.bib"]
    staged: dict[str, bytes] = {name: (paths.ROOT / name).read_bytes() for name in texts}
    for name, notebook in chapters().items():
        page = numbers.page(nbformat.read(notebook, as_version=4), executed[name])
        staged[f"chapters/{name}.ipynb"] = nbformat.writes(page).encode()
    staged |= {f"figures/{path.name}": path.read_bytes() for path in (work / "figures").glob("*.*")}
    staged |= {f"_static/{path.name}": path.read_bytes() for path in (paths.ROOT / "_static").iterdir()}
    staged |= {name: text.encode() for name, text in calculator.fragments().items()}
    staged["claims.md"] = appendix.claims(staged["claims.md"].decode()).encode()
    given = {name: numbers.given(notebook) for name, notebook in executed.items()}
    names = {"machine": machines.titles()[machines.reference()]}
    names["quoted"] = lambda chapter, expression: given[chapter][expression]
    for name in PAGES:
        text = staged[name].decode()
        said = numbers.evaluated(numbers.EVAL.findall(text), names)
        staged[name] = numbers.fill(text, said).encode()
    named = set(re.findall(r"{{ (\w+) }}", "".join(staged[name].decode() for name in PAGES)))
    values = calculator.values() | {"profile": profile, "install": _install()}
    demonstration = next(texts["demo"] for texts in given.values() if "demo" in texts)  # of 15, which predicts
    staged["front-answer.txt"] = f"{demonstration}\n".encode()
    staged["citation.bib"] = citation.bibtex(repository_url()).encode()
    staged["_config.yml"] = _settings({name: values[name] for name in sorted(named & values.keys())}).encode()
    there = {name: staging / name for name in staged}
    changed = [name for name, path in there.items() if not path.exists() or path.read_bytes() != staged[name]]
    if {"_toc.yml", "_config.yml"} & set(changed):
        shutil.rmtree(staging, ignore_errors=True)
        changed = list(staged)
    for name in changed:
        there[name].parent.mkdir(parents=True, exist_ok=True)
        there[name].write_bytes(staged[name])
    for folder in ("chapters", "figures", "_static"):
        for path in (staging / folder).iterdir():
            if f"{folder}/{path.name}" not in staged:
                path.unlink()


def _install() -> str:
    """How a reader installs the package."""
    url = repository_url()
    return f"`pip install git+{url}`" if url else "Install the package from a copy of this repository (`pip install .`)"


def _last_measured() -> str:
    """The foot of every page: the newest measurement; a chapter names those of each machine that it shows."""
    row = derived.read("measured").sort_values("last").iloc[-1]
    return f"<p>Last measured on {row['last'][:10]}, {machines.titles()[row['folder']]} ({row['folder']}).</p>"


def _settings(values: dict[str, str]) -> str:
    """The book's settings with what is known only now: where it is published, and the numbers of the front pages."""
    config = _config()
    cited = citation.read()
    config |= {"title": cited["title"], "author": citation.author(cited)}
    config["sphinx"]["config"]["html_theme_options"]["extra_footer"] = _last_measured()
    del config["repository"]
    if url := repository_url():
        # What a launch button opens is the reader's copy, and that lies beside the published pages.
        config["repository"] = {"url": url, "branch": "gh-pages", "path_to_book": "_sources"}
        config["html"]["use_repository_button"] = True
        if url.startswith("https://github.com/"):
            config["launch_buttons"]["colab_url"] = "https://colab.research.google.com"
    config["parse"]["myst_substitutions"] = values
    return yaml.safe_dump(config, allow_unicode=True)


def build(profile: str) -> None:
    """Build the HTML, warnings being errors; raises RuntimeError with the builder's words, or for a missing page.

    The pages are made aside and take the old ones' place at once: whoever stops the build finds the old ones.
    The reader's notebooks, which are what the pages' download buttons give, too, go to _build/reader; those that a
    reader has changed stay, and are named.
    """
    staging = paths.BUILD / profile / "staging"
    stage(profile, staging)
    program = Path(sys.executable).with_name("jupyter-book")
    command = [str(program), "build", str(staging), "-W", "-n", "--keep-going", "-q"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    made = staging / "_build" / "html"
    pages = ["index.html", *(f"chapters/{chapter}.html" for chapter in chapters())]
    missing = [page for page in pages if not (made / page).exists()]
    if answer.returncode or missing:
        # What Sphinx has kept of pages with a warning it would not warn of again.
        shutil.rmtree(staging / "_build", ignore_errors=True)
        said = f"{answer.stdout[-4000:]}\n{answer.stderr[-6000:]}"
        raise RuntimeError(f"jupyter-book failed; pages that it did not write: {missing or 'none'}\n{said}")
    aside = paths.BUILD / f"html-{os.getpid()}"
    shutil.copytree(made, aside)
    # Sphinx copies these only where a page has changed, too.
    shutil.copytree(staging / "_static", aside / "_static", dirs_exist_ok=True)
    for name, write in appendix.FILES.items():
        (aside / name).write_text(write())
    shutil.copy(moving.SCRIPT, aside / "_static")
    finish.finish(aside)
    published = (repository_url(), published_version())
    for path in reader.write(staging / "chapters", paths.READER, *published):
        print(f"{path} was changed and stays as it is; delete it to get the new one")
    for chapter in chapters():
        copy = reader.notebook(chapter, staging / "chapters" / f"{chapter}.ipynb", *published)
        nbformat.write(copy, aside / "_sources" / "chapters" / f"{chapter}.ipynb")
    publish(aside, paths.BUILD / "html")


def publish(made: Path, output: Path) -> None:
    """Put the folder in the place of the output in one step: `output` is a link, and the link is replaced."""
    link = output.with_name("html-next")
    link.unlink(missing_ok=True)
    link.symlink_to(made.name)
    os.replace(link, output)
    for path in output.parent.glob("html-*"):
        if path.name != made.name:
            shutil.rmtree(path)
