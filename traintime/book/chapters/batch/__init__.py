"""Chapter 05, batch size: the line of a step in the batch, the critical batch, the price in memory, what it claims."""

from traintime.book.chapters.batch.analysis import (
    BATCHES,
    VOCABULARY,
    by_batch,
    bytes_a_sentence,
    critical_batches,
    gain,
    kept,
    lines,
    of_the_document,
    peaks,
)
from traintime.book.chapters.batch.claims import CLAIMS
from traintime.book.chapters.batch.shown import a_sentence, critical_table, kept_table, memory_table, values

__all__ = [
    "BATCHES",
    "CLAIMS",
    "VOCABULARY",
    "a_sentence",
    "by_batch",
    "bytes_a_sentence",
    "critical_batches",
    "critical_table",
    "gain",
    "kept",
    "kept_table",
    "lines",
    "memory_table",
    "of_the_document",
    "peaks",
    "values",
]
