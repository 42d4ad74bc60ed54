"""Claims that a chapter's notebook judges: which there are, and what comes of them on a machine."""

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from traintime.book import notebooks, original, stored
from traintime.book.claims import judge
from traintime.errors import InputError

PYTHON = {"language_info": {"name": "python"}}
ONE = list(stored.named().values())[1]["title"]
MEASURED = [
    "from traintime import lab",
    "runs = lab.runs(machine, vocabulary=280_000)",
    'lab.judge("99.1", """It is\n    so.""", lab.Verdict(None, f"{machine}: {len(runs) > 0}"), source="S0, C1")',
    'runs = lab.runs(machine, vocabulary=7)\nlab.judge("99.2", "It is otherwise.", lab.Verdict(True, "7"))',
    'lab.judge("99.3", "It needs what is missing.", lab.Verdict(True, str(runs)))',
    f'lab.judge("99.4", "It is of one machine.", lab.Verdict(True), on={ONE!r})',
    f'lab.judge("99.5", "It needs none.", lab.Verdict(True), on={original.FIGURES!r})',
]
TWICE = [(False, original.FIGURES), (True, "")]
COUNTED = 'lab.judge("99.1", "So many.", lab.Verdict(True, str(len(runs))))'


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


def test_a_notebook_judges_on_each_machine_what_that_has_measured(chapter):
    claims = notebooks.claims(chapter(*MEASURED))
    assert {label: (one.sentence, one.source) for label, one in claims.items()} == {
        "99.1": ("It is so.", "S0, C1"),
        "99.2": ("It is otherwise.", "ours"),
        "99.3": ("It needs what is missing.", "ours"),
        "99.4": ("It is of one machine.", "ours"),
        "99.5": ("It needs none.", "ours"),
    }
    first, second = (stored.of(name) for name in list(stored.named())[:2])
    verdicts = {label: judge(claim, first).verdict for label, claim in claims.items()}
    assert verdicts == {
        "99.1": "inconclusive",
        "99.2": "not measured",
        "99.3": "not measured",
        "99.4": "not measured",
        "99.5": "not measured",
    }
    assert judge(claims["99.1"], first).figure == f"{first.title}: True"
    assert judge(claims["99.4"], second).verdict == "holds"
    assert verdicts_of_none(claims["99.5"]) == "holds"


def test_a_claim_may_be_judged_on_published_figures_and_on_a_machine(chapter):
    both = [f'lab.judge("99.1", "It is so.", lab.Verdict({holds}), on={on!r})' for holds, on in TWICE]
    claim = notebooks.claims(chapter(MEASURED[0], *both))["99.1"]
    assert verdicts_of_none(claim) == "does not hold"
    assert {judge(claim, stored.of(name)).verdict for name in stored.named()} == {"holds"}
    with pytest.raises(InputError, match="two sentences"):
        notebooks.claims(chapter(both[0], both[1].replace("so", "otherwise")))


def verdicts_of_none(claim):
    """The verdict of a claim on the documents' figures."""
    return judge(claim, original.document(original.FIGURES)).verdict


def test_runs_that_a_younger_rule_leaves_out_are_counted_when_they_are_asked_for(chapter):
    claims = notebooks.claims(chapter(MEASURED[0], 'runs = lab.runs(machine, workload="rnn", vocabulary=...)', COUNTED))
    counts = {}
    for name in stored.named():
        book = stored.of(name)
        if book.before_the_rule:
            counts[name] = [int(judge(claims["99.1"], one).figure) for one in (book, book.before_the_rule)]
    assert counts
    assert all(now <= before for now, before in counts.values())
    assert any(now < before for now, before in counts.values())


@pytest.mark.parametrize("cell", ["mistyped", "x = {}['missing']"])
def test_another_error_is_an_error(chapter, cell):
    with pytest.raises(papermill.PapermillExecutionError, match="mis"):
        notebooks.findings(chapter(cell))


def test_verdicts_rest_on_the_code_that_judges_and_not_on_what_is_shown_here(chapter):
    bases = {
        notebooks.basis(chapter(*cells), set()) for cells in (["x = 1"], ["x = 1"], ["x = 2"], ["import traintime.lab"])
    }
    assert len(bases) == 3
