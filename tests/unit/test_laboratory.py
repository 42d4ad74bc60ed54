"""What a chapter computes with: which runs it gets, what may be said of them, and the timer."""

import itertools
import shutil

import made_up
import numpy as np
import pandas as pd
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from traintime import lab, paths
from traintime.errors import InputError
from traintime.explain import points
from traintime.lab import NotMeasured, Verdict, between, interval, judge, rates, runs, same_rounds, steps, time_step
from traintime.point import make_point
from traintime.store import records


def made(*seconds, by="batch", stack="numpy", sweep="made-up"):
    """Runs of one stack: (value of `by`, round, seconds per step) each, as `runs` gives them."""
    rows = [
        made_up.row(stack, make_point(**{by: size}), number, time, step_s=2 * time, sweep=sweep, stretch=sweep)
        for size, number, time in seconds
    ]
    return pd.DataFrame(rows).assign(folder="made-up")


@pytest.fixture
def known(monkeypatch):
    """Make these runs those that are stored of a machine named made-up."""

    def know(*frames):
        found = pd.concat(frames, ignore_index=True)
        monkeypatch.setattr(lab, "_stored", lambda machine: (found, points.derive_spreads(found)))
        return found

    return know


# Stored runs


def test_a_field_that_is_not_named_has_its_usual_value(known):
    known(made((100, 1, 1.0), (8, 1, 2.0)), made((7, 1, 3.0), by="vocabulary"), made((100, 1, 4.0), stack="2026-jax"))
    assert runs("made-up")["median_s"].tolist() == [1.0, 4.0]
    with pytest.warns(UserWarning, match="no machine has a run of rnn with batch 7, stack numpi: left out"):
        found = runs("made-up", batch=[7, 8, 32, 100], stack=["numpy", "numpi", "2026-torch"])
    assert found["median_s"].tolist() == [1.0, 2.0]
    assert runs("made-up", batch=range(9))["median_s"].tolist() == [2.0]
    assert runs("made-up", batch=..., vocabulary=...)["median_s"].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert runs("made-up", words=[None])["median_s"].tolist() == [1.0, 4.0]


def test_a_table_tells_what_each_machine_is():
    found = lab.machines().loc["machine F"]
    assert (found["cores"], found["memory_gib"], found["gpus"]) == (16, 126, "NVIDIA H200")
    assert found["runs"] == len(lab._stored("machine F")[0])


def test_every_run_has_those_by_older_code_too_and_the_sentinels_are_apart():
    identity = ["stack", "key", "sweep", "round", "started"]
    every, watched, counted = lab.every_run("machine G"), lab.every_run("machine G", True), lab._stored("machine G")[0]
    every, watched, counted = (set(map(tuple, each[identity].to_numpy())) for each in (every, watched, counted))
    assert counted <= every
    assert watched
    assert not watched & every


def test_what_has_no_runs_is_not_measured(known):
    known(made((100, 1, 1.0)))
    with pytest.raises(NotMeasured, match=r"made-up has no run of rnn, batch 7, length any; measured on: no machine"):
        runs("made-up", batch=7, length=...)
    with pytest.raises(NotMeasured, match=r"machine G .* kernel cudnn; measured on: machine F$"):
        runs("machine G", device="gpu", kernel="cudnn")


def test_a_cell_with_an_error_of_ours_leaves_nothing_to_judge_by_and_a_missing_value_is_an_empty_cell():
    setup = "import pandas as pd\nfrom traintime import lab\nfound = lab.runs('machine B')"
    judges = "lab.judge('99.1', 'It is so.', lab.Verdict(True, found['machine'].iloc[0]))"
    missing = "pd.DataFrame({'a': [1, None]}).convert_dtypes()"
    cells = [setup, judges, "found = lab.runs('machine Z')", judges, missing]
    notebook = new_notebook(cells=list(map(new_code_cell, cells)))
    NotebookClient(notebook, allow_errors=True).execute()
    (judged,), (refused,), (lost,), (table,) = (cell.outputs for cell in notebook.cells[1:])
    assert judged.data[lab.VERDICT]["figure"] == "machine B"
    assert (refused.ename, lost.ename) == ("InputError", "NameError")
    assert "<td></td>" in table.data["text/html"] and "NA" not in table.data["text/html"]


def test_an_unknown_machine_or_size_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"machine: 'machine Z' is not a known machine\. .*machine A, machine B"):
        runs("machine Z")
    with pytest.raises(InputError, match=r"size: 'batches' is not a known size\. Choose one of: .*batch,"):
        runs("machine B", batches=8)
    with pytest.raises(InputError, match="not a known workload"):
        runs("machine B", "rnm")


def test_a_folder_of_the_readers_own_is_a_machine(tmp_path, monkeypatch):
    stored = runs("machine G", batch=..., vocabulary=...)
    folder = stored["folder"].iloc[0]
    for path in records.files(paths.MEASUREMENTS, folder):
        place = tmp_path / "mine" / path.relative_to(paths.MEASUREMENTS / folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
        place.write_text(place.read_text().replace(folder, "mine"))
    monkeypatch.setattr(paths, "MEASUREMENTS", tmp_path)
    mine = runs("mine", batch=..., vocabulary=...)
    assert lab.machines().loc["mine", "runs"] == len(lab._stored("mine")[0])
    assert sorted(mine["median_s"]) == pytest.approx(sorted(stored["median_s"]), rel=1e-5)
    sure = [interval(found, "vocabulary", lambda t: t.sum(axis=1)) for found in (mine, stored) if "batch" in found]
    np.testing.assert_allclose(sure[0]["value"], sure[1]["value"], rtol=1e-5)


def test_steps_are_geometric_means_of_medians_or_arithmetic_ones_of_means(known):
    found = known(made((8, 1, 1.0), (8, 2, 4.0), (32, 1, 3.0)))
    assert interval(found, "batch", lambda t: t[32] / t[8])["value"].to_dict() == pytest.approx({"numpy": 1.5})
    assert steps(found, "batch").loc["numpy"].to_dict() == pytest.approx({8: 2, 32: 3})
    assert steps(found, "batch", "step_s").loc["numpy"].to_dict() == pytest.approx({8: 5, 32: 6})


def test_only_rounds_that_measured_everything_are_compared():
    found = made((8, 1, 1.0), (8, 2, 2.0), (32, 2, 3.0), (32, 3, 4.0), (100, 1, 5.0))
    elsewhere = made((8, 3, 9.0), sweep="another")
    assert same_rounds(pd.concat([found, elsewhere]), "batch", 8, 32)["median_s"].tolist() == [2.0, 3.0]
    with pytest.raises(NotMeasured, match=r"no round has measured batch 8, 32, 100 together"):
        same_rounds(found, "batch")
    with pytest.raises(NotMeasured, match="no round has measured any batch: there are no runs"):
        same_rounds(found[:0], "batch")


def test_the_rates_of_a_machine_are_medians_over_all_times_and_every_repeat(known, monkeypatch):
    known(made((100, 1, 1.0)))
    fixed = {"matmul_flop_per_s": 7.0}
    times = [fixed | {"bandwidth_bytes_per_s": of, "bandwidth_repeats": [of]} for of in (1.0, 9.0, 2.0)]
    monkeypatch.setattr(lab, "rated", lambda folder: times if folder.name == "made-up" else [])
    found = rates("made-up")
    assert (found["bandwidth_bytes_per_s"], found["matmul_flop_per_s"]) == (2.0, 7.0)
    assert (found["bandwidth_repeats"], found["matmul_repeats"]) == ([1.0, 9.0, 2.0], [])
    times.clear()
    with pytest.raises(NotMeasured, match="rates of made-up"):
        rates("made-up")


# What may be said of them


def repeated(costs, sizes=(8, 1024), rounds=5, error=0.05, seed=0):
    """Runs of a stack whose step is F + c B, each off by a share of its own."""
    random = np.random.default_rng(seed)
    fixed, each = costs
    pairs = itertools.product(sizes, range(rounds))
    return made(*((size, n, (fixed + each * size) * np.exp(error * random.standard_normal())) for size, n in pairs))


def a_sample(t):
    """The cost of a sample, from two steps."""
    return (t[1024] - t[8]) / (1024 - 8)


def test_an_interval_holds_the_known_cost_of_a_made_up_machine_about_as_often_as_it_says(known):
    held = 0
    for seed in range(40):
        sure = interval(known(repeated((0.2, 1e-3), seed=seed)), "batch", a_sample).loc["numpy"]
        held += sure["low"] < 1e-3 < sure["high"]
    assert held >= 36


def test_a_row_may_be_a_whole_machine_and_a_missing_step_leaves_a_row_out(known):
    found = known(made((8, 1, 1.0), (1024, 1, 3.0)), made((8, 1, 2.0), stack="2026-jax"))
    assert interval(found, "batch", lambda t: t[1024] / t[8])["value"].to_dict() == pytest.approx({"numpy": 3})
    ratio = interval(found, ["stack", "batch"], lambda t: t["2026-jax", 8] / t["numpy", 8], each="machine")
    assert ratio["value"].to_dict() == pytest.approx({"made-up": 2})
    assert ratio["low"].isna().all(), "one run tells nothing of how far two land apart"
    each = interval(found, "batch", lambda t: t.iloc[:, 0], each=["stack", "batch"])["value"]
    assert each.to_dict() == pytest.approx({("2026-jax", 8): 2, ("numpy", 8): 1, ("numpy", 1024): 3})
    for runs_ in (found, found[:0]):
        with pytest.raises(NotMeasured):
            interval(runs_, "batch", lambda t: t[32])


def test_what_differs_in_more_than_it_is_said_to_is_not_pooled(known):
    found = known(made((8, 1, 1.0), (100, 1, 3.0)), made((7, 1, 2.0), by="vocabulary"))
    with pytest.raises(InputError, match=r"runs that differ in vocabulary\. Name that in by= or each="):
        interval(found, "batch", lambda t: t[8])


def sure(*ends):
    """Intervals by name: (low, value, high) each, of plenty of runs."""
    rows = {f"stack {number}": each for number, each in enumerate(ends)}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["low", "value", "high"]).assign(degrees=1e6)


BEYOND = (3.01, 3.5, 4.0)  # the limit of 3 by itself, and not as one of so many


@pytest.mark.parametrize(
    ("found", "expected", "figure"),
    [
        (sure((1.1, 1.5, 2.0)), "holds", "stack 0 1.5 (1.1 to 2.0)"),
        (sure((0.9, 1.5, 2.0)), "inconclusive", "stack 0 1.5 (0.9 to 2.0)"),
        (sure((3.1, 3.5, 4.0)), "does not hold", "stack 0 3.5 (3.1 to 4.0)"),
        (sure((1.1, 1.5, 2.0), (3.1, 3.5, 4.0)), "does not hold", "stack 0 1.5 (1.1 to 2.0); stack 1 3.5 (3.1 to 4.0)"),
        (sure(BEYOND, *[(1.5, 2.0, 2.9)] * 9), "inconclusive", "stack 0 3.5 (3.0 to 4.0), the closest of 10"),
        (sure(*[(1.1, 1.5, 2.0)] * 3, (1.01, 2.0, 2.5)), "holds", "stack 3 2.0 (1.0 to 2.5), the closest of 4"),
        (sure(*[(1.1, 1.5, 2.0)] * 3, (5.0, 5.1, 5.2)), "does not hold", "stack 3 5.1 (5.0 to 5.2), the farthest of 4"),
        (sure((np.nan, 1.5, np.nan)), "inconclusive", "stack 0 1.5"),
    ],
)
def test_a_claim_holds_where_every_interval_lies_between_the_limits(found, expected, figure):
    verdict = between(found, 1, 3, ".1f")
    assert (str(verdict), verdict.figure) == (expected, figure)


@pytest.mark.parametrize(("other", "both"), [(True, True), (None, None), (False, False)])
def test_two_verdicts_at_once_hold_where_each_does(other, both):
    assert Verdict(True, "a 2") & Verdict(other, "b 3") == Verdict(both, "a 2; b 3")
    assert (Verdict(None) & Verdict(other)).holds is (None if other else other)


def test_a_verdict_is_shown_and_kept(monkeypatch):
    shown = []
    monkeypatch.setattr(lab, "display", lambda data, raw: shown.append(data))
    judge("batch-size.2", "Larger is faster.", Verdict(True, "2026-tensorflow 3.2"), "S0, C3")
    assert shown[0]["text/markdown"] == "**holds**: Larger is faster. (TensorFlow 2.21: 3.2)"
    kept = {"claim": "batch-size.2", "sentence": "Larger is faster.", "source": "S0, C3", "on": ""}
    assert shown[0][lab.VERDICT] == kept | {"verdict": "holds", "figure": "2026-tensorflow 3.2"}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: judge("batch-size.2", "It is so.", True), r"verdict: True is no .* Pass lab\.between"),
        (lambda: between(1.5), "found: 'float' has no column degrees, high, low, value"),
        (lambda: between(sure((1.1, 1.5, 2.0))["value"]), "found: 'Series' has no column"),
        (lambda: between(sure((1.1, 1.5, 2.0)).drop(columns="degrees")), r"'DataFrame' has no column degrees\."),
    ],
)
def test_what_is_no_verdict_or_no_intervals_is_refused_with_what_to_pass(call, said):
    with pytest.raises(InputError, match=said):
        call()


# A step, here


def test_a_step_is_the_median_of_calls_after_the_first_and_the_warm_up(monkeypatch):
    took = iter([50.0, 9.0, 9.0, 1.0, 2.0, 30.0])
    clock = [0.0]

    class Model:
        def train_on_batch(self, x, y):
            assert (x, y) == ("sentences", "labels")
            clock[0] += next(took)

    monkeypatch.setattr(lab.time, "perf_counter", lambda: clock[0])
    assert time_step(Model(), "sentences", "labels", count=3, warm_up=2) == 2.0
    assert next(took, None) is None
