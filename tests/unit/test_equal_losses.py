"""Losses step by step: which ways are trained, and what is said where one fails; with a fake worker."""

import pytest

from traintime.measuring import equal_losses, stacks


@pytest.mark.parametrize("present", [True, False])
def test_each_way_that_is_here_gives_a_row_a_step_and_one_that_fails_is_named(monkeypatch, present):
    record, asked = {"status": "ok", "result": {"losses": [0.7, 0.6, 0.5]}}, []

    def measure(point, stack, protocol, **task):
        asked.append((stack.name, point.sizes.vocabulary, point.sizes.optimizer, point.sizes.dropout, task))
        return record

    monkeypatch.setattr(equal_losses, "measure", measure)
    monkeypatch.setattr(stacks.Stack, "present", present)
    ways = [("numpy", "adam"), ("2026-jax", "adam-deferred")]
    table = equal_losses.table(ways, steps=2, vocabulary=50)
    rows = [[*way, step, loss] for way in ways for step, loss in enumerate((0.7, 0.6, 0.5))]
    task = {"task": "check", "steps": 2}
    assert table.to_numpy().tolist() == (rows if present else [])
    assert asked == [(stack, 50, optimizer, 0.0, task) for stack, optimizer in ways if present]
    record = {"status": "crashed", "error": "made up"}
    if present:
        with pytest.raises(RuntimeError, match=r"^numpy rnn-v5000.*: made up"):
            equal_losses.table([equal_losses.REFERENCE])
