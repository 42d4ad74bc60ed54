"""Claims of every chapter: not measured, and never an error, where points are missing; and what the prose rests on."""

import numpy as np
import pytest
from made_up import made_up, verdicts

from traintime.book import chapters, stored
from traintime.book.verdicts import on
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


@pytest.mark.parametrize(
    ("chapter", "holds", "refuted"),
    [
        ("04-memory-pool", [], []),
        ("06-sentence-length", [1, 2, 3, 4, 5, 7], []),
        ("07-theano-vs-tensorflow", [2, 3, 4, 5, 6, 7, 9, 10, 11], []),
        ("09-cpu-vs-gpu", [], [8]),
        ("14-one-formula", [1, 2, 3, 4, 5, 6, 7], [8]),
    ],
)
def test_the_reference_machine_does_not_contradict_the_prose(chapter, holds, refuted):
    """The prose is written against it, by hand in these chapters: what it calls open may be open, and no more."""
    told = {claim.label[3:]: on(claim, stored.reference()).verdict for claim in chapters.of(chapter)}
    assert {number: told[f"{number}"] for number in holds} == dict.fromkeys(holds, "holds")
    assert {number for number, verdict in told.items() if verdict == "does not hold"} <= {f"{one}" for one in refuted}
