"""Deferred rows: what a step, an epoch and a way to pay less cost, and what they teach; on made-up data."""

import itertools

import pandas as pd
import pytest
from made_up import made_up, verdict
from tables import cells

from traintime.book import stored
from traintime.book.chapters import alternatives, rows
from traintime.book.stored import Measurements
from traintime.learning import results
from traintime.learning.run import TrialPlan
from traintime.learning.trial import make_trial
from traintime.measuring import equal_losses

DEFERRED_S, FROZEN_S, A_ROW_S = 0.05, 0.03, 1e-6


def step_s(how, vocabulary):
    """Dense pays for every row; the others do not."""
    return {"adam": FROZEN_S + A_ROW_S * vocabulary, "adam-deferred": DEFERRED_S, "frozen": FROZEN_S}[how]


FIELDS = {"adam": {}, "adam-deferred": {"optimizer": "adam-deferred"}, "frozen": {"frozen": True}}


def machine(cost=step_s, dense_fits=False):
    """The chapter's four sweeps; cost: seconds of a step, by way and rows."""

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
        steps += [measured(alternatives.ADDED, stack, fields, seconds) for fields, seconds in ways]
    for how in ("adam", "adam-deferred"):
        for size in (rows.SMALL, rows.MOST):
            fails = how == "adam" and size == rows.MOST and not dense_fits
            more = {"status": "oom", "step_s": float("nan"), "median_s": float("nan")} if fails else {}
            fields = {"vocabulary": size, "embedding": rows.NARROW, "optimizer": how}
            steps.append(measured(rows.MANY, rows.TENSORFLOW, fields, cost(how, size), **more))
    fields = {"vocabulary": rows.LARGE, "optimizer": "adam-deferred", "loop": "epoch", "sentences": 1_000_000}
    steps.append(measured(rows.EPOCH, rows.TENSORFLOW, fields, DEFERRED_S, epoch_s=500.0))
    return made_up(*steps)


def told(book, *numbers):
    return [verdict(f"16.{number}", book) for number in numbers]


def test_a_table_that_is_paid_for_by_the_row_is_told_from_one_that_is_not():
    book = machine()
    gains = [rows.ratio_at(book, rows.DENSE, rows.DEFERRED, size)[rows.JAX].value for size in rows.VOCABULARIES]
    assert gains == pytest.approx([step_s("adam", size) / DEFERRED_S for size in rows.VOCABULARIES], rel=1e-6)
    assert told(book, 1, 2, 3, 4) == ["holds"] * 4
    assert told(machine(lambda how, size: step_s("adam", size)), 1, 2) == ["does not hold"] * 2


def test_dense_and_deferred_take_equally_long_where_their_lines_meet():
    assert rows.equal_rows(machine(), rows.JAX) == pytest.approx((DEFERRED_S - FROZEN_S) / A_ROW_S, rel=0.01)


def test_the_memory_of_the_largest_table_is_compared():
    book = machine()
    assert set(rows.way_peaks(book)["share"]) == {1.0}
    assert verdict("16.5", book) == "does not hold"
    book.rows.loc[book.rows["optimizer"] == "adam-deferred", "peak_bytes"] = 0.5e9
    assert verdict("16.5", Measurements(book.rows, book.machine)) == "holds"


def test_what_dense_adam_cannot_hold_and_deferred_can():
    assert told(machine(), 6, 7) == ["holds", "holds"]
    assert verdict("16.7", machine(dense_fits=True)) == "does not hold"


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
    said = "The runs there took 1,100 (disturbed) and 1,100 (disturbed) and 1,100 (disturbed) seconds; "
    assert rows.PROSE.values(book)["row-epochs"].startswith(said)
    book.rows.loc[of_epoch, "epoch_s"] = 900.0
    assert verdict("16.8", book) == "holds"


def test_the_machine_shown_repeats_itself_best_and_the_epoch_is_one_that_nothing_disturbed(monkeypatch):
    calm, noisy, disturbed = machine(), machine(), machine()
    noisy.rows.loc[::2, "median_s"] *= 1.5
    disturbed.rows.loc[disturbed.rows["sweep"] == rows.EPOCH, "disturbed"] = True
    books = {"noisy": noisy, "disturbed": disturbed, "calm": calm}
    monkeypatch.setattr(stored, "named", lambda: list(books))
    monkeypatch.setattr(stored, "of", lambda name="": books[name or "noisy"])
    assert rows.most_repeatable() is not noisy
    assert rows.ran_the_epoch() is noisy, "the first of those that ran it whole"
    noisy.rows.loc[noisy.rows["sweep"] == rows.EPOCH, "disturbed"] = True
    assert rows.ran_the_epoch() is calm
    assert rows.ran_the_epoch(disturbed) is disturbed, "the page's own, where it ran one"


def test_a_trained_table_takes_more_arithmetic_than_a_frozen_one():
    """The words' gradient is one of three products of 2,500 tokens, 300 inputs and 512 gates."""
    whole = 3 * 2 * (2500 * 300 * 512 + 2500 * 128 * 512)
    assert rows.trained_over_frozen() == pytest.approx(whole / (whole - 2 * 2500 * 300 * 512))
    assert rows.large_step_work(rows.DENSE).update_bytes > 500 * rows.large_step_work(rows.DEFERRED).update_bytes


def test_dense_torch_under_another_allocator_is_compared_with_the_deferred_table():
    def torch(seconds, **fields):
        return rows.TORCH, {"vocabulary": rows.MIDDLE, **fields}, seconds

    book = made_up(torch(0.7), torch(0.24, allocator="tcmalloc"), torch(0.06, optimizer=rows.DEFERRED))
    assert rows.under_tcmalloc(book).value == pytest.approx(4)
    assert rows.under_tcmalloc(book, "glibc").value == pytest.approx(0.7 / 0.06)


def test_a_larger_batch_is_compared_by_the_sentence():
    book = machine()
    table = alternatives.speeds(book)
    assert table["batch × 8", rows.TORCH].value == pytest.approx(step_s("adam", rows.MIDDLE) / 0.1, rel=0.01)
    assert table["deferred", rows.TORCH].value == pytest.approx(step_s("adam", rows.MIDDLE) / DEFERRED_S, rel=0.01)
    assert verdict("16.9", book) == "inconclusive"  # a table of a tenth of the rows costs as much as deferring
    slow = machine(lambda how, size: 9.0 if how == "adam-deferred" else step_s(how, size))
    assert verdict("16.9", slow) == "does not hold"


def test_gradients_that_are_added_up_are_judged_by_the_mean_step():
    book = machine()
    assert alternatives.added_up(book)["8 batches added up", rows.TORCH].value == pytest.approx(2, rel=0.01)
    assert told(book, 16, 17) == ["holds", "holds"]
    # Seven steps of eight cost next to nothing: the median does not see the update, the mean does.
    of_sums = book.rows["accumulated"] == 8
    book.rows.loc[of_sums, "median_s"] = 1e-6
    assert verdict("16.17", Measurements(book.rows, book.machine)) == "holds"
    book.rows.loc[of_sums, "step_s"] = 1e-3
    fast = Measurements(book.rows, book.machine)
    assert told(fast, 16, 17) == ["does not hold"] * 2


def test_a_machine_without_the_sweeps_has_nothing_to_show():
    book = made_up(("numpy", {}, 1.0))
    assert rows.by_rows(book).empty
    tables = (
        rows.cost_table(book),
        rows.steps_here_table(book),
        alternatives.alternatives_table(book),
    )
    assert ["Not measured yet" in table.data for table in tables] == [True] * 3
    assert rows.PROSE.values(book)["row-gain-2M-tf"] == "(not measured)"


def test_the_tables_show_every_way():
    book = machine()
    assert cells(rows.cost_table(book))[0][:5] == ["2026-tensorflow", "20K", "50", "50", "30"]
    assert len(cells(rows.cost_table(book))) == 9
    assert cells(rows.steps_here_table(book))[0] == ["2026-tensorflow", "20,000", "50", "50", "30"]
    assert "2,030" in str(cells(rows.cost_table(book)))


# Losses


def losses(**ways):
    """Losses of each way that fall from 1, multiplied with its factor."""
    made = [("numpy", "adam", step, 1 / (1 + step)) for step in range(150)]
    for name, factor in ways.items():
        stack, how = name.split("__")
        made += [(stack.replace("_", "-"), how.replace("_", "-"), step, factor / (1 + step)) for step in range(150)]
    return pd.DataFrame(made, columns=equal_losses.COLUMNS)


def test_how_far_losses_are_from_the_references(monkeypatch):
    found = alternatives.losses_apart(losses(**{"2026-jax__adam": 1.001, "numpy__adam_rows": 0.98}))
    assert set(found["stack"]) == {"2026-jax", "numpy"}
    monkeypatch.setattr(alternatives, "compared", lambda: found)
    assert alternatives.farthest("2026-jax", "adam") == pytest.approx(0.001)
    assert alternatives.farthest("numpy", "adam-rows") == pytest.approx(0.02)
    with pytest.raises(KeyError):
        alternatives.farthest("2026-torch", "adam")
    assert alternatives.losses_apart(losses(**{"2026-jax__adam": 1.001}).query("stack != 'numpy'")).empty


def test_claims_of_equal_losses(monkeypatch):
    same = {f"{stack}__{how}": 1.00001 for stack in rows.STACKS for how in ("adam", "adam_deferred")}
    book = machine()
    for changed, expected in (({}, ["holds", "does not hold"]), ({"2026-tensorflow__adam": 1.01}, ["holds"] * 2)):
        table = alternatives.losses_apart(losses(**same | changed))
        monkeypatch.setattr(alternatives, "compared", lambda table=table: table)
        assert told(book, 14, 15) == expected


def test_what_is_stored_of_losses_is_of_every_way():
    found = equal_losses.stored()
    assert list(map(tuple, found[["stack", "optimizer"]].drop_duplicates().to_numpy())) == equal_losses.WAYS
    assert (found.groupby(["stack", "optimizer"])["step"].max() == equal_losses.STEPS).all()


# What is learned


def taught(folder, accuracy, seeds=10):
    """Trainings of every way with these accuracies: a function of the way's name and the seed."""
    ways = {"dense": {}, **alternatives.LEARNED}
    for rate in alternatives.RATES:
        for table in ("dense", "deferred"):
            ways[f"{table} at {rate:g}"] = {"backend": "tensorflow", "rate": rate, "table": table}
    for (name, changes), seed in itertools.product(ways.items(), range(seeds)):
        result = {"seed": seed, "accuracy": accuracy(name, seed), "loss": 1, "training_loss": [1], "seconds": 0}
        results.append(folder, make_trial(**alternatives.TASK | changes), result)
    return results.table(folder)


def test_each_way_is_held_against_dense(tmp_path, monkeypatch):
    worse = {"lazy Adam": 0.05, "deferred": 0.0}
    found = taught(tmp_path, lambda name, seed: 0.9 - worse.get(name, 0.02) * (name != "dense") + seed / 1e4)
    monkeypatch.setattr(alternatives, "trainings", lambda: found)
    table = alternatives.learned().set_index("way")
    assert list(table.index) == list(alternatives.LEARNED)
    assert table.loc["lazy Adam", "difference"] == pytest.approx(-0.05)
    assert table.loc["deferred", "low"] < 0 < table.loc["deferred", "high"]
    assert told(machine(), 10, 11, 12, 13) == ["holds"] * 4
    given = alternatives.PROSE.values(machine())
    assert given["row-learned-lazy-Adam"].startswith("-5.0")
    assert given["row-keras"].endswith("points at a rate of 0.01")
    assert cells(alternatives.alternatives_table(machine()))[0][-1].startswith("+0.0")


def test_too_few_trainings_decide_nothing(tmp_path, monkeypatch):
    found = taught(tmp_path, lambda name, seed: 0.9 + seed / 1e4, seeds=3)
    monkeypatch.setattr(alternatives, "trainings", lambda: found)
    assert told(machine(), 10, 11, 12, 13) == ["not measured"] * 4
    monkeypatch.setattr(alternatives, "trainings", lambda: found[:0])
    assert alternatives.PROSE.values(machine())["row-keras"] == "(not measured)"


def test_the_trials_of_the_chapter_are_those_of_the_profile():
    from traintime.measuring import sweep

    plan = TrialPlan.from_profile("rows-learned", sweep.load_profile("full")["trials"]["rows-learned"])
    asked = [{}, *(changes for changes in alternatives.LEARNED.values() if changes != {"table": "lazy-adam"})]
    asked += [
        {"backend": "tensorflow", "rate": rate, "table": table}
        for rate in alternatives.RATES
        for table in ("dense", "deferred")
    ]
    assert {trial.key for trial in plan.trials} == {make_trial(**alternatives.TASK | changes).key for changes in asked}
    assert plan.seeds == alternatives.FEWEST
