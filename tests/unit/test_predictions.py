"""Predictions stand as first written, and are judged by claims on the machine they were made for."""

import re
import subprocess

import pytest

from traintime import paths
from traintime.book import contents, predictions, verdicts
from traintime.book.predictions import Prediction
from traintime.book.verdicts import Row
from traintime.store import machines

LABELS = verdicts.claims().keys() | verdicts.closed().keys()


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ((), "not judged yet"),
        (("holds", "holds"), "held"),
        (("does not hold",), "failed"),
        (("!holds",), "failed"),
        (("!does not hold", "holds"), "held"),
        (("holds", "does not hold"), "held in part"),
        (("holds", "inconclusive"), "inconclusive"),
        (("does not hold", "not measured"), "failed"),
        (("not measured",), "not measured"),
        (("not measured", "inconclusive", "holds"), "inconclusive"),
    ],
)
def test_the_outcome_follows_from_the_claims(words, outcome, monkeypatch):
    came = [(Row("a", "m", word.lstrip("!"), ""), word[0] == "!") for word in words]
    monkeypatch.setattr(Prediction, "judged", came)
    assert predictions.read()[0].outcome == outcome


@pytest.mark.parametrize("one", predictions.read(), ids=lambda one: f"{one.machine[-24:]} {one.chapter}.{one.number}")
def test_each_row_is_of_a_machine_a_chapter_and_claims_that_exist(one):
    assert one.machine in machines.titles()
    # What is registered before its chapter is written has nothing yet that could judge it.
    assert any(chapter.startswith(one.chapter) for chapter in contents.chapters()) or not one.claims
    assert {label.lstrip("!") for label in one.claims.split()} <= LABELS
    assert re.match(r"2026-\d\d-\d\dT\d\d:\d\d:\d\d", one.registered)
    assert one.prediction


def test_what_was_reworded_is_there_as_first_written_and_failed_ones_are_shown():
    found = {(one.machine, one.chapter, one.number): one for one in predictions.read()}
    keep = found["amd-epyc-2-cores-24-gib", "04", "2"]
    assert keep.later_wording
    assert keep.outcome == "failed"
    assert found["amd-epyc-2-cores-24-gib", "03", "3"].later_wording
    assert found["amd-epyc-2-cores-24-gib", "02", "4"].outcome == "failed"


def test_a_date_rests_on_its_commit_where_that_is_in_this_history():
    shallow = ["git", "-C", str(paths.DATA), "rev-parse", "--is-shallow-repository"]
    if subprocess.run(shallow, capture_output=True, check=False).stdout.strip() != b"false":
        pytest.skip("git: no whole history here. Take a clone that has it.")
    for commit, dated_by in {(one.commit, one.dated_by) for one in predictions.read()}:
        inside = ["git", "-C", str(paths.DATA), "merge-base", "--is-ancestor", commit, "HEAD"]
        known = subprocess.run(inside, capture_output=True, check=False).returncode == 0
        assert dated_by == ("commit" if known else "own word"), commit


def test_only_what_was_committed_before_its_first_run_is_called_registered():
    words = {one.how_dated for one in predictions.read()}
    assert words == {"registered", "by its own word", "written after its first runs"}
    late = next(one for one in predictions.read() if one.measured_from and one.measured_from < one.registered[:16])
    assert late.how_dated == "written after its first runs"
