"""How the book is cited: what CITATION.cff says of it, and the same as BibTeX."""

from typing import Any

import yaml

from traintime import paths


def read() -> dict[str, Any]:
    """The fields of CITATION.cff."""
    return yaml.safe_load((paths.ROOT / "CITATION.cff").read_text())


def author(cited: dict[str, Any]) -> str:
    """Who is named as the author: a group."""
    return cited["authors"][0]["name"]


def bibtex(url: str | None) -> str:
    """The entry for a bibliography. url: where the book is published, None where nobody knows."""
    cited = read()
    year = cited["date-released"][:4]
    # Braces keep BibTeX from taking the group's name apart, and the title's capitals from it.
    fields = {"author": f"{{{author(cited)}}}", "title": f"{{{cited['title']}}}", "year": year}
    fields |= {"note": f"Version {cited['version']}", "url": url or ""}
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@misc{{traintime{year},", *lines, "}"]) + "\n"
