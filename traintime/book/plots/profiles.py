"""Figures of a network in NumPy: where a step spends its time, and the time of an image against the batch."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import BACKEND, PALETTE, WAY, errors, log_axis, style

# NumPy has one colour in both figures; where memory is pooled its line has the colour of tcmalloc.
SOURCES = {
    "question": {"color": "0.1", "marker": "s", "linestyle": "-"},
    "ours, glibc": {"color": BACKEND["numpy"], "marker": "o", "linestyle": "-"},
    "ours, tcmalloc": WAY["tcmalloc"] | {"marker": "^"},
    "ours, TensorFlow": {"color": BACKEND["tensorflow"], "marker": "D", "linestyle": "-"},
}
WAYS = {
    "at once, glibc": SOURCES["ours, glibc"],
    "at once, tcmalloc": SOURCES["ours, tcmalloc"],
    "in blocks of 16": {"color": PALETTE[2], "marker": "v", "linestyle": "-."},
    "one by one": {"color": PALETTE[4], "marker": "P", "linestyle": ":"},
}


def own_times(profiles: dict[str, pd.DataFrame]) -> Figure:
    """What each function took itself, a panel a profile and a bar a function, with its calls; one scale for all.

    profiles: name -> columns function, calls (a step), image_s (seconds an image).
    """
    style()
    size = (7.2, 0.27 * sum(map(len, profiles.values())) + 0.6 * len(profiles))
    figure, axes = plt.subplots(len(profiles), 1, figsize=size, sharex=True, squeeze=False, layout="constrained")
    for axis, (name, rows) in zip(axes[:, 0], profiles.items(), strict=True):
        rows = rows[::-1]
        bars = axis.barh(rows["function"], rows["image_s"] * 1e6, color=BACKEND["numpy"])
        axis.bar_label(bars, [f"{calls:,.3g} ×" for calls in rows["calls"]], padding=3, fontsize=9)
        axis.set_title(name, loc="left", fontsize=11)
        axis.tick_params(axis="y", labelsize=9)
    axes[-1, 0].set_xlabel("own time per image (µs); at each bar its calls per step")
    longest = max(rows["image_s"].max() for rows in profiles.values()) * 1e6
    axes[0, 0].set_xlim(0, 1.25 * longest)  # room for the calls
    return figure


def relative_to_one(images: pd.DataFrame) -> Figure:
    """Time per image relative to a batch of one, a line a program, named at its end.

    images: columns name (of SOURCES), batch, ratio, low, high.
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.4), constrained_layout=True)
    last = images["batch"].max()
    for name, rows in images.groupby("name", sort=False):
        look = SOURCES[str(name)] | {"markersize": 5, "capsize": 2}
        axis.errorbar(rows["batch"], rows["ratio"], np.nan_to_num(errors(rows, "ratio")), **look)
        end = rows.sort_values("batch").iloc[-1]
        place = (end["batch"] * (1.25 if end["batch"] == last else 1.1), end["ratio"])
        axis.text(*place, str(name), color=look["color"], va="center", fontsize=10)
    log_axis(axis, "x", sorted(images["batch"].unique()))
    axis.minorticks_off()
    axis.set_xlim(0.85, last * 5)
    axis.set_ylim(-0.05, 1.2)
    axis.set_xlabel("batch (images)")
    axis.set_ylabel("time per image,\nrelative to a batch of one")
    return figure


def image_and_pages(images: pd.DataFrame) -> Figure:
    """Time per image and fresh pages per image against the batch, a panel each and a line a way of running a step.

    images: columns how (of WAYS), batch, image_s, low, high (s per image), image_pages.
    """
    style()
    figure, (times, pages) = plt.subplots(1, 2, figsize=(7.2, 3.6), constrained_layout=True)
    for how, rows in images.groupby("how", sort=False):
        rows = rows.sort_values("batch")
        look = WAYS[str(how)] | {"markersize": 5}
        spread = np.nan_to_num(errors(rows, "image_s", 1e6))
        times.errorbar(rows["batch"], rows["image_s"] * 1e6, spread, label=str(how), capsize=2, **look)
        pages.plot(rows["batch"], rows["image_pages"], label=str(how), **look)
    for axis, label in ((times, "time per image (µs)"), (pages, "fresh pages per image")):
        log_axis(axis, "x", sorted(images["batch"].unique()))
        axis.minorticks_off()
        axis.set_ylim(bottom=0 if axis is times else -1)
        axis.set_xlabel("batch (images)")
        axis.set_ylabel(label)
    figure.legend(*times.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9.5)
    return figure
