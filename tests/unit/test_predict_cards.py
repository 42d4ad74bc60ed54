"""Costs on cards: what is left out is left out whole, and the interval is what that is missed by."""

from dataclasses import replace

import numpy as np
import pytest

from traintime.point import make_point
from traintime.predict import cards, costs
from traintime.predict.answer import SURE, around
from traintime.predict.evidence import formula_evidence
from traintime.predict.request import ModelDescription, Request
from traintime.store import derived

FEW = ("Braun 2018", "2017 post", "rnn-benchmarks", "our H200")  # four cards, one of them with two sources
FACTORS = list(costs.FACTORS)


@pytest.fixture(scope="module")
def given():
    return cards.trainings()


@pytest.fixture(scope="module")
def few(given):
    layers = given[(given["source"] == "DeepBench") & (given["device"] == cards.TITAN)]
    chosen = [*given.index[given["source"].isin(FEW)], *layers.index[::3]]
    return given.loc[chosen].reset_index(drop=True)


def test_what_is_left_out_has_no_part_in_what_predicts_it(few):
    """A card ten times as slow is predicted as before, and others are not."""
    slower = few.assign(took_s=few["took_s"].mask(few["device"] == "K40m", 10 * few["took_s"]))
    before, after = (cards.held_out(each).set_index(["left_out", "source", "stack", "key"]) for each in (few, slower))
    its = before.index[before["device"] == "K40m"]
    assert after.loc[its, "predicted_s"].tolist() == before.loc[its, "predicted_s"].tolist()
    assert after.loc[its, "high_s"].tolist() == before.loc[its, "high_s"].tolist(), "nor in its interval"
    others = before.index.difference(its)
    assert (after.loc[others, "predicted_s"] > 1.01 * before.loc[others, "predicted_s"]).any()


@pytest.mark.parametrize(
    ("truth", "known", "found"),
    [
        ([2e-3, 1e-4, 1e-5, 3e-5, 1.5, 1.2, 2.0], slice(0, 7), [2e-3, 1e-4, 1e-5, 3e-5, 1.5, 1.2, 2.0]),
        ([1e-3, 1e-4, 1e-5, 3e-5, 0.2, 0.5, 3.0], slice(4, 6), [1.0, 1.0]),  # no cost passes a peak
    ],
)
def test_costs_are_found_again_from_steps_that_have_them(given, truth, known, found):
    terms = given[FACTORS].to_numpy()
    assert cards.fit(terms, terms @ np.array(truth), cards.weights(given))[known] == pytest.approx(found, rel=1e-3)


def test_a_cost_that_nothing_left_has_paid_predicts_nothing(few):
    """Without the H200 no compiled launch is left among these."""
    found = cards.held_out(few).set_index("left_out")
    assert found.loc["card K40m", "predicted_s"].notna().all()
    ours = found.loc["card H200-SXM"]
    assert ours["predicted_s"].isna().tolist() == ((ours["stack"] == "2026-jax") & (ours["kernel"] == "loop")).tolist()


def test_too_high_and_too_low_by_a_factor_count_the_same():
    terms = np.zeros((2, len(FACTORS)))
    terms[:, 0] = 1
    assert cards.fit(terms, np.array([1.0, 16.0]), np.ones(2))[0] == pytest.approx(4, rel=1e-3)


def test_nine_tenths_of_the_weight_and_not_of_the_number():
    errors = np.array([0.1, 0.5, 2.0])
    assert cards.quantile(errors, np.array([1.0, 1.0, 1.0])) == 2.0
    assert cards.quantile(errors, np.array([1.0, 8.5, 0.5])) == 0.5


def test_the_networks_on_the_a100_have_the_work_of_their_layers():
    keras = pytest.importorskip("keras")
    from traintime.predict.work.graph import work

    depth, filters = 3, 2
    network = keras.Sequential([keras.Input((32, 32, 3))])
    for block in range(depth):
        for _ in range(2):
            network.add(keras.layers.Conv2D(filters * 2**block, 3, padding="same", activation="relu"))
        network.add(keras.layers.MaxPooling2D())
    network.add(keras.layers.Flatten())
    network.add(keras.layers.Dense(128, activation="relu"))
    network.add(keras.layers.Dense(10, activation="softmax"))
    assert cards.network(depth, filters, 96) == work(network, 96, "adam").total


def test_the_interval_in_use_is_that_of_the_stored_errors():
    rows = derived.read("cards")
    missed = np.abs(np.log(rows["predicted_s"] / rows["took_s"]))
    total = around(1.0, (costs.published("T4", "2026-jax").error, SURE))
    within = missed <= np.log(total.high) * (1 + 1e-5)
    share = rows["weight"][within].sum() / rows["weight"].sum()
    assert share >= 0.9
    without_the_worst = missed < missed[within].max() * (1 - 1e-9)
    assert rows["weight"][without_the_worst].sum() / rows["weight"].sum() < 0.9, "and no wider"


def test_products_are_costed_in_the_precision_that_the_stack_computes_them_in():
    def seconds(device, stack, kernel):
        return costs.published(device, stack, kernel).seconds["matmul"]

    for stack in ("2026-tensorflow", "2026-jax"):
        without = seconds("V100-SXM2", stack, "matmul")
        assert seconds("A100-40GB", stack, "matmul") == pytest.approx(without * 15.7 / 156, rel=1e-6, abs=0)
    for kernel in ("convolution", "cudnn"):
        assert seconds("A100-40GB", "2026-torch", kernel) == seconds("A100-40GB", "2026-jax", kernel)
    eight = 8 * seconds("A100-40GB", "2026-jax", "matmul")
    for stack, kernel in (("2026-torch", "matmul"), ("2026-torch", "loop"), ("2017-theano", "matmul")):
        assert seconds("A100-40GB", stack, kernel) == pytest.approx(eight, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("stack", "sizes", "expected"),
    [
        ("2026-torch", {}, "cudnn"),
        ("2026-torch", {"algorithm": "cell"}, "loop"),  # RNN(LSTMCell): Keras' own loop
        ("2020-tensorflow", {}, "loop"),
    ],
)
def test_keras_hands_an_lstm_to_cudnn_and_a_loop_around_a_cell_to_nobody(stack, sizes, expected):
    assert costs.kernel_of(stack, make_point("lstm", **sizes).work) == expected


def test_on_torch_convolutions_alone_are_computed_in_tf32():
    model = ModelDescription.from_point(make_point("blocks"))
    request = Request(samples=1000, batch=32, device="A100-40GB")
    assert model.convolutions
    assert not ModelDescription.from_point(make_point("dense")).convolutions
    for stack, quicker in (("2026-torch", True), ("2026-jax", False)):
        both = [replace(model, stack=stack, convolutions=are) for are in (True, False)]
        first, second = (formula_evidence(request, one).step_s for one in both)
        assert (first < second, first == second) == (quicker, not quicker)
