"""Memory: the document's example, three parts of what a stack holds, one step as drawn; on made-up data."""

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from made_up import judged, verdict
from tables import cells

from traintime.book import stored
from traintime.book.chapters import memory
from traintime.book.chapters import memory_held as held
from traintime.point import make_point
from traintime.store import derived

MIB = 2**20
STACKS = ["2017-theano", "2017-tensorflow", "2026-jax", "2026-torch", "numpy"]


@pytest.fixture
def machine(made_up):
    """Peaks of known parts: a runtime of 50 MiB, these copies by stack, activations once."""

    def make(machine="made-up", **copies):
        by_stack = {"2017-theano": 4.0, "2017-tensorflow": 9.0, "2026-jax": 4.0, "2026-torch": 7.0, "numpy": 6.0}
        by_stack |= {name.replace("_", "-"): value for name, value in copies.items()}
        rows = []
        sizes = [(rows, 100, 25) for rows in (5_000, 80_000, 280_000)] + [(80_000, 1024, 25), (80_000, 100, 100)]
        for stack in by_stack:
            for vocabulary, batch, length in sizes:
                for how in ("adam", "sgd"):
                    fields = {"vocabulary": vocabulary, "batch": batch, "length": length, "optimizer": how}
                    work = make_point(**fields).work
                    number = by_stack[stack] - (2 if how == "sgd" else 0)
                    peak = derived.footprint(stack).idle_bytes + 50 * MIB + 4 * number * work.parameters
                    rows.append((stack, fields, 1.0, {"peak_bytes": peak + work.activation_bytes, "device": "cpu"}))
        return made_up(*rows, machine=machine)

    return make


def test_the_documents_example_comes_out_exactly():
    ours, theirs = held.by_hand(), held.documented()
    assert ours == theirs | {"parameters": 131_410}
    assert (ours["sample"], ours["batch"]) == (1820, 465_920)
    assert make_point("dense").work.parameters == 131_410
    assert [row[1:3] for row in cells(held.count_table())][-1] == ["465,920", "465,920"]


def test_three_parts_are_told_apart(machine):
    book = machine()
    holdings = held.holdings(book).set_index("stack")
    assert set(holdings.index) == set(STACKS)
    for stack, copies in (("2017-theano", 4), ("2026-torch", 7)):
        fit = holdings.loc[stack, "fit"]
        assert (fit.runtime, fit.copies, fit.kept) == pytest.approx((50 * MIB, copies, 1), rel=1e-3)
        assert holdings.loc[stack, "error"] < 1e-6
    rows = {row[0]: row[1:] for row in cells(held.holding_table(book))}
    assert rows["2026-torch"][0].endswith("+ 50")
    assert rows["2026-torch"][1:4] == ["7.0", "1.00", "0%"]


def test_the_point_that_the_others_predict_worst_is_named(machine):
    book = machine()
    book.rows.loc[(book.rows["stack"] == "numpy") & (book.rows["length"] == 100), "peak_bytes"] += 300 * MIB
    row = held.holdings(book).set_index("stack").loc["numpy"]
    assert row["worst"] == row["fit"].left_out[np.abs(row["fit"].left_out).argmax()]
    assert abs(row["worst"]) > 0.1
    given = held.PROSE.values(book)
    assert given["mem-worst-at"] == f"numpy ({row['at']})"
    assert given["mem-worst"] == f"{row['worst']:+.0%}"
    assert given["mem-error-stack"] == "numpy"
    assert cells(held.holding_table(book))[-1][5].startswith(f"{row['worst']:+.0%}")


def test_copies_are_counted_by_way_of_training(machine):
    book = machine()
    assert list(held.copies(book)) == ["adam", "sgd"]
    assert held.copies(book).loc["2026-jax", "adam"] == pytest.approx(4, abs=0.2)
    rows = cells(held.copies_table(book))
    assert rows[0] == ["the least", "4", "2"]
    assert len(rows) == 1 + len(STACKS)
    given = held.PROSE.values(book)
    assert (given["mem-high"], given["mem-high-stack"]) == ("9.2", "2017-tensorflow")


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
    ],
)
def test_claims_follow_the_data(machine, label, copies, expected):
    assert verdict(label, machine(**copies)) == expected


def test_arithmetic_is_judged_once(machine):
    reference = stored.reference()
    assert verdict("11.1", machine(reference)) == "holds"


def example(made_up, grows):
    """The document's example: each of the forward pass's numbers is held `grows` times, beside the idle framework."""
    rows = []
    for stack in ("2026-jax", "numpy"):
        for batch in (1, 256, 4096):
            peak = derived.footprint(stack).idle_bytes + 2 * MIB + grows * 4 * 1410 * batch
            peak += held.READY * 4 * 1010 * batch  # the data
            rows.append((stack, {"workload": "dense", "batch": batch}, 1e-3, {"peak_bytes": peak}))
    return made_up(*rows)


@pytest.mark.parametrize(("grows", "expected"), [(1.0, "holds"), (5.0, "does not hold")])
def test_the_examples_memory_is_held_against_its_forward_pass(made_up, grows, expected):
    book = example(made_up, grows)
    assert verdict("11.7", book) == expected
    assert verdict("11.8", book) == "holds"
    assert [len(row) for row in cells(held.example_table(book))] == [5, 5]
    said = held.PROSE.values(book)["mem-example"]
    assert said.startswith("With its batch of 256 the framework itself, idle, is ")
    assert f"grows by {grows:.1f} to {grows:.1f} times" in said


def test_a_run_is_held_against_the_stored_coefficients(machine):
    book = machine()
    points, rows = held.peaks(book), cells(held.here_table(book, book))
    assert len(rows) == len(points)
    adam = [row for row, how in zip(rows, points["how"], strict=True) if how == "adam"]
    assert all(row[3] == row[4] for row in adam)


# By optimizer


def by_optimizer(made_up, **copies):
    """A large table with each optimizer; copies: by stack, of SGD, momentum, RMSprop and Adam."""
    rows = []
    for stack, numbers in copies.items():
        stack = stack[1:].replace("_", "-")
        for optimizer, number in zip(("sgd", "momentum", "rmsprop", "adam"), numbers, strict=True):
            fields = {"vocabulary": 280_000, "optimizer": optimizer}
            work = make_point(**fields).work
            peak = derived.footprint(stack).idle_bytes + 4 * number * work.parameters + work.activation_bytes
            rows.append((stack, fields, 1.0, {"peak_bytes": peak}))
    return made_up(*rows)


@pytest.mark.parametrize(
    ("label", "copies", "expected"),
    [
        ("11.10", {"_2026_torch": (3, 4, 5, 7), "_numpy": (2, 3, 4, 6)}, "holds"),
        ("11.10", {"_2026_torch": (3, 2, 5, 7), "_numpy": (2, 3, 4, 6)}, "does not hold"),
        ("11.10", {"_2026_torch": (3, 4, 8, 7), "_numpy": (2, 3, 4, 6)}, "does not hold"),
        ("11.10", {"_2026_torch": (3, 4, 5, 7)}, "not measured"),
        ("11.11", {"_2017_theano": (3, 3, 3, 4), "_2026_torch": (3, 4, 5, 7)}, "holds"),
        ("11.11", {"_2017_theano": (2, 3, 3, 4)}, "does not hold"),
        ("11.11", {"_2026_torch": (3, 4, 5, 7)}, "not measured"),
        ("11.12", {"_2026_jax": (2, 3, 3, 4)}, "does not hold"),
    ],
)
def test_copies_by_optimizer_decide_their_claims(made_up, label, copies, expected):
    assert verdict(label, by_optimizer(made_up, **copies)) == expected


def test_every_optimizer_that_was_measured_has_its_column(made_up):
    book = by_optimizer(made_up, _numpy=(2, 3, 4, 6))
    assert list(held.copies(book)) == ["adam", "rmsprop", "momentum", "sgd"]
    assert cells(held.copies_table(book)) == [
        ["the least", "4", "3", "3", "2"],
        ["numpy", "6.0", "4.0", "3.0", "2.0"],
    ]


def test_a_table_of_200_000_rows_is_large_and_a_larger_one_stands_for_it(made_up):
    def book(*sizes):
        peak = {rows: derived.footprint("numpy").idle_bytes + rows * 3000.0 for rows in sizes}
        return made_up(*(("numpy", {"vocabulary": rows}, 1.0, {"peak_bytes": peak[rows]}) for rows in sizes))

    small, both = (held.copies(book(*sizes)) for sizes in ((200_000,), (200_000, 280_000)))
    assert small.loc["numpy", "adam"] < both.loc["numpy", "adam"]
    assert held.copies(book(80_000)).empty


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


AGAIN = {"recompute": True}
TCMALLOC = {"allocator": "tcmalloc"}
EIGHT = (LARGE | {"batch": 800}, {"batch": 100, "accumulated": 8})


@pytest.mark.parametrize(
    ("label", "left", "expected"),
    [
        ("11.14", [(DEEP, AGAIN, 0.7)], "holds"),
        ("11.15", [(DEEP, AGAIN, 0.95), (DEEP | TCMALLOC, AGAIN, 0.6)], "holds"),
        ("11.15", [(DEEP, AGAIN, 0.6), (DEEP | TCMALLOC, AGAIN, 0.95)], "does not hold"),
        ("11.15", [(DEEP, AGAIN, 0.6)], "not measured"),
        ("11.16", [(LARGE, {"precision": "mixed-bfloat16"}, 0.97)], "holds"),
        ("11.16", [(LARGE, {"precision": "mixed-bfloat16"}, 0.6)], "does not hold"),
        ("11.17", [(*EIGHT, 1.2)], "holds"),
        ("11.17", [(*EIGHT, 0.8)], "does not hold"),
        ("11.18", [(LARGE, {"optimizer": "adam-deferred"}, 0.7)], "holds"),
    ],
)
def test_what_frees_memory_decides_its_claims(made_up, label, left, expected):
    assert verdict(label, freeing(made_up, left)) == expected


def test_each_way_is_held_against_its_own_usual_point(made_up):
    way = (LARGE | {"batch": 800}, {"batch": 100}, 0.9)
    book = freeing(made_up, [way, (DEEP, AGAIN, 0.5)], stacks=["2026-jax"])
    ratios = memory.frees(book)
    assert ratios[["larger", "way", "stack"]].to_numpy().tolist() == [
        ["copies", "an eighth of a batch", "2026-jax"],
        ["activations", "computed again", "2026-jax"],
    ]
    assert [peak.value for peak in ratios["peak"]] == pytest.approx([0.9, 0.5])
    assert [time.value for time in ratios["time"]] == pytest.approx([16, 2]), "of a sample: an eighth, twice the time"
    rows = cells(memory.frees_table(book))
    assert [row[0] for row in rows] == ["copies", "activations"]
    assert rows[1][3].startswith("0.50") and "time 2.00" in rows[1][3]


def test_what_was_not_measured_in_the_same_rounds_is_marked_and_has_no_time(made_up):
    book = freeing(made_up, [(*EIGHT, 1.2)], sweep="another")
    assert (memory.frees(book)["sweep"] == "").all()
    assert all(np.isnan(time.value) for time in memory.frees(book)["time"])
    assert cells(memory.frees_table(book))[0][2].endswith("*")
    assert judged("11.17", book).figure.endswith("not in the same rounds")


def test_the_numbers_of_the_sentences_on_what_frees_memory(made_up):
    given = memory.PROSE.values(freeing(made_up, [(LARGE, {"optimizer": "adam-deferred"}, 0.7)]))
    assert given["mem-freed-deferred"] == "0.70"
    assert given["mem-freed-again-jax"] == given["mem-freed-accumulated"] == "(not measured)"


def record(stack, memories, **fields):
    """A stored record of which only memory is looked at."""
    results = [SimpleNamespace(result=SimpleNamespace(memory=each)) for each in memories]
    point = make_point(**fields)
    failed = SimpleNamespace(result=None)
    return SimpleNamespace(stack=stack, key=point.key, point=point, invocations=[*results, failed])


def test_memory_before_the_first_step_is_held_against_the_peak(made_up, monkeypatch):
    records = [
        record(stack, [{"built": built, "peak": 100}], optimizer="sgd")
        for stack, built in (("2026-jax", 99), ("2026-torch", 100))
    ]
    book = freeing(made_up, [(LARGE, {"optimizer": "sgd"}, 0.7)])
    assert verdict("11.13", book) == "not measured", "a run of this page stores no records"
    monkeypatch.setattr(memory, "sgd_records", lambda book: records)
    assert memory.before_training(book).to_dict() == {"2026-jax": 0.99, "2026-torch": 1.0}
    assert verdict("11.13", book) == "holds"
    assert memory.PROSE.values(book)["mem-freed-built"] == "99% to 100%"
    records[0].invocations[0].result.memory["built"] = 50
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
    rows = cells(memory.gpu_table([told, less, on_a_cpu]))
    assert [row[0] for row in rows] == ["2026-torch", "2026-tensorflow"]
    assert rows[0][3:] == ["150", "200", "700"]
    assert rows[1][3:] == ["120", "", ""]
    assert "It needs a GPU" in memory.gpu_table([]).data


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

    watched, marks = held.watched(work)
    taken, gone = marks["s"]
    assert marks["name"].tolist() == ["take", "gone"]
    during = watched[(watched["s"] > taken + 0.03) & (watched["s"] < gone)]["mib"].max()
    assert 60 < during < 80
    assert watched[watched["s"] > gone + 0.01]["mib"].min() < 10
