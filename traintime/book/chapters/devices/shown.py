"""What the page of CPU and GPU shows: tables, and the numbers of its prose."""

from collections.abc import Mapping

from IPython.display import HTML

from traintime.book import original, page
from traintime.book.chapters.devices.analysis import (
    ROWS,
    document_cpu_bytes,
    document_step,
    ends,
    fixed_shares,
    guess,
    k40m,
    largest,
    limits,
    machine,
    on_gpus,
    operand,
    s4_speed_ups,
    seen_on,
    seen_on_gpu,
    works,
)
from traintime.book.stored import Measurements
from traintime.explain.formula import Fit
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import FLOAT, UPDATE_BYTES, UPDATE_FLOPS

PAID_FOR = {"a": "a step as such", "b": "a row of the table", "c": "a sentence"}
S1_RATIO = 100  # S1: fetching from main memory, over computing, "about 100 times or more"
UPWARDS = 1e-9  # 57 / 4 is 14.25 exactly, which Python would round down to an even digit


# Tables


def limit_table(found: Mapping[str, Interval]) -> HTML:
    """The ratio of the devices' coefficients. found: as `limits` gives it."""
    rows = [
        [f"*{name}*", PAID_FOR[name], f"{one.value:.1f}", f"{one.low:.1f} to {one.high:.1f}"]
        for name, one in found.items()
    ]
    return page.table(["", "paid for", "CPU / GPU", "95 % of the draws"], rows)


def hardware_table(book: Measurements, found: Mapping[str, Interval]) -> HTML:
    """What binds each part of a step, and how far a K40m is ahead there by the hardware's rates, and as seen."""
    card, ours = k40m(), machine(book)
    bound = {
        "b": ("bandwidth", f"{card.byte_per_s / ours.byte_per_s:.1f}"),
        "c": ("arithmetic", f"{card.flop_per_s / ours.flop_per_s:.1f}"),
        "a": ("launches and Python (a guess)", "in no data sheet"),
    }
    rows = [[PAID_FOR[name], *texts, found[name].text(".1f")] for name, texts in bound.items()]
    return page.table(["paid for", "bound by", "K40m over our machine", "document's GPU over its CPU, seen"], rows)


# The numbers of the prose


def values(book: Measurements, fits: Mapping[str, Fit]) -> dict[str, str]:
    """Every number that the chapter's sentences name. fits: as original.s0_fits gives them."""
    return _of_the_document(fits) | _of_the_hardware(book, fits["CPU"]) | _of_roofs(book, fits["GPU"]) | _of_steps(book)


def _of_the_document(fits: Mapping[str, Fit]) -> dict[str, str]:
    cpu, gpu = fits["CPU"], fits["GPU"]
    claims = original.read("s0-claims").set_index(["id", "name"])["value"]
    cells = original.s0().query("sweep == 'vocabulary'").pivot_table("step_s", "vocabulary", "device")
    first, middle, last = cells["CPU"] / cells["GPU"]
    ratios, most, shares = limits(cpu, gpu), largest(cpu, gpu), fixed_shares(gpu)
    plain, fused = s4_speed_ups()
    return {
        "cg-seen-first": f"{first:.0f}",
        "cg-seen-middle": f"{middle:.1f}",
        "cg-seen-last": f"{last + UPWARDS:.1f}",
        "cg-guess": f"{guess():.0f}",
        "cg-double": f"{claims['C7', 'all cores']:.0f}",
        "cg-half": f"{claims['C7', 'half the cores']:.0f}",
        "cg-rule": f"{claims['C7', 'rule of thumb']:.0f}",
        "cg-s1": str(S1_RATIO),
        **{f"cg-limit-{name}": f"{one.value:.1f}" for name, one in ratios.items()},
        **{f"cg-range-{name}": f"{one.low:.1f} to {one.high:.1f}" for name, one in ratios.items()},
        "cg-most": f"{most.value:.1f}",
        "cg-most-range": f"{most.low:.1f} to {most.high:.1f}",
        **{f"cg-fixed-{name}": f"{share:.0%}" for name, share in zip(("first", "middle", "last"), shares, strict=True)},
        "cg-s4-plain": f"{plain:.1f}",
        "cg-s4-fused": f"{fused:.0f}",
        "cg-document-cpu-bytes": f"{document_cpu_bytes(cpu) / 1e9:.1f} GB/s",
    }


def _of_the_hardware(book: Measurements, cpu: Fit) -> dict[str, str]:
    card = k40m()
    update, products = works()
    sentences = make_point(batch=1).work.flops / cpu.coefficients["c"]
    of_machine = {
        "cg-machine": lambda: book.description["cpu"],
        "cg-cores": lambda: str(book.description["cores"]),
        "cg-ridge-cpu": lambda: f"{machine(book).ridge:.0f}",
        "cg-bandwidth": lambda: f"{machine(book).byte_per_s / 1e9:.0f} GB/s",
        "cg-bandwidth-ratio": lambda: f"{card.byte_per_s / machine(book).byte_per_s:.1f}",
        "cg-arithmetic-ratio": lambda: f"{card.flop_per_s / machine(book).flop_per_s:.0f}",
        "cg-operand": lambda: f"{operand(book).value:.0f}",
        "cg-operand-range": lambda: f"{operand(book).low:.0f} to {operand(book).high:.0f}",
    }
    return {name: page.or_not_measured(give) for name, give in of_machine.items()} | {
        "cg-ceiling": f"{card.flop_per_s / sentences:.0f}",
        "cg-adam-flops": str(UPDATE_FLOPS["adam"]),
        "cg-adam-bytes": str(UPDATE_BYTES["adam"]),
        "cg-update": f"{update:.2g}",
        "cg-products": f"{products:.0f}",
        "cg-per-update": f"{FLOAT * update:.1f}",
        "cg-per-products": f"{FLOAT * products:.0f}",
        "cg-ridge-gpu": f"{card.ridge:.0f}",
        "cg-operand-k40m": f"{card.operand:.0f}",
    }


def _of_roofs(book: Measurements, gpu: Fit) -> dict[str, str]:
    """How much of its roof each device reaches."""
    card, texts = k40m(), {}
    pairs = zip(("update", "products"), seen_on_gpu(gpu), works(), (0, 1), strict=True)
    for name, of_gpu, intensity, place in pairs:
        texts[f"cg-of-{name}-gpu"] = f"{of_gpu / card.roof(intensity):.0%}"
        texts[f"cg-of-{name}-cpu"] = page.or_not_measured(
            lambda place=place, intensity=intensity: f"{seen_on(book)[place].value / machine(book).roof(intensity):.0%}"
        )
    return texts


def _of_steps(book: Measurements) -> dict[str, str]:
    """The document's point on our stacks."""
    document = make_point().sizes
    texts = {"cg-vocabulary": f"{ROWS:,}", "cg-batch": str(document.batch), "cg-length": str(document.length)}
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
        "cg-gpu-rows": page.or_not_measured(lambda: gpu_text(book)),
    }


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
