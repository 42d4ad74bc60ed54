"""Embedding -> LSTM -> Dropout -> Dense in the Keras 2 API: Keras 2.0.4 and 2.3.1, on Theano or TensorFlow 1."""

import os

import batches
import keras
import numpy
import process
from keras import backend
from keras.layers import LSTM, Dense, Dropout, Embedding
from keras.models import Sequential
from keras.optimizers import SGD, Adam


def build(job):
    return Trainer(job["point"], job["threads"])


def limit_tensorflow_threads(threads):
    import tensorflow as tf

    config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    backend.set_session(tf.Session(config=config))
    return config


class Trainer:
    def __init__(self, point, threads):
        self.point = point
        self.session_config = limit_tensorflow_threads(threads) if backend.backend() == "tensorflow" else None
        self.model = Sequential([
            Embedding(point["vocabulary"], point["embedding"], input_length=point["length"],
                      trainable=not point["frozen"], mask_zero=point["mask"]),
            # Keras 2 defaults to a piecewise linear gate, Keras 3 to the sigmoid: named, so that all do the same work.
            LSTM(point["units"], recurrent_activation="sigmoid"),
            Dropout(point["dropout"]),
            Dense(1, activation="sigmoid"),
        ])
        # Named for the same reason: epsilon's default moved from 1e-8 to 1e-7.
        optimizer = Adam(lr=0.001, epsilon=1e-7) if point["optimizer"] == "adam" else SGD(lr=0.01)
        self.model.compile(optimizer, "binary_crossentropy")
        self.batches = batches.batches(point)

    def step(self):
        return float(self.model.train_on_batch(*next(self.batches)))

    def fit(self, tokens, labels):
        self.model.fit(tokens, labels, batch_size=self.point["batch"], epochs=1, verbose=0, shuffle=False)

    def losses(self, steps):
        self.model.set_weights(batches.weights(self.point))
        start = float(self.model.test_on_batch(*next(batches.batches(self.point))))
        return [start] + [self.step() for _ in range(steps)]

    def facts(self):
        name = backend.backend()
        lstm = self.model.layers[1]
        threads = {"OpenBLAS": process.openblas_threads() if name == "theano" else None}
        versions = {"keras": keras.__version__, "numpy": numpy.__version__}
        facts = {"backend": name, "precision": backend.floatx(), "threads": threads, "versions": versions,
                 "parameters": int(self.model.count_params()), "lstm_implementation": lstm.implementation}
        if name == "theano":
            import theano

            versions["theano"] = theano.__version__
            facts["device"] = theano.config.device
            facts["openmp"] = bool(theano.config.openmp)
            facts["blas"] = bool(theano.config.blas.ldflags)
            if not facts["blas"]:
                raise RuntimeError("Theano found no BLAS: its matrix products would be NumPy's")
            if facts["openmp"]:
                threads["OMP_NUM_THREADS"] = int(os.environ["OMP_NUM_THREADS"])
        else:
            import tensorflow as tf

            versions["tensorflow"] = tf.__version__
            threads["intra-op"] = self.session_config.intra_op_parallelism_threads
            facts["device"] = "gpu" if tf.test.is_gpu_available() else "cpu"
        return facts

    def device_memory(self):
        return {}
