"""What the rows of a table cost: every way in turn, a slope of `fit`, ratios, and a way that failed."""

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
    calls, failing = [], set()

    def answer(point, stack, protocol):
        way = "frozen" if point.sizes.frozen else {"adam": "dense"}.get(point.sizes.optimizer, "deferred")
        calls.append((stack.name, point.sizes.vocabulary, way, protocol.steps))
        if (way, point.sizes.vocabulary) in failing:
            return {"status": "oom", "error": "out of memory"}
        return {"status": "ok", "result": {"loops": loops(STEP_S[way]), "memory": {"peak": PEAK[way]}}}

    monkeypatch.setattr(bench_rows.measure, "measure", answer)
    return calls, failing


def test_every_way_is_measured_in_turn_and_compared(asked):
    calls, _ = asked
    (found,) = bench_rows.run([stacks.get("2026-jax")], (1000,), rounds=2)
    assert [way for _, _, way, _ in calls] == ["dense", "deferred", "frozen"] * 2
    assert [steps for *_, steps in calls[:3]] == list(bench_rows.STEPS.values())
    assert found.step_s == pytest.approx(STEP_S)
    assert found.plain["dense_over_deferred"] == pytest.approx(40)
    assert found.plain["deferred_over_frozen"] == pytest.approx(1.25)
    assert found.plain["memory_deferred_over_dense"] == pytest.approx(8 / 15)
    assert found.cells == ["2026-jax", "1,000", "2000 ms", "50 ms", "40 ms", "40.00", "1.25", "0.53"]


def test_what_dense_training_cannot_hold_leaves_the_rest(asked):
    asked[1].add(("dense", 5000))
    found = list(bench_rows.run([stacks.get("2026-jax")], (1000, 5000)))
    assert found[1].cells == ["2026-jax", "5,000", "failed", "50 ms", "40 ms", "", "1.25", ""]
    assert found[1].plain["dense_over_deferred"] is None
