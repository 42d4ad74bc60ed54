"""Chapter 11, memory: the document's example by hand, what a stack holds at its peak, one step as drawn."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from traintime.book import original, stored
from traintime.book.stored import ANY, Measurements
from traintime.explain import memory
from traintime.explain.memory import Holding
from traintime.point import make_point
from traintime.store import derived
from traintime.workloads.base import FLOAT

NEW = ("2026-tensorflow", "2026-jax", "2026-torch", "numpy")
SIZES: dict[str, Any] = {"vocabulary": ANY, "batch": ANY, "length": ANY, "optimizer": ANY, "frozen": ANY}
LEAST = {"adam": 4, "momentum": 3, "sgd": 2, "frozen": 1}  # parameters, gradients and the optimizer's slots
READY = 16  # batches that a worker keeps ready; a test holds it to be worker/samples.POOL


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
    idle = [derived.footprint(stack).idle_bytes or 0.0 for stack in found["stack"]]
    return found.assign(
        held=found["peak_bytes"] - idle,
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


def copies(found: pd.DataFrame, rows: int = 280_000) -> pd.DataFrame:
    """Copies of the parameters held with a large table: index stack, a column a way of training.

    What is held beyond idle, less the activations, over the parameters; of several points the largest table's.
    """
    if found.empty:
        return pd.DataFrame()
    large = found[(found["vocabulary"] >= rows) & (found["batch"] == 100) & (found["length"] == 25)]
    large = large.sort_values("vocabulary").drop_duplicates(["stack", "how"], keep="last")
    held = (large["held"] - large["activation_bytes"]) / large["parameter_bytes"]
    table = large.assign(copies=held).pivot_table("copies", "stack", "how", sort=False)
    ways = [way for way in [*LEAST, "adam-rows"] if way in table]
    return table.loc[stored.stack_order(table.index), ways]


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
