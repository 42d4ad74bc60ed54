"""Half precision among the advice: only where it was measured, and only where it helps."""

from dataclasses import replace

import pandas as pd
import pytest

from traintime import paths
from traintime.explain.terms import TERMS
from traintime.measuring import machine
from traintime.point import make_point
from traintime.predict import advice, precision, prices, process
from traintime.predict.estimate import conclude, estimate
from traintime.predict.evidence import formula_evidence, priced_work
from traintime.predict.prices import Prices, Rates
from traintime.predict.request import ModelDescription, Request

RATES = Rates(1e11, 2e10)
PRICED = Prices("made up", dict.fromkeys(TERMS, 1.0), 0.1)
STACKS = ("2026-tensorflow", "2026-jax", "2026-torch")


@pytest.fixture
def processor(monkeypatch):
    """Give this machine's processor these instruction sets, and known rates."""
    monkeypatch.setattr(process, "rates", lambda: RATES)

    def of(*sets):
        found = machine.processor() | {"instruction_sets": ["avx2", *sets]}
        monkeypatch.setattr(machine, "processor", lambda: found)

    return of


def half_of(one):
    return [each for each in one.helps if each.what == advice.PRECISION]


LARGE = make_point("blocks", structure="plain", side=32, width=32, depth=8, batch=32)
LOOP = make_point("lstm", batch=32, length=50)


@pytest.mark.parametrize("stack", STACKS)
def test_a_step_costs_what_the_model_took_that_is_like_it(stack):
    rows = pd.read_csv(paths.DERIVED / "precision.csv").query("stack == @stack").set_index("sweep")["times"]
    for point in (LARGE, LOOP, make_point("lstm", units=1000, batch=512), make_point("dense", inputs=20, hidden=20)):
        half = precision.in_half(PRICED, stack, point.work, precision.needed()).seconds
        like = ["faster-arithmetic"] if point is LARGE else ["faster-arithmetic", "faster-loop"]
        assert half["matmul"] == half["touch"] == half["launch"] == pytest.approx(rows[like].max())
        assert half["update"] == half["elementwise"] == pytest.approx(rows["faster-table"])


def test_the_models_that_were_tried_are_told_to_if_it_helped_them_and_else_not():
    """At the rates of the machine that tried them."""
    rows = pd.read_csv(paths.DERIVED / "precision.csv").set_index(["stack", "sweep"])
    models = dict(zip(precision.SWEEPS, (LARGE, make_point(vocabulary=80_000), LOOP), strict=True))
    for (stack, sweep), row in rows.iterrows():
        priced, work = prices.of_rates("x", prices.own_rates(row["machine"]), stack), models[sweep].work
        times = precision.in_half(priced, stack, work, precision.needed()).step_s(work) / priced.step_s(work)
        assert (times < advice.WORTH) == (row["times"] < 0.9), (stack, sweep, times)


def test_it_is_offered_where_it_helps_and_nowhere_else(processor):
    processor(*precision.needed())
    (found,) = half_of(estimate(LARGE, samples=1000, stack="2026-tensorflow"))
    assert found.time < advice.WORTH
    assert not half_of(estimate(LARGE, samples=1000, stack="2026-jax"))
    assert not half_of(estimate(LOOP, samples=1000, stack="2026-tensorflow"))


def test_a_processor_that_computes_no_bfloat16_has_no_price_for_it_and_is_told_why(processor):
    for sets in ((), ("avx512_bf16",)):
        processor(*sets)
        one = estimate(LARGE, samples=1000, stack="2026-tensorflow")
        assert not half_of(one)
        assert any("half precision has no known cost here" in note and "amx_bf16" in note for note in one.notes)
    processor(*precision.needed())
    assert not any("half precision" in note for note in estimate(LARGE, samples=1000, stack="2026-jax").notes)


@pytest.mark.parametrize("asked", [{"device": "T4"}, {"stack": "2017-theano"}])
def test_another_device_or_software_has_no_price_for_it(processor, asked):
    processor(*precision.needed())
    one = estimate(make_point(), samples=1000, **asked)
    assert not half_of(one)
    assert any("half precision has no known cost here" in note for note in one.notes)


def test_a_gpu_has_no_price_for_it(processor, monkeypatch):
    processor(*precision.needed())
    monkeypatch.setattr(process, "gpu_peak", lambda backend: 1 if backend == "jax" else None)
    jax, torch = (replace(ModelDescription.from_point(LARGE), stack=stack) for stack in ("2026-jax", "2026-torch"))
    assert advice.PRECISION not in priced_work(jax, PRICED).alternatives
    assert advice.PRECISION in priced_work(torch, PRICED).alternatives


def foretold(dtype, **given):
    """By the formula, of the large model in this type."""
    model = replace(ModelDescription.from_point(LARGE), stack="2026-torch", dtype=dtype)
    request = Request(1000, 32, **given)
    return conclude(request, formula_evidence(request, model, RATES))


def test_a_model_in_half_precision_has_its_prices_and_is_not_told_to_take_it(processor):
    processor(*precision.needed())
    half, full = foretold("bfloat16"), foretold("float32")
    saved = {each.what: each.time for each in half_of(full)}
    assert half.step.value == pytest.approx(full.step.value * saved[advice.PRECISION])
    assert not half_of(half)
    assert not any("no price here" in note for note in (*half.notes, *full.notes))


@pytest.mark.parametrize(
    ("dtype", "given", "sets"),
    [
        *[(dtype, {}, precision.needed()) for dtype in ("float16", "float64")],
        ("bfloat16", {"device": "T4"}, precision.needed()),
        ("bfloat16", {}, ()),  # a processor without the instructions
    ],
)
def test_a_type_without_a_price_is_priced_as_float32_and_told_of(processor, dtype, given, sets):
    processor(*sets)
    one = foretold(dtype, **given)
    assert one.step.value == foretold("float32", **given).step.value
    assert any(f"computed in {dtype}, which has no known cost here" in note for note in one.notes)
    assert not half_of(one)


def test_both_the_allocator_and_precision_are_priced(processor):
    processor(*precision.needed())
    one = foretold("float32")
    assert {advice.ALLOCATOR, advice.PRECISION} <= {each.what for each in one.helps}
