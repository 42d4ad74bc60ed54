"""Check the chapters' sources: no outputs, one cell of parameters, no measured number typed into a sentence."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path


def notebooks_with_outputs(notebooks: list[Path]) -> list[str]:
    """What is wrong with committed notebooks: outputs, execution counts, no parameters cell, a cell that glues numbers
    into the text and does something else besides, which the reader's copies would lack with it.
    """
    found = []
    for path in notebooks:
        cells = json.loads(path.read_text())["cells"]
        if any(cell.get("outputs") or cell.get("execution_count") for cell in cells):
            found.append(f"{path.name} has outputs; clear them before committing")
        if sum("parameters" in cell["metadata"].get("tags", []) for cell in cells) != 1:
            found.append(f"{path.name} needs one cell tagged parameters")
        for cell in cells:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and "page.glue(" in source and not _only_glues(source):
                found.append(f"{path.name} glues in a cell that does more; give the rest a cell of its own: {source}")
    return found


def _only_glues(source: str) -> bool:
    return all(ast.unparse(each).startswith("page.glue(") for each in ast.parse(source).body)


# What a sentence may hold beside prose: code, MyST's roles, mathematics, links, tags. A fenced directive holds prose.
FENCED = r"^[ ]*(?P<fence>`{3,}|~{3,})(?!\{(?!code|math))[^\n]*\n(?s:.*?)(?:^[ ]*(?P=fence)[`~]*[ ]*$|\Z)"
MATHEMATICS = r"\$\$(?s:.+?)\$\$|(?<![\\$])\$(?![\s$])[^$\n]+?(?<!\s)\$(?!\d)|\{math\}`[^`]*`"
ROLE_OR_CODE = r"\{[\w:+.-]+\}`[^`]*`|(?<!`)(?P<ticks>``?)(?!`)(?:(?!\n\s*\n)(?s:.))+?(?<!`)(?P=ticks)(?!`)"
LINK = r"(?<=\])\([^)\n]*\)|^[ ]*\[[^\]\n]+\]:.*$|https?://\S+|<!--(?s:.*?)-->|</?[A-Za-z][^>]*>"
NO_PROSE = re.compile(rf"(?m){FENCED}|(?P<mathematics>{MATHEMATICS})|{ROLE_OR_CODE}|{LINK}")
CODE, SYMBOL = "\0", "\1"  # what stands in the place of each of their characters
BLOCK_END = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:(?:[-*+>]|\d+[.)]|#+)[ \t]|\||:::|```|~~~))")
SENTENCE_END = re.compile(rf"(?<=[.!?])[*_\"”’')\]]*\s+(?=[*_\"“‘'(\[]*[A-Z0-9{{{CODE}{SYMBOL}])")
# A number with a unit of time, memory, rate, ratio or share; a product of sizes (300 × 128) is none.
UNIT = (
    r"[nuµμm]?s|(?:nano|micro|milli)?seconds?|min|minutes?|h|hours?|days?|[MGT]i?B(?:/s)?|[MGT]?FLOPs?(?:/s)?"
    rf"|\\?%|‰|per\s?cent|times(?!\s+\d)|[×x](?!\s*(?:\d|{SYMBOL}|[A-Z]\b))"
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
            for quantity, sentence in _quantities(source):
                found.append(f"{notebook.name} has {quantity!r} typed into its prose; let code give it: {sentence}")
    return found


def _quantities(text: str) -> Iterator[tuple[str, str]]:
    """Each typed quantity of a text, with its sentence."""
    # As long as the text, so that places in the one are places in the other.
    prose = NO_PROSE.sub(lambda match: re.sub(r"[^\n]", SYMBOL if match["mathematics"] else CODE, match[0]), text)
    for block in _parts(prose, BLOCK_END, slice(0, len(prose))):
        before = ""
        for place in _parts(prose, SENTENCE_END, block):
            sentence = " ".join(text[place].split())
            if not OF_A_SOURCE.search(sentence) and not OF_THE_PAGE.search(before + sentence):
                for quantity in QUANTITY.finditer(prose[place]):
                    if not (LEVEL.fullmatch(quantity[0]) and OF_AN_INTERVAL.search(sentence)):
                        yield " ".join(quantity[0].split()), sentence
            before = f"{sentence} "


def _parts(text: str, end: re.Pattern[str], whole: slice) -> Iterator[slice]:
    """The places between one end and the next."""
    start = whole.start
    for match in end.finditer(text, whole.start, whole.stop):
        yield slice(start, match.start())
        start = match.end()
    yield slice(start, whole.stop)
