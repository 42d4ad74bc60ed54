"""The predictor's bench: what it draws, what it asks for, and what it keeps."""

import csv
import inspect
import json

import numpy as np
import pandas as pd
import pytest
from made_up import tried

from traintime import cli, paths
from traintime.errors import InputError
from traintime.predict import bench


def test_a_model_is_drawn_from_all_of_its_sizes_and_ten_times_a_smaller_one_is_no_larger():
    random, sizes = np.random.default_rng(7), dict(bench.KINDS["classifier"])
    drawn = pd.DataFrame([bench.draw("classifier", random) for _ in range(400)])
    assert set(drawn["optimizer"]) == set(sizes.pop("optimizer"))
    for size, (low, high) in sizes.items():
        assert drawn[size].between(low, high).all()
        # As likely in each octave: half of them lie below the geometric mean.
        assert (drawn[size] < np.sqrt(low * high)).mean() == pytest.approx(0.5, abs=0.08), size
    for kind in bench.BEYONDS:
        size = kind.removeprefix("beyond-")
        assert max(bench.draw(kind, random)[size] for _ in range(200)) <= sizes[size][1]


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
            return {"fit_s": 10.0, "peak": 1e9, "done_s": 9.0, "epochs_s": [10.0 / job["epochs"]] * job["epochs"]}
        if job["task"] == "size":
            return {"samples": 777, "epochs": bench.LONG_EPOCHS if job["trained_s"] > bench.LONG_S else 1}
        found = {name: tried(0)[name] for name in ("predicted", "spent_s")}
        return found | {name: job.get(name, other) for name, other in (("samples", 1000), ("epochs", 1))}

    monkeypatch.setattr(bench, "_ask", ask)
    return jobs


@pytest.mark.parametrize(
    ("kind", "trained_s", "epochs"),
    [("classifier", 20.0, 1), ("loop-bag", 20.0, 1), ("loop-bag", 600.0, bench.LONG_EPOCHS)],
)
def test_a_model_is_predicted_and_trained_twice_for_long_in_epochs(answered, tmp_path, kind, trained_s, epochs):
    (one,) = bench.run(["torch"], 1, kinds=[kind], trained_s=trained_s)
    samples, sized = (777, ["size"]) if kind == "loop-bag" else (1000, [])  # a loop is timed before it is probed
    assert [job["task"] for job in answered] == [*sized, "predict", "train", "train"]
    assert {job.get("samples", samples) for job in answered} == {samples} == {one["samples"]}
    assert one["epochs"] == len(one["epochs_s"] or [10.0]) == epochs
    assert (one["domain"], one["spent_s"]) == ("whole", {"probed": 12.0})
    over = bench.over_truth(one)
    assert 1 in over["probed"]
    assert over["again"].value == 1
    bench.keep(one, tmp_path)
    assert bench.keep(tried(2), tmp_path).name == "m.json", "another machine's"
    assert bench.kept(tmp_path, one["machine"]) == [json.loads(json.dumps(one))]


def test_a_bench_keeps_what_it_tried_though_nobody_says_where(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(bench, "run", lambda *_: iter([tried(1, version=11), tried(2, version=11)]))
    monkeypatch.setattr("sys.argv", ["traintime", "bench-predict"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert len(bench.kept(tmp_path / "traintime" / "predicted", "m")) == 2
    assert str(tmp_path / "traintime" / "predicted" / "m.json") in capsys.readouterr().err


def test_a_kind_that_is_not_known_is_refused():
    with pytest.raises(InputError, match="kind: 'rnn'"):
        next(bench.run(["jax"], 1, kinds=["rnn"]))


def test_each_withdrawal_is_of_a_model_that_was_tried_and_has_its_reason():
    with (paths.PREDICTED / "withdrawn.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert row["started"] in [one["started"] for one in bench.kept(paths.PREDICTED, row["machine"])]
        assert row["reason"]


@pytest.mark.parametrize("kind", list(bench.LOOPS))
def test_a_plain_loop_trains(kind):
    pytest.importorskip("torch")
    sizes = bench.draw(kind, np.random.default_rng(0)) | {"batch": 4}
    sizes = {size: min(value, 200 if size == "vocabulary" else 32) for size, value in sizes.items()}
    step = bench.loop(kind, sizes)
    after = inspect.getclosurevars(step).nonlocals["optimizer"].param_groups[0]["params"]
    before = [weight.detach().clone() for weight in after]
    step(4)
    assert any((one != other).any() for one, other in zip(before, after, strict=True))
