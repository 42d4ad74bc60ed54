"""Reader's notebooks: the chapters as people meet them in JupyterLab and on Colab, which know nothing of MyST.

The sources name numbers and sources with roles and frame notes with directives; here the numbers of the built page are
filled in, a source is a link, a frame is a quotation, a caption follows its figure. What the page hides is collapsed,
and a first cell fetches the package where there is none.
"""

import copy
import functools
import hashlib
import json
import re
from pathlib import Path

import nbformat
from pybtex.database import BibliographyData, parse_file

from traintime import paths
from traintime.book import glue
from traintime.book.execute import chapters

HIDDEN = {"hide-input", "remove-input", "hide-cell", "remove-cell"}
ROLE = re.compile(r"\{(?P<name>[\w:+.-]+)\}`(?P<text>[^`]*)`")
DIRECTIVE = re.compile(
    r"^(?P<fence>:{3,}|`{3,})\{(?P<name>[\w-]+)\} ?(?P<title>[^\n]*)\n"
    r"(?P<options>(?::[\w-]+:[^\n]*\n)*)(?P<body>.*?)^(?P=fence)[ ]*$\n?",
    re.MULTILINE | re.DOTALL,
)
TITLES = {"margin": "", "note": "Note", "tip": "Tip", "warning": "Warning", "seealso": "See also"}
MANIFEST = "written.json"

NOTICE = """\
*This is the reader's copy of a chapter: change it, run it. Numbers in the text are those of the page as it was built;
what your machine measures stands in the outputs and in the last column of the table of claims.*"""

BOOTSTRAP = """\
# Fetches the book's package where there is none, as on Colab.
import importlib.util

if importlib.util.find_spec("traintime") is None:
    import subprocess
    import sys
    from pathlib import Path

    url = "{url}"
    tag, fetched = "{tag}", Path("book").resolve()
    clone = ["git", "clone", "-q", "--depth=1", f"--branch={{tag}}", url]
    if not fetched.exists() and subprocess.run([*clone, fetched]).returncode:
        raise SystemExit(
            f"No copy of {{url}} at {{tag}}: is there a network? "
            "Without one, clone the book elsewhere and type: make lab"
        )
    sys.path.insert(0, str(fetched))
    from traintime.book import colab

    colab.prepare()"""

NO_ADDRESS = """\
# This copy of the book does not know where it is published.
import importlib.util

if importlib.util.find_spec("traintime") is None:
    raise SystemExit(
        "The package traintime is not here. In a clone of the book: make lab"
    )"""

SIZES = """\
# On a GPU runtime: the sizes of profile colab. Delete this to use yours.
from traintime.book import colab

globals().update(colab.sizes("{chapter}"))"""


def notebook(chapter: str, executed: Path, url: str | None, tag: str) -> nbformat.NotebookNode:
    """The reader's copy of a chapter; executed: the chapter as it ran, which knows the numbers.

    url: where the book is published (None where nobody knows); tag: the tag or branch that the copy fetches from there.
    Raises KeyError for a number that the text names and the run did not give.
    """
    made = copy.deepcopy(nbformat.read(chapters()[chapter], as_version=4))
    values = glue.glued(executed)
    cells = [nbformat.v4.new_markdown_cell(NOTICE, id="reader-notice")]
    text = BOOTSTRAP.format(url=url, tag=tag) if url else NO_ADDRESS
    cells.append(_collapsed(nbformat.v4.new_code_cell(text, id="reader-bootstrap")))
    for cell in made.cells:
        tags = set(cell.metadata.get("tags", []))
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source, values)
        elif "page.glue(" in cell.source:
            continue  # its numbers are filled in
        elif tags & HIDDEN:
            _collapsed(cell)
        cells.append(cell)
        if caption := cell.metadata.get("mystnb", {}).get("figure", {}).get("caption"):
            cells.append(nbformat.v4.new_markdown_cell(f"*{plain(caption, values)}*", id=f"{cell.id}-caption"))
        if "parameters" in tags:
            cells.append(nbformat.v4.new_code_cell(SIZES.format(chapter=chapter), id="reader-sizes"))
    made.cells = cells
    return made


def _collapsed(cell: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The cell with its source folded away, in JupyterLab and on Colab."""
    cell.metadata["jupyter"] = {"source_hidden": True}
    cell.metadata["cellView"] = "form"
    return cell


def plain(text: str, values: dict[str, str]) -> str:
    """MyST as plain Markdown. Raises KeyError for a number without a value, ValueError for a role without a reading."""
    text = re.sub(r"^\([\w-]+\)=\n", "", text, flags=re.MULTILINE)
    text = DIRECTIVE.sub(lambda match: _framed(match["name"], match["title"], match["body"]), text)
    return ROLE.sub(lambda match: _read(match["name"], match["text"], values), text)


def _read(role: str, text: str, values: dict[str, str]) -> str:
    if role == "glue:text":
        return values[text]
    if role == "cite":
        return ", ".join(_source(key) for key in text.split(","))
    if role in ("term", "ref", "doc"):
        return re.sub(r"\s*<[^>]*>$", "", text)
    raise ValueError(f"the role {{{role}}} has no reading as plain Markdown")


@functools.cache
def _references(path: Path) -> BibliographyData:
    return parse_file(str(path))


def _source(key: str) -> str:
    """A source as a link, where it has an address."""
    entry = _references(paths.ROOT / "references.bib").entries[key]
    title = re.sub(r"[{}]", "", entry.fields["title"])
    doi = entry.fields.get("doi")
    address = f"https://doi.org/{doi}" if doi else entry.fields.get("url")
    return f"([{title}]({address}))" if address else f"({title})"


def _framed(name: str, title: str, body: str) -> str:
    """A directive's content as a quotation, or behind a line that opens it."""
    title = title.strip() or TITLES.get(name, "")
    if name == "dropdown":
        return f"<details><summary>{title}</summary>\n\n{body.strip()}\n\n</details>\n"
    if name not in ("admonition", *TITLES):
        raise ValueError(f"the directive {{{name}}} has no reading as plain Markdown")
    lines = [*([f"**{title}**", ""] if title else []), *body.strip().splitlines()]
    return "".join(f"> {line}".rstrip() + "\n" for line in lines)


def write(executed: Path, output: Path, url: str | None, tag: str) -> list[Path]:
    """Write every chapter's reader's copy into `output`; return those that a reader has changed, which stay.

    executed: folder of the chapters as they ran. What was written lies in a manifest, by which a changed copy is told.
    """
    output.mkdir(parents=True, exist_ok=True)
    manifest = output / MANIFEST
    before = json.loads(manifest.read_text()) if manifest.exists() else {}
    kept, after = [], {}
    for chapter in chapters():
        path = output / f"{chapter}.ipynb"
        text = nbformat.writes(notebook(chapter, executed / path.name, url, tag)) + "\n"
        if path.exists() and _digest(path.read_text()) not in (before.get(path.name), _digest(text)):
            kept.append(path)
            after[path.name] = before.get(path.name, "")
            continue
        path.write_text(text)
        after[path.name] = _digest(text)
    manifest.write_text(json.dumps(after, indent=1) + "\n")
    return kept


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
