"""What chapter 13 tells of memory, on made-up data."""

import pytest
from made_up import made_up

from traintime.book.chapters import memory

MIB = 2**20


def test_bfloat16_is_held_against_the_usual_training_without_the_data_that_lie_ready():
    points = [("2026-jax", memory.LARGE, 1.0, {"peak_bytes": 900 * MIB})]  # not measured with bfloat16
    for precision, held in (("float32", 1000), ("mixed-bfloat16", 600)):
        fields = memory.LAYERS | {"precision": precision}
        points.append(("2026-jax", fields, 1.0, {"peak_bytes": held * MIB + 16 * 4 * 8192 * 110}))
    (row,) = memory.frees(made_up(*points)).itertuples()
    assert (row.way, row.stack) == ("bfloat16", "2026-jax")
    assert row.peak.value == pytest.approx(0.6)
