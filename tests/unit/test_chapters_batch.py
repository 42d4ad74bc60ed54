"""The critical batch, what a larger batch gains, the price in memory, and the claims of the chapter on the batch."""

import numpy as np
import pytest
from made_up import made_up, verdict, verdicts
from tables import cells

from traintime.book import stored
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


def spread_out(*critical):
    """Steps of that many stacks with these critical batches."""
    return {stack: (at * 1e-3, 1e-3) for stack, at in zip(SIX, critical, strict=False)}


# The critical batch


def test_the_critical_batch_is_the_fixed_part_over_the_part_of_a_sentence():
    book = machine({"numpy": (0.5, 1e-3), "2026-jax": (0.2, 2e-3)})
    ours = batch.critical_batches(book)
    assert ours["critical"].to_dict() == pytest.approx({"numpy": 500, "2026-jax": 100})
    assert ours["F"].to_dict() == pytest.approx({"numpy": 0.5, "2026-jax": 0.2})
    assert (ours["low"] < ours["critical"]).all()
    assert (ours["critical"] < ours["high"]).all()
    assert (ours["error"] < 1e-6).all()


def test_without_repeats_it_has_no_interval_and_no_verdict():
    book = machine(spread_out(100, 2000), noise=(1.0,))
    assert batch.critical_batches(book)["low"].isna().all()
    assert verdict("05.3", book) == "cannot be told"


def test_a_step_that_does_not_grow_with_the_batch_has_no_critical_one():
    assert batch.lines(machine({"numpy": (0.5, 0.0)})) == {}


def test_an_epoch_has_as_many_steps_as_batches_begin():
    book = machine({"numpy": (1.0, 0.0)}, batches=[1024])
    assert batch.by_batch(book)["epoch_s"].tolist() == [pytest.approx(977)]


def test_the_documents_devices_have_theirs_and_the_gain_that_follows():
    document = batch.document_devices(200)
    assert sorted(document.index) == ["CPU", "GPU"]
    assert ((document["low"] <= document["critical"]) & (document["critical"] <= document["high"])).all()
    assert document.loc["GPU", "gain"] == pytest.approx(document.loc["GPU", "seen"], rel=0.1)


def test_the_gain_of_a_larger_batch_is_that_of_an_epoch():
    book = machine({"numpy": (1.0, 0.0), "2026-jax": (0.0, 1e-3)})
    gains = batch.epoch_gains(book)
    assert gains["numpy"].value == pytest.approx(8)
    assert gains["2026-jax"].value == pytest.approx(1)
    assert all(each.low < each.value < each.high for each in gains.values())


def test_rank_correlation_of_each_draw():
    one = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    two = np.array([[10.0, 30.0], [20.0, 20.0], [30.0, 10.0]])
    assert batch.spearman(one, two) == pytest.approx([1, -1])


def test_the_critical_batch_under_tcmalloc_stands_beside_the_one_under_glibc():
    def line(stack, fixed, batches, **fields):
        return [(stack, {"vocabulary": 280_000, "batch": size, **fields}, fixed + 1e-3 * size) for size in batches]

    glibc = [*line("numpy", 1.0, batch.SWEPT), *line("2026-jax", 1.0, batch.SWEPT)]
    pooled = line("numpy", 0.25, batch.UNDER_TCMALLOC, allocator="tcmalloc")
    (row,) = cells(batch.tcmalloc_table(made_up(*glibc, *pooled)))
    assert row[:3] == ["numpy", "1,000 → 250", "1,000 → 1,000"]
    assert [text.split()[0] for text in row[3:]] == ["1,000", "250"]
    assert batch.under_tcmalloc(made_up(*glibc)).empty


# Memory


def test_a_sentence_costs_what_the_peak_grows_by():
    book = machine({"numpy": (1.0, 1e-3)}, bytes_a_sentence=300e3)
    assert batch.bytes_a_sentence(book)["numpy"] == pytest.approx(300e3)
    assert cells(batch.memory_table(book)) == [["numpy", "0.93", "0.97", "1.22", "2.08", "293"]]


def test_a_stack_without_a_larger_batch_has_no_cost_of_a_sentence():
    book = machine({"numpy": (1.0, 1e-3)}, batches=[8, 32, 128])
    assert batch.bytes_a_sentence(book).empty
    assert cells(batch.memory_table(book))[0][-1] == ""


# Claims


@pytest.mark.parametrize(
    ("label", "book", "expected"),
    [
        ("05.1", machine(dict.fromkeys(SIX, (1.0, 1e-3))), "holds"),
        ("05.1", machine(dict.fromkeys(SIX, (1.0, 1e-3)), bent=SIX[:1]), "does not hold"),
        ("05.1", machine(dict.fromkeys(SIX[:5], (1.0, 1e-3))), "not measured"),
        ("05.2", machine(spread_out(100, 2000)), "holds"),
        ("05.2", machine({"numpy": (1.0, 0.0)}), "cannot be told"),
        ("05.2", machine({"numpy": (1.0, 1e-3)}, batches=[8, 32, 128]), "not measured"),
        ("05.3", machine(spread_out(100, 2000)), "holds"),
        ("05.3", machine(spread_out(100, 110)), "does not hold"),
        ("05.3", machine(spread_out(100, 300)), "cannot be told"),
        ("05.3", machine(spread_out(100)), "not measured"),
        ("05.5", machine(spread_out(100, 2000)), "holds"),
        ("05.5", machine(spread_out(100, 2000), bytes_a_sentence=5e6), "does not hold"),
    ],
)
def test_a_claim_is_judged(label, book, expected):
    assert verdict(label, book) == expected


def test_the_critical_batch_is_ranked_with_the_price_of_a_row():
    steps = spread_out(100, 400, 1600)
    up, down = (dict(zip(steps, each, strict=True)) for each in ((1e-7, 1e-6, 1e-5), (1e-5, 1e-6, 1e-7)))
    assert verdict("05.4", machine(steps, prices=up)) == "holds"
    assert verdict("05.4", machine(steps, prices=down)) == "does not hold"
    assert verdict("05.4", machine(steps, prices=up, noise=(1.0,))) == "cannot be told"
    assert verdict("05.4", machine(steps)) == "not measured"


@pytest.mark.parametrize("batches", [[8], [8, 64, 512], [1024, 4096]])
@pytest.mark.parametrize("noise", [NOISE, (1.0,)])
def test_a_machine_with_fewer_batches_has_measured_nothing(batches, noise):
    found = verdicts("05-batch-size", machine({"numpy": (1.0, 1e-3)}, batches, noise))
    assert found == dict.fromkeys(found, "not measured")


# The page


def test_every_number_is_given():
    full = batch.PROSE.values(stored.of()) | batch.document_numbers(batch.document_devices(100))
    assert not [name for name, text in full.items() if "nan" in text or "not measured" in text]


def test_the_example_predicts_its_third_step_from_the_other_two():
    texts = batch.PROSE.values(machine({batch.EXAMPLE_STACK: (0.5, 1e-3)}, noise=(1.0,)))
    assert [texts[f"bat-example-{name}"] for name in ("one", "promised", "took")] == ["628 ms", "4596 ms", "4596 ms"]


def test_what_a_sentence_costs_is_a_column_a_batch():
    points = machine({"numpy": (1.0, 1e-3)}, batches=[8, 1024]).points(vocabulary=batch.VOCABULARY, batch=[8, 1024])
    assert cells(batch.a_sentence(points)) == [["numpy", "126,000", "1,977"]]
