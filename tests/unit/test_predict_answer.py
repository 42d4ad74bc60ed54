"""What an answer says: intervals, verdicts, advice, and what is refused before anything is started."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from traintime import lab
from traintime.errors import InputError
from traintime.explain.statistics import Interval
from traintime.explain.terms import TERMS
from traintime.point import make_point
from traintime.predict import advice, costs, process
from traintime.predict.answer import Estimate, around, bytes_of, within
from traintime.predict.costs import Rates
from traintime.predict.estimate import conclude, estimate
from traintime.predict.evidence import formula_evidence
from traintime.predict.request import ModelDescription, Request, sizes

RATES = Rates(1e11, 2e10)


@pytest.fixture(autouse=True)
def machine_of_known_rates(monkeypatch):
    """Nothing is measured here."""
    monkeypatch.setattr(process, "rates", lambda: RATES)


def by_formula(**asked):
    """Request and evidence of the smallest table."""
    request = Request(**{"samples": 1000, "batch": 100} | asked)
    return request, formula_evidence(request, ModelDescription.from_point(make_point(vocabulary=100)))


# The interval, and what it decides


def test_independent_errors_add_in_squares_each_with_its_own_quantile():
    assert around(10, (0.1, 1e6)).high == pytest.approx(10 * math.exp(0.16449), rel=1e-4)
    assert around(10, (0.03, 1e6), (0.04, 1e6)).high == pytest.approx(10 * math.exp(1.6449 * 0.05), rel=1e-4)
    assert around(10, (0.1, 3)).high > around(10, (0.1, 30)).high


@pytest.mark.parametrize(
    ("limit", "spare", "answer"),
    [(12, 1, True), (11.9, 1, None), (8, 1, None), (7.9, 1, False), (12.5, 1.25, None), (15, 1.25, True)],
)
def test_a_limit_inside_the_interval_and_what_may_come_on_top_is_too_close_to_call(limit, spare, answer):
    assert within(Interval(10, 8, 12), limit, spare) is answer


def test_one_no_is_a_no_and_one_doubt_a_doubt():
    time = conclude(*by_formula()).total.value
    limits = {(1e9, 1e12): True, (1e9, 1e3): False, (time, 1e3): False, (time, 1e12): None}
    for (deadline_s, memory_limit), answer in limits.items():
        assert conclude(*by_formula(deadline_s=deadline_s, memory_limit=memory_limit)).meets() is answer


# What it says


def test_an_estimate_survives_json():
    one = estimate(make_point(), samples=1000)
    again = Estimate.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again.to_dict() == one.to_dict()
    assert str(again) == str(one)


def test_what_the_formula_does_not_explain_gets_no_reason_and_no_advice():
    request, evidence = by_formula()
    one = conclude(request, replace(evidence, step_s=50 * evidence.step_s))
    assert "does not explain" in one.limited_by
    assert not one.helps
    assert one.terms is None


def test_a_point_is_costed_under_its_own_allocator():
    asked = {"samples": 100_000, "stack": "2020-tensorflow", "tier": "formula"}
    usual, kept = (estimate(make_point(vocabulary=200_000, allocator=each), **asked) for each in ("glibc", "tcmalloc"))
    assert kept.total.value < usual.total.value / 2
    # The advice is the same cost.
    (told,) = [one for one in usual.helps if one.what == advice.ALLOCATOR]
    assert told.time == pytest.approx(kept.total.value / usual.total.value)
    assert advice.ALLOCATOR not in {one.what for one in kept.helps}


# What would help


def advised(costed, stack="2026-tensorflow", **changes):
    """What is advised for a model with these sizes, by what it changes."""
    model = replace(ModelDescription.from_point(make_point(**changes)), stack=stack)
    return {one.what.split(",")[0].split(" (")[0]: one for one in advice.helps(advice.CostedWork(model, costed), 100)}


def test_each_change_is_costed_as_the_model_that_has_it():
    """The advice for a table equals the cost of the point that is built so."""
    seconds = (0.001, 1e-5, 1e-11, 1e-10, 1e-10, 1e-11, 1e-10, 1e-11)
    costed, large = costs.Costs("made up", dict(zip(TERMS, seconds, strict=True)), 0.1), {"vocabulary": 500_000}
    found, before = advised(costed, **large), costed.step_s(make_point(**large).work)
    changes = {"tables left untrained": {"frozen": True}, "half of the tables' rows": {"vocabulary": 250_000}}
    changes |= {"traintime.deferred for the tables": {"optimizer": "adam-deferred"}, "SGD": {"optimizer": "sgd"}}
    for what in changes.keys() & found.keys():
        after = costed.step_s(make_point(**large | changes[what]).work)
        assert found[what].time == pytest.approx(after / before, rel=0.02), what
    assert {"tables left untrained", "traintime.deferred for the tables"} <= set(found)
    assert not {name for name in advised(costed, vocabulary=100) if "table" in name}


@pytest.mark.parametrize("stack", advice.DEFERRED_ABOVE)
def test_a_deferred_table_is_advised_above_the_rows_of_chapter_16_alone(stack):
    sizes = {"vocabulary": [20_000, 200_000], "optimizer": ["adam", "adam-deferred"]}
    of_both = lab.runs("machine D", stack=stack, **sizes).groupby("optimizer")
    dense, deferred = (lab.steps(runs, "vocabulary").loc[stack] for _, runs in of_both)
    over = dense - deferred
    least = round(20_000 - over[20_000] * 180_000 / (over[200_000] - over[20_000]), -3)
    assert advice.DEFERRED_ABOVE[stack] == least
    of_rates = costs.Costs("made up", dict.fromkeys(TERMS, 0.0) | {"update": 1e-9}, 0.1)
    for count, told in ((least, False), (least + 1, True)):
        assert any("deferred" in what for what in advised(of_rates, stack, vocabulary=int(count))) == told


# What is asked, and what is refused


def test_the_data_tell_how_many_samples_there_are_and_keras_how_many_a_step_has():
    images = np.zeros((640, 5))
    assert sizes("a Keras model", (images, np.zeros(640)), None, None) == (640, 32)
    assert sizes("a Keras model", {"a": images}, 64, None) == (64, 32)
    assert sizes("a Keras model", None, 64, 8) == (64, 8)
    for model, samples, batch, lacking in (("a Keras model", None, 32, "samples"), (None, 64, None, "batch_size")):
        with pytest.raises(InputError, match=f"{lacking}: None is not told by the data"):
            sizes(model, None, samples, batch)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"samples": 1000.5}, "samples: 1000.5"),
        ({"epochs": 0}, "epochs: 0"),
        ({"level": 90}, "level: 90"),
        ({"batch_size": 7}, "batch_size: 7 differs from the configuration's 100"),
        ({"step": print}, "model: .* and step"),
        ({"model": make_point(precision="mixed-bfloat16")}, "precision: 'mixed-bfloat16' has no known cost"),
        ({"model": None, "step": print, "batch_size": 5, "tier": "formula"}, "cannot look into a function"),
    ],
)
def test_bad_input_is_named(asked, said):
    with pytest.raises(InputError, match=said):
        estimate(**{"model": make_point(), "samples": 1000} | asked)


def test_amounts_of_memory_are_read_and_what_is_none_is_refused():
    read = {"16GB": 16e9, "512 MiB": 2**29, "1.5g": 1.5e9, "1024000": 1_024_000, 2_048_000: 2_048_000}
    assert {given: bytes_of(given) for given in read} == read
    for given in ("", "GB", "-1GB", "0", "16 apples", "1e9"):
        with pytest.raises(InputError, match="memory"):
            bytes_of(given)
