"""CPU against GPU: what the documents' figures, the rates of a machine and its stored steps say of a speed-up."""

import contextlib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from traintime.book import external, original, page, stored
from traintime.book.chapters import question, vocabulary
from traintime.book.claims import Claim, Finding, above, below, every
from traintime.book.stored import ANY, Measurements
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
    known = book.description
    rates = known["rates"]
    name = f"{known['cpu']}, {known['cores']} cores"
    return Device(name, "CPU", rates["matmul_flop_per_s"], rates["bandwidth_bytes_per_s"])


def operand(book: Measurements) -> Interval:
    """Device.operand of a machine, between the extremes of the repeats of its rates."""
    rates = book.description["rates"]
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


def gpu_text(book: Measurements) -> str:
    """A sentence about our own GPUs."""
    ran = on_gpus().dropna(subset="step_s").sort_values("step_s")
    if ran.empty:
        return "On a GPU of our own this point is not measured yet."
    best, fastest = ran.iloc[0], ends(book)[0]
    return (
        f"Of our own GPU rows the fastest is {best['stack']} at {best['step_s'] * 1e3:.1f} ms: "
        f"{fastest['step_s'] / best['step_s']:.1f} times as fast as the fastest CPU stack, "
        f"{document_step('GPU') / best['step_s']:.1f} times as fast as the document's GPU."
    )


def noise_text(book: Measurements) -> str:
    """How far apart two single runs of one point can lie, over the stacks: "28 % to 60 %"."""
    floors = book.noise()[1].dropna()
    return f"{floors.min():.0%} to {floors.max():.0%}" if len(floors) else NOT_YET


def values(book: Measurements, gpu: Fit) -> dict[str, str]:
    """Numbers of the chapter's prose that rest on stored measurements; where one is missing, that it is."""
    card, roof = k40m(), list(works())
    texts = {}
    for name, of_gpu, intensity, place in zip(("update", "products"), seen_on_gpu(gpu), roof, (0, 1), strict=True):
        texts[f"cg-of-{name}-gpu"] = f"{of_gpu / card.roof(intensity):.0%}"
        texts[f"cg-of-{name}-cpu"] = page.or_not_measured(
            lambda place=place, intensity=intensity: f"{seen_on(book)[place].value / machine(book).roof(intensity):.0%}"
        )
    document = make_point().sizes
    texts |= {"cg-vocabulary": f"{ROWS:,}", "cg-batch": str(document.batch), "cg-length": str(document.length)}
    for name, place in (("fastest", 0), ("slowest", 1)):
        texts |= {
            f"cg-{name}": page.or_not_measured(lambda place=place: ends(book)[place]["stack"]),
            f"cg-{name}-ms": page.or_not_measured(lambda place=place: f"{ends(book)[place]['step_s'] * 1e3:,.0f} ms"),
            f"cg-{name}-over": page.or_not_measured(
                lambda place=place: f"{ends(book)[place]['step_s'] / document_step('GPU'):.{1 - place}f}"
            ),
        }
    return texts | {
        "cg-spread": page.or_not_measured(lambda: f"{ends(book)[1]['step_s'] / ends(book)[0]['step_s']:.1f}"),
        "cg-noise": noise_text(book),
        "cg-gpu-rows": page.or_not_measured(lambda: gpu_text(book)),
    }


# Claims


def _of_document(book: Measurements) -> bool:
    return book.machine == question.DOCUMENT


def _lead_below_twenty(book: Measurements) -> Finding | None:
    guess = original.read("s0-claims").set_index(["id", "name"])["value"]["C2", "upper bound"]
    if _of_document(book):
        fits = question.fits(book)
        lead = largest(fits["CPU"], fits["GPU"])
    else:
        gpu = book.points(vocabulary=ROWS, device="gpu", kernel=ANY).dropna(subset="step_s").sort_values("step_s")
        fastest, card = ends(book)[0], gpu.iloc[0]
        lead = Interval(
            fastest["step_s"] / card["step_s"], fastest["low_s"] / card["high_s"], fastest["high_s"] / card["low_s"]
        )
    return Finding(below(lead, guess), lead.text(".1f"))


def _fixed_leads_least(book: Measurements) -> Finding | None:
    if not _of_document(book):
        return None
    fits = question.fits(book)
    found = limits(fits["CPU"], fits["GPU"])
    holds = True if found["a"].high < min(found["b"].low, found["c"].low) else None
    return Finding(holds, "; ".join(f"{name} {found[name].text('.1f')}" for name in "abc"))


def _fixed_fades(book: Measurements) -> Finding | None:
    if not _of_document(book):
        return None
    shares = fixed_shares(question.fits(book)["GPU"])
    return Finding(bool((np.diff(shares) < 0).all()), ", ".join(f"{share:.0%}" for share in shares))


def _far_below_its_peak(book: Measurements) -> Finding | None:
    if not _of_document(book):
        return None
    share = seen_on_gpu(question.fits(book)["GPU"])[1] / k40m().flop_per_s
    return Finding(share < 1 / 5, f"{share:.0%}")


def _kernel_turns_it_round(book: Measurements) -> Finding | None:
    if _of_document(book):
        plain, fused = s4_speed_ups()
        return Finding(plain < 1 < fused, f"S4's own: {plain:.1f} and {fused:.0f}")
    cpu = ends(book)[0]["step_s"]
    points = book.points(vocabulary=ROWS, device="gpu", kernel=["loop-of-cells", "cudnn"]).groupby("kernel")["step_s"]
    plain, fused = (cpu / points.min()[kernel] for kernel in ("loop-of-cells", "cudnn"))
    return Finding(plain < 1 < fused, f"{plain:.1f} and {fused:.1f}")


def _device(book: Measurements) -> Device:
    return k40m() if _of_document(book) else machine(book)


def _either_side(book: Measurements) -> Finding:
    device, (update, products) = _device(book), works()
    return Finding(bool(update < device.ridge / 2 and products > 2 * device.ridge), f"ridge at {device.ridge:.1f}")


def _under_the_roof(book: Measurements) -> Finding:
    device = _device(book)
    seen = [Interval(x, x, x) for x in seen_on_gpu(question.fits(book)["GPU"])] if _of_document(book) else seen_on(book)
    shares = [rate.scaled(1 / device.roof(intensity)) for rate, intensity in zip(seen, works(), strict=True)]
    parts = zip(("update", "products"), shares, strict=True)
    shown = "; ".join(
        f"{name} {share.value:.0%}" if share.low == share.high else f"{name} {share.text('.0%')}"
        for name, share in parts
    )
    return Finding(every(*(below(share, 1) for share in shares)), shown)


def _a_hundred_times(book: Measurements) -> Finding:
    if _of_document(book):
        ratio = k40m().operand
        return Finding(ratio >= 100, f"{ratio:.0f}")
    ratio = operand(book)
    return Finding(above(ratio, 100), ratio.text(".0f"))


def _slower_than_the_gpu(book: Measurements) -> Finding | None:
    fastest = ends(book)[0]
    over = Interval(*(fastest[name] / document_step("GPU") for name in ("step_s", "low_s", "high_s")))
    return Finding(above(over, 1), f"{fastest['stack']} {over.text('.1f')}")


def _software_decides(book: Measurements) -> Finding | None:
    fast, slow = (each["stack"] for each in ends(book))
    row = book.ratios(book.invocations(vocabulary=ROWS), [(slow, fast)]).iloc[0]
    holds = above(stored.interval(row), 2) if row["sweep"] else None
    return Finding(holds, f"{slow} / {fast} {page.span(row, spec='.1f')}")


def _more_than_the_documents_cpu(book: Measurements) -> Finding | None:
    if _of_document(book):
        return None
    moved, possible = document_cpu_bytes(original.s0_fits()["CPU"]), machine(book).byte_per_s
    return Finding(moved < possible, f"{possible / 1e9:.0f} against {moved / 1e9:.1f} GB/s")


CLAIMS = [
    Claim(
        "09.1",
        "The GPU's lead ends below the guessed 20 times, whether the vocabulary grows, the batch, or both.",
        "ours, against S0, C2",
        _lead_below_twenty,
    ),
    Claim(
        "09.2",
        "In the fixed part of a step the GPU leads least.",
        "ours, from S0's tables",
        _fixed_leads_least,
    ),
    Claim(
        "09.3",
        "The fixed part's share of a step of the GPU falls as the vocabulary grows.",
        "ours, from S0's tables",
        _fixed_fades,
    ),
    Claim(
        "09.4",
        "The document's GPU does the LSTM's arithmetic at less than a fifth of its peak.",
        "ours, from S0's tables",
        _far_below_its_peak,
    ),
    Claim(
        "09.5",
        "With a plain LSTM a GPU is slower than the CPU, with cuDNN's it is faster (figures: times as fast).",
        "S4",
        _kernel_turns_it_round,
    ),
    Claim(
        "09.6",
        "The dense update lies at less than half of the device's ridge, the LSTM's matrix products at more than twice.",
        "ours",
        _either_side,
    ),
    Claim(
        "09.7",
        "What was seen of both stays below the device's roof (figures: share of the roof).",
        "ours",
        _under_the_roof,
    ),
    Claim(
        "09.8",
        "Fetching a number from main memory takes 100 times as long as computing with it, or more.",
        "S1",
        _a_hundred_times,
    ),
    Claim(
        "09.9",
        "At the document's favourite point no stack on this CPU is as fast as the document's GPU (figure: the fastest, "
        "in steps of the GPU).",
        "ours",
        _slower_than_the_gpu,
    ),
    Claim(
        "09.10",
        "There the slowest stack takes more than twice the time of the fastest.",
        "ours",
        _software_decides,
    ),
    Claim(
        "09.11",
        "This machine's memory moves more bytes a second than the document's CPU moved for Adam.",
        "ours",
        _more_than_the_documents_cpu,
    ),
]
