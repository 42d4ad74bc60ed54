"""What the page of sentence length shows: tables, and the numbers of its prose."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, plots, stored
from traintime.book.chapters.length.analysis import (
    LENGTHS,
    by_length,
    doubled,
    exponents,
    intervals,
    kept,
    missed,
    on,
    padding,
    some,
    tail,
)
from traintime.book.claims import above, below, higher
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that this machine cannot give says so."""

    found = exponents(book)

    def of(way: str) -> pd.DataFrame:
        return found.loc[way]

    def end(way: str, which: str) -> str:
        return f"{getattr(of(way)['exponent'], which)():.2f}"

    ways_in = {"adam": "adam", "frozen": "frozen", "tiny": "1K rows"}
    asked: dict[str, Callable[[], str]] = {
        f"len-{name}-{word}": partial(end, way, which)
        for name, way in ways_in.items()
        for word, which in (("low", "min"), ("high", "max"))
    }
    asked |= {
        "len-apart": lambda: _apart(of("adam"), of("frozen")),
        "len-rows": lambda: page.span(of("adam-rows").loc["numpy"], "exponent"),
        "len-numpy": lambda: page.span(of("adam").loc["numpy"], "exponent"),
        "len-off": lambda: f"{abs(_worst(book)[1].value):.2f}",
        "len-off-stack": lambda: _worst(book)[0],
        "len-off-beyond": lambda: _off_beyond(book),
        "len-tail-low": lambda: f"{some(tail(book))['exponent'].min():.2f}",
        "len-tail-high": lambda: f"{some(tail(book))['exponent'].max():.2f}",
        "len-tail-reach": lambda: _reach(some(tail(book))),
        "len-kept": lambda: _kept(stored.having(book, kept)),
        "len-pads-low": lambda: _end_of(padding(book)[0], "min"),
        "len-pads-high": lambda: _end_of(padding(book)[0], "max"),
        "len-pads-verdict": lambda: _verdict(padding(book)[0]),
        "len-masks-low": lambda: _end_of(padding(book)[1], "min"),
        "len-masks-high": lambda: _end_of(padding(book)[1], "max"),
        "len-masks-verdict": lambda: _verdict(padding(book)[1]),
        "len-runs": lambda: f"{some(by_length(book))['invocations'].median():.0f}",
        "len-noise-low": lambda: f"{_noise(book).min():.0%}",
        "len-noise-high": lambda: f"{_noise(book).max():.0%}",
        "len-tilt": lambda: f"{_tilt(_noise(book).max()):.2f}",
    }
    return {name: page.or_not_measured(give) for name, give in asked.items()}


def _apart(adam: pd.DataFrame, frozen: pd.DataFrame) -> str:
    """On how many stacks frozen's interval lies above Adam's."""
    still, free = intervals(adam), intervals(frozen)
    both = [stack for stack in still if stack in free]
    apart = [stack for stack in both if higher(free[stack], still[stack])]
    return f"on all {len(both)} stacks" if apart == both else f"on {len(apart)} of {len(both)} stacks"


def _kept(book: Measurements) -> str:
    """Where the allocator's share shows most: "from 0.10 to 0.31 on 2020-tensorflow"."""
    found = some(kept(book))
    moved = found.map(lambda one: one.value).diff(axis=1)["tcmalloc"]
    at = moved.idxmax()
    return f"from {found.loc[at, 'glibc'].value:.2f} to {found.loc[at, 'tcmalloc'].value:.2f} on {at}, {book.title}"


def _worst(book: Measurements) -> tuple[str, Interval]:
    """The stack whose exponent is farthest from the predicted one, and by how much. Raises KeyError without any."""
    off = missed(book)
    if not off:
        raise KeyError("nothing was predicted")
    worst = max(off, key=lambda stack: abs(off[stack].value))
    return worst, off[worst]


def _off_beyond(book: Measurements) -> str:
    """Where the prediction is off by more than the noise explains."""
    above_it = [stack for stack, value in missed(book).items() if above(value, 0)]
    below_it = [stack for stack, value in missed(book).items() if below(value, 0)]
    if not above_it and not below_it:
        return "on no stack is that more than noise explains"
    parts = [
        f"on {on(stacks)} the exponent is {word} than predicted by more than noise explains"
        for stacks, word in ((above_it, "higher"), (below_it, "lower"))
        if stacks
    ]
    return "; ".join(parts)


def _reach(found: pd.DataFrame) -> str:
    """On which stacks an exponent's interval holds 1."""
    inside = [stack for stack, value in intervals(found).items() if 1 in value]
    over = [stack for stack, value in intervals(found).items() if above(value, 1)]
    under = [stack for stack, value in intervals(found).items() if below(value, 1)]
    if len(inside) == len(found):
        return "every interval holds 1"
    parts = [f"the interval holds 1 on {on(inside)}"] if inside else []
    parts += [f"lies {word} 1 on {on(stacks)}" for stacks, word in ((over, "above"), (under, "below")) if stacks]
    return ", and ".join(parts)


def _end_of(found: pd.DataFrame, which: str) -> str:
    return f"{getattr(some(found)['ratio'], which)():.2f}"


def _verdict(found: pd.DataFrame) -> str:
    """What may be said of ratios that a sentence calls about 1."""
    if (some(found)["reason"] == "not interleaved").all():
        return "measured at other times, so that none of it is a verdict"
    told = [str(name) for name in found.loc[found["faster"].notna(), "stack"]]
    return f"a difference that can be told from none on {on(told)}" if told else "none of which can be told from 1"


def _noise(book: Measurements, invocations: int = 3) -> pd.Series:
    """Noise floors of the stacks that the chapter shows."""
    return book.noise().set_index("stack")[invocations].loc[some(by_length(book))["stack"].unique()]


def _tilt(share: float) -> float:
    """By how much the exponent over the chapter's lengths is off where the longest step is off by a share."""
    return float(np.polyfit(np.log(LENGTHS), [0] * (len(LENGTHS) - 1) + [np.log(1 + share)], 1)[0])


# Tables


def predicted_table(predicted: pd.DataFrame) -> HTML:
    """What two measurements at one length say of the exponent. predicted: as the function of that name gives it."""
    rows = [[name, f"{row['share']:.0%}", page.span(row, "exponent")] for name, row in predicted.iterrows()]
    return page.table(["stack", "table's share at length 25", "exponent predicted"], rows)


def live_table(run: Measurements, points: pd.DataFrame) -> HTML:
    """The exponents of what was measured here."""
    found = run.exponents(points, "length")
    rows = [[f"{row['stack']}, {row['how']}", page.span(row, "exponent")] for _, row in found.iterrows()]
    ends = f"{points['length'].min()} to {points['length'].max()} tokens" if len(points) else "tokens"
    return page.table(["exponent", ends], rows) if rows else page.nothing()


def exponent_table(found: pd.DataFrame, predicted: pd.DataFrame) -> HTML:
    """Exponents by way and stack, below the predicted ones."""
    table = found.assign(text=[page.span(row, "exponent", below=True) for _, row in found.iterrows()])
    texts = table.pivot_table("text", "how", "stack", aggfunc="first").fillna("")
    guesses = predicted.reindex(texts.columns)
    rows = [["adam, predicted", *(page.span(row, "exponent", below=True) for _, row in guesses.iterrows())]]
    rows += [[way, *texts.loc[way]] for way in plots.WAY if way in texts.index]
    return page.table(["exponent", *texts.columns], rows)


def kept_table(kept: pd.DataFrame) -> HTML:
    """Exponents under both allocators, a column a stack. kept: as the function of that name gives it."""
    rows = [[name, *(one.text().replace(" (", "<br>(") for one in kept[name])] for name in ("glibc", "tcmalloc")]
    return page.table(["exponent", *kept.index], rows) if len(kept) else page.nothing()


def lost_table(lost: pd.DataFrame) -> HTML:
    """The document's lost table as reconstructed. lost: as the function of that name gives it."""
    rows = [
        [str(tokens), *(page.span(lost.loc[(device, tokens)], "middle", ",.0f") for device in ("CPU", "GPU"))]
        for tokens in lost.loc["GPU"].index
    ]
    return page.table(["length", "CPU, s an epoch", "GPU, s an epoch"], rows)


def lost_values(draws: int) -> dict[str, str]:
    """How many times as long an epoch would take with sentences twice as long: the ends of 95 % of the draws."""
    ends = doubled(draws)
    return {f"len-double-{device.lower()}": f"{low:.2f} to {high:.2f}" for device, (low, high) in ends.items()}


def padded_table(padded: pd.DataFrame) -> HTML:
    """Milliseconds of a step with padding, with a mask, and of as many words."""
    rows = [[name, *(f"{value * 1e3:.0f}" for value in row)] for name, row in padded.iterrows()]
    return page.table(["ms a step", *padded.columns], rows) if rows else page.nothing()
