"""Chapter 11, memory: S2's example by hand, what stacks hold at their peaks, what frees memory, and the recipe."""

import functools
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, original, page, stored
from traintime.book.claims import Finding
from traintime.book.stored import ANY, Measurements
from traintime.book.values import Values, exact, quantity
from traintime.explain import memory
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import FLOAT

MIB = 2**20
KERAS2 = ("2017-theano", "2017-tensorflow", "2020-theano", "2020-tensorflow")
KERAS3 = ("2026-tensorflow", "2026-jax", "2026-torch")
SIZES: dict[str, Any] = dict.fromkeys(("vocabulary", "batch", "length", "optimizer", "frozen"), ANY)
OPTIMIZED = ["adam", "rmsprop", "momentum", "sgd", "frozen", "adam-rows", "adam-deferred", "adam-accumulated"]
LAYERS: dict[str, Any] = {"workload": "dense", "inputs": 100, "hidden": 256, "layers": 32, "batch": 8192}
LARGE = 200_000  # rows from which on the table, and little else, decides the peak
claim = claims.of_chapter("11")


# S2's example by hand


def by_hand() -> dict[str, int]:
    """S2's count: numbers of a sample forward, backward, both, of a batch, and parameters, each from its layers."""
    layers = original.read("s2-layers")
    forward = int(layers["inputs"].iloc[0] + layers["outputs"].sum())
    backward = int(layers["outputs"].sum())
    batch = (forward + backward) * int(documented()["samples"])
    parameters = int((layers["inputs"] * layers["outputs"] + layers["biases"]).sum())
    counts = {"forward": forward, "backward": backward, "sample": forward + backward}
    return counts | {"batch": batch, "parameters": parameters}


def documented() -> dict[str, float]:
    """What S2 says of the first four, and its batch size."""
    said = original.read("s2-memory").set_index("name")["value"]
    counts = {name: float(said[f"{name} elements"]) for name in ("forward", "sample", "batch")}
    return counts | {"backward": float(said["gradient elements"]), "samples": float(said["batch"])}


def adds_up(_: Measurements) -> Finding:
    """Whether the layers give S2's numbers, and the package's count of a batch's forward pass."""
    ours, theirs = by_hand(), documented()
    same = all(ours[name] == theirs[name] for name in ("forward", "backward", "sample", "batch"))
    activations = make_point("dense").work.activation_bytes // FLOAT
    batches = activations == ours["batch"] * ours["forward"] / ours["sample"]
    return Finding(same and batches, f"{ours['sample']:,} and {ours['batch']:,}")


claim(
    1,
    "The layers of the example give its 1,820 numbers per sample and 465,920 per batch exactly.",
    adds_up,
    source="S2",
    without=original.ARITHMETIC,
)


# What a stack holds at its peak: a runtime, copies of the parameters, and activations


@functools.cache
def peaks(book: Measurements) -> pd.DataFrame:
    """The points of the network whose peak was measured on a CPU: with `how`, and in bytes held, table and activations.

    held: peak less what the stack holds idle, if that was measured; parameter_bytes; activation_bytes.
    """
    points = book.points(device="cpu", **SIZES).dropna(subset="peak_bytes")
    works = [make_point(**{name: row[name] for name in SIZES}).work for _, row in points.iterrows()]
    return points.assign(
        held=points["peak_bytes"] - [memory.idle_bytes(stack, 0.0) for stack in points["stack"]],
        parameter_bytes=[FLOAT * work.parameters for work in works],
        activation_bytes=[work.activation_bytes for work in works],
    )


@quantity
def three_part_errors(book: Measurements) -> Values:
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
    return exact(found, ".0%")


def three_parts(book: Measurements) -> Finding:
    """Whether they predict today's stacks and the older ones; the figure names the worst of each."""
    errors = three_part_errors(book)
    new, old = (errors.only(*(stack for stack in errors if (stack in KERAS2) == older)) for older in (False, True))
    finding = (new < 0.1) & (old < 0.2)
    return Finding(finding.holds, f"{new.most.named} at most; {old.most.named} at most")


claim(
    2,
    "A runtime, copies of the parameters and activations predict the memory of a configuration that the fit has not "
    "seen within 10 % on average on today's stacks and within 20 % on the older ones.",
    three_parts,
    says="does not hold",
)


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
    return table.loc[stored.stack_order(table.index), [way for way in OPTIMIZED if way in table]]


@quantity
def copies_with(book: Measurements, how: str) -> Values:
    """Those of one way of training, by stack."""
    return exact(copies(book)[how].dropna().to_dict(), ".1f")


def every_copy(book: Measurements, how: str, low: float, high: float, some: bool = False) -> Finding:
    """Whether every stack, or some stack, holds so many; the figure has all of them, which have no error."""
    held = copies_with(book, how)
    finding = (held.some if some else held).within(low, high)
    return Finding(finding.holds, ", ".join(f"{one.name} {one}" for one in held.values()))


claim(
    5,
    "Without momentum training holds three copies of the weights.",
    lambda book: every_copy(book, "sgd", 2.5, 3.5),
    source="S2",
    says="does not hold",
)
claim(
    19,
    "Without momentum training holds three copies of the weights on at least one stack.",
    lambda book: every_copy(book, "sgd", 2.5, 3.5, some=True),
    source="S2",
)
claim(
    6,
    "Training holds four and a half copies of the weights, with Adam.",
    lambda book: every_copy(book, "adam", 4, 5),
    source="S2",
    says="does not hold",
)


@quantity
def before_training(book: Measurements) -> Values:
    """Memory before the first step over the peak with SGD and a large table, by stack: medians over invocations."""
    shares: dict[str, list[float]] = {}
    for record in book.records(stack=["2026-jax", "2026-torch"], vocabulary=[200_000, 280_000], optimizer="sgd"):
        ran = [invocation.result.memory for invocation in record.invocations if invocation.result]
        shares.setdefault(record.stack, []).extend(held["built"] / held["peak"] for held in ran)
    return exact({stack: float(np.median(each)) for stack, each in shares.items()}, ".0f", 100, "%")


# Dense networks, measured: S2's example, and many layers


def ready_bytes(row: pd.Series) -> float:
    """The batches of a dense network that a worker keeps ready: data, not part of what training holds.

    Of the classifier they are too small to count: 26 numbers per sentence.
    """
    if row["workload"] != "dense":
        return 0.0
    return float(memory.READY * FLOAT * row["batch"] * (row["inputs"] + row["outputs"]))


@functools.cache
def dense_peaks(book: Measurements, **fields: Any) -> pd.DataFrame:
    """Points of a dense network, S2's by default, whose peak was measured: less the data that lie ready."""
    points = book.points(**{"workload": "dense"} | fields).dropna(subset="peak_bytes")
    data = [ready_bytes(row) for _, row in points.iterrows()]
    return points.assign(peak_bytes=points["peak_bytes"] - data)


@quantity
def framework_share(book: Measurements) -> Values:
    """The idle framework's part of that example's peak, by stack of Keras."""
    points = dense_peaks(book).query("stack != 'numpy'").set_index("stack")["peak_bytes"]
    return exact({stack: memory.idle_bytes(stack, 0.0) / peak for stack, peak in points.items()}, ".0f", 100, "%")


@quantity
def growth(book: Measurements) -> Values:
    """How the peak of many layers grows with the batch, in units of the numbers of the forward pass, by stack."""
    low, high = LAYERS["batch"] // 8, LAYERS["batch"]
    few, many = (dense_peaks(book, **LAYERS | {"batch": batch}).set_index("stack") for batch in (low, high))
    more = many["peak_bytes"] - few["peak_bytes"]
    numbers = make_point(**LAYERS).work.activation_bytes / FLOAT * (high - low) / high
    return exact((more.dropna() / (FLOAT * numbers)).to_dict(), ".1f")


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
    Way("activations", "checkpointing, both under tcmalloc", LAYERS | TCMALLOC, {"recompute": True}),
    Way("activations", PLAIN, LAYERS, {"optimizer": "sgd"}),
    Way("activations", "bfloat16", LAYERS, HALF),
    Way("activations", "tcmalloc", LAYERS, TCMALLOC),
)


@functools.cache
def frees(book: Measurements) -> pd.DataFrame:
    """Each way's peak relative to the usual one, and what it costs, a row a stack that ran both.

    Columns: larger, way, stack; peak (Interval), less the data that lie ready; time (Interval), a sample's, of which
    nothing is told where no sweep measured both in the same rounds.
    """
    rows = []
    for way in WAYS:
        for stack in KERAS3:
            try:
                sides = book.sides(way.usual, way.usual | way.changes, stack=stack)
            except KeyError:
                continue
            firsts = [side.iloc[0] for side in sides.frames]
            batches = [first["batch"] for first in firsts]
            data = [ready_bytes(first) for first in firsts]
            peak = sides.interval(lambda s, d=data: (s[1] - d[1]) / (s[0] - d[0]), "peak_bytes")
            a_sample = sides.interval(lambda s, b=batches: s[1] / b[1] / (s[0] / b[0]), "step_s")
            time = a_sample if sides.rounds else Interval(np.nan)
            rows.append({"larger": way.larger, "way": way.name, "stack": stack, "peak": peak, "time": time})
    return pd.DataFrame(rows, columns=["larger", "way", "stack", "peak", "time"])


def freest() -> Measurements:
    """The machine that measured the most ways to free memory."""
    return stored.best(lambda book: len(frees(book)) or None)


@quantity
def left(book: Measurements, larger: str, way: str, of: str = "peak") -> Values:
    """What a way leaves of the usual "peak" or makes of the usual "time", by stack."""
    return Values(stored.chosen(frees(book), larger=larger, way=way).set_index("stack")[of].to_dict())


@quantity
def with_fewer_copies(book: Measurements, *stacks: str) -> Values:
    """What each way to hold fewer copies of a large table leaves of the peak on these stacks."""
    remaining = {way: left(book, "copies", way).only(*stacks) for way in FEWER}
    return Values({f"{stack}, {way}": peak for way, found in remaining.items() for stack, peak in found.items()})


claim(
    18,
    "With a large table, deferred rows hold less than dense Adam.",
    lambda book: left(book, "copies", DEFERRED) < 1,
    on=freest,
)


# What the page shows: the recipe, with the coefficients that the predictor uses


def coefficients() -> pd.DataFrame:
    """Of each stack with Adam: framework (bytes), copies, kept of other layers and recurrent of an LSTM, and error."""
    found = pd.DataFrame([vars(memory.memory_model(stack)) for stack in stored.stack_order(memory.stacks())])
    return found.assign(framework=found["idle"] + found["runtime"])


def of_keras3(name: str, spec: str = ".1f", scale: float = 1.0, unit: str = "") -> Values:
    """One of the coefficients on today's stacks."""
    return exact(coefficients().set_index("stack").loc[list(KERAS3), name].to_dict(), spec, scale, unit)


def coefficients_table() -> HTML:
    """The coefficients of each stack with Adam: R, k, q of other layers and of an LSTM, the error; * where borrowed."""
    return page.columns(
        coefficients(),
        stack="stack",
        framework=("R (MiB)", 1 / MIB, ",.0f"),
        copies=("k, Adam", 1, ".1f"),
        kept=("q", lambda row: f"{row['kept']:.1f}{'*' * (row['stack'] in KERAS2)}"),
        recurrent=("q, LSTM", 1, ".1f"),
        error=("error", lambda row: f"{row['error'] * 100:.0f} %{'*' * (row['stack'] not in KERAS3)}"),
    )


def worked(measured: pd.Series, **fields: Any) -> pd.DataFrame:
    """A network by the recipe with Adam, a row a stack: framework, copies, activations, predicted; and measured, bytes.

    measured: the peaks by stack; fields: of the network's configuration.
    """
    work = make_point(**fields).work
    rows = []
    for stack, peak in measured.items():
        model = memory.memory_model(str(stack))
        copied = model.copies * FLOAT * work.parameters
        row = {"stack": stack, "framework": model.idle + model.runtime, "copies": copied}
        row |= {"activations": model.of_model(work) - copied, "predicted": model.peak_bytes(work), "measured": peak}
        rows.append(row)
    return pd.DataFrame(rows)


def worked_dense(book: Measurements, **fields: Any) -> pd.DataFrame:
    """A dense network, S2's by default, by the recipe, and as a machine measured it."""
    fields = {"workload": "dense"} | fields
    return worked(dense_peaks(book, **fields).set_index("stack")["peak_bytes"], **fields)


def worked_classifier(book: Measurements) -> pd.DataFrame:
    """The 2017 post's network with 280,000 rows by the recipe, and as a machine measured it, of the same stacks."""
    points = peaks(book).query("how == 'adam' and vocabulary == 280_000 and batch == 100 and length == 25")
    return worked(points[points["stack"].isin([*KERAS3, "numpy"])].set_index("stack")["peak_bytes"], vocabulary=280_000)


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


def off(found: pd.DataFrame) -> Values:
    """By how much the recipe misses each measured peak, by stack. found: as `worked` gives it."""
    missed = (found.set_index("stack").eval("predicted / measured") - 1).abs()
    return exact(missed.to_dict(), ".1f", 100, "%")


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


def frees_data(ways: pd.DataFrame) -> pd.DataFrame:
    """`frees` in plain numbers, to save."""
    ends = {name: [getattr(peak, name) for peak in ways["peak"]] for name in ("value", "low", "high")}
    return ways.drop(columns=["peak", "time"]).assign(**ends, time=[time.value for time in ways["time"]])
