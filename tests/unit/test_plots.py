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
from traintime.explain.statistics import Interval
from traintime.point import axis_label

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


def test_a_stack_that_gave_no_time_at_all_has_no_line_and_no_name():
    (axis,) = plots.steps(pd.concat([TWO, measured("2026-torch", {1000: NAN})])).axes
    assert len(lines(axis)) == 2
    assert {text.get_text() for text in axis.texts} == {"2026-jax", "numpy"}


@pytest.mark.parametrize("against", ["vocabulary", "batch", "length"])
def test_the_axes_say_what_they_show(against):
    (axis,) = plots.steps(TWO.rename(columns={"vocabulary": against}), against).axes
    assert axis.get_xlabel() == axis_label(against)
    assert against.split()[0] in axis.get_xlabel()
    assert axis.get_ylabel() == "one step (ms)"
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")


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


def test_what_this_run_measured_looks_different_from_what_is_stored():
    markers = [
        lines(plots.steps(TWO, source=source).axes[0])[0].lines[0].get_marker() for source in ("stored", "this run")
    ]
    assert markers == [look.SOURCE["stored"], look.SOURCE["this run"]]
    assert markers[0] != markers[1]


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


def test_a_way_looks_the_same_in_every_panel_and_is_named_once(tried):
    figure = plots.ways(tried)
    for panel in figure.axes:
        for line in lines(panel):
            assert line.lines[0].get_color() == look.WAY[line.get_label()]["color"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["adam", "sgd", "frozen"]


def test_the_panels_share_their_axes_and_say_what_they_show(tried):
    figure = plots.ways(tried.rename(columns={"vocabulary": "length"}), "length")
    assert figure.get_supxlabel() == axis_label("length")
    assert [panel.get_ylabel() for panel in figure.axes] == ["one step (ms)", ""]
    assert len({panel.get_ylim() for panel in figure.axes}) == 1
    assert {(panel.get_xscale(), panel.get_yscale()) for panel in figure.axes} == {("log", "log")}
    assert figure.axes[0].get_ylim()[0] < 0.9 * 20
    assert figure.axes[0].get_ylim()[1] > 1.1 * 50


def test_a_stack_that_gave_no_time_has_an_empty_panel(tried):
    panels = plots.ways(pd.concat([tried, measured("2026-torch", {1000: NAN})])).axes
    assert panels[2].get_title(loc="left") == "2026-torch"
    assert lines(panels[2]) == []


def test_one_stack_has_one_panel(tried):
    (panel,) = plots.ways(tried[tried["stack"] == "numpy"]).axes
    assert panel.get_ylabel() == "one step (ms)"


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


def test_each_panel_of_a_crossing_has_its_title_and_the_names_of_its_lines():
    points = pd.concat([measured("2020-theano", {5_000: 0.1, 80_000: 0.2}), measured("numpy", {5_000: 0.3})])
    points = pd.concat([points, measured("2020-tensorflow", {5_000: 0.05, 80_000: NAN})])
    names = {"2020-theano": "Theano", "2020-tensorflow": "TensorFlow"}
    figure = plots.crossing({"one": (points, names), "other": (points, {"numpy": "NumPy"})})
    assert [axis.get_title("left") for axis in figure.axes] == ["one", "other"]
    assert [sorted(text.get_text() for text in axis.texts) for axis in figure.axes] == [
        ["TensorFlow", "Theano"],
        ["NumPy"],
    ]


def test_a_ratio_without_an_interval_is_drawn_without_a_bar():
    figure = plots.ratios({"vocabulary": compared(low=NAN, high=NAN)})
    assert len(fills(figure.axes[0])) == 2


def test_gains_are_rows_of_stacks_next_to_the_claim_with_a_count_each():
    table = compared(stack=["numpy", "2026-jax"], allocator="tcmalloc")
    (axis,) = plots.gains(table, 1.24, {"numpy": "0.1"}, "page faults").axes
    assert [text.get_text() for text in axis.get_yticklabels()] == ["numpy", "2026-jax"]
    assert 1.24 in [line.get_xdata()[0] for line in axis.lines if line.get_linestyle() == "--"]
    assert {"0.1", "page faults"} <= {text.get_text() for text in axis.texts}


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


def test_losses_have_a_panel_for_epochs_and_one_for_steps():
    ways = ["equal epochs, rate fixed", "equal epochs, rate scaled", "equal steps, rate fixed"]
    table = pd.DataFrame([(batch, way, 1.0, 0.9, 1.1) for way in ways for batch in (16, 512)])
    figure = plots.losses(table.set_axis(["batch", "way", "loss", "loss_low", "loss_high"], axis="columns"))
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["equal epochs", "equal steps"]
    assert [len(lines(axis)) for axis in figure.axes] == [2, 1]


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


def test_an_images_time_is_drawn_against_the_batch_and_named_at_its_end():
    rows = [("question", 1, 1.0), ("question", 16, 0.7), ("ours, glibc", 1, 1.0), ("ours, glibc", 1024, 0.6)]
    table = pd.DataFrame(rows, columns=["name", "batch", "ratio"])
    (axis,) = plots.relative_to_one(table.assign(low=table["ratio"], high=table["ratio"])).axes
    assert [drawn(line) for line in lines(axis)] == [{1: 1.0, 16: 0.7}, {1: 1.0, 1024: 0.6}]
    assert [text.get_text() for text in axis.texts] == ["question", "ours, glibc"]


def test_an_image_and_its_fresh_pages_have_a_panel_each():
    rows = [("at once, glibc", 1, 1e-4, 0.0), ("at once, glibc", 16, 9e-5, 27.0)]
    table = pd.DataFrame(rows, columns=["how", "batch", "image_s", "image_pages"])
    times, pages = plots.image_and_pages(table.assign(low=table["image_s"], high=table["image_s"])).axes
    assert [drawn(line) for line in lines(times)] == [pytest.approx({1: 100, 16: 90})]
    assert [line.get_ydata().tolist() for line in pages.get_lines()] == [[0, 27]]


def test_a_drawing_of_joined_maps_counts_the_copies():
    assert [axis.get_xlabel() for axis in plots.joined_maps(4).axes] == [
        "4 written, 0 copied",
        "4 written, 4 copied",
        "4 written, 10 copied",
    ]


def test_a_drawing_of_blocks_makes_fewer_calls_with_larger_arrays():
    calls, arrays = plots.against_cache(8, 4, 5).axes
    assert len(calls.patches) == 2 * (8 + 2 + 1)
    assert max(bar.get_x() + bar.get_width() for bar in arrays.patches) == 8


def test_a_networks_peak_is_a_bar_of_parts_with_a_mark_where_it_was_measured():
    parts = {"framework": 100 * 2**20, "copies": 50 * 2**20, "activations": 25 * 2**20, "measured": 180 * 2**20}
    (axis,) = plots.held_parts({"one": pd.DataFrame([{"stack": "numpy"} | parts])}).axes
    assert [bar.get_width() for bar in axis.patches] == pytest.approx([100, 50, 25])
    assert [bar.get_x() for bar in axis.patches] == pytest.approx([0, 100, 150])
    assert axis.lines[0].get_xdata().tolist() == pytest.approx([180])


def test_copies_have_a_marker_an_optimizer_and_a_line_a_rule():
    table = pd.DataFrame({"adam": [4.0, 7.0], "sgd": [2.0, 3.0], "frozen": [1.0, 1.0]}, index=["numpy", "2026-jax"])
    (axis,) = plots.copies(table, {3: "3×"}).axes
    marked = {line.get_label(): line.get_xdata().tolist() for line in axis.lines if line.get_marker() != "None"}
    assert marked == {"adam": [4, 7], "sgd": [2, 3]}
    assert [text.get_text() for text in axis.texts] == ["3×"]


def test_what_frees_memory_has_a_panel_a_network_and_a_row_a_way():
    rows = [("copies", "SGD", "2026-jax", 0.9), ("copies", "tcmalloc", "2026-torch", 1.1)]
    table = pd.DataFrame([*rows, ("activations", "SGD", "2026-jax", 1)], columns=["larger", "way", "stack", "peak"])
    table["peak"] = [Interval(value, value - 0.1, value + 0.1) for value in table["peak"]]
    upper, lower = plots.freed(table).axes
    assert [label.get_text() for label in upper.get_yticklabels()] == ["SGD", "tcmalloc"]
    assert [line.lines[0].get_xdata().tolist() for line in lines(upper)] == [[0.9], [1.1]]
    assert lower.get_title(loc="left") == "32 dense layers"


def test_the_drawing_of_a_step_names_its_parts():
    (axis,) = plots.memory_of_a_step().axes
    assert {"framework", "weights", "activations", "gradients"} <= {text.get_text() for text in axis.texts}


def test_every_figure_that_the_book_draws_once_is_committed():
    """An interrupted build deletes what it was about to draw; that must not be committed."""
    tracked = subprocess.run(["git", "ls-files", "figures"], cwd=paths.ROOT, capture_output=True, text=True, check=True)
    drawn = {f"figures/{name}.{kind}" for name in figures.DRAWN for kind in ("svg", "png")}
    assert drawn <= set(tracked.stdout.split())


def test_the_palette_is_seaborns() -> None:
    import seaborn

    assert list(look.PALETTE) == seaborn.color_palette("colorblind").as_hex()


# What a measurement is worth


def test_each_run_of_the_sentinel_has_a_mark_and_each_pause_a_line():
    hours = [0.0, 0.5, 1.0, 5.0, 5.2, 5.4, 60.0]
    runs = pd.DataFrame({"hours": hours, "step_s": 0.03, "error_s": 0.001})
    (axis,) = plots.sentinel(runs).axes
    assert len(lines(axis)[0].lines[0].get_xdata()) == len(runs)
    assert [text.get_text() for text in axis.texts] == ["hour 0 to 1", "hour 5"]
    assert len(axis.lines) == 3  # the marks, and two pauses


def test_drawings_of_rounds_and_tiers_name_what_they_draw():
    (axis,) = plots.rounds("ABBA").axes
    assert [text.get_text() for text in axis.texts][1:] == [*"AABB", *"ABBA"]
    (axis,) = plots.tiers().axes
    assert "the training" in {label.get_text() for label in axis.get_yticklabels()}
