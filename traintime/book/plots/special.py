"""Figures of one kind each: the 2017 post's tables, devices next to each other, a machine's runs, and drawings."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import SVG
from matplotlib.figure import Figure

from traintime import paths
from traintime.book.plots.lines import label_ends
from traintime.book.plots.look import DASHES, DEVICE, PALETTE, PART, SOURCE, legend, log_axis, sheet
from traintime.explain.formula import Fit, ratio
from traintime.point import axis_label

LINE_COLOUR = "0.25"  # of what belongs to neither device
WHOSE = {("document", "GPU"): "the 2017 post's GPU", ("stored", "CPU"): "our fastest stack"}
DECADES = 10.0 ** np.arange(-1, 9)
PAUSE_H = 1.0  # hours between two runs that a figure marks
DRAWINGS = paths.FIGURES / "drawings"
Piece = tuple[float, str, str]  # how long, which part of a step, what is written in it


def document_tables(s0: pd.DataFrame, fits: dict[str, Fit]) -> Figure:
    """The twelve cells of the 2017 post's tables as milliseconds a step, with the sum fitted to each device's six.

    fits: device -> the formula with three terms.
    """
    figure, axes = sheet(3.0, across=2)
    usual = {"vocabulary": 280_000, "batch": 100}
    labels = {"vocabulary": "vocabulary (rows),\nbatch 100", "batch": "batch (sentences),\n280K rows"}
    for axis, (sweep, label) in zip(axes, labels.items(), strict=True):
        cells = s0[s0["sweep"] == sweep]
        along = np.geomspace(cells[sweep].min() / 4, cells[sweep].max() * 1.5, 80)
        for device, rows in cells.groupby("device"):
            line = fits[device].predict(pd.DataFrame(usual | {sweep: along})) * 1e3
            axis.plot(along, line, color=DEVICE[device], alpha=0.7)
            look = {"color": DEVICE[device], "marker": SOURCE["document"], "linestyle": "none"}
            axis.errorbar(rows[sweep], rows["step_s"] * 1e3, rows["half_step_s"] * 1e3, **look)
            start = {"xytext": (0, 7), "textcoords": "offset points", "color": DEVICE[device]}
            axis.annotate(device, (along[0], line[0]), **start)
        log_axis(axis, "x", along, cells[sweep])
        axis.set_xlabel(label)
    log_axis(axes[0], "y", [50, *(s0["step_s"] * 1.3e3)])
    axes[0].set_ylabel("time per step (ms)")
    return figure


def length_band(bounds: pd.DataFrame) -> Figure:
    """The lost table as far as the others tell it: time of an epoch against sentence length, between two bounds.

    bounds: index length, columns low_s, high_s.
    """
    figure, (axis,) = sheet(3.2)
    lengths, colour = bounds.index.to_numpy(), DEVICE["GPU"]
    at = int(np.argmin(np.abs(lengths - 25)))
    proportional = bounds["low_s"].iloc[at] * lengths / lengths[at]
    log_axis(axis, "x", lengths, lengths)
    log_axis(axis, "y", [*bounds["high_s"], *proportional])
    axis.fill_between(lengths, bounds["low_s"], bounds["high_s"], color=colour, alpha=0.25)
    curves = {
        "only the sentences'\ncost grows": (bounds["low_s"].to_numpy(), {"color": colour}),
        "the overhead\ngrows, too": (bounds["high_s"].to_numpy(), {"color": colour}),
        "proportional time": (proportional, {"color": "0.3", "linestyle": "--"}),
    }
    for seconds, look in curves.values():
        axis.plot(lengths, seconds, **look)
    label_ends(axis, [(lengths[-1], seconds[-1], name, look["color"]) for name, (seconds, look) in curves.items()])
    axis.set(xlabel="sentence length (tokens)", ylabel="one epoch (s)")
    return figure


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
    figure, axes = sheet(3.0, across=len(ranges))
    for axis, (size, values) in zip(axes, ranges.items(), strict=True):
        swept = cells[cells["sweep"] == size]
        seen = swept.pivot(index=size, columns="device", values=["step_s", "half_step_s"])
        step, half = seen["step_s"], seen["half_step_s"]
        middle = step["CPU"] / step["GPU"]
        low = (step["CPU"] - half["CPU"]) / (step["GPU"] + half["GPU"])
        high = (step["CPU"] + half["CPU"]) / (step["GPU"] - half["GPU"])
        grid = pd.DataFrame(swept[["vocabulary", "batch"]].iloc[0].to_dict() | {size: values})
        curve = ratio(fits["CPU"], fits["GPU"], grid)
        axis.fill_between(values, curve["low"], curve["high"], color=DEVICE["GPU"], alpha=0.25, linewidth=0)
        axis.plot(values, curve["ratio"], color=DEVICE["GPU"])
        error = np.array([middle - low, high - middle])
        axis.errorbar(middle.index, middle, error, color="black", marker=SOURCE["document"], ls="none")
        for level, text, dashes in ((limits[size], "limit of the formula", "--"), (guess, "the post's guess", ":")):
            axis.axhline(level, color=LINE_COLOUR, linestyle=dashes, linewidth=1.2)
            axis.text(values[0], level, text, va="bottom", fontsize=9, color=LINE_COLOUR)
        log_axis(axis, "x", values, DECADES)
        axis.set_xlabel(axis_label(size).replace(" (", "\n("))
    axes[0].set(ylabel="CPU time / GPU time", ylim=(0, guess * 1.15))
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
    figure, (axis,) = sheet(3.8)
    x = np.geomspace(0.05, 1000, 200)
    for roof in roofs.itertuples():
        look = {"color": DEVICE[roof.device], "linestyle": DASHES[roof.device]}
        look["label"] = f"{roof.name}: {roof.flop_per_s / 1e9:,.0f} GFLOP/s, {roof.byte_per_s / 1e9:.0f} GB/s"
        axis.plot(x, attainable(x, roof.flop_per_s, roof.byte_per_s) / 1e9, **look)
        if np.isfinite(roof.peak_byte_per_s):
            peak = attainable(x, roof.flop_per_s, roof.peak_byte_per_s) / 1e9
            axis.plot(x, peak, color=look["color"], linestyle=":", linewidth=1.2)
    for name, intensity in works.items():
        axis.axvline(intensity, color=LINE_COLOUR, linestyle="-.", linewidth=1, zorder=0)
        axis.annotate(name, (intensity, 1.01), xycoords=("data", "axes fraction"), ha="center", color=LINE_COLOUR)
    for (source, device), rows in seen.groupby(["source", "device"]):
        look = {"color": DEVICE[device], "marker": SOURCE[source], "linestyle": "none", "markersize": 7, "zorder": 5}
        look |= {} if source == "document" else {"markerfacecolor": "white", "markeredgewidth": 1.8}
        axis.plot(rows["flop_per_byte"], rows["flop_per_s"] / 1e9, label=WHOSE[source, device], **look)
    log_axis(axis, "x", x, DECADES)
    log_axis(axis, "y", [0.5, 10_000], DECADES)
    axis.set(xlabel="intensity (FLOP per byte moved)", ylabel="rate (GFLOP/s)")
    legend(figure, 2)
    return figure


def cards(layers: pd.DataFrame, sheets: pd.DataFrame) -> Figure:
    """How many times faster newer cards run the same layers than an old one: a column a card, a dot a layer, and what
    the data sheets say.

    layers: columns device, speed_up; sheets: index device, columns arithmetic and bandwidth, relative to the old card.
    """
    figure, (axis,) = sheet(3.2)
    for place, device in enumerate(sheets.index):
        values = np.sort(layers.loc[layers["device"] == device, "speed_up"])
        # Neighbours on the axis lie side by side.
        across = place + 0.16 * (np.arange(len(values)) % 3 - 1)
        axis.plot(across, values, "o", color=DEVICE["GPU"], label="a layer")
    places = np.arange(len(sheets))
    for what, dashes in (("arithmetic", "-"), ("bandwidth", ":")):
        look = {"color": "black", "linestyle": dashes, "label": f"data sheet: {what}"}
        axis.hlines(sheets[what], places - 0.38, places + 0.38, **look)
    axis.axhline(1, color="0.5", linewidth=1)
    axis.set_xticks(places, [name.replace(" ", "\n", 1) for name in sheets.index])
    log_axis(axis, "y", [*layers["speed_up"], *sheets.to_numpy().ravel()], [0.5, 1, 2, 3, 5])
    axis.set_ylabel("times faster than\nthe Titan X of 2015")
    axis.grid(axis="x", visible=False)
    legend(figure, 2)
    return figure


def sentinel(runs: pd.DataFrame) -> Figure:
    """Mean step of each run of the sentinel in the order of time, with what its own steps say of its error.

    runs: columns hours (since the first run), step_s, error_s (the standard error by the steps inside the run), a row
    for each run. Between two runs that are an hour or more apart there is a line; above, the hours of each group.
    """
    figure, (axis,) = sheet(3.1)
    look = {"marker": SOURCE["stored"], "markersize": 4, "linestyle": "none", "color": PALETTE[0], "alpha": 0.8}
    number = pd.RangeIndex(1, len(runs) + 1)
    axis.errorbar(number, runs["step_s"] * 1e3, yerr=2e3 * runs["error_s"], elinewidth=1.3, capsize=0, **look)
    group = runs["hours"].diff().gt(PAUSE_H).cumsum().to_numpy()
    for each in range(group[-1] + 1):
        places, hours = number[group == each], runs["hours"][group == each]
        if each:
            axis.axvline(places[0] - 0.5, color="0.4", linewidth=0.9, linestyle=":")
        if len(places) > 2:
            ends = dict.fromkeys((f"{hours.min():.0f}", f"{hours.max():.0f}"))
            place = {"xycoords": ("data", "axes fraction"), "ha": "center", "fontsize": 9}
            axis.annotate(f"hour {' to '.join(ends)}", (np.mean(places), 1.01), **place)
    axis.set(xlim=(0, len(runs) + 1), ylabel="mean step of a run (ms)")
    figure.supxlabel("run, in the order of time (dotted: a pause of an hour or more)")
    return figure


def drawing(name: str) -> SVG:
    """A picture of figures/drawings, by its name without the ending."""
    return SVG(filename=str(DRAWINGS / f"{name}.svg"))


def timeline(rows: Mapping[str, Sequence[Piece]], note: str = "time") -> Figure:
    """What follows what, a row of bars for each name: a drawing, and its lengths are no measurement.

    rows: by name, pieces from left to right: length, part of a step (of PART), text in the bar ("" for none).
    note: what runs from left to right.
    """
    written = {"ha": "center", "va": "center", "fontsize": 8.5, "linespacing": 0.95}
    figure, (axis,) = sheet(0.7 + 0.5 * len(rows))
    for place, pieces in enumerate(rows.values()):
        start = 0.0
        for length, part, text in pieces:
            axis.barh(place, length, left=start, height=0.62, color=PART[part], edgecolor="white", label=part)
            ink = "black" if part in ("update", "overhead") else "white"
            axis.text(start + length / 2, place, text, color=ink, **written)
            start += length
    axis.set_yticks(range(len(rows)), list(rows))
    axis.invert_yaxis()
    # What runs from left to right has no scale: an arrow, and names without a line next to them.
    axis.set_xticks([])
    axis.set_xlabel(f"{note} →", loc="right")
    axis.grid(visible=False)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)
    names = list(dict.fromkeys(part for pieces in rows.values() for _, part, _ in pieces))
    marks = [plt.Rectangle((0, 0), 1, 1, color=PART[part]) for part in names]
    axis.legend(marks, names, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(names))
    return figure
