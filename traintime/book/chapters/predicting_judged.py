"""Chapter 15, how far off the predictions were: what was predicted of that, and what came of it."""

import functools

import numpy as np
import pandas as pd

from traintime.book import claims
from traintime.book.chapters.predicting_tried import (
    ALLOCATORS,
    BASE,
    LOADED,
    NINE_IN_TEN,
    ahead,
    anew,
    by_model,
    cases,
    coverage,
    document_kind_missed,
    errors,
    keras,
    loops,
    missed,
    nine_in_ten,
    scaled_models,
    shown,
    shown_anew,
    some,
    unseen,
)
from traintime.book.claims import Finding, above, below, every, every_stack, within
from traintime.book.stored import Measurements
from traintime.predict.bench_models import WHOLE
from traintime.predict.goals import AGAIN, PROBED, mean, share

claim = functools.partial(claims.claim, on=shown)


# The first bench


@claim(
    "15.1",
    "A model that is trained for a moment first takes the predicted time within 15 % on average, and nine in ten "
    "of the 90 % intervals hold what then happens.",
    says="cannot be told",
)
def probed(book: Measurements) -> Finding:
    models = some(cases(book))
    error, held = mean(errors(models, "probed")), coverage(models, "probed")
    figure = f"mean error {error.text('.0%')}; {held.text('.0%')} of the intervals held"
    return Finding(every(below(0.15)(error), NINE_IN_TEN(held)), figure)


@claim(
    "15.2", "By the formula nine models in ten take between half and twice the predicted time.", says="cannot be told"
)
def formula(book: Measurements) -> Finding:
    models = some(cases(book))
    times = models[models["way"] == "formula"]["times"].to_numpy(float)
    twice = share(np.abs(np.log(times)) <= np.log(2))
    return Finding(NINE_IN_TEN(twice), twice.text(".0%"))


claim(
    "15.3",
    "Calibrated, models of kinds that no probe has seen are missed by 30 % on average at most.",
)(lambda book: missed(unseen(some(cases(book))), "calibrated", 0.3))


@claim(
    "15.4",
    "Timing one batch and multiplying misses by more than the probe does, and operations over the peak rate by "
    "more than both.",
    says="cannot be told",
)
def baselines(book: Measurements) -> Finding:
    table = by_model(some(cases(book)), "probed", "one batch", "FLOPs / peak")
    batch = mean((table["one batch"] - table["probed"]).to_numpy())
    peak = mean((table["FLOPs / peak"] - table["one batch"]).to_numpy())
    figure = ", ".join(f"{way} {table[way].mean():.0%}" for way in table)
    return Finding(every(above(0)(batch), above(0)(peak)), figure)


@claim(
    "15.5",
    "The peak of memory is foretold within 5 % by the probe and within 10 % by the formula, on average.",
    says="does not hold",
)
def memory(book: Measurements) -> Finding:
    models = some(cases(book))
    of_probe, of_formula = (mean(errors(models, f"{tier} memory")) for tier in ("probed", "formula"))
    figure = f"probed {of_probe.text('.1%')}, formula {of_formula.text('.1%')}"
    return Finding(every(below(0.05)(of_probe), below(0.10)(of_formula)), figure)


# Ten times beyond what was tried


claim(
    "15.18",
    "A classifier that was tried at a tenth of its rows, positions or samples a step, and scaled by the prices, is "
    "missed by 20 % on average at most.",
    says="cannot be told",
)(lambda book: missed(scaled_models(book, "one"), "scaled", 0.2))


claim(
    "15.19",
    "The line through two as small misses the same trainings by more than one and a half times as much.",
    says="cannot be told",
)(lambda book: ahead(scaled_models(book, "one"), "scaled", "line", 1.5))


claim("15.20", "Nine in ten of the scaled intervals hold what then happens.", says="cannot be told")(
    lambda book: nine_in_ten(scaled_models(book, "one"), "scaled")
)


# Models drawn anew, from the whole of the document's sizes

claim = functools.partial(claims.claim, on=shown_anew)


claim(
    "15.23",
    "Since a calibration knows what a process here holds, it misses the peak of memory of Keras models drawn anew, "
    "those of the document's kind from the whole of its sizes, by 10 % on average at most.",
    says="cannot be told",
)(lambda book: missed(keras(anew(book, BASE, BASE)), "calibrated memory", 0.1, ".1%"))


claim(
    "15.24",
    "Nine in ten of these calibrated intervals of memory hold what then happens, on each stack.",
    says="does not hold",
)(lambda book: held_on_each_stack(anew(book, BASE, BASE), "calibrated memory"))


def held_on_each_stack(models: pd.DataFrame, way: str) -> Finding:
    """Whether nine in ten of a way's intervals held on each stack. Raises KeyError where it has none."""
    held = models[models["way"] == way].dropna(subset="held")
    shares = {str(stack): coverage(mine, way) for stack, mine in held.groupby("stack")}
    return every_stack(shares, NINE_IN_TEN, ".0%")


@claim(
    "15.25",
    "Calibrated, models of the document's kind drawn from the whole of its sizes are missed by more than 7.5 % and "
    "by 25 % at most, on average, under glibc and under tcmalloc.",
    says="cannot be told",
)
def anew_document_kind(book: Measurements) -> Finding:
    models = anew(book).query("kind == 'classifier'")
    return document_kind_missed(models, dict.fromkeys(ALLOCATORS, within(0.075, 0.25)))


claim(
    "15.26",
    "Nine in ten of the calibrated intervals of time hold what then happens, on each stack.",
    says="cannot be told",
)(lambda book: held_on_each_stack(anew(book), "calibrated"))


@claim(
    "15.27",
    "On each stack the probe misses these models by 5 % on average at most, or by 1.3 times what training again "
    "differs by where that is more.",
    says="cannot be told",
)
def as_good_as_again(book: Measurements) -> Finding:
    parts, texts = [], []
    for stack, mine in anew(book).groupby("stack"):
        error, again = mean(errors(mine, "probed")), errors(mine, "again").mean()
        parts.append(below(max(PROBED, AGAIN * again))(error))
        texts.append(f"{str(stack).removeprefix('2026-')} {error.text('.1%')}, again {again:.1%}")
    return Finding(every(*parts), "; ".join(texts))


claim(
    "15.28",
    "Nine in ten of the probe's intervals of time hold what then happens, on each stack.",
    says="cannot be told",
)(lambda book: held_on_each_stack(anew(book), "probed"))


claim("15.29", "On TensorFlow timing one batch and multiplying misses by less than the probe.", says="cannot be told")(
    lambda book: ahead(anew(book).query("stack == '2026-tensorflow'"), "one batch", "probed")
)


claim(
    "15.30",
    "Loops in plain PyTorch, of five kinds, are missed by the probe by 10 % on average at most.",
    says="cannot be told",
)(lambda book: missed(loops(anew(book)), "probed", 0.1, ".1%"))


claim(
    "15.31",
    "Their peak of memory is missed by more by torchinfo, what the process held before added, than by the probe.",
)(lambda book: ahead(loops(anew(book)), "probed memory", "torchinfo memory"))


claim(
    "15.32",
    "A classifier of the whole of the document's sizes, tried at a tenth of its rows, positions or samples a step "
    "and scaled by the prices, is missed by 25 % on average at most.",
    says="cannot be told",
)(lambda book: missed(scaled_models(book, "one", WHOLE), "scaled", 0.25))


claim(
    "15.33",
    "Since the process that has the model tells what it holds, samples count as `fit` holds them at its start, and "
    "recurrent positions have a price of their own, a calibration misses the peak of memory of Keras models drawn "
    "anew by 10 % on average at most.",
)(lambda book: missed(keras(anew(book, LOADED)), "calibrated memory", 0.1, ".1%"))


claim(
    "15.34",
    "Nine in ten of these calibrated intervals of memory hold what then happens, on each stack.",
    says="cannot be told",
)(lambda book: held_on_each_stack(anew(book, LOADED), "calibrated memory"))


claim(
    "15.35",
    "The peaks of bidirectional GRUs among them are missed by 10 % on average at most, too.",
)(lambda book: missed(anew(book, LOADED).query("kind == 'recurrent'"), "calibrated memory", 0.1, ".1%"))


claim(
    "15.36",
    "With the samples' third copy at the start of `fit` counted, the probe misses the peak of memory on TensorFlow "
    "by 5 % on average at most.",
)(lambda book: missed(anew(book, LOADED).query("stack == '2026-tensorflow'"), "probed memory", 0.05, ".1%"))
