"""Figures of networks of several structures: time against the depth, and as simple counts predict it."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import MARKERS, PALETTE, interval_ms, line_style, log_axis, milliseconds_axis, style
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


def left_out(networks: pd.DataFrame, predictors: Sequence[str]) -> Figure:
    """A step as predicted without the network itself, against what was measured: a panel a predictor.

    networks: columns stack, step_s, and for each of the predictors "… error", its relative error. The diagonal is a
    perfect prediction. A prediction that is off the axis is drawn at its end.
    """
    style()
    ran = networks.dropna(subset="step_s")
    measured = ran["step_s"] * 1e3
    ends = (measured.min() * 0.7, measured.max() * 1.4)
    figure, axes = plt.subplots(
        1, len(predictors), figsize=(7.2, 3.3), sharex=True, sharey=True, squeeze=False, constrained_layout=True
    )
    for axis, name in zip(axes[0], predictors, strict=True):
        axis.plot(ends, ends, color="0.4", linestyle=":", linewidth=1.2)
        for number, (stack, rows) in enumerate(ran.groupby("stack", sort=False)):
            predicted = rows["step_s"] * 1e3 * (1 + rows[f"{name} error"])
            look = {"color": line_style(str(stack))["color"], "marker": MARKERS[number], "linestyle": "none"}
            axis.plot(rows["step_s"] * 1e3, predicted.clip(*ends), label=str(stack), markersize=4.5, alpha=0.8, **look)
        for which in "xy":
            log_axis(axis, which, [m * 10.0**e for e in range(1, 4) for m in (1, 3)])
        axis.set_xlim(*ends)
        axis.set_ylim(*ends)
        axis.set_title(name, loc="left", fontsize=11)
        axis.set_xlabel("measured step (ms)")
    axes[0][0].set_ylabel("predicted step (ms)")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
