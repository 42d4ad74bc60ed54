"""Chapter 14: what it asserts, on made-up machines whose prices are known, and on other people's figures."""

import numpy as np
import pandas as pd
import pytest
from made_up import measurements, rows, verdict, verdicts
from tables import cells

from traintime.book import bench_formula, stored
from traintime.book.chapters import formula_bend, one_formula, vocabulary
from traintime.explain import formula

VOCABULARIES = [5_000, 20_000, 80_000, 280_000, 800_000, 2_000_000]
STAR = [{"vocabulary": v} for v in VOCABULARIES]
STAR += [{"vocabulary": 280_000, "batch": batch} for batch in (8, 32, 1024)]
STAR += [{"vocabulary": 280_000, "length": length} for length in (3, 100, 400)]
KEPT = [{"vocabulary": v, "allocator": "tcmalloc"} for v in (80_000, 200_000, 800_000)]
FLOOR = 1e-7  # seconds a row


@pytest.fixture(autouse=True)
def rates(monkeypatch):
    """A machine whose memory updates a row in FLOOR seconds and whose processor computes a token in 1 µs."""
    found = {"bandwidth_bytes_per_s": 9600 / FLOOR, "matmul_flop_per_s": one_formula.token_flops() / 1e-6}
    monkeypatch.setattr(stored.Measurements, "rates", found)
    monkeypatch.setattr(one_formula, "DRAWS", 200)


def machine(a=0.01, at=1e-3, b=1e-6, c=2e-5, m=0.0, error=0.02, points=STAR, kept_b=None, **stacks):
    """A machine whose stacks have these costs; at: of a position; kept_b: of a row under tcmalloc, where m is 0."""
    parts = []
    for stack in stacks.get("names", [*formula_bend.BENT, "2026-tensorflow", "2026-jax"]):

        def seconds(fields, row=b, more=m):
            fixed = a + at * fields["length"] + c * fields["batch"] * fields["length"]
            return fixed + row * fields["vocabulary"] + more * max(fields["vocabulary"] - 27_962, 0)

        parts.append(rows(stack, points, seconds, error))
        if kept_b is not None:
            kept = stacks.get("kept", KEPT)
            parts.append(rows(stack, kept, lambda fields: seconds(fields, kept_b, 0), error))
    return measurements(*parts)


LOUD = 1.5


@pytest.mark.parametrize(
    ("label", "holds", "fails", "cannot_be_told"),
    [
        (
            "14.1",
            {"b": 5 * FLOOR},
            {"b": 1.5 * FLOOR, "a": 1e-4, "at": 1e-5, "c": 1e-7},
            {"b": 2 * FLOOR, "names": ["numpy"]},
        ),
        ("14.2", {"b": 1e-6}, {"b": 1e-8}, {"b": 3e-7, "error": LOUD}),
        ("14.3", {"m": 5e-6}, {"m": 0.0, "error": 0.001}, {"m": 3e-6, "error": 0.1}),
        ("14.4", {"m": 5e-6}, None, {"m": 0.0, "error": 0.3}),
        ("14.5", {"m": 5e-6, "kept_b": 1e-6}, {"m": 5e-6, "kept_b": 6e-6}, {"kept_b": 1e-6, "m": 0.0, "error": 0.3}),
        ("14.6", {"kept_b": 4e-7}, {"kept_b": 1e-6}, {"kept_b": 8e-7, "error": 0.3}),
        ("14.7", {"kept_b": 1.2 * FLOOR}, {"kept_b": 5 * FLOOR}, {"kept_b": 2 * FLOOR, "error": 0.3}),
    ],
)
def test_a_claim_holds_fails_or_cannot_be_told(label, holds, fails, cannot_be_told):
    assert verdict(label, machine(**holds)) == "holds"
    if fails is not None:
        assert verdict(label, machine(**fails)) == "does not hold"
    assert verdict(label, machine(**cannot_be_told)) == "inconclusive"


def under_tcmalloc(*bends):
    """Four stacks over ten vocabularies, straight or bent, under tcmalloc."""
    points = [{"vocabulary": v, "allocator": "tcmalloc"} for v in np.geomspace(5e3, 2e6, 10).astype(int).tolist()]
    names = ["2017-theano", "2020-tensorflow", "2026-torch", "numpy"]

    def seconds(more):
        return lambda fields: 0.01 + 1e-6 * fields["vocabulary"] + more * max(fields["vocabulary"] - 300_000, 0)

    return measurements(
        *(rows(stack, points, seconds(more), rounds=10) for stack, more in zip(names, bends, strict=False))
    )


def test_the_formula_is_sharp_where_three_of_four_stacks_meet_the_goal():
    assert verdict("14.8", under_tcmalloc(5e-6, 5e-6, 0, 0)) == "does not hold"
    assert verdict("14.8", under_tcmalloc(0, 0, 0)) == "not measured"
    made = under_tcmalloc(0, 0, 0, 5e-6)
    within = [one.within for one in bench_formula.sharpness(made, "tcmalloc")]
    assert verdict("14.8", made) == ("holds" if within.count(True) >= 3 else "inconclusive")


@pytest.mark.parametrize(
    "fewer",
    [
        {"points": STAR[:1]},
        {"points": [{"vocabulary": 1000, "frozen": True}]},
        {"points": STAR[6:9], "kept_b": 1e-6},
        {"points": STAR[:6], "names": ["2017-theano"]},
    ],
)
def test_a_machine_with_fewer_points_has_not_measured_and_nothing_fails(fewer):
    found = verdicts("14-one-formula", machine(**fewer))
    assert found | dict.fromkeys(["14.1", "14.2"], "not measured") == dict.fromkeys(found, "not measured")


def test_single_runs_decide_nothing():
    made = measurements(rows("numpy", STAR, lambda fields: 1e-6 * fields["vocabulary"], rounds=1))
    assert {verdict(label, made) for label in ("14.1", "14.2")} == {"inconclusive"}


def test_without_rates_there_is_no_floor(monkeypatch):
    monkeypatch.undo()
    assert verdict("14.1", machine()) == "not measured"
    assert verdict("14.2", machine()) == "holds"


# The fits


def summary(**prices):
    """One stack's prices in units of their floors."""
    return one_formula.fit_summary(machine(error=1e-4, names=["numpy"], **prices)).loc["numpy"]


def test_the_prices_that_made_the_times_are_found_again():
    assert summary()["b"] == pytest.approx(10, rel=0.01)
    assert summary()["c"] == pytest.approx(20, rel=0.01)


def test_without_lengths_the_price_of_a_token_is_a_part_of_a_sentences():
    assert summary(points=STAR[:9], at=0.0)["c"] == pytest.approx(20, rel=0.01)


def test_without_batches_a_token_has_no_price():
    assert np.isnan(summary(points=STAR[:6])["c"])


def test_the_median_error_is_taken_where_the_other_sizes_are_the_documents():
    points = pd.DataFrame(
        [(280_000, 100, 25, 0.1), (280_000, 8, 25, 0.5), (5_000, 100, 25, -0.2), (5_000, 8, 25, 9.0)],
        columns=["vocabulary", "batch", "length", "error"],
    )
    assert one_formula.median_errors(points, "vocabulary").to_dict() == {5_000: -0.2, 280_000: 0.1}
    assert one_formula.median_errors(points, "batch").to_dict() == {8: 0.5, 100: 0.1}
    assert one_formula.median_errors(points, "length").to_dict() == {25: 0.1}


# Under another allocator


def test_what_was_fitted_under_glibc_is_held_against_tcmalloc():
    made = machine(m=5e-6, kept_b=1e-6, error=1e-4, names=["numpy"], kept=[{"vocabulary": 5_000, **KEPT[0]}, *KEPT])
    points = formula_bend.errors_under_tcmalloc(made)
    assert points["vocabulary"].tolist() == [80_000, 200_000, 800_000]
    assert points["without m"].to_numpy() == pytest.approx(np.zeros(3), abs=0.01)
    assert (points["with m"] > 1).all()


def test_a_table_before_the_bend_tells_nothing_of_it():
    made = machine(kept_b=1e-6, names=["numpy"], kept=[{"vocabulary": 5_000, "allocator": "tcmalloc"}])
    assert formula_bend.errors_under_tcmalloc(made).empty
    assert formula_bend.nearer(made) == {}


def test_a_row_under_tcmalloc_is_priced_without_the_rest_of_the_step():
    """Of a step with the document's batch and length alone; TensorFlow 1.1 has an allocator of its own."""
    names = ["numpy", "2017-tensorflow", "2026-jax"]
    more = [{"vocabulary": 200_000, "length": 400, "allocator": "tcmalloc"}]
    over = formula_bend.over_floor(machine(kept_b=3 * FLOOR, error=1e-4, names=names, kept=[*KEPT, *more]))
    assert set(over) == {"numpy", "2026-jax"}
    assert over["numpy"].value == pytest.approx(3, rel=0.02)
    assert 3 in over["numpy"]


# What the page shows


def test_the_tables_have_a_line_a_stack():
    made = machine(m=5e-6, kept_b=1e-6)
    for table in (one_formula.term_table(made), one_formula.parts_table(made), formula_bend.second_cost_table(made)):
        assert len(cells(table)) == len(one_formula.straight(made))
        assert "nan" not in table.data


def test_the_two_parts_of_a_step_are_those_that_made_it():
    """At the post's sizes: 10 ms, 25 time steps of 1 ms and 280,000 rows of 1 µs; a sentence has 25 tokens of 20 µs."""
    (found,) = cells(one_formula.parts_table(machine(error=1e-4, names=["numpy"])))
    assert [float(text.replace(",", "")) for text in found[1:4]] == pytest.approx([315, 280, 0.5], rel=0.02)


# Other people's figures: what the page says of them


def test_a_step_and_an_image_reproduce_s3s_times():
    prices, errors = one_formula.line_of_batches(one_formula.s3_steps())
    assert np.abs(errors).max() < 0.03
    assert prices["F"] < prices["c"], "the break-even batch is below one image"


def test_two_times_give_two_prices_unless_one_came_out_negative():
    read_off, fitting = one_formula.pairs(), one_formula.fitting()
    assert len(read_off) == 6
    assert (read_off[["ms a step", "µs an example"]] >= 0).all(axis=None)
    assert read_off.index[~fitting].tolist() == [("TensorFlow", 128)]
    assert read_off.loc[fitting, "worst error"].max() < 1e-9


def test_the_bug_report_lies_between_the_table_alone_and_the_whole_step():
    report = one_formula.bug_report()
    assert report["floor"] < report["rows"] < report["seen"] < report["all"]


def test_the_floors_are_what_the_workload_counts():
    assert vocabulary.bytes_a_row() == 300 * 32
    assert one_formula.token_flops() == 6 * 4 * 128 * (300 + 128)
    assert formula.FOUR_TERMS.terms.keys() == {"a", "l", "b", "c"}
