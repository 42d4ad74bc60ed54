"""Claims are judged on each machine; one that lacks the points has not measured, and nothing fails."""

import pandas as pd
import pytest

from traintime.book import chapters, claims, stored
from traintime.book.claims import Claim, Finding, every, judge, judged
from traintime.book.stored import Measurements

ROWS = pd.DataFrame({"machine": ["m"], "stack": ["numpy"], "status": ["ok"]})


def claim(find):
    return Claim("01.1", "It is so.", "ours", find)


@pytest.mark.parametrize(("holds", "verdict"), [(True, "holds"), (False, "does not hold"), (None, "cannot be told")])
def test_a_finding_becomes_a_verdict_with_its_figure(holds, verdict):
    one = judge(claim(lambda measurements: Finding(holds, "1.2 (1.1 to 1.3)")), Measurements(ROWS))
    assert (one.verdict, one.shown, one.machine) == (verdict, "1.2 (1.1 to 1.3)", "this run")


def missing(measurements):
    return measurements.rows.set_index("stack").loc["2026-jax"]


@pytest.mark.parametrize("find", [lambda measurements: None, missing, lambda measurements: [][0]])
def test_a_machine_that_lacks_the_points_has_not_measured(find):
    assert judge(claim(find), Measurements(ROWS)).verdict == "not measured"


def test_a_machine_without_a_measurement_is_not_asked():
    assert judge(claim(lambda measurements: Finding(True, "")), Measurements(ROWS[:0])).verdict == "not measured"


def test_what_is_broken_is_not_taken_for_not_measured():
    with pytest.raises(TypeError):
        judge(claim(lambda measurements: Finding(True)), Measurements(ROWS))


@pytest.mark.parametrize(
    ("parts", "expected"), [((True, True), True), ((True, None), None), ((True, None, False), False)]
)
def test_all_hold_only_where_each_does(parts, expected):
    assert every(*parts) is expected


def test_nothing_to_judge_is_nothing_measured():
    with pytest.raises(KeyError):
        every()


def test_each_claim_is_judged_on_each_machine_and_on_this_run():
    found = judged([claim(lambda measurements: Finding(True, measurements.machine))], Measurements(ROWS))
    assert [one.shown for one in found[0]] == [*stored.named(), "this run"]


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

    assert [one.machine for one in judged([claim(decide)])[0]] == shown


@pytest.mark.parametrize("chapter", list(chapters.MODULES))
def test_the_claims_of_a_chapter_are_numbered_sourced_and_never_fail(chapter):
    """On every machine of the book, and on one that has measured next to nothing."""
    few = stored.of().rows.head(3)
    labels = [one.label for one in chapters.of(chapter)]
    assert labels
    assert len(set(labels)) == len(labels)
    for one in chapters.of(chapter):
        assert one.label.startswith(chapter[:2] + ".")
        assert one.sentence.endswith(".")
        assert one.source.startswith(("ours", "S"))
        verdicts = [judge(one, stored.of(name)).verdict for name in stored.named()]
        verdicts.append(judge(one, Measurements(few)).verdict)
        assert set(verdicts) <= {*claims.WORDS.values(), "not measured"}


def test_machines_that_say_the_same_share_a_line_and_who_did_not_measure_comes_last():
    found = [("A", "holds", "2"), ("B", "not measured", ""), ("C", "holds", "2"), ("D", "does not hold", "3")]
    assert claims.by_machine(found) == ["A, C: **holds**, 2", "D: **does not hold**, 3", "B: not measured"]
    assert claims.by_machine(found[:1]) == ["A: **holds**, 2"]
