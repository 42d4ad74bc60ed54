"""What a chapter depends on: the modules that it imports, and theirs; and the data that those read."""

import ast
import functools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from traintime import paths

# Folders of data by the module through which a chapter reads them.
DATA = {
    "traintime.book.stored": paths.MEASUREMENTS,
    "traintime.book.predictions": paths.DATA / "predictions.csv",
    "traintime.book.original": paths.ORIGINAL,
    "traintime.book.external": paths.EXTERNAL,
    "traintime.store.derived": paths.DERIVED,
    "traintime.measuring.operations": paths.DERIVED,
    "traintime.measuring.equal_losses": paths.DERIVED,
    "traintime.predict.bench": paths.PREDICTED,
    "traintime.predict.prices": paths.DERIVED,
    "traintime.learning.results": paths.TRIALS,
}


def modules(notebook: Path) -> list[Path]:
    """Files of the package that the notebook's code imports, directly or through others, in a fixed order."""
    cells = json.loads(notebook.read_text())["cells"]
    source = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    # A line that belongs to IPython is none of Python's.
    code = "\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!")))
    return closure(_imported(ast.parse(code)))


def closure(names: Iterable[str]) -> list[Path]:
    """Files of these modules of the package and of all that they import; a measuring one brings the workers' files.

    Through a package that only passes names on (plots, a chapter's folder) a file depends on those modules alone whose
    names it uses: a changed figure does not draw the others again.
    """
    found: dict[str, Path] = {}
    queue = list(names)
    while queue:
        name = queue.pop()
        if name not in found and (path := _file(name)) and not _passes_on(path):
            found[name] = path
            queue += _imported(_parsed(path))
    if "traintime.measuring.measure" in found:
        workers = [*paths.WORKER.glob("*.py"), *(paths.PACKAGE / "workloads").rglob("*.py")]
        found |= {str(path): path for path in workers}
    return sorted(set(found.values()))


def data(notebook: Path) -> list[Path]:
    """Files of data that the notebook may read, by the modules that it uses."""
    used = set(modules(notebook))
    folders = [place for name, place in DATA.items() if _file(name) in used]
    files = [path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*"))]
    return sorted(path for path in files if path.suffix in (".json", ".csv"))


@functools.cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _imported(tree: ast.Module) -> Iterator[str]:
    """Names of modules of the package that a piece of code imports; a name that is none is harmless."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("traintime"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("traintime"):
            yield node.module
            yield from _behind(node.module, {name.name for name in node.names})
            for name in node.names:
                yield f"{node.module}.{name.name}"
                yield from _behind(f"{node.module}.{name.name}", _attributes(tree, name.asname or name.name))


def _passes_on(path: Path) -> bool:
    """Whether a package's file holds nothing but imports, and the list of what they give."""
    body = _parsed(path).body[1:]  # after its docstring
    kinds = (ast.ImportFrom, ast.Assign)
    return path.name == "__init__.py" and len(body) > 1 and all(isinstance(node, kinds) for node in body)


def _behind(package: str, names: set[str]) -> Iterator[str]:
    """The modules from which a package that only passes names on has these."""
    if (path := _file(package)) and _passes_on(path):
        for node in _parsed(path).body:
            if isinstance(node, ast.ImportFrom) and names & {alias.asname or alias.name for alias in node.names}:
                yield node.module or ""


def _attributes(tree: ast.Module, name: str) -> set[str]:
    """What is asked of a name: {"steps"} of `plots` in `plots.steps(points)`."""
    asked = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))
    return {node.attr for node in asked if node.value.id == name}


def _file(name: str) -> Path | None:
    """The file of a module of the package, or None where there is no such module."""
    place = paths.ROOT.joinpath(*name.split("."))
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)
