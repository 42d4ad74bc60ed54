"""The fused LSTM: what a time step costs, what other ways gain, what a change of layer teaches; on made-up data."""

import numpy as np
import pandas as pd
import pytest
from made_up import made_up, verdict
from tables import cells

from traintime.book import external, original, plots
from traintime.book.chapters import fused, fused_accuracy, fused_card, fused_published
from traintime.book.stored import ANY, Measurements
from traintime.learning import results, run
from traintime.learning.trial import make_trial
from traintime.measuring import operations

pytestmark = pytest.mark.usefixtures("few_draws")


def sweep(stack, step=1e-3, position=1e-4, token=1e-7, **way):
    """Steps of a + l L + c B L, at every size of the sweep."""
    sizes = [(batch, length) for batch in fused.BATCHES for length in fused.LENGTHS]
    fields = [{"workload": "lstm", "batch": batch, "length": length, **way} for batch, length in sizes]
    return [(stack, each, step + (position + token * each["batch"]) * each["length"]) for each in fields]


def machine(**positions):
    """Loops of three stacks and torch's fused kernel; positions: what a time step costs there, s."""
    cost = {"numpy": 5e-5, "jax": 2e-5, "torch": 1e-3, "native": 1e-5} | positions
    return made_up(
        *sweep("numpy", position=cost["numpy"]),
        *sweep("2026-jax", position=cost["jax"]),
        *sweep("2026-torch", position=cost["torch"]),
        *sweep("2026-torch", position=cost["native"], algorithm="native"),
    )


def other(**more):
    """A machine that measured nothing of this chapter."""
    return made_up(("numpy", {"vocabulary": 5_000}, 1.0), **more)


@pytest.fixture
def shown():
    """The machine that the chapter shows, on which what depends on no machine is judged."""
    return other(machine=fused_published.lstm_machine().machine)


# Speed


def test_the_cost_of_a_time_step_is_read_off_four_steps():
    loop, native = (sweep("2026-torch", position=cost, allocator="tcmalloc") for cost in (1e-3, 1e-5))
    native = [(stack, fields | {"algorithm": "native"}, step) for stack, fields, step in native]
    fits = fused.prices(made_up(*native, *loop))
    assert [fit.interval("l").value for fit in fits.values()] == pytest.approx([1e-3, 1e-5], rel=0.5)
    assert list(fits) == [("2026-torch", "loop"), ("2026-torch", "fused kernel")]


def test_one_more_position_is_the_slope_between_the_two_lengths():
    book = machine()
    costs = fused.position_costs(book).set_index(["stack", "how", "batch"])
    torch = costs.loc[("2026-torch", "loop", 32)]
    assert len(costs) == 8
    assert torch["position_s"] == pytest.approx(1e-3 + 32 * 1e-7, rel=0.02)
    assert torch["low"] < torch["position_s"] < torch["high"]
    table = [row[:3] for row in cells(fused.step_table(fused.lstm_points(book)))]
    assert [table[0], table[3]] == [["2026-jax", "loop", "1.2"], ["numpy", "loop", "1.5"]]


def test_a_compiled_loop_is_a_way_of_its_own():
    book = made_up(*sweep("2026-tensorflow"), *sweep("2026-tensorflow", position=1e-5, jit="on"))
    assert set(fused.lstm_points(book)["how"]) == {"loop", "loop, compiled"}
    ratios = fused.gains(book)
    assert set(ratios["below"]) == {"loop, compiled"}
    assert (ratios["ratio"] > 1).all()
    assert len(cells(fused.gain_table(ratios))) == 4


def test_another_workloads_points_are_none_of_it():
    book = other()
    assert fused.lstm_points(book).empty and fused.gains(book).empty and fused.over_positions(book).empty
    assert fused.PROSE.values(machine())["fus-most-stack"] == "2026-torch"
    assert "Not measured yet" in fused.step_table(fused.lstm_points(book)).data


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ({}, {"08.1": "holds", "08.2": "holds", "08.3": "not measured", "08.4": "holds"}),
        ({"native": 9e-4}, {"08.1": "does not hold"}),
        ({"numpy": 5e-3}, {"08.4": "does not hold"}),
    ],
)
def test_claims_of_speed_follow_the_data(positions, expected):
    book = machine(**positions)
    assert {label: verdict(label, book) for label in expected} == expected


@pytest.mark.parametrize(("gain", "expected"), [(1.1, "holds"), (2, "does not hold")])
def test_the_old_cell_is_judged_at_every_size(gain, expected):
    cell = sweep("2020-tensorflow", 1e-3 / gain, 1e-4 / gain, 1e-7 / gain, algorithm="native")
    assert verdict("08.3", made_up(*sweep("2020-tensorflow"), *cell)) == expected


@pytest.mark.parametrize(("small", "large", "expected"), [(1.0, 3.0, "holds"), (2.0, 3.0, "does not hold")])
def test_what_the_allocator_costs_a_loop_is_judged_at_both_batches(small, large, expected):
    """small, large: glibc's step over tcmalloc's."""
    fields = {"workload": "lstm", "length": 50}
    steps = [
        ("2026-torch", fields | {"batch": batch, "allocator": allocator}, step)
        for batch, times in zip(fused.BATCHES, (small, large), strict=True)
        for allocator, step in (("glibc", times), ("tcmalloc", 1.0))
    ]
    assert verdict("08.10", made_up(*steps)) == expected


@pytest.mark.parametrize(("factor", "expected"), [(1, "holds"), (5, "does not hold")])
def test_three_prices_are_judged_by_their_error(factor, expected):
    """factor: by which the step with the most tokens is off."""
    stacks = ["2017-theano", "2020-tensorflow", "2026-jax", "2026-torch", "numpy"]
    steps = [point for stack in stacks for point in sweep(stack, allocator="tcmalloc")]
    largest = {"batch": 512, "length": 50}.items()
    bent = [(stack, fields, step * (factor if largest <= fields.items() else 1)) for stack, fields, step in steps]
    assert verdict("08.11", made_up(*bent)) == expected


def test_operations_of_a_position_are_counted_and_priced(monkeypatch):
    rows = [("default", 10, 552), ("default", 50, 2072), ("native", 10, 174), ("native", 50, 174)]
    table = pd.DataFrame(rows, columns=["algorithm", "length", "operations"]).assign(stack="2026-torch")
    monkeypatch.setattr(operations, "stored", lambda: table)
    book = machine()
    costs = fused.operation_costs(book).set_index("how")
    assert costs.loc["loop", ["once", "operations"]].tolist() == [172, 38]
    assert costs.loc["loop", "operation_s"] == pytest.approx(1e-3 / 38, rel=0.02)
    assert costs.loc["fused kernel", "operations"] == 0
    assert np.isnan(costs.loc["fused kernel", "operation_s"])


def test_the_stored_counts_are_straight_lines_of_loops_and_flat_for_a_fused_kernel():
    counts = operations.stored().pivot_table("operations", ["stack", "algorithm"], "length")
    assert (counts.xs("native", level="algorithm").nunique(axis=1) == 1).all()
    loops = counts.xs("default", level="algorithm")
    assert (loops[50] > 3 * loops[10]).all()
    assert set(loops.index) == set(operations.STACKS)


# The loop over ever more positions


def over_positions(square=1e-5, cell=2e-4, **more):
    """torch's ways over 25 to 200 positions; square: what a pair of positions costs in Keras' loop, s."""
    steps = {"default": lambda n: 1e-4 * n + square * n * n, "apart": lambda n: 2e-4 * n, "cell": lambda n: cell * n}
    points = [(way, n) for way in steps for n in (25, 50, 100, 200)]
    fields = [fused.MANY | {"length": n, "algorithm": way} for way, n in points]
    rows = [("2026-torch", each, steps[way](n)) for each, (way, n) in zip(fields, points, strict=True)]
    return made_up(*rows, **more)


def test_growth_is_told_between_the_ends():
    book = over_positions()
    assert fused.growth(book, "2026-torch").value == pytest.approx(0.42 / 0.03, rel=0.03)
    assert fused.growth(book, "2026-torch", "apart").value == pytest.approx(4, rel=0.03)
    with pytest.raises(KeyError):
        fused.growth(book, "2026-jax")


@pytest.mark.parametrize(("square", "cell", "expected"), [(1e-5, 2e-4, "holds"), (1e-9, 3e-3, "does not hold")])
def test_claims_of_the_quadratic_loop_follow_the_data(square, cell, expected):
    book = over_positions(square, cell)
    assert {verdict(label, book) for label in ("08.13", "08.15", "08.16")} == {expected}
    assert verdict("08.14", book) == "holds"


def test_what_was_measured_over_positions_is_none_of_the_chapters_other_sizes():
    book = over_positions(sweep="positions")
    assert fused.lstm_points(book).empty
    assert verdict("08.1", book) == "not measured"
    assert fused.ALONG.values(book)["fus-along-cell"] != "(not measured)"


# What others published


def test_published_steps_are_divided_by_their_positions():
    rows = fused_published.published().set_index(["name", "layer", "batch"])["position_s"] * 1e6
    assert rows["keras-8135", "LSTM", 300] == pytest.approx(94 / (8000 / 300) / 4500 * 1e6)
    assert rows["keras-5242", "LSTM", 1].tolist() == pytest.approx([100, 700])
    small = [289.6 * 32 / 30, 434.4 * 32 / 30, 820 * 32 / 30]
    assert sorted(fused_published.titan()[32]) == pytest.approx(small)


def test_why_the_questions_card_lost_satisfies_its_own_equation():
    why = fused_published.lost()
    gpu_s, cpu_s, on_gpu = why["gpu_s"], why["cpu_s"], why["arithmetic_s"]
    names = (fused_published.CARD, fused_published.PROCESSOR)
    card, processor = (external.hardware(name)["float32 peak"] for name in names)
    on_cpu = on_gpu * card / processor
    assert (why["slower"], gpu_s, cpu_s) == pytest.approx((26 / 8, 7e-4, 1e-4))
    assert (gpu_s + on_gpu) / (cpu_s + on_cpu) == pytest.approx(why["slower"])
    assert gpu_s + why["level"] * on_gpu == pytest.approx(cpu_s + why["level"] * on_cpu)
    assert why["fused"] == pytest.approx((gpu_s + on_gpu) / on_gpu)
    # Four gates; the state forward and twice backward, the inputs once less: nobody asks for their gradient.
    operations_of_a_token = 2 * 4 * 128 * (2 * 128 + 3 * 128)
    assert fused_published.operations_of(128, 128) == operations_of_a_token
    assert why["batch"] * operations_of_a_token / (0.8 * card) == pytest.approx(on_gpu)


def test_what_follows_from_figures_of_others_is_judged_on_them(shown, monkeypatch):
    labels, figures = ("08.22", "08.23", "08.24", "08.25"), original.document()
    assert [verdict(label, figures) for label in labels] == ["holds"] * 4
    assert [verdict(label, shown) for label in labels] == ["not measured"] * 4
    gain, ratios = fused_published.fused_gain(), fused_published.larger_over_predicted()
    monkeypatch.setattr(fused_published, "fused_gain", lambda: gain / 5)
    monkeypatch.setattr(fused_published, "larger_over_predicted", lambda: 2 * ratios)
    gtx, factors = fused_published.gtx(), fused_published.left_out()
    monkeypatch.setattr(fused_published, "gtx", lambda: gtx.mul([1, 2]))
    monkeypatch.setattr(fused_published, "left_out", lambda: 2 * factors)
    assert [verdict(label, figures) for label in labels] == ["does not hold"] * 4


def test_the_four_cards_fused_layer_is_a_line_over_the_batch():
    line = fused_published.fused_line()
    steps = fused_published.document().set_index(["layer", "batch"])["step_s"].dropna()
    assert steps["CuDNNLSTM", 4700] == pytest.approx(130 / (2_100_000 / 4700))
    predicted = [line["F"] + line["c"] * batch for batch in (500, 4700)]
    assert predicted == pytest.approx([steps["CuDNNLSTM", batch] for batch in (500, 4700)])
    told = fused_published.PROSE.values(other())
    assert (told["fus-s4-gain"], told["fus-p100-ratio"]) == ("26", "34")


def test_the_loop_of_the_four_cards_with_the_larger_batch():
    """3.21 s a step, of which 500 rows cost 23 ms; with 4,700 rows 447 such steps."""
    loop, row_s = fused_published.loop_line(), fused_published.fused_line()["c"]
    assert loop["step_s"] == pytest.approx(13_500 * 500 / 2_100_000)
    assert loop["fixed"] == pytest.approx(1 - 500 * row_s / loop["step_s"])
    assert loop["epoch_s"] == pytest.approx((loop["step_s"] + 4200 * row_s) * 2_100_000 / 4700)
    assert loop["gain"] == pytest.approx(13_500 / loop["epoch_s"])


def test_time_steps_of_the_gtx_1080_are_the_charts():
    gtx = fused_published.gtx() * 1e6
    assert gtx.loc["Keras 2.1.6 on TensorFlow 1.8", "LSTM"].tolist() == pytest.approx([543, 540])
    gain = fused_published.gtx_gain("PyTorch 0.4.0", "LSTMCell-basic", "cuDNNLSTM")
    assert gain.tolist() == pytest.approx([307 / 80, 31 / 11])


def test_costs_of_a_kernel_come_back_from_times_made_of_them(monkeypatch):
    """And the weights of 512 units: 16 bytes for each of 512 x 512, forward and backward at each of 25 time steps."""
    cards = fused_published.cards()
    sheet, first = external.hardware("TitanX-Maxwell"), cards.iloc[0]
    assert first["weights_s"] == pytest.approx(2 * 16 * 512**2 * 25 / sheet["bandwidth peak"])
    assert first["arithmetic_s"] == pytest.approx(3 * 8 * 512**2 * 16 * 25 / sheet["float32 peak"])
    costs = pd.Series([5e-5, 2.0, 1.5], fused_published.COSTS)
    made = cards.assign(step_s=cards[fused_published.COSTS] @ costs)
    assert fused_published.kernel_costs(made).tolist() == pytest.approx(costs.tolist())
    monkeypatch.setattr(fused_published, "cards", lambda: made)
    assert fused_published.left_out.__wrapped__().tolist() == pytest.approx([1.0] * 5)


# On GPUs


def on_card(**positions):
    """Both ways on a card, on torch and JAX; positions: what a time step of each costs there, s."""
    cost = {"torch": 1e-3, "jax": 3e-5, "kernel": 1e-5} | positions
    steps = []
    for stack in ("torch", "jax"):
        for kernel, position in (("cudnn", cost["kernel"]), ("loop-of-cells", cost[stack])):
            fields = {"device": "gpu", "kernel": kernel}
            steps += sweep(f"2026-{stack}", step=1e-4, position=position, token=0, **fields)
    return made_up(*steps, described={"gpus": [{"name": "NVIDIA H1"}]})


def test_the_kernels_gain_is_the_loops_step_over_its_own():
    gains = fused_card.gains(on_card(), "2026-torch")
    assert gains["32 sequences of 50 time steps"].value == pytest.approx((1e-4 + 50e-3) / (1e-4 + 50e-5), rel=1e-3)
    assert len(gains) == len(fused.BATCHES) * len(fused.LENGTHS)


def test_a_time_step_is_the_slope_between_the_lengths():
    book = on_card()
    assert fused_card.time_step(book, "2026-torch", 32).value == pytest.approx(1e-3, rel=1e-3)
    assert fused_card.time_step(book, "2026-jax", 512, 0.0, 1.0).value == pytest.approx(1e-5, rel=1e-2)
    assert fused_card.time_step(book, "2026-torch", 32, kernels=-5.0).value == pytest.approx(9.5e-4, rel=1e-3)


@pytest.mark.parametrize(
    ("positions", "label", "expected"),
    [
        ({"jax": 1e-3}, "08.5", "holds"),
        ({}, "08.5", "does not hold"),
        ({}, "08.26", "holds"),
        ({"torch": 2e-5}, "08.26", "does not hold"),
        ({}, "08.27", "holds"),
        ({"jax": 1e-3}, "08.27", "does not hold"),
    ],
)
def test_claims_of_the_card_follow_its_time_steps(positions, label, expected):
    assert verdict(label, on_card(**positions)) == expected


def test_the_figure_shows_the_published_implementations_then_the_cards_own():
    shown = fused_card.implementations(on_card())
    assert shown[["device", "framework"]].iloc[-1].tolist() == ["H1", "Keras 3, JAX"]
    assert shown.loc[shown["way"] == "compiled", "position_s"].tolist() == pytest.approx([3e-5], rel=1e-2)
    assert shown["high"].isna().tolist() == (shown["device"] == "GTX 1080").tolist()
    assert len(plots.implementations(shown).axes[0].patches) == len(shown)


def test_without_a_card_nothing_is_said_of_one():
    assert {label: verdict(label, machine()) for label in ("08.5", "08.26", "08.27")} == dict.fromkeys(
        ("08.5", "08.26", "08.27"), "not measured"
    )


def test_a_run_on_a_card_shows_both_ways():
    here = fused.lstm_points(Measurements(on_card().rows, "this run", usual={"device": ANY}))
    assert set(here["how"]) == {"cuDNN's kernel", "loop of cells"}
    assert len(cells(fused.step_table(here[here["units"] == 128]))) == 4


# Accuracy


def learned(folder, accuracy, trials, seeds=20):
    """A table of trainings: accuracy(trial) gives the mean, seeds scatter by one point."""
    for trial in trials:
        for seed in range(seeds):
            value = accuracy(trial) + 0.01 * np.random.default_rng(seed).standard_normal()
            result = {"seed": seed, "accuracy": value, "loss": 1 - value, "training_loss": [], "seconds": 1.0}
            results.append(folder, trial, result)
    return results.table(folder)


def layers(*tasks):
    """Every trial that a cause needs on these tasks."""
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
    assert table["difference"].between(table["low"], table["high"], inclusive="neither").all()


def test_claims_and_prose_of_accuracy_follow_the_trainings(trained, shown, monkeypatch):
    monkeypatch.setattr(fused_accuracy, "trials", lambda: trained)
    expected = {
        "08.6": "does not hold",  # dropout moves it by four points
        "08.7": "holds",
        "08.8": "inconclusive",  # three points lie within the interval
        "08.18": "does not hold",  # the fast layer loses three points here
        "08.19": "holds",
        "08.20": "holds",
        "08.21": "inconclusive",  # at that rate gates and dropout make nothing
    }
    assert {label: verdict(label, shown) for label in expected} == expected
    assert {verdict(label, other()) for label in expected} == {"not measured"}
    told = fused_accuracy.PROSE.values(other())
    starts = {"fus-together": "-3.0 (", "fus-together-late": "+0.0 (", "fus-late-gates": "+1.0 ("}
    assert {name: told[name][: len(text)] for name, text in starts.items()} == starts
    assert (told["fus-published"], told["fus-spread-early"], told["fus-collapsed"]) == ("91%", "1.0", "50%")
    # Three points are three standard deviations of one point, or 2.1 of a difference.
    assert told["fus-chance-early"] == "2%"
    assert told["fus-loss-epochs-small"] == "(not measured)"
    shown_rows = fused_accuracy.shown()
    assert set(shown_rows["task"]) == set(fused_accuracy.SHOWN.values())
    assert "all three" in set(shown_rows["cause"])


def test_fewer_seeds_than_needed_are_no_verdict(tmp_path, shown, monkeypatch):
    few = learned(tmp_path, lambda trial: 0.8, layers("padded"), seeds=5)
    monkeypatch.setattr(fused_accuracy, "trials", lambda: few)
    assert verdict("08.7", shown) == "not measured"
    assert fused_accuracy.PROSE.values(shown)["fus-masked"] == "(not measured)"
    assert fused_accuracy.causes(few)["cause"].tolist() == list(fused_accuracy.CAUSES)
    assert run.SEEDS >= fused_accuracy.FEWEST


def test_batches_are_told_apart_by_epochs_steps_and_rate(tmp_path, shown, monkeypatch):
    trials = [make_trial(batch=batch, **more) for batch in (100, 400) for more in ({}, {"steps": 800})]
    trials += [make_trial(batch=400, rate=0.002), make_trial(rate=0.01)]  # the last is of another question
    rows = learned(tmp_path, lambda trial: 0.9 - trial.batch / 1000, trials, seeds=3)
    table = fused_accuracy.batches(rows)
    ways = {
        "equal epochs, rate fixed": [100, 400],
        "equal epochs, rate scaled": [100, 400],
        "equal steps, rate fixed": [100, 400],
        "equal steps, rate scaled": [100],
    }
    assert table.groupby("way")["batch"].agg(list).to_dict() == ways
    assert (table["loss_low"] < table["loss"]).all()
    assert fused_accuracy.batches(rows[rows["batch"] == 100]).empty
    monkeypatch.setattr(fused_accuracy, "trials", lambda: rows)
    told = fused_accuracy.PROSE.values(shown)
    assert (told["fus-loss-epochs-small"], told["fus-loss-epochs-large"]) == ("0.20", "0.50")
    assert (verdict("08.9", shown), verdict("08.17", shown)) == ("holds", "does not hold")
