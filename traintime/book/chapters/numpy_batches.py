"""Chapter 10, a network in NumPy against the batch: what a step and an image cost, in S3 and in each way through a
batch, what the memory allocator adds, and which batch is enough.
"""

import functools
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import claims, original, stored
from traintime.book.claims import Finding
from traintime.book.stored import ANY, Measurements
from traintime.book.values import Values, exact, quantity
from traintime.explain import formula
from traintime.explain.formula import Fit
from traintime.explain.statistics import Interval

NUMPY, TENSORFLOW = "numpy", "2026-tensorflow"
SIZES: dict[str, Any] = {"workload": "convnet", "optimizer": "sgd", "batch": ANY, "images": ANY, "threads": [None, 1]}
TOGETHER = SIZES | {"images": "at-once", "threads": None}  # all images of a batch, on all threads
AT_ONCE, ONE_THREAD = "at once", "at once, one thread"
BLOCKS, SINGLE = "in blocks of 16", "one by one"
WAYS = {"at-once": AT_ONCE, "blocks": BLOCKS, "one-by-one": SINGLE}
FLAT = (16, 256)  # the batches between which the question saw no difference
LARGE = 1024
PATCHES = 24 * 24 * 25 * 4  # bytes: 25 pixels under each place of an image's window, float32
ALLOCATORS = GLIBC, TCMALLOC = "glibc", "tcmalloc"
UNDER_ALLOCATORS = TOGETHER | {"stack": NUMPY, "allocator": [*ALLOCATORS]}
SMALL_PAGES = 256  # the largest batch whose pages are all of the usual size
NEAR = 1.2  # a time per image is near the lowest up to so many times it
claim = functools.partial(claims.of_chapter("10"), source="S3")
EPOCH = 60_000  # images of MNIST's training set; the question does not say how many of them it used


# The question's line, and ours


def document_line() -> tuple[pd.DataFrame, dict[str, float]]:
    """S3's six batches and the two costs, F per step and c per image, s.

    Columns: step_s, seconds a step had it used all of MNIST, and off, the relative error of the line.
    """
    table = original.read("s3-batch")
    table = table.assign(step_s=table["total_s"] / table["epochs"] / EPOCH * table["batch"])
    solution = formula.solve(formula.BATCH_LINE.design(table), table["step_s"].to_numpy(float))
    off = formula.BATCH_LINE.design(table) @ solution / table["step_s"] - 1
    return table.assign(off=off), dict(zip(formula.BATCH_LINE.terms, solution.tolist(), strict=True))


def worst_of_the_document() -> float:
    """By how much the line misses the time that it fits worst, a share."""
    return float(document_line()[0]["off"].abs().max())


def ways(rows: pd.DataFrame) -> pd.Series:
    """How each row's images were gone through, as a reader sees it."""
    if "images" not in rows:  # nothing of this workload
        return pd.Series(index=rows.index, dtype=object)
    return rows["images"].map(WAYS).mask(rows["threads_asked"] == 1, ONE_THREAD)


def image_ratio(book: Measurements, one: int, other: int, stack: str = NUMPY, **more: Any) -> Interval:
    """What an image takes in one batch over what it takes in another. Raises KeyError where one was not measured.

    more: further fields of both.
    """
    sides = book.sides(*(TOGETHER | {"stack": stack, "batch": batch} | more for batch in (one, other)))
    return sides.interval(lambda s: s[0] / s[1] * other / one)


claim(
    1,
    "A cost per step and a cost per image reproduce the question's six times within 2 %.",
    lambda _: Finding(worst_of_the_document() < 0.02, f"{worst_of_the_document():.1%} at most"),
    without=original.FIGURES,
)
claim(
    3,
    "From batches of 16 to 256 the time per image changes by less than 20 %.",
    lambda book: Values({"": image_ratio(book, FLAT[1], FLAT[0])}).within(0.8, 1.2),
    says="does not hold",
)
claim(
    4,
    "An image takes more than 1.4 times as long alone as in a batch of 16.",
    lambda book: Values({"": image_ratio(book, 1, 16)}) > 1.4,
    says="does not hold",
)


# Other ways through a batch


@functools.cache
def gains(book: Measurements) -> pd.DataFrame:
    """The step with all images at once over each other way, a row a way and batch (Measurements.ratios)."""
    runs = book.invocations(**SIZES, stack=NUMPY)
    pairs = [(AT_ONCE, way) for way in (BLOCKS, ONE_THREAD)]
    return book.ratios(runs.assign(images=ways(runs), threads=0), pairs, of="images", against="batch")


def step_ratio(table: pd.DataFrame, other: str, batch: int) -> Interval:
    """The ratio to another way or allocator at a batch, from `gains` or `allocator_ratios`. Raises KeyError without."""
    return stored.ratio_by_stack(table, [NUMPY], below=other, batch=batch)[NUMPY]


def threads_help_little(book: Measurements) -> Finding:
    """Whether one thread is about as fast as all: their step over its own, above 1 where one thread is faster."""
    small, large = (step_ratio(gains(book), ONE_THREAD, batch) for batch in (1, LARGE))
    one = Values({"one thread at 1:": small}, unit="times as fast") > 0.95
    return one & (Values({"at 1,024:": large}, unit="times as fast") > 1 / 1.5)


claim(
    7,
    "All threads make a step of one image no faster than one thread, and one of 1,024 images less than 1.5 times.",
    threads_help_little,
    says="inconclusive",
)


# The allocator, and a cost for each fresh page


@functools.cache
def allocator_ratios(book: Measurements) -> pd.DataFrame:
    """NumPy's step under glibc over that where the allocator keeps its memory, a row a batch (Measurements.ratios)."""
    return book.ratios(book.invocations(**UNDER_ALLOCATORS), [ALLOCATORS], of="allocator", against="batch")


def each_image(book: Measurements, **wanted: Any) -> pd.DataFrame:
    """NumPy's points, chosen by fields, with image_s, seconds an image; image_pages, fresh pages of a step for each
    image; faults_a_step, for all of them.
    """
    points = book.points(**wanted | {"stack": NUMPY})
    anew = [values.mean() if len(values) else np.nan for values in book.values(points, "faults_a_step")]
    points = points.assign(faults_a_step=np.array(anew, float))
    images = points[["step_s", "faults_a_step"]].div(points["batch"].astype(float), axis="index")
    return points.assign(image_s=images["step_s"], image_pages=images["faults_a_step"])


@functools.cache
def allocator_points(book: Measurements) -> pd.DataFrame:
    """Those with all images at once under each allocator, `how`."""
    points = each_image(book, **UNDER_ALLOCATORS)
    return points.assign(how=points["allocator"])


def elsewhere(book: Measurements) -> Measurements:
    """The first other machine that measured both allocators. Raises KeyError where there is none."""
    others = (stored.of(name) for name in stored.named() if name != book.machine)
    return stored.measured([other for other in others if len(allocator_ratios(other))])[0]


@quantity
def enough(book: Measurements) -> Values:
    """The smallest batch whose time per image is near the lowest of all batches, by allocator."""
    found = {}
    for allocator, rows in allocator_points(book).groupby("allocator"):
        near = rows["image_s"] <= NEAR * rows["image_s"].min()
        found[allocator] = int(rows.loc[near, "batch"].min())
    return exact(found, ",.0f")


@functools.cache
def three_prices(book: Measurements) -> Fit:
    """A cost per step, per image and per fresh page, of batches up to SMALL_PAGES images under both allocators.

    Raises KeyError where these are too few.
    """
    rows = allocator_points(book)
    rows = rows[rows["batch"].astype(float) <= SMALL_PAGES].dropna(subset="faults_a_step")
    if rows["how"].nunique() < len(ALLOCATORS):
        raise KeyError("under one allocator alone")
    return book.lines(rows.assign(how=AT_ONCE), formula.BATCH_AND_PAGES)[NUMPY, AT_ONCE]


def pages_have_a_price(book: Measurements) -> Finding:
    """Whether three costs reproduce all of these points."""
    fit = three_prices(book)
    return Finding(bool(fit.mean_error < 0.05), f"{fit.mean_error:.1%} on average, {abs(fit.errors).max():.0%} at most")


claim(
    11,
    "With a third cost, per fresh page, the formula reproduces the time at each batch up to 256 under both allocators "
    "with a mean error below 5 %.",
    pages_have_a_price,
    source="ours",
)


# What the page shows


def relative_images(book: Measurements) -> pd.DataFrame:
    """Time per image relative to a batch of one, as plots.relative_to_one draws it: the question's, and ours.

    Columns: name, batch, ratio, low, high.
    """
    question = document_line()[0]
    ratio = question["total_s"] / question["total_s"].iloc[0]
    parts = [
        pd.DataFrame({"name": "question", "batch": question["batch"], "ratio": ratio, "low": ratio, "high": ratio})
    ]
    ours = {"ours, glibc": {}, "ours, tcmalloc": {"allocator": TCMALLOC}, "ours, TensorFlow": {"stack": TENSORFLOW}}
    for name, fields in ours.items():
        batches = sorted(book.points(**TOGETHER | {"stack": NUMPY} | fields)["batch"].astype(int))
        found = [image_ratio(book, batch, 1, **fields) if batch > 1 else Interval(1.0, 1.0, 1.0) for batch in batches]
        rows = [{"ratio": one.value, "low": one.low, "high": one.high} for one in found]
        parts.append(pd.DataFrame(rows).assign(name=name, batch=batches))
    return pd.concat(parts, ignore_index=True)


def break_even(book: Measurements, stack: str) -> float:
    """The batch at which the cost per step of a stack, all images at once, equals that of its images."""
    lines = book.lines(book.points(**TOGETHER | {"stack": stack}), formula.BATCH_LINE)
    line = stored.measured(list(lines.values()))[0].coefficients
    return line["F"] / line["c"]


def by_way(book: Measurements) -> pd.DataFrame:
    """An image at each batch in each way through it, as plots.image_and_pages draws it.

    Columns: how, batch, image_s with its ends low and high, s; image_pages, fresh pages per image.
    """
    together = allocator_points(book).assign(how=lambda rows: AT_ONCE + ", " + rows["how"])
    apart = each_image(book, **SIZES).assign(how=ways)
    apart = apart[apart["how"].isin([BLOCKS, SINGLE])]
    images = pd.concat([together, apart], ignore_index=True).sort_values("how", kind="stable")
    batch = images["batch"].astype(float)
    images = images.assign(low=images["low_s"] / batch, high=images["high_s"] / batch, batch=batch.astype(int))
    return images[["how", "batch", "image_s", "low", "high", "image_pages"]]


def document_share(batch: int) -> float:
    """The cost per step as a share of what the line gives for a step of S3's."""
    line = document_line()[1]
    return line["F"] / (line["F"] + batch * line["c"])


def document_total(term: str) -> str:
    """What one term of S3's line makes of its five epochs at a batch of one."""
    table, line = document_line()
    return f"{line[term] * EPOCH * table['epochs'].iloc[0]:,.0f} s"


def pages(book: Measurements, batch: int) -> float:
    """Fresh pages of a step for each image under glibc."""
    return stored.row(allocator_points(book), how=GLIBC, batch=batch)["image_pages"]


def pages_cost(book: Measurements, batch: int) -> float:
    """What these fresh pages cost for each image, s."""
    return pages(book, batch) * three_prices(book).coefficients["w"]
