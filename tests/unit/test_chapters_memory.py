"""Memory: S2's example, the recipe, what stacks held; on made-up data."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from made_up import judged, made_up, verdict
from tables import cells

from traintime.book import original, stored
from traintime.book.chapters import memory
from traintime.book.chapters import memory_held as held
from traintime.explain import memory as models
from traintime.point import make_point

MIB = 2**20
STACKS = ["2017-theano", "2017-tensorflow", "2026-jax", "2026-torch", "numpy"]


def machine(machine="made-up", **copies):
    """Peaks of known parts: a runtime of 50 MiB, these copies by stack, activations once."""
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
                peak = held.idle(stack) + 50 * MIB + 4 * number * work.parameters
                rows.append((stack, fields, 1.0, {"peak_bytes": peak + work.activation_bytes, "device": "cpu"}))
    return made_up(*rows, machine=machine)


def test_the_documents_example_comes_out_exactly():
    ours, theirs = held.by_hand(), held.documented()
    assert ours == theirs | {"parameters": 131_410}
    assert (ours["sample"], ours["batch"]) == (1820, 465_920)
    assert make_point("dense").work.parameters == 131_410


def test_the_error_is_of_points_that_the_three_parts_were_not_fitted_to():
    errors = held.three_part_errors(machine())
    assert set(errors.index) == set(STACKS)
    assert errors.max() < 1e-6
    book = machine()
    book.rows.loc[(book.rows["stack"] == "numpy") & (book.rows["length"] == 100), "peak_bytes"] += 300 * MIB
    assert held.three_part_errors(book)["numpy"] > 0.02


def test_copies_are_counted_by_way_of_training():
    book = machine()
    assert list(held.copies(book)) == ["adam", "sgd"]
    assert held.copies(book).loc["2026-jax", "adam"] == pytest.approx(4, abs=0.2)
    given = memory.PROSE.values(book)
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
        ("11.19", {}, "does not hold"),
        ("11.19", {"2026_torch": 5.0}, "holds"),
        ("11.6", {}, "does not hold"),
    ],
)
def test_claims_follow_the_data(label, copies, expected):
    assert verdict(label, machine(**copies)) == expected


def test_arithmetic_is_judged_once_and_on_no_machine():
    assert verdict("11.1", original.document(original.ARITHMETIC)) == "holds"
    assert verdict("11.1", machine(stored.reference())) == "not measured"


def example(grows):
    """The document's example: each of the forward pass's numbers is held `grows` times, beside the idle framework."""
    rows = []
    for stack in ("2026-jax", "numpy"):
        for batch in (1, 256, 4096):
            peak = held.idle(stack) + 2 * MIB + grows * 4 * 1410 * batch
            peak += held.READY * 4 * 1010 * batch  # the data
            rows.append((stack, {"workload": "dense", "batch": batch}, 1e-3, {"peak_bytes": peak}))
    return made_up(*rows)


@pytest.mark.parametrize(("grows", "expected"), [(1.0, "holds"), (5.0, "does not hold")])
def test_the_examples_memory_is_held_against_its_forward_pass(grows, expected):
    book = example(grows)
    assert verdict("11.7", book) == expected
    assert verdict("11.8", book) == "holds"
    assert held.growth(book).to_numpy() == pytest.approx([grows, grows])


def test_what_was_there_before_the_first_step_is_told_from_the_rest(monkeypatch):
    sizes = {batch: {"workload": "dense", "batch": batch} for batch in (1, 4096)}
    built = {batch: 3e8 + 1.5 * 4 * 1410 * batch + held.READY * 4 * 1010 * batch for batch in sizes}
    records = [record("numpy", [{"built": built[batch]}], **fields) for batch, fields in sizes.items()]
    book = example(2.0)
    monkeypatch.setattr(book, "records", lambda **_: records)
    assert held.growth_before_training(book)["numpy"] == pytest.approx(1.5)


# The recipe


@pytest.fixture
def known(monkeypatch):
    """Coefficients of every stack: 300 MiB, 4 copies with Adam and 2 with SGD, activations twice, in an LSTM once."""
    one = models.MemoryModel("any", 200 * MIB, 100 * MIB, 4.0, 2.0, 1.0, 0.1, 0.01)
    monkeypatch.setattr(models, "memory_model", lambda stack: dataclasses.replace(one, stack=stack))
    monkeypatch.setattr(models, "copies", lambda stack: {"adam": 4, "sgd": 2})
    return one


def test_the_example_is_worked_through(known):
    book = example(1.0)
    found = memory.worked_example(book).set_index("stack")
    row = found.loc["2026-jax"]
    assert row["framework"] == 300 * MIB
    assert row["copies"] == 4 * 4 * 131_410
    assert row["activations"] == 2 * 4 * 256 * 1410
    assert row["predicted"] == row["framework"] + row["copies"] + row["activations"]
    assert row["measured"] == held.idle("2026-jax") + 2 * MIB + 4 * 1410 * 256
    texts = cells(memory.worked_table(found.reset_index()))
    assert texts[0][:5] == ["2026-jax", "300.0", "2.0", "2.8", "304.8"]


def test_a_framework_above_the_peak_is_said_with_its_stack():
    rows = [("2026-jax", 105, 100), ("2026-torch", 102, 100), ("numpy", 90, 100)]
    found = pd.DataFrame(rows, columns=["stack", "framework", "measured"])
    assert memory._framework_above(found) == "2 % on torch and 5 % on JAX"


def test_many_layers_are_worked_through(known):
    book = freeing([(DEEP, AGAIN, 0.7)], stacks=["2026-jax"])
    (row,) = memory.worked_layers(book).to_dict("records")
    assert row["activations"] == 2 * make_point(**DEEP).work.activation_bytes
    assert row["measured"] == 1000 * MIB - held.READY * 4 * 8192 * 110, "without the batches that lie ready"


def test_every_coefficient_is_in_the_table(known):
    assert cells(memory.coefficients_table())[0][1:] == ["300", "4.0", "2.0", "1.0", "10 %"]


def test_a_run_is_compared_with_the_recipe(known):
    book = machine()
    rows = cells(memory.here_table(book))
    assert len(rows) == len(held.peaks(book))
    predicted, measured, off = (float(text.replace(",", "")) for text in rows[0][3:])
    assert off == pytest.approx(measured / predicted, abs=0.01)


# By optimizer


def by_optimizer(**copies):
    """A large table with each optimizer; copies: by stack, of SGD, momentum, RMSprop and Adam."""
    rows = []
    for stack, numbers in copies.items():
        stack = stack[1:].replace("_", "-")
        for optimizer, number in zip(("sgd", "momentum", "rmsprop", "adam"), numbers, strict=True):
            fields = {"vocabulary": 280_000, "optimizer": optimizer}
            work = make_point(**fields).work
            peak = held.idle(stack) + 4 * number * work.parameters + work.activation_bytes
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
def test_copies_by_optimizer_decide_their_claims(label, copies, expected):
    assert verdict(label, by_optimizer(**copies)) == expected


def test_every_optimizer_that_was_measured_has_its_column():
    book = by_optimizer(_numpy=(2, 3, 4, 6))
    assert list(held.copies(book)) == ["adam", "rmsprop", "momentum", "sgd"]


def test_a_table_of_200_000_rows_is_large_and_a_larger_one_stands_for_it():
    def book(*sizes):
        peak = {rows: held.idle("numpy") + rows * 3000.0 for rows in sizes}
        return made_up(*(("numpy", {"vocabulary": rows}, 1.0, {"peak_bytes": peak[rows]}) for rows in sizes))

    small, both = (held.copies(book(*sizes)) for sizes in ((200_000,), (200_000, 280_000)))
    assert small.loc["numpy", "adam"] < both.loc["numpy", "adam"]
    assert held.copies(book(80_000)).empty


# What frees memory

LARGE = {"vocabulary": 200_000}
DEEP = {"workload": "dense", "inputs": 100, "hidden": 256, "layers": 32, "batch": 8192}
KERAS3 = ("2026-tensorflow", "2026-jax", "2026-torch")


def freeing(left, stacks=KERAS3, **row):
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
def test_what_frees_memory_decides_its_claims(label, left, expected):
    assert verdict(label, freeing(left)) == expected


def test_each_way_is_held_against_its_own_usual_point():
    way = (LARGE | {"batch": 800}, {"batch": 100}, 0.9)
    book = freeing([way, (DEEP, AGAIN, 0.5)], stacks=["2026-jax"])
    ratios = memory.frees(book)
    assert ratios[["larger", "way", "stack"]].to_numpy().tolist() == [
        ["copies", "an eighth of the batch", "2026-jax"],
        ["activations", "gradient checkpointing", "2026-jax"],
    ]
    assert [peak.value for peak in ratios["peak"]] == pytest.approx([0.9, 0.5])
    assert [time.value for time in ratios["time"]] == pytest.approx([16, 2]), "of a sample: an eighth, twice the time"
    assert memory.frees_data(ratios)["value"].tolist() == pytest.approx([0.9, 0.5])


def test_what_was_not_measured_in_the_same_rounds_has_no_time():
    book = freeing([(*EIGHT, 1.2)], sweep="another")
    assert (memory.frees(book)["sweep"] == "").all()
    assert all(np.isnan(time.value) for time in memory.frees(book)["time"])
    assert judged("11.17", book).figure.endswith("not in the same rounds")


def test_the_numbers_of_the_sentences_on_what_frees_memory():
    given = memory.PROSE.values(freeing([(LARGE, {"optimizer": "adam-deferred"}, 0.7)]))
    assert given["mem-deferred"] == "0.70"
    assert given["mem-again"] == given["mem-accumulated"] == "(not measured)"
    assert given["mem-fewer"] == "(not measured)", "in one of three ways alone"
    fewer = [({"optimizer": "adam-deferred"}, 0.7), ({"optimizer": "sgd"}, 0.5), ({"frozen": True}, 0.6)]
    given = memory.PROSE.values(freeing([(LARGE, changes, part) for changes, part in fewer]))
    assert given["mem-fewer"] == given["mem-fewer-jax"] == "0.50 to 0.70"


def record(stack, memories, **fields):
    """A stored record of which only memory is looked at."""
    results = [SimpleNamespace(result=SimpleNamespace(memory=each)) for each in memories]
    point = make_point(**fields)
    failed = SimpleNamespace(result=None)
    return SimpleNamespace(stack=stack, key=point.key, point=point, invocations=[*results, failed])


def test_memory_before_the_first_step_is_held_against_the_peak(monkeypatch):
    records = [
        record(stack, [{"built": built, "peak": 100}], optimizer="sgd")
        for stack, built in (("2026-jax", 99), ("2026-torch", 100))
    ]
    book = freeing([(LARGE, {"optimizer": "sgd"}, 0.7)])
    assert verdict("11.13", book) == "not measured", "a run of this page stores no records"
    monkeypatch.setattr(memory, "sgd_records", lambda book: records)
    assert memory.before_training(book).to_dict() == {"2026-jax": 0.99, "2026-torch": 1.0}
    assert verdict("11.13", book) == "holds"
    assert memory.PROSE.values(book)["mem-built"] == "99 to 100 %"
    records[0].invocations[0].result.memory["built"] = 50
    assert verdict("11.13", book) == "does not hold"
