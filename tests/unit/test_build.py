"""Where the sources are published, what is staged, and how new pages take the old ones' place."""

import re
from types import SimpleNamespace

import nbformat
import pytest

from traintime import paths
from traintime.book import build

# Where the sources are


@pytest.fixture
def remote(monkeypatch):
    """Set what git says of its remote."""

    def answer(url):
        monkeypatch.setattr(build.subprocess, "run", lambda *args, **kwargs: SimpleNamespace(stdout=url))

    return answer


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/someone/traintime\n", "https://example.org/someone/traintime"),
        ("https://example.org/someone/traintime.git\n", "https://example.org/someone/traintime"),
        ("git@example.org:someone/traintime.git\n", "https://example.org/someone/traintime"),
        ("git@example.org:someone/traintime\n", "https://example.org/someone/traintime"),
        ("", None),
        ("../somewhere/traintime.git\n", None),
    ],
)
def test_the_address_follows_from_the_git_remote(remote, url, expected):
    remote(url)
    assert build.repository_url() == expected


def test_the_settings_have_the_first_word(remote, monkeypatch):
    remote("https://example.org/someone/traintime\n")
    monkeypatch.setattr(build, "_config", lambda: {"repository": {"url": "https://example.org/other/traintime"}})
    assert build.repository_url() == "https://example.org/other/traintime"


def test_a_machine_without_git_has_no_address(monkeypatch):
    def run(*args, **kwargs):
        raise FileNotFoundError

    monkeypatch.setattr(build.subprocess, "run", run)
    assert build.repository_url() is None


@pytest.mark.parametrize("name", ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff"])
def test_no_document_names_another_address_of_the_book_than_the_settings(name):
    named = re.findall(r"https?://[^\s)>]*how-long-will-it-train[^\s)>]*", (paths.ROOT / name).read_text())
    assert all((url := build._config()["repository"]["url"]) and one.startswith(url) for one in named)


# New pages in the place of old ones


@pytest.fixture
def output(tmp_path):
    """The folder that a reader opens, of a book that was built before; a function that makes another one aside."""

    def made(text):
        folder = tmp_path / f"html-{text}"
        folder.mkdir()
        (folder / "index.html").write_text(text)
        return folder

    build.publish(made("old"), tmp_path / "html")
    return tmp_path / "html", made


def test_the_new_pages_are_there_and_the_old_ones_gone(output):
    html, made = output
    build.publish(made("new"), html)
    assert (html / "index.html").read_text() == "new"
    assert [path.name for path in sorted(html.parent.iterdir())] == ["html", "html-new"]


def test_a_build_that_is_stopped_before_the_last_moment_leaves_the_old_pages(output, monkeypatch):
    html, made = output
    monkeypatch.setattr(build.os, "replace", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        build.publish(made("new"), html)
    assert (html / "index.html").read_text() == "old"
    monkeypatch.undo()
    build.publish(made("newer"), html)
    assert (html / "index.html").read_text() == "newer"


# What lies ready for Jupyter Book

CITED = {"title": "T", "version": "1", "date-released": "2026-11-21", "authors": [{"name": "A"}]}


@pytest.fixture
def staged(tmp_path, monkeypatch):
    """Stage a book of one page and one chapter; the settings are given."""
    monkeypatch.setattr(build.paths, "ROOT", tmp_path)
    monkeypatch.setattr(build.paths, "BUILD", tmp_path / "_build")
    monkeypatch.setattr(build, "PAGES", ("index.md", "claims.md"))
    monkeypatch.setattr(build, "chapters", lambda: {"one": tmp_path / "chapters" / "one.ipynb"})
    monkeypatch.setattr(build.calculator, "fragments", lambda: {})
    monkeypatch.setattr(build.calculator, "values", lambda: {"fixed": "0.6 s", "unused": "1"})
    monkeypatch.setattr(build.nbformat, "read", lambda path, as_version: path.stem)
    monkeypatch.setattr(build.numbers, "given", lambda notebook: {"demo": "4 s", "steps": "3 steps"})
    monkeypatch.setattr(build.numbers, "page", lambda source, executed: nbformat.v4.new_notebook())
    monkeypatch.setattr(build.appendix, "claims", lambda template: template)
    monkeypatch.setattr(build, "_settings", lambda values: str(values))
    monkeypatch.setattr(build, "repository_url", lambda: None)
    monkeypatch.setattr(build.citation, "read", lambda: CITED)
    names = ("claims.md", "_toc.yml", "references.bib", "_static/book.css")
    for name in (*names, "_build/quick/executed/one.ipynb", "_build/quick/figures/a.svg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "index.md").write_text("It takes {{ fixed }}, {eval}`quoted('one', 'steps')`.")

    def stage():
        build.stage("quick", tmp_path / "staging")
        return tmp_path / "staging"

    return stage


def test_only_what_has_changed_is_staged_again(staged, tmp_path):
    folder = staged()
    (folder / "_build").mkdir()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.*")}
    (tmp_path / "index.md").write_text("It takes {{ fixed }}, mostly.")
    staged()
    changed = {path.name for path, at in before.items() if path.stat().st_mtime_ns != at}
    assert changed == {"index.md"}
    assert (folder / "_build").exists(), "what Sphinx knows of the other pages"
    assert "unused" not in (folder / "_config.yml").read_text()


def test_other_settings_or_contents_begin_anew(staged, tmp_path):
    folder = staged()
    (folder / "_build").mkdir()
    (tmp_path / "_toc.yml").write_text("another order")
    staged()
    assert not (folder / "_build").exists()
    assert (folder / "chapters" / "one.ipynb").exists()


def test_what_is_no_page_any_more_is_not_staged(staged, tmp_path):
    folder = staged()
    (folder / "figures" / "old.svg").write_text("")
    staged()
    assert [path.name for path in (folder / "figures").iterdir()] == ["a.svg"]


def test_a_build_that_fails_leaves_the_pages_and_forgets_what_sphinx_kept(staged, tmp_path, monkeypatch):
    """What Sphinx has read once with a warning it would not warn of again."""
    folder = staged()
    folder.rename(tmp_path / "_build" / "quick" / "staging")
    kept = tmp_path / "_build" / "quick" / "staging" / "_build"
    kept.mkdir()
    monkeypatch.setattr(
        build.subprocess, "run", lambda *a, **k: SimpleNamespace(returncode=1, stdout="", stderr="dead link")
    )
    with pytest.raises(RuntimeError, match="dead link"):
        build.build("quick")
    assert not kept.exists()
    assert not (tmp_path / "_build" / "html").exists()


def test_a_changed_style_is_on_the_pages_though_no_page_has_changed(staged, tmp_path, monkeypatch):
    """Sphinx, with nothing out of date, leaves the style sheet that it copied before."""
    staging = tmp_path / "_build" / "quick" / "staging"
    staged().rename(staging)
    for name, text in {"index.html": "", "chapters/one.html": "", "_static/book.css": "old"}.items():
        (staging / "_build" / "html" / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / "_build" / "html" / name).write_text(text)
    (tmp_path / "_static" / "book.css").write_text("new")
    monkeypatch.setattr(build.subprocess, "run", lambda *a, **k: SimpleNamespace(returncode=0, stdout=""))
    monkeypatch.setattr(build.appendix, "FILES", {})
    monkeypatch.setattr(build.finish, "finish", lambda folder: None)
    monkeypatch.setattr(build.reader, "write", lambda *a: [])
    monkeypatch.setattr(build.reader, "notebook", lambda *a: None)
    monkeypatch.setattr(build.nbformat, "write", lambda *a: None)
    build.build("quick")
    html = tmp_path / "_build" / "html"
    assert (html / "_static" / "book.css").read_text() == "new"
    assert (html / "_static" / build.moving.SCRIPT.name).exists()
