"""Chapter 3, on a card: what a row of the table costs a GPU, next to its data sheet's bandwidth."""

import functools
from collections.abc import Callable

import pandas as pd

from traintime.book import claims, external, stored
from traintime.book.chapters import vocabulary
from traintime.book.claims import Finding, above, below, every_stack
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval

SMALL, MIDDLE, LARGE = 20_000, 280_000, 2_000_000  # rows
TORCH, JAX = "2026-torch", "2026-jax"
ON_CARD = {"device": "gpu", "kernel": "cudnn"}
SHEETS = {"NVIDIA H200": "H200-SXM"}  # what a card calls itself -> data/external/hardware.csv


@functools.cache
def points(book: Measurements) -> pd.DataFrame:
    """A machine's steps on its GPU over the vocabulary, with cuDNN's kernel for the LSTM; empty without one."""
    return book.points(vocabulary=[SMALL, MIDDLE, LARGE], **ON_CARD)


def card() -> Measurements:
    """The first of the book's machines that ran the vocabulary on a GPU."""
    return stored.having(stored.of(), points)


claim = functools.partial(claims.claim, on=card)


def growth(book: Measurements, rows: int) -> dict[str, Interval]:
    """Times longer a step takes with so many rows than with the fewest, by stack."""
    sides = [{"vocabulary": each} | ON_CARD for each in (SMALL, rows)]
    return {
        stack: book.sides(*sides, stack=stack).interval(lambda s: s[1] / s[0])
        for stack in stored.stack_order(points(book)["stack"])
    }


def of_a_row(book: Measurements) -> dict[str, Interval]:
    """Seconds a step of each further row of a large table, by stack."""
    prices = vocabulary.price_of_a_row(book, points(book), (MIDDLE, LARGE))
    return {stack: price for (stack, _), price in stored.measured(prices).items()}


def floor_s(book: Measurements) -> float:
    """Seconds that moving Adam's bytes of a row takes at the bandwidth of the card's data sheet."""
    return vocabulary.bytes_a_row() / external.hardware(SHEETS[book.card])["bandwidth peak"]


@claim(
    "03.10",
    "On a GPU a step with 280,000 rows takes at most 1.5 times as long as one with 20,000, on torch and on JAX.",
    says="inconclusive",
)
def small_tables_hardly_count(book: Measurements) -> Finding:
    return every_stack(growth(book, MIDDLE), below(1.5), unit="times")


@claim(
    "03.11",
    "On a GPU a step with 2,000,000 rows takes more than twice as long as one with 20,000, on torch and on JAX.",
)
def large_tables_count(book: Measurements) -> Finding:
    return every_stack(growth(book, LARGE), above(2), unit="times")


def _step(stack: str, rows: int) -> Callable[[Measurements], str]:
    return lambda book: f"{stored.row(points(book), stack=stack, vocabulary=rows)['step_s'] * 1e3:.1f} ms"


PROSE = Prose(
    "voc-card",
    name=lambda book: book.card.removeprefix("NVIDIA "),
    floor=lambda book: f"{floor_s(book) * 1e9:.1f} ns",
    torch_small=_step(TORCH, SMALL),
    torch_large=_step(TORCH, LARGE),
    jax_small=_step(JAX, SMALL),
    jax_large=_step(JAX, LARGE),
    torch_row=lambda book: of_a_row(book)[TORCH].text(".1f", 1e9, "ns"),
    jax_row=lambda book: of_a_row(book)[JAX].text(".1f", 1e9, "ns"),
    torch_floors=lambda book: f"{of_a_row(book)[TORCH].value / floor_s(book):.1f}",
    torch_middle=lambda book: growth(book, MIDDLE)[TORCH].text(),
    jax_middle=lambda book: growth(book, MIDDLE)[JAX].text(),
)
