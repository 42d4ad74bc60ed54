"""What the rows of a table cost: every way in turn, a slope of `fit`, ratios, a way that failed, and the goals."""

import pandas as pd
import pytest

from traintime.measuring import bench_rows, stacks

STEP_S = {"dense": 2.0, "deferred": 0.05, "frozen": 0.04}
PEAK = {"dense": 15e9, "deferred": 8e9, "frozen": 7e9}


def loops(seconds, start=0.3, batch=100):
    """Two pairs: each takes its steps and a start."""
    return [
        {"sentences": batch * steps, "ns": int((start + seconds * steps) * 1e9), "trained_ns": trained}
        for steps, trained in [(5, None), (10, None), (5, None), (10, None)]
    ]


@pytest.fixture
def asked(monkeypatch):
    """Answers in the place of workers; what was asked for is kept, and what fails can be named."""
    calls, failing, slower = [], set(), {}

    def answer(point, stack, protocol):
        way = "frozen" if point.sizes.frozen else {"adam": "dense"}.get(point.sizes.optimizer, "deferred")
        calls.append((point.sizes.embedding, point.sizes.vocabulary, way, protocol.steps))
        if (way, point.sizes.vocabulary) in failing:
            return {"status": "oom", "error": "out of memory"}
        seconds = STEP_S[way] * slower.get(point.sizes.vocabulary, 1)
        return {"status": "ok", "result": {"loops": loops(seconds), "memory": {"peak": PEAK[way]}}}

    monkeypatch.setattr(bench_rows.measure, "measure", answer)
    return calls, failing, slower


def test_every_way_is_measured_in_turn_and_compared(asked):
    calls, *_ = asked
    found, *_ = bench_rows.run([stacks.get("2026-jax")], (1000,), rounds=2)
    assert [way for _, _, way, _ in calls] == ["dense", "deferred", "frozen"] * 2
    assert [steps for *_, steps in calls[:3]] == list(bench_rows.STEPS.values())
    assert found.step_s == pytest.approx(STEP_S)
    assert found.plain["dense_over_deferred"] == pytest.approx(40)
    assert found.plain["deferred_over_frozen"] == pytest.approx(1.25)
    assert found.plain["memory_deferred_over_dense"] == pytest.approx(8 / 15)
    between = ["2000 ms (2000 to 2000)", "50 ms (50 to 50)", "40 ms (40 to 40)"]
    assert found.cells == ["2026-jax", "1,000", *between, "40.00", "1.25", "0.53", ""]


def test_what_dense_training_cannot_hold_leaves_the_rest(asked):
    asked[1].add(("dense", 5000))
    found = list(bench_rows.run([stacks.get("2026-jax")], (1000, 5000)))
    assert found[1].cells == ["2026-jax", "5,000", "failed", "50 ms", "40 ms", "", "1.25", "", ""]
    assert found[1].plain["dense_over_deferred"] is None


LOSSES = pd.DataFrame(
    [
        ("numpy", "adam", 100, 0.5),
        ("numpy", "adam", 101, 0.4),
        ("2026-tensorflow", "adam-deferred", 100, 0.50001),
        ("2026-tensorflow", "adam-deferred", 101, 0.9),  # after the steps that count
    ],
    columns=["stack", "optimizer", "step", "loss"],
)


def goals(stack="2026-tensorflow", **options):
    found = list(bench_rows.run([stacks.get(stack)], **options))
    assert all(len(one.cells) == len(bench_rows.HEADS) for one in found)
    return {one.name: one for one in found if isinstance(one, bench_rows.RowGoal)}


def test_each_goal_is_shown_with_what_was_found(asked, monkeypatch):
    monkeypatch.setattr(bench_rows.equal_losses, "stored", lambda: LOSSES)
    asked[2].update({10_000_000: 1.5, 5_000: 1.0})
    found = goals()
    assert [(one.found, one.verdict) for one in found.values()] == [
        (pytest.approx(40), "met"),
        (pytest.approx(1.25), "met"),
        (pytest.approx(8 / 15), "met"),
        (pytest.approx(1.5), "missed"),
        (pytest.approx(1 / 40), "met"),
        (pytest.approx(2e-5), "met"),
    ]
    assert found["slowest / fastest, 20,000 to 10,000,000"].cells[-1] == "at most 1.2: 1.50 missed"
    assert found["dense / deferred at 2,000,000"].plain["at_least"] == 40
    narrow = [(rows, way) for width, rows, way, _ in asked[0] if width == 50]
    assert narrow == [(20_000, "deferred"), (10_000_000, "deferred")]


def test_a_goal_of_what_failed_or_was_not_measured_cannot_be_told(asked, monkeypatch):
    monkeypatch.setattr(bench_rows.equal_losses, "stored", lambda: LOSSES.iloc[:0])
    asked[1].update({("dense", 2_000_000), ("deferred", 10_000_000)})
    none = "inconclusive"
    assert [one.verdict for one in goals().values()] == [none, "met", none, none, "met", none]
    assert {one.verdict for one in goals(vocabularies=(1000,)).values()} == {"inconclusive"}
    assert len(goals("2026-jax")) == 3  # those of two million rows are TensorFlow's
