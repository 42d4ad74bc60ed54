"""Memory: the document's example, three parts of what a stack holds, one step as drawn; on made-up data."""

import sys
import time

import numpy as np
import pytest
from tables import cells

from traintime.book.chapters import memory
from traintime.book.claims import judge
from traintime.point import make_point
from traintime.store import derived

MIB = 2**20
STACKS = ["2017-theano", "2017-tensorflow", "2026-jax", "2026-torch", "numpy"]


@pytest.fixture
def machine(made_up):
    """Peaks of known parts: a runtime of 50 MiB, these copies by stack, activations once."""

    def make(machine="made-up", **copies):
        held = {"2017-theano": 4.0, "2017-tensorflow": 9.0, "2026-jax": 4.0, "2026-torch": 7.0, "numpy": 6.0}
        held |= {name.replace("_", "-"): value for name, value in copies.items()}
        rows = []
        sizes = [(rows, 100, 25) for rows in (5_000, 80_000, 280_000)] + [(80_000, 1024, 25), (80_000, 100, 100)]
        for stack in held:
            for vocabulary, batch, length in sizes:
                for how in ("adam", "sgd"):
                    fields = {"vocabulary": vocabulary, "batch": batch, "length": length, "optimizer": how}
                    work = make_point(**fields).work
                    number = held[stack] - (2 if how == "sgd" else 0)
                    peak = derived.footprint(stack).idle_bytes + 50 * MIB + 4 * number * work.parameters
                    rows.append((stack, fields, 1.0, {"peak_bytes": peak + work.activation_bytes, "device": "cpu"}))
        return made_up(*rows, machine=machine)

    return make


def verdict(label, book):
    (claim,) = [claim for claim in memory.CLAIMS if claim.label == label]
    return judge(claim, book).verdict


def test_the_documents_example_comes_out_exactly():
    assert memory.by_hand() == {
        "forward": 1410,
        "backward": 410,
        "sample": 1820,
        "batch": 465_920,
        "parameters": 131_410,
    }
    theirs = memory.documented()
    assert (theirs["sample"], theirs["batch"], theirs["4.5x"]) == (1820, 465_920, 4.5)
    assert memory.example() == 256 * 1410
    assert make_point("dense").work.parameters == 131_410
    assert [row[1:3] for row in cells(memory.count_table())][-1] == ["465,920", "465,920"]


def test_three_parts_are_told_apart(machine):
    fits = memory.holdings(memory.points(machine()))
    assert set(fits) == set(STACKS)
    for stack, copies in (("2017-theano", 4), ("2026-torch", 7)):
        assert fits[stack].runtime == pytest.approx(50 * MIB, rel=1e-3)
        assert fits[stack].copies == pytest.approx(copies, rel=1e-3)
        assert fits[stack].kept == pytest.approx(1, rel=1e-3)
        assert np.abs(fits[stack].left_out).max() < 1e-6
    rows = {row[0]: row[1:] for row in cells(memory.holding_table(fits))}
    assert rows["2026-torch"][1:] == ["50", "7.0", "1.00", "0%"]


def test_copies_are_counted_by_way_of_training(machine):
    table = memory.copies(memory.points(machine()))
    assert list(table) == ["adam", "sgd"]
    assert table.loc["2026-jax", "adam"] == pytest.approx(4, abs=0.2)
    rows = cells(memory.copies_table(table))
    assert rows[0] == ["the least", "4", "2"]
    assert len(rows) == 1 + len(STACKS)


@pytest.mark.parametrize(
    ("label", "copies", "expected"),
    [
        ("11.2", {}, "holds"),
        ("11.3", {}, "holds"),
        ("11.3", {"2026_jax": 6.0}, "does not hold"),
        ("11.4", {}, "holds"),
        ("11.4", {"2017_tensorflow": 5.0}, "does not hold"),
        ("11.5", {}, "does not hold"),
        ("11.6", {}, "does not hold"),
        ("11.7", {}, "not measured"),
    ],
)
def test_claims_follow_the_data(machine, label, copies, expected):
    assert verdict(label, machine(**copies)) == expected


def test_arithmetic_is_judged_once(machine):
    assert verdict("11.1", machine()) == "not measured"
    reference = memory.claims.stored.reference()
    assert verdict("11.1", machine(reference)) == "holds"


def example(made_up, grows):
    """The document's example: each of the forward pass's numbers is held `grows` times, beside the idle framework."""
    rows = []
    for stack in ("2026-jax", "numpy"):
        for batch in (1, 256, 4096):
            peak = derived.footprint(stack).idle_bytes + 2 * MIB + grows * 4 * 1410 * batch
            peak += memory.READY * 4 * 1010 * batch  # the data
            rows.append((stack, {"workload": "dense", "batch": batch}, 1e-3, {"peak_bytes": peak}))
    return made_up(*rows)


@pytest.mark.parametrize(("grows", "expected"), [(1.0, "holds"), (5.0, "does not hold")])
def test_the_examples_memory_is_held_against_its_forward_pass(made_up, grows, expected):
    book = example(made_up, grows)
    assert verdict("11.7", book) == expected
    assert verdict("11.8", book) == "holds"
    found = memory.of_the_example(book)
    assert [len(row) for row in cells(memory.example_table(found))] == [5, 5]
    said = memory.values(book)["mem-example"]
    assert said.startswith("With its batch of 256 the framework itself, idle, is ")
    assert f"grows by {grows:.1f} to {grows:.1f} times" in said


def test_as_many_batches_lie_ready_as_the_worker_keeps(worker_module):
    assert worker_module("samples", "dense").POOL == memory.READY


def test_nothing_is_said_of_what_nobody_measured(made_up, machine):
    book = made_up(("numpy", {"vocabulary": 5_000}, 1.0))
    assert {judge(claim, book).verdict for claim in memory.CLAIMS} == {"not measured"}
    given = memory.values(book)
    assert given["mem-low"] == "(not measured)"
    assert given["mem-parameters"] == "131,410"
    assert set(given) == set(memory.values(machine()))
    for nothing in (memory.holding_table({}), memory.example_table(memory.of_the_example(book))):
        assert "Not measured yet" in nothing.data


def test_a_run_is_held_against_the_stored_coefficients(machine):
    book = machine()
    found = memory.points(book)
    rows = cells(memory.here_table(found, memory.holdings(found)))
    assert len(rows) == len(found)
    adam = [row for row, how in zip(rows, found["how"], strict=True) if how == "adam"]
    assert all(row[3] == row[4] for row in adam)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_large_array_is_seen_while_it_lives():
    def work(mark):
        time.sleep(0.02)
        mark("take")
        array = np.ones(8 * MIB)  # 64 MiB, mapped by itself
        time.sleep(0.05)
        del array
        mark("gone")
        time.sleep(0.05)

    held, marks = memory.watched(work)
    taken, gone = marks["s"]
    assert marks["name"].tolist() == ["take", "gone"]
    during = held[(held["s"] > taken + 0.03) & (held["s"] < gone)]["mib"].max()
    assert 60 < during < 80
    assert held[held["s"] > gone + 0.01]["mib"].min() < 10
