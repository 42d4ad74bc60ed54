"""Where the sources are published, what is staged, and how new pages take the old ones' place."""

import os
import re
from types import SimpleNamespace
from unittest import mock

import nbformat
import pytest

from traintime import paths
from traintime.book import build, citation

OURS, OTHER = "https://example.org/someone/traintime", "https://example.org/other/traintime"


@pytest.mark.parametrize(
    ("remote", "settings", "expected"),
    [
        (f"{OURS}\n", "", OURS),
        (f"{OURS}.git\n", "", OURS),
        ("https://user:token@example.org/someone/traintime\n", "", OURS),
        ("git@example.org:someone/traintime.git\n", "", OURS),
        ("git@example.org:someone/traintime\n", "", OURS),
        ("", "", None),
        ("../somewhere/traintime.git\n", "", None),
        (FileNotFoundError, "", None),  # no git
        (f"{OURS}\n", OTHER, OTHER),
    ],
)
def test_the_address_follows_from_the_settings_or_the_git_remote(monkeypatch, remote, settings, expected):
    git = mock.Mock(side_effect=[SimpleNamespace(stdout=remote) if isinstance(remote, str) else remote])
    monkeypatch.setattr(build.subprocess, "run", git)
    monkeypatch.setattr(build, "_config", lambda: {"repository": {"url": settings}})
    assert build.repository_url() == expected


@pytest.mark.parametrize(("url", "last"), [("https://a.org", "  url = {https://a.org},"), (None, "  note = {Version")])
def test_the_entry_keeps_the_groups_name_the_titles_capitals_and_the_address(url, last):
    first, *fields, end = citation.bibtex(url).splitlines()
    assert (first[:15], end) == ("@misc{traintime", "}")
    assert f"  author = {{{{{citation.author(citation.read())}}}}}," in fields
    assert f"  title = {{{{{citation.read()['title']}}}}}," in fields
    assert fields[-1].startswith(last)


@pytest.mark.parametrize("name", ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff"])
def test_no_document_names_another_address_of_the_book_than_the_settings(name):
    named = re.findall(r"https?://[^\s)>]*how-long-will-it-train[^\s)>]*", (paths.ROOT / name).read_text())
    assert all((url := build._config()["repository"]["url"]) and one.startswith(url) for one in named)


def test_new_pages_take_the_old_ones_place_or_the_old_ones_stay_whole(tmp_path, monkeypatch):
    html = tmp_path / "html"

    def publish(text):
        (tmp_path / f"html-{text}").mkdir()
        (tmp_path / f"html-{text}" / "index.html").write_text(text)
        build.publish(tmp_path / f"html-{text}", html)

    publish("old")
    with monkeypatch.context() as patch:
        patch.setattr(build.os, "replace", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            publish("stopped")
    assert (html / "index.html").read_text() == "old"
    publish("new")
    assert (html / "index.html").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["html", "html-new"]


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


def test_only_what_has_changed_is_staged_again_and_what_is_no_page_any_more_is_gone(staged, tmp_path):
    folder = staged()
    (folder / "_build").mkdir()
    (folder / "figures" / "old.svg").write_text("")
    before = list(folder.rglob("*.*"))
    for path in before:
        os.utime(path, (1, 1))
    (tmp_path / "index.md").write_text("It takes {{ fixed }}, mostly.")
    staged()
    changed = {path.name for path in before if not path.exists() or path.stat().st_mtime != 1}
    assert changed == {"index.md", "old.svg"}
    assert not (folder / "figures" / "old.svg").exists()
    assert (folder / "_build").exists(), "what Sphinx knows of the other pages"
    assert "unused" not in (folder / "_config.yml").read_text()


def test_other_settings_or_contents_begin_anew(staged, tmp_path):
    folder = staged()
    (folder / "_build").mkdir()
    (tmp_path / "_toc.yml").write_text("another order")
    staged()
    assert not (folder / "_build").exists()
    assert (folder / "chapters" / "one.ipynb").exists()


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
