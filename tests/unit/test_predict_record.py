"""How often answers were right: from made-up models that were tried, and from those that were."""

import json

import pandas as pd
import pytest

from traintime import paths
from traintime.predict import record


def case(number, tier="probed", low=8.0, high=12.0, seconds=10.0, stack="2026-jax"):
    predicted = {tier: {"total": {"value": 10.0, "low": low, "high": high}}}
    started = f"2026-11-26T10:00:{number:02}Z"
    return {"machine": "m", "stack": stack, "started": started, "fit_s": [seconds], "predicted": predicted}


@pytest.fixture
def tried(tmp_path, monkeypatch):
    def put(cases, gone=()):
        (tmp_path / "m.json").write_text(json.dumps(cases))
        rows = [{"machine": "m", "started": started, "figure": "time", "reason": ""} for started in gone]
        columns = ["machine", "started", "figure", "reason"]
        pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "withdrawn.csv", index=False)
        return record.derive().set_index("tier")

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
    row = tried([*earlier, *(case(n, stack=f"2026-{'jax' if n % 2 else 'torch'}") for n in range(newest))]).loc[
        "probed"
    ]
    assert (row["version"], row["models"]) == (version, {6: 14, 7: 10}[version])


def test_a_time_that_was_withdrawn_counts(tried):
    """Its answer was given, and was wrong."""
    cases = [case(n) for n in range(14)]
    assert tried(cases, [cases[0]["started"]]).loc["probed", "models"] == 14


@pytest.mark.parametrize("longer, told", [(9, False), (16, True)])
def test_answers_that_are_mostly_too_low_say_so(tried, longer, told):
    row = tried([case(n, seconds=9.0 + 2.0 * (n < longer)) for n in range(20)]).loc["probed"]
    assert row["longer"] == longer
    counts = (int(row[name]) for name in ("version", "models", "held", "longer"))
    one = record.TrackRecord(*counts, row["half"], row["longest_s"])
    assert (f"{longer} took longer" in one.sentence) == told


def test_a_training_beyond_what_was_tried_is_told():
    one = record.of("probed")
    assert not one.beyond(one.longest_s)
    assert "10 times as long" in one.beyond(10 * one.longest_s)[0]


def test_a_sleep_is_what_fit_takes_long_after_its_last_step(tmp_path, monkeypatch):
    trainings = [{"stack": "2026-tensorflow", "fit_s": [10.0, 12.0], "done_s": [9.99, 10.0]}]
    trainings += [
        {"stack": "2026-jax", "fit_s": [12.0], "done_s": [10.0]},
        {"stack": "2026-tensorflow", "fit_s": [5.0]},
    ]
    (tmp_path / "m.json").write_text(json.dumps(trainings))
    monkeypatch.setattr(paths, "PREDICTED", tmp_path)
    assert record.derive_sleeps().iloc[0].to_dict() == {"slept": 1, "trainings": 2}
