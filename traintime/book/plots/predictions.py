"""The figure of a predictor: what it said over what happened, for each way to predict."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import line_style, log_axis, style
from traintime.book.plots.sweeps import MARKERS


def foretellings(table: pd.DataFrame, names: dict[str, str]) -> Figure:
    """Predicted over true time: a row a way, a dot a model, a colour and marker a stack; the line is the truth.

    table: columns way, stack, times; names: of the ways that are shown, from above.
    """
    style()
    stacks = list(dict.fromkeys(table["stack"]))
    shown = {way: name for way, name in names.items() if (table["way"] == way).any()}
    figure, axis = plt.subplots(figsize=(8.0, 0.5 * len(shown) + 1.3), constrained_layout=True)
    axis.axvline(1, color="0.5", linewidth=1)
    axis.axvspan(0.5, 2, color="0.5", alpha=0.08, linewidth=0)
    for number, stack in enumerate(stacks):
        colour = line_style(stack)["color"]
        for height, way in enumerate(shown):
            times = table[(table["way"] == way) & (table["stack"] == stack)]["times"]
            heights = [height + 0.2 * (number - (len(stacks) - 1) / 2)] * len(times)
            look = {"color": colour, "marker": MARKERS[number], "markersize": 5, "linestyle": "none", "alpha": 0.7}
            axis.plot(times, heights, label=stack if height == 0 else None, **look)
    of_shown = table[table["way"].isin(shown)]["times"]
    log_axis(axis, "x", [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10])
    axis.set_xlim(min(of_shown.min(), 0.5) / 1.3, max(of_shown.max(), 2) * 1.3)
    axis.set_yticks(range(len(shown)), list(shown.values()))
    axis.set_ylim(len(shown) - 0.5, -0.5)
    axis.set_xlabel("foretold / what it took")
    axis.grid(axis="y", visible=False)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=max(len(stacks), 1))
    return figure
