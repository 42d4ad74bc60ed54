"""Figures of sweeps: a step against one size, a line a stack or a panel a stack."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from traintime.plots.look import (
    AXIS,
    SOURCE,
    WAY,
    interval_ms,
    label_ends,
    line_style,
    log_axis,
    milliseconds_axis,
    style,
)


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
    """One panel a stack: a step against one size, one line for each value of the column `how`."""
    style()
    names = list(dict.fromkeys(points["stack"]))
    figure, axes = plt.subplots(
        1, len(names), figsize=(2.3 * len(names) + 0.6, 3.9), sharey=True, squeeze=False, constrained_layout=True
    )
    ran = points.dropna(subset="step_s")
    shown = sorted(ran[against].unique())
    for axis, stack in zip(axes[0], names, strict=True):
        for how, look in WAY.items():
            rows = ran[(ran["stack"] == stack) & (ran["how"] == how)].sort_values(against)
            if len(rows):
                look = look | {"marker": "o", "markersize": 4.5, "capsize": 3, "label": how}
                axis.errorbar(rows[against], rows["step_s"] * 1e3, interval_ms(rows), **look)
        log_axis(axis, "x", shown if len(shown) <= 4 else shown[::2])
        axis.set_title(stack, loc="left", fontsize=11)
    milliseconds_axis(axes[0][0], ran["step_s"])
    axes[0][0].set_ylabel("one step (ms)")
    figure.supxlabel(AXIS[against], fontsize=11)
    found = {label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=6)
    return figure
