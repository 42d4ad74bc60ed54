"""Figures of where a program spends its time: flame graphs, and the time of a sample over the batch."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import PALETTE, line_style, log_axis, style
from traintime.book.plots.sweeps import MARKERS
from traintime.point import axis_label

SHADES = [PALETTE[n] for n in (1, 4, 8, 6)]
LETTER = 0.0105  # width of a letter, as a share of the figure


def flames(profiles: dict[str, pd.DataFrame]) -> Figure:
    """A flame graph for each profile: a box a function, as wide as its share of the time, on the one that called it.

    profiles: name -> columns function, depth, start, width (shares).
    """
    style()
    deepest = [int(boxes["depth"].max()) + 1 for boxes in profiles.values()]
    figure, axes = plt.subplots(
        len(profiles),
        1,
        figsize=(7.6, 0.32 * sum(deepest) + 0.6 * len(profiles)),
        height_ratios=deepest,
        squeeze=False,
        constrained_layout=True,
    )
    for axis, (name, boxes) in zip(axes[:, 0], profiles.items(), strict=True):
        for number, box in enumerate(boxes.itertuples()):
            look = {"facecolor": SHADES[number % len(SHADES)], "edgecolor": "white", "alpha": 0.55}
            axis.broken_barh([(box.start, box.width)], (box.depth, 0.95), **look)
            text = str(box.function)
            room = int(box.width / LETTER)
            if room > 3:
                shown = text if len(text) <= room else text[: room - 1] + "…"
                axis.text(box.start + 0.004, box.depth + 0.45, shown, va="center", fontsize=8.5, clip_on=True)
        axis.set_xlim(0, 1)
        axis.set_ylim(0, boxes["depth"].max() + 1)
        axis.set_title(name, loc="left", fontsize=11)
        axis.axis("off")
    return figure


def own_times(profiles: dict[str, pd.DataFrame]) -> Figure:
    """What each function took itself, a panel a profile and a bar a function, with its calls; one scale for all.

    profiles: name -> columns function, calls (a step), image_s (seconds an image).
    """
    style()
    size = (7.6, 0.3 * sum(map(len, profiles.values())) + 0.6 * len(profiles))
    figure, axes = plt.subplots(len(profiles), 1, figsize=size, sharex=True, squeeze=False, layout="constrained")
    for number, (axis, (name, rows)) in enumerate(zip(axes[:, 0], profiles.items(), strict=True)):
        rows = rows[::-1]
        bars = axis.barh(rows["function"], rows["image_s"] * 1e6, color=SHADES[number % len(SHADES)], alpha=0.7)
        axis.bar_label(bars, [f"{calls:,.3g} ×" for calls in rows["calls"]], padding=3, fontsize=9)
        axis.set_title(name, loc="left", fontsize=11)
        axis.tick_params(axis="y", labelsize=9)
    axes[-1, 0].set_xlabel("microseconds of its own, an image")
    longest = max(rows["image_s"].max() for rows in profiles.values()) * 1e6
    axes[0, 0].set_xlim(0, 1.25 * longest)  # room for the calls
    return figure


def per_image(points: pd.DataFrame) -> Figure:
    """Microseconds an image against the batch, a line a stack and way. points: columns stack, how, batch, image_s.

    The first way of a stack has the stack's own dashes, each further one is lighter.
    """
    style()
    figure, axis = plt.subplots(figsize=(6.8, 4.6), constrained_layout=True)
    ran = points.dropna(subset="step_s")
    ways = list(dict.fromkeys(ran["how"]))
    for (stack, how), rows in ran.groupby(["stack", "how"], sort=False):
        rows, number = rows.sort_values("batch"), ways.index(how)
        scale = rows["image_s"] / rows["step_s"] * 1e6
        ends = [(rows["step_s"] - rows["low_s"]).fillna(0) * scale, (rows["high_s"] - rows["step_s"]).fillna(0) * scale]
        look = line_style(str(stack)) | {"marker": MARKERS[number % len(MARKERS)], "markersize": 5, "capsize": 2}
        if number:
            look |= {"linestyle": (":", "--", "-.")[(number - 1) % 3], "alpha": 0.7}
        name = str(stack) if not number else f"{stack}, {how}"
        axis.errorbar(rows["batch"], rows["image_s"] * 1e6, ends, label=name, **look)
    log_axis(axis, "x", sorted(ran["batch"].unique()))
    log_axis(axis, "y", [m * 10**e for e in range(0, 5) for m in (1, 2, 5)])
    axis.set_ylim(ran["image_s"].min() * 7e5, ran["image_s"].max() * 1.4e6)
    axis.set_xlabel(axis_label("batch"))
    axis.set_ylabel("microseconds an image")
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return figure
