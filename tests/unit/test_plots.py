"""Figures of sweeps: as many lines as there are stacks, named, and nothing where nothing was measured."""

import re
import subprocess

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.container import ErrorbarContainer

from traintime import paths
from traintime.book import figures, plots

NAN = float("nan")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def measured(stack, times):
    """Points of a stack as Measurements.points gives them: seconds a step by rows, each with an interval of a tenth."""
    rows = [
        {"stack": stack, "vocabulary": size, "step_s": step, "low_s": 0.9 * step, "high_s": 1.1 * step}
        for size, step in times.items()
    ]
    return pd.DataFrame(rows).assign(status=["ok" if step == step else "oom" for step in times.values()])


def lines(axis):
    """The lines of an axis with their intervals."""
    return [container for container in axis.containers if isinstance(container, ErrorbarContainer)]


def drawn(container):
    """Sizes and milliseconds of a line."""
    line = container.lines[0]
    return dict(zip(line.get_xdata(), line.get_ydata(), strict=True))


BOTH = {"2026-jax": {2000: 0.04, 1000: 0.02, 4000: NAN}, "numpy": {1000: 0.03, 2000: 0.05}}
TWO = pd.concat(measured(stack, times) for stack, times in BOTH.items())


def test_each_stack_has_a_line_in_order_of_size_and_in_milliseconds_named_at_its_end_in_its_colour():
    """A point without a time has no place on the axis."""
    (axis,) = plots.steps(TWO).axes
    jax, numpy = lines(axis)
    assert list(axis.get_xticks()) == [1000, 2000]
    assert axis.get_xlim()[1] < 4000
    assert list(drawn(jax).items()) == [(1000, pytest.approx(20)), (2000, pytest.approx(40))]
    assert list(drawn(numpy).items()) == [(1000, pytest.approx(30)), (2000, pytest.approx(50))]
    ends = {text.get_text(): (text.get_color(), *text.xy) for text in axis.texts}
    at = {"2026-jax": ("jax", 40), "numpy": ("numpy", 50)}
    assert ends == {name: (plots.BACKEND[of], 2000, pytest.approx(ms)) for name, (of, ms) in at.items()}


def test_the_bars_are_the_intervals_and_a_single_invocation_has_none():
    rows = measured("numpy", {1000: 0.010, 2000: 0.020})
    rows.loc[rows["vocabulary"] == 2000, ["low_s", "high_s"]] = NAN
    (axis,) = plots.steps(rows).axes
    several, once = lines(axis)[0].lines[2][0].get_segments()
    assert several[:, 1] == pytest.approx([9, 11])
    assert not len(once)


def test_every_figure_that_the_book_draws_once_is_committed_and_readable_on_a_phone():
    """An interrupted build deletes what it was about to draw; that must not be committed."""
    tracked = subprocess.run(["git", "ls-files", "figures"], cwd=paths.ROOT, capture_output=True, text=True, check=True)
    drawn = {f"figures/{name}.{kind}" for name in figures.DRAWN for kind in ("svg", "png")}
    assert drawn <= set(tracked.stdout.split())
    for name in figures.DRAWN:
        points = re.search(r'<svg[^>]* width="([\d.]+)pt"', (paths.FIGURES / f"{name}.svg").read_text())[1]
        assert 9.5 * (390 - 48) / float(points) > 9  # px: labels of 9.5 points, in the column of a phone
