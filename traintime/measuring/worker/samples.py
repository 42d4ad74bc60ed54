"""Batches that lie ready: the same ones on every stack, made from NumPy's legacy generator."""

import itertools

import data
import numpy

POOL = 16  # distinct batches; enough that no step repeats the rows of the one before
BLOCK = 65536  # rows of a table that are drawn at once


def batches(sizes, seed=0):
    """Endless (inputs, targets) of one batch each."""
    random = numpy.random.RandomState(seed)
    return itertools.cycle([data.samples(sizes, sizes["batch"], random) for _ in range(POOL)])


def weights(sizes, seed=1):
    """Starting weights in the order of the workload's data.shapes; float32, uniform between -0.1 and 0.1."""
    random = numpy.random.RandomState(seed)
    return [uniform(shape, random) for shape in data.shapes(sizes)]


def uniform(shape, random):
    # Block by block: NumPy draws in float64, and twice a large table would be this process's peak memory.
    array = numpy.empty(shape, dtype="float32")
    for start in range(0, len(array), BLOCK):
        part = array[start:start + BLOCK]
        part[...] = random.uniform(-0.1, 0.1, size=part.shape)
    return array
