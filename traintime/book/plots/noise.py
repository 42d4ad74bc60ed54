"""Figures of what a measurement is worth: repeats of one point, the first steps of a run."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import PALETTE, SOURCE, line_style, log_axis, style


def sentinel(seconds: np.ndarray) -> Figure:
    """Mean step of each run of the sentinel in the order of time, seconds, with the middle nine tenths as a band."""
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.4), constrained_layout=True)
    low, high = np.quantile(seconds, [0.05, 0.95]) * 1e3
    axis.axhspan(low, high, color="0.9", zorder=0)
    axis.plot(range(1, len(seconds) + 1), seconds * 1e3, marker=SOURCE["stored"], color=PALETTE[0], linewidth=0.8)
    axis.set_ylim(0)
    axis.set_xlabel("run of the sentinel")
    axis.set_ylabel("mean step (ms)")
    return figure


def faults(runs: dict[str, pd.DataFrame]) -> Figure:
    """Mean step of each run against its page faults, one marker for each name.

    runs: name -> columns step_s, faults_a_step, one row a run.
    """
    style()
    figure, axis = plt.subplots(figsize=(6.6, 3.8), constrained_layout=True)
    for (name, rows), marker, colour in zip(runs.items(), "os^D", PALETTE[::2], strict=False):
        look = {"marker": marker, "color": colour, "linestyle": "none", "alpha": 0.7, "label": name}
        axis.plot(rows["faults_a_step"] / 1000, rows["step_s"] * 1e3, **look)
    axis.set_ylim(0)
    axis.set_xlabel("page faults a step (thousands)")
    axis.set_ylabel("mean step of a run (ms)")
    figure.legend(loc="outside lower center", ncols=len(runs))
    return figure


def foretold(epochs: pd.DataFrame, estimates: dict[str, str]) -> Figure:
    """How far each extrapolation was off the epoch that was then run, a row a kind of extrapolation, a mark an epoch.

    epochs: columns stack, and NAME_error for each name of estimates (a share; above 0 more was predicted).
    """
    style()
    figure, axis = plt.subplots(figsize=(6.8, 0.55 * len(estimates) + 1.5), constrained_layout=True)
    axis.axvspan(-5, 5, color="0.92", zorder=0)
    axis.axvline(0, color="0.4", linewidth=1)
    stacks = list(dict.fromkeys(epochs["stack"]))
    for number, stack in enumerate(stacks):
        rows = epochs[epochs["stack"] == stack]
        look = {"color": line_style(stack)["color"], "marker": "osD^"[number % 4], "linestyle": "none", "alpha": 0.75}
        shift = (number - (len(stacks) - 1) / 2) * 0.22
        for place, name in enumerate(estimates):
            errors = 100 * rows[f"{name}_error"]
            axis.plot(errors, [place + shift] * len(rows), label=stack if place == 0 else None, **look)
    axis.set_yticks(range(len(estimates)), list(estimates.values()))
    axis.invert_yaxis()
    axis.set_xlabel("promised over taken (per cent; the band is five either way)")
    figure.legend(loc="outside lower center", ncols=len(stacks))
    return figure


def warm_up(curves: pd.DataFrame) -> Figure:
    """The first steps in units of a later one, one line a stack. curves: index step, a column a stack."""
    style()
    figure, axis = plt.subplots(figsize=(6.6, 4.2), constrained_layout=True)
    for stack in curves:
        axis.plot(curves.index, curves[stack], marker=SOURCE["stored"], markersize=4, **line_style(stack))
    log_axis(axis, "y", [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])
    axis.set_xticks(curves.index)
    axis.set_xlabel("step")
    axis.set_ylabel("time in units of a later step")
    axis.set_xlim(0.8, curves.index[-1] + 0.2)
    figure.legend(axis.get_lines(), list(curves), loc="outside right upper", fontsize=9, handlelength=3)
    return figure
