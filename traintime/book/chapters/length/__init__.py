"""Chapter 06, sentence length: the points it shows, what it foretells from one length, and what it claims."""

from traintime.book.chapters.length.analysis import (
    TABLE,
    by_length,
    doubled,
    exponents,
    kept,
    lost,
    missed,
    padded,
    padding,
    predicted,
    table_of,
    tail,
)
from traintime.book.chapters.length.claims import CLAIMS
from traintime.book.chapters.length.shown import (
    exponent_table,
    kept_table,
    live_table,
    lost_table,
    lost_values,
    padded_table,
    predicted_table,
    values,
)

__all__ = [
    "CLAIMS",
    "TABLE",
    "by_length",
    "doubled",
    "exponent_table",
    "exponents",
    "kept",
    "kept_table",
    "live_table",
    "lost",
    "lost_table",
    "lost_values",
    "missed",
    "padded",
    "padded_table",
    "padding",
    "predicted",
    "predicted_table",
    "table_of",
    "tail",
    "values",
]
