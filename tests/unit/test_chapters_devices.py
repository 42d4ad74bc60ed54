"""CPU against GPU: what the documents' figures fix, the rates of a machine, and the claims of the chapter."""

import json

import numpy as np
import pytest
from made_up import made_up, verdict, verdicts

from traintime.book import original, stored
from traintime.book.chapters import devices, leads, question
from traintime.point import make_point

PRICES = {"2026-jax": 7e-7, "2020-tensorflow": 5e-6, "numpy": 2e-6}  # s a row
RATES = {"bandwidth_bytes_per_s": 5e10, "matmul_flop_per_s": 2e11}


def machine(tmp_path, prices=PRICES, rates=RATES, frozen=0.05, error=0.01, sweep=None, gpu=(), sizes=(80_000, 280_000)):
    """Stacks that cost 20 ms a step and so much a row; frozen: s with a frozen table on NumPy; gpu: kernel -> s."""
    steps = [
        (stack, {"vocabulary": size}, 0.02 + price * size, {"sweep": stack if sweep == "apart" else "made-up"})
        for stack, price in prices.items()
        for size in sizes
    ]
    steps += [("numpy", {"vocabulary": 280_000, "frozen": True}, frozen)] if frozen else []
    for kernel, seconds in dict(gpu).items():
        steps.append(("2026-torch", {"vocabulary": 280_000, "device": "gpu", "kernel": kernel}, seconds))
    described = {"cpu": "made up", "cores": 2}
    if rates:
        repeats = {"bandwidth_repeats": "bandwidth_bytes_per_s", "matmul_repeats": "matmul_flop_per_s"}
        described["rates"] = rates | {name: [rates[rate] * x for x in (0.9, 1, 1.1)] for name, rate in repeats.items()}
    (tmp_path / "made-up").mkdir(exist_ok=True)
    (tmp_path / "made-up" / "machine.json").write_text(json.dumps(described))
    return made_up(*steps, noise=(1 - error, 1 + error, 1.0), root=tmp_path)


# What the documents fix, and the prose says


def test_the_lead_grows_with_the_vocabulary():
    steps = original.s0().pivot_table("step_s", ["sweep", "vocabulary"], "device").loc["vocabulary"]
    assert (np.diff(steps["CPU"] / steps["GPU"]) > 0).all()


def test_every_claim_on_the_documents_figures_holds_but_that_of_s1():
    found = verdicts("09-cpu-vs-gpu", question.document())
    expected = dict.fromkeys(found, "holds") | {"09.8": "does not hold"}
    assert found == expected | dict.fromkeys(["09.9", "09.10", "09.11"], "not measured")


def test_the_documents_step():
    assert (leads.document_step("GPU"), leads.document_step("CPU")) == pytest.approx((0.095, 0.92))


def test_no_term_has_a_larger_lead_than_the_largest():
    lead = leads.lead_by_term()
    assert leads.largest_lead() == lead["b"]
    assert lead["b"].value == max(each.value for each in lead.values())


def test_the_arithmetic_leaves_room_above_and_below_the_guess():
    """The prose says that the document fixes no limit for a growing LSTM."""
    on_cpu = make_point(batch=1).work.flops / original.s0_fits()["CPU"].coefficients["c"]
    assert devices.k40m().flop_per_s / on_cpu > leads.claimed_lead("C2", "upper bound")
    assert devices.rates_reached(question.document())["products"].value < devices.k40m().flop_per_s / 5


# A machine's rates


def test_a_roof_is_memory_below_the_ridge_and_arithmetic_above():
    device = devices.Device("chip", "CPU", 100.0, 10.0)
    assert device.ridge == 10
    assert [device.roof(x) for x in (0.5, 10, 1000)] == [5, 100, 100]
    assert device.operand == 40


def test_a_machine_is_described_by_its_own_rates(tmp_path):
    book = machine(tmp_path)
    table = devices.roofs([devices.k40m(), devices.processor(book)])
    assert table["name"].tolist() == ["K40m", "made up, 2 cores"]
    assert table["ridge"].tolist()[1] == pytest.approx(4)
    assert table["peak_byte_per_s"].isna().tolist() == [False, True]
    ratio = devices.operand_time(book)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((16, 16 * 0.9 / 1.1, 16 * 1.1 / 0.9))


def test_a_machine_reaches_what_its_fastest_stacks_do(tmp_path):
    rates = devices.rates_reached(machine(tmp_path, error=1e-6))
    assert rates["update"].value == pytest.approx(12 * 300 / 7e-7, rel=1e-3)
    assert rates["products"].value == pytest.approx(make_point().work.flops / 0.05, rel=1e-3)
    assert all(rate.low < rate.value < rate.high for rate in rates.values())
    marks = devices.roofline_marks(machine(tmp_path))
    assert marks["source"].tolist() == ["document", "document", "stored", "stored"]
    assert marks["flop_per_byte"].tolist() == [*devices.works(), *devices.works()]
    assert devices.roofline_marks(machine(tmp_path, frozen=None))["source"].tolist() == ["document"] * 2


# Claims


@pytest.mark.parametrize(
    ("label", "holds", "fails", "cannot_be_told"),
    [
        ("09.6", {}, {"rates": RATES | {"matmul_flop_per_s": 2e9}}, None),
        ("09.7", {}, {"rates": RATES | {"bandwidth_bytes_per_s": 5e9}}, {"frozen": 0.0206, "error": 0.3}),
        ("09.8", {"rates": RATES | {"matmul_flop_per_s": 9e12}}, {}, {"rates": RATES | {"matmul_flop_per_s": 1.25e12}}),
        ("09.9", {}, {"prices": {"2026-jax": 1e-7, "numpy": 1e-6}}, {"prices": {"2026-jax": 2.7e-7, "numpy": 1e-6}}),
        ("09.10", {}, {"prices": {"2026-jax": 1e-6, "numpy": 1.1e-6}}, {"sweep": "apart"}),
        ("09.11", {}, {"rates": RATES | {"bandwidth_bytes_per_s": 1e9}}, None),
        ("09.1", {"gpu": {"cudnn": 0.05}}, {"gpu": {"cudnn": 0.002}}, {"gpu": {"cudnn": 0.0108}, "error": 0.1}),
        ("09.5", {"gpu": {"cudnn": 0.01, "loop-of-cells": 0.9}}, {"gpu": {"cudnn": 0.01, "loop-of-cells": 0.1}}, None),
    ],
)
def test_a_claim_holds_fails_or_cannot_be_told(tmp_path, label, holds, fails, cannot_be_told):
    assert verdict(label, machine(tmp_path, **holds)) == "holds"
    assert verdict(label, machine(tmp_path, **fails)) == "does not hold"
    if cannot_be_told is not None:
        assert verdict(label, machine(tmp_path, **cannot_be_told)) == "cannot be told"


def test_a_machine_that_lacks_points_and_rates_has_texts(tmp_path):
    book = machine(tmp_path, prices={"numpy": 1e-6}, rates=None, frozen=None, sizes=(1000,))
    few, all_there = devices.PROSE.values(book), devices.PROSE.values(machine(tmp_path))
    assert few.keys() == all_there.keys()
    assert few["cg-fastest"] == few["cg-of-update-cpu"] == "(not measured)"
    assert all_there["cg-fastest"] == "2026-jax"
    assert all_there["cg-slowest"] == "2020-tensorflow"
    assert float(all_there["cg-spread"]) == pytest.approx(1.42 / 0.216, rel=0.1)


def test_the_same_step_names_card_and_kernel(tmp_path, monkeypatch):
    book = machine(tmp_path, gpu={"cudnn": 0.01, "loop-of-cells": 0.1}, error=1e-6)
    found = book.points(vocabulary=280_000, device="gpu", kernel=stored.ANY)
    monkeypatch.setattr(stored, "on_gpus", lambda **wanted: found)
    monkeypatch.setattr(stored, "described", lambda machine: {"gpus": [{"name": "a card"}]})
    names = devices.same_step(book)["stack"].tolist()
    assert names[-2:] == ["2026-torch, a card, cuDNN", "2026-torch, a card, loop of cells"]
    assert devices.own_gpu(book).startswith("Of our own GPU rows the fastest is 2026-torch, a card, cuDNN at 10.0 ms: ")
