"""Every chapter's claims, numbers and tables: not measured, and never an error, where points are missing."""

import importlib
import inspect

import numpy as np
import pytest
from made_up import made_up, verdicts

from traintime.book import chapters, stored
from traintime.measuring import stacks

SIZES = [{"vocabulary": 5_000}, {"vocabulary": 280_000}, {"batch": 1024}, {"length": 100}, {"frozen": True}]
SIZES += [{"workload": name} for name in ("dense", "lstm", "convnet", "blocks")]
FAILED = [(stack, fields, np.nan, {"status": "oom"}) for stack in stacks.ALL for fields in SIZES]


def test_a_made_up_row_has_the_columns_of_a_stored_one():
    assert set(made_up(("numpy", {}, 1.0)).rows) <= set(stored.of().rows)


@pytest.mark.parametrize("chapter", chapters.MODULES)
def test_a_machine_without_an_invocation_has_measured_no_claim(chapter):
    found = verdicts(chapter, stored.Measurements(made_up(("numpy", {}, 1.0)).rows[:0], "made-up"))
    assert found == dict.fromkeys(found, "not measured")


@pytest.mark.parametrize("chapter", chapters.MODULES)
def test_a_machine_that_lacks_the_points_has_measured_no_claim(chapter):
    """Two small tables are all that ended well there; the rest ran out of memory."""
    book = made_up(("numpy", {"vocabulary": 1_000}, 1.0), ("2026-jax", {"vocabulary": 5_000}, 1.0), *FAILED)
    found = verdicts(chapter, book)
    assert found == dict.fromkeys(found, "not measured")


def tables_of_a_machine():
    """Name -> table, of those that take a machine and nothing else: each says by itself what was not measured."""
    for chapter, name in chapters.MODULES.items():
        if not name:  # its notebook makes its tables
            continue
        module = importlib.import_module(chapters.module(chapter))
        for table, make in inspect.getmembers(module, inspect.isfunction):
            takes = [each.annotation for each in inspect.signature(make).parameters.values()]
            if table.endswith("_table") and takes == [stored.Measurements]:
                yield f"{name}.{table}", make


POOR = made_up(("numpy", {"vocabulary": 1_000}, 1.0, {"peak_bytes": np.nan}))
TABLES = dict(tables_of_a_machine())
HAVE_ROWS = {"measuring.floor_table"}  # of what was measured of one point


@pytest.mark.parametrize("name", sorted(TABLES.keys() - HAVE_ROWS))
def test_every_table_of_what_was_not_measured_says_so(name):
    assert "Not measured yet" in TABLES[name](POOR).data
