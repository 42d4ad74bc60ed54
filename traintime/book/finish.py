"""The last step of a build: formulas as MathML, figures that keep their place, what search engines and screen readers
need.

`setup` makes this module an extension of Sphinx that writes the formulas, so that no page needs a script for them.
"""

import os
import re
import textwrap
import zlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import math_core
from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

# A formula has the size of type of its paragraph.
CONVERTER = math_core.LatexToMathML(macros={"small": ""})


# Formulas


def setup(app: Sphinx) -> dict[str, object]:
    """The renderer `mathml` for Sphinx (`html_math_renderer: mathml`); a formula that cannot be read is a warning."""
    app.add_html_math_renderer("mathml", (_visit_math, None), (_visit_math, None))
    # Pages that another version of this code wrote are written again.
    return {"env_version": zlib.crc32(Path(__file__).read_bytes()), "parallel_read_safe": True}


def mathml(formula: str, block: bool) -> str:
    """MathML of a formula in LaTeX; block: on a line of its own. Raises ValueError for a formula that is no LaTeX."""
    try:
        return CONVERTER.convert_with_local_state(formula, displaystyle=block)
    except math_core.LatexError as problem:
        raise ValueError(f"the formula {formula!r} cannot be read: {problem}") from problem


def _visit_math(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    block = isinstance(node, nodes.math_block)
    name = "div" if block else "span"
    translator.body.append(translator.starttag(node, name, "", CLASS="math notranslate nohighlight"))
    for part in node.astext().split(r"\qquad"):  # on a phone the parts have a line each
        try:
            translator.body.append(mathml(part.strip(), block))
        except ValueError as problem:
            # With its place. The build fails for warnings when all pages are written: it names all such formulas.
            logging.getLogger(__name__).warning("%s", problem, location=node)
    translator.body.append(f"</{name}>")
    raise nodes.SkipNode


# Pages

# The theme loads these on every page for a search that answers while one types, which it has not switched on. Where the
# first is loaded, Sphinx marks no word that was searched for.
SEARCH = ("searchtools.js", "language_data.js", "searchindex.js")


def finish(folder: Path) -> None:
    """Finish the pages of a folder in place, as Sphinx leaves them.

    Raises FileNotFoundError for a figure that a page names and the folder does not have.
    """
    written = ""
    for path in sorted(folder.rglob("*.html")):
        if "_static" not in path.parts:
            page = BeautifulSoup(path.read_text(), "html.parser")
            if page.title is None:  # a chapter's former address, which leads to its page
                continue
            page.html["data-theme"] = "light"  # where scripts are off
            for script in [] if path.name == "search.html" else page.select("script[src]"):
                if Path(urlsplit(script["src"]).path).name in SEARCH:
                    script.decompose()
            _describe(page)
            _size_images(page, path)
            _make_accessible(page)
            _set_formulas(page)
            path.write_text(str(page))
            written += str(page)
    for drawing in (folder / "_images").iterdir():  # of an earlier build
        if drawing.name not in written:
            drawing.unlink()


def _describe(page: BeautifulSoup) -> None:
    """What search engines and messengers show of the page: its title, and its first paragraph in about 200 letters."""
    title = re.sub(" [—-] [^—]*$", "", page.title.text)  # without the book's
    first = page.select_one("article section > p")
    text = textwrap.shorten(first.text if first else title, 200, placeholder=" …")
    described = {"description": text, "og:title": title, "og:description": text, "og:type": "website"}
    for name, content in described.items():
        key = "property" if name.startswith("og:") else "name"
        page.title.insert_before(page.new_tag("meta", attrs={key: name, "content": content}))


def _size_images(page: BeautifulSoup, path: Path) -> None:
    """Keep each figure's place free until it is loaded: the first one at once, others when they are nearly in sight."""
    for number, image in enumerate(page.select("article img")):
        file = Path(os.path.normpath(path.parent / unquote(urlsplit(image["src"]).path)))
        start = file.read_bytes()[:2000]
        if size := re.search(rb'<svg[^>]* width="([\d.]+)pt" height="([\d.]+)pt"', start):
            width, height = (round(float(points) * 4 / 3) for points in size.groups())
            image.attrs |= {"width": str(width), "height": str(height)}
        if number:
            image["loading"] = "lazy"


def _make_accessible(page: BeautifulSoup) -> None:
    """What is scrolled sideways on a phone can be scrolled by keyboard; what folds is called what is written on it;
    the contents are a landmark, a table's corner heads nothing, and a list of sources is plain text.
    """
    for figure in page.select("article figure"):
        figure["tabindex"] = "0"
    for summary in page.select("article summary[aria-label]"):
        del summary["aria-label"]
    for contents in page.select("div.bd-sidebar-primary"):
        contents.attrs |= {"role": "navigation", "aria-label": "Book"}
    for head in page.select("article th"):
        if not head.text.strip():
            head.name = "td"
            head.attrs.pop("scope", None)
    for source in page.select("article .citation-list, article .citation"):
        del source["role"]


def _set_formulas(page: BeautifulSoup) -> None:
    """Formulas that code wrote as LaTeX (markup.inline), which a notebook sets by MathJax. Raises ValueError."""
    for formula in page.select("span.math"):
        if formula.text.startswith(r"\("):
            found = mathml(formula.text.removeprefix(r"\(").removesuffix(r"\)"), block=False)
            formula.clear()
            formula.append(BeautifulSoup(found, "html.parser"))
