"""The predictor's bench: what it draws, what it asks for, what it keeps, and what it says of the goals."""

import dataclasses
import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from traintime import cli, paths
from traintime.predict import bench, bench_models, goals
from traintime.predict.answer import Estimate, around
from traintime.predict.bench import Case


def said(tier, seconds, peak=1e9):
    one = around(seconds, (0.1, 1e6))
    return Estimate(tier, "made up", 1000, 10, 1, one, one, one, around(peak, (0.03, 1e6)), {"steps": seconds})


def case(number, stack="2026-jax", kind="attention", probed=1.0, true=20.0, **more):
    """A model that took `true` seconds and a gigabyte, and was foretold at `probed` times that."""
    predicted = {tier: said(tier, true * probed) for tier in ("probed", "calibrated", "formula")}
    about = {"stack": stack, "kind": kind, "sizes": {"batch": 10}, "started": f"2027-01-01T00:00:{number:02}Z"}
    about |= {"machine": "made-up", "samples": 1000, "fit_s": (true, true * 1.01), "peaks": (1e9, 1e9)}
    about |= {"one_batch_s": true * (1.3 + 0.01 * number), "flops_s": true * 0.01, "predicted": predicted}
    return Case(**about | more)


def goal(cases, start, of="all"):
    found = goals.goals(cases)
    (row,) = [one for one in found.itertuples() if one.goal.startswith(start) and one.of == of]
    return row


def test_the_documents_kind_is_drawn_from_all_of_its_sizes():
    random = np.random.default_rng(7)
    drawn = pd.DataFrame([bench_models.draw("classifier", random) for _ in range(400)])
    for size, (low, high) in bench_models.DOMAINS["whole"].items():
        assert drawn[size].between(low, high).all()
        # As likely in each octave: half of them lie below the geometric mean.
        assert (drawn[size] < np.sqrt(low * high)).mean() == pytest.approx(0.5, abs=0.08), size
    assert set(drawn["optimizer"]) == {"adam", "sgd", "rmsprop"}
    assert dict(bench_models.DOMAINS["whole"]) == {
        "vocabulary": (5_000, 2_000_000), "embedding": (50, 300), "units": (32, 512), "length": (8, 400),
        "batch": (8, 1024),
    }  # fmt: skip


def test_ten_times_a_smaller_model_is_as_large_as_the_document_at_most():
    random = np.random.default_rng(7)
    for kind in bench_models.BEYONDS:
        size = kind.removeprefix("beyond-")
        assert max(bench_models.draw(kind, random)[size] for _ in range(200)) <= bench_models.DOMAINS["whole"][size][1]


def test_a_slow_step_shortens_a_training_and_nothing_else_does():
    usual = bench.TRAINED_S
    assert bench._batches(0.001, usual) == bench.BATCHES[1]
    assert bench._batches(0.1, usual) == usual / 0.1
    assert bench._batches(3.0, usual) == bench.BATCHES[0]
    assert bench._batches(10.0, usual) == bench.SLOW * usual / 10
    assert bench._batches(1000.0, usual) == bench.LEAST
    assert bench._batches(0.01, 600.0) == 60_000


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
        found |= {"one_batch_s": 0.1, "torchinfo_bytes": 5e8}
        return found | {name: job.get(name, other) for name, other in (("samples", 1000), ("epochs", 1))}

    monkeypatch.setattr(bench, "_ask", ask)
    return jobs


def test_a_new_case_says_what_it_was_drawn_from_and_what_the_answers_cost(answered, tmp_path):
    (one,) = bench.run(["torch"], 1, kinds=["classifier"])
    assert one.domain == "whole"
    assert one.spent_s == {"probed": 21.0}
    bench.keep(one, tmp_path)
    assert bench.kept(tmp_path, one.machine) == [one]


def test_a_case_from_before_was_drawn_from_the_narrower_sizes(tmp_path):
    old = case(1).plain
    for name in ("domain", "redrawn", "spent_s", "torchinfo_bytes"):
        del old[name]
    assert Case.from_plain(json.loads(json.dumps(old))).domain == "narrow"
    stored = [one for path in paths.PREDICTED.glob("*.json") for one in json.loads(path.read_text())]
    assert {one.get("domain", "narrow") for one in stored if one["started"] < "2026-11-24T20:30"} == {"narrow"}


def test_a_loop_is_timed_in_a_process_of_its_own_before_it_is_probed(answered):
    (one,) = bench.run(["torch"], 1, kinds=["loop-bag"])
    assert [job["task"] for job in answered] == ["size", "predict", "train", "train"]
    assert {job.get("samples") for job in answered[1:]} == {777} == {one.samples}
    assert one.errors()["torchinfo memory"] == pytest.approx(-0.5)


def test_a_long_training_runs_once_in_epochs_that_tell_its_drift(answered, tmp_path):
    (one,) = bench.run(["torch"], 1, kinds=["loop-bag"], trained_s=600.0)
    assert [job["task"] for job in answered] == ["size", "predict", "train"]
    assert one.epochs == len(one.epochs_s) == bench.LONG_EPOCHS
    assert "again" not in one.errors()
    assert one.inside()["probed"]
    bench.keep(one, tmp_path)
    assert bench.kept(tmp_path, one.machine) == [one]


def test_another_machine_has_a_file_of_its_own(tmp_path):
    bench.keep(case(1), tmp_path)
    path = bench.keep(dataclasses.replace(case(2), machine="another"), tmp_path)
    assert path.name == "another.json"
    assert len(bench.kept(tmp_path, "another")) == len(bench.kept(tmp_path, "made-up")) == 1


@pytest.mark.parametrize("kind", list(bench_models.LOOPS))
def test_a_plain_loop_trains_and_torchinfo_sees_its_layers(kind):
    pytest.importorskip("torch")
    sizes = bench_models.draw(kind, np.random.default_rng(0)) | {"batch": 4}
    sizes = {size: min(value, 200 if size == "vocabulary" else 32) for size, value in sizes.items()}
    loop = bench_models.loop(kind, sizes)
    before = [weight.detach().clone() for weight in loop.network.parameters() if weight.requires_grad]
    loop.step(4)
    after = [weight for weight in loop.network.parameters() if weight.requires_grad]
    assert any((one != other).any() for one, other in zip(before, after, strict=True))
    assert bench._of_torchinfo(loop, 4, 1000) > 1000 + loop.inputs[:4].nbytes


def test_torchinfo_is_a_baseline_where_it_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchinfo", None)
    assert bench._of_torchinfo(SimpleNamespace(), 4, 1000) is None


# Goals


def test_a_goal_is_met_missed_or_left_open():
    near = [case(number, probed=1 + 0.001 * number) for number in range(20)]
    assert goal(near, "probed: mean error 5% at most", "2026-jax").verdict == "met"
    far = [case(number, probed=1.5 + 0.01 * number) for number in range(20)]
    missed = goal(far, "probed: mean error 5% at most", "2026-jax")
    assert missed.verdict == "missed"
    assert missed.found.startswith("58.7%")  # by how much stands beside it
    assert goal(far[:1], "probed: mean error 5% at most", "2026-jax").verdict == "inconclusive"


def test_as_good_as_training_again_is_enough():
    unsteady = [case(n, probed=1.1 + 0.001 * n, fit_s=(20.0, 24.0)) for n in range(20)]
    assert goal(unsteady, "probed: mean error 5% at most", "2026-jax").verdict == "met"


def test_intervals_are_judged_by_stack_and_tier_and_too_wide_ones_are_no_success():
    cases = [case(number) for number in range(100)] + [case(n, stack="2026-torch", probed=3.0) for n in range(20)]
    assert goal(cases, "intervals, probed: hold", "2026-jax").verdict == "missed"  # all of a hundred held
    assert goal(cases, "intervals, probed: hold", "2026-torch").verdict == "missed"  # none did
    assert goal(cases, "intervals, calibrated memory: ", "2026-jax").models == 100


def test_calibrated_models_of_the_documents_kind_are_judged_by_allocator_and_apart_from_others():
    cases = [case(n, kind="classifier", probed=1.02 + 0.001 * n) for n in range(12)]
    cases += [case(n, kind="classifier", allocator="tcmalloc", probed=1.3 + 0.001 * n) for n in range(12)]
    cases += [case(n, kind="dense", probed=1.15 + 0.001 * n) for n in range(12)]
    document = "calibrated, the 2017 post's kind"
    assert [goal(cases, document, allocator).verdict for allocator in ("glibc", "tcmalloc")] == ["met", "missed"]
    assert goal(cases, "calibrated, other Keras models").verdict == "met"
    assert goal(cases, "calibrated, other Keras models").models == 12


def test_the_width_and_the_sign_of_the_answers_are_told():
    cases = [case(number, probed=times) for number, times in enumerate((0.9, 0.95, 1.1))]
    row = bench.summary(cases).set_index("way").loc["probed"]
    assert row["too_low"] == pytest.approx(2 / 3)
    assert row["width"] == pytest.approx(cases[0].widths()["probed"])
    assert goal(cases * 10, "intervals, probed: half", "2026-jax").verdict == "met"
    wide = {"probed": dataclasses.replace(said("probed", 20.0), total=around(20.0, (0.5, 3)))}
    assert goal([case(0, predicted=wide)] * 30, "intervals, probed: half", "2026-jax").verdict == "missed"


def test_a_baseline_that_is_better_is_told():
    cases = [case(n, probed=1.5 + 0.01 * n, one_batch_s=20.0 + 0.1 * n) for n in range(12)]
    assert goal(cases, "probed: ahead of one batch", "2026-jax").verdict == "missed"
    assert goal(cases, "probed: ahead of FLOPs / peak", "2026-jax").verdict == "met"
    loops = [case(n, kind="loop-bag", stack="2026-torch", torchinfo_bytes=5e8 + n * 1e6) for n in range(12)]
    assert goal(loops, "probed memory: ahead of torchinfo memory", "2026-torch").verdict == "met"


def test_what_the_answers_cost_is_held_against_a_minute():
    cases = [case(1, spent_s={"probed": 21.0, "calibrating": 61.0}), case(2)]
    assert goal(cases, "seconds spent, probed").verdict == "met"
    assert goal(cases, "seconds spent, calibrating").verdict == "missed"
    assert not goals.goals([case(2)])["goal"].str.startswith("seconds").any()


def test_the_bench_prints_its_goals(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "run", lambda *_: iter([case(1), case(2)]))
    monkeypatch.setattr("sys.argv", ["traintime", "bench-predict", "--to", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "goals, by what this run found" in printed
    assert re.search(r"probed: ahead of one batch .* met", printed)
