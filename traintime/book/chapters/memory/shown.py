"""What the page on memory shows: tables, and the numbers of its prose."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.memory.analysis import (
    ACCUMULATED,
    AGAIN,
    DEFERRED,
    EIGHTH,
    KEEPING,
    KERAS3,
    LEAST,
    ON_A_GPU,
    before_training,
    by_hand,
    copies,
    documented,
    frees,
    holdings,
    kept_by_allocators,
    of_the_example,
    of_the_table,
    points,
    worst,
)
from traintime.book.stored import Measurements
from traintime.explain.memory import Holding
from traintime.store import derived
from traintime.workloads.base import FLOAT

MIB = 2**20


def count_table() -> HTML:
    """The document's count, the layers' and the bytes of both."""
    ours, theirs = by_hand(), documented()
    names = {"forward": "forward, a sample", "backward": "backward, a sample", "sample": "both", "batch": "a batch"}
    rows = [
        [text, f"{theirs[name]:,.0f}", f"{ours[name]:,}", f"{FLOAT * ours[name] / 1e6:.3f}"]
        for name, text in names.items()
    ]
    return page.table(["numbers", "the document", "from its layers", "MB"], rows)


def holding_table(fits: Mapping[str, Holding], far: pd.DataFrame) -> HTML:
    """What each stack holds idle, as runtime, in copies of the parameters and of the activations; and the error.

    far: of each stack the point that the others foretell worst, as `worst` gives it.
    """
    rows = []
    for stack, fit in fits.items():
        idle = derived.footprint(stack).idle_bytes or 0
        mib = f"{idle / MIB:,.0f} + {fit.runtime / MIB:,.0f}"
        row = [stack, mib, f"{fit.copies:.1f}", f"{fit.kept:.2f}", f"{np.abs(fit.left_out).mean():.0%}"]
        rows.append([*row, f"{far.loc[stack, 'error']:+.0%}<br>{_sizes(far.loc[stack])}"])
    heads = ["", "idle + runtime (MiB)", "copies", "activations", "error, left out", "the worst"]
    return page.table(heads, rows) if rows else page.nothing()


def _sizes(point: pd.Series) -> str:
    """A point by what tells it from its neighbours."""
    return f"{point['vocabulary']:,} rows, batch {point['batch']:,}, length {point['length']}"


def frees_table(found: pd.DataFrame) -> HTML:
    """What each way leaves of the usual peak, and its time a sample over the usual, a row a way. found: as `frees`."""
    if found.empty:
        return page.nothing("`traintime sweep --only memory-frees --only memory-frees-activations` measures it.")
    rows = []
    for (larger, way), group in found.groupby(["larger", "way"], sort=False):
        of_stack = group.set_index("stack")
        cells = [_left(of_stack.loc[stack]) if stack in of_stack.index else "" for stack in KERAS3]
        rows.append([larger, way, *cells])
    heads = ["the larger part", "what is done", *(f"peak and time, {stack.removeprefix('2026-')}" for stack in KERAS3)]
    return page.table(heads, rows)


def _left(row: pd.Series) -> str:
    """The peak that is left, marked where it stands against another sweep's, and the time a sample."""
    cost = stored.Interval(row["cost"], row["cost_low"], row["cost_high"])
    peak = page.span(row)
    return f"{peak}<br>time {cost.text('.2f')}" if row["sweep"] else f"{peak} *"


def gpu_table(found: pd.DataFrame) -> HTML:
    """What a GPU's memory held at each point, MiB. found: as `on_gpu` gives it."""
    if found.empty:
        return HTML("<p><em>No GPU has been measured yet.</em></p>")
    rows = [
        [row["stack"], row["key"], f"{row['parameter_bytes'] / MIB:,.0f}", *(_mib(row[name]) for name in ON_A_GPU)]
        for _, row in found.iterrows()
    ]
    return page.table(["", "point", "parameters (MiB)", "allocated", "reserved", "the driver shows"], rows)


def _mib(size: float) -> str:
    return "" if np.isnan(size) else f"{size / MIB:,.0f}"


def copies_table(table: pd.DataFrame) -> HTML:
    """Copies of a large table by way of training, over the least there can be. table: as `copies` gives it."""
    ways = [way for way in table if way in LEAST]
    rows = [["the least", *(f"{LEAST[way]}" for way in ways)]]
    rows += [
        [stack, *("" if np.isnan(row[way]) else f"{row[way]:.1f}" for way in ways)] for stack, row in table.iterrows()
    ]
    return page.table(["copies held", *ways], rows) if len(table) else page.nothing()


def example_table(found: pd.DataFrame) -> HTML:
    """Mebibytes that the document's example holds beyond idle, a row a stack, a column a batch."""
    if found.empty:
        return page.nothing()
    wide = found.pivot_table("held", "stack", "batch", sort=False) / MIB
    idle = found.drop_duplicates("stack").set_index("stack")["idle"] / MIB
    rows = [
        [stack, f"{idle[stack]:,.0f}", *("" if np.isnan(value) else f"{value:,.1f}" for value in row)]
        for stack, row in wide.iterrows()
    ]
    return page.table(["MiB", "idle", *(f"batch {batch:,}" for batch in wide)], rows)


def here_table(found: pd.DataFrame, fits: Mapping[str, Holding]) -> HTML:
    """Points of this run: what they hold beyond idle, and what the stored coefficients foretell."""
    rows = []
    for row in found.itertuples():
        fit = fits.get(row.stack)
        told = f"{fit.bytes(row.parameter_bytes, row.activation_bytes) / MIB:,.0f}" if fit else ""
        rows.append([row.stack, f"{row.vocabulary:,}", f"{row.batch:,}", f"{row.held / MIB:,.0f}", told])
    return page.table(["", "vocabulary", "batch", "held (MiB)", "foretold (MiB)"], rows) if rows else page.nothing()


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that a machine cannot give says so."""
    found = points(book)
    fits, table, ratios = holdings(found), copies(found), kept_by_allocators(book)
    ours, runtimes = by_hand(), [fit.runtime for fit in fits.values() if fit.runtime]
    errors = {stack: float(np.abs(fit.left_out).mean()) for stack, fit in fits.items()}
    far = worst(found, fits).sort_values("error", key=np.abs)

    def ends(column: str, give: Callable[[pd.Series], object]) -> Callable[[], str]:
        return lambda: str(give(table[column].dropna()))

    def at(stack: str, way: str) -> Callable[[], str]:
        return lambda: f"{table.loc[stack, way]:.1f}"

    asked: dict[str, Callable[[], str]] = {
        "there": lambda: book.title,
        "low": ends("adam", lambda held: f"{held.min():.1f}"),
        "low-stack": ends("adam", lambda held: held.idxmin()),
        "high": ends("adam", lambda held: f"{held.max():.1f}"),
        "high-stack": ends("adam", lambda held: held.idxmax()),
        "sgd-low": ends("sgd", lambda held: f"{held.min():.1f}"),
        "sgd-high": ends("sgd", lambda held: f"{held.max():.1f}"),
        "numpy-adam": at("numpy", "adam"),
        "numpy-rows": at("numpy", "adam-rows"),
        "numpy-frozen": at("numpy", "frozen"),
        "runtime-low": lambda: f"{_of(min, runtimes) / MIB:,.0f}",
        "runtime-high": lambda: f"{_of(max, runtimes) / MIB:,.0f}",
        "error-low": lambda: f"{_of(min, errors.values()):.0%}",
        "error-high": lambda: f"{_of(max, errors.values()):.0%}",
        "error-stack": lambda: _of(partial(max, key=lambda stack: errors[stack]), errors),
        "worst": lambda: f"{far['error'].iloc[-1]:+.0%}",
        "worst-at": lambda: f"{far.index[-1]} ({_sizes(far.iloc[-1])})",
        "tcmalloc": lambda: f"{ratios.loc[ratios['allocator'] == 'tcmalloc', 'ratio'].max():.2f}",
        "example": lambda: _what_the_example_holds(of_the_example(stored.having(book, of_the_example))),
    }
    given = {f"mem-{name}": page.or_not_measured(give) for name, give in asked.items()}
    return given | {
        "mem-parameters": f"{ours['parameters']:,}",
        "mem-weights": f"{FLOAT * ours['parameters'] / 1e6:.2f} MB",
        "mem-batch": f"{FLOAT * ours['batch'] / 1e6:.2f} MB",
    }


def freed(book: Measurements) -> dict[str, str]:
    """The numbers of the sentences on what frees memory. book: a machine that measured most of the ways."""
    found, share = frees(book), before_training(of_the_table(book))

    def left(way: str) -> Callable[[], str]:
        return lambda: _ends(found.loc[(found["larger"] == "copies") & (found["way"] == way), "ratio"])

    def of_layers(way: str, stack: str) -> Callable[[], str]:
        return lambda: page.span(stored.row(found, larger="activations", way=way, stack=stack))

    asked: dict[str, Callable[[], str]] = {
        "machine": lambda: page.title(book, found),
        "again-tensorflow": of_layers(AGAIN, "2026-tensorflow"),
        "again-jax": of_layers(AGAIN, "2026-jax"),
        "tcmalloc-torch": of_layers(KEEPING["allocator"], "2026-torch"),
        "eighth": left(EIGHTH),
        "accumulated": left(ACCUMULATED),
        "deferred": left(DEFERRED),
        "built": lambda: _ends(share.loc[share.index.isin(["2026-jax", "2026-torch"]), "sgd"].dropna(), ".0%"),
    }
    return {f"mem-freed-{name}": page.or_not_measured(give) for name, give in asked.items()}


def _ends(values: pd.Series, spec: str = ".2f") -> str:
    """The least and the most of some values; one text where they look alike."""
    return " to ".join(dict.fromkeys(f"{_of(pick, values):{spec}}" for pick in (min, max)))


def _of(pick: Callable[[Iterable[Any]], Any], values: Iterable[Any]) -> Any:
    """The least, or the most, of some values; raises KeyError where there are none."""
    found = list(values)
    if not found:
        raise KeyError("not measured")
    return pick(found)


def _what_the_example_holds(example: pd.DataFrame) -> str:
    """The sentence on the document's network: the framework's own part of the peak, and what the batch adds."""
    wide = example.pivot_table("held", "stack", "batch", sort=False) if len(example) else example
    keras = example[(example["batch"] == 256) & (example["stack"] != "numpy")] if len(example) else example
    if keras.empty or not {1, 4096} <= set(wide):
        return "It is not measured yet: `traintime sweep --only dense` measures it, in some minutes."
    shares = keras["idle"] / keras["peak_bytes"]
    grown = (wide[4096] - wide[1]).dropna() / (FLOAT * 4095 * by_hand()["forward"])
    return (
        f"With its batch of 256 the framework itself, idle, is {shares.min():.0%} to {shares.max():.0%} of the peak on "
        f"the Keras stacks. From a batch of 1 to 4,096 memory grows by {grown.min():.1f} to {grown.max():.1f} times "
        'the numbers of the forward pass. For a network of this size the answer to "does it fit?" is the software.'
    )
