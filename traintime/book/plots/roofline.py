"""Figures of devices next to each other: their speed-up, their rooflines, their steps, the same layers on each."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import DEVICE, MILLISECONDS, SOURCE, interval_ms, log_axis, short, style
from traintime.explain.formula import Fit, ratio
from traintime.point import axis_label

LINE = {"CPU": "--", "GPU": "-"}
LINE_COLOUR = "0.25"  # of what belongs to neither device
WHOSE = {("document", "GPU"): "2017 post's GPU", ("stored", "CPU"): "our fastest stack"}


def speed_ups(
    cells: pd.DataFrame,
    fits: dict[str, Fit],
    ranges: dict[str, np.ndarray],
    limits: dict[str, float],
    guess: float,
) -> Figure:
    """CPU time over GPU time against one size a panel, with the fits' curve, its band and the limit it runs into.

    cells: as original.s0 gives them; ranges: size -> values to draw the curve at; limits: size -> ratio as the size
    grows; guess: the 2017 post's own limit.
    """
    style()
    figure, axes = plt.subplots(1, len(ranges), figsize=(7.2, 3.6), sharey=True, constrained_layout=True)
    for axis, (size, values) in zip(np.atleast_1d(axes), ranges.items(), strict=True):
        seen = cells[cells["sweep"] == size].pivot(index=size, columns="device", values=["step_s", "half_step_s"])
        step, half = seen["step_s"], seen["half_step_s"]
        middle = step["CPU"] / step["GPU"]
        low = (step["CPU"] - half["CPU"]) / (step["GPU"] + half["GPU"])
        high = (step["CPU"] + half["CPU"]) / (step["GPU"] - half["GPU"])
        one = cells[cells["sweep"] == size].iloc[0]
        grid = pd.DataFrame({"vocabulary": one["vocabulary"], "batch": one["batch"]}, index=range(len(values)))
        grid[size] = values
        curve = ratio(fits["CPU"], fits["GPU"], grid)
        axis.fill_between(values, curve["low"], curve["high"], color=DEVICE["GPU"], alpha=0.25, linewidth=0)
        axis.plot(values, curve["ratio"], color=DEVICE["GPU"])
        error = np.array([middle - low, high - middle])
        axis.errorbar(middle.index, middle, error, color="black", marker=SOURCE["document"], ls="none", capsize=3)
        for level, text, dashes in ((limits[size], "limit of the formula", "--"), (guess, "the post's guess", ":")):
            axis.axhline(level, color=LINE_COLOUR, linestyle=dashes, linewidth=1.2)
            axis.text(values[0], level, text, va="bottom", fontsize=9, color=LINE_COLOUR)
        log_axis(axis, "x", [tick for tick in 10.0 ** np.arange(0, 9) if values[0] <= tick <= values[-1]])
        axis.set_xlabel(axis_label(size))
    np.atleast_1d(axes)[0].set_ylabel("CPU time / GPU time")
    np.atleast_1d(axes)[0].set_ylim(0, guess * 1.15)
    return figure


def attainable(flop_per_byte: np.ndarray, flop_per_s: float, byte_per_s: float) -> np.ndarray:
    """The roof: FLOP/s that a device allows at an intensity, the lesser of arithmetic and memory (Williams 2009)."""
    return np.minimum(flop_per_s, np.asarray(flop_per_byte) * byte_per_s)


def roofline(roofs: pd.DataFrame, works: pd.Series, seen: pd.DataFrame) -> Figure:
    """Rooflines of devices, the intensities of kinds of work, and the rates that were seen.

    roofs: columns name, device ("CPU" or "GPU"), flop_per_s, byte_per_s, ridge (FLOP per byte), and peak_byte_per_s
    where the data sheet states more than was measured (else missing); works: name -> FLOP per byte; seen: columns
    device, source ("document" or "stored"), flop_per_byte, flop_per_s.
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 4.2), constrained_layout=True)
    x = np.geomspace(0.05, 1000, 200)
    for roof in roofs.itertuples():
        colour, dashes = DEVICE[roof.device], LINE[roof.device]
        axis.plot(x, attainable(x, roof.flop_per_s, roof.byte_per_s) / 1e9, color=colour, linestyle=dashes)
        if np.isfinite(roof.peak_byte_per_s):
            peak = attainable(x, roof.flop_per_s, roof.peak_byte_per_s) / 1e9
            axis.plot(x, peak, color=colour, linestyle=":", linewidth=1.2)
        below = {"va": "top", "fontsize": 9.5, "color": colour}
        text = f"{roof.name}: {roof.flop_per_s / 1e9:,.0f} GFLOP/s"
        # The CPU's fastest stack may be close to its roof, so its label lies left of the marks.
        end, side = (roof.ridge, "left") if roof.device == "CPU" else (x[-1], "right")
        axis.annotate(text, (end, roof.flop_per_s / 1e9), xytext=(0, -4), textcoords="offset points", ha=side, **below)
        text = f"{roof.byte_per_s / 1e9:.0f} GB/s"
        axis.text(0.06, 0.06 * roof.byte_per_s / 1e9 * 0.85, text, **below)
    for name, intensity in works.items():
        axis.axvline(intensity, color=LINE_COLOUR, linestyle="-.", linewidth=1)
        place = {"xycoords": ("data", "axes fraction"), "va": "bottom", "ha": "center"}
        axis.annotate(name, (intensity, 1.01), fontsize=9.5, color=LINE_COLOUR, **place)
    for row in seen.itertuples():
        fill = DEVICE[row.device] if row.source == "document" else "white"
        axis.plot(
            row.flop_per_byte,
            row.flop_per_s / 1e9,
            SOURCE[row.source],
            markersize=8,
            markeredgewidth=1.8,
            color=DEVICE[row.device],
            markerfacecolor=fill,
            zorder=5,
        )
        text = WHOSE[row.source, row.device]
        axis.annotate(
            text,
            (row.flop_per_byte, row.flop_per_s / 1e9),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=DEVICE[row.device],
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1},
        )
    log_axis(axis, "x", [0.1, 1, 10, 100, 1000])
    log_axis(axis, "y", [1, 10, 100, 1000])
    axis.set_xlim(x[0], x[-1])
    axis.set_ylim(0.5, 10_000)
    axis.set_xlabel("intensity (FLOP per byte moved)")
    axis.set_ylabel("rate (GFLOP/s)")
    return figure


def cards(layers: pd.DataFrame, sheets: pd.DataFrame) -> Figure:
    """How many times faster newer cards run the same layers than an old one: a column a card, a dot a layer, and what
    the data sheets say.

    layers: columns device, speed_up; sheets: index device, columns arithmetic and bandwidth, relative to the old card.
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 3.6), constrained_layout=True)
    for place, (device, sheet) in enumerate(sheets.iterrows()):
        values = np.sort(layers.loc[layers["device"] == device, "speed_up"])
        # Neighbours on the axis lie side by side.
        across = place + 0.16 * (np.arange(len(values)) % 3 - 1)
        look = {"color": DEVICE["GPU"], "linestyle": "none", "marker": "o", "markersize": 5}
        axis.plot(across, values, label="a layer" if place == 0 else None, **look)
        for what, dashes in (("arithmetic", "-"), ("bandwidth", ":")):
            label = f"data sheet: {what}" if place == 0 else None
            axis.hlines(sheet[what], place - 0.38, place + 0.38, color="black", linestyle=dashes, label=label)
    axis.axhline(1, color="0.5", linewidth=1)
    axis.set_xticks(range(len(sheets)), sheets.index)
    log_axis(axis, "y", [0.5, 1, 2, 3, 5])
    axis.set_ylabel("times faster than\nthe Titan X of 2015")
    axis.grid(axis="x", visible=False)
    axis.legend(loc="upper left", fontsize=9.5)
    return figure


def ladder(points: pd.DataFrame, marks: dict[str, tuple[float, str]]) -> Figure:
    """One kind of step on several stacks, a row a stack, the slowest at the top; upright lines for others' times.

    points: columns stack, device ("cpu" or "gpu"), step_s, low_s, high_s; marks: name -> (seconds, device).
    """
    style()
    ran = points.dropna(subset="step_s").sort_values("step_s")
    figure, axis = plt.subplots(figsize=(7.2, 1.4 + 0.36 * len(ran)), constrained_layout=True)
    colours = ran["device"].str.upper().map(DEVICE)
    places = range(len(ran))
    errors = interval_ms(ran)
    for place, step, colour, low, high in zip(places, ran["step_s"] * 1e3, colours, *errors, strict=True):
        axis.errorbar(step, place, xerr=[[low], [high]], marker=SOURCE["stored"], color=colour, capsize=3)
    for name, (seconds, device) in marks.items():
        axis.axvline(seconds * 1e3, color=DEVICE[device], linestyle=LINE[device])
        place = {"xycoords": ("data", "axes fraction"), "va": "bottom", "ha": "center"}
        axis.annotate(f"{name}\n{seconds * 1e3:,.0f} ms", (seconds * 1e3, 1.01), color=DEVICE[device], **place)
    axis.set_yticks(list(places), ran["stack"])
    axis.set_ylim(-0.6, len(ran) - 0.4)
    every = [*ran["step_s"], *(seconds for seconds, _ in marks.values())]
    low, high = min(every) * 1e3 * 0.75, max(every) * 1e3 * 1.35
    log_axis(axis, "x", [tick for tick in MILLISECONDS if low <= tick <= high])
    axis.xaxis.set_major_formatter(lambda value, _: short(value))
    axis.set_xlim(low, high)
    axis.set_xlabel("one step (ms)")
    return figure
