"""Chapter 15, predict yours: what the predictor said of models drawn at random, and what then happened."""

from traintime.book.chapters.predicting.analysis import (
    beyond,
    cases,
    document,
    errors,
    everywhere,
    machines,
    others,
    tried,
)
from traintime.book.chapters.predicting.claims import CLAIMS
from traintime.book.chapters.predicting.shown import (
    beyond_table,
    case_table,
    document_table,
    domain_table,
    era_table,
    goal_table,
    memory_table,
    odd_table,
    others_table,
    stack_table,
    tier_table,
    values,
)

__all__ = [
    "CLAIMS",
    "beyond",
    "beyond_table",
    "case_table",
    "cases",
    "document",
    "document_table",
    "domain_table",
    "era_table",
    "errors",
    "everywhere",
    "goal_table",
    "machines",
    "memory_table",
    "odd_table",
    "others",
    "others_table",
    "stack_table",
    "tier_table",
    "tried",
    "values",
]
