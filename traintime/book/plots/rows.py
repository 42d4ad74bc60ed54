"""Figures of values in rows: a row for each change, way or stack, and markers with their intervals in it."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from traintime.book.plots.look import (
    Looks,
    errors,
    legend,
    log_axis,
    marks,
    name_rows,
    of_ways,
    sheet,
)


def rows(
    axis: Axes,
    table: pd.DataFrame,
    columns: tuple[str, str, str],
    names: Sequence[Any],
    looks: Looks,
    scale: float = 1,
) -> None:
    """A row for each name, and in it the values that the table has for it with their intervals, those of each of looks
    at a height of their own.

    columns: those of the value, the row and the look. Where there is a column told, markers are hollow where it is
    false.
    """
    value, row, of = columns
    places = pd.Series(0.0, index=table.index)
    for name, mine in table.groupby(row):
        here = [one for one in looks if one in set(mine[of])]
        number = mine[of].map(here.index) - (len(here) - 1) / 2
        places[mine.index] = names.index(name) + number * min(0.22, 0.8 / len(here))
    for one, look in looks.items():
        mine = table[table[of] == one]
        look = {"label": one, "linestyle": "none"} | look
        axis.errorbar(scale * mine[value], places[mine.index], xerr=errors(mine, value, scale), **look)
        if "told" in mine:
            mine = mine[~mine["told"].astype(bool)]
            hollow = look | {"label": None, "markerfacecolor": "white", "zorder": 3}
            axis.plot(scale * mine[value], places[mine.index], **hollow)
    name_rows(axis, names)


def positions(prices: pd.DataFrame, floors: dict[int, float]) -> Figure:
    """Microseconds that one more time step takes: a row a stack, a marker a way of running the layer, a panel a batch.

    prices: columns stack, how, batch, position_s, low, high (s); one that is not above nothing is not drawn.
    floors: the least that a time step can take at each batch, s.
    """
    prices = prices[prices["position_s"] > 0]
    stacks, sizes = list(dict.fromkeys(prices["stack"])), sorted(prices["batch"].unique())
    figure, axes = sheet((0.22 * len(stacks) + 0.3) * len(sizes) + 1.2, down=len(sizes))
    for axis, batch in zip(axes, sizes, strict=True):
        looks = of_ways(prices["how"])
        rows(axis, prices[prices["batch"] == batch], ("position_s", "stack", "how"), stacks, looks, 1e6)
        axis.axvline(floors[batch] * 1e6, color="0.2", linestyle="--", linewidth=1)
        axis.set_title(f"batch {batch}")
    log_axis(axes[-1], "x", [1e6 * seconds for seconds in (*prices["position_s"], *floors.values())])
    figure.supxlabel("µs for one more time step")
    legend(figure, 2)
    return figure


def causes(table: pd.DataFrame, claimed: float | None, gained: str) -> Figure:
    """Points of accuracy that each cause gains, with intervals, next to a claim where there is one.

    table: columns task, cause, difference, low, high (shares); claimed: a share; gained: the axis label.
    """
    names, tasks = (list(dict.fromkeys(table[name])) for name in ("cause", "task"))
    figure, (axis,) = sheet(0.27 * len(names) + 1.0)
    axis.axvline(0, color="0.4", linewidth=1)
    if claimed is not None:
        axis.axvline(100 * claimed, color="0.2", linestyle="--", linewidth=1)
    rows(axis, table, ("difference", "cause", "task"), names, of_ways(tasks), 100)
    figure.supxlabel(gained)
    if len(tasks) > 1:
        legend(figure, 2)
    return figure


def epoch_errors(epochs: pd.DataFrame, estimates: dict[str, str]) -> Figure:
    """Error of each kind of prediction of an epoch, a row for each kind, a mark for each epoch.

    epochs: columns stack, and NAME_error for each name of estimates (a share; above 0 more was predicted).
    """
    figure, (axis,) = sheet(0.4 * len(estimates) + 1.2)
    axis.axvspan(-5, 5, color="0.92", zorder=0)
    axis.axvline(0, color="0.4", linewidth=1)
    named = {f"{name}_error": words for name, words in estimates.items()}
    long = epochs.rename(columns=named).melt("stack", list(named.values()), "kind", "off", ignore_index=True)
    rows(axis, long, ("off", "kind", "stack"), list(named.values()), marks(epochs["stack"], alpha=0.75), 100)
    figure.supxlabel("error of the predicted epoch (%); the band is 5 % either way")
    legend(figure, 3)
    return figure


def over_truth(table: pd.DataFrame, names: dict[str, str]) -> Figure:
    """Predicted over true time: a row a way, a dot a model, a colour and marker a stack; the line is the truth.

    table: columns way, stack, times; names: of the ways that are shown, from above.
    """
    table = table.assign(name=table["way"].map(names)).dropna(subset="name").reset_index(drop=True)
    shown = [name for name in names.values() if name in set(table["name"])]
    figure, (axis,) = sheet(0.4 * len(shown) + 1.2)
    axis.axvline(1, color="0.4", linewidth=1)
    axis.axvspan(0.5, 2, color="0.5", alpha=0.1, linewidth=0)
    rows(axis, table, ("times", "name", "stack"), shown, marks(table["stack"], markersize=4, alpha=0.7))
    ticks = [0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10]
    log_axis(axis, "x", [*table["times"], 0.5, 2], ticks)
    axis.set_xlabel("predicted / true time")
    legend(figure, 3)
    return figure
