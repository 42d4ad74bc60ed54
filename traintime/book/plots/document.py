"""Figures of what the 2017 post printed."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import DEVICE, HATCHES, PART, SOURCE, label_ends, log_axis, short, style
from traintime.explain.formula import Fit


def document_tables(s0: pd.DataFrame, fits: dict[str, Fit]) -> Figure:
    """The twelve cells of the 2017 post's tables as milliseconds a step, with the sum fitted to each device's six.

    fits: device -> the formula with three terms.
    """
    style()
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.4), sharey=True, constrained_layout=True)
    usual = {"vocabulary": 280_000, "batch": 100}
    labels = {"vocabulary": "vocabulary (rows), batch 100", "batch": "batch (sentences), 280K rows"}
    for axis, (sweep, label) in zip(axes, labels.items(), strict=True):
        sizes = s0.loc[s0["sweep"] == sweep, sweep]
        along = np.geomspace(sizes.min() / 4, sizes.max() * 1.5, 80)
        for device, rows in s0[s0["sweep"] == sweep].groupby("device"):
            line = fits[device].predict(pd.DataFrame(usual | {sweep: along}))
            axis.plot(along, line * 1e3, color=DEVICE[device], alpha=0.7)
            look = {"color": DEVICE[device], "marker": SOURCE["document"], "linestyle": "none", "capsize": 3}
            axis.errorbar(rows[sweep], rows["step_s"] * 1e3, rows["half_step_s"] * 1e3, **look)
            start = (along[0], line[0] * 1e3)
            axis.annotate(device, start, xytext=(0, 7), textcoords="offset points", color=DEVICE[device])
        log_axis(axis, "x", sizes.unique())
        log_axis(axis, "y", [50, 100, 200, 500, 1000, 2000, 5000])
        axis.set_xlabel(label)
    axes[0].set_ylabel("one step (ms)")
    return figure


def parts(rows: pd.DataFrame, fits: dict[str, Fit]) -> Figure:
    """What each step is made of: the share of each of the formula's three terms, one bar a cell of the tables."""
    style()
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.4), sharey=True, constrained_layout=True)
    names = {"a": "fixed: overhead (a)", "b": "fixed: rows of the table (b·V)", "c": "sentences (c·B)"}
    for axis, (device, group) in zip(axes, rows.groupby("device"), strict=True):
        shares = fits[device].parts(group)
        shares = shares.div(shares.sum(axis=1), axis=0) * 100
        labels = [f"{short(row.vocabulary)} rows, batch {row.batch}" for row in group.itertuples()]
        left = np.zeros(len(group))
        for name, hatch in zip(names, HATCHES, strict=True):
            axis.barh(labels, shares[name], left=left, color=PART[name], hatch=hatch, edgecolor="white", height=0.8)
            left += shares[name].to_numpy()
        axis.set_title(device, loc="left", fontsize=11)
        axis.set_xlim(0, 100)
        axis.set_xlabel("share of a step (%)")
        axis.grid(visible=False)
    axes[0].invert_yaxis()
    handles = [
        plt.Rectangle((0, 0), 1, 1, fc=PART[n], hatch=h, ec="white") for n, h in zip(names, HATCHES, strict=True)
    ]
    figure.legend(handles, list(names.values()), loc="outside lower center", ncols=3, fontsize=9.5)
    return figure


def length_band(bounds: pd.DataFrame, device: str = "GPU") -> Figure:
    """The lost table as far as the others tell it: time of an epoch against sentence length, between two bounds.

    bounds: index length, columns low_s, high_s.
    """
    lengths, low, high = bounds.index.to_numpy(), bounds["low_s"].to_numpy(), bounds["high_s"].to_numpy()
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.6), constrained_layout=True)
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
            (lengths[-1], low[-1], "only the sentences' cost grows", DEVICE[device]),
            (lengths[-1], high[-1], "the overhead grows, too", DEVICE[device]),
            (lengths[-1], proportional[-1], "proportional time", "0.3"),
        ],
    )
    axis.set_xlabel("sentence length (tokens)")
    axis.set_ylabel("one epoch (s)")
    return figure
