"""Sentence length: which lines the chapter shows, what it predicts, and its claims, on made-up measurements."""

import pytest
from made_up import made_up, verdict

from traintime.book.chapters import length

pytestmark = pytest.mark.usefixtures("few_draws")
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


def test_what_training_the_table_adds_is_told_at_both_ends():
    book = made_up(*line("numpy", "adam", 0.5), *line("numpy", "frozen", 0.1))
    assert length.growths(book)["numpy"].value == pytest.approx(0.6 / 0.503)
    assert length.growths(book, frozen=True)["numpy"].value == pytest.approx(0.2 / 0.103)
    assert length.growths(book, 100, 400)["numpy"].value == pytest.approx(0.9 / 0.6)
    assert length.added_growths(book)["numpy"].value == pytest.approx(1)


# The table and the overhead


def test_the_share_of_the_table_is_what_a_small_one_does_not_take():
    steps = [("numpy", {"vocabulary": rows}, seconds) for rows, seconds in ((5_000, 0.1), (length.TABLE, 0.5))]
    assert length.table_shares(made_up(*steps))["numpy"] == pytest.approx(0.8)


def on_a_gpu(*lengths, **more):
    """torch's steps with cuDNN of 7 ms and its loop's of 1 ms a token; with the small table 5 ms."""
    steps = [("2026-torch", {"vocabulary": 20_000, **length.ON_GPU}, 5e-3)]
    for tokens in lengths:
        given = {"vocabulary": length.TABLE, "length": tokens}
        steps += [("2026-torch", given | length.ON_GPU, 7e-3), ("2026-torch", given | length.CELLS, 1e-3 * tokens)]
    return made_up(*steps, **more)


def test_on_a_gpu_each_kernel_has_its_growth_and_the_table_its_share():
    book = on_a_gpu(3, 25, 100)
    assert length.growths(book, **length.ON_GPU)["2026-torch"].value == pytest.approx(1)
    assert length.growths(book, **length.CELLS)["2026-torch"].value == pytest.approx(100 / 3)
    assert length.gpu_table_shares(book)["2026-torch"].value == pytest.approx(2 / 7)


def test_its_table_says_how_many_runs_and_which_is_doubtful():
    several, once = (length.gpu_table(on_a_gpu(3, 25, noise=noise)).data for noise in ((1.0, 1.0), (1.0,)))
    assert several.count("2\u00a0runs") == 4
    assert "doubtful" not in several
    assert once.count("doubtful") == 1
    assert "runs" not in once


# Claims


@pytest.mark.parametrize(
    ("label", "refuted"),
    [
        ("06.1", {"adam": -2.9e-3}),  # steeper than in proportion
        ("06.3", {"adam": 1e-3, "frozen": 0.5}),
        ("06.7", {"adam-rows": 0.5}),
    ],
)
def test_a_claim_holds_where_the_table_is_the_cause_and_noise_and_single_runs_decide_nothing(label, refuted):
    assert verdict(label, made_up(*whole())) == "holds"
    assert verdict(label, made_up(*whole(**refuted))) == "does not hold"
    for noise in ((0.02, 50.0, 1.0), (1.0,)):
        assert verdict(label, made_up(*whole(), noise=noise)) == "inconclusive"


def test_another_table_than_the_document_s_is_compared_as_well():
    book = made_up(*(step for way in WAYS for step in line("numpy", way, table=80_000)))
    assert verdict("06.3", book) == verdict("06.7", book) == "holds"


# Padding


def test_padding_and_a_mask_are_compared_in_the_same_rounds():
    seconds = {length.ALONE: 0.1, length.PADDING: 0.4, length.MASKED: 0.5, length.WHOLE: 0.4}
    steps = [("numpy", {"vocabulary": 20_000} | fields, seconds[name]) for name, fields in length.CASES.items()]
    book = made_up(*steps)
    pads = length.padding(book, length.WHOLE, length.PADDING)["numpy"]
    masks = length.padding(book, length.PADDING, length.MASKED)["numpy"]
    assert (pads.value, masks.value) == pytest.approx((1, 1.25))
    assert masks.low < 1.25
