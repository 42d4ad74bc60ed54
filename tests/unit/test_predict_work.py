"""The work of a Keras model: each layer against arithmetic written out, against the workloads, and against XLA."""

import importlib.util
import json
import math
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from textwrap import dedent

import pytest

from traintime import workloads
from traintime.errors import InputError
from traintime.point import make_point
from traintime.predict import advice, prices, resident
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


# Each product: rows × inner by inner × columns, so many times


def product(rows, inner, columns, copies=1):
    return copies * rows * inner * columns, copies * (rows * inner + inner * columns + rows * columns)


# Shape of a sample, the layer, its products, and numbers that it hands on, of 4 samples
PRODUCTS = [
    ((5,), lambda on: on.Dense(7), product(4, 5, 7), 4 * 7),
    ((3, 5), lambda on: on.Dense(7, "relu"), product(4 * 3, 5, 7), 4 * 3 * 7),
    ((3, 5), lambda on: on.EinsumDense("abc,cd->abd", (3, 7)), product(12, 5, 7), 12 * 7),
    ((3, 5), lambda on: on.EinsumDense("...c,cd->...d", (7,)), product(12, 5, 7), 12 * 7),
    ((3, 2, 5), lambda on: on.EinsumDense("abhc,hcd->abd", (3, 7)), product(12, 2 * 5, 7), 12 * 7),
    ((10, 5), lambda on: on.Conv1D(6, 3), product(4 * 8, 3 * 5, 6), 4 * 8 * 6),
    ((10, 5), lambda on: on.Conv1D(6, 3, padding="causal"), product(4 * 10, 15, 6), 4 * 10 * 6),
    ((9, 9, 2), lambda on: on.Conv2D(6, (3, 2), strides=2, padding="same"), product(4 * 25, 3 * 2 * 2, 6), 4 * 25 * 6),
    ((2, 9, 9), lambda on: on.Conv2D(6, 3, data_format="channels_first"), product(4 * 49, 9 * 2, 6), 4 * 49 * 6),
    ((8, 8, 4), lambda on: on.Conv2D(6, 3, groups=2, dilation_rate=2), product(4 * 16, 9 * 2, 3, 2), 4 * 16 * 6),
    ((4, 4, 4, 3), lambda on: on.Conv3D(2, 2), product(4 * 27, 8 * 3, 2), 4 * 27 * 2),
    ((5, 4), lambda on: on.Conv1DTranspose(6, 3, strides=2), product(4 * 5, 4, 3 * 6), 4 * 11 * 6),
    ((5, 5, 4), lambda on: on.Conv2DTranspose(6, 2, strides=2), product(4 * 25, 4, 4 * 6), 4 * 100 * 6),
    ((2, 2, 2, 4), lambda on: on.Conv3DTranspose(3, 1), product(4 * 8, 4, 3), 4 * 8 * 3),
    ((8, 3), lambda on: on.DepthwiseConv1D(3, depth_multiplier=2), product(4 * 6, 3, 2, 3), 4 * 6 * 6),
    ((8, 8, 3), lambda on: on.DepthwiseConv2D(3), product(4 * 36, 9, 1, 3), 4 * 36 * 3),
]


@pytest.mark.parametrize(("shape", "layer", "counted", "handed_on"), PRODUCTS)
def test_a_product_is_counted_once_forward_and_once_for_each_gradient_that_is_needed(
    shape, layer, counted, handed_on, layers, stacked
):
    multiplications, numbers = counted

    def one(times, launches, *before, frozen=False):
        own = layer(layers)
        own.trainable = not frozen
        found = of(work(stacked(shape, *before, own), BATCH, "sgd"), type(own).__name__)
        assert (found.flops, found.product_bytes) == (times * 2 * multiplications, times * 4 * numbers)
        assert found.activation_bytes == 4 * handed_on
        assert found.launches == launches

    one(2, 2)  # data need no gradient
    one(3, 2, layers.PReLU())
    one(2, 2, layers.PReLU(), frozen=True)  # that of its input alone
    one(1, 1, frozen=True)
    one(1, 1, layers.PReLU(trainable=False), layers.ReLU(), frozen=True)


def test_a_separable_convolution_is_two_one_after_the_other(layers, stacked):
    found = of(work(stacked((8, 8, 3), layers.SeparableConv2D(5, 3, depth_multiplier=2)), BATCH, "sgd"), SEPARABLE)
    depthwise, pointwise = product(BATCH * 36, 9, 2, copies=3), product(BATCH * 36, 6, 5)
    assert found.flops == 2 * 2 * depthwise[0] + 3 * 2 * pointwise[0]
    assert found.product_bytes == 4 * (2 * depthwise[1] + 3 * pointwise[1])
    assert found.activation_bytes == 4 * BATCH * 36 * (6 + 5)
    assert found.launches == 2 * 2
    # half frozen: no gradient of the depthwise kernel, none of its result
    layer = layers.SeparableConv2D(5, 3, depth_multiplier=2)
    model = stacked((8, 8, 3), layer)
    layer.depthwise_kernel.trainable = False
    assert of(work(model, BATCH, "sgd"), SEPARABLE).flops == 1 * 2 * depthwise[0] + 2 * 2 * pointwise[0]


SEPARABLE = "SeparableConv2D"


# Recurrent layers, of 6 positions of 5 numbers, 7 units


@pytest.mark.parametrize(
    ("kind", "gates", "states", "options"),
    [
        ("LSTM", 4, 2, {}),
        ("LSTM", 4, 2, {"return_sequences": True, "unroll": True}),
        ("GRU", 3, 1, {}),
        ("SimpleRNN", 1, 1, {"go_backwards": True, "return_state": True}),
    ],
)
def test_a_recurrent_layer_multiplies_all_inputs_at_once_and_its_states_in_turn(
    kind, gates, states, options, keras, layers
):
    inputs = keras.Input((6, 5))
    first = layers.PReLU()(inputs)
    inner, state = product(BATCH * 6, 5, gates * 7), product(BATCH, 7, gates * 7, copies=6)

    def one(start, trainable=True):
        outputs = getattr(layers, kind)(7, trainable=trainable, **options)(start)
        outputs = outputs[0] if isinstance(outputs, list | tuple) else outputs
        return of(work(keras.Model(inputs, outputs), BATCH, "sgd"), kind)

    for found, of_inputs, of_states in [
        (one(inputs), 2, 3),
        (one(first), 3, 3),
        (one(first, trainable=False), 2, 2),
        (one(inputs, trainable=False), 1, 1),
    ]:
        assert found.flops == 2 * (of_inputs * inner[0] + of_states * state[0])
        assert found.product_bytes == 4 * (of_inputs * inner[1] + of_states * state[1])
        assert found.activation_bytes == found.recurrent_bytes == 4 * (4 * gates + states) * 7 * BATCH * 6
        assert found.launches == 6 * (1 if of_inputs == of_states == 1 else 2)


def test_a_gru_that_resets_first_has_two_products_of_a_state(layers, stacked):
    found = of(work(stacked((6, 5), layers.GRU(7, reset_after=False)), BATCH, "sgd"), "GRU")
    pieces = product(BATCH, 7, 14, copies=6), product(BATCH, 7, 7, copies=6)
    inner = product(BATCH * 6, 5, 21)
    assert found.flops == 2 * (2 * inner[0] + 3 * (pieces[0][0] + pieces[1][0]))
    assert found.product_bytes == 4 * (2 * inner[1] + 3 * (pieces[0][1] + pieces[1][1]))


@pytest.mark.parametrize("names", [["LSTM"], ["GRU"], ["SimpleRNN"], ["LSTM", "GRU"]], ids="-".join)
def test_layers_of_cells_are_the_layers_of_those_names(names, layers, stacked):
    cells = [getattr(layers, f"{name}Cell")(units) for name, units in zip(names, (7, 3), strict=False)]
    found = work(stacked((6, 5), layers.RNN(cells if cells[1:] else cells[0])), BATCH, "sgd").total
    *first, last = [(getattr(layers, name), units) for name, units in zip(names, (7, 3), strict=False)]
    apart = [layer(units, return_sequences=True) for layer, units in first]
    assert found == replace(work(stacked((6, 5), *apart, last[0](last[1])), BATCH, "sgd").total, slice_bytes=0)


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("SimpleRNN", 0)])
def test_each_position_has_a_gradient_as_large_as_all_in_keras_own_loops(kind, gates, layers, stacked):
    def slices(**options):
        return work(stacked((6, 5), getattr(layers, kind)(7, **options)), BATCH, "sgd").total.slice_bytes

    assert slices() == 6 * (BATCH * 6) * gates * 7 * 4
    assert slices(recurrent_dropout=0.2) == slices(trainable=False) == 0
    masked = [layers.Masking(), getattr(layers, kind)(7)]
    assert work(stacked((6, 5), *masked), BATCH, "sgd").total.slice_bytes == 0


def test_states_that_are_handed_in_need_their_gradient_where_the_layer_is_frozen(keras, layers):
    """A frozen decoder over data, that begins where a trained encoder ends."""
    source, target = keras.Input((6, 5)), keras.Input((8, 5))
    _, *states = layers.LSTM(7, return_state=True)(source)
    decoder = layers.LSTM(7, trainable=False, name="decoder")
    model = keras.Model([source, target], decoder(target, initial_state=states))
    found = next(layer for layer in work(model, BATCH, "sgd").layers if layer.name == "decoder")
    assert found.work.flops == 2 * (1 * BATCH * 8 * 5 * 28 + 2 * 8 * BATCH * 7 * 28)


def test_bidirectional_is_two_layers_and_what_joins_them(layers, stacked):
    one = work(stacked((6, 5), layers.LSTM(7, return_sequences=True)), BATCH, "sgd")
    both = work(stacked((6, 5), layers.Bidirectional(layers.LSTM(7, return_sequences=True))), BATCH, "sgd")
    for name in ("parameters", "trained", "flops", "product_bytes", "launches", "update_bytes"):
        assert getattr(both.total, name) == 2 * getattr(one.total, name), name
    assert of(both, "Bidirectional").activation_bytes == 4 * BATCH * 6 * 2 * 7
    assert both.total.recurrent_bytes == 2 * one.total.recurrent_bytes
    assert of(both, "Bidirectional").recurrent_bytes == 0, "what it joins is no position's"
    assert [layer.kind for layer in both.layers] == ["InputLayer", "LSTM", "LSTM", "Bidirectional"]
    apart = layers.Bidirectional(layers.GRU(7), merge_mode=None)
    assert of(work(stacked((6, 5), apart), BATCH, "sgd"), "Bidirectional").activation_bytes == 0


def test_over_time_is_the_layer_on_a_larger_batch(layers, stacked):
    for layer, sample in ((lambda: layers.Dense(7), (5,)), (lambda: layers.Conv1D(6, 3), (9, 5))):
        done = work(stacked((3, *sample), layers.TimeDistributed(layer())), BATCH, "sgd")
        assert done.total == work(stacked(sample, layer()), 3 * BATCH, "sgd").total


def test_over_time_a_model_may_stand_in_a_layers_place_and_gradients_pass_it(keras, layers, stacked):
    inner = stacked((5,), layers.Dense(7, name="one"))
    model = stacked((3, 5), layers.PReLU(), layers.TimeDistributed(inner), layers.Dense(2, name="two"))
    found = {layer.name.rsplit("/")[-1]: layer.work for layer in work(model, BATCH, "sgd").layers}
    assert found["one"].flops == 3 * 2 * (BATCH * 3) * 5 * 7
    assert found["two"].flops == 3 * 2 * (BATCH * 3) * 7 * 2


# Attention: 6 queries of 5 numbers, 8 keys of 3, 2 heads of 7 and 4 numbers


def attended(keras, layers, **options):
    query, value = keras.Input((6, 5)), keras.Input((8, 3))
    layer = layers.MultiHeadAttention(2, 7, value_dim=4, **options)
    return layer, keras.Model([query, value], layer(query, value))


def test_attention_is_four_projections_and_two_products_of_a_head(keras, layers):
    q, k = BATCH * 6, BATCH * 8
    projections = [product(q, 5, 14), product(k, 3, 14), product(k, 3, 8)]
    scores = BATCH * 2 * 6 * 8
    between = [(scores * 7, q * 14 + k * 14 + scores), (scores * 4, scores + k * 8 + q * 8)]
    last = product(q, 8, 5)
    _, model = attended(keras, layers)
    found = of(work(model, BATCH, "sgd"), "MultiHeadAttention")
    for place, each in ((0, found.flops / 2), (1, found.product_bytes / 4)):
        fed_by_data, inside = sum(one[place] for one in projections), sum(one[place] for one in between)
        assert each == 2 * fed_by_data + 3 * (inside + last[place])
    assert found.activation_bytes == 4 * (q * 14 + k * 14 + k * 8 + 2 * scores + q * 8 + q * 5)
    assert found.launches == 2 * 7
    _, model = attended(keras, layers, dropout=0.1)
    dropped = of(work(model, BATCH, "sgd"), "MultiHeadAttention")
    assert dropped.activation_bytes == found.activation_bytes + 4 * scores


def test_attention_with_a_frozen_query_needs_no_gradient_of_it(keras, layers):
    layer, model = attended(keras, layers, use_bias=False)
    before = of(work(model, BATCH, "sgd"), "MultiHeadAttention").flops
    layer.query_dense.trainable = False
    # none of the projection's kernel, none of the projected queries
    less = 2 * (BATCH * 6 * 5 * 14 + BATCH * 2 * 6 * 8 * 7)
    assert of(work(model, BATCH, "sgd"), "MultiHeadAttention").flops == before - less


def test_attention_over_one_of_two_axes(keras, layers):
    inputs = keras.Input((6, 3, 5))
    model = keras.Model(inputs, layers.MultiHeadAttention(2, 7, attention_axes=(2,))(inputs, inputs))
    q, scores = BATCH * 6 * 3, BATCH * 6 * 2 * 3 * 3
    assert of(work(model, BATCH, "sgd"), "MultiHeadAttention").flops == 2 * (
        2 * 3 * q * 5 * 14 + 3 * 2 * scores * 7 + 3 * q * 14 * 5
    )


def test_grouped_attention_projects_fewer_keys_and_repeats_them(keras, layers):
    inputs = keras.Input((6, 5))
    model = keras.Model(inputs, layers.GroupQueryAttention(7, 4, 2)(inputs, inputs))
    found = of(work(model, BATCH, "sgd"), "GroupedQueryAttention")
    q, scores = BATCH * 6, BATCH * 4 * 6 * 6
    assert found.flops == 2 * (2 * q * 5 * (28 + 14 + 14) + 3 * 2 * scores * 7 + 3 * q * 28 * 5)
    assert found.activation_bytes == 4 * (q * (28 + 14 + 14) + 2 * q * 28 + 2 * scores + q * 28 + q * 5)


# What multiplies nothing: numbers handed on for a sample, and operations of the forward pass

PASSED = {
    "Activation": ((6,), lambda on: on.Activation("tanh"), 6, 1),
    "ReLU": ((6,), lambda on: on.ReLU(), 6, 1),
    "MaxPooling2D": ((8, 8, 3), lambda on: on.MaxPooling2D(2), 4 * 4 * 3, 1),
    "AveragePooling1D": ((8, 3), lambda on: on.AveragePooling1D(2), 4 * 3, 1),
    "GlobalAveragePooling2D": ((8, 8, 3), lambda on: on.GlobalAveragePooling2D(), 3, 1),
    "BatchNormalization": ((6,), lambda on: on.BatchNormalization(), 6, 1),
    "Dropout": ((6,), lambda on: on.Dropout(0.5), 6, 0),
    "SpatialDropout1D": ((6, 2), lambda on: on.SpatialDropout1D(0.0), 0, 0),
    "Flatten": ((6, 2), lambda on: on.Flatten(), 0, 0),
    "Reshape": ((6, 2), lambda on: on.Reshape((3, -1)), 0, 0),
    "Permute": ((6, 2), lambda on: on.Permute((2, 1)), 12, 0),
    "RepeatVector": ((6,), lambda on: on.RepeatVector(3), 18, 0),
    "ZeroPadding1D": ((6, 2), lambda on: on.ZeroPadding1D(1), 16, 0),
    "Cropping1D": ((6, 2), lambda on: on.Cropping1D(1), 8, 0),
    "UpSampling2D": ((3, 3, 2), lambda on: on.UpSampling2D(2), 72, 0),
}


@pytest.mark.parametrize("kind", PASSED)
def test_what_multiplies_nothing_hands_on_numbers(kind, layers, stacked):
    shape, layer, numbers, launches = PASSED[kind]
    found = of(work(stacked(shape, layer(layers)), BATCH, "sgd"), kind)
    assert (found.flops, found.product_bytes) == (0, 0)
    assert found.activation_bytes == 4 * BATCH * numbers
    assert found.launches == launches * (2 if kind == "BatchNormalization" else 1)  # which alone is trained
    behind = of(work(stacked(shape, layers.PReLU(), layer(layers)), BATCH, "sgd"), kind)
    assert behind.launches == 2 * launches


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


# Two inputs; operations of keras.ops


def test_a_dot_layer_is_a_product_of_its_inputs(keras, layers):
    inputs = [keras.Input((6, 5)), keras.Input((8, 5))]
    model = keras.Model(inputs, layers.Dot(axes=2)(inputs))
    found = of(work(model, BATCH, "sgd"), "Dot")
    assert (found.flops, found.product_bytes) == (2 * BATCH * 6 * 8 * 5, 4 * BATCH * (6 * 5 + 8 * 5 + 6 * 8))
    model = keras.Model(inputs, layers.Dot(axes=(2, 2))([layers.PReLU()(inputs[0]), inputs[1]]))
    assert of(work(model, BATCH, "sgd"), "Dot").flops == 2 * 2 * BATCH * 6 * 8 * 5


def test_joined_layers_hand_on_and_are_no_operation_of_their_own(keras, layers):
    inputs = [keras.Input((6, 5)), keras.Input((6, 5))]
    for layer, numbers in ((layers.Add(), 30), (layers.Maximum(), 30), (layers.Concatenate(), 60)):
        found = work(keras.Model(inputs, layer(inputs)), BATCH, "sgd").total
        assert (found.activation_bytes, found.launches) == (4 * BATCH * (30 + 30 + numbers), 0)


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


def test_a_mask_waits_for_nobody(keras, layers, stacked):
    plain, masked = (
        work(stacked((6,), layers.Embedding(9, 5, mask_zero=mask), layers.LSTM(3), dtype="int32"), BATCH, "sgd").total
        for mask in (False, True)
    )
    assert masked.activation_bytes == plain.activation_bytes + BATCH * 6
    assert (masked.launches, masked.flops) == (plain.launches, plain.flops)


# Parameters, of every layer that there is a rule for

VECTOR, SERIES, IMAGE, VOLUME = (6,), (8, 6), (8, 8, 4), (8, 8, 8, 4)
OF_RANK = {"1D": SERIES, "2D": IMAGE, "3D": VOLUME}
ARGUMENTS = {
    "Activation": ("relu",),
    "Bidirectional": lambda on: (on.GRU(3),),
    "Dense": (3,),
    "EinsumDense": ("abc,cd->abd", (8, 3)),
    "Embedding": (20, 3),
    "GaussianNoise": (0.1,),
    "GroupNormalization": (2,),
    "GroupQueryAttention": (3, 4, 2),
    "LSTM": (3,),
    "GRU": (3,),
    "SimpleRNN": (3,),
    "MultiHeadAttention": (2, 3),
    "Permute": ((2, 1),),
    "RNN": lambda on: (on.LSTMCell(3),),
    "RepeatVector": (3,),
    "Rescaling": (2.0,),
    "Reshape": ((-1, 2),),
    "TimeDistributed": lambda on: (on.Dense(3),),
    "Dropout": (0.5,),
    "AlphaDropout": (0.5,),
    "GaussianDropout": (0.5,),
}
FLAT = {"RepeatVector", "Dense", "Activation"}
TWO = {"Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot"}
EVERY = sorted({*LAYERS, *MADE_OF} - {"InputLayer", "Sequential", "Functional"})


def example(on, keras, name):
    """A model with one layer of this class between two trained ones."""
    public = {"GroupedQueryAttention": "GroupQueryAttention"}.get(name, name)
    rank = name.replace("Transpose", "")[-2:]
    shape = OF_RANK.get(rank, VECTOR if public in FLAT else SERIES)
    given = ARGUMENTS.get(public, ())
    if callable(given):
        given = given(on)
    elif "Conv" in name:
        given = (2,) if name.startswith("Depthwise") else (3, 2)
    elif rank in OF_RANK and name.startswith("Spatial"):
        given = (0.5,)
    elif name.startswith(("Adaptive", "AveragePooling")):
        given = (2,)
    more = {"axes": -1} if name == "Dot" else {}
    if name == "Embedding":
        inputs = keras.Input((8,), dtype="int32")
        return keras.Model(inputs, on.Dense(2)(on.Embedding(*given)(inputs)))
    inputs = keras.Input(shape)
    x = on.Dense(shape[-1])(inputs)
    layer = getattr(on, public)(*given, **more)
    outputs = layer([x, x]) if name in TWO else layer(x, x) if "Attention" in name else layer(x)
    return keras.Model(inputs, on.Dense(2)(outputs))


@pytest.mark.parametrize("name", EVERY)
def test_every_layers_parameters_are_those_that_keras_counts(name, keras, layers):
    model = example(layers, keras, name)
    done = work(model, BATCH, "adam")
    assert done.total.parameters == model.count_params()
    assert done.total.trained == sum(math.prod(each.shape) for each in model.trainable_weights)
    # A layer between two that are trained: what comes behind it knows.
    last = done.layers[-1].work
    assert last.flops % 3 == 0
    assert last.flops > 0
    for name, value in vars(done.total).items():
        assert type(value) is int
        assert value == sum(getattr(each.work, name) for each in done.layers)


def test_every_operation_of_the_table_exists():
    from keras.src import activations, ops

    homes = (ops.numpy, ops.nn, ops.core, ops.math, ops.linalg, activations.activations)
    assert {name for name in OPERATIONS if not any(hasattr(home, name) for home in homes)} == set()


# Whole models


def test_a_shared_layer_is_computed_each_time_and_its_weights_are_there_once(keras, layers):
    inputs, other = keras.Input((5,)), keras.Input((5,))
    shared = layers.Dense(7)
    outputs = layers.Concatenate()([shared(inputs), shared(layers.PReLU()(other))])
    found = next(
        layer for layer in work(keras.Model([inputs, other], outputs), BATCH, "adam").layers if "D" in layer.kind
    )
    assert found.work.parameters == 6 * 7
    assert found.work.flops == (2 + 3) * 2 * BATCH * 5 * 7
    assert found.work.launches == 4


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


def test_a_model_that_is_used_twice_has_its_weights_once(keras, layers, stacked):
    inner = stacked((5,), layers.Dense(7))
    one, two = keras.Input((5,), name="a"), keras.Input((5,), name="b")
    model = keras.Model({"a": one, "b": two}, layers.Add()([inner(one), inner(two)]))
    done = work(model, BATCH, "adam").total
    assert (done.parameters, done.flops) == (6 * 7, 2 * 2 * 2 * BATCH * 5 * 7)


def test_a_frozen_model_inside_is_computed_forward_alone(keras, layers, stacked):
    """Fine-tuning: no gradient passes what nothing trained lies before."""
    inner = stacked((5,), layers.Dense(7), layers.BatchNormalization(), layers.Dense(6))
    inner.trainable = False
    done = work(stacked((5,), inner, layers.Dense(2)), BATCH, "adam")
    assert done.total.parameters == 6 * 7 + 4 * 7 + 8 * 6 + 7 * 2
    assert done.total.trained == 7 * 2
    assert done.total.flops == 2 * BATCH * (5 * 7 + 7 * 6) + 2 * 2 * BATCH * 6 * 2
    assert done.total.launches == 3 + 2


def test_a_gradient_passes_a_frozen_layer_to_what_is_trained_before_it(layers, stacked):
    model = stacked((5,), layers.Dense(7), layers.Dense(6, trainable=False), layers.Dense(2))
    done = work(model, BATCH, "adam")
    assert done.total.flops == 2 * BATCH * (2 * 5 * 7 + 2 * 7 * 6 + 3 * 6 * 2)
    assert done.total.launches == 2 * 3


def test_a_bias_alone_needs_no_product(layers, stacked):
    model = stacked((5,), layers.Dense(7), layers.Dense(2))
    for layer in model.layers:
        layer.kernel.trainable = False
    done = work(model, BATCH, "adam").total
    assert (done.trained, done.flops) == (7 + 2, 2 * BATCH * (5 * 7 + 2 * 7 * 2))


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
    inner, state = product(BATCH * 6, 5, 28), product(BATCH, 7, 28, copies=6)
    dense = product(BATCH, 7, 3), product(BATCH, 3, 2)
    assert found.flops == 2 * sum(each[0] for each in (inner, state, *dense))
    assert found.product_bytes == 4 * sum(each[1] for each in (inner, state, *dense))
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
    monkeypatch.setattr(resident, "gpu_peak", lambda backend: 1)
    assert not ModelDescription.from_model(model, BATCH).row_by_row  # nobody has measured it there


# The workloads: one currency


def model_of(point):
    """The Keras 3 model that the worker trains."""
    path = workloads.get(point.workload).folder / "on_keras3.py"
    spec = importlib.util.spec_from_file_location(f"on_keras3_of_{point.workload}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.model(point.sizes.model_dump(), point.run.model_dump())


def of_point(workload, optimizer=None, **sizes):
    """The walk's work of a workload's model, and its closed form."""
    point = make_point(workload, **workloads.get(workload).small | sizes)
    return work(model_of(point), point.sizes.batch, optimizer or point.sizes.optimizer).total, point.work


def differences(one, other):
    """Field -> how much more the one has."""
    return {name: value - getattr(other, name) for name, value in vars(one).items() if value != getattr(other, name)}


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "momentum", "rmsprop"])
@pytest.mark.parametrize(
    ("workload", "sizes"),
    [
        ("dense", {}),
        ("dense", {"layers": 1}),
        ("convnet", {}),
        ("convnet", {"side": 9, "window": 2}),
        *[("blocks", {"structure": name}) for name in ("plain", "residual", "dense", "aggregated")],
        ("blocks", {"structure": "plain", "shared": True}),
        ("blocks", {"relu": False}),
    ],
)
def test_a_workloads_model_comes_out_as_its_closed_form(workload, sizes, optimizer, keras):
    found, closed = of_point(workload, optimizer=optimizer, **sizes)
    assert found == make_point(workload, **workloads.get(workload).small | sizes, optimizer=optimizer).work
    assert closed.flops == found.flops


@pytest.mark.parametrize("algorithm", ["default", "per-gate", "unrolled"])
def test_the_lstms_model_hands_on_one_number_more_a_sample(algorithm, keras):
    found, closed = of_point("lstm", algorithm=algorithm)
    assert differences(found, closed) == {"activation_bytes": 4 * 10 * 1}


def test_an_lstm_that_is_one_operation_is_unknown(keras):
    with pytest.raises(UnknownLayer, match=r"Native: inner_loop is not that of LSTM"):
        of_point("lstm", algorithm="native")


# Of the small rnn: B = 10, L = 6, E = 16, U = 8; its closed form leaves out the dense layer's product.
LAST = {"flops": 3 * 2 * 10 * 8 * 1, "product_bytes": 3 * 4 * (10 * 8 + 8 * 1 + 10 * 1)}
# Token ids and the dense layer's numbers more, each row's once instead of twice; no dropout at a rate of 0.
KEPT = 4 * (10 * 6 + 10 * 1 - 16 * 10 * 6)


@pytest.mark.parametrize(
    ("sizes", "more"),
    [
        ({}, {}),
        ({"dropout": 0.5}, {"activation_bytes": KEPT + 4 * 10 * 8}),
        ({"mask": True, "words": 3}, {"activation_bytes": KEPT + 10 * 6}),  # the mask: one byte a token
        ({"factor": 4}, {"launches": 2}),  # the matrix that widens
        # no gradient of the rows, none of the table
        (
            {"frozen": True},
            {
                "flops": LAST["flops"] - 2 * 60 * 16 * 32,
                "product_bytes": LAST["product_bytes"] - 4 * (60 * 16 + 16 * 32 + 60 * 32),
                "launches": -1,
            },
        ),
    ],
)
def test_the_rnns_model_differs_from_its_closed_form_as_told(sizes, more, keras):
    found, closed = of_point("rnn", **sizes)
    assert differences(found, closed) == {**LAST, "activation_bytes": KEPT} | more


# Optimizers

CONFIGURED = [
    ("Adam", {}),
    ("Adam", {"amsgrad": True}),
    ("Adam", {"use_ema": True}),
    ("Adam", {"gradient_accumulation_steps": 4}),
    ("Adam", {"clipnorm": 1.0}),
    ("Adam", {"global_clipnorm": 1.0}),
    ("Adam", {"clipvalue": 1.0}),
    ("AdamW", {}),
    ("SGD", {}),
    ("SGD", {"nesterov": True}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9}),
    ("RMSprop", {"centered": True}),
    ("Adagrad", {}),
    ("Adadelta", {}),
    ("Nadam", {}),
    ("Adamax", {}),
    ("Lion", {}),
    ("Ftrl", {}),
]
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


def test_a_subclass_is_known_as_long_as_it_computes_nothing_else(keras, layers, stacked):
    class Wide(layers.Dense):
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

    assert of(work(stacked((5,), Wide(7)), BATCH, "sgd"), "Wide").flops == 2 * 2 * BATCH * 5 * 14
    for layer, shape, why in [
        (Shifted(7), (5,), "Shifted: call is not that of Dense"),
        (Convolved(7, 3), (5, 5), "Convolved: convolution_op is not that of Conv1D"),
        (Foreign(7), (5,), "Foreign: call is not that of Dense"),
    ]:
        with pytest.raises(UnknownLayer, match=why):
            work(stacked(shape, layer), BATCH, "sgd")


def test_what_computes_in_a_way_of_its_own_is_an_unknown_layer(keras, layers, stacked):
    class Cell(layers.GRUCell):
        def call(self, inputs, states, training=False):
            return super().call(inputs, states, training)

    class Own(keras.Model):
        def call(self, inputs):
            return inputs

    dense = layers.Dense(7)
    lora = stacked((5,), dense)
    dense.enable_lora(2)  # after it was made
    with keras.RematScope(mode="full"):
        again = layers.Dense(7)
    x = keras.Input((6, 5))
    for model, named in [
        (lora, "Dense with LoRA"),
        (stacked((5,), again), "computed again on the way back"),
        (stacked((6, 5), layers.RNN([layers.LSTMCell(3), Cell(3)])), "RNN of Cell"),
        (keras.Model(x, keras.ops.einsum("bij,bij,bij->bi", x, x, x)), "Einsum bij,bij,bij->bi"),
        (keras.Model(x, layers.Dense(2)(Own()(x))), r"own.* \(Own\)"),
    ]:
        with pytest.raises(UnknownLayer, match=named):
            work(model, BATCH, "sgd")


def test_a_model_that_is_not_built_says_how_to_build_it(keras, layers):
    model = keras.Sequential([layers.Dense(7)], name="loose")
    with pytest.raises(InputError, match=r"^model: 'loose' is not built.*model.build\(input_shape\).*keras.Input"):
        work(model, BATCH, "sgd")
    model.build((None, 5))
    assert work(model, BATCH, "sgd").total.parameters == 6 * 7


def test_a_model_that_is_no_graph_can_be_probed_alone(keras, layers):
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
    for model in (Own(), Stepping(inputs, layers.Dense(2)(inputs))):
        with pytest.raises(InputError, match=r"^model: .*of its own.*tier='probed'") as caught:
            work(model, BATCH, "sgd")
        assert not isinstance(caught.value, UnknownLayer)
    with pytest.raises(InputError, match="is no Keras 3 model"):
        work("own", BATCH, "sgd")
    assert work(Graph(), BATCH, "sgd").total.parameters == 12


def test_a_length_stands_for_the_first_unknown_dimension(layers, stacked):
    def model(*shape):
        return stacked(shape, layers.Dense(4), layers.LSTM(7))

    assert work(model(None, 5), BATCH, "sgd", length=6).total == work(model(6, 5), BATCH, "sgd").total
    with pytest.raises(InputError, match=r"^input \S+: '\(None, None, 5\)' has a dimension.*length="):
        work(model(None, 5), BATCH, "sgd")
    with pytest.raises(InputError, match=r"^length: 6 finds no unknown dimension in \(None, 6, 5\). Leave it out"):
        work(model(6, 5), BATCH, "sgd", length=6)
    with pytest.raises(InputError, match=r"^length: 0 is no length"):
        work(model(None, 5), BATCH, "sgd", length=0)
    image = stacked((None, None, 3), layers.Conv2D(4, 3), layers.GlobalMaxPooling2D())
    with pytest.raises(InputError, match="stands for the first unknown one alone"):
        work(image, BATCH, "sgd", length=8)


def test_a_length_that_a_layer_cannot_take_is_said_to_be_too_short(layers, stacked):
    with pytest.raises(InputError, match=r"^conv1d\S*: '\(4, 2, 5\)' is nothing that it can take"):
        work(stacked((None, 5), layers.Conv1D(4, 3)), BATCH, "sgd", length=2)


def test_a_dense_layer_of_an_einsum_that_was_made_for_any_length(layers, stacked):
    model = stacked((None, 5), layers.EinsumDense("abc,cd->abd", (None, 7)), layers.LSTM(3))
    found = work(model, BATCH, "sgd", length=6)
    assert of(found, "EinsumDense").flops == 2 * 2 * BATCH * 6 * 5 * 7


@pytest.mark.parametrize("batch", [0, 2.0, True, "4"])
def test_a_batch_is_a_number_of_samples(batch, layers, stacked):
    with pytest.raises(InputError, match=r"^batch_size: .* is no number of samples"):
        work(stacked((5,), layers.Dense(7)), batch, "sgd")


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
