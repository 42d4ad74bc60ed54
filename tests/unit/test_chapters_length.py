"""Sentence length: which lines the chapter shows, what it predicts, and its claims, on made-up measurements."""

import numpy as np
import pytest
from made_up import made_up, verdict, verdicts
from tables import cells

from traintime.book.chapters import length, padding

pytestmark = pytest.mark.usefixtures("few_draws")
CHAPTER = "06-sentence-length"
LENGTHS = [3, 25, 100, 400]
TOKEN = 1e-3  # s a token
WAYS = {
    "adam": {},
    "sgd": {"optimizer": "sgd"},
    "frozen": {"frozen": True},
    "adam-rows": {"optimizer": "adam-rows"},
}
FIXED = {"adam": 0.5, "sgd": 0.1, "frozen": 1e-3, "adam-rows": 1e-3}  # s


def line(stack, way, fixed=None, table=length.TABLE, lengths=LENGTHS):
    """Steps of fixed + TOKEN * length."""
    fixed = FIXED[way] if fixed is None else fixed
    return [(stack, {"vocabulary": table, "length": at, **WAYS[way]}, fixed + TOKEN * at) for at in lengths]


def whole(stack="numpy", **fixed):
    """Every line of one stack: the four ways of training, and smaller tables."""
    lines = [step for way in WAYS for step in line(stack, way, fixed.get(way))]
    for rows, seconds in ((20_000, 0.02), (1_000, 0.002)):
        lines += line(stack, "adam", fixed.get(f"t{rows}", seconds), table=rows)
    return lines


# The lines


def test_a_line_says_how_it_differs_from_adam_on_the_large_table():
    found = length.by_length(made_up(*whole()))
    assert set(found["how"]) == {*WAYS, "20K rows", "1K rows"}
    assert (found.loc[found["how"] == "20K rows", "vocabulary"] == 20_000).all()
    assert list(found.index) == list(range(len(found)))


OF_EIGHT = [(stack, given | {"batch": 8}, seconds) for stack, given, seconds in line("numpy", "frozen")]


@pytest.mark.parametrize(
    "other",
    [line("numpy", "frozen", lengths=[3, 100]), line("numpy", "sgd", table=20_000), OF_EIGHT],
    ids=["two lengths", "small and without Adam", "another batch"],
)
def test_a_line_that_does_not_compare_is_not_shown(other):
    assert set(length.by_length(made_up(*line("numpy", "adam"), *other))["how"]) == {"adam"}


def test_the_table_is_the_largest_with_three_lengths():
    book = made_up(*line("numpy", "frozen", table=80_000), *line("numpy", "frozen", lengths=[3, 100]))
    assert length.table_of(book) == 80_000
    with pytest.raises(IndexError):
        length.table_of(book, frozen=False)


def test_the_tail_is_the_frozen_model_from_a_hundred_tokens_on():
    (row,) = length.tail(made_up(*whole())).to_dict("records")
    assert (row["from"], row["to"]) == (100, 400)
    assert row["exponent"] == pytest.approx(1, abs=0.02)


def test_what_training_the_table_adds_is_told_at_both_ends():
    book = made_up(*line("numpy", "adam", 0.5), *line("numpy", "frozen", 0.1))
    assert length.growths(book)["numpy"].value == pytest.approx(0.6 / 0.503)
    assert length.growths(book, frozen=True)["numpy"].value == pytest.approx(0.2 / 0.103)
    assert length.trained_less_frozen(book).loc["numpy"].to_dict() == pytest.approx({"short": 0.4, "long": 0.4})


# What two measurements predict


def two(small, large, stack="numpy"):
    """The two measurements at 25 tokens, s."""
    return [(stack, {"vocabulary": rows}, seconds) for rows, seconds in ((5_000, small), (length.TABLE, large))]


def test_the_exponent_follows_from_two_measurements():
    row = length.predicted_exponents(made_up(*two(0.1, 0.5))).loc["numpy"]
    curve = 0.4 + 0.1 * np.array(length.LENGTHS) / 25
    assert row["share"] == pytest.approx(0.8)
    assert row["exponent"].value == pytest.approx(np.polyfit(np.log(length.LENGTHS), np.log(curve), 1)[0])
    assert row["exponent"].low < row["exponent"].value < row["exponent"].high


@pytest.mark.parametrize(("small", "large", "exponent"), [(0.5, 0.5, 1), (1e-9, 0.5, 0)])
def test_without_a_table_to_pay_for_it_is_one_and_with_nothing_else_zero(small, large, exponent):
    row = length.predicted_exponents(made_up(*two(small, large))).loc["numpy"]
    assert row["exponent"].value == pytest.approx(exponent, abs=1e-6)


def test_what_was_missed_is_measured_less_predicted():
    steps = line("numpy", "adam", 0.475, lengths=[3, 100, 400])
    right = made_up(*two(0.025, 0.5), *steps)
    assert length.prediction_errors(right)["numpy"].value == pytest.approx(0, abs=0.01)
    assert 0 in length.prediction_errors(right)["numpy"]
    wrong = made_up(*two(0.4, 0.5), *steps)
    assert length.prediction_errors(wrong)["numpy"].value < -0.3


# Claims


def test_a_machine_where_the_table_is_the_cause_holds_the_claims():
    book = made_up(*whole())
    labels = ["06.1", "06.2", "06.3", "06.4", "06.5", "06.6", "06.7", "06.9"]
    assert {label: verdict(label, book) for label in labels} == dict.fromkeys(labels, "holds")


@pytest.mark.parametrize(
    ("label", "fixed"),
    [
        ("06.1", {"adam": -2.9e-3}),  # steeper than in proportion
        ("06.2", {"adam": 1e-3}),
        ("06.3", {"adam": 1e-3, "frozen": 0.5}),
        ("06.4", {"frozen": 0.5}),
        ("06.5", {"t20000": 2.0}),
        ("06.6", {"sgd": 2.0}),
        ("06.7", {"adam-rows": 0.5}),
        ("06.9", {"frozen": 0.5}),
    ],
)
def test_a_machine_where_it_is_not_does_not(label, fixed):
    assert verdict(label, made_up(*whole(**fixed))) == "does not hold"


@pytest.mark.parametrize("noise", [(0.02, 50.0, 1.0), (1.0,)])
def test_noise_and_single_runs_decide_nothing(noise):
    book = made_up(*whole(), noise=noise)
    labels = ["06.1", "06.3", "06.5", "06.6", "06.7", "06.9"]
    assert {label: verdict(label, book) for label in labels} == dict.fromkeys(labels, "inconclusive")


@pytest.mark.parametrize("lost", ["adam", "frozen"])
def test_a_machine_with_fewer_lines_raises_nothing(lost):
    book = made_up(*[step for way in WAYS if way != lost for step in line("numpy", way)])
    assert verdicts(CHAPTER, book)
    assert "(not measured)" in length.PROSE.values(book).values()


def test_the_full_range_is_asked_for_where_a_number_is_claimed():
    book = made_up(*(step for way in WAYS for step in line("numpy", way, lengths=[3, 25, 100])))
    assert verdict("06.2", book) == verdict("06.4", book) == "not measured"
    assert verdict("06.3", book) == "holds"


def test_another_table_than_the_document_s_is_compared_as_well():
    book = made_up(*(step for way in WAYS for step in line("numpy", way, table=80_000)))
    assert verdict("06.3", book) == verdict("06.7", book) == "holds"


@pytest.mark.parametrize(("large", "verdict_of_it"), [(0.5, "holds"), (0.1, "does not hold")])
def test_the_prediction_holds_where_it_comes_within_a_tenth(large, verdict_of_it):
    steps = line("numpy", "adam", large - 0.025, lengths=[3, 100, 400])
    assert verdict("06.8", made_up(*two(0.025 if large == 0.5 else 0.0999, large), *steps)) == verdict_of_it


# Under an allocator that keeps its memory


def test_what_is_left_of_the_fixed_part_under_tcmalloc_stands_beside_glibc():
    freed = [(stack, fields | {"allocator": "tcmalloc"}, s - 0.4) for stack, fields, s in line("numpy", "adam")]
    book = made_up(*line("numpy", "adam"), *freed, *line("2026-jax", "adam"))
    both = length.under_allocators(book)
    assert list(both.index) == ["numpy"], "which alone ran under both"
    assert both.loc["numpy", "tcmalloc"].value > both.loc["numpy", "glibc"].value
    assert verdict("06.12", book) == "holds"
    assert "on numpy" in length.PROSE.values(book)["len-kept"]
    assert verdict("06.12", made_up(*line("numpy", "adam"))) == "not measured"


# Padding


def sentences(padded, masked, whole=0.4, sweep="made-up", stack="2026-tensorflow"):
    given = {"vocabulary": 20_000, "length": 100}
    return [
        (stack, given, whole, {"sweep": sweep}),
        (stack, given | {"words": 25}, padded),
        (stack, given | {"words": 25, "mask": True}, masked),
        (stack, given | {"length": 25}, 0.1),
    ]


@pytest.mark.parametrize(
    ("padded", "masked", "verdicts"),
    [
        (0.4, 0.4, ["holds", "holds"]),
        (0.1, 0.1, ["does not hold", "holds"]),
        (0.4, 0.1, ["holds", "does not hold"]),
    ],
)
def test_padding_is_judged_side_by_side(padded, masked, verdicts):
    book = made_up(*sentences(padded, masked))
    assert [verdict(label, book) for label in ("06.10", "06.11")] == verdicts
    assert padding.pad_ratios(book)["ratio"].tolist() == pytest.approx([padded / 0.4])
    assert padding.mask_ratios(book)["ratio"].tolist() == pytest.approx([masked / padded])


def test_what_ran_at_other_times_is_no_verdict():
    book = made_up(*sentences(0.4, 0.4, sweep="another"))
    assert verdict("06.10", book) == "inconclusive"
    assert "different times" in padding.PROSE.values(book)["len-pads-verdict"]


def test_the_cases_stand_side_by_side_for_each_stack_that_was_masked():
    more = [("numpy", {"vocabulary": 20_000, "length": 100, "words": 25}, 0.4)]
    table = cells(padding.padded_table(made_up(*sentences(0.4, 0.3), *more)))
    assert table == [["2026-tensorflow", "100", "400", "300", "400"]]


def test_quotients_of_the_table_are_the_ratios_of_the_prose():
    slow = {"sweep": "made-up", "median_s": 0.44, "step_s": 0.6}  # one slow step moves the mean alone
    masked = ("2026-tensorflow", {"vocabulary": 20_000, "length": 100, "words": 25, "mask": True}, 0.5, slow)
    book = made_up(*(step for step in sentences(0.4, 0.4) if not step[1].get("mask")), masked)
    steps = padding.padded_steps(book)
    ratio = steps[padding.MASKED] / steps[padding.PADDING]
    assert ratio.tolist() == pytest.approx(padding.mask_ratios(book)["ratio"].tolist())


# The prose


@pytest.mark.parametrize(("power", "said"), [(1.4, "lies above 1 on numpy"), (0.5, "lies below 1 on numpy")])
def test_an_exponent_that_is_not_one_is_said_with_its_side(power, said):
    steps = [("numpy", {"vocabulary": length.TABLE, "length": at, "frozen": True}, 1e-3 * at**power) for at in LENGTHS]
    assert length.PROSE.values(made_up(*steps))["len-tail-reach"] == f"the interval {said}"
