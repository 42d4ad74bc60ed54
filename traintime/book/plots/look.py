"""One visual language for every figure: the same colour for the same thing, markers for where a number comes from."""

from collections.abc import Iterable
from pathlib import Path

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
BACKEND = {
    "theano": PALETTE[2],
    "tensorflow": PALETTE[1],
    "jax": PALETTE[0],
    "torch": PALETTE[3],
    "numpy": PALETTE[7],
}
GENERATION = {"2017": ":", "2020": "--", "2026": "-"}
SOURCE = {"document": "s", "stored": "o", "this run": "D"}
MARKERS = "osD^v<>Pp"  # of stacks, ways or pairs of one figure, by their number
HATCHES = ("", "//", "..")
PART = {"a": PALETTE[7], "b": PALETTE[1], "c": PALETTE[0]}
# How a table is trained, or what else differs between two lines of one panel.
WAY = {
    "adam": {"color": PALETTE[1], "linestyle": "-"},
    "sgd": {"color": PALETTE[4], "linestyle": "--"},
    "frozen": {"color": PALETTE[9], "linestyle": ":"},
    "adam-rows": {"color": PALETTE[2], "linestyle": "-."},
    "adam-deferred": {"color": PALETTE[2], "linestyle": "--"},
    "20K rows": {"color": PALETTE[3], "linestyle": (0, (4, 1))},
    "1K rows": {"color": PALETTE[0], "linestyle": (0, (1, 1))},
    "glibc": {"color": PALETTE[1], "linestyle": "-"},
    "tcmalloc": {"color": PALETTE[3], "linestyle": "--"},
}
MILLISECONDS = [m * 10**e for e in range(-1, 5) for m in (1, 2, 5)]


def style() -> None:
    """Set the book's look; each figure below asks for it itself. In a notebook figures are vector graphics."""
    import seaborn as sns

    if get_ipython():
        set_matplotlib_formats("svg")
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
    previous, right = -np.inf, max(end[0] for end in ends) * 1.12
    for x, y, text, colour in sorted(ends, key=lambda end: end[1]):
        place = max(np.log10(y), previous + gap)
        previous = place
        axis.annotate(
            text,
            (x, y),
            xytext=(right, 10**place),
            color=colour,
            va="center",
            fontsize=9.5,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "alpha": 0.6},
        )


def milliseconds_axis(axis: Axes, seconds: pd.Series) -> None:
    """A log axis of milliseconds that just holds these seconds."""
    low, high = seconds.min() * 1e3 * 0.8, seconds.max() * 1e3 * 1.25
    log_axis(axis, "y", [tick for tick in MILLISECONDS if low <= tick <= high])
    axis.set_ylim(low, high)


def interval_ms(rows: pd.DataFrame) -> np.ndarray:
    """Distances of the interval's ends from the mean, shape (2, rows); none where there was one invocation."""
    return np.abs(rows[["low_s", "high_s"]].sub(rows["step_s"], axis=0)).fillna(0).T.to_numpy() * 1e3


def errors(rows: pd.DataFrame, value: str, scale: float = 1) -> np.ndarray:
    """Distances of the interval's ends from the value, shape (2, rows); none where there is no interval."""
    return scale * np.array([rows[value] - rows["low"], rows["high"] - rows[value]]).astype(float)


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write the figure as SVG and PNG, without a date inside, so that an unchanged figure is an unchanged file."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    figure.savefig(folder / f"{name}.png", metadata={"Software": None}, dpi=160)
