"""What a step time is worth: repeats, the first steps, the framework's own loop, whole epochs; and the claims."""

import numpy as np
import pandas as pd
import pytest
from made_up import measurements, rows, verdict
from tables import cells

from traintime.book import stored
from traintime.book.chapters import measuring, repeats
from traintime.store.table import LOOPS


def test_without_loops_there_are_no_gaps_and_no_epochs():
    found = rows("numpy", [{"vocabulary": 1000}], lambda fields: 0.1)
    made = measurements(found.assign(**dict.fromkeys(LOOPS, float("nan"))))
    assert measuring.gaps(made).empty
    assert measuring.epochs(made).empty
    assert "Not measured yet" in measuring.here_table(made, made).data


# The first steps


def test_first_steps_are_in_units_of_a_later_one():
    warm = np.array([10.0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    curves = measuring.in_units_of_a_later_one([("numpy", 0.2 * warm, 3), ("numpy", 0.5 * warm, 3)])
    assert curves["numpy"].tolist() == pytest.approx(warm[:10].tolist())
    assert curves.index.tolist() == list(range(1, 11))


def test_runs_of_too_few_steps_do_not_count_for_the_first_ones():
    assert measuring.in_units_of_a_later_one([("numpy", np.ones(5), 3)]).columns.empty


@pytest.mark.parametrize(("factor", "expected"), [(5, "holds"), (1.0, "does not hold")])
def test_the_first_step_is_held_against_the_runs_own_median(factor, expected):
    found = rows("numpy", [{"vocabulary": 20_000}], lambda fields: 0.1, error=0.01, rounds=6)
    noise = np.exp(0.01 * np.random.default_rng(1).standard_normal(len(found)))
    made = measurements(found.assign(first_s=found["median_s"] * factor * noise))
    assert measuring.first_step(made)["numpy"].value == pytest.approx(factor, rel=0.02)
    assert verdict("02.7", made) == expected


# The framework's own loop


def looped(stack="2026-jax", gap=1.0, error=0.02, rounds=5, told=True, loop="fit", **changes):
    """Runs of single steps of about 0.1 s and of steps of the loop that take `gap` times as long."""
    fields = {"vocabulary": 1000, "length": 10, "loop": loop} | changes
    found = rows(stack, [fields], lambda fields: 0.1, rounds=rounds)
    random = np.random.default_rng(3)
    step = found["step_s"] * gap * np.exp(error * random.standard_normal(len(found)))
    return found.assign(fit_step_s=step, fit_start_s=0.0, fit_mean_s=step, told=told, steps=50)


def test_the_gap_is_taken_within_each_run():
    found = looped(gap=1.2, error=0.0)
    made = measurements(found, looped("numpy", vocabulary=2000))
    (row,) = measuring.gaps(made).query("stack == '2026-jax'").itertuples()
    assert (row.ratio, row.runs, row.told) == (pytest.approx(1.2), 5, True)
    assert row.faster == "single steps"
    assert measuring.PROSE.values(made)["how-gap-high"].endswith("times (2026-jax)")


@pytest.mark.parametrize(
    ("gap", "error", "faster"),
    [(0.8, 0.02, "fit"), (1.25, 0.02, "single steps"), (1.02, 0.001, measuring.SAME), (1.1, 0.4, measuring.SAME)],
)
def test_what_is_faster_is_told_by_the_rules_of_all_verdicts(gap, error, faster):
    assert measuring.gaps(measurements(looped(gap=gap, error=error)))["faster"].tolist() == [faster]


def test_runs_that_told_the_last_step_are_not_pooled_with_those_that_did_not():
    older = looped(gap=1.5, told=False, rounds=9).assign(started="2026-01-03T00:00:00Z")
    newer = looped(gap=0.9, told=True)
    (row,) = measuring.gaps(measurements(older, newer)).itertuples()
    assert (row.runs, row.told) == (5, True)
    assert row.ratio == pytest.approx(0.9, rel=0.05)


def test_where_no_run_told_it_those_are_all_there_is():
    (row,) = measuring.gaps(measurements(looped(told=False))).itertuples()
    assert (row.runs, row.told) == (5, False)


def test_a_run_whose_longer_calls_took_less_time_is_left_out():
    found = looped()
    found.loc[0, "fit_step_s"] = -0.01
    assert measuring.gaps(measurements(found))["runs"].tolist() == [4]


@pytest.mark.parametrize(("rounds", "expected"), [(5, "holds"), (1, "inconclusive")])
def test_the_claim_on_fit_needs_repeats(rounds, expected):
    assert verdict("02.9", measurements(looped(rounds=rounds))) == expected


# Whole epochs


def epochs(off=0.0, idle=np.nan, steps=50):
    """Epochs of a thousand steps that took a share less than the single steps and the fits promise."""
    found = looped(loop="epoch", sentences=99_950, error=0.0)
    training = 1000 * found["step_s"] / (1 + off)
    taken = training + (0 if np.isnan(idle) else idle)
    after = {"fit_after_s": found["fit_step_s"], "fit_mean_after_s": found["fit_mean_s"]}
    return found.assign(epoch_s=taken, epoch_idle_s=idle, steps=steps, **after)


@pytest.mark.parametrize("idle", [np.nan, 30.0])
def test_an_estimate_is_held_against_the_time_of_training(idle):
    made = measurements(epochs(0.1, idle))
    misses = measuring.misses(measuring.epochs(made))
    for name in measuring.ESTIMATES:
        assert measuring.epochs(made)[f"{name}_error"].tolist() == pytest.approx([0.1] * 5), name
        assert misses.loc[name, ["half", "worst", "near", "rms"]].tolist() == pytest.approx([0.1, 0.1, 0, 0.1])
    assert misses.loc["drift", "worst"] == 0
    assert measuring.PROSE.values(made)["how-mean-half"] == "10.0 %"
    assert cells(measuring.here_table(made, made))[0][-2:] == ["+10", "+10 to +10"]


@pytest.mark.parametrize(
    ("off", "far", "near"),
    [(0.02, "holds", "holds"), (0.1, "holds", "does not hold"), (0.4, "does not hold", "does not hold")],
)
def test_claims_on_epochs(off, far, near):
    made = measurements(epochs(off))
    assert (verdict("02.10", made), verdict("02.11", made)) == (far, near)


def test_epochs_predicted_from_a_handful_of_steps_are_not_judged():
    assert verdict("02.10", measurements(epochs(0.1, steps=10))) == "not measured"


# Repeats


def test_run_to_run_error_is_pooled_over_what_may_be_pooled():
    found = pd.concat(
        [
            rows("numpy", [{"vocabulary": 1000}], lambda fields: 0.1, error=0.1, rounds=200),
            rows("numpy", [{"vocabulary": 1000}], lambda fields: 0.9, error=0.1, rounds=200).assign(code="another"),
        ]
    )
    one = repeats.between(found)
    assert 0.1 in one
    assert one.low < one.value < one.high


def test_a_rank_correlation_has_an_interval():
    random = np.random.default_rng(5)
    faults = random.uniform(1, 100, 60)
    runs = pd.DataFrame({"faults_a_step": [*faults, np.nan], "step_s": [*(1 + faults / 100), 9.0]})
    assert repeats.rank(runs).value == pytest.approx(1)
    noise = pd.DataFrame({"faults_a_step": faults, "step_s": random.uniform(1, 2, 60)})
    one = repeats.rank(noise)
    assert 0 in one
    assert 0.2 < one.high - one.low < 0.7


def allocators(gain, error=0.01, sweep="made-up"):
    points = [{"vocabulary": 20_000, "allocator": name} for name in ("glibc", "tcmalloc")]
    found = rows(repeats.TENSORFLOW, points, lambda f: gain if f["allocator"] == "glibc" else 1.0, error, rounds=8)
    other = found["allocator"] == "tcmalloc"
    return measurements(found.assign(sweep=found["sweep"].where(~other, sweep)))


@pytest.mark.parametrize(
    ("gain", "sweep", "expected"),
    [(1.3, "made-up", "holds"), (0.7, "made-up", "does not hold"), (1.3, "another", "inconclusive")],
)
def test_the_allocators_claim_needs_both_sides_in_the_same_rounds(gain, sweep, expected):
    assert verdict("02.3", allocators(gain, sweep=sweep)) == expected


def test_the_sentinel_is_compared_with_the_rounds_that_have_both_allocators():
    found = allocators(1.3).rows
    made = measurements(found[(found["allocator"] == "tcmalloc") | (found["round"] > 3)])
    sides = repeats.by_allocator(made, repeats.TENSORFLOW)
    assert [sorted(side["round"]) for side in sides.values()] == [[4, 5, 6, 7, 8]] * 2
    apart = repeats.by_allocator(allocators(1.3, sweep="another"), repeats.TENSORFLOW)
    assert [len(side) for side in apart.values()] == [0, 0]


@pytest.mark.parametrize(("error", "expected"), [(0.05, "holds"), (0.5, "does not hold")])
def test_the_noise_floor_of_ten_runs(error, expected):
    made = measurements(rows("numpy", [{"vocabulary": v} for v in (10, 20)], lambda f: 1.0, error, rounds=10))
    assert verdict("02.4", made) == expected


def test_two_runs_alone_make_no_noise_floor():
    assert verdict("02.4", measurements(rows("numpy", [{}], lambda f: 1.0, 0.5, rounds=2))) == "not measured"


def gains(means, medians):
    points = [{"vocabulary": 200_000, "allocator": name} for name in ("glibc", "tcmalloc")]
    found = rows("numpy", points, lambda f: medians if f["allocator"] == "glibc" else 1.0, 0.01, rounds=5)
    glibc = found["allocator"] == "glibc"
    return measurements(found.assign(step_s=found["median_s"] * np.where(glibc, means / medians, 1.0)))


@pytest.mark.parametrize(
    ("means", "medians", "expected"),
    [(1.9, 1.3, "holds"), (1.1, 1.3, "does not hold"), (1.3, 1.3, "inconclusive")],
)
def test_a_gain_by_means_is_held_against_that_by_medians(means, medians, expected):
    assert verdict("02.6", gains(means, medians)) == expected


def test_words_are_compared_in_the_same_rounds():
    points = [{"vocabulary": 200_000, "tokens": name} for name in ("uniform", "zipf")]
    made = measurements(rows("numpy", points, lambda f: 1.5 if f["tokens"] == "zipf" else 1.0, 0.01, rounds=5))
    assert verdict("02.13", made) == "does not hold"
    assert measuring.PROSE.values(made)["how-zipf-high"] == "1.51"


# The stored runs


def test_the_runs_that_were_once_taken_out_are_found():
    assert repeats.restored(repeats.early()) == 27


def test_calls_that_slept_return_when_the_timer_says():
    slept = measuring.slept(stored.of())
    assert len(slept)
    assert (slept["idle_s"] > measuring.SLEPT_S).all()
    assert (slept["seconds"] / slept["predicted_s"]).between(0.95, 1.05).all()
