"""Claims are judged on each machine; one that lacks the points has not measured, and nothing fails."""

import pandas as pd
import pytest

from traintime.book import claims
from traintime.book.claims import Claim, Finding, every, judge
from traintime.book.stored import Measurements

ROWS = pd.DataFrame({"machine": ["m"], "stack": ["numpy"], "status": ["ok"]})


def claim(find):
    return Claim("01.1", "It is so.", find)


@pytest.mark.parametrize(("holds", "verdict"), [(True, "holds"), (False, "does not hold"), (None, "inconclusive")])
def test_a_finding_becomes_a_verdict_with_its_figure(holds, verdict):
    one = judge(claim(lambda measurements: Finding(holds, "1.2 (1.1 to 1.3)")), Measurements(ROWS))
    assert (one.verdict, one.figure, one.machine) == (verdict, "1.2 (1.1 to 1.3)", "this run")


@pytest.mark.parametrize(
    "find",
    [
        lambda rows: None,
        lambda rows: [][0],
        lambda rows: {"numpy": 1}["2026-jax"],
        lambda rows: rows.set_index("stack").loc["2026-jax"],
        lambda rows: rows.set_index("stack")["status"]["2026-jax"],
        lambda rows: rows.pivot(columns="stack", index="machine", values="status").loc[:, "2026-jax"],
        lambda rows: pd.DataFrame([])["step_s"],  # a table of what nobody measured has no columns
    ],
)
def test_a_machine_that_lacks_the_points_has_not_measured(find):
    assert judge(claim(lambda book: find(book.rows)), Measurements(ROWS)).verdict == "not measured"


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


def test_machines_that_say_the_same_share_a_line_and_who_did_not_measure_has_none():
    found = [("A", "holds", "2"), ("B", "not measured", ""), ("C", "holds", "2"), ("D", "does not hold", "3")]
    assert claims.by_machine(found) == ["A, C: **holds**, 2", "D: **does not hold**, 3"]
