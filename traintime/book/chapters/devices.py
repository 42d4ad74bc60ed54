"""Chapter 9, CPU against GPU: what the 2017 post's figures say, rates, stored steps, cards of others."""

import contextlib
import functools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, external, original, page, stored
from traintime.book.chapters import question, vocabulary
from traintime.book.claims import Finding
from traintime.book.stored import ANY, Measurements
from traintime.book.values import Values, exact, quantity
from traintime.explain import formula, statistics
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import FLOAT, UPDATES

ROWS = 280_000  # the 2017 post's vocabulary
PARTS = {"a": "the overhead of a step", "b": "a row of the table", "c": "a sentence"}
FAVOURITE = make_point()  # the 2017 post's favourite configuration
S1_RATIO = 100  # S1: fetching from main memory, over computing, "about 100 times or more"
claim = claims.of_chapter("09")


# Where the speed-up of the 2017 post's GPU over its CPU ends, by the formula fitted to its tables


@functools.cache
def lead_by_term() -> Values:
    """The ratio of the two devices' coefficients, for each term of the formula."""
    fits = original.s0_fits()
    ratios = {name: formula.price_ratio(fits["CPU"], fits["GPU"], name) for name in fits["CPU"].coefficients}
    return Values(ratios, ".1f")


def claimed_lead(claim: str, name: str) -> float:
    """Where the 2017 post says that the speed-up ends: ("C2", "upper bound") is its guess, C7 derives others."""
    return float(original.read("s0-claims").set_index(["id", "name"])["value"][claim, name])


def document_step(device: str) -> float:
    """Seconds of a step of the 2017 post's at its favourite point, on its "CPU" or "GPU"."""
    cells = original.s0().query("sweep == 'vocabulary' and vocabulary == @ROWS").set_index("device")
    return float(cells["step_s"][device])


def fixed_shares() -> list[float]:
    """Share of the overhead in a step of the 2017 post's GPU, at its vocabularies in their order."""
    cells = original.s0().query("device == 'GPU' and sweep == 'vocabulary'").sort_values("vocabulary")
    parts = original.s0_fits()["GPU"].parts(cells)
    return (parts["a"] / parts.sum(axis=1)).tolist()


def fastest_first(book: Measurements, least: int = 1, **where: object) -> pd.DataFrame:
    """A machine's steps at the 2017 post's favourite point, a row a stack, in the order of their time.

    where: fields in which it differs; on the CPU without any. Raises KeyError where fewer than `least` ran.
    """
    ran = book.points(vocabulary=ROWS, **where).dropna(subset="step_s").sort_values("step_s")
    if len(ran) < least:
        raise KeyError(f"fewer than {least} ran")
    return ran


@quantity
def lead(book: Measurements) -> Values:
    """The GPU's largest speed-up: of the 2017 post at any size, as long as the formula holds, of a machine's own GPU
    at the favourite configuration.
    """
    if book.machine == original.FIGURES:
        return Values({"": lead_by_term().most}, ".1f")
    fastest = [fastest_first(book).head(1), fastest_first(book, device="gpu", kernel=ANY).head(1)]
    return Values({"": book.interval(lambda s: s[0] / s[1], pd.concat(fastest))}, ".1f")


claim(
    1,
    "The GPU's speed-up stays below the guessed 20, whether the vocabulary grows, the batch, or both.",
    lambda book: lead(book) < claimed_lead("C2", "upper bound"),
    source="ours, against S0, C2",
    says="not measured",
)


# Two speeds of a machine, two kinds of work


@dataclass(frozen=True)
class Device:
    """A roof: name, "CPU" or "GPU", float32 operations and bytes of memory a second, and the data sheet's bytes."""

    name: str
    device: str
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
        """Time to move one float32 number over the time of an operation."""
        return FLOAT * self.ridge


@functools.cache
def k40m() -> Device:
    """The 2017 post's GPU: arithmetic by its data sheet, memory as it was measured."""
    figures = external.hardware("K40m")
    return Device("K40m", "GPU", figures["float32 peak"], figures["bandwidth measured"], figures["bandwidth peak"])


def processor(book: Measurements) -> Device:
    """A machine's CPU by its own measured rates, the 2017 post's GPU where the 2017 post's figures are judged.

    Raises KeyError where nobody measured them.
    """
    if book.machine == original.FIGURES:
        return k40m()
    return Device(book.title, "CPU", book.rates["matmul_flop_per_s"], book.rates["bandwidth_bytes_per_s"])


def roofs(devices: list[Device]) -> pd.DataFrame:
    """The devices as plots.roofline takes them: their fields, and the column `ridge`."""
    return pd.DataFrame([vars(device) | {"ridge": device.ridge} for device in devices])


def works() -> pd.Series:
    """Intensities (FLOP a byte) of the two kinds of work in a step, at the 2017 post's point."""
    update = FAVOURITE.work.update_flops / FAVOURITE.work.update_bytes
    products = FAVOURITE.work.flops / FAVOURITE.work.product_bytes
    return pd.Series({"dense Adam update": update, "LSTM's matmuls": products})


def rates_reached(book: Measurements) -> dict[str, Interval]:
    """FLOP/s in the two kinds of work, "update" and "products".

    Of a machine its fastest stack in each: by the cost of a row, and by a whole step with a frozen table. Of S0
    its GPU's, all of b and of c counted as theirs; the interval holds the rounding of its figures. Raises
    KeyError where one was not measured.
    """
    row_flops, flops = UPDATES["adam"].flops * FAVOURITE.sizes.embedding, FAVOURITE.work.flops
    if book.machine == original.FIGURES:
        gpu, work = original.s0_fits()["GPU"], {"b": row_flops, "c": make_point(batch=1).work.flops}
        rates = (
            statistics.central(each / gpu.draws[term], each / gpu.coefficients[term]) for term, each in work.items()
        )
        return dict(zip(("update", "products"), rates, strict=True))
    row = Values(vocabulary.price_of_a_row(book, vocabulary.by_vocabulary(book))).least
    frozen = fastest_first(book, frozen=True).head(1)
    # A longer time is a lower rate.
    update = Interval(*(row_flops / seconds for seconds in (row.value, row.high, row.low)))
    return {"update": update, "products": book.interval(lambda s: flops / s[0], frozen)}


@quantity
def shares_of_the_roof(book: Measurements) -> Values:
    """What `rates_reached` gives, as shares of what the device allows at the work's intensity."""
    device = processor(book)
    pairs = zip(rates_reached(book).items(), works(), strict=True)
    return Values({name: rate.scaled(1 / device.roof(intensity)) for (name, rate), intensity in pairs}, ".0%")


def roofline_marks(book: Measurements) -> pd.DataFrame:
    """As plots.roofline takes them: the 2017 post's GPU, and the machine's fastest stacks where they were measured."""
    rows = [("GPU", "document", rate.value) for rate in rates_reached(question.document()).values()]
    with contextlib.suppress(KeyError):
        rows += [("CPU", "stored", rate.value) for rate in rates_reached(book).values()]
    table = pd.DataFrame(rows, columns=["device", "source", "flop_per_s"])
    return table.assign(flop_per_byte=np.resize(works().to_numpy(), len(table)))


@quantity
def operand_time(book: Measurements) -> Values:
    """Device.operand of a machine, between the extremes of all repeats of its rates; the K40m's for the 2017 post."""
    if book.machine == original.FIGURES:
        return exact({"": k40m().operand}, ".0f")
    flops, moved = book.rates["matmul_repeats"], book.rates["bandwidth_repeats"]
    ends = (FLOAT * min(flops) / max(moved), FLOAT * max(flops) / min(moved))
    return Values({"": Interval(processor(book).operand, *ends)}, ".0f")


def document_cpu_bytes() -> float:
    """Bytes a second that the 2017 post's CPU moved for Adam, counted at the least."""
    return UPDATES["adam"].bytes * FAVOURITE.sizes.embedding / original.s0_fits()["CPU"].coefficients["b"]


def s4_speed_ups() -> tuple[float, float]:
    """Times a GPU was as fast as a CPU in document S4: on a plain LSTM, and on cuDNN's."""
    epochs = original.read("s4-lstm").query("case == 'kaggle'").set_index(["device", "layer"])["epoch_s"]
    return epochs["CPU", "LSTM"] / epochs["GPU", "LSTM"], epochs["CPU", "LSTM"] / epochs["GPU", "CuDNNLSTM"]


def kernel_turns_it_round(book: Measurements) -> Finding:
    """Whether the GPU is slower with a plain LSTM and faster with cuDNN's."""
    if book.machine == original.FIGURES:
        plain, cudnn = s4_speed_ups()
        return Finding(plain < 1 < cudnn, f"S4's own: {plain:.1f} and {cudnn:.0f}")
    least = fastest_first(book, device="gpu", kernel=["loop-of-cells", "cudnn"]).groupby("kernel")["step_s"].min()
    plain, cudnn = (fastest_first(book)["step_s"].iloc[0] / least[kernel] for kernel in ("loop-of-cells", "cudnn"))
    return Finding(plain < 1 < cudnn, f"{plain:.1f} and {cudnn:.1f}")


claim(
    5,
    "With a plain LSTM a GPU is slower than the CPU, with cuDNN's it is faster (figures: times as fast).",
    kernel_turns_it_round,
    source="S4",
    says="not measured",
)
claim(
    8,
    "Fetching a number from main memory takes 100 times as long as computing with it, or more.",
    lambda book: operand_time(book) > S1_RATIO,
    source="S1",
    says="does not hold",
)


def hardware_table(book: Measurements) -> HTML:
    """A K40m against a machine's CPU: the ratio of their rates, the share of it that software reaches on each, and what
    that leaves of the ratio.
    """
    card, ours = k40m(), processor(book)
    theirs, here = shares_of_the_roof(question.document()), shares_of_the_roof(book)
    ratios = {"update": card.byte_per_s / ours.byte_per_s, "products": card.flop_per_s / ours.flop_per_s}
    rows = []
    for work, (name, ratio) in zip(works().index, ratios.items(), strict=True):
        left = ratio * theirs[name].value / here[name].value
        rows.append([work, f"{ratio:.1f}", theirs[name].alone, str(here[name]), f"{left:.1f}"])
    heads = ["work", f"rates: K40m / {book.title}", "reached on the K40m", f"reached on {book.title}", "times faster"]
    return page.table(heads, rows)


# The same step on our machines


def same_step(book: Measurements) -> pd.DataFrame:
    """The 2017 post's favourite point on each CPU stack, and on the GPUs of every machine, named by card and kernel."""
    frames = [book.points(vocabulary=ROWS), on_gpus()]
    return pd.concat([frame for frame in frames if len(frame)], ignore_index=True)


KERNELS = {"cudnn": ", cuDNN", "loop-of-cells": ", loop of cells"}


def on_gpus() -> pd.DataFrame:
    """The point on every stored GPU, the stack named with its card and the kernel of its LSTM."""
    points = stored.on_gpus(vocabulary=ROWS)
    cards = {name: stored.of(name).card for name in set(points["machine"])}
    names = [f"{row.stack}, {cards[row.machine]}{KERNELS.get(row.kernel, '')}" for row in points.itertuples()]
    return points.assign(stack=names)


@quantity
def over_the_gpu(book: Measurements) -> Values:
    """A step of the machine's fastest stack over that of the 2017 post's GPU."""
    fastest = fastest_first(book, 2).head(1)
    return Values({fastest["stack"].iloc[0]: book.interval(lambda s: s[0] / document_step("GPU"), fastest)}, ".1f")


@quantity
def slowest_over_fastest(book: Measurements) -> Values:
    """A step of the slowest stack, which is named, over that of the fastest, as the figure of steps shows them."""
    ends = fastest_first(book, 2).iloc[[0, -1]]
    return Values({ends["stack"].iloc[-1]: book.interval(lambda s: s[1] / s[0], ends)}, ".1f")


claim(
    9,
    "At the 2017 post's 280,000 rows and batch 100 no stack on this CPU is as fast as the post's GPU (figure: step of "
    "the fastest, divided by the GPU's).",
    lambda book: over_the_gpu(book) > 1,
)


# The same layers on other people's cards

TITAN = "TitanX-Maxwell"  # the oldest card on which cuDNN was timed, as data/external/hardware.csv names it


@functools.cache
def layers() -> pd.DataFrame:
    """cuDNN's LSTM in 22 sizes on five cards: rows of external.cudnn_lstm, with arithmetic_s, the seconds that the data
    sheets allow for the recurrent matmuls of all three passes, of_peak, that share of a step, and speed_up over the
    oldest card, the Titan X of 2015.
    """
    rows, sizes = external.cudnn_lstm(), ["units", "batch", "length"]
    peaks = {name: external.hardware(name)["float32 peak"] for name in rows["device"].unique()}
    flops = 3 * 8 * rows["units"] ** 2 * rows["length"] * rows["batch"]  # four gates, two operations a weight
    oldest = stored.chosen(rows, device=TITAN).set_index(sizes)["step_s"]
    before = oldest.loc[pd.MultiIndex.from_frame(rows[sizes])].to_numpy()
    rows = rows.assign(arithmetic_s=flops / rows["device"].map(peaks), speed_up=before / rows["step_s"])
    return rows.assign(of_peak=rows["arithmetic_s"] / rows["step_s"])


def newer_cards() -> pd.DataFrame:
    """`layers` without the oldest card."""
    return layers().query("device != @TITAN")


def sheets() -> pd.DataFrame:
    """What the data sheets say of these cards, relative to the oldest: index device, columns arithmetic, bandwidth."""
    figures = {"arithmetic": "float32 peak", "bandwidth": "bandwidth peak"}
    oldest = external.hardware(TITAN)
    cards = {name: external.hardware(name) for name in newer_cards()["device"].unique()}
    rows = {name: {what: card[one] / oldest[one] for what, one in figures.items()} for name, card in cards.items()}
    return pd.DataFrame(rows).T


# What the page shows


def own_gpu(book: Measurements) -> str:
    """A sentence about our own GPUs."""
    ran = on_gpus().dropna(subset="step_s").sort_values("step_s")
    if ran.empty:
        return "No GPU of ours has run this configuration yet."
    best, fastest = ran.iloc[0], fastest_first(book, 2).iloc[0]
    return (
        f"Our own GPU ({best['stack']}) is {document_step('GPU') / best['step_s']:.0f} times faster than the K40m, and "
        f"{fastest['step_s'] / best['step_s']:.0f} times faster than the fastest stack of {book.title}."
    )


def limit_table() -> HTML:
    """The ratio of the devices' coefficients."""
    rows = [[f"*{name}*", PARTS[name], lead.alone, lead.ends] for name, lead in lead_by_term().items()]
    return page.table(["", "time for", "CPU / GPU", "95 % interval"], rows, right=False)


def seen_leads() -> list[float]:
    """How many times faster the 2017 post's GPU is than its CPU, at its vocabularies in their order."""
    steps = original.s0().query("sweep == 'vocabulary'").pivot_table("step_s", "vocabulary", "device")
    # The last, 57 / 4, is 14.25 exactly, which would be rounded to an even digit.
    return list(steps["CPU"] / steps["GPU"] + 1e-9)
