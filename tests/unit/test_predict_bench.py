"""The predictor's bench: what it draws, what it asks for, and what it keeps."""

import csv
import inspect
import json

import numpy as np
import pandas as pd
import pytest

from traintime import cli, paths
from traintime.errors import InputError
from traintime.predict import bench, bench_models
from traintime.predict.answer import Estimate, around


def said(tier, seconds, peak=1e9, error=0.1):
    """An answer of so many seconds and bytes, with this relative error."""
    step, one, memory = around(seconds / 100, (error, 1e6)), around(seconds, (error, 1e6)), around(peak, (0.03, 1e6))
    return Estimate(tier, "made up", 1000, 10, 1, step, one, one, memory, {"steps": seconds})


def case(number, kind="attention", true=20.0, probed=1.0, formula=1.5, batch=1.3, peak=1.0, **more):
    """A model that took so many seconds and a gigabyte, and was predicted at so many times that."""
    answers = (("probed", probed, 0.12), ("formula", formula, 0.5))
    predicted = {tier: said(tier, true * times, 1e9 * peak, error).to_dict() for tier, times, error in answers}
    about = {"stack": "2026-jax", "kind": kind, "sizes": {"batch": 10}, "started": f"2026-01-01T00:00:{number:02}Z"}
    about |= {"machine": "made-up", "samples": 1000, "fit_s": [true, true * 1.02], "peaks": [1e9, 1e9]}
    return about | {"one_batch_s": true * batch, "flops_s": true * 0.01, "predicted": predicted} | more


def test_the_documents_kind_is_drawn_from_all_of_its_sizes():
    random = np.random.default_rng(7)
    drawn = pd.DataFrame([bench_models.draw("classifier", random) for _ in range(400)])
    for size, (low, high) in list(bench_models.KINDS["classifier"].items())[:-1]:
        assert drawn[size].between(low, high).all()
        # As likely in each octave: half of them lie below the geometric mean.
        assert (drawn[size] < np.sqrt(low * high)).mean() == pytest.approx(0.5, abs=0.08), size
    assert set(drawn["optimizer"]) == {"adam", "sgd", "rmsprop"}


def test_ten_times_a_smaller_model_is_as_large_as_the_document_at_most():
    random = np.random.default_rng(7)
    for kind in bench_models.BEYONDS:
        size = kind.removeprefix("beyond-")
        assert (
            max(bench_models.draw(kind, random)[size] for _ in range(200)) <= bench_models.KINDS["classifier"][size][1]
        )


def test_a_slow_step_shortens_a_training_and_nothing_else_does():
    usual = bench.TRAINED_S
    wanted = {0.001: bench.BATCHES[1], 0.1: usual / 0.1, 3.0: bench.BATCHES[0]}
    wanted |= {10.0: bench.SLOW * usual / 10, 1000.0: bench.LEAST}
    assert {step_s: bench._training(step_s, 1, usual)["samples"] for step_s in wanted} == wanted
    long = bench._training(0.01, 1, 600.0)
    assert long["samples"] * long["epochs"] == 60_000


def test_what_would_not_fit_is_drawn_anew_from_its_sizes_alone_and_counted(monkeypatch):
    small = {"vocabulary": 5_000, "embedding": 50, "units": 32, "length": 8, "batch": 8, "optimizer": "adam"}
    large = small | {"vocabulary": 2_000_000, "embedding": 300}
    monkeypatch.setattr(bench.machine, "describe", lambda: {"memory_bytes": 8e9})
    draws = iter([large, large, small])
    assert bench._fitting("jax", "classifier", lambda: next(draws)) == (small, 2)
    assert bench._fitting("jax", "dense", lambda: large) == (large, 0)
    monkeypatch.setattr(bench.machine, "describe", lambda: {"memory_bytes": 64e9})
    assert bench._fitting("jax", "beyond-vocabulary", lambda: large) == (large, 0)


@pytest.fixture
def answered(monkeypatch):
    """A bench whose processes answer at once; returns the jobs that they were given."""
    jobs = []

    def ask(backend, job):
        jobs.append(job)
        if job["task"] == "train":
            return {"fit_s": 20.0, "peak": 1e9, "done_s": 19.0, "epochs_s": [20.0 / job["epochs"]] * job["epochs"]}
        if job["task"] == "size":
            return {"samples": 777, "epochs": bench.LONG_EPOCHS if job["trained_s"] > bench.LONG_S else 1}
        found = {"predicted": {"probed": said("probed", 20.0).to_dict()}, "spent_s": {"probed": 21.0}}
        return found | {name: job.get(name, other) for name, other in (("samples", 1000), ("epochs", 1))}

    monkeypatch.setattr(bench, "_ask", ask)
    return jobs


def test_a_new_case_says_what_it_was_drawn_from_and_what_the_answers_cost(answered, tmp_path):
    (one,) = bench.run(["torch"], 1, kinds=["classifier"])
    assert one["domain"] == "whole"
    assert one["spent_s"] == {"probed": 21.0}
    bench.keep(one, tmp_path)
    assert bench.keep(case(2), tmp_path).name == "made-up.json", "another machine's"
    assert bench.kept(tmp_path, one["machine"]) == [json.loads(json.dumps(one))]


def test_a_loop_is_timed_in_a_process_of_its_own_before_it_is_probed(answered):
    (one,) = bench.run(["torch"], 1, kinds=["loop-bag"])
    assert [job["task"] for job in answered] == ["size", "predict", "train", "train"]
    assert {job.get("samples") for job in answered[1:]} == {777} == {one["samples"]}


def test_a_long_training_runs_once_in_epochs_that_tell_its_drift(answered, tmp_path):
    (one,) = bench.run(["torch"], 1, kinds=["loop-bag"], trained_s=600.0)
    assert [job["task"] for job in answered] == ["size", "predict", "train"]
    assert one["epochs"] == len(one["epochs_s"]) == bench.LONG_EPOCHS
    assert "again" not in (times := bench.over_truth(one))
    assert 1 in times["probed"]
    bench.keep(one, tmp_path)
    assert bench.kept(tmp_path, one["machine"]) == [json.loads(json.dumps(one))]


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
    with (paths.PREDICTED / "withdrawn.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert row["started"] in [one["started"] for one in bench.kept(paths.PREDICTED, row["machine"])]
        assert row["reason"]


@pytest.mark.parametrize("kind", list(bench_models.LOOPS))
def test_a_plain_loop_trains(kind):
    pytest.importorskip("torch")
    sizes = bench_models.draw(kind, np.random.default_rng(0)) | {"batch": 4}
    sizes = {size: min(value, 200 if size == "vocabulary" else 32) for size, value in sizes.items()}
    step = bench_models.loop(kind, sizes)
    after = inspect.getclosurevars(step).nonlocals["optimizer"].param_groups[0]["params"]
    before = [weight.detach().clone() for weight in after]
    step(4)
    assert any((one != other).any() for one, other in zip(before, after, strict=True))
