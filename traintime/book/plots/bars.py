"""Figures of bars in rows: what a step, a peak or a profile is made of."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from traintime.book.plots.look import (
    PART,
    Looks,
    name_rows,
)

# The formula's terms, in the colours of the parts of a step.
TERMS: Looks = {
    "a": {"label": "overhead (a)", "color": PART["overhead"]},
    "l": {"label": "time steps (l·L)", "color": PART["overhead"], "hatch": "xx"},
    "b": {"label": "rows of the table (b·V)", "color": PART["update"], "hatch": "//"},
    "c": {"label": "sentences (c·L·B)", "color": PART["arithmetic"], "hatch": ".."},
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
