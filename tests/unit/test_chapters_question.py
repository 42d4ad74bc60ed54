"""The document's two tables by arithmetic, and the same six cells of a machine."""

import numpy as np
import pandas as pd
import pytest
from made_up import measurements, rows, verdict, verdicts

from traintime.book import original
from traintime.book.chapters import question
from traintime.explain import formula

CELLS = [{"vocabulary": rows} for rows in question.VOCABULARIES] + [{"batch": batch} for batch in question.BATCHES]


def machine(a, b, c, bend=0.0, stack=question.SOFTWARE, cells=CELLS, **how):
    """Six cells of a + b V + c B (s), the middle vocabulary off by a share."""

    def seconds(fields):
        off = 1 + bend * (fields["vocabulary"] == 280_000 and fields["batch"] == 100)
        return (a + b * fields["vocabulary"] + c * fields["batch"]) * off

    return measurements(rows(stack, cells, seconds, **how))


def test_the_documents_cells_are_its_own():
    found = question.table_cells(question.document())
    assert set(found) == {"CPU", "GPU"}
    assert [len(each) for each in found.values()] == [6, 6]
    assert found["GPU"]["step_s"].tolist() == pytest.approx(original.s0().query("device == 'GPU'")["step_s"].tolist())


@pytest.mark.parametrize("lost", range(6))
def test_a_machine_that_lacks_one_of_the_six_cells_has_none(lost):
    made = machine(0.02, 1e-6, 1e-3, cells=[cell for place, cell in enumerate(CELLS) if place != lost])
    assert question.table_cells(made) == {}
    assert set(verdicts("01-the-question", made).values()) == {"not measured"}


def test_a_share_is_that_of_the_coefficients_that_made_the_times():
    fit = question.fits(machine(0.02, 1e-6, 1e-3, error=0.001))[question.SOFTWARE]
    assert question.share_of_terms(fit, ["b"]).value == pytest.approx(0.28 / 0.40, rel=0.01)
    assert (
        question.share_of_terms(fit, ["b"]).low
        < question.share_of_terms(fit, ["b"]).value
        < question.share_of_terms(fit, ["b"]).high
    )
    assert question.share_of_terms(fit, ["a", "b", "c"]).value == pytest.approx(1)
    assert question.exponent_ends(fit)["low"].value == pytest.approx(0.1 / 0.40, rel=0.02)
    assert question.exponent_ends(fit)["high"].value == pytest.approx(0.12 / 0.40, rel=0.02)


def test_the_lead_tends_to_the_ratio_of_the_coefficients():
    seconds = {"CPU": (0.1, 3e-6, 2e-3), "GPU": (0.01, 2e-7, 1e-4)}
    at = pd.DataFrame(
        {"vocabulary": [20_000, 280_000, 2_000_000] + [280_000] * 3, "batch": [100] * 3 + [32, 128, 1024]}
    )
    fits = {}
    for seed, (device, (a, b, c)) in enumerate(seconds.items()):
        times = (a + b * at["vocabulary"] + c * at["batch"]).to_numpy()
        fits[device] = formula.fit(formula.THREE_TERMS, at, times, formula.rounded(times, times / 100), 200, seed)
    limits = question.limits(fits)
    assert {name: limit.value for name, limit in limits.items()} == pytest.approx({"b": 15, "c": 20})
    assert all(limit.low < limit.value < limit.high for limit in limits.values())


@pytest.mark.parametrize(
    ("label", "made", "expected"),
    [
        ("01.1", machine(0.02, 1e-6, 1e-3), "holds"),
        ("01.1", machine(0.02, 1e-6, 1e-3, bend=1.0), "does not hold"),
        ("01.2", machine(0.02, 1e-6, 1e-3), "holds"),
        ("01.2", machine(0.02, 1e-6, 1e-3, bend=3.0), "does not hold"),
        ("01.3", machine(0.02, 1e-6, 1e-3), "holds"),
        ("01.3", machine(0.001, 1e-8, 1e-3), "does not hold"),
        ("01.3", machine(0.02, 1e-6, 1e-3, rounds=1), "inconclusive"),
        ("01.4", machine(0.02, 1e-6, 1e-3), "holds"),
        ("01.4", machine(0.3, 1e-7, 1e-3), "does not hold"),
        ("01.4", machine(0.02, 1e-6, 2.6e-3, error=0.2), "inconclusive"),
        ("01.5", machine(0.02, 1e-6, 1e-3), "not measured"),
        ("01.6", machine(0.02, 1e-6, 1e-3), "not measured"),
        ("01.7", machine(0.02, 1e-6, 1e-3), "not measured"),
        ("01.1", machine(0.02, 1e-6, 1e-3, stack="numpy"), "not measured"),
    ],
)
def test_a_claim_on_six_cells(label, made, expected):
    assert verdict(label, made) == expected


@pytest.mark.parametrize(
    ("power", "error", "expected"),
    [(0.3, 0.02, "holds"), (1.4, 0.02, "does not hold"), (0.95, 0.5, "inconclusive")],
)
def test_time_in_the_length_is_judged_by_its_exponent(power, error, expected):
    lengths = [{"length": length} for length in (3, 25, 100)]
    made = measurements(rows(question.SOFTWARE, lengths, lambda fields: fields["length"] ** power, error=error))
    assert verdict("01.6", made) == expected


@pytest.mark.parametrize(
    ("powers", "error", "expected"),
    [
        ({"numpy": 0.8, "2026-jax": 1.0}, 0.01, "holds"),
        ({"numpy": 1.2, "2026-jax": 1.3}, 0.01, "does not hold"),
        ({"numpy": 1.0, "2026-jax": 1.0}, 0.1, "inconclusive"),
    ],
)
def test_one_stack_below_proportion_refutes_that_the_table_is_all(powers, error, expected):
    lengths = [{"length": length, "frozen": True} for length in (3, 25, 100, 400)]
    parts = (
        rows(stack, lengths, lambda fields, power=power: fields["length"] ** power, error=error)
        for stack, power in powers.items()
    )
    assert verdict("01.7", measurements(*parts)) == expected


def test_a_short_sweep_is_no_exponent_from_3_to_400_tokens():
    lengths = [{"length": length, "frozen": True} for length in (3, 25, 100)]
    made = measurements(rows("numpy", lengths, lambda fields: fields["length"] ** 0.5))
    assert question.frozen_exponents(made) == {}
    assert verdict("01.7", made) == "not measured"


def test_the_document_itself_is_judged_by_its_rounding():
    found = verdicts("01-the-question", question.document())
    assert found == dict.fromkeys(found, "holds") | {"01.4": "inconclusive", "01.7": "not measured"}


def test_the_table_of_coefficients_has_both_devices_and_their_ratio():
    assert question.PROSE.values(question.document())["row-bytes"] == "9,600"
    table = question.coefficients(original.s0_fits(50))
    assert [len(row) for row in table] == [3, 3, 3, 3]
    assert np.isfinite(float(table[0][1].split()[0]))
    assert table[-1][1:] == ["1.9\u00a0%", "0.7\u00a0%"]


def test_the_lost_table_lies_between_no_growth_and_proportion():
    """What the page says of it: twice the length takes less than twice the time, on both devices."""
    table = question.reconstructed()
    assert (table["low"] < table["middle"]).all()
    assert (table["middle"] < table["high"]).all()
    ends = question.lost_epochs(original.s0_fits(10)["GPU"], question.LENGTHS)
    middle = table.loc["GPU", "middle"]
    assert ((ends["low_s"] * 0.97 < middle) & (middle < ends["high_s"] * 1.03)).all()
    for device in ("CPU", "GPU"):
        low, high = map(float, question.doubled(device).split(" to "))
        assert 1 < low < high < 1.5
