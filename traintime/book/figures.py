"""Draw the book's key figures from data/ alone into figures/: `python -m traintime.book.figures`."""

from pathlib import Path

from matplotlib.figure import Figure

from traintime import paths
from traintime.book import original, plots, stored
from traintime.book.chapters import vocabulary
from traintime.book.stored import ANY


def front() -> Figure:
    """The puzzle and its solution on one stack, for the front page."""
    found = stored.of().points(stack="2026-tensorflow", vocabulary=[1_000, 280_000], length=ANY, frozen=[False, True])
    found["how"] = found["how"].where(found["vocabulary"] == 280_000, "1K rows")
    names = {"adam": "280K rows, trained", "frozen": "280K rows, frozen", "1K rows": "1K rows, trained"}
    return plots.one_stack(found, "length", names)


DRAWN = {
    # The 2017 post's two tables, with the sum of three terms through them.
    "document": lambda: plots.document_tables(original.s0(), original.s0_fits()),
    "front": front,
    # A step against the vocabulary, all stacks of the reference machine.
    "vocabulary": lambda: plots.steps(vocabulary.by_vocabulary(stored.of())),
}


def draw(folder: Path = paths.FIGURES) -> None:
    """Draw all into a folder."""
    for name, figure in DRAWN.items():
        plots.save(figure(), folder, name)


if __name__ == "__main__":
    draw()
