"""The fused LSTM: what a position costs, what other ways gain, what a change of layer teaches; on made-up data."""

import numpy as np
import pandas as pd
import pytest
from made_up import verdict
from tables import cells

from traintime.book.chapters import fused
from traintime.book.chapters.fused import along, analysis, claims, gpus, others, shown
from traintime.book.stored import ANY, Measurements
from traintime.learning import results, run
from traintime.learning.trial import make_trial

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


def its_own():
    """The machine that the chapter shows."""
    return claims.stored.having(claims.stored.of(), fused.points).machine


# Speed


def test_the_price_of_a_position_is_read_off_four_steps(made_up):
    book = machine(made_up)
    priced = fused.prices(book, fused.points(book))
    assert fused.position(priced["2026-torch", "loop"]).value == pytest.approx(1e-3, rel=0.02)
    assert fused.position(priced["2026-torch", "one operation"]).value == pytest.approx(1e-5, rel=0.5)
    assert {way for _, way in priced} == {"loop", "one operation"}
    assert [len(row) for row in cells(fused.price_table(priced))] == [5] * 4
    steps = {(row[0], row[1]): row[2] for row in cells(fused.step_table(fused.points(book)))}
    assert (steps["2026-jax", "loop"], steps["numpy", "loop"]) == ("1.2", "1.5")


def test_one_more_position_is_the_slope_between_the_two_lengths(made_up):
    table = fused.by_position(book := machine(made_up), fused.points(book))
    assert list(zip(table["stack"], table["how"], table["batch"], strict=True)) == [
        (stack, how, batch)
        for stack, how in [
            ("2026-jax", "loop"),
            ("2026-torch", "loop"),
            ("2026-torch", "one operation"),
            ("numpy", "loop"),
        ]
        for batch in fused.BATCHES
    ]
    torch = table.set_index(["stack", "how", "batch"]).loc[("2026-torch", "loop", 32)]
    assert torch["position_s"] == pytest.approx(1e-3 + 32 * 1e-7, rel=0.02)
    assert torch["low"] < torch["position_s"] < torch["high"]


def test_a_compiled_loop_is_a_way_of_its_own(made_up):
    book = made_up(*sweep("2026-tensorflow"), *sweep("2026-tensorflow", position=1e-5, jit="on"))
    assert set(fused.points(book)["how"]) == {"loop", "loop, compiled"}
    found = fused.gains(book)
    assert set(found["below"]) == {"loop, compiled"}
    assert (found["ratio"] > 1).all()
    assert len(found) == 4
    assert len(cells(fused.gain_table(found))) == 4


def test_another_workloads_points_are_none_of_it(made_up):
    book = made_up(("numpy", {"vocabulary": 5_000}, 1.0))
    assert fused.points(book).empty
    assert fused.gains(book).empty


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
    book = made_up(("numpy", {"vocabulary": 5_000}, 1.0))
    given = fused.values(book)
    assert given["fus-most"] == "(not measured)"
    assert "Not measured yet" in fused.price_table({}).data
    assert set(given) == set(fused.values(machine(made_up)))
    assert (given["fus-s4-cpu"], given["fus-s4-loop"], given["fus-s4-fused"]) == ("8", "26", "1")


# What others published


def test_published_steps_are_divided_by_their_positions():
    found = fused.published().set_index(["name", "layer", "batch"])["position_s"] * 1e6
    assert found["keras-8135", "LSTM", 300] == pytest.approx(94 / (8000 / 300) / 4500 * 1e6)
    assert found["keras-5242", "LSTM", 1].tolist() == pytest.approx([100, 700])
    assert found["rnn-benchmarks", "LSTM", 32].tolist()[:3] == pytest.approx(
        [289.6 * 32 / 30, 434.4 * 32 / 30, 820 * 32 / 30]
    )
    large = fused.published()["units"] == others.LARGE
    assert len(cells(fused.published_table(fused.published()))) == len(found) - large.sum()


def test_why_the_documents_card_lost_satisfies_its_own_equation():
    why = others.lost()
    assert why.slower == 26 / 8
    assert (why.gpu_s, why.cpu_s) == pytest.approx((7e-4, 1e-4))
    peak = {name: others.external.hardware(name)["float32 peak"] for name in (others.CARD, others.PROCESSOR)}
    on_cpu = why.arithmetic_s * peak[others.CARD] / peak[others.PROCESSOR]
    assert (why.gpu_s + why.arithmetic_s) / (why.cpu_s + on_cpu) == pytest.approx(why.slower)
    assert why.gpu_s + why.level * why.arithmetic_s == pytest.approx(why.cpu_s + why.level * on_cpu)
    assert why.fused == pytest.approx((why.gpu_s + why.arithmetic_s) / why.arithmetic_s)
    # Four gates; the state forward and twice backward, the inputs once less: nobody asks for their gradient.
    assert others.operations_of(128, 128) == 2 * 4 * 128 * (2 * 128 + 3 * 128)
    done = why.batches[128] * others.operations_of(128, 128) / (0.8 * peak[others.CARD])
    assert done == pytest.approx(why.arithmetic_s)


def test_what_follows_from_figures_of_others_is_judged_once(made_up, monkeypatch):
    book = made_up(*sweep("numpy"), machine=its_own())
    assert (verdict("08.22", book), verdict("08.23", book)) == ("holds", "holds")
    assert verdict("08.22", machine(made_up)) == verdict("08.23", machine(made_up)) == "not measured"
    slow = others.of_the_document()[0]
    slow.loc[slow["layer"] == "CuDNNLSTM", "epoch_s"] *= 5
    monkeypatch.setattr(others, "of_the_document", lambda: (slow, {}))
    assert verdict("08.22", book) == "does not hold"
    twice = others.larger().assign(took_s=lambda rows: 2 * rows["took_s"])
    monkeypatch.setattr(others, "larger", lambda: twice)
    assert verdict("08.23", book) == "does not hold"


def test_the_documents_fused_layer_is_a_line_over_the_batch():
    document, line = fused.of_the_document()
    steps = document.set_index(["layer", "batch"])["step_s"].dropna()
    assert steps["CuDNNLSTM", 4700] == pytest.approx(130 / (2_100_000 / 4700))
    for batch in (500, 4700):
        assert line["F"] + line["c"] * batch == pytest.approx(steps["CuDNNLSTM", batch])


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


def test_a_cards_two_ways_stand_side_by_side(made_up, monkeypatch):
    book = on_card(made_up, cudnn=1e-6, loop_of_cells=4e-4)
    monkeypatch.setattr(gpus, "card", lambda book: "a card")
    found = gpus.pairs([book])
    assert found[["units", "batch", "length"]].to_numpy().tolist() == [
        *([128, batch, length] for batch in fused.BATCHES for length in fused.LENGTHS),
        [1024, 32, 50],
    ]
    assert found["ratio"].iloc[-1] == pytest.approx(4)
    assert cells(gpus.pair_table(found))[-1] == ["a card", "2026-torch", "1,024 · 32 · 50", "40.0", "10.0", "4.0"]
    priced = gpus.prices([book])
    assert fused.position(priced["a card", "2026-torch", "loop of cells"]).value == pytest.approx(4e-4, rel=0.05)
    assert [row[1] for row in cells(gpus.price_table(priced))] == [
        "2026-torch, one kernel",
        "2026-torch, loop of cells",
    ]
    monkeypatch.setattr(gpus, "everywhere", lambda: [book])
    assert verdict("08.5", machine(made_up)) == "does not hold"
    monkeypatch.setattr(gpus, "pairs", lambda books: found.iloc[:-1])
    assert verdict("08.5", machine(made_up)) == "holds"


def test_without_a_card_nothing_is_said_of_one(made_up, monkeypatch):
    monkeypatch.setattr(gpus, "everywhere", list)
    assert "Not measured yet" in gpus.pair_table(gpus.pairs([])).data
    assert "Not measured yet" in gpus.price_table(gpus.prices([])).data
    assert verdict("08.5", machine(made_up)) == "not measured"


def test_a_run_on_a_card_shows_both_ways(made_up):
    book = on_card(made_up, cudnn=1e-6, loop_of_cells=4e-4)
    here = fused.points(Measurements(book.rows, "this run", usual={"device": ANY}))
    here = here[here["units"] == 128]
    assert set(here["how"]) == {"one kernel", "loop of cells"}
    assert len(cells(fused.step_table(here))) == 2


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
    sides = [side for both in fused.CAUSES.values() for side in both]
    asked = [fused.TASKS[task] | side for task in tasks for side in sides]
    made = [make_trial(**one) for one in asked if one["task"] != "mnist1d" or not one.get("mask")]
    return {trial.key: trial for trial in made}.values()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """LSTM's hard gates cost one point and its dropout gains four (one at the higher rate), a bias gains two, a mask
    ten, and forty where there is no bias."""

    def accuracy(trial):
        dropout = (0.04 if trial.rate == 0.001 else 0.01) * (trial.recurrent_dropout > 0)
        mask = (0.1 if trial.forget_bias else 0.4) * trial.mask
        return 0.5 - 0.01 * (trial.gates == "hard") + dropout + 0.02 * (trial.forget_bias > 0) + mask

    return learned(tmp_path_factory.mktemp("trials"), accuracy, layers("mnist1d", fused.LATE, "padded"))


def test_each_cause_is_held_against_the_fused_kernels_way(found):
    table = fused.causes(found).set_index(["task", "cause"])
    assert table.loc[("mnist1d", "hard gates"), "difference"] == pytest.approx(0.01, abs=1e-6)
    assert table.loc[("mnist1d", "recurrent dropout"), "difference"] == pytest.approx(-0.04, abs=1e-6)
    assert table.loc[("padded", "a mask"), "difference"] == pytest.approx(-0.1, abs=1e-6)
    assert table.loc[("mnist1d", "gates and dropout"), "difference"] == pytest.approx(-0.03, abs=1e-6)
    assert table.loc[(fused.LATE, "gates and dropout"), "difference"] == pytest.approx(0, abs=1e-6)
    assert ("mnist1d", "a mask") not in table.index
    assert (table["seeds"] == 20).all()
    assert (table["low"] < table["difference"]).all()
    assert (table["high"] > table["difference"]).all()
    assert len(cells(fused.cause_table(fused.causes(found)))) == len(table)


def test_claims_of_accuracy_follow_the_trainings(found, made_up, monkeypatch):
    monkeypatch.setattr(claims, "trials", lambda: found)
    book = made_up(("numpy", {}, 1.0), machine=its_own())
    assert verdict("08.6", book) == "does not hold", "dropout moves it by four points"
    assert verdict("08.7", book) == "holds"
    assert verdict("08.8", book) == "cannot be told", "three points lie within the interval"
    assert verdict("08.18", book) == "does not hold", "the fast layer loses three points here"
    assert verdict("08.19", book) == "holds"
    assert verdict("08.20", book) == "holds"
    assert verdict("08.21", book) == "cannot be told", "at that rate gates and dropout make nothing"
    elsewhere = made_up(("numpy", {}, 1.0))
    assert verdict("08.6", elsewhere) == "not measured"


def test_a_forget_bias_is_of_the_layer_that_has_one(found):
    """Keras starts both at 1; where cuDNN's starts at 0 it is CuDNNLSTM's side that goes without."""
    table = fused.causes(found).set_index(["task", "cause"])
    assert table.loc[("mnist1d", "a forget bias"), "difference"] == pytest.approx(-0.02, abs=1e-6)
    assert table.loc[("mnist1d", "gates, dropout, bias"), "difference"] == pytest.approx(-0.05, abs=1e-6)
    assert table.loc[("padded", "a mask, no bias in either"), "difference"] == pytest.approx(-0.4, abs=1e-6)


def test_fewer_seeds_than_asked_for_are_no_verdict(tmp_path, made_up, monkeypatch):
    few = learned(tmp_path, lambda trial: 0.8, layers("padded"), seeds=5)
    monkeypatch.setattr(claims, "trials", lambda: few)
    assert verdict("08.7", made_up(("numpy", {}, 1.0), machine=its_own())) == "not measured"
    assert fused.causes(few)["cause"].tolist() == list(fused.CAUSES)


def test_the_prose_says_what_enough_starts_taught_and_nothing_of_fewer(found, tmp_path, made_up, monkeypatch):
    book = made_up(("numpy", {}, 1.0))
    monkeypatch.setattr(shown, "trials", lambda: found)
    given = fused.values(book)
    assert given["fus-together"].startswith("-3.0 (")
    assert given["fus-together-late"].startswith("+0.0 (")
    assert given["fus-masked-without"].startswith("-40.0 (")
    assert given["fus-published"] == "91%"
    assert given["fus-spread"] == "1.0 to 1.0"
    assert given["fus-batches"].startswith("This is not measured yet")
    few = learned(tmp_path / "few", lambda trial: 0.8, layers("padded"), seeds=5)
    monkeypatch.setattr(shown, "trials", lambda: few)
    assert fused.values(book)["fus-together"] == fused.values(book)["fus-masked"] == "(not measured)"


def test_the_prose_says_how_the_loss_goes_with_the_batch(tmp_path, made_up, monkeypatch):
    rows = learned(tmp_path, lambda trial: 0.9 - trial.batch / 1000, [make_trial(batch=batch) for batch in (100, 400)])
    monkeypatch.setattr(shown, "trials", lambda: rows)
    given = fused.values(made_up(("numpy", {}, 1.0)))["fus-batches"]
    assert "at equal epochs, rate fixed, from 0.20 with 100 to 0.50 with 400" in given


def test_batches_are_told_apart_by_epochs_steps_and_rate(tmp_path):
    trials = [make_trial(batch=batch, **more) for batch in (100, 400) for more in ({}, {"steps": 800})]
    trials += [make_trial(batch=400, rate=0.002), make_trial(rate=0.01)]  # the last is of another question
    table = fused.batches(learned(tmp_path, lambda trial: 0.5, trials, seeds=3))
    assert table[["batch", "way"]].to_numpy().tolist() == [
        [100, "equal epochs, rate fixed"],
        [400, "equal epochs, rate fixed"],
        [100, "equal epochs, rate scaled"],
        [400, "equal epochs, rate scaled"],
        [100, "equal steps, rate fixed"],
        [400, "equal steps, rate fixed"],
        [100, "equal steps, rate scaled"],
    ]
    assert (table["accuracy_low"] < table["accuracy"]).all()


def test_trials_have_as_many_seeds_as_the_comparison_needs():
    assert run.SEEDS >= analysis.FEWEST


# Operations


def test_operations_of_a_position_are_counted_and_priced(made_up, monkeypatch):
    counts = [(10, 552), (50, 2072)]
    rows = [("2026-torch", "default", length, number) for length, number in counts]
    rows += [("2026-torch", "native", length, 174) for length, _ in counts]
    table = pd.DataFrame(rows, columns=["stack", "algorithm", "length", "operations"])
    monkeypatch.setattr(analysis.operations, "stored", lambda: table)
    book = machine(made_up)
    found = fused.counted(fused.by_position(book, fused.points(book))).set_index("how")
    assert found.loc["loop", ["once", "operations"]].tolist() == [172, 38]
    assert found.loc["loop", "operation_s"] == pytest.approx(1e-3 / 38, rel=0.02)
    assert found.loc["one operation", "operations"] == 0
    assert np.isnan(found.loc["one operation", "operation_s"])
    shown = cells(fused.counted_table(found.reset_index()))
    assert shown == [["2026-torch", "172", "38", shown[0][3]], ["2026-torch, one operation", "174", "0", ""]]


def test_the_stored_counts_are_straight_lines_of_loops_and_flat_for_one_operation():
    found = analysis.operations.stored().pivot_table("operations", ["stack", "algorithm"], "length")
    assert (found.xs("native", level="algorithm").nunique(axis=1) == 1).all()
    loops = found.xs("default", level="algorithm")
    assert (loops[50] > 3 * loops[10]).all()
    assert set(loops.index) == set(analysis.operations.STACKS)


# The loop over ever more positions


def over_positions(made_up, square=1e-5, cell=2e-4):
    """torch's ways over 25 to 200 positions; square: what a pair of positions costs in Keras' loop, s."""
    lengths = (25, 50, 100, 200)
    of = {"workload": "lstm", "batch": along.BATCH}
    steps = {"default": lambda n: 1e-4 * n + square * n * n, "apart": lambda n: 2e-4 * n, "cell": lambda n: cell * n}
    rows = [
        ("2026-torch", of | {"length": n, "algorithm": way}, step(n)) for way, step in steps.items() for n in lengths
    ]
    return made_up(*rows)


def test_growth_is_told_between_the_ends(made_up):
    book = over_positions(made_up)
    assert along.growth(book, "2026-torch", along.LOOP).value == pytest.approx(0.42 / 0.03, rel=0.03)
    assert along.growth(book, "2026-torch", along.APART).value == pytest.approx(4, rel=0.03)
    with pytest.raises(KeyError):
        along.growth(book, "2026-jax", along.LOOP)


@pytest.mark.parametrize(("square", "cell", "expected"), [(1e-5, 2e-4, "holds"), (1e-9, 3e-3, "does not hold")])
def test_claims_of_the_quadratic_loop_follow_the_data(made_up, square, cell, expected):
    book = over_positions(made_up, square, cell)
    assert {verdict(label, book) for label in ("08.13", "08.15", "08.16")} == {expected}
    assert verdict("08.14", book) == "holds"


def test_what_was_measured_over_positions_is_none_of_the_chapters_other_sizes(made_up):
    book = over_positions(made_up)
    book.rows["sweep"] = "positions"
    assert fused.points(book).empty
    assert verdict("08.1", book) == "not measured"
    assert "(not measured)" not in along.values(book)["fus-along-gain"]


def test_where_nothing_was_taken_apart_the_section_says_so(made_up):
    book = machine(made_up)
    assert fused.over_positions(book).empty
    assert {verdict(claim.label, book) for claim in along.CLAIMS} == {"not measured"}
    assert set(along.values(book).values()) == {"(not measured)"}
