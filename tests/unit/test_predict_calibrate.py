"""Calibration: prices from probes and habits, and when they count. With made-up probes."""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from traintime.errors import InputError
from traintime.explain.formula import tf_data_end
from traintime.explain.terms import TERMS
from traintime.measuring import stacks
from traintime.point import make_point
from traintime.predict import calibrate, holdings, prices, tiers
from traintime.predict.advice import PricedWork
from traintime.predict.answer import around
from traintime.predict.estimate import estimate
from traintime.predict.evidence import conclude
from traintime.predict.prices import Prices, Rates
from traintime.predict.request import ModelDescription, Request
from traintime.predict.resident import Copies

TRUTH = np.array([0.002, 2e-5, 1e-11, 5e-11, 1e-10, 2e-10, 4e-10, 8e-11])
POINTS = [
    make_point(vocabulary=v, embedding=e, units=u, length=length, batch=b)
    for v, e, u, length, b in [
        (2_000, 50, 32, 25, 16),
        (150_000, 100, 16, 5, 16),
        (20_000, 300, 128, 25, 100),
        (2_000, 100, 192, 50, 64),
        (2_000, 200, 64, 50, 256),
    ]
] + [make_point("dense", inputs=1500, hidden=1500, layers=3, batch=128), make_point("blocks")]


def probes(noise=0.0, seed=0):
    values = prices.design([point.work for point in POINTS])
    return values, values @ TRUTH * np.exp(noise * np.random.default_rng(seed).standard_normal(len(POINTS)))


def test_probes_that_agree_give_their_own_prices():
    values, seconds = probes()
    found, error = calibrate.fit(values, seconds, TRUTH)
    assert found == pytest.approx(TRUTH, rel=1e-3)
    assert error < 1e-3


def test_probes_outweigh_a_habit_that_is_wrong():
    values, seconds = probes()
    found, _ = calibrate.fit(values, seconds, TRUTH * 2)
    assert values @ found == pytest.approx(seconds, rel=0.1)


def test_what_no_probe_has_met_comes_from_the_habits():
    values, _ = probes()
    blind = values.copy()
    blind[:, list(TERMS).index("touch")] = 0
    found, _ = calibrate.fit(blind, blind @ TRUTH, TRUTH)
    assert found[list(TERMS).index("touch")] == pytest.approx(TRUTH[list(TERMS).index("touch")])


def test_noisy_probes_leave_the_error_that_they_have():
    errors = [calibrate.fit(*probes(0.1, seed), TRUTH)[1] for seed in range(20)]
    assert 0.05 < np.mean(errors) < 0.3


def test_a_price_is_never_negative():
    values, seconds = probes()
    found, _ = calibrate.fit(values, seconds, TRUTH * np.array([50] + [1] * (len(TRUTH) - 1)))
    assert (found >= 0).all()


# What is stored


@pytest.fixture
def worker(monkeypatch):
    """A machine of known rates, and a process that answers with made-up probes; what it was started with."""
    started = []

    def answer(command, job, environment, timeout_s):
        started.append((command, job, environment))
        _, seconds = probes()
        found = [
            {"step_s": s, "first_s": 1.5, "work": asdict(point.work)} for s, point in zip(seconds, POINTS, strict=True)
        ]
        with monkeypatch.context() as child:
            for name in calibrate.SETTINGS[environment["KERAS_BACKEND"]]:
                child.delenv(name, raising=False)
                if name in environment:
                    child.setenv(name, environment[name])
            path = calibrate.code_path(environment["KERAS_BACKEND"])
        path |= {"allocator": "tcmalloc" if "LD_PRELOAD" in environment else "glibc"}
        about = {"loaded_bytes": 6e8, "runtime_bytes": 1e8, "copies": {"training": 2.0, "start": 3.0}}
        about |= {"path": path, "took_s": 42.0}
        return {"status": "ok", "result": {"probes": found} | about}

    monkeypatch.setattr(calibrate, "run_worker", answer)
    monkeypatch.setattr(calibrate, "rates_here", lambda: Rates(1e11, 2e10))
    monkeypatch.setattr(calibrate, "who_answers", lambda: "glibc")
    return started


def test_a_calibration_is_kept_and_used(worker):
    point = make_point(vocabulary=50_000)
    assert estimate(point, samples=1000, stack="2026-jax").tier == "formula"
    made = calibrate.calibrate("2026-jax")
    assert calibrate.stored("2026-jax").seconds == made.seconds
    one = estimate(point, samples=1000, stack="2026-jax")
    assert one.tier == "calibrated", one.notes
    assert one.step.value == pytest.approx(made.prices().step_s(point.work))
    assert "2026-jax on this machine under glibc, calibrated" in one.of
    assert estimate(point, samples=1000, stack="2026-jax", tier="formula").tier == "formula"
    assert estimate(point, samples=1000, stack="2026-torch").tier == "formula"


def peak(sample_bytes=0, samples=1000, **process):
    """Foretold of the smallest point on JAX, bytes, with samples of so many bytes each."""
    model = replace(ModelDescription.from_point(make_point()), stack="2026-jax", sample_bytes=sample_bytes)
    request, priced = Request(samples, 100), PricedWork(model, Prices("made up", dict.fromkeys(TERMS, 1e-9), 0.1), {})
    process = tiers.Process(**{"loaded_bytes": 6e8, "runtime_bytes": 1e8} | process)
    return conclude(request, tiers._priced_evidence(request, priced, "formula", process))


def test_samples_count_as_often_as_fit_was_seen_to_hold_them(worker):
    made = calibrate.calibrate("2026-jax")
    assert made.copies == Copies(training=2.0, start=3.0)
    assert calibrate.stored("2026-jax").copies == made.copies, "as it was written"
    once, often = (peak(1000, 100_000, copies=Copies(n)).memory.value for n in (1, 3))
    assert often - once == pytest.approx(2 * 1000 * 100_000)


def test_samples_may_be_held_once_more_before_the_first_step_than_later():
    """And that is the peak where they are more than what training holds beside them."""
    copies, loaded = Copies(training=2.0, start=3.0), 6e8
    few, many = (peak(1000, n, copies=copies, loaded_bytes=loaded).memory.value for n in (10_000, 10_000_000))
    assert few == pytest.approx(peak(loaded_bytes=loaded).memory.value + 2 * 1000 * 10_000)
    weights = 4 * make_point().work.parameters
    assert many == pytest.approx(loaded + weights + 3 * 1000 * 10_000_000)


def test_memory_starts_from_what_a_process_here_was_seen_to_hold(worker):
    calibrate.calibrate("2026-jax")
    model = ModelDescription.from_point(make_point())
    grown = holdings.of_stack("2026-jax").of_model(model.work, model.how)
    assert estimate(make_point(), samples=1000, stack="2026-jax").memory.value == pytest.approx(7e8 + grown, rel=1e-3)
    usual = estimate(make_point(), samples=1000, stack="2026-jax", tier="formula").memory.value
    assert usual == pytest.approx(holdings.of_stack("2026-jax").peak_bytes(model.work, model.how), rel=1e-3)


@pytest.mark.parametrize(
    ("loaded", "found"), [(None, 5.0), ((1.0, 9.0), 5.0), ((7.0, 9.0), 7.0), ((1.0, 3.0), 3.0), ((4.0, 4.0), 4.0)]
)
def test_a_process_holds_what_is_usual_as_far_as_it_does_not_deny_it(loaded, found):
    assert tiers._likeliest(5.0, loaded) == found


def test_a_first_step_is_paid_once_and_once_more_for_a_batch_that_is_not_full(worker):
    calibrate.calibrate("2026-jax")
    for samples, times in ((1000, 1), (1010, 2)):
        one = estimate(make_point(), samples=samples, epochs=3, stack="2026-jax")
        assert one.parts["first step"] == pytest.approx(times * 1.5)
        assert one.total.value == pytest.approx(sum(one.parts.values()))
        assert one.epoch.value == pytest.approx((one.total.value - times * 1.5) / 3)


def test_fit_may_sleep_on_tensorflow(worker):
    """And is said to where that is more than a trifle of the epoch."""
    said = {"2026-jax": set(), "2026-tensorflow": set()}
    for stack, notes in said.items():
        made = calibrate.calibrate(stack)
        for samples in (20_000, 60_000, 200_000, 600_000):
            one = estimate(make_point(), samples=samples, stack=stack)
            awake = one.epoch.value - one.parts.get("sleep after epochs", 0.0)
            longest = around(awake, (made.error, 1e6)).high
            sleep = tf_data_end(longest) - longest if stack == "2026-tensorflow" else 0.0
            told = sleep >= 0.01 * awake
            assert one.epoch.high == pytest.approx(longest + sleep * told, rel=1e-3)
            assert any("may sleep" in note for note in one.notes) == told
            notes.add(told)
    assert True in said["2026-tensorflow"]
    assert said["2026-jax"] == {False}


def test_probes_are_not_taken_at_their_word():
    assert calibrate.doubt(0.1, 0.1) == pytest.approx(0.1)
    assert 0.1 < calibrate.doubt(0.1, 0.3) < 0.3
    assert 0.3 < calibrate.doubt(0.7, 0.3) < 0.7


def test_another_allocator_is_another_calibration(worker):
    calibrate.calibrate("2026-jax")
    assert calibrate.file_of("2026-jax", "glibc") != calibrate.file_of("2026-jax", "tcmalloc")
    with pytest.raises(InputError, match=r"under tcmalloc.*--allocator tcmalloc"):
        calibrate.stored("2026-jax", "tcmalloc")


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        ("2026-tensorflow", "TF_ENABLE_ONEDNN_OPTS"),
        ("2026-jax", "XLA_FLAGS"),
        pytest.param("2026-torch", "ATEN_CPU_CAPABILITY", marks=pytest.mark.stack("2026-torch")),
    ],
)
def test_prices_of_another_code_path_are_refused_by_name(worker, monkeypatch, stack, name):
    calibrate.calibrate(stack)
    monkeypatch.setenv(name, "0")
    said = rf"was made on another code path: {name} was not set, is 0\. Run: traintime calibrate --stack {stack}"
    with pytest.raises(InputError, match=said):
        calibrate.stored(stack)
    calibrate.calibrate(stack)  # the remedy helps
    assert calibrate.stored(stack).path[name] == "0"
    monkeypatch.delenv(name)
    with pytest.raises(InputError, match=f"{name} was 0, is not set"):
        calibrate.stored(stack)


def test_another_backends_settings_are_no_concern(worker, monkeypatch):
    calibrate.calibrate("2026-jax")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert calibrate.stored("2026-jax")


@pytest.mark.parametrize(
    ("name", "then", "now"), [("onednn", True, False), ("huge_pages", "madvise", "always"), ("blas", "Zen", "Haswell")]
)
def test_what_the_libraries_chose_themselves_counts_where_both_are_known(name, then, now):
    assert calibrate.differing({name: then}, {name: now}) == f"{name} was {then}, is {now}"
    assert calibrate.differing({name: then}, {name: then}) == ""
    assert calibrate.differing({name: then}, {name: None}) == calibrate.differing({name: None}, {name: now}) == ""
    assert calibrate.differing({name: then}, {}) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"date": (datetime.now(UTC) - timedelta(days=200)).strftime("%Y-%m-%dT%H:%M:%SZ")}, "is 200 days old"),
        ({"machine": "another"}, "is of another machine"),
        ({"versions": {"jax": "0.1"}}, "is of other versions"),
        ({"path": {"allocator": "glibc", "libc": "glibc 1.0"}}, "was made on another code path: libc was glibc 1.0"),
        ({"seconds": {"overhead": 1}}, "is no calibration"),
        ({"schema_version": 99}, "is no calibration"),
    ],
)
def test_what_is_stale_or_foreign_is_refused_and_said(worker, change, said):
    made = calibrate.calibrate("2026-jax")
    path = calibrate.file_of("2026-jax", "glibc")
    path.write_text(json.dumps(asdict(made) | change))
    with pytest.raises(InputError, match=said):
        calibrate.stored("2026-jax")
    with pytest.raises(InputError, match=r"Run: traintime calibrate"):
        estimate(make_point(), samples=1000, stack="2026-jax", tier="calibrated")
    one = estimate(make_point(), samples=1000, stack="2026-jax")
    assert one.tier == "formula"
    assert any("a calibration was not used" in note for note in one.notes)


def test_a_file_that_is_no_json_is_no_calibration(worker, tmp_path):
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(InputError, match="is no calibration"):
        calibrate.read(tmp_path / "x.json")


def test_stacks_that_are_not_keras_3_are_refused():
    with pytest.raises(InputError, match="stack: '2017-theano' runs no Keras 3"):
        calibrate.calibrate("2017-theano")


def test_an_allocator_that_nobody_knows_is_refused():
    with pytest.raises(InputError, match=r"allocator: 'mimalloc' is refused .*tcmalloc"):
        calibrate.calibrate("2026-jax", "mimalloc")


def test_a_stack_that_is_not_here_is_refused(monkeypatch):
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: False))
    with pytest.raises(InputError, match="is not here"):
        calibrate.calibrate("2026-jax")


def test_what_breaks_the_process_is_told(worker, monkeypatch):
    broken = {"status": "crashed", "error": "no memory"}
    monkeypatch.setattr(calibrate, "run_worker", lambda *_: broken)
    with pytest.raises(RuntimeError, match="crashed: no memory"):
        calibrate.calibrate("2026-jax")


def test_every_design_is_large_in_some_term():
    """No two terms would be indistinguishable: the designs' closed forms have the rank of the formula."""
    rows = [make_point(**sizes).work for kind, sizes in calibrate.DESIGNS if kind == "classifier"]
    values = prices.design(rows)
    relative = values / values.sum(axis=1, keepdims=True)  # a step's length adds nothing to what it tells
    assert np.linalg.matrix_rank(relative / relative.max(axis=0)) == len(TERMS)


def test_a_price_that_the_habits_deny_is_learnt_from_probes():
    values, seconds = probes()
    for term in ("launch", "update"):
        denied = TRUTH.copy()
        denied[list(TERMS).index(term)] = 0
        found, _ = calibrate.fit(values, seconds, denied)
        assert values @ found == pytest.approx(seconds, rel=0.1)
