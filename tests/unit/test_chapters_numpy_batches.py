"""The network that chapter 7 shows is the one that was measured."""

import nbformat
import numpy as np
import pytest

from traintime.book import contents
from traintime.workloads.convnet import on_numpy

SIZES = {"side": 28, "window": 5, "filters": 8, "outputs": 10, "images": "at-once"}


def test_the_network_on_the_page_is_the_one_that_was_measured():
    cells = nbformat.read(contents.chapters()["07-numpy-batches"], as_version=4).cells
    page = {}
    for cell in cells:
        if cell.id in ("imports", "network"):
            exec(cell.source, page)
    random = np.random.default_rng(1)
    images, classes = random.random((6, 28, 28)), np.eye(10)[random.integers(0, 10, 6)]
    weights = [random.normal(size=shape) for shape in [(25, 8), (8,), (12 * 12 * 8, 10), (10,)]]
    measured = on_numpy.Network(SIZES, [weights[0].reshape(5, 5, 1, 8), *weights[1:]], None)
    _, theirs = measured.train(images[..., None], classes, None)
    ours = page["backward"](weights, classes, *page["forward"](weights, images))
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other.reshape(one.shape))
