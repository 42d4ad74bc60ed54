"""Words of the authors' own that readers stumble over, and what the field says: `make lint` finds them in docstrings
and messages of the package, and in the text of pages and chapters.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from traintime import paths, workloads
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

# Not a word but a name: a module (predict.prices), a value; in docstrings an argument (prices: by term).
WORD = r"(?<![\w\"./-])(?:{})(?![\w\"/-]|\.\w)"
NO_ARGUMENT = r"(?!:)"
# What came of a claim or a prediction. Code says it, as it gives a number: other data may turn it round.
OUTCOME = re.compile(
    r"(?i)\b(?:(?:confirm|refut)(?:s|ed)|came true|as (?:we )?predicted"
    r"|(?:it|they|that|this|these|which|both|(?:claim|prediction|guess)s?) (?:\w+ )?(?:holds?|held|fail(?:s|ed)?)"
    r"|(?:on|under \w+) (?:every|all(?: \w+)?) stacks?)\b(?! (?:that|of))"
)
# Nothing has come of what a sentence asks, or says that somebody predicted or that a test checks.
OPEN = re.compile(r"(?i)\b(?:whether|we predicted|predicted that|test checks|rule)\b|\?$")
CODE = re.compile(r"`[^`]*`")
SPOKEN = {"echo", "print", "Option", "Argument", "Field", "Typer"}  # calls whose text people read; and every `raise`
SKIPPED = {"claim", "Prose", "table"}  # calls whose text is a page's
FEWEST = 4  # words of a message; fewer are a value, unless other text is put in between


def private_words(modules: Iterable[Path]) -> list[str]:
    """One line for each private word in the docstrings and messages of these modules: file, line, word, replacement."""
    found = []
    for module in modules:
        for line, text, words, ending in _texts(module):
            text = CODE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), text)  # as long as before
            for place, word, replacement in _private(text, words, ending):
                number = line + text[:place].count("\n")
                found.append(f"{module.relative_to(paths.ROOT)}:{number}: {word!r}: {replacement}")
    return found


def private_words_on_pages(pages: Iterable[Path]) -> list[str]:
    """One line for each private word in the text of Markdown files and notebooks: file, sentence, word, replacement."""
    found = []
    for page in pages:
        for text in _prose(page):
            text = NO_PROSE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), text)
            for_developers = page.name == "CONTRIBUTING.md"  # where a point is the class of that name
            for place, word, replacement in _private(text, WORDS if for_developers else WORDS | IN_MESSAGES, ""):
                context = " ".join(text[max(place - 40, 0) : place + 40].split())
                found.append(f"{page.relative_to(paths.ROOT)}: {word!r} in {context!r}: {replacement}")
    return found


def typed_outcomes(pages: Iterable[Path]) -> list[str]:
    """One line for each sentence of chapters, and of pages that tell results, that says what came of a claim."""
    found = []
    for page in (each for each in pages if each.suffix == ".ipynb" or each.name in ("index.md", "learned.md")):
        for text in _prose(page):
            plain = NO_PROSE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), text)
            for sentence in re.split(r"(?<=[.!?:;])\s+|\n\s*\n", plain):
                if (outcome := OUTCOME.search(" ".join(sentence.split()))) and not OPEN.search(sentence):
                    said = " ".join(sentence.split())
                    found.append(f"{page.name} has {outcome[0]!r} typed into its prose; let code say it: {said[:120]}")
    return found


def pages() -> list[Path]:
    """The texts that readers see: pages, README and chapters; what the changelog said, it said."""
    texts = set(paths.ROOT.glob("*.md")) - {paths.ROOT / "CHANGELOG.md"}
    return [*sorted(texts), *sorted(paths.CHAPTERS.glob("*.ipynb"))]


def _prose(page: Path) -> Iterator[str]:
    if page.suffix == ".md":
        yield page.read_text()
        return
    for cell in json.loads(page.read_text())["cells"]:
        if cell["cell_type"] == "markdown":
            yield "".join(cell["source"])
        shown = cell["metadata"].get("mystnb", {})
        yield from filter(None, (shown.get("figure", {}).get("caption"), shown.get("image", {}).get("alt")))


def _private(text: str, words: dict[str, str], ending: str) -> Iterator[tuple[int, str, str]]:
    """Each private word of a text: where it begins, the word, its replacement."""
    for pattern, replacement in words.items():
        for match in re.finditer(WORD.format(pattern.replace(" ", r"\s+")) + ending, text, re.IGNORECASE):
            yield match.start(), " ".join(match[0].split()), replacement


def modules() -> list[Path]:
    """The package's modules, without the sources whose hash is part of every measurement (store.code)."""
    hashed = {*paths.WORKER.glob("*.py"), *paths.DEFERRED.glob("*.py")}
    for sizes in workloads.ALL.values():
        hashed |= {sizes.folder / "data.py", *sizes.folder.glob("on_*.py")}
    return sorted(set(paths.PACKAGE.rglob("*.py")) - hashed)


def _texts(module: Path) -> Iterator[tuple[int, str, dict[str, str], str]]:
    """Docstrings and messages of a module: line, text, the words that it must not hold, and what may not follow them.

    Messages are all texts outside of traintime/book; in it, where texts are pages, those that are raised or printed.
    """
    tree = ast.parse(module.read_text())
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            docstrings.add(node.body[0].value)
            yield node.body[0].lineno, node.body[0].value.value, WORDS, NO_ARGUMENT
    yield from _messages(tree, paths.PACKAGE / "book" not in module.parents, docstrings)


def _messages(node: ast.AST, spoken: bool, passed: set[ast.AST]) -> Iterator[tuple[int, str, dict[str, str], str]]:
    """Messages below a node. spoken: whether people read its texts; passed: texts that are docstrings."""
    if isinstance(node, ast.Raise):
        spoken = True
    elif isinstance(node, ast.Call):
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in SKIPPED:
            return
        spoken = spoken or name in SPOKEN
    elif isinstance(node, ast.Constant):
        if spoken and isinstance(node.value, str) and node not in passed:
            yield node.lineno, node.value, WORDS | IN_MESSAGES, ""
        return
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.Constant) and _is_value(child)) or isinstance(node, ast.JoinedStr):
            yield from _messages(child, spoken, passed)


def _is_value(text: ast.Constant) -> bool:
    return len(str(text.value).split()) < FEWEST
