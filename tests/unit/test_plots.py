"""Figures of sweeps: as many lines as there are stacks or ways, named, and nothing where nothing was measured."""

import subprocess

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.container import ErrorbarContainer

from traintime import paths
from traintime.book import figures, plots
from traintime.book.plots import look

NAN = float("nan")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def measured(stack, times, how="adam", against="vocabulary"):
    """Points of a stack as Measurements.points gives them: seconds a step by size, each with an interval of a tenth."""
    rows = [
        {"stack": stack, "how": how, against: size, "step_s": step, "low_s": 0.9 * step, "high_s": 1.1 * step}
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


TWO = pd.concat([
    measured("2026-jax", {2000: 0.04, 1000: 0.02, 4000: NAN}),
    measured("numpy", {1000: 0.03, 2000: 0.05}),
])  # fmt: skip


# A line a stack


def test_each_stack_has_a_line_in_order_of_size_and_in_milliseconds():
    (axis,) = plots.steps(TWO).axes
    jax, numpy = lines(axis)
    assert list(drawn(jax).items()) == [(1000, pytest.approx(20)), (2000, pytest.approx(40))]
    assert list(drawn(numpy).items()) == [(1000, pytest.approx(30)), (2000, pytest.approx(50))]


def test_each_line_is_named_at_its_end_in_its_colour():
    (axis,) = plots.steps(TWO).axes
    ends = {text.get_text(): (text.xy, text.get_color()) for text in axis.texts}
    assert ends == {
        "2026-jax": ((2000, pytest.approx(40)), look.BACKEND["jax"]),
        "numpy": ((2000, pytest.approx(50)), look.BACKEND["numpy"]),
    }
    assert [line.lines[0].get_color() for line in lines(axis)] == [look.BACKEND["jax"], look.BACKEND["numpy"]]


def test_a_point_without_a_time_is_not_drawn_and_has_no_place_on_the_axis():
    (axis,) = plots.steps(TWO).axes
    assert not any(4000 in drawn(line) for line in lines(axis))
    assert list(axis.get_xticks()) == [1000, 2000]
    assert axis.get_xlim()[1] < 4000


def test_every_time_with_its_interval_lies_within_the_axis():
    wide = pd.concat([measured("2026-jax", {1000: 0.0004}), measured("numpy", {1000: 7.0})])
    (axis,) = plots.steps(wide).axes
    low, high = axis.get_ylim()
    assert low < 0.9 * 0.4
    assert high > 1.1 * 7000


def test_the_bars_are_the_intervals_and_a_single_invocation_has_none():
    rows = measured("numpy", {1000: 0.010, 2000: 0.020})
    rows.loc[rows["vocabulary"] == 2000, ["low_s", "high_s"]] = NAN
    (axis,) = plots.steps(rows).axes
    (bars,) = lines(axis)[0].lines[2]
    ends = [segment[:, 1] for segment in bars.get_segments()]
    assert np.array(ends) == pytest.approx(np.array([[9, 11], [20, 20]]))


def test_names_of_lines_that_end_close_together_are_moved_apart():
    close = pd.concat([measured(stack, {1000: 0.001, 2000: 0.1}) for stack in ("2026-jax", "2026-torch", "numpy")])
    (axis,) = plots.steps(close).axes
    places = sorted(np.log10(text.xyann[1]) for text in axis.texts)
    low, high = np.log10(axis.get_ylim())
    assert min(np.diff(places)) > (high - low) / 20


# A panel a stack


@pytest.fixture
def tried():
    """Two stacks with three ways of training; one way of the second gave no time."""
    return pd.concat([
        measured("2026-jax", {1000: 0.02, 2000: 0.04}, "adam"),
        measured("2026-jax", {1000: 0.02, 2000: 0.02}, "frozen"),
        measured("2026-jax", {2000: 0.03, 1000: 0.02, 4000: NAN}, "sgd"),
        measured("numpy", {1000: 0.03, 2000: 0.05}, "adam"),
        measured("numpy", {1000: NAN}, "sgd"),
        measured("numpy", {1000: 0.03, 2000: 0.03}, "frozen"),
    ])  # fmt: skip


def test_each_stack_has_a_panel_with_a_line_for_each_way_that_gave_a_time(tried):
    panels = plots.ways(tried).axes
    assert [panel.get_title(loc="left") for panel in panels] == ["2026-jax", "numpy"]
    assert [[line.get_label() for line in lines(panel)] for panel in panels] == [
        ["adam", "sgd", "frozen"],
        ["adam", "frozen"],
    ]
    assert list(drawn(lines(panels[0])[1]).items()) == [(1000, pytest.approx(20)), (2000, pytest.approx(30))]


# What may be called a difference


def compared(**changes):
    rows = [
        {"above": "a", "below": "b", "vocabulary": 1000, "ratio": 2.0, "low": 1.5, "high": 2.6, "faster": "b"},
        {"above": "a", "below": "b", "vocabulary": 2000, "ratio": 1.1, "low": 0.9, "high": 1.3, "faster": None},
    ]
    return pd.DataFrame(rows).assign(**changes)


def fills(axis):
    """Colours inside the markers, at their places."""
    marked = [line for line in axis.lines if len(line.get_xdata()) == 1 and line.get_marker() not in ("None", "_", "|")]
    return {float(line.get_xdata()[0]): line.get_markerfacecolor() for line in marked}


def test_a_difference_that_cannot_be_told_has_a_hollow_marker():
    found = fills(plots.ratios({"vocabulary": compared()}).axes[0])
    assert found[2000] == "white"
    assert found[1000] != "white"


def test_a_ratio_without_an_interval_is_drawn_without_a_bar():
    figure = plots.ratios({"vocabulary": compared(low=NAN, high=NAN)})
    assert len(fills(figure.axes[0])) == 2


# One layer in several ways


def prices():
    rows = [("2026-jax", "loop", 2e-5), ("2026-torch", "loop", 1e-3), ("2026-torch", "one operation", -1e-6)]
    table = pd.DataFrame(rows, columns=["stack", "how", "position_s"]).assign(batch=32)
    return table.assign(low=table["position_s"] - 1e-6, high=table["position_s"] + 1e-6)


def test_a_positions_price_is_drawn_in_microseconds_and_never_one_below_nothing():
    figure = plots.positions(prices())
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["2026-jax", "2026-torch"]
    (loop,) = lines(axis)
    assert loop.lines[0].get_xdata().tolist() == pytest.approx([20, 1000])
    both = pd.concat([prices(), prices().assign(batch=512)])
    figure = plots.positions(both, {32: 1e-6, 512: 16e-6})
    assert [axis.get_xlim()[0] for axis in figure.axes] == [0.5, 0.5]
    assert len(figure.axes) == 2


def test_each_cause_has_a_row_and_each_task_a_marker():
    rows = [("mnist1d", "hard gates", 0.01), ("padded", "hard gates", -0.02), ("padded", "a mask", -0.1)]
    table = pd.DataFrame(rows, columns=["task", "cause", "difference"])
    figure = plots.causes(
        table.assign(low=table["difference"] - 0.01, high=table["difference"] + 0.01), -0.03, "points"
    )
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["hard gates", "a mask"]
    assert [one.lines[0].get_xdata().tolist() for one in lines(axis)] == [[1], [-2, -10]]


# Profiles and memory


def test_counted_times_are_bars_of_one_scale_with_their_calls():
    columns = ["function", "calls", "image_s"]
    large = pd.DataFrame([("dot", 2.0, 4e-6), ("copy", 1.0, 1e-6)], columns=columns)
    small = pd.DataFrame([("dot", 2.0, 2e-5), ("copy", 9.5, 1e-6)], columns=columns)
    upper, lower = plots.own_times({"batch 1": small, "batch 256": large}).axes
    assert [bar.get_width() for bar in upper.patches] == pytest.approx([1, 20])
    assert [text.get_text() for text in upper.texts] == ["9.5 ×", "2 ×"]
    assert [text.get_text() for text in lower.texts] == ["1 ×", "2 ×"]
    assert upper.get_xlim() == lower.get_xlim() == pytest.approx((0, 25))


def test_an_image_and_its_fresh_pages_have_a_panel_each():
    rows = [("at once, glibc", 1, 1e-4, 0.0), ("at once, glibc", 16, 9e-5, 27.0)]
    table = pd.DataFrame(rows, columns=["how", "batch", "image_s", "image_pages"])
    times, pages = plots.image_and_pages(table.assign(low=table["image_s"], high=table["image_s"])).axes
    assert [drawn(line) for line in lines(times)] == [pytest.approx({1: 100, 16: 90})]
    assert [line.get_ydata().tolist() for line in pages.get_lines()] == [[0, 27]]


def test_a_networks_peak_is_a_bar_of_parts_with_a_mark_where_it_was_measured():
    parts = {"framework": 100 * 2**20, "copies": 50 * 2**20, "activations": 25 * 2**20, "measured": 180 * 2**20}
    (axis,) = plots.held_parts({"one": pd.DataFrame([{"stack": "numpy"} | parts])}).axes
    assert [bar.get_width() for bar in axis.patches] == pytest.approx([100, 50, 25])
    assert [bar.get_x() for bar in axis.patches] == pytest.approx([0, 100, 150])
    assert axis.lines[0].get_xdata().tolist() == pytest.approx([180])


def test_every_figure_that_the_book_draws_once_is_committed():
    """An interrupted build deletes what it was about to draw; that must not be committed."""
    tracked = subprocess.run(["git", "ls-files", "figures"], cwd=paths.ROOT, capture_output=True, text=True, check=True)
    drawn = {f"figures/{name}.{kind}" for name in figures.DRAWN for kind in ("svg", "png")}
    assert drawn <= set(tracked.stdout.split())
