"""Claims that a chapter's notebook judges: which there are, and what comes of them on a machine."""

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from traintime.book import notebooks, stored
from traintime.book.claims import judge

PYTHON = {"language_info": {"name": "python"}}
MEASURED = [
    "from traintime import lab",
    "runs = lab.runs(machine, vocabulary=280_000)",
    'lab.judge("99.1", """It is\n    so.""", lab.Verdict(None, f"{machine}: {len(runs) > 0}"), source="S0, C1")',
    'lab.runs(machine, vocabulary=7)\nlab.judge("99.2", "It is otherwise.", lab.Verdict(True, "7"))',
]


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """Write a chapter of cells, after its parameter; the first of them is tagged `here`."""

    def write(*cells):
        made = [
            new_code_cell('machine = "none"', metadata={"tags": ["parameters"]}),
            new_code_cell("raise ValueError('left out')", metadata={"tags": ["here", "remove-cell"]}),
        ]
        nbformat.write(
            new_notebook(cells=[*made, *map(new_code_cell, cells)], metadata=PYTHON), tmp_path / "99-one.ipynb"
        )
        monkeypatch.setattr(notebooks, "source", lambda chapter: tmp_path / f"{chapter}.ipynb")
        notebooks.claims.cache_clear()
        notebooks.findings.cache_clear()
        return "99-one"

    return write


def test_a_notebook_judges_up_to_what_a_machine_has_not_measured(chapter):
    claims = notebooks.claims(chapter(*MEASURED))
    assert {label: (one.sentence, one.source) for label, one in claims.items()} == {
        "99.1": ("It is so.", "S0, C1"),
        "99.2": ("It is otherwise.", "ours"),
    }
    assert (judge(claims["99.1"], stored.of()).verdict, judge(claims["99.2"], stored.of()).verdict) == (
        "inconclusive",
        "not measured",
    )
    assert notebooks.findings("99-one", stored.reference())["99.1"].figure == "machine B: True"


def test_another_error_is_an_error(chapter):
    with pytest.raises(papermill.PapermillExecutionError, match="mistyped"):
        notebooks.findings(chapter("mistyped"), stored.reference())


def test_verdicts_rest_on_the_code_that_judges_and_not_on_what_is_shown_here(chapter):
    bases = {
        notebooks.basis(chapter(*cells), set()) for cells in (["x = 1"], ["x = 1"], ["x = 2"], ["import traintime.lab"])
    }
    assert len(bases) == 3
