"""Speed with an allocator, page faults, and oneDNN, as chapters 2 and 7 say them."""

import pytest
from made_up import measurements, rows

from traintime.book.chapters import pool

pytestmark = pytest.mark.usefixtures("few_draws")


def part(stack, seconds, faults, path="", **fields):
    """Invocations of one stack under one allocator."""
    found = rows(stack, [{"vocabulary": pool.ROWS} | fields], lambda _: seconds, 0.02, 5)
    return found.assign(sweep="one", faults_a_step=faults, path=path)


def test_speed_is_the_ratio_of_the_steps_and_page_faults_are_counted_by_stack_and_allocator():
    plain = part("2026-torch", 1.0, 6 * pool.pages(), allocator="glibc")
    book = measurements(plain, part("2026-torch", 0.4, 100, allocator="tcmalloc"))
    assert pool.speeds(book, "tcmalloc", "2026-torch").most.value == pytest.approx(2.5, rel=0.1)
    assert pool.faults(book)["2026-torch", "glibc"] / pool.pages() == pytest.approx(6)


def test_an_old_record_says_nothing_of_onednn_and_is_left_out():
    old = part("2026-tensorflow", 0.9, 0)
    assert pool.onednn(measurements(old)).empty
    on = part("2026-tensorflow", 0.2, 0, "oneDNN, OpenBLAS")
    off = part("2026-tensorflow", 0.5, 0, "no oneDNN, OpenBLAS", onednn="off")
    assert pool.without_onednn(measurements(old, on, off)).most.value == pytest.approx(2.5, rel=0.1)
