"""Models drawn at random, predicted, and then trained: what was tried, and how far off each way to predict it was."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from traintime import paths
from traintime.book import stored
from traintime.book.claims import Finding, above, below, every
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval, average, share
from traintime.predict import record
from traintime.predict.bench import Case, kept
from traintime.predict.bench_models import BEYONDS, LOOPS, NARROW, WHOLE

COLUMNS = ["number", "stack", "allocator", "kind", "domain", "started", "version", "way", "times", "held"]
ALLOCATORS = ("glibc", "tcmalloc")  # that models of the document's kind were tried under
# Versions of the predictor (data/predicted/versions.csv) that a prediction is about.
DOUBTED, APART, BLOCK, BASE, LOADED = 2, 3, 4, 5, 6
CALIBRATED_KINDS = ("classifier", "dense")  # of those drawn, which a calibration trained models of
# A smaller model is tried at one batch size; from when to when it was tried at two, which was no better.
TWO = ("2026-11-23T23:05:00Z", "2026-11-23T23:32:00Z")
NINE_IN_TEN = above(0.9)


def machines() -> list[Measurements]:
    """Each machine of the book that has tried any model, or the book's where none has."""
    trying = [book for name in stored.named() if len(cases(book := stored.of(name))) or len(beyond(book))]
    return trying or [stored.of()]


def shown() -> Measurements:
    """The first machine of the book that has tried a model: what the claims are judged on."""
    return stored.having(stored.of(), cases)


def shown_anew() -> Measurements:
    """The first that has tried one from the whole of the sizes."""
    return stored.having(stored.of(), lambda book: cases(book).query("domain == @WHOLE"))


def tried(book: Measurements) -> list[Case]:
    """What was predicted and trained on a machine, a smaller model in the place of none. Empty where nothing was.

    Long trainings have a table of their own (predicting_long).
    """
    every = kept(paths.PREDICTED, book.machine)
    return [one for one in every if one.kind not in BEYONDS and one.epochs_s is None]


def withdrawn(book: Measurements, figure: Literal["memory", "time"] = "memory") -> dict[str, str]:
    """When the models were started whose memory, or time, is withdrawn, and why (data/predicted/withdrawn.csv)."""
    table = pd.read_csv(paths.PREDICTED / "withdrawn.csv")
    table = table[(table["machine"] == book.machine) & (table["figure"] == figure)]
    return table.set_index("started")["reason"].to_dict()


def without_withdrawn(book: Measurements) -> list[Case]:
    """All that the machine has tried and kept, without the memory that is withdrawn."""
    gone = withdrawn(book)
    return [
        replace(
            case,
            predicted={tier: replace(one, memory=None) for tier, one in case.predicted.items()},
            torchinfo_bytes=None,
        )
        if case.started in gone
        else case
        for case in kept(paths.PREDICTED, book.machine)
    ]


def cases(book: Measurements) -> pd.DataFrame:
    """A row for each model and way to predict it; empty where nothing was tried.

    Columns stack, allocator, kind, domain (the sizes that it was drawn from), started, version (of the predictor), way,
    times (predicted over true), held. way: "again" (the second training over the first), a tier, a tier and " memory",
    or a baseline; held: whether the way's interval held the truth, missing for a way that has none and for what was
    printed alone.
    """
    whole, only_printed = _by_way(tried(book), withdrawn(book)), printed(book)
    if only_printed.empty:
        return whole
    return pd.concat([whole, only_printed.assign(number=lambda one: -1 - one["number"])], ignore_index=True)


def beyond(book: Measurements) -> pd.DataFrame:
    """As `cases`, of models of which one a tenth as large in one size was tried; ways "again", "scaled" and "line".

    Further columns: size, the one that is ten times as large; at, batch sizes that it was tried at ("one", "two");
    done: scaled over the time until the last step was done, without the sleep that may follow on TensorFlow; missing
    for the first, which did not keep it.
    """
    larger = [one for one in kept(paths.PREDICTED, book.machine) if one.kind in BEYONDS]
    table = _by_way(larger, withdrawn(book))
    done = [one.predicted["scaled"].total.value / one.busy_s if one.done_s else np.nan for one in larger]
    at = np.where(table["started"].between(*TWO), "two", "one")
    size = table["kind"].str.removeprefix("beyond-")
    return table.assign(size=size, at=at, done=table["number"].map(dict(enumerate(done))))


def _by_way(models: list[Case], gone: Mapping[str, str]) -> pd.DataFrame:
    """A row for each model and way to predict it. gone: the models whose memory is withdrawn."""
    table = []
    for number, case in enumerate(models):
        inside = case.inside()
        about = {"number": number, "version": case.version}
        about |= {name: getattr(case, name) for name in ("stack", "allocator", "kind", "domain", "started")}
        for way, error in case.errors().items():
            if not (way.endswith(" memory") and case.started in gone):
                table.append(about | {"way": way, "times": 1 + error, "held": inside.get(way)})
    return pd.DataFrame(table, columns=COLUMNS)


def printed(book: Measurements) -> pd.DataFrame:
    """Models that a bench drew, trained and printed without keeping them (data/predicted/printed.csv), as `cases`.

    Their errors are whole percents; whether an interval held is not known of them.
    """
    if not (path := paths.PREDICTED / "printed.csv").exists():
        return pd.DataFrame(columns=COLUMNS)
    wide = pd.read_csv(path).query("machine == @book.machine").rename(columns={"ended": "started"})
    wide = wide.drop(columns=["machine", "fit_s"]).reset_index(names="number")
    long = wide.melt(["number", "stack", "allocator", "kind", "started"], var_name="way", value_name="times")
    long = long.assign(version=long["started"].map(record.version_at), held=None, domain=NARROW)
    # Less than half a percent was printed as nothing, which no axis of logarithms has.
    return long.assign(times=(1 + long["times"]).clip(lower=0.005))[COLUMNS]


def on_every_machine(books: Sequence[Measurements]) -> pd.DataFrame:
    """The `cases` of several machines, with a column machine, its title."""
    return pd.concat([cases(book).assign(machine=book.title) for book in books], ignore_index=True)


def errors(models: pd.DataFrame, way: str) -> np.ndarray:
    """Relative errors of one way, without their sign. Raises KeyError where it was not tried."""
    of_way = models[models["way"] == way]
    if of_way.empty:
        raise KeyError(way)
    return np.abs(of_way["times"].to_numpy(float) - 1)


def coverage(models: pd.DataFrame, way: str) -> Interval:
    """How often a way's interval held the truth. Raises KeyError where none has one."""
    held = models[models["way"] == way]["held"].dropna()
    if held.empty:
        raise KeyError("not tried")
    return share(held.to_numpy(bool))


def by_model(models: pd.DataFrame, *ways: str) -> pd.DataFrame:
    """Errors of these ways, a row for each model that has all of them. Raises KeyError where none has."""
    table = models.assign(error=(models["times"] - 1).abs()).pivot_table(index="number", columns="way", values="error")
    if not set(ways) <= set(table) or (table := table[list(ways)].dropna()).empty:
        raise KeyError("no model has them all")
    return table


def ahead(models: pd.DataFrame, ours: str, theirs: str, times: float = 1.0) -> Finding:
    """Whether theirs misses by more than ours so many times, by pairs of the same model."""
    table = by_model(models, ours, theirs)
    figure = f"{table[theirs].mean():.0%} against {table[ours].mean():.0%}"
    return Finding(above(0)(average((table[theirs] - times * table[ours]).to_numpy())), figure)


def loops(models: pd.DataFrame) -> pd.DataFrame:
    """The loops in plain PyTorch."""
    return models[models["kind"].isin(LOOPS)]


def keras(models: pd.DataFrame) -> pd.DataFrame:
    """The Keras models."""
    return models[~models["kind"].isin(LOOPS)]


def unseen(models: pd.DataFrame) -> pd.DataFrame:
    """The models of kinds that no calibration trained."""
    return models[~models["kind"].isin(CALIBRATED_KINDS)]


def some(models: pd.DataFrame) -> pd.DataFrame:
    """The models. Raises KeyError where there are none."""
    if models.empty:
        raise KeyError("not tried")
    return models


def document_kind(models: pd.DataFrame, *of: int) -> pd.DataFrame:
    """The models of the 2017 post's kind that these versions of the predictor predicted."""
    return some(models[models["version"].isin(of) & (models["kind"] == "classifier")])


def anew(book: Measurements, first: int = BASE, last: int | None = None) -> pd.DataFrame:
    """Models of the whole domain that these versions predicted; by default all since memory is counted from a base."""
    models = cases(book)
    return some(
        models[models["version"].between(first, last or record.versions().index.max()) & (models["domain"] == WHOLE)]
    )


def by_stack(models: pd.DataFrame, of: Callable[[pd.DataFrame], Interval], way: str) -> dict[str, Interval]:
    """A figure of each stack that has tried this way."""
    return {str(stack): of(mine) for stack, mine in models[models["way"] == way].groupby("stack")}


# How far off


def missed(models: pd.DataFrame, way: str, limit: float, spec: str = ".0%") -> Finding:
    """Whether a way misses these models by less than a limit, on average."""
    error = average(errors(models, way))
    return Finding(below(limit)(error), error.text(spec))


def nine_in_ten(models: pd.DataFrame, way: str) -> Finding:
    """Whether nine in ten of a way's intervals held."""
    held = coverage(models, way)
    return Finding(NINE_IN_TEN(held), held.text(".0%"))


def document_kind_missed(models: pd.DataFrame, limits: Mapping[str, Callable[[Interval], bool | None]]) -> Finding:
    """Whether the mean calibrated error is within its limits under each allocator."""
    each = {name: average(errors(models[models["allocator"] == name], "calibrated")) for name in limits}
    figure = "; ".join(f"{name} {error.text('.0%')}" for name, error in each.items())
    return Finding(every(*(limits[name](error) for name, error in each.items())), figure)


def scaled_models(book: Measurements, at: str, domain: str = NARROW) -> pd.DataFrame:
    """Models of this domain of which a smaller one was tried at so many batch sizes. Raises KeyError without any."""
    return some(beyond(book).query("at == @at and domain == @domain"))


def until_done(models: pd.DataFrame) -> Interval:
    """What scaled answers miss, without the sleep after the last step. Raises KeyError where that was not kept."""
    done = some(models[models["way"] == "scaled"].dropna(subset="done"))["done"]
    return average(np.abs(done.to_numpy() - 1))
