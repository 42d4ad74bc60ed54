"""Save what a training needs to go on, its weights and the optimizer's slots, every so many steps."""

import os
import tempfile
import threading

import keras
import numpy


class Saver:
    """Writes one file over the last, on the disk of the process's home; aside: in a thread, from a copy."""

    def __init__(self, every, aside):
        self.every, self.aside = every, aside
        self.steps = 0
        self.writing = None
        self.folder = tempfile.TemporaryDirectory(dir=os.environ["HOME"])
        self.file = os.path.join(self.folder.name, "saved.npz")

    def after_step(self, model):
        self.steps += 1
        if self.steps % self.every:
            return
        arrays = [keras.ops.convert_to_numpy(each) for each in model.weights + model.optimizer.variables]
        if not self.aside:
            numpy.savez(self.file, *arrays)
            return
        if self.writing:
            self.writing.join()  # two at a time would pile up where the disk is slower than the training
        # The training writes these arrays at its next step.
        copies = [numpy.array(each) for each in arrays]
        self.writing = threading.Thread(target=numpy.savez, args=(self.file, *copies))
        self.writing.start()
