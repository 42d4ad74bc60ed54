"""Chapter 8, the fused LSTM: what a further time step costs in each way of running one LSTM, on a GPU and on CPUs of
ours, and on a GPU of others.
"""

import functools
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, external, original, page, stored
from traintime.book.claims import Finding
from traintime.book.stored import ANY, Measurements
from traintime.book.values import Values, exact, quantity
from traintime.explain import formula
from traintime.measuring import operations
from traintime.point import make_point

LSTM: dict[str, Any] = {"workload": "lstm", "batch": ANY, "length": ANY, "units": ANY, "inputs": ANY}
BATCHES = [32, 512]
LENGTHS = [10, 50]
TORCH, JAX = "2026-torch", "2026-jax"

# The ways of running one LSTM: algorithm -> how a reader sees it. The default is the framework's own loop.
LOOP = "loop"
WAYS = {
    "default": LOOP,
    "per-gate": "loop, gate by gate",
    "combined": "loop, all gates at once",
    "unrolled": "unrolled",
    "cell": "RNN(LSTMCell)",
    "apart": "loop, inputs taken apart",
    "native": "fused kernel",
}
FUSED, COMPILED = WAYS["native"], "loop, compiled"
KERNELS = {"loop-of-cells": "loop of cells", "cudnn": "cuDNN's kernel"}  # on a GPU that is told which
CELLS, CUDNN = KERNELS
ORDER = [*WAYS.values(), COMPILED, *KERNELS.values()]
SHOWN = [LOOP, FUSED]  # what the page's figures of CPUs show of them
claim = claims.of_chapter("08")


def ways(rows: pd.DataFrame) -> pd.Series:
    """How each row's LSTM was run, as a reader sees it."""
    if "algorithm" not in rows:  # nothing of this workload
        return pd.Series(index=rows.index, dtype=object)
    names = rows["algorithm"].map(WAYS).where(rows["jit"] != "on", COMPILED)
    return rows["kernel"].map(KERNELS).fillna(names) if "kernel" in rows else names


@functools.cache
def lstm_points(book: Measurements) -> pd.DataFrame:
    """Every step of this model, with `how`: a stored machine's on its CPU, this run's where it ran."""
    points = book.points(**LSTM, algorithm=ANY, jit=["auto", "on"], kernel=ANY)
    points = points.assign(how=ways(points))
    order = {"stack": stored.stack_order(points["stack"]), "how": ORDER}
    return points.sort_values(list(order), key=lambda names: names.map(order[names.name].index), ignore_index=True)


def lstm_machine() -> Measurements:
    """The machine that the chapter shows: the first of the book's that measured the LSTM."""
    return stored.having(stored.of(), lstm_points)


# What a time step costs


@functools.cache
def position_costs(book: Measurements) -> pd.DataFrame:
    """What one more time step takes, at each batch: the slope of a step between the two lengths.

    One row a stack, way and batch: stack, how, batch, position_s with its interval low and high, s.
    """
    rows, more = [], LENGTHS[1] - LENGTHS[0]
    ran = lstm_points(book).dropna(subset="step_s")
    for (stack, how, batch), pair in ran.groupby(["stack", "how", "batch"], sort=False):
        if pair["length"].tolist() == LENGTHS:
            cost = book.interval(lambda s: (s[1] - s[0]) / more, pair)
            rows.append((stack, how, int(batch), cost.value, cost.low, cost.high))
    return pd.DataFrame(rows, columns=["stack", "how", "batch", "position_s", "low", "high"])


def matmul_floor_s(book: Measurements, batch: int) -> float:
    """Seconds of one more time step's matmuls at the machine's own rate for large ones. KeyError without it."""
    short, long = (make_point("lstm", batch=batch, length=length).sizes.work().flops for length in LENGTHS)
    return (long - short) / (LENGTHS[1] - LENGTHS[0]) / book.rates["matmul_flop_per_s"]


@quantity
def loop_positions(book: Measurements) -> Values:
    """Seconds that one more time step of Keras' loop takes with the fewest sequences, by stack."""
    rows = stored.chosen(position_costs(book), how=LOOP, batch=BATCHES[0])
    return Values({row["stack"]: stored.interval(row, "position_s") for _, row in rows.iterrows()}, ",.0f", 1e6, "µs")


@quantity
def operations_a_position(book: Measurements) -> Values:
    """Operations that one more time step of Keras' loop asks for, as profilers counted them, by stack that ran it."""
    loops = stored.chosen(operations.stored(), algorithm="default")
    counts = loops.pivot_table("operations", "stack", "length")
    each = (counts[LENGTHS[1]] - counts[LENGTHS[0]]) / (LENGTHS[1] - LENGTHS[0])
    return exact({stack: each[stack] for stack in loop_positions(book) if stack in each}, ".0f")


# Other ways of running torch's loop

MANY: dict[str, Any] = {"workload": "lstm", "batch": 64}  # of the steps over many lengths alone
ENDS = (50, 200)  # time steps between which the growth is measured


def times_as_long(book: Measurements, one: Mapping[str, Any], other: Mapping[str, Any], **both: Any) -> Values:
    """Times as long as in the other setting a step of torch takes in one, both in the same rounds."""
    sides = book.sides(one, other, stack=TORCH, workload="lstm", **both)
    return Values({TORCH: sides.interval(lambda s: s[0] / s[1])}, ".1f")


@quantity
def gain_over_loop(book: Measurements, algorithm: str, batch: int = MANY["batch"], length: int = ENDS[1]) -> Values:
    """Times as fast as Keras' loop on torch another way is."""
    algorithms = ({"algorithm": name} for name in ("default", algorithm))
    return times_as_long(book, *algorithms, batch=batch, length=length)


# A loop that goes over everything at each time step: in Keras 3.15 the loop on torch slices the inputs' matmul at each
# time step; the gradient of each slice is as large as all of them (torch's SelectBackward), so the backward pass grows
# with the square of the length.


@functools.cache
def over_positions(book: Measurements) -> pd.DataFrame:
    """Steps over the positions, one row a stack, way (`how`) and length; empty where nobody took a loop apart."""
    points = book.points(**MANY, length=ANY, algorithm=ANY)
    return points.assign(how=ways(points)) if "apart" in set(points.get("algorithm", [])) else points.iloc[:0]


@quantity
def growth(book: Measurements, algorithm: str) -> Values:
    """Times a step of torch takes longer with the larger number of positions, in one way of running the loop."""
    lengths = ({"length": length} for length in reversed(ENDS))
    return times_as_long(book, *lengths, batch=MANY["batch"], algorithm=algorithm)


claim(
    15,
    "Taking them apart makes a step of 200 time steps on torch at least three times as fast.",
    lambda book: gain_over_loop(book, "apart").written(unit="times") > 3,
    on=lambda: stored.having(stored.of(), over_positions),
)


# Our own card: Keras 3's loop and cuDNN's kernel in the same rounds on a GPU of today


@functools.cache
def on_card(book: Measurements) -> pd.DataFrame:
    """A machine's LSTM on its GPU in both ways; empty without one."""
    return book.points(**LSTM | {"batch": BATCHES, "length": LENGTHS}, device="gpu", kernel=list(KERNELS))


def card() -> Measurements:
    """The first of the book's machines that ran both ways on a GPU."""
    return stored.having(stored.of(), on_card)


def at_size(stack: str, batch: int, length: int) -> str:
    """One of the values of `card_gains` by its name."""
    return f"{stack}, {batch} sequences of {length} time steps"


@quantity
def card_gains(book: Measurements, *stacks: str) -> Values:
    """Times as fast as the loop cuDNN's kernel is, by stack, batch and length; empty where one of them is missing."""
    gained = {}
    for stack, batch, length in itertools.product(stacks, BATCHES, LENGTHS):
        size = {"workload": "lstm", "batch": batch, "length": length}
        sides = book.sides({"kernel": CELLS}, {"kernel": CUDNN}, stack=stack, device="gpu", **size)
        gained[at_size(stack, batch, length)] = sides.interval(lambda s: s[0] / s[1])
    return Values(gained, ".1f")


@quantity
def card_positions(book: Measurements, stack: str, loops: float = 1.0, kernels: float = 0.0) -> Values:
    """Seconds of one more time step on the card, by batch, written in µs: so many loops' plus so many kernels'.

    With 1 and -5: by how much a loop's is longer than five of the kernel's.
    """

    def slope(s: np.ndarray) -> np.ndarray:
        """s: the loop's steps at the two lengths, then the kernel's."""
        return (loops * (s[1] - s[0]) + kernels * (s[3] - s[2])) / (LENGTHS[1] - LENGTHS[0])

    rows = stored.chosen(on_card(book), stack=stack).sort_values(["kernel", "length"], ascending=[False, True])
    return Values({batch: book.interval(slope, stored.chosen(rows, batch=batch)) for batch in BATCHES}, ",.0f", 1e6)


def kernel_over_five(book: Measurements) -> Finding:
    """Whether the kernel is more than five times as fast at every size of both stacks; the figure is their range."""
    gained = card_gains(book, TORCH, JAX)
    return Finding((gained > 5).holds, f"{gained.range} times")


def loop_over_five(book: Measurements) -> Finding:
    """Whether a time step of torch's loop costs more than five of the kernel's, with few sequences and with many."""
    loop, kernel = card_positions(book, TORCH), card_positions(book, TORCH, 0, 1)
    longer = card_positions(book, TORCH, 1, -5) > 0
    return Finding(longer.holds, " and ".join(f"{loop[batch]} µs against {kernel[batch]} µs" for batch in BATCHES))


claim(
    5,
    "On a GPU cuDNN's kernel is more than five times as fast as a loop of cells.",
    kernel_over_five,
    source="S4",
    says="does not hold",
    on=card,
)
claim(
    26,
    "On a GPU one more time step costs Keras' loop on torch more than five times what it costs cuDNN's kernel, with 32 "
    "and with 512 sequences.",
    loop_over_five,
    on=card,
)


# Other people's stopwatches: what a time step of a loop and of a fused kernel took them on a GPU


def one_sequence() -> Values:
    """Seconds per time step of 50,000 with a batch of one (keras-5242), by device."""
    rows = stored.chosen(external.benchmarks(), name="keras-5242").set_index("device")
    return exact((rows["seconds_per_epoch"] / rows["length"]).to_dict(), ".0f", 1e6, "µs")


def document() -> pd.DataFrame:
    """S4's figures, with seconds a step (step_s) where its rows are told."""
    figures = original.read("s4-lstm")
    return figures.assign(step_s=figures["epoch_s"] * figures["batch"] / figures["rows"])


def fused_line() -> dict[str, float]:
    """The line of the answer's fused layer over the batch: F, s a step, and c, s a sample (formula.BATCH_LINE)."""
    two = document().query("layer == 'CuDNNLSTM'").dropna(subset="rows")
    solution = formula.solve(formula.BATCH_LINE.design(two), two["step_s"].to_numpy(float))
    return dict(zip(formula.BATCH_LINE.terms, solution.tolist(), strict=True))


def loop_line() -> dict[str, float]:
    """What the same answer's loop took at its one batch, and would take at the fused layer's larger one.

    A row is taken to cost the loop what it costs the fused kernel. step_s: a step, s; fixed: the share of it that no
    row pays; epoch_s: an epoch with the larger batch, s; gain: times shorter that is than the epoch measured.
    """
    rows, line = document().dropna(subset="rows"), fused_line()
    loop, fused = stored.row(rows, layer="LSTM"), rows[rows["layer"] == "CuDNNLSTM"].nlargest(1, "batch").iloc[0]
    rest = loop["step_s"] - loop["batch"] * line["c"]
    epoch_s = (rest + fused["batch"] * line["c"]) * fused["rows"] / fused["batch"]
    found = {"step_s": loop["step_s"], "fixed": rest / loop["step_s"]}
    return found | {"epoch_s": epoch_s, "gain": loop["epoch_s"] / epoch_s}


# What the page shows

# Of the published implementations those that the page shows: framework as published -> as a reader sees it.
PUBLISHED = {"Keras 2.1.6 on TensorFlow 1.8": "Keras 2", "PyTorch 0.4.0": "PyTorch 0.4"}
OURS = {TORCH: ("Keras 3, torch", "loop"), JAX: ("Keras 3, JAX", "compiled")}  # stack -> framework, what its loop is


def implementations(book: Measurements) -> pd.DataFrame:
    """What a further time step of few sequences costs, a framework's loop and then cuDNN: on our card, between two
    lengths; as published of a GTX 1080, a whole step of 1,000 time steps divided by them.

    Columns device, framework, layer, way (of plots.bars.LAUNCHES), length (the longest, time steps), position_s and,
    of ours, low and high, s.
    """
    theirs = external.lstm_implementations().query(f"layer != 'LSTMCell-fused' and batch == {BATCHES[0]}")
    theirs = theirs.assign(framework=theirs["framework"].map(PUBLISHED)).dropna(subset="framework")
    ours = []
    for stack, (framework, loop) in OURS.items():
        for way, which in ((loop, (1, 0)), ("cuDNN", (0, 1))):
            cost, layer = card_positions(book, stack, *which)[BATCHES[0]], "cuDNN" if way == "cuDNN" else "loop"
            told = (book.card.removeprefix("NVIDIA "), framework, layer, way, LENGTHS[1])
            ours.append((*told, cost.value, cost.low, cost.high))
    columns = ["device", "framework", "layer", "way", "length", "position_s"]
    theirs = theirs.sort_values("framework", kind="stable")[columns]
    return pd.concat([pd.DataFrame(ours, columns=[*columns, "low", "high"]), theirs], ignore_index=True)


def answer_table(book: Measurements) -> HTML:
    """`implementations`, a row a GPU and framework, with how many times as long a whole step of the loop takes."""
    if on_card(book).empty:
        return page.nothing()
    whole = {
        framework: card_gains(book, stack)[at_size(stack, BATCHES[0], LENGTHS[1])]
        for stack, (framework, _) in OURS.items()
    }
    rows = []
    for (device, framework), pair in implementations(book).groupby(["device", "framework"], sort=False):
        loop, kernel = pair.to_dict("records")
        gain = whole.get(framework, f"{loop['position_s'] / kernel['position_s']:.1f}")
        rows.append([f"{device}, {framework}", _cost(loop), _cost(kernel), f"{loop['length']:,.0f}", str(gain)])
    further = "a further time step"
    heads = ["GPU, software", f"{further}, loop (µs)", f"{further}, cuDNN (µs)"]
    return page.table([*heads, "time steps", "whole step, loop / cuDNN"], rows)


def _cost(row: Mapping[str, Any]) -> str:
    """What a time step costs, µs; its upper end where the interval reaches below nothing."""
    return f"at most {row['high'] * 1e6:.0f}" if row["low"] < 0 else f"{row['position_s'] * 1e6:.0f}"


def further_table(points: pd.DataFrame) -> HTML:
    """A run's steps with the fewest and the most time steps, and what a further one costs: a row a stack, way and
    batch. points: as `lstm_points` gives them.
    """
    if (ran := points.dropna(subset="step_s")).empty:
        return page.nothing()
    steps = ran.pivot_table("step_s", ["stack", "how", "batch"], "length", sort=False)
    few, many = min(steps), max(steps)
    table = pd.DataFrame({"few": steps[few], "many": steps[many]})
    table = table.assign(more=(table["many"] - table["few"]) / max(many - few, 1))
    return page.columns(
        table.reset_index(),
        stack="stack",
        how="way",
        batch=("batch", 1, ".0f"),
        few=(f"{few} time steps (ms)", 1e3, ",.1f"),
        many=(f"{many} time steps (ms)", 1e3, ",.1f"),
        more=(
            "a further time step (µs)",
            lambda row: f"{row['more'] * 1e6:,.0f}" if row["more"] > 0 else "lost in noise",
        ),
    )
