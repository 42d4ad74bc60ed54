"""Memory: S2's example, what stacks held, what frees memory and the recipe; on made-up data."""

import dataclasses

import numpy as np
import pytest
from made_up import made_up, verdict
from tables import cells

from traintime.book import original
from traintime.book.chapters import memory
from traintime.book.stored import Measurements
from traintime.explain import memory as models
from traintime.point import make_point

MIB = 2**20
STACKS = ["2017-theano", "2017-tensorflow", "2026-jax", "2026-torch", "numpy"]
TABLE, DEFERRED = {"vocabulary": memory.LARGE}, {"optimizer": "adam-deferred"}


def machine(*copies):
    """Peaks of known parts: a runtime of 50 MiB, these copies with Adam and two fewer with SGD, activations once."""
    rows, sizes = [], [(5_000, 100, 25), (80_000, 100, 25), (280_000, 100, 25), (80_000, 1024, 25), (80_000, 100, 100)]
    for stack, number in zip(STACKS, copies or (4.0, 9.0, 4.0, 7.0, 6.0), strict=True):
        for size in sizes:
            for how, held in {"adam": number, "sgd": number - 2}.items():
                fields = dict(zip(("vocabulary", "batch", "length"), size, strict=True)) | {"optimizer": how}
                work = make_point(**fields).work
                peak = models.idle_bytes(stack, 0.0) + 50 * MIB + 4 * held * work.parameters + work.activation_bytes
                rows.append((stack, fields, 1.0, {"peak_bytes": peak}))
    return made_up(*rows)


def odd(mib):
    """The same, with long texts on one stack of today that hold so much more."""
    book = machine()
    book.rows.loc[(book.rows["stack"] == "numpy") & (book.rows["length"] == 100), "peak_bytes"] += mib * MIB
    return book


def freeing(*left, noise=(1.0, 1.0, 1.0), **row):
    """Usual points of 1,000 MiB and the data, and a second a step; left: their peaks' part by (usual, changes)."""
    points = []
    for stack in memory.KERAS3:
        for usual, changes, part in left:
            for fields, held, seconds, more in ((usual, 1.0, 1.0, {}), (usual | changes, part, 2.0, row)):
                data = models.READY * 4 * fields["batch"] * 110 if "layers" in fields else 0
                points += [(stack, fields, seconds, {"peak_bytes": held * 1000 * MIB + data} | more)]
    return made_up(*points, noise=noise)


def test_claims_follow_the_data():
    book, freed = machine(), freeing((TABLE, DEFERRED, 0.7))
    today = Measurements(book.rows[~book.rows["stack"].str.startswith("2017")], book.machine)
    cases = [
        ("11.1", original.document(original.ARITHMETIC), "holds"),
        ("11.1", book, "not measured"),
        ("11.2", book, "holds"),
        ("11.2", odd(3_000), "does not hold"),
        ("11.2", today, "not measured"),
        ("11.5", machine(5, 5, 5, 5, 5), "holds"),
        ("11.5", book, "does not hold"),
        ("11.5", freed, "not measured"),
        ("11.19", machine(4, 9, 4, 5, 6), "holds"),
        ("11.19", book, "does not hold"),
        ("11.19", freed, "not measured"),
        ("11.6", machine(4.5, 4.5, 4.5, 4.5, 4.5), "holds"),
        ("11.6", book, "does not hold"),
        ("11.18", freed, "holds"),
        ("11.18", freeing((TABLE, DEFERRED, 1.3)), "does not hold"),
        ("11.18", freeing((TABLE, DEFERRED, 0.7), sweep="another"), "inconclusive"),
        ("11.18", book, "not measured"),
    ]
    assert [(label, verdict(label, book)) for label, book, _ in cases] == [(label, said) for label, _, said in cases]


def test_single_runs_decide_nothing():
    assert verdict("11.18", freeing((TABLE, DEFERRED, 0.7), noise=(1.0,))) == "inconclusive"


def test_the_parameters_of_the_documents_example_are_those_of_the_workload():
    assert memory.by_hand()["parameters"] == make_point("dense").work.parameters == 131_410


def test_the_error_is_of_points_that_the_three_parts_were_not_fitted_to():
    assert set(memory.three_part_errors(machine())) == set(STACKS)
    assert memory.three_part_errors(machine()).most.value < 1e-6
    assert memory.three_part_errors(odd(300))["numpy"].value > 0.02


def test_copies_are_what_is_held_beyond_idle_and_activations_over_the_parameters():
    book, more = machine(), 50 * MIB / (4 * make_point(vocabulary=280_000).work.parameters)
    assert memory.copies(book).loc["2026-jax"].to_dict() == pytest.approx({"adam": 4 + more, "sgd": 2 + more})
    assert memory.copies_with(book, "adam").most.named == "9.2 on 2017-tensorflow"
    assert memory.copies(made_up(("numpy", {"vocabulary": 80_000}, 1.0))).empty, "too small a table"


def test_the_growth_of_many_layers_is_told_in_numbers_of_the_forward_pass():
    numbers = 100 + 32 * 256 + 10
    peaks = {batch: 500 * MIB + batch * 4 * (1.5 * numbers + models.READY * 110) for batch in (1024, 8192)}
    book = made_up(*(("numpy", memory.LAYERS | {"batch": b}, 1.0, {"peak_bytes": p}) for b, p in peaks.items()))
    assert memory.growth(book)["numpy"].value == pytest.approx(1.5)


def test_each_way_is_held_against_its_own_usual_point():
    ways = (TABLE | {"batch": 800}, {"batch": 100}, 0.9), (memory.LAYERS, {"recompute": True}, 0.5)
    book = freeing(*ways)
    smaller = freeing((memory.LAYERS, {"batch": 1024}, 0.6))
    assert memory.left(smaller, "activations", memory.EIGHTH)["2026-jax"].value == pytest.approx(0.6), "without data"
    assert memory.left(book, "copies", memory.EIGHTH)["2026-jax"].value == pytest.approx(0.9)
    assert memory.left(book, "copies", memory.EIGHTH, "time")["2026-jax"].value == pytest.approx(16), "of a sample"
    assert memory.left(book, "activations", memory.AGAIN, "time")["2026-jax"].value == pytest.approx(2)
    assert memory.frees_data(memory.frees(book))["value"].tolist() == pytest.approx([0.9] * 3 + [0.5] * 3)
    assert all(np.isnan(time.value) for time in memory.frees(freeing(*ways, sweep="another"))["time"])


def test_the_recipe_is_worked_through(monkeypatch):
    """300 MiB, 4 copies with Adam, activations twice and in an LSTM once, of every stack."""
    one = models.MemoryModel("any", 200 * MIB, 100 * MIB, 4.0, 2.0, 1.0, 0.1, 0.01)
    monkeypatch.setattr(models, "memory_model", lambda stack: dataclasses.replace(one, stack=stack))
    peak = 250 * MIB + models.READY * 4 * 256 * 1010  # with the data
    book = made_up(("2026-jax", {"workload": "dense"}, 1e-3, {"peak_bytes": peak}))
    found = memory.worked_dense(book)
    assert cells(memory.worked_table(found))[0] == ["2026-jax", "300.0", "2.0", "2.8", "304.8", "250.0"]
    assert str(memory.off(found)["2026-jax"]) == "21.9 %"
    assert memory.framework_share(book)["2026-jax"].value == models.idle_bytes("2026-jax") / (250 * MIB)
    assert cells(memory.coefficients_table())[0][1:] == ["300", "4.0", "2.0*", "1.0", "10 %*"]
    assert memory.of_keras3("copies").range == "4.0 to 4.0"
    predicted, measured, off = (float(text.replace(",", "")) for text in cells(memory.here_table(machine()))[0][3:])
    assert off == pytest.approx(measured / predicted, abs=0.01)
