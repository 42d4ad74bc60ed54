"""Figures of bars in rows: what a step, a peak or a profile is made of."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from traintime.book.plots.look import (
    PART,
    Looks,
    legend,
    name_rows,
    sheet,
)

# The formula's terms, in the colours of the parts of a step.
TERMS: Looks = {
    "a": {"label": "overhead (a)", "color": PART["overhead"]},
    "l": {"label": "time steps (l·L)", "color": PART["overhead"], "hatch": "xx"},
    "b": {"label": "rows of the table (b·V)", "color": PART["update"], "hatch": "//"},
    "c": {"label": "sentences (c·L·B)", "color": PART["arithmetic"], "hatch": ".."},
}
FEED: Looks = {
    "training": {"color": PART["arithmetic"]},
    "waiting for the batch": {"color": PART["overhead"]},
}


def bars(axis: Axes, table: pd.DataFrame, looks: Looks) -> None:
    """A bar for each row of the table, from above: those of its columns that looks names, one after the other."""
    left = np.zeros(len(table))
    for part, look in looks.items():
        if part in table:
            look = {"label": part, "edgecolor": "white", "height": 0.8} | look
            axis.barh(range(len(table)), table[part], left=left, **look)
            left += table[part].to_numpy()
    name_rows(axis, list(table.index))


def waits(table: pd.DataFrame) -> Figure:
    """A step with each feed, in two parts: until its batch was there, and the training.

    table: columns feed, step_s, waited_s, ms once multiplied.
    """
    figure, (axis,) = sheet(0.27 * len(table) + 1.0)
    waited = table["waited_s"].fillna(0)
    both = pd.DataFrame({"training": table["step_s"] - waited, "waiting for the batch": waited}) * 1e3
    bars(axis, both.set_axis(table["feed"]), FEED)
    axis.set_xlabel("time per step (ms)")
    legend(figure, 2)
    return figure
