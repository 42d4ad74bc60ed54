"""An answer from costs: what the process holds, how often `fit` holds the samples, and types other than float32."""

import subprocess
import sys
from dataclasses import replace

import pytest

from traintime.explain.terms import TERMS
from traintime.point import make_point
from traintime.predict import advice, here, tiers
from traintime.predict.advice import PricedWork
from traintime.predict.evidence import conclude
from traintime.predict.prices import Prices, Rates
from traintime.predict.request import ModelDescription, Request
from traintime.predict.resident import ONCE, Copies


def peak(sample_bytes=0, samples=1000, loaded=6e8, copies=ONCE):
    """Predicted of the smallest point on JAX, bytes, with samples of so many bytes each."""
    model = replace(ModelDescription.from_point(make_point()), stack="2026-jax", sample_bytes=sample_bytes)
    request, priced = Request(samples, 100), PricedWork(model, Prices("made up", dict.fromkeys(TERMS, 1e-9), 0.1), {})
    return conclude(request, tiers._priced_evidence(request, priced, loaded, copies)).memory.value


@pytest.mark.parametrize(
    ("own_s", "others_s", "cores", "told"),
    [
        (19.0, 0.5, 2, 0.0),  # nobody else works
        (6.0, 14.0, 2, 1.4),
        (14.0, 6.0, 16, 0.0),  # there is room for both
        (150.0, 10.0, 16, 1.0),
    ],
)
def test_others_are_in_the_way_where_the_machine_is_full(own_s, others_s, cores, told, monkeypatch):
    monkeypatch.setattr(here, "processor_s", lambda: (100 + own_s, 1000 + others_s))
    assert here.crowd((100.0, 1000.0), 10.0, cores) == pytest.approx(told)
    assert here.crowd(None, 10.0, cores) == 0.0


def test_what_this_process_has_started_is_no_other():
    before, work = here.processor_s(), "import time; sum(range(10**7)); print(time.process_time())"
    used_s = float(subprocess.run([sys.executable, "-c", work], check=True, capture_output=True).stdout)
    assert here.processor_s()[0] - before[0] >= used_s


def test_samples_count_as_often_as_fit_holds_them():
    once, often = (peak(1000, 100_000, copies=Copies(n)) for n in (1, 3))
    assert often - once == pytest.approx(2 * 1000 * 100_000)


def test_samples_may_be_held_once_more_before_the_first_step_than_later():
    """And that is the peak where they are more than what training holds beside them."""
    copies, loaded = Copies(training=2.0, start=3.0), 6e8
    few, many = (peak(1000, n, loaded, copies) for n in (10_000, 10_000_000))
    assert few == pytest.approx(peak() + 2 * 1000 * 10_000)
    weights = 4 * make_point().work.parameters
    assert many == pytest.approx(loaded + weights + 3 * 1000 * 10_000_000)


@pytest.mark.parametrize(
    ("loaded", "found"), [(None, 5.0), ((1.0, 9.0), 5.0), ((7.0, 9.0), 7.0), ((1.0, 3.0), 3.0), ((4.0, 4.0), 4.0)]
)
def test_a_process_holds_what_is_usual_as_far_as_it_does_not_deny_it(loaded, found):
    assert tiers._likeliest(5.0, loaded) == found


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_a_model_in_another_type_is_priced_as_float32_and_told_of(dtype):
    def predicted(dtype):
        model = replace(ModelDescription.from_point(make_point()), stack="2026-torch", dtype=dtype)
        return conclude(request, tiers.formula_evidence(request, model, rates=Rates(1e11, 2e10)))

    request = Request(1000, 100)
    one, full = predicted(dtype), predicted("float32")
    assert one.step == full.step
    assert any(f"computed in {dtype}, which has no known cost here" in note for note in one.notes)
    assert (advice.PRECISION in one.notes, advice.PRECISION in full.notes) == (False, True)
