"""Train one trial with one seed after the other, in a process of its own: `python -m traintime.learning.train`.

The job, JSON on standard input: `trial` (its fields) and `seeds`. One line of JSON a seed on standard output.
"""

import json
import math
import os
import sys
import time

import keras
from keras import layers, ops

from traintime import deferred
from traintime.learning import tasks
from traintime.learning.tasks import TaskData
from traintime.learning.trial import Trial, make_trial
from traintime.measuring.worker.process import die_with_parent

EMBEDDING = 16  # numbers in each row of a table of words
FEWER = 10  # words for each row, where a table is smaller than the vocabulary
FACTOR = 4  # numbers in each row, where a matrix widens them


def hard_sigmoid(x: object) -> object:
    """Keras 2's gate, a line of slope 0.2 between 0 and 1 (that of Keras 3 is another, of slope 1/6)."""
    return ops.clip(0.2 * x + 0.5, 0.0, 1.0)


class ForgetBias(keras.initializers.Initializer):
    """Zeros, and `value` for the forget gate (Jozefowicz et al. 2015); gates in Keras' order i, f, c, o."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> object:
        units = shape[0] // 4
        return ops.concatenate([ops.zeros(units), ops.full((units,), self.value), ops.zeros(2 * units)])


OPTIMIZERS = {"adam": keras.optimizers.Adam, "sgd": keras.optimizers.SGD}


def table(trial: Trial, words: int, inputs: keras.KerasTensor) -> keras.KerasTensor:
    """The words' rows, float32 of shape (batch, positions, EMBEDDING), kept and trained as the trial says."""
    if trial.table == "deferred":
        most = trial.batch * inputs.shape[1]
        return deferred.Embedding(words, EMBEDDING, mask_zero=trial.mask, most=most)(inputs)
    rows, width = words, EMBEDDING
    if trial.table == "cut":  # tokens are in order of frequency
        rows = words // FEWER
        inputs = ops.minimum(inputs, rows - 1)
    elif trial.table == "hashed":
        rows = words // FEWER
        inputs = ops.mod(inputs, rows)
    elif trial.table == "factors":
        width = FACTOR
    positions = layers.Embedding(rows, width, mask_zero=trial.mask)(inputs)
    return layers.Dense(EMBEDDING, use_bias=False)(positions) if trial.table == "factors" else positions


def model(trial: Trial, task: TaskData) -> keras.Model:
    """The network, compiled."""
    trial.refuse_untrainable()
    inputs = keras.Input(task.inputs.shape[1:], dtype=str(task.inputs.dtype))
    positions = inputs
    if task.words is not None:
        positions = table(trial, task.words, inputs)
    state = layers.LSTM(
        trial.units,
        recurrent_activation=hard_sigmoid if trial.gates == "hard" else "sigmoid",
        recurrent_dropout=trial.recurrent_dropout,
        unit_forget_bias=False,
        bias_initializer=ForgetBias(trial.forget_bias),
    )(positions)
    made = keras.Model(inputs, layers.Dense(task.outputs, activation="softmax", dtype="float32")(state))
    kind = deferred.Adam if trial.table == "deferred" else OPTIMIZERS[trial.optimizer]
    made.compile(kind(trial.rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return made


def learn(trial: Trial, seed: int) -> dict[str, object]:
    """Train with this seed: accuracy and loss on the test data, and both at the end of each epoch of training."""
    task = tasks.load(trial.task)
    keras.utils.set_random_seed(seed)
    keras.config.set_dtype_policy(trial.precision.replace("-", "_"))
    made = model(trial, task)
    start = time.perf_counter()
    history: dict[str, list[float]] = {}
    for epochs, samples in plan(trial, len(task.inputs)):
        part = made.fit(task.inputs[:samples], task.classes[:samples], batch_size=trial.batch, epochs=epochs, verbose=0)
        for name, values in part.history.items():
            history.setdefault(name, []).extend(values)
    seconds = time.perf_counter() - start
    loss, accuracy = made.evaluate(task.test_inputs, task.test_classes, batch_size=1000, verbose=0)
    return {
        "seed": seed,
        "accuracy": float(accuracy),
        "loss": float(loss),
        "training_loss": [round(float(value), 6) for value in history["loss"]],
        "seconds": round(seconds, 3),
        "versions": {"keras": keras.__version__, keras.backend.backend(): _version()},
    }


def plan(trial: Trial, samples: int) -> list[tuple[int, int]]:
    """Epochs and samples of each call of `fit`: the epochs, or as many steps as are asked for, the last epoch cut."""
    if trial.steps is None:
        return [(trial.epochs, samples)]
    each = math.ceil(samples / trial.batch)
    whole, rest = divmod(trial.steps, each)
    parts = [(whole, samples), (1, min(rest * trial.batch, samples))]
    return [(epochs, number) for epochs, number in parts if epochs and number]


def _version() -> str:
    return __import__(keras.backend.backend()).__version__


def main() -> None:
    """Do the job on standard input."""
    die_with_parent()
    # A private copy of standard output: whatever a framework prints must not stand among the results.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    job = json.loads(sys.stdin.read())
    trial = make_trial(**job["trial"])
    for seed in job["seeds"]:
        channel.write(json.dumps(learn(trial, seed)) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
