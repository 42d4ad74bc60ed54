"""Figures of sweeps: a step against one size, a line a stack or a panel a stack."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from traintime.book.plots.look import (
    MARKERS,
    PALETTE,
    SOURCE,
    WAY,
    errors,
    interval_ms,
    label_ends,
    line_style,
    log_axis,
    milliseconds_axis,
    style,
)
from traintime.point import axis_label

PAIR = [PALETTE[n] for n in (0, 3, 2, 4)]
TRAINED = {"adam": "Adam", "sgd": "SGD", "frozen": "frozen", "adam-rows": "row-wise Adam", "1K rows": "1K rows, Adam"}


def _told_apart(axis: Axes, x: Iterable, y: Iterable, faster: pd.Series, marker: str, colour: str) -> None:
    """Full markers where one of the two is faster, hollow ones where nobody can tell."""
    for one_x, one_y, which in zip(x, y, faster, strict=True):
        fill = "white" if pd.isna(which) else colour
        axis.plot(one_x, one_y, marker=marker, color=colour, markerfacecolor=fill, linestyle="none", zorder=5)


def steps(points: pd.DataFrame, against: str = "vocabulary", source: str = "stored") -> Figure:
    """Time of a step against one size, one line a stack, with the intervals of the means.

    points: as Measurements.points gives them; a point without a time is not drawn (the table says why).
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.6), constrained_layout=True)
    ends = []
    ran = points.dropna(subset="step_s")
    for stack, rows in ran.groupby("stack", sort=False):
        rows = rows.sort_values(against)
        look = line_style(stack)
        axis.errorbar(
            rows[against],
            rows["step_s"] * 1e3,
            interval_ms(rows),
            marker=SOURCE[source],
            markersize=5,
            capsize=3,
            **look,
        )
        ends.append((rows[against].iloc[-1], rows["step_s"].iloc[-1] * 1e3, stack, look["color"]))
    log_axis(axis, "x", sorted(ran[against].unique()))
    milliseconds_axis(axis, ran["step_s"])
    axis.set_xlabel(axis_label(against))
    axis.set_ylabel("one step (ms)")
    axis.set_xlim(ran[against].min() * 0.85, ran[against].max() * 1.1)
    label_ends(axis, ends)
    return figure


def crossing(panels: Mapping[str, tuple[pd.DataFrame, Mapping[str, str]]], against: str = "vocabulary") -> Figure:
    """Stacks' steps in milliseconds against one size, in panels that share the axis of time.

    panels: title -> points, as Measurements.points gives them, and what to call each stack that is drawn.
    """
    style()
    figure, axes = plt.subplots(1, len(panels), figsize=(7.2, 3.6), sharey=True, squeeze=False, constrained_layout=True)
    ran = {title: points.dropna(subset="step_s") for title, (points, _) in panels.items()}
    shown = [ran[title].loc[ran[title]["stack"].isin(list(names)), "step_s"] for title, (_, names) in panels.items()]
    milliseconds_axis(axes[0][0], pd.concat(shown))
    for axis, (title, (_, names)) in zip(axes[0], panels.items(), strict=True):
        ends = []
        for marker, (stack, name) in zip(MARKERS, names.items(), strict=False):
            rows = ran[title][ran[title]["stack"] == stack].sort_values(against)
            if len(rows):
                look = line_style(stack)
                axis.errorbar(rows[against], rows["step_s"] * 1e3, interval_ms(rows), marker=marker, capsize=3, **look)
                ends.append((rows[against].iloc[-1], rows["step_s"].iloc[-1] * 1e3, name, look["color"]))
        log_axis(axis, "x", sorted(ran[title][against].unique()))
        axis.set_title(title, loc="left", fontsize=11)
        if ends:
            label_ends(axis, ends)
    axes[0][0].set_ylabel("one step (ms)")
    figure.supxlabel(axis_label(against), fontsize=11)
    return figure


def ways(points: pd.DataFrame, against: str = "vocabulary") -> Figure:
    """One panel a stack: a step against one size, one line for each value of the column `how`, all of them in WAY.

    Among points that were repeated, one that was not has a hollow marker.
    """
    style()
    names = list(dict.fromkeys(points["stack"]))
    figure, axes = plt.subplots(
        1, len(names), figsize=(2.3 * len(names) + 0.6, 3.9), sharey=True, squeeze=False, constrained_layout=True
    )
    ran = points.dropna(subset="step_s")
    shown = sorted(ran[against].unique())
    order = sorted(set(ran["how"]), key=list(WAY).index)
    repeated = "invocations" in ran and ran["invocations"].max() > 1
    for axis, stack in zip(axes[0], names, strict=True):
        for how in order:
            rows = ran[(ran["stack"] == stack) & (ran["how"] == how)].sort_values(against)
            if len(rows):
                look = WAY[how] | {"marker": "o", "markersize": 4.5, "capsize": 3, "label": how}
                axis.errorbar(rows[against], rows["step_s"] * 1e3, interval_ms(rows), **look)
                once = rows[rows["invocations"] == 1] if repeated else rows[:0]
                hollow = look | {"linestyle": "none", "markerfacecolor": "white", "label": "_once", "zorder": 5}
                axis.plot(once[against], once["step_s"] * 1e3, **{k: v for k, v in hollow.items() if k != "capsize"})
        log_axis(axis, "x", shown if len(shown) <= 4 else shown[::2])
        axis.set_title(stack, loc="left", fontsize=11)
    milliseconds_axis(axes[0][0], ran["step_s"])
    axes[0][0].set_ylabel("one step (ms)")
    figure.supxlabel(axis_label(against), fontsize=11)
    found = {label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(list(found.values()), list(found), loc="outside upper center", ncols=6)
    return figure


def one_stack(points: pd.DataFrame, against: str, names: dict[str, str]) -> Figure:
    """A step of one stack against one size, a line for each value of `how` in names, which says what to call it."""
    style()
    figure, axis = plt.subplots(figsize=(6.6, 3.6), constrained_layout=True)
    ran, ends = points.dropna(subset="step_s"), []
    for how, name in names.items():
        rows = ran[ran["how"] == how].sort_values(against)
        if len(rows):
            axis.errorbar(rows[against], rows["step_s"] * 1e3, interval_ms(rows), marker="o", capsize=3, **WAY[how])
            ends.append((rows[against].iloc[-1], rows["step_s"].iloc[-1] * 1e3, name, WAY[how]["color"]))
    log_axis(axis, "x", sorted(ran[against].unique()))
    milliseconds_axis(axis, ran["step_s"])
    axis.set_xlabel(axis_label(against))
    axis.set_ylabel("one step (ms)")
    label_ends(axis, ends)
    return figure


def exponents(table: pd.DataFrame) -> Figure:
    """Apparent exponents with their intervals: one row a way, one marker a stack, proportion at 1.

    table: columns stack, how, exponent, low, high.
    """
    style()
    order = [way for way in WAY if way in set(table["how"])]
    stacks = list(dict.fromkeys(table["stack"]))
    figure, axis = plt.subplots(figsize=(6.8, 0.62 * len(order) + 1.4), constrained_layout=True)
    for number, stack in enumerate(stacks):
        rows = table[table["stack"] == stack].set_index("how")
        rows = rows.loc[[way for way in order if way in rows.index]]
        places = [order.index(way) + (number - (len(stacks) - 1) / 2) * 0.17 for way in rows.index]
        look = {"color": line_style(stack)["color"], "marker": MARKERS[number % len(MARKERS)], "linestyle": "none"}
        axis.errorbar(
            rows["exponent"], places, xerr=errors(rows, "exponent"), capsize=3, markersize=6, label=stack, **look
        )
    axis.axvline(1, color="0.4", linestyle="--", linewidth=1)
    axis.set_yticks(range(len(order)), [TRAINED.get(way, way) for way in order])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.1)
    axis.set_xlabel("apparent exponent (1: proportional time, 0: no effect)")
    figure.legend(loc="outside lower center", ncols=len(stacks))
    return figure


def epochs(points: pd.DataFrame, break_even: pd.Series) -> Figure:
    """Hours of an epoch against batch size, one line a stack, with a mark at its break-even batch if it was reached.

    points: columns stack, batch, epoch_s; break_even: batch size by stack.
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.8), constrained_layout=True)
    ends = []
    ran = points.dropna(subset="epoch_s")
    for stack, rows in ran.groupby("stack", sort=False):
        rows, look = rows.sort_values("batch"), line_style(stack)
        axis.plot(rows["batch"], rows["epoch_s"] / 3600, **look)
        if rows["batch"].min() <= break_even.get(stack, np.nan) <= rows["batch"].max():
            hours = np.interp(np.log(break_even[stack]), np.log(rows["batch"]), np.log(rows["epoch_s"] / 3600))
            axis.plot(break_even[stack], np.exp(hours), marker="X", markersize=9, color=look["color"])
        ends.append((rows["batch"].iloc[-1], rows["epoch_s"].iloc[-1] / 3600, stack, look["color"]))
    log_axis(axis, "x", sorted(ran["batch"].unique()))
    log_axis(axis, "y", [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])
    axis.set_xlabel(axis_label("batch"))
    axis.set_ylabel("epoch of a million sentences (h)")
    axis.set_xlim(ran["batch"].min() * 0.85, ran["batch"].max() * 1.1)
    label_ends(axis, ends)
    return figure


def collapsed(points: pd.DataFrame, fitted: pd.DataFrame) -> Figure:
    """An epoch over the shortest possible one against batch over break-even batch: every stack on one curve.

    points: columns stack, batch, step_s; fitted: index stack, columns c (s a sentence) and break_even (sentences).
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.6), constrained_layout=True)
    ran = points.dropna(subset="step_s")
    for number, (stack, rows) in enumerate(ran[ran["stack"].isin(fitted.index)].groupby("stack", sort=False)):
        at = fitted.loc[stack]
        look = {"color": line_style(stack)["color"], "marker": MARKERS[number % len(MARKERS)], "linestyle": "none"}
        axis.plot(rows["batch"] / at["break_even"], rows["step_s"] / rows["batch"] / at["c"], label=stack, **look)
    low, high = axis.get_xlim()
    low = max(low, 1e-3)
    curve = np.geomspace(low, max(high, 10), 100)
    axis.plot(curve, 1 + 1 / curve, color="0.3", linewidth=1.2, zorder=0)
    axis.axvline(1, color="0.6", linestyle=":", linewidth=1)
    axis.annotate("break-even batch:\ntwice the shortest", (1, 2), (1.2, 7), fontsize=9.5, va="center")
    log_axis(axis, "x", [0.001, 0.01, 0.1, 1, 10])
    log_axis(axis, "y", [1, 2, 5, 10, 100, 1000])
    axis.set_ylim(0.7)
    axis.set_xlabel("batch / break-even batch")
    axis.set_ylabel("epoch / shortest possible epoch")
    figure.legend(loc="outside right upper", fontsize=9)
    return figure


def by_width(networks: pd.DataFrame) -> Figure:
    """Break-even batch against a network's filters, a line for each depth.

    networks: columns depth (blocks), filters (of the first block), break_even (images).
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.4), constrained_layout=True)
    colours = plt.get_cmap("cividis")(np.linspace(0, 0.8, networks["depth"].nunique()))
    for number, (depth, rows) in enumerate(networks.sort_values("filters").groupby("depth")):
        look = {"color": colours[number], "marker": MARKERS[number % len(MARKERS)]}
        axis.plot(rows["filters"], rows["break_even"], label=f"{depth} blocks", **look)
    log_axis(axis, "x", sorted(networks["filters"].unique()))
    log_axis(axis, "y", [50, 100, 200, 300])
    axis.set_xlabel("filters of the first block")
    axis.set_ylabel("break-even batch (images)")
    figure.legend(loc="outside right upper", fontsize=9.5)
    return figure


def ratios(tables: dict[str, pd.DataFrame]) -> Figure:
    """Ratio of two stacks' steps with its interval: a panel for each size that is swept, a line for each pair.

    tables: size -> columns above, below, ratio, low, high, faster and the size. A full marker is a significant
    difference; a hollow one is inconclusive.
    """
    style()
    figure, axes = plt.subplots(
        1, len(tables), figsize=(4.2 * len(tables), 3.9), sharey=True, squeeze=False, constrained_layout=True
    )
    for axis, (against, table) in zip(axes[0], tables.items(), strict=True):
        axis.axhline(1, color="0.4", linewidth=1)
        for number, ((above, below), rows) in enumerate(table.groupby(["above", "below"], sort=False)):
            look = {"color": PAIR[number % len(PAIR)], "linestyle": ("-", "--", ":", "-.")[number % 4]}
            axis.errorbar(rows[against], rows["ratio"], errors(rows, "ratio"), capsize=3, **look)
            axis.plot([], [], marker=MARKERS[number], label=f"{above} / {below}", **look)
            _told_apart(axis, rows[against], rows["ratio"], rows["faster"], MARKERS[number], look["color"])
        log_axis(axis, "x", sorted(table[against].unique()))
        log_axis(axis, "y", [0.25, 0.5, 1, 2, 4, 8])
        axis.set_xlabel(axis_label(against))
    axes[0][0].set_ylabel("ratio of the two steps")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(tables))
    return figure


def gains(table: pd.DataFrame, claimed: float, counts: dict[str, str], counted: str) -> Figure:
    """Speed with another allocator relative to the usual one, with its interval, one row a stack, next to a claim.

    table: columns stack, ratio, low, high, faster; claimed: a ratio; counts: a number of each stack, written at the
    right, and what they count. Hollow markers as in `ratios`.
    """
    style()
    stacks, colour = list(table["stack"]), WAY["tcmalloc"]["color"]
    figure, axis = plt.subplots(figsize=(7.2, 0.32 * len(stacks) + 1.0), constrained_layout=True)
    axis.axvline(1, color="0.4", linewidth=1)
    axis.axvline(claimed, color="0.2", linestyle="--", linewidth=1)
    axis.annotate("claimed", (claimed, 1.02), xycoords=("data", "axes fraction"), fontsize=9.5)
    places = range(len(stacks))
    axis.errorbar(table["ratio"], places, xerr=errors(table, "ratio"), capsize=3, linestyle="none", color=colour)
    _told_apart(axis, table["ratio"], places, table["faster"], MARKERS[0], colour)
    axis.set_yticks(places, stacks)
    axis.invert_yaxis()
    for place, stack in zip(places, stacks, strict=True):
        axis.annotate(
            counts.get(stack, ""), (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=10
        )
    axis.annotate(counted, (1.02, 1.02), xycoords="axes fraction", fontsize=9.5, va="bottom")
    axis.set_xlabel("speed relative to plain glibc")
    return figure
