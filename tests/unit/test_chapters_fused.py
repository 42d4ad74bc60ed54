"""The fused LSTM: what a position costs, what other ways gain, what a change of layer teaches; on made-up data."""

import numpy as np
import pandas as pd
import pytest
from made_up import verdict, verdicts
from tables import cells

from traintime.book import external
from traintime.book.chapters import fused, fused_accuracy, fused_published
from traintime.book.stored import ANY, Measurements
from traintime.learning import results, run
from traintime.learning.trial import make_trial
from traintime.measuring import operations

pytestmark = pytest.mark.usefixtures("few_draws")


def sweep(stack, step=1e-3, position=1e-4, token=1e-7, **way):
    """Steps of a + l L + c B L, at every size of the sweep."""
    return [
        (
            stack,
            {"workload": "lstm", "batch": batch, "length": length, **way},
            step + position * length + token * batch * length,
        )
        for batch in fused.BATCHES
        for length in fused.LENGTHS
    ]


def machine(made_up, **positions):
    """Loops of three stacks and torch's one operation; positions: what one costs there, s."""
    cost = {"numpy": 5e-5, "jax": 2e-5, "torch": 1e-3, "native": 1e-5} | positions
    return made_up(
        *sweep("numpy", position=cost["numpy"]),
        *sweep("2026-jax", position=cost["jax"]),
        *sweep("2026-torch", position=cost["torch"]),
        *sweep("2026-torch", position=cost["native"], algorithm="native"),
    )


def its_own(made_up, *steps):
    """The machine that the chapter shows, with made-up steps."""
    return made_up(*(steps or [("numpy", {}, 1.0)]), machine=fused_published.lstm_machine().machine)


# Speed


def test_the_price_of_a_position_is_read_off_four_steps(made_up):
    ways = [("default", 1e-3), ("native", 1e-5)]
    steps = [sweep("2026-torch", position=cost, algorithm=way, allocator="tcmalloc") for way, cost in ways]
    fits = fused.prices(made_up(*steps[0], *steps[1]))
    assert [fit.interval("l").value for fit in fits.values()] == pytest.approx([1e-3, 1e-5], rel=0.5)
    table = cells(fused_published.price_table(fits))
    assert [row[0] for row in table] == ["2026-torch", "2026-torch, one operation"]
    assert [len(row) for row in table] == [5, 5]


def test_steps_stand_in_a_table_by_batch_and_positions(made_up):
    table = cells(fused.step_table(fused.lstm_points(machine(made_up))))
    steps = {(row[0], row[1]): row[2] for row in table}
    assert list(steps) == [
        ("2026-jax", "loop"),
        ("2026-torch", "loop"),
        ("2026-torch", "one operation"),
        ("numpy", "loop"),
    ]
    assert (steps["2026-jax", "loop"], steps["numpy", "loop"]) == ("1.2", "1.5")


def test_one_more_position_is_the_slope_between_the_two_lengths(made_up):
    table = fused.position_costs(machine(made_up)).set_index(["stack", "how", "batch"])
    torch = table.loc[("2026-torch", "loop", 32)]
    assert len(table) == 8
    assert torch["position_s"] == pytest.approx(1e-3 + 32 * 1e-7, rel=0.02)
    assert torch["low"] < torch["position_s"] < torch["high"]


def test_a_compiled_loop_is_a_way_of_its_own(made_up):
    book = made_up(*sweep("2026-tensorflow"), *sweep("2026-tensorflow", position=1e-5, jit="on"))
    assert set(fused.lstm_points(book)["how"]) == {"loop", "loop, compiled"}
    ratios = fused.gains(book)
    assert set(ratios["below"]) == {"loop, compiled"}
    assert (ratios["ratio"] > 1).all()
    assert len(cells(fused.gain_table(ratios))) == 4


def test_another_workloads_points_are_none_of_it(made_up):
    book = made_up(("numpy", {"vocabulary": 5_000}, 1.0))
    assert fused.lstm_points(book).empty
    assert fused.gains(book).empty
    assert set(verdicts("08-fused-lstm", book).values()) == {"not measured"}


@pytest.mark.parametrize(
    ("label", "positions", "expected"),
    [
        ("08.1", {}, "holds"),
        ("08.1", {"native": 9e-4}, "does not hold"),
        ("08.2", {}, "holds"),
        ("08.4", {}, "holds"),
        ("08.4", {"numpy": 5e-3}, "does not hold"),
    ],
)
def test_claims_of_speed_follow_the_data(made_up, label, positions, expected):
    assert verdict(label, machine(made_up, **positions)) == expected


def test_the_old_cell_is_judged_at_every_size(made_up):
    def book(gain):
        return made_up(
            *sweep("2020-tensorflow"),
            *sweep("2020-tensorflow", 1e-3 / gain, 1e-4 / gain, 1e-7 / gain, algorithm="native"),
        )

    assert verdict("08.3", book(1.1)) == "holds"
    assert verdict("08.3", book(2)) == "does not hold"
    assert verdict("08.3", machine(made_up)) == "not measured"


@pytest.mark.parametrize(("small", "large", "expected"), [(1.0, 3.0, "holds"), (2.0, 3.0, "does not hold")])
def test_what_the_allocator_costs_a_loop_is_judged_at_both_batches(made_up, small, large, expected):
    """small, large: glibc's step over tcmalloc's."""

    def under(allocator, *steps):
        batches = zip(fused.BATCHES, steps, strict=True)
        fields = {"workload": "lstm", "length": 50, "allocator": allocator}
        return [("2026-torch", {**fields, "batch": batch}, step) for batch, step in batches]

    assert verdict("08.10", made_up(*under("glibc", small, large), *under("tcmalloc", 1.0, 1.0))) == expected


def test_three_prices_are_judged_by_their_error(made_up):
    stacks = ["2017-theano", "2020-tensorflow", "2026-jax", "2026-torch", "numpy"]
    good = [point for stack in stacks for point in sweep(stack, allocator="tcmalloc")]
    assert verdict("08.11", made_up(*good)) == "holds"
    bent = [
        (stack, fields, step * (5 if fields["batch"] * fields["length"] > 20_000 else 1))
        for stack, fields, step in good
    ]
    assert verdict("08.11", made_up(*bent)) == "does not hold"


def test_nothing_is_said_of_what_nobody_measured(made_up):
    poor, full = made_up(("numpy", {"vocabulary": 5_000}, 1.0)), machine(made_up)
    assert fused.PROSE.values(poor)["fus-most"] == "(not measured)"
    assert fused.PROSE.values(full)["fus-most-stack"] == "2026-torch"
    assert fused.PROSE.values(full)["fus-2026-torch-one-operation-small"].startswith("3")
    assert "Not measured yet" in fused_published.price_table(fused.prices(poor)).data
    assert "Not measured yet" in fused.step_table(fused.lstm_points(poor)).data


# What others published


def test_published_steps_are_divided_by_their_positions():
    rows = fused_published.published().set_index(["name", "layer", "batch"])["position_s"] * 1e6
    assert rows["keras-8135", "LSTM", 300] == pytest.approx(94 / (8000 / 300) / 4500 * 1e6)
    assert rows["keras-5242", "LSTM", 1].tolist() == pytest.approx([100, 700])
    titan = fused_published.titan()[32]
    assert sorted(titan) == pytest.approx([289.6 * 32 / 30, 434.4 * 32 / 30, 820 * 32 / 30])
    assert (
        len(cells(fused_published.published_table()))
        == len(rows) - (fused_published.published()["units"] == 1024).sum()
    )


def test_why_the_documents_card_lost_satisfies_its_own_equation():
    why = fused_published.lost()
    assert why["slower"] == 26 / 8
    assert (why["gpu_s"], why["cpu_s"]) == pytest.approx((7e-4, 1e-4))
    names = (fused_published.CARD, fused_published.PROCESSOR)
    card, processor = (external.hardware(name)["float32 peak"] for name in names)
    on_cpu = why["arithmetic_s"] * card / processor
    assert (why["gpu_s"] + why["arithmetic_s"]) / (why["cpu_s"] + on_cpu) == pytest.approx(why["slower"])
    assert why["gpu_s"] + why["level"] * why["arithmetic_s"] == pytest.approx(why["cpu_s"] + why["level"] * on_cpu)
    assert why["fused"] == pytest.approx((why["gpu_s"] + why["arithmetic_s"]) / why["arithmetic_s"])
    # Four gates; the state forward and twice backward, the inputs once less: nobody asks for their gradient.
    assert fused_published.operations_of(128, 128) == 2 * 4 * 128 * (2 * 128 + 3 * 128)
    done = why["batch"] * fused_published.operations_of(128, 128) / (0.8 * card)
    assert done == pytest.approx(why["arithmetic_s"])


def test_what_follows_from_figures_of_others_is_judged_once(made_up, monkeypatch):
    book = its_own(made_up)
    assert (verdict("08.22", book), verdict("08.23", book)) == ("holds", "holds")
    assert verdict("08.22", machine(made_up)) == verdict("08.23", machine(made_up)) == "not measured"
    gain, ratios = fused_published.fused_gain(), fused_published.larger_over_predicted()
    monkeypatch.setattr(fused_published, "fused_gain", lambda: gain / 5)
    monkeypatch.setattr(fused_published, "larger_over_predicted", lambda: 2 * ratios)
    assert (verdict("08.22", book), verdict("08.23", book)) == ("does not hold", "does not hold")


def test_the_documents_fused_layer_is_a_line_over_the_batch():
    line = fused_published.fused_line()
    steps = fused_published.document().set_index(["layer", "batch"])["step_s"].dropna()
    assert steps["CuDNNLSTM", 4700] == pytest.approx(130 / (2_100_000 / 4700))
    for batch in (500, 4700):
        assert line["F"] + line["c"] * batch == pytest.approx(steps["CuDNNLSTM", batch])


def test_what_others_published_is_told_on_any_machine(made_up):
    told = fused_published.PROSE.values(made_up(("numpy", {}, 1.0)))
    assert (told["fus-s4-cpu"], told["fus-s4-loop"], told["fus-s4-fused"]) == ("8", "26", "1")
    assert "(not measured)" not in told.values()


# On GPUs


def on_card(made_up, **positions):
    """Both ways on a card, over batch and length; and over the units."""
    steps = []
    for kernel, position in positions.items():
        fields = {"device": "gpu", "kernel": kernel.replace("_", "-")}
        steps += sweep("2026-torch", step=1e-4, position=position, **fields)
        point = {"workload": "lstm", "batch": 32, "length": 50, "units": 1024} | fields
        steps.append(("2026-torch", point, 1e-2 if kernel == "cudnn" else 4e-2))
    return made_up(*steps)


@pytest.fixture
def card(made_up, monkeypatch):
    """A stored machine with a card, on which both ways ran."""
    book = on_card(made_up, cudnn=1e-6, loop_of_cells=4e-4)
    monkeypatch.setattr(fused_published.stored, "on_gpus", lambda **wanted: book.points(device="gpu", **wanted))
    monkeypatch.setattr(fused_published.stored, "of", lambda name="": book)
    monkeypatch.setattr(fused_published.stored, "described", lambda name: {"gpus": [{"name": "a card"}]})
    return book


def test_a_cards_two_ways_stand_side_by_side(card, monkeypatch):
    pairs = fused_published.gpu_pairs()
    assert pairs[["units", "batch", "length"]].to_numpy().tolist() == [
        *([128, batch, length] for batch in fused.BATCHES for length in fused.LENGTHS),
        [1024, 32, 50],
    ]
    last = ["a card", "2026-torch", "1,024 · 32 · 50", "40.0", "10.0", "4.0"]
    assert cells(fused_published.gpu_pair_table())[-1] == last
    fits = fused_published.gpu_prices()
    assert fits["a card", "2026-torch", "loop of cells"].interval("l").value == pytest.approx(4e-4, rel=0.05)
    names = {row[0] for row in cells(fused_published.price_table(fits, "128 units", digits=1))}
    assert names == {"a card, 2026-torch, one kernel", "a card, 2026-torch, loop of cells"}
    assert verdict("08.5", card) == "does not hold"
    monkeypatch.setattr(fused_published, "gpu_pairs", lambda: pairs.iloc[:-1])
    assert verdict("08.5", card) == "holds"


def test_without_a_card_nothing_is_said_of_one(made_up, monkeypatch):
    monkeypatch.setattr(
        fused_published.stored, "on_gpus", lambda **wanted: machine(made_up).points(device="gpu", **wanted)
    )
    assert "Not measured yet" in fused_published.gpu_pair_table().data
    assert "Not measured yet" in fused_published.price_table(fused_published.gpu_prices()).data
    assert verdict("08.5", machine(made_up)) == "not measured"


def test_a_run_on_a_card_shows_both_ways(made_up):
    book = on_card(made_up, cudnn=1e-6, loop_of_cells=4e-4)
    here = fused.lstm_points(Measurements(book.rows, "this run", usual={"device": ANY}))
    assert set(here["how"]) == {"one kernel", "loop of cells"}
    assert len(cells(fused.step_table(here[here["units"] == 128]))) == 2


# Accuracy


def learned(tmp_path, accuracy, trials, seeds=20):
    """A table of trainings: accuracy(trial) gives the mean, seeds scatter by one point."""
    for trial in trials:
        for seed in range(seeds):
            value = accuracy(trial) + 0.01 * np.random.default_rng(seed).standard_normal()
            result = {"seed": seed, "accuracy": value, "loss": 1 - value, "training_loss": [], "seconds": 1.0}
            results.append(tmp_path, trial, result)
    return results.table(tmp_path)


def layers(*tasks):
    sides = [side for both in fused_accuracy.CAUSES.values() for side in both]
    fields = [fused_accuracy.TASKS[task] | side for task in tasks for side in sides]
    made = [make_trial(**one) for one in fields if one["task"] != "mnist1d" or not one.get("mask")]
    return {trial.key: trial for trial in made}.values()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """LSTM's hard gates cost one point and its dropout gains four (one at the higher rate), a bias gains two, a mask
    ten, and forty where there is no bias."""

    def accuracy(trial):
        dropout = (0.04 if trial.rate == 0.001 else 0.01) * (trial.recurrent_dropout > 0)
        mask = (0.1 if trial.forget_bias else 0.4) * trial.mask
        return 0.5 - 0.01 * (trial.gates == "hard") + dropout + 0.02 * (trial.forget_bias > 0) + mask

    return learned(tmp_path_factory.mktemp("trials"), accuracy, layers("mnist1d", fused_accuracy.LATE, "padded"))


@pytest.fixture
def few(tmp_path):
    """Fewer seeds than a verdict needs."""
    return learned(tmp_path, lambda trial: 0.8, layers("padded"), seeds=5)


def test_each_cause_is_held_against_the_fused_kernels_way(trained):
    """Keras starts a forget bias at 1 in both; where cuDNN's starts at 0 it is CuDNNLSTM's side that goes without."""
    table = fused_accuracy.causes(trained).set_index(["task", "cause"])
    expected = {
        ("mnist1d", "hard gates"): 0.01,
        ("mnist1d", "recurrent dropout"): -0.04,
        ("padded", "a mask"): -0.1,
        ("mnist1d", "gates and dropout"): -0.03,
        (fused_accuracy.LATE, "gates and dropout"): 0,
        ("mnist1d", "a forget bias"): -0.02,
        ("mnist1d", "gates, dropout, bias"): -0.05,
        ("padded", "a mask, no bias in either"): -0.4,
    }
    assert table["difference"].loc[list(expected)].tolist() == pytest.approx(list(expected.values()), abs=1e-6)
    assert ("mnist1d", "a mask") not in table.index
    assert (table["seeds"] == 20).all()
    assert (table["low"] < table["difference"]).all()
    assert (table["high"] > table["difference"]).all()
    assert len(cells(fused_accuracy.cause_table(table.reset_index()))) == len(table)


def test_claims_of_accuracy_follow_the_trainings(trained, made_up, monkeypatch):
    monkeypatch.setattr(fused_accuracy, "trials", lambda: trained)
    book = its_own(made_up)
    assert verdict("08.6", book) == "does not hold", "dropout moves it by four points"
    assert verdict("08.7", book) == "holds"
    assert verdict("08.8", book) == "cannot be told", "three points lie within the interval"
    assert verdict("08.18", book) == "does not hold", "the fast layer loses three points here"
    assert verdict("08.19", book) == "holds"
    assert verdict("08.20", book) == "holds"
    assert verdict("08.21", book) == "cannot be told", "at that rate gates and dropout make nothing"
    assert verdict("08.6", made_up(("numpy", {}, 1.0))) == "not measured"


def test_fewer_seeds_than_asked_for_are_no_verdict(few, made_up, monkeypatch):
    monkeypatch.setattr(fused_accuracy, "trials", lambda: few)
    assert verdict("08.7", its_own(made_up)) == "not measured"
    assert fused_accuracy.causes(few)["cause"].tolist() == list(fused_accuracy.CAUSES)
    assert run.SEEDS >= fused_accuracy.FEWEST


def test_the_prose_says_what_enough_starts_taught_and_nothing_of_fewer(trained, few, made_up, monkeypatch):
    book = made_up(("numpy", {}, 1.0))
    monkeypatch.setattr(fused_accuracy, "trials", lambda: trained)
    told = fused_accuracy.PROSE.values(book)
    assert told["fus-together"].startswith("-3.0 (")
    assert told["fus-together-late"].startswith("+0.0 (")
    assert told["fus-masked-without"].startswith("-40.0 (")
    assert told["fus-published"] == "91%"
    assert told["fus-spread"] == "1.0 to 1.0"
    assert told["fus-batches"].startswith("This is not measured yet")
    monkeypatch.setattr(fused_accuracy, "trials", lambda: few)
    told = fused_accuracy.PROSE.values(book)
    assert told["fus-together"] == told["fus-masked"] == "(not measured)"


def test_the_loss_goes_with_the_batch(tmp_path, made_up, monkeypatch):
    rows = learned(tmp_path, lambda trial: 0.9 - trial.batch / 1000, [make_trial(batch=batch) for batch in (100, 400)])
    monkeypatch.setattr(fused_accuracy, "trials", lambda: rows)
    told = fused_accuracy.PROSE.values(made_up(("numpy", {}, 1.0)))["fus-batches"]
    assert "at equal epochs, rate fixed, from 0.20 with 100 to 0.50 with 400" in told
    assert verdict("08.9", its_own(made_up)) == "holds"
    assert verdict("08.17", its_own(made_up)) == "not measured"


def test_batches_are_told_apart_by_epochs_steps_and_rate(tmp_path):
    trials = [make_trial(batch=batch, **more) for batch in (100, 400) for more in ({}, {"steps": 800})]
    trials += [make_trial(batch=400, rate=0.002), make_trial(rate=0.01)]  # the last is of another question
    table = fused_accuracy.batches(learned(tmp_path, lambda trial: 0.5, trials, seeds=3))
    assert table[["batch", "way"]].to_numpy().tolist() == [
        [100, "equal epochs, rate fixed"],
        [400, "equal epochs, rate fixed"],
        [100, "equal epochs, rate scaled"],
        [400, "equal epochs, rate scaled"],
        [100, "equal steps, rate fixed"],
        [400, "equal steps, rate fixed"],
        [100, "equal steps, rate scaled"],
    ]
    assert (table["loss_low"] < table["loss"]).all()


# Operations


def test_operations_of_a_position_are_counted_and_priced(made_up, monkeypatch):
    counts = [(10, 552), (50, 2072)]
    rows = [("2026-torch", "default", length, number) for length, number in counts]
    rows += [("2026-torch", "native", length, 174) for length, _ in counts]
    table = pd.DataFrame(rows, columns=["stack", "algorithm", "length", "operations"])
    monkeypatch.setattr(operations, "stored", lambda: table)
    book = machine(made_up)
    costs = fused.operation_costs(book).set_index("how")
    assert costs.loc["loop", ["once", "operations"]].tolist() == [172, 38]
    assert costs.loc["loop", "operation_s"] == pytest.approx(1e-3 / 38, rel=0.02)
    assert costs.loc["one operation", "operations"] == 0
    assert np.isnan(costs.loc["one operation", "operation_s"])
    shown = cells(fused.counted_table(book))
    assert shown == [["2026-torch", "172", "38", shown[0][3]], ["2026-torch, one operation", "174", "0", ""]]


def test_the_stored_counts_are_straight_lines_of_loops_and_flat_for_one_operation():
    found = operations.stored().pivot_table("operations", ["stack", "algorithm"], "length")
    assert (found.xs("native", level="algorithm").nunique(axis=1) == 1).all()
    loops = found.xs("default", level="algorithm")
    assert (loops[50] > 3 * loops[10]).all()
    assert set(loops.index) == set(operations.STACKS)


# The loop over ever more positions


def over_positions(made_up, square=1e-5, cell=2e-4):
    """torch's ways over 25 to 200 positions; square: what a pair of positions costs in Keras' loop, s."""
    lengths = (25, 50, 100, 200)
    steps = {"default": lambda n: 1e-4 * n + square * n * n, "apart": lambda n: 2e-4 * n, "cell": lambda n: cell * n}
    rows = [
        ("2026-torch", fused.MANY | {"length": n, "algorithm": way}, step(n))
        for way, step in steps.items()
        for n in lengths
    ]
    return made_up(*rows)


def test_growth_is_told_between_the_ends(made_up):
    book = over_positions(made_up)
    assert fused.growth(book, "2026-torch").value == pytest.approx(0.42 / 0.03, rel=0.03)
    assert fused.growth(book, "2026-torch", "apart").value == pytest.approx(4, rel=0.03)
    with pytest.raises(KeyError):
        fused.growth(book, "2026-jax")


@pytest.mark.parametrize(("square", "cell", "expected"), [(1e-5, 2e-4, "holds"), (1e-9, 3e-3, "does not hold")])
def test_claims_of_the_quadratic_loop_follow_the_data(made_up, square, cell, expected):
    book = over_positions(made_up, square, cell)
    assert {verdict(label, book) for label in ("08.13", "08.15", "08.16")} == {expected}
    assert verdict("08.14", book) == "holds"


def test_what_was_measured_over_positions_is_none_of_the_chapters_other_sizes(made_up):
    book = over_positions(made_up)
    book.rows["sweep"] = "positions"
    assert fused.lstm_points(book).empty
    assert verdict("08.1", book) == "not measured"
    assert "(not measured)" not in fused.ALONG.values(book)["fus-along-gain"]


def test_where_nothing_was_taken_apart_the_section_says_so(made_up):
    book = machine(made_up)
    assert fused.over_positions(book).empty
    assert {verdict(f"08.{number}", book) for number in range(13, 17)} == {"not measured"}
    assert set(fused.ALONG.values(book).values()) == {"(not measured)"}
