"""Chapter 6, sentence length: what padding a sentence costs, and what a mask saves."""

import functools
from collections.abc import Callable
from typing import Any

import pandas as pd
from IPython.display import HTML

from traintime.book import page
from traintime.book.claims import Finding, above, claim, every_stack, within
from traintime.book.page import Prose
from traintime.book.stored import Measurements, largest, ratio_by_stack, smallest
from traintime.explain.statistics import Interval

TABLE = 20_000  # rows
PADDED, WORDS = 100, 25  # tokens of a padded sentence, and how many of them are words


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
    "A padded token costs what a word costs: 25 words padded to 100 take at least 0.85 times as long as 100 words.",
    says="cannot be told",
)
def padding_costs_as_words(book: Measurements) -> Finding:
    return every_stack(ratio_by_stack(pad_ratios(book)), above(0.85))


@claim(
    "06.11",
    "A mask gives no time back: with it a padded step takes at least 0.9 times as long as without.",
    says="cannot be told",
)
def a_mask_saves_nothing(book: Measurements) -> Finding:
    return every_stack(ratio_by_stack(mask_ratios(book)), above(0.9))


@claim(
    "06.14",
    "Padding costs as much as words, within 5 %: 25 words padded to 100 against 100 words.",
    source="ours, as predicted",
    says="cannot be told",
)
def padding_as_predicted(book: Measurements) -> Finding:
    return every_stack(ratio_by_stack(pad_ratios(book)), within(0.95, 1.05))


def padded_table(book: Measurements) -> HTML:
    """Milliseconds a step of 25 words, of the same padded to 100 tokens without and with a mask, and of 100 words."""
    cases = {
        "25 words": {"length": WORDS},
        "25 words padded to 100": {"length": PADDED, "words": WORDS},
        "25 words padded to 100, masked": {"length": PADDED, "words": WORDS, "mask": True},
        "100 words": {"length": PADDED},
    }
    steps = {name: book.points(vocabulary=TABLE, **case).set_index("stack")["step_s"] for name, case in cases.items()}
    rows = pd.DataFrame(steps).reindex(steps["25 words padded to 100, masked"].index).rename_axis("stack")
    return page.columns(rows.reset_index(), stack="ms a step", **{name: (name, 1e3, ".0f") for name in cases})


def _verdict(ratios: pd.DataFrame) -> str:
    """What may be said of ratios that a sentence calls about 1."""
    if ratios.empty:
        raise KeyError("not measured")
    if (ratios["reason"] == "not interleaved").all():
        return "measured at other times, so that none of it is a verdict"
    told = [str(name) for name in ratios.loc[ratios["faster"].notna(), "stack"]]
    return (
        f"a difference that can be told from none on {', '.join(told)}" if told else "none of which can be told from 1"
    )


def _range(prefix: str, ratios: Callable[[Measurements], pd.DataFrame]) -> dict[str, Callable[[Measurements], str]]:
    """The least and the largest ratio of a table over the stacks, and what may be said of them."""
    return {
        f"{prefix}_low": lambda book: _text(ratio_by_stack(ratios(book)), smallest),
        f"{prefix}_high": lambda book: _text(ratio_by_stack(ratios(book)), largest),
        f"{prefix}_verdict": lambda book: _verdict(ratios(book)),
    }


def _text(ratios: dict[str, Interval], extreme: Callable[[dict[str, Interval]], str]) -> str:
    return f"{ratios[extreme(ratios)].value:.2f}"


PROSE = Prose("len", **_range("pads", pad_ratios), **_range("masks", mask_ratios))
