"""Chapter 03, vocabulary: which points it shows, what a row costs, what the interventions show, what it claims."""

from traintime.book.chapters.vocabulary.analysis import (
    PRICED,
    VOCABULARIES,
    WAYS,
    by_vocabulary,
    bytes_a_row,
    drawn_prices,
    growth,
    in_every_way,
    intervened,
    misses,
    price_of_a_row,
    ratio_of_prices,
    singles,
    top_end,
)
from traintime.book.chapters.vocabulary.claims import CLAIMS
from traintime.book.chapters.vocabulary.shown import growth_table, per_row_table, values

__all__ = [
    "CLAIMS",
    "PRICED",
    "VOCABULARIES",
    "WAYS",
    "by_vocabulary",
    "bytes_a_row",
    "drawn_prices",
    "growth",
    "growth_table",
    "in_every_way",
    "intervened",
    "misses",
    "per_row_table",
    "price_of_a_row",
    "ratio_of_prices",
    "singles",
    "top_end",
    "values",
]
