"""Stage the executed chapters and build the HTML."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import yaml

from traintime import paths
from traintime.book import appendix, citation, finish, glue, reader, stored
from traintime.book.calculator import moving
from traintime.book.calculator import page as calculator
from traintime.book.execute import chapters

PAGES = tuple(
    f"{name}.md"
    for name in (
        *("index", "learned", "claims", "predictions", "faults"),
        *("calculator", "glossary", "bibliography", "CHANGELOG"),
    )
)


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


def stage(profile: str, staging: Path) -> None:
    """Lay out what Jupyter Book reads: the pages, the executed chapters at their sources' places, the settings.

    What has not changed is left as it is, so that Sphinx reads it from its last run. Its run is begun again with other
    contents or settings: those are on all pages.
    """
    work = paths.BUILD / profile
    pages = [work / "executed" / f"{chapter}.ipynb" for chapter in chapters()]
    texts = [*PAGES, "_toc.yml", "references.bib"]
    staged: dict[str, bytes] = {name: (paths.ROOT / name).read_bytes() for name in texts}
    staged |= {f"chapters/{path.name}": path.read_bytes() for path in pages}
    staged |= {f"figures/{path.name}": path.read_bytes() for path in (work / "figures").glob("*.*")}
    staged |= {f"_static/{path.name}": path.read_bytes() for path in (paths.ROOT / "_static").iterdir()}
    staged |= {name: text.encode() for name, text in calculator.fragments().items()}
    staged |= {name: write(staged[name].decode()).encode() for name, write in appendix.PAGES.items()}
    named = set(re.findall(r"{{ (\w+) }}", "".join(staged[name].decode() for name in PAGES)))
    values = glue.front_page(pages) | calculator.values()
    values |= {"profile": profile, "install": _install(), "front_machine": stored.of().title}
    staged["front-answer.txt"] = f"{values['predict_demo']}\n".encode()
    staged["citation.bib"] = citation.bibtex(citation.read(), repository_url()).encode()
    if lacking := sorted(named - set(values)):
        raise RuntimeError(f"the pages name numbers that no chapter gives: {', '.join(lacking)}")
    staged["_config.yml"] = _settings({name: values[name] for name in sorted(named)}).encode()
    changed = [name for name, content in staged.items() if not _same(staging / name, content)]
    if {"_toc.yml", "_config.yml"} & set(changed):
        shutil.rmtree(staging, ignore_errors=True)
        changed = list(staged)
    for name in changed:
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).write_bytes(staged[name])
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
    book = max(map(stored.of, stored.named()), key=lambda book: book.rows["started"].max())
    return f"<p>Last measured on {book.rows['started'].max()[:10]}, {book.title} ({book.machine}).</p>"


def _same(path: Path, content: bytes) -> bool:
    return path.exists() and path.read_bytes() == content


def _settings(values: dict[str, str]) -> str:
    """The book's settings with what is known only now: where it is published, and the numbers of the front pages."""
    config = yaml.safe_load((paths.ROOT / "_config.yml").read_text())
    cited = citation.read()
    config |= {"title": cited["title"], "author": ", ".join(citation.authors(cited))}
    config["sphinx"]["config"]["html_theme_options"]["extra_footer"] = _last_measured()
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
    if answer.returncode != 0:
        # What Sphinx has kept of pages with a warning it would not warn of again.
        shutil.rmtree(staging / "_build", ignore_errors=True)
        raise RuntimeError(f"jupyter-book failed:\n{answer.stdout[-4000:]}\n{answer.stderr[-6000:]}")
    made = staging / "_build" / "html"
    pages = ["index.html", *(f"chapters/{chapter}.html" for chapter in chapters())]
    if missing := [page for page in pages if not (made / page).exists()]:
        shutil.rmtree(staging / "_build", ignore_errors=True)
        raise RuntimeError(f"the build wrote no {', '.join(missing)}")
    aside = paths.BUILD / f"html-{os.getpid()}"
    shutil.copytree(made, aside)
    # Sphinx copies these only where a page has changed, too.
    shutil.copytree(staging / "_static", aside / "_static", dirs_exist_ok=True)
    (aside / appendix.CSV).write_text(appendix.every_verdict())
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
    if output.is_dir() and not output.is_symlink():  # of an older version
        output.rename(output.with_name(f"html-{os.getpid()}-old"))
    link = output.with_name("html-next")
    link.unlink(missing_ok=True)
    link.symlink_to(made.name)
    os.replace(link, output)
    for path in output.parent.glob("html-*"):
        if path.name != made.name:
            shutil.rmtree(path)
