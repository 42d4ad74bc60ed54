"""Estimates of readers' Keras models, which stay as they were, on the backend of KERAS_BACKEND.

test_backends.py runs this.
"""

import threading
import time

import keras
import numpy as np
import pytest
from keras import layers, ops

import traintime
from traintime import deferred
from traintime.errors import InputError
from traintime.measuring import machine
from traintime.predict import process
from traintime.predict.costs import Rates
from traintime.predict.keras_trainer import TRIED_BYTES, KerasTrainer
from traintime.predict.process import ONCE

# Keras' own, of NumPy 2, wherever it hands a weight to NumPy.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

BACKEND = keras.backend.backend()


@pytest.fixture(autouse=True)
def machine_of_known_rates(monkeypatch):
    # So slow that the formula explains every step, also one that others slowed.
    monkeypatch.setattr(process, "rates", lambda: Rates(1e8, 1e7))
    keras.utils.set_random_seed(0)


def estimated(model, **given):
    return traintime.estimate(model, **{"samples": 100, "batch_size": 16, "seconds": 1} | given)


def compiled(model, optimizer="adam", loss="mse", **given):
    model.compile(optimizer, loss, **given)
    return model


def words(length=6, name=None):
    return keras.Input((length,), dtype="int32", name=name)


def reader(rows=500, **given):
    """A small classifier of texts."""
    tokens = words(12)
    hidden = layers.LSTM(16)(layers.Embedding(rows, 16)(tokens))
    model = keras.Model(tokens, layers.Dense(3, activation="softmax")(hidden))
    return compiled(model, loss="sparse_categorical_crossentropy", **given)


def seconds_of(call, *given, **named):
    start = time.perf_counter()
    call(*given, **named)
    return time.perf_counter() - start


# What a graph may be made of


def masked():
    return keras.Sequential([words(), layers.Embedding(20, 4, mask_zero=True), layers.LSTM(4), layers.Dense(1)])


def sliced_and_cast():
    both = keras.Input((7,))
    tokens = ops.cast(both[:, :6], "int32")
    read = [layers.Flatten()(layers.Embedding(rows, 4)(tokens)) for rows in (30, 20)]
    return keras.Model(both, layers.Dense(1)(layers.Concatenate()([*read, both[:, 6:]])))


def without_a_table():
    first, second = keras.Input((4,)), keras.Input((4,))
    stacked = ops.stack([first, second / 255.0, ops.maximum(first, second)], axis=1)
    doubled = layers.Lambda(lambda each: each * 2.0, output_shape=(3, 4))(stacked)
    return keras.Model([first, second], layers.Dense(1)(ops.einsum("bij,bij->bi", stacked, doubled)))


def nested_and_shared():
    tower = keras.Sequential([words(), layers.Embedding(20, 4, mask_zero=True), layers.GRU(4)])
    first, second = words(), words()
    return keras.Model([first, second], layers.Dense(1)(layers.Dot(1)([tower(first), tower(second)])))


def of_time_and_in_a_list():
    sentences = keras.Input((3, 6), dtype="int32")
    tower = keras.Sequential([words(), layers.Embedding(20, 4), layers.Flatten(), layers.Dense(3)])
    hidden = layers.Bidirectional(layers.LSTM(4))(layers.TimeDistributed(tower)(sentences))
    return keras.Model([sentences], [layers.Dense(1)(hidden)])


def stacked_cells():
    cells = layers.StackedRNNCells([layers.LSTMCell(4), layers.GRUCell(3)])
    numbers = keras.Input((5, 2))
    return keras.Model(numbers, layers.Dense(1)(layers.RNN(cells)(layers.Masking()(numbers))))


def attention():
    tokens = words()
    embedded = layers.Embedding(20, 4, mask_zero=True)(tokens)
    attended = layers.MultiHeadAttention(2, 2)(embedded, embedded)
    return keras.Model(tokens, layers.Dense(1)(layers.GlobalAveragePooling1D()(attended)))


WITH_TOKENS = [masked, sliced_and_cast, nested_and_shared, of_time_and_in_a_list, attention]


@pytest.mark.parametrize("graph", [*WITH_TOKENS, without_a_table, stacked_cells])
def test_a_model_is_tried_whatever_its_graph_is_made_of(graph):
    model = compiled(graph())
    x, y = KerasTrainer(model).samples(200)
    assert model.compute_loss(x, y, model(x)) > 0
    drawn = [array for array in keras.tree.flatten(x) if array.dtype == "int32"]
    assert bool(drawn) == (graph in WITH_TOKENS)
    assert all(array.max() == 19 for array in drawn), "the last row of the smallest table that reads them"


def test_inputs_and_outputs_are_made_up_in_the_structure_that_the_model_declares():
    tokens, age = words(name="words"), keras.Input((1,), name="age")
    hidden = layers.Concatenate()([layers.Flatten()(layers.Embedding(20, 4)(tokens)), age])
    cost, kind = layers.Dense(1)(hidden), layers.Dense(3, activation="softmax")(hidden)
    losses = {"cost": "mse", "kind": "sparse_categorical_crossentropy"}
    model = compiled(keras.Model({"words": tokens, "age": age}, {"cost": cost, "kind": kind}), loss=losses)
    made = KerasTrainer(model).samples(8)
    x, y = keras.tree.map_structure(lambda array: f"{array.shape} {array.dtype}", made)
    assert x == {"words": "(8, 6) int32", "age": "(8, 1) float32"}
    assert y == {"cost": "(8, 1) float32", "kind": "(8,) int32"}
    assert estimated(model).tier == "probed"
    nested = compiled(keras.Model((age, [tokens]), [cost, kind]), loss=["mse", None])
    x, y = KerasTrainer(nested).samples(8)
    assert nested.compute_loss(x, y, nested(x)) > 0


def test_a_batch_of_declared_size_is_tried_at_no_other():
    model, uncounted = (
        compiled(keras.Sequential([keras.Input(batch_shape=(16, 4)), *more, layers.Dense(1)])) for more in ([], [Own()])
    )
    one = estimated(model, samples=160, seconds=6)
    assert not any("the time was used up" in note for note in one.notes)
    for each in (model, uncounted):
        with pytest.raises(InputError, match="batch_size: 10 is not the 16"):
            estimated(each, batch_size=10)
    with pytest.raises(InputError, match="length: 7 finds no unknown dimension"):
        estimated(model, length=7)


# What `fit` gets


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_samples_are_trained_in_batches_of_the_size_that_is_asked_for(parts):
    """x alone, as of a model whose loss is its own; x and targets; those with weights of the samples."""
    numbers = keras.Input((4,))
    model = compiled(keras.Model(numbers, layers.Dense(4)(numbers)), "sgd", "mse" if parts > 1 else None)
    x = np.ones((60, 4), "float32")
    given = x if parts == 1 else (x, x, np.zeros(60))[:parts]
    if parts == 1:
        model.compute_loss = lambda x, y, y_pred, *others, **named: ops.mean(ops.square(x - y_pred))
    trainer = KerasTrainer(model, given)
    assert trainer.sample_bytes == 16 * min(parts, 2) + 8 * (parts == 3)
    before = np.array(model.layers[-1].kernel)
    with trainer.restored(values=False):
        trainer.train(20, 7, 1)
        steps, after = int(model.optimizer.iterations), np.array(model.layers[-1].kernel)
    assert steps == 7
    assert (before == after).all() == (parts == 3), "weights of 0 train nothing"
    assert estimated(model, data=given, validation=20).parts["validation"] > 0


def text():
    tokens = keras.Input((1,), dtype="string")
    KerasTrainer(compiled(keras.Model(tokens, layers.Embedding(4, 2)(ops.cast(tokens, "int32")))))


def table_of_another_optimizer():
    estimated(compiled(keras.Sequential([words(), deferred.Embedding(20, 4), layers.Flatten(), layers.Dense(1)])))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: KerasTrainer(regression(), [1, 2, 3, 4]), "data: 'int' is no array"),
        (lambda: KerasTrainer(regression(), (np.ones((3, 4)), np.ones(2))), "differ in their number of samples"),
        (lambda: estimated(object()), "model: 'object' is no Keras 3 model"),
        (text, "is text"),
        (table_of_another_optimizer, "(?s)^optimizer: .*traintime.deferred.Adam"),  # in its own words
    ],
)
def test_what_cannot_be_tried_is_named(ask, message):
    with pytest.raises(InputError, match=message):
        ask()


class Batches(keras.utils.PyDataset):
    """A source with batches of its own size, and a pause for each; `fit` lets it prepare an epoch."""

    ready = BACKEND == "tensorflow"  # where Keras looks at batches before an epoch begins

    def __init__(self, model, number, pause_s, **how):
        super().__init__(**how)
        self.batch, self.number, self.pause_s = KerasTrainer(model).samples(8), number, pause_s

    def on_epoch_begin(self):
        self.ready = True

    def __len__(self):
        return self.number

    def __getitem__(self, index):
        assert self.ready
        time.sleep(self.pause_s)
        return self.batch


def test_a_source_of_several_workers_is_timed_while_all_of_them_work():
    """Four, of which each sleeps 0.04 s for a batch: one comes each 0.01 s, however busy the processors are."""
    model = reader()
    data = Batches(model, 120, 0.04, workers=4)
    one = estimated(model, data=data, samples=120 * 8, batch_size=8, epochs=2, seconds=4)
    assert 0.9 < one.step.value / 0.01 < 3
    assert one.limited_by.startswith("waiting for data")
    assert threading.active_count() < 20, "its workers are gone"


@pytest.mark.filterwarnings("ignore:.shuffle=True. was passed")  # which is the default
def test_a_source_whose_length_nobody_knows_is_read_on():
    model = reader()
    batch = KerasTrainer(model).samples(8)

    def endless():
        while True:
            time.sleep(0.01)
            yield batch

    one = estimated(model, data=endless(), samples=8000, batch_size=8, seconds=2)
    took = seconds_of(model.fit, endless(), steps_per_epoch=100, verbose=0)
    assert 0.01 <= one.step.value < 4 * took / 100


# What is estimated


@pytest.mark.smoke
def test_what_it_says_of_a_training_is_near_what_that_takes():
    """A ratio within one run, and a generous one: what else the machine does is not ours to know."""
    model, samples = reader(metrics=["accuracy"]), 32 * 150 + 10
    for last in (False, False, True):  # a machine that is busy during one of the two alone is asked again
        one = estimated(model, samples=samples, batch_size=32, validation=100, saves=1, seconds=2, keep=False)
        took = seconds_of(model.fit, *KerasTrainer(model).samples(samples), batch_size=32, verbose=0)
        near = (one.parts["steps"] + one.parts["between epochs"]) / 5 < took < 5 * one.total.value
        if near or last:
            break
    assert near
    assert one.tier == "probed"
    assert min(one.parts[name] for name in ("steps", "last batches", "validation", "saving")) > 0
    assert sum(one.terms.values()) == pytest.approx(one.step.value)
    assert one.memory.value > 1e8


@pytest.mark.skipif(BACKEND != "torch", reason="the loop is torch's own")
def test_a_plain_loop_of_torch_is_probed_by_its_step():
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer, asked = torch.optim.Adam(network.parameters()), []

    def step(n):
        asked.append(n)
        optimizer.zero_grad()
        network(torch.randn(n, 20)).square().mean().backward()
        optimizer.step()

    for last in (False, False, True):  # as above
        one = traintime.estimate(step=step, samples=64 * 300 + 10, batch_size=64, epochs=2, seconds=3)
        took = seconds_of(lambda: [step(n) for n in ([64] * 300 + [10]) * 2])
        if one.total.value / 5 < took < 5 * one.total.value or last:
            break
    assert one.total.value / 5 < took < 5 * one.total.value
    assert one.tier == "probed"
    assert one.of.endswith("torch")
    # The batch, and beside it the last one, which is smaller, if a busy machine has left time for it.
    alone = any("one batch size alone was tried" in note for note in one.notes)
    assert set(asked) == ({64} if alone else {64, 10})
    assert one.memory.value > 1e8


def test_a_smaller_model_is_tried_in_the_place_of_a_larger_one():
    """It is left as it was, and the larger one is not trained: it need not even be compiled."""
    small, large = reader(), keras.models.clone_model(reader(50_000))
    small.optimizer.build(small.trainable_variables)  # whose state is compared
    before = [state(one) for one in (small, small.optimizer, large)]
    one = estimated(large, samples=1030, batch_size=32, probe=small, validation=100)
    np.testing.assert_equal([state(one) for one in (small, small.optimizer, large)], before)
    assert one.tier == "scaled"
    assert one.batch_size == 32
    if not one.limited_by.startswith("the formula does not explain"):  # as on a busy machine
        assert sum(one.terms.values()) == pytest.approx(one.step.value)
    assert one.memory.value > 4 * 50_000 * 16
    beside = estimated(small, samples=1030, batch_size=320, probe_batch=32)
    assert beside.tier == "scaled"
    assert any("at batch 32" in note for note in beside.notes)
    with pytest.raises(InputError, match="batches of its own"):
        estimated(large, probe=small, data=Batches(small, 40, 0.0))


def test_the_copies_that_put_a_model_back_are_known():
    model = reader()
    with (trainer := KerasTrainer(model)).restored():
        kept = sum(np.array(each).nbytes for each in (*model.variables, *model.optimizer.variables))
        assert kept <= trainer.kept_bytes < 1.01 * kept, "and seeds"


def test_fit_holds_its_samples_as_often_as_it_copies_them():
    """On TensorFlow in a constant of the input's graph, and for a moment once more while that is made."""
    trainer = KerasTrainer(compiled(keras.Sequential([keras.Input((4096,)), layers.Dense(1)]), "sgd"))
    trainer.train(8, 1, 1)
    found = trainer.copies(8, 2 * TRIED_BYTES // trainer.sample_bytes)
    training, start = (2, 3) if BACKEND == "tensorflow" else (1, 1)
    assert found.training == pytest.approx(training, abs=0.3)
    assert found.start == pytest.approx(start, abs=0.3)
    assert trainer.copies(8, 100) == ONCE, "few are not tried"


def test_memory_starts_from_what_the_very_process_holds():
    before, held = estimated(reader(), tier="formula"), np.ones(300_000_000, "uint8")
    after = estimated(reader(), tier="formula")
    assert after.memory.value - before.memory.value == pytest.approx(held.nbytes, rel=0.1)


def test_the_formula_needs_no_compiled_model_and_a_probe_does():
    model = keras.Sequential([keras.Input((10,)), layers.Dense(5)])
    one = estimated(model, optimizer="adam")
    assert one.tier == "formula"
    assert any("not compiled" in note for note in one.notes)
    with pytest.raises(InputError, match="is not compiled"):
        estimated(model, tier="probed", optimizer="adam")


def test_what_cannot_be_counted_is_probed_and_says_so():
    model = compiled(keras.Sequential([keras.Input((10,)), Own(), layers.Dense(2)]))
    with pytest.raises(InputError, match="Own"):
        estimated(model, tier="formula")
    one = estimated(model)
    assert one.tier == "probed"
    assert one.terms is None
    assert any("layers whose work is not known" in note for note in one.notes)


def test_a_step_that_is_not_compiled_is_not_told_to_be_spent_as_one_that_is():
    one = estimated(reader(run_eagerly=True))
    assert one.tier == "probed"
    untold = BACKEND != "torch"  # which compiles no step
    assert (one.terms is None) == (not one.limited_by) == untold
    assert any("run_eagerly=True has no known cost" in note for note in one.notes) == untold


def test_an_unknown_length_is_asked_for():
    model = compiled(keras.Sequential([words(None), layers.Embedding(50, 4), layers.GRU(4), layers.Dense(1)]))
    with pytest.raises(InputError, match="length="):
        estimated(model)
    assert estimated(model, length=7).tier == "probed"
    assert traintime.largest(model, "length", samples=100, batch_size=10, memory="1TB").surely > 7


@pytest.mark.smoke
def test_what_does_not_fit_is_costed_and_not_tried(monkeypatch):
    model = reader()
    monkeypatch.setattr(machine, "free_memory", lambda: 1e6)
    one = estimated(model)
    assert one.tier == "formula"
    assert "GiB are free" in one.warnings[0]
    with pytest.raises(InputError, match="GiB are free"):
        estimated(model, tier="probed")


# A model is afterwards as it was


class Own(layers.Layer):
    """Makes its layers' weights when it is called first, and no sooner."""

    def __init__(self):
        super().__init__()
        self.parts = {"hidden": [layers.Dense(8, activation="relu"), layers.BatchNormalization()]}

    def call(self, inputs):
        for layer in self.parts["hidden"]:
            inputs = layer(inputs)
        return inputs


def state(thing):
    """The variables of a model or of an optimizer."""
    found = [(one.path, one.trainable, np.array(ops.convert_to_numpy(one))) for one in thing.variables]
    return {"variables": found, "built": thing.built}


def everything(model):
    """What a reader can look up of the model, and what is drawn next."""
    return {
        "model": state(model),
        "optimizer": state(model.optimizer),
        "metrics": [np.array(ops.convert_to_numpy(one)) for one in model.metrics_variables],
        "functions": [model.train_function, model.test_function, model.predict_function],
        "others": [getattr(model, "history", None), model.stop_training],
        "trainable": [each.trainable for each in model._flatten_layers()],
        "random": np.random.get_state()[1],
    }


def regression():
    """With all that has a state: moving averages, seeds, two moments, a learning rate that was changed."""
    keras.utils.set_random_seed(1)
    hidden = [layers.Dense(8, activation="relu"), layers.BatchNormalization(), layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((4,)), *hidden, layers.Dense(1)])
    return compiled(model, keras.optimizers.Adam(0.01), metrics=["mae"])


def unbuilt():
    keras.utils.set_random_seed(3)
    return compiled(keras.Sequential([Own(), layers.Dropout(0.5), layers.Dense(1)]), metrics=["mae"])


def targets_in_a_row():
    x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    return x, x.sum(1)


def tried(model, data=None):
    """As an estimate trains it, in short."""
    trainer = KerasTrainer(model, data)
    with trainer.restored():
        trainer.train(16, 2, 1)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("made", "ask"),
    [
        (regression, lambda model: estimated(model, validation=20, saves=1)),
        (unbuilt, lambda model: tried(model, targets_in_a_row())),
    ],
    ids=["built", "unbuilt"],
)
def test_a_training_goes_on_as_if_nobody_had_asked(made, ask):
    """Neither before a first `fit` nor between two. Its targets have the shape (n,), made-up ones (n, 1)."""
    model, untouched = made(), made()
    for seed in (2, 3):
        losses = []
        for one in (model, untouched):
            keras.utils.set_random_seed(seed)
            if one is model:
                before = everything(model)
                ask(model)
                np.testing.assert_equal(everything(model), before)
            losses.append(one.fit(*targets_in_a_row(), batch_size=16, epochs=2, verbose=0).history["loss"])
        assert losses[0] == losses[1], "the same random numbers are drawn"
    assert len(model.optimizer.variables) == len(untouched.optimizer.variables)


def test_rows_that_are_behind_are_left_behind():
    """A deferred table's own `assign` would bring them up to date first."""
    after = []
    inputs = np.random.default_rng(0).integers(0, 300, (12, 16, 6)).astype("int32")
    for asked in (True, False):
        keras.utils.set_random_seed(0)
        table = deferred.Embedding(300, 4)
        model = compiled(keras.Sequential([words(), table, layers.Flatten(), layers.Dense(1)]), deferred.Adam(0.01))
        for batch in inputs[:6]:
            model.train_on_batch(batch, batch[:, :1] % 2)
        if asked:
            estimated(model)
        after.append([float(model.train_on_batch(batch, batch[:, :1] % 2)) for batch in inputs[6:]])
    assert after[0] == after[1]


def test_unusual_optimizers_and_metrics_are_put_back():
    """An average of the weights, a scaled loss, a schedule, a frozen layer, a metric made at a first batch."""
    model = regression()
    inner = keras.optimizers.AdamW(keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5), use_ema=True)
    model.layers[1].trainable = False
    compiled(model, keras.optimizers.LossScaleOptimizer(inner), metrics=[keras.metrics.R2Score()])
    before = everything(model) | {"inner": state(inner)}
    tried(model)
    np.testing.assert_equal(everything(model) | {"inner": state(inner)}, before)


@pytest.mark.smoke
def test_what_the_model_raises_is_named_and_it_is_as_it_was():
    model = regression()
    x, y = targets_in_a_row()
    before = everything(model)
    with pytest.raises(InputError, match="in `fit` of the given samples") as refused:
        estimated(model, data=(x[:, :3], y))
    assert "data=(x, y)" not in refused.value.remedy
    assert "\n" not in str(refused.value)
    np.testing.assert_equal(everything(model), before)
    broken = compiled(keras.Sequential([keras.Input((4,)), layers.Dense(1)]), loss=lambda truth, guess: 1 / 0)
    said = "ZeroDivisionError in `fit` of made-up samples: division by zero. Call fit by itself"
    with pytest.raises(InputError, match=said) as refused:
        estimated(broken)
    assert "data=(x, y)" in refused.value.remedy
