"""What the page of accelerations shows: tables, and the numbers of its prose."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import markup, page, stored
from traintime.book.chapters.faster.analysis import (
    AS_READ,
    CHANGES,
    EVERY,
    FEEDS,
    MODELS,
    SEEDS,
    SELDOM,
    STACKS,
    WAIT_S,
    changes,
    exchanges,
    fed,
    feeds,
    gain,
    halves,
    paired,
    peaks,
    rates,
    saves,
    scaled,
    seldom,
    shared,
)
from traintime.book.chapters.faster.first import LIMITS, price
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import FLOAT, SLOTS

RATES = (0.0001, 0.001, 0.003, 0.01, 0.03)  # of those that were tried, the ones that the prose names
WORTH = 1.1  # times as fast, from which on a change is listed


def models_table() -> HTML:
    """The three models: what a step of each has to do."""
    rows = []
    for name, fields in MODELS.items():
        work = make_point(**fields).work
        counts = (f"{work.parameters:,}", f"{work.flops / 1e9:.2f}", f"{work.launches:,}")
        rows.append([name, *counts, LIMITS[name][0]])
    return page.table(["model", "parameters", "operations (10⁹)", "one after the other", "limited by"], rows)


def change_table(table: pd.DataFrame, fold: str = "") -> HTML:
    """Times as fast, a row a model and change, a column a stack. table: as `changes` gives it."""
    if table.empty:
        return page.nothing()
    rows, stacks = [], stored.stack_order(table["stack"])
    for (model, change), group in table.groupby(["model", "change"], sort=False):
        by = group.set_index("stack")
        cells = [page.span(by.loc[stack], below=True) if stack in by.index else "" for stack in stacks]
        rows.append([f"{model}: {change}", *cells])
    return page.table(["times as fast", *stacks], rows, fold=fold)


def peak_table(table: pd.DataFrame) -> HTML:
    """Peak memory in float32 and in half precision. table: as `peaks` gives it."""
    if table.empty:
        return page.nothing()
    rows = [
        [row["model"], row["stack"], row["precision"], f"{row['full'] / 1e6:,.0f}", f"{row['half'] / 1e6:,.0f}"]
        for _, row in table.iterrows()
    ]
    return page.table(["model", "stack", "precision", "float32 (MB)", "half (MB)"], rows, fold="Peak memory, all of it")


def feed_table(table: pd.DataFrame) -> HTML:
    """A step with each feed, what of it was waiting, and how busy the processors were. table: as `feeds` gives it."""
    if table.empty:
        return page.nothing()
    rows = []
    for _, row in table.iterrows():
        half = (row["high_s"] - row["low_s"]) / 2
        spread = f" ± {half * 1e3:.0f}" if half < row["step_s"] else ""
        cells = (f"{row['step_s'] * 1e3:.0f}{spread}", f"{row['waited_s'] * 1e3:.0f}", f"{row['own_cores']:.1f}")
        rows.append([row["feed"], *cells])
    return page.table(["batches are", "ms a step", "of it waiting", "processors busy"], rows)


def save_table(costs: dict[str, dict[str, Interval]]) -> HTML:
    """What a save takes from the training. costs: as `saves` gives them."""
    if not costs:
        return page.nothing()
    rows = [
        [
            stack,
            cost["step"].text(".0f", 1e3),
            cost["in turn"].text(".0f", 1e3),
            cost["aside"].text(".0f", 1e3),
            f"{cost['in turn'].value / cost['step'].value / 100:.1%}",
        ]
        for stack, cost in costs.items()
    ]
    heads = ["", "a step (ms)", "a save (ms)", "aside (ms)", "every 100 steps adds"]
    return page.table(heads, rows)


def seldom_table(costs: dict[str, dict[str, Interval]]) -> HTML:
    """A step never saved, and how many times as long it is on average with each way to save.

    costs: as `seldom` gives them.
    """
    if not costs:
        return page.nothing("To measure: `make measure`, or its sweep `faster-saving` alone.")
    rows = [
        [
            stack,
            cost["never"].text(".0f", 1e3),
            cost["each"].text(),
            cost["hundredth"].text(),
            cost["aside"].text(),
        ]
        for stack, cost in costs.items()
    ]
    heads = ["", "never (ms)", "after each: times as long", f"every {SELDOM}: times as long", "aside: times as fast"]
    return page.table(heads, rows)


def shared_table(book: Measurements) -> HTML:
    """One process and two, of the models that both trained."""
    rows = [
        [
            model,
            each.one.text(".0f", 1e3),
            each.half.text(".0f", 1e3),
            each.two.text(".0f", 1e3),
            each.gain.text(),
            each.efficiency.text(".0%"),
        ]
        for model, each in shared(book).items()
    ]
    heads = ["ms a step", "one process", "one of two, alone", "two processes", "times as fast", "efficiency"]
    return page.table(heads, rows) if rows else page.nothing()


def exchange_table(book: Measurements) -> HTML:
    """What the exchange of gradients took, and what a ring would take over two rates."""
    rows = [
        [
            model,
            f"{shared(book)[model].gradient_bytes / 1e6:.1f}",
            each.seen.text(".0f", 1e3),
            "not measured" if np.isnan(each.at_memory) else f"{each.at_memory * 1e3:.2f}",
            "" if each.as_largest == each.seen else each.as_largest.text(".1f", 1e3),
        ]
        for model, each in exchanges(book).items()
    ]
    heads = ["an exchange (ms)", "gradients (MB)", "seen", "at the memory's rate", "at the table's own rate"]
    return page.table(heads, rows) if rows else page.nothing()


def rate_table(table: pd.DataFrame) -> HTML:
    """Epochs to one loss at each rate. table: as `rates` gives it."""
    if table.empty:
        return page.nothing("To train: `traintime learn --profile full --only rates`.")
    rows = []
    for _, row in table.iterrows():
        epochs = f"{row['epochs']:.1f} ({row['low']:.0f} to {row['high']:.0f})" if row["reached"] else "never"
        rows.append([f"{row['rate']:g}", epochs, f"{row['reached']:.0%}", f"{row['accuracy']:.0%}"])
    return page.table(["rate", "epochs to the loss", "seeds that get there", "accuracy after all epochs"], rows)


def half_table(table: pd.DataFrame) -> HTML:
    """What half precision does to the accuracy. table: as `halves` gives it."""
    if table.empty:
        return page.nothing("To train: `traintime learn --profile full --only half`.")
    rows = []
    for row in table.itertuples():
        points = Interval(row.difference, row.low, row.high).text("+.1f", 100)
        rows.append(
            [row.precision.removeprefix("mixed-"), f"{row.accuracy:.1%}", f"{row.full:.1%}", points, f"{row.seeds}"]
        )
    return page.table(["", "accuracy", "in float32", "difference, points", "seeds"], rows)


def first_table(table: pd.DataFrame) -> HTML:
    """What to try first for each limit: the changes that are worth it on some stack, and those not measured yet.

    table: as `tried` gives it.
    """
    return _tried_table(table, lambda rows: bool((_helps(rows) | rows["stack"].isna()).any()))


def rest_table(table: pd.DataFrame) -> HTML:
    """What was tried and helped nowhere, or cannot be told, behind a line that opens it. table: as `tried` gives it."""
    found = _tried_table(table, lambda rows: not (_helps(rows) | rows["stack"].isna()).any())
    return HTML(markup.fold("What did not help, or cannot be told", found.data))


def _helps(rows: pd.DataFrame) -> pd.Series:
    return rows["told"].astype(bool) & (rows["ratio"] >= WORTH)


def _tried_table(table: pd.DataFrame, which: Callable[[pd.DataFrame], bool]) -> HTML:
    rows = []
    for limit, of_limit in table.groupby("limit", sort=False):
        first = "<br>".join(LIMITS[limit])
        for change, each in of_limit.groupby("change", sort=False):
            if not which(each):
                continue
            by = {row["stack"]: _times(row) for _, row in each.iterrows()}
            cells = [by.get(stack, "not measured yet" if None in by else "") for stack in STACKS]
            rows.append([first, change, *cells, price(limit, change, each)])
            first = ""
    names = [stack.removeprefix("2026-") for stack in STACKS]
    return page.table(["limited by, seen by", "try", *names, "price"], rows) if rows else page.nothing()


def _times(row: pd.Series) -> str:
    """Times as fast, in bold where it can be told from 1."""
    spec = ".3f" if row["ratio"] < 0.1 else ".2f"
    value, *interval = page.span(row, spec=spec, below=True).split("<br>")
    marks = ["*all disturbed*"] if row["disturbed"] else []
    return "<br>".join([f"**{value}**" if row["told"] else value, *interval, *marks])


def _learned() -> dict[str, Callable[[], str]]:
    """What was trained for its accuracy: half precision, and rates."""
    half, table = halves().set_index("precision"), rates().set_index("rate")

    def points(precision: str) -> str:
        row = half.loc[precision]
        if row["seeds"] < SEEDS:
            raise KeyError("not trained with enough seeds")
        return Interval(row["difference"], row["low"], row["high"]).text("+.1f", 100)

    found: dict[str, Callable[[], str]] = {
        name: lambda precision=f"mixed-{name}": points(precision) for name in ("bfloat16", "float16")
    }
    found |= {f"epochs-{rate:g}": lambda r=rate: f"{table.loc[r, 'epochs']:.1f}" for rate in RATES}
    found |= {f"accuracy-{rate:g}": lambda r=rate: f"{table.loc[r, 'accuracy']:.0%}" for rate in RATES}
    return found


def values(book: Measurements, saved: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that a machine cannot give says so. saved: as for `tried`."""
    table, fed_by, half = changes(book), feeds(book), peaks(book)
    costs, processes, seldom_by, exchanged = saves(book), shared(book), seldom(saved), exchanges(book)
    as_read = paired(book, AS_READ)
    asked: dict[str, Callable[[], str]] = {"there": lambda: page.title(book, table)}
    for model, change, stack in product(MODELS, [change.name for change in CHANGES], STACKS):
        name = f"{model}-{change.replace(' ', '-').replace('×', 'x')}-{stack.removeprefix('2026-')}"
        asked[name] = lambda m=model, c=change, s=stack: gain(table, m, c, s).text()
    for stack in STACKS:
        short = stack.removeprefix("2026-")
        asked[f"save-steps-{short}"] = lambda s=stack: f"{costs[s]['in turn'].value / costs[s]['step'].value:.1f}"
        asked[f"aside-{short}"] = lambda s=stack: f"{costs[s]['share'].value:.0%}"
        asked[f"float16-slower-{short}"] = lambda s=stack: f"{1 / gain(table, 'arithmetic', 'float16', s).value:,.0f}"
        asked[f"when-read-{short}"] = lambda s=stack: page.span(stored.row(as_read, stack=s))
        asked[f"each-{short}"] = lambda s=stack: seldom_by[s]["each"].text()
        asked[f"hundredth-{short}"] = lambda s=stack: seldom_by[s]["hundredth"].text()
        asked[f"each-aside-{short}"] = lambda s=stack: seldom_by[s]["aside"].text()
    asked["seldom-there"] = lambda: page.title(saved, seldom_by)
    for feed in FEEDS:
        asked[feed] = lambda f=feed: f"{fed(fed_by, f)['step_s'] * 1e3:.0f}"
        asked[f"waited-{feed}"] = lambda f=feed: f"{fed(fed_by, f)['waited_s'] * 1e3:.0f}"
    for model in ("arithmetic", "table"):
        asked[f"two-{model}"] = lambda m=model: processes[m].gain.text()
        asked[f"exchange-{model}"] = lambda m=model: exchanged[m].seen.text(".0f", 1e3)
        asked[f"ring-{model}"] = lambda m=model: _measured(exchanged[m].at_memory * 1e3, ".2f")
        asked[f"as-table-{model}"] = lambda m=model: exchanged[m].as_largest.text(".1f", 1e3)
        asked[f"efficiency-{model}"] = lambda m=model: processes[m].efficiency.text(".0%")
        asked[f"gradient-{model}"] = lambda m=model: f"{processes[m].gradient_bytes / 1e6:.1f}"
        asked[f"sixteen-{model}"] = lambda m=model: _sixteen(processes[m].half.value, processes[m].gradient_bytes)
        asked[f"least-memory-{model}"] = lambda m=model: f"{half[half['model'] == m]['share'].min():.0%}"
    own = make_point(**MODELS["arithmetic"]).work.parameters
    asked |= {f"learned-{name}": give for name, give in _learned().items()}
    return {f"fst-{name}": page.or_not_measured(give) for name, give in asked.items()} | {
        "fst-every": str(EVERY),
        "fst-seldom": str(SELDOM),
        "fst-wait": f"{WAIT_S * 1e3:.0f}",
        "fst-saved": f"{FLOAT * (1 + SLOTS['adam']) * make_point(**MODELS['table']).work.trained / 1e6:.0f}",
        "fst-shared": f"{own / make_point(**MODELS['arithmetic'], shared=True).work.parameters:.1f}",
    }


def _measured(value: float, spec: str) -> str:
    if np.isnan(value):
        raise KeyError("not measured")
    return f"{value:{spec}}"


NETWORK = 10e9 / 8  # bytes a second of a network of 10 Gbit/s


def _sixteen(one_s: float, gradient_bytes: float) -> str:
    """Times as many samples a second of sixteen machines on a network of 10 Gbit/s, by arithmetic."""
    return f"{16 * one_s / scaled(one_s, gradient_bytes, NETWORK, 16):.1f}"
