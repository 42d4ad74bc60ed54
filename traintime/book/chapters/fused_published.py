"""Chapter 8, other people's stopwatches: what a time step of a loop and of a fused kernel took them on a GPU.

All of it follows from one formula (a per-step overhead, a time step, a token), and needs no measurement of ours.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import sympy

from traintime.book import claims, external, original, stored
from traintime.book.claims import Finding, Judge
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula
from traintime.explain.formula import Formula
from traintime.point import make_point
from traintime.predict.prices import REACHED

LSTM: dict[str, Any] = {"workload": "lstm", "batch": ANY, "length": ANY, "units": ANY, "inputs": ANY}
LOOP = "loop"  # Keras' own, as a reader sees it
KERNELS = {"loop-of-cells": "loop of cells", "cudnn": "cuDNN's kernel"}  # on a GPU that is told which
# A per-step overhead, each time step that waits for the one before, each token of the batch.
POSITIONS = Formula({"a": sympy.Integer(1), "l": formula.L, "c": formula.B * formula.L})
CARD, PROCESSOR = "GTX1050Ti", "i7-7700"  # the document's, as data/external/hardware.csv names them
KERAS, PYTORCH = "Keras 2.1.6 on TensorFlow 1.8", "PyTorch 0.4.0"  # on the GTX 1080
TITAN, SMALL, LARGE = "TitanX-Maxwell", 128, 1024  # the card of rnn-benchmarks, and the units of its two networks


# The machine that the chapter shows


@functools.cache
def lstm_machine() -> Measurements:
    """The machine that the chapter shows: the first of the book's that measured the LSTM."""
    return stored.having(stored.of(), lambda book: book.points(workload="lstm", batch=32, length=50))


claim = functools.partial(claims.claim, on=lstm_machine)


def claim_once(label: str, sentence: str, **said: Any) -> Callable[[Callable[[], Finding]], Judge]:
    """A claim of trials, which are of no machine: the one that the chapter shows has its verdict, no other is a
    witness.
    """

    def register(judge: Callable[[], Finding]) -> Judge:
        return claim(label, sentence, **said)(lambda book: judge() if book.machine == lstm_machine().machine else None)

    return register


# What a time step took others


@functools.cache
def published() -> pd.DataFrame:
    """What a time step took in the LSTMs of others, whole steps over their positions: columns as external.benchmarks
    gives them, and step_s and position_s, s.
    """
    benchmarks = external.benchmarks().dropna(subset="length")
    whole = benchmarks["seconds_per_epoch"] * benchmarks["batch"] / benchmarks["samples"]
    step = whole.fillna(benchmarks["seconds_per_sample"] * benchmarks["batch"])
    return benchmarks.assign(step_s=step, position_s=step / benchmarks["length"])


def titan() -> pd.DataFrame:
    """Microseconds a time step of the Titan X's networks of 128 units: a row a framework, a column a batch."""
    rows = published().query(f"name == 'rnn-benchmarks' and units == {SMALL}")
    return rows.pivot_table("position_s", "framework", "batch") * 1e6


def gtx() -> pd.DataFrame:
    """Seconds per time step on the GTX 1080: a row an implementation (framework, layer), a column a batch."""
    rows = external.lstm_implementations()
    return rows.pivot_table("position_s", ["framework", "layer"], "batch", sort=False)


def gtx_gain(framework: str, loop: str, kernel: str) -> "pd.Series[float]":
    """How many times faster than a loop of this framework its layer with cuDNN's kernel is, by batch."""
    rows = gtx().loc[framework]
    return rows.loc[loop] / rows.loc[kernel]


@claims.claim_without_machine(
    "08.24",
    "On a GTX 1080 a time step of each of three loops takes as long with 64 sequences of 100 time steps as with 32 of "
    "1,000, within 10 %.",
)
def loops_ignore_the_batch() -> Finding:
    loops = external.lstm_implementations().query("way == 'loop'").set_index(["framework", "layer"]).index.unique()
    ratios = gtx()[64].div(gtx()[32]).loc[loops]
    return Finding(bool(ratios.between(0.9, 1.1).all()), f"{ratios.min():.2f} to {ratios.max():.2f} times as long")


def document() -> pd.DataFrame:
    """S4's figures, with seconds a step (step_s) where its rows are told."""
    figures = original.read("s4-lstm")
    return figures.assign(step_s=figures["epoch_s"] * figures["batch"] / figures["rows"])


def fused_line() -> dict[str, float]:
    """The line of the Stack Overflow question's fused layer over the batch: F, s a step, and c, s a sample
    (formula.BATCH_LINE).
    """
    two = document().query("layer == 'CuDNNLSTM'").dropna(subset="rows")
    solution = formula.solve(formula.BATCH_LINE.design(two), two["step_s"].to_numpy(float))
    return dict(zip(formula.BATCH_LINE.terms, solution.tolist(), strict=True))


def loop_line() -> dict[str, float]:
    """What the same question's loop took at its one batch, and would take at the fused layer's larger one.

    A row is taken to cost the loop what it costs the fused kernel. step_s: a step, s; fixed: the share of it that no
    row pays; epoch_s: an epoch with the larger batch, s; gain: times shorter that is than the epoch measured.
    """
    rows, line = document().dropna(subset="rows"), fused_line()
    loop, fused = stored.row(rows, layer="LSTM"), rows[rows["layer"] == "CuDNNLSTM"].nlargest(1, "batch").iloc[0]
    rest = loop["step_s"] - loop["batch"] * line["c"]
    epoch_s = (rest + fused["batch"] * line["c"]) * fused["rows"] / fused["batch"]
    return {
        "step_s": loop["step_s"],
        "fixed": rest / loop["step_s"],
        "epoch_s": epoch_s,
        "gain": loop["epoch_s"] / epoch_s,
    }


def p100_ratio() -> float:
    """How many times shorter the same answer's epoch was with the fused layer than with the loop, at one batch."""
    first = document().dropna(subset="rows").groupby("layer")["epoch_s"].first()
    return float(first["LSTM"] / first["CuDNNLSTM"])


def minutes() -> "pd.Series[float]":
    """Minutes that the Stack Overflow question's epochs took, by device and layer."""
    return document().query("case == 'kaggle'").set_index(["device", "layer"])["epoch_s"] / 60


def reached_rate(device: str) -> float:
    """Float32 operations a second that programs reach on a device: a share of its data sheet's."""
    return external.hardware(device)["float32 peak"] * REACHED["float32 peak"]


def operations_of(inputs: int, units: int) -> float:
    """Float32 operations of one token: what one more time step of a batch of one adds to a step."""
    short, long = (make_point("lstm", inputs=inputs, units=units, batch=1, length=n).work.flops for n in (1, 2))
    return long - short


# Why the question's card lost: one unknown from one ratio, so the page does not lean on it


def lost() -> dict[str, float]:
    """The arithmetic that makes the Stack Overflow question's card lose by as much as it did, and what follows from it.

    A time step of the loop takes l + w / r on each device: l as others measured it with a batch of one (keras-5242), w
    operations, r the data sheet's rate. Which w makes the card's time `slower` times the processor's? How much of a
    peak programs reach cancels out as long as it is the same share on both.

    gpu_s, cpu_s: of a loop's time step with nothing to compute in it, s; slower: times as long on the card as on the
    processor, the Stack Overflow question's; arithmetic_s: of the time step's operations on the card, s; batch: that
    has them with 128 units; fused: times as fast a kernel is that pays for the arithmetic alone; level: times the batch
    at which the loop on the card draws level with the processor.
    """
    alone = published().set_index(["name", "device"])["position_s"]["keras-5242"]
    gpu_s, cpu_s = float(alone["GTX 1060"]), float(alone["Core i7-2600K"])
    card, processor = reached_rate(CARD), reached_rate(PROCESSOR)
    slower = float(minutes()["GPU", "LSTM"] / minutes()["CPU", "LSTM"])
    # gpu_s + w / card = slower * (cpu_s + w / processor)
    w = (gpu_s - slower * cpu_s) / (slower / processor - 1 / card)
    follows = {"arithmetic_s": w / card, "batch": w / operations_of(SMALL, SMALL), "fused": 1 + gpu_s / (w / card)}
    level = (gpu_s - cpu_s) / (1 / processor - 1 / card) / w
    return {"gpu_s": gpu_s, "cpu_s": cpu_s, "slower": slower, **follows, "level": level}


def fused_gain() -> float:
    """How many times as fast the Stack Overflow question's CuDNNLSTM was as its loop on the same card."""
    return float(minutes()["GPU", "LSTM"] / minutes()["GPU", "CuDNNLSTM"])


@claims.claim_without_machine(
    "08.22",
    "The arithmetic that makes the question's card lose to its processor by as much as it did, with a cost per time "
    "step that others measured and two data sheets, predicts within half how many times faster CuDNNLSTM is.",
    source="S4",
)
def kernel_foretold() -> Finding:
    holds = abs(lost()["fused"] / fused_gain() - 1) < 0.5
    return Finding(holds, f"{lost()['fused']:.0f} times predicted, {fused_gain():.0f} reported")


# The larger network


def larger_over_predicted() -> "pd.Series[float]":
    """Steps of the Titan X's networks of 1,024 units over what those of 128 and a data sheet predict, by framework and
    batch.

    A time step is taken to cost what it does with 128 units and 32 samples, less the arithmetic in it, which the larger
    network replaces by its own.
    """
    rate = reached_rate(TITAN)
    overhead_s = titan()[32] / 1e6 - 32 * operations_of(SMALL, SMALL) / rate
    large = published().query(f"name == 'rnn-benchmarks' and units == {LARGE}").set_index(["framework", "batch"])
    batches = large.index.get_level_values("batch")
    position_s = (
        large.index.get_level_values("framework").map(overhead_s) + batches * operations_of(LARGE, LARGE) / rate
    )
    return large["step_s"] / (large["length"] * position_s)


@claims.claim_without_machine(
    "08.23",
    "The Titan X's networks of 1,024 units take 0.5 to 2 times what the time steps of 128 units and the data sheet's "
    "arithmetic predict.",
)
def larger_foretold() -> Finding:
    ratios = larger_over_predicted()
    return Finding(bool(ratios.between(0.5, 2).all()), f"took {ratios.min():.1f} to {ratios.max():.1f} times as long")


# cuDNN's kernel on cards of others: what it pays per time step, fitted on some cards and tested on another

COSTS = ["length", "weights_s", "arithmetic_s"]  # per time step, per weight that is read, per operation


@functools.cache
def cards() -> pd.DataFrame:
    """cuDNN's LSTM on five cards: rows of external.cudnn_lstm, and what the data sheets allow for each.

    weights_s: seconds in which the recurrent weights are read at each time step, forward and backward; arithmetic_s:
    those of the recurrent matmuls of all three passes.
    """
    rows = external.cudnn_lstm()
    sheets = {name: external.hardware(name) for name in rows["device"].unique()}
    rate, bandwidth = (
        rows["device"].map({name: sheet[figure] for name, sheet in sheets.items()})
        for figure in ("float32 peak", "bandwidth peak")
    )
    squared = rows["units"] ** 2 * rows["length"]  # four gates of units x units: 16 bytes and 8 operations for each
    weights_s, arithmetic_s = 2 * 16 * squared / bandwidth, 3 * 8 * squared * rows["batch"] / rate
    return rows.assign(weights_s=weights_s, arithmetic_s=arithmetic_s)


def kernel_costs(rows: pd.DataFrame) -> "pd.Series[float]":
    """Three non-negative costs, fitted to cards' rows in relative error: seconds per time step, and how many times the
    data sheet's seconds the weights and the arithmetic take.
    """
    solution = formula.solve(rows[COSTS].to_numpy(), rows["step_s"].to_numpy())
    return pd.Series(solution, COSTS)


@functools.cache
def left_out() -> "pd.Series[float]":
    """Each card's times as costs fitted to the other four predict them: the median factor between predicted and
    measured (1.3: too high or too low by 1.3), by card.
    """
    factors = {}
    for card, rows in cards().groupby("device", sort=False):
        predicted = rows[COSTS] @ kernel_costs(cards()[cards()["device"] != card])
        factors[card] = float(np.exp(np.log(predicted / rows["step_s"]).abs().median()))
    return pd.Series(factors)


@claims.claim_without_machine(
    "08.25",
    "Three costs of cuDNN's LSTM (per time step, the weights' traffic, the arithmetic), fitted to four cards, predict "
    "the fifth within a factor of 1.5 at the median, whichever card is left out.",
)
def kernels_of_other_cards() -> Finding:
    factors = left_out()
    return Finding(bool(factors.max() < 1.5), f"a factor of {factors.min():.2f} to {factors.max():.2f}")


# The numbers of the sentences


PROSE = Prose(
    "fus",
    s4_gain=lambda book: f"{fused_gain():.0f}",
    p100_fixed=lambda book: f"{fused_line()['F'] * 1e3:.0f} ms",
    p100_row=lambda book: f"{fused_line()['c'] * 1e6:.0f} µs",
    p100_loop=lambda book: f"{loop_line()['step_s']:.1f} s",
    p100_share=lambda book: f"{loop_line()['fixed']:.0%}",
    p100_epoch=lambda book: f"{loop_line()['epoch_s']:,.0f} s",
    p100_gain=lambda book: f"{loop_line()['gain']:.0f}",
    p100_ratio=lambda book: f"{p100_ratio():.0f}",
    gtx_loop=lambda book: f"{gtx().loc[KERAS, 'LSTM'][32] * 1e6:.0f} µs",
    gtx_loop_64=lambda book: f"{gtx().loc[KERAS, 'LSTM'][64] * 1e6:.0f} µs",
    gtx_kernel=lambda book: f"{gtx().loc[KERAS, 'CuDNNLSTM'][32] * 1e6:.0f} µs",
    gtx_least=lambda book: f"{gtx_gain(KERAS, 'LSTM', 'CuDNNLSTM').min():.0f}",
    gtx_most=lambda book: f"{gtx_gain(KERAS, 'LSTM', 'CuDNNLSTM').max():.0f}",
    torch_least=lambda book: f"{gtx_gain(PYTORCH, 'LSTMCell-basic', 'cuDNNLSTM').min():.1f}",
    torch_most=lambda book: f"{gtx_gain(PYTORCH, 'LSTMCell-basic', 'cuDNNLSTM').max():.1f}",
    kernel_position=lambda book: f"{kernel_costs(cards())['length'] * 1e6:.0f} µs",
    kernel_bound=lambda book: f"{gtx().loc[KERAS, 'LSTM'][32] / kernel_costs(cards())['length']:.0f}",
    kernel_low=lambda book: f"{left_out().min():.1f}",
    kernel_high=lambda book: f"{left_out().max():.1f}",
    pure_gpu=lambda book: f"{lost()['gpu_s'] * 1e6:.0f} µs",
    pure_cpu=lambda book: f"{lost()['cpu_s'] * 1e6:.0f} µs",
)
