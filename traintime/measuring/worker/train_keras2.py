"""Train a workload's model in the Keras 2 API: Keras 2.0.4 and 2.3.1, on Theano or TensorFlow 1."""

import os

import data
import keras
import numpy
import on_keras2
import process
import samples
import timing
from keras import backend
from keras.optimizers import SGD, Adam, RMSprop

# Epsilon is named since its default moved from 1e-8 to 1e-7 between the two versions.
OPTIMIZERS = {"adam": lambda: Adam(lr=0.001, epsilon=1e-7), "sgd": lambda: SGD(lr=0.01),
              "momentum": lambda: SGD(lr=0.01, momentum=0.9),
              "rmsprop": lambda: RMSprop(lr=0.001, rho=0.9, epsilon=1e-14)}


def limit_tensorflow_threads(threads):
    import tensorflow as tf

    config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    backend.set_session(tf.Session(config=config))
    return config


class LastStep(keras.callbacks.Callback):
    """When the last step was done."""

    at = None

    def on_train_end(self, logs=None):
        self.at = timing.now_ns()


class Trainer:
    def __init__(self, sizes, run, threads):
        self.sizes = sizes
        self.session_config = limit_tensorflow_threads(threads) if backend.backend() == "tensorflow" else None
        self.model = on_keras2.model(sizes, run)
        self.model.compile(OPTIMIZERS[sizes["optimizer"]](), data.LOSS)
        self.batches = samples.batches(sizes)

    def step(self):
        return float(self.model.train_on_batch(*next(self.batches)))

    def fit(self, inputs, targets):
        last = LastStep()
        self.model.fit(inputs, targets, batch_size=self.sizes["batch"], epochs=1, verbose=0, shuffle=False,
                       callbacks=[last])
        return last.at

    def losses(self, steps):
        self.model.set_weights(samples.weights(self.sizes))
        start = float(self.model.test_on_batch(*next(samples.batches(self.sizes))))
        return [start] + [self.step() for _ in range(steps)]

    def facts(self):
        name = backend.backend()
        threads = {"OpenBLAS": process.openblas_threads() if name == "theano" else None}
        versions = {"keras": keras.__version__, "numpy": numpy.__version__}
        facts = {"backend": name, "precision": backend.floatx(), "threads": threads, "versions": versions,
                 "parameters": int(self.model.count_params()), "path": {}}
        for layer in self.model.layers:  # an LSTM's default algorithm changed with Keras' version
            if hasattr(layer, "implementation"):
                facts["path"]["implementation"] = layer.implementation
        if name == "theano":
            import theano

            versions["theano"] = theano.__version__
            facts["device"] = theano.config.device
            facts["path"]["openmp"] = bool(theano.config.openmp)
            if not theano.config.blas.ldflags:
                raise RuntimeError("Theano found no BLAS: its matrix products would be NumPy's")
            if facts["path"]["openmp"]:
                threads["OMP_NUM_THREADS"] = int(os.environ["OMP_NUM_THREADS"])
        else:
            import tensorflow as tf

            versions["tensorflow"] = tf.__version__
            threads["intra-op"] = self.session_config.intra_op_parallelism_threads
            facts["device"] = "gpu" if tf.test.is_gpu_available() else "cpu"
        return facts

    def device_memory(self):
        return {}
