"""Chapter 15: what its tables and claims make of predictions and trainings that are made up."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up import said, verdict, verdicts
from made_up import tried_model as case
from tables import cells

from traintime import cli, paths
from traintime.book import stored
from traintime.book.chapters import predicting
from traintime.errors import InputError
from traintime.predict import bench, costs, evidence

CHAPTER = "15-predict-yours"
LATE = "2026-11-28T00:00:00Z"  # when version 10 was the newest
WITHDRAWN = "machine,started,figure,reason"
PRINTED = "machine,ended,stack,allocator,kind,fit_s,again,probed memory,FLOPs / peak"
LINE = "made-up,2027-01-01T00:00:00Z,2026-jax,glibc,classifier,20.0,0.02,0.01,-1.0"


def larger(number, scaled):
    """A model of which one a tenth as large was tried: predicted at so many times its 20 s."""
    about = {"kind": "beyond-length", "one_batch_s": None, "flops_s": None, "line_s": 10.0, "fit_s": [20.0, 20.0]}
    return case(number, **about) | {"predicted": {"scaled": said("scaled", 20.0 * scaled, 1e9, 0.2).to_dict()}}


def long_training(number, probed=1.0, epochs=(150.0, 101.0, 100.0, 104.0, 145.0)):
    took = sum(epochs)
    return case(number, true=took, probed=probed, fit_s=[took], peaks=[1e9], epochs=5, epochs_s=epochs)


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A machine that has tried these models."""
    shutil.copy(paths.PREDICTED / "versions.csv", tmp_path)
    monkeypatch.setattr(paths, "PREDICTED", tmp_path)
    (tmp_path / "withdrawn.csv").write_text(f"{WITHDRAWN}\n")
    (tmp_path / "printed.csv").write_text(f"{PRINTED}\n{LINE.replace('made-up', 'another')}\n")

    def make(cases):
        # In one go, since bench.keep writes all of the file anew for each.
        (tmp_path / "made-up.json").write_text(json.dumps(cases))
        return stored.Measurements(pd.DataFrame({"stack": ["2026-jax"]}), "made-up")

    return make


# Claims

GOOD = [case(number, probed=1 + 0.01 * (number % 5)) for number in range(40)]
BAD = [case(n, probed=2.0 + 0.01 * n, formula=4.0, batch=1.0, peak=2.0) for n in range(20)]
FEW = [case(0, probed=1.3), case(1, probed=0.9, peak=1.1), case(2, probed=1.12, peak=1.04)]


@pytest.mark.parametrize(
    ("labels", "cases", "expected"),
    [
        (("15.1", "15.4", "15.5"), GOOD, "holds"),
        (("15.1", "15.4", "15.5"), BAD, "does not hold"),
        (("15.1", "15.4", "15.5"), FEW, "inconclusive"),
        (("15.39",), [long_training(n, 1.02 + 0.001 * n) for n in range(40)], "holds"),
        (("15.39",), [long_training(n, 2.0 + 0.001 * n) for n in range(40)], "does not hold"),
        (("15.39",), [long_training(1, 1.02), long_training(2, 1.3)], "inconclusive"),
        (("15.39",), GOOD, "not measured"),
        (("15.1", "15.4", "15.5"), [long_training(1)], "not measured"),
    ],
)
def test_a_claim_can_hold_and_fail_and_stay_open(labels, cases, expected, book):
    tried = book(cases)
    assert {label: verdict(label, tried) for label in labels} == dict.fromkeys(labels, expected)


@pytest.mark.parametrize(("within", "expected"), [(0.95, "holds"), (0.8, "does not hold")])
def test_the_goal_on_cards_is_judged_where_a_card_was_measured(within, expected, monkeypatch):
    monkeypatch.setattr(predicting, "of_all", lambda: {"within": within, "width": 5.0, "covered": 0.9})
    assert verdict("15.38", predicting.card()) == expected
    assert verdict("15.38", stored.of()) == "not measured"


def test_single_trainings_decide_nothing(book):
    tried = book([case(1), long_training(2)])
    assert set(verdicts(CHAPTER, tried).values()) == {"inconclusive", "not measured"}


# Quantities


def test_errors_are_means_by_stack_and_of_one_version_where_it_is_asked_for(book):
    equal = {"fit_s": [20.0, 20.0]}
    first = [case(1, probed=1.1, **equal), case(2, probed=0.8, stack="2026-torch", **equal)]
    tried = book([*first, case(3, probed=1.3, started=LATE, **equal), larger(4, 1.5)])
    found = {name: error.value for name, error in predicting.errors(tried, "probed").items()}
    assert found == pytest.approx({predicting.ALL: 0.2, "2026-jax": 0.2, "2026-torch": 0.2})
    assert predicting.errors(tried, "scaled")[predicting.ALL].value == pytest.approx(0.5)
    assert predicting.errors(tried, "line")[predicting.ALL].value == pytest.approx(0.5)
    by_probe = predicting.predicted(tried, "probed")
    assert predicting.width(by_probe) == pytest.approx(np.exp(2 * 1.6449 * 0.12), rel=1e-3)
    assert predicting.covered(by_probe) == "1 of 3"
    table = predicting.without_it(tried).iloc[0]
    assert table.tolist() == pytest.approx([0.1, 0.3, 0.99])


def test_what_was_printed_has_no_intervals_and_what_is_withdrawn_no_memory(book, tmp_path):
    (tmp_path / "printed.csv").write_text(f"{PRINTED}\n{LINE}\n{LINE.replace('made-up', 'another')}\n")
    (tmp_path / "withdrawn.csv").write_text(f"{WITHDRAWN}\nmade-up,{case(1)['started']},memory,ours\n")
    found = predicting.cases(book([case(1), case(2)]))
    assert found["way"].value_counts()[["probed memory", "probed"]].tolist() == [2, 2]
    of_it = found[found["number"] < 0].set_index("way")
    assert of_it["times"].to_dict() == pytest.approx({"again": 1.02, "probed memory": 1.01, "FLOPs / peak": 0.005})
    assert of_it["held"].isna().all()


def test_a_long_training_counts_apart_and_not_where_its_answer_is_withdrawn(book, tmp_path):
    tried = book([case(1), long_training(2, probed=1.1), long_training(3, probed=11.0)])
    (tmp_path / "withdrawn.csv").write_text(f"{WITHDRAWN}\nmade-up,{long_training(3)['started']},time,others\n")
    assert predicting.cases(tried)["number"].nunique() == 1
    one = predicting.trained_long(tried).iloc[0]
    assert (one["took_s"], one["held"], one["memory"], one["memory_held"]) == (600.0, True, 1.0, True)
    assert one["spread"] == pytest.approx(0.45), "without the first, which compiles"
    assert predicting.long_errors(tried).most.value == pytest.approx(0.1)
    assert [row[1:] for row in cells(predicting.long_table(tried))] == [
        ["11 (9 to 13)", "10"],
        ["110 (90 to 134)", "10, outside, withdrawn"],
    ]


def test_what_was_left_out_is_told_by_card_and_source_and_all_by_weight():
    table, rows, found = cells(predicting.cards_table()), predicting.left_out(), predicting.of_all()
    assert [row[0] for row in table] == [*rows["left_out"].unique(), "all, by weight"]
    assert int(table[-1][1]) == len(rows) == sum(int(row[1]) for row in table[:-1])
    twice = rows["times"].between(0.5, 2)
    assert found["within"] == pytest.approx(rows["weight"][twice].sum() / rows["weight"].sum())
    assert found["within"] != pytest.approx(twice.mean(), abs=1e-3), "by weight, and not by number"
    assert found["width"] == pytest.approx(np.exp(2 * 1.6449 * costs.card_costs()["error"]), rel=1e-3)
    assert found["cards"] == rows["device"].nunique() - 1


# The page


@pytest.mark.parametrize(
    ("took", "busy", "says"),
    [
        (20.0, "", "**inside**"),
        (60.0, "", "**outside** the interval of"),
        (2.0, "", "it took less than predicted. The interval is meant to cover 90\u00a0% of"),
        (60.0, "probe", "run it yourself"),
        (60.0, "training", "run it yourself"),
    ],
)
def test_a_training_is_said_to_be_inside_or_outside_unless_others_used_the_cores(took, busy, says, monkeypatch):
    monkeypatch.setattr(predicting.process, "crowd", lambda *_: 1.5 * (busy == "training"))
    told = (f"others used 1.5 of 2 processors: {evidence.BUSY}",) if busy == "probe" else ()
    text = predicting.landed(replace(said("probed", 20.0, 1e9, 0.12), warnings=told), took).data
    assert says in text
    assert ("**" in text) == ("interval" in text) == (not busy)


# The bench that tries the models


def test_a_bench_keeps_what_it_tried_though_nobody_says_where(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(bench, "run", lambda *_: iter([case(1), case(2)]))
    monkeypatch.setattr("sys.argv", ["traintime", "bench-predict"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert len(bench.kept(tmp_path / "traintime" / "predicted", "made-up")) == 2
    assert str(tmp_path / "traintime" / "predicted" / "made-up.json") in capsys.readouterr().err


def test_a_kind_that_is_not_known_is_refused():
    with pytest.raises(InputError, match="kind: 'rnn'"):
        next(bench.run(["jax"], 1, kinds=["rnn"]))


def test_each_withdrawal_is_of_a_model_that_was_tried_and_has_its_reason():
    with (paths.DATA / "predicted" / "withdrawn.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        started = [one["started"] for one in bench.kept(paths.DATA / "predicted", row["machine"])]
        assert row["started"] in started
        assert row["reason"]
