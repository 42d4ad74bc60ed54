"""What a chapter puts on its page: tables, numbers for the prose, links to data, and where it all came from."""

from IPython.display import Markdown


def table(heads: list[str], rows: list[list[str]]) -> Markdown:
    """A table of texts; the first column is set to the left, the others to the right."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return Markdown("\n".join("| " + " | ".join(line) + " |" for line in lines))


def span(value: float, low: float, high: float, *, spec: str = ".2f") -> str:
    """A value with its interval: "1.24 (1.10 to 1.31)". spec: as in format()."""
    return f"{value:{spec}} ({low:{spec}} to {high:{spec}})"
