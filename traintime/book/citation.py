"""How the book is cited: what CITATION.cff says of it, and the same as BibTeX."""

from typing import Any

import yaml

from traintime import paths


def read() -> dict[str, Any]:
    """The fields of CITATION.cff."""
    return yaml.safe_load((paths.ROOT / "CITATION.cff").read_text())


def authors(cited: dict[str, Any]) -> list[str]:
    """The authors' names as people write them; of a group, which has no given name, the group's."""
    return [_name(author) for author in cited["authors"]]


def bibtex(cited: dict[str, Any], url: str | None = None) -> str:
    """The entry for a bibliography; url: where the book is, if CITATION.cff does not say."""
    # Braces keep BibTeX from taking a group's name apart, and a title's capitals from it.
    written = [f"{{{author['name']}}}" if "name" in author else _name(author) for author in cited["authors"]]
    fields = {
        "author": " and ".join(written),
        "title": f"{{{cited['title']}}}",
        "year": str(cited["date-released"])[:4],
        "note": f"Version {cited['version']}",
        "url": cited.get("repository-code", url),
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@misc{{traintime{fields['year']},", *lines, "}"]) + "\n"


def _name(author: dict[str, str]) -> str:
    return author.get("name") or " ".join(
        author[part] for part in ("given-names", "name-particle", "family-names") if part in author
    )
