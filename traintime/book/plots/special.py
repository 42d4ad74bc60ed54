"""Figures of one kind each: the 2017 post's tables, a machine's runs, and drawings."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import SVG
from matplotlib.figure import Figure

from traintime import paths
from traintime.book.plots.lines import label_ends
from traintime.book.plots.look import DEVICE, PART, SOURCE, log_axis, sheet
from traintime.explain.formula import Fit

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
