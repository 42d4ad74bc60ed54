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
from traintime.explain.statistics import average, share
from traintime.predict.bench_models import WHOLE

claim = functools.partial(claims.claim, on=shown)
PROBED = 0.05  # mean error that was the goal, or
AGAIN = 1.3  # times what training again differs by: what nobody could do much better than


# The first bench


@claim(
    "15.1",
    "Probed, a model's time is predicted with a mean error below 15 %, and nine in ten of the 90 % intervals cover the "
    "true time.",
    says="inconclusive",
)
def probed(book: Measurements) -> Finding:
    models = some(cases(book))
    error, held = average(errors(models, "probed")), coverage(models, "probed")
    figure = f"mean error {error.text('.0%')}; {held.text('.0%')} of the intervals held"
    return Finding(every(below(0.15)(error), NINE_IN_TEN(held)), figure)


@claim(
    "15.2", "Nine models in ten take between half and twice the time that the formula predicts.", says="inconclusive"
)
def formula(book: Measurements) -> Finding:
    models = some(cases(book))
    times = models[models["way"] == "formula"]["times"].to_numpy(float)
    twice = share(np.abs(np.log(times)) <= np.log(2))
    return Finding(NINE_IN_TEN(twice), twice.text(".0%"))


claim(
    "15.3",
    "Calibrated, models of kinds that no calibration has trained are predicted with a mean error of at most 30 %.",
)(lambda book: missed(unseen(some(cases(book))), "calibrated", 0.3))


@claim(
    "15.4",
    "Timing one batch and multiplying has a larger error than the probe, and operations over the peak rate have a "
    "larger one than both.",
    says="inconclusive",
)
def baselines(book: Measurements) -> Finding:
    table = by_model(some(cases(book)), "probed", "one batch", "FLOPs / peak")
    batch = average((table["one batch"] - table["probed"]).to_numpy())
    peak = average((table["FLOPs / peak"] - table["one batch"]).to_numpy())
    figure = ", ".join(f"{way} {table[way].mean():.0%}" for way in table)
    return Finding(every(above(0)(batch), above(0)(peak)), figure)


@claim(
    "15.5",
    "The peak of memory is predicted by the probe with a mean error below 5 %, and by the formula below 10 %.",
    says="does not hold",
)
def memory(book: Measurements) -> Finding:
    models = some(cases(book))
    of_probe, of_formula = (average(errors(models, f"{tier} memory")) for tier in ("probed", "formula"))
    figure = f"probed {of_probe.text('.1%')}, formula {of_formula.text('.1%')}"
    return Finding(every(below(0.05)(of_probe), below(0.10)(of_formula)), figure)


# Ten times beyond what was tried


claim(
    "15.18",
    "A classifier that was tried with a tenth of its rows, time steps or batch, and scaled by the formula, is "
    "predicted with a mean error of at most 20 %.",
    says="inconclusive",
)(lambda book: missed(scaled_models(book, "one"), "scaled", 0.2))


claim(
    "15.19",
    "The line through two models as small has more than one and a half times that error, for the same trainings.",
    says="inconclusive",
)(lambda book: ahead(scaled_models(book, "one"), "scaled", "line", 1.5))


claim("15.20", "Nine in ten of the scaled intervals cover the true time.", says="inconclusive")(
    lambda book: nine_in_ten(scaled_models(book, "one"), "scaled")
)


# New models, from the whole range of the 2017 post's sizes

claim = functools.partial(claims.claim, on=shown_anew)


claim(
    "15.23",
    "Since a calibration knows what a process here holds, it predicts the peak of memory of newly drawn Keras models, "
    "classifiers from the whole range of the 2017 post's sizes among them, with a mean error of at most 10 %.",
    says="inconclusive",
)(lambda book: missed(keras(anew(book, BASE, BASE)), "calibrated memory", 0.1, ".1%"))


claim(
    "15.24",
    "Nine in ten of these calibrated intervals of memory cover the true peak, on each stack.",
    says="does not hold",
)(lambda book: held_on_each_stack(anew(book, BASE, BASE), "calibrated memory"))


def held_on_each_stack(models: pd.DataFrame, way: str) -> Finding:
    """Whether nine in ten of a way's intervals held on each stack. Raises KeyError where it has none."""
    held = models[models["way"] == way].dropna(subset="held")
    shares = {str(stack): coverage(mine, way) for stack, mine in held.groupby("stack")}
    return every_stack(shares, NINE_IN_TEN, ".0%")


@claim(
    "15.25",
    "Calibrated, classifiers drawn from the whole range of the 2017 post's sizes have a mean error above 7.5 % and of "
    "at most 25 %, under glibc and under tcmalloc.",
    says="inconclusive",
)
def anew_document_kind(book: Measurements) -> Finding:
    models = anew(book).query("kind == 'classifier'")
    return document_kind_missed(models, dict.fromkeys(ALLOCATORS, within(0.075, 0.25)))


claim(
    "15.26",
    "Nine in ten of the calibrated intervals cover the true time, on each stack.",
    says="inconclusive",
)(lambda book: held_on_each_stack(anew(book), "calibrated"))


@claim(
    "15.27",
    "On each stack the probe predicts these models with a mean error of at most 5 %, or of 1.3 times the difference "
    "between two trainings where that is more.",
    says="inconclusive",
)
def as_good_as_again(book: Measurements) -> Finding:
    parts, texts = [], []
    for stack, mine in anew(book).groupby("stack"):
        error, again = average(errors(mine, "probed")), errors(mine, "again").mean()
        parts.append(below(max(PROBED, AGAIN * again))(error))
        texts.append(f"{str(stack).removeprefix('2026-')} {error.text('.1%')}, again {again:.1%}")
    return Finding(every(*parts), "; ".join(texts))


claim(
    "15.28",
    "Nine in ten of the probe's intervals cover the true time, on each stack.",
    says="inconclusive",
)(lambda book: held_on_each_stack(anew(book), "probed"))


claim(
    "15.29",
    "On TensorFlow, timing one batch and multiplying has a smaller error than the probe.",
    says="inconclusive",
)(lambda book: ahead(anew(book).query("stack == '2026-tensorflow'"), "one batch", "probed"))


claim(
    "15.30",
    "Loops in plain PyTorch, of five kinds, are predicted by the probe with a mean error of at most 10 %.",
    says="inconclusive",
)(lambda book: missed(loops(anew(book)), "probed", 0.1, ".1%"))


claim(
    "15.31",
    "For the peak of memory of these loops, torchinfo plus what the process held before has a larger error than the "
    "probe.",
)(lambda book: ahead(loops(anew(book)), "probed memory", "torchinfo memory"))


claim(
    "15.32",
    "A classifier from the whole range of the 2017 post's sizes, tried with a tenth of its rows, time steps or batch "
    "and scaled by the formula, is predicted with a mean error of at most 25 %.",
    says="inconclusive",
)(lambda book: missed(scaled_models(book, "one", WHOLE), "scaled", 0.25))


claim(
    "15.33",
    "Since the process that has the model reports what it holds, samples count as `fit` holds them at its start, and "
    "recurrent time steps have a cost of their own, a calibration predicts the peak of memory of newly drawn Keras "
    "models with a mean error of at most 10 %.",
)(lambda book: missed(keras(anew(book, LOADED)), "calibrated memory", 0.1, ".1%"))


claim(
    "15.34",
    "Nine in ten of these calibrated intervals of memory cover the true peak, on each stack.",
    says="inconclusive",
)(lambda book: held_on_each_stack(anew(book, LOADED), "calibrated memory"))


claim(
    "15.35",
    "The peaks of the bidirectional GRUs among them are predicted with a mean error of at most 10 %, too.",
)(lambda book: missed(anew(book, LOADED).query("kind == 'recurrent'"), "calibrated memory", 0.1, ".1%"))


claim(
    "15.36",
    "With the samples' third copy at the start of `fit` counted, the probe predicts the peak of memory on TensorFlow "
    "with a mean error of at most 5 %.",
)(lambda book: missed(anew(book, LOADED).query("stack == '2026-tensorflow'"), "probed memory", 0.05, ".1%"))
