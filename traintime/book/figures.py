"""Draw the book's key figures from data/ alone into figures/: `python -m traintime.book.figures`."""

from pathlib import Path

from matplotlib.figure import Figure

from traintime import lab, paths
from traintime.book import plots
from traintime.store import machines

MACHINE = machines.titles()[machines.reference()]
VOCABULARIES = [5_000, 20_000, 80_000, 280_000, 800_000, 2_000_000]  # rows


def front() -> Figure:
    """The puzzle and its solution on one stack, for the front page."""
    sizes = {"vocabulary": [1_000, 280_000], "length": ..., "frozen": [False, True]}
    found = lab.configurations(MACHINE, stack="2026-tensorflow", **sizes)
    how = found["frozen"].map({True: "frozen", False: "adam"}).where(found["vocabulary"] == 280_000, "1K rows")
    names = {"adam": "280K rows, trained", "frozen": "280K rows, frozen", "1K rows": "1K rows, trained"}
    return plots.one_stack(found.assign(how=how), "length", names)


DRAWN = {
    "front": front,
    # A step against the vocabulary, all stacks of the reference machine.
    "vocabulary": lambda: plots.steps(lab.configurations(MACHINE, vocabulary=VOCABULARIES)),
}


def draw(folder: Path = paths.FIGURES) -> None:
    """Draw all into a folder."""
    for name, figure in DRAWN.items():
        plots.save(figure(), folder, name)


if __name__ == "__main__":
    draw()
