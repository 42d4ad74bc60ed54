"""Draw the book's key figures from data/ alone into figures/: `python -m traintime.book.figures`."""

import tempfile
from collections.abc import Callable
from pathlib import Path

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
    """A step against sentence length, as it is and with each cause of the fixed part taken away."""
    return plots.ways(by_length.by_length(stored.of()), against="length")


def front() -> Figure:
    """The puzzle and its solution on one stack, for the front page."""
    found = by_length.by_length(stored.of())
    names = {"adam": "280K rows, trained", "frozen": "280K rows, frozen", "1K rows": "1K rows, trained"}
    return plots.one_stack(found[found["stack"] == "2026-tensorflow"], "length", names)


def document() -> Figure:
    """The 2017 post's two tables, with the sum of three terms through them."""
    return plots.document_tables(original.s0(), original.s0_fits())


DRAWN: dict[str, Callable[[], Figure]] = {
    "document": document,
    "front": front,
    "vocabulary": vocabulary,
    "interventions": interventions,
    "length": length,
}


def draw(folder: Path = paths.FIGURES) -> None:
    """Draw all into a folder; each takes the old one's place when it is whole."""
    with tempfile.TemporaryDirectory(dir=paths.BUILD) as aside:
        for name, figure in DRAWN.items():
            plots.save(figure(), Path(aside), name)
        folder.mkdir(parents=True, exist_ok=True)
        for path in Path(aside).iterdir():
            path.replace(folder / path.name)


if __name__ == "__main__":
    paths.BUILD.mkdir(exist_ok=True)
    draw()
