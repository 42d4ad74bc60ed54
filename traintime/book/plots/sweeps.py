"""Figures of sweeps: a step against one size, a line a stack or a panel a stack."""

from collections.abc import Collection, Iterable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from traintime.book.plots.look import (
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

MARKERS = "osD^v<>"
PAIR = [PALETTE[n] for n in (0, 3, 2, 4)]


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
    figure, axis = plt.subplots(figsize=(6.6, 4.6), constrained_layout=True)
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


def crossing(points: pd.DataFrame, pairs: Collection[tuple[str, str]], against: str = "vocabulary") -> Figure:
    """Two stacks' steps in milliseconds against one size, a panel for each pair of stacks."""
    style()
    figure, axes = plt.subplots(1, len(pairs), figsize=(8.4, 3.8), sharey=True, squeeze=False, constrained_layout=True)
    ran = points.dropna(subset="step_s")
    shown = [name for pair in pairs for name in pair]
    milliseconds_axis(axes[0][0], ran.loc[ran["stack"].isin(shown), "step_s"])
    for axis, pair in zip(axes[0], pairs, strict=True):
        ends = []
        for marker, stack in zip(MARKERS, pair, strict=False):
            rows = ran[ran["stack"] == stack].sort_values(against)
            if len(rows):
                look = line_style(stack)
                axis.errorbar(rows[against], rows["step_s"] * 1e3, interval_ms(rows), marker=marker, capsize=3, **look)
                ends.append((rows[against].iloc[-1], rows["step_s"].iloc[-1] * 1e3, stack, look["color"]))
        log_axis(axis, "x", sorted(ran[against].unique()))
        axis.set_xlabel(axis_label(against))
        if ends:
            label_ends(axis, ends)
    axes[0][0].set_ylabel("one step (ms)")
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
    axis.set_yticks(range(len(order)), order)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.1)
    axis.set_xlabel("apparent exponent of time (1: proportional, 0: the size does not matter)")
    figure.legend(loc="outside lower center", ncols=len(stacks))
    return figure


def epochs(points: pd.DataFrame, critical: pd.Series) -> Figure:
    """Hours of an epoch against batch size, one line a stack, with a mark at its break-even batch.

    points: columns stack, batch, epoch_s; critical: batch size by stack.
    """
    style()
    figure, axis = plt.subplots(figsize=(6.6, 4.6), constrained_layout=True)
    ends = []
    ran = points.dropna(subset="epoch_s")
    for stack, rows in ran.groupby("stack", sort=False):
        rows, look = rows.sort_values("batch"), line_style(stack)
        axis.plot(rows["batch"], rows["epoch_s"] / 3600, **look)
        if stack in critical.index:
            hours = np.interp(np.log(critical[stack]), np.log(rows["batch"]), np.log(rows["epoch_s"] / 3600))
            axis.plot(critical[stack], np.exp(hours), marker="X", markersize=9, color=look["color"])
        ends.append((rows["batch"].iloc[-1], rows["epoch_s"].iloc[-1] / 3600, stack, look["color"]))
    log_axis(axis, "x", sorted(ran["batch"].unique()))
    log_axis(axis, "y", [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])
    axis.set_xlabel(axis_label("batch"))
    axis.set_ylabel("one epoch of a million sentences (h)")
    axis.set_xlim(ran["batch"].min() * 0.85, ran["batch"].max() * 1.1)
    label_ends(axis, ends)
    return figure


def collapsed(points: pd.DataFrame, fitted: pd.DataFrame) -> Figure:
    """An epoch in units of its sentences' part against batch over critical batch: every stack on one curve.

    points: columns stack, batch, step_s; fitted: index stack, columns c (s a sentence) and critical (sentences).
    """
    style()
    figure, axis = plt.subplots(figsize=(6.6, 4.2), constrained_layout=True)
    ran = points.dropna(subset="step_s")
    for number, (stack, rows) in enumerate(ran[ran["stack"].isin(fitted.index)].groupby("stack", sort=False)):
        at = fitted.loc[stack]
        look = {"color": line_style(stack)["color"], "marker": MARKERS[number % len(MARKERS)], "linestyle": "none"}
        axis.plot(rows["batch"] / at["critical"], rows["step_s"] / rows["batch"] / at["c"], label=stack, **look)
    low, high = axis.get_xlim()
    low = max(low, 1e-3)
    curve = np.geomspace(low, max(high, 10), 100)
    axis.plot(curve, 1 + 1 / curve, color="0.3", linewidth=1.2, zorder=0)
    axis.axvline(1, color="0.6", linestyle=":", linewidth=1)
    log_axis(axis, "x", [0.001, 0.01, 0.1, 1, 10])
    log_axis(axis, "y", [1, 2, 5, 10, 100, 1000])
    axis.set_ylim(0.7)
    axis.set_xlabel("batch over critical batch")
    axis.set_ylabel("epoch, in units of the sentences' part")
    figure.legend(loc="outside right upper", fontsize=9)
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


def gains(table: pd.DataFrame, claimed: float) -> Figure:
    """Speed-up with its interval for each allocator, one row a stack, next to a claim.

    table: columns stack, allocator, ratio, low, high, faster; claimed: a ratio. Hollow markers as in `ratios`.
    """
    style()
    stacks = list(dict.fromkeys(table["stack"]))
    figure, axis = plt.subplots(figsize=(6.8, 0.7 * len(stacks) + 1.5), constrained_layout=True)
    axis.axvline(1, color="0.4", linewidth=1)
    axis.axvline(claimed, color="0.2", linestyle="--", linewidth=1)
    names = list(dict.fromkeys(table["allocator"]))
    for number, name in enumerate(names):
        rows = table[table["allocator"] == name]
        places = [stacks.index(stack) + (number - (len(names) - 1) / 2) * 0.2 for stack in rows["stack"]]
        colour = PAIR[number % len(PAIR)]
        axis.errorbar(rows["ratio"], places, xerr=errors(rows, "ratio"), capsize=3, linestyle="none", color=colour)
        axis.plot([], [], marker=MARKERS[number], linestyle="none", color=colour, label=name)
        _told_apart(axis, rows["ratio"], places, rows["faster"], MARKERS[number], colour)
    axis.set_yticks(range(len(stacks)), stacks)
    axis.invert_yaxis()
    axis.set_xlabel("speed in units of plain glibc's")
    figure.legend(loc="outside lower center", ncols=len(names))
    return figure
