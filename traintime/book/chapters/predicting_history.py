"""Chapter 15, earlier versions of the predictor: what was predicted of them, and what came of it."""

import functools
from collections.abc import Iterator, Sequence

import pandas as pd
from IPython.display import HTML

from traintime.book import claims, page
from traintime.book.chapters.predicting_tried import (
    ALLOCATORS,
    APART,
    BLOCK,
    DOUBTED,
    cases,
    document_kind,
    document_kind_missed,
    errors,
    missed,
    nine_in_ten,
    scaled_models,
    shown,
    until_done,
)
from traintime.book.claims import Finding, below, within
from traintime.book.stored import Measurements
from traintime.predict import versions

claim = functools.partial(claims.claim, on=shown)


claim(
    "15.11",
    "Calibrated, models of the document's kind are missed by more than 7.5 % and by 15 % at most, on average, "
    "under glibc and under tcmalloc.",
    says="cannot be told",
)(
    lambda book: document_kind_missed(
        document_kind(cases(book), DOUBTED), dict.fromkeys(ALLOCATORS, within(0.075, 0.15))
    )
)


claim("15.12", "Nine in ten of the calibrated intervals of such models hold what then happens.", says="cannot be told")(
    lambda book: nine_in_ten(document_kind(cases(book), DOUBTED), "calibrated")
)


@claim(
    "15.13",
    "With prices of their own for an update's operations and for the gradients of slices, and calibrated by short "
    "designs, models of the document's kind are missed by 20 % on average at most under glibc, and by 15 % under "
    "tcmalloc.",
    says="cannot be told",
)
def apart_missed(book: Measurements) -> Finding:
    limits = {"glibc": below(0.2), "tcmalloc": below(0.15)}
    return document_kind_missed(document_kind(cases(book), APART), limits)


claim("15.14", "Nine in ten of these calibrated intervals hold what then happens.", says="cannot be told")(
    lambda book: nine_in_ten(document_kind(cases(book), APART), "calibrated")
)


@claim(
    "15.15",
    "The probe's peak of memory under tcmalloc is missed by 20 % on average at most, now that the machine's rates "
    "are measured by another process.",
)
def memory_kept(book: Measurements) -> Finding:
    models = document_kind(cases(book), APART, BLOCK)
    return missed(models[models["allocator"] == "tcmalloc"], "probed memory", 0.2)


@claim(
    "15.16",
    "With a price for the block that a compiled step keeps for itself, and the first step counted, models of the "
    "document's kind are missed on JAX by 15 % on average at most, under glibc and under tcmalloc.",
    says="cannot be told",
)
def block_missed(book: Measurements) -> Finding:
    models = document_kind(cases(book), BLOCK).query("stack == '2026-jax'")
    return document_kind_missed(models, dict.fromkeys(ALLOCATORS, below(0.15)))


claim(
    "15.17",
    "Nine in ten of these calibrated intervals, on the three stacks of today, hold what then happens.",
    says="cannot be told",
)(lambda book: nine_in_ten(document_kind(cases(book), BLOCK), "calibrated"))


@claim(
    "15.21",
    "Tried at two batch sizes, such a classifier is missed by 15 % on average at most until its last step is done.",
    says="cannot be told",
)
def scaled_of_two_missed(book: Measurements) -> Finding:
    error = until_done(scaled_models(book, "two"))
    return Finding(below(0.15)(error), error.text(".0%"))


claim("15.22", "Nine in ten of these intervals hold what then happens.", says="cannot be told")(
    lambda book: nine_in_ten(scaled_models(book, "two"), "scaled")
)


def version_table(books: Sequence[Measurements]) -> HTML:
    """Models of the 2017 post's kind, by the version of the predictor that predicted them."""

    def missed_by(models: pd.DataFrame, allocator: str) -> str:
        return page.or_not_measured(
            lambda: f"{errors(models[models['allocator'] == allocator], 'calibrated').mean():.0%}"
        )

    table = [
        {"machine": book.title, "knows": versions.table().loc[version, "knows"] + of}
        | {allocator: missed_by(mine, allocator) for allocator in ALLOCATORS}
        | {"held": page.or_not_measured(lambda mine=mine: "{:.0f} of {:.0f}".format(*_held(mine)))}
        for book in books
        for version, of, mine in _versions(cases(book).query("kind == 'classifier'"))
        if (mine["way"] == "calibrated").any()
    ]
    return page.columns(
        pd.DataFrame(table),
        remedy="`make bench-predict` tries it.",
        machine="",
        knows="foretold with",
        glibc="missed by, glibc",
        tcmalloc="missed by, tcmalloc",
        held="intervals that held",
    )


def _versions(models: pd.DataFrame) -> Iterator[tuple[int, str, pd.DataFrame]]:
    """The models of each version; of that which was mended for JAX, those on JAX once more."""
    for version, mine in models[models["version"] >= DOUBTED].groupby("version"):
        yield int(version), "", mine
        if version == BLOCK:
            yield int(version), ": on JAX alone", mine.query("stack == '2026-jax'")


def _held(models: pd.DataFrame) -> tuple[int, int]:
    held = models.query("way == 'calibrated'")["held"].dropna()
    return int(held.sum()), len(held)
