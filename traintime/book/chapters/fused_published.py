"""Chapter 8, other people's stopwatches: what a time step took them, why the Stack Overflow question's card lost, and
GPUs.

All of it follows from one formula (a per-step overhead, a time step, a token). What is published needs no measurement
of ours; what stored GPUs measured, which people with a card send in, is compared with it.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import sympy
from IPython.display import HTML

from traintime.book import claims, external, original, page, stored
from traintime.book.claims import Finding, Judge
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula
from traintime.explain.formula import Fit, Formula
from traintime.point import make_point
from traintime.predict.prices import REACHED

LSTM: dict[str, Any] = {"workload": "lstm", "batch": ANY, "length": ANY, "units": ANY, "inputs": ANY}
LOOP = "loop"  # Keras' own, as a reader sees it
KERNELS = {"loop-of-cells": "loop of cells", "cudnn": "one kernel"}  # on a GPU that is told which
# A step as such, each position that waits for the one before, each token of the batch.
POSITIONS = Formula({"a": sympy.Integer(1), "l": formula.L, "c": formula.B * formula.L})
CARD, PROCESSOR = "GTX1050Ti", "i7-7700"  # the document's, as data/external/hardware.csv names them
TITAN, SMALL, LARGE = "TitanX-Maxwell", 128, 1024  # the card of rnn-benchmarks, and the units of its two networks


# The machine that the chapter shows


@functools.cache
def lstm_machine() -> Measurements:
    """The machine that the chapter shows: the first of the book's that measured the LSTM."""
    return stored.having(stored.of(), lambda book: book.points(workload="lstm", batch=32, length=50))


claim = functools.partial(claims.claim, on=lstm_machine)


def claim_once(label: str, sentence: str, **said: Any) -> Callable[[Callable[[], Finding]], Judge]:
    """A claim of what no machine measures: the one that the chapter shows has its verdict, no other is a witness."""

    def register(judge: Callable[[], Finding]) -> Judge:
        return claim(label, sentence, **said)(lambda book: judge() if book.machine == lstm_machine().machine else None)

    return register


# What a position took


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


def document() -> pd.DataFrame:
    """S4's figures, with seconds a step (step_s) where its rows are told."""
    figures = original.read("s4-lstm")
    return figures.assign(step_s=figures["epoch_s"] * figures["batch"] / figures["rows"])


def fused_line() -> dict[str, float]:
    """The line of the Stack Overflow question's fused layer over the batch: F, s a step, and c, s a sample
    (formula.BATCH_LINE).
    """
    two = document().query("layer == 'CuDNNLSTM'").dropna(subset="rows")
    solution = formula.solve(formula.BATCH_LINE, two, two["step_s"].to_numpy(float))
    return dict(zip(formula.BATCH_LINE.terms, solution.tolist(), strict=True))


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


# Why the document's card lost


def lost() -> dict[str, float]:
    """The arithmetic that makes the Stack Overflow question's card lose by as much as it did, and what follows from it.

    A time step of the loop takes l + w / r on each device: l as others measured it with a batch of one (keras-5242), w
    operations, r the data sheet's rate. Which w makes the card's time `slower` times the processor's? How much of a
    peak programs reach cancels out as long as it is the same share on both.

    gpu_s, cpu_s: of a loop's position with nothing to compute in it, s; slower: times as long on the card as on the
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


@claim_once(
    "08.22",
    "The arithmetic that makes the document's card lose to its processor by as much as it did, at a position's "
    "price that others measured and by two data sheets, foretells within half how many times as fast CuDNNLSTM is.",
    source="S4",
)
def kernel_foretold() -> Finding:
    holds = abs(lost()["fused"] / fused_gain() - 1) < 0.5
    return Finding(holds, f"{lost()['fused']:.0f} times foretold, {fused_gain():.0f} taken")


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


@claim_once(
    "08.23",
    "The Titan X's networks of 1,024 units take half to twice what the positions of 128 units and the data sheet's "
    "arithmetic make of them.",
)
def larger_foretold() -> Finding:
    ratios = larger_over_predicted()
    return Finding(bool(ratios.between(0.5, 2).all()), f"took {ratios.min():.1f} to {ratios.max():.1f} times as long")


# GPUs: a loop of cells beside cuDNN's one kernel


def gpu_points() -> pd.DataFrame:
    """The points of every stored machine's GPU in both ways, with `how` and `card`, what the GPU calls itself."""
    points = stored.on_gpus(**LSTM, algorithm=ANY, kernel=list(KERNELS))
    cards = {name: stored.described(name)["gpus"][0]["name"] for name in set(points["machine"])}
    return points.assign(how=points["kernel"].map(KERNELS), card=points["machine"].map(cards))


def gpu_pairs() -> pd.DataFrame:
    """Both ways side by side: card, stack, units, batch, length, loop_s, kernel_s and ratio, the loop's over the
    kernel's; only where both ran.
    """
    sizes = ["card", "stack", "units", "batch", "length"]
    points = gpu_points().reindex(columns=[*sizes, "how", "typical_s"])
    wide = points.pivot_table("typical_s", sizes, "how", aggfunc="first").reindex(columns=list(KERNELS.values()))
    both = wide.dropna().set_axis(["loop_s", "kernel_s"], axis=1).reset_index()
    return both.assign(ratio=both["loop_s"] / both["kernel_s"])


def gpu_prices() -> dict[tuple[str, ...], Fit]:
    """What a step, a time step and a token cost with 128 units: (card, stack, way) -> fit of POSITIONS."""
    fits = {}
    for (machine, card), points in gpu_points().groupby(["machine", "card"]):
        for key, fit in stored.of(machine).lines(points[points["units"] == 128], POSITIONS).items():
            fits[card, *key] = fit
    return fits


@claim(
    "08.5",
    "On a GPU cuDNN's kernel is more than five times as fast as a loop of cells.",
    source="S4",
    says="not measured",
)
def kernel_gains(book: Measurements) -> Finding | None:
    """All cards together, on whichever machine asks."""
    ratio = gpu_pairs()["ratio"]
    return Finding(bool(ratio.min() > 5), f"{ratio.min():.1f} to {ratio.max():.1f} times") if len(ratio) else None


# What the page shows


def published_table() -> HTML:
    """What others published, as time per time step."""
    rows = published()
    return page.columns(
        rows[rows["units"].isna() | (rows["units"] == SMALL)],
        device="device",
        software=("software, layer", lambda row: f"{row['framework']}, {row['layer']}"),
        batch=("batch", 1, ",.0f"),
        length=("positions", 1, ",.0f"),
        position_s=("µs a position", 1e6, ",.0f"),
    )


def label(*parts: str) -> str:
    """What is measured in a table's first column: "2026-torch, one operation", or the stack alone for its loop."""
    return ", ".join(part for part in parts if part != LOOP)


def price_table(fits: Mapping[tuple[str, ...], Fit], head: str = "under tcmalloc", digits: int = 0) -> HTML:
    """What a step, a time step and a token cost, and how far the formula is off. fits: of POSITIONS."""

    def price(term: str, more: int = 0) -> Callable[[pd.Series], str]:
        return lambda row: row["fit"].interval(term).text(f",.{digits + more}f", 1e6)

    return page.columns(
        pd.DataFrame([{"name": label(*key), "fit": fit} for key, fit in fits.items()]),
        name=head,
        step=("µs a step", price("a")),
        position=("µs a position", price("l")),
        token=("µs a token", price("c", 2)),
        error=("mean error", lambda row: f"{row['fit'].mean_error:.0%}"),
    )


def gpu_pair_table() -> HTML:
    """Milliseconds of a step in both ways."""
    return page.columns(
        gpu_pairs(),
        card="card",
        stack="stack",
        size=("units · batch · positions", lambda row: f"{row['units']:,} · {row['batch']:,} · {row['length']:,}"),
        loop_s=("loop (ms)", 1e3, ",.1f"),
        kernel_s=("one kernel (ms)", 1e3, ",.1f"),
        ratio=("times as fast", 1, ".1f"),
    )


def _unnamed_card() -> "pd.Series[float]":
    """Seconds a time step on the unnamed card, by layer."""
    return published().query("name == 'keras-8135' and batch == 300").set_index("layer")["position_s"]


PROSE = Prose(
    "fus",
    s4_cpu=lambda book: f"{minutes()['CPU', 'LSTM']:.0f}",
    s4_loop=lambda book: f"{minutes()['GPU', 'LSTM']:.0f}",
    s4_fused=lambda book: f"{minutes()['GPU', 'CuDNNLSTM']:.0f}",
    s4_fixed=lambda book: f"{fused_line()['F'] * 1e3:.0f}",
    s4_each=lambda book: f"{fused_line()['c'] * 1e6:.0f}",
    titan_low=lambda book: f"{(titan()[128] / titan()[32]).min():.1f}",
    titan_high=lambda book: f"{(titan()[128] / titan()[32]).max():.1f}",
    titan_least=lambda book: f"{titan()[32].min():.0f}",
    titan_most=lambda book: f"{titan()[32].max():.0f}",
    titan_off_low=lambda book: f"{larger_over_predicted().min():.1f}",
    titan_off_high=lambda book: f"{larger_over_predicted().max():.1f}",
    unnamed_more=lambda book: f"{(_unnamed_card()['LSTM'] - _unnamed_card()['CuDNNLSTM']) * 1e6:.0f}",
    pure_gpu=lambda book: f"{lost()['gpu_s'] * 1e6:.0f}",
    pure_cpu=lambda book: f"{lost()['cpu_s'] * 1e6:.0f}",
    lost_slower=lambda book: f"{lost()['slower']:.2f}",
    lost_arithmetic=lambda book: f"{lost()['arithmetic_s'] * 1e6:.0f}",
    lost_batch=lambda book: f"{lost()['batch']:.0f}",
    lost_fused=lambda book: f"{lost()['fused']:.0f}",
    lost_fused_took=lambda book: f"{fused_gain():.0f}",
    lost_level=lambda book: f"{lost()['level']:.0f}",
)
