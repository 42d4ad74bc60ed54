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
    one = conclude(*by_formula())
    assert one.meets(1e9, 1e12) is True
    assert one.meets(1e9, 1e3) is False
    assert one.meets(one.total.value, 1e3) is False
    assert one.meets(one.total.value, 1e12) is None


# What it says


def test_an_estimate_survives_json():
    one = estimate(make_point(), samples=1000)
    again = Estimate.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again.to_dict() == one.to_dict()
    assert str(again) == str(one)


@pytest.mark.parametrize("limits", [{}, {"deadline": "8h"}, {"deadline": "8h", "memory": "16GB"}])
def test_an_answer_has_nine_lines_and_begins_with_what_was_asked_for(limits):
    one = estimate(make_point(vocabulary=500_000), samples=1e7, epochs=99, saves=1, stack="2026-torch", **limits)
    assert len(str(one).splitlines()) <= 9 + sum(len(text) > 67 for _, text in one.rows)
    names = [name for name, _ in one.rows]
    assert names[:2] == (["answer", "training"] if limits else ["training", "peak memory"])
    assert {"limited by", "beware", "to try"} < set(names), "a warning stands before what else there is"
    told = f"{one}{one.details}"
    assert all(each in told.replace("\n", " ") or len(each) > 60 for each in (*one.warnings, *one.notes))


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


def helped(known, seconds=(0.001, 1e-5, 1e-11, 1e-10, 1e-10, 1e-11, 1e-10, 1e-11)):
    costed = costs.Costs("made up", dict(zip(TERMS, seconds, strict=True)), 0.1)
    found = advice.helps(advice.CostedWork(replace(known, stack="2026-tensorflow"), costed), 100)
    return {one.what.split(",")[0].split(":")[0].split(" (")[0]: one for one in found}, costed


def test_each_change_is_costed_as_the_model_that_has_it():
    """The advice for a table equals the cost of the point that is built so."""
    point = make_point(vocabulary=500_000)
    found, costed = helped(ModelDescription.from_point(point))
    before = costed.step_s(point.work)
    for what, changed in (
        ("tables left untrained", {"frozen": True}),
        ("traintime.deferred for the tables", {"optimizer": "adam-deferred"}),
        ("half of the tables' rows", {"vocabulary": 250_000}),
        ("SGD", {"optimizer": "sgd"}),
    ):
        if what in found:
            after = costed.step_s(make_point(**{"vocabulary": 500_000} | changed).work)
            assert found[what].time == pytest.approx(after / before, rel=0.02), what
    assert {"tables left untrained", "traintime.deferred for the tables"} <= set(found)
    small, _ = helped(ModelDescription.from_point(make_point(vocabulary=100)))
    assert not {name for name in small if "table" in name}


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
        model = replace(ModelDescription.from_point(make_point(vocabulary=int(count))), stack=stack)
        found = advice.helps(advice.CostedWork(model, of_rates), 100)
        assert any("deferred" in one.what for one in found) == told


# What is asked, and what is refused


@pytest.mark.parametrize(
    ("data", "given", "found"),
    [
        ((np.zeros((640, 5)), np.zeros(640)), {}, (640, 32)),
        ({"a": np.zeros((640, 5))}, {"samples": 64}, (64, 32)),
        (None, {"samples": 64, "batch_size": 8}, (64, 8)),
    ],
)
def test_the_data_tell_how_many_samples_there_are_and_keras_how_many_a_step_has(data, given, found):
    assert sizes("a Keras model", data, given.get("samples"), given.get("batch_size")) == found
    with pytest.raises(InputError, match="samples: None is not told by the data"):
        sizes("a Keras model", None, None, 32)
    with pytest.raises(InputError, match="batch_size: None is not told by the data"):
        sizes(None, None, 64, None)


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


@pytest.mark.parametrize(
    ("given", "found"),
    [("16GB", 16e9), ("512 MiB", 2**29), ("1.5g", 1.5e9), ("1024000", 1_024_000), (2_048_000, 2_048_000)],
)
def test_amounts_of_memory(given, found):
    assert bytes_of(given) == found


@pytest.mark.parametrize("given", ["", "GB", "-1GB", "0", "16 apples", "1e9"])
def test_what_is_no_amount_is_refused(given):
    with pytest.raises(InputError, match="memory"):
        bytes_of(given)
