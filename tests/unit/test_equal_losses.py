"""Losses step by step: which ways are trained, and what is said where one fails; with a fake worker."""

import pytest

from traintime.measuring import equal_losses, stacks


def answers(record):
    """In the place of a measurement: one that ends so, and keeps what it was asked."""
    asked = []

    def measure(point, stack, protocol, **task):
        asked.append((stack.name, point.fields, task))
        return record

    return measure, asked


def test_each_way_gives_a_row_a_step(monkeypatch):
    measure, asked = answers({"status": "ok", "result": {"losses": [0.7, 0.6, 0.5]}})
    monkeypatch.setattr(equal_losses, "measure", measure)
    monkeypatch.setattr(type(stacks.get("numpy")), "present", True)
    table = equal_losses.table([("numpy", "adam"), ("2026-jax", "adam-deferred")], steps=2, vocabulary=50)
    assert table.to_numpy().tolist()[:4] == [
        ["numpy", "adam", 0, 0.7],
        ["numpy", "adam", 1, 0.6],
        ["numpy", "adam", 2, 0.5],
        ["2026-jax", "adam-deferred", 0, 0.7],
    ]
    (first, fields, task), (_, other, _) = asked
    assert (first, task) == ("numpy", {"task": "check", "steps": 2})
    assert (fields["vocabulary"], fields["tokens"], fields["dropout"]) == (50, "zipf", 0.0)
    assert other["optimizer"] == "adam-deferred"


def test_a_worker_that_fails_says_which(monkeypatch):
    measure, _ = answers({"status": "crashed", "error": "made up"})
    monkeypatch.setattr(equal_losses, "measure", measure)
    monkeypatch.setattr(type(stacks.get("numpy")), "present", True)
    with pytest.raises(RuntimeError, match=r"^numpy rnn-v5000.*: made up"):
        equal_losses.table([equal_losses.REFERENCE])


def test_a_stack_that_is_not_here_is_left_out(monkeypatch):
    monkeypatch.setattr(type(stacks.get("numpy")), "present", False)
    assert equal_losses.table(equal_losses.WAYS).empty
