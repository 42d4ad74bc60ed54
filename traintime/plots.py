"""One visual language for every figure: the same colour for the same thing, markers for where a number comes from."""

from collections.abc import Iterable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from traintime.cost import Fit

_PALETTE = sns.color_palette("colorblind").as_hex()
DEVICE = {"CPU": _PALETTE[0], "GPU": _PALETTE[1]}
BACKEND = {
    "theano": _PALETTE[2],
    "tensorflow": _PALETTE[1],
    "jax": _PALETTE[0],
    "torch": _PALETTE[3],
    "numpy": _PALETTE[7],
}
GENERATION = {"2017": ":", "2020": "--", "2026": "-"}
SOURCE = {"document": "s", "stored": "o", "this run": "D"}
HATCHES = ("", "//", "..")
PART = {"a": _PALETTE[7], "b": _PALETTE[1], "c": _PALETTE[0]}


def style() -> None:
    """Set the book's look; each figure below asks for it itself."""
    sns.set_theme(
        style="ticks",
        rc={
            "figure.figsize": (7.2, 4.2),
            "figure.dpi": 110,
            "font.size": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.35,
            "lines.linewidth": 1.8,
            "svg.hashsalt": "traintime",  # the same figure is the same file
            "legend.frameon": False,
            # A white ground of its own keeps a figure readable on a dark page.
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "savefig.bbox": "tight",
        },
    )


def short(value: float) -> str:
    """A count as people say it: 20K, 1M."""
    for limit, letter in ((1e6, "M"), (1e3, "K")):
        if abs(value) >= limit and value * 10 % limit == 0:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"


def log_axis(axis: Axes, which: str, ticks: Iterable[float] | None = None) -> None:
    """A log axis labelled in plain numbers, at these ticks where given, without labels on minor ticks."""
    getattr(axis, f"set_{which}scale")("log")
    one = getattr(axis, f"{which}axis")
    if ticks is not None:
        one.set_ticks(list(ticks))
    one.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    one.set_minor_formatter(NullFormatter())


def line_style(stack: str) -> dict[str, str]:
    """Colour by framework, dashes by generation."""
    generation, _, backend = stack.rpartition("-")
    return {"color": BACKEND[backend], "linestyle": GENERATION.get(generation, "-.")}


def label_ends(axis: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Write each line's name at its right end, moved apart where they would overlap.

    ends: (x, y, text, colour); the y axis is logarithmic.
    """
    low, high = np.log10(axis.get_ylim())
    gap = (high - low) * 0.055
    previous = -np.inf
    for x, y, text, colour in sorted(ends, key=lambda end: end[1]):
        place = max(np.log10(y), previous + gap)
        previous = place
        axis.annotate(
            text,
            (x, y),
            xytext=(x * 1.12, 10**place),
            color=colour,
            va="center",
            fontsize=9.5,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "alpha": 0.6},
        )


def document_tables(s0: pd.DataFrame) -> Figure:
    """Time of an epoch against vocabulary and against batch size, as the document gives it."""
    style()
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.9), sharey=True, constrained_layout=True)
    for axis, sweep, label in zip(
        axes, ("vocabulary", "batch"), ("vocabulary (words)", "batch size (sentences)"), strict=True
    ):
        for device, rows in s0[s0["sweep"] == sweep].groupby("device"):
            error = rows["half_step_s"] * rows["sentences"] / rows["batch"]
            axis.errorbar(
                rows[sweep], rows["epoch_s"], error, color=DEVICE[device], marker=SOURCE["document"], capsize=3
            )
            last = rows.iloc[0]
            axis.annotate(
                device, (last[sweep], last["epoch_s"]), xytext=(0, 9), textcoords="offset points", color=DEVICE[device]
            )
        log_axis(axis, "x", s0.loc[s0["sweep"] == sweep, sweep].unique())
        log_axis(axis, "y", [200, 500, 1000, 2000, 5000, 10000, 20000, 50000])
        axis.set_xlabel(label)
    axes[0].set_ylabel("one epoch (s)")
    return figure


def straight_lines(rows: pd.DataFrame, fits: dict[str, Fit]) -> Figure:
    """Seconds a step against vocabulary on plain axes: a straight line on each device.

    rows: columns device, vocabulary, step_s, half_step_s; fits: device -> straight line.
    """
    style()
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), constrained_layout=True)
    grid = pd.DataFrame({"vocabulary": np.linspace(0, rows["vocabulary"].max(), 50)})
    for axis, (device, group) in zip(axes, rows.groupby("device"), strict=True):
        axis.plot(grid["vocabulary"] / 1e6, fits[device].predict(grid) * 1e3, color=DEVICE[device], alpha=0.6)
        axis.errorbar(
            group["vocabulary"] / 1e6,
            group["step_s"] * 1e3,
            group["half_step_s"] * 1e3,
            color=DEVICE[device],
            marker=SOURCE["document"],
            linestyle="none",
            capsize=3,
        )
        axis.set_ylim(0)
        axis.set_title(device, color=DEVICE[device], loc="left")
        axis.set_xlabel("vocabulary (million words)")
    axes[0].set_ylabel("one step (ms)")
    return figure


def parts(rows: pd.DataFrame, fits: dict[str, Fit]) -> Figure:
    """What each step is made of: the share of each of the formula's three terms, one bar a cell of the tables."""
    style()
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), sharey=True, constrained_layout=True)
    names = {"a": "fixed (a)", "b": "per row of the table (b·V)", "c": "per sentence (c·B)"}
    for axis, (device, group) in zip(axes, rows.groupby("device"), strict=True):
        shares = fits[device].parts(group)
        shares = shares.div(shares.sum(axis=1), axis=0) * 100
        labels = [f"V={short(r.vocabulary)}\nB={r.batch}" for r in group.itertuples()]
        bottom = np.zeros(len(group))
        for name, hatch in zip(names, HATCHES, strict=True):
            axis.bar(labels, shares[name], bottom=bottom, color=PART[name], hatch=hatch, edgecolor="white", width=0.8)
            bottom += shares[name].to_numpy()
        axis.set_title(device, color=DEVICE[device], loc="left")
        axis.tick_params(axis="x", labelsize=8)
        axis.grid(False)
    axes[0].set_ylabel("share of a step (%)")
    handles = [
        plt.Rectangle((0, 0), 1, 1, fc=PART[n], hatch=h, ec="white") for n, h in zip(names, HATCHES, strict=True)
    ]
    figure.legend(handles, list(names.values()), loc="outside lower center", ncols=3)
    return figure


def length_band(lengths: np.ndarray, low: np.ndarray, high: np.ndarray, device: str = "GPU") -> Figure:
    """The lost table as far as the others tell it: time of an epoch against sentence length, between two bounds."""
    style()
    figure, axis = plt.subplots(constrained_layout=True)
    axis.fill_between(lengths, low, high, color=DEVICE[device], alpha=0.25)
    axis.plot(lengths, low, color=DEVICE[device])
    axis.plot(lengths, high, color=DEVICE[device])
    at = int(np.argmin(np.abs(lengths - 25)))
    proportional = low[at] * lengths / lengths[at]
    axis.plot(lengths, proportional, color="0.4", linestyle="--")
    log_axis(axis, "x", lengths)
    ticks = [100, 200, 500, 1000, 2000, 5000, 10000]
    log_axis(axis, "y", [tick for tick in ticks if proportional[0] * 0.8 < tick < proportional[-1] * 1.2])
    label_ends(
        axis,
        [
            (lengths[-1], low[-1], "only the per-sentence part grows", DEVICE[device]),
            (lengths[-1], high[-1], "the fixed part grows, too", DEVICE[device]),
            (lengths[-1], proportional[-1], "if time were proportional", "0.3"),
        ],
    )
    axis.set_xlabel("sentence length (tokens)")
    axis.set_ylabel("one epoch (s)")
    return figure


def vocabulary(points: pd.DataFrame, source: str = "stored") -> Figure:
    """Time of a step against the size of the vocabulary, one line a stack, with the intervals of the means.

    points: as summary.points gives them; a point without a time is not drawn (the table under the figure says why).
    """
    style()
    figure, axis = plt.subplots(figsize=(6.6, 4.6), constrained_layout=True)
    ends = []
    for stack, rows in points.dropna(subset="step_s").groupby("stack", sort=False):
        rows = rows.sort_values("vocabulary")
        look = line_style(stack)
        errors = _interval_ms(rows)
        axis.errorbar(
            rows["vocabulary"], rows["step_s"] * 1e3, errors, marker=SOURCE[source], markersize=5, capsize=3, **look
        )
        ends.append((rows["vocabulary"].iloc[-1], rows["step_s"].iloc[-1] * 1e3, stack, look["color"]))
    log_axis(axis, "x", sorted(points["vocabulary"].unique()))
    log_axis(axis, "y", [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000])
    axis.set_xlabel("vocabulary (rows of the table)")
    axis.set_ylabel("one step (ms)")
    low, high = points["step_s"].min() * 1e3, points["step_s"].max() * 1e3
    axis.set_ylim(low * 0.8, high * 1.25)
    axis.set_xlim(points["vocabulary"].min() * 0.85, points["vocabulary"].max() * 1.1)
    label_ends(axis, ends)
    return figure


def _interval_ms(rows: pd.DataFrame) -> np.ndarray:
    """Distances of the interval's ends from the mean, shape (2, rows); none where there was one invocation."""
    return np.abs(rows[["low_s", "high_s"]].sub(rows["step_s"], axis=0)).fillna(0).T.to_numpy() * 1e3


INTERVENTION = {
    "adam": {"color": _PALETTE[1], "linestyle": "-"},
    "sgd": {"color": _PALETTE[4], "linestyle": "--"},
    "frozen": {"color": _PALETTE[9], "linestyle": ":"},
}


def interventions(points: pd.DataFrame) -> Figure:
    """One panel a stack: the same step with Adam, with plain SGD, and with the embedding left untrained."""
    style()
    names = list(dict.fromkeys(points["stack"]))
    figure, axes = plt.subplots(
        1, len(names), figsize=(2.4 * len(names) + 0.6, 3.8), sharey=True, squeeze=False, constrained_layout=True
    )
    for axis, stack in zip(axes[0], names, strict=True):
        for how, look in INTERVENTION.items():
            rows = points[(points["stack"] == stack) & (points["how"] == how)].dropna(subset="step_s")
            rows = rows.sort_values("vocabulary")
            errors = _interval_ms(rows)
            axis.errorbar(
                rows["vocabulary"],
                rows["step_s"] * 1e3,
                errors,
                marker="o",
                markersize=4.5,
                capsize=3,
                label=how,
                **look,
            )
        shown = sorted(points["vocabulary"].unique())
        log_axis(axis, "x", shown if len(shown) <= 4 else shown[1::2])
        log_axis(axis, "y", [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000])
        axis.set_title(stack, loc="left", fontsize=11)
        axis.set_xlabel("vocabulary (rows)")
    axes[0][0].set_ylabel("one step (ms)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write the figure as SVG and PNG, without a date inside, so that an unchanged figure is an unchanged file."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    figure.savefig(folder / f"{name}.png", metadata={"Software": None}, dpi=160)
