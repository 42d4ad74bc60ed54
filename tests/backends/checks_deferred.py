"""The deferred embedding in Keras' own `fit`, on the backend of KERAS_BACKEND; test_backends.py runs this."""

import threading

import keras
import numpy as np
import pytest
from keras import ops

from traintime.deferred import Embedding, rules
from traintime.errors import InputError

# Keras' own, of NumPy 2, wherever it hands a weight to NumPy.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

BACKEND = keras.backend.backend()
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
    (table.table if isinstance(table, Embedding) else table.embeddings).assign(start)
    for layer in model.layers[1:]:
        layer.set_weights([random.uniform(-0.3, 0.3, weight.shape).astype("float32") for weight in layer.get_weights()])
    model.compile(optimizer or keras.optimizers.Adam(0.003), "binary_crossentropy", **compiled)
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
    return ops.convert_to_numpy(model.layers[0].embeddings)


def far(one, other):
    return np.abs(np.asarray(one) - other).max() / np.abs(other).max()


@pytest.mark.smoke
def test_a_hundred_steps_of_fit_lose_what_dense_adam_loses():
    dense, deferred = made(Table(ROWS, WIDTH)), made(Embedding(ROWS, WIDTH))
    one, other = trained(dense, 100), trained(deferred, 100)
    assert far(other, one) < 1e-5
    assert far(table_of(deferred), table_of(dense)) < 1e-4
    assert one[-20:].mean() < one[:20].mean()


def test_a_schedule_is_followed():
    def schedule():
        return keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.02, 5, 0.5, staircase=True))

    one, other = (trained(made(kind(ROWS, WIDTH), schedule()), 30) for kind in (Table, Embedding))
    assert far(other, one) < 1e-4


class Falls(keras.callbacks.Callback):
    """A rate that a callback changes in the midst of an epoch."""

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 10:
            self.model.optimizer.learning_rate = 0.001


def test_a_rate_that_a_callback_changes_is_followed():
    one, other = (trained(made(kind(ROWS, WIDTH)), 40, callbacks=[Falls()]) for kind in (Table, Embedding))
    assert far(other, one) < 1e-4


def test_a_rate_of_its_own_goes_with_any_optimizer():
    adam = made(Embedding(ROWS, WIDTH, learning_rate=0.003))
    assert far(trained(adam, 20), trained(made(Embedding(ROWS, WIDTH)), 20)) < 1e-6
    mixed = made(Embedding(ROWS, WIDTH, learning_rate=0.01), keras.optimizers.SGD(0.1))
    before = table_of(mixed).copy()
    losses = trained(mixed, 100)
    assert losses[-20:].mean() < losses[:20].mean()
    assert far(table_of(mixed), before) > 0.1


def test_rows_that_were_behind_are_right_wherever_they_are_seen():
    model = made(Embedding(ROWS, WIDTH))
    trained(model, 20)
    behind = ops.convert_to_numpy(model.layers[0].table).copy()
    inputs, targets = data(3, seed=5)
    before = model.evaluate(inputs, targets, verbose=0), model.predict(inputs, verbose=0)
    assert (ops.convert_to_numpy(model.layers[0].table) == behind).all()  # to look changes nothing
    weights = model.get_weights()
    table = next(each for each in weights if each.shape == (ROWS, WIDTH))
    assert far(table, behind) > 1e-3
    assert far(model.evaluate(inputs, targets, verbose=0), before[0]) < 1e-6
    assert np.abs(model.predict(inputs, verbose=0) - before[1]).max() < 1e-6
    dense = made(Table(ROWS, WIDTH))
    trained(dense, 20)
    assert far(table, table_of(dense)) < 1e-4


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
    halved.save_weights(tmp_path / "model.weights.h5")
    other = made(Embedding(ROWS, WIDTH))
    trained(other, 1)  # Keras makes an optimizer's slots at the first step, and loads none into one that has none
    other.load_weights(tmp_path / "model.weights.h5")
    assert far(table_of(other), table_of(halved)) == 0


def test_the_best_weights_come_back(tmp_path):
    model = made(Embedding(ROWS, WIDTH))
    stop = keras.callbacks.EarlyStopping(monitor="loss", mode="max", patience=1, restore_best_weights=True)
    kept = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True)
    model.fit(*data(10), batch_size=BATCH, verbose=0, epochs=4, validation_data=data(2, seed=3), callbacks=[stop, kept])
    first = made(Embedding(ROWS, WIDTH))
    trained(first, 1)
    first.load_weights(tmp_path / "1.weights.h5")
    assert far(table_of(model), table_of(first)) < 1e-6


@pytest.mark.filterwarnings("ignore:Skipping variable loading:UserWarning")
def test_what_kerass_own_layer_saved_is_loaded(tmp_path):
    """The other way round Keras' layer refuses what more a deferred table keeps; `set_weights` takes the table over."""
    dense, deferred = made(keras.layers.Embedding(ROWS, WIDTH)), made(Embedding(ROWS, WIDTH))
    trained(dense, 5)
    dense.save_weights(tmp_path / "dense.weights.h5")
    deferred.load_weights(tmp_path / "dense.weights.h5")
    assert far(table_of(deferred), ops.convert_to_numpy(dense.layers[0].embeddings)) == 0
    inputs, _ = data(2)
    assert far(deferred.predict(inputs, verbose=0), dense.predict(inputs, verbose=0)) < 1e-6


def test_a_file_of_another_layout_is_refused(tmp_path):
    made(Embedding(ROWS, WIDTH)).save_weights(tmp_path / "a.weights.h5")
    with pytest.raises(REFUSAL, match=r"weights: .* are not those of this layer"):
        made(Embedding(ROWS, WIDTH, rule="row-adagrad", learning_rate=0.1)).load_weights(tmp_path / "a.weights.h5")


def test_every_row_has_its_turn_before_room_runs_out(monkeypatch):
    monkeypatch.setattr(rules.Adam, "room", 224)
    short, dense = made(Embedding(ROWS, WIDTH)), made(Table(ROWS, WIDTH))
    one, other = trained(short, 260), trained(dense, 260)
    assert far(one[:100], other[:100]) < 1e-4
    last = ops.convert_to_numpy(short.layers[0].trainer.last)
    assert last.min() > 260 - 224


def test_padding_is_masked_as_keras_masks_it():
    losses = [trained(made(kind(ROWS, WIDTH, mask_zero=True)), 20) for kind in (Table, Embedding)]
    assert far(*losses) < 1e-4
    assert far(losses[0], trained(made(Table(ROWS, WIDTH)), 20)) > 1e-4


def test_a_frozen_table_stays():
    model = made(Embedding(ROWS, WIDTH))
    model.layers[0].trainable = False
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
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
    assert keras.backend.standardize_dtype(model.layers[0].table.dtype) == "float32"


def test_lazy_adam_is_another_training():
    lazy = trained(made(Embedding(ROWS, WIDTH, rule="lazy-adam")), 60)
    dense = trained(made(Table(ROWS, WIDTH)), 60)
    assert far(lazy, dense) > 1e-4


def test_adagrad_by_row_is_what_its_paper_says():
    model = made(Embedding(ROWS, WIDTH, rule="row-adagrad", learning_rate=0.1, epsilon=1e-8))
    before = table_of(model).copy()
    model.fit(*data(1), batch_size=BATCH, verbose=0)
    moved = table_of(model) - before
    used = np.unique(data(1)[0])
    # After one step the root of the mean square is the gradient's own, so the row moves by the rate in that measure.
    assert np.sqrt((moved[used] ** 2).mean(axis=1)) == pytest.approx(np.full(len(used), 0.1), rel=1e-2)
    assert (np.delete(moved, used, axis=0) == 0).all()


def refused(model, steps=1):
    """What an error before this step says in its own words, which are all that many readers see."""
    with pytest.raises(Exception) as caught:
        trained(model, steps)
    return str(caught.value)


@pytest.mark.parametrize(
    ("optimizer", "field"),
    [
        (lambda: keras.optimizers.AdamW(0.01), "optimizer"),
        (lambda: keras.optimizers.SGD(0.01), "optimizer"),
        (lambda: keras.optimizers.Adam(0.01, amsgrad=True), "amsgrad"),
        (lambda: keras.optimizers.Adam(0.01, weight_decay=0.1), "weight_decay"),
        (lambda: keras.optimizers.Adam(0.01, beta_1=0.8), "beta_1"),
        (lambda: keras.optimizers.Adam(0.01, epsilon=1e-6), "epsilon"),
    ],
)
def test_an_optimizer_that_the_layer_cannot_stand_in_for_is_refused_by_name(optimizer, field):
    assert f"{field}: " in refused(made(Embedding(ROWS, WIDTH), optimizer()))


# What concerns the gradients, or the weights, of the whole model.
OF_ALL = {
    "global_clipnorm": 1.0,
    "clipnorm": 1.0,
    "clipvalue": 1.0,
    "use_ema": True,
    "gradient_accumulation_steps": 2,
    "loss_scale_factor": 1024.0,
}


@pytest.mark.parametrize("rate", [None, 0.003])
@pytest.mark.parametrize("field", list(OF_ALL))
def test_what_would_pass_the_rows_by_is_refused_with_a_rate_of_its_own_too(rate, field):
    optimizer = keras.optimizers.Adam(0.01, **{field: OF_ALL[field]})
    said = refused(made(Embedding(ROWS, WIDTH, learning_rate=rate), optimizer))
    assert f"{field}: {OF_ALL[field]}" in said
    assert f"Leave {field} out" in said


@pytest.mark.parametrize("rate", [None, 0.003])
def test_a_loss_that_is_scaled_for_float16_is_refused_and_one_that_is_not_trains(rate):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        scaled = made(Embedding(ROWS, WIDTH, learning_rate=rate))
        alone = made(Embedding(ROWS, WIDTH, learning_rate=rate), auto_scale_loss=False)
    finally:
        keras.config.set_dtype_policy("float32")
    assert "optimizer: 'LossScaleOptimizer'" in refused(scaled)
    assert far(trained(alone, 20), trained(made(Embedding(ROWS, WIDTH)), 20)) < 0.02


def test_optimizers_within_an_optimizer_are_looked_at():
    several = keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.1, clipnorm=1.0))
    model = made(Embedding(ROWS, WIDTH, learning_rate=0.003), keras.optimizers.MultiOptimizer(several))
    assert "clipnorm: 1.0" in refused(model)


def test_what_another_optimizer_does_to_its_own_weights_never_reaches_the_rows():
    decays = keras.optimizers.AdamW(0.003, weight_decay=0.5, amsgrad=True)
    model = made(Embedding(ROWS, WIDTH, learning_rate=0.003), decays)
    before = table_of(model).copy()
    trained(model, 3)
    unread = np.setdiff1d(np.arange(ROWS), data(3)[0])
    assert len(unread)
    assert (table_of(model)[unread] == before[unread]).all()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"input_dim": 0}, "input_dim"),
        ({"output_dim": 2.5}, "output_dim"),
        ({"rule": "sparse"}, "rule"),
        ({"learning_rate": -0.1}, "learning_rate"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"beta_2": 0.5}, "beta_2"),
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


@pytest.mark.smoke
def test_a_refused_training_costs_no_weights():
    """Keras' `fit` on JAX takes them out of the model, and would lose them where a step cannot be made."""
    model = made(Embedding(ROWS, WIDTH, most=BATCH * LENGTH))
    trained(model, 3)
    before = [weight.copy() for weight in model.get_weights()]
    model.compile(keras.optimizers.Adam(0.003, use_ema=True), "binary_crossentropy")
    assert "use_ema: True" in refused(model)
    model.compile(keras.optimizers.Adam(0.003), "binary_crossentropy")
    if BACKEND == "jax":
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
        model.compile(keras.optimizers.Adam(0.003), "mse")
        losses[kind] = trained(model, 20)
    assert far(losses[Embedding], losses[Table]) < 1e-5


@pytest.mark.smoke
def test_a_table_that_is_read_twice_in_a_step_is_refused():
    table, left, right = Embedding(ROWS, WIDTH), keras.Input((3,), dtype="int32"), keras.Input((3,), dtype="int32")
    both = keras.layers.Concatenate()([keras.layers.Flatten()(table(each)) for each in (left, right)])
    model = keras.Model([left, right], keras.layers.Dense(1)(both))
    model.compile(keras.optimizers.Adam(), "mse")
    inputs = np.zeros((4, 3), "int32")
    with pytest.raises(REFUSAL, match="is a table that is read twice"):
        model.fit([inputs, inputs], np.zeros((4, 1)), verbose=0)


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

    def call(self, inputs, training=False):
        # On JAX Keras hands it on to no layer by itself.
        return self.last(self.mean(self.words(inputs, training=training)))


def test_a_model_that_says_nothing_of_training_is_refused():
    class Silent(Averaged):
        def call(self, inputs):
            return self.last(self.mean(self.words(inputs)))

    model = Silent(Embedding(ROWS, WIDTH), keras.layers.Dense(1))
    model.compile(keras.optimizers.Adam(), "mse")
    with pytest.raises(REFUSAL, match=r"training: False is all that"):
        trained(model, 1)


@pytest.mark.skipif(BACKEND == "jax", reason="on JAX a loop of one's own gives `training` to stateless_call")
def test_a_loop_of_ones_own_that_says_nothing_of_training_is_refused():
    """Keras' own layer is trained by it; this one would stand still."""
    model = made(Embedding(ROWS, WIDTH))
    inputs, targets = (ops.convert_to_tensor(each) for each in data(1))

    def step(**said):
        def lost():
            return ops.mean(ops.square(model(inputs, **said) - targets))

        if BACKEND == "torch":
            model.zero_grad()
            lost().backward()
            gradients = [variable.value.grad for variable in model.trainable_weights]
        else:
            import tensorflow as tf

            with tf.GradientTape() as tape:
                loss = lost()
            gradients = tape.gradient(loss, model.trainable_weights)
        model.optimizer.apply(gradients, model.trainable_weights)

    before = table_of(model).copy()
    with pytest.raises(Exception, match=r"training: False is all that the model lets"):
        step()
    assert (table_of(model) == before).all()
    assert np.isfinite(model.predict(data(1)[0], verbose=0)).all()
    step(training=True)
    assert (table_of(model) != before).any()


class Mirrored(keras.Sequential):
    """A training step of its own, which calls the model on the inputs and on their mirror image."""

    def lost(self, calls, targets):
        return sum(ops.mean(ops.square(out - targets)) for out in calls)

    def train_step(self, *given):
        if BACKEND == "jax":
            import jax

            (trained, others, optimizer, metrics), (inputs, targets) = given

            def lost(trained, others):
                calls = []
                for each in (inputs, ops.flip(inputs, axis=1)):
                    out, others = self.stateless_call(trained, others, each, training=True)
                    calls.append(out)
                return self.lost(calls, targets), others

            (loss, others), gradients = jax.value_and_grad(lost, has_aux=True)(trained, others)
            trained, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trained)
            return {"loss": loss}, (trained, others, optimizer, metrics)
        ((inputs, targets),) = given
        if BACKEND == "torch":
            self.zero_grad()
            self.lost([self(each, training=True) for each in (inputs, ops.flip(inputs, axis=1))], targets).backward()
            gradients = [variable.value.grad for variable in self.trainable_weights]
        else:
            import tensorflow as tf

            with tf.GradientTape() as tape:
                loss = self.lost([self(each, training=True) for each in (inputs, ops.flip(inputs, axis=1))], targets)
            gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply(gradients, self.trainable_weights)
        return {}


@pytest.mark.parametrize("eagerly", [False, True])
@pytest.mark.parametrize("rate", [None, 0.003])
def test_a_model_that_is_called_twice_in_a_training_step_is_refused(rate, eagerly):
    """Two steps of the table, or one that lacks half of its gradient, would be another training."""
    table = Embedding(ROWS, WIDTH, learning_rate=rate)
    model = Mirrored(made(table).layers)
    model.compile(keras.optimizers.Adam(0.003), run_eagerly=eagerly)
    with pytest.raises(REFUSAL, match="is a table that is read twice in one training step"):
        model.fit(*data(2), batch_size=BATCH, verbose=0)
    if not (eagerly and BACKEND == "jax"):  # which has given away what the first call replaced
        assert np.isfinite(table_of(model)).all()


def test_a_model_that_is_called_as_if_it_were_trained_moves_nothing():
    model = made(Embedding(ROWS, WIDTH))
    trained(model, 3)
    before = table_of(model).copy()
    for _ in range(2):
        model(data(1)[0], training=True)
    assert far(table_of(model), before) < 1e-6
    assert np.isfinite(trained(model, 3)).all()


def test_what_asks_for_nothing_is_no_reason_to_refuse():
    model = made(Embedding(ROWS, WIDTH), keras.optimizers.Adam(0.003, weight_decay=0.0, clipnorm=0.0))
    assert far(trained(model, 3), trained(made(Embedding(ROWS, WIDTH)), 3)) < 1e-6


def test_shapes_are_told_as_keras_layers_tell_them():
    table = Embedding(ROWS, WIDTH)
    assert made(table).compute_output_shape((None, LENGTH)) == (None, 1)
    assert keras.layers.TimeDistributed(table).compute_output_shape((None, 5, 3)) == (None, 5, 3, WIDTH)


def test_a_model_that_is_built_in_fit_trains():
    losses = {}
    for kind in (Table, Embedding):
        keras.utils.set_random_seed(0)
        start = keras.initializers.Constant(np.random.default_rng(2).uniform(-1, 1, (ROWS, WIDTH)).astype("float32"))
        model = Averaged(kind(ROWS, WIDTH, start), keras.layers.Dense(1, kernel_initializer="ones"))
        model.compile(keras.optimizers.Adam(0.003), "mse")
        losses[kind] = trained(model, 20)
    assert far(losses[Embedding], losses[Table]) < 1e-5


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_table_that_another_layer_uses_is_refused(eagerly):
    table = Embedding(ROWS, WIDTH)
    model = Averaged(table, Tied(table))
    model.compile(keras.optimizers.Adam(), "mse", run_eagerly=eagerly)
    with pytest.raises(REFUSAL, match=r"embeddings: .* is used by another layer"):
        model.fit(data(1)[0], np.zeros((BATCH, ROWS)), batch_size=BATCH, verbose=0)


@pytest.mark.parametrize("kind", ["uniform", "random_normal", "truncated_normal", "glorot_uniform", "ones"])
def test_the_table_starts_as_keras_would_start_it(kind, monkeypatch):
    if hasattr(rules.of_backend(), "BLOCK"):
        monkeypatch.setattr(rules.of_backend(), "BLOCK", 300)  # the last one has fewer rows
    start = keras.initializers.get(kind)
    tables = []
    for _ in range(2):
        layer = Embedding(
            1000, 40, type(start).from_config(start.get_config() | ({} if kind == "ones" else {"seed": 5}))
        )
        layer.build()
        tables.append(ops.convert_to_numpy(layer.table))
    assert (tables[0] == tables[1]).all()
    kerass = ops.convert_to_numpy(start((1000, 40), "float32"))
    for moment in (np.mean, np.std, np.min, np.max):
        assert moment(tables[0]) == pytest.approx(moment(kerass), abs=0.02 * float(np.abs(kerass).max()), rel=0.2)
    assert kind == "ones" or len(np.unique(tables[0][:, 0])) > 990  # no block is drawn twice


def test_seeds_and_generators_of_seeds_start_other_tables():
    generator = keras.random.SeedGenerator(3)
    starts = [keras.initializers.RandomUniform(seed=seed) for seed in (5, 6, generator, generator)]
    tables = []
    for start in starts:
        layer = Embedding(20, 3, start)
        layer.build()
        tables.append(ops.convert_to_numpy(layer.table))
    assert len({table.tobytes() for table in tables}) == 4


def test_weights_that_were_given_to_keras_are_given_as_a_start():
    weights = np.arange(10, dtype="float32").reshape(5, 2)
    layer = Embedding(5, 2, keras.initializers.Constant(weights))
    layer.build()
    assert (ops.convert_to_numpy(layer.embeddings) == weights).all()


@pytest.mark.parametrize(("kind", "tables"), [("uniform", 3), ("glorot_normal", None)])
def test_memory_for_the_draw_counts_too(kind, tables, monkeypatch):
    backend = rules.of_backend()
    layer = Embedding(1000, 40, kind)
    needed = 1000 * 40 * 4 * (tables or max(3, backend.drawn(layer)))
    monkeypatch.setattr(backend, "free_bytes", lambda: needed - 1)
    with pytest.raises(InputError, match=r"^input_dim: "):
        layer.build()
    monkeypatch.setattr(backend, "free_bytes", lambda: needed)
    Embedding(1000, 40, kind).build()


def test_a_configuration_makes_the_same_layer_again():
    rate = keras.optimizers.schedules.ExponentialDecay(0.02, 5, 0.5)
    layer = Embedding(5, 2, mask_zero=True, rule="lazy-adam", learning_rate=rate, beta_1=0.8, name="words")
    again = Embedding.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert float(again.learning_rate(5)) == pytest.approx(0.01)


def alike(training):
    """Both ways through one training, which gives the model and its last losses: losses and tables agree."""
    losses, tables = [], []
    for kind in (Table, Embedding):
        model, lost = training(kind)
        losses.append(lost)
        tables.append(table_of(model))
    assert far(losses[1], losses[0]) < 1e-5
    assert far(tables[1], tables[0]) < 1e-4


def test_a_training_that_goes_back_to_earlier_weights_keeps_its_means_as_keras_does():
    def training(kind):
        model = made(kind(ROWS, WIDTH))
        trained(model, 15)
        earlier = model.get_weights()
        trained(model, 15)
        model.set_weights(earlier)
        return model, trained(model, 15)

    alike(training)


def test_a_training_that_early_stopping_takes_back_goes_on_as_keras_does():
    def training(kind):
        model = made(kind(ROWS, WIDTH))
        stop = keras.callbacks.EarlyStopping(monitor="loss", mode="max", patience=2, restore_best_weights=True)
        trained(model, 5, epochs=4, callbacks=[stop])
        return model, trained(model, 10)

    alike(training)


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


def test_a_table_that_starts_frozen_trains_once_it_may():
    def training(kind):
        table = kind(ROWS, WIDTH)
        table.trainable = False
        model = made(table)
        losses = list(trained(model, 3))
        table.trainable = True
        model.compile(keras.optimizers.Adam(0.003), "binary_crossentropy")
        return model, np.array(losses + list(trained(model, 10)))

    alike(training)


def test_weights_are_those_that_keras_layer_would_give():
    model = made(Embedding(ROWS, WIDTH))
    trained(model, 3)
    assert [weight.shape for weight in model.layers[0].get_weights()] == [(ROWS, WIDTH)]
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    assert far(table_of(clone), table_of(model)) < 1e-6  # what a row owes may be rounded otherwise


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


def test_a_new_optimizer_in_the_midst_of_a_training_starts_anew_as_keras_does():
    def training(kind):
        model = made(kind(ROWS, WIDTH))
        trained(model, 25)
        losses = []
        for rate in (0.01, 0.002):  # many rows miss both changes
            model.compile(keras.optimizers.Adam(rate), "binary_crossentropy")
            losses += list(trained(model, 12))
        return model, losses

    alike(training)


def test_a_table_that_thaws_under_a_new_optimizer_trains_as_keras_does():
    def training(kind):
        model = made(kind(ROWS, WIDTH))
        trained(model, 10)
        for thawed in (False, True):
            model.layers[0].trainable = thawed
            model.compile(keras.optimizers.Adam(0.003), "binary_crossentropy")
            losses = trained(model, 10)
        return model, losses

    alike(training)


def test_an_optimizer_that_another_has_replaced_is_refused():
    first, second = keras.optimizers.Adam(0.003), keras.optimizers.Adam(0.003)
    model = made(Embedding(ROWS, WIDTH), first)
    other = keras.Sequential([keras.Input((LENGTH,), dtype="int32"), *model.layers])
    other.compile(second, "binary_crossentropy")
    inputs, targets = data(1)
    for one in (model, other):
        one.train_on_batch(inputs, targets)
    with pytest.raises(Exception) as caught:  # compiled before: nobody looks at the model any more
        for _ in range(2):  # on JAX a step's optimizer is known to the next one
            model.train_on_batch(inputs, targets)
    assert "optimizer: Adam is one that another has replaced" in str(caught.value).replace("'", "")
    assert np.isfinite(table_of(model)).all()


def test_rows_that_stand_still_take_one_optimizer_only():
    model = made(Embedding(ROWS, WIDTH, rule="lazy-adam"))
    trained(model, 2)
    model.compile(keras.optimizers.Adam(0.003), "binary_crossentropy")
    assert "optimizer: 'Adam' is the second to train" in refused(model)


@pytest.mark.skipif(BACKEND == "jax", reason="on JAX Keras' optimizers take one model only")
def test_an_optimizer_that_two_models_share_counts_the_steps_of_both():
    def training(kind):
        model, shared = made(kind(ROWS, WIDTH)), keras.optimizers.Adam(0.003)
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


def test_weights_that_are_loaded_in_the_midst_of_a_training_bring_their_optimizer_as_keras_does(tmp_path):
    def training(kind):
        path = tmp_path / f"{kind.__module__}.weights.h5"
        model = made(kind(ROWS, WIDTH))
        kept = keras.callbacks.ModelCheckpoint(path, monitor="loss", mode="max", save_best_only=True)
        kept.save_weights_only = True
        trained(model, 12, epochs=2, callbacks=[kept])  # the first epoch has the largest loss
        model.load_weights(path)
        return model, trained(model, 12)

    alike(training)


@pytest.mark.filterwarnings("ignore:Skipping variable loading:UserWarning")
def test_weights_of_a_file_without_their_optimizer_are_refused_and_trained_by_a_new_one(tmp_path):
    path = tmp_path / "start.weights.h5"

    def training(kind):
        model = made(kind(ROWS, WIDTH))
        model.save_weights(path)
        trained(model, 12)
        model.load_weights(path)  # Keras leaves the optimizer as it is, and says so
        if kind is Embedding:
            said = refused(model, 2)  # on JAX a step's optimizer is known to the next one
            assert "weights: 0 is the step of the Adam" in said
            assert "at step 12" in said
            model.load_weights(path)
        else:
            model.load_weights(path)
        model.compile(keras.optimizers.Adam(0.003), "binary_crossentropy")
        return model, trained(model, 12)

    alike(training)


def test_a_saved_model_that_gets_a_new_optimizer_starts_anew_as_keras_does(tmp_path):
    def training(kind):
        model = made(kind(ROWS, WIDTH))
        trained(model, 12)
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras", custom_objects={"Table": Table})
        again.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
        return again, trained(again, 12)

    alike(training)


class Looks(keras.callbacks.Callback):
    """Whoever looks at the model after each few steps."""

    def on_train_batch_end(self, batch, logs=None):
        if batch % 7 == 0:
            inputs, targets = data(1, seed=batch)
            self.model.get_weights()
            self.model.predict_on_batch(inputs)
            self.model.test_on_batch(inputs, targets)


def test_to_look_at_a_model_in_training_changes_nothing():
    def training(kind):
        model = made(kind(ROWS, WIDTH))
        model.fit(*data(30), batch_size=BATCH, shuffle=False, verbose=0, callbacks=[Looks()])
        return model, trained(model, 10)

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
    model, inputs = made(Embedding(ROWS, WIDTH)), data(1)[0]
    trained(model, 2)
    inputs[3, 2] = row
    targets, before = data(1)[1], table_of(model).copy()
    for call in (
        lambda: model.predict(inputs, batch_size=BATCH, verbose=0),
        lambda: model.evaluate(inputs, targets, batch_size=BATCH, verbose=0),
        lambda: model.predict_on_batch(inputs),
        lambda: model(inputs),
    ):
        with pytest.raises(Exception, match=f"inputs: {row} is no row of .*, which has {ROWS}: 0 to {ROWS - 1}"):
            call()
        assert (table_of(model) == before).all()
    # One batch of many: what comes after it is not trained.
    many, wanted = data(40)
    many[3, 2] = row
    for call in (
        # Who reads the losses waits for each step; else JAX has begun many more by the time that it has done one.
        lambda: model.fit(many, wanted, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[Losses()]),
        lambda: model.train_on_batch(inputs, targets),
    ):
        with pytest.raises(Exception, match=f"inputs: {row} is no row of .*, which has {ROWS}: 0 to {ROWS - 1}"):
            call()
    assert int(model.optimizer.iterations.numpy()) < 10
    after = table_of(model)
    assert far(after, before) < 0.2
    assert (after[ROWS - 1] == before[ROWS - 1]).all() or ROWS - 1 in data(2)[0]
    assert np.isfinite(trained(model, 5)).all()
