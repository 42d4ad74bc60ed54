"""What a step time is worth: repeats, whole epochs; and the claims."""

import numpy as np
import pandas as pd
import pytest
from made_up import measurements, rows, verdict
from tables import cells

from traintime.book.chapters import measuring

# Repeats


def test_run_to_run_error_is_pooled_over_what_may_be_pooled():
    parts = [rows("numpy", [{}], lambda fields, at=at: at, 0.1, rounds=200).assign(code=str(at)) for at in (0.1, 0.9)]
    one = measuring.between(pd.concat(parts))
    assert 0.1 in one
    assert one.low < one.value < one.high


@pytest.mark.parametrize(("inside", "expected"), [(0.02, "holds"), (0.2, "does not hold"), (0.05, "inconclusive")])
def test_the_scatter_of_runs_is_held_against_what_their_steps_suggest(inside, expected, monkeypatch):
    runs = rows("numpy", [{}], lambda fields: 0.1, error=0.1, rounds=30).assign(error=inside)
    monkeypatch.setattr(measuring, "sentinel", lambda book: runs)
    assert verdict("02.1", measurements(runs)) == expected


def test_a_rank_correlation_has_an_interval():
    random = np.random.default_rng(5)
    faults = random.uniform(1, 100, 60)
    runs = pd.DataFrame({"faults_a_step": [*faults, np.nan], "step_s": [*(1 + faults / 100), 9.0]})
    assert measuring.rank(runs).value == pytest.approx(1)
    assert 0 in measuring.rank(pd.DataFrame({"faults_a_step": faults, "step_s": random.uniform(1, 2, 60)}))


@pytest.mark.parametrize(
    ("error", "rounds", "expected"),
    [(0.05, 10, "holds"), (0.5, 10, "does not hold"), (0.5, 2, "not measured"), (0.05, 1, "not measured")],
)
def test_the_noise_floor_of_ten_runs_needs_repeats(error, rounds, expected):
    made = measurements(rows("numpy", [{"vocabulary": v} for v in (10, 20)], lambda fields: 1.0, error, rounds))
    assert verdict("02.4", made) == expected


# Whole epochs


def epochs(off=0.0, idle=np.nan, steps=50, rounds=5, **errors):
    """Epochs of a thousand steps that took a share less than the single steps and the fits predict.

    errors: how far the short fits' step is from a single one: slope, and mean.
    """
    fields = {"vocabulary": 1000, "length": 10, "loop": "epoch", "sentences": 99_950}
    found = rows("2026-jax", [fields], lambda fields: 0.1, rounds=rounds)
    slope, mean = (found["step_s"] * (1 + errors.get(name, 0)) for name in ("slope", "mean"))
    taken = 1000 * found["step_s"] / (1 + off) + (0 if np.isnan(idle) else idle)
    fits = {"fit_step_s": slope, "fit_after_s": slope, "fit_mean_s": mean, "fit_mean_after_s": mean, "fit_start_s": 0.0}
    return found.assign(epoch_s=taken, epoch_idle_s=idle, steps=steps, told=True, **fits)


@pytest.mark.parametrize("idle", [np.nan, 30.0])
def test_an_estimate_is_held_against_the_time_of_training(idle):
    made = measurements(epochs(0.1, idle))
    for what in ("half", "worst", "rms"):
        missed = {name: miss.value for name, miss in measuring.missed(made, what).items()}
        assert missed == pytest.approx(dict.fromkeys(measuring.ESTIMATES, 0.1) | {"drift": 0}), what
    assert str(measuring.missed(made, "half")["mean"]) == "10.0 %"
    assert cells(measuring.here_table(made, made))[0][-2:] == ["+10", "+10 to +10"]


@pytest.mark.parametrize(
    ("label", "made", "expected"),
    [
        ("02.10", epochs(0.1), "holds"),
        ("02.10", epochs(0.4), "does not hold"),
        ("02.14", epochs(0.0, slope=0.1, mean=0.05), "holds"),
        ("02.14", epochs(0.0, slope=0.05, mean=0.055), "does not hold"),
        ("02.14", epochs(0.1, steps=10), "not measured"),
    ],
)
def test_a_claim_on_epochs(label, made, expected):
    assert verdict(label, measurements(made)) == expected
