"""Chapter 6, sentence length: what padding a sentence costs, and what a mask saves."""

import functools
from collections.abc import Callable
from typing import Any

import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.claims import Finding, above, claim, every_stack, within
from traintime.book.page import Prose
from traintime.book.stored import Measurements, largest, ratio_by_stack, smallest
from traintime.explain import statistics
from traintime.explain.statistics import Interval

TABLE = 20_000  # rows
PADDED, WORDS = 100, 25  # tokens of a padded sentence, and how many of them are words
ALONE, PADDING, MASKED = "25 words", "25 words padded to 100", "25 words padded to 100, masked"
CASES: dict[str, dict[str, Any]] = {
    ALONE: {"length": WORDS},
    PADDING: {"length": PADDED, "words": WORDS},
    MASKED: {"length": PADDED, "words": WORDS, "mask": True},
    "100 words": {"length": PADDED},
}


@functools.cache
def pad_ratios(book: Measurements) -> pd.DataFrame:
    """Ratios of 25 words padded to 100 tokens to 100 words, a row a stack (columns: Measurements.ratios)."""
    runs = _runs(book, words=[None, WORDS])
    return book.ratios(runs.assign(words=runs["words"].fillna(PADDED).astype(int)), [(WORDS, PADDED)], of="words")


@functools.cache
def mask_ratios(book: Measurements) -> pd.DataFrame:
    """Ratios of 25 words padded to 100 tokens with a mask to the same without, a row a stack."""
    runs = _runs(book, words=WORDS, mask=[False, True])
    return book.ratios(runs.assign(mask=runs["mask"].astype(bool)), [(True, False)], of="mask")


def _runs(book: Measurements, **wanted: Any) -> pd.DataFrame:
    return book.invocations(vocabulary=TABLE, length=PADDED, **wanted)


@claim(
    "06.10",
    "A padded token costs as much as a word: 25 words padded to 100 take at least 0.85 times as long as 100 words.",
    says="inconclusive",
)
def padding_costs_as_words(book: Measurements) -> Finding:
    return every_stack(ratio_by_stack(pad_ratios(book)), above(0.85))


@claim(
    "06.11",
    "A mask saves no time: with a mask a padded step takes at least 0.9 times as long as without.",
    says="inconclusive",
)
def a_mask_saves_nothing(book: Measurements) -> Finding:
    return every_stack(ratio_by_stack(mask_ratios(book)), above(0.9))


@claim(
    "06.14",
    "A padded token costs as much as a word, within 5 %: 25 words padded to 100 against 100 words.",
    source="ours, as predicted",
    says="inconclusive",
)
def padding_as_predicted(book: Measurements) -> Finding:
    return every_stack(ratio_by_stack(pad_ratios(book)), within(0.95, 1.05))


def padded_steps(book: Measurements) -> pd.DataFrame:
    """Median step of CASES, s, a column each, a row for each stack on which a mask was measured.

    Geometric means over the invocations: quotients of columns are the ratios above where both ran in the same rounds.
    """
    steps = {}
    for name, case in CASES.items():
        points = book.points(vocabulary=TABLE, **case).dropna(subset="step_s")
        medians = book.values(points, "median_s")
        steps[name] = pd.Series([statistics.geometric(each).value for each in medians], points["stack"], dtype=float)
    return pd.DataFrame(steps).reindex(steps[MASKED].index).rename_axis("stack")


def padded_table(book: Measurements) -> HTML:
    """Milliseconds a step of 25 words, of the same padded to 100 tokens without and with a mask, and of 100 words."""
    rows = padded_steps(book)
    return page.columns(rows.reset_index(), stack="ms per step", **{name: (name, 1e3, ".0f") for name in rows})


def _verdict(ratios: pd.DataFrame) -> str:
    """What may be said of ratios that a sentence calls about 1."""
    if (stored.measured(ratios)["reason"] == "not interleaved").all():
        return "measured at different times, so without a verdict"
    told = [str(name) for name in ratios.loc[ratios["faster"].notna(), "stack"]]
    return f"a significant difference on {', '.join(told)}" if told else "no significant difference"


def _range(prefix: str, ratios: Callable[[Measurements], pd.DataFrame]) -> dict[str, Callable[[Measurements], str]]:
    """The least and the largest ratio of a table over the stacks, and what may be said of them."""
    return {
        f"{prefix}_low": lambda book: _text(ratio_by_stack(ratios(book)), smallest),
        f"{prefix}_high": lambda book: _text(ratio_by_stack(ratios(book)), largest),
        f"{prefix}_verdict": lambda book: _verdict(ratios(book)),
    }


def _text(ratios: dict[str, Interval], extreme: Callable[[dict[str, Interval]], str]) -> str:
    return f"{ratios[extreme(ratios)].value:.2f}"


def _ends(ratios: dict[str, Interval]) -> str:
    """From where to where the intervals extend, all together."""
    values = stored.measured(ratios).values()
    return f"{min(one.low for one in values):.2f} to {max(one.high for one in values):.2f}"


def _waste(book: Measurements) -> "pd.Series[float]":
    """How many times as long a step takes with padding as without, by stack."""
    steps = stored.measured(padded_steps(book))
    return (steps[PADDING] / steps[ALONE]).sort_values()


def _most_saved(book: Measurements) -> float:
    """The largest share of a padded step that a mask may save, by the intervals of the ratios."""
    return 1 - min(one.low for one in stored.measured(ratio_by_stack(mask_ratios(book))).values())


PROSE = Prose(
    "len",
    **_range("pads", pad_ratios),
    **_range("masks", mask_ratios),
    pads_ends=lambda book: _ends(ratio_by_stack(pad_ratios(book))),
    waste_low=lambda book: f"{_waste(book).iloc[0]:.1f}",
    waste_high=lambda book: f"{_waste(book).iloc[-1]:.1f}",
    mask_saves=lambda book: f"{_most_saved(book):.0%}",
    mask_could=lambda book: f"{1 - 1 / _waste(book).iloc[0]:.0%}",
)
