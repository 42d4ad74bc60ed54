"""Figures of lines and of points: a step, or what follows from it, against a size."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from traintime.book.plots.look import (
    PALETTE,
    SOURCE,
    WAY,
    Looks,
    errors,
    line_style,
    log_axis,
    sheet,
)
from traintime.point import axis_label

End = tuple[float, float, str, str]  # of a line: x, y, its name, its colour
RATE = {
    "rate fixed": {"color": PALETTE[7], "marker": "o", "linestyle": "-"},
    "rate scaled": {"color": PALETTE[4], "marker": "s", "linestyle": "--"},
}


def lines(
    axis: Axes,
    against: str,
    table: pd.DataFrame,
    looks: Looks,
    by: str = "stack",
    value: str = "step_s",
    scale: float = 1e3,
) -> list[End]:
    """A line for each of looks through the values of its rows, with their intervals, named by the look's label or by
    itself; gives the lines' ends as label_ends takes them.
    """
    ends = []
    for one, look in looks.items():
        rows = table[table[by] == one].dropna(subset=value).sort_values(against)
        if len(rows):
            look = {"label": one} | look
            axis.errorbar(rows[against], scale * rows[value], errors(rows, value, scale), **look)
            ends.append((rows[against].iloc[-1], scale * rows[value].iloc[-1], look["label"], look["color"]))
    return ends


def label_ends(axis: Axes, ends: Sequence[End]) -> None:
    """Write each line's name at the right of its end, moved up where it would touch the one below."""
    axis.autoscale_view()
    place = -1.0
    for x, y, text, colour in sorted(ends, key=lambda end: end[1]):
        height = axis.transLimits.transform(axis.transScale.transform((x, y)))[1]
        place = max(height, place + 0.07)
        arrow = {"arrowstyle": "-", "color": colour, "lw": 0.6, "alpha": 0.6, "relpos": (0, 0.5), "shrinkA": 1}
        look = {"color": colour, "va": "center", "annotation_clip": False, "arrowprops": arrow}
        axis.annotate(text, (x, y), (1.04, place), textcoords="axes fraction", **look)


def _log_axes(axis: Axes, against: str, ran: pd.DataFrame) -> None:
    log_axis(axis, "x", ran[against], ran[against])
    log_axis(axis, "y", ran["step_s"] * 1e3)


def _named(points: pd.DataFrame, against: str, looks: Looks, by: str) -> tuple[Figure, Axes]:
    """One panel of steps against a size, each line named at its end."""
    figure, (axis,) = sheet(3.0)
    ran = points[points[by].isin(list(looks))].dropna(subset="step_s")
    _log_axes(axis, against, ran)
    axis.set(xlabel=axis_label(against), ylabel="time per step (ms)")
    label_ends(axis, lines(axis, against, ran, looks, by))
    return figure, axis


def steps(points: pd.DataFrame, against: str = "vocabulary") -> Figure:
    """Time of a step against one size, one line a stack, with the intervals of the means.

    points: as Measurements.points gives them; a point without a time is not drawn (the table says why).
    """
    looks = {stack: line_style(stack) | {"marker": SOURCE["stored"]} for stack in points["stack"]}
    return _named(points, against, looks, "stack")[0]


def one_stack(points: pd.DataFrame, against: str, names: dict[str, str]) -> Figure:
    """A step of one stack against one size, a line for each value of `how` in names, which says what to call it."""
    looks = {how: WAY[how] | {"marker": "o", "label": name} for how, name in names.items()}
    return _named(points, against, looks, "how")[0]
