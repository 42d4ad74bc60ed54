"""CPU against GPU: what the documents' figures fix, the rates of a machine, and the claims of the chapter."""

import pytest
from made_up import made_up, verdict
from tables import cells

from traintime.book import external
from traintime.book.chapters import devices, question
from traintime.point import make_point

PRICES = {"2026-jax": 7e-7, "2020-tensorflow": 5e-6, "numpy": 2e-6}  # s a row
RATES = {"bandwidth_bytes_per_s": 5e10, "matmul_flop_per_s": 2e11}


def machine(prices=PRICES, rates=RATES, frozen=0.05, error=0.01, sweep=None, gpu=(), sizes=(80_000, 280_000)):
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
    return made_up(*steps, noise=(1 - error, 1 + error, 1.0), described=described)


# A machine's rates


def test_a_roof_is_memory_below_the_ridge_and_arithmetic_above():
    device = devices.Device("chip", "CPU", 100.0, 10.0)
    assert device.ridge == 10
    assert [device.roof(x) for x in (0.5, 10, 1000)] == [5, 100, 100]
    assert device.operand == 40


def test_a_machine_is_described_by_its_own_rates():
    book = machine()
    table = devices.roofs([devices.k40m(), devices.processor(book)])
    assert table["name"].tolist() == ["K40m", book.title]
    assert table["ridge"].tolist()[1] == pytest.approx(4)
    assert table["peak_byte_per_s"].isna().tolist() == [False, True]
    ratio = devices.operand_time(book).most
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((16, 16 * 0.9 / 1.1, 16 * 1.1 / 0.9))


def test_a_machine_reaches_what_its_fastest_stacks_do():
    rates = devices.rates_reached(machine(error=1e-6))
    assert rates["update"].value == pytest.approx(12 * 300 / 7e-7, rel=1e-3)
    assert rates["products"].value == pytest.approx(make_point().work.flops / 0.05, rel=1e-3)
    assert all(rate.low < rate.value < rate.high for rate in rates.values())
    marks = devices.roofline_marks(machine())
    assert marks["source"].tolist() == ["document", "document", "stored", "stored"]
    assert marks["flop_per_byte"].tolist() == [*devices.works(), *devices.works()]
    assert devices.roofline_marks(machine(frozen=None))["source"].tolist() == ["document"] * 2


def test_what_software_leaves_of_the_ratio_of_two_rates_is_the_ratio_of_what_it_reached():
    theirs, ours = devices.rates_reached(question.document()), devices.rates_reached(machine())
    reached = [theirs[name].value / ours[name].value for name in ("update", "products")]
    rows = cells(devices.hardware_table(machine()))
    assert [float(row[-1]) for row in rows] == pytest.approx(reached, abs=0.06)


# Claims


@pytest.mark.parametrize(
    ("label", "holds", "fails", "cannot_be_told"),
    [
        ("09.8", {"rates": RATES | {"matmul_flop_per_s": 9e12}}, {}, {"rates": RATES | {"matmul_flop_per_s": 1.25e12}}),
        ("09.9", {}, {"prices": {"2026-jax": 1e-7, "numpy": 1e-6}}, {"prices": {"2026-jax": 2.7e-7, "numpy": 1e-6}}),
        ("09.1", {"gpu": {"cudnn": 0.05}}, {"gpu": {"cudnn": 0.002}}, {"gpu": {"cudnn": 0.0108}, "error": 0.1}),
        ("09.5", {"gpu": {"cudnn": 0.01, "loop-of-cells": 0.9}}, {"gpu": {"cudnn": 0.01, "loop-of-cells": 0.1}}, None),
    ],
)
def test_a_claim_holds_fails_or_cannot_be_told(label, holds, fails, cannot_be_told):
    assert verdict(label, machine(**holds)) == "holds"
    assert verdict(label, machine(**fails)) == "does not hold"
    if cannot_be_told is not None:
        assert verdict(label, machine(**cannot_be_told)) == "inconclusive"


# Cards of others


def test_the_layers_of_the_oldest_card_are_the_measure_of_the_others():
    layers, sheet = devices.layers(), external.hardware(devices.TITAN)
    assert (layers.query("device == 'TitanX-Maxwell'")["speed_up"] == 1).all()
    one = layers.query("device == 'V100-SXM2' and units == 4096 and batch == 32")
    assert one["speed_up"].item() == pytest.approx(158.1 / 27.75, rel=1e-3)
    assert len(devices.newer_cards()) == len(layers) * 4 / 5
    assert layers["of_peak"].between(0, 1).all()
    # 512 units, a batch of 16 and 25 time steps: three passes, four gates, two operations a weight.
    assert layers["arithmetic_s"].iloc[0] == pytest.approx(3 * 8 * 512**2 * 16 * 25 / sheet["float32 peak"])
