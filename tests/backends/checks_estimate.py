"""Estimates of Keras models on the backend of KERAS_BACKEND; test_backends.py runs this."""

import threading
import time

import keras
import numpy as np
import pytest

import traintime
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


def reader(**compiled):
    keras.utils.set_random_seed(0)
    tokens = keras.Input((12,), dtype="int32")
    words = keras.layers.Embedding(500, 16)(tokens)
    out = keras.layers.Dense(3, activation="softmax")(keras.layers.LSTM(16)(words))
    model = keras.Model(tokens, out)
    model.compile(**({"optimizer": "adam", "loss": "sparse_categorical_crossentropy"} | compiled))
    return model


def state(model):
    kept = [*model.variables, *model.optimizer.variables]
    return [np.array(one) for one in kept]


@pytest.mark.smoke
def test_a_probed_model_is_as_it_was_before():
    model = reader(metrics=["accuracy"])
    x, y = KerasTrainer(model).samples(64)
    model.fit(x, y, epochs=2, verbose=0)
    before, history = state(model), model.history
    one = traintime.estimate(model, samples=1030, batch_size=32, epochs=2, validation=100, saves=1, seconds=1)
    assert one.tier == "probed"
    assert all(np.array_equal(a, b) for a, b in zip(before, state(model), strict=True))
    assert model.history is history
    assert min(one.parts[name] for name in ("steps", "last batches", "validation", "saving")) > 0
    assert sum(one.terms.values()) == pytest.approx(one.step.value)
    assert one.memory.value > 1e8


def test_the_copies_that_put_a_model_back_are_known():
    model = reader()
    trainer = KerasTrainer(model)
    with trainer.restored():
        kept = sum(each.nbytes for each in state(model))
        assert kept <= trainer.kept_bytes < 1.01 * kept, "and seeds"


def test_what_it_says_of_a_training_is_near_what_that_takes():
    """A ratio within one run, and a generous one: what else the machine does is not ours to know."""
    model = reader()
    one = traintime.estimate(model, samples=32 * 150, batch_size=32, seconds=2, keep=False)
    x, y = KerasTrainer(model).samples(32 * 150)
    start = time.perf_counter()
    model.fit(x, y, batch_size=32, verbose=0)
    took = time.perf_counter() - start
    steps = one.parts["steps"] + one.parts["between epochs"]
    assert steps / 5 < took < 5 * one.total.value


@pytest.mark.skipif(BACKEND != "torch", reason="the loop is torch's own")
def test_a_plain_loop_of_torch_is_probed_by_its_step():
    import torch

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer, losses, asked = torch.optim.Adam(network.parameters(), lr=0.01), [], []

    def step(n):
        asked.append(n)
        inputs = torch.randn(n, 20)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(network(inputs), inputs.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    one = traintime.estimate(step=step, samples=64 * 300 + 10, batch_size=64, epochs=2, seconds=3)
    assert one.tier == "probed"
    assert one.of.endswith("torch")
    # The batch, and beside it the last one, which is smaller, if a busy machine has left time for it.
    alone = any("one batch size alone was tried" in note for note in one.notes)
    assert set(asked) == ({64} if alone else {64, 10})
    assert losses[-1] < losses[0] / 2  # it has trained, and not been looked at
    assert one.memory.value > 1e8
    start = time.perf_counter()
    for n in ([64] * 300 + [10]) * 2:
        step(n)
    took = time.perf_counter() - start
    assert one.total.value / 5 < took < 5 * one.total.value


def test_a_smaller_model_is_tried_in_the_place_of_a_larger_one():
    """It is left as it was, and the larger one is not trained: it need not even be compiled."""
    small = reader()
    words = keras.layers.Embedding(50_000, 16)(tokens := keras.Input((12,), dtype="int32"))
    large = keras.Model(tokens, keras.layers.Dense(3, activation="softmax")(keras.layers.LSTM(16)(words)))
    data = Batches(*KerasTrainer(small).samples(32))  # which builds the optimizer, whose state is compared
    before = [np.array(one) for one in large.variables] + state(small)
    one = traintime.estimate(large, samples=1030, batch_size=32, probe=small, seconds=1, validation=100)
    after = [np.array(one) for one in large.variables] + state(small)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert one.tier == "scaled"
    assert one.batch_size == 32
    if not one.limited_by.startswith("the formula does not explain"):  # as on a busy machine
        assert sum(one.terms.values()) == pytest.approx(one.step.value)
    assert one.memory.value > 4 * 50_000 * 16
    beside = traintime.estimate(small, samples=1030, batch_size=320, probe_batch=32, seconds=1)
    assert beside.tier == "scaled"
    assert any("at batch 32" in note for note in beside.notes)
    with pytest.raises(InputError, match="batches of its own"):
        traintime.estimate(large, samples=1030, batch_size=32, probe=small, data=data)


@pytest.mark.smoke
def test_data_of_the_readers_are_used_as_they_are():
    model = reader()
    x, y = KerasTrainer(model).samples(64)
    trainer = KerasTrainer(model, (x, y))
    assert len(trainer.samples(100)[0]) == 100
    assert not trainer.own_batches
    assert trainer.sample_bytes == x.nbytes // 64 + y.nbytes // 64
    with pytest.raises(InputError, match="differ in their number of samples"):
        KerasTrainer(model, (x, y[:10]))


class Batches(keras.utils.PyDataset):
    """A source with batches of its own size, and a pause for each; `fit` lets it prepare an epoch."""

    ready = BACKEND == "tensorflow"  # where Keras looks at batches before an epoch begins

    def __init__(self, x, y, number=40, pause_s=0.004, **how):
        super().__init__(**how)
        self.x, self.y, self.number, self.pause_s = x, y, number, pause_s

    def on_epoch_begin(self):
        self.ready = True

    def __len__(self):
        return self.number

    def __getitem__(self, index):
        assert self.ready
        time.sleep(self.pause_s)
        return self.x, self.y


def test_fit_holds_its_samples_as_often_as_it_copies_them():
    """On TensorFlow in a constant of the input's graph, and for a moment once more while that is made."""
    inputs = keras.Input((4096,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    trainer = KerasTrainer(model)
    trainer.train(8, 1, 1)
    found = trainer.copies(8, 2 * TRIED_BYTES // trainer.sample_bytes)
    training, start = (2, 3) if BACKEND == "tensorflow" else (1, 1)
    assert found.training == pytest.approx(training, abs=0.3)
    assert found.start == pytest.approx(start, abs=0.3)
    assert trainer.copies(8, 100) == ONCE, "few are not tried"


def test_memory_starts_from_what_the_very_process_holds():
    def predicted():
        return traintime.estimate(reader(), samples=100, batch_size=10, tier="formula").memory.value

    before, held = predicted(), np.ones(300_000_000, "uint8")
    assert predicted() - before == pytest.approx(held.nbytes, rel=0.1)


def test_a_slow_source_of_batches_is_in_the_time():
    model = reader()
    x, y = KerasTrainer(model).samples(8)
    one = traintime.estimate(model, data=Batches(x, y, pause_s=0.03), samples=320, batch_size=8, seconds=3)
    assert one.step.value >= 0.03
    assert one.limited_by.startswith("waiting for data")


def test_a_source_of_several_workers_is_timed_while_all_of_them_work():
    """Four, of which each takes 0.04 s for a batch: an epoch of 120 takes 1.2 s and not 4.8, nor 20."""
    model = reader()
    x, y = KerasTrainer(model).samples(8)
    data = Batches(x, y, 120, 0.04, workers=4)
    one = traintime.estimate(model, data=data, samples=120 * 8, batch_size=8, epochs=2, seconds=4)
    start = time.perf_counter()
    model.fit(data, epochs=2, verbose=0)
    took = time.perf_counter() - start
    assert took / 2 < one.total.value < 2 * took
    assert threading.active_count() < 20, "its workers are gone"


@pytest.mark.filterwarnings("ignore:.shuffle=True. was passed")  # which is the default
def test_a_source_whose_length_nobody_knows_is_read_on():
    def endless():
        while True:
            time.sleep(0.01)
            yield x, y

    model = reader()
    x, y = KerasTrainer(model).samples(8)
    one = traintime.estimate(model, data=endless(), samples=8000, batch_size=8, seconds=2)
    start = time.perf_counter()
    model.fit(endless(), steps_per_epoch=100, verbose=0)
    took = time.perf_counter() - start
    assert 0.01 <= one.step.value < 4 * took / 100


def test_made_up_rows_are_rows_of_the_smallest_table_that_reads_them():
    tokens, other = keras.Input((5,), dtype="int32"), keras.Input((5,), dtype="int32")
    joined = keras.layers.Concatenate()([keras.layers.Embedding(7, 2)(tokens), keras.layers.Embedding(3, 2)(tokens)])
    seen = keras.layers.Flatten()(joined), keras.layers.Flatten()(keras.layers.Embedding(11, 2)(other))
    model = keras.Model([tokens, other], keras.layers.Dense(1)(keras.layers.Concatenate()(seen)))
    model.compile("sgd", "mse")
    (first, second), target = KerasTrainer(model).samples(500)
    assert first.max() == 2
    assert second.max() == 10
    assert target.shape == (500, 1)


def test_the_formula_needs_no_compiled_model_and_a_probe_does():
    inputs = keras.Input((10,))
    model = keras.Model(inputs, keras.layers.Dense(5)(inputs))
    one = traintime.estimate(model, samples=100, batch_size=10, optimizer="adam")
    assert one.tier == "formula"
    assert any("not compiled" in note for note in one.notes)
    with pytest.raises(InputError, match="is not compiled"):
        traintime.estimate(model, samples=100, batch_size=10, tier="probed", optimizer="adam")


def test_what_cannot_be_counted_is_probed_and_says_so():
    @keras.saving.register_keras_serializable()
    class Own(keras.layers.Layer):
        def call(self, inputs):
            return inputs * 2.0

    inputs = keras.Input((10,))
    model = keras.Model(inputs, keras.layers.Dense(2)(Own()(inputs)))
    model.compile("adam", "mse")
    with pytest.raises(InputError, match="Own"):
        traintime.estimate(model, samples=100, batch_size=10, tier="formula")
    one = traintime.estimate(model, samples=100, batch_size=10, seconds=2)
    assert one.tier == "probed"
    assert one.terms is None
    assert any("layers whose work is not known" in note for note in one.notes)


def test_a_step_that_is_not_compiled_is_not_told_to_be_spent_as_one_that_is():
    one = traintime.estimate(reader(run_eagerly=True), samples=100, batch_size=10, seconds=1)
    assert one.tier == "probed"
    untold = BACKEND != "torch"  # which compiles no step
    assert (one.terms is None) == (not one.limited_by) == untold
    assert any("run_eagerly=True has no known cost" in note for note in one.notes) == untold


def test_an_unknown_length_is_asked_for():
    tokens = keras.Input((None,), dtype="int32")
    hidden = keras.layers.GRU(4)(keras.layers.Embedding(50, 4)(tokens))
    model = keras.Model(tokens, keras.layers.Dense(1)(hidden))
    model.compile("adam", "mse")
    with pytest.raises(InputError, match="length="):
        traintime.estimate(model, samples=100, batch_size=10)
    assert traintime.estimate(model, samples=100, batch_size=10, length=7, seconds=2).tier == "probed"
    assert traintime.largest(model, "length", samples=100, batch_size=10, memory="1TB").surely > 7


@pytest.mark.smoke
def test_what_does_not_fit_is_costed_and_not_tried(monkeypatch):
    model = reader()
    monkeypatch.setattr(machine, "free_memory", lambda: 1e6)
    one = traintime.estimate(model, samples=100, batch_size=10)
    assert one.tier == "formula"
    assert any("GiB are free" in note for note in one.notes)
    with pytest.raises(InputError, match="GiB are free"):
        traintime.estimate(model, samples=100, batch_size=10, tier="probed")
