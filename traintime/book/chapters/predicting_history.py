"""Chapter 15, earlier versions of the predictor: what was predicted of them, and what came of it."""

import functools

from traintime.book import claims
from traintime.book.chapters.predicting_tried import (
    ALLOCATORS,
    APART,
    BLOCK,
    DOUBTED,
    cases,
    document_kind,
    document_kind_missed,
    missed,
    nine_in_ten,
    scaled_models,
    shown,
    until_done,
)
from traintime.book.claims import Finding, below, within
from traintime.book.stored import Measurements

claim = functools.partial(claims.claim, on=shown)


claim(
    "15.11",
    "Calibrated, the times of models of the 2017 post's kind have a mean error above 7.5 % and of at most 15 %, under "
    "glibc and under tcmalloc.",
    says="inconclusive",
)(
    lambda book: document_kind_missed(
        document_kind(cases(book), DOUBTED), dict.fromkeys(ALLOCATORS, within(0.075, 0.15))
    )
)


claim("15.12", "Nine in ten of the calibrated intervals of such models cover the true time.", says="inconclusive")(
    lambda book: nine_in_ten(document_kind(cases(book), DOUBTED), "calibrated")
)


@claim(
    "15.13",
    "With separate costs for an update's operations and for the gradients of slices, and calibrated by short designs, "
    "models of the 2017 post's kind have a mean error of at most 20 % under glibc, and of at most 15 % under tcmalloc.",
    says="inconclusive",
)
def apart_missed(book: Measurements) -> Finding:
    limits = {"glibc": below(0.2), "tcmalloc": below(0.15)}
    return document_kind_missed(document_kind(cases(book), APART), limits)


claim("15.14", "Nine in ten of these calibrated intervals cover the true time.", says="inconclusive")(
    lambda book: nine_in_ten(document_kind(cases(book), APART), "calibrated")
)


@claim(
    "15.15",
    "The peak of memory under tcmalloc is predicted by the probe with a mean error of at most 20 %, since another "
    "process measures the machine's rates.",
)
def memory_kept(book: Measurements) -> Finding:
    models = document_kind(cases(book), APART, BLOCK)
    return missed(models[models["allocator"] == "tcmalloc"], "probed memory", 0.2)


@claim(
    "15.16",
    "With a cost for the block that a compiled step keeps for itself, and with the first step counted, models of the "
    "2017 post's kind have a mean error of at most 15 % on JAX, under glibc and under tcmalloc.",
    says="inconclusive",
)
def block_missed(book: Measurements) -> Finding:
    models = document_kind(cases(book), BLOCK).query("stack == '2026-jax'")
    return document_kind_missed(models, dict.fromkeys(ALLOCATORS, below(0.15)))


claim(
    "15.17",
    "Nine in ten of these calibrated intervals, on the three stacks of today, cover the true time.",
    says="inconclusive",
)(lambda book: nine_in_ten(document_kind(cases(book), BLOCK), "calibrated"))


@claim(
    "15.21",
    "Tried at two batch sizes, such a classifier is predicted with a mean error of at most 15 % until the end of its "
    "last step.",
    says="inconclusive",
)
def scaled_of_two_missed(book: Measurements) -> Finding:
    error = until_done(scaled_models(book, "two"))
    return Finding(below(0.15)(error), error.text(".0%"))


claim("15.22", "Nine in ten of these intervals cover the true time.", says="inconclusive")(
    lambda book: nine_in_ten(scaled_models(book, "two"), "scaled")
)
