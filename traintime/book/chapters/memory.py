"""Chapter 11, memory: the recipe that predicts a peak, and what frees memory. What stacks held: memory_held.py."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, predictions, stored
from traintime.book.chapters.memory_held import (
    KERAS2,
    LARGE,
    LAYERS,
    MIB,
    SIZES,
    all_between,
    by_hand,
    copies,
    copies_with,
    deep_growth,
    example,
    framework_share,
    growth,
    growth_before_training,
    peaks,
    small_network,
    without_data,
)
from traintime.book.claims import Finding, above, below, claim, every_stack, higher, within
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.explain import memory
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.store.records import Record
from traintime.workloads.base import FLOAT

KERAS3 = ("2026-tensorflow", "2026-jax", "2026-torch")


# The recipe: a framework, copies of the parameters and activations, with the coefficients that the predictor uses

TITLES = {"2026-tensorflow": "TensorFlow", "2026-jax": "JAX", "2026-torch": "torch", "numpy": "NumPy"}


def worked(measured: pd.Series, **fields: Any) -> pd.DataFrame:
    """A network by the recipe with Adam, a row a stack: framework, copies, activations, predicted; and measured, bytes.

    measured: the peaks by stack; fields: of the network's configuration.
    """
    work = make_point(**fields).work
    rows = []
    for stack, peak in measured.items():
        held = memory.memory_model(str(stack))
        copied = held.copies * FLOAT * work.parameters
        row = {"stack": stack, "framework": held.idle + held.runtime, "copies": copied}
        row |= {"activations": held.of_model(work) - copied, "predicted": held.peak_bytes(work), "measured": peak}
        rows.append(row)
    return pd.DataFrame(rows)


def worked_example(book: Measurements) -> pd.DataFrame:
    """S2's network by the recipe, and as a machine measured it."""
    return worked(example(book).query("batch == 256").set_index("stack")["peak_bytes"], workload="dense")


def worked_classifier(book: Measurements) -> pd.DataFrame:
    """The 2017 post's network with 280,000 rows by the recipe, and as a machine measured it, of the same stacks."""
    points = peaks(book).query("how == 'adam' and vocabulary == 280_000 and batch == 100 and length == 25")
    return worked(points[points["stack"].isin(TITLES)].set_index("stack")["peak_bytes"], vocabulary=280_000)


def worked_layers(book: Measurements) -> pd.DataFrame:
    """Many dense layers by the recipe, and as a machine measured them. Raises KeyError without any."""
    points = without_data(stored.measured(book.points(**LAYERS).dropna(subset="peak_bytes")))
    return worked(points.set_index("stack")["peak_bytes"], **LAYERS)


def worked_table(found: pd.DataFrame) -> HTML:
    """The sum of the recipe for each stack, MiB: framework, copies, activations; and the measured peak."""
    return page.columns(
        found,
        stack="stack",
        framework=("R (MiB)", 1 / MIB, ",.1f"),
        copies=("4kP (MiB)", 1 / MIB, ",.1f"),
        activations=("4qA (MiB)", 1 / MIB, ",.1f"),
        predicted=("predicted (MiB)", 1 / MIB, ",.1f"),
        measured=("measured (MiB)", 1 / MIB, ",.1f"),
    )


def coefficients_table() -> HTML:
    """The coefficients of each stack with Adam: R, k, q of other layers and of an LSTM, and the error of a peak."""
    rows = [memory.memory_model(stack) for stack in stored.stack_order(memory.stacks())]
    return page.columns(
        pd.DataFrame(map(vars, rows)),
        stack="stack",
        framework=("R (MiB)", lambda row: f"{(row['idle'] + row['runtime']) / MIB:,.0f}"),
        copies=("k, Adam", 1, ".1f"),
        kept=("q", 1, ".1f"),
        recurrent=("q, LSTM", 1, ".1f"),
        error=("error", lambda row: f"{row['error'] * 100:.0f} %"),
    )


def here_table(run: Measurements) -> HTML:
    """This run's configurations: the peak by the recipe, and as it was measured."""

    def predicted(row: pd.Series) -> float:
        fields = {name: row[name] for name in SIZES}
        return memory.memory_model(row["stack"]).peak_bytes(make_point(**fields).work, row["how"])

    points = peaks(run)
    points = points[points["stack"].isin(memory.stacks())]
    return page.columns(
        points.assign(predicted=[predicted(row) for _, row in points.iterrows()]),
        fold="This run's peaks, predicted and measured",
        stack="stack",
        vocabulary=("rows", 1, ","),
        batch=("batch", 1, ","),
        predicted=("predicted (MiB)", 1 / MIB, ",.0f"),
        peak_bytes=("measured (MiB)", 1 / MIB, ",.0f"),
        off=("measured / predicted", lambda row: f"{row['peak_bytes'] / row['predicted']:.2f}"),
    )


# Copies by optimizer, on the machine that trained in most ways


def freest() -> Measurements:
    """The machine that measured the most ways to free memory."""
    return stored.best(lambda book: len(frees(book)) or None)


def by_optimizer(book: Measurements, *ways: str) -> pd.DataFrame:
    """Copies of a large table in these ways, of the stacks that measured all of them."""
    return copies(book).reindex(columns=list(ways)).dropna()


@claim(
    "11.10",
    "Momentum and RMSprop hold no more copies of a large table than Adam and no fewer than SGD, within a quarter of a "
    "copy.",
    on=freest,
)
def between_sgd_and_adam(book: Measurements) -> Finding:
    table = by_optimizer(book, "sgd", "momentum", "rmsprop", "adam")
    if len(table) < 2:
        raise KeyError("the optimizers were measured on one stack alone")
    low = table[["momentum", "rmsprop"]].min(axis=1) - table["sgd"]
    high = table["adam"] - table[["momentum", "rmsprop"]].max(axis=1)
    numbers = "; ".join(f"{stack} {' '.join(f'{one:.1f}' for one in row)}" for stack, *row in table.itertuples())
    return Finding(bool(min(low.min(), high.min()) > -0.25), f"SGD, momentum, RMSprop, Adam: {numbers}")


@claim(
    "11.11",
    "In Keras 2 SGD holds as many copies as momentum, within a quarter of a copy: it keeps a velocity that it does not "
    "need.",
    on=freest,
)
def velocity_of_keras2(book: Measurements) -> Finding:
    table = by_optimizer(book, "sgd", "momentum")
    more = table["momentum"] - table["sgd"]
    return all_between(more[more.index.isin(KERAS2)], -0.25, 0.25, "+.2f")


@claim(
    "11.12",
    "On JAX, SGD, momentum, RMSprop and Adam all hold four copies, within half a copy.",
    says="does not hold",
    on=freest,
)
def jax_whatever_the_optimizer(book: Measurements) -> Finding:
    return all_between(by_optimizer(book, "sgd", "momentum", "rmsprop", "adam").loc["2026-jax"], 3.5, 4.5, ".1f")


def sgd_records(book: Measurements) -> list[Record]:
    """The stored records of a large table with SGD on JAX and torch; none of a run of this page."""
    if book.machine not in stored.named():
        return []
    return book.records(stack=["2026-jax", "2026-torch"], vocabulary=[200_000, 280_000], optimizer="sgd")


def before_training(book: Measurements) -> pd.Series:
    """Memory before the first step over the peak, by stack: medians over `sgd_records`."""
    shares = [
        (record.stack, invocation.result.memory["built"] / invocation.result.memory["peak"])
        for record in sgd_records(book)
        for invocation in record.invocations
        if invocation.result
    ]
    return pd.DataFrame(shares, columns=["stack", "share"]).groupby("stack", sort=False)["share"].median()


@claim("11.13", "With SGD and a large table, JAX and torch hold 98 % of their peak before the first step.", on=freest)
def all_before_the_first_step(book: Measurements) -> Finding:
    shares = before_training(book)
    if len(shares) < 2:
        raise KeyError("not measured on both")
    return all_between(shares, 0.98, np.inf, ".0%")


# What frees memory


class Way(NamedTuple):
    """One way to need less: which part is the larger, what the way is called, the usual point, what differs from it."""

    larger: str
    name: str
    usual: dict[str, Any]
    changes: dict[str, Any]


TABLE: dict[str, Any] = {"vocabulary": LARGE}
HALF: dict[str, Any] = {"precision": "mixed-bfloat16"}
TCMALLOC: dict[str, Any] = {"allocator": "tcmalloc"}
AGAIN, ACCUMULATED = "gradient checkpointing", "eight such batches per update"
EIGHTH, DEFERRED = "an eighth of the batch", "rows in use (deferred)"
AGAIN_UNDER_TCMALLOC = "checkpointing, both under tcmalloc"
PLAIN, FROZEN = "SGD", "a frozen table"
FEWER = (PLAIN, FROZEN, DEFERRED)  # hold fewer copies of a large table
WAYS = (
    Way("copies", EIGHTH, TABLE | {"batch": 800}, {"batch": 100}),
    Way("copies", ACCUMULATED, TABLE | {"batch": 800}, {"batch": 100, "accumulated": 8}),
    Way("copies", PLAIN, TABLE, {"optimizer": "sgd"}),
    Way("copies", FROZEN, TABLE, {"frozen": True}),
    Way("copies", DEFERRED, TABLE, {"optimizer": "adam-deferred"}),
    Way("copies", "bfloat16", TABLE, HALF),
    Way("copies", "tcmalloc", TABLE, TCMALLOC),
    Way("activations", EIGHTH, LAYERS, {"batch": 1024}),
    Way("activations", AGAIN, LAYERS, {"recompute": True}),
    Way("activations", AGAIN_UNDER_TCMALLOC, LAYERS | TCMALLOC, {"recompute": True}),
    Way("activations", PLAIN, LAYERS, {"optimizer": "sgd"}),
    Way("activations", "bfloat16", LAYERS, HALF),
    Way("activations", "tcmalloc", LAYERS, TCMALLOC),
)


@functools.cache
def frees(book: Measurements) -> pd.DataFrame:
    """What each way leaves of the usual peak, and what it costs, a row a stack that ran both: larger, way, stack, and

    peak (Interval): the way's over the usual one; time (Interval): a sample's, likewise, of which nothing is told where
    no sweep measured both in the same rounds; sweep: which did, "" for none.
    """
    rows = []
    for way in WAYS:
        for stack in KERAS3:
            try:
                sides = book.sides(way.usual, way.usual | way.changes, stack=stack)
            except KeyError:
                continue
            batches = [side["batch"].iloc[0] for side in sides.frames]
            peak = sides.interval(lambda s: s[1] / s[0], "peak_bytes")
            a_sample = sides.interval(lambda s, b=batches: s[1] / b[1] / (s[0] / b[0]), "step_s")
            row = {"larger": way.larger, "way": way.name, "stack": stack, "peak": peak, "sweep": sides.sweep}
            rows.append(row | {"time": a_sample if sides.sweep else Interval(np.nan)})
    return pd.DataFrame(rows, columns=["larger", "way", "stack", "peak", "time", "sweep"])


def frees_data(ways: pd.DataFrame) -> pd.DataFrame:
    """`frees` in plain numbers, to save."""
    ends = {name: [getattr(peak, name) for peak in ways["peak"]] for name in ("value", "low", "high")}
    return ways.drop(columns=["peak", "time", "sweep"]).assign(**ends, time=[time.value for time in ways["time"]])


def left(book: Measurements, larger: str, way: str, stacks: Iterable[str] = ()) -> dict[str, Interval]:
    """What a way leaves of the usual peak by stack. Raises KeyError without any, or without one of these stacks."""
    rows = stored.chosen(frees(book), larger=larger, way=way).set_index("stack")["peak"]
    if rows.empty:
        raise KeyError(way)
    return {stack: rows[stack] for stack in stacks or rows.index}


def in_the_same_rounds(finding: Finding, book: Measurements, way: str) -> Finding:
    """A finding on a way with a large table, which says so where its sides are not from the same rounds."""
    if stored.chosen(frees(book), larger="copies", way=way)["sweep"].all():
        return finding
    return Finding(finding.holds, f"{finding.figure}; not in the same rounds")


@claim("11.14", "Gradient checkpointing lowers the peak of dense layers on TensorFlow and JAX.", on=freest)
def again_frees(book: Measurements) -> Finding:
    return every_stack(left(book, "activations", AGAIN, ("2026-tensorflow", "2026-jax")), below(1))


@claim(
    "11.15",
    "On torch, gradient checkpointing leaves less of the peak under tcmalloc than under glibc.",
    on=freest,
    says="inconclusive",
)
def again_frees_more_under_tcmalloc(book: Measurements) -> Finding:
    glibc, tcmalloc = (
        left(book, "activations", way, ["2026-torch"])["2026-torch"] for way in (AGAIN, AGAIN_UNDER_TCMALLOC)
    )
    return Finding(higher(glibc, tcmalloc), f"{tcmalloc.text()} under tcmalloc, {glibc.text()} under glibc")


@claim(
    "11.16",
    "bfloat16 changes the peak with a large table by less than a tenth on TensorFlow, JAX and torch.",
    on=freest,
)
def half_precision_frees_no_table(book: Measurements) -> Finding:
    return in_the_same_rounds(every_stack(left(book, "copies", "bfloat16"), within(0.9, 1.1)), book, "bfloat16")


@claim(
    "11.17", "With a large table, eight batches per update hold more than one batch eight times as large.", on=freest
)
def accumulated_holds_more(book: Measurements) -> Finding:
    return in_the_same_rounds(every_stack(left(book, "copies", ACCUMULATED), above(1)), book, ACCUMULATED)


@claim("11.18", "With a large table, deferred rows hold less than dense Adam.", on=freest)
def deferred_holds_less(book: Measurements) -> Finding:
    return in_the_same_rounds(every_stack(left(book, "copies", DEFERRED), below(1)), book, DEFERRED)


# What the prose names


def _listed(values: pd.Series, spec: str = ".1f", unit: str = "") -> str:
    """ "1.2 on TensorFlow, 2.1 on JAX and 3.0 on torch", the least first. Raises KeyError without any."""
    ordered = stored.measured(values).sort_values()
    *texts, last = [f"{value:{spec}}{unit} on {TITLES.get(str(stack), stack)}" for stack, value in ordered.items()]
    return f"{', '.join(texts)} and {last}" if texts else last


def _range(values: Iterable[float], spec: str = ".2f", unit: str = "") -> str:
    """The least and the most of some values; one text where they look alike. Raises KeyError without any."""
    ordered = sorted(stored.measured(list(values)))
    return " to ".join(dict.fromkeys(f"{end:{spec}}" for end in (ordered[0], ordered[-1]))) + unit


def _coefficient(value: Callable[[memory.MemoryModel], float]) -> pd.Series:
    """A coefficient of the recipe by stack of Keras 3."""
    return pd.Series({stack: value(memory.memory_model(stack)) for stack in KERAS3})


def _off(found: pd.DataFrame) -> str:
    """By how much the recipe misses a measured peak at most."""
    return f"{(found['measured'] / found['predicted'] - 1).abs().max() * 100:.0f} %"


def _framework_above(found: pd.DataFrame) -> str:
    """By how much the recipe's framework alone exceeds a measured peak, by stack. Raises KeyError if it never does."""
    above_peak = found.set_index("stack").eval("framework / measured - 1") * 100
    return _listed(above_peak[above_peak > 0], ".0f", " %")


def _fewer(*stacks: str) -> Callable[[Measurements], str]:
    """What fewer copies of a large table leave of the peak on these stacks."""
    return lambda book: _range(peak.value for way in FEWER for peak in left(book, "copies", way, stacks).values())


def _left(larger: str, way: str, *stacks: str) -> Callable[[Measurements], str]:
    return lambda book: _range(peak.value for peak in left(book, larger, way, stacks).values())


def _again_time(stack: str) -> Callable[[Measurements], str]:
    """How many times as long a step takes with gradient checkpointing."""

    def say(book: Measurements) -> str:
        return stored.row(frees(book), larger="activations", way=AGAIN, stack=stack)["time"].text(".1f")

    return say


# Of the machine that measured the most ways to free memory; what another alone measured names it.
PROSE = Prose(
    "mem",
    there=lambda book: page.title(book, frees(book)),
    small=lambda _: small_network().title,
    parameters=lambda _: f"{by_hand()['parameters']:,}",
    weights=lambda _: f"{FLOAT * by_hand()['parameters'] / 1e6:.2f} MB",
    r=lambda _: _listed(_coefficient(lambda held: (held.idle + held.runtime) / MIB), ".0f", " MiB"),
    k=lambda _: _listed(_coefficient(lambda held: held.copies)),
    q=lambda _: _range(_coefficient(lambda held: held.kept), ".1f"),
    q_lstm=lambda _: _range(_coefficient(lambda held: held.recurrent), ".1f"),
    error=lambda _: _range(_coefficient(lambda held: held.error * 100), ".0f", " %"),
    share=lambda _: _range(framework_share(small_network()) * 100, ".0f", " %"),
    off=lambda _: _off(worked_example(small_network())),
    off_large=lambda book: _off(worked_classifier(book)),
    off_deep=lambda book: _off(worked_layers(book)),
    r_above=lambda _: _framework_above(worked_example(small_network())),
    grown=lambda _: _listed(growth(small_network())[list(KERAS3)]),
    grown_before=lambda _: _listed(growth_before_training(small_network())[list(KERAS3)]),
    grown_deep=lambda book: _listed(deep_growth(book)),
    low=lambda book: f"{copies_with(book, 'adam').min():.1f}",
    high=lambda book: f"{copies_with(book, 'adam').max():.1f}",
    high_stack=lambda book: copies_with(book, "adam").idxmax(),
    sgd=lambda book: _range(copies_with(book, "sgd"), ".1f"),
    three=lambda book: _range(copies_with(book, "sgd", "2017-theano", "2020-theano", "2026-torch"), ".1f"),
    sgd_jax=lambda book: f"{copies_with(book, 'sgd')['2026-jax']:.1f}",
    jax=lambda book: f"{copies_with(book, 'adam')['2026-jax']:.1f}",
    momentum=lambda book: f"{copies_with(book, 'momentum')['2026-tensorflow']:.1f}",
    built=lambda book: _range(before_training(book) * 100, ".0f", " %"),
    eighth=_left("copies", EIGHTH),
    accumulated=_left("copies", ACCUMULATED),
    deferred=_left("copies", DEFERRED),
    fewer=_fewer("2026-tensorflow", "2026-torch"),
    fewer_jax=_fewer("2026-jax"),
    again=_left("activations", AGAIN, "2026-tensorflow", "2026-jax"),
    again_time=_again_time("2026-tensorflow"),
    again_time_jax=_again_time("2026-jax"),
    eighth_of_layers=_left("activations", EIGHTH),
    tcmalloc_torch=_left("activations", "tcmalloc", "2026-torch"),
    predicted_growth=lambda _: predictions.told("11", "1"),
    predicted_framework=lambda _: predictions.told("11", "2"),
    predicted_jax=lambda _: predictions.told("11", "5"),
)
