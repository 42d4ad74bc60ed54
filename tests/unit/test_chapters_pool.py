"""What an allocator is worth, by time, by page faults and by a row, and the claims of the chapter on the pool."""

import numpy as np
import pandas as pd
import pytest
from made_up import judged, measurements, rows, verdict, verdicts
from tables import cells

from traintime.book import stored
from traintime.book.chapters import pool, pool_gains
from traintime.book.stored import Measurements

pytestmark = pytest.mark.usefixtures("few_draws")
MANY, SOME, FEW = 6 * pool_gains.pages(), pool_gains.pages(), 0.1 * pool_gains.pages()
PLAIN = dict.fromkeys(pool_gains.MANY, MANY) | {"2026-jax": SOME} | dict.fromkeys(pool_gains.FEW, FEW)
SLOW = {stack: 1.0 if stack in (*pool_gains.MANY, "2026-jax") else 0.3 for stack in PLAIN}
FAST = {"2020-tensorflow": 0.3, "2026-torch": 0.4, "2026-jax": 0.5, "numpy": 0.2}


def part(stack, allocator, seconds, faults=FEW, vocabulary=pool_gains.ROWS, sweep="one", rounds=5, error=0.02, **more):
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
    table = pool_gains.gains(machine()).set_index("stack")
    assert table.loc["2020-tensorflow", "ratio"] == pytest.approx(1 / 0.3, rel=0.1)
    assert table.loc["2020-tensorflow", "reason"] == "significant"
    assert table.loc["2020-tensorflow", "faster"] == "tcmalloc"
    assert table.loc["2017-theano", "reason"] == "within noise"
    assert (pool_gains.gains(machine(other="another"))["reason"] == "not interleaved").all()


@pytest.mark.parametrize(
    ("label", "fails", "cannot_be_told"),
    [
        ("04.3", {"fast": {}}, {"error": 1.0}),
        ("04.4", {"fast": {"2017-theano": 0.1}}, {"error": 1.0}),
        ("04.5", {"fast": {"numpy": 0.9}}, {"fast": {}}),
    ],
)
def test_a_claim_on_the_gain_holds_fails_or_cannot_be_told(label, fails, cannot_be_told):
    assert verdict(label, machine()) == "holds"
    assert verdict(label, machine(**fails)) == "does not hold"
    assert verdict(label, machine(**cannot_be_told)) == "inconclusive"
    assert verdict(label, machine(other="another")) == "inconclusive"


def test_what_a_spared_fault_saves_is_judged_where_both_ran_in_the_same_rounds():
    fast = {"2020-tensorflow": 0.6, "2017-tensorflow": 0.6, "2026-torch": 0.6, "2026-jax": 0.94}
    assert verdict("04.9", machine(fast=fast)) == "holds"
    assert verdict("04.9", machine(fast=fast | {"2026-jax": 0.01})) == "does not hold"
    assert verdict("04.9", machine(fast=fast, other="another")) == "inconclusive"


def test_the_price_of_a_fault_is_time_saved_over_faults_spared_where_there_are_many():
    prices = pool_gains.fault_prices(machine(error=1e-6))
    assert set(prices) == {*pool_gains.MANY, "2026-jax"}
    assert prices["2020-tensorflow"].value == pytest.approx(0.7 / MANY, rel=1e-3)
    assert prices["2026-jax"].low < prices["2026-jax"].value < prices["2026-jax"].high


@pytest.mark.parametrize(
    ("label", "allocator", "holds", "fails"),
    [
        ("04.6", "glibc-keep", {}, {"2020-tensorflow": MANY}),
        ("04.7", "glibc-keep-arenas", {"2020-tensorflow": MANY}, {}),
        ("04.8", "jemalloc", {"2020-tensorflow": MANY, "2026-torch": MANY}, {"2020-tensorflow": MANY}),
    ],
)
def test_a_claim_on_faults_needs_no_common_rounds(label, allocator, holds, fails):
    for other in ("one", "another"):
        assert verdict(label, machine(allocator, faults=holds, other=other)) == "holds"
        assert verdict(label, machine(allocator, faults=fails, other=other)) == "does not hold"
    assert verdict(label, machine()) == "not measured"


def test_faults_by_stack_are_in_tables_of_pages(monkeypatch):
    assert verdict("04.2", machine()) == "holds"
    assert "2020-tensorflow 6.0" in judged("04.2", machine()).figure
    monkeypatch.setitem(PLAIN, "numpy", MANY)
    assert verdict("04.2", machine()) == "does not hold"


def test_the_table_of_gains_has_the_stacks_with_something_to_compare():
    book = measurements(
        part("numpy", "glibc", 0.3),
        part("numpy", "tcmalloc", 0.2, 1),
        part("2026-jax", "glibc", 0.1),
        part("2026-torch", "tcmalloc", 0.1),
    )
    plain, pooled = cells(pool_gains.gains_table(book))
    assert [*plain[:2], *plain[3:]] == ["numpy", "glibc", f"{FEW:,.0f}", "0.9", "1"]
    assert pooled[1] == "tcmalloc"
    assert pooled[-1].endswith("<br>significant")


def test_memory():
    assert verdict("04.15", machine()) == "holds"
    book = measurements(part("numpy", "glibc", 0.3), part("numpy", "tcmalloc", 0.3, peak_bytes=2e9))
    assert verdict("04.15", book) == "does not hold"


# oneDNN


def tensorflow(on=0.18, on_kept=0.18, off=0.5, off_kept=0.18, error=0.01, faults=100, sweeps=("one", "one")):
    """TensorFlow with oneDNN by itself, and with it switched off, each under two allocators."""
    parts = []
    for state, path, times, sweep in (
        ("auto", "oneDNN, OpenBLAS", (on, on_kept), sweeps[0]),
        ("off", "no oneDNN, OpenBLAS", (off, off_kept), sweeps[1]),
    ):
        for allocator, seconds in zip(pool_gains.BOTH, times, strict=True):
            each = faults if state == "auto" else MANY
            more = {"fields": {"onednn": state}, "path": path, "sweep": sweep, "error": error}
            parts.append(part(pool.TENSORFLOW, allocator, seconds, each, **more))
    return measurements(*parts)


def test_what_onednn_did_is_read_from_the_path():
    found = pool.onednn(tensorflow())
    assert found.groupby("onednn")["faults_a_step"].max().to_dict() == {"off": MANY, "on": 100}


def test_an_old_record_says_nothing_of_onednn_and_gives_way_to_new_ones():
    old = part(pool.TENSORFLOW, "glibc", 0.9, path="")
    assert set(pool.onednn(measurements(old))["onednn"]) == {"not recorded"}
    assert set(pool.onednn(measurements(old, tensorflow().rows))["onednn"]) == {"on", "off"}
    table = cells(pool.onednn_table([measurements(old)]))
    assert [row[1:3] for row in table] == [["not recorded", "glibc"]]


@pytest.mark.parametrize(
    ("label", "fails", "cannot_be_told"),
    [
        ("04.10", {"on_kept": 0.1}, {"error": 1.0}),
        ("04.10", {"faults": MANY}, {"sweeps": ("one", "one"), "error": 1.0}),
        ("04.11", {"off": 0.2}, {"sweeps": ("one", "two")}),
        ("04.12", {"off_kept": 0.4}, {"sweeps": ("one", "two")}),
    ],
)
def test_a_claim_on_onednn_holds_fails_or_cannot_be_told(label, fails, cannot_be_told):
    assert verdict(label, tensorflow()) == "holds"
    assert verdict(label, tensorflow(**fails)) == "does not hold"
    assert verdict(label, tensorflow(**cannot_be_told)) == "inconclusive"
    assert verdict(label, measurements(part(pool.TENSORFLOW, "glibc", 0.9, path=""))) == "not measured"


def test_the_share_that_tcmalloc_takes_away():
    share = pool.taken_away(tensorflow(on=0.2, off=0.6, off_kept=0.4, error=1e-6))
    assert share.value == pytest.approx(0.5, rel=1e-3)
    with pytest.raises(KeyError):
        pool.taken_away(measurements(part(pool.TENSORFLOW, "glibc", 0.9)))


# The bend


def bent(factor=4.0, kept=1.0, error=0.005, other="one"):
    """Rows at 1 µs under tcmalloc, `kept` times that beyond 80,000; under glibc `factor` times as dear."""
    parts = []
    for stack in ("2017-theano", *pool.BENT):
        for size in sorted([*pool.BEND, pool_gains.ROWS]):
            cheap = 0.05 + 1e-6 * (min(size, 80_000) + kept * max(size - 80_000, 0))
            more = {"vocabulary": size, "error": error}
            parts.append(part(stack, "tcmalloc", cheap, **more))
            dear = 0.05 + 1e-6 * factor * size
            parts.append(part(stack, "glibc", dear, MANY * size / pool_gains.ROWS, sweep=other, **more))
    return measurements(*parts)


def test_prices_of_rows():
    book = bent(error=1e-6)
    assert pool.row_ratio(book, "numpy").value == pytest.approx(4, rel=1e-3)
    assert [price.value for price in pool.row_prices(book, "numpy")] == pytest.approx([4e-6, 1e-6], rel=1e-3)
    assert pool.further_rows(bent(kept=2, error=1e-6), "numpy").value == pytest.approx(2, rel=1e-3)
    assert np.isnan(pool.row_ratio(bent(other="another"), "numpy").low)


@pytest.mark.parametrize(
    ("label", "fails", "cannot_be_told"),
    [("04.13", {"kept": 3}, {"error": 0.3}), ("04.14", {"factor": 1.1}, {"other": "another"})],
)
def test_a_claim_on_the_bend_holds_fails_or_cannot_be_told(label, fails, cannot_be_told):
    assert verdict(label, bent()) == "holds"
    assert verdict(label, bent(**fails)) == "does not hold"
    assert verdict(label, bent(**cannot_be_told)) == "inconclusive"


def test_the_bend_needs_all_vocabularies_under_both_allocators():
    book = bent()
    found = pool.bend(book)
    assert len(found) == 4 * 4 * 2
    assert set(found[found["allocator"] == "glibc"]["tables"].round(6)) == {6.0}
    lacking = book.rows[~((book.rows["stack"] == "numpy") & (book.rows["vocabulary"] == 80_000))]
    assert "numpy" not in set(pool.bend(Measurements(lacking))["stack"])


# On a GPU


def on_gpu(allocator, seconds, **more):
    fields = {"device": "gpu", "kernel": "cudnn"}
    return part("2026-torch", allocator, seconds, vocabulary=280_000, fields=fields, **more)


def test_a_gpu_without_its_pool():
    assert verdict("04.1", measurements(on_gpu("glibc", 0.01), on_gpu("no-pool", 0.02))) == "holds"
    assert verdict("04.1", measurements(on_gpu("glibc", 0.01), on_gpu("no-pool", 0.0105))) == "does not hold"
    apart = measurements(on_gpu("glibc", 0.01), on_gpu("no-pool", 0.02, sweep="another"))
    assert verdict("04.1", apart) == "inconclusive"


# What a machine lacks


@pytest.mark.parametrize("stacks", [["numpy"], ["2026-torch", "2020-tensorflow"], ["2017-theano"]])
def test_a_machine_with_fewer_stacks_has_not_measured_the_rest(stacks):
    whole = pd.concat([machine().rows, bent().rows], ignore_index=True)
    book = Measurements(whole[whole["stack"].isin(stacks)], "made-up")
    assert "not measured" in verdicts("04-memory-pool", book).values()
    assert all((pool.PROSE.values(book) | pool.ELSEWHERE.values(book)).values())


def test_an_invocation_that_did_not_count_its_faults_leaves_a_hole():
    book = measurements(
        part("2020-tensorflow", "glibc", 1.0, np.nan), part("2020-tensorflow", "glibc-keep", 0.3, np.nan)
    )
    assert pool.ELSEWHERE.values(book)["pool-faults-plain"] == "(not measured)"
    assert verdict("04.6", book) == "not measured"


def test_the_table_of_this_run_shows_what_is_stored_of_the_same_configuration():
    book = measurements(part("numpy", "glibc", 0.3, 10, error=1e-6), part("numpy", "tcmalloc", 0.2, np.nan, error=1e-6))
    known = measurements(part("numpy", "glibc", 0.4, error=1e-6))
    points = book.points(vocabulary=pool_gains.ROWS, allocator=stored.ANY)
    texts = cells(pool_gains.here_table(book, points, known))
    assert texts == [["numpy", "tcmalloc", "200", "", ""], ["numpy", "glibc", "300", "10", "400"]]
