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
