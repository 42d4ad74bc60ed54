"""The break-even batch, what a larger batch gains and costs, and the claims of the chapter on the batch."""

import pytest
from made_up import made_up, verdict

from traintime.book.chapters import batch

pytestmark = pytest.mark.usefixtures("few_draws")
SIX = ["2017-theano", "2017-tensorflow", "2020-theano", "2026-tensorflow", "2026-jax", "numpy"]


def machine(steps, batches=batch.BATCHES, bent=(), **more):
    """Measurements of steps F + c * batch. steps: stack -> (F, c) in s.

    bent: stacks whose step alternates between half and twice its line.
    """
    made = []
    for stack, (fixed, each) in steps.items():
        for place, size in enumerate(batches):
            factor = (2 if place % 2 else 0.5) if stack in bent else 1
            made.append((stack, {"vocabulary": batch.VOCABULARY, "batch": size}, (fixed + each * size) * factor))
    return made_up(*made, **more)


def spread_out(*break_even):
    """Steps of that many stacks with these break-even batches."""
    return {stack: (at * 1e-3, 1e-3) for stack, at in zip(SIX, break_even, strict=False)}


# The break-even batch


def test_the_break_even_batch_is_the_fixed_cost_over_the_cost_of_a_sentence():
    book = machine({"numpy": (0.5, 1e-3), "2026-jax": (0.2, 2e-3)})
    ours = batch.break_evens(book)
    assert ours["break_even"].to_dict() == pytest.approx({"numpy": 500, "2026-jax": 100})
    assert ours["F"].to_dict() == pytest.approx({"numpy": 0.5, "2026-jax": 0.2}, rel=1e-3)
    assert (ours["low"] < ours["break_even"]).all()
    assert (ours["break_even"] < ours["high"]).all()
    assert (ours["error"] < 1e-6).all()


def test_without_repeats_it_has_no_interval_and_no_verdict():
    book = machine(spread_out(100, 2000), noise=(1.0,))
    assert batch.break_evens(book)["low"].isna().all()
    assert verdict("05.3", book) == "inconclusive"


def test_an_epoch_has_as_many_steps_as_batches_begin():
    book = machine({"numpy": (1.0, 0.0)}, batches=[1024])
    assert batch.by_batch(book)["epoch_s"].tolist() == [pytest.approx(977, rel=1e-3)]


def test_the_gain_of_a_larger_batch_is_that_of_an_epoch():
    book = machine({"numpy": (1.0, 0.0), "2026-jax": (0.0, 1e-3)})
    gains = batch.epoch_gains(book)
    assert gains["numpy"].value == pytest.approx(8)
    assert gains["2026-jax"].value == pytest.approx(1)
    assert all(each.low < each.value < each.high for each in gains.values())


# What changes the two costs


def test_what_an_allocator_leaves_of_each_cost():
    steps = [
        ("numpy", {"vocabulary": batch.VOCABULARY, "batch": size, "allocator": allocator}, fixed + each * size)
        for allocator, sizes, fixed, each in (
            ("glibc", batch.SWEPT, 0.4, 1e-3),
            ("tcmalloc", batch.UNDER_TCMALLOC, 0.1, 5e-4),
        )
        for size in sizes
    ]
    book = made_up(*steps)
    assert batch.left(book, "F")["numpy"].value == pytest.approx(0.25)
    assert batch.left(book, "c")["numpy"].value == pytest.approx(0.5)
    assert len(batch.left(machine({"numpy": (0.4, 1e-3)}), "F")) == 0


def test_on_a_gpu_it_follows_from_two_steps():
    steps = [("2026-jax", batch.ON_GPU | {"batch": size}, 3e-3 + 1e-6 * size) for size in batch.GPU_BATCHES]
    book = made_up(*steps)
    assert batch.gpu_break_evens(book)["2026-jax"].value == pytest.approx(3000)
    assert batch.gpu_break_evens(book)["2026-jax"].alone == "3 thousand"
    assert len(batch.on_gpu(machine({"numpy": (0.4, 1e-3)}))) == 0


# Claims


@pytest.mark.parametrize(
    ("label", "book", "expected"),
    [
        ("05.1", machine(dict.fromkeys(SIX, (1.0, 1e-3))), "holds"),
        ("05.1", machine(dict.fromkeys(SIX, (1.0, 1e-3)), bent=SIX[:1]), "does not hold"),
        ("05.1", machine(dict.fromkeys(SIX[:5], (1.0, 1e-3))), "not measured"),
        ("05.2", machine(spread_out(100, 2000)), "holds"),
        ("05.2", machine({"numpy": (1.0, 0.0)}), "inconclusive"),
        ("05.2", machine({"numpy": (1.0, 1e-3)}, batches=[8, 32, 128]), "not measured"),
        ("05.3", machine(spread_out(100, 2000)), "holds"),
        ("05.3", machine(spread_out(100, 110)), "does not hold"),
        ("05.3", machine(spread_out(100, 300)), "inconclusive"),
        ("05.3", machine(spread_out(100)), "not measured"),
    ],
)
def test_a_claim_is_judged(label, book, expected):
    assert verdict(label, book) == expected


# The page


def test_the_example_predicts_its_third_step_from_the_other_two():
    book = machine({batch.EXAMPLE_STACK: (0.5, 1e-3)}, noise=(1.0,))
    assert batch.example_steps(book) == pytest.approx((0.628, 1.524, 0.532, 0.532))
    assert batch.example_errors(book).most.value == pytest.approx(0)
    bent = machine({"numpy": (0.5, 1e-3), "2026-jax": (0.5, 1e-3)}, bent=["numpy"], noise=(1.0,))
    assert {name: miss.value > 0.1 for name, miss in batch.example_errors(bent).items()} == {
        "numpy": True,
        "2026-jax": False,
    }
