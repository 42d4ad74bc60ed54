"""Trainings with backups, each in a folder of its own; with `kill` it kills itself in the midst of its third epoch.

Arguments: the folder of all, the names of theirs. What is left where one comes to its end: the table, the loss of each
epoch that was trained here, and how many.
"""

import os
import signal
import sys
from pathlib import Path

import keras
import numpy as np

from traintime.deferred import Adam, Embedding

ROWS, LENGTH, BATCH, STEPS = 300, 6, 32, 10


class Killed(keras.callbacks.Callback):
    """No callback after this one, and nothing of Python's end: as when a machine is switched off."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == (2, STEPS // 2):
            os.kill(os.getpid(), signal.SIGKILL)


where, *names = sys.argv[1:]
random = np.random.default_rng(0)
inputs = np.minimum(random.zipf(1.3, (BATCH * STEPS, LENGTH)) - 1, ROWS - 1).astype("int32")
for folder in (Path(where) / name for name in names if name != "kill"):
    keras.utils.set_random_seed(0)
    words, read = Embedding(ROWS, 8), keras.layers.LSTM(8)
    last = keras.layers.Dense(1, activation="sigmoid")
    model = keras.Sequential([keras.Input((LENGTH,), dtype="int32"), words, read, last])
    model.compile(Adam(0.01), "binary_crossentropy")
    callbacks = [keras.callbacks.BackupAndRestore(folder / "backup"), *([Killed()] if "kill" in names else [])]
    found = model.fit(
        inputs, inputs[:, :1] % 2, batch_size=BATCH, shuffle=False, epochs=4, verbose=0, callbacks=callbacks
    )
    folder.mkdir(exist_ok=True)
    loss = found.history["loss"]
    np.savez(folder / "end.npz", table=words.embeddings.numpy(), loss=loss, epochs=len(loss))
