"""Chapter 16, beat the formula: each row trained when it is next read; the same training, and what it costs."""

from traintime.book.chapters.rows.analysis import (
    DEFERRED,
    DENSE,
    FROZEN,
    MANY,
    SWEEP,
    apart,
    compared,
    growth,
    kerass,
    learned,
    others,
    peaks,
    points,
    ratios,
    trials,
)
from traintime.book.chapters.rows.claims import CLAIMS
from traintime.book.chapters.rows.shown import (
    cost_table,
    here_table,
    learned_table,
    memory_table,
    others_table,
    values,
)

__all__ = [
    "CLAIMS",
    "DEFERRED",
    "DENSE",
    "FROZEN",
    "MANY",
    "SWEEP",
    "apart",
    "compared",
    "cost_table",
    "growth",
    "here_table",
    "kerass",
    "learned",
    "learned_table",
    "memory_table",
    "others",
    "others_table",
    "peaks",
    "points",
    "ratios",
    "trials",
    "values",
]
