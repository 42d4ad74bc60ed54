"""Chapter 10, a network in NumPy against the batch: what the memory allocator adds to the two costs of a batch."""

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd

from traintime.book import stored
from traintime.book.chapters.batch_prices import (
    ALLOCATORS,
    AT_ONCE,
    BLOCKS,
    FLAT,
    GLIBC,
    LARGE,
    NUMPY,
    SINGLE,
    TCMALLOC,
    allocator_points,
    allocator_ratios,
    elsewhere,
    points,
    repeat_spread,
    step_ratio,
    times,
)
from traintime.book.claims import Finding, above, below, claim, every_stack, judged_together
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.explain import formula
from traintime.explain.formula import Fit

SMALL_PAGES = 256  # the largest batch whose pages are all of the usual size
LEAST, AGAIN = 0.05, 1.3  # a formula may miss by this, or by so many times what measuring again differs by


# The allocator, and a cost for each fresh page


@functools.cache
def allocator_prices(book: Measurements) -> dict[str, Fit]:
    """A cost per step and one per image under each allocator."""
    return {how: fit for (_, how), fit in book.lines(allocator_points(book), formula.BATCH_LINE).items()}


@functools.cache
def three_prices(book: Measurements, most: int = SMALL_PAGES) -> Fit:
    """A cost per step, per image and per fresh page, of batches up to so many images under both allocators.

    Raises KeyError where these are too few.
    """
    rows = allocator_points(book)
    rows = rows[rows["batch"].astype(float) <= most].dropna(subset="faults_a_step")
    if rows["how"].nunique() < len(ALLOCATORS):
        raise KeyError("under one allocator alone")
    return book.lines(rows.assign(how=AT_ONCE), formula.BATCH_AND_PAGES)[NUMPY, AT_ONCE]


def allowed_error(book: Measurements, *allocators: str) -> float:
    """What a formula may miss these allocators' points by on average: LEAST, or AGAIN times the error of repeats."""
    rows = allocator_points(book)
    rows = rows[rows["how"].isin(allocators or ALLOCATORS)]
    numbers = np.array([len(values) for values in book.values(rows, "median_s") if len(values)])
    return max(LEAST, AGAIN * formula.repeat_error(repeat_spread(book, *allocators), numbers))


def _as_allowed(error: float, most: float) -> Finding:
    return Finding(bool(error <= most), f"{error:.1%} on average, {most:.1%} allowed")


@claim(
    "10.9",
    "Where the allocator pools memory a step has no fresh pages, and two costs reproduce the time of our network at "
    "each batch from 1 to 1,024 with a mean error below 5 %.",
    says="does not hold",
)
def kept_memory_is_a_line(book: Measurements) -> Finding:
    error = allocator_prices(book)[TCMALLOC].mean_error
    pages = stored.chosen(allocator_points(book), how=TCMALLOC)["image_pages"].max()
    return Finding(bool(error < 0.05 and pages < 1), f"{error:.1%} on average, {pages:.1f} pages an image at most")


@claim(
    "10.10",
    "A batch of 16 takes at least 1.15 times as long under glibc as under tcmalloc, and one of 256 no longer than 1.05 "
    "times.",
    says="inconclusive",
)
def kept_memory_gains(book: Measurements) -> Finding:
    small, large = (step_ratio(allocator_ratios(book), TCMALLOC, batch) for batch in FLAT)
    return judged_together(every_stack({"at 16:": small}, above(1.15)), every_stack({"at 256:": large}, below(1.05)))


@claim(
    "10.11",
    "With a third cost, per fresh page, the formula reproduces the time at each batch up to 256 under both allocators "
    "with a mean error below 5 %.",
)
def pages_have_a_price(book: Measurements) -> Finding:
    fit = three_prices(book)
    return Finding(bool(fit.mean_error < 0.05), f"{fit.mean_error:.1%} on average, {abs(fit.errors).max():.0%} at most")


@claim(
    "10.12",
    "Under glibc two costs reproduce the time at each batch from 1 to 1,024 with a mean error below 5 %, or below 1.3 "
    "times the error of a repeat.",
    says="does not hold",
)
def two_prices_under_glibc(book: Measurements) -> Finding:
    return _as_allowed(allocator_prices(book)[GLIBC].mean_error, allowed_error(book, GLIBC))


@claim(
    "10.13",
    "Under tcmalloc two costs reproduce the time at each batch from 1 to 1,024 with a mean error below 5 %, or below "
    "1.3 times the error of a repeat.",
)
def two_prices_under_tcmalloc(book: Measurements) -> Finding:
    return _as_allowed(allocator_prices(book)[TCMALLOC].mean_error, allowed_error(book, TCMALLOC))


@claim("10.14", "Three costs do so under both allocators at once.")
def three_prices_under_both(book: Measurements) -> Finding:
    return _as_allowed(three_prices(book, LARGE).mean_error, allowed_error(book))


# What the page shows


def by_way(book: Measurements) -> pd.DataFrame:
    """An image at each batch in each way through it, as plots.image_and_pages draws it.

    Columns: how, batch, image_s with its ends low and high, s; image_pages, fresh pages per image.
    """
    together = allocator_points(book).assign(how=lambda rows: AT_ONCE + ", " + rows["how"])
    apart = points(book)
    apart = apart[(apart["stack"] == NUMPY) & apart["how"].isin([BLOCKS, SINGLE])]
    pages = np.array([values.mean() for values in book.values(apart, "faults_a_step")])
    apart = apart.assign(image_pages=pages / apart["batch"].astype(float))
    images = pd.concat([together, apart], ignore_index=True).sort_values("how", kind="stable")
    batch = images["batch"].astype(float)
    images = images.assign(low=images["low_s"] / batch, high=images["high_s"] / batch, batch=batch.astype(int))
    return images[["how", "batch", "image_s", "low", "high", "image_pages"]]


def _pages(batch: int) -> Callable[[Measurements], str]:
    return lambda book: f"{stored.row(allocator_points(book), how=GLIBC, batch=batch)['image_pages']:.0f}"


PROSE = Prose(
    "npb",
    pages=_pages(FLAT[0]),
    page=lambda book: three_prices(book).interval("w").text(".1f", 1e6) + " µs",
    step=lambda book: three_prices(book).interval("F").text(".0f", 1e6) + " µs",
    image=lambda book: three_prices(book).interval("c").text(".0f", 1e6) + " µs",
    pages_error=lambda book: f"{three_prices(book).mean_error:.1%}",
    kept=lambda book: times(step_ratio(allocator_ratios(book), TCMALLOC, FLAT[0])),
    kept_256=lambda book: step_ratio(allocator_ratios(book), TCMALLOC, FLAT[1]).text(),
    kept_1024=lambda book: times(step_ratio(allocator_ratios(book), TCMALLOC, LARGE)),
    kept_error=lambda book: f"{allocator_prices(book)[TCMALLOC].mean_error:.1%}",
    kept_elsewhere=lambda book: times(step_ratio(allocator_ratios(elsewhere(book)), TCMALLOC, FLAT[0])),
    elsewhere=lambda book: elsewhere(book).title,
)
