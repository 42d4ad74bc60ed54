"""What the page on deferred rows shows: tables, and the numbers of its prose."""

from collections.abc import Callable

import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.rows.analysis import (
    ADDED_UP,
    DEFERRED,
    DENSE,
    FROZEN,
    LARGE,
    LEARNED,
    MANY,
    MIDDLE,
    MOST,
    NARROW,
    OTHERS,
    RATES,
    SMALL,
    STACKS,
    VOCABULARIES,
    added_up,
    compared,
    dense_epoch_s,
    documents_epoch_s,
    epoch,
    epochs,
    growth,
    invocations,
    kerass,
    learned,
    loss_at_the_end,
    others,
    peaks,
    points,
    ratios,
    trained_over_frozen,
    trials,
    work,
    worst,
)
from traintime.book.plots import short
from traintime.book.stored import Measurements, interval
from traintime.workloads.base import FLOAT

GIB = 2**30
ADDED = list(ADDED_UP)[-1]
# The ways to pay less that were trained, by the name that they have where they were measured.
TRAINED = {
    "deferred": "deferred",
    "a tenth of the rows": "vocabulary cut to a tenth",
    "two factors": "two factors",
    "batch × 8": "batch × 8",
    ADDED: "batch × 8",  # the same gradients, in eight pieces
    "SGD": "SGD, rate 1",
}
FIRST = {"2026-tensorflow": "tf", "2026-jax": "jax", "2026-torch": "torch"}  # in the names of the prose's numbers


def cost_table(book: Measurements) -> HTML:
    """A step at each number of rows in each way, ms, and how many times as long dense is as deferred."""
    found, table, rows = points(book), ratios(book, DENSE, DEFERRED), []
    for stack in STACKS:
        for vocabulary in VOCABULARIES:
            of_one = stored.chosen(found, stack=stack, vocabulary=vocabulary).set_index("how")
            if of_one.empty:
                continue
            cells = [_ms(of_one, how) for how in (DENSE, DEFERRED, FROZEN)]
            gain = stored.chosen(table, stack=stack, vocabulary=vocabulary)
            times = page.span(gain.iloc[0], spec=".1f") if len(gain) else ""
            rows.append([stack, short(vocabulary), *cells, times])
    heads = ["ms a step", "rows", "dense", "deferred", "frozen", "dense / deferred"]
    return page.table(heads, rows, fold="Every step, in milliseconds") if rows else page.nothing()


def _ms(of_one: pd.DataFrame, how: str) -> str:
    if how not in of_one.index:
        return ""
    one = of_one.loc[how]
    return f"*{one['status']}*" if pd.isna(one["step_s"]) else f"{one['step_s'] * 1e3:,.0f}"


def memory_table(book: Measurements) -> HTML:
    """Peak memory at each number of rows, GiB, in each way."""
    rows = []
    for _, one in peaks(book).iterrows():
        held = (f"{one[how] / GIB:.1f}" for how in (DENSE, DEFERRED, FROZEN))
        rows.append([one["stack"], short(one["vocabulary"]), *held, f"{one['share']:.2f}"])
    heads = ["peak, GiB", "rows", "dense", "deferred", "frozen", "deferred / dense"]
    return page.table(heads, rows) if rows else page.nothing()


def others_table(book: Measurements, found: pd.DataFrame, sums: Measurements) -> HTML:
    """Each way to pay less: times as fast as dense on each stack, and points of accuracy. found: as `learned` gives.

    sums: the machine on which gradients were added up.
    """
    summed = added_up(sums)
    table, gains = pd.concat([others(book), summed[summed["below"] == ADDED]]), found.set_index("way")
    if table.empty:
        return page.nothing()
    rows = []
    for way in (*OTHERS, ADDED):
        cells = []
        for stack in STACKS:
            ran = stored.chosen(table, stack=stack, below=way)
            cells.append(page.span(ran.iloc[0], spec=".1f", below=True) if len(ran) else "")
        name = TRAINED.get(way, way)
        where = f" ({sums.title})" if way == ADDED and sums.machine != book.machine else ""
        rows.append([way + where, *cells, _points(gains.loc[name]) if name in gains.index else ""])
    heads = ["", *(f"on {stack.removeprefix('2026-')}" for stack in STACKS), "points of accuracy"]
    return page.table(heads, rows)


def learned_table(found: pd.DataFrame) -> HTML:
    """Held-out accuracy of every way that was trained. found: as `learned` gives it."""
    rows = [[one["way"], f"{one['accuracy']:.1%}", _points(one), str(one["seeds"])] for _, one in found.iterrows()]
    if not rows:
        return page.nothing("To train what is missing: `traintime learn`.")
    rows.insert(0, ["dense Adam", f"{found['dense'].iloc[0]:.1%}", "", str(found["seeds"].max())])
    return page.table(
        ["", "held-out accuracy", "against dense, points", "seeds"], rows, fold="Every way, with its accuracy"
    )


def _points(one: pd.Series) -> str:
    return interval(one, "difference").text("+.1f", 100)


def here_table(live: Measurements) -> HTML:
    """This run's steps: dense, deferred and frozen, ms."""
    found, rows = points(live), []
    if found.empty:
        return page.nothing()
    for (stack, vocabulary), of_one in found.groupby(["stack", "vocabulary"], sort=False):
        of_way = of_one.set_index("how")
        rows.append([str(stack), f"{vocabulary:,}", *(_ms(of_way, how) for how in (DENSE, DEFERRED, FROZEN))])
    return page.table(["ms a step", "rows", "dense", "deferred", "frozen"], rows)


def values(book: Measurements, ran: Measurements | None = None, sums: Measurements | None = None) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that a machine cannot give says so.

    ran: the machine of the epoch; sums: that on which gradients were added up; else both are the chapter's own.
    """
    ran, sums = ran or book, sums or book
    found, taught = points(book), learned(trials()).set_index("way")
    dense, frozen = ratios(book, DENSE, DEFERRED), ratios(book, DEFERRED, FROZEN)
    grown, many = growth(book, DEFERRED), growth(book, DEFERRED, (MOST, SMALL), MANY)
    peak, far, summed = peaks(book), compared(), added_up(sums)
    asked: dict[str, Callable[[], str]] = {
        "there": lambda: page.title(book, found),
        "there-epoch": lambda: page.title(ran, epochs(ran)),
        "there-added": lambda: page.title(sums, summed),
        "epoch": lambda: f"{epoch(ran)['epoch_s']:,.0f}",
        "epochs": lambda: _every_epoch(ran, epoch(ran)),
        "epoch-dense": lambda: f"{dense_epoch_s(book, epoch(ran)) / 3600:.1f}",
        "epoch-times": lambda: f"{documents_epoch_s() / epoch(ran)['epoch_s']:.1f}",
        "faults-torch": lambda: _faults(book, "2026-torch"),
        "most-grows": lambda: page.span(stored.row(many, stack=STACKS[0])),
        "most-gib": lambda: _at_the_most(book, lambda one: f"{one['peak_bytes'] / GIB:.0f}"),
        "most-ms": lambda: _at_the_most(book, lambda one: f"{one['step_s'] * 1e3:.0f}"),
    }
    for stack, name in FIRST.items():
        for size in VOCABULARIES:
            at = {"stack": stack, "vocabulary": size}
            asked[f"gain-{short(size)}-{name}"] = lambda w=at: page.span(stored.row(dense, **w), spec=".1f")
        asked[f"frozen-{name}"] = lambda s=stack: page.span(stored.row(frozen, stack=s, vocabulary=LARGE))
        asked[f"added-{name}"] = lambda s=stack: page.span(stored.row(summed, stack=s, below=ADDED), spec=".1f")
        asked[f"grows-{name}"] = lambda s=stack: page.span(stored.row(grown, stack=s))
        asked[f"memory-{name}"] = lambda s=stack: f"{stored.row(peak, stack=s, vocabulary=LARGE)['share']:.2f}"
        for how in (DENSE, DEFERRED):
            asked[f"apart-{how}-{name}"] = lambda s=stack, h=how: page.power(worst(far, s, h))
    asked["apart-lazy"] = lambda: f"{worst(far, 'numpy', 'adam-rows'):.1%}"
    for way in taught.index:
        asked[f"learned-{way.replace(' ', '-').replace(',', '')}"] = lambda w=way: _points(taught.loc[w])
    for way, changes in (("dense", {}), ("lazy", LEARNED["lazy Adam"])):
        asked[f"loss-{way}"] = lambda c=changes: f"{loss_at_the_end(trials(), **c):.3f}"
    asked["learned-dense"] = lambda: f"{taught['dense'].iloc[0]:.1%}"
    return {f"row-{name}": page.or_not_measured(give) for name, give in asked.items()} | {
        "row-document": f"{documents_epoch_s():,.0f}",
        "row-middle": f"{MIDDLE:,}",
        "row-keras": _keras(),
        "row-most": f"{MOST:,}",
        "row-bytes-dense": f"{work(DENSE).update_bytes / 1e9:.0f}",
        "row-bytes-deferred": f"{work(DEFERRED).update_bytes / 1e6:.0f}",
        "row-floor": f"{trained_over_frozen():.2f}",
        "row-most-dense": f"{4 * FLOAT * MOST * NARROW / 1e9:.0f}",
    }


def _every_epoch(ran: Measurements, first: pd.Series) -> str:
    """All that were run, by their seconds, where they are more than the one that counts, or that one was disturbed."""
    found = epochs(ran)
    if len(found) == 1 and not first["disturbed"]:
        return "It is the only one that we ran there, and nothing disturbed it."
    shown = " and ".join(f"{one['epoch_s']:,.0f}{' (disturbed)' * one['disturbed']}" for _, one in found.iterrows())
    return (
        f"All that we ran there took {shown} seconds; disturbed means that others took the processors for a part of it."
    )


def _faults(book: Measurements, stack: str) -> str:
    """Pages that a deferred step of a stack maps anew, with the fewest and with the most rows."""
    found = invocations(book)
    found = found[(found["stack"] == stack) & (found["how"] == DEFERRED)]
    few, many = (found.loc[found["vocabulary"] == rows, "faults_a_step"].mean() for rows in (SMALL, LARGE))
    return f"{few:,.0f} and {many:,.0f}"


def _keras() -> str:
    found = kerass(trials()).set_index("rate")
    if not set(RATES) <= set(found.index):
        return "That is not measured yet."
    gains = " and ".join(f"{_points(found.loc[rate])} points at a rate of {rate:g}" for rate in RATES)
    return f"Against Adam as published they make {gains}."


def _at_the_most(book: Measurements, give: Callable[[pd.Series], str]) -> str:
    return give(stored.chosen(points(book, MANY), vocabulary=MOST).set_index("how").loc[DEFERRED])
