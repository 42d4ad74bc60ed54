"""Theano and TensorFlow: who is told to be faster where, what an allocator changes, the claims, on made-up runs."""

import pytest
from made_up import made_up, verdict, verdicts
from tables import cells

from traintime.book.chapters import generations

pytestmark = pytest.mark.usefixtures("few_draws")
CHAPTER = "07-theano-vs-tensorflow"
SIZES = [5_000, 20_000, 80_000, 280_000]
# Seconds that the rest costs, and a row, on each stack: the order turns in 2020 between 20,000 and 80,000 rows.
PARTS = {
    "2017-theano": (0.1, 1e-6),
    "2017-tensorflow": (0.12, 4e-6),
    "2020-theano": (0.1, 1e-6),
    "2020-tensorflow": (0.002, 5.3e-6),
    "2026-tensorflow": (0.01, 2e-6),
}


def sweep(sizes=SIZES, **parts):
    """Steps of each stack at each size; parts: other parts of a stack, y2020_theano for 2020-theano."""
    parts = PARTS | {name[1:].replace("_", "-"): part for name, part in parts.items()}
    return [(name, {"vocabulary": rows}, a + b * rows) for name, (a, b) in parts.items() for rows in sizes]


def batches(tensorflow=1.0, theano=1.0):
    return [
        (f"{year}-{name}", {"batch": 1024}, seconds)
        for year in generations.YEARS
        for name, seconds in (("tensorflow", tensorflow), ("theano", theano))
    ]


def allocators(kept=0.2, freed_in="one"):
    """200,000 rows in 2020 under both; kept: seconds of TensorFlow under tcmalloc, freed_in: its sweep."""
    seconds = {
        ("2020-theano", "glibc"): 0.25,
        ("2020-theano", "tcmalloc"): 0.25,
        ("2020-tensorflow", "glibc"): 0.8,
        ("2020-tensorflow", "tcmalloc"): kept,
    }
    return [
        (
            stack,
            {"vocabulary": 200_000, "allocator": name},
            step,
            {"sweep": freed_in if stack == "2020-tensorflow" else "one"},
        )
        for (stack, name), step in seconds.items()
    ]


def kernels(own=0.105, haswell=0.0525, tried_in="one"):
    """5,000 rows on both Theanos with OpenBLAS's own choice of kernels and with Haswell's."""
    return [
        (stack, {"vocabulary": 5_000, "openblas": name}, seconds, {"sweep": tried_in if name == "Haswell" else "one"})
        for _, stack in generations.RIVALS.values()
        for name, seconds in (("auto", own), ("Haswell", haswell))
    ]


# Ratios


def test_a_table_of_ratios_has_a_row_a_generation_and_says_what_is_inconclusive():
    found = cells(generations.answer_table(made_up(*sweep(y2017_tensorflow=(0.1, 1e-6)))))
    titles, small, large = zip(*found, strict=True)
    assert titles == tuple(generations.TITLES.values())[:3]
    assert [text.endswith("inconclusive") for text in small] == [True, False, False]
    assert [text.split("<br>")[0] for text in large] == ["1.00", "3.91", "1.50"]


def test_an_allocator_shifts_a_ratio():
    shift = generations.allocator_shift(made_up(*allocators())).most
    assert shift.value == pytest.approx(0.2 / 0.8)
    assert shift.low < shift.value < shift.high


def test_kernels_are_compared_on_each_theano():
    found = generations.with_haswell(made_up(*kernels()))
    assert {name: number.value for name, number in found.items()} == pytest.approx(
        {"2017-theano": 0.5, "2020-theano": 0.5}
    )
    rows = cells(generations.blas_table(made_up(*kernels(), ("2017-tensorflow", {"vocabulary": 5_000}, 0.12))))
    assert [row[0] for row in rows] == [
        "Theano 0.9, OpenBLAS's choice",
        "Theano 0.9, Haswell's kernels",
        "TensorFlow 1.1, its own kernels",
        "Theano-PyMC, OpenBLAS's choice",
        "Theano-PyMC, Haswell's kernels",
    ]


def test_the_kernels_that_openblas_chose_are_named_by_the_records():
    assert generations.blas(made_up(*kernels(), path="OpenBLAS Barcelona")) == "Barcelona"


# Claims


def everything(**changes):
    return [*sweep(**changes), *batches(), *allocators(), *kernels()]


def test_a_machine_like_the_ones_of_the_book_holds_the_claims():
    found = verdicts(CHAPTER, made_up(*everything()))
    assert found == dict.fromkeys(found, "holds")


@pytest.mark.parametrize(
    ("label", "steps"),
    [
        ("07.1", sweep(y2020_tensorflow=(0.02, 1.5e-6))),
        ("07.3", sweep(y2020_tensorflow=(0.02, 5e-7))),
        ("07.5", batches(tensorflow=3.0)),
        ("07.8", allocators(kept=0.75)),
        ("07.10", sweep(y2026_tensorflow=(0.5, 5e-6))),
        ("07.11", sweep(y2020_tensorflow=(0.02, 1e-6))),
        ("07.13", kernels(haswell=0.103)),
    ],
)
def test_a_machine_that_is_otherwise_does_not(label, steps):
    assert verdict(label, made_up(*steps)) == "does not hold"


@pytest.mark.parametrize("noise", [(0.1, 10.0, 1.0), (1.0,)])
def test_noise_and_single_runs_decide_nothing(noise):
    # Two sweeps with one run each would be two runs of what both have.
    found = verdicts(CHAPTER, made_up(*sweep(), *batches(), *allocators(), noise=noise))
    found |= {"07.13": verdict("07.13", made_up(*kernels(), noise=noise))}
    assert found == dict.fromkeys(found, "inconclusive")


def test_what_ran_at_other_times_decides_nothing():
    assert verdict("07.8", made_up(*allocators(freed_in="another"))) == "inconclusive"
    assert verdict("07.13", made_up(*kernels(tried_in="another"))) == "inconclusive"
