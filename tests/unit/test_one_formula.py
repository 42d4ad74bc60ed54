"""The sum that chapter 15 fits in its cells is the one that the moving figures draw."""

import nbformat
import pytest

from traintime.book import contents
from traintime.book.calculator import moving


def test_the_page_and_the_moving_figures_have_the_same_costs():
    page = {"machine": "machine B"}
    for cell in nbformat.read(contents.chapters()["15-one-formula"], as_version=4).cells:
        if cell.id in ("imports", "fit", "swept", "found"):
            exec(cell.source, page)
    drawn = moving.fitted("machine B")
    assert list(page["step"]) == list(drawn)
    for stack, (rows, fit) in drawn.items():
        costs = page["costs_of"](page["step"][stack])
        if "l" not in costs:  # there c is a sentence's
            costs["c"] *= rows["length"].iloc[0]
        assert costs.to_dict() == pytest.approx(fit.coefficients, rel=1e-4, abs=1e-12)
