"""What a page rests on follows from its imports: it is made again for those alone."""

import json

import pytest

from traintime import paths
from traintime.book import kept, uses


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
    found = uses.imported(uses.code_of(notebook("%config x = 1", "from traintime.explain import formula")))
    assert {"traintime.explain.formula", "traintime.explain.least_squares"} <= found
    assert not any(name.startswith("traintime.measuring") for name in found)


def test_data_follow_from_the_modules_that_read_them():
    assert uses.data(["traintime.explain.formula"]) == set()
    assert names(uses.data(["traintime.book.original"])) >= {"data/original/s0-batch.csv"}
    assert "data/measurements/machines.csv" in names(uses.data(["traintime.store.machines"]))
    assert not any(name.startswith("data/measurements") for name in names(uses.data(["traintime.book.original"])))
    assert names(uses.data(["traintime.book.verdicts"])) >= {"data/closed.csv", "data/derived/verdicts.csv"}


def test_a_notebook_of_its_own_imports_rests_on_itself(notebook):
    path = notebook("import numpy as np")
    assert uses.imported(uses.code_of(path)) == set()
    before = uses.run(path)
    path.touch()
    assert uses.run(path) == before
    assert uses.run(notebook("import numpy as other")) != before
    judging = notebook("from traintime.book import verdicts")
    assert uses.run(judging) != uses.run(judging, without=[paths.DERIVED / "verdicts.csv"])


def test_a_digest_is_of_contents_and_places(tmp_path):
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    both = kept.digest([tmp_path / "a", tmp_path / "b"])
    assert kept.digest([tmp_path / "b", tmp_path / "a"]) == both
    (tmp_path / "a").write_text("2")
    (tmp_path / "b").write_text("1")
    assert kept.digest([tmp_path / "a", tmp_path / "b"]) != both


def test_a_file_is_written_where_it_differs(tmp_path):
    path = tmp_path / "one"
    kept.write_where_it_differs(path, "text")
    before = path.stat().st_mtime_ns
    kept.write_where_it_differs(path, "text")
    assert path.stat().st_mtime_ns == before
    kept.write_where_it_differs(path, "another")
    assert path.read_text() == "another"
