"""Words of the authors' own that readers stumble over, and what the field says: `make lint` finds them in docstrings
and messages of the package, and in the text of pages and chapters.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from traintime import paths
from traintime.book.prose import NO_PROSE

# Pattern, matched as whole words -> replacement. A pattern is as narrow as the ordinary uses of its word demand.
WORDS = {
    r"foret(?:ell|ells|elling|old)|promise[sd]?": "predict, predicted",
    r"prices?|priced|bills?|dear(?:er|est)?|cheap(?:er|est|ly)?": "cost, expensive, faster",
    r"(?:told|tells?) (?:\w+ ){0,3}apart": "distinguish; of a difference: significant",
    r"(?:cannot|can be) (?:yet )?be told": "inconclusive, unknown",
    r"beside": "next to, compared with",
    r"stands(?! (?:for|in for|out)\b)": "is (recast the sentence)",
    r"anew": "again; of memory: fresh pages",
    r"(?<!there\s)(?:is|are) (?-i:none)|as such|hand(?:s|ed)? on|reckon\w*|the like": "recast the sentence",
    r"fault(?:ed|ing)|faults? (?:most|more|less|least|at least)": "page fault, incur page faults",
    r"(?:one more|each|per|a) position|position by position|positions one after the other": "time step",
    r"matrix products?|products? of matrices": "matmul",
    r"forward pass (?:keeps|hands on)": "activations",
    r"slots?|(?:its|their) means": "optimizer state, moments",
    r"(?:in|as|by|with) one operation": "fused kernel",
    r"habits?": "efficiency factor",
    r"the document": "the 2017 post (S0), the Stack Overflow question (S4), …",
    r"repeats? (?:itself )?best": "is most repeatable",
    r"critical batch(?:es)?": "break-even batch",
}
IN_MESSAGES = {r"(?<!key\s)(?<!percentage\s)points?": "configuration"}  # in docstrings it is the class Point as well
# Not a word but a name: a module (predict.prices), a value, an argument (prices: by term).
WORD = r"(?<![\w\"./-])(?:{})(?![\w\"/:-]|\.\w)"
# What came of a claim or a prediction. Code says it, as it gives a number: other data may turn it round.
OUTCOME = re.compile(
    r"(?i)\b(?:(?:confirm|refut)(?:s|ed)|came true|as (?:we )?predicted"
    r"|(?:it|they|that|this|these|which|both|(?:claim|prediction|guess)s?) (?:\w+ )?(?:holds?|held|fail(?:s|ed)?)"
    r"|(?:on|under \w+) (?:every|all(?: \w+)?) stacks?)\b(?! (?:that|of))"
)
# Nothing has come of what a sentence asks, or says that somebody predicted or that a test checks.
OPEN = re.compile(r"(?i)\b(?:whether|we predicted|predicted that|test checks|rule)\b|\?$")
FEWEST = 4  # words of a message; fewer are a value
# Sources whose hash is part of every measurement (store.code): they stay as they are.
HASHED = re.compile(r"/measuring/worker/|/deferred/|/workloads/\w+/(?:data|on_\w+)\.py$")


def problems() -> list[str]:
    """One line for each private word of the package, its pages and chapters, and for each outcome typed into them."""
    # What the changelog said, it said.
    pages = [path for path in sorted(paths.ROOT.glob("*.md")) if path.name != "CHANGELOG.md"]
    pages += sorted(paths.CHAPTERS.glob("*.ipynb"))
    found = []
    for path in sorted(paths.PACKAGE.rglob("*.py")):
        if not HASHED.search(path.as_posix()):
            found += [line for text, words in of_module(path) for line in private(path, text, words)]
    for path in pages:
        # To its developers a point is the class of that name.
        words = WORDS if path.name == "CONTRIBUTING.md" else WORDS | IN_MESSAGES
        for text in of_page(path):
            found += private(path, text, words)
            if path.suffix == ".ipynb" or path.name in ("index.md", "learned.md"):
                found += typed_outcomes(path, text)
    return found


def private(path: Path, text: str, words: dict[str, str]) -> Iterator[str]:
    """One line for each private word of a text that is not code: file, word, its surroundings, replacement."""
    text = NO_PROSE.sub("_", text)
    for pattern, replacement in words.items():
        for match in re.finditer(WORD.format(pattern.replace(" ", r"\s+")), text, re.IGNORECASE):
            context = " ".join(text[max(match.start() - 40, 0) : match.end() + 40].split())
            yield f"{path.relative_to(paths.ROOT)}: {match[0]!r} in {context!r}: say {replacement}"


def typed_outcomes(path: Path, text: str) -> Iterator[str]:
    """One line for each sentence of a page that says by itself what came of a claim."""
    for sentence in re.split(r"(?<=[.!?:;])\s+|\n\s*\n", NO_PROSE.sub("_", text)):
        said = " ".join(sentence.split())
        if (outcome := OUTCOME.search(said)) and not OPEN.search(said):
            yield f"{path.name} has {outcome[0]!r} typed into its prose; let code say it: {said[:120]}"


def of_page(path: Path) -> Iterator[str]:
    """The texts of a page: of Markdown all, of a notebook its prose, captions and descriptions of figures."""
    if path.suffix == ".md":
        yield path.read_text()
        return
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "markdown":
            yield "".join(cell["source"])
        shown = cell["metadata"].get("mystnb", {})
        yield from filter(None, (shown.get("figure", {}).get("caption"), shown.get("image", {}).get("alt")))


def of_module(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Docstrings and messages of a module, each with the words that it must not hold; in traintime/book, whose other
    texts are pages, docstrings and what is raised.
    """
    tree = ast.parse(path.read_text())
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            docstrings.add(node.body[0].value)
            yield node.body[0].value.value, WORDS
    in_book = paths.PACKAGE / "book" in path.parents
    spoken = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)] if in_book else [tree]
    for node in (each for one in spoken for each in ast.walk(one)):
        text = node.value if isinstance(node, ast.Constant) and node not in docstrings else None
        if isinstance(text, str) and len(text.split()) >= FEWEST:
            yield text, WORDS | IN_MESSAGES
