"""The last step of a build: formulas as MathML, and pages that load nothing that they do not use.

The theme brings its icons as a script and a font (700 KB, compressed), style sheets of which the pages use a tenth, and
Bootstrap's script (80 KB), of which they need a menu and tooltips. `finish` leaves all of that out. `setup` makes this
module an extension of Sphinx that writes the formulas, so that no page needs a script for them.
"""

import functools
import itertools
import os
import re
import textwrap
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import math_core
import pydata_sphinx_theme
import tinycss2
from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

# A formula has the size of type of its paragraph.
CONVERTER = math_core.LatexToMathML(macros={"small": ""})

STYLES = Path("_static", "pages.css")  # what the pages use of all style sheets
UNUSED = {"fontawesome.js", "bootstrap.js", "design-tabs.js"}
SEARCH = {"searchtools.js", "language_data.js", "searchindex.js"}
ADDRESS = re.compile(r"""url\((?!["']?(?:data:|#))["']?([^"')]+)["']?\)""")

ICON_SCRIPT = Path(pydata_sphinx_theme.__file__).parent.joinpath(
    "theme", "pydata_sphinx_theme", "static", "scripts", "fontawesome.js"
)
ICON_SOURCE = "/*! Icons: Font Awesome Free 6.5.2, https://fontawesome.com, CC BY 4.0 */"
# In style sheets an icon is a character of the icon font, often by way of a variable.
ICON_CHARACTER = re.compile(r'content:(?:var\(--(pst-icon-[\w-]+)\)|"(\\f\w{3}|[\ue000-\uf8ff])")')
ICON_FONT = re.compile(r"font(?:-family)?:(?:var\(--fa-font-\w+\)|Font Awesome[^;]*);?")
# As a mask it has the colour of the text, like a character.
MASK = (
    'content:"";display:inline-block;width:1em;height:1em;background:currentColor;'
    "mask-position:center;mask-repeat:no-repeat;mask-size:contain;"
)

# Before anything is painted: light or dark as the reader chose last, else as the system is.
MODE = """
    document.documentElement.dataset.mode = localStorage.getItem("mode") || "auto";
    document.documentElement.dataset.theme = {light: "light", dark: "dark"}[document.documentElement.dataset.mode]
      || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  """


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


def finish(folder: Path) -> None:
    """Finish the pages of a folder in place, as Sphinx leaves them.

    Raises KeyError for an icon that the theme does not have, FileNotFoundError for a script, style sheet or figure that
    a page names and the folder does not have.
    """
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: BeautifulSoup(path.read_text(), "html.parser") for path in paths}
    for path, page in pages.items():
        _draw_icons(page)
        _replace_bootstrap(page)
        _defer_scripts(page, UNUSED if path.name == "search.html" else UNUSED | SEARCH)
        page.head.find("script", attrs={"data-cfasync": True}).string = MODE
        page.html["data-theme"] = "light"  # where scripts are off
        _describe(page)
        _size_images(page, path)
        _make_accessible(page)
        _set_formulas(page)
    style = _join_styles(pages, folder)
    written = style + "".join(map(str, pages.values()))
    for path, page in pages.items():
        path.write_text(str(page))
    # Of the theme's files, and of drawings of earlier builds, what no page names; licences stay.
    for file in [*(folder / "_static").rglob("*.*"), *(folder / "_images").iterdir()]:
        if file.is_file() and file.suffix != ".txt" and file.name not in written:
            file.unlink()


def _draw_icons(page: BeautifulSoup) -> None:
    """Replace each icon, an empty element with the icon's name among its classes, by its drawing."""
    for mark in page.select(".fas, .fa-solid"):
        classes = [each for each in mark["class"] if each not in ("fas", "fa-solid")]
        name = next(each for each in classes if each.startswith("fa-") and each != "fa-lg")
        width, height, path = _icons()[name.removeprefix("fa-")]
        attributes = {key: value for key, value in mark.attrs.items() if key.startswith("data-")}
        attributes["class"] = ["book-icon", *(each.replace("fa-lg", "large") for each in classes if each != name)]
        # In lower case, like what the parser reads; in a browser both are the same attribute.
        attributes |= {"viewbox": f"0 0 {width} {height}", "aria-hidden": "true"}
        drawing = page.new_tag("svg", attrs=attributes)
        drawing.append(page.new_tag("path", attrs={"d": path}))
        mark.replace_with(drawing)


@functools.cache
def _icons() -> dict[str, tuple[str, str, str]]:
    """Width, height and path of the theme's icons, by name ("moon") and by place in the icon font ("f186")."""
    written = r'[{,]"?([\w-]+)"?:\[(\d+),(\d+),\[[^\]]*\],"(\w+)","([^"]+)"\]'
    icons = {}
    # Outlines come before the solid icons, which are those that the theme shows.
    for name, width, height, code, path in re.findall(written, ICON_SCRIPT.read_text()):
        icons[name] = icons[code] = (width, height, path)
    return icons


def _replace_bootstrap(page: BeautifulSoup) -> None:
    """Menus that browsers open by themselves, and their own tooltips, in the place of Bootstrap's script."""
    for button in page.select('.dropdown > button[data-bs-toggle="dropdown"]'):
        button.parent.name, button.name = "details", "summary"
        button.parent["name"] = "page-menu"  # one is open at a time
        del button["type"], button["aria-expanded"]
    for element in page.select("[data-bs-toggle]"):
        element["title"] = element.get("data-bs-title") or element.get("title") or element["aria-label"]
        for name in [name for name in element.attrs if name.startswith("data-bs-")]:
            del element[name]


def _defer_scripts(page: BeautifulSoup, unused: set[str]) -> None:
    """Leave out scripts that the page does not use, and let it be shown before the others run."""
    for preload in page.find_all("link", rel="preload"):
        preload.decompose()
    for script in page.find_all("script", src=True):
        name = Path(urlsplit(script["src"]).path).name
        if name in unused:
            script.decompose()
        elif name != "documentation_options.js":  # the page's own lines of script read it
            script["defer"] = ""


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
        start = _file(path, image["src"]).read_bytes()[:2000]
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


# Style sheets


def _join_styles(pages: dict[Path, BeautifulSoup], folder: Path) -> str:
    """Write what the pages use of their style sheets into one, name that on each page instead, and return it."""
    links = {path: page.find_all("link", rel="stylesheet") for path, page in pages.items()}
    files = {_file(path, link["href"]): None for path, several in links.items() for link in several}  # in their order
    style = ICON_SOURCE + purge("".join(_sheet(file, folder / STYLES) for file in files), _used(pages))
    (folder / STYLES).write_text(style)
    for path, (first, *others) in links.items():
        first["href"] = f"{os.path.relpath(folder / STYLES, path.parent)}?v={zlib.crc32(style.encode()):08x}"
        for link in others:
            link.decompose()
    return style


def _sheet(file: Path, seen_from: Path) -> str:
    """A style sheet with those that it imports; addresses are written as they are from another file's folder."""
    style = re.sub(r'@import "([^"]+)";', lambda match: _sheet(_file(file, match[1]), file), file.read_text())
    return ADDRESS.sub(lambda match: f"url({os.path.relpath(_file(file, match[1]), seen_from.parent)})", style)


def _used(pages: dict[Path, BeautifulSoup]) -> set[str]:
    """Names of elements, classes and ids on the pages, and every word of their scripts, which may put it there."""
    used, scripts = set(), set()
    for path, page in pages.items():
        for element in page.find_all(True):
            used |= {element.name, element.get("id", ""), *element.get("class", ())}
        for script in page.find_all("script"):
            scripts.add(_file(path, script["src"]).read_text() if script.has_attr("src") else script.text)
    return used.union(*(re.findall(r"\b(?!fa-)[\w-]+", script) for script in scripts))


def purge(style: str, used: set[str]) -> str:
    """A style sheet without the rules for elements, classes and ids that are not among the used ones.

    Icons are drawings there, too, and need no font. Raises KeyError for one that the theme does not have.
    """
    variables = dict(re.findall(r"--(pst-icon-[\w-]+):([^;}]+)", style))
    return "".join(_rules(tinycss2.parse_stylesheet(style, skip_whitespace=True), used, variables))


def _rules(rules: Iterable[tinycss2.ast.Node], used: set[str], variables: dict[str, str]) -> Iterator[str]:
    """The text of the rules that are used. variables: what names of icons stand for."""
    for rule in rules:
        if rule.type == "comment" and rule.value.startswith("!"):  # a licence
            yield rule.serialize()
        elif rule.type == "qualified-rule":
            parts = itertools.groupby(rule.prelude, lambda token: token == ",")
            several = [list(part) for comma, part in parts if not comma]
            selectors = [tinycss2.serialize(each).strip() for each in several if used.issuperset(_names(each))]
            if selectors:
                yield f"{','.join(selectors)}{{{_with_drawings(tinycss2.serialize(rule.content).strip(), variables)}}}"
        elif rule.type == "at-rule" and rule.at_keyword in ("media", "supports"):
            inner = "".join(_rules(tinycss2.parse_rule_list(rule.content, skip_whitespace=True), used, variables))
            if inner:
                yield f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{inner}}}"
        elif rule.type == "at-rule" and not re.search("Font Awesome|@keyframes fa-", rule.serialize()):
            yield rule.serialize()


def _names(selector: list[tinycss2.ast.Node]) -> Iterator[str]:
    """The elements, classes and ids without which a selector matches nothing; not those in `:is()` and `:not()`."""
    for before, token in itertools.pairwise([None, *selector]):
        if token.type == "hash" or (token.type == "ident" and before != ":"):
            yield token.value


def _with_drawings(declarations: str, variables: dict[str, str]) -> str:
    """A rule's declarations, with a drawing where they show a character of the icon font."""

    def drawing(match: re.Match) -> str:
        character = match[2] or f"var(--{match[1]})"
        while character.startswith("var("):
            character = variables[character[len("var(--") : -1]].strip('"')
        width, height, path = _icons()[character[1:] if len(character) > 1 else f"{ord(character):x}"]
        svg = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}'><path d='{path}'/></svg>"
        return f'mask-image:url("data:image/svg+xml,{svg}")'

    drawn, count = ICON_CHARACTER.subn(drawing, declarations)
    return (MASK if count else "") + ICON_FONT.sub("", drawn)


def _file(page: Path, address: str) -> Path:
    """The file that an address on a page, or in a style sheet, names."""
    return Path(os.path.normpath(page.parent / unquote(urlsplit(address).path)))
