"""Figures of fitted formulas: predicted against measured, what is left over, what a step is made of."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import MILLISECONDS, PALETTE, line_style, log_axis, style
from traintime.point import axis_label

MARKERS = dict(zip("012345678", "osD^v<>Pp", strict=True))
TERMS = {
    "a": ("the step", PALETTE[7], ""),
    "l": ("the positions", PALETTE[2], "xx"),
    "b": ("the rows", PALETTE[1], "//"),
    "c": ("the tokens", PALETTE[0], ".."),
}


def _look(number: int, stack: str) -> dict[str, object]:
    generation = stack.partition("-")[0]
    fill = line_style(stack)["color"] if generation in ("2026", "numpy") else "none"
    look = {"marker": MARKERS[str(number)], "linestyle": "none", "markersize": 5.5, "label": stack}
    return look | {"color": line_style(stack)["color"], "markerfacecolor": fill}


def predicted(points: pd.DataFrame) -> Figure:
    """Predicted against measured step, one marker a stack, next to the diagonal.

    points: columns stack, step_s, predicted_s (s).
    """
    style()
    figure, axis = plt.subplots(figsize=(6.4, 5.2), constrained_layout=True)
    ends = [points[["step_s", "predicted_s"]].min().min() * 700, points[["step_s", "predicted_s"]].max().max() * 1400]
    axis.plot(ends, ends, color="0.4", linewidth=1)
    for number, (stack, rows) in enumerate(points.groupby("stack", sort=False)):
        axis.plot(rows["step_s"] * 1e3, rows["predicted_s"] * 1e3, **_look(number, stack))
    for which in "xy":
        log_axis(axis, which, [tick for tick in MILLISECONDS[::2] if ends[0] < tick < ends[1]])
    axis.set_xlabel("measured step (ms)")
    axis.set_ylabel("the formula's step (ms)")
    axis.legend(fontsize=9)
    return figure


def residuals(points: pd.DataFrame) -> Figure:
    """Relative error of the formula against vocabulary, batch and length.

    points: columns stack, vocabulary, batch, length, error (predicted over measured, minus one).
    """
    style()
    sizes = ["vocabulary", "batch", "length"]
    figure, axes = plt.subplots(1, 3, figsize=(9.2, 3.8), sharey=True, constrained_layout=True)
    for axis, size in zip(axes, sizes, strict=True):
        axis.axhline(0, color="0.4", linewidth=1)
        others = [other for other in sizes if other != size]
        usual = points[others].eq(pd.Series({"vocabulary": 280_000, "batch": 100, "length": 25})[others])
        # In a panel, the points at which the other two sizes have the document's value.
        shown = points[usual.all(axis=1)]
        for number, (stack, rows) in enumerate(points.groupby("stack", sort=False)):
            rows = shown.loc[shown.index.isin(rows.index)]
            axis.plot(rows[size], rows["error"] * 100, **_look(number, stack))
        ticks = sorted(shown[size].unique())
        log_axis(axis, "x", ticks if len(ticks) < 6 else ticks[::2])
        axis.set_xlabel(axis_label(size))
    axes[0].set_ylabel("formula over measured, minus one (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def shares(parts: pd.DataFrame) -> Figure:
    """Share of each term in a step, one bar a stack. parts: index stack, a column a term, in seconds."""
    style()
    figure, axis = plt.subplots(figsize=(7.2, 0.42 * len(parts) + 1.5), constrained_layout=True)
    percent = parts.div(parts.sum(axis=1), axis=0)[::-1] * 100
    left = 0.0 * percent.iloc[:, 0]
    for term, (name, colour, hatch) in TERMS.items():
        if term in percent:
            axis.barh(percent.index, percent[term], left=left, color=colour, hatch=hatch, edgecolor="white", label=name)
            left = left + percent[term]
    axis.set_xlim(0, 100)
    axis.set_xlabel("share of a step (%)")
    axis.grid(False)
    figure.legend(loc="outside lower center", ncols=4)
    return figure
