"""The deferred embedding and its Adam, on the backend of KERAS_BACKEND; test_backends.py runs this."""

import os
import threading

import keras
import numpy as np
import pytest
from keras import ops

from traintime import deferred
from traintime.deferred import Embedding, arithmetic, table
from traintime.errors import InputError

# Keras' own, of NumPy 2, wherever it hands a weight to NumPy.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

BACKEND = keras.backend.backend()
REFUSAL = (ValueError, RuntimeError)  # Keras makes this one of any error inside a call, with the same words
ROWS, WIDTH, LENGTH, BATCH = 400, 8, 6, 48
FAR = 1e-7


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


def adam(kind, *given, **named):
    """The Adam that trains this kind of table."""
    return (deferred.Adam if kind is Embedding else keras.optimizers.Adam)(*given, **named)


def made(table, optimizer=None, **compiled):
    """A small classifier on the table, from the same weights each time."""
    random = np.random.default_rng(1)
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            table,
            keras.layers.GlobalAveragePooling1D(),  # compiled in a tenth of an LSTM's time; it masks, too
            keras.layers.Dense(16, activation="tanh"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    start = random.uniform(-0.1, 0.1, (ROWS, WIDTH)).astype("float32")
    model.layers[0].set_weights([start])
    for layer in model.layers[1:]:
        layer.set_weights([random.uniform(-0.3, 0.3, weight.shape).astype("float32") for weight in layer.get_weights()])
    model.compile(optimizer or adam(type(table), 0.003), "binary_crossentropy", **compiled)
    return model


class Losses(keras.callbacks.Callback):
    """The loss of each step (`fit` itself gives the mean so far)."""

    def on_epoch_begin(self, epoch, logs=None):
        self.sums = [0.0]

    def on_train_batch_end(self, batch, logs=None):
        self.sums.append(float(logs["loss"]) * (batch + 1))

    @property
    def all(self):
        return np.diff(self.sums)


def trained(model, steps, **fitted):
    losses = Losses()
    callbacks = [losses, *fitted.pop("callbacks", [])]
    model.fit(*data(steps), batch_size=BATCH, shuffle=False, verbose=0, callbacks=callbacks, **fitted)
    return losses.all


def table_of(model):
    return model.layers[0].get_weights()[0]


def far(one, other):
    return np.abs(np.asarray(one) - other).max() / np.abs(other).max()


def alike(training):
    """Both ways through one training, which gives the model and its last losses: losses and tables agree."""
    losses, tables = [], []
    for kind in (Table, Embedding):
        model, lost = training(kind)
        losses.append(lost)
        tables.append(table_of(model))
    assert far(losses[1], losses[0]) < 1e-5
    assert far(tables[1], tables[0]) < 1e-4


class Loop:
    """A loop of one's own, one call at a time: gradients are made, added up, scaled, dropped and applied by hand."""

    def __init__(self, model, compiled=True):
        self.model, self.gradients, self.lookups = model, None, 0
        self.weights = model.trainable_variables if BACKEND == "jax" else model.trainable_weights
        model.optimizer.build(self.weights)
        self.made = self._made(compiled)

    def _made(self, compiled):
        model = self.model
        if BACKEND == "jax":
            import jax

            def lost(trained, others, inputs, targets):
                found, _ = model.stateless_call(trained, others, inputs)
                return ops.mean(ops.square(found - targets))

            made = jax.value_and_grad(lost)
            return jax.jit(made) if compiled else made
        if BACKEND == "torch":
            import torch

            def lost(inputs, targets):
                loss = ops.mean(ops.square(model(inputs) - targets))
                return loss.detach(), torch.autograd.grad(loss, [variable.value for variable in self.weights])

            return lost
        import tensorflow as tf

        def lost(inputs, targets):
            with tf.GradientTape() as tape:
                loss = ops.mean(ops.square(model(inputs) - targets))
            return loss, tape.gradient(loss, self.weights)

        return tf.function(lost) if compiled else lost

    def backward(self, seed):
        """Gradients of a batch, added to those that are there; its loss."""
        batch = [ops.convert_to_tensor(each) for each in data(1, seed)]
        held = [[one.value for one in each] for each in (self.weights, self.model.non_trainable_variables)]
        loss, found = self.made(*(held if BACKEND == "jax" else []), *batch)
        kept, self.lookups = self.gradients, 1 if self.gradients is None else self.lookups + 1
        self.gradients = found if kept is None else [self._sum(*pair) for pair in zip(kept, found, strict=True)]
        return float(loss)

    def _sum(self, one, other):
        if hasattr(one, "indices") and BACKEND == "tensorflow":
            import tensorflow as tf

            joined = [tf.concat([getattr(each, name) for each in (one, other)], 0) for name in ("values", "indices")]
            return tf.IndexedSlices(*joined, one.dense_shape)
        return one + other

    def change(self, change):
        """Change each gradient's numbers."""
        if BACKEND == "tensorflow":
            import tensorflow as tf

            self.gradients = [
                tf.IndexedSlices(change(one.values), one.indices, one.dense_shape)
                if hasattr(one, "indices")
                else change(one)
                for one in self.gradients
            ]
        else:
            self.gradients = [change(one) for one in self.gradients]

    def apply(self, some=slice(None)):
        """A step, of some of the weights; then there are no gradients."""
        gradients, self.gradients, optimizer = self.gradients, None, self.model.optimizer
        if BACKEND == "jax":
            given = [one.value for one in optimizer.variables], gradients, [one.value for one in self.weights]
            for variables, values in zip(
                (self.weights, optimizer.variables), optimizer.stateless_apply(*given), strict=True
            ):
                for variable, value in zip(variables, values, strict=True):
                    variable.assign(value)
        else:
            optimizer.apply(gradients[some], self.weights[some])


@pytest.mark.smoke
def test_the_losses_are_those_of_dense_adam():
    """Words repeat, in a batch and over time; on TensorFlow the dense table's Adam is Adam as published."""
    losses = []
    for kind in (Table, Embedding):
        loop = Loop(made(kind(ROWS, WIDTH)))
        losses.append([])
        for seed in range(60):
            losses[-1].append(loop.backward(seed % 12))
            loop.apply()
    assert np.abs(np.subtract(*losses)).max() < FAR
    assert np.mean(losses[0][-12:]) < np.mean(losses[0][:12]) - 0.01


# What a loop may do, and how often in a hundred; what stands last has to be made anew, or compiled, and takes long.
DEEDS = {"backward": 30, "apply": 22, "train": 4, "scale": 5, "clip": 3, "zero": 3, "drop": 4, "head": 4, "look": 6}
DEEDS |= {"remember": 4, "back": 3, "save": 4, "load": 4, "recompile": 3, "variables": 1}


REFUSED_THERE = ("backward", "scale", "clip")  # on JAX, where there are gradients


def sequence(number, length=24):
    """Deeds at random, each with a number for what it needs; `backward` and `apply` stand at the end."""
    random = np.random.default_rng(number)
    names, often = list(DEEDS), np.array(list(DEEDS.values())) / sum(DEEDS.values())
    deeds = [str(name) for name in random.choice(names, length, p=often)]
    return [(deed, int(random.integers(40))) for deed in [*deeds, "backward", "apply", "backward", "apply"]]


def lived(kind, deeds, folder, compiled):
    """What is left of a model after these deeds: its weights and its predictions."""
    loop = Loop(made(kind(ROWS, WIDTH, **{"most": BATCH * LENGTH} if kind is Embedding else {})), compiled)
    model, earlier, saved = loop.model, None, None
    for deed, seed in deeds:
        if BACKEND == "jax" and loop.gradients is not None and deed in REFUSED_THERE and seed % 10:
            continue  # else hardly a sequence would come to its end
        if deed == "backward":
            loop.backward(seed)
        elif deed == "apply" and loop.gradients is not None:
            loop.apply()
        elif deed == "head" and loop.gradients is not None and BACKEND != "jax":  # where all are given at once
            loop.apply(slice(1, None))
        elif deed == "clip" and loop.lookups != 1:
            continue  # a row's gradients of two lookups stand beside each other on TensorFlow, as with Keras' own layer
        elif deed in ("scale", "clip", "zero") and loop.gradients is not None:
            loop.change({"scale": lambda one: one * 0.5, "clip": clipped, "zero": lambda one: one * 0}[deed])
        elif deed == "drop":
            loop.gradients = None
        elif deed == "train":
            model.train_on_batch(*data(1, seed))
        elif deed == "look":
            model(data(1, seed)[0])
        elif deed == "remember":
            earlier = model.get_weights()
        elif deed == "back" and earlier is not None:
            model.set_weights(earlier)
        elif deed == "save":
            model.save_weights(folder / f"{kind.__name__}.weights.h5")
            saved = True
        elif deed == "load" and saved:
            model.load_weights(folder / f"{kind.__name__}.weights.h5")
        elif deed == "recompile":
            model.compile(adam(kind, 0.01), "mse")
            loop.gradients = None
            model.optimizer.build(loop.weights)
        elif deed == "variables":
            for variable in (*model.variables, *model.optimizer.variables):
                variable.assign(np.array(variable))
    return model.get_weights(), ops.convert_to_numpy(model(data(2, 77)[0]))


def clipped(one):
    """Each number between -0.001 and 0.001: of a sparse gradient as torch would do it, which is not at all."""
    return ops.clip(one, -0.001, 0.001)


@pytest.mark.smoke
def test_no_sequence_of_deeds_trains_anything_else(tmp_path):
    """Each ends as with dense Adam, or is refused by name, or in no number at all."""
    ended, first = {"right": 0, "refused": 0}, int(os.environ.get("FIRST", 0))
    for number in range(first, first + int(os.environ.get("SEQUENCES", 50))):
        deeds, compiled = sequence(number), number % 10 == 0
        if not compiled:  # nor is `fit`
            deeds = [deed for deed in deeds if deed[0] != "train"]
        wanted, found = lived(Table, deeds, tmp_path, compiled)
        try:
            weights, seen = lived(Embedding, deeds, tmp_path, compiled)
        except Exception as error:  # Keras and TensorFlow make others of an InputError
            assert any(field in str(error) for field in ("gradients: ", "optimizer: ", "clip", "'aten::")), (
                number,
                error,
            )
            ended["refused"] += 1
            continue
        apart = [far(*pair) for pair in zip([*weights, seen], [*wanted, found], strict=True)]
        assert max(apart) < 1e-3, (number, deeds, apart)
        ended["right"] += 1
    print(ended)
    assert ended["right"] > 0.2 * sum(ended.values())


def test_a_schedule_is_followed():
    def training(kind):
        rate = keras.optimizers.schedules.ExponentialDecay(0.02, 5, 0.5, staircase=True)
        model = made(kind(ROWS, WIDTH), adam(kind, rate))
        return model, trained(model, 30)

    alike(training)


class Falls(keras.callbacks.Callback):
    """A rate that a callback changes in the midst of an epoch."""

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 10:
            self.model.optimizer.learning_rate = 0.001


def test_a_rate_that_a_callback_changes_is_followed():
    def training(kind):
        model = made(kind(ROWS, WIDTH))
        return model, trained(model, 40, callbacks=[Falls()])

    alike(training)


@pytest.mark.parametrize(("beta_1", "beta_2", "epsilon"), [(0.0, 0.999, 1e-7), (0.9, 0.99, 1e-7), (0.8, 0.999, 1e-3)])
def test_other_decays_and_another_epsilon_are_followed(beta_1, beta_2, epsilon):
    def training(kind):
        model = made(kind(ROWS, WIDTH), adam(kind, 0.003, beta_1, beta_2, epsilon))
        return model, trained(model, 40)

    alike(training)


class Behind(keras.callbacks.Callback):
    """What is seen of a model in the midst of its training, when rows are behind."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 19:
            self.weights = self.model.get_weights()
            self.found = self.model.predict(data(3, seed=5)[0], verbose=0)
            # On JAX `fit` holds the weights, and Keras has put a copy into the variables.
            self.raw = ops.convert_to_numpy(self.model.layers[0]._embeddings.value)


@pytest.mark.smoke
def test_rows_that_were_behind_are_right_wherever_they_are_seen_and_train_on():
    seen = {}

    def training(kind):
        seen[kind], model = Behind(), made(kind(ROWS, WIDTH))
        return model, trained(model, 40, callbacks=[seen[kind]])

    alike(training)
    one, other = seen.values()
    assert far(other.raw, one.raw) > 1e-3
    assert far(other.weights[0], one.weights[0]) < 1e-4
    assert np.abs(other.found - one.found).max() < 1e-6


@pytest.mark.smoke
def test_a_saved_training_goes_on_where_it_was(tmp_path):
    straight, halved = made(Embedding(ROWS, WIDTH)), made(Embedding(ROWS, WIDTH))
    inputs, targets = data(40)
    straight.fit(inputs, targets, batch_size=BATCH, shuffle=False, verbose=0)
    half = 20 * BATCH
    halved.fit(inputs[:half], targets[:half], batch_size=BATCH, shuffle=False, verbose=0)
    halved.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    again.fit(inputs[half:], targets[half:], batch_size=BATCH, shuffle=False, verbose=0)
    assert far(table_of(again), table_of(straight)) < 1e-5
    dense = made(keras.layers.Embedding(ROWS, WIDTH))
    trained(dense, 5)
    for one, kind in ((halved, keras.layers.Embedding), (dense, Embedding), (halved, Embedding)):
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
        import tensorflow as tf

        other.train_on_batch(*data(1))  # which makes its optimizer's variables
        saved = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(tmp_path / "c")
        tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(saved)
        assert far(trained(other, 5), trained(model, 5)) < 1e-6
    assert far(table_of(other), table_of(model)) < 1e-6


def test_a_file_of_the_layer_as_it_was_is_refused():
    was = {str(place): np.zeros((ROWS, WIDTH) if place else ()) for place in range(4)}
    layer = Embedding(ROWS, WIDTH)
    layer.build()
    with pytest.raises(InputError, match=r"^weights: .* are not one table of 400 rows"):
        layer.load_own_variables(was)
    with pytest.raises(Exception, match="rule: 'adam'"):
        Embedding.from_config({"input_dim": 5, "output_dim": 2, "rule": "adam"})


def test_every_row_has_its_turn_before_room_runs_out(monkeypatch):
    rows = table.rows_of()
    if BACKEND == "tensorflow":  # what is compiled holds the usual number
        for name in ("owed", "settled", "stepped"):
            monkeypatch.setattr(rows, name, rows.as_one(getattr(arithmetic, name)))
    for module in (arithmetic, table, rows):
        if hasattr(module, "ROOM"):
            monkeypatch.setattr(module, "ROOM", 512)
        if hasattr(module, "EACH"):
            monkeypatch.setattr(module, "EACH", 16)
    short, dense = made(Embedding(ROWS, WIDTH)), made(Table(ROWS, WIDTH))
    one, other = trained(short, 600), trained(dense, 600)  # the count of steps begins anew
    assert far(one[:200], other[:200]) < 1e-4
    assert far(table_of(short), table_of(dense)) < 1e-2


def test_padding_is_masked_as_keras_masks_it():
    losses = [trained(made(kind(ROWS, WIDTH, mask_zero=True)), 20) for kind in (Table, Embedding)]
    assert far(*losses) < 1e-5
    assert far(losses[0], trained(made(Table(ROWS, WIDTH)), 20)) > 1e-4


def test_a_frozen_table_stays():
    model = made(Embedding(ROWS, WIDTH))
    model.layers[0].trainable = False
    model.compile(deferred.Adam(0.01), "binary_crossentropy")
    before = table_of(model).copy()
    trained(model, 5)
    assert (table_of(model) == before).all()


def test_half_precision_computes_in_halves_and_keeps_floats():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = made(Embedding(ROWS, WIDTH))
    finally:
        keras.config.set_dtype_policy("float32")
    losses = trained(model, 100)
    assert losses[-20:].mean() < losses[:20].mean()
    assert keras.backend.standardize_dtype(model.layers[0].embeddings.dtype) == "float32"


def refused(model, steps=1):
    """What an error before this step says in its own words, which are all that many readers see."""
    with pytest.raises(Exception) as caught:
        trained(model, steps)
    return str(caught.value)


@pytest.mark.parametrize(
    "optimizer", [keras.optimizers.Adam(0.01), keras.optimizers.AdamW(0.01), keras.optimizers.SGD(0.01), "adam"]
)
def test_another_optimizer_is_refused_by_name_and_costs_nothing(optimizer):
    model = made(Embedding(ROWS, WIDTH))
    trained(model, 3)
    before = model.get_weights()
    model.compile(optimizer, "binary_crossentropy")
    said = refused(model)
    assert "optimizer: " in said
    assert "is a table that only traintime.deferred.Adam can train" in said
    for weight, was in zip(model.get_weights(), before, strict=True):
        assert (weight == was).all()
    model.compile(deferred.Adam(0.003), "binary_crossentropy")
    assert np.isfinite(trained(model, 3)).all()


@pytest.mark.skipif(BACKEND == "tensorflow", reason="its optimizers are Keras' own")
def test_an_optimizer_that_is_none_of_keras_is_refused_by_name():
    model = made(Embedding(ROWS, WIDTH))
    loop, before = Loop(model), table_of(model)
    if BACKEND == "torch":
        import torch

        other = torch.optim.SGD(model.parameters(), 0.1)
        ops.mean(model(data(1)[0])).backward()
        with pytest.raises(InputError, match=r"^optimizer: .* only traintime.deferred.Adam can train"):
            other.step()
        assert (table_of(model) == before).all()
    else:
        loop.backward(0)
        for variable, gradient in zip(loop.weights, loop.gradients, strict=True):
            variable.assign(variable.value - 0.1 * np.nan_to_num(gradient))  # as optax.zero_nans would have it
        assert np.isnan(model.predict(data(1)[0], verbose=0)).all()
        with pytest.raises(InputError, match=r"^optimizer: .* only traintime.deferred.Adam can train"):
            model.get_weights()


class Penalized(keras.Sequential):
    """A loss with a part that goes around the lookup."""

    def compute_loss(self, *given, **named):
        return super().compute_loss(*given, **named) + 0.01 * ops.sum(ops.square(self.layers[0]._embeddings.value))


def test_a_use_of_the_table_that_is_no_lookup_is_refused():
    model = Penalized(made(Embedding(ROWS, WIDTH)).layers)
    model.compile(deferred.Adam(0.003), "mse")
    before = table_of(model)
    assert "gradients: " in refused(model, 2)
    assert (table_of(model) == before).all()


@pytest.mark.skipif(BACKEND == "jax", reason="Keras itself sets variables to arrays there")
def test_rows_that_are_behind_are_not_computed_with_in_silence():
    model = made(Embedding(ROWS, WIDTH))
    for seed in range(5):
        model.train_on_batch(*data(1, seed))
    variable = model.trainable_variables[0]
    with pytest.raises(InputError, match=r"^embeddings: .* is set by a tensor while its rows are behind"):
        variable.assign(ops.clip(variable, -0.05, 0.05))
    model.layers[0].settle()
    variable.assign(ops.clip(variable, -0.05, 0.05))
    assert np.abs(table_of(model)).max() <= 0.05
    model.optimizer.beta_1 = 0.5
    assert "beta_1, beta_2: (0.5, 0.999)" in refused(model)


# What concerns the gradients, or the weights, of the whole model.
OF_ALL = {
    "amsgrad": True,
    "weight_decay": 0.1,
    "global_clipnorm": 1.0,
    "clipnorm": 1.0,
    "clipvalue": 1.0,
    "use_ema": True,
    "gradient_accumulation_steps": 2,
    "loss_scale_factor": 1024.0,
    "beta_2": 0.95,
}


@pytest.mark.parametrize("field", list(OF_ALL))
def test_what_cannot_be_done_row_by_row_is_refused_by_name(field):
    with pytest.raises(InputError, match=f"^{field}: {OF_ALL[field]}") as caught:
        deferred.Adam(0.01, **{field: OF_ALL[field]})
    assert caught.value.remedy
    optimizer = deferred.Adam(0.003, weight_decay=0.0, clipnorm=None)  # asks for nothing
    if field not in ("beta_2", "loss_scale_factor"):
        setattr(optimizer, field, OF_ALL[field])
        assert f"{field}: {OF_ALL[field]}" in refused(made(Embedding(ROWS, WIDTH), optimizer))


def test_a_loss_that_is_scaled_for_float16_is_refused_and_one_that_is_not_trains():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        with pytest.raises(InputError, match=r"^optimizer: 'LossScaleOptimizer' .* auto_scale_loss=False"):
            made(Embedding(ROWS, WIDTH))
        alone = made(Embedding(ROWS, WIDTH), auto_scale_loss=False)
    finally:
        keras.config.set_dtype_policy("float32")
    assert far(trained(alone, 20), trained(made(Embedding(ROWS, WIDTH)), 20)) < 0.02


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"input_dim": 0}, "input_dim"),
        ({"output_dim": 2.5}, "output_dim"),
        ({"rule": "lazy-adam"}, "rule"),
        ({"learning_rate": 0.1}, "learning_rate"),
        ({"most": 0}, "most"),
        ({"input_dim": 10**12}, "input_dim"),
        ({"embeddings_regularizer": "l2"}, "embeddings_regularizer"),
        ({"embeddings_constraint": "max_norm"}, "embeddings_constraint"),
        ({"weights": [[1.0, 2.0]] * 5}, "weights"),
        ({"lora_rank": 4}, "lora_rank"),
        ({"lora_alpha": 4}, "lora_alpha"),
        ({"quantization_config": "int8"}, "quantization_config"),
        ({"input_length": 7}, "input_length"),
    ],
)
def test_sizes_and_settings_that_cannot_be_are_refused(changes, field):
    with pytest.raises(InputError, match=f"^{field}: ") as caught:
        Embedding(**{"input_dim": 5, "output_dim": 2} | changes).build()
    assert caught.value.remedy


@pytest.mark.skipif(BACKEND != "jax", reason="the others need no room")
def test_a_step_of_more_rows_than_there_is_room_for_is_refused_and_costs_no_weights():
    model = made(Embedding(ROWS, WIDTH, most=BATCH * LENGTH))
    trained(model, 3)
    before = model.get_weights()
    with pytest.raises(REFUSAL, match="are more than most"):
        model.fit(*data(2), batch_size=2 * BATCH, verbose=0)
    for weight, was in zip(model.get_weights(), before, strict=True):
        assert (weight == was).all()
    assert np.isfinite(trained(model, 3)).all()


@pytest.mark.parametrize(("rows", "kind"), [(5, "bool"), (2**11 + 1, "float16"), (2**24 + 1, "float32")])
def test_numbers_that_are_no_row_numbers_are_refused(rows, kind):
    with pytest.raises(REFUSAL, match=f"inputs: '{kind}'"):
        Embedding(rows, 1)(np.zeros((2, 3), kind))


def test_a_model_that_begins_with_the_table_trains_like_keras_own():
    """Without an Input Keras makes floats of the inputs."""
    losses, start = {}, np.random.default_rng(2).uniform(-1, 1, (ROWS, WIDTH)).astype("float32")
    for kind in (Table, Embedding):
        table = kind(ROWS, WIDTH, keras.initializers.Constant(start))
        model = keras.Sequential([table, keras.layers.Flatten(), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(adam(kind, 0.003), "mse")
        losses[kind] = trained(model, 20)
    assert far(losses[Embedding], losses[Table]) < 1e-5


def test_a_table_that_is_read_twice_in_a_step_is_trained_by_both():
    def training(kind):
        keras.utils.set_random_seed(0)
        words, left = kind(ROWS, WIDTH), keras.Input((LENGTH,), dtype="int32")
        both = [keras.layers.GlobalAveragePooling1D()(words(each)) for each in (left, ROWS - 1 - left)]
        model = keras.Model(left, keras.layers.Dense(1)(keras.layers.Concatenate()(both)))
        model.compile(adam(kind, 0.003), "mse")
        words.set_weights([np.random.default_rng(1).uniform(-1, 1, (ROWS, WIDTH)).astype("float32")])
        losses = trained(model, 20)
        return keras.Sequential([words]), losses

    alike(training)


class Tied(keras.layers.Layer):
    """The table once more, as the weights of a last layer."""

    def __init__(self, words):
        super().__init__()
        self.words = words

    def call(self, inputs):
        return ops.matmul(inputs, ops.transpose(ops.convert_to_tensor(self.words.embeddings)))


class Averaged(keras.Model):
    """A model of a class of its own, which nobody builds before it is fitted."""

    def __init__(self, words, last):
        super().__init__()
        self.words, self.mean, self.last = words, keras.layers.GlobalAveragePooling1D(), last

    def call(self, inputs):
        return self.last(self.mean(self.words(inputs)))


class Mirrored(keras.Sequential):
    """A training step of its own, which calls the model on the inputs and on other rows, and says nothing else."""

    def lost(self, calls, targets):
        return sum(ops.mean(ops.square(out - targets)) for out in calls)

    def train_step(self, *given):
        if BACKEND == "jax":
            import jax

            (trained, others, optimizer, metrics), (inputs, targets) = given

            def lost(trained, others):
                calls = []
                for each in (inputs, ROWS - 1 - inputs):
                    out, others = self.stateless_call(trained, others, each)
                    calls.append(out)
                return self.lost(calls, targets), others

            (loss, others), gradients = jax.value_and_grad(lost, has_aux=True)(trained, others)
            trained, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trained)
            return {"loss": loss}, (trained, others, optimizer, metrics)
        ((inputs, targets),) = given
        if BACKEND == "torch":
            self.zero_grad()
            loss = self.lost([self(each) for each in (inputs, ROWS - 1 - inputs)], targets)
            loss.backward()
            gradients = [variable.value.grad for variable in self.trainable_weights]
        else:
            import tensorflow as tf

            with tf.GradientTape() as tape:
                loss = self.lost([self(each) for each in (inputs, ROWS - 1 - inputs)], targets)
            gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply(gradients, self.trainable_weights)
        return {"loss": loss}


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_training_step_of_ones_own_trains_as_with_keras_layer(eagerly):
    def training(kind):
        model = Mirrored(made(kind(ROWS, WIDTH)).layers)
        model.compile(adam(kind, 0.003), run_eagerly=eagerly)
        model.fit(*data(20), batch_size=BATCH, shuffle=False, verbose=0)
        return model, model.predict(data(1)[0], verbose=0)

    alike(training)


def test_a_model_that_is_built_in_fit_trains():
    losses = {}
    for kind in (Table, Embedding):
        keras.utils.set_random_seed(0)
        start = keras.initializers.Constant(np.random.default_rng(2).uniform(-1, 1, (ROWS, WIDTH)).astype("float32"))
        model = Averaged(kind(ROWS, WIDTH, start), keras.layers.Dense(1, kernel_initializer="ones"))
        model.compile(adam(kind, 0.003), "mse")
        losses[kind] = trained(model, 20)
    assert far(losses[Embedding], losses[Table]) < 1e-5


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_table_that_another_layer_uses_is_refused(eagerly):
    table = Embedding(ROWS, WIDTH)
    model = Averaged(table, Tied(table))
    model.compile(deferred.Adam(), "mse", run_eagerly=eagerly)
    with pytest.raises(REFUSAL, match=r"embeddings: .* is used by another layer"):
        model.fit(data(1)[0], np.zeros((BATCH, ROWS)), batch_size=BATCH, verbose=0)


@pytest.mark.parametrize("kind", ["uniform", "random_normal", "glorot_uniform", "ones"])
def test_the_table_starts_as_keras_would_start_it(kind):
    start = keras.initializers.get(kind)
    config = start.get_config() | ({} if kind == "ones" else {"seed": 5})
    for shape in ((1000, 40), (3, 2)):
        layer, keras_own = Embedding(*shape, type(start).from_config(config)), type(start).from_config(config)
        layer.build()
        assert far(layer.get_weights()[0], ops.convert_to_numpy(keras_own(shape, "float32"))) < 1e-6


def test_a_table_that_does_not_fit_into_memory_is_refused():
    with pytest.raises(InputError, match=r"^input_dim: .* GB' are more than the .* free"):
        Embedding(10**12, 2).build()


def test_configurations_make_the_same_again():
    layer = Embedding(5, 2, mask_zero=True, most=99, name="words")
    assert Embedding.from_config(layer.get_config()).get_config() == layer.get_config()
    rate = keras.optimizers.schedules.ExponentialDecay(0.02, 5, 0.5)
    optimizer = deferred.Adam(rate, beta_1=0.8)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert again.get_config() == optimizer.get_config()


def test_the_table_goes_from_layer_to_layer_and_stays_where_it_was():
    """JAX gives the memory of a table to the next one: not that of another model, which was only read."""
    dense, deferred = made(keras.layers.Embedding(ROWS, WIDTH)), made(Embedding(np.int64(ROWS), WIDTH))
    before = dense.layers[0].get_weights()
    deferred.layers[0].embeddings.assign(dense.layers[0].embeddings)
    trained(deferred, 3)
    assert (dense.layers[0].get_weights()[0] == before[0]).all()
    deferred.layers[0].set_weights(before)
    dense.layers[0].set_weights(deferred.layers[0].get_weights())
    assert (table_of(deferred) == before[0]).all()
    assert (dense.layers[0].get_weights()[0] == before[0]).all()


@pytest.mark.parametrize("backwards", [False, True])
def test_whoever_puts_all_variables_back_goes_on_from_there(backwards):
    model = made(Embedding(ROWS, WIDTH))
    trained(model, 15)
    variables = [*model.variables, *model.optimizer.variables][:: -1 if backwards else 1]
    before = [np.array(variable) for variable in variables]
    first = trained(model, 15)
    for variable, value in zip(variables, before, strict=True):
        variable.assign(value)
    assert far(trained(model, 15), first) < 1e-6


def test_a_new_optimizer_of_other_decays_starts_anew_too():
    def training(kind):
        model = made(kind(ROWS, WIDTH), adam(kind, 0.003, beta_2=0.99))
        for seed in range(12):
            model.train_on_batch(*data(1, seed))  # unlike `fit` it leaves rows behind
        model.compile(adam(kind, 0.003, epsilon=1e-6), "binary_crossentropy")
        return model, trained(model, 12)

    alike(training)


def test_a_table_that_starts_frozen_and_thaws_twice_trains_as_keras_does():
    def training(kind):
        table = kind(ROWS, WIDTH)
        table.trainable = False
        model = made(table)
        losses = list(trained(model, 3))
        for thawed in (True, False, True):
            table.trainable = thawed
            model.compile(adam(kind, 0.003), "binary_crossentropy")
            losses += list(trained(model, 8))
        return model, losses

    alike(training)


def test_an_optimizer_that_another_has_replaced_is_refused():
    model = made(Embedding(ROWS, WIDTH))
    other = keras.Sequential([keras.Input((LENGTH,), dtype="int32"), *model.layers])
    other.compile(deferred.Adam(0.003), "binary_crossentropy")
    inputs, targets = data(1)
    for one in (model, other):
        one.train_on_batch(inputs, targets)
    before = table_of(model)
    with pytest.raises(Exception, match="was last trained by another one"):
        model.train_on_batch(inputs, targets)
        model.get_weights()  # on JAX a step can say nothing by itself
    assert (table_of(model) == before).all()


@pytest.mark.skipif(BACKEND == "jax", reason="on JAX Keras' optimizers take one model only")
def test_an_optimizer_that_two_models_share_counts_the_steps_of_both():
    def training(kind):
        model, shared = made(kind(ROWS, WIDTH)), adam(kind, 0.003)
        keras.utils.set_random_seed(3)
        other = keras.Sequential([keras.Input((LENGTH,)), keras.layers.Dense(1)])
        shared.build([*model.trainable_variables, *other.trainable_variables])
        for one in (model, other):
            one.compile(shared, "binary_crossentropy")
        inputs, targets = data(20)
        losses = []
        for start in range(0, len(inputs), BATCH):
            x, y = inputs[start : start + BATCH], targets[start : start + BATCH]
            losses.append(float(model.train_on_batch(x, y)))
            other.train_on_batch(x.astype("float32") / ROWS, y)
        return model, losses

    alike(training)


@pytest.mark.filterwarnings("ignore:Skipping variable loading:UserWarning")
def test_weights_of_a_file_without_their_optimizer_leave_it_as_it_is(tmp_path):
    def training(kind):
        model = made(kind(ROWS, WIDTH))
        model.save_weights(tmp_path / "start.weights.h5")
        trained(model, 12)
        model.load_weights(tmp_path / "start.weights.h5")  # Keras leaves the optimizer as it is, and says so
        return model, trained(model, 12)

    alike(training)


@pytest.mark.skipif(BACKEND == "jax", reason="JAX's `fit` holds the weights: Keras has none to give")
def test_another_thread_that_reads_the_weights_disturbs_no_training():
    errors, reads = [], []

    def training(kind):
        model, done = made(kind(ROWS, WIDTH)), threading.Event()
        trained(model, 3)

        def read():
            while not done.wait(0.01):
                reads.append(model.get_weights())
                if kind is Embedding:
                    try:
                        model.layers[0].embeddings  # noqa: B018
                    except InputError as error:
                        errors.append(str(error))

        reader = threading.Thread(target=read)

        class Starts(keras.callbacks.Callback):
            """The other thread, while `fit` runs."""

            def on_train_begin(self, logs=None):
                reader.start()

            def on_train_end(self, logs=None):
                done.set()
                reader.join()

        return model, trained(model, 60, callbacks=[Starts()])

    alike(training)
    assert reads
    assert errors
    assert all(error.startswith("embeddings: ") and "another thread trains" in error for error in errors)


@pytest.mark.parametrize("row", [-1, ROWS])
def test_a_row_that_is_not_there_is_named_and_the_model_goes_on(row):
    model, (inputs, targets) = made(Embedding(ROWS, WIDTH)), data(1)
    trained(model, 2)
    inputs[3, 2], before = row, model.get_weights()
    with pytest.raises(Exception, match=f"inputs: {row} is no row of .*, which has {ROWS}: 0 to {ROWS - 1}"):
        model(inputs)
    if BACKEND == "jax":
        assert np.isnan(model.predict_on_batch(inputs)).any()  # as with Keras' own layer
    many, wanted = data(20)
    many[3, 2] = row  # in the first batch of many: none of them is trained
    for call in (
        lambda: model.fit(many, wanted, batch_size=BATCH, shuffle=False, verbose=0),
        lambda: (model.train_on_batch(inputs, targets), model.get_weights()),
    ):
        with pytest.raises(Exception, match=r"inputs: .* no row"):
            call()
        for weight, was in zip(model.get_weights(), before, strict=True):
            assert (weight == was).all()
    assert int(model.optimizer.iterations.numpy()) == 2
    assert np.isfinite(trained(model, 5)).all()
