"""What a chapter shows in its cells is what the package runs."""

import ast
import inspect

import nbformat
import numpy as np
import pytest

from traintime import lab
from traintime.book import contents
from traintime.book.calculator import moving
from traintime.workloads.convnet import on_numpy

SIZES = {"side": 28, "window": 5, "filters": 8, "outputs": 10, "images": "at-once"}


def cells(chapter, *ids):
    """The sources of these cells."""
    found = {cell.id: cell.source for cell in nbformat.read(contents.chapters()[chapter], as_version=4).cells}
    return [found[each] for each in ids or found]


def test_chapter_2_shows_the_timer_that_the_others_import():
    def bare(code):
        """The function without types, docstring and comments."""
        function = ast.parse(code).body[0]
        function.body = function.body[ast.get_docstring(function) is not None :]
        for argument in function.args.args:
            argument.annotation = None
        function.returns = None
        return ast.unparse(function)

    (shown,) = [source for source in cells("02-how-we-measure") if source.startswith("def time_step(")]
    assert bare(shown) == bare(inspect.getsource(lab.time_step))


def test_the_network_of_chapter_7_is_the_one_that_was_measured():
    page = {}
    for source in cells("07-numpy-batches", "imports", "network"):
        exec(source, page)
    random = np.random.default_rng(1)
    images, classes = random.random((6, 28, 28)), np.eye(10)[random.integers(0, 10, 6)]
    weights = [random.normal(size=shape) for shape in [(25, 8), (8,), (12 * 12 * 8, 10), (10,)]]
    measured = on_numpy.Network(SIZES, [weights[0].reshape(5, 5, 1, 8), *weights[1:]], None)
    _, theirs = measured.train(images[..., None], classes, None)
    ours = page["backward"](weights, classes, *page["forward"](weights, images))
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other.reshape(one.shape))


def test_the_sum_that_chapter_15_fits_is_the_one_that_the_moving_figures_draw():
    page = {"machine": "machine B"}
    for source in cells("15-one-formula", "imports", "fit", "swept", "found"):
        exec(source, page)
    drawn = moving.fitted("machine B")
    assert list(page["step"]) == list(drawn)
    for stack, (rows, fit) in drawn.items():
        costs = page["costs_of"](page["step"][stack])
        if "l" not in costs:  # there c is a sentence's
            costs["c"] *= rows["length"].iloc[0]
        assert costs.to_dict() == pytest.approx(fit.coefficients, rel=1e-4, abs=1e-12)
