"""Chapter 01, the question: what the document's tables say by arithmetic, and what our machines say to that."""

from traintime.book.chapters.question.analysis import (
    BATCHES,
    DOCUMENT,
    SENTENCES,
    SOFTWARE,
    VOCABULARIES,
    cells,
    document,
    exponents,
    fits,
    limits,
    lost,
    share,
)
from traintime.book.chapters.question.claims import CLAIMS
from traintime.book.chapters.question.shown import coefficients, values

__all__ = [
    "BATCHES",
    "CLAIMS",
    "DOCUMENT",
    "SENTENCES",
    "SOFTWARE",
    "VOCABULARIES",
    "cells",
    "coefficients",
    "document",
    "exponents",
    "fits",
    "limits",
    "lost",
    "share",
    "values",
]
