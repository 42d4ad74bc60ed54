"""What the page of batch size shows: tables, and the numbers of its prose."""

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, plots, stored
from traintime.book.chapters.batch.analysis import (
    SENTENCES,
    by_batch,
    bytes_a_sentence,
    critical_batches,
    gain,
    kept,
    lines,
    order,
    peaks,
)
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval


def a_sentence(points: pd.DataFrame) -> HTML:
    """Microseconds a sentence, a row a stack, a column a batch size."""
    sizes = sorted(points["batch"].unique())
    rows = []
    for stack, group in points.groupby("stack", sort=False):
        each = (group["step_s"] / group["batch"] * 1e6).set_axis(group["batch"])
        rows.append([stack, *(f"{each[size]:,.0f}" if size in each and each[size] > 0 else "" for size in sizes)])
    return page.table(["µs a sentence, at batch", *(plots.short(size) for size in sizes)], rows)


def critical_table(ours: pd.DataFrame, document: pd.DataFrame) -> HTML:
    """The parts of a step and the critical batch of each stack, and of the document's devices."""
    heads = ["stack", "fixed F (ms a step)", "c (µs a sentence)", "critical batch", "mean error of the line"]
    rows = []
    for name, row in ours.iterrows():
        at = page.span(row, "critical", ",.0f")
        rows.append([name, f"{row['F'] * 1e3:,.0f}", f"{row['c'] * 1e6:,.0f}", at, f"{row['error']:.0%}"])
    for device, row in document.iterrows():
        rows.append([f"*the document's {device}*", "", "", page.span(row, "critical", ",.0f"), ""])
    return page.table(heads, rows)


def kept_table(kept: pd.DataFrame) -> HTML:
    """F, c and the critical batch of each stack under glibc and under tcmalloc. kept: as that function gives it."""
    rows = []
    for stack, row in kept.iterrows():
        parts = [
            f"{row[f'glibc-{name}'] * scale:,.0f} → {row[f'tcmalloc-{name}'] * scale:,.0f}"
            for name, scale in (("F", 1e3), ("c", 1e6))
        ]
        spans = [
            Interval(row[name], row[f"{name}-low"], row[f"{name}-high"]).text(",.0f") for name in ("glibc", "tcmalloc")
        ]
        rows.append([stack, *parts, *spans])
    heads = ["glibc → tcmalloc", "*F* (ms a step)", "*c* (µs a sentence)", "critical batch", "under tcmalloc"]
    return page.table(heads, rows) if rows else page.nothing()


def memory_table(peak: pd.DataFrame) -> HTML:
    """Peak memory at the smallest batch and the three largest, and what a sentence adds."""
    each = bytes_a_sentence(peak)
    peak = peak[[*peak.columns[:-3][:1], *peak.columns[-3:]]]
    rows = [
        [
            stack,
            *("" if np.isnan(value) else f"{value / 2**30:.2f}" for value in row),
            f"{each[stack] / 2**10:.0f}" if stack in each else "",
        ]
        for stack, row in peak.iterrows()
    ]
    return page.table(
        ["peak, GiB, at batch", *(f"{size:,}" for size in peak.columns), "KiB a sentence, at least"], rows
    )


def values(book: Measurements, document: pd.DataFrame) -> dict[str, str]:
    """Every number that the chapter's sentences name."""
    given = {f"bat-critical-{device}": page.span(row, "critical", ",.0f") for device, row in document.iterrows()}
    given |= {f"bat-gain-{device}": f"{row['gain']:.1f}" for device, row in document.iterrows()}
    given |= {f"bat-seen-{device}": f"{row['seen']:.1f}" for device, row in document.iterrows()}
    given |= _of_the_allocator(stored.having(book, kept))
    return given | _of_batches(book) | _example(book) | _of_memory(book) | _elsewhere(book)


NOT_MEASURED = "(not measured)"
EXAMPLE_STACK, EXAMPLE = "2026-tensorflow", [128, 1024, 4096]  # sentences: two steps that promise a third


def _of_batches(book: Measurements) -> dict[str, str]:
    names = ("least", "least-stack", "most", "most-stack", "error", "error-stack", "noise", "order", "gains")
    found = by_batch(book)
    fits = lines(book, found)
    if len(fits) < 3:
        return dict.fromkeys((f"bat-{name}" for name in names), NOT_MEASURED)
    ours = critical_batches(fits)
    worst = ours["error"].idxmax()
    noise = book.noise().set_index("stack")[3]
    gains = gain(book, found)
    slow, fast = (pick(gains, key=lambda stack: gains[stack].value) for pick in (min, max))
    texts = [
        f"{ours['critical'].min():,.0f}",
        ours["critical"].idxmin(),
        f"{ours['critical'].max():,.0f}",
        ours["critical"].idxmax(),
        f"{ours['error'].max():.0%}",
        worst,
        f"{noise[worst]:.0%}",
        order(book, fits).text(".2f"),
        f"{gains[slow].text('.1f')} times ({slow}) to {gains[fast].text('.1f')} times ({fast})",
    ]
    return {f"bat-{name}": text for name, text in zip(names, texts, strict=True)}


def _of_the_allocator(book: Measurements) -> dict[str, str]:
    """What is left of both parts of a step under tcmalloc, and of the critical batch."""
    found = kept(book)
    names = ("fixed", "each", "batch", "where")
    if found.empty:
        return dict.fromkeys((f"bat-kept-{name}" for name in names), NOT_MEASURED)

    def ends(end: str) -> str:
        left = (found[f"tcmalloc{end}"] / found[f"glibc{end}"]).sort_values()
        return f"{left.iloc[0]:.0%} ({left.index[0]}) to {left.iloc[-1]:.0%} ({left.index[-1]})"

    texts = [ends("-F"), ends("-c"), ends(""), book.title]
    return {f"bat-kept-{name}": text for name, text in zip(names, texts, strict=True)}


def _example(book: Measurements) -> dict[str, str]:
    """Two measured steps that promise a third, on one stack, for this page and the front page."""
    one, two, third = EXAMPLE
    names = ("stack", "one", "two", "fixed", "each", "promised", "took", "off", "epoch")
    found = by_batch(book)
    steps = found[found["stack"] == EXAMPLE_STACK].set_index("batch")["step_s"].reindex(EXAMPLE)
    if steps.isna().any():
        return {f"bat-example-{name}": NOT_MEASURED for name in names}
    each = (steps[two] - steps[one]) / (two - one)
    fixed = steps[one] - one * each
    promised = fixed + third * each
    off = promised / steps[third] - 1
    texts = [
        EXAMPLE_STACK,
        f"{steps[one] * 1e3:.0f} ms",
        f"{steps[two] * 1e3:.0f} ms",
        f"{fixed * 1e3:.0f} ms",
        f"{each * 1e3:.2f} ms",
        f"{promised * 1e3:.0f} ms",
        f"{steps[third] * 1e3:.0f} ms",
        f"{abs(off):.0%} {'less' if off > 0 else 'more'} than promised",
        f"{SENTENCES / third * promised / 60:.0f} minutes",
    ]
    return {f"bat-example-{name}": text for name, text in zip(names, texts, strict=True)}


def _of_memory(book: Measurements) -> dict[str, str]:
    found = by_batch(book)
    peak = peaks(found)
    each, critical = bytes_a_sentence(peak), critical_batches(lines(book, found))["critical"]
    if each.empty:
        names = ("bat-kib-low", "bat-kib-high", "bat-kib-high-stack", "bat-at-critical", "bat-peak")
        return dict.fromkeys(names, NOT_MEASURED)
    ran = pd.Series({stack: row.dropna().index[-1] for stack, row in peak.iterrows()})
    beyond = [stack for stack in critical.index if ran[stack] >= critical[stack]]
    most = max((peak.loc[stack].dropna().iloc[-1] for stack in beyond), default=np.nan) / 2**30
    of = "Each stack" if len(beyond) == len(critical) else f"{len(beyond)} of {len(critical)} stacks"
    return {
        "bat-peak": f"{of} ran a batch above its critical one, with a peak of {most:.1f} GiB at most: memory is not "
        "what stops you here.",
        "bat-kib-low": f"{each.min() / 2**10:,.0f}",
        "bat-kib-high": f"{each.max() / 2**10:,.0f}",
        "bat-kib-high-stack": each.idxmax(),
        "bat-at-critical": f"{(each * critical).max() / 2**30:.1f} GiB",
    }


def _elsewhere(book: Measurements) -> dict[str, str]:
    """What other machines that the book shows say of the same."""
    said = []
    for other in (stored.of(name) for name in stored.listed() if name != book.machine):
        ours = critical_batches(lines(other, by_batch(other)))["critical"]
        if len(ours) > 1:
            ends = (f"{ours[stack]:,.0f} ({stack})" for stack in (ours.idxmin(), ours.idxmax()))
            said.append(f"on {other.title} it runs from {' to '.join(ends)}")
    return {"bat-elsewhere": "; ".join(said) or "no other machine has run this sweep yet"}
