"""The documents' own figures: they load, and they say what the book says of them."""

import numpy as np
import pandas as pd
import pytest

from traintime import paths
from traintime.book import original
from traintime.explain import formula, statistics


@pytest.mark.parametrize("path", sorted(paths.ORIGINAL.glob("*.csv")), ids=lambda path: path.stem)
def test_every_file_loads_and_says_where_each_figure_stands(path):
    rows = original.read(path.stem)
    assert len(rows) > 1
    assert not rows.duplicated().any()
    assert not any(name.startswith("Unnamed") for name in rows.columns)
    assert rows.get("place", pd.Series(["in the document"])).str.len().gt(0).all()


def test_every_document_that_gives_figures_has_a_file():
    names = {path.stem.partition("-")[0] for path in paths.ORIGINAL.glob("*.csv")}
    assert names == {"claims", "s0", "s2", "s3", "s4"}


@pytest.mark.parametrize(
    ("printed", "expected"), [("2.7", 0.05), ("25", 0.5), ("4.", 0.5), ("0.76", 0.005), ("2", 0.5), ("2.10", 0.005)]
)
def test_half_a_unit_of_the_last_printed_digit(printed, expected):
    assert original.half_unit(pd.Series([printed]))[0] == pytest.approx(expected)


# S0


@pytest.fixture(scope="module")
def s0():
    return original.s0()


def test_the_tables_have_three_sizes_a_sweep_and_a_device(s0):
    assert s0.groupby(["sweep", "device"]).size().to_dict() == {
        (sweep, device): 3 for sweep in ("vocabulary", "batch") for device in ("CPU", "GPU")
    }
    assert set(s0.loc[s0["sweep"] == "vocabulary", "batch"]) == {100}
    assert set(s0.loc[s0["sweep"] == "batch", "vocabulary"]) == {280_000}


def test_what_is_printed_is_the_time_in_thousands(s0):
    assert (s0["printed"].astype(float) * 1000).tolist() == pytest.approx(s0["epoch_s"].tolist())


def test_a_cell_in_seconds_a_step_by_hand(s0):
    """9,200 s an epoch of 10,000 steps, printed to 100 s; 760 s an epoch of 7,812.5 steps, printed to 10 s."""
    cell = s0[(s0["sweep"] == "vocabulary") & (s0["device"] == "CPU") & (s0["vocabulary"] == 280_000)].iloc[0]
    assert (cell.step_s, cell.half_step_s) == pytest.approx((0.92, 0.005))
    cell = s0[(s0["sweep"] == "batch") & (s0["device"] == "GPU") & (s0["batch"] == 128)].iloc[0]
    assert (cell.step_s, cell.half_step_s) == pytest.approx((760 / 7812.5, 5 / 7812.5))


@pytest.fixture(scope="module")
def fits(s0):
    """The three-term formula on each device."""
    made = {}
    for device, rows in s0.groupby("device"):
        seconds = rows["step_s"].to_numpy()
        redraw = formula.rounded(seconds, rows["half_step_s"].to_numpy())
        made[device] = formula.fit(formula.THREE_TERMS, rows, seconds, redraw, draws=400)
    return made


@pytest.mark.parametrize("device", ["CPU", "GPU"])
def test_three_terms_explain_the_six_cells_of_a_device(fits, device):
    assert fits[device].mean_error < 0.02
    assert len(fits[device].errors) == 6


@pytest.mark.parametrize(("name", "expected"), [("b", 15.4), ("c", 12.5)])
def test_the_lead_of_the_gpu_tends_to_the_ratio_of_the_coefficients(fits, name, expected):
    value = fits["CPU"].coefficients[name] / fits["GPU"].coefficients[name]
    found = statistics.central(fits["CPU"].draws[name] / fits["GPU"].draws[name], value)
    assert round(value, 1) == expected
    assert found.low < expected < found.high
    assert found.high < 20, "the document's guess lies outside"


def test_the_document_contradicts_itself_no_more_than_its_rounding_allows(s0):
    """The point that both sweeps nearly share: more sentences in a step never take it less time."""
    for _, rows in s0[s0["vocabulary"] == 280_000].groupby("device"):
        steps = rows.sort_values("batch")
        assert (np.diff(steps["step_s"]) > -steps["half_step_s"].max()).all()


# S3


def test_a_fixed_part_a_batch_and_a_part_an_image_explain_s3():
    rows = original.read("s3-batch")
    predicted = 841 + 361 / rows["batch"]
    assert (predicted / rows["total_s"] - 1).abs().max() < 0.017


def test_the_two_parts_of_s3_are_the_fits_own():
    rows = original.read("s3-batch")
    terms = np.column_stack([np.ones(len(rows)), 1 / rows["batch"]]) / rows["total_s"].to_numpy()[:, None]
    solution, *_ = np.linalg.lstsq(terms, np.ones(len(rows)))
    assert solution == pytest.approx([841, 361], abs=1)
