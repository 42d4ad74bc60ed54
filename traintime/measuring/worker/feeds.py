"""Batches that are made while the training runs, by tf.data: pictures decoded, or samples that each have to wait.

In turn, the training waits for each batch; ahead, one thread makes the next ones meanwhile; in parallel, several do.
"""

import itertools
import time

import numpy
import samples

PHOTO = 256  # pixels of a stored photograph's side
WAIT_S = 0.002  # a sample's wait, as for a disk that is far away
AT_ONCE = 16  # samples that wait at the same time
AHEAD = 2  # batches that may lie ready


def batches(sizes, feed, threads):
    """Endless (inputs, targets) of one batch each, tensors, made as the feed says ("decoded-ahead")."""
    import tensorflow as tf

    kind, _, how = feed.partition("-")
    inputs, targets = (numpy.concatenate(part) for part in zip(*itertools.islice(samples.batches(sizes), samples.POOL)))
    if kind == "decoded":
        stored, make, at_once = photographs(tf, inputs), lambda photo: decoded(tf, photo, sizes["side"]), threads
    else:
        stored, make, at_once = inputs, lambda image: fetched(tf, image), AT_ONCE
    dataset = tf.data.Dataset.from_tensor_slices((stored, targets)).repeat()
    dataset = dataset.map(lambda sample, target: (make(sample), target),
                          num_parallel_calls=at_once if how == "parallel" else None, deterministic=True)
    dataset = dataset.batch(sizes["batch"], drop_remainder=True)
    if how:
        dataset = dataset.prefetch(AHEAD)
    options = tf.data.Options()
    # tf.data would look ahead by itself, and this is what is compared.
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    if kind == "fetched":
        options.threading.private_threadpool_size = AT_ONCE  # as many may wait, whatever the number of processors
    return iter(dataset.with_options(options))


def photographs(tf, images):
    """The images as smooth photographs of 256 x 256, each stored as JPEG: an array of strings."""
    def one(image):
        large = tf.image.resize(image * 255, (PHOTO, PHOTO), "bicubic")
        return tf.io.encode_jpeg(tf.cast(tf.clip_by_value(large, 0, 255), tf.uint8)).numpy()

    return numpy.array([one(image) for image in images])


def decoded(tf, photo, side):
    """A photograph as the network reads it: float32 of shape (side, side, 3) between 0 and 1."""
    image = tf.image.resize(tf.io.decode_jpeg(photo, channels=3), (side, side))
    return tf.ensure_shape(image / 255, (side, side, 3))


def fetched(tf, image):
    def wait(image):
        time.sleep(WAIT_S)
        return image

    return tf.ensure_shape(tf.numpy_function(wait, [image], tf.float32), image.shape)
