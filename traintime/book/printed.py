"""The book as one PDF: its built pages, joined into one document that headless Chromium prints (_static/print.css)."""

import contextlib
import html
import io
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pypdf
import yaml
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Browser, Error, sync_playwright

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
NOTES = (
    "Text and figures: CC BY 4.0. Code: MIT. Measurements: CC0 1.0.",
    "What is folded on the pages is left out: solutions, claims on each machine, predictions one by one.",
)
LINK = re.compile(r'(<p class="?printed-link"?) hidden(?:="")?')  # on the front page (index.md)


def make() -> tuple[Path, int]:
    """Print the built pages, put the PDF next to them, and show its link on the front page; the PDF, and its pages.

    Raises InputError where the book is not built or there is no Chromium.
    """
    built, output = paths.BUILD / "html", paths.BUILD / NAME
    contents = yaml.safe_load((paths.ROOT / "_toc.yml").read_text())
    parts = {part["caption"]: [chapter["file"] for chapter in part["chapters"]] for part in contents["parts"]}
    count = write(built, {"": [contents["root"]]} | parts, output)
    shutil.copyfile(output, built / NAME)
    front = built / "index.html"
    front.write_text(LINK.sub(r"\1", front.read_text()))
    return output, count


def write(pages: Path, parts: Mapping[str, Sequence[str]], output: Path) -> int:
    """Print pages into one PDF with a cover, contents, bookmarks and page numbers; returns how many pages it has.

    pages: folder of the built HTML; parts: names of its pages without ".html", by the caption of their part, in
    reading order. Raises InputError for a page that is not there or where there is no Chromium, RuntimeError for a
    figure that does not load.
    """
    styles, articles = joined(pages.absolute(), [name for names in parts.values() for name in names])
    cited = citation.read()
    with chromium() as browser:
        # The contents' page numbers are known when all is printed: it is printed again with them.
        first = _print(browser, _document(cited, styles, articles, parts, {}), output)
        last = _print(browser, _document(cited, styles, articles, parts, _numbers(first)), output)
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(last))
    writer.add_metadata(
        {
            "/Title": cited["title"],
            "/Author": ", ".join(citation.authors(cited)),
            "/Subject": cited["abstract"],
            "/Keywords": ", ".join(cited["keywords"]),
        }
    )
    writer.write(output)
    return len(writer.pages)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Headless Chromium, the system's or Playwright's own; raises InputError where there is none that starts."""
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        except Error as problem:
            remedy = "Install the package chromium of your distribution, or Playwright's own: make browser."
            raise InputError("browser", executable or "chromium", "does not start", remedy) from problem
        yield browser
        browser.close()


def joined(pages: Path, names: Sequence[str]) -> tuple[str, dict[str, Tag]]:
    """What the heads of all pages say of style, and their articles by name, as parts of one document.

    Scripts and folded parts are left out. An identifier begins with its page's, a link to another page of these leads
    to its article, and other files are named by their whole address.
    """
    places = {(pages / f"{name}.html").as_uri(): name for name in names}
    styles: dict[str, None] = {}
    articles = {}
    for place, name in places.items():
        path = pages / f"{name}.html"
        if not path.exists():
            raise InputError("page", str(path), "is not built", "Build the book first: make book.")
        page = BeautifulSoup(path.read_text(), "html.parser")
        for sheet in page.select('head > link[rel="stylesheet"], head > style'):
            if "href" in sheet.attrs:
                sheet["href"] = urljoin(place, sheet["href"])
            styles[str(sheet)] = None
        article = articles[name] = page.select_one("article.bd-article")
        _without_folds(article)
        for tag in article.find_all(id=True):
            if not tag.find_parent("svg"):
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
    known = {tag["id"] for article in articles.values() for tag in [article, *article.find_all(id=True)]}
    for link in (link for article in articles.values() for link in article.select('a[href^="#"]')):
        if link["href"][1:] not in known:  # it was folded
            link["href"] = link["href"].partition("--")[0]
    return "\n".join(styles), articles


def _anchor(name: str, fragment: str = "") -> str:
    return name.replace("/", "_") + (f"--{fragment}" if fragment else "")


def _without_folds(article: Tag) -> None:
    """Take out scripts, headings' own links, folded parts, and what then has nothing below its heading."""
    for tag in article.select("script, a.headerlink, details:not([open])"):
        if tag.decomposed:  # it lay in another
            continue
        place = tag.parent
        tag.decompose()
        while place is not article and not _shows(place):
            place, empty = place.parent, place
            empty.decompose()


def _shows(tag: Tag) -> bool:
    heading = tag.find(re.compile("h[1-6]"), recursive=False)
    said = tag.get_text().strip() != (heading.get_text().strip() if heading else "")
    return said or tag.find(["img", "svg"]) is not None


def _document(
    cited: dict, styles: str, articles: dict[str, Tag], parts: Mapping[str, Sequence[str]], numbers: Mapping[str, int]
) -> str:
    """The book as one page of HTML; numbers: the contents' page numbers by article, where they are known."""
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
    written = (", ".join(citation.authors(cited)), f"Version {cited['version']}, {cited['date-released']}")
    about = "".join(f"<p>{html.escape(line)}</p>" for line in (*written, *NOTES, cited["abstract"]))
    title = html.escape(cited["title"])
    return f"""<!doctype html>
<html lang="en" data-theme="light">
<head><meta charset="utf-8"><title>{title}</title>{styles}<style>{own}</style></head>
<body class="printed">
<header class="printed-cover"><h1>{title}</h1>{about}<nav class="printed-contents">{"".join(contents)}</nav></header>
{"".join(map(str, articles.values()))}
</body>
</html>"""


def _print(browser: Browser, document: str, output: Path) -> bytes:
    """The joined pages as PDF. They lie next to the output meanwhile: a page of its own origin may not read files."""
    source = output.with_suffix(".html")
    source.write_text(document)
    page = browser.new_page(color_scheme="light", offline=True)
    try:
        page.goto(source.absolute().as_uri())
        broken = "images => images.filter(image => !image.naturalWidth).map(image => image.src)"
        if lost := page.locator("img").evaluate_all(broken):
            raise RuntimeError(f"figures that do not load: {', '.join(lost)}")
        return page.pdf(prefer_css_page_size=True, print_background=True, outline=True, tagged=True)
    finally:
        page.close()
        source.unlink()


def _numbers(printed: bytes) -> dict[str, int]:
    """The number of the page on which each link's target is, by the target's identifier."""
    reader = pypdf.PdfReader(io.BytesIO(printed))
    found = reader.named_destinations.items()
    return {name.lstrip("/"): reader.get_destination_page_number(target) + 1 for name, target in found}
