"""What a chapter depends on follows from its imports: it is run again for those alone."""

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
    found = names(uses.modules(notebook("%config x = 1", "from traintime.explain import formula")))
    assert {"traintime/explain/formula.py", "traintime/explain/statistics.py"} <= found
    assert not any(name.startswith("traintime/measuring") for name in found)


def test_a_chapter_that_measures_depends_on_the_workers_and_models(notebook):
    found = names(uses.modules(notebook("from traintime.book import run")))
    assert {"traintime/measuring/worker/timing.py", "traintime/workloads/rnn/on_keras3.py"} <= found


def test_a_chapter_without_plots_does_not_depend_on_them(notebook):
    found = names(uses.modules(notebook("from traintime.explain import memory")))
    assert not any("plots" in name for name in found)


def test_a_chapter_depends_on_those_figures_alone_that_it_draws(notebook):
    found = names(uses.modules(notebook("from traintime.book import plots", "plots.steps(points)")))
    assert {"traintime/book/plots/sweeps.py", "traintime/book/plots/look.py"} <= found
    assert not {"traintime/book/plots/roofline.py", "traintime/book/plots/__init__.py"} & found


def test_a_chapters_folder_is_used_by_what_is_asked_of_it(notebook):
    found = names(uses.modules(notebook("from traintime.book.chapters import pool", "pool.gains(book)")))
    assert "traintime/book/chapters/pool/analysis.py" in found
    assert "traintime/book/chapters/pool/claims.py" not in found
    found = names(uses.modules(notebook("from traintime.book.chapters.pool import CLAIMS")))
    assert "traintime/book/chapters/pool/claims.py" in found


def test_data_follow_from_the_modules_that_read_them(notebook):
    assert uses.data(notebook("from traintime.explain import formula")) == []
    found = names(uses.data(notebook("from traintime.book import original")))
    assert "data/original/s0-batch.csv" in found
    assert not any(name.startswith("data/measurements") for name in found)
    stored = names(uses.data(notebook("from traintime.book import stored")))
    assert "data/measurements/machines.csv" in stored


def test_a_notebook_of_its_own_imports_depends_on_nothing_here(notebook):
    assert uses.modules(notebook("import numpy as np")) == []
