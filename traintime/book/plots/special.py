"""Figures of one kind each: a machine's runs, and drawings."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from IPython.display import SVG
from matplotlib.figure import Figure

from traintime import paths
from traintime.book.plots.look import PART, sheet

DRAWINGS = paths.FIGURES / "drawings"
Piece = tuple[float, str, str]  # how long, which part of a step, what is written in it


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
