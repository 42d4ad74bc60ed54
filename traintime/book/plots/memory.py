"""Figures of memory: what a training holds at its peak, a drawing of one step, and what frees it."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import MARKERS, PALETTE, WAY, line_style, style

# What memory is held for, in the colours of the parts of a step that it belongs to.
HELD = {"framework": PALETTE[7], "copies": PALETTE[1], "activations": PALETTE[2]}
OPTIMIZERS = {"sgd": WAY["sgd"]["color"], "momentum": PALETTE[6], "rmsprop": PALETTE[5], "adam": WAY["adam"]["color"]}


def held_parts(networks: Mapping[str, pd.DataFrame]) -> Figure:
    """The peak of training by parts, as predicted, with a mark where it was measured: a panel a network, a bar a stack.

    networks: by title, columns stack, framework, copies, activations, measured (bytes).
    """
    style()
    figure, axes = plt.subplots(
        1, len(networks), figsize=(7.2, 2.9), sharey=True, squeeze=False, constrained_layout=True
    )
    for axis, (title, rows) in zip(axes[0], networks.items(), strict=True):
        places, start = np.arange(len(rows)), np.zeros(len(rows))
        for part, colour in HELD.items():
            axis.barh(places, rows[part] / 2**20, left=start, height=0.6, color=colour, label=part)
            start = start + rows[part].to_numpy() / 2**20
        look = {"color": "black", "linestyle": "none", "zorder": 5}
        axis.plot(rows["measured"] / 2**20, places, marker="|", markersize=21, markeredgewidth=2.2, **look)
        axis.plot([], [], marker="|", markersize=12, markeredgewidth=2.2, label="measured", **look)
        axis.set_yticks(places, rows["stack"])
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_xlabel("peak memory (MiB)")
        axis.grid(axis="y", visible=False)
        axis.xaxis.set_major_locator(plt.MaxNLocator(4))
    axes[0][0].invert_yaxis()
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(HELD) + 1)
    return figure


def copies(table: pd.DataFrame, rules: Mapping[float, str]) -> Figure:
    """Copies of the parameters held at the peak: one row a stack, a colour and marker an optimizer.

    table: index stack, a column an optimizer of OPTIMIZERS; rules: what people say, by the number of copies.
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 0.34 * len(table) + 1.3), constrained_layout=True)
    for times, name in rules.items():
        axis.axvline(times, color="0.35", linewidth=1, linestyle="--")
        axis.annotate(name, (times, 1.02), xycoords=("data", "axes fraction"), ha="center", fontsize=10)
    for number, (optimizer, colour) in enumerate(OPTIMIZERS.items()):
        if optimizer in table:
            look = {"color": colour, "marker": MARKERS[number], "markersize": 7, "linestyle": "none"}
            axis.plot(table[optimizer], range(len(table)), label=optimizer, markeredgecolor="0.25", **look)
    axis.set_yticks(range(len(table)), list(table.index))
    axis.invert_yaxis()
    axis.set_xlim(0)
    axis.set_xlabel("copies of the parameters at the peak")
    figure.legend(loc="outside lower center", ncols=len(OPTIMIZERS))
    return figure


PANELS = {"copies": "a large table", "activations": "32 dense layers"}


def freed(table: pd.DataFrame) -> Figure:
    """The peak relative to the usual training, with its interval: a panel a network, a row a way, a colour a stack.

    table: columns larger (a name of PANELS), way, stack, peak (Interval).
    """
    style()
    shown = [name for name in PANELS if (table["larger"] == name).any()]
    ways = [list(dict.fromkeys(table.loc[table["larger"] == name, "way"])) for name in shown]
    heights = [len(each) + 0.6 for each in ways]
    figure, axes = plt.subplots(
        len(shown),
        1,
        figsize=(7.2, 0.3 * sum(heights) + 1.1),
        sharex=True,
        squeeze=False,
        height_ratios=heights,
        constrained_layout=True,
    )
    stacks = list(dict.fromkeys(table["stack"]))
    for axis, name, order in zip(axes[:, 0], shown, ways, strict=True):
        axis.axvline(1, color="0.4", linewidth=1)
        for number, stack in enumerate(stacks):
            rows = table[(table["larger"] == name) & (table["stack"] == stack)]
            places = [order.index(way) + 0.22 * (number - (len(stacks) - 1) / 2) for way in rows["way"]]
            values = np.array([peak.value for peak in rows["peak"]])
            ends = np.array([[peak.value - peak.low, peak.high - peak.value] for peak in rows["peak"]])
            look = {"color": line_style(stack)["color"], "marker": MARKERS[number], "linestyle": "none"}
            bars = np.nan_to_num(ends.reshape(-1, 2).T)
            axis.errorbar(values, places, xerr=bars, capsize=2, markersize=5, label=stack, **look)
        axis.set_yticks(range(len(order)), order)
        axis.set_ylim(len(order) - 0.4, -0.6)
        axis.set_title(PANELS[name], loc="left", fontsize=10)
    axes[-1, 0].set_xlabel("peak relative to the usual training")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(stacks))
    return figure


def memory_of_a_step() -> Figure:
    """What a process holds while one step runs, from below: a drawing, and its heights are no measurement."""
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.3), constrained_layout=True)
    time = np.array([0, 4, 8, 8.001, 8.5, 8.501, 9.3, 9.301, 10, 10.001, 10.6])
    flat = np.ones_like(time)
    gradients = np.interp(time, [0, 4, 8, 10, 10.001], [0, 0, 1, 1, 0])
    activations = np.interp(time, [0, 4, 8], [0, 1.9, 0])
    temporaries = np.array([0, 0, 0, 1, 1, 2, 2, 1, 1, 0, 0])
    bands = {
        "framework": (0.8 * flat, HELD["framework"]),
        "weights": (flat, HELD["copies"]),
        "optimizer state": (1.2 * flat, PALETTE[5]),
        "gradients": (gradients, PALETTE[6]),
        "temporary arrays": (temporaries, PALETTE[4]),
        "activations": (activations, HELD["activations"]),
    }
    axis.stackplot(time, *(band for band, _ in bands.values()), colors=[colour for _, colour in bands.values()])
    for x, y, name in ((0.2, 0.4, "framework"), (0.2, 1.3, "weights"), (0.2, 2.4, "optimizer state")):
        axis.text(x, y, name, va="center", fontsize=10)
    axis.text(4, 3.5, "activations", ha="center", color="white", fontsize=10)
    axis.text(7.3, 3.3, "gradients", ha="center", va="center", fontsize=10)
    axis.text(8.9, 4.5, "temporary\narrays", ha="center", va="center", fontsize=10)
    peaks = {(4, 4.9): "peak, if activations\nare the larger part", (8.9, 6.0): "peak, if copies\nare the larger part"}
    for (x, y), text in peaks.items():
        arrow = {"arrowstyle": "->", "color": "0.2"}
        axis.annotate(text, (x, y), (x, y + 0.75), ha="center", va="bottom", fontsize=9.5, arrowprops=arrow)
    for x, name in ((2, "forward"), (6, "backward"), (9, "update")):
        axis.text(x, -0.25, name, ha="center", va="top", fontsize=10.5)
    for x in (4, 8, 10):
        axis.axvline(x, ymax=0.62, color="0.2", linewidth=0.8, linestyle=":")
    axis.set_xlim(0, 10.6)
    axis.set_ylim(0, 8.2)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_ylabel("memory held")
    axis.grid(visible=False)
    return figure
