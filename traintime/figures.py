"""Draw the book's key figures from data/ alone into figures/: `python -m traintime.figures`."""

from collections.abc import Callable

from matplotlib.figure import Figure

from traintime import here, original, paths, plots


def vocabulary() -> Figure:
    """A step against the vocabulary, all stacks of the reference machine."""
    points = here.stored(batch=100, length=25, optimizer="adam", frozen=False)
    return plots.vocabulary(points)


def interventions() -> Figure:
    """The same with the embedding frozen and with plain SGD."""
    points = here.stored(batch=100, length=25)
    points["how"] = here.how(points)
    return plots.interventions(points[points["stack"].isin(points.loc[points["how"] != "adam", "stack"])])


def document() -> Figure:
    """The 2017 document's two tables."""
    return plots.document_tables(original.s0())


DRAWN: dict[str, Callable[[], Figure]] = {
    "document": document,
    "vocabulary": vocabulary,
    "interventions": interventions,
}

if __name__ == "__main__":
    for name, draw in DRAWN.items():
        plots.save(draw(), paths.ROOT / "figures", name)
