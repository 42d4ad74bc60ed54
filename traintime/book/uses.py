"""What a page rests on, as one hash: a notebook, the modules of the package that it imports, the data that those read.

The hash is of contents, so that a file that was only touched, or fetched again, makes nothing again.
"""

import ast
import functools
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traintime import paths
from traintime.book import kept

if TYPE_CHECKING:
    import grimp

# What of data/ a module reads: a folder by its name in traintime.paths, or one file.
READS = re.compile(r'\bpaths\.(ORIGINAL|EXTERNAL|DERIVED|MEASUREMENTS|TRIALS|PREDICTED)\b|\bpaths\.DATA / "([\w.-]+)"')


def code_of(notebook: Path, without: str = "") -> str:
    """All code of a notebook, but for cells with a tag; lines that belong to IPython and not to Python are left out."""
    code = [cell for cell in _cells(notebook) if without not in cell.get("metadata", {}).get("tags", [])]
    source = "\n".join("".join(cell["source"]) for cell in code)
    return "\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!")))


def _cells(notebook: Path) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]


def imported(code: str) -> set[str]:
    """Modules of the package that code imports, directly or through others."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return closure(names)


def closure(names: Iterable[str]) -> set[str]:
    """These modules of the package and all that they import; a name outside the package is passed over."""
    known = set(names) & _graph().modules
    return known.union(*(_graph().find_upstream_modules(name) for name in known))


@functools.cache
def _graph() -> "grimp.ImportGraph":
    """Who imports whom in the package."""
    import grimp  # here: a chapter's page needs no graph, and on Colab there is no grimp

    return grimp.build_graph("traintime", cache_dir=None)


def file_of(module: str) -> Path:
    """The file of a module of the package."""
    place = paths.ROOT.joinpath(*module.split("."))
    package = place / "__init__.py"  # not every folder is one: git leaves behind what Python compiled
    return package if package.exists() else place.with_suffix(".py")


def data(used: Iterable[str]) -> set[Path]:
    """Files of data that these modules may read."""
    return _files(set().union(*(_places(file_of(name).read_text()) for name in used)))


def _files(places: Iterable[Path]) -> set[Path]:
    files = (path for place in places for path in ([place] if place.is_file() else place.rglob("*")))
    return {path for path in files if path.suffix in (".json", ".csv")}


@functools.cache
def _places(code: str) -> set[Path]:
    named = READS.findall(code)
    return {getattr(paths, folder) if folder else paths.DATA / file for folder, file in named}


def digest(used: Iterable[str], *files: Path, without: Iterable[Path] = ()) -> str:
    """Hash of modules of the package, of the data that they read, without some, and of other files."""
    used = set(used)
    return kept.digest({*map(file_of, used), *data(used), *files} - {*without})


def run(notebook: Path, without: Iterable[Path] = ()) -> str:
    """Hash of all that a chapter's run rests on but some data and what it measures: its code, and not its prose."""
    cells = [(cell.get("id"), cell["source"]) for cell in _cells(notebook)]
    code = code_of(notebook)
    drawn = (paths.FIGURES / "drawings").glob("*.svg")
    files = digest(imported(code), *_files(_places(code)), *drawn, without=without)
    return hashlib.sha256(repr((cells, files)).encode()).hexdigest()
