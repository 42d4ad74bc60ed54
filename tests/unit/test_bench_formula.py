"""The formula's error for points that it has not seen, beside the error of measuring them again."""

import json

import numpy as np
import pytest
from made_up import measurements, rows
from typer.testing import CliRunner

from traintime import cli
from traintime.book import bench_formula, stored
from traintime.book.bench_formula import GOAL, Sharpness, sharpness
from traintime.explain.statistics import Interval

VOCABULARIES = [5_000, 20_000, 80_000, 280_000, 800_000, 2_000_000]
STAR = [{"vocabulary": v} for v in VOCABULARIES]
STAR += [{"vocabulary": 280_000, "batch": batch} for batch in (8, 32, 1024)]
STAR += [{"vocabulary": 280_000, "length": length} for length in (3, 100, 400)]


def line(fields):
    return 0.01 + 1e-3 * fields["length"] + 1e-6 * fields["vocabulary"] + 2e-5 * fields["batch"] * fields["length"]


def bent(fields):
    return line(fields) + 5e-6 * max(fields["vocabulary"] - 27_962, 0)


def the(found):
    (one,) = found
    return one


def test_where_the_formula_is_true_it_is_as_sharp_as_measuring_again():
    one = the(sharpness(measurements(rows("numpy", STAR, line))))
    assert (one.points, one.terms) == (12, "a l b c")
    assert one.repeat == pytest.approx(0.8 * 0.02 * np.sqrt(2 / 3), rel=0.4)
    assert one.ratio.value == pytest.approx(one.left_out / one.repeat)
    assert one.ratio.value < GOAL


def test_where_it_is_not_true_it_is_not():
    made = measurements(rows("numpy", STAR, bent))
    straight = the(sharpness(made))
    assert straight.verdict == "missed"
    assert the(sharpness(made, bend=True)).left_out < straight.left_out / 3


@pytest.mark.parametrize(
    ("points", "terms"),
    [
        (STAR[:6], "a b"),
        (STAR[:9], "a b c"),
        (STAR[:6] + STAR[9:], "a l b"),
        # A size with one other value alone has no cost.
        ([*STAR[:6], STAR[6]], "a b"),
    ],
)
def test_the_terms_follow_from_what_varies(points, terms):
    assert the(sharpness(measurements(rows("numpy", points, line)))).terms == terms


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(Interval(0.9, 0.6, 1.2), "met"), (Interval(0.9, 0.6, 1.4), "open"), (Interval(2.0, 1.4, 3.0), "missed")],
)
def test_the_interval_decides_whether_the_goal_is_met(ratio, verdict):
    assert Sharpness("m", "numpy", "glibc", 12, "a b", 0.02, 0.03, ratio).verdict == verdict


def test_the_bend_begins_where_a_table_is_as_large_as_what_glibc_maps_anew():
    made = measurements(rows("numpy", STAR[:1], line))
    assert bench_formula.mapped_rows(made.points(vocabulary=stored.ANY)) == 27_962
    assert 4 * 300 * 27_962 <= 32 * 2**20 < 4 * 300 * 27_963


# The command


def test_the_command_prints_both_errors_for_each_machine_for_people_and_programs(monkeypatch):
    made = measurements(rows("numpy", STAR, line)), measurements(rows("numpy", STAR[:1], line))
    for number, each in enumerate(made):
        each.machine = f"machine {number}"
    found = [one for each in made for one in sharpness(each)]
    monkeypatch.setattr(bench_formula, "every_machine", lambda: found)
    answer = CliRunner().invoke(cli.app, ["bench-formula"])
    assert answer.exit_code == 0
    assert answer.output.index("machine 0") < answer.output.index("machine 1")
    for text in ("measured again", "left out", "goal 1.3", "a l b c", "too few points"):
        assert text in answer.output
    found = json.loads(CliRunner().invoke(cli.app, ["bench-formula", "--json"]).output)
    assert [one["machine"] for one in found] == ["machine 0", "machine 1"]
    assert found[0]["ratio"] == pytest.approx(found[0]["left_out"] / found[0]["repeat"])
    assert found[1]["ratio"] is None
