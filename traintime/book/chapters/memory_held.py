"""Chapter 11, memory: S2's example by hand, what a stack holds at its peak, and one step as drawn.

What frees memory is the chapter's second question: memory.py.
"""

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import original, page, stored
from traintime.book.claims import Finding, claim
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements
from traintime.explain import memory
from traintime.explain.memory import READY
from traintime.point import make_point
from traintime.store import derived
from traintime.workloads.base import FLOAT

MIB = 2**20
KERAS2 = ("2017-theano", "2017-tensorflow", "2020-theano", "2020-tensorflow")
SIZES: dict[str, Any] = dict.fromkeys(("vocabulary", "batch", "length", "optimizer", "frozen"), ANY)
LEAST = {"adam": 4, "rmsprop": 3, "momentum": 3, "sgd": 2, "frozen": 1}  # parameters, gradients, optimizer state
LARGE = 200_000  # rows from which on the table, and little else, decides the peak


def all_between(values: pd.Series, low: float, high: float, spec: str, unit: str = "") -> Finding:
    """Whether all values, which have no interval, lie between two limits; figure: each by its name.

    Raises KeyError without any. unit: precedes the values.
    """
    if values.empty:
        raise KeyError("not measured")
    texts = ", ".join(f"{name} {value:{spec}}" for name, value in values.items())
    return Finding(bool(values.between(low, high).all()), f"{unit}{texts}")


# The document's example


def by_hand() -> dict[str, int]:
    """S2's count: numbers of a sample forward, backward, both, of a batch, and parameters, each from its layers."""
    layers = original.read("s2-layers")
    forward = int(layers["inputs"].iloc[0] + layers["outputs"].sum())
    backward = int(layers["outputs"].sum())
    batch = (forward + backward) * int(_figures()["batch"])
    parameters = int((layers["inputs"] * layers["outputs"] + layers["biases"]).sum())
    counts = {"forward": forward, "backward": backward, "sample": forward + backward}
    return counts | {"batch": batch, "parameters": parameters}


def documented() -> dict[str, float]:
    """What S2 says of the first four."""
    names = {"forward": "forward", "backward": "gradient", "sample": "sample", "batch": "batch"}
    return {name: float(_figures()[f"{theirs} elements"]) for name, theirs in names.items()}


def _figures() -> pd.Series:
    return original.read("s2-memory").set_index("name")["value"]


@claim(
    "11.1", "The layers of the document's example give its 1,820 numbers a sample and 465,920 a batch exactly.", "S2"
)
def document_adds_up(book: Measurements) -> Finding:
    if book.machine != stored.reference():
        raise KeyError(book.machine)  # arithmetic is of no machine: said once
    ours, theirs = by_hand(), documented()
    same = all(ours[name] == count for name, count in theirs.items())
    # The package counts a forward pass, input included, of the whole batch.
    activations = make_point("dense").work.activation_bytes // FLOAT
    batches = activations == ours["batch"] * ours["forward"] / ours["sample"]
    return Finding(same and batches, f"{ours['sample']:,} and {ours['batch']:,}")


def count_table() -> HTML:
    """S2's count, the layers' and the bytes of both."""
    names = ["forward, a sample", "backward, a sample", "both", "a batch"]
    counts = pd.DataFrame({"documented": documented()}).assign(counted=pd.Series(by_hand()), name=names)
    return page.columns(
        counts,
        name="numbers",
        documented=("the document", 1, ",.0f"),
        counted=("from its layers", 1, ",.0f"),
        bytes=("MB", lambda row: f"{FLOAT * row['counted'] / 1e6:.3f}"),
    )


# What a stack holds at its peak


@functools.cache
def peaks(book: Measurements) -> pd.DataFrame:
    """The points of the network whose peak was measured on a CPU: with `how`, and in bytes held, table and activations.

    held: peak less what the stack holds idle; parameter_bytes; activation_bytes: of the activations.
    """
    points = book.points(device="cpu", **SIZES).dropna(subset="peak_bytes")
    works = [make_point(**{name: row[name] for name in SIZES}).work for _, row in points.iterrows()]
    return points.assign(
        held=points["peak_bytes"] - [idle(stack) for stack in points["stack"]],
        parameter_bytes=[FLOAT * work.parameters for work in works],
        activation_bytes=[work.activation_bytes for work in works],
    )


def idle(stack: str) -> float:
    """Bytes that a stack holds when it is imported and its model built; 0 where nobody measured it."""
    return derived.footprint(stack).idle_bytes or 0.0


@functools.cache
def holdings(book: Measurements) -> pd.DataFrame:
    """What each stack holds when it trains with Adam, where enough points ran, a row a stack. Columns: stack, and

    fit (memory.Holding); error: relative, of a point from the others, the mean of their sizes; worst: the largest of
    them with its sign; at: the sizes of that point.
    """
    rows = []
    for stack, points in stored.chosen(peaks(book), how="adam").groupby("stack", sort=False):
        parameters, activations = points["parameter_bytes"], points["activation_bytes"]
        if len(points) > 3 and parameters.nunique() > 2 and activations.nunique() > 1:
            fit = memory.holding(parameters, activations, points["held"])
            far = int(np.abs(fit.left_out).argmax())
            point = points.iloc[far]
            sizes = f"{point['vocabulary']:,} rows, batch {point['batch']:,}, length {point['length']}"
            row = {"stack": stack, "fit": fit, "error": float(np.abs(fit.left_out).mean())}
            rows.append(row | {"worst": float(fit.left_out[far]), "at": sizes})
    return pd.DataFrame(rows, columns=["stack", "fit", "error", "worst", "at"])


def holding_table(book: Measurements) -> HTML:
    """What each stack holds idle, as runtime, in copies of the parameters and of the activations; and the error."""
    return page.columns(
        holdings(book),
        stack="",
        runtime=("idle + runtime (MiB)", lambda row: f"{_mib(idle(row['stack']))} + {_mib(row['fit'].runtime)}"),
        copies=("copies", lambda row: f"{row['fit'].copies:.1f}"),
        kept=("activations", lambda row: f"{row['fit'].kept:.2f}"),
        error=("error, left out", 1, ".0%"),
        worst=("the worst", lambda row: f"{row['worst']:+.0%}<br>{row['at']}"),
    )


def _mib(size: float) -> str:
    return "" if np.isnan(size) else f"{size / MIB:,.0f}"


def here_table(run: Measurements, book: Measurements) -> HTML:
    """Points of a run: what they hold beyond idle, and what the coefficients of another machine predict."""
    fits = holdings(book).set_index("stack")["fit"]

    def predicted(row: pd.Series) -> str:
        fit = fits.get(row["stack"])
        return _mib(fit.bytes(row["parameter_bytes"], row["activation_bytes"])) if fit else ""

    return page.columns(
        peaks(run),
        stack="",
        vocabulary=("vocabulary", 1, ","),
        batch=("batch", 1, ","),
        held=("held (MiB)", 1 / MIB, ",.0f"),
        predicted=("foretold (MiB)", predicted),
    )


@claim(
    "11.2",
    "A runtime, copies of the parameters and kept activations give the held memory of a left-out point within "
    "10 % on average on today's stacks, within 20 % on the older ones.",
)
def three_parts(book: Measurements) -> Finding:
    errors = holdings(book).set_index("stack")["error"].astype(float)
    old = errors.index.isin(KERAS2)
    if old.all() or not old.any():
        raise KeyError("stacks of both kinds are needed")
    new, old = errors[~old], errors[old]
    figure = "; ".join(f"{side.max():.0%} on {side.idxmax()} at most" for side in (new, old))
    return Finding(bool(new.max() <= 0.1 and old.max() <= 0.2), figure)


# Copies of a large table


@functools.cache
def copies(book: Measurements) -> pd.DataFrame:
    """Copies of the parameters held with a large table: index stack, a column a way of training.

    What is held beyond idle, less the activations, over the parameters; of several points the largest table's.
    """
    points = peaks(book)
    if points.empty:
        return pd.DataFrame()
    large = points.query("vocabulary >= @LARGE and batch == 100 and length == 25").sort_values("vocabulary")
    large = large.drop_duplicates(["stack", "how"], keep="last")
    beyond = (large["held"] - large["activation_bytes"]) / large["parameter_bytes"]
    table = large.assign(copies=beyond).pivot_table("copies", "stack", "how", sort=False)
    ways = [way for way in [*LEAST, "adam-rows", "adam-deferred", "adam-accumulated"] if way in table]
    return table.loc[stored.stack_order(table.index), ways]


def copies_with(book: Measurements, how: str, *stacks: str) -> pd.Series:
    """Those of one way of training by stack, of these stacks or of all. Raises KeyError without the way."""
    measured = copies(book)[how].dropna()
    return measured[[stack for stack in stacks or measured.index if stack in measured]]


def copies_table(book: Measurements) -> HTML:
    """Copies of a large table by way of training, over the least there can be."""
    measured = copies(book)
    if measured.empty:
        return page.nothing()
    ways = [way for way in measured if way in LEAST]
    least = pd.DataFrame([{"stack": "the least"} | {way: str(LEAST[way]) for way in ways}])
    rows = pd.concat([least, measured.reset_index()])
    return page.columns(rows, stack="copies held", **{way: (way, 1.0, ".1f") for way in ways})


@claim("11.3", "Both Theanos and JAX hold four copies of a large table with Adam, the least.")
def theano_and_jax_hold_the_least(book: Measurements) -> Finding:
    return all_between(copies_with(book, "adam", "2017-theano", "2020-theano", "2026-jax"), 3.8, 4.5, ".1f")


@claim("11.4", "TensorFlow 1 holds more than eight copies with Adam.")
def tensorflow_1_holds_eight(book: Measurements) -> Finding:
    return all_between(copies_with(book, "adam", "2017-tensorflow", "2020-tensorflow"), 8, np.inf, ".1f")


@claim("11.5", "Without momentum training holds three copies of the weights.", "S2", says="does not hold")
def three_times(book: Measurements) -> Finding:
    return all_between(copies_with(book, "sgd"), 2.5, 3.5, ".1f")


@claim("11.6", "Training holds four and a half copies of the weights, with Adam.", "S2", says="does not hold")
def four_and_a_half(book: Measurements) -> Finding:
    return all_between(copies_with(book, "adam"), 4, 5, ".1f")


@claim("11.9", "Training holds twice the weights, without momentum and with a large table.", "S2", says="does not hold")
def twice(book: Measurements) -> Finding:
    return all_between(copies_with(book, "sgd"), 1.5, 2.5, ".1f")


def under_tcmalloc(book: Measurements) -> pd.Series:
    """The peak with a large table under tcmalloc over that under glibc, by stack, the least first."""
    points = book.points(vocabulary=LARGE, allocator=["glibc", "tcmalloc"], onednn="auto").dropna(subset="peak_bytes")
    wide = points.pivot_table("peak_bytes", "stack", "allocator", sort=False)
    return (wide["tcmalloc"] / wide["glibc"]).dropna().sort_values()


# The example, measured


@functools.cache
def example(book: Measurements) -> pd.DataFrame:
    """S2's example as measured, its points: with idle and held, bytes beyond idle.

    peak_bytes and held are without the batches that lie ready: those are data, which each program keeps as it likes.
    """
    points = book.points(workload="dense", batch=ANY).dropna(subset="peak_bytes")
    data = [READY * FLOAT * row.batch * (row.inputs + row.outputs) for row in points.itertuples()]
    points = points.assign(peak_bytes=points["peak_bytes"] - data, idle=[idle(stack) for stack in points["stack"]])
    return points.assign(held=points["peak_bytes"] - points["idle"])


def example_table(book: Measurements) -> HTML:
    """Mebibytes that S2's example holds beyond idle, a row a stack, a column a batch."""
    wide = example(book).pivot_table("held", ["stack", "idle"], "batch", sort=False).reset_index()
    batches = {str(batch): (f"batch {batch:,}", 1 / MIB, ",.1f") for batch in wide.columns[2:]}
    return page.columns(wide.rename(columns=str), stack="MiB", idle=("idle", 1 / MIB, ",.0f"), **batches)


def growth(book: Measurements) -> pd.Series:
    """By how much it grows from a batch of 1 to 4,096, in units of the numbers of the forward pass, by stack."""
    wide = example(book).pivot_table("held", "stack", "batch", sort=False)
    return (wide[4096] - wide[1]).dropna() / (FLOAT * 4095 * by_hand()["forward"])


def framework_share(book: Measurements) -> pd.Series:
    """The idle framework's part of the peak at a batch of 256, by stack of Keras."""
    points = example(book).query("batch == 256 and stack != 'numpy'").set_index("stack")
    return points["idle"] / points["peak_bytes"]


@claim(
    "11.7",
    "From a batch of 1 to 4,096 the example's memory grows by half to two and a half times its forward pass.",
    says="not measured",
)
def grows_by_activations(book: Measurements) -> Finding:
    more = growth(book)
    if len(more) < 2:
        raise KeyError("the example was measured on one stack alone")
    return all_between(more, 0.5, 2.5, ".2f", "times the forward pass: ")


@claim(
    "11.8",
    "At the example's size, batch 256, the framework itself is more than 90 % of the peak on every Keras stack.",
    says="not measured",
)
def mostly_framework(book: Measurements) -> Finding:
    return all_between(framework_share(book), 0.9, np.inf, ".0%")


# One step, as drawn


def watched(
    work: Callable[[Callable[[str], None]], None], every_s: float = 0.0002
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """This process' memory while work(mark) runs: columns s and mib, and its marks: columns s and name (Linux).

    work calls mark("backward") where a part of it begins. What the process held before is taken off.
    """
    statm = Path("/proc/self/statm")
    samples: list[tuple[float, int]] = []
    marks: list[tuple[float, str]] = []
    done = threading.Event()
    start = time.perf_counter()

    def look() -> None:
        while not done.is_set():
            samples.append((time.perf_counter() - start, int(statm.read_text().split()[1])))
            time.sleep(every_s)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        work(lambda name: marks.append((time.perf_counter() - start, name)))
    finally:
        done.set()
        watcher.join()
    table = pd.DataFrame(samples, columns=["s", "pages"])
    mib = (table["pages"] - table["pages"].iloc[0]) * 4096 / MIB
    return pd.DataFrame({"s": table["s"], "mib": mib}), pd.DataFrame(marks, columns=["s", "name"])


# What the prose names


def _ordered(book: Measurements, how: str) -> pd.Series:
    """Copies of a large table in one way of training by stack, the least first."""
    return copies_with(book, how).sort_values()


def _ranked(book: Measurements, column: str) -> pd.DataFrame:
    """`holdings` by the size of one of its errors, the least first."""
    return holdings(book).sort_values(column, key=np.abs)


def _runtimes(book: Measurements) -> list[str]:
    """Of the stacks that hold a runtime, MiB, the least first."""
    return [_mib(runtime) for runtime in sorted(fit.runtime for fit in holdings(book)["fit"]) if runtime]


def _example(book: Measurements) -> str:
    book = stored.having(book, example)
    shares, grown = framework_share(book), growth(book)
    if shares.empty:
        raise KeyError("the example was not measured")
    return (
        f"With its batch of 256 the framework itself, idle, is {shares.min():.0%} to {shares.max():.0%} of the peak on "
        f"the Keras stacks. From a batch of 1 to 4,096 memory grows by {grown.min():.1f} to {grown.max():.1f} times "
        'the numbers of the forward pass. For a network of this size the answer to "does it fit?" is the software.'
    )


PROSE = Prose(
    "mem",
    there=lambda book: book.title,
    parameters=lambda book: f"{by_hand()['parameters']:,}",
    weights=lambda book: f"{FLOAT * by_hand()['parameters'] / 1e6:.2f} MB",
    batch=lambda book: f"{FLOAT * by_hand()['batch'] / 1e6:.2f} MB",
    low=lambda book: f"{_ordered(book, 'adam').iloc[0]:.1f}",
    low_stack=lambda book: _ordered(book, "adam").index[0],
    high=lambda book: f"{_ordered(book, 'adam').iloc[-1]:.1f}",
    high_stack=lambda book: _ordered(book, "adam").index[-1],
    sgd_low=lambda book: f"{_ordered(book, 'sgd').iloc[0]:.1f}",
    sgd_high=lambda book: f"{_ordered(book, 'sgd').iloc[-1]:.1f}",
    numpy_adam=lambda book: f"{copies_with(book, 'adam')['numpy']:.1f}",
    numpy_rows=lambda book: f"{copies_with(book, 'adam-rows')['numpy']:.1f}",
    numpy_frozen=lambda book: f"{copies_with(book, 'frozen')['numpy']:.1f}",
    runtime_low=lambda book: _runtimes(book)[0],
    runtime_high=lambda book: _runtimes(book)[-1],
    error_low=lambda book: f"{_ranked(book, 'error').iloc[0]['error']:.0%}",
    error_high=lambda book: f"{_ranked(book, 'error').iloc[-1]['error']:.0%}",
    error_stack=lambda book: _ranked(book, "error").iloc[-1]["stack"],
    worst=lambda book: f"{_ranked(book, 'worst').iloc[-1]['worst']:+.0%}",
    worst_at=lambda book: "{stack} ({at})".format(**_ranked(book, "worst").iloc[-1]),
    tcmalloc=lambda book: f"{under_tcmalloc(book).iloc[-1]:.2f}",
    example=_example,
)
