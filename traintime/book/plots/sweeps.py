"""Figures of sweeps: a step against one size, a line a stack or a panel a stack."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from traintime.plots.look import (
    AXIS,
    PALETTE,
    SOURCE,
    WAY,
    interval_ms,
    label_ends,
    line_style,
    log_axis,
    milliseconds_axis,
    style,
)

MARKERS = "osD^v<>"
PAIR = [PALETTE[n] for n in (0, 3, 2, 4)]


def steps(points: pd.DataFrame, against: str = "vocabulary", source: str = "stored") -> Figure:
    """Time of a step against one size, one line a stack, with the intervals of the means.

    points: as summary.points gives them; a point without a time is not drawn (the table under the figure says why).
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
    axis.set_xlabel(AXIS[against])
    axis.set_ylabel("one step (ms)")
    axis.set_xlim(ran[against].min() * 0.85, ran[against].max() * 1.1)
    label_ends(axis, ends)
    return figure


def ways(points: pd.DataFrame, against: str = "vocabulary") -> Figure:
    """One panel a stack: a step against one size, one line for each value of the column `how`, all of them in WAY."""
    style()
    names = list(dict.fromkeys(points["stack"]))
    figure, axes = plt.subplots(
        1, len(names), figsize=(2.3 * len(names) + 0.6, 3.9), sharey=True, squeeze=False, constrained_layout=True
    )
    ran = points.dropna(subset="step_s")
    shown = sorted(ran[against].unique())
    order = sorted(set(ran["how"]), key=list(WAY).index)
    for axis, stack in zip(axes[0], names, strict=True):
        for how in order:
            rows = ran[(ran["stack"] == stack) & (ran["how"] == how)].sort_values(against)
            if len(rows):
                look = WAY[how] | {"marker": "o", "markersize": 4.5, "capsize": 3, "label": how}
                axis.errorbar(rows[against], rows["step_s"] * 1e3, interval_ms(rows), **look)
        log_axis(axis, "x", shown if len(shown) <= 4 else shown[::2])
        axis.set_title(stack, loc="left", fontsize=11)
    milliseconds_axis(axes[0][0], ran["step_s"])
    axes[0][0].set_ylabel("one step (ms)")
    figure.supxlabel(AXIS[against], fontsize=11)
    found = {label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(list(found.values()), list(found), loc="outside upper center", ncols=6)
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
        errors = [rows["exponent"] - rows["low"], rows["high"] - rows["exponent"]]
        look = {"color": line_style(stack)["color"], "marker": MARKERS[number % len(MARKERS)], "linestyle": "none"}
        axis.errorbar(rows["exponent"], places, xerr=errors, capsize=3, markersize=6, label=stack, **look)
    axis.axvline(1, color="0.4", linestyle="--", linewidth=1)
    axis.set_yticks(range(len(order)), order)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.1)
    axis.set_xlabel("apparent exponent of time (1: proportional, 0: the size does not matter)")
    figure.legend(loc="outside lower center", ncols=len(stacks))
    return figure


def epochs(points: pd.DataFrame, critical: pd.Series) -> Figure:
    """Hours of an epoch against batch size, one line a stack, with a mark at its critical batch.

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
    axis.set_xlabel(AXIS["batch"])
    axis.set_ylabel("one epoch of a million sentences (h)")
    axis.set_xlim(ran["batch"].min() * 0.85, ran["batch"].max() * 1.1)
    label_ends(axis, ends)
    return figure


def ratios(tables: dict[str, pd.DataFrame], noise: float) -> Figure:
    """Ratio of two stacks' steps with its interval: a panel for each size that is swept, a line for each pair.

    tables: size -> columns above, below, ratio, low, high and the size; noise: the noise floor, drawn as a band.
    """
    style()
    figure, axes = plt.subplots(
        1, len(tables), figsize=(4.2 * len(tables), 3.9), sharey=True, squeeze=False, constrained_layout=True
    )
    for axis, (against, table) in zip(axes[0], tables.items(), strict=True):
        axis.axhspan(1 / (1 + noise), 1 + noise, color="0.9", zorder=0)
        axis.axhline(1, color="0.4", linewidth=1)
        for number, ((above, below), rows) in enumerate(table.groupby(["above", "below"], sort=False)):
            errors = [rows["ratio"] - rows["low"], rows["high"] - rows["ratio"]]
            look = {"marker": MARKERS[number], "color": PAIR[number], "capsize": 3, "label": f"{above} / {below}"}
            axis.errorbar(rows[against], rows["ratio"], errors, linestyle=("-", "--", ":", "-.")[number], **look)
        log_axis(axis, "x", sorted(table[against].unique()))
        log_axis(axis, "y", [0.25, 0.5, 1, 2, 4, 8])
        axis.set_xlabel(AXIS[against])
    axes[0][0].set_ylabel("ratio of the two steps")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(tables))
    return figure


def gains(table: pd.DataFrame, noise: float, claimed: float) -> Figure:
    """Speed-up with its interval for each allocator, one row a stack, beside the noise floor and a claim.

    table: columns stack, allocator, ratio, low, high; noise: as a share of one; claimed: a ratio.
    """
    style()
    stacks = list(dict.fromkeys(table["stack"]))
    figure, axis = plt.subplots(figsize=(6.8, 0.7 * len(stacks) + 1.5), constrained_layout=True)
    axis.axvspan(1 / (1 + noise), 1 + noise, color="0.9", zorder=0)
    axis.axvline(1, color="0.4", linewidth=1)
    axis.axvline(claimed, color="0.2", linestyle="--", linewidth=1)
    names = list(dict.fromkeys(table["allocator"]))
    for number, name in enumerate(names):
        rows = table[table["allocator"] == name]
        places = [stacks.index(stack) + (number - (len(names) - 1) / 2) * 0.2 for stack in rows["stack"]]
        errors = [rows["ratio"] - rows["low"], rows["high"] - rows["ratio"]]
        look = {"marker": MARKERS[number], "color": PAIR[number], "capsize": 3, "linestyle": "none", "label": name}
        axis.errorbar(rows["ratio"], places, xerr=errors, **look)
    axis.set_yticks(range(len(stacks)), stacks)
    axis.invert_yaxis()
    axis.set_xlabel("speed in units of plain glibc's")
    figure.legend(loc="outside lower center", ncols=len(names))
    return figure
