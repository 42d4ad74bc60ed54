"""Train a workload's model in the Keras 3 API, on TensorFlow, JAX or torch."""

import ctypes
import functools
import itertools
import os

THREADS = int(os.environ["OMP_NUM_THREADS"])
if os.environ["KERAS_BACKEND"] == "tensorflow":
    import tensorflow as tf

    # TensorFlow takes these only before its first operation, and importing keras runs one.
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
elif os.environ["KERAS_BACKEND"] == "torch":
    import torch

    torch.set_num_threads(THREADS)
elif os.environ["KERAS_BACKEND"] == "jax":
    import jax

import data
import feeds
import keras
import numpy
import on_keras3
import replicas
import samples
import saving
import timing


def adam_deferred(**how):
    from traintime import deferred

    return deferred.Adam(learning_rate=0.001, epsilon=1e-7, **how)


OPTIMIZERS = {"adam-deferred": adam_deferred,
              "adam": functools.partial(keras.optimizers.Adam, learning_rate=0.001, epsilon=1e-7),
              "sgd": functools.partial(keras.optimizers.SGD, learning_rate=0.01),
              "momentum": functools.partial(keras.optimizers.SGD, learning_rate=0.01, momentum=0.9),
              # It stands under the root here and outside of it in Keras 2: so small that this makes no difference.
              "rmsprop": functools.partial(keras.optimizers.RMSprop, learning_rate=0.001, rho=0.9, epsilon=1e-14)}
JIT = {"auto": "auto", "on": True, "off": False}


class LastStep(keras.callbacks.Callback):
    """When the last step was done: `fit` may return much later (TensorFlow's input pipeline sleeps before it ends)."""

    at = None

    def on_train_end(self, logs=None):
        self.at = timing.now_ns()


def onednn():
    """Whether this TensorFlow runs its matrix products through oneDNN, which it decides by the processor."""
    try:
        from tensorflow.python.util import _pywrap_util_port

        return bool(_pywrap_util_port.IsMklEnabled())
    except (ImportError, AttributeError):
        return None


def keep_what_is_computed_twice():
    """XLA on a CPU takes the barriers out that jax.checkpoint sets, and then finds that it can compute once again."""
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = flags + " --xla_disable_hlo_passes=cse_barrier_expander"


def driver_memory():
    """Bytes in use on the first GPU as its driver tells (and nvidia-smi shows), or None where it does not tell."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    handle, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()  # total, free, used
    failed = (library.nvmlInit_v2() or library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
              or library.nvmlDeviceGetMemoryInfo(handle, memory))
    return None if failed else memory[2]


class Trainer:
    def __init__(self, sizes, run, threads, rank=0):
        self.sizes = sizes
        self.run = run
        self.device = run["device"]
        if run["precision"] != "float32":
            keras.config.set_dtype_policy(run["precision"].replace("-", "_"))
        if run["recompute"] and keras.backend.backend() == "jax":
            keep_what_is_computed_twice()
        self.model = on_keras3.model(sizes, run)
        accumulated = sizes.get("accumulated", 1)
        optimizer = OPTIMIZERS[sizes["optimizer"]](gradient_accumulation_steps=accumulated if accumulated > 1 else None)
        self.model.compile(optimizer, data.LOSS, jit_compile=JIT[run["jit"]])
        self.batches = samples.batches(sizes) if run["feed"] == "ready" else feeds.batches(sizes, run["feed"], THREADS)
        self.waited = 0.0
        self.others = []  # numbers of further processes that train beside this one
        if run["replicas"] > 1:
            self.others = replicas.join(self, threads, rank)
        self.saver = saving.Saver(run["save_every"], run["save_aside"]) if run["save_every"] else None

    def step(self):
        before = timing.now_ns()
        batch = next(self.batches)
        self.waited += (timing.now_ns() - before) / 1e9
        loss = self.model.train_on_batch(*batch)
        self.finish()
        if self.saver:
            self.saver.after_step(self.model)
        return float(loss)

    def counters(self):
        return {"waited_s": self.waited}

    def finish(self):
        """Wait for the device: the loss can arrive before the update is done."""
        if keras.backend.backend() == "jax":
            jax.block_until_ready([variable.value for variable in self.model.variables])
        elif keras.backend.backend() == "torch" and self.device == "gpu":
            torch.cuda.synchronize()

    def fit(self, inputs, targets):
        last = LastStep()
        if self.run["steps_per_execution"] > 1 and self.model.steps_per_execution == 1:
            # Not before: a single step, too, would want that many batches.
            self.model.compile(self.model.optimizer, data.LOSS, jit_compile=JIT[self.run["jit"]],
                               steps_per_execution=self.run["steps_per_execution"])
        self.model.fit(inputs, targets, batch_size=self.sizes["batch"], epochs=1, verbose=0, shuffle=False,
                       callbacks=[last])
        self.finish()
        return last.at

    def losses(self, steps):
        for variable, value in zip(self.model.weights, samples.weights(self.sizes), strict=True):
            variable.assign(value)
        start = float(self.model.test_on_batch(*next(samples.batches(self.sizes))))
        if self.others:
            return [start] + [self.whole_loss(*batch) for batch in itertools.islice(samples.batches(self.sizes), steps)]
        return [start] + [self.step() for _ in range(steps)]

    def whole_loss(self, inputs, targets):
        """The loss of the whole batch, before all replicas train on it: each by itself sees its share alone."""
        loss = float(self.model.test_on_batch(inputs, targets))
        self.step()
        return loss

    def facts(self):
        name = keras.backend.backend()
        versions = {"keras": keras.__version__, "numpy": numpy.__version__}
        facts = {"backend": name, "threads": {}, "versions": versions, "path": {"jit": bool(self.model.jit_compile)},
                 "precision": self.precision(),
                 "parameters": int(sum(numpy.prod(weight.shape) for weight in self.model.weights))}
        if name == "tensorflow":
            versions["tensorflow"] = tf.__version__
            facts["device"] = "gpu" if tf.config.list_physical_devices("GPU") else "cpu"
            facts["threads"]["intra-op"] = tf.config.threading.get_intra_op_parallelism_threads()
            facts["path"]["onednn"] = onednn()
        elif name == "jax":
            versions["jax"] = jax.__version__
            facts["device"] = {"cpu": "cpu", "gpu": "gpu"}.get(jax.devices()[0].platform, "other")
        else:
            versions["torch"] = torch.__version__
            facts["device"] = {"cpu": "cpu", "cuda": "gpu"}[self.model.weights[0].value.device.type]
            facts["threads"]["torch"] = torch.get_num_threads() * self.run["replicas"]
        return facts

    def precision(self):
        """What the layers compute in: "float32", "mixed-float16"; or what the weights are kept in where not float32."""
        kept = self.model.weights[0].dtype
        return keras.config.dtype_policy().name.replace("_", "-") if kept == "float32" else kept

    def device_memory(self):
        """Bytes of the GPU: allocated and, where the framework tells, reserved at the peak; in_use by all, now."""
        if self.device != "gpu":
            return {}
        in_use = driver_memory()
        memory = {} if in_use is None else {"device_in_use": in_use}
        if keras.backend.backend() == "torch":
            return dict(memory, device_allocated=torch.cuda.max_memory_allocated(),
                        device_reserved=torch.cuda.max_memory_reserved())
        if keras.backend.backend() == "jax":
            stats = jax.devices()[0].memory_stats()
            if "peak_pool_bytes" in stats:
                memory["device_reserved"] = stats["peak_pool_bytes"]
            return dict(memory, device_allocated=stats["peak_bytes_in_use"])
        return dict(memory, device_allocated=tf.config.experimental.get_memory_info("GPU:0")["peak"])
