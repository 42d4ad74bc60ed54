"""Figures of networks of several structures: time over the depth, and against what might predict it."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import PALETTE, interval_ms, log_axis, milliseconds_axis, style
from traintime.book.plots.sweeps import MARKERS
from traintime.point import axis_label

# One colour and marker a structure, in every figure.
LOOKS = {
    name: {"color": PALETTE[colour], "marker": marker}
    for name, colour, marker in zip(("plain", "residual", "dense", "aggregated"), (7, 0, 3, 2), MARKERS, strict=False)
}


def depths(points: pd.DataFrame) -> Figure:
    """A step against the depth, a line a structure (column how), a panel a stack."""
    style()
    ran = points.dropna(subset="step_s")
    stacks, names = list(dict.fromkeys(ran["stack"])), [name for name in LOOKS if name in set(ran["how"])]
    figure, axes = plt.subplots(
        1, len(stacks), figsize=(0.9 + 2.5 * len(stacks), 3.6), sharey=True, squeeze=False, constrained_layout=True
    )
    for axis, stack in zip(axes[0], stacks, strict=True):
        for name in names:
            rows = ran[(ran["stack"] == stack) & (ran["how"] == name)].sort_values("depth")
            look = LOOKS[name] | {"markersize": 5, "capsize": 3}
            axis.errorbar(rows["depth"], rows["step_s"] * 1e3, interval_ms(rows), label=name, **look)
        log_axis(axis, "x", sorted(ran["depth"].unique()))
        milliseconds_axis(axis, ran["step_s"])
        axis.set_xlabel(axis_label("depth").split(" (")[0])
        axis.set_title(stack, loc="left", fontsize=11)
    axes[0][0].set_ylabel("time per step (ms)")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def against(points: pd.DataFrame, predictors: dict[str, tuple[str, float]]) -> Figure:
    """A step against each of several columns, a panel each, a row a stack, with the line through the origin's step.

    predictors: axis label -> column and the factor to its unit. The dotted line is the median ratio: what time would
    be if it were that column's alone.
    """
    style()
    ran = points.dropna(subset="step_s")
    stacks, names = list(dict.fromkeys(ran["stack"])), [name for name in LOOKS if name in set(ran["how"])]
    figure, axes = plt.subplots(
        len(stacks),
        len(predictors),
        figsize=(0.9 + 2.4 * len(predictors), 2.1 * len(stacks) + 0.6),
        sharex="col",
        sharey="row",
        squeeze=False,
        constrained_layout=True,
    )
    for row, stack in zip(axes, stacks, strict=True):
        of_stack = ran[ran["stack"] == stack]
        for axis, (label, (column, unit)) in zip(row, predictors.items(), strict=True):
            for name in names:
                rows = of_stack[of_stack["how"] == name]
                look = LOOKS[name] | {"linestyle": "none"}
                axis.plot(rows[column] * unit, rows["step_s"] * 1e3, label=name, markersize=5, **look)
            ends = np.array([of_stack[column].min(), of_stack[column].max()])
            typical = float((of_stack["step_s"] / of_stack[column]).median())
            axis.plot(ends * unit, ends * typical * 1e3, color="0.4", linestyle=":", linewidth=1)
            log_axis(axis, "x", [m * 10.0**e for e in range(-1, 7) for m in (1, 3)])
            log_axis(axis, "y", [m * 10.0**e for e in range(-1, 5) for m in (1, 3)])
            axis.set_xlim(*(ends * unit * [0.8, 1.25]))
            axis.set_ylim(of_stack["step_s"].min() * 800, of_stack["step_s"].max() * 1250)
            if stack == stacks[-1]:
                axis.set_xlabel(label)
        row[0].set_ylabel(f"{stack}\nms a step")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
