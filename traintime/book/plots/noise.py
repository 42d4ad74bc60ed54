"""Figures of what a measurement is worth: runs of one configuration, first steps of a run, predicted epochs."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import PALETTE, SOURCE, line_style, log_axis, style

PAUSE_H = 1.0  # hours between two runs that a figure marks


def sentinel(runs: pd.DataFrame) -> Figure:
    """Mean step of each run of the sentinel in the order of time, with what its own steps say of its error.

    runs: columns hours (since the first run), step_s, error_s (the standard error by the steps inside the run), a row
    for each run. Between two runs that are an hour or more apart there is a line; above, the hours of each group.
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.5), constrained_layout=True)
    look = {"marker": SOURCE["stored"], "markersize": 4.5, "linestyle": "none", "color": PALETTE[0], "alpha": 0.8}
    number = pd.RangeIndex(1, len(runs) + 1)
    axis.errorbar(number, runs["step_s"] * 1e3, yerr=2e3 * runs["error_s"], elinewidth=1.3, **look)
    group = runs["hours"].diff().gt(PAUSE_H).cumsum().to_numpy()
    for each in range(group[-1] + 1):
        places, hours = number[group == each], runs["hours"][group == each]
        if each:
            axis.axvline(places[0] - 0.5, color="0.4", linewidth=0.9, linestyle=":")
        ends = dict.fromkeys((f"{hours.min():.0f}", f"{hours.max():.0f}"))
        if len(places) > 2:
            text = f"hour {' to '.join(ends)}"
            axis.text(
                places.to_numpy().mean(), 1.01, text, transform=axis.get_xaxis_transform(), ha="center", fontsize=9
            )
    axis.set_xlim(0, len(runs) + 1)
    axis.set_xlabel("run, in the order of time (dotted: a pause of an hour or more)")
    axis.set_ylabel("mean step of a run (ms)")
    return figure


def epoch_errors(epochs: pd.DataFrame, estimates: dict[str, str]) -> Figure:
    """Error of each kind of prediction of an epoch, a row for each kind, a mark for each epoch.

    epochs: columns stack, and NAME_error for each name of estimates (a share; above 0 more was predicted).
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 0.5 * len(estimates) + 1.4), constrained_layout=True)
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
    axis.set_xlabel("error of the predicted epoch (%); the band is 5 % either way")
    figure.legend(loc="outside lower center", ncols=len(stacks))
    return figure


def warm_up(curves: pd.DataFrame) -> Figure:
    """The first steps in units of a later one, a line for each stack. curves: index step, a column for each stack."""
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.8), constrained_layout=True)
    for stack in curves:
        axis.plot(curves.index, curves[stack], marker=SOURCE["stored"], markersize=4, **line_style(stack))
    log_axis(axis, "y", [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])
    axis.set_xticks(curves.index)
    axis.set_xlabel("step")
    axis.set_ylabel("time in units of a later step")
    axis.set_xlim(0.8, curves.index[-1] + 0.2)
    figure.legend(axis.get_lines(), list(curves), loc="outside right upper", fontsize=9, handlelength=3)
    return figure
