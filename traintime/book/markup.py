"""Markdown as HTML that reads alike on a built page, in JupyterLab and on Colab, which know nothing of MyST."""

import html
import re
from collections.abc import Sequence

from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark", {"html": True})
MATHEMATICS = re.compile(r"\$([^$\s](?:[^$\n]*[^$\s])?)\$")
WIDE, WIDE_OF_SENTENCES = 3, 2  # columns that fit a phone; a wider table is folded there into one block a row


def signs(text: str) -> str:
    """A text with its numbers' signs as in the prose: "71 %" for "71%", "−3" for "-3"."""
    text = re.sub(r"(?:^|(?<=[\s(>*±]))-(?=[\d.])", "−", text)
    return re.sub(r"(?<=\d)%(?![\w\"']|;\S)", "\u00a0%", text)


def inline(text: str) -> str:
    """A piece of a sentence: emphasis, code, links and $mathematics$ as HTML; HTML in it stays."""
    text = signs(text)
    formulas = MATHEMATICS.findall(text)
    made = _MARKDOWN.renderInline(MATHEMATICS.sub("\ufffc", text))
    for formula in formulas:
        made = made.replace("\ufffc", f'<span class="math">\\({html.escape(formula, quote=False)}\\)</span>', 1)
    return made


def plain(text: str) -> str:
    """A text from a measurement file for a page: whatever it holds is shown, and is neither HTML nor Markdown."""
    return re.sub(r"[^A-Za-z0-9 .,:;()/+@%-]", lambda sign: f"&#{ord(sign[0])};", text)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: bool = True) -> str:
    """A table: the first column to the left, the others to the right; or all to the left, sentences that wrap.

    Every cell carries its column's head, with which style sheets can stack a row's cells on a narrow screen.
    """
    fits = WIDE if right else WIDE_OF_SENTENCES
    kinds = ["number" if right else "sentence", *(["wide"] if len(heads) > fits else [])]
    names = [html.escape(re.sub(r"<[^>]+>|[*`]", " ", head).strip(), quote=True) for head in heads]
    lines = [f'<table class="table book-table {" ".join(kinds)}">', "<thead><tr>"]
    lines += [f'<th scope="col">{inline(head)}</th>' for head in heads]
    lines += ["</tr></thead>", "<tbody>"]
    for row in rows:
        texts = [inline(_kept_together(cell) if right else cell) for cell in row]
        cells = [f'<td data-head="{name}">{text}</td>' for name, text in zip(names, texts, strict=True)]
        lines += ["<tr>", *cells, "</tr>"]
    return "\n".join([*lines, "</tbody>", "</table>"])


def _kept_together(cell: str) -> str:
    """A cell that breaks between a number and its interval, and not inside of a name, a number or an interval."""
    cell = re.sub(r"\([^()]*\)|± \S+", lambda match: match[0].replace(" ", "\u00a0"), cell)
    return re.sub(r"(?<=\w)-(?=\w)", "\u2011", cell) if cell.count(" ") == 0 else cell


def fold(summary: str, content: str) -> str:
    """HTML behind a line that opens it."""
    return f'<details class="book-fold">\n<summary>{inline(summary)}</summary>\n{content}\n</details>'


def box(title: str, content: str) -> str:
    """HTML in a titled box."""
    title = f'<p class="admonition-title">{inline(title)}</p>'
    return f'<div class="admonition note book-box">\n{title}\n{content}\n</div>'
