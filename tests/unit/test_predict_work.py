"""The work of a Keras model: each layer against arithmetic written out, against the workloads, and against XLA."""

import importlib
import itertools
import json
import math
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

import traintime
from traintime import workloads
from traintime.errors import InputError
from traintime.point import make_point
from traintime.predict import process
from traintime.predict.estimate import estimate
from traintime.predict.request import ModelDescription
from traintime.predict.work import optimizers
from traintime.predict.work.graph import ModelWork, work
from traintime.predict.work.layers import LAYERS, MADE_OF
from traintime.workloads.base import UPDATES, Work

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
# Four heads of queries; keys and values of two heads, repeated.
FOUR = 4 * 4 * 6 * 6
GROUPED = [product(Q, 5, 28), product(Q, 5, 14), product(Q, 5, 14)]
GROUPED += [*[Product(FOUR * 7, FOUR + 2 * Q * 28, 3, 3)] * 2, product(Q, 28, 5, fed=3)]
REPEATED = Q * (28 + 14 + 14) + 2 * Q * 28 + 2 * FOUR + Q * 28 + Q * 5

ROWS = [
    row("Dense", (3, 5), 7, "relu", products=[product(4 * 3, 5, 7)], numbers=4 * 3 * 7),
    row("EinsumDense", (3, 5), "abc,cd->abd", (3, 7), products=[product(12, 5, 7)], numbers=12 * 7),
    row("EinsumDense", (3, 2, 5), "abhc,hcd->abd", (3, 7), products=[product(12, 2 * 5, 7)], numbers=12 * 7),
    row("Conv1D", (10, 5), 6, 3, products=[product(4 * 8, 3 * 5, 6)], numbers=4 * 8 * 6),
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
    row("GRU", (6, 5), 7, products=GRU, numbers=24 * (4 * 3 + 1) * 7, launches=6),
    row("GRU", (6, 5), 7, reset_after=False, products=RESET, numbers=24 * 13 * 7, launches=6),
    row("SimpleRNN", (6, 5), 7, go_backwards=True, return_state=True, products=SIMPLE, numbers=24 * 5 * 7, launches=6),
    row("RNN", (6, 5), lambda on: [on.LSTMCell(7), on.GRUCell(3)], products=CELLS, numbers=KEPT_BY_CELLS, launches=12),
    row("MultiHeadAttention", ((6, 5), (8, 3)), 2, 7, 4, products=CROSS, numbers=CROSSED, launches=7),
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
        assert done.forward.flops == sum(2 * one.multiplications for one in products), at
        assert done.forward.product_bytes == sum(4 * one.numbers for one in products), at
        assert done.forward.launches == launches + behind * len(inputs), at
        assert done.forward.trained == done.forward.update_flops == done.forward.update_bytes == 0
        assert done.total.parameters == model.count_params()
        assert done.total.trained == sum(math.prod(each.shape) for each in model.trainable_weights)
        for name, value in vars(done.total).items():
            assert type(value) is int
            assert value == sum(getattr(each.work, name) for each in done.layers)


def test_bidirectional_is_two_layers_and_what_joins_them(layers, stacked):
    one = work(stacked((6, 5), layers.LSTM(7, return_sequences=True)), BATCH, "sgd")
    both = work(stacked((6, 5), layers.Bidirectional(layers.LSTM(7, return_sequences=True))), BATCH, "sgd")
    for name in ("parameters", "trained", "flops", "product_bytes", "launches", "update_bytes", "recurrent_bytes"):
        assert getattr(both.total, name) == 2 * getattr(one.total, name), name
    assert of(both, "Bidirectional") == Work(activation_bytes=4 * BATCH * 6 * 2 * 7)


def test_over_time_is_the_layer_on_a_larger_batch(layers, stacked):
    for layer, sample in ((lambda: layers.Dense(7), (5,)), (lambda: layers.Conv1D(6, 3), (9, 5))):
        done = work(stacked((3, *sample), layers.TimeDistributed(layer())), BATCH, "sgd")
        assert done.total == work(stacked(sample, layer()), 3 * BATCH, "sgd").total


@pytest.mark.parametrize(("trained", "launches", "times"), [(True, 2, 3), (False, 1, 2)])
def test_an_embedding_hands_on_rows_and_is_trained_whole_or_frozen(trained, launches, times, layers, stacked):
    table = layers.Embedding(100, 5, trainable=trained)
    done = work(stacked((6,), table, layers.Flatten(), layers.Dense(1), dtype="int32"), BATCH, "adam")
    found = of(done, "Embedding")
    assert (found.parameters, found.trained, found.flops) == (100 * 5, 100 * 5 * trained, 0)
    assert (found.activation_bytes, found.launches) == (4 * BATCH * 6 * 5, launches)
    assert (done.table_parameters, done.batch_bytes) == (500 * trained, 4 * BATCH * 6)
    assert (done.total.parameters, done.total.trained) == (531, 500 * trained + 31)
    assert of(done, "Dense").flops == times * 2 * BATCH * 30  # three where a trained table lies before it


@pytest.mark.parametrize(("rows", "trained"), [(100, 24), (10, 10)])
def test_a_deferred_table_writes_the_rows_of_a_batch(rows, trained, layers, stacked):
    """The rest of the model is trained as by Keras' own Adam."""
    from traintime import deferred

    table, adam = deferred.Embedding(rows, 5), deferred.Adam()
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
        (keras.activations.gelu(units), 30, 2),
        (units * 2.0 + inputs, 2 * 30, 0),
        (ops.mean(units, axis=1), 5, 2),
        (units[:, -1], 5, 0),
        (ops.reshape(units, (-1, 5)), 0, 0),
        (ops.exp(ops.stop_gradient(units)), 30, 1),
    ]:
        done = work(keras.Model(inputs, outputs), BATCH, "sgd").layers[2:]
        assert sum(each.work.activation_bytes for each in done) == 4 * BATCH * numbers
        assert sum(each.work.launches for each in done) == launches


# Whole models


def test_a_shared_layer_is_computed_each_time_and_its_weights_are_there_once(keras, layers, stacked):
    one, two = keras.Input((5,), name="one"), keras.Input((5,), name="two")
    shared = layers.Dense(7)
    done = work(keras.Model([one, two], layers.Add()([shared(one), shared(layers.PReLU()(two))])), BATCH, "adam")
    found = of(done, "Dense")
    assert (found.parameters, found.flops, found.launches) == (6 * 7, (2 + 3) * 2 * BATCH * 5 * 7, 2 * 2)


def test_a_model_inside_a_model_is_its_layers_and_all_are_left_as_they_were(keras, layers, stacked):
    def encoder():
        return [layers.TimeDistributed(layers.Dense(7, name="one")), layers.Bidirectional(layers.GRU(3), name="two")]

    flat = work(stacked((6, 5), *encoder(), layers.Dense(2)), BATCH, "adam")
    inner, inputs, again = stacked((6, 5), *encoder()), keras.Input((6, 5)), keras.Input((6, 5))
    deep = keras.Model(inputs, inner(inputs), name="deep")
    model = keras.Model(again, layers.Dense(2)(deep(again)))

    def nodes():
        every = [*model.operations, *deep.operations, *inner._functional.operations]
        return [(len(each._inbound_nodes), len(each._outbound_nodes)) for each in every]

    before, done = nodes(), work(model, BATCH, "adam")
    assert done.total == flat.total
    places = {f"deep/{inner.name}/{inner.layers[0].name}/one", f"deep/{inner.name}/two"}
    assert places < {layer.name for layer in done.layers}
    assert work(model, BATCH, "adam") == done
    assert nodes() == before


def test_what_each_layer_holds_is_told_and_depth_sums(keras, layers, stacked):
    """A frozen layer has no gradient, a shared one is there once, and all numbers have four bytes."""
    inner = keras.Sequential([keras.Input((6,)), layers.Dense(6, name="shared")], name="inner")
    frozen = layers.Dense(2, trainable=False, name="frozen")
    model = stacked((6,), inner, inner, layers.Flatten(), frozen)
    table = traintime.module_memory(model, optimizer="adam", batch_size=BATCH)
    held = ["calls", "parameters", "gradients", "state", "saved", "total"]
    assert table.loc["inner/shared", held].tolist() == [2, 168, 168, 336, 2 * 96, 864]
    assert table.loc["frozen", held].tolist() == [1, 56, 0, 0, 32, 88]
    above = traintime.module_memory(model, optimizer="adam", batch_size=BATCH, depth=1)
    assert "inner" in above.index and above["total"].sum() == table["total"].sum()


def test_half_precision_hands_on_half_the_bytes_and_updates_as_many(keras, layers):
    def model(policy):
        inputs = keras.Input((6, 5))
        outputs = layers.LSTM(7, dtype=policy)(layers.Dense(5, dtype=policy)(inputs))
        return keras.Model(inputs, layers.Dense(2, dtype=policy)(outputs))

    full, half = (work(model(policy), BATCH, "adam") for policy in ("float32", "mixed_bfloat16"))
    inputs = 4 * BATCH * 6 * 5
    assert half.total.activation_bytes - inputs == (full.total.activation_bytes - inputs) / 2
    assert (half.compute_dtype, full.compute_dtype) == ("bfloat16", "float32")
    for name in ("flops", "product_bytes", "update_bytes", "launches"):
        assert getattr(half.total, name) == getattr(full.total, name)


# What else is read off a model


def test_a_sample_is_its_inputs_and_what_its_losses_take(keras, layers):
    inputs = keras.Input((None, 5))
    named = {"words": layers.Dense(9, name="words")(inputs), "pair": layers.Dense(2, name="pair")(inputs)}
    for loss, outputs, bytes_of_a_target in (
        ("categorical_crossentropy", [*named.values()], 4 * 6 * 9 + 4 * 6 * 2),
        ({"words": "sparse_categorical_crossentropy", "pair": "mse"}, named, 4 * 6 + 4 * 6 * 2),
        (None, [*named.values()], 0),
    ):
        model = keras.Model(inputs, outputs)
        model.compile("sgd", loss)
        found = ModelDescription.from_model(model, BATCH, length=6)
        assert found.sample_bytes == 4 * 6 * 5 + bytes_of_a_target, loss


def test_a_step_that_is_compiled_in_another_way_has_no_known_cost(keras, layers, stacked):
    model = stacked((5,), layers.Dense(2))
    model.compile("sgd", "mse", jit_compile=keras.backend.backend() != "jax")
    with pytest.raises(InputError, match=r"jit_compile: .* has no known cost"):
        estimate(model, samples=100, batch_size=BATCH, tier="formula", device="K40m")


def test_a_deferred_table_may_take_the_place_of_one_that_it_would_train(keras, layers, monkeypatch):
    def row_by_row(shared=False, regularizer=None, **of_adam):
        table = layers.Embedding(300_000, 8, embeddings_regularizer=regularizer)
        tables = table, table if shared else layers.Embedding(10, 8)
        inputs = [keras.Input((6,), dtype="int32") for _ in tables]
        rows = [layers.Flatten()(each(tokens)) for each, tokens in zip(tables, inputs, strict=True)]
        model = keras.Model(inputs, layers.Dense(1)(layers.Concatenate()(rows)))
        model.compile(keras.optimizers.Adam(**of_adam), "mse")
        return ModelDescription.from_model(model, BATCH).row_by_row

    assert row_by_row()
    for unlike in ({"amsgrad": True}, {"regularizer": "l2"}, {"shared": True}):
        assert not row_by_row(**unlike), unlike
    monkeypatch.setattr(process, "gpu_peak", lambda backend: 1)
    assert not row_by_row()  # nobody has measured it there


# The workloads: one currency


# Of the small rnn: B = 10, L = 6, E = 16, U = 8; its closed form leaves out the dense layer's product. Token ids and
# the dense layer's numbers more, each row's once instead of twice; no dropout at a rate of 0.
KEPT = 4 * (10 * 6 + 10 * 1 - 16 * 10 * 6)
RNN = {"flops": 3 * 2 * 10 * 8 * 1, "product_bytes": 3 * 4 * (10 * 8 + 8 * 1 + 10 * 1), "activation_bytes": KEPT}


@pytest.mark.parametrize(
    ("workload", "sizes", "more"),
    [
        *[("dense", {"optimizer": name}, {}) for name in ("adam", "sgd", "momentum", "rmsprop")],
        ("convnet", {}, {}),
        *[("blocks", {"structure": name}, {}) for name in ("plain", "residual", "dense", "aggregated")],
        ("blocks", {"structure": "plain", "shared": True}, {}),
        # The dense layer hands on one number a sample.
        *[("lstm", {"algorithm": name}, {"activation_bytes": 4 * 10}) for name in ("default", "per-gate", "unrolled")],
        ("rnn", {}, RNN),
    ],
)
def test_a_workloads_model_comes_out_as_its_closed_form_or_as_much_more_as_told(workload, sizes, more, keras):
    """Of the Keras 3 model that the worker trains."""
    point = make_point(workload, **workloads.get(workload).small | sizes)
    worker = importlib.import_module(f"traintime.workloads.{workload}.on_keras3")
    model = worker.model(point.sizes.model_dump(), point.run.model_dump())
    found, closed = vars(work(model, point.sizes.batch, point.sizes.optimizer).total), vars(point.work)
    assert {name: value - closed[name] for name, value in found.items() if value != closed[name]} == more


# Optimizers

KINDS = ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "Nadam", "Adamax", "Lion", "Ftrl"]
OF_ADAM = {"amsgrad": True, "use_ema": True, "gradient_accumulation_steps": 4}
OF_ADAM |= {"clipnorm": 1.0, "global_clipnorm": 1.0, "clipvalue": 1.0}
CONFIGURED = [(name, {}) for name in KINDS] + [("Adam", {name: value}) for name, value in OF_ADAM.items()]
CONFIGURED += [("SGD", {"nesterov": True}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True})]
CONFIGURED += [("RMSprop", {"momentum": 0.9}), ("RMSprop", {"centered": True})]


@pytest.mark.parametrize(("name", "given"), CONFIGURED)
def test_the_slots_of_an_optimizer_are_those_that_it_makes(name, given, keras):
    optimizer = getattr(keras.optimizers, name)(**given)
    update = optimizers.of(optimizer)
    optimizer.build([keras.Variable("zeros", shape=(3, 5))])
    made = [each for each in optimizer.variables if tuple(each.shape) == (3, 5)]
    assert update.slots == len(made) - (update.accumulated > 1)


@pytest.mark.parametrize("name", optimizers.NAMED)
def test_an_optimizers_name_stands_for_its_usual_arguments(name, keras):
    made = keras.optimizers.SGD(momentum=0.9) if name == "momentum" else keras.optimizers.get(name)
    assert optimizers.of(name.upper()) == optimizers.of(made)


def test_the_compiled_models_optimizer_is_taken(keras, layers, stacked):
    model = stacked((5,), layers.Dense(7))
    model.compile(keras.optimizers.SGD(momentum=0.9), "mse")
    assert work(model, BATCH).total == work(model, BATCH, "momentum").total
    assert work(model, BATCH, "sgd").total.update_bytes == 42 * UPDATES["sgd"].bytes


# What is refused


def test_what_has_no_known_work_is_refused_by_name(keras, layers, stacked):
    class Twice(layers.Layer):
        def call(self, inputs):
            return 2 * inputs

    class Shifted(layers.Dense):
        def call(self, inputs):
            return super().call(inputs) + 1

    class Own(keras.Model):
        def call(self, inputs):
            return inputs

    class Mine(keras.optimizers.SGD):
        def __init__(self, needed, **given):
            super().__init__(**given)

    x, dense, loose = keras.Input((6, 5)), layers.Dense(7), keras.Sequential([layers.Dense(7)], name="loose")
    several = stacked((5,), Twice(name="twice"), layers.Lambda(lambda x: x, name="same"))
    spectrum = keras.ops.fft((several.outputs[0], several.outputs[0]))[0]
    lora, plain, open_ended = stacked((5,), dense), stacked((6, 5), layers.ReLU()), stacked((None, 5), layers.ReLU())
    dense.enable_lora(2)  # after it was made
    for model, given, said in [
        (keras.Model(several.inputs, spectrum), {}, r"model: .*: twice \(Twice\); same \(Lambda\); \S+ \(FFT\)\. Ask"),
        (stacked((5,), Shifted(7)), {}, "model: .*Shifted: call is not that of Dense"),
        (lora, {}, "model: .*Dense with LoRA"),
        (keras.Model(x, keras.ops.einsum("bij,bij,bij->bi", x, x, x)), {}, "model: .*Einsum bij,bij,bij->bi"),
        (Own(name="own"), {}, r"model: .*of its own.*tier='probed'"),
        ("own", {}, "model: .*is no Keras 3 model"),
        (loose, {}, r"model: 'loose' is not built.*model.build\(input_shape\).*keras.Input"),
        (plain, {"optimizer": None}, r"optimizer: None is known of no model.*model\.compile.*optimizer="),
        (plain, {"optimizer": Mine(1)}, "optimizer: .*cannot be asked"),
        (plain, {"optimizer": "adan"}, "optimizer: .*is not a known"),
        (plain, {"optimizer": 7}, "optimizer: .*is no Keras 3 optimizer"),
        (open_ended, {}, r"input \S+: '\(None, None, 5\)' has a dimension.*length="),
        (plain, {"length": 6}, r"length: 6 finds no unknown dimension in \(None, 6, 5\). Leave it out"),
        (open_ended, {"length": 0}, "length: 0 is no length"),
        (stacked((None, 5), layers.Conv1D(4, 3)), {"length": 2}, r"conv1d\S*: '\(4, 2, 5\)' is nothing that it can"),
    ]:
        with pytest.raises(InputError, match=f"^{said}"):
            work(model, BATCH, **{"optimizer": "sgd"} | given)
    loose.build((None, 5))
    assert work(loose, BATCH, "sgd").total.parameters == 6 * 7


def test_a_table_that_an_operation_takes_whole_is_no_table_of_rows(keras, layers):
    tokens, table = keras.Input((4,), dtype="int32"), layers.Embedding(600, 8)
    read = table(tokens)
    tied = keras.ops.einsum("bld,vd->blv", read, table.embeddings)
    for outputs, rows in ((tied, 0), (layers.Dense(3)(read), 600 * 8)):
        assert work(keras.Model(tokens, outputs), BATCH, "adam").table_parameters == rows


def test_a_length_stands_for_the_first_unknown_dimension(layers, stacked):
    def model(*shape):
        """An einsum that was made for any length among its layers."""
        return stacked(shape, layers.EinsumDense("abc,cd->abd", (None, 7)), layers.LSTM(3))

    found = work(model(None, 5), BATCH, "sgd", length=6)
    assert of(found, "EinsumDense").flops == 2 * 2 * BATCH * 6 * 5 * 7
    assert found.total == work(model(6, 5), BATCH, "sgd").total


# Another's count: XLA's cost analysis of the update

COUNTED = """
import json, jax, keras, numpy as np
from traintime.predict.work import optimizers

found = []
for name, given in CONFIGURED:
    optimizer, variable = getattr(keras.optimizers, name)(**given), keras.Variable(np.ones((100, 100), "float32"))
    optimizer.build([variable])
    arguments = [each.value for each in optimizer.variables], [variable.value], [variable.value]
    costs = jax.jit(optimizer.stateless_apply).lower(*arguments).cost_analysis()
    theirs = (costs["flops"] + costs.get("transcendentals", 0)) / 100**2
    found.append([name, given, round(theirs), optimizers.of(optimizer).flops])
print(json.dumps(found))
"""


def test_an_update_has_as_many_operations_as_xla_counts():
    """In a process of its own, since Keras has one backend a process."""
    pytest.importorskip("jax")
    script = f"CONFIGURED = {[one for one in CONFIGURED if 'gradient_accumulation_steps' not in one[1]]!r}\n{COUNTED}"
    environment = dict(os.environ, KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    for name, given, theirs, ours in json.loads(done.stdout.splitlines()[-1]):
        assert theirs == ours, (name, given)
