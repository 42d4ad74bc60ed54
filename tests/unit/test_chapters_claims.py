"""Every chapter's claims, numbers and tables: not measured, and never an error, where points are missing."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from IPython.display import HTML
from made_up import made_up, verdicts

from traintime.book import chapters, page, stored
from traintime.measuring import stacks

# What the trainings of data/trials and the stored losses tell is the same on every machine.
OF_NO_MACHINE = {f"16.{number}" for number in range(10, 16)}
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
    found = {label: told for label, told in verdicts(chapter, book).items() if label not in OF_NO_MACHINE}
    assert found == dict.fromkeys(found, "not measured")


def of_every_chapter(wanted):
    """Name -> value of what the chapters' modules themselves define."""
    for found in pkgutil.iter_modules(chapters.__path__):
        module = importlib.import_module(f"{chapters.__name__}.{found.name}")
        for name, value in vars(module).items():
            if wanted(value) and getattr(value, "__module__", "") in (module.__name__, page.__name__):
                yield f"{found.name}.{name}", value


def is_table_of_a_machine(value):
    """Whether it takes a machine and nothing else: a table that says by itself what was not measured."""
    if not inspect.isfunction(value) or not value.__name__.endswith("_table"):
        return False
    signature = inspect.signature(value)
    needed = [each.annotation for each in signature.parameters.values() if each.default is each.empty]
    return needed == [stored.Measurements] and signature.return_annotation is HTML


POOR = made_up(("numpy", {"vocabulary": 1_000}, 1.0, {"peak_bytes": np.nan}))
TABLES = dict(of_every_chapter(is_table_of_a_machine))
# Of what was measured of one point, or of what is counted and not measured; these fail where a machine has no rates
# or was never described, since no page asks them of such a machine.
HAVE_ROWS = {"measuring.floor_table"}
OF_A_DESCRIBED_ONE = {"devices.hardware_table", "one_formula.parts_table", "question.mostly_the_table"}


@pytest.mark.parametrize("name", sorted(TABLES.keys() - HAVE_ROWS - OF_A_DESCRIBED_ONE))
def test_every_table_of_what_was_not_measured_says_so(name):
    assert "Not measured yet" in TABLES[name](POOR).data
