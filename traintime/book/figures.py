"""Draw the book's key figures from data/ alone into figures/: `python -m traintime.book.figures`."""

from pathlib import Path

from matplotlib.figure import Figure

from traintime import paths
from traintime.book import original, plots, stored
from traintime.book.chapters import length, vocabulary


def front() -> Figure:
    """The puzzle and its solution on one stack, for the front page."""
    found = length.by_length(stored.of())
    names = {"adam": "280K rows, trained", "frozen": "280K rows, frozen", "1K rows": "1K rows, trained"}
    return plots.one_stack(found[found["stack"] == "2026-tensorflow"], "length", names)


DRAWN = {
    # The 2017 post's two tables, with the sum of three terms through them.
    "document": lambda: plots.document_tables(original.s0(), original.s0_fits()),
    "front": front,
    # A step against the vocabulary, all stacks of the reference machine.
    "vocabulary": lambda: plots.steps(vocabulary.by_vocabulary(stored.of())),
    # A step against sentence length, as it is and with each cause of the fixed part taken away.
    "length": lambda: plots.ways(length.by_length(stored.of()), against="length"),
}


def draw(folder: Path = paths.FIGURES) -> None:
    """Draw all into a folder."""
    for name, figure in DRAWN.items():
        plots.save(figure(), folder, name)


if __name__ == "__main__":
    draw()
