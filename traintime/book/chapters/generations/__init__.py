"""Chapter 07, Theano and TensorFlow: three generations side by side, what an allocator changes, and what it claims."""

from traintime.book.chapters.generations.analysis import (
    RIVALS,
    VOCABULARIES,
    YEARS,
    blocks,
    by_vocabulary,
    crossing,
    freed,
    over,
    rivals,
    successors,
    two_parts,
)
from traintime.book.chapters.generations.claims import CLAIMS
from traintime.book.chapters.generations.shown import freed_table, part_table, ratio_table, successor_table, values

__all__ = [
    "CLAIMS",
    "RIVALS",
    "VOCABULARIES",
    "YEARS",
    "blocks",
    "by_vocabulary",
    "crossing",
    "freed",
    "freed_table",
    "over",
    "part_table",
    "ratio_table",
    "rivals",
    "successor_table",
    "successors",
    "two_parts",
    "values",
]
