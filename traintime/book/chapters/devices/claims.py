"""What CPU and GPU claims, and how each claim is judged on a machine."""

import numpy as np

from traintime.book import original, stored
from traintime.book.chapters import question
from traintime.book.chapters.devices.analysis import (
    ROWS,
    Device,
    document_cpu_bytes,
    document_step,
    ends,
    fixed_shares,
    guess,
    k40m,
    largest,
    limits,
    machine,
    operand,
    s4_speed_ups,
    seen_on,
    seen_on_gpu,
    works,
)
from traintime.book.claims import Claim, Finding, above, below, every, span
from traintime.book.stored import ANY, Measurements
from traintime.explain.statistics import Interval


def _of_document(book: Measurements) -> bool:
    return book.machine == question.DOCUMENT


def _lead_below_twenty(book: Measurements) -> Finding | None:
    if _of_document(book):
        fits = question.fits(book)
        lead = largest(fits["CPU"], fits["GPU"])
    else:
        gpu = book.points(vocabulary=ROWS, device="gpu", kernel=ANY).dropna(subset="step_s").sort_values("step_s")
        fastest, card = ends(book)[0], gpu.iloc[0]
        lead = Interval(
            fastest["step_s"] / card["step_s"], fastest["low_s"] / card["high_s"], fastest["high_s"] / card["low_s"]
        )
    return Finding(below(lead, guess()), lead.text(".1f"))


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
    return Finding(holds, f"{slow} / {fast} {span(row, spec='.1f')}")


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
