"""Numbers where they are read: `{eval}` and an expression in a chapter's text, evaluated at the end of its run.

The expression sees what the notebook's code has named, and JupyterLab's MyST extension shows it live. The executed
chapter keeps every expression with its text (`given`); one substitution (`fill`) serves the page and the reader's
copy.
"""

import ast
import builtins
import re
import symtable
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import nbformat
from IPython.display import display

from traintime.book import markup, uses
from traintime.errors import InputError

EVAL = re.compile(r"\{eval\}`([^`]+)`")
KIND = "application/vnd.traintime.numbers+json"
CELL = "numbers"  # id of the cell that evaluates them, the last one
NOT_MEASURED = "(not measured)"


def or_not_measured(give: Callable[[], Any]) -> str:
    """A value as text, or that the machine which the page shows has not measured what it needs."""
    try:
        text = markup.signs(str(give()))
    except (KeyError, IndexError):  # a row that is not there
        return NOT_MEASURED
    return NOT_MEASURED if re.search(r"\bnan\b", text) else text


def texts(notebook: nbformat.NotebookNode) -> list[str]:
    """The texts of a notebook that may name numbers: of its Markdown cells, and of its figures' captions."""
    markdown = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return markdown + [figure["caption"] for figure in _figures(notebook)]


def named(notebook: nbformat.NotebookNode) -> list[str]:
    """The expressions that a notebook's texts name, each once."""
    return list(dict.fromkeys(each for text in texts(notebook) for each in EVAL.findall(text)))


def with_cell(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with a last cell, hidden on the page, that evaluates what its texts name."""
    source = f"from traintime.book import numbers\n\nnumbers.give({named(notebook)!r}, globals())"
    cell = nbformat.v4.new_code_cell(source, id=CELL, metadata={"tags": ["remove-cell"]})
    notebook.cells.append(cell)
    return notebook


def give(expressions: Iterable[str], names: Mapping[str, Any]) -> None:
    """Keep the texts of the expressions, with these names, in the cell's output. Raises as `evaluated`."""
    display({KIND: evaluated(expressions, names)}, raw=True)


def evaluated(expressions: Iterable[str], names: Mapping[str, Any]) -> dict[str, str]:
    """Each expression with its text. Raises RuntimeError that quotes one which names what does not exist."""
    from traintime import lab  # here: what executes a chapter computes nothing itself

    found = {}
    for each in expressions:
        try:
            found[each] = or_not_measured(lambda each=each: eval(each, dict(names)))
        except (NameError, AttributeError, TypeError, SyntaxError, InputError) as problem:
            if getattr(problem, "name", None) in lab.gone:
                found[each] = NOT_MEASURED
                continue
            raise RuntimeError(f"the text names {{eval}}`{each}`: {problem}. Correct it in the notebook.") from None
    return found


def given(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Every expression of an executed chapter with its text."""
    outputs = [output for cell in notebook.cells if cell.id == CELL for output in cell.outputs]
    return next((output.data[KIND] for output in outputs if KIND in output.get("data", {})), {})


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with its numbers. Raises KeyError for an expression without a value."""
    return EVAL.sub(lambda match: values[match[1]], text)


def page(source: nbformat.NotebookNode, executed: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """An executed chapter with the prose that its source has now, and its numbers filled in.

    Raises KeyError for a cell or an expression that the run did not have.
    """
    values, ran = given(executed), {cell.id: cell for cell in executed.cells}
    for cell in source.cells:
        if cell.cell_type == "markdown":
            cell.source = fill(cell.source, values)
        else:
            cell.source, cell.outputs = ran[cell.id].source, ran[cell.id].outputs
    for figure in _figures(source):
        figure["caption"] = fill(figure["caption"], values)
    source.metadata = executed.metadata
    source.cells += [cell for cell in executed.cells if cell.id == CELL]  # the reader's copy has its numbers from there
    return source


def _figures(notebook: nbformat.NotebookNode) -> list[Any]:
    figures = [cell.metadata.get("mystnb", {}).get("figure", {}) for cell in notebook.cells]
    return [figure for figure in figures if "caption" in figure]


def unknown(source: Path) -> list[str]:
    """Expressions of a source notebook, or of a page without code, that name what its code does not define; a page has
    the name of the reference machine, and what it quotes of an executed chapter.
    """
    if source.suffix == ".ipynb":
        expressions = named(nbformat.read(source, as_version=4))
        symbols = symtable.symtable(uses.code_of(source), source.name, "exec").get_symbols()
        known = {one.get_name() for one in symbols if one.is_assigned() or one.is_imported() or one.is_namespace()}
    else:
        expressions, known = EVAL.findall(source.read_text()), {"machine", "quoted"}
    known |= set(dir(builtins))
    found = []
    for each in expressions:
        parts = list(ast.walk(ast.parse(each, mode="eval")))
        own = {one.id for one in parts if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        own |= {one.arg for one in parts if isinstance(one, ast.arg)}
        missing = {one.id for one in parts if isinstance(one, ast.Name)} - own - known
        found += [f"{source.name}: {{eval}}`{each}` names {name}, which nothing defines" for name in sorted(missing)]
    return found
