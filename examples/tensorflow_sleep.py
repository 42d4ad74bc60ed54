"""Does `fit` sleep after an epoch? Keras 3 on TensorFlow, alone: python tensorflow_sleep.py [--seconds 10]

A training of `--epochs` epochs of about so many seconds each, over the same numbers as arrays, as a tf.data.Dataset,
and as a Dataset whose pipeline is not tuned. Printed is how long nothing happened after each epoch's last batch: until
the next epoch's first one, or until `fit` returned. The three ways take turns, in random order. --csv adds every wait
to a file.

Why it can sleep: a tf.data pipeline has a thread that tunes it, which wakes after 10 ms, then after pauses that double,
up to a minute each; the pipeline ends when that thread has ended, and now and then nobody wakes it (TensorFlow 2.21,
core/framework/model.cc, OptimizeLoop; framework/cancellation.cc, StartCancel).
"""

import argparse
import csv
import datetime
import random
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

BATCH = 64


class Waits(keras.callbacks.Callback):
    """Seconds of each epoch until its last batch was done, and then until the next one's first, or the end of `fit`."""

    def __init__(self):
        super().__init__()
        self.began = self.done = None
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 0:
            self.over()
            self.began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.done = time.perf_counter()

    def over(self):
        """Nothing more comes of this epoch."""
        if self.done is not None:
            self.seconds.append((self.done - self.began, time.perf_counter() - self.done))
            self.done = None


def inputs(way, x, y):
    """What `fit` is given."""
    if way == "arrays":
        return {"x": x, "y": y, "batch_size": BATCH}
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(10_000).batch(BATCH)
    if way == "untuned":
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = dataset.with_options(options)
    return {"x": dataset}


def main():
    """Train, and print a line for each way."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seconds", type=float, default=10.0, help="of an epoch, about")
    asked.add_argument("--epochs", type=int, default=3)
    asked.add_argument("--rounds", type=int, default=4)
    asked.add_argument("--csv", type=Path, help="file that gets every wait")
    asked = asked.parse_args()
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    x, y = np.random.rand(BATCH * 500, 64).astype("float32"), np.random.rand(BATCH * 500, 1).astype("float32")
    seconds = {}
    for way in ("arrays", "dataset", "untuned"):
        model.fit(**inputs(way, x, y), verbose=0)  # compiles
        start = time.perf_counter()
        model.fit(**inputs(way, x, y), verbose=0)
        seconds[way] = time.perf_counter() - start
    found = {way: [] for way in seconds}
    for _ in range(asked.rounds):
        for way in random.sample(list(found), len(found)):
            times = max(1, round(asked.seconds / seconds[way]))
            waits = Waits()
            model.fit(**inputs(way, np.tile(x, (times, 1)), np.tile(y, (times, 1))), epochs=asked.epochs, verbose=0,
                      callbacks=[waits])  # fmt: skip
            waits.over()
            found[way] += waits.seconds
    print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}; epochs of about {asked.seconds:g} s")
    print("input     ends  above 0.2 s  longest  all waits, s")
    for way, epochs in found.items():
        waits = sorted(wait for _, wait in epochs)
        long = sum(wait > 0.2 for wait in waits)
        print(f"{way:8} {len(waits):5} {long:12} {max(waits):8.2f}  {' '.join(f'{wait:.2f}' for wait in waits)}")
    if asked.csv:
        day, new = datetime.datetime.now(datetime.UTC).date(), not asked.csv.exists()
        with asked.csv.open("a", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            if new:
                rows.writerow(["measured", "tensorflow", "keras", "way", "last_of_fit", "epoch_s", "wait_s"])
            for way, epochs in found.items():
                for number, (seconds, wait) in enumerate(epochs, start=1):
                    last = number % asked.epochs == 0
                    versions = tf.__version__, keras.__version__
                    rows.writerow([day, *versions, way, last, f"{seconds:.3f}", f"{wait:.4f}"])


if __name__ == "__main__":
    main()
