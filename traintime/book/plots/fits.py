"""Figures of predictions: of fitted formulas, what they leave over, a step's parts; a predictor's over the truth."""

from collections.abc import Iterable

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import MARKERS, MILLISECONDS, PALETTE, line_style, log_axis, style

TERMS = {
    "a": ("fixed: overhead (a)", PALETTE[7], ""),
    "l": ("fixed: time steps (l·L)", PALETTE[2], "xx"),
    "b": ("fixed: rows (b·V)", PALETTE[1], "//"),
    "c": ("sentences (c·L·B)", PALETTE[0], ".."),
}


def _look(number: int, stack: str) -> dict[str, object]:
    generation = stack.partition("-")[0]
    fill = line_style(stack)["color"] if generation in ("2026", "numpy") else "none"
    look = {"marker": MARKERS[number], "linestyle": "none", "markersize": 5.5, "label": stack}
    return look | {"color": line_style(stack)["color"], "markerfacecolor": fill}


def predicted(points: pd.DataFrame) -> Figure:
    """Predicted against measured step, one marker a stack, next to the diagonal.

    points: columns stack, step_s, predicted_s (s).
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.7), constrained_layout=True)
    ends = [points[["step_s", "predicted_s"]].min().min() * 700, points[["step_s", "predicted_s"]].max().max() * 1400]
    axis.plot(ends, ends, color="0.4", linewidth=1)
    for number, (stack, rows) in enumerate(points.groupby("stack", sort=False)):
        axis.plot(rows["step_s"] * 1e3, rows["predicted_s"] * 1e3, **_look(number, stack))
    for which in "xy":
        log_axis(axis, which, [tick for tick in MILLISECONDS[::2] if ends[0] < tick < ends[1]])
    axis.set_xlabel("measured step (ms)")
    axis.set_ylabel("predicted step (ms)")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center", fontsize=9.5)
    return figure


def residuals(points: pd.DataFrame) -> Figure:
    """Relative error of the formula against vocabulary, batch and length.

    points: columns stack, vocabulary, batch, length, error (predicted over measured, minus one).
    """
    style()
    sizes = {"vocabulary": "vocabulary (rows)", "batch": "batch (sentences)", "length": "length (tokens)"}
    figure, axes = plt.subplots(1, 3, figsize=(7.6, 3.7), sharey=True, constrained_layout=True)
    for axis, size in zip(axes, sizes, strict=True):
        axis.axhline(0, color="0.4", linewidth=1)
        others = [other for other in sizes if other != size]
        usual = points[others].eq(pd.Series({"vocabulary": 280_000, "batch": 100, "length": 25})[others])
        # In a panel, the points at which the other two sizes have the 2017 post's value.
        shown = points[usual.all(axis=1)]
        for number, (stack, rows) in enumerate(points.groupby("stack", sort=False)):
            rows = shown.loc[shown.index.isin(rows.index)]
            axis.plot(rows[size], rows["error"] * 100, **_look(number, stack))
        log_axis(axis, "x", _apart(shown[size].unique()))
        axis.set_xlabel(sizes[size])
    axes[0].set_ylabel("error of the formula (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _apart(ticks: Iterable[float], least: float = 3) -> list[float]:
    """Of ticks on a log axis those whose labels do not touch, from the left: each `least` times the one before."""
    kept: list[float] = []
    for tick in sorted(ticks):
        if not kept or tick >= least * kept[-1]:
            kept.append(tick)
    return kept


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
    figure.legend(loc="outside lower center", ncols=4, fontsize=9)
    return figure


def over_truth(table: pd.DataFrame, names: dict[str, str]) -> Figure:
    """Predicted over true time: a row a way, a dot a model, a colour and marker a stack; the line is the truth.

    table: columns way, stack, times; names: of the ways that are shown, from above.
    """
    style()
    table = table[table["way"].isin(names)]
    stacks = list(dict.fromkeys(table["stack"]))
    shown = {way: name for way, name in names.items() if (table["way"] == way).any()}
    figure, axis = plt.subplots(figsize=(7.2, 0.4 * len(shown) + 1.2), constrained_layout=True)
    axis.axvline(1, color="0.4", linewidth=1)
    axis.axvspan(0.5, 2, color="0.5", alpha=0.1, linewidth=0)
    for number, stack in enumerate(stacks):
        look = _look(number, stack) | {"markersize": 4.5, "alpha": 0.7}
        for height, way in enumerate(shown):
            of_way = table[table["way"] == way]
            here = list(dict.fromkeys(of_way["stack"]))
            times = of_way[of_way["stack"] == stack]["times"]
            shift = 0.22 * (here.index(stack) - (len(here) - 1) / 2) if stack in here else 0
            axis.plot(times, [height + shift] * len(times), **look)
    marks = [plt.Line2D([], [], **_look(number, stack)) for number, stack in enumerate(stacks)]
    log_axis(axis, "x", [0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10])
    axis.set_xlim(min(table["times"].min(), 0.5) / 1.2, max(table["times"].max(), 2) * 1.2)
    axis.set_yticks(range(len(shown)), list(shown.values()))
    axis.set_ylim(len(shown) - 0.5, -0.5)
    axis.set_xlabel("predicted / true time")
    axis.grid(axis="y", visible=False)
    figure.legend(marks, stacks, loc="outside lower center", ncols=min(max(len(stacks), 1), 3), fontsize=9.5)
    return figure
