"""Deferred rows: what a step, an epoch and a way to pay less cost, and what they teach; on made-up data."""

import itertools

import pandas as pd
import pytest
from made_up import made_up, verdict
from tables import cells

from traintime.book.chapters import rows
from traintime.book.stored import Measurements
from traintime.learning import results
from traintime.learning.run import planned
from traintime.learning.trial import make_trial
from traintime.measuring import equal_losses

DEFERRED_S, FROZEN_S, A_ROW_S = 0.05, 0.03, 1e-6


def step_s(how, vocabulary):
    """Dense pays for every row; the others do not."""
    return {"adam": FROZEN_S + A_ROW_S * vocabulary, "adam-deferred": DEFERRED_S, "frozen": FROZEN_S}[how]


FIELDS = {"adam": {}, "adam-deferred": {"optimizer": "adam-deferred"}, "frozen": {"frozen": True}}


def machine(cost=step_s):
    """The chapter's sweeps that a claim rests on; cost: seconds of a step, by way and rows."""

    def measured(sweep, stack, fields, seconds, **more):
        return stack, {"vocabulary": rows.MIDDLE, **fields}, seconds, {"sweep": sweep, **more}

    steps = []
    for stack in rows.STACKS:
        for how, fields in FIELDS.items():
            sizes = rows.VOCABULARIES
            steps += [measured(rows.SWEEP, stack, {"vocabulary": v, **fields}, cost(how, v)) for v in sizes]
        for fields, seconds in (({"factor": 30}, 0.08), ({"batch": 800}, 0.8), ({"optimizer": "sgd"}, 0.1)):
            steps.append(measured(rows.SWEEP, stack, fields, seconds))
        dense = cost("adam", rows.MIDDLE)
        summed = dense * (2 if stack == rows.JAX else 0.5)
        ways = ({}, dense), ({"accumulated": 8}, summed), (FIELDS["adam-deferred"], cost("adam-deferred", 0))
        steps += [measured("rows-accumulated", stack, fields, seconds) for fields, seconds in ways]
    fields = {"vocabulary": rows.LARGE, "optimizer": "adam-deferred", "loop": "epoch", "sentences": 1_000_000}
    steps.append(measured(rows.EPOCH, rows.TENSORFLOW, fields, DEFERRED_S, epoch_s=500.0))
    return made_up(*steps, machine=rows.lstm_machine().machine)


def told(book, *numbers):
    return [verdict(f"16.{number}", book) for number in numbers]


def test_a_table_that_is_paid_for_by_the_row_is_told_from_one_that_is_not():
    book = machine()
    gains = [rows.ratio_at(book, rows.DENSE, rows.DEFERRED, size)[rows.JAX].value for size in rows.VOCABULARIES]
    assert gains == pytest.approx([step_s("adam", size) / DEFERRED_S for size in rows.VOCABULARIES], rel=1e-6)
    assert told(book, 1, 2) == ["holds"] * 2
    assert told(machine(lambda how, size: step_s("adam", size)), 1, 2) == ["does not hold"] * 2


def test_dense_and_deferred_take_equally_long_where_their_lines_meet():
    assert rows.equal_rows(machine(), rows.JAX) == pytest.approx((DEFERRED_S - FROZEN_S) / A_ROW_S, rel=0.01)


def test_what_the_layer_costs_on_a_card_is_its_step_less_a_frozen_one():
    sizes = {"vocabulary": rows.SMALL, "step_s": [0.014, 0.006]}
    card = pd.DataFrame({"how": [rows.DEFERRED, rows.FROZEN], **sizes})
    assert rows.card_cost_s(card) == pytest.approx(0.008)
    assert set(rows.WAYS) == set(rows.on_card()["how"])


def test_the_ways_to_pay_less_are_held_against_dense():
    found = rows.speeds(machine())
    assert found["SGD", rows.TORCH].value == pytest.approx(step_s("adam", rows.MIDDLE) / 0.1, rel=1e-6)
    assert found["batch × 8", rows.TORCH].value == pytest.approx(step_s("adam", rows.MIDDLE) / 0.1, rel=1e-6)
    assert {rows.SUMMED} == {way for way, _ in rows.sums(machine())}
    assert found[rows.SUMMED, rows.JAX].value == pytest.approx(0.5, rel=1e-6)


def test_the_memory_of_the_largest_table_is_compared():
    book = machine()
    assert {share.value for share in rows.peak_shares(book).values()} == {1.0}
    assert verdict("16.5", book) == "does not hold"
    book.rows.loc[book.rows["optimizer"] == "adam-deferred", "peak_bytes"] = 0.5e9
    assert verdict("16.5", Measurements(book.rows, book.machine)) == "holds"


def test_the_epoch_is_that_which_was_run():
    book = machine()
    assert rows.counted_epoch(book)["epoch_s"] == 500
    assert verdict("16.8", book) == "holds"
    dense = rows.dense_epoch_s(book, rows.counted_epoch(book))
    assert dense == pytest.approx(10_000 * step_s("adam", rows.LARGE), rel=0.01)


def test_an_epoch_that_was_disturbed_does_not_refute_what_it_took_too_long_for():
    book = machine()
    of_epoch = book.rows["sweep"] == rows.EPOCH
    book.rows.loc[of_epoch, "epoch_s"] = 1100.0
    assert verdict("16.8", book) == "does not hold"
    book.rows.loc[of_epoch, "disturbed"] = True
    assert verdict("16.8", book) == "inconclusive"
    book.rows.loc[of_epoch, "epoch_s"] = 900.0
    assert verdict("16.8", book) == "holds"


def test_a_trained_table_takes_more_arithmetic_than_a_frozen_one():
    """The words' gradient is one of three products of 2,500 tokens, 300 inputs and 512 gates."""
    whole = 3 * 2 * (2500 * 300 * 512 + 2500 * 128 * 512)
    assert rows.trained_over_frozen() == pytest.approx(whole / (whole - 2 * 2500 * 300 * 512))
    assert rows.large_step_work(rows.DENSE).update_bytes > 500 * rows.large_step_work(rows.DEFERRED).update_bytes


# Losses


def losses(**ways):
    """Losses of each way that fall from 1, multiplied with its factor."""
    made = [("numpy", "adam", step, 1 / (1 + step)) for step in range(150)]
    for name, factor in ways.items():
        stack, how = name.split("__")
        made += [(stack.replace("_", "-"), how.replace("_", "-"), step, factor / (1 + step)) for step in range(150)]
    return pd.DataFrame(made, columns=equal_losses.COLUMNS)


def test_claims_of_equal_losses(monkeypatch):
    same = {f"{stack}__{how}": 1.00001 for stack in rows.STACKS for how in ("adam", "adam_deferred")}
    book = machine()
    for changed, expected in (({}, "holds"), ({"2026-tensorflow__adam_deferred": 1.01}, "does not hold")):
        monkeypatch.setattr(equal_losses, "stored", lambda changed=changed: losses(**same | changed))
        assert verdict("16.14", book) == expected


# What is learned


def taught(folder, accuracy, seeds=10):
    """Trainings of every way with these accuracies: a function of the way's name and the seed."""
    ways = {"dense": {}, **rows.LEARNED}
    for rate in rows.RATES:
        for table in ("dense", "deferred"):
            ways[f"{table} at {rate:g}"] = {"backend": "tensorflow", "rate": rate, "table": table}
    for (name, changes), seed in itertools.product(ways.items(), range(seeds)):
        result = {"seed": seed, "accuracy": accuracy(name, seed), "loss": 1, "training_loss": [1], "seconds": 0}
        results.append(folder, make_trial(**rows.TASK | changes), result)
    return results.table(folder)


def test_each_way_is_held_against_dense(tmp_path, monkeypatch):
    worse = {"lazy Adam": 0.05, "deferred": 0.0}
    found = taught(tmp_path, lambda name, seed: 0.9 - worse.get(name, 0.02) * (name != "dense") + seed / 1e4)
    monkeypatch.setattr(rows, "trials", lambda: found)
    table = rows.learned().set_index("way")
    assert list(table.index) == list(rows.LEARNED)
    assert table.loc["lazy Adam", "difference"] == pytest.approx(-0.05)
    assert table.loc["deferred", "low"] < 0 < table.loc["deferred", "high"]
    assert told(machine(), 10, 11) == ["holds"] * 2
    assert set(rows.accuracy_gains(rows.squared())) == set(rows.RATES)
    assert cells(rows.alternatives_table(machine()))[0][-1].startswith("+0.0")


def test_too_few_trainings_decide_nothing(tmp_path, monkeypatch):
    found = taught(tmp_path, lambda name, seed: 0.9 + seed / 1e4, seeds=3)
    monkeypatch.setattr(rows, "trials", lambda: found)
    assert told(machine(), 10, 11) == ["not measured"] * 2


def test_the_trials_of_the_chapter_are_those_of_the_profile():
    from traintime.measuring import sweep

    plan = planned("rows-learned", sweep.load_profile("full")["trials"]["rows-learned"])
    asked = [{}, *(changes for changes in rows.LEARNED.values() if changes != {"table": "lazy-adam"})]
    asked += [
        {"backend": "tensorflow", "rate": rate, "table": table}
        for rate in rows.RATES
        for table in ("dense", "deferred")
    ]
    assert {trial.key for trial, _ in plan} == {make_trial(**rows.TASK | changes).key for changes in asked}
    assert {seeds for _, seeds in plan} == {rows.FEWEST}
