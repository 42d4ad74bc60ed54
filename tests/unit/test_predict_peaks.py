"""How far foretold peaks of memory were off: from made-up models that were tried, and from those that were."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from traintime import paths
from traintime.explain import memory
from traintime.predict import record

BEFORE = "2026-11-23T12:00:00Z"


def case(number, tier="formula", times=1.1, stack="2026-jax", started=BEFORE, more=0.0):
    """A model whose peak was so many times what was foretold, and so many bytes more."""
    foretold = 1e9 + 1e7 * number
    started = started.replace("00Z", f"{number:02}Z")
    about = {"machine": "m", "stack": stack, "started": started, "peaks": [foretold * times + more] * 2}
    return about | {
        "predicted": {tier: {"memory": {"value": foretold, "low": 0.0, "high": 0.0}}, "other": {"memory": None}}
    }


@pytest.fixture
def tried(tmp_path, monkeypatch):
    """Keep these cases as a bench does, and derive."""
    record.versions()  # the book's own, read once
    monkeypatch.setattr(paths, "PREDICTED", tmp_path)

    def derive(cases, gone=()):
        (tmp_path / "m.json").write_text(json.dumps(cases))
        rows = [{"machine": "m", "started": one["started"], "figure": "memory", "reason": "x"} for one in gone]
        pd.DataFrame(rows, columns=["machine", "started", "figure", "reason"]).to_csv(tmp_path / "withdrawn.csv")
        return record.derive_peaks().set_index(["tier", "stack"])

    return derive


def test_the_error_is_what_the_models_missed_by(tried):
    found = tried([case(number, times=1.1 if number % 2 else 1 / 1.1) for number in range(12)])
    assert list(found.index) == [("formula", "2026-jax"), ("formula", "others")]
    assert found["error"].to_numpy() == pytest.approx(math.log(1.1))
    assert (found["models"] == 12).all()


def test_few_models_of_a_stack_count_with_the_others_alone(tried):
    found = tried([case(n) for n in range(12)] + [case(n, times=1.5, stack="2026-torch") for n in range(3)])
    assert ("formula", "2026-torch") not in found.index
    assert found.loc[("formula", "others"), "models"] == 15
    assert found.loc[("formula", "others"), "error"] > found.loc[("formula", "2026-jax"), "error"]


def test_what_is_withdrawn_does_not_count(tried):
    wrong = case(30, times=3)
    assert tried([case(n) for n in range(12)] + [wrong], [wrong])["error"].to_numpy() == pytest.approx(math.log(1.1))


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
