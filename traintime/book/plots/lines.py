"""Figures of lines and of points: a step, or what follows from it, against a size."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from traintime.book.plots.look import (
    MARKERS,
    PALETTE,
    SOURCE,
    WAY,
    Looks,
    errors,
    legend,
    line_style,
    log_axis,
    marks,
    of_ways,
    sheet,
)
from traintime.point import axis_label

End = tuple[float, float, str, str]  # of a line: x, y, its name, its colour
PAIR = [(PALETTE[0], "-"), (PALETTE[3], "--"), (PALETTE[2], ":"), (PALETTE[4], "-.")]
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


def along(points: pd.DataFrame, stack: str) -> Figure:
    """A step of one stack over the time steps of a sequence, a line a way of running it; dashed: in proportion.

    points: columns stack, how, length, step_s, low_s, high_s.
    """
    ran = points[points["stack"] == stack].dropna(subset="step_s")
    figure, axis = _named(ran, "length", of_ways(ran["how"]), "how")
    lengths = np.array(sorted(ran["length"].unique()))
    least = ran.loc[ran["length"] == lengths[0], "step_s"].min() * 1e3
    axis.plot(lengths, least * lengths / lengths[0], color="0.5", linestyle="--", linewidth=1)
    axis.set_xlabel("time steps of a sequence")
    return figure


def crossing(panels: Mapping[str, tuple[pd.DataFrame, Mapping[str, str]]]) -> Figure:
    """Stacks' steps in milliseconds against the vocabulary, in panels that share the axis of time.

    panels: title -> points, as Measurements.points gives them, and what to call each stack that is drawn.
    """
    figure, axes = sheet(3.0, across=len(panels))
    ran = [points[points["stack"].isin(list(names))].dropna(subset="step_s") for points, names in panels.values()]
    for axis, (title, (points, names)) in zip(axes, panels.items(), strict=True):
        _log_axes(axis, "vocabulary", pd.concat(ran))
        numbered = zip(MARKERS, names.items(), strict=False)
        looks = {stack: line_style(stack) | {"marker": marker, "label": name} for marker, (stack, name) in numbered}
        lines(axis, "vocabulary", points, looks)
        axis.set_title(title.replace(", ", ",\n"))
        axis.legend()
    axes[0].set_ylabel("time per step (ms)")
    figure.supxlabel(axis_label("vocabulary"))
    return figure


def ratios(tables: dict[str, pd.DataFrame]) -> Figure:
    """Ratio of two stacks' steps with its interval: a panel for each size that is swept, a line for each pair.

    tables: size -> columns above, below, ratio, low, high, faster and the size. A full marker is a significant
    difference; a hollow one is inconclusive.
    """
    figure, axes = sheet(3.4, across=len(tables))
    for axis, (against, table) in zip(axes, tables.items(), strict=True):
        axis.axhline(1, color="0.4", linewidth=1)
        table = table.assign(pair=table["above"] + " / " + table["below"])
        numbered = zip(dict.fromkeys(table["pair"]), PAIR, MARKERS, strict=False)
        looks = {pair: {"color": c, "linestyle": dashes, "marker": marker} for pair, (c, dashes), marker in numbered}
        lines(axis, against, table, looks, "pair", "ratio", 1)
        for pair, rows in table[table["faster"].isna()].groupby("pair"):
            hollow = looks[pair] | {"linestyle": "none", "markerfacecolor": "white", "zorder": 5}
            axis.plot(rows[against], rows["ratio"], **hollow)
        log_axis(axis, "x", table[against], table[against])
        axis.set_xlabel(axis_label(against).replace(" (", "\n("))
    ends = pd.concat([table[["ratio", "low", "high"]] for table in tables.values()])
    log_axis(axes[0], "y", ends.to_numpy(float).ravel(), [0.25, 0.5, 1, 2, 4, 8])
    axes[0].set_ylabel("ratio of the two steps")
    legend(figure, 1)
    return figure


def warm_up(curves: pd.DataFrame) -> Figure:
    """The first steps in units of a later one, a line for each stack. curves: index step, a column for each stack."""
    figure, (axis,) = sheet(3.2)
    for stack in curves:
        axis.plot(curves.index, curves[stack], marker=SOURCE["stored"], markersize=4, label=stack, **line_style(stack))
    log_axis(axis, "y", curves.to_numpy(float).ravel())
    axis.set(xticks=curves.index, xlabel="step", ylabel="time in units of a later step")
    axis.legend(loc="upper right", handlelength=3)
    return figure


def predicted(points: pd.DataFrame) -> Figure:
    """Predicted against measured step, one marker a stack, next to the diagonal.

    points: columns stack, step_s, predicted_s (s).
    """
    figure, (axis,) = sheet(3.1)
    points = points.assign(measured=points["step_s"] * 1e3)
    lines(axis, "measured", points, marks(points["stack"]), value="predicted_s")
    _diagonal(axis, points[["step_s", "predicted_s"]].to_numpy().ravel() * 1e3)
    axis.set(xlabel="measured step (ms)", ylabel="predicted step (ms)")
    axis.legend(loc="lower right", fontsize=9)
    return figure


def _diagonal(axis: Axes, milliseconds: Sequence[float]) -> None:
    """Equal log axes that just hold these steps, and the line of equal values."""
    for which in "xy":
        log_axis(axis, which, milliseconds)
    axis.plot(axis.get_xlim(), axis.get_xlim(), color="0.4", linewidth=1, zorder=0)


def residuals(points: pd.DataFrame) -> Figure:
    """Relative error of the formula against vocabulary, batch and length.

    points: columns stack, vocabulary, batch, length, error (predicted over measured, minus one).
    """
    usual = {"vocabulary": 280_000, "batch": 100, "length": 25}
    labels = ("vocabulary\n(rows)", "batch\n(sentences)", "length\n(tokens)")
    figure, axes = sheet(3.4, across=3)
    for axis, size, label in zip(axes, usual, labels, strict=True):
        axis.axhline(0, color="0.4", linewidth=1)
        # In a panel, the points at which the other two sizes have the 2017 post's value.
        others = pd.Series(usual).drop(size)
        shown = points[points[others.index].eq(others).all(axis=1)]
        lines(axis, size, shown, marks(points["stack"]), value="error", scale=100)
        log_axis(axis, "x", shown[size], shown[size])
        axis.set_xlabel(label)
    axes[0].set_ylabel("error of the formula (%)")
    legend(figure, 3)
    return figure
