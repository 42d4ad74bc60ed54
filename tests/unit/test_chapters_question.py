"""The document's two tables by arithmetic, and the same six cells of a machine."""

import pytest
from made_up import measurements, rows, verdict, verdicts

from traintime.book.chapters import question

CELLS = [{"vocabulary": rows} for rows in question.VOCABULARIES] + [{"batch": batch} for batch in question.BATCHES]


def machine(a, b, c, bend=0.0, stack=question.SOFTWARE, cells=CELLS, **how):
    """Six cells of a + b V + c B (s), the middle vocabulary off by a share."""

    def seconds(fields):
        off = 1 + bend * (fields["vocabulary"] == 280_000 and fields["batch"] == 100)
        return (a + b * fields["vocabulary"] + c * fields["batch"]) * off

    return measurements(rows(stack, cells, seconds, **how))


@pytest.mark.parametrize("lost", range(6))
def test_a_machine_that_lacks_one_of_the_six_cells_has_none(lost):
    made = machine(0.02, 1e-6, 1e-3, cells=[cell for place, cell in enumerate(CELLS) if place != lost])
    assert question.table_cells(made) == {}
    assert set(verdicts("01-the-question", made).values()) == {"not measured"}


def test_a_share_is_that_of_the_coefficients_that_made_the_times():
    fit = question.fits(machine(0.02, 1e-6, 1e-3, error=0.001))[question.SOFTWARE]
    assert question.share_of_terms(fit, ["b"]).value == pytest.approx(0.28 / 0.40, rel=0.01)
    assert question.share_of_terms(fit, ["a", "b", "c"]).value == pytest.approx(1)
    assert question.share_of_terms(fit, "c").value == pytest.approx(0.1 / 0.40, rel=0.02)


@pytest.mark.parametrize(
    ("label", "made", "expected"),
    [
        ("01.2", machine(0.02, 1e-6, 1e-3), "holds"),
        ("01.2", machine(0.02, 1e-6, 1e-3, bend=3.0), "does not hold"),
        ("01.4", machine(0.02, 1e-6, 1e-3), "holds"),
        ("01.4", machine(0.3, 1e-7, 1e-3), "does not hold"),
        ("01.4", machine(0.02, 1e-6, 2.6e-3, error=0.2), "inconclusive"),
        ("01.5", machine(0.02, 1e-6, 1e-3), "not measured"),
        ("01.2", machine(0.02, 1e-6, 1e-3, stack="numpy"), "not measured"),
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
