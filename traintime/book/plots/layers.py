"""Figures of one layer run and trained in several ways: costs of a time step, accuracies, losses over the batch."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from traintime.book.plots.look import (
    MARKERS,
    PALETTE,
    WAY,
    errors,
    interval_ms,
    label_ends,
    line_style,
    log_axis,
    milliseconds_axis,
    style,
)
from traintime.point import axis_label

COLOURS = [PALETTE[n] for n in (1, 0, 2, 4, 3, 9)]
# A way of running one LSTM has one colour in every figure; the loop's and the kernel's are those of LAUNCHES.
OF_WAY = {"loop": PALETTE[7], "fused kernel": PALETTE[0], "RNN(LSTMCell)": PALETTE[1], "unrolled": PALETTE[3]}
OF_WAY |= {"loop, all gates at once": PALETTE[5], "loop, gate by gate": PALETTE[9], "loop, compiled": PALETTE[4]}
OF_WAY |= {"loop, inputs taken apart": PALETTE[2]}
MICROSECONDS = [10**e * m for e in range(-1, 6) for m in (1, 3)]


def positions(prices: pd.DataFrame, floors: dict[int, float] | None = None) -> Figure:
    """Microseconds that one more time step takes: a row a stack, a marker a way of running the layer, a panel a batch.

    prices: columns stack, how, batch, position_s, low, high (s); one that is not above nothing is not drawn.
    floors: the least that a time step can take at each batch, s.
    """
    style()
    prices = prices[prices["position_s"] > 0]
    stacks, ways = (list(dict.fromkeys(prices[name])) for name in ("stack", "how"))
    sizes = sorted(prices["batch"].unique())
    figure, axes = plt.subplots(
        1,
        len(sizes),
        figsize=(1.2 + 3.2 * len(sizes), 0.5 * len(stacks) + 1.6),
        sharey=True,
        squeeze=False,
        constrained_layout=True,
    )
    for axis, batch in zip(axes[0], sizes, strict=True):
        for number, way in enumerate(ways):
            rows = prices[(prices["how"] == way) & (prices["batch"] == batch)]
            places = [stacks.index(stack) + (number - (len(ways) - 1) / 2) * 0.13 for stack in rows["stack"]]
            colour = OF_WAY.get(way, COLOURS[number % len(COLOURS)])
            look = {"color": colour, "marker": MARKERS[number % len(MARKERS)]}
            look |= {"linestyle": "none", "label": way, "capsize": 2}
            axis.errorbar(rows["position_s"] * 1e6, places, xerr=errors(rows, "position_s", 1e6), **look)
        if floors:
            axis.axvline(floors[batch] * 1e6, color="0.2", linestyle="--", linewidth=1)
        log_axis(axis, "x", MICROSECONDS)
        axis.set_xlim(
            min([prices["position_s"].min(), *(floors or {}).values()]) * 5e5, prices["position_s"].max() * 2e6
        )
        axis.set_xlabel("µs for one more time step")
        axis.set_title(f"batch {batch}", loc="left", fontsize=11)
    axes[0][0].set_yticks(range(len(stacks)), stacks)
    axes[0][0].invert_yaxis()
    found = {label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=3)
    return figure


# What runs the time steps of an LSTM: a loop of launches, one launch per time step, one call for all of them.
LAUNCHES = {"loop": PALETTE[7], "compiled": PALETTE[4], "kernel a time step": PALETTE[9], "cuDNN": PALETTE[0]}


def implementations(steps: pd.DataFrame) -> Figure:
    """Microseconds per time step of one LSTM in several implementations: a bar for each, below its device, with its
    interval where it has one. As narrow as a phone.

    steps: columns device, framework, layer, way (of LAUNCHES), position_s, low, high (s).
    """
    style()
    names = steps["device"] + "\n" + steps["framework"] + ", " + steps["layer"]
    rows: list[str] = []  # a device, then its implementations
    for device, of_device in names.groupby(steps["device"], sort=False):
        rows += [str(device), *dict.fromkeys(of_device)]
    figure, axis = plt.subplots(figsize=(4.7, 0.22 * len(rows) + 0.6), constrained_layout=True)
    places, ends = names.map(rows.index), steps[["position_s", "high"]].max(axis=1)
    axis.barh(places, steps["position_s"] * 1e6, color=steps["way"].map(LAUNCHES), height=0.66)
    look = {"color": "black", "linestyle": "none", "capsize": 3}
    axis.errorbar(steps["position_s"] * 1e6, places, xerr=errors(steps, "position_s", 1e6), **look)
    for place, seconds, end in zip(places, steps["position_s"], ends, strict=True):
        axis.annotate(
            f"{seconds * 1e6:.0f}",
            (end * 1e6, place),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=9.5,
        )
    axis.set_yticks(range(len(rows)), [row.split("\n")[-1] for row in rows], fontsize=9.5)
    for label, row in zip(axis.get_yticklabels(), rows, strict=True):
        label.set_fontweight("normal" if "\n" in row else "bold")
    axis.set_xlim(1e6 * min(0, steps["low"].min()), 1.2e6 * ends.max())
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("µs per time step")
    return figure


def along(points: pd.DataFrame, stack: str) -> Figure:
    """A step of one stack over the time steps of a sequence, a line a way of running it; dashed: in proportion.

    points: columns stack, how, length, step_s, low_s, high_s.
    """
    style()
    figure, axis = plt.subplots(figsize=(6.6, 3.8), constrained_layout=True)
    ran, ends = points[points["stack"] == stack].dropna(subset="step_s"), []
    for number, (how, rows) in enumerate(ran.groupby("how", sort=False)):
        rows = rows.sort_values("length")
        colour = OF_WAY.get(str(how), COLOURS[number % len(COLOURS)])
        look = {"color": colour, "marker": MARKERS[number % len(MARKERS)], "capsize": 3}
        axis.errorbar(rows["length"], rows["step_s"] * 1e3, interval_ms(rows), **look)
        ends.append((rows["length"].iloc[-1], rows["step_s"].iloc[-1] * 1e3, str(how), look["color"]))
    lengths = sorted(ran["length"].unique())
    least = ran.loc[ran["length"] == lengths[0], "step_s"].min() * 1e3
    axis.plot(lengths, [least * each / lengths[0] for each in lengths], color="0.5", linestyle="--", linewidth=1)
    log_axis(axis, "x", lengths)
    milliseconds_axis(axis, ran["step_s"])
    axis.set_xlabel("time steps of a sequence")
    axis.set_ylabel("time per training step (ms)")
    label_ends(axis, ends)
    return figure


def causes(table: pd.DataFrame, claimed: float | None, gained: str) -> Figure:
    """Points of accuracy that each cause gains, with intervals, next to a claim where there is one.

    table: columns task, cause, difference, low, high (shares); claimed: a share; gained: the axis label.
    """
    style()
    names, tasks = (list(dict.fromkeys(table[name])) for name in ("cause", "task"))
    figure, axis = plt.subplots(figsize=(6.8, 0.5 * len(names) + 1.6), constrained_layout=True)
    axis.axvline(0, color="0.4", linewidth=1)
    if claimed is not None:
        axis.axvline(100 * claimed, color="0.2", linestyle="--", linewidth=1)
    for number, task in enumerate(tasks):
        rows = table[table["task"] == task]
        places = [names.index(cause) + (number - (len(tasks) - 1) / 2) * 0.2 for cause in rows["cause"]]
        look = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": "none", "label": task}
        axis.errorbar(100 * rows["difference"], places, xerr=errors(rows, "difference", 100), capsize=3, **look)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xlabel(gained)
    if len(tasks) > 1:
        figure.legend(loc="outside lower center", ncols=len(tasks))
    return figure


def losses(table: pd.DataFrame) -> Figure:
    """Test loss against the batch, a panel for equal epochs and for equal steps, a line for each way to set the rate.

    table: columns batch, way ("equal epochs, rate fixed"), loss, loss_low, loss_high.
    """
    style()
    parts = table["way"].str.split(", ", expand=True)
    panels = list(dict.fromkeys(parts[0]))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.6 * len(panels), 3.4), sharey=True, squeeze=False, constrained_layout=True
    )
    for axis, panel in zip(axes[0], panels, strict=True):
        for number, rate in enumerate(("rate fixed", "rate scaled")):
            rows = table[(parts[0] == panel) & (parts[1] == rate)].rename(
                columns={"loss_low": "low", "loss_high": "high"}
            )
            if len(rows):
                look = {"color": PALETTE[7 - 3 * number], "marker": MARKERS[number], "linestyle": ("-", "--")[number]}
                axis.errorbar(rows["batch"], rows["loss"], errors(rows, "loss"), capsize=3, label=rate, **look)
        log_axis(axis, "x", sorted(table["batch"].unique()))
        axis.set_xlabel(axis_label("batch"))
        axis.set_title(panel, loc="left", fontsize=11)
    axes[0][0].set_ylabel("loss on the test data")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def apart(table: pd.DataFrame) -> Figure:
    """How far losses are from a reference's, step by step, on a log axis, a line each.

    table: columns stack, optimizer, step, apart (shares); the largest so far is drawn, so that lines do not cross for
    a moment's chance.
    """
    style()
    figure, axis = plt.subplots(figsize=(6.6, 4.4), constrained_layout=True)
    ends = []
    for (stack, how), rows in table.groupby(["stack", "optimizer"], sort=False):
        rows = rows.sort_values("step")
        far = rows["apart"].cummax().clip(lower=1e-9)
        look = {"color": line_style(str(stack))["color"], "linestyle": WAY[str(how)]["linestyle"]}
        axis.plot(rows["step"], far, **look)
        ends.append((rows["step"].iloc[-1], far.iloc[-1], f"{stack}, {how}", look["color"]))
    axis.set_yscale("log")
    axis.set_xlabel("training step")
    axis.set_ylabel("relative difference of the loss")
    label_ends(axis, ends)
    return figure
