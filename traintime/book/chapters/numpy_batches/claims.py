"""What the network in NumPy claims, and how each claim is judged on a machine."""

from collections.abc import Callable

import pandas as pd

from traintime.book import stored
from traintime.book.chapters.numpy_batches.analysis import (
    ALLOCATORS,
    AT_ONCE,
    FLAT,
    NUMPY,
    ONE_THREAD,
    WAYS,
    against_keras,
    allowed,
    gains,
    kept,
    of_the_document,
    page_price,
    pages,
    per_image,
    points,
    prices,
    steadiest,
)
from traintime.book.claims import Claim, Finding, above, below, every, span, within
from traintime.book.stored import Measurements


def _document_is_a_line(book: Measurements) -> Finding:
    if book.machine != steadiest().machine:
        raise KeyError(book.machine)  # the document's figures are of no machine of ours: said once
    worst = of_the_document()[0]["off"].abs().max()
    return Finding(bool(worst < 0.02), f"{worst:.1%} at most")


def _ours_is_a_line(book: Measurements) -> Finding:
    fit = prices(book, points(book))[NUMPY, AT_ONCE]
    return Finding(bool(fit.mean_error < 0.1), f"{fit.mean_error:.0%} on average, {abs(fit.errors).max():.0%} at most")


def _flat(book: Measurements) -> Finding:
    ratio = per_image(book, FLAT[1], FLAT[0])
    return Finding(within(ratio, 0.8, 1.2), f"{ratio.text()} times as long")


def _large_costs_more(book: Measurements) -> Finding:
    ratio = per_image(book, 1024, 16)
    return Finding(above(ratio, 1), f"{ratio.text()} times as long")


def _one_is_slow(book: Measurements) -> Finding:
    ratio = per_image(book, 1, 16)
    return Finding(above(ratio, 1.4), f"{ratio.text()} times as long")


def _row(found: pd.DataFrame, **wanted: object) -> pd.Series:
    for name, value in wanted.items():
        found = found[found[name] == value]
    if found.empty:
        raise KeyError(str(wanted))
    return found.iloc[0]


def _blocks_gain(book: Measurements) -> Finding:
    found = gains(book)
    blocks, single = (_row(found, below=WAYS[way], batch=1024) for way in ("blocks", "one-by-one"))
    text = f"in blocks {span(blocks)}, one by one {span(single)} times as fast"
    told = [None if row["reason"] == "not interleaved" else stored.interval(row) for row in (blocks, single)]
    parts = [None if one is None else judge(one, 1) for one, judge in zip(told, (above, below), strict=True)]
    return Finding(every(*parts), text)


def _threads(book: Measurements) -> Finding:
    found = gains(book)
    small, large = (_row(found, below=ONE_THREAD, batch=batch) for batch in (1, 1024))
    # One thread over all of them: the ratio's other side.
    text = f"one thread is {span(small)} times as fast at 1, {span(large)} at 1,024"
    return Finding(every(above(stored.interval(small), 0.95), above(stored.interval(large), 1 / 1.5)), text)


def _keras(book: Measurements) -> Finding:
    found = against_keras(book)
    one, many = (_row(found, below="2026-tensorflow", batch=batch) for batch in (1, 256))
    text = f"NumPy takes {span(one)} times as long at 1, {span(many)} at 256"
    return Finding(every(below(stored.interval(one), 1), above(stored.interval(many), 1)), text)


def _kept_is_a_line(book: Measurements) -> Finding:
    found = pages(book)
    found = found[found["how"] == ALLOCATORS[1]]
    fit = prices(book, found)[NUMPY, ALLOCATORS[1]]
    anew = (found["faults_a_step"] / found["batch"].astype(float)).max()
    text = f"{fit.mean_error:.1%} on average, {anew:.1f} pages an image at most"
    return Finding(bool(fit.mean_error < 0.05 and anew < 1), text)


def _kept_gains(book: Measurements) -> Finding:
    found = kept(book)
    small, large = (stored.interval(_row(found, batch=batch)) for batch in FLAT)
    text = f"{small.text()} times as long at {FLAT[0]}, {large.text()} at {FLAT[1]}"
    return Finding(every(above(small, 1.15), below(large, 1.05)), text)


def _pages_have_a_price(book: Measurements) -> Finding:
    fit = page_price(book)
    return Finding(bool(fit.mean_error < 0.05), f"{fit.mean_error:.1%} on average, {abs(fit.errors).max():.0%} at most")


def _two_prices_under(allocator: str) -> Callable[[Measurements], Finding]:
    """Whether two prices miss no more than is allowed, under one allocator."""

    def judge(book: Measurements) -> Finding:
        found = pages(book)
        found = found[found["how"] == allocator]
        return _as_allowed(prices(book, found)[NUMPY, allocator].mean_error, allowed(book, found))

    return judge


def _three_prices(book: Measurements) -> Finding:
    return _as_allowed(page_price(book, 1024).mean_error, allowed(book, pages(book)))


def _as_allowed(error: float, most: float) -> Finding:
    return Finding(bool(error <= most), f"{error:.1%} on average, {most:.1%} allowed")


def _claim(number: int, sentence: str, source: str, decide: Callable[[Measurements], Finding]) -> Claim:
    return Claim(f"10.{number}", sentence, source, decide)


CLAIMS = [
    _claim(
        1,
        "A price per step and one per image give the document's six times back within 2 %.",
        "S3",
        _document_is_a_line,
    ),
    _claim(
        2, "They give each batch of our network from 1 to 1,024 back within 10 % on average.", "ours", _ours_is_a_line
    ),
    _claim(3, "From batches of 16 to 256 the time of an image changes by less than 20 %.", "S3", _flat),
    _claim(4, "An image takes more than 1.4 times as long alone as in a batch of 16.", "S3", _one_is_slow),
    _claim(5, "An image takes longer in a batch of 1,024 than in one of 16.", "ours", _large_costs_more),
    _claim(
        6,
        "A batch of 1,024 is faster in blocks of 16 images than at once, and slower one image at a time.",
        "S3",
        _blocks_gain,
    ),
    _claim(
        7,
        "All threads make a step of one image no faster than one thread, and one of 1,024 images less than 1.5 times.",
        "ours",
        _threads,
    ),
    _claim(
        8,
        "Keras on TensorFlow takes longer than NumPy for a step of one image, and less time for 256.",
        "ours",
        _keras,
    ),
    _claim(
        9,
        "Where the allocator keeps its memory no page is mapped anew, and two prices give each batch of our network "
        "from 1 to 1,024 back within 5 % on average.",
        "ours",
        _kept_is_a_line,
    ),
    _claim(
        10,
        "A batch of 16 takes at least 1.15 times as long under glibc as under tcmalloc, and one of 256 no longer than "
        "1.05 times.",
        "ours",
        _kept_gains,
    ),
    _claim(
        11,
        "A third price, for each page that a step maps anew, gives each batch up to 256 back within 5 % on average "
        "under both allocators.",
        "ours",
        _pages_have_a_price,
    ),
    *(
        _claim(
            number,
            f"Under {allocator} two prices give each batch of our network from 1 to 1,024 back within 5 % on average, "
            "or within 1.3 times what measuring them again differs by.",
            "ours",
            _two_prices_under(allocator),
        )
        for number, allocator in enumerate(ALLOCATORS, start=12)
    ),
    _claim(14, "Three prices do so under both allocators at once.", "ours", _three_prices),
]
