"""The work of a Keras model: each layer against arithmetic written out, against the workloads, and against XLA."""

import importlib.util
import itertools
import json
import math
import os
import pickle
import subprocess
import sys
from textwrap import dedent
from typing import NamedTuple

import pytest

from traintime import workloads
from traintime.errors import InputError
from traintime.point import make_point
from traintime.predict import advice, prices, process
from traintime.predict.estimate import estimate
from traintime.predict.prices import Rates
from traintime.predict.request import ModelDescription
from traintime.predict.work import optimizers
from traintime.predict.work.graph import ModelWork, UnknownLayer, work
from traintime.predict.work.layers import LAYERS, MADE_OF, OPERATIONS
from traintime.workloads.base import UPDATES, Update, Work

# Keras' own, of NumPy 2, where it hands a learning rate to NumPy on torch and JAX.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

BATCH = 4


@pytest.fixture(scope="module")
def keras():
    """Keras on whatever backend this process has: imported here, since that takes seconds."""
    import keras

    return keras


@pytest.fixture(scope="module")
def layers(keras):
    return keras.layers


@pytest.fixture
def stacked(keras):
    """A Sequential model of these layers on inputs of this shape."""

    def make(shape, *stack, dtype="float32"):
        return keras.Sequential([keras.Input(shape, dtype=dtype), *stack])

    return make


def of(done: ModelWork, kind: str) -> Work:
    """The work of the only layer of this kind."""
    (found,) = [layer.work for layer in done.layers if layer.kind == kind]
    return found


# Every layer that there is a rule for, on a batch of four samples, counted by hand


class Product(NamedTuple):
    """A product of two: multiplications, numbers of factors and result, and how often it is computed: where data feed
    a layer that is trained, and where the layer is frozen and what is before it is trained.
    """

    multiplications: int
    numbers: int
    fed: int = 2
    frozen: int = 2


def product(rows, inner, columns, copies=1, fed=2, frozen=2):
    """(rows × inner) by (inner × columns), so many times."""
    numbers = rows * inner + inner * columns + rows * columns
    return Product(copies * rows * inner * columns, copies * numbers, fed, frozen)


def row(kind, shape, *given, products=(), numbers, launches=1, **options):
    """A layer, a sample's shape (or two, of two inputs), and what to expect: products, numbers handed on, operations of
    the forward pass. given, options: the layer's arguments, functions of keras.layers among them.
    """
    return kind, shape, given, options, products, numbers, launches


# A convolution of each map, then one by 1 × 1.
SEPARABLE_1D = [product(24, 3, 1, 3), product(24, 3, 5, fed=3)]
SEPARABLE_2D = [product(144, 9, 2, 3), product(144, 6, 5, fed=3)]
# 6 positions of 5 numbers, 7 units: all inputs at once, the states one position after the other.
LSTM = [product(24, 5, 28), product(4, 7, 28, 6, fed=3)]
GRU = [product(24, 5, 21), product(4, 7, 21, 6, fed=3)]
RESET = [product(24, 5, 21), product(4, 7, 14, 6, fed=3), product(4, 7, 7, 6, fed=3)]  # before it multiplies
SIMPLE = [product(24, 5, 7), product(4, 7, 7, 6, fed=3)]
CELLS = [*LSTM, product(24, 7, 9, fed=3), product(4, 3, 9, 6, fed=3)]  # and a GRU's of 3 units
KEPT_BY_CELLS = 24 * (18 * 7 + 13 * 3)
# 6 queries of 5 numbers, 8 keys of 3, 2 heads of 7 and 4 numbers: three projections, the scores, what they weigh, and a
# projection of that.
Q, K, SCORES = 4 * 6, 4 * 8, 4 * 2 * 6 * 8
CROSS = [product(Q, 5, 14), product(K, 3, 14), product(K, 3, 8)]
CROSS += [Product(SCORES * 7, Q * 14 + K * 14 + SCORES, 3, 3), Product(SCORES * 4, SCORES + K * 8 + Q * 8, 3, 3)]
CROSS += [product(Q, 8, 5, fed=3)]
CROSSED = Q * 14 + K * 14 + K * 8 + 2 * SCORES + Q * 8 + Q * 5
# Over the second of two axes, of 6 and of 3 positions.
OVER = 4 * 2 * 6 * 3 * 3
SECOND = [*[product(72, 5, 14)] * 3, *[Product(OVER * 7, OVER + 2 * 72 * 14, 3, 3)] * 2, product(72, 14, 5, fed=3)]
KEPT_OVER = 72 * (4 * 14 + 5) + 2 * OVER
# Four heads of queries; keys and values of two heads, repeated.
FOUR = 4 * 4 * 6 * 6
GROUPED = [product(Q, 5, 28), product(Q, 5, 14), product(Q, 5, 14)]
GROUPED += [*[Product(FOUR * 7, FOUR + 2 * Q * 28, 3, 3)] * 2, product(Q, 28, 5, fed=3)]
REPEATED = Q * (28 + 14 + 14) + 2 * Q * 28 + 2 * FOUR + Q * 28 + Q * 5

ROWS = [
    row("Dense", (5,), 7, products=[product(4, 5, 7)], numbers=4 * 7),
    row("Dense", (3, 5), 7, "relu", products=[product(4 * 3, 5, 7)], numbers=4 * 3 * 7),
    row("EinsumDense", (3, 5), "abc,cd->abd", (3, 7), products=[product(12, 5, 7)], numbers=12 * 7),
    row("EinsumDense", (3, 5), "...c,cd->...d", (7,), products=[product(12, 5, 7)], numbers=12 * 7),
    row("EinsumDense", (3, 2, 5), "abhc,hcd->abd", (3, 7), products=[product(12, 2 * 5, 7)], numbers=12 * 7),
    row("Conv1D", (10, 5), 6, 3, products=[product(4 * 8, 3 * 5, 6)], numbers=4 * 8 * 6),
    row("Conv1D", (10, 5), 6, 3, padding="causal", products=[product(4 * 10, 15, 6)], numbers=4 * 10 * 6),
    row("Conv2D", (9, 9, 2), 6, (3, 2), strides=2, padding="same", products=[product(100, 12, 6)], numbers=100 * 6),
    row("Conv2D", (2, 9, 9), 6, 3, data_format="channels_first", products=[product(196, 18, 6)], numbers=196 * 6),
    row("Conv2D", (8, 8, 4), 6, 3, groups=2, dilation_rate=2, products=[product(64, 18, 3, 2)], numbers=64 * 6),
    row("Conv3D", (4, 4, 4, 3), 2, 2, products=[product(4 * 27, 8 * 3, 2)], numbers=4 * 27 * 2),
    row("Conv1DTranspose", (5, 4), 6, 3, strides=2, products=[product(4 * 5, 4, 3 * 6)], numbers=4 * 11 * 6),
    row("Conv2DTranspose", (5, 5, 4), 6, 2, strides=2, products=[product(4 * 25, 4, 4 * 6)], numbers=4 * 100 * 6),
    row("Conv3DTranspose", (2, 2, 2, 4), 3, 1, products=[product(4 * 8, 4, 3)], numbers=4 * 8 * 3),
    row("DepthwiseConv1D", (8, 3), 3, depth_multiplier=2, products=[product(4 * 6, 3, 2, 3)], numbers=4 * 6 * 6),
    row("DepthwiseConv2D", (8, 8, 3), 3, products=[product(4 * 36, 9, 1, 3)], numbers=4 * 36 * 3),
    row("SeparableConv1D", (8, 3), 5, 3, products=SEPARABLE_1D, numbers=24 * (3 + 5), launches=2),
    row("SeparableConv2D", (8, 8, 3), 5, 3, depth_multiplier=2, products=SEPARABLE_2D, numbers=144 * 11, launches=2),
    # A time step keeps four arrays of its gates, and its states.
    row("LSTM", (6, 5), 7, products=LSTM, numbers=24 * (4 * 4 + 2) * 7, launches=6),
    row("LSTM", (6, 5), 7, return_sequences=True, unroll=True, products=LSTM, numbers=24 * 18 * 7, launches=6),
    row("GRU", (6, 5), 7, products=GRU, numbers=24 * (4 * 3 + 1) * 7, launches=6),
    row("GRU", (6, 5), 7, reset_after=False, products=RESET, numbers=24 * 13 * 7, launches=6),
    row("SimpleRNN", (6, 5), 7, go_backwards=True, return_state=True, products=SIMPLE, numbers=24 * 5 * 7, launches=6),
    row("RNN", (6, 5), lambda on: on.LSTMCell(7), products=LSTM, numbers=24 * 18 * 7, launches=6),
    row("RNN", (6, 5), lambda on: [on.LSTMCell(7), on.GRUCell(3)], products=CELLS, numbers=KEPT_BY_CELLS, launches=12),
    row("MultiHeadAttention", ((6, 5), (8, 3)), 2, 7, 4, products=CROSS, numbers=CROSSED, launches=7),
    row("MultiHeadAttention", ((6, 5), (8, 3)), 2, 7, 4, 0.1, products=CROSS, numbers=CROSSED + SCORES, launches=7),
    row("MultiHeadAttention", (6, 3, 5), 2, 7, attention_axes=(2,), products=SECOND, numbers=KEPT_OVER, launches=7),
    row("GroupedQueryAttention", (6, 5), 7, 4, 2, products=GROUPED, numbers=REPEATED, launches=7),
    row("Dot", ((6, 5), (8, 5)), 2, products=[product(6, 5, 8, 4, fed=1, frozen=3)], numbers=4 * 6 * 8),
    # What multiplies nothing: an operation on all numbers, or none of its own.
    row("Activation", (8, 6), "tanh", numbers=4 * 48),
    row("Rescaling", (8, 6), 2.0, numbers=4 * 48),
    row("GroupNormalization", (8, 6), 2, numbers=4 * 48),
    row("Dropout", (8, 6), 0.0, numbers=0, launches=0),
    row("Reshape", (8, 6), (3, -1), numbers=0, launches=0),
    row("Permute", (8, 6), (2, 1), numbers=4 * 48, launches=0),
    row("RepeatVector", (6,), 3, numbers=4 * 18, launches=0),
    row("Concatenate", ((8, 6), (8, 6)), numbers=4 * 96, launches=0),
]
APPLIED = "ReLU LeakyReLU PReLU ELU Softmax Masking Normalization"
APPLIED += " BatchNormalization LayerNormalization UnitNormalization RMSNormalization"
ROWS += [row(kind, (8, 6), numbers=4 * 48) for kind in APPLIED.split()]
DROPPED = "Dropout AlphaDropout GaussianDropout GaussianNoise"
ROWS += [row(kind, (8, 6), 0.5, numbers=4 * 48, launches=0) for kind in DROPPED.split()]
JOINED = "Add Subtract Multiply Average Maximum Minimum"
ROWS += [row(kind, ((8, 6), (8, 6)), numbers=4 * 48, launches=0) for kind in JOINED.split()]
ROWS += [row(kind, (8, 6), numbers=0, launches=0) for kind in ("Flatten", "Identity", "ActivityRegularization")]
OF_EVERY_RANK = {  # its arguments, the side of what comes out of a side of 8, its operations
    "MaxPooling": ([2], 4, 1),
    "AveragePooling": ([2], 4, 1),
    "GlobalMaxPooling": ([], 1, 1),
    "GlobalAveragePooling": ([], 1, 1),
    "AdaptiveMaxPooling": ([2], 2, 1),
    "AdaptiveAveragePooling": ([2], 2, 1),
    "SpatialDropout": ([0.5], 8, 0),
    "ZeroPadding": ([1], 10, 0),
    "Cropping": ([1], 6, 0),
    "UpSampling": ([2], 16, 0),
}
ROWS += [
    row(f"{kind}{rank}D", (*[8] * rank, 6), *given, numbers=4 * side**rank * 6, launches=launches)
    for kind, (given, side, launches) in OF_EVERY_RANK.items()
    for rank in (1, 2, 3)
]
APART = {"InputLayer", "Sequential", "Functional", "TimeDistributed", "Bidirectional", "Embedding"}  # tested below
PUBLIC = {"GroupedQueryAttention": "GroupQueryAttention"}


def test_every_rule_has_a_row_or_a_test_of_its_own():
    assert {kind for kind, *_ in ROWS} | APART == {*LAYERS, *MADE_OF}


@pytest.mark.parametrize(("kind", "shape", "given", "options", "products", "numbers", "launches"), ROWS)
def test_a_layer_costs_what_was_counted_by_hand(
    kind, shape, given, options, products, numbers, launches, keras, layers
):
    """A product is computed once forward, and once back for each gradient that is needed; data need none."""
    for behind, frozen in itertools.product((False, True), (False, True) if products else (False,)):
        arguments = [each(layers) if callable(each) else each for each in given]
        layer = getattr(layers, PUBLIC.get(kind, kind))(*arguments, **options)
        inputs = [keras.Input(each) for each in (shape if isinstance(shape[0], tuple) else [shape])]
        starts = [layers.PReLU()(each) if behind else each for each in inputs]
        whole = starts if len(starts) > 1 else starts[0]
        outputs = layer(starts[0], starts[-1]) if "Attention" in kind else layer(whole)
        model = keras.Model(inputs, outputs[0] if isinstance(outputs, list | tuple) else outputs)
        layer.trainable = not frozen
        done = work(model, BATCH, "sgd")
        found, at = done.layers[-1].work, f"behind what is trained: {behind}, frozen: {frozen}"
        times = [(each.frozen if frozen else 3) if behind else (1 if frozen else each.fed) for each in products]
        pairs = list(zip(times, products, strict=True))
        assert done.layers[-1].kind == kind
        assert found.flops == sum(2 * each * one.multiplications for each, one in pairs), at
        assert found.product_bytes == sum(4 * each * one.numbers for each, one in pairs), at
        assert found.activation_bytes == 4 * numbers, at
        assert found.recurrent_bytes == (4 * numbers if kind in ("LSTM", "GRU", "SimpleRNN", "RNN") else 0), at
        assert found.launches == launches * (2 if behind or layer.trainable_weights else 1), at
        assert done.total.parameters == model.count_params()
        assert done.total.trained == sum(math.prod(each.shape) for each in model.trainable_weights)
        for name, value in vars(done.total).items():
            assert type(value) is int
            assert value == sum(getattr(each.work, name) for each in done.layers)


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("SimpleRNN", 0)])
def test_each_position_has_a_gradient_as_large_as_all_in_keras_own_loops(kind, gates, layers, stacked):
    def slices(*before, **options):
        return work(stacked((6, 5), *before, getattr(layers, kind)(7, **options)), BATCH, "sgd").total.slice_bytes

    assert slices() == 6 * (BATCH * 6) * gates * 7 * 4
    assert slices(recurrent_dropout=0.2) == slices(trainable=False) == slices(layers.Masking()) == 0


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_states_that_are_handed_in_need_their_gradient_where_the_layer_is_frozen(kind, keras, layers):
    """A frozen decoder over data, that begins where a trained encoder ends; of one state without a list around it."""
    source, target = keras.Input((6, 5)), keras.Input((8, 5))
    _, *states = getattr(layers, kind)(7, return_state=True)(source)
    decoder = getattr(layers, kind)(7, trainable=False, name="decoder")
    outputs = decoder(target, initial_state=states if kind == "LSTM" else states[0])
    found = work(keras.Model([source, target], outputs), BATCH, "sgd").layers[-1]
    columns = 7 * {"LSTM": 4, "GRU": 3}[kind]
    assert (found.name, found.work.launches) == ("decoder", 2 * 8)
    assert found.work.flops == 2 * (1 * BATCH * 8 * 5 * columns + 2 * 8 * BATCH * 7 * columns)


def test_bidirectional_is_two_layers_and_what_joins_them(layers, stacked):
    one = work(stacked((6, 5), layers.LSTM(7, return_sequences=True)), BATCH, "sgd")
    both = work(stacked((6, 5), layers.Bidirectional(layers.LSTM(7, return_sequences=True))), BATCH, "sgd")
    for name in ("parameters", "trained", "flops", "product_bytes", "launches", "update_bytes", "recurrent_bytes"):
        assert getattr(both.total, name) == 2 * getattr(one.total, name), name
    assert of(both, "Bidirectional") == Work(activation_bytes=4 * BATCH * 6 * 2 * 7)
    assert [layer.kind for layer in both.layers] == ["InputLayer", "LSTM", "LSTM", "Bidirectional"]
    apart = layers.Bidirectional(layers.GRU(7), merge_mode=None)
    assert of(work(stacked((6, 5), apart), BATCH, "sgd"), "Bidirectional").activation_bytes == 0


def test_over_time_is_the_layer_on_a_larger_batch(layers, stacked):
    for layer, sample in ((lambda: layers.Dense(7), (5,)), (lambda: layers.Conv1D(6, 3), (9, 5))):
        done = work(stacked((3, *sample), layers.TimeDistributed(layer())), BATCH, "sgd")
        assert done.total == work(stacked(sample, layer()), 3 * BATCH, "sgd").total


def test_over_time_a_model_may_stand_in_a_layers_place_and_gradients_pass_it(layers, stacked):
    inner = stacked((5,), layers.Dense(7, name="one"))
    model = stacked((3, 5), layers.PReLU(), layers.TimeDistributed(inner), layers.Dense(2, name="two"))
    found = {layer.name.rsplit("/")[-1]: layer.work for layer in work(model, BATCH, "sgd").layers}
    assert found["one"].flops == 3 * 2 * (BATCH * 3) * 5 * 7
    assert found["two"].flops == 3 * 2 * (BATCH * 3) * 7 * 2


@pytest.mark.parametrize(("trained", "launches", "times"), [(True, 2, 3), (False, 1, 2)])
def test_an_embedding_hands_on_rows_and_is_trained_whole_or_frozen(trained, launches, times, layers, stacked):
    table = layers.Embedding(100, 5, trainable=trained)
    done = work(stacked((6,), table, layers.Flatten(), layers.Dense(1), dtype="int32"), BATCH, "adam")
    found = of(done, "Embedding")
    assert (found.parameters, found.trained, found.flops) == (100 * 5, 100 * 5 * trained, 0)
    assert (found.activation_bytes, found.launches) == (4 * BATCH * 6 * 5, launches)
    assert (done.table_parameters, done.input_bytes) == (500 * trained, 4 * BATCH * 6)
    assert (done.total.parameters, done.total.trained) == (531, 500 * trained + 31)
    assert of(done, "Dense").flops == times * 2 * BATCH * 30  # three where a trained table lies before it


@pytest.mark.parametrize(("rows", "trained"), [(100, 24), (10, 10)])
def test_a_deferred_table_writes_the_rows_of_a_batch(rows, trained, layers, stacked):
    """The rest of the model is trained as by Keras' own Adam."""
    from traintime import deferred

    table, adam = deferred.Embedding(rows, 5), deferred.Adam()
    assert optimizers.of(adam) == optimizers.of("adam")
    model = stacked((6,), table, layers.Dense(1), dtype="int32")
    model.compile(adam, "mse")
    done = work(model, BATCH)
    found = of(done, "Embedding")
    assert (found.parameters, found.trained, done.table_parameters) == (rows * 5, trained * 5, 0)
    assert (found.update_flops, found.update_bytes) == (30 * trained * 5, trained * 5 * 4 * 8)
    assert done.total.parameters == rows * 5 + 6
    assert done.total.update_flops == found.update_flops + 12 * 6
    assert of(done, "Dense").flops == 3 * 2 * BATCH * 6 * 5
    table.trainable = False
    assert work(model, BATCH).total.trained == 6


def test_a_mask_waits_for_nobody(layers, stacked):
    plain, masked = (
        work(stacked((6,), layers.Embedding(9, 5, mask_zero=mask), layers.LSTM(3), dtype="int32"), BATCH, "sgd").total
        for mask in (False, True)
    )
    assert masked.activation_bytes == plain.activation_bytes + BATCH * 6
    assert (masked.launches, masked.flops) == (plain.launches, plain.flops)


def test_a_weight_that_is_frozen_by_itself_needs_no_product_for_its_gradient(keras, layers, stacked):
    separable = layers.SeparableConv2D(5, 3, depth_multiplier=2)
    query, value = keras.Input((6, 5)), keras.Input((8, 3))
    attention = layers.MultiHeadAttention(2, 7, value_dim=4, use_bias=False)
    biased = stacked((5,), layers.Dense(7), layers.Dense(2))
    models = stacked((8, 8, 3), separable), keras.Model([query, value], attention(query, value)), biased
    before = [work(model, BATCH, "sgd").total.flops for model in models]
    separable.depthwise_kernel.trainable = attention.query_dense.trainable = False
    for layer in biased.layers:
        layer.kernel.trainable = False
    less = [one - work(model, BATCH, "sgd").total.flops for one, model in zip(before, models, strict=True)]
    # The kernel's gradient and that of its result; the projection's, and that of the projected queries; both kernels'.
    assert less[0] == 2 * (product(144, 9, 2, 3).multiplications + product(144, 6, 5).multiplications)
    assert less[1] == 2 * (Q * 5 * 14 + SCORES * 7)
    assert less[2] == 2 * BATCH * (5 * 7 + 7 * 2)


# Operations of keras.ops


def test_operations_of_the_graph(keras, layers):
    inputs = keras.Input((6, 5))
    units = layers.Dense(5)(inputs)
    ops = keras.ops
    products = [ops.matmul(units, ops.transpose(inputs, (0, 2, 1))), ops.einsum("bid,bjd->bij", units, inputs)]
    for outputs in products:
        found = work(keras.Model(inputs, outputs), BATCH, "sgd").layers[-1].work
        assert (found.flops, found.launches) == (2 * 2 * BATCH * 6 * 6 * 5, 2)
        assert found.product_bytes == 2 * 4 * BATCH * (30 + 30 + 36)
    for outputs, numbers, launches in [
        (ops.relu(units), 30, 2),
        (keras.activations.gelu(units), 30, 2),
        (units * 2.0 + inputs, 2 * 30, 0),
        (ops.mean(units, axis=1), 5, 2),
        (units[:, -1], 5, 0),
        (ops.reshape(units, (-1, 5)), 0, 0),
        (ops.exp(ops.stop_gradient(units)), 30, 1),
        (ops.argmax(units, axis=-1), 6, 1),
    ]:
        done = work(keras.Model(inputs, outputs), BATCH, "sgd").layers[2:]
        assert sum(each.work.activation_bytes for each in done) == 4 * BATCH * numbers
        assert sum(each.work.launches for each in done) == launches


def test_every_operation_of_the_table_exists():
    from keras.src import activations, ops

    homes = (ops.numpy, ops.nn, ops.core, ops.math, ops.linalg, activations.activations)
    assert {name for name in OPERATIONS if not any(hasattr(home, name) for home in homes)} == set()


# Whole models


def test_a_shared_layer_is_computed_each_time_and_its_weights_are_there_once(keras, layers, stacked):
    """By itself, and in a model that is used twice."""
    one, two = keras.Input((5,), name="one"), keras.Input((5,), name="two")
    shared = layers.Dense(7)
    done = work(keras.Model([one, two], layers.Add()([shared(one), shared(layers.PReLU()(two))])), BATCH, "adam")
    found = of(done, "Dense")
    assert (found.parameters, found.flops, found.launches) == (6 * 7, (2 + 3) * 2 * BATCH * 5 * 7, 2 * 2)
    inner = stacked((5,), layers.Dense(7))
    model = keras.Model({"one": one, "two": two}, layers.Add()([inner(one), inner(two)]))
    done = work(model, BATCH, "adam").total
    assert (done.parameters, done.flops) == (6 * 7, 2 * 2 * 2 * BATCH * 5 * 7)


def test_a_model_inside_a_model_is_its_layers(keras, layers, stacked):
    def encoder():
        return [layers.Dense(7, name="one"), layers.BatchNormalization(name="two")]

    flat = work(stacked((5,), *encoder(), layers.Dense(2)), BATCH, "adam")
    inner = stacked((5,), *encoder())
    inputs = keras.Input((5,))
    deep = keras.Model(inputs, inner(inputs), name="deep")
    again = keras.Input((5,))
    done = work(keras.Model(again, layers.Dense(2)(deep(again))), BATCH, "adam")
    assert done.total == flat.total
    assert [layer.name for layer in done.layers][1:3] == [f"deep/{inner.name}/one", f"deep/{inner.name}/two"]


def test_a_gradient_goes_as_far_as_something_is_trained(layers, stacked):
    """Past a frozen layer to what is trained before it; not into a frozen model, as in fine-tuning."""
    done = work(stacked((5,), layers.Dense(7), layers.Dense(6, trainable=False), layers.Dense(2)), BATCH, "adam").total
    assert (done.flops, done.launches) == (2 * BATCH * (2 * 5 * 7 + 2 * 7 * 6 + 3 * 6 * 2), 2 * 3)
    inner = stacked((5,), layers.Dense(7), layers.BatchNormalization(), layers.Dense(6))
    inner.trainable = False
    done = work(stacked((5,), inner, layers.Dense(2)), BATCH, "adam").total
    assert (done.parameters, done.trained) == (6 * 7 + 4 * 7 + 8 * 6 + 7 * 2, 7 * 2)
    assert (done.flops, done.launches) == (2 * BATCH * (5 * 7 + 7 * 6) + 2 * 2 * BATCH * 6 * 2, 3 + 2)


def test_weights_that_no_layer_of_the_graph_has_are_parameters_that_no_step_trains(layers, stacked):
    model = stacked((5,), layers.Dense(7))._functional
    model.unused = layers.Dense(3)
    model.unused.build((None, 5))
    done = work(model, BATCH, "adam").total
    assert (done.parameters, done.trained) == (6 * 7 + 6 * 3, 6 * 7)
    assert done.parameters == model.count_params()


def test_the_model_is_left_as_it_was(keras, layers, stacked):
    inner = stacked((6, 5), layers.TimeDistributed(layers.Dense(7)), layers.Bidirectional(layers.GRU(3)))
    inputs = keras.Input((6, 5))
    model = keras.Model(inputs, layers.Dense(2)(inner(inputs)) * 2.0)

    def nodes():
        every = [*model.operations, *inner._functional.operations]
        return [(len(each._inbound_nodes), len(each._outbound_nodes)) for each in every]

    before = nodes()
    assert work(model, BATCH, "adam") == work(model, BATCH, "adam")
    assert nodes() == before


def test_keras_is_not_imported_before_a_model_is_there():
    loaded = "{'keras', 'tensorflow', 'jax', 'torch'} & {*sys.modules}"
    script = f"import sys; import traintime.predict.work.graph; print({loaded})"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "set()\n"


def test_half_precision_hands_on_half_the_bytes_and_updates_as_many(keras, layers):
    def model(policy):
        inputs = keras.Input((6, 5))
        outputs = layers.LSTM(7, dtype=policy)(layers.Dense(5, dtype=policy)(inputs))
        return keras.Model(inputs, layers.Dense(2, dtype=policy)(outputs))

    full, half = (work(model(policy), BATCH, "adam") for policy in ("float32", "mixed_bfloat16"))
    inputs = 4 * BATCH * 6 * 5
    assert half.total.activation_bytes - inputs == (full.total.activation_bytes - inputs) / 2
    assert (half.compute_dtype, full.compute_dtype) == ("bfloat16", "float32")
    assert ModelDescription.from_model(model("mixed_bfloat16"), BATCH, "adam", None).dtype == "bfloat16"
    for name in ("flops", "product_bytes", "update_bytes", "launches"):
        assert getattr(half.total, name) == getattr(full.total, name)


# What else is read off a model


def test_a_forward_pass_is_the_same_whatever_is_trained(layers, stacked):
    def forward(trainable):
        below = [layers.LSTM(7, trainable=trainable), layers.Dense(3, trainable=trainable), layers.Dense(2)]
        return work(stacked((6, 5), *below), BATCH, "adam").forward

    found = forward(True)
    assert found == forward(False)
    products = [*LSTM, product(BATCH, 7, 3), product(BATCH, 3, 2)]
    assert found.flops == 2 * sum(each.multiplications for each in products)
    assert found.product_bytes == 4 * sum(each.numbers for each in products)
    assert found.launches == 6 + 1 + 1
    assert (found.trained, found.update_flops, found.update_bytes) == (0, 0, 0)


@pytest.mark.parametrize(
    ("loss", "bytes_of_a_target"),
    [
        ("categorical_crossentropy", 4 * 6 * 9 + 4 * 6 * 2),
        (["sparse_categorical_crossentropy", None], 4 * 6),
        ({"words": "sparse_categorical_crossentropy", "pair": "mse"}, 4 * 6 + 4 * 6 * 2),
        (None, 0),
    ],
)
def test_a_sample_is_its_inputs_and_what_its_losses_take(loss, bytes_of_a_target, keras, layers):
    inputs = keras.Input((None, 5))
    outputs = [layers.Dense(9, name="words")(inputs), layers.Dense(2, name="pair")(inputs)]
    named = dict(zip(("words", "pair"), outputs, strict=True))
    model = keras.Model(inputs, named if isinstance(loss, dict) else outputs)
    model.compile("sgd", loss)
    found = ModelDescription.from_model(model, BATCH, length=6)
    assert found.sample_bytes == 4 * 6 * 5 + bytes_of_a_target


@pytest.mark.parametrize("field", [None, "run_eagerly", "jit_compile"])
def test_a_step_that_is_run_in_another_way_has_no_known_cost(field, keras, layers, stacked):
    model, usual = stacked((5,), layers.Dense(2)), keras.backend.backend() == "jax"
    if keras.backend.backend() == "torch" and field == "run_eagerly":
        pytest.skip("torch compiles no step")
    how = {"run_eagerly": True, "jit_compile": not usual}
    model.compile("sgd", "mse", **({field: how[field]} if field else {}))
    found = ModelDescription.from_model(model, BATCH)
    assert (found.unpriced or (None,))[0] == field
    if field is None:
        found.refuse_unpriced()
    else:
        with pytest.raises(InputError, match=f"{field}: .* has no known cost"):
            estimate(model, samples=100, batch_size=BATCH, tier="formula", device="K40m")


TABLES = {  # arguments of Adam and of the table -> whether the deferred pair would take their place
    "adam": ({}, {}, True),
    "other means": ({"beta_1": 0.8}, {}, True),
    "amsgrad": ({"amsgrad": True}, {}, False),
    "weight decay": ({"weight_decay": 0.01}, {}, False),
    "clipped": ({"clipnorm": 1.0}, {}, False),
    "averaged": ({"use_ema": True}, {}, False),
    "decays alike": ({"beta_2": 0.95}, {}, False),
    "accumulated": ({"gradient_accumulation_steps": 4}, {}, False),
    "regularized": ({}, {"embeddings_regularizer": "l2"}, False),
    "constrained": ({}, {"embeddings_constraint": "non_neg"}, False),
    "shared": ({}, {}, False),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_deferred_table_is_advice_where_it_would_train(name, keras, layers, monkeypatch):
    arguments, table, deferrable = TABLES[name]
    embedding = layers.Embedding(300_000, 8, **table)
    inputs = [keras.Input((6,), dtype="int32") for _ in range(2)]
    other = embedding if name == "shared" else layers.Embedding(10, 8)
    rows = [layers.Flatten()(each(tokens)) for each, tokens in zip((embedding, other), inputs, strict=True)]
    model = keras.Model(inputs, layers.Dense(1)(layers.Concatenate()(rows)))
    model.compile(keras.optimizers.Adam(**arguments), "mse")
    found = ModelDescription.from_model(model, BATCH)
    assert bool(found.row_by_row) == deferrable
    told = advice.PricedWork(found, prices.of_rates("x", Rates(1e11, 2e10), found.stack), {})
    assert any("deferred" in one.what for one in advice.helps(told, BATCH)) == deferrable
    monkeypatch.setattr(process, "gpu_peak", lambda backend: 1)
    assert not ModelDescription.from_model(model, BATCH).row_by_row  # nobody has measured it there


# The workloads: one currency


def model_of(point):
    """The Keras 3 model that the worker trains."""
    path = workloads.get(point.workload).folder / "on_keras3.py"
    spec = importlib.util.spec_from_file_location(f"on_keras3_of_{point.workload}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.model(point.sizes.model_dump(), point.run.model_dump())


def of_point(workload, **sizes):
    """The walk's work of a workload's model, and its closed form."""
    point = make_point(workload, **workloads.get(workload).small | sizes)
    return work(model_of(point), point.sizes.batch, point.sizes.optimizer).total, point.work


# Of the small rnn: B = 10, L = 6, E = 16, U = 8; its closed form leaves out the dense layer's product. Token ids and
# the dense layer's numbers more, each row's once instead of twice; no dropout at a rate of 0.
KEPT = 4 * (10 * 6 + 10 * 1 - 16 * 10 * 6)
RNN = {"flops": 3 * 2 * 10 * 8 * 1, "product_bytes": 3 * 4 * (10 * 8 + 8 * 1 + 10 * 1), "activation_bytes": KEPT}
FROZEN = {  # no gradient of the rows, none of the table
    "flops": RNN["flops"] - 2 * 60 * 16 * 32,
    "product_bytes": RNN["product_bytes"] - 4 * (60 * 16 + 16 * 32 + 60 * 32),
    "launches": -1,
}


@pytest.mark.parametrize(
    ("workload", "sizes", "more"),
    [
        *[("dense", {"optimizer": name}, {}) for name in ("adam", "sgd", "momentum", "rmsprop")],
        ("dense", {"layers": 1}, {}),
        ("convnet", {}, {}),
        ("convnet", {"side": 9, "window": 2}, {}),
        *[("blocks", {"structure": name}, {}) for name in ("plain", "residual", "dense", "aggregated")],
        ("blocks", {"structure": "plain", "shared": True}, {}),
        ("blocks", {"relu": False}, {}),
        # The dense layer hands on one number a sample.
        *[("lstm", {"algorithm": name}, {"activation_bytes": 4 * 10}) for name in ("default", "per-gate", "unrolled")],
        ("rnn", {}, RNN),
        ("rnn", {"dropout": 0.5}, RNN | {"activation_bytes": KEPT + 4 * 10 * 8}),
        ("rnn", {"mask": True, "words": 3}, RNN | {"activation_bytes": KEPT + 10 * 6}),  # the mask: one byte a token
        ("rnn", {"factor": 4}, RNN | {"launches": 2}),  # the matrix that widens
        ("rnn", {"frozen": True}, RNN | FROZEN),
    ],
)
def test_a_workloads_model_comes_out_as_its_closed_form_or_as_much_more_as_told(workload, sizes, more, keras):
    found, closed = map(vars, of_point(workload, **sizes))
    assert {name: value - closed[name] for name, value in found.items() if value != closed[name]} == more


def test_an_lstm_that_is_one_operation_is_unknown(keras):
    with pytest.raises(UnknownLayer, match=r"Native: inner_loop is not that of LSTM"):
        of_point("lstm", algorithm="native")


# Optimizers

KINDS = ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "Nadam", "Adamax", "Lion", "Ftrl"]
OF_ADAM = {"amsgrad": True, "use_ema": True, "gradient_accumulation_steps": 4}
OF_ADAM |= {"clipnorm": 1.0, "global_clipnorm": 1.0, "clipvalue": 1.0}
CONFIGURED = [(name, {}) for name in KINDS] + [("Adam", {name: value}) for name, value in OF_ADAM.items()]
CONFIGURED += [("SGD", {"nesterov": True}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True})]
CONFIGURED += [("RMSprop", {"momentum": 0.9}), ("RMSprop", {"centered": True})]
configured = [f"{name}-{'-'.join(given)}" for name, given in CONFIGURED]


@pytest.mark.parametrize(("name", "given"), CONFIGURED, ids=configured)
def test_the_slots_of_an_optimizer_are_those_that_it_makes(name, given, keras):
    optimizer = getattr(keras.optimizers, name)(**given)
    update = optimizers.of(optimizer)
    optimizer.build([keras.Variable("zeros", shape=(3, 5))])
    made = [each for each in optimizer.variables if tuple(each.shape) == (3, 5)]
    assert update.slots == len(made) - (update.accumulated > 1)
    assert optimizers._slots_made(optimizer) == update.slots


@pytest.mark.parametrize("name", optimizers.NAMED)
def test_an_optimizers_name_stands_for_its_usual_arguments(name, keras):
    made = keras.optimizers.SGD(momentum=0.9) if name == "momentum" else keras.optimizers.get(name)
    assert optimizers.of(name.upper()) == optimizers.of(made)


def test_a_norm_is_known_when_all_gradients_have_been_read(keras):
    plain, clipped = (optimizers.of(keras.optimizers.Adam(global_clipnorm=norm)) for norm in (None, 1.0))
    assert clipped.bytes == plain.bytes + 4
    scaled = optimizers.of(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()))
    assert (scaled.slots, scaled.bytes, scaled.flops) == (2, plain.bytes + 4, plain.flops + 1)


def test_an_optimizer_of_ones_own_is_asked_for_its_variables(keras):
    class Mine(keras.optimizers.Adam):
        def build(self, variables):
            super().build(variables)
            self.third = self.add_optimizer_variables(variables, "third")

    assert optimizers.of(Mine()) == Update(3, 2 + 5 * 3)
    assert optimizers.of(keras.optimizers.Lamb()) == Update(2, 12)
    assert optimizers.of(Mine(use_ema=True, gradient_accumulation_steps=3)) == Update(4, 22, accumulated=3)


def test_an_optimizer_that_is_none_or_cannot_be_made_again_is_refused(keras):
    class Mine(keras.optimizers.SGD):
        def __init__(self, needed, **given):
            super().__init__(**given)

    for given, problem in ((Mine(1), "cannot be asked"), ("adan", "is not a known"), (7, "is no Keras 3 optimizer")):
        with pytest.raises(InputError, match=problem) as caught:
            optimizers.of(given)
        assert caught.value.field == "optimizer"


def test_the_compiled_models_optimizer_is_taken(keras, layers, stacked):
    model = stacked((5,), layers.Dense(7))
    with pytest.raises(InputError, match=r"^optimizer: None is known of no model.*model.compile.*optimizer="):
        work(model, BATCH)
    model.compile(keras.optimizers.SGD(momentum=0.9), "mse")
    assert work(model, BATCH).total == work(model, BATCH, "momentum").total
    assert work(model, BATCH, "sgd").total.update_bytes == 42 * UPDATES["sgd"].bytes


# What is refused


def test_unknown_layers_are_all_named(keras, layers, stacked):
    class Twice(layers.Layer):
        def call(self, inputs):
            return 2 * inputs

    inner = stacked((5,), layers.Dense(5), Twice(name="twice"), layers.Lambda(lambda x: x, name="same"))
    outputs = keras.ops.fft((inner.outputs[0], inner.outputs[0]))[0]
    model = keras.Model(inner.inputs, outputs)
    with pytest.raises(UnknownLayer) as caught:
        work(model, BATCH, "sgd")
    assert list(caught.value.layers.values()) == ["Twice", "Lambda", "FFT"]
    sent = pickle.loads(pickle.dumps(caught.value))  # as from another process
    assert (type(sent), str(sent), vars(sent)) == (UnknownLayer, str(caught.value), vars(caught.value))
    nested = stacked((3, 5), layers.TimeDistributed(inner))
    with pytest.raises(UnknownLayer, match=r"/twice \(Twice\); .*/same \(Lambda\)"):
        work(nested, BATCH, "sgd")


def test_what_computes_in_a_way_of_its_own_is_an_unknown_layer(keras, layers, stacked):
    class Wide(layers.Dense):
        """Computes nothing else: known."""

        def __init__(self, units, **given):
            super().__init__(2 * units, **given)

        def get_config(self):
            return super().get_config()

        def half(self):
            return self.units // 2

    class Shifted(layers.Dense):
        def call(self, inputs):
            return super().call(inputs) + 1

    class Convolved(layers.Conv1D):
        def convolution_op(self, inputs, kernel):
            return super().convolution_op(inputs, kernel * 2)

    class Mixed:
        def call(self, inputs):
            return inputs

    class Foreign(Mixed, layers.Dense):
        pass

    class Cell(layers.GRUCell):
        def call(self, inputs, states, training=False):
            return super().call(inputs, states, training)

    class Own(keras.Model):
        def call(self, inputs):
            return inputs

    assert of(work(stacked((5,), Wide(7)), BATCH, "sgd"), "Wide").flops == 2 * 2 * BATCH * 5 * 14
    dense = layers.Dense(7)
    lora = stacked((5,), dense)
    dense.enable_lora(2)  # after it was made
    with keras.RematScope(mode="full"):
        again = layers.Dense(7)
    x = keras.Input((6, 5))
    for model, why in [
        (stacked((5,), Shifted(7)), "Shifted: call is not that of Dense"),
        (stacked((5, 5), Convolved(7, 3)), "Convolved: convolution_op is not that of Conv1D"),
        (stacked((5,), Foreign(7)), "Foreign: call is not that of Dense"),
        (lora, "Dense with LoRA"),
        (stacked((5,), again), "computed again on the way back"),
        (stacked((6, 5), layers.RNN([layers.LSTMCell(3), Cell(3)])), "RNN of Cell"),
        (keras.Model(x, keras.ops.einsum("bij,bij,bij->bi", x, x, x)), "Einsum bij,bij,bij->bi"),
        (keras.Model(x, layers.Dense(2)(Own()(x))), r"own.* \(Own\)"),
    ]:
        with pytest.raises(UnknownLayer, match=why):
            work(model, BATCH, "sgd")


def test_a_model_that_is_no_graph_is_refused_with_what_to_do(keras, layers):
    class Own(keras.Model):
        def __init__(self):
            super().__init__(name="own")
            self.dense = layers.Dense(2)

        def call(self, inputs):
            return self.dense(inputs)

    class Stepping(keras.Model):
        def train_step(self, *given):
            return super().train_step(*given)

    class Graph(keras.Model):
        def __init__(self):
            inputs = keras.Input((5,))
            super().__init__(inputs, layers.Dense(2)(inputs))

    inputs = keras.Input((5,))
    loose = keras.Sequential([layers.Dense(7)], name="loose")
    for model, message in [
        (Own(), r"^model: .*of its own.*tier='probed'"),
        (Stepping(inputs, layers.Dense(2)(inputs)), r"^model: .*of its own.*tier='probed'"),
        ("own", "is no Keras 3 model"),
        (loose, r"^model: 'loose' is not built.*model.build\(input_shape\).*keras.Input"),
    ]:
        with pytest.raises(InputError, match=message) as caught:
            work(model, BATCH, "sgd")
        assert not isinstance(caught.value, UnknownLayer)
    assert work(Graph(), BATCH, "sgd").total.parameters == 12
    loose.build((None, 5))
    assert work(loose, BATCH, "sgd").total.parameters == 6 * 7


def test_a_length_stands_for_the_first_unknown_dimension(layers, stacked):
    def model(*shape):
        """An einsum that was made for any length among its layers."""
        return stacked(shape, layers.EinsumDense("abc,cd->abd", (None, 7)), layers.LSTM(3))

    found = work(model(None, 5), BATCH, "sgd", length=6)
    assert of(found, "EinsumDense").flops == 2 * 2 * BATCH * 6 * 5 * 7
    assert found.total == work(model(6, 5), BATCH, "sgd").total


@pytest.mark.parametrize(
    ("shape", "given", "message"),
    [
        ((None, 5), {}, r"^input \S+: '\(None, None, 5\)' has a dimension.*length="),
        ((None, None), {"length": 8}, "stands for the first unknown one alone"),
        ((6, 5), {"length": 6}, r"^length: 6 finds no unknown dimension in \(None, 6, 5\). Leave it out"),
        ((None, 5), {"length": 0}, "^length: 0 is no length"),
        ((None, 5), {"length": 2}, r"^conv1d\S*: '\(4, 2, 5\)' is nothing that it can take"),
        *[((6, 5), {"batch_size": batch}, "^batch_size: .* is no number of samples") for batch in (0, 2.0, True, "4")],
    ],
)
def test_a_shape_that_is_unknown_or_impossible_is_refused(shape, given, message, layers, stacked):
    model = stacked(shape, layers.ReLU() if shape[-1] is None else layers.Conv1D(4, 3))
    with pytest.raises(InputError, match=message):
        work(model, **{"batch_size": BATCH, "optimizer": "sgd"} | given)


def test_a_batch_that_the_model_fixes_is_kept(keras, layers):
    inputs = keras.Input((5,), batch_size=3)
    model = keras.Model(inputs, layers.Dense(7)(inputs))
    assert work(model, 3, "sgd").total.flops == 2 * 2 * 3 * 5 * 7
    with pytest.raises(InputError, match=r"^batch_size: 4 is not the 3 that input"):
        work(model, 4, "sgd")


# Another's count: XLA's cost analysis of the forward pass, and of the update

COUNTED = """
import json, math, jax, keras, numpy as np
from keras import layers
from traintime.predict.work import optimizers
from traintime.predict.work.graph import work

# No values are needed, and drawing them would be compiled anew for each shape.
for each in (keras.initializers.GlorotUniform, keras.initializers.Orthogonal):
    each.__call__ = lambda self, shape, dtype=None, **given: np.zeros(shape, "float32")
BATCH, found = 8, {"forward": {}, "update": {}}
inputs = keras.Input((20, 32))
models = {
    "attention": keras.Model(inputs, layers.MultiHeadAttention(4, 8)(inputs, inputs)),
    "grouped": keras.Model(inputs, layers.GroupQueryAttention(8, 4, 2)(inputs, inputs)),
}
for name, shape, layer in [
    ("Dense", (64,), layers.Dense(48)),
    ("EinsumDense", (5, 64), layers.EinsumDense("abc,cde->abde", (5, 4, 12))),
    ("Conv1D", (30, 16), layers.Conv1D(24, 5)),
    ("Conv2D", (13, 13, 16), layers.Conv2D(24, 3, strides=2)),
    ("groups", (12, 12, 16), layers.Conv2D(24, 3, groups=4)),
    ("DepthwiseConv2D", (12, 12, 16), layers.DepthwiseConv2D(3, depth_multiplier=2)),
    ("SeparableConv2D", (12, 12, 16), layers.SeparableConv2D(24, 3)),
    ("Conv2DTranspose", (6, 6, 16), layers.Conv2DTranspose(24, 2, strides=2)),
    ("LSTM", (3, 32), layers.LSTM(24, unroll=True)),
    ("GRU", (3, 32), layers.GRU(24, unroll=True)),
    ("SimpleRNN", (3, 32), layers.SimpleRNN(24, unroll=True)),
]:
    models[name] = keras.Sequential([keras.Input(shape), layer])
for name, model in models.items():
    model.trainable = False  # the forward pass is then all that is counted
    sample = np.ones((BATCH, *model.inputs[0].shape[1:]), "float32")
    counted = jax.jit(model).lower(sample).cost_analysis()["flops"]
    own = work(model, BATCH, "sgd").total
    found["forward"][name] = [counted, own.flops, own.activation_bytes / 4]
for number, (name, given) in enumerate(CONFIGURED):
    optimizer = getattr(keras.optimizers, name)(**given)
    if given.get("gradient_accumulation_steps"):
        continue
    variable = keras.Variable(np.ones((100, 100), "float32"))
    optimizer.build([variable])
    arguments = [each.value for each in optimizer.variables], [variable.value], [variable.value]
    costs = jax.jit(optimizer.stateless_apply).lower(*arguments).cost_analysis()
    each = (costs["flops"] + costs.get("transcendentals", 0)) / 100**2
    found["update"][f"{number} {name} {given}"] = [each, optimizers.of(optimizer).flops]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def counted():
    """XLA's counts and ours; in a process of its own, since Keras has one backend a process."""
    pytest.importorskip("jax")
    script = f"CONFIGURED = {CONFIGURED!r}\n{dedent(COUNTED)}"
    environment = dict(os.environ, KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_forward_pass_has_as_many_operations_as_xla_counts(counted):
    """But for the element-wise ones, which are no products: a few for each number that is handed on."""
    assert len(counted["forward"]) == 13
    for name, (theirs, ours, numbers) in counted["forward"].items():
        assert 0 <= theirs - ours <= 3 * numbers, name
        assert theirs - ours < 0.1 * theirs, name


def test_an_update_has_as_many_operations_as_xla_counts(counted):
    assert len(counted["update"]) == len(CONFIGURED) - 1
    for name, (theirs, ours) in counted["update"].items():
        assert round(theirs) == ours, name
