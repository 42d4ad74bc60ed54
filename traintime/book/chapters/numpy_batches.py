"""Chapter 10, a network in NumPy against the batch: what the memory allocator adds to the two costs of a batch."""

import functools

import numpy as np
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.batch_prices import (
    ALLOCATORS,
    AT_ONCE,
    FLAT,
    GLIBC,
    LARGE,
    NUMPY,
    TCMALLOC,
    allocator_points,
    allocator_ratios,
    claim,
    repeat_spread,
    step_ratio,
    with_both_allocators,
)
from traintime.book.claims import Finding, above, below, every_stack, judged_together
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.explain import formula
from traintime.explain.formula import Fit

SMALL_PAGES = 256  # the largest batch whose pages are all of the usual size
LEAST, AGAIN = 0.05, 1.3  # a formula may miss by this, or by so many times what measuring again differs by


# The allocator, and a price for each page that is mapped anew


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
    "Where the allocator keeps its memory no page is mapped anew, and two prices give each batch of our network from 1 "
    "to 1,024 back within 5 % on average.",
)
def kept_memory_is_a_line(book: Measurements) -> Finding:
    error = allocator_prices(book)[TCMALLOC].mean_error
    pages = stored.chosen(allocator_points(book), how=TCMALLOC)["image_pages"].max()
    return Finding(bool(error < 0.05 and pages < 1), f"{error:.1%} on average, {pages:.1f} pages an image at most")


@claim(
    "10.10",
    "A batch of 16 takes at least 1.15 times as long under glibc as under tcmalloc, and one of 256 no longer than 1.05 "
    "times.",
    says="cannot be told",
)
def kept_memory_gains(book: Measurements) -> Finding:
    small, large = (step_ratio(allocator_ratios(book), TCMALLOC, batch) for batch in FLAT)
    return judged_together(every_stack({"at 16:": small}, above(1.15)), every_stack({"at 256:": large}, below(1.05)))


@claim(
    "10.11",
    "A third price, for each page that a step maps anew, gives each batch up to 256 back within 5 % on average under "
    "both allocators.",
)
def pages_have_a_price(book: Measurements) -> Finding:
    fit = three_prices(book)
    return Finding(bool(fit.mean_error < 0.05), f"{fit.mean_error:.1%} on average, {abs(fit.errors).max():.0%} at most")


@claim(
    "10.12",
    "Under glibc two prices give each batch of our network from 1 to 1,024 back within 5 % on average, or within 1.3 "
    "times what measuring them again differs by.",
    says="does not hold",
)
def two_prices_under_glibc(book: Measurements) -> Finding:
    return _as_allowed(allocator_prices(book)[GLIBC].mean_error, allowed_error(book, GLIBC))


@claim(
    "10.13",
    "Under tcmalloc two prices give each batch of our network from 1 to 1,024 back within 5 % on average, or within "
    "1.3 times what measuring them again differs by.",
)
def two_prices_under_tcmalloc(book: Measurements) -> Finding:
    return _as_allowed(allocator_prices(book)[TCMALLOC].mean_error, allowed_error(book, TCMALLOC))


@claim("10.14", "Three prices do so under both allocators at once.")
def three_prices_under_both(book: Measurements) -> Finding:
    return _as_allowed(three_prices(book, LARGE).mean_error, allowed_error(book))


# What the page shows


def page_table(book: Measurements) -> HTML:
    """An image under each allocator, its fresh pages, and the one time over the other; a row a batch."""
    rows, points = [], allocator_points(book).set_index(["how", "batch"])
    for _, row in allocator_ratios(book).iterrows():
        each = [points.loc[(allocator, row["batch"])] for allocator in ALLOCATORS]
        cells = (text for one in each for text in (f"{one['image_pages']:.1f}", f"{one['image_s'] * 1e6:,.0f}"))
        rows.append([f"{row['batch']:,.0f}", *cells, page.span(row)])
    heads = (f"{what}, {name}" for name in ALLOCATORS for what in ("pages anew an image", "µs an image"))
    return page.table(["batch", *heads, "times as long"], rows) if rows else page.nothing()


def machine_table() -> HTML:
    """What pages cost on each machine that ran both allocators, and how far two costs and three are off."""
    rows = []
    for book in with_both_allocators():
        gain, paid = step_ratio(allocator_ratios(book), TCMALLOC, FLAT[0]), three_prices(book).interval("w")
        errors = (allocator_prices(book)[TCMALLOC].mean_error, three_prices(book).mean_error, repeat_spread(book).sd)
        rows.append([book.title, gain.text(), paid.text(".1f", 1e6), *(f"{error:.1%}" for error in errors)])
    missed = f"{TCMALLOC}, two prices miss by", "both, three miss by", "runs repeat within"
    return page.table(["", f"glibc over tcmalloc at {FLAT[0]}", "µs a page", *missed], rows) if rows else page.nothing()


PROSE = Prose(
    "npb",
    pages=lambda book: f"{stored.row(allocator_points(book), how=GLIBC, batch=FLAT[0])['image_pages']:.0f}",
    page=lambda book: three_prices(book).interval("w").text(".1f", 1e6) + " µs",
    pages_error=lambda book: f"{three_prices(book).mean_error:.0%}",
    pages_error_all=lambda book: f"{three_prices(book, LARGE).mean_error:.0%}",
    kept=lambda book: step_ratio(allocator_ratios(book), TCMALLOC, FLAT[0]).text(),
    kept_error=lambda book: f"{allocator_prices(book)[TCMALLOC].mean_error:.0%}",
    least=lambda _: f"{LEAST:.0%}",
    again=lambda _: f"{AGAIN:g}",
)
