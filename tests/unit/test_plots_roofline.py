"""Two devices beside each other: the roof, the figures' lines and marks, and the published figures they rest on."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from traintime import paths
from traintime.book import external, original, plots
from traintime.book.plots.look import DEVICE
from traintime.book.plots.roofline import attainable
from traintime.explain import formula

LIMIT = {"vocabulary": 15.0, "batch": 12.0}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize(("intensity", "expected"), [(0.5, 5), (10, 100), (11, 100), (1000, 100)])
def test_below_the_ridge_memory_binds_and_above_it_arithmetic(intensity, expected):
    assert attainable(np.array(intensity), 100, 10) == expected


@pytest.fixture(scope="module")
def fits():
    return original.s0_fits(draws=40)


def test_the_speed_up_is_drawn_from_cell_to_limit(fits):
    ranges = {"vocabulary": np.geomspace(1e3, 1e8, 30), "batch": np.geomspace(1, 1e5, 30)}
    figure = plots.speed_ups(original.s0(), fits, ranges, LIMIT, 20)
    for axis, (size, values) in zip(figure.axes, ranges.items(), strict=True):
        curve = next(line for line in axis.lines if line.get_color() == DEVICE["GPU"])
        assert curve.get_xdata() == pytest.approx(values)
        assert (np.diff(curve.get_ydata()) > 0).all()
        levels = {line.get_ydata()[0] for line in axis.lines if line.get_linestyle() in ("--", ":")}
        assert levels == {LIMIT[size], 20}
        cells = axis.containers[0].lines[0]
        assert len(cells.get_xdata()) == 3
    assert figure.axes[0].containers[0].lines[0].get_ydata() == pytest.approx([4, 9.2 / 0.95, 57 / 4])


def test_the_rooflines_and_what_was_seen_are_drawn_in_billions():
    roofs = pd.DataFrame(
        {
            "name": ["card", "chip"],
            "device": ["GPU", "CPU"],
            "flop_per_s": [4e12, 2e11],
            "byte_per_s": [2e11, 4e10],
            "ridge": [20.0, 5.0],
            "peak_byte_per_s": [3e11, np.nan],
        }
    )
    seen = pd.DataFrame(
        [("GPU", "document", 0.5, 3e10), ("CPU", "stored", 50, 8e10)],
        columns=["device", "source", "flop_per_byte", "flop_per_s"],
    )
    axis = plots.roofline(roofs, pd.Series({"update": 0.5, "products": 50.0}), seen).axes[0]
    long = [line for line in axis.lines if len(line.get_xdata()) > 2]
    assert sorted(line.get_ydata().max() for line in long) == [200, 4000, 4000], "two roofs, and the data sheet's"
    assert len({(line.get_color(), line.get_linestyle()) for line in long}) == 3, "told apart without colour, too"
    marks = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axis.lines if len(line.get_xdata()) == 1]
    assert marks == [(0.5, 30), (50, 80)]
    texts = " ".join(text.get_text() for text in axis.texts)
    for text in (
        "card: 4,000 GFLOP/s",
        "200 GB/s",
        "40 GB/s",
        "update",
        "products",
        "2017 post's GPU",
        "our fastest stack",
    ):
        assert text in texts


def test_the_ladder_has_a_row_for_each_stack_that_ran_and_a_line_for_each_mark():
    points = pd.DataFrame(
        {
            "stack": ["slow", "failed", "fast"],
            "device": ["cpu", "cpu", "gpu"],
            "step_s": [0.5, np.nan, 0.1],
            "low_s": [0.4, np.nan, np.nan],
            "high_s": [0.7, np.nan, np.nan],
        }
    )
    axis = plots.ladder(points, {"theirs": (0.2, "GPU")}).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["fast", "slow"]
    assert axis.texts[0].get_text() == "theirs\n200 ms"
    places = [container.lines[0].get_xdata()[0] for container in axis.containers]
    assert places == [100, 500]
    colours = [container.lines[0].get_color() for container in axis.containers]
    assert colours == [DEVICE["GPU"], DEVICE["CPU"]]


def test_each_card_has_its_layers_and_its_data_sheet():
    layers = pd.DataFrame({"device": ["new"] * 3 + ["newer"], "speed_up": [2.0, 0.5, 1.0, 4.0]})
    sheets = pd.DataFrame({"arithmetic": [1.5, 3.0], "bandwidth": [2.0, 2.5]}, index=["new", "newer"])
    axis = plots.cards(layers, sheets).axes[0]
    dots = [line.get_ydata().tolist() for line in axis.lines if line.get_marker() == "o"]
    assert dots == [[0.5, 1.0, 2.0], [4.0]]
    bars = [(*bar.get_segments()[0][:, 1], bar.get_segments()[0][:, 0].mean()) for bar in axis.collections]
    assert bars == [(1.5, 1.5, 0), (2.0, 2.0, 0), (3.0, 3.0, 1), (2.5, 2.5, 1)]
    assert [text.get_text() for text in axis.get_xticklabels()] == ["new", "newer"]


# What the figures rest on


def test_the_data_sheets_arithmetic_is_two_operations_a_cycle_and_core():
    card = external.hardware("K40m")
    assert card["float32 peak"] == pytest.approx(2 * card["cores"] * card["base clock"], rel=1e-3)
    assert card["float32 peak"] == 3 * card["float64 peak"]
    assert card["bandwidth measured"] < card["bandwidth peak"]


def test_every_published_figure_names_its_unit_and_source():
    rows = pd.read_csv(paths.EXTERNAL / "hardware.csv")
    assert not rows.isna().any(axis=None)
    assert not rows.duplicated(["device", "name"]).any()
    assert set(rows["unit"]) <= {"core", "Hz", "FLOP/s", "byte/s", "byte"}
    assert set(rows["kind"]) == {"card", "processor"}
    assert (rows.groupby("device")["kind"].nunique() == 1).all()


def test_the_ratio_of_two_fits_lies_between_the_ratios_of_their_coefficients(fits):
    rows = pd.DataFrame({"vocabulary": [1, 280_000, 10**9], "batch": [1, 100, 1]})
    ratios = formula.ratio(fits["CPU"], fits["GPU"], rows)
    terms = [fits["CPU"].coefficients[name] / fits["GPU"].coefficients[name] for name in "abc"]
    assert ratios["ratio"].between(min(terms), max(terms)).all()
    assert (ratios["low"] <= ratios["ratio"]).all()
    assert (ratios["ratio"] <= ratios["high"]).all()
    assert ratios["ratio"].iloc[2] == pytest.approx(terms[1], rel=1e-3), "a large vocabulary: the rows' own ratio"


def test_a_fit_over_itself_is_one(fits):
    rows = pd.DataFrame({"vocabulary": [1000], "batch": [7]})
    found = formula.ratio(fits["CPU"], fits["CPU"], rows).iloc[0]
    assert found["ratio"] == pytest.approx(1)
    assert found["low"] <= 1 <= found["high"]
