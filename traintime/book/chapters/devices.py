"""Chapter 9, CPU against GPU: what the 2017 post's figures say, rates, stored steps, cards of others."""

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import external, original, page, stored
from traintime.book.chapters import fused_published, question, vocabulary
from traintime.book.chapters.leads import PARTS, ROWS, document_step, fastest_first, lead_by_term
from traintime.book.claims import Finding, above, below, claim, every_stack
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.explain import statistics
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import FLOAT, UPDATES

FAVOURITE = make_point()  # the 2017 post's favourite configuration
S1_RATIO = 100  # S1: fetching from main memory, over computing, "about 100 times or more"


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
    prices = vocabulary.price_of_a_row(book, vocabulary.by_vocabulary(book))
    row, frozen = prices[stored.smallest(prices)], fastest_first(book, frozen=True).head(1)
    # A longer time is a lower rate.
    update = Interval(*(row_flops / seconds for seconds in (row.value, row.high, row.low)))
    return {"update": update, "products": book.interval(lambda s: flops / s[0], frozen)}


def shares_of_the_roof(book: Measurements) -> dict[str, Interval]:
    """What `rates_reached` gives, as shares of what the device allows at the work's intensity."""
    device = processor(book)
    pairs = zip(rates_reached(book).items(), works(), strict=True)
    return {name: rate.scaled(1 / device.roof(intensity)) for (name, rate), intensity in pairs}


def roofline_marks(book: Measurements) -> pd.DataFrame:
    """As plots.roofline takes them: the 2017 post's GPU, and the machine's fastest stacks where they were measured."""
    rows = [("GPU", "document", rate.value) for rate in rates_reached(question.document()).values()]
    with contextlib.suppress(KeyError):
        rows += [("CPU", "stored", rate.value) for rate in rates_reached(book).values()]
    table = pd.DataFrame(rows, columns=["device", "source", "flop_per_s"])
    return table.assign(flop_per_byte=np.resize(works().to_numpy(), len(table)))


def operand_time(book: Measurements) -> Interval:
    """Device.operand of a machine, between the extremes of all repeats of its rates."""
    flops, moved = book.rates["matmul_repeats"], book.rates["bandwidth_repeats"]
    return Interval(processor(book).operand, FLOAT * min(flops) / max(moved), FLOAT * max(flops) / min(moved))


def document_cpu_bytes() -> float:
    """Bytes a second that the 2017 post's CPU moved for Adam, counted at the least."""
    return UPDATES["adam"].bytes * FAVOURITE.sizes.embedding / original.s0_fits()["CPU"].coefficients["b"]


@claim(
    "09.4",
    "The 2017 post's GPU does the LSTM's arithmetic at less than a fifth of its peak.",
    source="ours, from S0's tables",
    says="not measured",
)
def gpu_far_below_its_peak(book: Measurements) -> Finding | None:
    if book.machine != original.FIGURES:
        return None
    # The products' roof is the peak.
    return every_stack({"": shares_of_the_roof(book)["products"]}, below(1 / 5), ".0%")


def s4_speed_ups() -> tuple[float, float]:
    """Times a GPU was as fast as a CPU in document S4: on a plain LSTM, and on cuDNN's."""
    epochs = original.read("s4-lstm").query("case == 'kaggle'").set_index(["device", "layer"])["epoch_s"]
    return epochs["CPU", "LSTM"] / epochs["GPU", "LSTM"], epochs["CPU", "LSTM"] / epochs["GPU", "CuDNNLSTM"]


@claim(
    "09.5",
    "With a plain LSTM a GPU is slower than the CPU, with cuDNN's it is faster (figures: times as fast).",
    source="S4",
    says="not measured",
)
def kernel_turns_it_round(book: Measurements) -> Finding:
    if book.machine == original.FIGURES:
        plain, fused = s4_speed_ups()
        return Finding(plain < 1 < fused, f"S4's own: {plain:.1f} and {fused:.0f}")
    least = fastest_first(book, device="gpu", kernel=["loop-of-cells", "cudnn"]).groupby("kernel")["step_s"].min()
    plain, fused = (fastest_first(book)["step_s"].iloc[0] / least[kernel] for kernel in ("loop-of-cells", "cudnn"))
    return Finding(plain < 1 < fused, f"{plain:.1f} and {fused:.1f}")


@claim(
    "09.6",
    "The intensity of the dense update is less than half of the device's ridge, that of the LSTM's matmuls more than "
    "twice the ridge.",
)
def works_on_either_side_of_the_ridge(book: Measurements) -> Finding:
    ridge, (update, products) = processor(book).ridge, works()
    return Finding(bool(update < ridge / 2 and products > 2 * ridge), f"ridge at {ridge:.1f}")


@claim(
    "09.7",
    "The measured rates of both stay below the device's roof (figures: share of the roof).",
    says="inconclusive",
)
def under_the_roof(book: Measurements) -> Finding:
    return every_stack(shares_of_the_roof(book), below(1), ".0%")


@claim(
    "09.8",
    "Fetching a number from main memory takes 100 times as long as computing with it, or more.",
    source="S1",
    says="does not hold",
)
def memory_is_a_hundred_times_slower(book: Measurements) -> Finding:
    if book.machine == original.FIGURES:
        return Finding(k40m().operand >= S1_RATIO, f"{k40m().operand:.0f}")
    return every_stack({"": operand_time(book)}, above(S1_RATIO), ".0f")


def hardware_table(book: Measurements) -> HTML:
    """What sets the floor of each part of a step, a K40m's rates over the machine's, and the 2017 post's own times."""
    card, ours, lead = k40m(), processor(book), lead_by_term()
    rows = [
        [PARTS["b"], "bandwidth", f"{card.byte_per_s / ours.byte_per_s:.1f}", lead["b"].text(".1f")],
        [PARTS["c"], "arithmetic", f"{card.flop_per_s / ours.flop_per_s:.1f}", lead["c"].text(".1f")],
        [PARTS["a"], "launches, Python (a guess)", "in no data sheet", lead["a"].text(".1f")],
    ]
    heads = ["time for", "floor set by", f"rates: K40m / {book.title}'s CPU", "times: 2017 post's CPU / its K40m"]
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


@claim(
    "09.9",
    "At the 2017 post's 280,000 rows and batch 100 no stack on this CPU is as fast as the post's GPU (figure: step of "
    "the fastest, divided by the GPU's).",
)
def slower_than_the_documents_gpu(book: Measurements) -> Finding:
    stack = fastest_first(book, 2)["stack"].iloc[0]
    return every_stack({stack: over_the_gpu(book)}, above(1), ".1f")


def over_the_gpu(book: Measurements) -> Interval:
    """A step of the machine's fastest stack over that of the 2017 post's GPU."""
    return book.interval(lambda s: s[0] / document_step("GPU"), fastest_first(book, 2).head(1))


def ends(book: Measurements) -> tuple[str, str]:
    """The fastest and the slowest stack. Raises KeyError where fewer than two ran."""
    fast, slow = fastest_first(book, 2)["stack"].iloc[[0, -1]]
    return fast, slow


def slowest_over_fastest(book: Measurements) -> Interval:
    """Median step of the slowest stack over that of the fastest, in the rounds that measured both."""
    fast, slow = ends(book)
    return book.sides({"stack": slow}, {"stack": fast}, vocabulary=ROWS).interval(lambda s: s[0] / s[1])


@claim("09.10", "At that configuration the slowest stack takes more than twice the time of the fastest.")
def software_decides(book: Measurements) -> Finding:
    return every_stack({" / ".join(ends(book)[::-1]): slowest_over_fastest(book)}, above(2), ".1f")


@claim("09.11", "This machine's memory moves more bytes per second than the 2017 post's CPU moved for Adam.")
def more_than_the_documents_cpu(book: Measurements) -> Finding:
    moved, possible = document_cpu_bytes(), book.rates["bandwidth_bytes_per_s"]
    return Finding(moved < possible, f"{possible / 1e9:.0f} against {moved / 1e9:.1f} GB/s")


# The same layers on other people's cards


@functools.cache
def layers() -> pd.DataFrame:
    """cuDNN's LSTM in 22 sizes on five cards (fused_published.cards), with speed_up over the oldest, the Titan X
    of 2015, and of_peak, the share of the data sheet's arithmetic that a layer reached.
    """
    rows, sizes = fused_published.cards(), ["units", "batch", "length"]
    oldest = rows[rows["device"] == fused_published.TITAN].set_index(sizes)["step_s"]
    before = oldest.loc[pd.MultiIndex.from_frame(rows[sizes])].to_numpy()
    return rows.assign(speed_up=before / rows["step_s"], of_peak=rows["arithmetic_s"] / rows["step_s"])


def newer_cards() -> pd.DataFrame:
    """`layers` without the oldest card."""
    return layers().query("device != @fused_published.TITAN")


def sheets() -> pd.DataFrame:
    """What the data sheets say of these cards, relative to the oldest: index device, columns arithmetic, bandwidth."""
    figures = {"arithmetic": "float32 peak", "bandwidth": "bandwidth peak"}
    oldest = external.hardware(fused_published.TITAN)
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
        f"On our own GPU the fastest way ({best['stack']}) takes {best['step_s'] * 1e3:.1f} ms: it is "
        f"{fastest['step_s'] / best['step_s']:.0f} times faster than the fastest stack on {book.title} and "
        f"{document_step('GPU') / best['step_s']:.0f} times faster than the 2017 post's GPU."
    )


def _of_card(device: str, name: str) -> dict[str, Callable[[Measurements], str]]:
    """What is said of one card: the speed-up of the layers, median and ends, and the data sheet's."""
    return {
        f"{name}_median": lambda _: f"{_of(device)['speed_up'].median():.1f}",
        f"{name}_sheet": lambda _: f"{sheets().loc[device, 'arithmetic']:.1f}",
        f"{name}_least": lambda _: f"{_of(device)['speed_up'].min():.1f}",
        f"{name}_most": lambda _: f"{_of(device)['speed_up'].max():.1f}",
    }


def _of(device: str) -> pd.DataFrame:
    return layers().query("device == @device")


PROSE = Prose(
    "cg",
    s1=lambda _: str(S1_RATIO),
    s4_plain=lambda _: f"{1 / s4_speed_ups()[0]:.0f}",
    s4_fused=lambda _: f"{s4_speed_ups()[1]:.0f}",
    document_cpu_bytes=lambda _: f"{document_cpu_bytes() / 1e9:.1f} GB/s",
    # Times the K40m's peak is the arithmetic that the document's CPU did for a sentence.
    ceiling=lambda _: (
        f"{k40m().flop_per_s * original.s0_fits()['CPU'].coefficients['c'] / make_point(batch=1).work.flops:.0f}"
    ),
    adam_flops=lambda _: str(UPDATES["adam"].flops),
    adam_bytes=lambda _: str(UPDATES["adam"].bytes),
    update=lambda _: f"{works().iloc[0]:.2g}",
    products=lambda _: f"{works().iloc[1]:.0f}",
    per_update=lambda _: f"{FLOAT * works().iloc[0]:.1f}",
    ridge_gpu=lambda _: f"{k40m().ridge:.0f}",
    operand_k40m=lambda _: f"{k40m().operand:.0f}",
    of_update_gpu=lambda _: f"{shares_of_the_roof(question.document())['update'].value:.0%}",
    of_products_gpu=lambda _: f"{shares_of_the_roof(question.document())['products'].value:.0%}",
    cores=lambda book: str(book.description["cores"]),
    ridge_cpu=lambda book: f"{processor(book).ridge:.1f}",
    bandwidth=lambda book: f"{processor(book).byte_per_s / 1e9:.0f} GB/s",
    bandwidth_ratio=lambda book: f"{k40m().byte_per_s / processor(book).byte_per_s:.1f}",
    arithmetic_ratio=lambda book: f"{k40m().flop_per_s / processor(book).flop_per_s:.1f}",
    operand=lambda book: operand_time(book).text(".0f"),
    of_update_cpu=lambda book: f"{shares_of_the_roof(book)['update'].value:.0%}",
    of_products_cpu=lambda book: shares_of_the_roof(book)["products"].text(".0%"),
    gpu_ms=lambda _: f"{document_step('GPU') * 1e3:.0f} ms",
    fastest=lambda book: ends(book)[0],
    fastest_ms=lambda book: f"{fastest_first(book, 2)['step_s'].iloc[0] * 1e3:,.0f} ms",
    fastest_over=lambda book: over_the_gpu(book).text(".1f"),
    slowest=lambda book: ends(book)[1],
    spread=lambda book: slowest_over_fastest(book).text(".1f"),
    spread_value=lambda book: f"{slowest_over_fastest(book).value:.1f}",
    gpu_rows=own_gpu,
    **_of_card("P100-PCIe", "p100"),
    **_of_card("V100-SXM2", "v100"),
    p100_peak_least=lambda _: f"{_of('P100-PCIe')['of_peak'].min():.0%}",
    p100_peak_most=lambda _: f"{_of('P100-PCIe')['of_peak'].max():.0%}",
    layers_slower=lambda _: str(int((newer_cards()["speed_up"] < 1).sum())),
    layers_all=lambda _: str(len(newer_cards())),
    dawn_k80=lambda _: f"{external.reading_model()['K80']:.2f} h",
    dawn_p100=lambda _: f"{external.reading_model()['P100']:.2f} h",
    dawn_cpu=lambda _: f"{external.reading_model()['16 virtual CPUs']:.2f} h",
    dawn_over=lambda _: f"{external.reading_model()['16 virtual CPUs'] / external.reading_model()['K80']:.1f}",
)
