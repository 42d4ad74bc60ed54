"""Theano and TensorFlow: who is told to be faster where, what an allocator changes, the claims, on made-up runs."""

import numpy as np
import pytest
from made_up import made_up, verdict, verdicts
from tables import cells

from traintime.book import stored
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
PAGES = 200_000 * 300 * 4 / 4096  # of a table of 200,000 rows


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


def allocators(kept=0.2, own=6.0, plain=0.8, freed_in="one"):
    """200,000 rows under both: seconds of TensorFlow 1.15 under tcmalloc, blocks that 1.1 maps there."""
    seconds = {
        ("2017-theano", "glibc"): (0.3, 0.1),
        ("2017-theano", "tcmalloc"): (0.3, 0.0),
        ("2017-tensorflow", "glibc"): (0.6, 6.0),
        ("2017-tensorflow", "tcmalloc"): (0.6, own),
        ("2020-theano", "glibc"): (0.25, 0.1),
        ("2020-theano", "tcmalloc"): (0.25, 0.0),
        ("2020-tensorflow", "glibc"): (plain, 9.0),
        ("2020-tensorflow", "tcmalloc"): (kept, 0.2),
    }
    return [
        (
            stack,
            {"vocabulary": 200_000, "allocator": name},
            step,
            {"faults_a_step": mapped * PAGES, "sweep": freed_in if stack == "2020-tensorflow" else "one"},
        )
        for (stack, name), (step, mapped) in seconds.items()
    ]


def frozen():
    return [(name, {"vocabulary": 20_000, "frozen": True}, a) for name, (a, _) in PARTS.items()]


# Ratios


def test_the_rivals_are_compared_against_both_sizes():
    book = made_up(*sweep(), *batches())
    assert generations.rivals_by_size(book)["vocabulary"].tolist() == SIZES * 2
    assert generations.rivals_by_size(book)["ratio"].iloc[0] == pytest.approx(0.14 / 0.105)
    assert generations.rivals_by_batch(book)["batch"].tolist() == [1024, 1024]


def test_of_the_book_s_machines_the_sweep_counts_and_of_a_reader_s_run_every_size():
    other = [("numpy", {"vocabulary": rows}, 1.0) for rows in (1_000, 5_000)]
    assert set(generations.sweep(made_up(*other, machine="this run"))["vocabulary"]) == {1_000, 5_000}
    assert set(generations.sweep(made_up(*other, machine=stored.reference()))["vocabulary"]) == {5_000}


def test_the_lines_cross_where_one_framework_has_the_smaller_part_of_each():
    book = made_up(*sweep())
    assert generations.line_crossing(book, "2020") == pytest.approx(0.098 / 4.3e-6, rel=0.01)
    assert generations.line_crossing(book, "2017") is None


def test_a_table_of_ratios_marks_what_is_inconclusive():
    book = made_up(*sweep(y2020_tensorflow=(0.04, 8e-6)))
    table = cells(generations.ratio_grid(generations.successors(book), "rows", "vocabulary", "pair"))
    assert [(row[0], row[2].endswith("?")) for row in table] == [
        ("5,000", False), ("20,000", True), ("80,000", False), ("280,000", False)
    ]  # fmt: skip


def test_a_ratio_grows_by_the_runs_of_the_same_rounds_alone():
    sizes = {"vocabulary": 5_000}, {"vocabulary": 280_000}
    times = generations.grown(made_up(*sweep()), generations.RIVALS["2017"], *sizes)
    assert times.value == pytest.approx((1.24 / 0.38) / (0.14 / 0.105))
    assert times.low < times.value < times.high
    apart = [(*step, {"sweep": "later"}) if step[1] == sizes[1] else step for step in sweep()]
    assert np.isnan(generations.grown(made_up(*apart), generations.RIVALS["2017"], *sizes).low)


# Parts


def test_the_two_parts_of_each_stack():
    found = generations.two_parts(made_up(*sweep(), *frozen())).set_index("stack")
    assert found.loc["2017-tensorflow", "row"].value == pytest.approx(4e-6, rel=0.01)
    assert found.loc["2017-tensorflow", "rest"] == pytest.approx(0.12, rel=0.02)
    assert found.loc["2020-theano", "frozen"] == pytest.approx(0.1)


def test_a_stack_with_one_size_has_no_price_and_no_line():
    found = generations.two_parts(made_up(("2017-theano", {"vocabulary": 5_000}, 1.0)))
    assert found[["row", "rest", "frozen"]].isna().all(axis=None)


def test_faults_are_counted_in_blocks_of_the_table_s_size():
    mapped = generations.blocks(made_up(*allocators()))
    assert mapped["2020-tensorflow", "glibc"] == pytest.approx(9)
    assert mapped["2017-theano", "tcmalloc"] == 0


# Claims


def everything(**changes):
    return [*sweep(**changes), *batches(), *allocators(), *frozen()]


def test_a_machine_like_the_ones_of_the_book_holds_the_claims():
    found = verdicts(CHAPTER, made_up(*everything()))
    assert found == dict.fromkeys(found, "holds")


@pytest.mark.parametrize(
    ("label", "steps"),
    [
        ("07.1", sweep(y2020_tensorflow=(0.02, 1.5e-6))),
        ("07.2", sweep(y2017_tensorflow=(0.01, 1e-6))),
        ("07.3", sweep(y2020_tensorflow=(0.02, 5e-7))),
        ("07.4", sweep(y2017_tensorflow=(0.4, 1e-6))),
        ("07.5", batches(tensorflow=3.0)),
        ("07.6", sweep(y2020_tensorflow=(0.2, 1e-7))),
        ("07.7", sweep(y2020_tensorflow=(0.5, 4e-6))),
        ("07.8", allocators(kept=0.75)),
        ("07.9", allocators(own=0.1)),
        ("07.10", sweep(y2026_tensorflow=(0.5, 5e-6))),
        ("07.11", sweep(y2020_tensorflow=(0.02, 1e-6))),
        ("07.12", allocators(kept=0.9)),
    ],
)
def test_a_machine_that_is_otherwise_does_not(label, steps):
    assert verdict(label, made_up(*steps)) == "does not hold"


@pytest.mark.parametrize("noise", [(0.1, 10.0, 1.0), (1.0,)])
def test_noise_and_single_runs_decide_nothing(noise):
    found = verdicts(CHAPTER, made_up(*everything(), noise=noise))
    assert found.pop("07.9"), "which counts pages"
    assert found == dict.fromkeys(found, "inconclusive")


@pytest.mark.parametrize("stack", PARTS)
def test_a_machine_that_lacks_a_stack_raises_nothing(monkeypatch, stack):
    reference = {stored.reference(): {}}
    monkeypatch.setattr(stored, "listed", lambda: reference)  # what the prose says of another machine is no part of it
    book = made_up(*(step for step in everything() if step[0] != stack))
    assert verdicts(CHAPTER, book)
    assert generations.PROSE.values(book)


@pytest.mark.parametrize("label", ["07.8", "07.12"])
def test_what_ran_at_other_times_decides_nothing(label):
    assert verdict(label, made_up(*allocators(freed_in="another"))) == "inconclusive"


# The prose


def test_the_numbers_are_those_of_the_steps():
    given = generations.PROSE.values(made_up(*everything()))
    assert given["tf-new"] == "2.2", "at 280,000 rows"
    assert (given["tf-turned-tcmalloc"], given["tf-gain-2020"]) == ("0.80", "4.0")
