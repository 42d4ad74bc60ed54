"""Numbers that an executed chapter has glued, read back for other pages."""

import ast
import json
from collections.abc import Iterable
from pathlib import Path

PREFIX = "application/papermill.record/"


def glued(notebook: Path) -> dict[str, str]:
    """All glued values of an executed chapter."""
    values = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        for output in cell.get("outputs", []):
            if name := output.get("metadata", {}).get("scrapbook", {}).get("name"):
                text = output["data"][PREFIX + "text/plain"]
                values[name] = ast.literal_eval(text if isinstance(text, str) else "".join(text))
    return values


def front_page(executed: Iterable[Path]) -> dict[str, str]:
    """Every executed chapter's glued values, for the front page's {{ name }}; dashes in names become underscores.

    Raises ValueError when two chapters give one name two values.
    """
    values: dict[str, str] = {}
    for path in executed:
        for name, value in glued(path).items():
            if values.setdefault(name.replace("-", "_"), value) != value:
                raise ValueError(f"{path.name} glues {name} as {value!r}, another chapter has {values[name]!r}")
    return values
