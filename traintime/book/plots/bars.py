"""Figures of bars in rows: what a step, a peak or a profile is made of."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from traintime.book.plots.look import (
    OF_WAY,
    PART,
    Looks,
    errors,
    legend,
    name_rows,
    sheet,
    short,
    under_heads,
)
from traintime.explain.formula import Fit

# The formula's terms, in the colours of the parts of a step.
TERMS: Looks = {
    "a": {"label": "overhead (a)", "color": PART["overhead"]},
    "l": {"label": "time steps (l·L)", "color": PART["overhead"], "hatch": "xx"},
    "b": {"label": "rows of the table (b·V)", "color": PART["update"], "hatch": "//"},
    "c": {"label": "sentences (c·L·B)", "color": PART["arithmetic"], "hatch": ".."},
}
# What runs the time steps of an LSTM: a loop of launches, one that is compiled, one call for all of them.
LAUNCHES = {"loop": OF_WAY["loop"], "compiled": OF_WAY["loop, compiled"], "cuDNN": OF_WAY["fused kernel"]}


def bars(axis: Axes, table: pd.DataFrame, looks: Looks) -> None:
    """A bar for each row of the table, from above: those of its columns that looks names, one after the other."""
    left = np.zeros(len(table))
    for part, look in looks.items():
        if part in table:
            look = {"label": part, "edgecolor": "white", "height": 0.8} | look
            axis.barh(range(len(table)), table[part], left=left, **look)
            left += table[part].to_numpy()
    name_rows(axis, list(table.index))


def parts(rows: pd.DataFrame, fits: dict[str, Fit]) -> Figure:
    """What each step is made of: the share of each of the formula's three terms, one bar a cell of the tables."""
    figure, axes = sheet(3.0, across=2)
    for axis, (device, group) in zip(axes, rows.groupby("device"), strict=True):
        seconds = fits[device].parts(group)
        seconds.index = [f"{short(row.vocabulary)} rows, batch {row.batch}" for row in group.itertuples()]
        _shares(axis, seconds, TERMS | {"c": TERMS["c"] | {"label": "sentences (c·B)"}})
        axis.set_title(device)
    figure.supxlabel("share of a step (%)")
    legend(figure, 2)
    return figure


def shares(parts: pd.DataFrame) -> Figure:
    """Share of each term in a step, one bar a stack. parts: index stack, a column a term, in seconds."""
    figure, (axis,) = sheet(0.27 * len(parts) + 1.0)
    _shares(axis, parts, TERMS)
    axis.set_xlabel("share of a step (%)")
    legend(figure, 2)
    return figure


def _shares(axis: Axes, seconds: pd.DataFrame, looks: Looks) -> None:
    bars(axis, seconds.div(seconds.sum(axis=1), axis=0) * 100, looks)
    axis.set_xlim(0, 100)
    axis.grid(visible=False)


def implementations(steps: pd.DataFrame) -> Figure:
    """Microseconds per time step of one LSTM: a bar an implementation, below its device, with its interval if any.

    steps: columns device, framework, layer, way (of LAUNCHES), position_s, low, high (s).
    """
    pairs, names = under_heads(steps["device"], steps["framework"] + ", " + steps["layer"])
    figure, (axis,) = sheet(0.22 * len(names) + 0.6)
    places, ends = pairs.map(names.index), steps[["position_s", "high"]].max(axis=1) * 1e6
    axis.barh(places, steps["position_s"] * 1e6, color=steps["way"].map(LAUNCHES), height=0.66)
    look = {"color": "black", "linestyle": "none"}
    axis.errorbar(steps["position_s"] * 1e6, places, xerr=errors(steps, "position_s", 1e6), **look)
    for place, seconds, end in zip(places, steps["position_s"], ends, strict=True):
        text = f"{seconds * 1e6:.0f}".replace("-", "\N{MINUS SIGN}")
        axis.annotate(text, (end, place), (9, 0), textcoords="offset points", va="center")
    name_rows(axis, names)
    axis.set_xlim(1e6 * min(0, steps["low"].min()), 1.2 * ends.max())
    axis.set_xlabel("µs per time step")
    return figure
