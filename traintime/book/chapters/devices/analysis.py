"""CPU against GPU: what the documents' figures, the rates of a machine and its stored steps say of a speed-up."""

import contextlib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from traintime.book import external, original, stored
from traintime.book.chapters import vocabulary
from traintime.book.stored import Measurements
from traintime.explain import formula
from traintime.explain.formula import Fit
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import FLOAT, UPDATE_BYTES, UPDATE_FLOPS

ROWS = 280_000  # the document's vocabulary
NOT_YET = "not measured yet"


# The document's speed-up


def limits(cpu: Fit, gpu: Fit) -> dict[str, Interval]:
    """The ratio of the two devices' coefficients, for each term of the formula."""
    return {
        name: formula.interval(cpu.draws[name] / gpu.draws[name], cpu.coefficients[name] / gpu.coefficients[name])
        for name in cpu.coefficients
    }


def largest(cpu: Fit, gpu: Fit) -> Interval:
    """The largest of the ratios: no step of any size has a larger speed-up, as long as the formula holds."""
    value = max(cpu.coefficients[name] / gpu.coefficients[name] for name in cpu.coefficients)
    return formula.interval((cpu.draws / gpu.draws).max(axis=1), value)


def guess() -> float:
    """Where the document guesses that the lead ends (claim C2)."""
    return float(original.read("s0-claims").set_index(["id", "name"])["value"]["C2", "upper bound"])


def fixed_shares(gpu: Fit) -> list[float]:
    """Share of the fixed part in a step of the GPU, at the document's vocabularies in their order."""
    cells = original.s0().query("device == 'GPU' and sweep == 'vocabulary'").sort_values("vocabulary")
    parts = gpu.parts(cells)
    return (parts["a"] / parts.sum(axis=1)).tolist()


def s4_speed_ups() -> tuple[float, float]:
    """Times a GPU was as fast as a CPU in document S4: on a plain LSTM, and on cuDNN's."""
    epochs = original.read("s4-lstm").query("case == 'kaggle'").set_index(["device", "layer"])["epoch_s"]
    return epochs["CPU", "LSTM"] / epochs["GPU", "LSTM"], epochs["CPU", "LSTM"] / epochs["GPU", "CuDNNLSTM"]


# Rates of a machine


@dataclass(frozen=True)
class Device:
    """A roof: name, "CPU" or "GPU", float32 operations and bytes of memory a second, and the data sheet's bytes."""

    name: str
    kind: str
    flop_per_s: float
    byte_per_s: float
    peak_byte_per_s: float = float("nan")

    @property
    def ridge(self) -> float:
        """The intensity (FLOP a byte) from which on arithmetic binds."""
        return self.flop_per_s / self.byte_per_s

    def roof(self, intensity: float) -> float:
        """FLOP/s that it allows at an intensity."""
        return min(self.flop_per_s, intensity * self.byte_per_s)

    @property
    def operand(self) -> float:
        """Time to move one float32 number over the time of one operation."""
        return FLOAT * self.ridge


def k40m() -> Device:
    """The document's GPU: arithmetic by its data sheet, memory as it was measured."""
    figures = external.hardware("K40m")
    return Device("K40m", "GPU", figures["float32 peak"], figures["bandwidth measured"], figures["bandwidth peak"])


def machine(book: Measurements) -> Device:
    """A machine by its own measured rates. Raises KeyError where nobody measured them."""
    known, rates = book.description, book.rates
    name = f"{known['cpu']}, {known['cores']} cores"
    return Device(name, "CPU", rates["matmul_flop_per_s"], rates["bandwidth_bytes_per_s"])


def operand(book: Measurements) -> Interval:
    """Device.operand of a machine, between the extremes of all repeats of its rates."""
    rates = book.rates
    flops, moved = rates["matmul_repeats"], rates["bandwidth_repeats"]
    value = FLOAT * rates["matmul_flop_per_s"] / rates["bandwidth_bytes_per_s"]
    return Interval(value, FLOAT * min(flops) / max(moved), FLOAT * max(flops) / min(moved))


def roofs(devices: list[Device]) -> pd.DataFrame:
    """As plots.roofline takes them, with the column `ridge`."""
    columns = {"name": "name", "kind": "device", "flop_per_s": "flop_per_s", "byte_per_s": "byte_per_s"}
    columns |= {"peak_byte_per_s": "peak_byte_per_s", "ridge": "ridge"}
    return pd.DataFrame([{to: getattr(device, name) for name, to in columns.items()} for device in devices])


def works() -> pd.Series:
    """Intensities (FLOP a byte) of the two kinds of work in a step, at the document's point."""
    work = make_point().work
    return pd.Series(
        {
            "dense Adam update": work.update_flops / work.update_bytes,
            "LSTM's matrix products": work.flops / work.product_bytes,
        }
    )


def seen_on_gpu(gpu: Fit) -> tuple[float, float]:
    """FLOP/s of the document's GPU in the update and in the matrix products, all of b and of c counted as theirs."""
    sentence = make_point(batch=1).work.flops
    row = UPDATE_FLOPS["adam"] * make_point().sizes.embedding
    return row / gpu.coefficients["b"], sentence / gpu.coefficients["c"]


def seen_on(book: Measurements) -> tuple[Interval, Interval]:
    """FLOP/s of a machine's fastest stack in the update (price of a row), and with a frozen table (whole step).

    Raises KeyError where one of them was not measured.
    """
    prices = vocabulary.price_of_a_row(book, vocabulary.by_vocabulary(book))
    frozen = book.points(vocabulary=ROWS, frozen=True).dropna(subset="step_s")
    if not prices or frozen.empty:
        raise KeyError("no price of a row, or no step with a frozen table")
    row = min(prices.values(), key=lambda price: price.value)
    step = frozen.loc[frozen["step_s"].idxmin()]
    update = UPDATE_FLOPS["adam"] * make_point().sizes.embedding
    # A longer time is a lower rate.
    return (
        Interval(update / row.value, update / row.high, update / row.low),
        Interval(*(make_point().work.flops / step[name] for name in ("step_s", "high_s", "low_s"))),
    )


def rates_seen(book: Measurements, gpu: Fit) -> pd.DataFrame:
    """As plots.roofline takes them: the document's GPU, and the machine's fastest stacks where they were measured."""
    rows = [("GPU", "document", each) for each in seen_on_gpu(gpu)]
    with contextlib.suppress(KeyError):
        rows += [("CPU", "stored", each.value) for each in seen_on(book)]
    table = pd.DataFrame(rows, columns=["device", "source", "flop_per_s"])
    return table.assign(flop_per_byte=np.resize(works().to_numpy(), len(table)))


def document_cpu_bytes(cpu: Fit) -> float:
    """Bytes a second that the document's CPU moved for Adam, counted at the least."""
    return UPDATE_BYTES["adam"] * make_point().sizes.embedding / cpu.coefficients["b"]


# The same step on our machines


def document_step(device: str) -> float:
    """Seconds of a step of the document's at its favourite point."""
    cells = original.s0().query("sweep == 'vocabulary' and vocabulary == @ROWS").set_index("device")
    return float(cells["step_s"][device])


def same_step(book: Measurements) -> pd.DataFrame:
    """The document's favourite point on each CPU stack, and on the GPUs of every machine, named by card and kernel."""
    frames = [book.points(vocabulary=ROWS), on_gpus()]
    return pd.concat([frame for frame in frames if len(frame)], ignore_index=True)


KERNELS = {"cudnn": ", cuDNN", "loop-of-cells": ", loop of cells"}


def on_gpus() -> pd.DataFrame:
    """The point on every stored GPU, the stack named with its card and the kernel of its LSTM."""
    found = stored.on_gpus(vocabulary=ROWS)
    cards = {name: stored.described(name)["gpus"][0]["name"] for name in set(found["machine"])}
    names = [f"{row.stack}, {cards[row.machine]}{KERNELS.get(row.kernel, '')}" for row in found.itertuples()]
    return found.assign(stack=names)


def ends(book: Measurements) -> tuple[pd.Series, pd.Series]:
    """The fastest and the slowest CPU stack at the point. Raises KeyError without two."""
    ran = book.points(vocabulary=ROWS).dropna(subset="step_s").sort_values("step_s")
    if len(ran) < 2:
        raise KeyError("fewer than two stacks")
    return ran.iloc[0], ran.iloc[-1]
