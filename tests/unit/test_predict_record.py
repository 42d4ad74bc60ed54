"""How often answers were right, and how far off peaks of memory: from made-up models that were tried, and from those
that were.
"""

import json
import math

import numpy as np
import pandas as pd
import pytest

from traintime import paths
from traintime.explain import memory
from traintime.predict import record


def case(number, tier="probed", low=8.0, high=12.0, seconds=10.0, stack="2026-jax", times=1.1):
    """A model that was predicted to take 10 s, and at its peak so many times what was predicted."""
    memory = 1e9 + 1e7 * number
    answer = {"total": {"value": 10.0, "low": low, "high": high}, "memory": {"value": memory, "low": 0.0, "high": 0.0}}
    about = {"machine": "m", "stack": stack, "started": f"2026-11-26T10:00:{number:02}Z"}
    about |= {"fit_s": [seconds], "peaks": [memory * times]}
    return about | {"predicted": {tier: answer, "formula": answer | {"memory": None}}}


@pytest.fixture
def tried(tmp_path, monkeypatch):
    """Keep these cases as a bench does, with what is withdrawn of them, and derive."""

    def put(cases, derive=record.derive, gone=()):
        (tmp_path / "m.json").write_text(json.dumps(cases))
        figure = "time" if derive is record.derive else "memory"
        rows = [{"machine": "m", "started": one["started"], "figure": figure, "reason": ""} for one in gone]
        columns = ["machine", "started", "figure", "reason"]
        pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "withdrawn.csv", index=False)
        return derive().set_index("tier")

    monkeypatch.setattr(paths, "PREDICTED", tmp_path)
    monkeypatch.setattr(record, "version_at", lambda started: 7 if started >= "2026-11-26" else 6)
    return put


def test_held_half_and_longest(tried):
    found = tried([case(n, seconds=10.0 + n / 10) for n in range(14)] + [case(20, seconds=40.0)])
    row = found.loc["probed"]
    assert (row["models"], row["held"], row["longest_s"]) == (15, 14, 40.0)
    assert row["half"] == pytest.approx(1 - 10 / 10.7)


@pytest.mark.parametrize("newest, version", [(9, 6), (10, 7)])
def test_the_newest_version_with_enough_trainings_is_quoted_over_all_stacks(tried, newest, version):
    earlier = [case(n) | {"started": f"2026-11-25T10:00:{n:02}Z"} for n in range(14)]
    later = [case(n, stack=f"2026-{'jax' if n % 2 else 'torch'}") for n in range(newest)]
    row = tried([*earlier, *later]).loc["probed"]
    assert (row["version"], row["models"]) == (version, {6: 14, 7: 10}[version])


def test_a_time_that_was_withdrawn_counts_and_memory_does_not(tried):
    """The time was answered, and was wrong; the memory was not the model's."""
    wrong, right = case(30, times=3.0), [case(n) for n in range(13)]
    assert tried([*right, wrong], gone=[wrong]).loc["probed", "models"] == 14
    assert tried([*right, wrong], record.derive_peaks, [wrong])["error"].to_numpy() == pytest.approx(math.log(1.1))


@pytest.mark.parametrize("longer, told", [(9, False), (16, True)])
def test_answers_that_are_mostly_too_low_say_so(tried, longer, told):
    found = tried([case(n, seconds=9.0 + 2.0 * (n < longer)) for n in range(20)])
    one = record.TrackRecord(*next(found.loc[["probed"]].itertuples(index=False)))
    assert one.longer == longer
    assert (f"{longer} took longer" in one.sentence) == told


def test_a_training_beyond_what_was_tried_is_told():
    one = record.of("probed")
    assert not one.beyond(one.longest_s)
    assert "10 times as long" in one.beyond(10 * one.longest_s)[0]


def test_a_sleep_is_what_fit_takes_long_after_its_last_step(tmp_path, monkeypatch):
    trainings = [
        {"stack": "2026-tensorflow", "fit_s": [10.0, 12.0], "done_s": [9.99, 10.0]},
        {"stack": "2026-jax", "fit_s": [12.0], "done_s": [10.0]},
        {"stack": "2026-tensorflow", "fit_s": [5.0]},
    ]
    (tmp_path / "m.json").write_text(json.dumps(trainings))
    monkeypatch.setattr(paths, "PREDICTED", tmp_path)
    assert record.derive_sleeps().iloc[0].to_dict() == {"slept": 1, "trainings": 2}


def test_a_stack_with_few_models_is_as_far_off_as_all_together(tried):
    few = [case(n, times=1.5, stack="2026-torch") for n in range(3)]
    found = tried([case(n, times=1.1 if n % 2 else 1 / 1.1) for n in range(12)] + few, record.derive_peaks)
    found = found.set_index("stack")
    assert found["models"].to_dict() == {"2026-jax": 12, "others": 15}
    assert found.loc["2026-jax", "error"] == pytest.approx(math.log(1.1))
    assert found.loc["others", "error"] > math.log(1.1)


def test_a_stack_that_nobody_tried_is_as_far_off_as_the_others():
    assert record.peak_error("probed", "numpy") == record.peak_error("probed", "2031-jax")
    assert record.peak_error("probed", "2026-jax") != record.peak_error("probed", "numpy")


def test_the_formulas_error_is_no_less_than_what_new_models_showed():
    for stack in memory.stacks():
        assert memory.memory_model(stack).error >= record.peak_error("formula", stack) * (1 - 1e-4)


@pytest.mark.parametrize("tier", ["formula", "probed", "scaled"])
def test_intervals_of_nine_in_ten_hold_about_so_many_of_what_was_tried(tier):
    """Of the points that the errors come from: that such errors are spread about as a normal curve is."""
    of_tier = record.tried("memory").query("tier == @tier")
    missed = np.abs(np.log(of_tier["seen"] / of_tier["predicted"]))
    reach = 1.645 * np.array([record.peak_error(tier, stack) for stack in of_tier["stack"]])
    assert 0.8 <= (missed <= reach).mean() < 1
