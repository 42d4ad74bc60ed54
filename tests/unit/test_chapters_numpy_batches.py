"""The network that chapter 10 shows is the one that was measured; what other chapters take from it, on made-up data."""

import nbformat
import numpy as np
import pytest
from made_up import made_up

from traintime.book import notebooks, stored
from traintime.book.chapters import numpy_batches
from traintime.workloads.convnet import on_numpy

pytestmark = pytest.mark.usefixtures("few_draws")
SIZES = {"side": 28, "window": 5, "filters": 8, "outputs": 10, "images": "at-once"}
COST = 2e-5  # s per page fault
FAULTS = {16: 400.0, 64: 1_600.0}  # of a step under glibc, by batch


def test_the_network_on_the_page_is_the_one_that_was_measured():
    cells = nbformat.read(notebooks.source("10-numpy-batches"), as_version=4).cells
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


def test_the_questions_times_are_two_costs():
    _, line = numpy_batches.document_line()
    assert line["F"] / line["c"] == pytest.approx(361 / 841, rel=0.05)
    assert numpy_batches.worst_of_the_document() == pytest.approx(0.016, abs=5e-4)


def sweep(allocator, faults):
    """Steps of 1 ms, 1 ms per image and COST per page fault."""
    fields = {"workload": "convnet", "optimizer": "sgd", "allocator": allocator}
    return [
        ("numpy", fields | {"batch": batch}, 1e-3 * (1 + batch) + COST * anew, {"faults_a_step": anew})
        for batch in (1, 4, 16, 64, 256)
        for anew in [faults.get(batch, 0.0)]
    ]


def test_a_page_fault_has_a_cost_where_both_allocators_ran():
    book = made_up(*sweep("glibc", FAULTS), *sweep("tcmalloc", {}), machine=stored.reference())
    assert numpy_batches.three_prices(book).interval("w").value == pytest.approx(COST, rel=0.05)
    with pytest.raises(KeyError):
        numpy_batches.three_prices(made_up(*sweep("glibc", FAULTS), machine=stored.reference()))
