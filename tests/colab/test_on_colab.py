"""A reader's notebook as on Colab: its versions and its Python, an empty folder, one notebook, a clone to fetch."""

import os
import re
import subprocess

import nbformat
import pytest
import rings

from traintime import paths
from traintime.book import reader, verdicts

pytestmark = pytest.mark.rest
PYTHON = paths.STACKS / "colab" / "bin" / "python"
RUN = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=900).execute()
nbformat.write(notebook, sys.argv[1])
"""
CHAPTERS = list(reader.chapters())


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A clone that a notebook can fetch the package from, at a branch of its own name."""
    remote = tmp_path_factory.mktemp("published")
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{paths.ROOT}", remote], check=True)
    subprocess.run(["git", "-C", remote, "checkout", "-q", "-B", "published"], check=True)
    return f"file://{remote}"


@pytest.fixture(scope="module")
def ran(request, published, executed, tmp_path_factory):
    """A function that runs a chapter's reader's copy in an empty folder and returns it with its outputs."""
    if not PYTHON.exists():
        rings.lacks(request.config, "no environment like Colab's: make colab")
    known = {}

    def run(chapter):
        if chapter not in known:
            folder = tmp_path_factory.mktemp(chapter)
            path = folder / f"{chapter}.ipynb"
            nbformat.write(reader.notebook(chapter, executed / path.name, published, "published"), path)
            environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
            environment |= {"HOME": str(folder), "COLAB_RELEASE_TAG": "release-colab_20260819-060000_RC00"}
            answer = subprocess.run(
                [PYTHON, "-c", RUN, path.name], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            assert answer.returncode == 0, answer.stderr[-3000:]
            made = nbformat.read(path, as_version=4)
            outputs = [output for cell in made.cells for output in cell.get("outputs", [])]
            errors = [output for output in outputs if output.output_type == "error"]
            assert [error for error in errors if error.ename != "NotMeasured"] == []  # the page says so, too
            known[chapter] = made, folder
        return known[chapter]

    return run


def shown(notebook):
    """Everything that its outputs show as text or HTML."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    data = [text for output in outputs for text in output.get("data", {}).values() if isinstance(text, str)]
    return "\n".join([*data, *(output.get("text", "") for output in outputs)])


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_it_runs_to_its_end_and_shows_no_raw_role(ran, chapter):
    notebook, folder = ran(chapter)
    assert (folder / "book" / "traintime").is_dir()
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown") + shown(notebook)
    assert not re.search(r"\{[\w:-]+\}`|^:::", text, flags=re.MULTILINE)
    assert str(folder) not in shown(notebook)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_it_ends_with_the_claims(ran, chapter):
    found = re.findall(r'<td data-head="measured">([^\n]*)</td>', shown(ran(chapter)[0]))
    assert len(found) == sum(claim.chapter == chapter for claim in verdicts.claims().values()) > 0
    assert all(found)
