"""Chapter 08, the fused LSTM: what a position costs in each way of running it, and what a change of layer teaches."""

from traintime.book.chapters.fused import gpus
from traintime.book.chapters.fused.along import over_positions
from traintime.book.chapters.fused.analysis import (
    BATCHES,
    CAUSES,
    LATE,
    LENGTHS,
    POSITIONS,
    TASKS,
    WAYS,
    batches,
    by_position,
    causes,
    counted,
    floor_s,
    gains,
    kept,
    kept_gains,
    points,
    position,
    prices,
    trials,
)
from traintime.book.chapters.fused.claims import CLAIMS
from traintime.book.chapters.fused.others import of_the_document, published, published_table
from traintime.book.chapters.fused.shown import (
    cause_table,
    counted_table,
    gain_table,
    price_table,
    step_table,
    values,
)

__all__ = [
    "BATCHES",
    "CAUSES",
    "CLAIMS",
    "LATE",
    "LENGTHS",
    "POSITIONS",
    "TASKS",
    "WAYS",
    "batches",
    "by_position",
    "cause_table",
    "causes",
    "counted",
    "counted_table",
    "floor_s",
    "gain_table",
    "gains",
    "gpus",
    "kept",
    "kept_gains",
    "of_the_document",
    "over_positions",
    "points",
    "position",
    "price_table",
    "prices",
    "published",
    "published_table",
    "step_table",
    "trials",
    "values",
]
