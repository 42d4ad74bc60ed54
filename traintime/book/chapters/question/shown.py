"""What the page of the question shows: tables, and the numbers of its prose."""

import numpy as np

from traintime.book import external
from traintime.book.chapters.question.analysis import FAVOURITE, exponents, limits, percent, share
from traintime.explain.formula import Fit
from traintime.point import make_point
from traintime.workloads.base import UPDATE_BYTES


def coefficients(fits: dict[str, Fit]) -> list[list[str]]:
    """Rows of a table: each coefficient with its interval, three digits, and the mean error; a column a device."""
    units = {"a": (1e3, "ms a step"), "b": (1e9, "ns a row"), "c": (1e3, "ms a sentence")}
    rows = []
    for name, (scale, unit) in units.items():
        found = [fit.interval(name).scaled(scale) for fit in fits.values()]
        texts = [[f"{float(f'{x:.3g}'):g}" for x in (one.value, one.low, one.high)] for one in found]
        rows.append([f"*{name}*, {unit}", *("{} ({} to {})".format(*text) for text in texts)])
    return [*rows, ["mean error", *(f"{fit.mean_error:.1%}" for fit in fits.values())]]


def values(lines: dict[str, Fit], fits: dict[str, Fit]) -> dict[str, str]:
    """The numbers of the chapter's prose. lines, fits: device -> straight line, formula with three terms."""
    found = {}
    for device, line in lines.items():
        found |= {
            f"{device}-line-start": f"{line.coefficients['a'] * 1e3:.0f} ms",
            f"{device}-line-slope": f"{line.coefficients['b'] * 1e9:.0f} ns",
            f"{device}-line-error": f"{np.abs(line.errors).max():.1%}",
        }
    row_bytes = UPDATE_BYTES["adam"] * make_point().sizes.embedding
    k40m = external.hardware("K40m")
    least_s, seen_s = row_bytes / k40m["bandwidth measured"], lines["GPU"].coefficients["b"]
    found |= {
        "row-bytes": f"{row_bytes:,}",
        "row-k40m": f"{k40m['bandwidth measured'] / 1e9:.1f} GB/s",
        "row-k40m-peak": f"{k40m['bandwidth peak'] / 1e9:.0f}",
        "row-least": f"{least_s * 1e9:.0f} ns",
        "row-seen": f"{seen_s * 1e9:.0f} ns",
        "row-over": f"{seen_s / least_s:.1f}",
    }
    gpu = fits["GPU"].parts(FAVOURITE).iloc[0] * 1e3
    found |= {
        "GPU-error": f"{fits['GPU'].mean_error:.1%}",
        "CPU-error": f"{fits['CPU'].mean_error:.1%}",
        "GPU-step": f"{gpu.sum():.0f} ms",
        "GPU-fixed": f"{gpu['a'] + gpu['b']:.0f} ms",
        "GPU-a": f"{gpu['a']:.0f} ms",
        "GPU-b": f"{gpu['b']:.0f} ms",
        "GPU-c": f"{gpu['c']:.0f} ms",
    }
    for device, fit in fits.items():
        found[f"{device}-table-share"] = percent(share(fit, ["b"]))
    for name, limit in limits(fits).items():
        found |= {f"limit-{name}": f"{limit.value:.1f}", f"limit-{name}-range": f"{limit.low:.1f} to {limit.high:.1f}"}
    return found | {f"exponent-{name}": f"{one.value:.2f}" for name, one in exponents(fits["GPU"]).items()}
