"""The end of training as told in Keras' own `fit`, on the backend of KERAS_BACKEND; test_backends.py runs this."""

import copy
import functools
import threading
import time
from datetime import datetime, timedelta

import keras
import numpy as np
import pytest

import traintime
from traintime.errors import InputError

# Keras' own, of NumPy 2, wherever it hands a weight to NumPy.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

BACKEND = keras.backend.backend()
BATCH, STEPS = 16, 30
PAUSE_S = 0.003


class Pause(keras.callbacks.Callback):
    """Makes steps even and long beside what else the machine does. It has no hook that ends asynchronous dispatch."""

    def on_train_batch_begin(self, batch, logs=None):
        time.sleep(PAUSE_S)


class Noted(keras.callbacks.Callback):
    """What is told at the beginning of each epoch, and when it was."""

    def __init__(self, eta):
        super().__init__()
        self.eta, self.told = eta, []

    def on_epoch_begin(self, epoch, logs=None):
        self.told.append((time.perf_counter(), self.eta.estimate))

    def on_train_end(self, logs=None):
        self.end = time.perf_counter()

    @property
    def finished(self):
        return [told and pytest.approx(told.finished) for _, told in self.told]


def data(steps=STEPS):
    inputs = np.random.default_rng(0).normal(size=(BATCH * steps, 8)).astype("float32")
    return inputs, inputs[:, :1]


@functools.cache
def made(**compiled):
    """A small model, traced and compiled once: what it has learnt does not matter here."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse", **compiled)
    return model


def fitted(eta, *callbacks, model=None, **given):
    noted = Noted(eta)
    given = {"batch_size": BATCH, "epochs": 3, "verbose": 0} | given
    (model or made()).fit(*data(), callbacks=[Pause(), eta, noted, *callbacks], **given)
    return noted


@pytest.mark.smoke
def test_the_end_is_where_it_was_told_to_be():
    lines, threads = [], set()

    def say(line):
        lines.append(line)
        threads.add(threading.current_thread())

    eta = traintime.Eta("1h", say=say)
    made().evaluate(*data(6), verbose=0, callbacks=[eta])
    assert eta.estimate is None, "an evaluation outside of training is none of its business"
    noted = fitted(eta, validation_data=data(6), epochs=4)
    for moment, told in noted.told[1:]:
        taken = noted.end - moment
        assert told.remaining.low <= told.remaining.value <= told.remaining.high
        assert told.remaining.value > taken / 10
        assert told.meets
        # The first end of an epoch and the first validation are no measure: what they did once took longer than a step.
        assert told.finished < 0.5 or told.remaining.value < taken * 10
    assert noted.finished == [None, 1 / 4, 2 / 4, 3 / 4]
    assert eta._ending._progress._validated == [3, 4], "at the ends of the last two epochs"
    assert all("Deadline (1 h after the start): will be met." in line for line in lines)
    assert threads == {threading.main_thread()}
    assert eta.estimate.finished == 1 and eta.estimate.remaining.high == 0
    assert abs(eta.estimate.end - datetime.now().astimezone()) < timedelta(minutes=1)


def test_it_leaves_asynchronous_dispatch_as_it_is():
    def dispatches_asynchronously(*callbacks):
        return keras.callbacks.CallbackList(list(callbacks))._async_train

    assert dispatches_asynchronously(traintime.Eta(), Pause()) == dispatches_asynchronously()


@pytest.mark.skipif(BACKEND != "jax", reason="only JAX takes the weights away from the model while it trains")
def test_weights_are_not_fetched():
    synced = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch:
                synced.append(self._model._jax_state_synced)

    fitted(traintime.Eta(every=1e-6, say=lambda line: None), Watch())
    assert len(synced) > 50 and not any(synced)


def test_the_same_one_starts_anew_and_so_do_copies():
    lines = []
    eta = traintime.Eta(0.001, every="epoch", say=lines.append)
    copies = [copy.deepcopy(eta)]
    fitted(eta, epochs=2)
    copies.append(copy.deepcopy(eta))
    assert all(one.estimate is one.model is one.params is None for one in copies)
    for one in (eta, *copies):
        fitted(one, epochs=2)
        assert one.estimate.finished == 1
    assert sum("missed by" in line for line in lines) == 4


def test_training_goes_on_from_an_epoch_and_may_be_stopped():
    eta = traintime.Eta(say=None)
    noted = fitted(eta, keras.callbacks.EarlyStopping("loss", min_delta=9), initial_epoch=2, epochs=10)
    assert noted.finished == [None, 1 / 8]
    assert eta.estimate.remaining.value == 0  # it is over, whatever was left


@pytest.mark.skipif(BACKEND == "torch", reason="Keras has it one step a time on torch")
def test_several_steps_of_one_call():
    eta = traintime.Eta(say=None)
    noted = fitted(eta, model=made(steps_per_execution=4))  # 30 steps: seven calls of four, one of two
    assert noted.finished == [None, 1 / 3, 2 / 3]
    progress = eta._ending._progress
    # On a busy machine news of two calls may pass each other, also of an epoch's first two, and then count as one call.
    assert (progress.steps, progress._run, progress.executed % 4) == (30, 3 * 30, 0)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="its pipelines come in unknown length without a package more")
@pytest.mark.filterwarnings("ignore:.*ran out of data:UserWarning")
def test_where_nobody_knows_the_number_of_steps_the_first_epoch_tells():
    import tensorflow as tf

    # Nobody knows how many a filter lets through.
    unknown = tf.data.Dataset.from_tensor_slices(data()).batch(BATCH).filter(lambda *_: True)
    eta = traintime.Eta(say=None)
    noted = Noted(eta)
    made().fit(unknown, epochs=3, shuffle=False, verbose=0, callbacks=[Pause(), eta, noted])
    assert noted.finished == [None, 1 / 3, 2 / 3]


def test_it_prints_beside_the_bar(capsys):
    fitted(traintime.Eta(0.001), epochs=2, verbose=1)
    assert "\nDeadline (0 s after the start): will be missed by" in capsys.readouterr().out


@pytest.mark.parametrize("given", [{"cost": len}, {"total": 3}])
def test_an_argument_that_it_does_not_have_is_refused(given):
    with pytest.raises(InputError, match=r"^argument: '(cost|total)'"):
        traintime.Eta(**given)
