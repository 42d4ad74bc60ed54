"""One visual language for every figure: the same colour for the same thing, labels as large as on the page.

A page shows a figure at the size at which it is drawn, and a phone shows one as wide as WIDTH whole, its labels nine
pixels high.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython import get_ipython
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from matplotlib_inline.backend_inline import set_matplotlib_formats

# seaborn's palette "colorblind": seaborn itself is loaded when something is drawn, as it takes half a second.
PALETTE = (
    *("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc"),
    *("#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9"),
)
DEVICE = {"CPU": PALETTE[0], "GPU": PALETTE[1]}
DASHES = {"CPU": "--", "GPU": "-"}
BACKEND = {
    "theano": PALETTE[2],
    "tensorflow": PALETTE[1],
    "jax": PALETTE[0],
    "torch": PALETTE[4],
    "numpy": PALETTE[7],
}
GENERATION = {"2017": ":", "2020": "--", "2026": "-"}
SOURCE = {"document": "s", "stored": "o"}
MARKERS = "osD^v<>Pp"  # of stacks, ways or pairs of one figure, by their number
# What a step is made of.
PART = {"overhead": PALETTE[7], "arithmetic": PALETTE[0], "activations": PALETTE[2], "update": PALETTE[1]}
# How a table is trained, or what else differs between two lines of one panel.
WAY = {
    "adam": {"color": PALETTE[1], "linestyle": "-", "label": "Adam"},
    "sgd": {"color": PALETTE[4], "linestyle": "--", "label": "SGD"},
    "frozen": {"color": "0.35", "linestyle": ":"},
    "adam-rows": {"color": PALETTE[2], "linestyle": "-.", "label": "row-wise Adam"},
    "adam-deferred": {"color": PALETTE[2], "linestyle": "--", "label": "deferred Adam"},
    "20K rows": {"color": PALETTE[4], "linestyle": (0, (4, 1)), "label": "20K rows, Adam"},
    "1K rows": {"color": PALETTE[0], "linestyle": (0, (1, 1)), "label": "1K rows, Adam"},
    "glibc": {"color": PALETTE[1], "linestyle": "-"},
    "tcmalloc": {"color": PALETTE[0], "linestyle": "--"},
}
# A way of running one LSTM.
OF_WAY = {"loop": PALETTE[7], "fused kernel": PALETTE[0], "RNN(LSTMCell)": PALETTE[1]}
OF_WAY |= {"loop, compiled": PALETTE[4], "loop, inputs taken apart": PALETTE[2]}
WIDTH = 4.8  # inches
ROUND = [digit * 10.0**power for power in range(-4, 7) for digit in (1, 2, 5)]
Looks = dict[Any, dict[str, Any]]  # of each stack, way or whatever has a line, marker or part of its own


def style() -> None:
    """Set the book's look. In a notebook figures are vector graphics."""
    import seaborn as sns

    if get_ipython():
        set_matplotlib_formats("svg")
    sns.set_theme(
        style="ticks",
        rc={
            "figure.dpi": 110,
            "font.size": 9.5,
            "axes.labelsize": 10.5,
            "axes.titlesize": 10.5,
            "axes.titlelocation": "left",
            "figure.labelsize": 10,
            "xtick.labelsize": 9.5,
            "ytick.labelsize": 9.5,
            "legend.fontsize": 9.5,
            "legend.columnspacing": 1.2,
            "legend.handlelength": 1.6,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.35,
            "lines.linewidth": 1.6,
            "lines.markersize": 5,
            "errorbar.capsize": 2.5,
            "svg.hashsalt": "traintime",  # the same figure is the same file
            "legend.frameon": False,
            # A white ground of its own keeps a figure readable on a dark page.
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "savefig.bbox": "tight",
        },
    )


def sheet(height: float, across: int = 1, down: int = 1, **how: Any) -> tuple[Figure, list[Axes]]:
    """An empty figure, so many inches high, and its panels, row by row, with one vertical axis for those side by side
    and one horizontal axis for those above one another.
    """
    style()
    how = {"sharex": down > 1, "sharey": across > 1, "figsize": (WIDTH, height), "layout": "constrained"} | how
    figure, axes = plt.subplots(down, across, squeeze=False, **how)
    return figure, list(axes.flat)


def short(value: float) -> str:
    """A count as people say it: 20K, 1M."""
    for limit, letter in ((1e6, "M"), (1e3, "K")):
        if abs(value) >= limit and value * 10 % limit == 0:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"


def log_axis(axis: Axes, which: str, values: Iterable[float], ticks: Iterable[float] = ROUND) -> None:
    """A log axis that just holds these values, labelled in plain numbers at as many of the ticks as have room."""
    values = np.array(list(values), float)
    low, high = np.nanmin(values) / 1.25, np.nanmax(values) * 1.25
    room = np.log(high / low) * (0.12 * axis.get_gridspec().ncols if which == "x" else 0.08)
    shown: list[float] = []
    for tick in sorted(set(ticks)):
        if low <= tick <= high and (not shown or np.log(tick / shown[-1]) >= room):
            shown.append(tick)
    axis.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    one = getattr(axis, f"{which}axis")
    one.set_ticks(shown)
    one.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    one.set_minor_formatter(NullFormatter())


def line_style(stack: str) -> dict[str, str]:
    """Colour by framework, dashes by generation."""
    generation, _, backend = stack.rpartition("-")
    return {"color": BACKEND[backend], "linestyle": GENERATION.get(generation, "-.")}


def marks(stacks: Iterable[str], **also: Any) -> Looks:
    """How each stack's points look where no line joins them: in its colour, with a marker of its own in the figure."""
    numbered = enumerate(dict.fromkeys(stacks))
    return {
        stack: {"color": line_style(stack)["color"], "marker": MARKERS[n % len(MARKERS)], "linestyle": "none"} | also
        for n, stack in numbered
    }


def of_ways(ways: Iterable[str], **also: Any) -> Looks:
    """How each way's lines or points look; one that is not in OF_WAY has the next colour of its own."""
    colours = (PALETTE[n] for n in (1, 0, 2, 4, 3, 9))
    numbered = zip(dict.fromkeys(ways), colours, MARKERS, strict=False)
    return {way: {"color": OF_WAY.get(way, colour), "marker": marker} | also for way, colour, marker in numbered}


def errors(rows: pd.DataFrame, value: str, scale: float = 1) -> np.ndarray | None:
    """Distances of the interval's ends from the value, shape (2, rows), NaN without an interval; None if none has one.

    The ends are in the columns low and high, those of step_s in low_s and high_s.
    """
    ends = ["low_s", "high_s"] if value == "step_s" else ["low", "high"]
    if not {*ends} <= {*rows}:
        return None
    return scale * rows[ends].sub(rows[value], axis=0).abs().T.to_numpy(float)


def name_rows(axis: Axes, names: Sequence[Any]) -> None:
    """Names of rows from above. One that is below a head is a pair of the head and the name; then heads are bold."""
    headed = any(isinstance(name, tuple) for name in names)
    axis.set_yticks(range(len(names)), [name[1] if isinstance(name, tuple) else name for name in names])
    for place, name in enumerate(names):
        if headed and not isinstance(name, tuple):
            axis.get_yticklabels()[place].set_fontweight("bold")
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)


def under_heads(heads: pd.Series, names: pd.Series) -> tuple[pd.Series, list[Any]]:
    """Rows below heads as name_rows takes them: of each row of a table, and all of them, each head before its own."""
    pairs = pd.Series(list(zip(heads, names, strict=True)), index=heads.index)
    of_head = {head: list(dict.fromkeys(pairs[heads == head])) for head in dict.fromkeys(heads)}
    return pairs, [row for head, own in of_head.items() for row in (head, *own)]


def legend(figure: Figure, columns: int) -> None:
    """All that the panels show, each name once, above them."""
    found = {
        label: handle for axis in figure.axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(list(found.values()), list(found), loc="outside upper center", ncols=columns)


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write the figure as SVG and PNG, without a date inside, so that an unchanged figure is an unchanged file."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    figure.savefig(folder / f"{name}.png", metadata={"Software": None}, dpi=160)
