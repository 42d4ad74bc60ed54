"""The fused LSTM: what a further time step costs and what other ways of running it gain; on made-up data."""

import pytest
from made_up import made_up, verdict
from tables import cells

from traintime.book.chapters import fused

LSTM = {"workload": "lstm", "batch": 32}


def sweep(stack, position=1e-4, step=1e-3, token=0.0, **way):
    """Steps of a + l L + c B L, at every size of the sweep."""
    sizes = [(batch, length) for batch in fused.BATCHES for length in fused.LENGTHS]
    fields = [{"workload": "lstm", "batch": batch, "length": length, **way} for batch, length in sizes]
    return [(stack, each, step + (position + token * each["batch"]) * each["length"]) for each in fields]


def machine():
    """Loops of three stacks and torch's fused kernel."""
    loops = [*sweep("numpy", 5e-5), *sweep("2026-jax", 2e-5), *sweep("2026-torch", 1e-3, token=1e-7)]
    return made_up(*loops, *sweep("2026-torch", 1e-5, algorithm="native"))


def over_positions(square=1e-5, **more):
    """torch's ways over 50 and 200 positions; square: what a pair of positions costs in Keras' loop, s."""
    steps = {"default": lambda n: 1e-4 * n + square * n * n, "apart": lambda n: 2e-4 * n, "cell": lambda n: 3e-4 * n}
    points = [(way, n) for way in steps for n in fused.ENDS]
    rows = [("2026-torch", fused.MANY | {"length": n, "algorithm": way}, steps[way](n)) for way, n in points]
    return made_up(*rows, **more)


def on_card(torch=1e-3, jax=1e-3, step=0.0, **more):
    """Both ways on a card, 10 µs per time step of the kernel; torch, jax: of the loops, s; step: of any step, s."""
    steps = []
    for stack, position in (("2026-torch", torch), ("2026-jax", jax)):
        steps += sweep(stack, position, step, device="gpu", kernel=fused.CELLS)
        steps += sweep(stack, 1e-5, step, device="gpu", kernel=fused.CUDNN)
    return made_up(*steps, **more, described={"gpus": [{"name": "NVIDIA H1"}]})


SAID = ["holds", "does not hold", "inconclusive"]


@pytest.mark.parametrize(
    ("label", "books"),
    [
        ("08.5", [on_card(), on_card(jax=3e-5), on_card(jax=5e-5)]),
        ("08.26", [on_card(), on_card(torch=2e-5), on_card(torch=5e-5)]),
        ("08.15", [over_positions(), over_positions(square=1e-9), over_positions(square=2.5e-6)]),
    ],
)
def test_a_claim_of_speed_is_judged_by_its_interval(label, books):
    assert [verdict(label, book) for book in books] == SAID
    assert verdict(label, machine()) == "not measured"


def test_single_runs_decide_nothing():
    books = {"08.5": on_card(noise=(1.0,)), "08.26": on_card(noise=(1.0,)), "08.15": over_positions(noise=(1.0,))}
    assert {label: verdict(label, book) for label, book in books.items()} == dict.fromkeys(books, "inconclusive")


def test_one_more_position_is_the_slope_between_the_two_lengths():
    book = machine()
    costs = fused.position_costs(book).set_index(["stack", "how", "batch"])["position_s"]
    assert costs["2026-torch", "loop", 512] == pytest.approx(1e-3 + 512 * 1e-7, rel=1e-3)
    assert fused.loop_positions(book).least.value == pytest.approx(2e-5, rel=1e-3)
    table = cells(fused.further_table(fused.lstm_points(book)))
    assert table[0] == ["2026-jax", "loop", "32", "1.2", "2.0", "20"]
    disturbed = made_up(*(("numpy", LSTM | {"length": n}, s) for n, s in ((10, 2.0), (50, 1.0))))
    assert cells(fused.further_table(fused.lstm_points(disturbed)))[0][-1] == "lost in noise"
    assert "Not measured yet" in fused.further_table(fused.lstm_points(made_up(("numpy", {}, 1.0)))).data


def test_the_answer_has_a_row_for_each_gpu_and_software_and_says_at_most_where_nothing_was_found():
    """A kernel's time step costs 10 µs, and next to nothing of a step of one second."""
    table = {row[0]: row[1:] for row in cells(fused.answer_table(on_card()))}
    assert [table["H1, Keras 3, torch"][place] for place in (0, 1, 2)] == ["1000", "10", "50"]
    assert table["H1, Keras 3, torch"][3].startswith("100.0 (")
    assert table["GTX 1080, Keras 2"] == ["543", "82", "1,000", "6.6"]
    assert table["GTX 1080, PyTorch 0.4"] == ["307", "80", "1,000", "3.8"]
    drowned = cells(fused.answer_table(on_card(step=1)))
    assert drowned[0][2].startswith("at most ")


def test_ways_of_running_it_are_compared_as_many_times_the_other():
    book = over_positions(square=1e-5)
    assert fused.gain_over_loop(book, "apart")["2026-torch"].value == pytest.approx(0.42 / 0.04)
    assert fused.growth(book, "default")["2026-torch"].value == pytest.approx(0.42 / 0.03)
    assert fused.gain_over_loop(machine(), "native", 32, 50)["2026-torch"].value == pytest.approx(0.05116 / 0.0015)


def test_published_times_are_worked_out_as_by_hand():
    """The answer's loop takes 3.21 s a step, of which 500 rows cost 23 ms; with 4,700 rows an epoch has 447 steps."""
    assert fused.one_sequence()["GTX 1060"].value == pytest.approx(35 / 50_000)
    line, loop = fused.fused_line(), fused.loop_line()
    steps = [epoch_s * batch / 2_100_000 for batch, epoch_s in ((500, 400), (4700, 130))]
    assert [line["F"] + line["c"] * batch for batch in (500, 4700)] == pytest.approx(steps)
    assert loop["step_s"] == pytest.approx(13_500 * 500 / 2_100_000)
    assert loop["fixed"] == pytest.approx(1 - 500 * line["c"] / loop["step_s"])
    assert loop["epoch_s"] == pytest.approx((loop["step_s"] + 4200 * line["c"]) * 2_100_000 / 4700)
