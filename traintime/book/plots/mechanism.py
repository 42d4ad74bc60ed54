"""Drawings of what happens, without a measurement in them."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from traintime.book.plots.look import PALETTE, style

UNTOUCHED, ZERO, USED = range(3)
COLOURS = ListedColormap(["#f2f2f2", PALETTE[5], PALETTE[1]])  # light grey, tan, orange: apart in grey, too


def dense_update(across: int = 8, down: int = 9, used: Sequence[int] = (3, 22, 23, 41, 58)) -> Figure:
    """A table, one cell a row: what a batch looks up, what its gradient stores, and what Adam reads and writes.

    across, down: cells drawn; used: which of them the batch uses.
    """
    style()
    looked_up = np.full(across * down, UNTOUCHED)
    looked_up[list(used)] = USED
    stored = np.where(looked_up == USED, USED, ZERO)
    figure, axes = plt.subplots(1, 3, figsize=(7.2, 3.1), constrained_layout=True)
    titles = (
        "the batch looks up\na few rows",
        "their gradient is stored as\na whole table, mostly zeros",
        "Adam reads and writes\nevery row",
    )
    for axis, cells, title in zip(axes, (looked_up, stored, np.full_like(stored, USED)), titles, strict=True):
        grid = cells.reshape(down, across)
        axis.pcolormesh(grid, cmap=COLOURS, vmin=UNTOUCHED, vmax=USED, edgecolors="white", linewidth=1.5)
        for place in np.argwhere(grid == ZERO):
            axis.text(place[1] + 0.5, place[0] + 0.5, "0", ha="center", va="center", fontsize=8, color="0.25")
        axis.invert_yaxis()
        axis.set_title(title, fontsize=10.5)
        axis.set_aspect("equal")
        axis.axis("off")
    return figure
