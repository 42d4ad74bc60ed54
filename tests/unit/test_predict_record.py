"""How often answers were right, and how far off: from made-up models that were tried, and from those that were."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from made_up import tried as case

from traintime import paths
from traintime.explain import memory
from traintime.predict import record


@pytest.fixture
def tried(tmp_path, monkeypatch):
    """Keep these cases as a bench does, with what is withdrawn of them, and derive."""

    def put(cases, derive=record.derive, gone=()):
        (tmp_path / "m.json").write_text(json.dumps(cases))
        figure = "memory" if derive is record.derive_peaks else "time"
        rows = [{"machine": "m", "started": one["started"], "figure": figure, "reason": ""} for one in gone]
        columns = ["machine", "started", "figure", "reason"]
        pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "withdrawn.csv", index=False)
        rows = derive()
        return rows.set_index("tier") if "tier" in rows else rows

    monkeypatch.setattr(paths, "PREDICTED", tmp_path)
    return put


def test_answers_are_judged_as_they_were_given(tried):
    times = np.array([*(10 + n / 10 for n in range(14)), 40.0])
    row = tried([case(n, seconds=each, version=11) for n, each in enumerate(times)]).loc["probed"].iloc[0]
    assert (row["models"], row["held"], row["longest_s"], row["shorter"]) == (15, 14, 40.0, 14)
    assert (row["error"], row["width"]) == pytest.approx((np.mean(1 - 10 / times), 1.44))
    (summed,) = record.summary([case(0, seconds=9.0, version=11), case(1, version=11)]).query("tier == 'probed'").values
    assert summed.tolist() == ["2026-jax", "probed", 2, 2, pytest.approx(1 / 18), pytest.approx(1.44)]


def test_errors_of_times_hold_nine_in_ten_of_what_they_were_set_on(tried):
    seconds = 9.0 * np.exp(0.3 + 0.1 * np.sort(np.random.default_rng(0).standard_normal(40)))
    found = tried([case(n, seconds=each) for n, each in enumerate(seconds)], record.derive_times)
    formula, probed = (found.loc[tier].set_index("stack").loc["2026-jax"] for tier in ("formula", "probed"))
    off = np.log(seconds / 9.0)
    for row, mean in ((formula, off.mean()), (probed, 0.0)):
        assert row["factor"] == pytest.approx(math.exp(mean))
        assert np.mean(np.abs(off - mean) <= record.Z * row["error"]) == pytest.approx(0.9, abs=0.026)


@pytest.mark.parametrize("newest, version", [(9, 6), (10, 7)])
def test_the_newest_version_with_enough_trainings_is_quoted_and_the_others_check_it(tried, newest, version):
    later = [case(n, stack=f"2026-{'jax' if n % 2 else 'torch'}", version=7) for n in range(newest)]
    row = tried([*(case(n, version=6) for n in range(14)), *later]).loc[["probed"]].iloc[-1]
    models = {6: 14, 7: 10}[version]
    assert (row["version"], row["models"], row["others"]) == (version, models, 14 + newest - models)


def test_a_time_that_was_withdrawn_counts_and_memory_does_not(tried):
    """The time was answered, and was wrong; the memory was not the model's."""
    wrong, right = case(30, times=3.0), [case(n) for n in range(13)]
    assert tried([*right, wrong], gone=[wrong]).loc["probed", "models"].unique() == 14
    assert tried([*right, wrong], record.derive_peaks, [wrong])["error"].to_numpy() == pytest.approx(math.log(1.1))


def test_a_sleep_is_what_fit_takes_long_after_its_last_step(tried):
    asleep = [case(n, stack="2026-tensorflow", slept=3.0 * (n % 2), version=10) for n in range(14)]
    row = tried([*asleep, *(case(n, slept=3.0, version=10) for n in range(14))], record.derive_sleeps).iloc[0]
    assert (row["slept"], row["trainings"], row["slept_s"]) == (7, 14, 21.0)
    assert 0 < row["pause_s"] / 14 < record.tf_data_end(15.0)


def test_a_stack_with_few_models_is_as_far_off_as_all_together(tried):
    few = [case(n, times=1.5, stack="2026-torch") for n in range(3)]
    found = tried([case(n, times=1.1 if n % 2 else 1 / 1.1) for n in range(12)] + few, record.derive_peaks)
    found = found.set_index("stack")
    assert found["models"].to_dict() == {"2026-jax": 12, "others": 15}
    assert found.loc["others", "error"] > found.loc["2026-jax", "error"] == pytest.approx(math.log(1.1))


def test_a_stack_that_nobody_tried_is_as_far_off_as_the_others_and_what_is_longer_than_all_says_so():
    one = record.of("probed", "2031-jax")
    assert not one.beyond(one.longest_s)
    assert "10 times as long" in one.beyond(10 * one.longest_s)[0]
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
