"""The deferred embedding and its Adam, on the backend of KERAS_BACKEND; test_backends.py runs this."""

import contextlib
import functools
import os
import threading

import keras
import numpy as np
import pytest
from keras import ops

from traintime import deferred
from traintime.deferred import Embedding, arithmetic, embedding, table
from traintime.errors import InputError

BACKEND = keras.backend.backend()
if BACKEND == "jax":
    import jax
elif BACKEND == "torch":
    import torch
else:
    import tensorflow as tf

# Keras' own, of NumPy 2, wherever it hands a weight to NumPy.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

REFUSAL = (ValueError, RuntimeError)  # Keras makes this one of any error inside a call, with the same words
ROWS, WIDTH, LENGTH, BATCH = 400, 8, 6, 48


class Table(keras.layers.Embedding):
    """Keras' embedding with a gradient that is one dense array: then TensorFlow's Adam, too, is Adam as published.

    (Of slices Keras 3.15 squares each by itself, so that a row that is read twice has another second moment.)
    """

    def call(self, inputs):
        return ops.matmul(ops.one_hot(ops.cast(inputs, "int32"), self.input_dim), self.embeddings)


def data(steps, seed=0):
    """Zipf-distributed rows, many of them several times in a batch: inputs and targets of so many batches."""
    random = np.random.default_rng(seed)
    often = 1 / np.arange(1, ROWS + 1)
    inputs = random.choice(ROWS, (BATCH * steps, LENGTH), p=often / often.sum()).astype("int32")
    return inputs, (inputs[:, :1] % 2).astype("float32")


def adam(kind, learning_rate=0.003, **named):
    """The Adam that trains this kind of table."""
    return (deferred.Adam if kind is Embedding else keras.optimizers.Adam)(learning_rate, **named)


def start():
    """Where a table starts from."""
    return np.random.default_rng(1).uniform(-0.1, 0.1, (ROWS, WIDTH)).astype("float32")


def made(table, optimizer=None, **compiled):
    """A small classifier on the table, from the same weights each time."""
    keras.utils.set_random_seed(0)
    layers = [
        keras.Input((LENGTH,), dtype="int32"),
        table,
        keras.layers.GlobalAveragePooling1D(),  # compiled in a tenth of an LSTM's time; it masks, too
        keras.layers.Dense(16, activation="tanh"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
    model = keras.Sequential(layers)
    table.set_weights([start()])
    model.compile(optimizer or adam(type(table)), "binary_crossentropy", **compiled)
    return model


def trained(model, steps, *callbacks):
    """The loss of each step (`fit` itself gives the mean so far)."""
    sums = [0.0]
    add = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: sums.append(float(logs["loss"]) * (batch + 1))
    )
    model.fit(*data(steps), batch_size=BATCH, shuffle=False, verbose=0, callbacks=[add, *callbacks])
    return np.diff(sums)


def table_of(model):
    return model.layers[0].get_weights()[0]


def far(one, other):
    return np.abs(np.asarray(one) - other).max() / np.abs(other).max()


def assert_same(training):
    """A training, which gives the model and its last losses, has the losses and the table of dense Adam's."""
    (dense, wanted), (model, losses) = (training(kind) for kind in (Table, Embedding))
    assert far(losses, wanted) < 1e-5
    assert far(table_of(model), table_of(dense)) < 1e-4


@contextlib.contextmanager
def refused(model, said):
    """A context that an error with these words ends, and in which no weight has changed."""
    before = model.get_weights()
    with pytest.raises(Exception, match=said):
        yield
    for weight, was in zip(model.get_weights(), before, strict=True):
        assert (weight == was).all()


def gradients_of(model, weights, compiled):
    """A function that makes the gradients of the weights, of the loss of some batches one after the other."""

    def loss(batches, call=model):
        return sum(ops.mean(ops.square(call(inputs) - targets)) for inputs, targets in batches)

    def of_values(trained, others, batches):
        return loss(batches, lambda inputs: model.stateless_call(trained, others, inputs)[0])

    def on_tensorflow(batches):
        with tf.GradientTape() as tape:
            total = loss(batches)
        return tape.gradient(total, weights)

    if BACKEND == "torch":
        return lambda batches: torch.autograd.grad(loss(batches), values_of(weights))
    if BACKEND == "tensorflow":
        return tf.function(on_tensorflow) if compiled else on_tensorflow
    on_jax = jax.jit(jax.grad(of_values)) if compiled else jax.grad(of_values)
    return lambda batches: on_jax(values_of(weights), values_of(model.non_trainable_variables), batches)


def values_of(variables):
    return [variable.value for variable in variables]


def in_slices(gradient):
    """Whether the numbers of a gradient stand in a tensor of their own, as TensorFlow's of a table do."""
    return BACKEND == "tensorflow" and isinstance(gradient, tf.IndexedSlices)


class Loop:
    """A loop of one's own, one call at a time: gradients are made, added up, changed, dropped and applied by hand."""

    def __init__(self, model, compiled):
        self.model, self.gradients, self.lookups = model, None, 0
        self.weights = model.trainable_variables if BACKEND == "jax" else model.trainable_weights
        model.optimizer.build(self.weights)
        self.made = gradients_of(model, self.weights, compiled)

    def backward(self, *seeds):
        """Gradients of batches that are looked up one after the other, added to those that are there."""
        found = self.made([[ops.convert_to_tensor(each) for each in data(1, seed)] for seed in seeds])
        kept, self.lookups = self.gradients, len(seeds) + (self.lookups if self.gradients is not None else 0)
        self.gradients = found if kept is None else [self._sum(*pair) for pair in zip(kept, found, strict=True)]

    def _sum(self, one, other):
        if in_slices(one):
            joined = [tf.concat([getattr(each, name) for each in (one, other)], 0) for name in ("values", "indices")]
            return tf.IndexedSlices(*joined, one.dense_shape)
        return one + other

    def change(self, change):
        """Change each gradient's numbers."""
        self.gradients = [
            tf.IndexedSlices(change(one.values), one.indices, one.dense_shape) if in_slices(one) else change(one)
            for one in self.gradients
        ]

    def apply(self, some=slice(None)):
        """A step, of some of the weights; then there are no gradients."""
        gradients, self.gradients, optimizer = self.gradients, None, self.model.optimizer
        if BACKEND != "jax":
            optimizer.apply(gradients[some], self.weights[some])
            return
        stepped = optimizer.stateless_apply(values_of(optimizer.variables), gradients, values_of(self.weights))
        for variables, values in zip((self.weights, optimizer.variables), stepped, strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)


# What a loop may do, and how often in a hundred; what stands last has to be made anew, or compiled, and takes long.
DEEDS = {"backward": 26, "both": 3, "apply": 22, "scale": 5, "clip": 3, "zero": 3, "drop": 4, "head": 4, "look": 5}
DEEDS |= {"remember": 4, "back": 4, "save": 4, "load": 3, "train": 4, "recompile": 6}
CHANGES = {
    "scale": lambda one: one * 0.5,
    "clip": lambda one: ops.clip(one, -0.001, 0.001),  # of a sparse gradient torch does not
    "zero": lambda one: one * 0,
}
REFUSED_THERE = ("backward", "both", "scale", "clip")  # on JAX, where there are gradients
OTHERS = [{"beta_1": 0.0}, {"beta_2": 0.99}, {"beta_1": 0.8, "epsilon": 1e-3}]  # decays and epsilons


def sequence(number, length=24):
    """Deeds at random, each with a number for what it needs; `backward` and `apply` stand at the end."""
    random = np.random.default_rng(number)
    names, often = list(DEEDS), np.array(list(DEEDS.values())) / sum(DEEDS.values())
    deeds = [str(name) for name in random.choice(names, length, p=often)]
    return [(deed, int(random.integers(40))) for deed in [*deeds, "backward", "apply", "backward", "apply"]]


def lived(kind, deeds, file, compiled):
    """What is left of a model after these deeds: its weights and its predictions."""
    model = made(kind(ROWS, WIDTH, **({"most": 2 * BATCH * LENGTH} if kind is Embedding else {})))
    model.save_weights(file)  # of an optimizer that has kept nothing yet: who loads it goes on with what he has
    loop, earlier = Loop(model, compiled), None
    for deed, seed in deeds:
        given = loop.gradients is not None
        if BACKEND == "jax" and given and deed in REFUSED_THERE and seed % 10:
            continue  # else hardly a sequence would come to its end
        if deed == "backward":
            loop.backward(seed)
        elif deed == "both":
            loop.backward(seed, seed + 1)
        elif deed == "apply" and given:
            loop.apply()
        elif deed == "head" and given and BACKEND != "jax":  # where all are given at once
            loop.apply(slice(1, None))
        # A row's gradients of two lookups stand beside each other on TensorFlow, as with Keras' own layer.
        elif deed in CHANGES and given and (deed != "clip" or loop.lookups == 1):
            loop.change(CHANGES[deed])
        elif deed == "drop":
            loop.gradients = None
        elif deed == "train":
            model.train_on_batch(*data(1, seed))
        elif deed == "look":
            model(data(1, seed)[0])
        elif deed == "remember":
            variables = [*model.variables, *model.optimizer.variables]
            earlier = model.get_weights(), [(variable, np.array(variable)) for variable in variables]
        elif deed == "back" and earlier is not None:
            if seed % 2:
                model.set_weights(earlier[0])
            else:
                for variable, value in earlier[1][:: 1 if seed % 4 else -1]:
                    variable.assign(value)
        elif deed == "save":
            model.save_weights(file)
        elif deed == "load":
            model.load_weights(file)
        elif deed == "recompile":
            model.compile(adam(kind, 0.01, **[{}, *OTHERS][seed % 4]), "mse")
            loop.gradients = None
            model.optimizer.build(loop.weights)
    return model.get_weights(), ops.convert_to_numpy(model(data(2, 77)[0]))


@pytest.mark.smoke
@pytest.mark.filterwarnings("ignore:Skipping variable loading:UserWarning")
def test_no_sequence_of_deeds_trains_anything_else(tmp_path):
    """Each ends as with dense Adam, or is refused by name, or in no number at all."""
    first, count, right = int(os.environ.get("FIRST", 0)), int(os.environ.get("SEQUENCES", 50)), 0
    for number in range(first, first + count):
        deeds, compiled = sequence(number), number % 10 == 0
        if not compiled:  # nor is `fit`
            deeds = [deed for deed in deeds if deed[0] != "train"]
        wanted, found = lived(Table, deeds, tmp_path / "dense.weights.h5", compiled)
        try:
            weights, seen = lived(Embedding, deeds, tmp_path / "deferred.weights.h5", compiled)
        except Exception as error:  # Keras and TensorFlow make others of an InputError
            said = str(error)
            assert any(field in said for field in ("gradients: ", "optimizer: ", "clip", "'aten::")), (number, said)
            continue
        apart = [far(*pair) for pair in zip([*weights, seen], [*wanted, found], strict=True)]
        assert max(apart) < 1e-3, (number, deeds, apart)
        right += 1
    assert right > 0.2 * count


SCHEDULE = keras.optimizers.schedules.ExponentialDecay(0.02, 5, 0.5, staircase=True)


class Behind(keras.callbacks.Callback):
    """What is seen of a model in the midst of its training, when rows are behind; from then on its rate is another."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 19:
            self.weights = self.model.get_weights()
            self.found = self.model.predict(data(3, seed=5)[0], verbose=0)
            # On JAX `fit` holds the weights, and Keras has put a copy into the variables.
            self.raw = ops.convert_to_numpy(self.model.layers[0]._embeddings.value)
            self.model.optimizer.learning_rate = 0.001


@pytest.mark.smoke
def test_rows_that_were_behind_are_right_wherever_they_are_seen_and_train_on():
    seen = []

    def training(kind):
        model = made(kind(ROWS, WIDTH))
        seen.append(Behind())
        return model, trained(model, 40, seen[-1])

    assert_same(training)
    dense, behind = seen
    assert far(behind.raw, dense.raw) > 1e-3
    assert far(behind.weights[0], dense.weights[0]) < 1e-4
    assert np.abs(behind.found - dense.found).max() < 1e-6


@pytest.mark.smoke
def test_a_saved_training_goes_on_where_it_was(tmp_path):
    straight, halved, dense = (made(kind(ROWS, WIDTH)) for kind in (Embedding, Embedding, keras.layers.Embedding))
    for model in (straight, halved, dense):
        trained(model, 20)
    halved.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert far(trained(again, 20), trained(straight, 20)) < 1e-5
    assert far(table_of(again), table_of(straight)) < 1e-5
    for one, kind in ((halved, keras.layers.Embedding), (dense, Embedding)):
        one.save_weights(tmp_path / "model.weights.h5")  # either loads the other's: its table, and the moments of it
        other = made(kind(ROWS, WIDTH))
        trained(other, 1)  # Keras makes an optimizer's slots at the first step, and loads none into one that has none
        other.load_weights(tmp_path / "model.weights.h5")
        assert far(table_of(other), table_of(one)) == 0
        # Keras' own Adam on TensorFlow squares the gradient of each lookup by itself.
        assert far(trained(other, 5), trained(one, 5)) < (1e-2 if BACKEND == "tensorflow" else 1e-5)


@pytest.mark.skipif(BACKEND == "jax", reason="its checkpoints are Keras' own files")
def test_a_checkpoint_of_the_backends_own_holds_what_rows_owe(tmp_path):
    model, other = made(Embedding(ROWS, WIDTH)), made(Embedding(ROWS, WIDTH))
    for seed in range(8):
        model.train_on_batch(*data(1, seed))
    if BACKEND == "torch":
        saved = model.state_dict().values()  # names go on from model to model
        other.load_state_dict(dict(zip(other.state_dict(), saved, strict=True)))
    else:
        other.train_on_batch(*data(1))  # which makes its optimizer's variables
        saved = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(tmp_path / "c")
        tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(saved)
        assert far(trained(other, 5), trained(model, 5)) < 1e-6
    assert far(table_of(other), table_of(model)) < 1e-6


def test_every_row_has_its_turn_before_room_runs_out(monkeypatch):
    rows = table.rows_of()
    if BACKEND == "tensorflow":  # what is compiled holds the usual number
        for name in ("owed", "settled", "stepped"):
            monkeypatch.setattr(rows, name, rows.as_one(getattr(arithmetic, name)))
    for module in (arithmetic, table, rows):
        for name, number in (("ROOM", 512), ("EACH", 16)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, number)
    inputs, targets = data(600)  # the count of steps begins anew
    inputs[10 * BATCH :] %= 100  # all other rows wait for longer than there is room
    inputs[500 * BATCH :] %= 50  # and half of these while it does
    short, dense = made(Embedding(ROWS, WIDTH)), made(Table(ROWS, WIDTH))
    for model in (short, dense):
        model.fit(inputs, targets, BATCH, shuffle=False, verbose=0)
    assert far(table_of(short), table_of(dense)) < 1e-4


def test_mixed_precision_trains_but_for_a_loss_that_is_scaled():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        with pytest.raises(InputError, match=r"^optimizer: 'LossScaleOptimizer' .* auto_scale_loss=False"):
            made(Embedding(ROWS, WIDTH))
        model = made(Embedding(ROWS, WIDTH), auto_scale_loss=False)
    finally:
        keras.config.set_dtype_policy("float32")
    assert far(trained(model, 20), trained(made(Embedding(ROWS, WIDTH)), 20)) < 0.02
    assert keras.backend.standardize_dtype(model.layers[0].embeddings.dtype) == "float32"


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_another_optimizer_is_refused_by_name_and_costs_nothing(optimizer):
    model = made(Embedding(ROWS, WIDTH))
    trained(model, 3)
    model.compile(optimizer, "binary_crossentropy")
    with refused(model, "optimizer: .* is a table that only traintime.deferred.Adam can train"):
        trained(model, 1)
    model.compile(adam(Embedding), "binary_crossentropy")
    assert np.isfinite(trained(model, 3)).all()


@pytest.mark.skipif(BACKEND == "tensorflow", reason="its optimizers are Keras' own")
def test_an_optimizer_that_is_none_of_keras_is_refused_by_name():
    model = made(Embedding(ROWS, WIDTH))
    said = r"^optimizer: .* only traintime.deferred.Adam can train"
    if BACKEND == "torch":
        other = torch.optim.SGD(model.parameters(), 0.1)
        ops.mean(model(data(1)[0])).backward()
        with refused(model, said):
            other.step()
    else:
        loop = Loop(model, compiled=True)
        loop.backward(0)
        for variable, gradient in zip(loop.weights, loop.gradients, strict=True):
            variable.assign(variable.value - 0.1 * np.nan_to_num(gradient))  # as optax.zero_nans would have it
        assert np.isnan(model.predict(data(1)[0], verbose=0)).all()
        with pytest.raises(InputError, match=said):
            model.get_weights()


def test_a_use_of_the_table_that_is_no_lookup_is_refused():
    model = made(Embedding(ROWS, WIDTH))
    table = model.layers[0]._embeddings
    model.compile(adam(Embedding), lambda targets, found: ops.mean(found) + ops.sum(ops.square(table.value)))
    with refused(model, "gradients: "):
        trained(model, 2)


@pytest.mark.skipif(BACKEND == "jax", reason="Keras itself sets variables to arrays there")
def test_rows_that_are_behind_are_not_computed_with_in_silence():
    model = made(Embedding(ROWS, WIDTH))
    for seed in range(5):
        model.train_on_batch(*data(1, seed))
    variable = model.trainable_variables[0]
    with refused(model, r"^embeddings: .* is set by a tensor while its rows are behind"):
        variable.assign(ops.clip(variable, -0.05, 0.05))
    model.layers[0].settle()
    variable.assign(ops.clip(variable, -0.05, 0.05))
    assert np.abs(table_of(model)).max() <= 0.05


# What concerns the gradients, or the weights, of the whole model.
OF_ALL = ["amsgrad", "weight_decay", "global_clipnorm", "clipnorm", "clipvalue", "use_ema"]
OF_ALL += ["gradient_accumulation_steps"]
REFUSED = {
    "input_dim: 0": lambda: Embedding(0, 2),
    "output_dim: 2.5": lambda: Embedding(5, 2.5),
    "most: True": lambda: Embedding(5, 2, most=True),
    "input_dim: .* GB' are more than the .* free": lambda: Embedding(10**12, 2).build(),
    "weights: .* are not one table of 5 rows": lambda: Embedding(5, 2).load_own_variables({"0": np.zeros((4, 2))}),
    "inputs: 'bool'": lambda: Embedding(5, 2)(np.zeros((2, 3), "bool")),
    "inputs: 'float16'": lambda: Embedding(2**11 + 1, 2)(np.zeros((2, 3), "float16")),
    "beta_2: 0.985": lambda: deferred.Adam(beta_2=0.985),
    **{f"{name}: 7": functools.partial(Embedding, 5, 2, **{name: 7}) for name in embedding.MISSING},
    **{f"{name}: 7": functools.partial(deferred.Adam, **{name: 7}) for name in [*OF_ALL, "loss_scale_factor"]},
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_is_refused_by_name_with_a_remedy(said):
    with pytest.raises(REFUSAL, match=rf"{said}.*\. \w"):
        REFUSED[said]()


@pytest.mark.parametrize("field", [*OF_ALL, "beta_2"])
def test_what_is_set_later_is_refused_at_the_next_step(field):
    model = made(Embedding(ROWS, WIDTH), deferred.Adam(weight_decay=0.0, clipnorm=None))  # which ask for nothing
    setattr(model.optimizer, field, 0.5)
    with refused(model, rf"{field}: .*0\.5"):
        trained(model, 1)


@pytest.mark.skipif(BACKEND != "jax", reason="the others need no room")
def test_a_step_of_more_rows_than_there_is_room_for_is_refused_and_costs_no_weights():
    model = made(Embedding(ROWS, WIDTH, most=BATCH * LENGTH))
    trained(model, 3)
    with refused(model, "are more than most"):
        model.fit(*data(2), batch_size=2 * BATCH, verbose=0)
    assert np.isfinite(trained(model, 3)).all()


class Mirrored(keras.Model):
    """A model of a class of its own, which nobody builds before it is fitted, and which reads its table twice."""

    def __init__(self, words, last):
        super().__init__()
        self.words, self.last = words, last

    def call(self, inputs):
        return self.last(self.words(inputs) + self.words(ROWS - 1 - inputs))


@pytest.mark.parametrize("mirrored", [True, False])
def test_a_model_that_is_built_in_fit_trains(mirrored):
    def training(kind):
        table = kind(ROWS, WIDTH, keras.initializers.Constant(start()))
        last = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1, kernel_initializer="ones")])
        model = Mirrored(table, last) if mirrored else keras.Sequential([table, last])  # which makes floats of inputs
        model.compile(adam(kind), "mse")
        return model, trained(model, 20)

    assert_same(training)


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_table_that_another_layer_uses_is_refused(eagerly):
    table = Embedding(ROWS, WIDTH)
    model = Mirrored(table, lambda read: ops.matmul(read, ops.transpose(ops.convert_to_tensor(table.embeddings))))
    model.compile(deferred.Adam(), "mse", run_eagerly=eagerly)
    with pytest.raises(REFUSAL, match=r"embeddings: .* is used by another layer"):
        trained(model, 1)


@pytest.mark.parametrize("kind", ["uniform", "random_normal", "glorot_uniform"])
def test_the_table_starts_as_keras_would_start_it(kind):
    start = [type(keras.initializers.get(kind))(seed=5) for _ in range(2)]
    layer = Embedding(1000, 40, start[0])
    layer.build()
    assert far(layer.get_weights()[0], ops.convert_to_numpy(start[1]((1000, 40), "float32"))) < 1e-6


def test_configurations_make_the_same_again():
    layer = Embedding.from_config(Embedding(5, 2, mask_zero=True, most=99, name="words").get_config())
    assert (layer.input_dim, layer.output_dim, layer.mask_zero, layer.most, layer.name) == (5, 2, True, 99, "words")
    optimizer = deferred.Adam(SCHEDULE, beta_1=0.8, beta_2=0.99, epsilon=1e-3)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert (again.beta_1, again.beta_2, again.epsilon) == (0.8, 0.99, 1e-3)
    assert again.get_config() == optimizer.get_config()


def test_the_table_goes_from_layer_to_layer_and_stays_where_it_was():
    """JAX gives the memory of a table to the next one: not that of another model, which was only read."""
    dense, model = made(keras.layers.Embedding(ROWS, WIDTH)), made(Embedding(np.int64(ROWS), WIDTH))
    model.layers[0].embeddings.assign(dense.layers[0].embeddings)
    trained(model, 3)
    assert (table_of(dense) == start()).all()
    model.layers[0].set_weights([start()])
    dense.layers[0].set_weights(model.layers[0].get_weights())
    assert (table_of(model) == start()).all()
    assert (table_of(dense) == start()).all()


def test_a_table_that_masks_starts_frozen_and_thaws_twice_trains_as_keras_does():
    def training(kind):
        table = kind(ROWS, WIDTH, mask_zero=True)
        table.trainable = False
        model = made(table)
        losses = list(trained(model, 3))
        given = {"learning_rate": SCHEDULE, "beta_2": 0.99}, {}, {"beta_1": 0.8, "epsilon": 1e-6}
        for thawed, of_adam in zip((True, False, True), given, strict=True):
            table.trainable = thawed
            model.compile(adam(kind, **of_adam), "binary_crossentropy")
            losses += [*trained(model, 8), model.train_on_batch(*data(1))]  # which, unlike `fit`, leaves rows behind
        return model, losses

    assert_same(training)


def test_an_optimizer_that_another_has_replaced_is_refused():
    model = made(Embedding(ROWS, WIDTH))
    other = keras.Sequential([keras.Input((LENGTH,), dtype="int32"), *model.layers])
    other.compile(adam(Embedding), "binary_crossentropy")
    for one in (model, other):
        one.train_on_batch(*data(1))
    with refused(model, "was last trained by another one"):
        model.train_on_batch(*data(1))
        model.get_weights()  # on JAX a step can say nothing by itself


@pytest.mark.skipif(BACKEND == "jax", reason="JAX's `fit` holds the weights: Keras has none to give")
def test_another_thread_that_reads_the_weights_disturbs_no_training():
    def training(kind):
        model, done, reads, said = made(kind(ROWS, WIDTH)), threading.Event(), [], []
        trained(model, 3)

        def read():
            while not done.wait(0.01):
                reads.append(model.get_weights())
                try:
                    model.layers[0].embeddings  # noqa: B018
                except InputError as error:
                    said.append(str(error))

        reader = threading.Thread(target=read)
        callback = keras.callbacks.LambdaCallback(
            on_train_begin=lambda logs: reader.start(), on_train_end=lambda logs: (done.set(), reader.join())
        )
        losses = trained(model, 60, callback)
        assert reads
        assert {"another thread trains" in error for error in said} == ({True} if kind is Embedding else set())
        return model, losses

    assert_same(training)


@pytest.mark.parametrize("row", [-1, ROWS])
def test_a_row_that_is_not_there_is_named_and_the_model_goes_on(row):
    model, (inputs, targets) = made(Embedding(ROWS, WIDTH)), data(20)
    trained(model, 2)
    inputs[3, 2] = row  # in the first batch of many: none of them is trained
    with refused(model, f"inputs: {row} is no row of .*, which has {ROWS}: 0 to {ROWS - 1}"):
        model(inputs[:BATCH])
    if BACKEND == "jax":
        assert np.isnan(model.predict_on_batch(inputs[:BATCH])).any()  # as with Keras' own layer
    with refused(model, r"inputs: .* no row"):
        model.fit(inputs, targets, batch_size=BATCH, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations.numpy()) == 2
    assert np.isfinite(trained(model, 5)).all()
