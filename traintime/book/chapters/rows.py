"""Chapter 16, deferred rows: each row trained when it is next read, and what a step and an epoch then cost.

Whatever is compared comes from the same rounds of one of the chapter's sweeps. Whether it is the same training, and
what else could be done, is in alternatives.py.
"""

import functools
from collections.abc import Callable

import pandas as pd
from IPython.display import HTML

from traintime.book import page, predictions, stored
from traintime.book.claims import Finding, above, below, claim, every_stack
from traintime.book.page import Prose
from traintime.book.plots import short
from traintime.book.stored import ANY, Measurements, interval
from traintime.explain.statistics import Interval, pooled_spread
from traintime.point import make_point
from traintime.workloads.base import Work, matmul

NAMES = {"2026-tensorflow": "tf", "2026-jax": "jax", "2026-torch": "torch"}  # as the prose's numbers end
STACKS = TENSORFLOW, JAX, TORCH = list(NAMES)
DENSE, DEFERRED, FROZEN = "adam", "adam-deferred", "frozen"  # as the column `how` has them
WAYS = {DENSE: "dense", DEFERRED: "deferred", FROZEN: "frozen"}
ROWS = {"optimizer": [DENSE, DEFERRED], "frozen": [False, True]}
SWEEP, MANY, EPOCH = "rows", "rows-many", "rows-epoch"
VOCABULARIES = SMALL, MIDDLE, LARGE = [20_000, 200_000, 2_000_000]
NARROW, MOST = 50, 24_000_000  # numbers a row, and rows of them
GIB = 2**30


# What each way costs


def by_rows(book: Measurements, sweep: str = SWEEP) -> pd.DataFrame:
    """The sweep's points over the rows of the table, dense, deferred and frozen (column `how`)."""
    return book.only(book.rows["sweep"] == sweep).points(vocabulary=ANY, embedding=ANY, **ROWS)


def _invocations(book: Measurements, sweep: str = SWEEP) -> pd.DataFrame:
    """The same, invocation by invocation; `how` alone says what was done with the table."""
    ran = stored.chosen(book.invocations(vocabulary=ANY, embedding=ANY, **ROWS), sweep=sweep)
    return ran.assign(how=stored.how(ran), optimizer="", frozen=False)


def by_way(points: pd.DataFrame, value: str) -> pd.DataFrame:
    """A value of `by_rows`, a row a stack and vocabulary, a column a way."""
    wide = points.pivot_table(value, ["stack", "vocabulary"], "how", aggfunc="first").reindex(columns=list(WAYS))
    return stored.in_order(wide.reset_index())


def most_repeatable() -> Measurements:
    """Of the machines that ran the sweep the one that is most repeatable."""

    def repeats(book: Measurements) -> float | None:
        steps = [medians for medians in book.values(by_rows(book), "median_s") if len(medians)]
        return -pooled_spread(steps).sd if steps else None

    return stored.best(repeats)


@functools.cache
def way_ratios(book: Measurements, way: str, other: str) -> pd.DataFrame:
    """The step of one way over that of another, a row a stack and vocabulary (Measurements.ratios)."""
    return book.ratios(_invocations(book), [(way, other)], of="how")


def ratio_at(book: Measurements, way: str, other: str, vocabulary: int = LARGE) -> dict[str, Interval]:
    """The same at one number of rows, by stack. Raises KeyError where a stack was not measured."""
    return stored.ratio_by_stack(way_ratios(book, way, other), STACKS, vocabulary=vocabulary)


@functools.cache
def deferred_growth(book: Measurements, most: int = LARGE, sweep: str = SWEEP) -> dict[str, Interval]:
    """How many times as long a deferred step takes with so many rows as with SMALL, by stack."""
    deferred = stored.chosen(_invocations(book, sweep), how=DEFERRED)
    return stored.ratio_by_stack(book.ratios(deferred, [(most, SMALL)], of="vocabulary", against="batch"))


def equal_rows(book: Measurements, stack: str) -> float:
    """Rows at which a dense and a deferred step take equally long, by straight lines through the two smaller tables."""
    steps = stored.chosen(by_way(by_rows(book), "step_s"), stack=stack).set_index("vocabulary")
    over = steps[DENSE] - steps[DEFERRED]
    return float(SMALL - over[SMALL] * (MIDDLE - SMALL) / (over[MIDDLE] - over[SMALL]))


def way_peaks(book: Measurements) -> pd.DataFrame:
    """Peak memory, bytes, a row a stack and vocabulary, a column a way; share: deferred over dense."""
    wide = by_way(by_rows(book), "peak_bytes")
    return wide.assign(share=wide[DEFERRED] / wide[DENSE])


def large_step_work(how: str) -> Work:
    """The work of a step with LARGE rows and an optimizer, by the workload's closed form."""
    return make_point(vocabulary=LARGE, optimizer=how).sizes.work()


def trained_over_frozen() -> float:
    """Operations of a step that trains the table over those of one with a frozen table, before any row is moved.

    Of the LSTM's input product one of three parts, the gradient of the words' vectors, is needed for a table alone.
    """
    sizes, whole = make_point().sizes, large_step_work(DENSE).flops
    inputs = matmul(sizes.batch * sizes.length, sizes.embedding, 4 * sizes.units)
    return whole / (whole - inputs.flops / 3)


@claim(
    "16.1",
    "Deferred, a step with 2,000,000 rows takes less than 1.2 times as long as one with 20,000, on all three stacks.",
    says="does not hold",
    on=most_repeatable,
)
def flat(book: Measurements) -> Finding:
    grown = deferred_growth(book)
    return every_stack({stack: grown[stack] for stack in STACKS}, below(1.2))


@claim(
    "16.2",
    "At 2,000,000 rows a dense step takes at least 20 times as long as a deferred one, on all three stacks.",
    on=most_repeatable,
)
def twenty_times(book: Measurements) -> Finding:
    return every_stack(ratio_at(book, DENSE, DEFERRED), above(20))


@claim(
    "16.3",
    "At 20,000 rows a deferred step takes at most 1.1 times as long as a dense one, on all three stacks.",
    says="does not hold",
    on=most_repeatable,
)
def small_tables(book: Measurements) -> Finding:
    return every_stack(ratio_at(book, DEFERRED, DENSE, SMALL), below(1.1))


@claim(
    "16.4",
    "At 2,000,000 rows a deferred step takes more than 1.3 times as long as one with a frozen table, on all three "
    "stacks.",
    on=most_repeatable,
)
def dearer_than_frozen(book: Measurements) -> Finding:
    return every_stack(ratio_at(book, DEFERRED, FROZEN), above(1.3))


@claim(
    "16.5",
    "With 2,000,000 rows deferred training needs at most 0.6 times the memory of dense training on TensorFlow and "
    "torch.",
    on=most_repeatable,
)
def less_memory(book: Measurements) -> Finding:
    shares = stored.chosen(way_peaks(book), vocabulary=LARGE).set_index("stack")["share"].loc[[TENSORFLOW, TORCH]]
    return Finding(bool((shares <= 0.6).all()), "; ".join(f"{stack} {share:.2f}" for stack, share in shares.items()))


@claim(
    "16.6",
    "With rows of 50 numbers a deferred step with 24,000,000 of them takes less than 1.2 times as long as one with "
    "20,000.",
    says="inconclusive",
    on=most_repeatable,
)
def flat_to_the_most(book: Measurements) -> Finding:
    return every_stack({TENSORFLOW: deferred_growth(book, MOST, MANY)[TENSORFLOW]}, below(1.2))


def at_the_most(book: Measurements, how: str = DEFERRED) -> pd.Series:
    """The point with the MOST rows. Raises KeyError where it was not tried."""
    return stored.row(by_rows(book, MANY), vocabulary=MOST, how=how)


@claim(
    "16.7",
    "24,000,000 rows of 50 numbers run out of memory with dense Adam, and train with the deferred embedding.",
    on=most_repeatable,
)
def dense_does_not_fit(book: Measurements) -> Finding:
    dense, deferred = (at_the_most(book, how) for how in (DENSE, DEFERRED))
    ended = f"{dense['step_s']:.1f} s a step" if pd.notna(dense["step_s"]) else str(dense["status"])
    holds = bool(pd.notna(deferred["step_s"]) and pd.isna(dense["step_s"]) and dense["status"] == "oom")
    return Finding(holds, f"dense {ended}, deferred {deferred['step_s'] * 1e3:.0f} ms a step")


# The epoch of the document


def whole_epochs(book: Measurements) -> pd.DataFrame:
    """Every epoch with LARGE rows that was run to its end, the undisturbed ones and the earlier ones first."""
    ran = stored.chosen(book.rows, sweep=EPOCH)
    ran = ran[ran["epoch_s"].notna()] if "epoch_s" in ran else ran.iloc[:0]
    return ran.sort_values(["disturbed", "started"], kind="stable")


def counted_epoch(book: Measurements) -> pd.Series:
    """The first of `whole_epochs`, the one that counts. Raises KeyError where none was run."""
    return stored.row(whole_epochs(book))


def ran_the_epoch(book: Measurements | None = None) -> Measurements:
    """The machine of the page if it ran the epoch, or else one that did, undisturbed if there is such."""
    if book is not None and len(whole_epochs(book)):
        return book
    return stored.best(lambda each: float(not counted_epoch(each)["disturbed"]) if len(whole_epochs(each)) else None)


def dense_epoch_s(book: Measurements, ran: pd.Series) -> float:
    """What dense Adam's steps add up to in as many sentences on the same stack, s: computed, not run."""
    dense = stored.row(by_rows(book), stack=ran["stack"], vocabulary=LARGE, how=DENSE)
    return float(dense["step_s"]) * ran["sentences"] / ran["batch"]


@claim(
    "16.8",
    "An epoch of a million sentences with 2,000,000 rows takes less than 1,000 seconds on two cores.",
    on=ran_the_epoch,
)
def short_epoch(book: Measurements) -> Finding:
    ran = counted_epoch(book)
    holds, figure = bool(ran["epoch_s"] < 1000), f"{ran['epoch_s']:,.0f} s, {ran['sentences']:,.0f} sentences"
    # What disturbs a run makes it longer.
    return Finding(None, f"{figure}, disturbed") if ran["disturbed"] and not holds else Finding(holds, figure)


# What the page shows


def cost_table(book: Measurements) -> HTML:
    """A step at each number of rows in each way, ms, and how many times as long dense is as deferred."""
    gains = way_ratios(book, DENSE, DEFERRED).set_index(["stack", "vocabulary"])

    def gain(row: pd.Series) -> str:
        place = (row["stack"], row["vocabulary"])
        return interval(gains.loc[place]).text(".1f") if place in gains.index else ""

    return page.columns(
        _milliseconds(book),
        fold="Every step, in milliseconds",
        stack="ms per step",
        vocabulary=("rows", lambda row: short(row["vocabulary"])),
        **WAYS,
        gain=("dense / deferred", gain),
    )


def steps_here_table(live: Measurements) -> HTML:
    """This run's steps: dense, deferred and frozen, ms."""
    return page.columns(_milliseconds(live), stack="ms per step", vocabulary=("rows", 1, ","), **WAYS)


def _milliseconds(book: Measurements) -> pd.DataFrame:
    points = by_rows(book)
    text = (points["step_s"] * 1e3).map("{:,.0f}".format).where(points["step_s"].notna(), "*" + points["status"] + "*")
    return by_way(points.assign(text=text), "text")


def _seconds(book: Measurements) -> str:
    """Every epoch that a machine ran, by its seconds."""
    ran = whole_epochs(book)
    return " and ".join(f"{one['epoch_s']:,.0f}{' (disturbed)' * one['disturbed']}" for _, one in ran.iterrows())


def _every_epoch(book: Measurements) -> str:
    """How many runs the epoch of the page rests on, and whether something disturbed them."""
    if len(whole_epochs(book)) == 1 and not counted_epoch(book)["disturbed"]:
        return "That is one run, and nothing disturbed it."
    return f"The runs there took {_seconds(book)} seconds; during a disturbed one others used the processors, too."


def _epochs_elsewhere(book: Measurements) -> str:
    others = [each for name in stored.named() if (each := stored.of(name)) is not book and len(whole_epochs(each))]
    return "; ".join(f"{each.title} took {_seconds(each)} seconds" for each in others)


def under_tcmalloc(book: Measurements, allocator: str = "tcmalloc") -> Interval:
    """Dense torch's step with MIDDLE rows under an allocator over the deferred one under glibc. Raises KeyError."""
    dense = {"optimizer": DENSE, "allocator": allocator}
    return book.sides(dense, {"optimizer": DEFERRED}, stack=TORCH, vocabulary=MIDDLE).interval(lambda s: s[0] / s[1])


def ran_tcmalloc() -> Measurements:
    """The first machine on which dense torch ran under tcmalloc and deferred torch under glibc, too."""
    return stored.having(
        stored.of(), lambda book: [one for one in [stored.or_none(lambda: under_tcmalloc(book))] if one]
    )


def _faults(book: Measurements) -> str:
    """Fresh pages of a deferred step of torch, with the fewest and with the most rows."""
    deferred = stored.chosen(_invocations(book), stack=TORCH, how=DEFERRED)
    few, many = (stored.chosen(deferred, vocabulary=rows)["faults_a_step"].mean() for rows in (SMALL, LARGE))
    return f"{few:,.0f} and {many:,.0f}"


def each_stack(name: str, text: Callable[[Measurements, str], str]) -> dict[str, Callable[[Measurements], str]]:
    """A number of the prose for each stack, which its name ends with."""
    return {f"{name}-{end}": lambda book, stack=stack: text(book, stack) for stack, end in NAMES.items()}


def _gain(rows: int, spec: str) -> Callable[[Measurements, str], str]:
    return lambda book, stack: f"{ratio_at(book, DENSE, DEFERRED, rows)[stack].value:{spec}}"


def _peak_share(book: Measurements, stack: str) -> str:
    return f"{stored.row(way_peaks(book), stack=stack, vocabulary=LARGE)['share']:.0%}"


PROSE = Prose(
    "row",
    most=lambda _: f"{MOST:,}",
    bytes_dense=lambda _: f"{large_step_work(DENSE).update_bytes / 1e9:.0f}",
    bytes_deferred=lambda _: f"{large_step_work(DEFERRED).update_bytes / 1e6:.0f}",
    floor=lambda _: f"{trained_over_frozen():.2f}",
    there=lambda book: page.title(book, by_rows(book)),
    **each_stack("gain-2M", _gain(LARGE, ".0f")),
    **each_stack("gain-20K", _gain(SMALL, ".1f")),
    slower_20K_jax=lambda book: f"{ratio_at(book, DEFERRED, DENSE, SMALL)[JAX].value:.1f}",
    **each_stack("equal", lambda book, stack: f"{round(equal_rows(book, stack), -3):,.0f}"),
    **each_stack("grows", lambda book, stack: f"{deferred_growth(book)[stack].value:.2f}"),
    **each_stack("frozen", lambda book, stack: f"{ratio_at(book, DEFERRED, FROZEN)[stack].value:.1f}"),
    there_tcmalloc=lambda _: ran_tcmalloc().title,
    glibc_torch=lambda _: f"{under_tcmalloc(ran_tcmalloc(), 'glibc').value:.1f}",
    tcmalloc_torch=lambda _: under_tcmalloc(ran_tcmalloc()).text(".1f"),
    **each_stack("memory", _peak_share),
    faults_torch=_faults,
    most_gib=lambda book: f"{at_the_most(book)['peak_bytes'] / GIB:.0f}",
    most_ms=lambda book: f"{at_the_most(book)['step_s'] * 1e3:.0f}",
    there_epoch=lambda book: page.title(ran_the_epoch(book), whole_epochs(ran_the_epoch(book))),
    epoch=lambda book: f"{counted_epoch(ran_the_epoch(book))['epoch_s']:,.0f}",
    epochs=lambda book: _every_epoch(ran_the_epoch(book)),
    epochs_elsewhere=lambda book: _epochs_elsewhere(ran_the_epoch(book)),
    epoch_dense=lambda book: f"{dense_epoch_s(book, counted_epoch(ran_the_epoch(book))) / 3600:.1f}",
    flat_came=lambda _: predictions.told("16", "1"),
    small_came=lambda _: predictions.told("16", "3"),
    lazy_came=lambda _: predictions.told("16", "11"),
)
