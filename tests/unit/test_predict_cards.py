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
    before, after = (cards.held_out(each) for each in (few, slower))
    its, ends = before["device"] == "K40m", ["predicted_s", "high_s"]
    assert after.loc[its, ends].equals(before.loc[its, ends])
    assert (after.loc[~its, "predicted_s"] > 1.01 * before.loc[~its, "predicted_s"]).any()
    # Without the H200 nothing that is left has paid for a compiled launch, which then predicts nothing.
    ours = before[before["left_out"] == "card H200-SXM"]
    assert ours["predicted_s"].isna().tolist() == ((ours["stack"] == "2026-jax") & (ours["kernel"] == "loop")).tolist()
    assert before.loc[before["left_out"] == "card K40m", "predicted_s"].notna().all()


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


def test_too_high_and_too_low_by_a_factor_count_the_same():
    terms = np.eye(len(FACTORS))[[0, 0]]
    assert cards.fit(terms, np.array([1.0, 16.0]), np.ones(2))[0] == pytest.approx(4, rel=1e-3)


def test_nine_tenths_of_the_weight_and_not_of_the_number():
    errors = np.array([0.1, 0.5, 2.0])
    assert cards.quantile(errors, np.array([1.0, 1.0, 1.0])) == 2.0
    assert cards.quantile(errors, np.array([1.0, 8.5, 0.5])) == 0.5


def test_the_networks_on_the_a100_have_the_work_of_their_layers():
    keras = pytest.importorskip("keras")
    from traintime.predict.work.graph import work

    network = keras.Sequential([keras.Input((32, 32, 3))])
    for filters in (2, 4, 8):
        for _ in range(2):
            network.add(keras.layers.Conv2D(filters, 3, padding="same", activation="relu"))
        network.add(keras.layers.MaxPooling2D())
    dense = keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10, activation="softmax")
    for layer in (keras.layers.Flatten(), *dense):
        network.add(layer)
    assert cards.network(3, 2, 96) == work(network, 96, "adam").total


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
    """TF32 is eight times as fast on an A100; a V100 has none."""

    def seconds(stack, kernel="matmul", device="A100-40GB"):
        return costs.published(device, stack, kernel).seconds["matmul"]

    tf32 = seconds("2026-jax", device="V100-SXM2") * 15.7 / 156
    assert [seconds("2026-jax"), seconds("2026-tensorflow")] == pytest.approx([tf32] * 2, rel=1e-6, abs=0)
    on_torch = [seconds("2026-torch", kernel) for kernel in ("convolution", "cudnn", "matmul", "loop")]
    assert on_torch == pytest.approx([tf32, tf32, 8 * tf32, 8 * tf32], rel=1e-6, abs=0)
    assert seconds("2017-theano") == pytest.approx(8 * tf32, rel=1e-6, abs=0)


def test_keras_hands_an_lstm_to_cudnn_and_a_loop_around_a_cell_to_nobody():
    layer, cell = (make_point("lstm", algorithm=name).work for name in ("default", "cell"))
    assert [costs.kernel_of("2026-torch", work) for work in (layer, cell)] == ["cudnn", "loop"]
    assert costs.kernel_of("2020-tensorflow", layer) == "loop"


def test_on_torch_convolutions_alone_are_computed_in_tf32():
    model = ModelDescription.from_point(make_point("blocks"))
    request = Request(samples=1000, batch=32, device="A100-40GB")
    assert model.convolutions
    assert not ModelDescription.from_point(make_point("dense")).convolutions
    for stack, quicker in (("2026-torch", True), ("2026-jax", False)):
        both = [replace(model, stack=stack, convolutions=are) for are in (True, False)]
        first, second = (formula_evidence(request, one).step_s for one in both)
        assert (first < second, first == second) == (quicker, not quicker)
