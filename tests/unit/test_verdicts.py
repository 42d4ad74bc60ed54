"""Verdicts: judged once, read by every page, and never shown when what they rest on has changed."""

import csv
import random
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from made_up import made_up

from traintime.book import VERDICTS, chapters, original, stored, verdicts
from traintime.book.claims import Claim, Finding, judge
from traintime.book.stored import Measurements
from traintime.book.verdicts import Row

ROWS = pd.DataFrame({"machine": ["m"], "stack": ["numpy"], "status": ["ok"]})
CLAIMS = verdicts.every_claim()


def claim(find, label="00.1"):
    return Claim(label, "It is so.", find)


# What is committed


@pytest.fixture(scope="module")
def rows():
    return verdicts.read(verdicts.FILE)


def test_every_claim_has_a_verdict_for_every_machine_and_rests_on_todays_data_and_code(rows):
    """One that fails here: `make derived` judges what has changed."""
    assert list(rows) == [(label, machine) for label in CLAIMS for machine in stored.named()]
    assert verdicts.fresh(verdicts.FILE) == rows


@pytest.mark.parametrize("share", [0.02, pytest.param(1, marks=pytest.mark.rest)])
def test_judging_again_gives_the_same(rows, share):
    """A random fiftieth at every push."""
    names = random.sample(list(rows), int(share * len(rows)))
    for label, machine in names:
        now = verdicts.judge_stored(CLAIMS[label], machine)
        judged = rows[label, machine]
        assert (now.verdict, now.figure) == (judged.verdict, judged.figure), (label, machine)


@pytest.mark.parametrize("chapter", list(chapters.MODULES))
def test_the_claims_of_a_chapter_are_sourced_sentences_and_never_fail(chapter):
    """Also on a machine that has measured next to nothing."""
    few = stored.of().rows.head(3)
    assert chapters.of(chapter)
    for one in chapters.of(chapter):
        assert one.sentence.endswith(".")
        assert one.source.startswith(("ours", "S"))
        judge(one, Measurements(few))


# Which verdict a page shows


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Write a file of verdicts that pages read."""
    monkeypatch.setattr(verdicts, "FILE", tmp_path / "verdicts.csv")
    monkeypatch.setattr(verdicts, "basis", lambda chapter: "today's")
    monkeypatch.delenv(VERDICTS, raising=False)

    def write(*rows, basis="today's"):
        bases = [verdicts.BASIS, (QUESTION, basis)]
        written = {verdicts.FILE: [Row._fields, *rows], verdicts.bases(verdicts.FILE): bases}
        for path, lines in written.items():
            with path.open("w", newline="") as opened:
                csv.writer(opened, lineterminator="\n").writerows(lines)
        verdicts._rows.cache_clear()

    yield write
    verdicts._rows.cache_clear()


QUESTION = "01-the-question"
FIRST = claim(lambda book: Finding(False, "judged now"), "01.1")


def shown():
    """What a page shows of the claim on the reference machine."""
    one = verdicts.on(FIRST, stored.reference())
    return one.verdict, one.figure


def test_a_row_that_is_fresh_is_shown(file):
    file(Row("01.1", stored.reference(), "holds", "1.2 (1.1 to 1.3), it says"))
    assert shown() == ("holds", "1.2 (1.1 to 1.3), it says")


@pytest.mark.parametrize(
    ("row", "differs"),
    [
        (Row("01.1", stored.reference(), "holds", "1.2"), {"basis": "yesterday's"}),
        (Row("01.2", stored.reference(), "holds", "1.2"), {}),
        (Row("01.1", "another machine", "holds", "1.2"), {}),
        (("01.1", stored.reference(), "holds"), {}),
    ],
)
def test_a_row_that_is_stale_strange_or_missing_is_never_shown(file, row, differs):
    file(row, **differs)
    assert shown() == ("does not hold", "judged now")


def test_a_damaged_file_or_none_is_not_read(file):
    file(Row("01.1", stored.reference(), "holds", "1.2"))
    verdicts.FILE.write_bytes(b"\xff\x00")
    assert verdicts.read(verdicts.FILE) == {}
    verdicts.FILE.unlink()
    assert verdicts.read(verdicts.FILE) == {}


def test_only_what_does_not_hold_is_judged_again(tmp_path, monkeypatch, rows):
    """A chapter on an old basis and one with a missing row are judged; the file then is as the committed one is."""
    asked = []

    def rows_of(chapter):
        asked.append(chapter)
        return {name: row for name, row in rows.items() if chapters.of_label(row.claim) == chapter}

    monkeypatch.setattr(verdicts, "rows_of", rows_of)
    monkeypatch.setattr(verdicts, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    whole = verdicts.FILE.read_text()
    lines = whole.splitlines(keepends=True)
    damaged = tmp_path / "committed.csv"
    damaged.write_text("".join(lines[:-1]))
    first, *others = verdicts.bases(verdicts.FILE).read_text().splitlines(keepends=True)[1:]
    verdicts.bases(damaged).write_text("".join(["chapter,basis\n", first.split(",")[0] + ",old\n", *others]))
    monkeypatch.setattr(verdicts, "FILE", damaged)
    said = []
    verdicts.update(tmp_path / "built.csv", said.append)
    assert asked == [next(iter(chapters.MODULES)), list(chapters.MODULES)[-1]]
    assert (tmp_path / "built.csv").read_text() == whole
    assert said[0].startswith("Claims of 2 chapters")
    before = (tmp_path / "built.csv").stat().st_mtime_ns
    verdicts.update(tmp_path / "built.csv", said.append)
    assert len(asked) == 2, "nothing is left"
    assert (tmp_path / "built.csv").stat().st_mtime_ns == before


def test_what_a_verdict_rests_on_changes_with_data_and_with_code(monkeypatch):
    chapter, real = "16-beat-the-formula", verdicts.uses.kept.digest
    files = []
    monkeypatch.setattr(verdicts.uses.kept, "digest", lambda given: files.extend(given) or real(given))
    verdicts.basis.__wrapped__(chapter)
    data = {verdicts.paths.DERIVED / f"{name}.csv" for name in ("runs", "losses")}
    assert {verdicts.uses.file_of("traintime.lab"), *data} <= set(files)
    assert not {verdicts.FILE, verdicts.bases(verdicts.FILE), verdicts.paths.DATA / "sleeps.csv"} & set(files)


@pytest.mark.parametrize("chapter", [chapter for chapter, module in chapters.MODULES.items() if module])
def test_what_only_draws_is_no_part_of_a_verdict(chapter):
    behind = verdicts.uses.closure([chapters.module(chapter)], showing=False)
    assert chapters.module(chapter) in behind
    assert not {"traintime.book.page", "traintime.book.workflow", "traintime.book.verdicts"} & behind
    assert not any("plots" in name for name in behind)


def test_a_verdict_that_rests_on_a_rule_younger_than_its_runs_says_so(monkeypatch):
    """Runs that lost time to the host do not count, also those from before that rule."""
    runs = made_up(("numpy", {}, 1.0)).rows.assign(stolen_before_it_counted=[True, False, False])
    book = Measurements(runs.assign(disturbed=runs["stolen_before_it_counted"]), "made-up")
    monkeypatch.setattr(verdicts.stored, "of", lambda machine: book)
    quiet = claim(lambda one: Finding(len(one.good) == 2, "2 runs"))
    told = verdicts.judge_stored(quiet, "made-up")
    assert told.verdict == "holds"
    assert told.figure.startswith("2 runs; *does not hold* if runs that the host disturbed count")
    assert verdicts.judge_stored(claim(lambda one: Finding(True, "")), "made-up").figure == ""


# Which machines a page shows


def test_each_claim_is_judged_on_each_machine_and_on_this_run():
    found = verdicts.judged([claim(lambda book: Finding(True, book.machine))], Measurements(ROWS))
    assert [one.figure for one in found[0]] == [*stored.named(), "this run"]


def test_a_claim_that_needs_no_machine_is_judged_on_what_it_needs():
    def figures(book):
        return Finding(True, "10") if book.machine == original.FIGURES else None

    (only,) = verdicts.judged([claim(figures)])[0]
    assert (only.machine, only.verdict) == (original.FIGURES, "holds")
    assert [one.machine for one in verdicts.everywhere(CLAIMS["11.1"])] == [original.ARITHMETIC]
    assert len(verdicts.everywhere(CLAIMS["04.1"])) == len(stored.named())


@pytest.mark.parametrize(
    ("decided", "shown"),
    [
        ({"whole"}, ["whole", "too"]),
        ({"part"}, ["part"]),
        ({"whole", "part"}, ["whole", "part"]),
        (set(), ["whole", "too"]),
    ],
)
def test_a_machine_that_ran_some_sweeps_only_is_shown_where_it_decides(monkeypatch, decided, shown):
    """And the others beside it, where they decide something, too."""
    roles = {"whole": "reference", "too": "shown", "part": "in part"}
    known = {name: {"role": role, "title": name} for name, role in roles.items()}
    monkeypatch.setattr(stored, "named", lambda: known)
    monkeypatch.setattr(stored, "listed", lambda: {name: known[name] for name in ("whole", "too")})
    monkeypatch.setattr(stored, "of", lambda name: Measurements(ROWS, name))

    def decide(measurements):
        if measurements.machine not in decided:
            raise KeyError("not measured")
        return Finding(True, "")

    assert [one.machine for one in verdicts.judged([claim(decide)])[0]] == shown
