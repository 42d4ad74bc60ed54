"""Draw the book's key figures from data/ alone into figures/: `python -m traintime.book.figures`."""

from collections.abc import Callable

from matplotlib.figure import Figure

from traintime import paths
from traintime.book import original, plots, stored
from traintime.book.chapters import length as by_length
from traintime.book.chapters import vocabulary as by_vocabulary


def vocabulary() -> Figure:
    """A step against the vocabulary, all stacks of the reference machine."""
    return plots.steps(by_vocabulary.by_vocabulary(stored.of()))


def interventions() -> Figure:
    """The same with the embedding frozen and with plain SGD."""
    return plots.ways(by_vocabulary.intervened(stored.of()))


def length() -> Figure:
    """A step against sentence length, as it stands and with each cause of the fixed part taken away."""
    return plots.ways(by_length.by_length(stored.of()), against="length")


def front() -> Figure:
    """The puzzle and its solution on one stack, for the front page."""
    found = by_length.by_length(stored.of())
    names = {"adam": "table of 280K rows, trained", "frozen": "the same table, frozen", "1K rows": "table of 1K rows"}
    return plots.one_stack(found[found["stack"] == "2026-tensorflow"], "length", names)


def document() -> Figure:
    """The 2017 document's two tables."""
    return plots.document_tables(original.s0())


DRAWN: dict[str, Callable[[], Figure]] = {
    "document": document,
    "front": front,
    "vocabulary": vocabulary,
    "interventions": interventions,
    "length": length,
}

if __name__ == "__main__":
    for name, draw in DRAWN.items():
        plots.save(draw(), paths.FIGURES, name)
