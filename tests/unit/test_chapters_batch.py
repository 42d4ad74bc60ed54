"""The break-even batch, what a larger batch gains and costs, and the claims of the chapter on the batch."""

import json

import pandas as pd
import pytest
from made_up import made_up, verdict
from tables import cells

from traintime.book import a100
from traintime.book.chapters import batch, vocabulary

pytestmark = pytest.mark.usefixtures("few_draws")
NOISE = (0.99, 1.01, 1.0)
SIX = ["2017-theano", "2017-tensorflow", "2020-theano", "2026-tensorflow", "2026-jax", "numpy"]


def machine(steps, batches=batch.BATCHES, noise=NOISE, bytes_a_sentence=200e3, prices=None, bent=()):
    """Measurements of steps F + c * batch. steps: stack -> (F, c) in s; prices: stack -> s a row of the table.

    bent: stacks whose step alternates between half and twice its line.
    """
    made = []
    for stack, (fixed, each) in steps.items():
        for place, size in enumerate(batches):
            factor = (2 if place % 2 else 0.5) if stack in bent else 1
            peak = {"peak_bytes": 1e9 + bytes_a_sentence * size}
            made.append((stack, {"vocabulary": batch.VOCABULARY, "batch": size}, (fixed + each * size) * factor, peak))
        made += [(stack, {"vocabulary": size}, 0.01 + prices[stack] * size) for size in vocabulary.PRICED if prices]
    return made_up(*made, noise=noise)


def spread_out(*break_even):
    """Steps of that many stacks with these break-even batches."""
    return {stack: (at * 1e-3, 1e-3) for stack, at in zip(SIX, break_even, strict=False)}


# The break-even batch


def test_the_break_even_batch_is_the_fixed_cost_over_the_cost_of_a_sentence():
    book = machine({"numpy": (0.5, 1e-3), "2026-jax": (0.2, 2e-3)})
    ours = batch.break_evens(book)
    assert ours["break_even"].to_dict() == pytest.approx({"numpy": 500, "2026-jax": 100})
    assert ours["F"].to_dict() == pytest.approx({"numpy": 0.5, "2026-jax": 0.2})
    assert (ours["low"] < ours["break_even"]).all()
    assert (ours["break_even"] < ours["high"]).all()
    assert (ours["error"] < 1e-6).all()


def test_without_repeats_it_has_no_interval_and_no_verdict():
    book = machine(spread_out(100, 2000), noise=(1.0,))
    assert batch.break_evens(book)["low"].isna().all()
    assert verdict("05.3", book) == "inconclusive"


def test_a_step_that_does_not_grow_with_the_batch_does_not_break_even():
    assert batch.lines(machine({"numpy": (0.5, 0.0)})) == {}


def test_an_epoch_has_as_many_steps_as_batches_begin():
    book = machine({"numpy": (1.0, 0.0)}, batches=[1024])
    assert batch.by_batch(book)["epoch_s"].tolist() == [pytest.approx(977)]


def test_the_documents_devices_have_theirs_and_the_gain_that_follows():
    document = batch.document_devices(200)
    assert sorted(document.index) == ["CPU", "GPU"]
    assert ((document["low"] <= document["break_even"]) & (document["break_even"] <= document["high"])).all()
    assert document.loc["GPU", "gain"] == pytest.approx(document.loc["GPU", "seen"], rel=0.1)


def test_the_gain_of_a_larger_batch_is_that_of_an_epoch():
    book = machine({"numpy": (1.0, 0.0), "2026-jax": (0.0, 1e-3)})
    gains = batch.epoch_gains(book)
    assert gains["numpy"].value == pytest.approx(8)
    assert gains["2026-jax"].value == pytest.approx(1)
    assert all(each.low < each.value < each.high for each in gains.values())


def test_both_costs_under_tcmalloc_are_next_to_those_under_glibc():
    def line(stack, fixed, batches, **fields):
        return [(stack, {"vocabulary": 280_000, "batch": size, **fields}, fixed + 1e-3 * size) for size in batches]

    glibc = [*line("numpy", 1.0, batch.SWEPT), *line("2026-jax", 1.0, batch.SWEPT)]
    pooled = line("numpy", 0.25, batch.UNDER_TCMALLOC, allocator="tcmalloc")
    both = batch.under_tcmalloc(made_up(*glibc, *pooled))
    assert list(both.index) == ["numpy"]
    assert both.loc["numpy", ["F-glibc", "F-tcmalloc"]].tolist() == pytest.approx([1, 0.25])
    assert both.loc["numpy", ["break_even-glibc", "break_even-tcmalloc"]].tolist() == pytest.approx([1000, 250])
    assert batch.under_tcmalloc(made_up(*glibc)).empty


# Memory


def test_a_sentence_costs_what_the_peak_grows_by():
    book = machine({"numpy": (1.0, 1e-3)}, bytes_a_sentence=300e3)
    assert batch.bytes_a_sentence(book)["numpy"] == pytest.approx(300e3)


# Claims


@pytest.mark.parametrize(
    ("label", "book", "expected"),
    [
        ("05.1", machine(dict.fromkeys(SIX, (1.0, 1e-3))), "holds"),
        ("05.1", machine(dict.fromkeys(SIX, (1.0, 1e-3)), bent=SIX[:1]), "does not hold"),
        ("05.1", machine(dict.fromkeys(SIX[:5], (1.0, 1e-3))), "not measured"),
        ("05.6", machine(dict.fromkeys(SIX, (1.0, 1e-3))), "holds"),
        ("05.6", machine(dict.fromkeys(SIX, (1.0, 1e-3)), bent=SIX[:1]), "does not hold"),
        ("05.2", machine(spread_out(100, 2000)), "holds"),
        ("05.2", machine({"numpy": (1.0, 0.0)}), "inconclusive"),
        ("05.2", machine({"numpy": (1.0, 1e-3)}, batches=[8, 32, 128]), "not measured"),
        ("05.3", machine(spread_out(100, 2000)), "holds"),
        ("05.3", machine(spread_out(100, 110)), "does not hold"),
        ("05.3", machine(spread_out(100, 300)), "inconclusive"),
        ("05.3", machine(spread_out(100)), "not measured"),
        ("05.5", machine(spread_out(100, 2000)), "holds"),
        ("05.5", machine(spread_out(100, 2000), bytes_a_sentence=5e6), "does not hold"),
    ],
)
def test_a_claim_is_judged(label, book, expected):
    assert verdict(label, book) == expected


def test_the_break_even_batch_is_ranked_with_the_cost_of_a_row():
    steps = spread_out(100, 400, 1600)
    up, down = (dict(zip(steps, each, strict=True)) for each in ((1e-7, 1e-6, 1e-5), (1e-5, 1e-6, 1e-7)))
    assert verdict("05.4", machine(steps, prices=up)) == "holds"
    assert verdict("05.4", machine(steps, prices=down)) == "does not hold"
    assert verdict("05.4", machine(steps, prices=up, noise=(1.0,))) == "inconclusive"
    assert verdict("05.4", machine(steps)) == "not measured"


# The page


def test_the_example_predicts_its_third_step_from_the_other_two():
    book = machine({batch.EXAMPLE_STACK: (0.5, 1e-3)}, noise=(1.0,))
    assert batch.example_steps(book) == pytest.approx((0.628, 1.524, 0.532, 0.532))
    assert batch.example_errors(book).max() == pytest.approx(0)
    bent = machine({"numpy": (0.5, 1e-3), "2026-jax": (0.5, 1e-3)}, bent=["numpy"], noise=(1.0,))
    assert (batch.example_errors(bent) > 0.1).to_dict() == {"numpy": True, "2026-jax": False}


def test_what_a_sentence_costs_is_a_column_a_batch():
    points = machine({"numpy": (1.0, 1e-3)}, batches=[8, 1024]).points(vocabulary=batch.VOCABULARY, batch=[8, 1024])
    assert cells(batch.a_sentence(points)) == [["numpy", "126,000", "1,977"]]


def test_the_cost_table_has_a_row_for_each_stack_and_device():
    rows = cells(batch.cost_table(machine({"numpy": (0.5, 1e-3)}, noise=(1.0,))))
    assert rows[0][:3] == ["numpy", "500", "1,000"]
    assert [row[0] for row in rows[1:]] == ["<em>the 2017 post's CPU</em>", "<em>the 2017 post's GPU</em>"]


# Other people's networks


def runs(step, sample, sizes, disturbed=0.0):
    """Their table: runs of one network whose epochs lie on a line; the last one's last epoch may be disturbed."""
    times = [-(-a100.SAMPLES // size) * step + a100.SAMPLES * sample for size in sizes]
    epochs = [[20.0, one, one] for one in times]
    epochs[-1][-1] += disturbed
    network = {"depth": 2, "base_filters": 16, "batch_size": sizes}
    return pd.DataFrame(network | {"epoch_times_json": [json.dumps(one) for one in epochs]})


@pytest.mark.parametrize("disturbed", [0.0, 5.0])
def test_two_costs_of_a_network_are_found_from_its_undisturbed_epochs(disturbed):
    (row,) = a100.fits(runs(2e-3, 1e-5, [32, 96, 768, 1000], disturbed)).to_dict("records")
    assert (row["step_s"], row["sample_s"]) == pytest.approx((2e-3, 1e-5))
    assert (row["epochs"], row["disturbed"], row["batches"]) == (8, bool(disturbed), 4)
    assert [row[name] for name in ("left_out_most", "two_most")] == pytest.approx([0, 0], abs=1e-9)


def test_an_epoch_off_the_line_is_missed_when_it_is_left_out():
    table = runs(2e-3, 1e-5, [32, 96, 384, 768])
    table.loc[2, "epoch_times_json"] = "[20, 2, 2]"  # 0.762 by the line
    (row,) = a100.fits(table).to_dict("records")
    assert row["left_out_most"] > row["two_most"] == pytest.approx(1 - 0.762 / 2, abs=1e-3)


def test_the_stored_fits_are_of_sixteen_networks_and_predict_left_out_batches():
    networks = batch.on_a100()
    assert (len(networks), networks["batches"].sum(), networks["disturbed"].sum()) == (16, 143, 2)
    assert networks["left_out_most"].max() < 0.08
