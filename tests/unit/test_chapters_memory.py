"""Memory: the document's example, three parts of what a stack holds, one step as drawn; on made-up data."""

import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from made_up import judged, verdict
from tables import cells

from traintime.book.chapters import memory
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
    found = memory.points(machine())
    fits = memory.holdings(found)
    assert set(fits) == set(STACKS)
    for stack, copies in (("2017-theano", 4), ("2026-torch", 7)):
        assert fits[stack].runtime == pytest.approx(50 * MIB, rel=1e-3)
        assert fits[stack].copies == pytest.approx(copies, rel=1e-3)
        assert fits[stack].kept == pytest.approx(1, rel=1e-3)
        assert np.abs(fits[stack].left_out).max() < 1e-6
    rows = {row[0]: row[1:] for row in cells(memory.holding_table(fits, memory.worst(found, fits)))}
    assert rows["2026-torch"][0].endswith("+ 50")
    assert rows["2026-torch"][1:4] == ["7.0", "1.00", "0%"]


def test_the_point_that_the_others_foretell_worst_is_named(machine):
    found = memory.points(machine())
    found = found[found["stack"] == "numpy"]
    fit = memory.holdings(found)["numpy"]
    adam = found[found["how"] == "adam"]
    missed = np.where(adam["length"] == 100, -0.3, 0.1)
    fits = {"numpy": replace(fit, left_out=missed)}
    far = memory.worst(found, fits)
    assert (far.loc["numpy", "length"], far.loc["numpy", "error"]) == (100, -0.3)
    (row,) = cells(memory.holding_table(fits, far))
    assert row[5].startswith("-30%") and row[5].endswith("80,000 rows, batch 100, length 100")


def test_the_worst_point_of_all_stacks_stands_in_the_prose(machine):
    book = machine()
    book.rows.loc[(book.rows["stack"] == "numpy") & (book.rows["length"] == 100), "peak_bytes"] += 300 * MIB
    found = memory.points(book)
    far = memory.worst(found, memory.holdings(found))
    given = memory.values(book)
    assert far["error"].abs().idxmax() == "numpy"
    assert given["mem-worst-at"].startswith(f"numpy ({far.loc['numpy', 'vocabulary']:,} rows")
    assert given["mem-worst"] == f"{far.loc['numpy', 'error']:+.0%}"
    assert abs(far.loc["numpy", "error"]) > 0.1


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


def test_nothing_is_said_of_what_nobody_measured(made_up, machine):
    book = made_up(("numpy", {"vocabulary": 5_000}, 1.0))
    given = memory.values(book)
    assert given["mem-low"] == "(not measured)"
    assert given["mem-parameters"] == "131,410"
    assert set(given) == set(memory.values(machine()))
    assert set(memory.freed(book).values()) == {"(not measured)"}
    none = memory.worst(memory.points(book), {})
    for nothing in (
        memory.holding_table({}, none),
        memory.frees_table(memory.frees(book)),
        memory.example_table(memory.of_the_example(book)),
    ):
        assert "Not measured yet" in nothing.data


def test_a_run_is_held_against_the_stored_coefficients(machine):
    book = machine()
    found = memory.points(book)
    rows = cells(memory.here_table(found, memory.holdings(found)))
    assert len(rows) == len(found)
    adam = [row for row, how in zip(rows, found["how"], strict=True) if how == "adam"]
    assert all(row[3] == row[4] for row in adam)


# By optimizer


def by_optimizer(made_up, **held):
    """A large table with each optimizer; held: copies by stack, of SGD, momentum, RMSprop and Adam."""
    rows = []
    for stack, copies in held.items():
        stack = stack[1:].replace("_", "-")
        for optimizer, number in zip(("sgd", "momentum", "rmsprop", "adam"), copies, strict=True):
            fields = {"vocabulary": 280_000, "optimizer": optimizer}
            work = make_point(**fields).work
            peak = derived.footprint(stack).idle_bytes + 4 * number * work.parameters + work.activation_bytes
            rows.append((stack, fields, 1.0, {"peak_bytes": peak}))
    return made_up(*rows)


@pytest.mark.parametrize(
    ("label", "held", "expected"),
    [
        ("11.10", {"_2026_torch": (3, 4, 5, 7), "_numpy": (2, 3, 4, 6)}, "holds"),
        ("11.10", {"_2026_torch": (3, 2, 5, 7), "_numpy": (2, 3, 4, 6)}, "does not hold"),
        ("11.10", {"_2026_torch": (3, 4, 8, 7), "_numpy": (2, 3, 4, 6)}, "does not hold"),
        ("11.10", {"_2026_torch": (3, 4, 5, 7)}, "not measured"),
        ("11.11", {"_2017_theano": (3, 3, 3, 4), "_2026_torch": (3, 4, 5, 7)}, "holds"),
        ("11.11", {"_2017_theano": (2, 3, 3, 4)}, "does not hold"),
        ("11.11", {"_2026_torch": (3, 4, 5, 7)}, "not measured"),
        ("11.12", {"_2026_jax": (4, 4, 4, 4)}, "holds"),
        ("11.12", {"_2026_jax": (2, 3, 3, 4)}, "does not hold"),
        ("11.12", {"_2026_torch": (3, 4, 5, 7)}, "not measured"),
    ],
)
def test_copies_by_optimizer_decide_their_claims(made_up, label, held, expected):
    assert verdict(label, by_optimizer(made_up, **held)) == expected


def test_every_optimizer_that_was_measured_has_its_column(made_up):
    table = memory.copies(memory.points(by_optimizer(made_up, _numpy=(2, 3, 4, 6))))
    assert list(table) == ["adam", "rmsprop", "momentum", "sgd"]
    assert cells(memory.copies_table(table)) == [
        ["the least", "4", "3", "3", "2"],
        ["numpy", "6.0", "4.0", "3.0", "2.0"],
    ]


def test_a_table_of_200_000_rows_is_large_and_a_larger_one_stands_for_it(made_up):
    def book(*sizes):
        peak = {rows: derived.footprint("numpy").idle_bytes + rows * 3000.0 for rows in sizes}
        return made_up(*(("numpy", {"vocabulary": rows}, 1.0, {"peak_bytes": peak[rows]}) for rows in sizes))

    small, both = (memory.copies(memory.points(book(*sizes))) for sizes in ((200_000,), (200_000, 280_000)))
    assert small.loc["numpy", "adam"] < both.loc["numpy", "adam"]
    assert memory.copies(memory.points(book(80_000))).empty


# What frees memory

LARGE = {"vocabulary": 200_000}
DEEP = {"workload": "dense", "inputs": 100, "hidden": 256, "layers": 32, "batch": 8192}
KERAS3 = ("2026-tensorflow", "2026-jax", "2026-torch")


def freeing(made_up, left, stacks=KERAS3, **row):
    """Usual points of 1,000 MiB and a second a step; left: their peaks' part by (usual fields, changes)."""
    points = []
    for stack in stacks:
        for usual, changes, part in left:
            points += [(stack, usual, 1.0, {"peak_bytes": 1000.0 * MIB})]
            points += [(stack, usual | changes, 2.0, {"peak_bytes": part * 1000 * MIB} | row)]
    return made_up(*points, noise=(1.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("label", "left", "expected"),
    [
        ("11.14", [(DEEP, {"recompute": True}, 0.7)], "holds"),
        ("11.14", [(DEEP, {"recompute": True}, 1.1)], "does not hold"),
        (
            "11.15",
            [
                (DEEP, {"recompute": True}, 0.95),
                (DEEP | {"allocator": "tcmalloc"}, {"recompute": True}, 0.6),
            ],
            "holds",
        ),
        (
            "11.15",
            [
                (DEEP, {"recompute": True}, 0.6),
                (DEEP | {"allocator": "tcmalloc"}, {"recompute": True}, 0.95),
            ],
            "does not hold",
        ),
        ("11.15", [(DEEP, {"recompute": True}, 0.6)], "not measured"),
        ("11.16", [(LARGE, {"precision": "mixed-bfloat16"}, 0.97)], "holds"),
        ("11.16", [(LARGE, {"precision": "mixed-bfloat16"}, 0.6)], "does not hold"),
        ("11.17", [(LARGE | {"batch": 800}, {"batch": 100, "accumulated": 8}, 1.2)], "holds"),
        ("11.17", [(LARGE | {"batch": 800}, {"batch": 100, "accumulated": 8}, 0.8)], "does not hold"),
        ("11.18", [(LARGE, {"optimizer": "adam-deferred"}, 0.7)], "holds"),
        ("11.18", [(LARGE, {"optimizer": "adam-deferred"}, 1.3)], "does not hold"),
    ],
)
def test_what_frees_memory_decides_its_claims(made_up, label, left, expected):
    assert verdict(label, freeing(made_up, left)) == expected


def test_each_way_is_held_against_its_own_usual_point(made_up):
    way = (LARGE | {"batch": 800}, {"batch": 100}, 0.9)
    found = memory.frees(freeing(made_up, [way, (DEEP, {"recompute": True}, 0.5)], stacks=["2026-jax"]))
    assert found[["larger", "way", "stack"]].to_numpy().tolist() == [
        ["copies", "an eighth of a batch", "2026-jax"],
        ["activations", "computed again", "2026-jax"],
    ]
    assert found["ratio"].tolist() == pytest.approx([0.9, 0.5])
    assert found["cost"].tolist() == pytest.approx([16, 2]), "of a sample: a batch of an eighth, twice the time"
    rows = cells(memory.frees_table(found))
    assert [row[0] for row in rows] == ["copies", "activations"]
    assert rows[1][3].startswith("0.50") and "time 2.00" in rows[1][3]


def test_what_was_not_measured_in_the_same_rounds_is_marked_and_has_no_time(made_up):
    left = [(LARGE | {"batch": 800}, {"batch": 100, "accumulated": 8}, 1.2)]
    book = freeing(made_up, left, sweep="another")
    found = memory.frees(book)
    assert (found["sweep"] == "").all()
    assert found["cost"].isna().all()
    assert cells(memory.frees_table(found))[0][2].endswith("*")
    assert judged("11.17", book).figure.endswith("not in the same rounds")


def test_the_numbers_of_the_sentences_on_what_frees_memory(made_up):
    left = [(LARGE, {"optimizer": "adam-deferred"}, 0.7)]
    given = memory.freed(freeing(made_up, left))
    assert given["mem-freed-deferred"] == "0.70"
    assert given["mem-freed-again-jax"] == "(not measured)"
    assert given["mem-freed-accumulated"] == "(not measured)"


def record(stack, memories, **fields):
    """A stored record of which only memory is looked at."""
    results = [SimpleNamespace(result=SimpleNamespace(memory=each)) for each in memories]
    point = make_point(**fields)
    failed = SimpleNamespace(result=None)
    return SimpleNamespace(stack=stack, key=point.key, point=point, invocations=[*results, failed])


def test_memory_before_the_first_step_is_held_against_the_peak(made_up, monkeypatch):
    stored = [
        record(stack, [{"built": built, "peak": 100}], optimizer="sgd")
        for stack, built in (("2026-jax", 99), ("2026-torch", 100), ("2026-tensorflow", 60))
    ]
    share = memory.before_training(stored)
    assert share["sgd"].to_dict() == {"2026-jax": 0.99, "2026-torch": 1.0, "2026-tensorflow": 0.6}
    book = freeing(made_up, [(LARGE, {"optimizer": "sgd"}, 0.7)])
    assert verdict("11.13", book) == "not measured", "a run of this page stores no records"
    for module in (memory.claims, memory.shown):
        monkeypatch.setattr(module, "of_the_table", lambda book: stored)
    assert verdict("11.13", book) == "holds"
    assert memory.freed(book)["mem-freed-built"] == "99% to 100%"
    stored[0].invocations[0].result.memory["built"] = 50
    assert verdict("11.13", book) == "does not hold"


# A GPU


def test_a_gpus_memory_is_shown_as_far_as_it_was_told():
    seen = [
        {"peak": 1, "device_allocated": 100 * MIB, "device_reserved": 200 * MIB, "device_in_use": 700 * MIB},
        {"peak": 1, "device_allocated": 150 * MIB, "device_reserved": 180 * MIB, "device_in_use": 600 * MIB},
    ]
    told = record("2026-torch", seen, device="gpu")
    less = record("2026-tensorflow", [{"peak": 1, "device_allocated": 120 * MIB}], device="gpu")
    on_a_cpu = record("2026-jax", [{"peak": 1}])
    rows = cells(memory.gpu_table(memory.on_gpu([told, less, on_a_cpu])))
    assert [row[0] for row in rows] == ["2026-torch", "2026-tensorflow"]
    assert rows[0][3:] == ["150", "200", "700"]
    assert rows[1][3:] == ["120", "", ""]


def test_a_page_without_a_gpu_says_so():
    assert "No GPU has been measured yet" in memory.gpu_table(memory.on_gpu([])).data


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
