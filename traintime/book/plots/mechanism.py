"""Drawings of what happens, without a measurement in them."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
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


LEFT = 0.9 / 0.999**0.5  # of a row's last move, what Adam moves it by at the next step without a gradient


def replayed_row(used: Sequence[int] = (1, 9), steps: int = 12) -> Figure:
    """One row of a table over the steps of a training: dense Adam writes it at each, a deferred table when it is read.

    used: steps, from 0, whose batch holds the row's word; steps: how many are drawn. Below, one number of the row, by
    Adam's rule for steps without a gradient.
    """
    style()
    dense, deferred, last = ({"color": colour} for colour in (PALETTE[1], PALETTE[2], "0.35"))
    moved, value, exact = 0.0, 0.0, []
    for step in range(steps):
        moved = LEFT * moved + (step in used) * (1 if step == used[0] else -3)
        value -= moved
        exact.append(value)
    stored = [exact[max([one for one in used if one <= step], default=0)] for step in range(steps)]
    figure, (cells, line) = plt.subplots(
        2, 1, figsize=(7.2, 3.7), sharex=True, height_ratios=(1, 1.7), constrained_layout=True
    )
    for place, (name, look, writes) in enumerate(
        (("dense", dense, range(used[0], steps)), ("deferred", deferred, used))
    ):
        for step in range(steps):
            colour = look["color"] if step in writes else "#f2f2f2"
            cells.barh(place, 1, left=step - 0.5, height=0.8, color=colour, edgecolor="white", linewidth=1.5)
            if step in writes and step not in used:
                cells.text(step, place, "write", ha="center", va="center", fontsize=8)
            elif step in used:
                cells.text(step, place, "read,\nwrite", ha="center", va="center", fontsize=8, linespacing=0.9)
            elif step > used[0]:
                cells.text(step, place, "owed", ha="center", va="center", fontsize=8, **last)
        cells.text(-0.7, place, name, ha="right", va="center", fontsize=10.5)
    for step in used:
        cells.annotate("batch has\nthe word", (step, -0.45), (step, -0.75), ha="center", va="bottom", fontsize=9)
    cells.set_ylim(1.5, -1.6)
    cells.axis("off")
    line.plot(range(steps), exact, marker="o", markersize=4.5, label="dense", **dense)
    line.plot(range(steps), stored, drawstyle="steps-post", linestyle="--", label="deferred", **deferred)
    before = used[-1] - 1
    line.annotate(
        f"{before - used[0]} owed updates,\nas one sum",
        (used[-1], (exact[before] + stored[before]) / 2),
        (used[-1] - 1.6, stored[before] * 0.5 + exact[before] * 0.5),
        ha="right",
        va="center",
        fontsize=9.5,
        arrowprops={"arrowstyle": "->", **last},
    )
    line.set_ylabel("one number\nof the row")
    line.set_yticks([])
    line.set_xticks(range(steps), range(1, steps + 1))
    line.set_xlabel("training step")
    line.set_xlim(-1.6, steps - 0.4)
    line.grid(visible=False)
    line.legend(loc="lower right", fontsize=9.5)
    return figure


# The four parts of a step, in one colour each wherever a page shows them.
PART_COLOURS = {
    "overhead": PALETTE[7],
    "arithmetic": PALETTE[0],
    "activations": PALETTE[2],
    "update": PALETTE[1],
    "idle": "#f2f2f2",
}
Piece = tuple[float, str, str]  # how long, which part of a step, what is written in it


def _along_time(axis: Axes, note: str = "time") -> None:
    """What runs from left to right has no scale: an arrow, and names without a line next to them."""
    axis.set_xticks([])
    axis.set_xlabel(f"{note} →", loc="right", fontsize=10)
    axis.grid(visible=False)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)


def timeline(rows: Mapping[str, Sequence[Piece]], note: str = "time") -> Figure:
    """What follows what, a row of bars for each name: a drawing, and its lengths are no measurement.

    rows: by name, pieces from left to right: length, part of PART_COLOURS, text in the bar ("" for none).
    note: what runs from left to right.
    """
    style()
    figure, axis = plt.subplots(figsize=(7.2, 0.7 + 0.62 * len(rows)), constrained_layout=True)
    used: dict[str, str] = {}
    for place, pieces in enumerate(rows.values()):
        start = 0.0
        for length, part, text in pieces:
            colour = used.setdefault(part, PART_COLOURS[part])
            axis.barh(place, length, left=start, height=0.62, color=colour, edgecolor="white", linewidth=1.2)
            dark = part in ("idle", "update", "overhead")
            ink = "black" if dark else "white"
            axis.text(start + length / 2, place, text, ha="center", va="center", fontsize=9, color=ink)
            start += length
    axis.set_yticks(range(len(rows)), list(rows))
    axis.invert_yaxis()
    _along_time(axis, note)
    marks = [plt.Rectangle((0, 0), 1, 1, color=colour) for part, colour in used.items() if part != "idle"]
    names = [part for part in used if part != "idle"]
    axis.legend(marks, names, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(names), fontsize=9.5)
    return figure


def rounds(order: str = "ABBABAABABBA", slow: tuple[int, int] = (6, 9)) -> Figure:
    """Runs of two variants on a machine with a slow hour: one variant after the other, and in rounds of random order.

    order: of the runs in rounds of two; slow: first and last run, from 0, of the slow hour.
    """
    style()
    looks = {"A": (PALETTE[0], "white"), "B": (PALETTE[1], "black")}
    figure, axis = plt.subplots(figsize=(7.2, 2.3), constrained_layout=True)
    axis.axvspan(slow[0] - 0.5, slow[1] + 0.5, color="0.88", zorder=0)
    axis.text(sum(slow) / 2, -0.62, "the machine is slow", ha="center", va="bottom", fontsize=10)
    for place, runs in enumerate(("".join(sorted(order)), order)):
        for run, name in enumerate(runs):
            colour, ink = looks[name]
            axis.barh(place, 0.86, left=run - 0.43, height=0.62, color=colour)
            axis.text(run, place, name, ha="center", va="center", fontsize=10.5, color=ink)
    for run in range(2, len(order), 2):
        axis.vlines(run - 0.5, 0.6, 1.4, color="0.4", linewidth=0.9)
    axis.set_yticks([0, 1], ["one after\nthe other", "in rounds"])
    axis.set_ylim(1.5, -0.95)
    axis.set_xlim(-0.6, len(order) - 0.4)
    _along_time(axis)
    return figure


def tiers() -> Figure:
    """What each tier of the predictor runs before it answers, above the training that it predicts."""
    style()
    grey, start, steps, other = "#f2f2f2", PART_COLOURS["overhead"], PALETTE[9], PALETTE[6]
    rows = {
        "formula": [(3.2, grey, "runs nothing")],
        "scaled": [(0.8, start, "start"), (2.4, other, "a smaller model")],
        "probed": [(0.8, start, "start"), (1.0, steps, "batch 32"), (1.4, steps, "batch 64")],
        "the training": [(0.8, start, "start"), (8.4, steps, "all steps, batch 64"), (0.7, start, "end")],
    }
    figure, axis = plt.subplots(figsize=(7.2, 2.5), constrained_layout=True)
    for place, pieces in enumerate(rows.values()):
        left = 0.0
        for length, colour, text in pieces:
            axis.barh(place, length, left=left, height=0.66, color=colour, edgecolor="white", linewidth=1.2)
            axis.text(left + length / 2, place, text, ha="center", va="center", fontsize=9)
            left += length
    axis.axvline(3.2, color="0.4", linewidth=1, linestyle=":", ymin=0.22)
    axis.text(3.3, 1.5, "the answer:\na predicted total, with an interval", va="center", fontsize=10)
    axis.set_yticks(range(len(rows)), list(rows))
    axis.invert_yaxis()
    _along_time(axis)
    return figure


def against_cache(images: int = 16, block: int = 4, cache: float = 6.5) -> Figure:
    """A step of some images one by one, in blocks and at once: its calls, and the arrays in use next to a cache.

    images, block: in the step and in a block; cache: images whose arrays fit into it.
    """
    style()
    figure, (calls, arrays) = plt.subplots(1, 2, figsize=(7.2, 2.5), sharey=True, constrained_layout=True)
    sizes = {"one by one": 1, "in blocks": block, "at once": images}
    white = {"edgecolor": "white", "height": 0.62}
    for place, size in enumerate(sizes.values()):
        for start in range(images // size):
            left = start * (1 + size)
            calls.barh(place, 1, left=left, color=PART_COLOURS["overhead"], linewidth=0.6, **white)
            calls.barh(place, size, left=left + 1, color=PART_COLOURS["arithmetic"], linewidth=0.6, **white)
        fits = min(size, cache)
        arrays.barh(place, fits, color=PART_COLOURS["activations"], **white)
        arrays.barh(place, size - fits, left=fits, color=PART_COLOURS["activations"], alpha=0.4, hatch="//", **white)
    arrays.axvline(cache, color="0.2", linestyle="--", linewidth=1.2)
    arrays.text(cache + 0.3, -0.15, "size of the cache", fontsize=9, va="center")
    arrays.text((cache + images) / 2, 2, "main memory", fontsize=9, ha="center", va="center")
    for axis, title in ((calls, "calls of a step, in time →"), (arrays, "arrays in use at a time")):
        axis.set_title(title, loc="left", fontsize=10.5)
        axis.set_xticks([])
        axis.grid(visible=False)
        axis.spines["left"].set_visible(False)
        axis.tick_params(axis="y", length=0)
    calls.set_yticks(range(len(sizes)), list(sizes))
    calls.invert_yaxis()
    parts = ("overhead", "arithmetic", "activations")
    marks = [plt.Rectangle((0, 0), 1, 1, color=PART_COLOURS[part]) for part in parts]
    figure.legend(marks, parts, loc="outside lower center", ncols=3, fontsize=9.5)
    return figure


def joined_maps(depth: int = 5) -> Figure:
    """What each convolution of a network writes if its maps are joined never, once at the end, or at each convolution.

    depth: convolutions after the first.
    """
    style()
    titles = ("plain", "joined once at the end\n(VoVNet)", "joined each time\n(DenseNet)")
    figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.9), sharey=True, constrained_layout=True)
    for axis, title in zip(axes, titles, strict=True):
        copied = 0
        for place in range(depth):
            joined = place + 1 if title == titles[2] else depth if title == titles[1] and place == depth - 1 else 0
            copied += joined
            axis.barh(place, 1, color=PART_COLOURS["activations"], edgecolor="white", linewidth=1.5)
            for copy in range(joined):
                look = {"color": PART_COLOURS["activations"], "alpha": 0.35, "edgecolor": "white", "linewidth": 1.5}
                axis.barh(place, 1, left=copy + 1, **look)
        axis.set_title(title, fontsize=10.5)
        axis.set_xlabel(f"{depth} written, {copied} copied", fontsize=10)
        axis.set_xlim(0, depth + 1)
        axis.set_xticks([])
        axis.grid(visible=False)
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
    axes[0].set_yticks(range(depth), range(1, depth + 1))
    axes[0].invert_yaxis()
    axes[0].set_ylabel("convolution")
    return figure
