"""Chapter 08, the fused LSTM: what a position costs in each way of running it, and what a change of layer teaches."""

from traintime.book.chapters.fused.analysis import (
    BATCHES,
    CAUSES,
    LENGTHS,
    POSITIONS,
    WAYS,
    batches,
    causes,
    difference,
    gains,
    on_gpus,
    points,
    position,
    prices,
    share,
    trials,
)
from traintime.book.chapters.fused.claims import CLAIMS
from traintime.book.chapters.fused.shown import cause_table, gain_table, price_table, step_table, values

__all__ = [
    "BATCHES",
    "CAUSES",
    "CLAIMS",
    "LENGTHS",
    "POSITIONS",
    "WAYS",
    "batches",
    "cause_table",
    "causes",
    "difference",
    "gain_table",
    "gains",
    "on_gpus",
    "points",
    "position",
    "price_table",
    "prices",
    "share",
    "step_table",
    "trials",
    "values",
]
