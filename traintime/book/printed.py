"""The book as one PDF: its built pages, joined into one document that headless Chromium prints (_static/print.css).

Jupyter Book's own `pdfhtml` has no contents with page numbers, no bookmarks and no feet.
"""

import contextlib
import html
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pypdf
import yaml
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Browser, sync_playwright

from traintime import paths
from traintime.book import citation
from traintime.errors import InputError

NAME = "how-long-will-it-train.pdf"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    # Without a network Chromium would load lazy figures from further away than a reader's does: it is told of one.
    "--force-effective-connection-type=4G",
]
LICENCES = "Text and figures: CC BY 4.0. Code: MIT. Measurements: CC0 1.0."
PLACE = "<!-- the book as one PDF -->"  # on the front page (index.md): where its link goes
LINK = f'<p>The whole book is also <a href="{NAME}">one PDF</a>.</p>'


def make() -> tuple[Path, int]:
    """Print the built pages, put the PDF next to them, and link it on the front page; the PDF, and its pages.

    Raises InputError where there is no Chromium.
    """
    built, output = paths.BUILD / "html", paths.BUILD / NAME
    contents = yaml.safe_load((paths.ROOT / "_toc.yml").read_text())
    parts = {part["caption"]: [chapter["file"] for chapter in part["chapters"]] for part in contents["parts"]}
    count = write(built, {"": [contents["root"]]} | parts, output)
    shutil.copyfile(output, built / NAME)
    front = built / "index.html"
    front.write_text(front.read_text().replace(PLACE, LINK))
    return output, count


def write(pages: Path, parts: Mapping[str, Sequence[str]], output: Path) -> int:
    """Print pages into one PDF with a cover, contents, bookmarks and page numbers; returns how many pages it has.

    pages: folder of the built HTML; parts: names of its pages without ".html", by the caption of their part, in
    reading order. Raises InputError where there is no Chromium.
    """
    styles, articles = _joined(pages.absolute(), [name for names in parts.values() for name in names])
    numbers: dict[str, int] = {}
    with chromium() as browser:
        # The contents' page numbers are known when all is printed: it is printed again with them.
        for _ in range(2):
            _print(browser, _document(styles, articles, parts, numbers), output)
            made = pypdf.PdfReader(output)
            for name, target in made.named_destinations.items():
                numbers[name.lstrip("/")] = made.get_destination_page_number(target) + 1
    return len(made.pages)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Headless Chromium, the system's or Playwright's own; raises InputError where there is none that starts."""
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with contextlib.ExitStack() as ending:
        try:
            playwright = ending.enter_context(sync_playwright())
            browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        except Exception as problem:  # a bare one where Playwright's driver lacks a library of the system
            remedy = "Install the package chromium of your distribution, or try make browser."
            raise InputError("browser", executable or "chromium", "does not start", remedy) from problem
        yield browser
        browser.close()


def _joined(pages: Path, names: Sequence[str]) -> tuple[str, dict[str, Tag]]:
    """What the heads of all pages say of style, and their articles by name, as parts of one document.

    Scripts are left out, and what is folded is open. An identifier begins with its page's, a link to another page of
    these leads to its article, and other files are named by their whole address.
    """
    places = {(pages / f"{name}.html").as_uri(): name for name in names}
    styles: dict[str, None] = {}
    articles = {}
    for place, name in places.items():
        page = BeautifulSoup((pages / f"{name}.html").read_text(), "html.parser")
        for sheet in page.select('head > link[rel="stylesheet"]'):
            sheet["href"] = urljoin(place, sheet["href"])
            styles[str(sheet)] = None
        article = articles[name] = page.select_one("article.bd-article")
        for tag in article.select("script, a.headerlink"):
            tag.decompose()
        for tag in article.select("details"):
            tag["open"] = ""
        for tag in article.select("[id]"):
            tag["id"] = _anchor(name, tag["id"])
        article["id"] = _anchor(name)
        for tag in article.select("[src]"):
            tag["src"] = urljoin(place, tag["src"])
            del tag["loading"]  # what is below the window must be there, too
        for link in article.select("a[href]"):
            target, fragment = urldefrag(urljoin(place, link["href"]))
            if target in places:
                link["href"] = f"#{_anchor(places[target], fragment)}"
            elif target.startswith("file:"):
                del link["href"]
    return "\n".join(styles), articles


def _anchor(name: str, fragment: str = "") -> str:
    return name.replace("/", "_") + (f"--{fragment}" if fragment else "")


def _document(
    styles: str, articles: dict[str, Tag], parts: Mapping[str, Sequence[str]], numbers: Mapping[str, int]
) -> str:
    """The book as one page of HTML; numbers: the contents' page numbers by article, where they are known."""
    cited = citation.read()
    feet, contents = [], []
    for caption, names in parts.items():
        contents.append(f"<p>{html.escape(caption)}</p>" if caption else "")
        for name in names:
            anchor, title = _anchor(name), articles[name].h1.get_text()
            said = json.dumps(title, ensure_ascii=False)
            feet.append(f"@page {anchor} {{ @bottom-left {{ content: {said}; }} }} #{anchor} {{ page: {anchor}; }}")
            number = numbers.get(anchor, 0)
            contents.append(f'<a href="#{anchor}">{html.escape(title)}<span></span><b>{number}</b></a>')
    own = "\n".join([(paths.ROOT / "_static" / "print.css").read_text(), "@page { size: A4; }", *feet])
    version = f"Version {cited['version']}, {cited['date-released']}"
    lines = (citation.author(cited), version, LICENCES, cited["abstract"])
    about = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
    title = html.escape(cited["title"])
    return f"""<!doctype html>
<html lang="en" data-theme="light">
<head><meta charset="utf-8"><title>{title}</title>{styles}<style>{own}</style></head>
<body class="printed">
<header class="printed-cover"><h1>{title}</h1>{about}<nav class="printed-contents">{"".join(contents)}</nav></header>
{"".join(map(str, articles.values()))}
</body>
</html>"""


def _print(browser: Browser, document: str, output: Path) -> None:
    """Print the joined pages. They lie next to the PDF meanwhile: a page of its own origin may not read files."""
    source = output.with_suffix(".html")
    source.write_text(document)
    page = browser.new_page(color_scheme="light", offline=True)
    try:
        page.goto(source.absolute().as_uri())
        page.pdf(path=output, prefer_css_page_size=True, print_background=True, outline=True, tagged=True)
    finally:
        page.close()
        source.unlink()
