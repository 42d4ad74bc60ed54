"""Chapter 14: what it asserts, on made-up machines whose prices are known, and on other people's figures."""

import numpy as np
import pandas as pd
import pytest
from made_up import measurements, rows, verdict, verdicts
from tables import cells

from traintime.book import bench_formula, original, stored
from traintime.book.chapters import one_formula
from traintime.book.chapters.one_formula import shown
from traintime.explain import formula

NAN = float("nan")
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


def machine(a=0.01, at=1e-3, b=1e-6, c=2e-5, m=0.0, error=0.02, points=STAR, kept_b=None, **stacks):
    """A machine whose stacks have these prices; at: of a position; kept_b: of a row under tcmalloc, where m is 0."""
    parts = []
    for stack in stacks.get("names", [*one_formula.BENT, "2026-tensorflow", "2026-jax"]):

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
    assert verdict(label, machine(**cannot_be_told)) == "cannot be told"


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
    assert verdict("14.8", made) == ("holds" if within.count(True) >= 3 else "cannot be told")


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
    assert {verdict(label, made) for label in ("14.1", "14.2")} == {"cannot be told"}


def test_without_rates_there_is_no_floor(monkeypatch):
    monkeypatch.undo()
    assert verdict("14.1", machine()) == "not measured"
    assert verdict("14.2", machine()) == "holds"


# The fits


def test_the_prices_that_made_the_times_are_found_again():
    made = machine(error=1e-4, names=["numpy"])
    prices = one_formula.prices(one_formula.straight(made), one_formula.floors(made)).loc["numpy"]
    assert prices["b"] == pytest.approx(10, rel=0.01)
    assert prices["c"] == pytest.approx(20, rel=0.01)


def test_without_lengths_the_price_of_a_token_is_a_part_of_a_sentences():
    made = machine(error=1e-4, points=STAR[:9], at=0.0, names=["numpy"])
    (one,) = one_formula.straight(made).values()
    assert list(one.fit.coefficients) == ["a", "b", "c"]
    prices = one_formula.prices({"numpy": one}, one_formula.floors(made))
    assert prices.loc["numpy", "c"] == pytest.approx(20, rel=0.01)


def test_without_batches_a_token_has_no_price():
    made = machine(points=STAR[:6], names=["numpy"])
    prices = one_formula.prices(one_formula.straight(made), one_formula.floors(made))
    assert np.isnan(prices.loc["numpy", "c"])


def test_a_stack_with_too_few_points_has_no_fit():
    assert one_formula.usual(machine(points=STAR[:3])) == {}


def test_what_lies_outside_its_interval_is_counted():
    made = machine(names=["numpy"], m=5e-6)
    gap = one_formula.predicted(one_formula.straight(made))
    assert len(gap) == len(STAR)
    assert gap["error"].to_numpy() == pytest.approx((gap["predicted_s"] / gap["step_s"] - 1).to_numpy())
    inside = gap["predicted_s"].between(gap["low_s"], gap["high_s"])
    assert (gap["outside"] == ~inside).all()
    assert gap["outside"].any()


def test_the_median_error_is_taken_where_the_other_sizes_are_the_documents():
    gap = pd.DataFrame(
        [(280_000, 100, 25, 0.1), (280_000, 8, 25, 0.5), (5_000, 100, 25, -0.2), (5_000, 8, 25, 9.0)],
        columns=["vocabulary", "batch", "length", "error"],
    )
    found = one_formula.by_size(gap)
    assert found["vocabulary"].to_dict() == {5_000: -0.2, 280_000: 0.1}
    assert found["batch"].to_dict() == {8: 0.5, 100: 0.1}
    assert found["length"].to_dict() == {25: 0.1}


# Under another allocator


def test_what_was_fitted_under_glibc_is_held_against_tcmalloc():
    made = machine(m=5e-6, kept_b=1e-6, error=1e-4, names=["numpy"], kept=[{"vocabulary": 5_000, **KEPT[0]}, *KEPT])
    found = one_formula.kept(made, one_formula.bent(made))
    assert found["vocabulary"].tolist() == [80_000, 200_000, 800_000]
    assert found["without m"].to_numpy() == pytest.approx(np.zeros(3), abs=0.01)
    assert (found["with m"] > 1).all()


def test_a_table_before_the_bend_tells_nothing_of_it():
    made = machine(kept_b=1e-6, names=["numpy"], kept=[{"vocabulary": 5_000, "allocator": "tcmalloc"}])
    found = one_formula.kept(made, one_formula.bent(made))
    assert found.empty
    assert list(found[["with m", "without m"]].columns) == ["with m", "without m"]
    assert one_formula.nearer(made, one_formula.bent(made)) == {}


def test_a_row_under_tcmalloc_is_priced_without_the_rest_of_the_step():
    made = machine(kept_b=3 * FLOOR, error=1e-4, names=["numpy", "2017-tensorflow", "2026-jax"])
    over = one_formula.over_floor(made, one_formula.bent(made), one_formula.floors(made))
    assert set(over) == {"numpy", "2026-jax"}, "TensorFlow 1.1 has an allocator of its own"
    assert over["numpy"].value == pytest.approx(3, rel=0.02)
    assert 3 in over["numpy"]


def test_other_sizes_under_tcmalloc_are_not_taken_for_the_documents():
    more = [{"vocabulary": 200_000, "length": 400, "allocator": "tcmalloc"}]
    made = machine(kept_b=3 * FLOOR, error=1e-4, names=["numpy"], kept=[*KEPT, *more])
    over = one_formula.over_floor(made, one_formula.bent(made), one_formula.floors(made))
    assert over["numpy"].value == pytest.approx(3, rel=0.02)


# Values


def texts(made):
    floor, ours, bends = one_formula.floors(made), one_formula.straight(made), one_formula.bent(made)
    values = one_formula.stack_values(made, ours, floor) | one_formula.bend_values(made, ours, bends, floor)
    return values | one_formula.goal_values(made) | one_formula.floor_values()


@pytest.mark.parametrize("prices", [{"m": 5e-6, "kept_b": 1e-6}, {"points": STAR[:6], "kept_b": 1e-6}])
def test_every_value_is_a_text_that_says_something(prices):
    values = texts(machine(**prices))
    assert all(isinstance(value, str) and value and "nan" not in value for value in values.values()), values
    assert all(name.startswith("one-") for name in values)


def test_the_tables_have_a_line_a_stack():
    made = machine(m=5e-6, kept_b=1e-6)
    floor, ours, bends = one_formula.floors(made), one_formula.straight(made), one_formula.bent(made)
    tables = one_formula.price_table(ours, floor), one_formula.error_table(ours, floor)
    for table in (*tables, one_formula.bend_table(ours, bends)):
        assert len(cells(table)) == len(ours)
        assert "nan" not in table.data
    kept = one_formula.kept(made, bends)
    assert len(cells(one_formula.kept_table(kept))) == len(kept)


def test_names_are_listed_as_people_do():
    assert shown._listed([]) == "no stack"
    assert shown._listed(["a"]) == "a"
    assert shown._listed(["a", "b", "c"]) == "a, b and c"


# Other people's figures: what the page says of them


def test_three_prices_give_the_documents_cells_back_within_two_per_cent():
    for fit in original.s0_fits(2).values():
        assert fit.mean_error < 0.02


def test_a_step_and_an_image_give_s3s_times_back():
    prices, errors = one_formula.line_of_batches(one_formula.s3_steps())
    assert np.abs(errors).max() < 0.03
    assert prices["F"] < prices["c"], "the critical batch is below one image"


def test_two_times_give_two_prices_unless_one_came_out_negative():
    read_off = one_formula.pairs()
    assert len(read_off) == 6
    assert (read_off[["ms a step", "µs an example"]] >= 0).all(axis=None)
    misfits = read_off[read_off["worst error"] > 0.01]
    assert misfits.index.tolist() == [("TensorFlow", 128)]
    assert read_off["worst error"].drop(misfits.index).max() < 1e-9


def test_the_bug_report_lies_between_the_table_alone_and_the_whole_step():
    values = one_formula.published_values(original.s0_fits(2))
    alone, seen, whole, floor = (
        int(values[f"one-issue-{name}"].split()[0]) for name in ("rows", "seen", "all", "floor")
    )
    assert floor < alone < seen < whole


def test_the_documents_ratios_are_those_of_its_arithmetic():
    values = one_formula.document_values(original.s0_fits(50))
    assert (values["one-limit-b"], values["one-limit-c"]) == ("15.4", "12.5")


def test_the_floors_are_what_the_workload_counts():
    assert one_formula.row_bytes() == 300 * 32
    assert one_formula.token_flops() == 6 * 4 * 128 * (300 + 128)
    assert formula.FOUR_TERMS.terms.keys() == {"a", "l", "b", "c"}
