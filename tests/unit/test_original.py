"""The documents' own figures, and those of others: they load, and they say what the book says of them."""

import pandas as pd
import pytest

from traintime import paths
from traintime.book import external, original
from traintime.explain import statistics


@pytest.mark.parametrize("path", sorted(paths.ORIGINAL.glob("*.csv")), ids=lambda path: path.stem)
def test_every_file_loads_and_says_where_each_figure_stands(path):
    rows = original.read(path.stem)
    assert len(rows) > 1
    assert not rows.duplicated().any()
    assert not any(name.startswith("Unnamed") for name in rows.columns)
    assert rows.get("place", pd.Series(["in the document"])).str.len().gt(0).all()


def test_a_cell_in_seconds_a_step_by_hand():
    """9,200 s an epoch of 10,000 steps, printed to 100 s; 760 s an epoch of 7,812.5 steps, printed to 10 s."""
    s0 = original.s0()
    cell = s0[(s0["sweep"] == "vocabulary") & (s0["device"] == "CPU") & (s0["vocabulary"] == 280_000)].iloc[0]
    assert (cell.step_s, cell.half_step_s) == pytest.approx((0.92, 0.005))
    cell = s0[(s0["sweep"] == "batch") & (s0["device"] == "GPU") & (s0["batch"] == 128)].iloc[0]
    assert (cell.step_s, cell.half_step_s) == pytest.approx((760 / 7812.5, 5 / 7812.5))


@pytest.fixture(scope="module")
def fits():
    return original.s0_fits(draws=400)


@pytest.mark.parametrize(("name", "expected"), [("b", 15.4), ("c", 12.5)])
def test_the_lead_of_the_gpu_tends_to_the_ratio_of_the_coefficients(fits, name, expected):
    value = fits["CPU"].coefficients[name] / fits["GPU"].coefficients[name]
    found = statistics.central(fits["CPU"].draws[name] / fits["GPU"].draws[name], value)
    assert round(value, 1) == expected
    assert found.low < expected < found.high
    assert found.high < 20, "the document's guess lies outside"


def test_every_published_figure_names_its_unit_and_source():
    rows, card = external.read("hardware"), external.hardware("K40m")
    # By its data sheet: two operations a cycle and core.
    assert card["float32 peak"] == pytest.approx(2 * card["cores"] * card["base clock"], rel=1e-3)
    assert card["float32 peak"] == 3 * card["float64 peak"]
    assert card["bandwidth measured"] < card["bandwidth peak"]
    assert not rows.isna().any(axis=None)
    assert not rows.duplicated(["device", "name"]).any()
    assert set(rows["unit"]) <= {"core", "Hz", "FLOP/s", "byte/s", "byte"}
    assert set(rows["kind"]) == {"card", "processor"}
    assert (rows.groupby("device")["kind"].nunique() == 1).all()
