"""One visual language for every figure: the same colour for the same thing, labels as large as on the page.

A page shows a figure at the size at which it is drawn, and a phone shows one as wide as WIDTH whole, its labels nine
pixels high.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython import get_ipython
from IPython.display import SVG
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from matplotlib_inline.backend_inline import set_matplotlib_formats

from traintime import paths
from traintime.point import axis_label

# seaborn's palette "colorblind": seaborn itself is loaded when something is drawn, as it takes half a second.
PALETTE = (
    *("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc"),
    *("#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9"),
)
DEVICE = {"CPU": PALETTE[0], "GPU": PALETTE[1]}
BACKEND = {name: PALETTE[n] for name, n in {"theano": 2, "tensorflow": 1, "jax": 0, "torch": 4, "numpy": 7}.items()}
GENERATION = {"2017": ":", "2020": "--", "2026": "-"}
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
End = tuple[float, float, str, str]  # of a line: x, y, its name, its colour
RATE = {
    "rate fixed": {"color": PALETTE[7], "marker": "o", "linestyle": "-"},
    "rate scaled": {"color": PALETTE[4], "marker": "s", "linestyle": "--"},
}
# The formula's terms, in the colours of the parts of a step.
TERMS: Looks = {
    "a": {"label": "overhead (a)", "color": PART["overhead"]},
    "l": {"label": "time steps (l·L)", "color": PART["overhead"], "hatch": "xx"},
    "b": {"label": "rows of the table (b·V)", "color": PART["update"], "hatch": "//"},
    "c": {"label": "sentences (c·L·B)", "color": PART["arithmetic"], "hatch": ".."},
}
DRAWINGS = paths.FIGURES / "drawings"
Piece = tuple[float, str, str]  # how long, which part of a step, what is written in it


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


# Lines


def label_ends(axis: Axes, ends: Sequence[End]) -> None:
    """Write each line's name at the right of its end, moved up where it would touch the one below."""
    axis.autoscale_view()
    place = -1.0
    for x, y, text, colour in sorted(ends, key=lambda end: end[1]):
        height = axis.transLimits.transform(axis.transScale.transform((x, y)))[1]
        place = max(height, place + 0.07)
        arrow = {"arrowstyle": "-", "color": colour, "lw": 0.6, "alpha": 0.6, "relpos": (0, 0.5), "shrinkA": 1}
        look = {"color": colour, "va": "center", "annotation_clip": False, "arrowprops": arrow}
        axis.annotate(text, (x, y), (1.04, place), textcoords="axes fraction", **look)


def _named(points: pd.DataFrame, against: str, looks: Looks, by: str) -> Figure:
    """One panel of steps against a size: a line for each of looks, with the intervals of its points, named at its end
    by the look's label or by itself. points: as lab.configurations gives them.
    """
    figure, (axis,) = sheet(3.0)
    ran = points[points[by].isin(list(looks))].dropna(subset="step_s")
    log_axis(axis, "x", ran[against], ran[against])
    log_axis(axis, "y", ran["step_s"] * 1e3)
    axis.set(xlabel=axis_label(against), ylabel="time per step (ms)")
    ends: list[End] = []
    for one, look in looks.items():
        look = {"label": one} | look
        if len(rows := ran[ran[by] == one].sort_values(against)):
            axis.errorbar(rows[against], 1e3 * rows["step_s"], errors(rows, "step_s", 1e3), **look)
            ends.append((rows[against].iloc[-1], 1e3 * rows["step_s"].iloc[-1], look["label"], look["color"]))
    label_ends(axis, ends)
    return figure


def steps(points: pd.DataFrame) -> Figure:
    """Time of a step against the vocabulary, a line for each stack."""
    looks = {stack: line_style(stack) | {"marker": "o"} for stack in points["stack"]}
    return _named(points, "vocabulary", looks, "stack")


def one_stack(points: pd.DataFrame, against: str, names: dict[str, str]) -> Figure:
    """A step of one stack against one size, a line for each value of `how` in names, which says what to call it."""
    looks = {how: WAY[how] | {"marker": "o", "label": name} for how, name in names.items()}
    return _named(points, against, looks, "how")


# Rows


def rows(
    axis: Axes,
    table: pd.DataFrame,
    columns: tuple[str, str, str],
    names: Sequence[Any],
    looks: Looks,
    scale: float = 1,
) -> None:
    """A row for each name, and in it the values that the table has for it with their intervals, those of each of looks
    at a height of their own.

    columns: those of the value, the row and the look. Where there is a column told, markers are hollow where it is
    false.
    """
    value, row, of = columns
    places = pd.Series(0.0, index=table.index)
    for name, mine in table.groupby(row):
        here = [one for one in looks if one in set(mine[of])]
        number = mine[of].map(here.index) - (len(here) - 1) / 2
        places[mine.index] = names.index(name) + number * min(0.22, 0.8 / len(here))
    for one, look in looks.items():
        mine = table[table[of] == one]
        look = {"label": one, "linestyle": "none"} | look
        axis.errorbar(scale * mine[value], places[mine.index], xerr=errors(mine, value, scale), **look)
        if "told" in mine:
            mine = mine[~mine["told"].astype(bool)]
            hollow = look | {"label": None, "markerfacecolor": "white", "zorder": 3}
            axis.plot(scale * mine[value], places[mine.index], **hollow)
    name_rows(axis, names)


def causes(table: pd.DataFrame, claimed: float | None, gained: str) -> Figure:
    """Points of accuracy that each cause gains, with intervals, next to a claim where there is one.

    table: columns task, cause, difference, low, high (shares); claimed: a share; gained: the axis label.
    """
    names, tasks = (list(dict.fromkeys(table[name])) for name in ("cause", "task"))
    figure, (axis,) = sheet(0.27 * len(names) + 1.0)
    axis.axvline(0, color="0.4", linewidth=1)
    if claimed is not None:
        axis.axvline(100 * claimed, color="0.2", linestyle="--", linewidth=1)
    rows(axis, table, ("difference", "cause", "task"), names, of_ways(tasks), 100)
    figure.supxlabel(gained)
    if len(tasks) > 1:
        legend(figure, 2)
    return figure


def bars(axis: Axes, table: pd.DataFrame, looks: Looks) -> None:
    """A bar for each row of the table, from above: those of its columns that looks names, one after the other."""
    left = np.zeros(len(table))
    for part, look in looks.items():
        if part in table:
            look = {"label": part, "edgecolor": "white", "height": 0.8} | look
            axis.barh(range(len(table)), table[part], left=left, **look)
            left += table[part].to_numpy()
    name_rows(axis, list(table.index))


# Drawings


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


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write the figure as SVG and PNG, without a date inside, so that an unchanged figure is an unchanged file."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    figure.savefig(folder / f"{name}.png", metadata={"Software": None}, dpi=160)
