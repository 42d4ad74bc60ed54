"""Figures of what makes a training faster: one change at a time, and where a step's time goes with each feed."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import MARKERS, PALETTE, errors, line_style, log_axis, style


def changed(table: pd.DataFrame) -> Figure:
    """Times as fast with each change: a panel a model, a row a change, a marker a stack; full where the gain is
    significant.

    table: columns model, change, stack, ratio, low, high, told.
    """
    style()
    models, stacks, names = (list(dict.fromkeys(table[name])) for name in ("model", "stack", "change"))
    figure, axes = plt.subplots(
        1, len(models), figsize=(8.2, 0.42 * len(names) + 1.5), sharey=True, squeeze=False, constrained_layout=True
    )
    for axis, model in zip(axes[0], models, strict=True):
        axis.axvline(1, color="0.5", linewidth=1)
        for number, stack in enumerate(stacks):
            rows = table[(table["model"] == model) & (table["stack"] == stack)]
            heights = [names.index(name) + 0.22 * (number - (len(stacks) - 1) / 2) for name in rows["change"]]
            colour = line_style(stack)["color"]
            look = {"color": colour, "linestyle": "none", "marker": MARKERS[number], "markersize": 5, "capsize": 2}
            axis.errorbar(rows["ratio"], heights, xerr=errors(rows, "ratio"), label=stack, mfc="white", **look)
            told = rows["told"].to_numpy(bool)
            full = {"color": colour, "linestyle": "none", "marker": MARKERS[number], "markersize": 5, "zorder": 3}
            axis.plot(rows["ratio"][told], [height for height, one in zip(heights, told, strict=True) if one], **full)
        of_model = table[table["model"] == model]["ratio"]
        wide = of_model.max() > 30 * of_model.min()
        log_axis(axis, "x", [0.001, 0.01, 0.1, 1, 10, 100] if wide else [0.1, 0.2, 0.5, 1, 2, 5, 10])
        # Room for the intervals, and 1 is always seen.
        axis.set_xlim(min(of_model.min(), 0.8) / 1.6, max(of_model.max(), 1.25) * 1.6)
        axis.set_title(model, loc="left", fontsize=11)
        axis.set_xlabel("times as fast")
        axis.grid(axis="y", visible=False)
    axes[0][0].set_yticks(range(len(names)), names)
    axes[0][0].set_ylim(len(names) - 0.5, -0.5)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(stacks))
    return figure


def tried(table: pd.DataFrame) -> Figure:
    """Times as fast with each change, in one panel: a row a change below its bottleneck, a marker a stack; full where
    the gain is significant.

    table: columns limit, change, stack, ratio, low, high, told.
    """
    style()
    rows: list[tuple[str, str]] = []  # bottleneck, change; "" for the bottleneck's own row
    for limit, of_limit in table.groupby("limit", sort=False):
        rows += [(str(limit), ""), *((str(limit), change) for change in dict.fromkeys(of_limit["change"]))]
    figure, axis = plt.subplots(figsize=(7.2, 0.18 * len(rows) + 0.7), constrained_layout=True)
    axis.axvline(1, color="0.5", linewidth=1)
    for number, stack in enumerate(dict.fromkeys(table["stack"])):
        mine = table[table["stack"] == stack]
        places = np.array([rows.index(each) for each in zip(mine["limit"], mine["change"], strict=True)])
        places = places + 0.22 * (number - 1)  # so that equal ones do not hide each other
        look = {"color": line_style(stack)["color"], "linestyle": "none", "marker": MARKERS[number], "markersize": 4.5}
        axis.errorbar(mine["ratio"], places, xerr=errors(mine, "ratio"), label=stack, mfc="white", lw=1, **look)
        told = mine["told"].to_numpy(bool)
        axis.plot(mine["ratio"][told], places[told], zorder=3, **look)
    log_axis(axis, "x", [0.5, 1, 2, 5, 10, 20, 50])
    axis.set_xlim(0.5, table["ratio"].max() * 1.3)
    axis.set_xlabel("times as fast (logarithmic)")
    axis.set_yticks(range(len(rows)), [change or limit for limit, change in rows], fontsize=9)
    for label, (_, change) in zip(axis.get_yticklabels(), rows, strict=True):
        label.set_fontweight("normal" if change else "bold")
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    axis.legend(loc="upper right", fontsize=9)
    return figure


def waits(table: pd.DataFrame) -> Figure:
    """A step with each feed, in two parts: until its batch was there, and the training.

    table: columns feed, step_s, waited_s, ms once multiplied.
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 0.4 * len(table) + 1.2), constrained_layout=True)
    places = range(len(table))
    waited = table["waited_s"].fillna(0) * 1e3
    training = table["step_s"] * 1e3 - waited
    axis.barh(places, training, color=PALETTE[0], label="training")
    axis.barh(places, waited, left=training, color=PALETTE[7], label="waiting for the batch")
    axis.set_yticks(places, table["feed"])
    axis.invert_yaxis()
    axis.set_xlabel("ms per step")
    axis.grid(axis="y", visible=False)
    figure.legend(loc="outside lower center", ncols=2)
    return figure
