"""Claims that a notebook judges: what comes of them on each machine, and that the committed file rests on what is."""

import random
from concurrent.futures import ThreadPoolExecutor

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from traintime.book import contents, verdicts
from traintime.book.verdicts import ARITHMETIC, FIGURES, NOT_MEASURED, Row
from traintime.errors import InputError
from traintime.store import derived, machines

FIRST, SECOND = list(machines.titles())[:2]
MEASURED = [
    "from traintime import lab",
    "runs = lab.runs(machine, vocabulary=280_000)",
    'lab.judge("99.1", """It is\n    so.""", lab.Verdict(None, f"{machine}: {len(runs) > 0}"), source="S0, C1")',
    'runs = lab.runs(machine, vocabulary=7)\nlab.judge("99.2", "It is otherwise.", lab.Verdict(True, "7"))',
    'lab.judge("99.3", "It needs what is missing.", lab.Verdict(True, str(runs)))',
    f'lab.judge("99.4", "It is of one machine.", lab.Verdict(True), on={machines.titles()[SECOND]!r})',
    f'lab.judge("99.5", "It needs none.", lab.Verdict(True), on={FIGURES!r})',
]
TWICE = [(False, FIGURES), (True, "")]
ALL = 'runs = lab.runs(machine, workload="rnn", vocabulary=...)'
PYTHON = {"language_info": {"name": "python"}}


@pytest.fixture
def chapter(tmp_path):
    """Write a chapter of cells, after its parameter; the first of them is tagged `here`."""

    def write(*cells):
        made = [
            new_code_cell('machine = "none"', metadata={"tags": ["parameters"]}),
            new_code_cell("raise ValueError('left out')", metadata={"tags": ["here", "remove-cell"]}),
        ]
        path = tmp_path / "99-one.ipynb"
        nbformat.write(new_notebook(cells=[*made, *map(new_code_cell, cells)], metadata=PYTHON), path)
        return path

    return write


def judged(notebook):
    """What came of a notebook's claims: rows by claim and machine."""
    return {(row.claim, row.machine): row for row in verdicts.judged("99-one", notebook)}


def test_a_notebook_judges_on_each_machine_what_that_has_measured(chapter):
    notebook = chapter(*MEASURED)
    claims = {one.label: (one.sentence, one.source) for one in verdicts.of_notebook("99-one", notebook)}
    assert list(claims) == [f"99.{number}" for number in range(1, 6)]
    assert [claims["99.1"], claims["99.2"]] == [("It is so.", "S0, C1"), ("It is otherwise.", "ours")]
    rows = judged(notebook)
    words = {label: rows[label, FIRST].verdict for label in claims if label != "99.5"}
    assert words == {"99.1": "inconclusive"} | dict.fromkeys(["99.2", "99.3", "99.4"], NOT_MEASURED)
    assert rows["99.1", FIRST].figure == f"{machines.titles()[FIRST]}: True"
    assert rows["99.4", SECOND].verdict == "holds"
    assert [row.machine for (label, _), row in rows.items() if label == "99.5"] == [FIGURES]


def test_a_claim_may_be_judged_on_published_figures_and_on_a_machine(chapter):
    both = [f'lab.judge("99.1", "It is so.", lab.Verdict({holds}), on={on!r})' for holds, on in TWICE]
    rows = judged(chapter(MEASURED[0], *both))
    assert {machine: row.verdict == "holds" for (_, machine), row in rows.items()} == {
        FIGURES: False,
        **dict.fromkeys(machines.titles(), True),
    }
    with pytest.raises(InputError, match="two sentences"):
        verdicts.of_notebook("99-one", chapter(both[0], both[1].replace("so", "otherwise")))


def test_a_verdict_that_rests_on_a_rule_younger_than_its_runs_says_so(chapter):
    """Runs that lost time to the host do not count, also those from before that rule."""
    known = derived.read("runs").groupby("folder")["late"].sum()
    late = known.idxmax()
    number = 'lab.judge("99.1", "So few.", lab.Verdict(not lab.late, str(len(runs))))'
    rows = judged(chapter(MEASURED[0], ALL, number))
    assert rows["99.1", late].verdict == "holds"
    assert rows["99.1", late].figure.endswith(f"; *does not hold* {verdicts.COUNTED}")
    assert verdicts.COUNTED not in rows["99.1", known.idxmin()].figure


def test_a_cell_without_its_framework_says_so_and_stored_runs_are_judged(chapter):
    first, *others = MEASURED[:4]
    live = ["import theano\nstep = 1", "theano.config, step"]  # which no environment of the book has
    assert judged(chapter(first, *live, *others)) == judged(chapter(first, *others))


@pytest.mark.parametrize("cell", ["mistyped", "x = {}['missing']", "import missing_package"])
def test_another_error_is_an_error(chapter, cell):
    with pytest.raises(papermill.PapermillExecutionError, match="mis"):
        judged(chapter(cell))


def test_verdicts_rest_on_the_code_that_judges_and_not_on_what_is_shown_here(chapter):
    cells = (["x = 1"], ["x = 1"], ["x = 2"], ["import traintime.lab"])
    assert len({verdicts.basis.__wrapped__("99-one", chapter(*each)) for each in cells}) == 3


@pytest.fixture(scope="module")
def rows():
    return verdicts.read(verdicts.FILE)


def test_every_claim_has_its_verdicts_and_they_rest_on_todays_data_and_code(rows):
    """One that fails here: `make derived` judges what has changed."""
    assert list(rows) == list(verdicts.claims())
    assert list(verdicts.fresh(verdicts.FILE)) == list(contents.chapters())
    for label, claim in verdicts.claims().items():
        where = [on for on in claim.on if on in (FIGURES, ARITHMETIC)]
        where += list(machines.titles()) * (len(where) < len(claim.on))
        assert [row.machine for row in rows[label]] == where
        assert claim.sentence.endswith(".")
        assert claim.source.startswith(("ours", "S"))


@pytest.mark.parametrize("number", [1, pytest.param(17, marks=pytest.mark.rest)])
def test_judging_again_gives_the_same(rows, number):
    """A chapter at random at every push."""
    for chapter in random.sample(list(contents.chapters()), number):
        for now in verdicts.judged(chapter):
            assert now in rows[now.claim]


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A copy of the file, for tests to damage."""
    copy = tmp_path / "verdicts.csv"
    for path in (verdicts.FILE, verdicts.bases(verdicts.FILE)):
        (tmp_path / path.name).write_text(path.read_text())
    bases = {chapter: verdicts.basis(chapter) for chapter in contents.chapters()}
    monkeypatch.setattr(verdicts, "basis", bases.__getitem__)  # it leaves out the file by its name
    monkeypatch.setattr(verdicts, "FILE", copy)
    return copy


def test_only_what_does_not_hold_is_judged_again(file, tmp_path, monkeypatch, rows):
    """A chapter on an old basis and one with a missing row are judged; the file then is as the committed one is."""
    whole, asked = file.read_text(), []

    def judge(chapter):
        asked.append(chapter)
        return [row for label, each in rows.items() for row in each if verdicts.claims()[label].chapter == chapter]

    monkeypatch.setattr(verdicts, "judged", judge)
    monkeypatch.setattr(verdicts, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    last = [row.claim for each in rows.values() for row in each][-1]
    file.write_text("".join(line for line in whole.splitlines(keepends=True) if not line.startswith(f"{last},")))
    first, *others = verdicts.bases(file).read_text().splitlines(keepends=True)[1:]
    verdicts.bases(file).write_text("".join(["chapter,basis\n", first.split(",")[0] + ",old\n", *others]))
    said, built = [], tmp_path / "built" / "verdicts.csv"
    built.parent.mkdir()
    verdicts.update(built, said.append)
    first, *_, last = contents.chapters()
    assert asked == [first, last]
    assert built.read_text() == whole
    assert "chapters left 2," in said[0]
    before = built.stat().st_mtime_ns
    verdicts.update(built, said.append)
    assert len(asked) == 2, "nothing is left"
    assert built.stat().st_mtime_ns == before


@pytest.mark.parametrize("text", [b"\xff\x00", b"claim,machine\na,b,c\n", None])
def test_a_damaged_file_or_none_has_no_rows(tmp_path, text):
    path = tmp_path / "verdicts.csv"
    if text is not None:
        path.write_bytes(text)
    assert verdicts.read(path) == {}


def test_machines_that_say_the_same_share_a_line(monkeypatch):
    rows = [Row("99.1", each, "holds", "2 times") for each in (FIRST, SECOND)] + [Row("99.1", "x", NOT_MEASURED, "")]
    monkeypatch.setattr(verdicts, "_shown", lambda: {"99.1": [*rows, Row("99.1", "other", "inconclusive", "")]})
    one, two = (machines.titles()[each] for each in (FIRST, SECOND))
    assert verdicts.said("99.1") == [f"{one}, {two}: **holds**, 2 times", "other: **inconclusive**"]


def test_a_claim_that_was_closed_keeps_its_last_verdicts():
    label = next(iter(verdicts.closed()))
    assert label not in verdicts.claims()
    assert {row.claim for row in verdicts.every(label)} == {label}
