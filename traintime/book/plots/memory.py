"""Figures of memory: one step as it goes, and what stacks hold against the size of the table."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import PALETTE, label_ends, line_style, log_axis, style
from traintime.point import axis_label


def step_memory(held: pd.DataFrame, marks: pd.DataFrame, unit: float, name: str) -> Figure:
    """Memory while a step runs, with where its parts begin; lines at multiples of a unit.

    held: columns s and mib; marks: columns s and name; unit: MiB of what is counted in, and its name.
    """
    style()
    most = held["mib"].max()
    changed = held["mib"].diff().abs().fillna(most) > most / 500  # thousands of equal samples draw one line
    held = held[changed | changed.shift(-1, fill_value=True)]
    figure, axis = plt.subplots(figsize=(7.2, 3.6), constrained_layout=True)
    axis.fill_between(held["s"] * 1e3, held["mib"], color=PALETTE[0], alpha=0.25, step="post")
    axis.step(held["s"] * 1e3, held["mib"], color=PALETTE[0], where="post", linewidth=1.2)
    for times in range(1, int(most / unit) + 1):
        axis.axhline(times * unit, color="0.5", linewidth=0.7, linestyle=":")
    for mark in marks.itertuples():
        axis.axvline(mark.s * 1e3, color="0.3", linewidth=0.8)
        axis.annotate(mark.name, (mark.s * 1e3, most * 1.12), xytext=(3, 0), textcoords="offset points", fontsize=9)
    axis.set_ylim(0, most * 1.22)
    axis.set_xlabel("time (ms)")
    axis.set_ylabel("memory held (MiB)")
    axis.set_title(f"dotted: {name}, once, twice, ...", loc="left", fontsize=10)
    return figure


def held(points: pd.DataFrame, least: float) -> Figure:
    """What each stack holds beyond idle against the size of the table, in MiB, and the least there can be.

    points: columns stack, vocabulary, held, parameter_bytes (bytes); least: copies of the parameters.
    """
    style()
    figure, axis = plt.subplots(figsize=(6.6, 4.4), constrained_layout=True)
    points = points[points["held"] > 0]  # nothing beyond idle has no place on a log axis
    ends = []
    for stack, rows in points.groupby("stack", sort=False):
        rows, look = rows.sort_values("vocabulary"), line_style(str(stack))
        axis.plot(rows["vocabulary"], rows["held"] / 2**20, marker="o", markersize=4, **look)
        ends.append((rows["vocabulary"].iloc[-1], rows["held"].iloc[-1] / 2**20, str(stack), look["color"]))
    floor = points.drop_duplicates("vocabulary").sort_values("vocabulary")
    axis.plot(floor["vocabulary"], least * floor["parameter_bytes"] / 2**20, color="0.2", linestyle="--", linewidth=1)
    sizes = sorted(points["vocabulary"].unique())
    log_axis(axis, "x", [size for size, before in zip(sizes, [0, *sizes], strict=False) if size > 1.6 * before])
    log_axis(axis, "y", [10 * 2**n for n in range(0, 14, 2)])
    axis.set_ylim(points["held"].min() / 2**21, points["held"].max() / 2**19)
    axis.set_xlabel(axis_label("vocabulary"))
    axis.set_ylabel("held beyond idle (MiB)")
    label_ends(axis, ends)
    return figure
