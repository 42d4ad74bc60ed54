"""Figures of what the 2017 document printed."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import DEVICE, HATCHES, PART, SOURCE, label_ends, log_axis, short, style
from traintime.explain.formula import Fit


def document_tables(s0: pd.DataFrame) -> Figure:
    """Time of an epoch against vocabulary and against batch size, as the 2017 post gives it."""
    style()
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.9), sharey=True, constrained_layout=True)
    for axis, sweep, label in zip(
        axes, ("vocabulary", "batch"), ("vocabulary (words)", "batch size (sentences)"), strict=True
    ):
        for device, rows in s0[s0["sweep"] == sweep].groupby("device"):
            error = rows["half_step_s"] * rows["sentences"] / rows["batch"]
            axis.errorbar(
                rows[sweep], rows["epoch_s"], error, color=DEVICE[device], marker=SOURCE["document"], capsize=3
            )
            last = rows.iloc[0]
            axis.annotate(
                device, (last[sweep], last["epoch_s"]), xytext=(0, 9), textcoords="offset points", color=DEVICE[device]
            )
        log_axis(axis, "x", s0.loc[s0["sweep"] == sweep, sweep].unique())
        log_axis(axis, "y", [200, 500, 1000, 2000, 5000, 10000, 20000, 50000])
        axis.set_xlabel(label)
    axes[0].set_ylabel("one epoch (s)")
    return figure


def straight_lines(rows: pd.DataFrame, fits: dict[str, Fit]) -> Figure:
    """Seconds a step against vocabulary on plain axes: a straight line on each device.

    rows: columns device, vocabulary, step_s, half_step_s; fits: device -> straight line.
    """
    style()
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), constrained_layout=True)
    grid = pd.DataFrame({"vocabulary": np.linspace(0, rows["vocabulary"].max(), 50)})
    for axis, (device, group) in zip(axes, rows.groupby("device"), strict=True):
        axis.plot(grid["vocabulary"] / 1e6, fits[device].predict(grid) * 1e3, color=DEVICE[device], alpha=0.6)
        axis.errorbar(
            group["vocabulary"] / 1e6,
            group["step_s"] * 1e3,
            group["half_step_s"] * 1e3,
            color=DEVICE[device],
            marker=SOURCE["document"],
            linestyle="none",
            capsize=3,
        )
        axis.set_ylim(0)
        axis.set_title(device, color=DEVICE[device], loc="left")
        axis.set_xlabel("vocabulary (million words)")
    axes[0].set_ylabel("one step (ms)")
    return figure


def parts(rows: pd.DataFrame, fits: dict[str, Fit]) -> Figure:
    """What each step is made of: the share of each of the formula's three terms, one bar a cell of the tables."""
    style()
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), sharey=True, constrained_layout=True)
    names = {"a": "fixed (a)", "b": "per row of the table (b·V)", "c": "per sentence (c·B)"}
    for axis, (device, group) in zip(axes, rows.groupby("device"), strict=True):
        shares = fits[device].parts(group)
        shares = shares.div(shares.sum(axis=1), axis=0) * 100
        labels = [f"V={short(r.vocabulary)}\nB={r.batch}" for r in group.itertuples()]
        bottom = np.zeros(len(group))
        for name, hatch in zip(names, HATCHES, strict=True):
            axis.bar(labels, shares[name], bottom=bottom, color=PART[name], hatch=hatch, edgecolor="white", width=0.8)
            bottom += shares[name].to_numpy()
        axis.set_title(device, color=DEVICE[device], loc="left")
        axis.tick_params(axis="x", labelsize=8)
        axis.grid(False)
    axes[0].set_ylabel("share of a step (%)")
    handles = [
        plt.Rectangle((0, 0), 1, 1, fc=PART[n], hatch=h, ec="white") for n, h in zip(names, HATCHES, strict=True)
    ]
    figure.legend(handles, list(names.values()), loc="outside lower center", ncols=3)
    return figure


def length_band(bounds: pd.DataFrame, device: str = "GPU") -> Figure:
    """The lost table as far as the others tell it: time of an epoch against sentence length, between two bounds.

    bounds: index length, columns low_s, high_s.
    """
    lengths, low, high = bounds.index.to_numpy(), bounds["low_s"].to_numpy(), bounds["high_s"].to_numpy()
    style()
    figure, axis = plt.subplots(constrained_layout=True)
    axis.fill_between(lengths, low, high, color=DEVICE[device], alpha=0.25)
    axis.plot(lengths, low, color=DEVICE[device])
    axis.plot(lengths, high, color=DEVICE[device])
    at = int(np.argmin(np.abs(lengths - 25)))
    proportional = low[at] * lengths / lengths[at]
    axis.plot(lengths, proportional, color="0.4", linestyle="--")
    log_axis(axis, "x", lengths)
    ticks = [100, 200, 500, 1000, 2000, 5000, 10000]
    log_axis(axis, "y", [tick for tick in ticks if proportional[0] * 0.8 < tick < proportional[-1] * 1.2])
    label_ends(
        axis,
        [
            (lengths[-1], low[-1], "only the per-sentence part grows", DEVICE[device]),
            (lengths[-1], high[-1], "the fixed part grows, too", DEVICE[device]),
            (lengths[-1], proportional[-1], "if time were proportional", "0.3"),
        ],
    )
    axis.set_xlabel("sentence length (tokens)")
    axis.set_ylabel("one epoch (s)")
    return figure
