"""Check the chapters' sources: no outputs, one cell of parameters, no measured number typed into a sentence; and write
what a sentence lists.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd


def notebooks_with_outputs(notebooks: list[Path]) -> list[str]:
    """What is wrong with committed notebooks: outputs, execution counts, no parameters cell."""
    found = []
    for path in notebooks:
        cells = json.loads(path.read_text())["cells"]
        if any(cell.get("outputs") or cell.get("execution_count") for cell in cells):
            found.append(f"{path.name} has outputs; clear them before committing")
        if sum("parameters" in cell["metadata"].get("tags", []) for cell in cells) != 1:
            found.append(f"{path.name} needs one cell tagged parameters")
    return found


# What a sentence may hold beside prose: code, MyST's roles, mathematics, links, tags. A fenced directive holds prose.
FENCED = r"^[ ]*(?P<fence>`{3,}|~{3,})(?!\{(?!code|math))[^\n]*\n(?s:.*?)(?:^[ ]*(?P=fence)[`~]*[ ]*$|\Z)"
MATHEMATICS = r"\$\$(?s:.+?)\$\$|(?<![\\$])\$(?![\s$])[^$\n]+?(?<!\s)\$(?!\d)|\{math\}`[^`]*`"
ROLE_OR_CODE = r"\{[\w:+.-]+\}`[^`]*`|(?<!`)(?P<ticks>``?)(?!`)(?:(?!\n\s*\n)(?s:.))+?(?<!`)(?P=ticks)(?!`)"
LINK = r"(?<=\])\([^)\n]*\)|^[ ]*\[[^\]\n]+\]:.*$|https?://\S+|<!--(?s:.*?)-->|</?[A-Za-z][^>]*>"
NO_PROSE = re.compile(rf"(?m){FENCED}|{MATHEMATICS}|{ROLE_OR_CODE}|{LINK}")
BLOCK_END = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:(?:[-*+>]|\d+[.)]|#+)[ \t]|\||:::|```|~~~))")
SENTENCE_END = re.compile(r"(?<=[.!?])[*_\"”’')\]]*\s+(?=[*_\"“‘'(\[]*[A-Z0-9{_])")
# A number with a unit of time, memory, rate, ratio or share; a product of sizes (300 × 128) is none.
UNIT = (
    r"[nuµμm]?s|(?:nano|micro|milli)?seconds?|min|minutes?|h|hours?|days?|[MGT]i?B(?:/s)?|[MGT]?FLOPs?(?:/s)?"
    r"|\\?%|‰|per\s?cent|times(?!\s+\d)|[×x](?!\s*(?:\d|_|[A-Z]\b))"
)
QUANTITY = re.compile(
    r"(?<![^\W_])(?<![.,])(?!(?:19|20)\d0s)\d+(?:[.,]\d+)*(?:\s(?:thousand|million|billion))?"
    rf"[*_]*(?:&nbsp;|[\s-])?[*_]*(?:{UNIT})(?!\w)"
)
EXERCISES = re.compile(r"\s*## Exercises\b")
LEVEL = re.compile(r"95\s?(?:%|per\s?cent)")  # of an interval: chosen, and in every chapter the same
OF_AN_INTERVAL = re.compile(r"(?i)\b(?:intervals?|confidence|quantiles?|draws|coefficients)\b")
OF_A_SOURCE = re.compile(r"(?i)\{cite|\bdocuments?\b|\bdata\ssheets?\b")
OF_THE_PAGE = re.compile(
    r"(?i)\b(?:running|to\srun)\sth(?:is|e|ese)\s(?:page|chapter|notebook|cells?)\b"
    r"|\bth(?:is|e)\s(?:page|chapter|notebook)\s(?:runs|takes|needs)\b"
)


def typed_numbers(notebook: Path) -> list[str]:
    """Measured quantities that are typed into a chapter's prose, where code should give them: one sentence each.

    A quantity is a number and a unit of time, memory, rate, ratio or share, outside code, mathematics, roles and
    links. Not ours to measure is what a sentence has from its source (it cites one, or names a source or a data
    sheet), what is said of running the page itself, an interval's level, and what the exercises make up.
    """
    found = []
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            if EXERCISES.match(source):
                break  # an exercise gives its numbers, and no measurement stands behind them
            text = NO_PROSE.sub(lambda code: "{cite}" if code[0].startswith("{cite") else "_", source)
            for block in BLOCK_END.split(text):
                before = ""
                for sentence in SENTENCE_END.split(block):
                    said = " ".join(sentence.split())
                    if not OF_A_SOURCE.search(said) and not OF_THE_PAGE.search(before + said):
                        for quantity in (each[0] for each in QUANTITY.finditer(said)):
                            if not (LEVEL.fullmatch(quantity) and OF_AN_INTERVAL.search(said)):
                                problem = f"{notebook.name} has {quantity!r} typed into its prose; let code give it"
                                found.append(f"{problem}: {said}")
                    before = f"{said} "
    return found


def joined(texts: Iterable[str]) -> str:
    """Texts as a sentence lists them: "numpy", "numpy and 2017-theano"; of none, "no stack"."""
    *others, last = [*texts] or ["no stack"]
    return f"{', '.join(others)} and {last}" if others else last


def span(values: Any, spec: str = ".1f") -> str:
    """From the least to the most of some values: "1.2 to 3.4"."""
    shown = pd.Series(values)
    return f"{shown.min():{spec}} to {shown.max():{spec}}"


def written(found: Any, spec: str = ".2f", scale: float = 1.0) -> Any:
    """A row's value with its interval as text, "1.2 (1.1 to 1.3)"; of a table, such a text for each row."""
    text = f"{{value:{spec}}} ({{low:{spec}}} to {{high:{spec}}})"
    shown = found[["value", "low", "high"]] * scale
    return text.format(**shown) if shown.ndim == 1 else shown.apply(lambda row: text.format(**row), axis=1)
