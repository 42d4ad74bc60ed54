"""The numbers in the chapters' sentences, their tables and what their cells print are those that somebody reviewed.

`pytest tests/chapters/test_golden.py --golden` writes tests/golden anew from the built book: each change is a line of a
difference, to be read before it is committed. What a chapter measures by itself, and what follows from it, is not held.
"""

import ast
import html
import json
import re
import symtable
from pathlib import Path

import pytest

from traintime.book import contents, numbers

GOLDEN = Path(__file__).parents[1] / "golden"
# What this machine does now: another run, or another machine, gives other numbers.
LIVE = re.compile(
    r"\brun\.run\(|perf_counter|\btraintime\.estimate\(|\b(here|process|subprocess)\.|\.fit\(|\btime_step\(|\bcProfile\."
    r"|\bmemory_of\(|\bmeasure\("
)


def held(notebook: Path) -> dict[str, list[str]]:
    """By cell, in order: "expression: value" of numbers in the text, rows of tables, lines that were printed."""
    found, live = {}, set()
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            continue
        if cell["id"] == numbers.CELL:
            given = cell["outputs"][0]["data"][numbers.KIND]
            found[cell["id"]] = [f"{each}: {given[each]!r}" for each in given if not _is_live(each, live)]
            continue
        # Cells without the tag need nothing that is measured here: they are judged on every machine.
        if "here" in cell["metadata"].get("tags", []) and _is_live(source, live):
            live |= _set(source)
        else:
            # What is printed arrives in pieces, others at each run.
            said = "".join(_text(output.get("text", "")) for output in cell["outputs"]).splitlines()
            if lines := [line for output in cell["outputs"] for line in _lines(output)] + said:
                found[cell["id"]] = lines
            live -= _set(source)
    return found


def _is_live(source: str, live: set[str]) -> bool:
    """Whether code measures, or reads a name that code gave which does: one that is not first given anew."""
    tables = [symtable.symtable(source, "cell", "exec")]
    for table in tables:
        tables += table.get_children()
    symbols = [one for table in tables for one in table.get_symbols()]
    read = {one.get_name() for one in symbols if one.is_referenced() and one.is_global()}
    given = {one.get_name() for one in tables[0].get_symbols() if one.is_assigned()}
    assigned = [one for one in ast.parse(source).body if isinstance(one, ast.Assign)]
    changes = [_names(one.value) & _names(*one.targets) for one in assigned]
    return bool(LIVE.search(source) or (read - given).union(*changes) & live)


def _set(source: str) -> set[str]:
    """Names that code gives a value, also in part: `asked["one"] = …` sets `asked`; not those of a function's own."""
    parts = list(ast.walk(ast.parse(source)))
    names = _names(*(one for one in parts if isinstance(getattr(one, "ctx", None), ast.Store)))
    names |= {one.name for one in parts if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    return names & set(symtable.symtable(source, "cell", "exec").get_identifiers())


def _names(*parts: ast.AST) -> set[str]:
    return {each.id for one in parts for each in ast.walk(one) if isinstance(each, ast.Name)}


def _lines(output: dict) -> list[str]:
    rows = re.findall(r"<tr.*?</tr>", _text(output.get("data", {}).get("text/html", "")), re.DOTALL)
    return [" | ".join(map(_plain, re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL))) for row in rows]


def _text(given: str | list[str]) -> str:
    return given if isinstance(given, str) else "".join(given)


def _plain(cell: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", cell)).split())


@pytest.mark.parametrize("chapter", contents.chapters())
def test_its_numbers_are_those_that_were_reviewed(executed, chapter, request):
    path, found = GOLDEN / f"{chapter[:2]}.json", held(executed / f"{chapter}.ipynb")
    if request.config.getoption("golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n")
    kept = json.loads(path.read_text()) if path.exists() else {}
    assert list(found) == list(kept), "cells with numbers; --golden writes them anew, read the difference"
    for cell, lines in found.items():
        assert lines == kept[cell], f"{cell} of {chapter}; --golden writes it anew, read the difference"
