"""What the page of the network in NumPy shows: tables, and the numbers of its prose."""

from collections.abc import Callable, Mapping

import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.numpy_batches.analysis import (
    AGAIN,
    ALLOCATORS,
    AT_ONCE,
    FLAT,
    KERAS,
    LEAST,
    NUMPY,
    ONE_THREAD,
    SMALL_PAGES,
    WAYS,
    against_keras,
    gains,
    kept,
    machines,
    of_the_document,
    page_price,
    pages,
    per_image,
    points,
    prices,
    repeats,
)
from traintime.book.stored import Measurements
from traintime.explain import formula


def document_table(found: pd.DataFrame) -> HTML:
    """The document's times beside the line's. found: as `of_the_document` gives them."""
    rows = [
        [str(row.batch), f"{row.total_s:,.0f}", f"{row.total_s * (1 + row.off):,.0f}"] for row in found.itertuples()
    ]
    return page.table(["batch", "the document (s)", "two prices (s)"], rows)


def image_table(found: pd.DataFrame) -> HTML:
    """Microseconds an image, a row a stack and way, a column a batch. found: as `points` gives them.

    Of more batches than fit a page the least and the largest.
    """
    sizes = sorted(int(batch) for batch in found["batch"].unique())
    sizes = [*sizes[:1], *sizes[1:][2 - page.MOST :]]
    rows = []
    for (stack, how), group in found.groupby(["stack", "how"], sort=False):
        at = {int(row.batch): row.image_s for row in group.itertuples()}
        cells = (f"{at[size] * 1e6:,.0f}" if at.get(size, 0) > 0 else "" for size in sizes)
        rows.append([stack if how == AT_ONCE else f"{stack}, {how}", *cells])
    return page.table(["µs an image", *(f"{size:,}" for size in sizes)], rows) if rows else page.nothing()


def price_table(priced: Mapping[tuple[str, str], formula.Fit]) -> HTML:
    """Both prices of each stack and way, and how far the line is off. priced: as `prices` gives them."""
    rows = []
    for (stack, how), fit in priced.items():
        name = stack if how == AT_ONCE else f"{stack}, {how}"
        both = [fit.interval("F").text(",.0f", 1e6), fit.interval("c").text(",.0f", 1e6)]
        rows.append([name, *both, f"{fit.mean_error:.0%}"])
    return page.table(["", "µs a step", "µs an image", "mean error"], rows) if rows else page.nothing()


def page_table(book: Measurements) -> HTML:
    """An image under each allocator, the pages that it maps anew, and the one time over the other; a row a batch."""
    rows = []
    found = pages(book).set_index(["how", "batch"])
    for _, row in kept(book).iterrows():
        each = [found.loc[(allocator, row["batch"])] for allocator in ALLOCATORS]
        counted = [f"{one['faults_a_step'] / row['batch']:.1f}" for one in each]
        times = [f"{one['image_s'] * 1e6:,.0f}" for one in each]
        rows.append([f"{row['batch']:,.0f}", counted[0], times[0], counted[1], times[1], page.span(row)])
    heads = ["batch", *(f"{what}, {each}" for each in ALLOCATORS for what in ("pages anew an image", "µs an image"))]
    return page.table([*heads, "times as long"], rows) if rows else page.nothing()


def machine_table() -> HTML:
    """What pages cost on each machine that ran both allocators, and how far two prices and three are off."""
    rows = []
    for book in machines():
        two, three = prices(book, pages(book))[NUMPY, ALLOCATORS[1]], page_price(book)
        gain = page.span(stored.row(kept(book), batch=FLAT[0]))
        paid = three.interval("w").text(".1f", 1e6)
        errors = [f"{each:.1%}" for each in (two.mean_error, three.mean_error, repeats(book).sd)]
        rows.append([stored.named()[book.machine]["title"], gain, paid, *errors])
    missed = f"{ALLOCATORS[1]}, two prices miss by", "both, three miss by", "runs repeat within"
    heads = ["", f"glibc over tcmalloc at {FLAT[0]}", "µs a page", *missed]
    return page.table(heads, rows) if rows else page.nothing()


def gain_table(found: pd.DataFrame) -> HTML:
    """How many times as fast another way is. found: as `gains` or `against_keras` give them."""
    rows = []
    for _, row in found.iterrows():
        verdict = row["reason"] if pd.isna(row["faster"]) else f"{row['faster']} is faster"
        rows.append([row["below"], f"{row['batch']:,.0f}", page.span(row), verdict])
    heads = ["instead", "batch", "times as fast", "verdict"]
    return page.table(heads, rows) if rows else page.nothing()


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that a machine cannot give says so."""
    document, line = of_the_document()
    found = points(book)
    priced, gained, keras = prices(book, found), gains(book), against_keras(book)

    def price(name: str, spec: str = ",.0f") -> Callable[[], str]:
        return lambda: priced[NUMPY, AT_ONCE].interval(name).text(spec, 1e6) + " µs"

    def image(above: int, below: int) -> Callable[[], str]:
        return lambda: per_image(book, above, below).text()

    def gain(table: pd.DataFrame, other: str, batch: int) -> Callable[[], str]:
        return lambda: page.span(table[(table["below"] == other) & (table["batch"] == batch)].iloc[0])

    asked: dict[str, Callable[[], str]] = {
        "there": lambda: page.title(book, found),
        "step": price("F"),
        "image": price("c"),
        "critical": lambda: _critical(priced[NUMPY, AT_ONCE]),
        "tensorflow-critical": lambda: _critical(priced[KERAS[0], AT_ONCE], ".0f"),
        "jax-large": lambda: per_image(book, 1024, 64, stack="2026-jax").text(),
        "thread-middle": gain(gained, ONE_THREAD, 64),
        "error": lambda: f"{priced[NUMPY, AT_ONCE].mean_error:.0%}",
        "one": image(1, FLAT[0]),
        "flat": image(FLAT[1], FLAT[0]),
        "large": image(1024, FLAT[0]),
        "rise": image(1024, FLAT[1]),
        "pages": lambda: f"{_anew(book, FLAT[0]):.0f}",
        "page": lambda: page_price(book).interval("w").text(".1f", 1e6) + " µs",
        "kept": lambda: page.span(stored.row(kept(book), batch=FLAT[0])),
        "kept-error": lambda: f"{prices(book, pages(book))[NUMPY, ALLOCATORS[1]].mean_error:.0%}",
        "blocks": gain(gained, WAYS["blocks"], 1024),
        "single": gain(gained, WAYS["one-by-one"], 1024),
        "thread-one": gain(gained, ONE_THREAD, 1),
        "thread-many": gain(gained, ONE_THREAD, 1024),
    }
    for name, most in (("pages-error", SMALL_PAGES), ("pages-error-all", 1024)):
        asked[name] = lambda most=most: f"{page_price(book, most).mean_error:.0%}"
    for stack in KERAS:
        for batch in (1, 256):
            asked[f"{stack.removeprefix('2026-')}-{batch}"] = gain(keras, stack, batch)
    given = {f"npb-{name}": page.or_not_measured(give) for name, give in asked.items()}
    total = document.set_index("batch")["total_s"]
    return given | {
        "npb-least": f"{LEAST:.0%}",
        "npb-again": f"{AGAIN:g}",
        "npb-s3-one": f"{total[1]:,.0f} s",
        "npb-s3-four": f"{total[4]:,.0f} s",
        "npb-s3-flat": f"{total[FLAT[0]]:,.0f} s",
        "npb-s3-step": f"{line['F'] * 1e3:.1f} ms",
        "npb-s3-image": f"{line['c'] * 1e3:.1f} ms",
        "npb-s3-worst": f"{document['off'].abs().max():.1%}",
        "npb-s3-share": f"{line['F'] / (line['F'] + line['c']):.0%}",
        "npb-s3-left": f"{line['F'] / (line['F'] + FLAT[0] * line['c']):.1%}",
    }


def _anew(book: Measurements, batch: int) -> float:
    """Pages that an image of such a batch maps anew under glibc."""
    return float(stored.row(pages(book), how=ALLOCATORS[0], batch=batch)["faults_a_step"] / batch)


def _critical(fit: formula.Fit, spec: str = ".1f") -> str:
    drawn = fit.draws["F"] / fit.draws["c"]
    return formula.interval(drawn, fit.coefficients["F"] / fit.coefficients["c"]).text(spec)
