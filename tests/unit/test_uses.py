"""What a page rests on follows from its imports: it is made again for those alone."""

import json

import pytest

from traintime import paths
from traintime.book import uses


@pytest.fixture
def notebook(tmp_path):
    def write(*lines):
        path = tmp_path / "one.ipynb"
        cell = {"cell_type": "code", "source": "\n".join(lines)}
        path.write_text(json.dumps({"cells": [cell, {"cell_type": "markdown", "source": "import nothing"}]}))
        return path

    return write


def names(files):
    return {str(path.relative_to(paths.ROOT)) for path in files}


def test_a_module_brings_what_it_imports(notebook):
    found = uses.modules(notebook("%config x = 1", "from traintime.explain import formula"))
    assert {"traintime.explain.formula", "traintime.explain.statistics"} <= found
    assert not any(name.startswith("traintime.measuring") for name in found)


def test_a_chapter_rests_on_those_figures_alone_that_it_draws(notebook):
    found = uses.modules(notebook("from traintime.book import plots", "plots.steps(points)"))
    assert {"traintime.book.plots.sweeps", "traintime.book.plots.look"} <= found
    assert "traintime.book.plots.roofline" not in found
    assert not any("plots" in name for name in uses.modules(notebook("from traintime.explain import memory")))


def test_a_figure_that_another_module_draws_counts():
    """`figures` draws the front page's: those modules, and no others."""
    found = uses.closure(["traintime.book.figures"])
    assert {"traintime.book.plots.sweeps", "traintime.book.plots.document"} <= found
    assert "traintime.book.plots.roofline" not in found


def test_data_follow_from_the_modules_that_read_them():
    assert uses.data(["traintime.explain.formula"]) == set()
    assert names(uses.data(["traintime.book.original"])) >= {"data/original/s0-batch.csv"}
    assert "data/measurements/machines.csv" in names(uses.data(["traintime.book.stored"]))
    assert not any(name.startswith("data/measurements") for name in names(uses.data(["traintime.book.original"])))


@pytest.mark.parametrize("module", list(uses.DATA))
def test_the_modules_that_read_data_exist(module):
    assert module in uses.graph().modules
    assert uses.DATA[module].exists()


def test_a_notebook_of_its_own_imports_rests_on_itself(notebook):
    path = notebook("import numpy as np")
    assert uses.modules(path) == set()
    before = uses.page(path)
    path.touch()
    assert uses.page(path) == before
    assert uses.page(notebook("import numpy as other")) != before


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda text: text.replace("x = 1", "x = 1  # one more word"), True),
        (lambda text: text.replace('"""What it is."""', '"""What it is,\nand why."""'), True),
        (lambda text: text.replace("\n\n", "\n\n\n"), True),
        (lambda text: text.replace("x = 1", "x = 2"), False),
        (lambda text: text.replace('"# no comment"', '"# none"'), False),
    ],
)
def test_what_a_module_does_is_told_from_what_it_says(tmp_path, monkeypatch, change, same):
    text = '"""A module."""\n\nx = 1\n\ndef f():\n    """What it is."""\n    return "# no comment"\n'
    path = tmp_path / "one.py"
    monkeypatch.setattr(uses, "file_of", lambda name: path)
    meanings = []
    for each in (text, change(text)):
        path.write_text(each)
        uses._statements.cache_clear()
        meanings.append(uses.meaning(["one"]))
    uses._statements.cache_clear()
    assert (meanings[0] == meanings[1]) is same
