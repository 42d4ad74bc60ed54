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
from checks_deferred import BATCH, ROWS, WIDTH, data, made, table_of

from traintime.deferred import Embedding

STEPS = 10


class Killed(keras.callbacks.Callback):
    """No callback after this one, and nothing of Python's end: as when a machine is switched off."""

    steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if self.steps == 2 * STEPS + STEPS // 2:
            os.kill(os.getpid(), signal.SIGKILL)


where, *names = sys.argv[1:]
for folder in (Path(where) / name for name in names if name != "kill"):
    model, (inputs, targets) = made(Embedding(ROWS, WIDTH)), data(STEPS)
    callbacks = [keras.callbacks.BackupAndRestore(folder / "backup"), *([Killed()] if "kill" in names else [])]
    fitted = model.fit(inputs, targets, BATCH, shuffle=False, epochs=4, verbose=0, callbacks=callbacks)
    folder.mkdir(exist_ok=True)
    loss = fitted.history["loss"]
    np.savez(folder / "end.npz", table=table_of(model), loss=loss, epochs=len(loss))
