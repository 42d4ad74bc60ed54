"""What a step and an image cost a network in NumPy, in S3 and in each way through a batch (part of chapter 10)."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, original, page, predictions, stored
from traintime.book.claims import Finding, above, below, claim, every_stack, judged_together, within
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
BLOCKS, SINGLE = "in blocks of 16", "one by one"
WAYS = {"at-once": AT_ONCE, "blocks": BLOCKS, "one-by-one": SINGLE}
FLAT = (16, 256)  # the batches between which the question saw no difference
LARGE = 1024
PATCHES = 24 * 24 * 25 * 4  # bytes: 25 pixels under each place of an image's window, float32
ALLOCATORS = GLIBC, TCMALLOC = "glibc", "tcmalloc"
UNDER_ALLOCATORS = TOGETHER | {"stack": NUMPY, "allocator": [*ALLOCATORS]}
EPOCH = 60_000  # images of MNIST's training set; the question does not say how many of them it used


# Two allocators


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


def elsewhere(book: Measurements, found: Callable[[Measurements], pd.DataFrame] = allocator_ratios) -> Measurements:
    """The first other machine that has what is looked for: both allocators. Raises KeyError where there is none."""
    others = (stored.of(name) for name in stored.named() if name != book.machine)
    return stored.measured([other for other in others if len(found(other))])[0]


# Two costs: per step and per image


def document_line() -> tuple[pd.DataFrame, dict[str, float]]:
    """S3's six batches and the two costs, F per step and c per image, s.

    Columns: step_s, seconds a step had it used all of MNIST, and off, the relative error of the line.
    """
    table = original.read("s3-batch")
    table = table.assign(step_s=table["total_s"] / table["epochs"] / EPOCH * table["batch"])
    solution = formula.solve(formula.BATCH_LINE.design(table), table["step_s"].to_numpy(float))
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


def image_ratio(book: Measurements, one: int, other: int, stack: str = NUMPY, **more: Any) -> Interval:
    """What an image takes in one batch over what it takes in another. Raises KeyError where one was not measured.

    more: further fields of both.
    """
    sides = book.sides(*(TOGETHER | {"stack": stack, "batch": batch} | more for batch in (one, other)))
    return sides.interval(lambda s: s[0] / s[1] * other / one)


@claims.claim_without_machine(
    "10.1", "A cost per step and a cost per image reproduce the question's six times within 2 %.", "S3"
)
def document_is_a_line() -> Finding:
    worst = document_line()[0]["off"].abs().max()
    return Finding(bool(worst < 0.02), f"{worst:.1%} at most")


@claim(
    "10.2",
    "They reproduce the time of our network at each batch from 1 to 1,024 with a mean error below 10 %.",
    says="does not hold",
)
def ours_is_a_line(book: Measurements) -> Finding:
    fit = prices(book)[NUMPY, AT_ONCE]
    return Finding(bool(fit.mean_error < 0.1), f"{fit.mean_error:.0%} on average, {abs(fit.errors).max():.0%} at most")


@claim(
    "10.3",
    "From batches of 16 to 256 the time per image changes by less than 20 %.",
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
)
def blocks_gain(book: Measurements) -> Finding:
    blocks, single = (step_ratio(gains(book), way, LARGE) for way in (BLOCKS, SINGLE))
    return judged_together(
        every_stack({"in blocks": blocks}, above(1), unit="times as fast"),
        every_stack({"one by one": single}, below(1), unit="times as fast"),
    )


@claim(
    "10.7",
    "All threads make a step of one image no faster than one thread, and one of 1,024 images less than 1.5 times.",
    source="S3",
    says="inconclusive",
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


def relative_images(book: Measurements) -> pd.DataFrame:
    """Time per image relative to a batch of one, as plots.relative_to_one draws it: the question's, and ours.

    Columns: name, batch, ratio, low, high.
    """
    question = document_line()[0]
    ratio = question["total_s"] / question["total_s"].iloc[0]
    parts = [
        pd.DataFrame({"name": "question", "batch": question["batch"], "ratio": ratio, "low": ratio, "high": ratio})
    ]
    ours = {
        "ours, glibc": {},
        "ours, tcmalloc": {"allocator": TCMALLOC},
        "ours, TensorFlow": {"stack": KERAS[0]},
    }
    for name, fields in ours.items():
        batches = sorted(book.points(**TOGETHER | {"stack": NUMPY} | fields)["batch"].astype(int))
        found = [image_ratio(book, batch, 1, **fields) if batch > 1 else Interval(1.0, 1.0, 1.0) for batch in batches]
        rows = [{"ratio": one.value, "low": one.low, "high": one.high} for one in found]
        parts.append(pd.DataFrame(rows).assign(name=name, batch=batches))
    return pd.concat(parts, ignore_index=True)


def cost_table(book: Measurements) -> HTML:
    """Both costs of each stack with all images at once, the break-even batch, and the line's mean error."""
    rows = []
    for (stack, how), fit in prices(book).items():
        if how == AT_ONCE:
            costs = (fit.interval(term).text(",.0f", 1e6) for term in ("F", "c"))
            rows.append([stack, *costs, break_even(fit).text(".1f"), f"{fit.mean_error:.0%}"])
    heads = ["", "per step (µs)", "per image (µs)", "break-even batch", "mean error"]
    return page.table(heads, rows) if rows else page.nothing()


def break_even(fit: Fit) -> Interval:
    """The batch at which the cost per step equals that of its images."""
    drawn = fit.draws["F"] / fit.draws["c"]
    return statistics.central(drawn, fit.coefficients["F"] / fit.coefficients["c"])


def inverse(ratio: Interval) -> Interval:
    """The ratio of the other side to the one."""
    return Interval(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)


def times(ratio: Interval, word: str = "faster", spec: str = ".2f") -> str:
    """A ratio in a sentence: "1.75× faster (1.52 to 2.02)"."""
    value, _, ends = ratio.text(spec).partition(" ")
    return f"{value}× {word} {ends}".rstrip()


def _s3_share(batch: int) -> float:
    """The cost per step as a share of what the line gives for a step of S3's."""
    line = document_line()[1]
    return line["F"] / (line["F"] + batch * line["c"])


def _s3_total(term: str) -> str:
    """What one term of S3's line makes of its five epochs at a batch of one."""
    table, line = document_line()
    return f"{line[term] * EPOCH * table['epochs'].iloc[0]:,.0f} s"


def _megabytes(book: Measurements, cache: str) -> float:
    return int(book.description["caches"][cache].removesuffix("K")) / 1024


def _blocks(batch: int) -> Callable[[Measurements], str]:
    return lambda book: times(step_ratio(gains(book), BLOCKS, batch))


PROSE = Prose(
    "npb",
    error=lambda book: f"{prices(book)[NUMPY, AT_ONCE].mean_error:.0%}",
    break_even=lambda book: break_even(prices(book)[NUMPY, AT_ONCE]).text(".1f"),
    tensorflow_break_even=lambda book: f"{break_even(prices(book)[KERAS[0], AT_ONCE]).value:.0f}",
    flat=lambda book: times(inverse(image_ratio(book, FLAT[1], FLAT[0]))),
    jax_large=lambda book: times(image_ratio(book, LARGE, 64, "2026-jax"), "slower"),
    sixteen=lambda book: image_ratio(book, 1, FLAT[0]).text(),
    sixteen_kept=lambda book: f"{image_ratio(book, 1, FLAT[0], allocator=TCMALLOC).value:.1f}×",
    sixteen_elsewhere=lambda book: f"{image_ratio(elsewhere(book, points), 1, FLAT[0]).value:.1f}×",
    kept_rest=lambda book: image_ratio(book, LARGE, FLAT[0], allocator=TCMALLOC).text(),
    vectors=lambda book: times(inverse(step_ratio(gains(book), SINGLE, FLAT[1]))),
    blocks_small=_blocks(64),
    blocks_middle=lambda book: step_ratio(gains(book), BLOCKS, FLAT[1]).text(),
    blocks_large=_blocks(LARGE),
    threads_one=lambda book: step_ratio(gains(book), ONE_THREAD, 1).text(),
    threads_many=lambda book: step_ratio(gains(book), ONE_THREAD, LARGE).text(),
    one_line=lambda _: predictions.told("10", "1"),
    tensorflow_1=lambda book: times(inverse(step_ratio(against_keras(book), KERAS[0], 1)), "slower", ".1f"),
    tensorflow_256=lambda book: times(step_ratio(against_keras(book), KERAS[0], FLAT[1]), spec=".1f"),
    bandwidth=lambda book: f"{book.rates['bandwidth_bytes_per_s'] / 1e9:.0f} GB/s",
    pass_us=lambda book: f"{PATCHES / book.rates['bandwidth_bytes_per_s'] * 1e6:.0f} µs",
    cache=lambda book: f"{_megabytes(book, 'L2'):g} MB",
    last_cache=lambda book: f"{_megabytes(book, 'L3'):g} MB",
    s3_images=lambda _: _s3_total("c"),
    s3_steps=lambda _: _s3_total("F"),
    s3_step=lambda _: f"{document_line()[1]['F'] * 1e3:.1f} ms",
    s3_image=lambda _: f"{document_line()[1]['c'] * 1e3:.1f} ms",
    s3_worst=lambda _: f"{document_line()[0]['off'].abs().max():.1%}",
    s3_share=lambda _: f"{_s3_share(1):.0%}",
    s3_left=lambda _: f"{_s3_share(FLAT[0]):.1%}",
    s3_break_even=lambda _: f"{document_line()[1]['F'] / document_line()[1]['c']:.1f}",
)
