"""Readers' models on the backend of KERAS_BACKEND: what they are made of, and that they stay as they were.

test_backends.py runs this.
"""

import keras
import numpy as np
import pytest
from keras import layers, ops

import traintime
from traintime import deferred
from traintime.errors import InputError
from traintime.predict import process
from traintime.predict.costs import Rates
from traintime.predict.keras_trainer import KerasTrainer

# Keras' own, of NumPy 2, wherever it hands a weight to NumPy.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

BACKEND = keras.backend.backend()


@pytest.fixture(autouse=True)
def machine_of_known_rates(monkeypatch):
    monkeypatch.setattr(process, "rates", lambda: Rates(1e11, 2e10))
    keras.utils.set_random_seed(0)


# What a graph may be made of


def words(name=None, length=6):
    return keras.Input((length,), dtype="int32", name=name)


def masked_functional():
    tokens = words()
    hidden = layers.LSTM(4)(layers.Embedding(20, 4, mask_zero=True)(tokens))
    return keras.Model(tokens, layers.Dense(1)(hidden))


def masked_sequential():
    return keras.Sequential([words(), layers.Embedding(20, 4, mask_zero=True), layers.LSTM(4), layers.Dense(1)])


def masking():
    return keras.Sequential([keras.Input((6, 3)), layers.Masking(), layers.GRU(4), layers.Dense(1)])


def divided():
    pictures = keras.Input((8, 8, 1))
    return keras.Model(pictures, layers.Dense(1)(layers.Flatten()(layers.Conv2D(2, 3)(pictures / 255.0))))


def sliced():
    both = keras.Input((7,))
    embedded = layers.Embedding(20, 4)(both[:, :6])
    return keras.Model(both, layers.Dense(1)(layers.Concatenate()([layers.Flatten()(embedded), both[:, 6:]])))


def cast():
    numbers = keras.Input((6,))
    return keras.Model(numbers, layers.Dense(1)(layers.LSTM(4)(layers.Embedding(20, 4)(ops.cast(numbers, "int32")))))


def several_tensors():
    first, second = keras.Input((4,)), keras.Input((4,))
    stacked = ops.stack([first, second, ops.maximum(first, second)], axis=1)
    return keras.Model([first, second], layers.Dense(1)(ops.einsum("bij,bij->bi", stacked, stacked)))


def function_of_the_readers():
    numbers = keras.Input((4,))
    doubled = layers.Lambda(lambda each: each * 2.0, output_shape=(4,))(numbers)
    return keras.Model(numbers, layers.Dense(1)(doubled))


def nested_and_shared():
    tower = keras.Sequential([words(), layers.Embedding(20, 4, mask_zero=True), layers.GRU(4)])
    first, second = words(), words()
    return keras.Model([first, second], layers.Dense(1)(layers.Dot(1)([tower(first), tower(second)])))


def of_time():
    sentences = keras.Input((3, 6), dtype="int32")
    reader = keras.Sequential([words(), layers.Embedding(20, 4), layers.Flatten(), layers.Dense(3)])
    hidden = layers.Bidirectional(layers.LSTM(4))(layers.TimeDistributed(reader)(sentences))
    return keras.Model(sentences, layers.Dense(1)(hidden))


def stacked_cells():
    cells = layers.StackedRNNCells([layers.LSTMCell(4), layers.GRUCell(3)])
    numbers = keras.Input((5, 2))
    return keras.Model(numbers, layers.Dense(1)(layers.RNN(cells)(layers.Masking()(numbers))))


def attention():
    tokens = words()
    embedded = layers.Embedding(20, 4, mask_zero=True)(tokens)
    attended = layers.MultiHeadAttention(2, 2)(embedded, embedded)
    return keras.Model(tokens, layers.Dense(1)(layers.GlobalAveragePooling1D()(attended)))


def one_in_a_list():
    numbers = keras.Input((4,))
    return keras.Model([numbers], [layers.Dense(1)(numbers)])


GRAPHS = [masked_functional, masked_sequential, masking, divided, sliced, cast, several_tensors]
GRAPHS += [function_of_the_readers, nested_and_shared, of_time, stacked_cells, attention, one_in_a_list]


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_model_is_tried_whatever_its_graph_is_made_of(graph):
    model = graph()
    model.compile("adam", "mse")
    x, y = KerasTrainer(model).samples(200)
    assert model.compute_loss(x, y, model(x)) > 0
    drawn = [array for array in keras.tree.flatten(x) if array.dtype == "int32"]
    assert all(array.max() == 19 for array in drawn), "row numbers reach the table's last row and no further"


@pytest.mark.parametrize("loss", [{"cost": "mse", "kind": "sparse_categorical_crossentropy"}, ["mse", None]])
def test_inputs_and_outputs_are_made_up_in_the_structure_that_the_model_declares(loss):
    given = {"words": words("words"), "age": keras.Input((1,), name="age")}
    embedded = layers.Flatten()(layers.Embedding(20, 4)(given["words"]))
    hidden = layers.Concatenate()([embedded, given["age"]])
    cost, kind = layers.Dense(1, name="cost")(hidden), layers.Dense(3, activation="softmax", name="kind")(hidden)
    outputs = {"cost": cost, "kind": kind} if isinstance(loss, dict) else [cost, kind]
    model = keras.Model(given, outputs)
    model.compile("adam", loss)
    trainer = KerasTrainer(model)
    x, y = trainer.samples(8)
    assert {name: array.shape for name, array in x.items()} == {"words": (8, 6), "age": (8, 1)}
    if isinstance(loss, dict):
        assert {name: (array.shape, str(array.dtype)) for name, array in y.items()} == {
            "cost": ((8, 1), "float32"),
            "kind": ((8,), "int32"),
        }
        assert estimated(model).tier == "probed"
    assert model.compute_loss(x, y, model(x)) > 0
    tupled = keras.Model((given["age"], [given["words"]]), cost)
    tupled.compile("adam", "mse")
    age, (row,) = x = KerasTrainer(tupled).samples(8)[0]
    assert (age.shape, row.shape) == ((8, 1), (8, 6))
    assert tupled(x).shape == (8, 1)


def test_a_batch_of_declared_size_is_tried_at_no_other():
    model = keras.Sequential([keras.Input(batch_shape=(16, 4)), layers.Dense(1)])
    model.compile("adam", "mse")
    one = estimated(model, samples=160, seconds=6)
    assert not any("the time was used up" in note for note in one.notes)
    unreadable = keras.Sequential([keras.Input(batch_shape=(16, 4)), Own(), layers.Dense(1)])
    unreadable.compile("adam", "mse")
    for each in (model, unreadable):
        with pytest.raises(InputError, match="batch_size: 10 is not the 16"):
            estimated(each, batch_size=10)
    with pytest.raises(InputError, match="length: 7 finds no unknown dimension"):
        estimated(model, length=7)


# What `fit` gets


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_samples_are_trained_in_batches_of_the_size_that_is_asked_for(parts):
    """x alone, as of a model whose loss is its own; x and targets; those with weights of the samples."""
    numbers = keras.Input((4,))
    model = keras.Model(numbers, layers.Dense(4, name="again")(numbers))
    model.compile("sgd", "mse" if parts > 1 else None)
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


class Wrapper:
    """Around a model, as scikit-learn has one."""

    def fit(self, x, y):
        pass


def no_array(data):
    return KerasTrainer(regression(), data)


def text():
    model = keras.Model(made := keras.Input((1,), dtype="string"), layers.Embedding(4, 2)(ops.cast(made, "int32")))
    model.compile("adam", "mse")
    KerasTrainer(model)


def table_of_another_optimizer():
    model = keras.Sequential([words(), deferred.Embedding(20, 4), layers.Flatten(), layers.Dense(1)])
    model.compile(keras.optimizers.Adam(), "mse")
    estimated(model)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: no_array(([1.0, 2.0], [1, 2])), "data: 'float' is no array"),
        (lambda: no_array((np.ones((3, 4)), "targets")), "data: 'str' is no array"),
        (lambda: no_array([1, 2, 3, 4]), "data: 'int' is no array"),
        (lambda: estimated(Wrapper()), "model: 'Wrapper' is no Keras 3 model"),
        (text, "is text"),
        (table_of_another_optimizer, "(?s)^optimizer: .*traintime.deferred.Adam"),  # in its own words
    ],
)
def test_what_cannot_be_tried_is_named(ask, message):
    with pytest.raises(InputError, match=message):
        ask()


# It is afterwards as it was


def state(thing):
    """The variables of a model or of an optimizer."""
    found = [np.array(ops.convert_to_numpy(one)) for one in thing.variables]
    names, trainable = [one.path for one in thing.variables], [one.trainable for one in thing.variables]
    return {"values": found, "names": names, "trainable": trainable, "built": thing.built}


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


def alike(before, after):
    for name, value in before.items():
        np.testing.assert_equal(after[name], value, name)


def regression(**compiled):
    """With all that has a state: moving averages, seeds, two moments, a learning rate that was changed."""
    keras.utils.set_random_seed(1)
    numbers = keras.Input((4,))
    hidden = layers.Dropout(0.5)(layers.BatchNormalization()(layers.Dense(8, activation="relu")(numbers)))
    model = keras.Model(numbers, layers.Dense(1)(hidden))
    model.compile(keras.optimizers.Adam(0.01), "mse", **{"metrics": ["mae", keras.metrics.R2Score()]} | compiled)
    return model


def targets_in_a_row():
    x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    return x, x.sum(1)


def losses(model, x, y, epochs=2):
    return model.fit(x, y, batch_size=16, epochs=epochs, verbose=0).history["loss"]


def estimated(model, **given):
    return traintime.estimate(model, **{"samples": 100, "batch_size": 16, "seconds": 1} | given)


def tried(model, data=None, values=True):
    """As an estimate trains it, in short."""
    trainer = KerasTrainer(model, data)
    with trainer.restored(values):
        trainer.train(16, 2, 1)


@pytest.mark.smoke
def test_a_training_goes_on_as_if_nobody_had_asked():
    """Neither before a first `fit` nor between two. Its targets have the shape (n,), made-up ones (n, 1)."""
    x, y = targets_in_a_row()
    untouched, model = regression(metrics=["mae"]), regression(metrics=["mae"])
    for seed in (2, 3):
        keras.utils.set_random_seed(seed)
        before = everything(model)
        estimated(model, validation=20, saves=1)
        alike(before, everything(model))
        after = losses(model, x, y)
        keras.utils.set_random_seed(seed)
        assert after == losses(untouched, x, y)


def test_rows_that_are_behind_are_left_behind():
    """A deferred table's own `assign` would bring them up to date first."""
    models = []
    for _ in range(2):
        keras.utils.set_random_seed(0)
        models.append(keras.Sequential([words(), deferred.Embedding(300, 4), layers.Flatten(), layers.Dense(1)]))
        models[-1].compile(deferred.Adam(0.01), "mse")
    inputs = np.random.default_rng(0).integers(0, 300, (12, 16, 6)).astype("int32")
    after = []
    for model in models:
        for batch in inputs[:6]:
            model.train_on_batch(batch, batch[:, :1] % 2)
        if model is models[0]:
            estimated(model)
        after.append([float(model.train_on_batch(batch, batch[:, :1] % 2)) for batch in inputs[6:]])
    assert after[0] == after[1]


def test_unusual_optimizers_and_metrics_are_put_back():
    """An average of the weights, a scaled loss, a schedule, a frozen layer, a metric made at a first batch."""
    x, y = targets_in_a_row()
    model = regression()
    inner = keras.optimizers.AdamW(keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5), use_ema=True)
    model.layers[1].trainable = False
    model.compile(keras.optimizers.LossScaleOptimizer(inner), "mse", metrics=[keras.metrics.R2Score()])
    for fitted in (False, True):
        before = everything(model) | {"inner": state(inner)}
        tried(model)
        alike(before, everything(model) | {"inner": state(inner)})
        if fitted or BACKEND == "jax":  # where Keras' average makes a second `fit` impossible
            break
        model.fit(x, y[:, None], verbose=0)


class Own(keras.layers.Layer):
    """Makes its layers' weights when it is called first, and no sooner."""

    def __init__(self):
        super().__init__()
        self.parts = {"hidden": [layers.Dense(8, activation="relu"), layers.BatchNormalization()]}

    def call(self, inputs):
        for layer in self.parts["hidden"]:
            inputs = layer(inputs)
        return inputs


def test_a_model_that_the_probe_builds_is_not_built_afterwards():
    x, y = targets_in_a_row()

    def made():
        keras.utils.set_random_seed(3)
        model = keras.Sequential([Own(), layers.Dropout(0.5), layers.Dense(1)])
        model.compile("adam", "mse", metrics=["mae"])
        return model

    model, untouched = made(), made()
    keras.utils.set_random_seed(2)
    before = everything(model)
    assert not model.built
    tried(model, (x, y))
    alike(before, everything(model))
    after = losses(model, x, y)
    keras.utils.set_random_seed(2)
    assert after == losses(untouched, x, y)
    for one in ("variables", "metrics_variables"):
        assert [each.shape for each in getattr(model, one)] == [each.shape for each in getattr(untouched, one)]
    assert len(model.optimizer.variables) == len(untouched.optimizer.variables)


@pytest.mark.smoke
def test_what_the_model_raises_is_named_and_it_is_as_it_was():
    model = regression()
    x, y = targets_in_a_row()
    before = everything(model)
    with pytest.raises(InputError, match="in `fit` of the given samples") as refused:
        estimated(model, data=(x[:, :3], y))
    assert "made up" not in refused.value.remedy
    assert "\n" not in str(refused.value)
    alike(before, everything(model))
    broken = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
    broken.compile("adam", lambda truth, guess: 1 / 0)
    said = "ZeroDivisionError in `fit` of made-up samples: division by zero. Call fit by itself"
    with pytest.raises(InputError, match=said) as refused:
        estimated(broken)
    assert "data=(x, y)" in refused.value.remedy
