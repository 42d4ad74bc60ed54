"""Draw the book's key figures from data/ alone into figures/: `python -m traintime.figures`."""

from collections.abc import Callable

from matplotlib.figure import Figure

from traintime import here, original, paths, plots


def vocabulary() -> Figure:
    """A step against the vocabulary, all stacks of the reference machine."""
    return plots.steps(here.stored(vocabulary=here.VOCABULARIES, batch=100, length=25, optimizer="adam", frozen=False))


def interventions() -> Figure:
    """The same with the embedding frozen and with plain SGD."""
    return plots.ways(here.intervened(here.stored(vocabulary=here.VOCABULARIES, batch=100, length=25)))


def length() -> Figure:
    """A step against sentence length, as it stands and with each cause of the fixed part taken away."""
    return plots.ways(here.by_length(), against="length")


def document() -> Figure:
    """The 2017 document's two tables."""
    return plots.document_tables(original.s0())


DRAWN: dict[str, Callable[[], Figure]] = {
    "document": document,
    "vocabulary": vocabulary,
    "interventions": interventions,
    "length": length,
}

if __name__ == "__main__":
    for name, draw in DRAWN.items():
        plots.save(draw(), paths.ROOT / "figures", name)
