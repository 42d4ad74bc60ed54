"""What the page of the fused LSTM shows: tables, and the numbers of its prose."""

from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd
from IPython.display import HTML

from traintime.book import original, page
from traintime.book.chapters.fused.analysis import (
    BATCHES,
    LENGTHS,
    ORDER,
    causes,
    gains,
    points,
    position,
    prices,
    share,
    trials,
)
from traintime.book.stored import Measurements
from traintime.explain import formula
from traintime.explain.statistics import Interval


def step_table(found: pd.DataFrame) -> HTML:
    """Milliseconds of a step, a row a stack and way, a column a batch and length. found: as `points` gives it."""
    sizes = sorted({(row.batch, row.length) for row in found.itertuples()})
    rows = []
    for (stack, way), group in found.groupby(["stack", "how"], sort=False):
        at = {(row.batch, row.length): row.step_s for row in group.itertuples()}
        rows.append([stack, way, *(f"{at[size] * 1e3:,.1f}" if at.get(size, 0) > 0 else "" for size in sizes)])
    heads = ["stack", "way", *(f"{batch} · {length}" for batch, length in sizes)]
    return page.table(heads, rows) if rows else page.nothing()


def price_table(priced: Mapping[tuple[str, str], formula.Fit]) -> HTML:
    """What a position costs on each stack, a column a way; and the part of a small step that it is. See `prices`."""
    stacks = list(dict.fromkeys(stack for stack, _ in priced))
    ways = [way for way in ORDER if any(way == of for _, of in priced)]
    rows = [
        [stack, *(position(priced[stack, way]).text(",.0f", 1e6) if (stack, way) in priced else "" for way in ways)]
        for stack in stacks
    ]
    return page.table(["µs a position", *ways], rows) if rows else page.nothing()


def gain_table(found: pd.DataFrame) -> HTML:
    """How many times as fast as the loop each other way is. found: as `gains` gives it."""
    rows = []
    for _, row in found.iterrows():
        verdict = row["reason"] if pd.isna(row["faster"]) else f"{row['faster']} is faster"
        sizes = f"{row['batch']} · {row['length']}"
        rows.append([row["stack"], row["below"], sizes, page.span(row), verdict])
    heads = ["stack", "instead of the loop", "batch · positions", "times as fast", "verdict"]
    return page.table(heads, rows, fold="All ratios") if rows else page.nothing()


def cause_table(found: pd.DataFrame) -> HTML:
    """What each difference between the two layers does to the accuracy. found: as `causes` gives it."""
    rows = []
    for row in found.itertuples():
        points = Interval(row.difference, row.low, row.high).text("+.1f", 100)
        means = f"{row.layer:.1%} → {row.cudnn:.1%}"
        rows.append([row.task, row.cause, means, points, f"{row.spread * 100:.1f}", str(row.seeds)])
    heads = ["data", "LSTM has", "LSTM → CuDNNLSTM", "points gained", "from seed to seed", "seeds"]
    return page.table(heads, rows) if rows else page.nothing("`traintime learn` does it.")


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that a machine cannot give says so."""
    found = points(book)
    priced, gained, learned = prices(book, found), gains(book), causes(trials())

    def of(stack: str, way: str) -> formula.Fit:
        return priced[stack, way]

    def gain(stack: str, way: str, batch: int, length: int) -> str:
        rows = gained[(gained["stack"] == stack) & (gained["below"] == way)]
        rows = rows[(rows["batch"] == batch) & (rows["length"] == length)]
        return page.span(rows.iloc[0])

    def cause(task: str, name: str) -> str:
        row = learned[(learned["task"] == task) & (learned["cause"] == name)].iloc[0]
        return Interval(row["difference"], row["low"], row["high"]).text("+.1f", 100)

    loops = sorted((position(fit).value, stack) for (stack, way), fit in priced.items() if way == "loop")
    minutes = original.read("s4-lstm").query("case == 'kaggle'").set_index(["device", "layer"])["epoch_s"] / 60
    asked: dict[str, Callable[[], str]] = {
        "s4-cpu": lambda: f"{minutes['CPU', 'LSTM']:.0f}",
        "s4-loop": lambda: f"{minutes['GPU', 'LSTM']:.0f}",
        "s4-fused": lambda: f"{minutes['GPU', 'CuDNNLSTM']:.0f}",
        "most-stack": lambda: loops[-1][1],
        "least-stack": lambda: loops[0][1],
        "most": lambda: f"{loops[-1][0] * 1e6:,.0f} µs",
        "least": lambda: f"{loops[0][0] * 1e6:,.0f} µs",
        "torch-share": lambda: share(of("2026-torch", "loop"), BATCHES[0], LENGTHS[1]).text(".0f", 100, "%"),
        "torch-small": partial(gain, "2026-torch", "one operation", BATCHES[0], LENGTHS[1]),
        "torch-large": partial(gain, "2026-torch", "one operation", BATCHES[1], LENGTHS[1]),
        "spread": lambda: f"{learned['spread'].max() * 100:.1f}",
    }
    for task in ("mnist1d", "padded"):
        for name in ("hard gates", "recurrent dropout", "no forget bias", "a mask", "all but the mask", "all of them"):
            asked[f"{task}-{name.replace(' ', '-')}"] = partial(cause, task, name)
    return {f"fus-{name}": page.or_not_measured(give) for name, give in asked.items()}
