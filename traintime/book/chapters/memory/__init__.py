"""Chapter 11, memory: the document's example by hand, what a stack holds at its peak, one step as drawn."""

from traintime.book.chapters.memory.analysis import (
    LEAST,
    READY,
    by_hand,
    copies,
    documented,
    example,
    holdings,
    kept_by_allocators,
    of_the_example,
    points,
    watched,
)
from traintime.book.chapters.memory.claims import CLAIMS
from traintime.book.chapters.memory.shown import (
    copies_table,
    count_table,
    example_table,
    here_table,
    holding_table,
    values,
)

__all__ = [
    "CLAIMS",
    "LEAST",
    "READY",
    "by_hand",
    "copies",
    "copies_table",
    "count_table",
    "documented",
    "example",
    "example_table",
    "here_table",
    "holding_table",
    "holdings",
    "kept_by_allocators",
    "of_the_example",
    "points",
    "values",
    "watched",
]
