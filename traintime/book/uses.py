"""What a page rests on, as one hash: a notebook, the modules of the package that it imports, the data that those read.

The hash is of contents, so that a file that was only touched, or fetched again, makes nothing again.
"""

import ast
import copy
import functools
import hashlib
import io
import json
import re
import tokenize
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from traintime import paths
from traintime.book import kept

if TYPE_CHECKING:
    import grimp

# Folders of data by the module through which a chapter reads them.
DATA = {
    "traintime.book.stored": paths.MEASUREMENTS,
    "traintime.book.predictions": paths.DATA / "predictions.csv",
    "traintime.book.verdicts": paths.DERIVED,
    "traintime.book.original": paths.ORIGINAL,
    "traintime.book.external": paths.EXTERNAL,
    "traintime.store.derived": paths.DERIVED,
    "traintime.predict.bench": paths.PREDICTED,
    "traintime.learning.results": paths.TRIALS,
}
PLOTS = "traintime.book.plots"


def code_of(notebook: Path) -> str:
    """All code of a notebook; lines that belong to IPython and not to Python are left out."""
    cells = json.loads(notebook.read_text())["cells"]
    source = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return "\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!")))


def modules(notebook: Path) -> set[str]:
    """Modules of the package that the notebook's code imports, directly or through others."""
    code, names = code_of(notebook), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return closure(names | _figures(code))


def closure(names: Iterable[str]) -> set[str]:
    """These modules of the package and all that they import; a name outside the package is passed over."""
    known = set(names) & graph().modules
    return known.union(*(graph().find_upstream_modules(name) for name in known))


@functools.cache
def graph() -> "grimp.ImportGraph":
    """Who imports whom in the package.

    Everybody who draws imports `plots`, which passes on what its modules draw. Here it depends on none of them, and
    who imports it on those whose figures it names: a changed figure is drawn again on the pages that show it.
    """
    import grimp  # here: a chapter's page needs no graph, and on Colab there is no grimp

    made = grimp.build_graph("traintime", cache_dir=None)
    for figure in made.find_children(PLOTS):
        made.remove_import(importer=PLOTS, imported=figure)
    for importer in made.find_modules_that_directly_import(PLOTS):
        for figure in _figures(file_of(importer).read_text()):
            made.add_import(importer=importer, imported=figure)
    return made


def judging(module: str) -> set[str]:
    """What a module of claims rests on: all behind it, without what only shows a result on a page."""
    return {module} | _without_drawing().find_upstream_modules(module)


@functools.cache
def _without_drawing() -> "grimp.ImportGraph":
    made = copy.deepcopy(graph())
    for name in (*(f"traintime.book.{shows}" for shows in ("page", "markup", "predictions")), PLOTS, f"{PLOTS}.look"):
        made.remove_module(name)
    return made


def _figures(code: str) -> set[str]:
    """Modules of the figures that a piece of code draws: of `sweeps` for `plots.steps(points)`."""
    drawn = set(re.findall(r"\bplots\.(\w+)", code))
    passed_on = ast.parse(file_of(PLOTS).read_text()).body
    lists = [node for node in passed_on if isinstance(node, ast.ImportFrom)]
    return {node.module for node in lists if node.module and drawn & {alias.name for alias in node.names}}


def file_of(module: str) -> Path:
    """The file of a module of the package."""
    place = paths.ROOT.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def data(used: Iterable[str]) -> set[Path]:
    """Files of data that these modules may read."""
    folders = [DATA[name] for name in used if name in DATA]
    files = (path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*")))
    return {path for path in files if path.suffix in (".json", ".csv")}


def page(notebook: Path) -> str:
    """Hash of all that the chapter's page rests on, but for what its run measures."""
    used = modules(notebook)
    return kept.digest({notebook} | {file_of(name) for name in used} | data(used))


def meaning(used: Iterable[str], judge: str = "") -> str:
    """Hash of what these modules do: comments, docstrings and blank lines do not count.

    judge: a module of which only that counts which its claims need, and not what else its page shows.
    """
    whole = hashlib.sha256()
    for name in sorted(used):
        whole.update(f"{name}\0{_statements(file_of(name), name == judge)}".encode())
    return whole.hexdigest()[:12]


def names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """Names that a statement reads (ast.Load) or sets (ast.Store)."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, context)}
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        names.add(node.target.id)
    if context is ast.Store:
        # `asked["one"] = …` and `asked.one = …` change what `asked` names.
        changed = (each for each in ast.walk(node) if isinstance(each, ast.Subscript | ast.Attribute))
        names |= {
            base.id
            for each in changed
            if isinstance(each.ctx, ast.Store)
            for base in ast.walk(each.value)
            if isinstance(base, ast.Name)
        }
        names |= {each.name for each in ast.walk(node) if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        for each in ast.walk(node):
            if isinstance(each, ast.Import | ast.ImportFrom):
                names |= {alias.asname or alias.name.split(".")[0] for alias in each.names}
    return names


def _needed(tree: ast.Module) -> list[ast.stmt]:
    """The module's statements that its claims need: those that register one, and those that define their names."""
    needed = [node for node in tree.body if re.search(r"claim\w*\(", ast.unparse(node).split("\ndef ")[0])]
    for node in needed:  # it grows meanwhile
        needed += [each for each in tree.body if each not in needed and names(node, ast.Load) & _defined(each)]
    return sorted(needed, key=lambda node: node.lineno)


def _defined(node: ast.stmt) -> set[str]:
    """Names that a statement of a module gives a meaning; those inside of a function or a comprehension are its own."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return {name for target in targets for name in names(target, ast.Store)}


@functools.cache
def _statements(path: Path, judging: bool = False) -> str:
    """A module's lines without comments and docstrings; the same on every version of Python, unlike a syntax tree.

    judging: those lines alone that its claims need.
    """
    source = path.read_text()
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            for row in range(node.body[0].lineno, node.body[0].end_lineno + 1):
                lines[row - 1] = ""
    if judging:
        kept = _needed(ast.parse(source))
        first = [min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))]) for node in kept]
        lines = [line for node, row in zip(kept, first, strict=True) for line in lines[row - 1 : node.end_lineno]]
    return "\n".join(line.rstrip() for line in lines if line.strip())
