"""Chapter 11, memory: S2's example by hand, and what stacks held at their peaks.

The recipe that predicts a peak, and what frees memory: memory.py.
"""

import functools
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import original, stored
from traintime.book.claims import Finding, claim, claim_without_machine
from traintime.book.stored import ANY, Measurements
from traintime.explain import memory
from traintime.explain.memory import READY
from traintime.point import make_point
from traintime.workloads.base import FLOAT

MIB = 2**20
KERAS2 = ("2017-theano", "2017-tensorflow", "2020-theano", "2020-tensorflow")
SIZES: dict[str, Any] = dict.fromkeys(("vocabulary", "batch", "length", "optimizer", "frozen"), ANY)
LEAST = {"adam": 4, "rmsprop": 3, "momentum": 3, "sgd": 2, "frozen": 1}  # parameters, gradients, optimizer state
LAYERS: dict[str, Any] = {"workload": "dense", "inputs": 100, "hidden": 256, "layers": 32, "batch": 8192}
LARGE = 200_000  # rows from which on the table, and little else, decides the peak


def all_between(values: pd.Series, low: float, high: float, spec: str, unit: str = "") -> Finding:
    """Whether all values, which have no interval, lie between two limits; figure: each by its name.

    Raises KeyError without any. unit: precedes the values.
    """
    if values.empty:
        raise KeyError("not measured")
    texts = ", ".join(f"{name} {value:{spec}}" for name, value in values.items())
    return Finding(bool(values.between(low, high).all()), f"{unit}{texts}")


# S2's example


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


@claim_without_machine(
    "11.1",
    "The layers of the example give its 1,820 numbers per sample and 465,920 per batch exactly.",
    "S2",
    original.ARITHMETIC,
)
def document_adds_up() -> Finding:
    ours, theirs = by_hand(), documented()
    same = all(ours[name] == count for name, count in theirs.items())
    # The package counts a forward pass, input included, of the whole batch.
    activations = make_point("dense").work.activation_bytes // FLOAT
    batches = activations == ours["batch"] * ours["forward"] / ours["sample"]
    return Finding(same and batches, f"{ours['sample']:,} and {ours['batch']:,}")


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
    return memory.idle_bytes(stack, 0.0)


def three_part_errors(book: Measurements) -> "pd.Series[float]":
    """By how much a runtime, copies and activations that are fitted to the other points miss what a point holds with
    Adam, a share, the mean over the points: by stack, of those where enough points ran.
    """
    found = {}
    for stack, points in stored.chosen(peaks(book), how="adam").groupby("stack", sort=False):
        parameters, activations, held = points["parameter_bytes"], points["activation_bytes"], points["held"]
        if len(points) > 3 and parameters.nunique() > 2 and activations.nunique() > 1:
            design = np.column_stack([np.ones(len(points)), parameters, activations])
            _, by_others = memory.told_apart(design, held.to_numpy(float), held.to_numpy(float))
            found[stack] = np.abs(by_others / held - 1).mean()
    return pd.Series(found, dtype=float)


@claim(
    "11.2",
    "A runtime, copies of the parameters and activations predict the memory of a configuration that the fit has not "
    "seen within 10 % on average on today's stacks and within 20 % on the older ones.",
)
def three_parts(book: Measurements) -> Finding:
    errors = three_part_errors(book)
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
    measured = copies(book).loc[:, how].dropna()
    return measured[[stack for stack in stacks or measured.index if stack in measured]]


@claim("11.3", "Both Theanos and JAX hold four copies of a large table with Adam, which is the least.")
def theano_and_jax_hold_the_least(book: Measurements) -> Finding:
    return all_between(copies_with(book, "adam", "2017-theano", "2020-theano", "2026-jax"), 3.8, 4.5, ".1f")


@claim("11.4", "TensorFlow 1 holds more than eight copies with Adam.")
def tensorflow_1_holds_eight(book: Measurements) -> Finding:
    return all_between(copies_with(book, "adam", "2017-tensorflow", "2020-tensorflow"), 8, np.inf, ".1f")


@claim("11.5", "Without momentum training holds three copies of the weights.", "S2", says="does not hold")
def three_times(book: Measurements) -> Finding:
    return all_between(copies_with(book, "sgd"), 2.5, 3.5, ".1f")


@claim("11.19", "Without momentum training holds three copies of the weights on at least one stack.", "S2")
def three_times_somewhere(book: Measurements) -> Finding:
    return Finding(bool(copies_with(book, "sgd").between(2.5, 3.5).any()), three_times(book).figure)


@claim("11.6", "Training holds four and a half copies of the weights, with Adam.", "S2", says="does not hold")
def four_and_a_half(book: Measurements) -> Finding:
    return all_between(copies_with(book, "adam"), 4, 5, ".1f")


@claim("11.9", "Training holds twice the weights, without momentum and with a large table.", "S2", says="does not hold")
def twice(book: Measurements) -> Finding:
    return all_between(copies_with(book, "sgd"), 1.5, 2.5, ".1f")


# The example, measured


@functools.cache
def example(book: Measurements) -> pd.DataFrame:
    """S2's example as measured, a row a stack and batch: with idle and held, bytes beyond idle."""
    points = without_data(book.points(workload="dense", batch=ANY).dropna(subset="peak_bytes"))
    points = points.assign(idle=[idle(stack) for stack in points["stack"]])
    return points.assign(held=points["peak_bytes"] - points["idle"])


def without_data(points: pd.DataFrame) -> pd.DataFrame:
    """Points of dense networks whose peak lacks the batches that lie ready, which are data."""
    data = [READY * FLOAT * row.batch * (row.inputs + row.outputs) for row in points.itertuples()]
    return points.assign(peak_bytes=points["peak_bytes"] - data)


def small_network() -> Measurements:
    """The machine that measured the example."""
    return stored.having(stored.of(), example)


def grown(points: pd.DataFrame, low: int, high: int) -> pd.Series:
    """By how much the peak grows from one batch to another, in units of the numbers of the forward pass, by stack."""
    point = points.iloc[0]
    sample = point["inputs"] + point["layers"] * point["hidden"] + point["outputs"]
    wide = points.pivot_table("peak_bytes", "stack", "batch", sort=False)
    return (wide.loc[:, high] - wide.loc[:, low]).dropna() / (FLOAT * (high - low) * sample)


def growth(book: Measurements) -> pd.Series:
    """That of the example from a batch of 1 to 4,096."""
    return grown(stored.measured(example(book)), 1, 4096)


def growth_before_training(book: Measurements) -> pd.Series:
    """The part of `growth` that is there before the first step, when the worker has drawn its batches."""
    rows = [
        (record.stack, record.point.sizes, invocation.result.memory["built"])
        for record in book.records(workload="dense", batch=[1, 4096])
        for invocation in record.invocations
        if invocation.result
    ]
    points = pd.DataFrame([sizes.model_dump() | {"stack": stack, "peak_bytes": built} for stack, sizes, built in rows])
    return grown(without_data(points), 1, 4096)


def deep_growth(book: Measurements) -> pd.Series:
    """Growth of the peak with the batch, in units of the numbers of the forward pass, where the layers hold most."""
    points = book.points(**LAYERS | {"batch": [1024, 8192]}).dropna(subset="peak_bytes")
    return grown(without_data(stored.measured(points)), 1024, 8192)


def framework_share(book: Measurements) -> pd.Series:
    """The idle framework's part of the peak at a batch of 256, by stack of Keras."""
    points = example(book).query("batch == 256 and stack != 'numpy'").set_index("stack")
    return points["idle"] / points["peak_bytes"]


@claim(
    "11.7",
    "From a batch of 1 to 4,096 the example's memory grows by half to two and a half times its forward pass.",
    says="does not hold",
    on=small_network,
)
def grows_by_activations(book: Measurements) -> Finding:
    more = growth(book)
    if len(more) < 2:
        raise KeyError("the example was measured on one stack alone")
    return all_between(more, 0.5, 2.5, ".2f", "times the forward pass: ")


@claim(
    "11.8",
    "At the example's size, batch 256, the framework itself is more than 90 % of the peak on every Keras stack.",
    says="does not hold",
    on=small_network,
)
def mostly_framework(book: Measurements) -> Finding:
    return all_between(framework_share(book), 0.9, np.inf, ".0%")
