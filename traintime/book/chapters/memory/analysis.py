"""Chapter 11, memory: the document's example by hand, what a stack holds at its peak, one step as drawn."""

import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import original, stored
from traintime.book.stored import ANY, Measurements
from traintime.explain import memory, statistics
from traintime.explain.memory import READY, Holding
from traintime.point import make_point
from traintime.store import derived
from traintime.store.records import Record
from traintime.workloads.base import FLOAT

NEW = ("2026-tensorflow", "2026-jax", "2026-torch", "numpy")
SIZES: dict[str, Any] = {"vocabulary": ANY, "batch": ANY, "length": ANY, "optimizer": ANY, "frozen": ANY}
LEAST = {
    "adam": 4,
    "rmsprop": 3,
    "momentum": 3,
    "sgd": 2,
    "frozen": 1,
}  # parameters, gradients and the optimizer's slots
LARGE = 200_000  # rows from which on the table, and little else, decides the peak


# The document's example


def by_hand() -> dict[str, int]:
    """S2's count: numbers of a sample forward, backward, both, of a batch, and parameters, each from its layers."""
    layers = original.read("s2-layers")
    forward = int(layers["inputs"].iloc[0] + layers["outputs"].sum())
    backward = int(layers["outputs"].sum())
    batch = int(_of_s2("batch"))
    parameters = int((layers["inputs"] * layers["outputs"] + layers["biases"]).sum())
    both = forward + backward
    return {"forward": forward, "backward": backward, "sample": both, "batch": both * batch, "parameters": parameters}


def _of_s2(name: str) -> float:
    """A figure of the document."""
    return float(original.read("s2-memory").set_index("name").loc[name, "value"])


def documented() -> dict[str, float]:
    """What the document says of the same, and its three rules: copies of the weights that training needs."""
    counts = {"forward": "forward elements", "backward": "gradient elements", "sample": "sample elements"}
    counts |= {"batch": "batch elements"}
    rules = {"2x": "GPU memory over disk size", "3x": "training memory over weights"}
    rules |= {"4.5x": "measured memory over weights"}
    return {name: _of_s2(title) for name, title in (counts | rules).items()}


def example() -> int:
    """Activations of the example's batch as the package counts them, numbers: the forward pass, input included."""
    return make_point("dense").work.activation_bytes // FLOAT


# What a stack holds


def points(book: Measurements, **wanted: Any) -> pd.DataFrame:
    """The points of the network whose peak was measured on a CPU: with `how`, and in bytes held, table and activations.

    held: peak less what the stack holds idle; parameter_bytes; activation_bytes: what the forward pass hands on.
    """
    found = book.points(**SIZES | wanted).dropna(subset="peak_bytes")
    found = found[found["device"] == "cpu"] if "device" in found else found
    works = [make_point(**{name: row[name] for name in SIZES}).work for _, row in found.iterrows()]
    idle = {stack: derived.footprint(stack).idle_bytes or 0.0 for stack in set(found["stack"])}
    return found.assign(
        held=found["peak_bytes"] - [idle[stack] for stack in found["stack"]],
        parameter_bytes=[FLOAT * work.parameters for work in works],
        activation_bytes=[work.activation_bytes for work in works],
    )


def holdings(found: pd.DataFrame, how: str = "adam") -> dict[str, Holding]:
    """What each stack holds when it trains in this way, where enough points ran. found: as `points` gives it."""
    fits = {}
    for stack, rows in found[found["how"] == how].groupby("stack", sort=False):
        if len(rows) > 3 and rows["parameter_bytes"].nunique() > 2 and rows["activation_bytes"].nunique() > 1:
            fits[str(stack)] = memory.holding(rows["parameter_bytes"], rows["activation_bytes"], rows["held"])
    return fits


def worst(found: pd.DataFrame, fits: Mapping[str, Holding], how: str = "adam") -> pd.DataFrame:
    """Of each fitted stack the point that the others foretell worst: index stack, the point's columns, and error.

    found, how: what `holdings` was given; error: relative, foretold over held, less one.
    """
    every = found[(found["how"] == how) & found["stack"].isin(fits)]
    parts = [rows.assign(error=fits[str(stack)].left_out) for stack, rows in every.groupby("stack", sort=False)]
    if not parts:
        return every.assign(error=0.0).set_index("stack")
    far = [rows.loc[[rows["error"].abs().idxmax()]] for rows in parts]
    return pd.concat(far).set_index("stack")


def copies(found: pd.DataFrame, rows: int = LARGE) -> pd.DataFrame:
    """Copies of the parameters held with a large table: index stack, a column a way of training.

    What is held beyond idle, less the activations, over the parameters; of several points the largest table's.
    """
    if found.empty:
        return pd.DataFrame()
    large = found[(found["vocabulary"] >= rows) & (found["batch"] == 100) & (found["length"] == 25)]
    large = large.sort_values("vocabulary").drop_duplicates(["stack", "how"], keep="last")
    held = (large["held"] - large["activation_bytes"]) / large["parameter_bytes"]
    table = large.assign(copies=held).pivot_table("copies", "stack", "how", sort=False)
    ways = [way for way in [*LEAST, "adam-rows", "adam-deferred", "adam-accumulated"] if way in table]
    return table.loc[stored.stack_order(table.index), ways]


# What frees memory

TABLE: dict[str, Any] = {"vocabulary": 200_000}
LAYERS: dict[str, Any] = {"workload": "dense", "inputs": 100, "hidden": 256, "layers": 32, "batch": 8192}
IMAGES: dict[str, Any] = {"workload": "blocks", "structure": "plain", "width": 32}
HALF: dict[str, Any] = {"precision": "mixed-bfloat16"}
KEEPING: dict[str, Any] = {"allocator": "tcmalloc"}


@dataclass(frozen=True)
class Way:
    """One way to need less: what is the larger part, what it is called, the usual point, and what differs from it."""

    larger: str
    name: str
    usual: dict[str, Any]
    changes: dict[str, Any]


AGAIN, ACCUMULATED, EIGHTH, DEFERRED = "computed again", "eight batches an update", "an eighth of a batch", "deferred"
WAYS = (
    Way("copies", EIGHTH, TABLE | {"batch": 800}, {"batch": 100}),
    Way("copies", ACCUMULATED, TABLE | {"batch": 800}, {"batch": 100, "accumulated": 8}),
    Way("copies", "SGD", TABLE, {"optimizer": "sgd"}),
    Way("copies", "a frozen table", TABLE, {"frozen": True}),
    Way("copies", DEFERRED, TABLE, {"optimizer": "adam-deferred"}),
    Way("copies", "bfloat16", TABLE, HALF),
    Way("copies", "tcmalloc", TABLE, KEEPING),
    Way("activations", EIGHTH, LAYERS, {"batch": 1024}),
    Way("activations", AGAIN, LAYERS, {"recompute": True}),
    Way("activations", f"{AGAIN}, both under tcmalloc", LAYERS | KEEPING, {"recompute": True}),
    Way("activations", "SGD", LAYERS, {"optimizer": "sgd"}),
    Way("activations", "bfloat16", LAYERS, HALF),
    Way("activations", "tcmalloc", LAYERS, KEEPING),
    Way("images", "bfloat16", IMAGES, HALF),
    Way("images", "float16", IMAGES, {"precision": "mixed-float16"}),
)
KERAS3 = ["2026-tensorflow", "2026-jax", "2026-torch"]


@functools.cache  # each claim asks
def frees(book: Measurements) -> pd.DataFrame:
    """What each way leaves of the usual peak, and what it costs, a row a stack: larger, way, stack, and

    usual: the usual peak, bytes; ratio, low, high: the way's peak over it; cost, cost_low, cost_high: its time a sample
    over the usual one, NaN where no sweep measured both in the same rounds; sweep: which did, "" for none.
    """
    found = [
        {"larger": way.larger, "way": way.name, "stack": stack} | _against(book, usual, changed)
        for way in WAYS
        for stack, usual, changed in _both(book, way)
    ]
    columns = ["larger", "way", "stack", "usual", "ratio", "low", "high", "cost", "cost_low", "cost_high", "sweep"]
    return pd.DataFrame(found, columns=columns)


def freest(machine: str = "") -> Measurements:
    """The machine named, or else the one that measured the most ways to free memory."""
    return stored.best(lambda book: len(frees(book)) or None, machine)


def _both(book: Measurements, way: Way) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Each stack that ran both sides, with the invocations of each; of the two the rounds that measured both."""
    for stack in KERAS3:
        sides = [book.invocations(stack=stack, **way.usual | changes) for changes in ({}, way.changes)]
        usual, changed = (side.dropna(subset="peak_bytes") for side in sides)
        if usual.empty or changed.empty:
            continue
        places = [set(zip(side["sweep"], side["round"], strict=True)) for side in (usual, changed)]
        shared = pd.DataFrame(sorted(places[0] & places[1]), columns=["sweep", "round"])
        if len(shared):
            newest = shared[shared["sweep"] == shared["sweep"].value_counts().idxmax()]
            usual, changed = (side.merge(newest, on=["sweep", "round"]) for side in (usual, changed))
        else:
            usual, changed = usual.assign(sweep=""), changed.assign(sweep="")
        yield stack, usual, changed


def _against(book: Measurements, usual: pd.DataFrame, changed: pd.DataFrame) -> dict[str, Any]:
    def over(value: str, each: Callable[[pd.DataFrame], Any]) -> statistics.Interval:
        spread = book.spread(str(usual["stack"].iloc[0]), value)
        return statistics.ratio(each(changed), each(usual), spread, spread)

    sweep = str(usual["sweep"].iloc[0])
    peak = over("peak_bytes", lambda side: side["peak_bytes"])
    cost = over("step_s", lambda side: side["step_s"] / side["batch"]) if sweep else statistics.Interval(np.nan)
    return {
        "usual": usual["peak_bytes"].mean(),
        "ratio": peak.value,
        "low": peak.low,
        "high": peak.high,
        "cost": cost.value,
        "cost_low": cost.low,
        "cost_high": cost.high,
        "sweep": sweep,
    }


def before_training(found: Iterable[Record]) -> pd.DataFrame:
    """Memory before the first step over the peak: index stack, a column a way of training. found: stored records."""
    rows = [
        {"stack": record.stack, "how": record.point.sizes.how, "share": memory["built"] / memory["peak"]}
        for record in found
        for memory in (each.result.memory for each in record.invocations if each.result)
    ]
    table = pd.DataFrame(rows, columns=["stack", "how", "share"])
    return table.pivot_table("share", "stack", "how", aggfunc="median", sort=False)


def of_the_table(book: Measurements) -> list[Record]:
    """The stored records of the large table under each optimizer, for `before_training`; none of a run of this page."""
    if book.machine not in stored.named():
        return []
    return book.records(vocabulary=[200_000, 280_000], optimizer=ANY, frozen=ANY)


# A GPU's memory

ON_A_GPU = {"allocated": "device_allocated", "reserved": "device_reserved", "in_use": "device_in_use"}


def on_gpu(found: Iterable[Record]) -> pd.DataFrame:
    """What a GPU's memory was seen to hold, a row a point: stack, key, and, bytes at the most of its invocations,

    parameter_bytes; allocated: by arrays; reserved: by the framework; in_use: on the card, as its driver tells. NaN
    where nobody tells. found: stored records; those of a CPU are passed over.
    """
    rows = []
    for record in found:
        seen = [invocation.result.memory for invocation in record.invocations if invocation.result]
        told = {name: max((m[key] for m in seen if key in m), default=np.nan) for name, key in ON_A_GPU.items()}
        if not np.isnan(told["allocated"]):
            own = {"stack": record.stack, "key": record.key, "parameter_bytes": FLOAT * record.point.work.parameters}
            rows.append(own | told)
    return pd.DataFrame(rows, columns=["stack", "key", "parameter_bytes", *ON_A_GPU])


def gpu_records() -> list[Record]:
    """The stored records of S0's network on a GPU, of every machine that has one."""
    any_of = SIZES | {"device": "gpu", "kernel": ANY, "precision": ANY}
    return [record for name in stored.named() for record in stored.of(name).records(**any_of)]


def kept_by_allocators(book: Measurements) -> pd.DataFrame:
    """The peak under another allocator over that under glibc, a row a stack and allocator: stack, allocator, ratio."""
    found = book.points(vocabulary=200_000, allocator=ANY, onednn="auto").dropna(subset="peak_bytes")
    wide = found.pivot_table("peak_bytes", "stack", "allocator", sort=False)
    if "glibc" not in wide:
        return pd.DataFrame(columns=["stack", "allocator", "ratio"])
    ratios = wide.div(wide["glibc"], axis=0).drop(columns="glibc")
    return ratios.melt(ignore_index=False, value_name="ratio").dropna().reset_index()


def of_the_example(book: Measurements) -> pd.DataFrame:
    """The example as measured: the points of the dense workload, with idle and held, bytes beyond idle.

    peak_bytes and held are without the batches that lie ready: those are data, which each program keeps as it likes.
    """
    found = book.points(workload="dense", batch=ANY).dropna(subset="peak_bytes")
    idle = [derived.footprint(stack).idle_bytes or 0.0 for stack in found["stack"]]
    data = [READY * FLOAT * row.batch * (row.inputs + row.outputs) for row in found.itertuples()]
    return found.assign(peak_bytes=found["peak_bytes"] - data, held=found["peak_bytes"] - data - idle, idle=idle)


# One step, as drawn


def watched(
    work: Callable[[Callable[[str], None]], None], every_s: float = 0.0002
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """This process' memory while work(mark) runs: columns s and mib, and its marks: columns s and name (Linux).

    work calls mark("backward") where a part of it begins. What the process held before is taken off.
    """
    pages = Path("/proc/self/statm")
    seen: list[tuple[float, int]] = []
    marks: list[tuple[float, str]] = []
    done = threading.Event()
    start = time.perf_counter()

    def look() -> None:
        while not done.is_set():
            seen.append((time.perf_counter() - start, int(pages.read_text().split()[1])))
            time.sleep(every_s)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        work(lambda name: marks.append((time.perf_counter() - start, name)))
    finally:
        done.set()
        watcher.join()
    table = pd.DataFrame(seen, columns=["s", "mib"])
    held = (table["mib"] - table["mib"].iloc[0]) * 4096 / 2**20
    return table.assign(mib=held), pd.DataFrame(marks, columns=["s", "name"])
