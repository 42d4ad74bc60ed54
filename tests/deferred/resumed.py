"""A training with backups, in the folder named first; with `kill` it kills itself in the midst of its third epoch.

What is left where it comes to its end: the table, the loss of each epoch that was trained here, and how many.
"""

import os
import signal
import sys
from pathlib import Path

import keras
import numpy as np

from traintime.deferred import Embedding

ROWS, LENGTH, BATCH, STEPS = 300, 6, 32, 10
folder, kill = Path(sys.argv[1]), "kill" in sys.argv


class Killed(keras.callbacks.Callback):
    """No callback after this one, and nothing of Python's end: as when a machine is switched off."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == (2, STEPS // 2):
            os.kill(os.getpid(), signal.SIGKILL)


random = np.random.default_rng(0)
inputs = np.minimum(random.zipf(1.3, (BATCH * STEPS, LENGTH)) - 1, ROWS - 1).astype("int32")
keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.Input((LENGTH,), dtype="int32"),
        Embedding(ROWS, 8),
        keras.layers.LSTM(8),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
callbacks = [keras.callbacks.BackupAndRestore(folder / "backup"), *([Killed()] if kill else [])]
found = model.fit(inputs, inputs[:, :1] % 2, batch_size=BATCH, shuffle=False, epochs=4, verbose=0, callbacks=callbacks)
folder.mkdir(exist_ok=True)
loss = found.history["loss"]
np.savez(folder / "end.npz", table=model.layers[0].embeddings.numpy(), loss=loss, epochs=len(loss))
