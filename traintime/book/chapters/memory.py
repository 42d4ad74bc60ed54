"""Chapter 11, memory: what frees it. What a stack holds at its peak is in memory_held.py."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.memory_held import KERAS2, LARGE, MIB, SIZES, all_between, copies
from traintime.book.claims import Finding, above, below, claim, every_stack, higher, within
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements
from traintime.explain.statistics import Interval
from traintime.store.records import Record
from traintime.workloads.base import FLOAT

KERAS3 = ("2026-tensorflow", "2026-jax", "2026-torch")


# Copies by optimizer, on the machine that trained in most ways


def freest(machine: str = "") -> Measurements:
    """The machine named, or else the one that measured the most ways to free memory."""
    return stored.best(lambda book: len(frees(book)) or None, machine)


def by_optimizer(book: Measurements, *ways: str) -> pd.DataFrame:
    """Copies of a large table in these ways, of the stacks that measured all of them."""
    return copies(book).reindex(columns=list(ways)).dropna()


@claim(
    "11.10",
    "Momentum and RMSprop hold no more copies of a large table than Adam and no fewer than SGD, within a quarter.",
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
    "In Keras 2 SGD holds as many copies as momentum, within a quarter: it keeps a velocity that it does not need.",
    on=freest,
)
def velocity_of_keras2(book: Measurements) -> Finding:
    table = by_optimizer(book, "sgd", "momentum")
    more = table["momentum"] - table["sgd"]
    return all_between(more[more.index.isin(KERAS2)], -0.25, 0.25, "+.2f")


@claim(
    "11.12",
    "On JAX SGD, momentum and RMSprop hold four copies, within a half, as Adam does.",
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


@claim("11.13", "With SGD and a large table JAX and torch hold 98 % of their peak before the first step.", on=freest)
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
LAYERS: dict[str, Any] = {"workload": "dense", "inputs": 100, "hidden": 256, "layers": 32, "batch": 8192}
IMAGES: dict[str, Any] = {"workload": "blocks", "structure": "plain", "width": 32}
HALF: dict[str, Any] = {"precision": "mixed-bfloat16"}
TCMALLOC: dict[str, Any] = {"allocator": "tcmalloc"}
AGAIN, ACCUMULATED, EIGHTH, DEFERRED = "computed again", "eight batches an update", "an eighth of a batch", "deferred"
AGAIN_UNDER_TCMALLOC = f"{AGAIN}, both under tcmalloc"
WAYS = (
    Way("copies", EIGHTH, TABLE | {"batch": 800}, {"batch": 100}),
    Way("copies", ACCUMULATED, TABLE | {"batch": 800}, {"batch": 100, "accumulated": 8}),
    Way("copies", "SGD", TABLE, {"optimizer": "sgd"}),
    Way("copies", "a frozen table", TABLE, {"frozen": True}),
    Way("copies", DEFERRED, TABLE, {"optimizer": "adam-deferred"}),
    Way("copies", "bfloat16", TABLE, HALF),
    Way("copies", "tcmalloc", TABLE, TCMALLOC),
    Way("activations", EIGHTH, LAYERS, {"batch": 1024}),
    Way("activations", AGAIN, LAYERS, {"recompute": True}),
    Way("activations", AGAIN_UNDER_TCMALLOC, LAYERS | TCMALLOC, {"recompute": True}),
    Way("activations", "SGD", LAYERS, {"optimizer": "sgd"}),
    Way("activations", "bfloat16", LAYERS, HALF),
    Way("activations", "tcmalloc", LAYERS, TCMALLOC),
    Way("images", "bfloat16", IMAGES, HALF),
    Way("images", "float16", IMAGES, {"precision": "mixed-float16"}),
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


def frees_table(book: Measurements) -> HTML:
    """`frees`, a row a way; a peak that is compared with another sweep's is marked."""
    rows = [
        {"larger": larger, "way": way} | {row["stack"]: _peak_and_time(row) for _, row in stacks.iterrows()}
        for (larger, way), stacks in frees(book).groupby(["larger", "way"], sort=False)
    ]
    return page.columns(
        pd.DataFrame(rows, columns=["larger", "way", *KERAS3]),
        remedy="`traintime sweep --only memory-frees --only memory-frees-activations` measures it.",
        larger="the larger part",
        way="what is done",
        **{stack: f"peak and time, {stack.removeprefix('2026-')}" for stack in KERAS3},
    )


def _peak_and_time(row: pd.Series) -> str:
    return f"{row['peak'].text()}<br>time {row['time'].text()}" if row["sweep"] else f"{row['peak'].text()} *"


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


@claim("11.14", "Computing activations again lowers the peak of dense layers on TensorFlow and JAX.", on=freest)
def again_frees(book: Measurements) -> Finding:
    return every_stack(left(book, "activations", AGAIN, ("2026-tensorflow", "2026-jax")), below(1))


@claim(
    "11.15",
    "On torch computing activations again leaves less of the peak under tcmalloc than under glibc.",
    on=freest,
    says="cannot be told",
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


@claim("11.17", "With a large table eight batches an update hold more than one batch eight times as large.", on=freest)
def accumulated_holds_more(book: Measurements) -> Finding:
    return in_the_same_rounds(every_stack(left(book, "copies", ACCUMULATED), above(1)), book, ACCUMULATED)


@claim("11.18", "With a large table deferred rows hold less than dense Adam.", on=freest)
def deferred_holds_less(book: Measurements) -> Finding:
    return in_the_same_rounds(every_stack(left(book, "copies", DEFERRED), below(1)), book, DEFERRED)


# A GPU's memory

ON_A_GPU = {"allocated": "allocated", "reserved": "reserved", "in_use": "the driver shows"}


def gpu_records() -> list[Record]:
    """The stored records of S0's network on a GPU, of every machine that has one."""
    any_of = SIZES | {"device": "gpu", "kernel": ANY, "precision": ANY}
    return [record for name in stored.named() for record in stored.of(name).records(**any_of)]


def gpu_table(records: Iterable[Record]) -> HTML:
    """What a GPU's memory held at each point at the most of its invocations, MiB; those of a CPU are passed over.

    Allocated: by arrays; reserved: by the framework; and what the driver tells. Empty where nobody tells.
    """
    rows = []
    for record in records:
        memories = [invocation.result.memory for invocation in record.invocations if invocation.result]
        most = pd.DataFrame(memories, columns=[f"device_{name}" for name in ON_A_GPU]).max()
        if not np.isnan(most["device_allocated"]):
            point = {"stack": record.stack, "key": record.key, "parameters": FLOAT * record.point.work.parameters}
            rows.append(point | most.to_dict())
    heads = {f"device_{name}": (head, 1 / MIB, ",.0f") for name, head in ON_A_GPU.items()}
    return page.columns(
        pd.DataFrame(rows),
        remedy="It needs a GPU.",
        stack="",
        key="point",
        parameters=("parameters (MiB)", 1 / MIB, ",.0f"),
        **heads,
    )


# What the prose names


def _range(values: Iterable[float], spec: str = ".2f") -> str:
    """The least and the most of some values; one text where they look alike. Raises IndexError without any."""
    ordered = sorted(values)
    return " to ".join(dict.fromkeys(f"{end:{spec}}" for end in (ordered[0], ordered[-1])))


def _left_with_a_large_table(way: str) -> Callable[[Measurements], str]:
    return lambda book: _range(peak.value for peak in left(book, "copies", way).values())


def _left_of_layers(way: str, stack: str) -> Callable[[Measurements], str]:
    return lambda book: left(book, "activations", way, [stack])[stack].text()


PROSE = Prose(
    "mem-freed",
    machine=lambda book: page.title(book, frees(book)),
    again_tensorflow=_left_of_layers(AGAIN, "2026-tensorflow"),
    again_jax=_left_of_layers(AGAIN, "2026-jax"),
    tcmalloc_torch=_left_of_layers("tcmalloc", "2026-torch"),
    eighth=_left_with_a_large_table(EIGHTH),
    accumulated=_left_with_a_large_table(ACCUMULATED),
    deferred=_left_with_a_large_table(DEFERRED),
    built=lambda book: _range(before_training(book), ".0%"),
)
