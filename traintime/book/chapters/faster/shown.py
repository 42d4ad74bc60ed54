"""What the page of accelerations shows: tables, and the numbers of its prose."""

from collections.abc import Callable
from itertools import product

import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.faster.analysis import (
    CHANGES,
    EVERY,
    FEEDS,
    MODELS,
    SEEDS,
    STACKS,
    WAIT_S,
    changes,
    fed,
    feeds,
    gain,
    halves,
    peaks,
    rates,
    saves,
    scaled,
    shared,
)
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import FLOAT, SLOTS

LIMITS = {
    "arithmetic": "products of matrices",
    "table": "the update of every row",
    "loop": "small operations, position by position",
}
RATES = (0.0001, 0.001, 0.003, 0.01, 0.03)  # of those that were tried, the ones that the prose names
WORTH = 1.1  # times as fast, from which on a change is listed


def models_table() -> HTML:
    """The three models: what a step of each has to do."""
    rows = []
    for name, fields in MODELS.items():
        work = make_point(**fields).work
        counts = (f"{work.parameters:,}", f"{work.flops / 1e9:.2f}", f"{work.launches:,}")
        rows.append([name, *counts, LIMITS[name]])
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


def shared_table(book: Measurements) -> HTML:
    """One process and two, of the models that both trained."""
    rows = [
        [
            model,
            each.one.text(".0f", 1e3),
            each.half.text(".0f", 1e3),
            each.two.text(".0f", 1e3),
            each.gain.text(),
            f"{each.gradient_bytes / 1e6:.1f}",
        ]
        for model, each in shared(book).items()
    ]
    heads = ["ms a step", "one process", "one of two, alone", "two processes", "times as fast", "gradients (MB)"]
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
    """What to try first: each model's changes that are worth it on some stack, the largest gain first, with its price.

    table: as `changes` gives it.
    """
    rows = []
    price = {change.name: change.price for change in CHANGES}
    for model in MODELS:
        of_model = table[(table["model"] == model) & table["faster"].notna() & (table["ratio"] >= WORTH)]
        most = of_model.groupby("change")["ratio"].max().sort_values(ascending=False)
        if most.empty and (table["model"] == model).any():
            rows.append([LIMITS[model], "nothing measured here", "", "", "", ""])
        for change in most.index:
            every = table[(table["model"] == model) & (table["change"] == change)].set_index("stack")["ratio"]
            cells = [f"{every[stack]:.1f}" if stack in every.index else "" for stack in STACKS]
            rows.append([LIMITS[model] if change == most.index[0] else "", change, *cells, price[change]])
    names = [stack.removeprefix("2026-") for stack in STACKS]
    return page.table(["limited by", "try", *names, "price"], rows) if rows else page.nothing()


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


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that a machine cannot give says so."""
    table, fed_by, half = changes(book), feeds(book), peaks(book)
    costs, processes = saves(book), shared(book)
    asked: dict[str, Callable[[], str]] = {"there": lambda: page.title(book, table)}
    for model, change, stack in product(MODELS, [change.name for change in CHANGES], STACKS):
        name = f"{model}-{change.replace(' ', '-').replace('×', 'x')}-{stack.removeprefix('2026-')}"
        asked[name] = lambda m=model, c=change, s=stack: gain(table, m, c, s).text()
    for stack in STACKS:
        short = stack.removeprefix("2026-")
        asked[f"save-steps-{short}"] = lambda s=stack: f"{costs[s]['in turn'].value / costs[s]['step'].value:.1f}"
        asked[f"aside-{short}"] = lambda s=stack: f"{costs[s]['share'].value:.0%}"
        asked[f"float16-slower-{short}"] = lambda s=stack: f"{1 / gain(table, 'arithmetic', 'float16', s).value:,.0f}"
    for feed in FEEDS:
        asked[feed] = lambda f=feed: f"{fed(fed_by, f)['step_s'] * 1e3:.0f}"
        asked[f"waited-{feed}"] = lambda f=feed: f"{fed(fed_by, f)['waited_s'] * 1e3:.0f}"
    for model in ("arithmetic", "table"):
        asked[f"two-{model}"] = lambda m=model: processes[m].gain.text()
        asked[f"gradient-{model}"] = lambda m=model: f"{processes[m].gradient_bytes / 1e6:.1f}"
        asked[f"sixteen-{model}"] = lambda m=model: _sixteen(processes[m].half.value, processes[m].gradient_bytes)
        asked[f"least-memory-{model}"] = lambda m=model: f"{half[half['model'] == m]['share'].min():.0%}"
    own = make_point(**MODELS["arithmetic"]).work.parameters
    asked |= {f"learned-{name}": give for name, give in _learned().items()}
    return {f"fst-{name}": page.or_not_measured(give) for name, give in asked.items()} | {
        "fst-every": str(EVERY),
        "fst-wait": f"{WAIT_S * 1e3:.0f}",
        "fst-saved": f"{FLOAT * (1 + SLOTS['adam']) * make_point(**MODELS['table']).work.trained / 1e6:.0f}",
        "fst-shared": f"{own / make_point(**MODELS['arithmetic'], shared=True).work.parameters:.1f}",
    }


NETWORK = 10e9 / 8  # bytes a second of a network of 10 Gbit/s


def _sixteen(one_s: float, gradient_bytes: float) -> str:
    """Times as many samples a second of sixteen machines on a network of 10 Gbit/s, by arithmetic."""
    return f"{16 * one_s / scaled(one_s, gradient_bytes, NETWORK, 16):.1f}"
