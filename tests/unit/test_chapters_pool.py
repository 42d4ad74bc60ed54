"""What an allocator is worth, by time, by page faults and by a row, and the claims of the chapter on the pool."""

import pytest
from made_up import judged, measurements, rows, verdict
from tables import cells

from traintime.book.chapters import pool

pytestmark = pytest.mark.usefixtures("few_draws")
MANY, SOME, FEW = 6 * pool.pages(), pool.pages(), 0.1 * pool.pages()
PLAIN = dict.fromkeys(pool.MANY, MANY) | {"2026-jax": SOME} | dict.fromkeys(pool.FEW, FEW)
SLOW = {stack: 1.0 if stack in (*pool.MANY, "2026-jax") else 0.3 for stack in PLAIN}
FAST = {"2020-tensorflow": 0.3, "2026-torch": 0.4, "2026-jax": 0.5, "numpy": 0.2}


def part(stack, allocator, seconds, faults=FEW, vocabulary=pool.ROWS, sweep="one", rounds=5, error=0.02, **more):
    """Invocations of one stack under one allocator."""
    point = {"vocabulary": vocabulary, "allocator": allocator} | more.pop("fields", {})
    found = rows(stack, [point], lambda _: seconds, error, rounds)
    return found.assign(sweep=sweep, faults_a_step=faults, **more)


def machine(allocator="tcmalloc", fast=None, faults=None, other="one", **more):
    """Every stack under plain glibc and one other; fast: seconds under it (else glibc's); other: its sweep."""
    fast, faults = FAST if fast is None else fast, {} if faults is None else faults
    parts = []
    for stack, plain in PLAIN.items():
        parts.append(part(stack, "glibc", SLOW[stack], plain, **more))
        parts.append(part(stack, allocator, fast.get(stack, SLOW[stack]), faults.get(stack, 0), sweep=other, **more))
    return measurements(*parts)


# Speed and faults


def test_a_gain_is_the_ratio_of_the_steps_and_is_told_apart_where_both_ran_in_the_same_rounds():
    table = pool.gains(machine()).set_index("stack")
    assert table.loc["2020-tensorflow", "ratio"] == pytest.approx(1 / 0.3, rel=0.1)
    assert table.loc["2020-tensorflow", "reason"] == "significant"
    assert table.loc["2020-tensorflow", "faster"] == "tcmalloc"
    assert table.loc["2017-theano", "reason"] == "within noise"


def test_the_price_of_a_fault_is_time_saved_over_faults_spared_where_there_are_many():
    prices = pool.fault_prices(machine(error=1e-6))
    assert set(prices) == {*pool.MANY, "2026-jax"}
    assert prices["2020-tensorflow"].value == pytest.approx(0.7 / MANY, rel=1e-3)
    assert prices["2026-jax"].low < prices["2026-jax"].value < prices["2026-jax"].high


def test_faults_by_stack_are_in_tables_of_pages(monkeypatch):
    assert verdict("04.2", machine()) == "holds"
    assert "2020-tensorflow 6.0" in judged("04.2", machine()).figure
    monkeypatch.setitem(PLAIN, "numpy", MANY)
    assert verdict("04.2", machine()) == "does not hold"


# oneDNN


def tensorflow(on=0.18, on_kept=0.18, off=0.5, off_kept=0.18, error=0.01, faults=100, sweeps=("one", "one")):
    """TensorFlow with oneDNN by itself, and with it switched off, each under two allocators."""
    parts = []
    for state, path, times, sweep in (
        ("auto", "oneDNN, OpenBLAS", (on, on_kept), sweeps[0]),
        ("off", "no oneDNN, OpenBLAS", (off, off_kept), sweeps[1]),
    ):
        for allocator, seconds in zip(pool.BOTH, times, strict=True):
            each = MANY if (state, allocator) == ("off", "glibc") else faults
            more = {"fields": {"onednn": state}, "path": path, "sweep": sweep, "error": error}
            parts.append(part(pool.TENSORFLOW, allocator, seconds, each, **more))
    return measurements(*parts)


def test_an_old_record_says_nothing_of_onednn_and_is_left_out():
    old = part(pool.TENSORFLOW, "glibc", 0.9, path="")
    assert pool.onednn(measurements(old)).empty
    book = measurements(old, tensorflow().rows)
    table = cells(pool.onednn_table(book))
    assert [row[:2] for row in table] == [[state, name] for state in ("on", "off") for name in pool.BOTH]


def test_the_cost_of_a_page_fault_counts_tensorflow_without_onednn_too():
    costs = pool.fault_costs(measurements(machine(error=1e-6).rows, tensorflow(error=1e-6).rows))
    assert set(costs) == {*pool.MANY, "2026-jax", "2026-tensorflow, no oneDNN"}
    assert costs["2026-tensorflow, no oneDNN"].value == pytest.approx((0.5 - 0.18) / (MANY - 100), rel=1e-3)


# The bend


def bent(factor=4.0, error=0.005, other="one"):
    """Rows at 1 µs under tcmalloc; under glibc `factor` times as expensive."""
    parts = []
    for stack in ("2017-theano", *pool.BENT):
        for size in sorted([*pool.BEND, pool.ROWS]):
            more = {"vocabulary": size, "error": error}
            parts.append(part(stack, "tcmalloc", 0.05 + 1e-6 * size, **more))
            expensive = 0.05 + 1e-6 * factor * size
            parts.append(part(stack, "glibc", expensive, MANY * size / pool.ROWS, sweep=other, **more))
    return measurements(*parts)


def test_the_cost_of_a_row_is_compared_by_the_steps_of_the_figure():
    for sweep in ("one", "another"):
        ratio = pool.row_ratios(bent(error=1e-6, other=sweep), "numpy").most
        assert (ratio.name, ratio.alone) == ("numpy", "4.0")
    assert set(pool.bend(bent())["stack"]) == {"2017-theano", *pool.BENT}


# Claims


def on_gpu(without=0.02, sweep="one"):
    """torch on a GPU with its pool, 10 ms a step, and without."""
    both = ("glibc", 0.01, "one"), ("no-pool", without, sweep)
    more = {"vocabulary": 280_000, "fields": {"device": "gpu", "kernel": "cudnn"}}
    return measurements(*(part("2026-torch", name, seconds, sweep=of, **more) for name, seconds, of in both))


SAVES = {"2020-tensorflow": 0.6, "2017-tensorflow": 0.6, "2026-torch": 0.6, "2026-jax": 0.9}
APART = {"sweeps": ("one", "two")}


@pytest.mark.parametrize(
    ("label", "make", "holds", "fails", "apart"),
    [
        ("04.1", on_gpu, {}, {"without": 0.0105}, {"sweep": "another"}),
        ("04.3", machine, {}, {"fast": {}}, {"other": "another"}),
        ("04.9", machine, {"fast": SAVES}, {"fast": SAVES | {"2026-jax": 0.01}}, {"fast": SAVES, "other": "another"}),
        ("04.11", tensorflow, {}, {"off": 0.2}, APART),
        ("04.12", tensorflow, {}, {"off_kept": 0.4}, APART),
    ],
)
def test_a_claim_holds_or_fails_and_of_other_rounds_cannot_be_told(label, make, holds, fails, apart):
    assert verdict(label, make(**holds)) == "holds"
    assert verdict(label, make(**fails)) == "does not hold"
    assert verdict(label, make(**apart)) == "inconclusive"


def test_noise_hides_a_gain():
    assert verdict("04.3", machine(error=1.0)) == "inconclusive"
