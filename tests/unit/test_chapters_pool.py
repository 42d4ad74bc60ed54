"""What oneDNN did, as chapter 2 says it."""

import pytest
from made_up import measurements, rows

from traintime.book.chapters import pool

pytestmark = pytest.mark.usefixtures("few_draws")


def part(seconds, path="", **fields):
    """Invocations of Keras 3 on TensorFlow under one allocator."""
    found = rows("2026-tensorflow", [{"vocabulary": pool.ROWS} | fields], lambda _: seconds, 0.02, 5)
    return found.assign(sweep="one", path=path)


def test_an_old_record_says_nothing_of_onednn_and_is_left_out():
    old = part(0.9)
    assert pool.onednn(measurements(old)).empty
    on = part(0.2, "oneDNN, OpenBLAS")
    off = part(0.5, "no oneDNN, OpenBLAS", onednn="off")
    assert pool.without_onednn(measurements(old, on, off)).most.value == pytest.approx(2.5, rel=0.1)
