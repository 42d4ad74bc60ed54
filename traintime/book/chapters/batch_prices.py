"""What a step and an image cost a network in NumPy, in S3 and in each way through a batch (chapter 10)."""

import functools
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, original, page, stored
from traintime.book.claims import Finding, above, below, every_stack, judged_together, within
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula, statistics
from traintime.explain.formula import Fit
from traintime.explain.statistics import Interval, Spread

NUMPY = "numpy"
KERAS = ("2026-tensorflow", "2026-jax", "2026-torch")
SIZES: dict[str, Any] = {"workload": "convnet", "optimizer": "sgd", "batch": ANY, "images": ANY, "threads": [None, 1]}
TOGETHER = SIZES | {"images": "at-once", "threads": None}  # all images of a batch, on all threads
AT_ONCE, ONE_THREAD = "at once", "at once, one thread"
WAYS = {"at-once": AT_ONCE, "blocks": "in blocks of 16", "one-by-one": "one by one"}
FLAT = (16, 256)  # the batches between which the document saw no difference
LARGE = 1024
ALLOCATORS = GLIBC, TCMALLOC = "glibc", "tcmalloc"
UNDER_ALLOCATORS = TOGETHER | {"stack": NUMPY, "allocator": [*ALLOCATORS]}
EPOCH = 60_000  # images of MNIST's training set; the document does not say how many of them it used


# Which machine


@functools.cache
def allocator_ratios(book: Measurements) -> pd.DataFrame:
    """NumPy's step under glibc over that where the allocator keeps its memory, a row a batch (Measurements.ratios)."""
    return book.ratios(book.invocations(**UNDER_ALLOCATORS), [ALLOCATORS], of="allocator", against="batch")


@functools.cache
def allocator_points(book: Measurements) -> pd.DataFrame:
    """NumPy's points, all images at once, under each allocator.

    Columns in addition to those of Measurements.points: `how`, the allocator; image_s, seconds an image; image_pages,
    fresh pages of a step for each image; faults_a_step, for all of them.
    """
    points = book.points(**UNDER_ALLOCATORS)
    anew = [values.mean() if len(values) else np.nan for values in book.values(points, "faults_a_step")]
    batch = points["batch"].astype(float)
    points = points.assign(faults_a_step=np.array(anew, float), image_s=points["step_s"] / batch)
    return points.assign(how=points["allocator"], image_pages=points["faults_a_step"] / batch)


def repeat_spread(book: Measurements, *allocators: str) -> Spread:
    """Run-to-run error of the points under these allocators, both without any."""
    points = allocator_points(book)
    points = points[points["how"].isin(allocators or ALLOCATORS)]
    return statistics.pooled_spread(values for values in book.values(points, "median_s") if len(values))


def with_both_allocators() -> list[Measurements]:
    """The machines that ran both."""
    return [book for book in map(stored.of, stored.named()) if len(allocator_ratios(book))]


def steadiest(machine: str = "") -> Measurements:
    """The machine named, or else of those that ran both allocators the one whose runs repeat best: the page's."""
    return stored.best(lambda book: -repeat_spread(book).sd if len(allocator_ratios(book)) else None, machine)


claim = functools.partial(claims.claim, on=steadiest)


# Two prices: per step and per image


def document_line() -> tuple[pd.DataFrame, dict[str, float]]:
    """S3's six batches and the two costs, F per step and c per image, s.

    Columns: step_s, seconds a step had it used all of MNIST, and off, the relative error of the line.
    """
    table = original.read("s3-batch")
    table = table.assign(step_s=table["total_s"] / table["epochs"] / EPOCH * table["batch"])
    solution = formula.solve(formula.BATCH_LINE, table, table["step_s"].to_numpy(float))
    off = formula.BATCH_LINE.design(table) @ solution / table["step_s"] - 1
    return table.assign(off=off), dict(zip(formula.BATCH_LINE.terms, solution.tolist(), strict=True))


def ways(rows: pd.DataFrame) -> pd.Series:
    """How each row's images were gone through, as a reader sees it."""
    if "images" not in rows:  # nothing of this workload
        return pd.Series(index=rows.index, dtype=object)
    return rows["images"].map(WAYS).mask(rows["threads_asked"] == 1, ONE_THREAD)


@functools.cache
def points(book: Measurements) -> pd.DataFrame:
    """The points of the sweep on a CPU, with `how`, and image_s, seconds an image."""
    rows = book.points(**SIZES)
    return rows.assign(how=ways(rows), image_s=rows["step_s"] / rows["batch"].astype(float))


@functools.cache
def prices(book: Measurements) -> dict[tuple[str, str], Fit]:
    """A cost per step and one per image on each stack in each way: (stack, way) -> fit of formula.BATCH_LINE."""
    return book.lines(points(book), formula.BATCH_LINE)


def image_ratio(book: Measurements, one: int, other: int, stack: str = NUMPY) -> Interval:
    """What an image takes in one batch over what it takes in another. Raises KeyError where one was not measured."""
    sides = book.sides(*(TOGETHER | {"stack": stack, "batch": batch} for batch in (one, other)))
    return sides.interval(lambda s: s[0] / s[1] * other / one)


@claim("10.1", "A price per step and one per image give the document's six times back within 2 %.", source="S3")
def document_is_a_line(book: Measurements) -> Finding:
    if book.machine != steadiest().machine:
        raise KeyError(book.machine)  # the document's figures are of no machine of ours: said once
    worst = document_line()[0]["off"].abs().max()
    return Finding(bool(worst < 0.02), f"{worst:.1%} at most")


@claim("10.2", "They give each batch of our network from 1 to 1,024 back within 10 % on average.", says="does not hold")
def ours_is_a_line(book: Measurements) -> Finding:
    fit = prices(book)[NUMPY, AT_ONCE]
    return Finding(bool(fit.mean_error < 0.1), f"{fit.mean_error:.0%} on average, {abs(fit.errors).max():.0%} at most")


@claim(
    "10.3",
    "From batches of 16 to 256 the time of an image changes by less than 20 %.",
    source="S3",
    says="does not hold",
)
def image_time_is_flat(book: Measurements) -> Finding:
    return every_stack({"": image_ratio(book, FLAT[1], FLAT[0])}, within(0.8, 1.2))


@claim(
    "10.4",
    "An image takes more than 1.4 times as long alone as in a batch of 16.",
    source="S3",
    says="does not hold",
)
def one_image_is_slow(book: Measurements) -> Finding:
    return every_stack({"": image_ratio(book, 1, 16)}, above(1.4))


@claim("10.5", "An image takes longer in a batch of 1,024 than in one of 16.", says="does not hold")
def large_costs_more(book: Measurements) -> Finding:
    return every_stack({"": image_ratio(book, LARGE, 16)}, above(1))


# Other ways through a batch, and Keras


@functools.cache
def gains(book: Measurements) -> pd.DataFrame:
    """The step with all images at once over each other way, a row a way and batch (Measurements.ratios)."""
    runs = book.invocations(**SIZES, stack=NUMPY)
    others = [*list(WAYS.values())[1:], ONE_THREAD]
    pairs = [(AT_ONCE, way) for way in others]
    return book.ratios(runs.assign(images=ways(runs), threads=0), pairs, of="images", against="batch")


@functools.cache
def against_keras(book: Measurements) -> pd.DataFrame:
    """NumPy's step over that of each Keras stack, a row a stack and batch (Measurements.ratios)."""
    table = book.ratios(book.invocations(**TOGETHER), [(NUMPY, stack) for stack in KERAS], against="batch")
    return table.assign(stack=NUMPY)


def step_ratio(table: pd.DataFrame, other: str, batch: int) -> Interval:
    """The ratio to another way or stack at a batch, from `gains` or `against_keras`. Raises KeyError without."""
    return stored.ratio_by_stack(table, [NUMPY], below=other, batch=batch)[NUMPY]


@claim(
    "10.6",
    "A batch of 1,024 is faster in blocks of 16 images than at once, and slower one image at a time.",
    source="S3",
)
def blocks_gain(book: Measurements) -> Finding:
    blocks, single = (step_ratio(gains(book), WAYS[way], LARGE) for way in ("blocks", "one-by-one"))
    return judged_together(
        every_stack({"in blocks": blocks}, above(1), unit="times as fast"),
        every_stack({"one by one": single}, below(1), unit="times as fast"),
    )


@claim(
    "10.7",
    "All threads make a step of one image no faster than one thread, and one of 1,024 images less than 1.5 times.",
    says="cannot be told",
)
def threads_help_little(book: Measurements) -> Finding:
    # All threads' step over that of one thread: above 1 where one thread is faster.
    small, large = (step_ratio(gains(book), ONE_THREAD, batch) for batch in (1, LARGE))
    return judged_together(
        every_stack({"one thread at 1:": small}, above(0.95), unit="times as fast"),
        every_stack({"at 1,024:": large}, above(1 / 1.5), unit="times as fast"),
    )


@claim("10.8", "Keras on TensorFlow takes longer than NumPy for a step of one image, and less time for 256.")
def keras_catches_up(book: Measurements) -> Finding:
    one, many = (step_ratio(against_keras(book), KERAS[0], batch) for batch in (1, 256))
    return judged_together(
        every_stack({"NumPy at 1:": one}, below(1), unit="times as long"),
        every_stack({"at 256:": many}, above(1), unit="times as long"),
    )


# What the page shows


def document_table() -> HTML:
    """S3's times next to the line's."""
    return page.columns(
        document_line()[0],
        batch=("batch", 1, ".0f"),
        total_s=("the document (s)", 1, ",.0f"),
        line=("two prices (s)", lambda row: f"{row['total_s'] * (1 + row['off']):,.0f}"),
    )


def _named(stack: str, how: str) -> str:
    return stack if how == AT_ONCE else f"{stack}, {how}"


def image_table(book: Measurements) -> HTML:
    """Microseconds an image, a row a stack and way, a column a batch.

    Of more batches than fit a page the least and the largest.
    """
    sizes = sorted(int(batch) for batch in points(book)["batch"].unique())
    sizes = [*sizes[:1], *sizes[1:][2 - page.MOST :]]
    rows = []
    for name, group in points(book).groupby(["stack", "how"], sort=False):
        at = {int(row.batch): row.image_s for row in group.itertuples()}
        rows.append([_named(*name), *(f"{at[size] * 1e6:,.0f}" if at.get(size, 0) > 0 else "" for size in sizes)])
    return page.table(["µs an image", *(f"{size:,}" for size in sizes)], rows) if rows else page.nothing()


def price_table(book: Measurements) -> HTML:
    """Both costs of each stack and way, and how far the line is off."""
    rows = []
    for name, fit in prices(book).items():
        both = (fit.interval(term).text(",.0f", 1e6) for term in ("F", "c"))
        rows.append([_named(*name), *both, f"{fit.mean_error:.0%}"])
    return page.table(["", "µs a step", "µs an image", "mean error"], rows) if rows else page.nothing()


def gain_table(table: pd.DataFrame) -> HTML:
    """How many times as fast another way is. table: as `gains` or `against_keras` give it."""
    return page.columns(
        table,
        below="instead",
        batch=("batch", 1, ",.0f"),
        ratio=("times as fast", page.span),
        verdict=("verdict", lambda row: row["reason"] if pd.isna(row["faster"]) else f"{row['faster']} is faster"),
    )


def _critical(fit: Fit, spec: str = ".1f") -> str:
    """The batch at which the cost per step is as much as that of its images."""
    drawn = fit.draws["F"] / fit.draws["c"]
    return formula.interval(drawn, fit.coefficients["F"] / fit.coefficients["c"]).text(spec)


def _s3_total(batch: int) -> str:
    return f"{document_line()[0].set_index('batch')['total_s'][batch]:,.0f} s"


def _s3_share(batch: int) -> float:
    """The cost per step as a share of what the line gives for a step of S3's."""
    line = document_line()[1]
    return line["F"] / (line["F"] + batch * line["c"])


PROSE = Prose(
    "npb",
    there=lambda book: page.title(book, points(book)),
    step=lambda book: prices(book)[NUMPY, AT_ONCE].interval("F").text(",.0f", 1e6) + " µs",
    image=lambda book: prices(book)[NUMPY, AT_ONCE].interval("c").text(",.0f", 1e6) + " µs",
    critical=lambda book: _critical(prices(book)[NUMPY, AT_ONCE]),
    tensorflow_critical=lambda book: _critical(prices(book)[KERAS[0], AT_ONCE], ".0f"),
    error=lambda book: f"{prices(book)[NUMPY, AT_ONCE].mean_error:.0%}",
    one=lambda book: image_ratio(book, 1, FLAT[0]).text(),
    flat=lambda book: image_ratio(book, FLAT[1], FLAT[0]).text(),
    large=lambda book: image_ratio(book, LARGE, FLAT[0]).text(),
    rise=lambda book: image_ratio(book, LARGE, FLAT[1]).text(),
    jax_large=lambda book: image_ratio(book, LARGE, 64, "2026-jax").text(),
    blocks=lambda book: step_ratio(gains(book), WAYS["blocks"], LARGE).text(),
    single=lambda book: step_ratio(gains(book), WAYS["one-by-one"], LARGE).text(),
    thread_one=lambda book: step_ratio(gains(book), ONE_THREAD, 1).text(),
    thread_middle=lambda book: step_ratio(gains(book), ONE_THREAD, 64).text(),
    thread_many=lambda book: step_ratio(gains(book), ONE_THREAD, LARGE).text(),
    **{
        f"{stack[5:]}_{batch}": lambda book, at=(stack, batch): step_ratio(against_keras(book), *at).text()
        for stack in KERAS
        for batch in (1, 256)
    },
    s3_one=lambda _: _s3_total(1),
    s3_four=lambda _: _s3_total(4),
    s3_flat=lambda _: _s3_total(FLAT[0]),
    s3_step=lambda _: f"{document_line()[1]['F'] * 1e3:.1f} ms",
    s3_image=lambda _: f"{document_line()[1]['c'] * 1e3:.1f} ms",
    s3_worst=lambda _: f"{document_line()[0]['off'].abs().max():.1%}",
    s3_share=lambda _: f"{_s3_share(1):.0%}",
    s3_left=lambda _: f"{_s3_share(FLAT[0]):.1%}",
)
