"""Reader's notebooks: the chapters as people meet them in JupyterLab and on Colab, which know nothing of MyST.

The numbers of the built page are filled in, a source is a link, a box is a quotation, a caption follows its figure.
What the page hides is collapsed, and a first cell fetches the package where there is none.
"""

import functools
import hashlib
import json
import re
from pathlib import Path

import nbformat
from pybtex.database import BibliographyData, parse_file

from traintime import paths
from traintime.book import numbers
from traintime.book.contents import chapters

HIDDEN = {"hide-input", "remove-input", "hide-cell", "remove-cell"}
BOX = re.compile(r"^:::\{\w+\} ([^\n]+)\n(?::[\w-]+:[^\n]*\n)*(.*?)^:::[ ]*$\n?", re.MULTILINE | re.DOTALL)
MANIFEST = "written.json"

NOTICE = """\
*This is the reader's copy of a chapter: change it, run it. Numbers in the text are those of the page as it was built;
what your machine measures stands in the outputs.*"""

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
            f"The book cannot be fetched from {{url}} at {{tag}}: is there a "
            "network? Without one, clone it elsewhere and type: make lab"
        )
    sys.path.insert(0, str(fetched))
    from traintime.book import colab

    colab.prepare()"""
UNKNOWN = "an unknown address"

SIZES = """\
# On a GPU runtime: the sizes of profile colab. Delete this to use yours.
from traintime.book import colab

globals().update(colab.sizes("{chapter}"))"""


def notebook(chapter: str, executed: Path, url: str | None, tag: str) -> nbformat.NotebookNode:
    """The reader's copy of a chapter; executed: the chapter as it ran, which knows the numbers.

    url: where the book is published (None where nobody knows); tag: the tag or branch that the copy fetches from there.
    Raises KeyError for a number that the text names and the run did not give.
    """
    made = nbformat.read(chapters()[chapter], as_version=4)
    values = numbers.given(nbformat.read(executed, as_version=4))
    bootstrap = nbformat.v4.new_code_cell(BOOTSTRAP.format(url=url or UNKNOWN, tag=tag), id="reader-bootstrap")
    cells = [nbformat.v4.new_markdown_cell(NOTICE, id="reader-notice"), _collapsed(bootstrap)]
    for cell in made.cells:
        tags = set(cell.metadata.get("tags", []))
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source, values)
        elif tags & HIDDEN:
            _collapsed(cell)
        if cell.cell_type == "code" and "parameters" not in tags:
            # What a machine has not measured ends its cell (lab.NotMeasured), and not what runs all cells.
            cell.metadata["tags"] = [*sorted(tags), "raises-exception"]
        cells.append(cell)
        if caption := cell.metadata.pop("mystnb", {}).get("figure", {}).get("caption"):
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
    """MyST as plain Markdown, as far as chapters use it. Raises KeyError for a number without a value."""
    text = BOX.sub(lambda box: _quoted(f"**{box[1]}**\n\n{box[2].strip()}"), text)
    text = re.sub(r"\{cite\}`([^`]*)`", lambda cited: ", ".join(map(_source, cited[1].split(","))), text)
    text = re.sub(r"\{term\}`([^`<]*[^`< ])[^`]*`", r"\1", text)  # of `text <term>` the text
    return numbers.fill(text, values)


def _quoted(text: str) -> str:
    return "".join(f"> {line}".rstrip() + "\n" for line in text.splitlines())


@functools.cache
def _references() -> BibliographyData:
    return parse_file(str(paths.ROOT / "references.bib"))


def _source(key: str) -> str:
    """A source as a link, where it has an address."""
    fields = _references().entries[key].fields
    title = re.sub(r"[{}]", "", fields["title"])
    address = f"https://doi.org/{fields['doi']}" if "doi" in fields else fields.get("url")
    return f"([{title}]({address}))" if address else f"({title})"


def write(executed: Path, output: Path, url: str | None, tag: str) -> list[Path]:
    """Write every chapter's reader's copy into `output`; return those that a reader has changed, which stay.

    executed: folder of the chapters as they ran. What was written lies in a manifest, by which a changed copy is told.
    """
    output.mkdir(parents=True, exist_ok=True)
    manifest = output / MANIFEST
    written = json.loads(manifest.read_text()) if manifest.exists() else {}
    kept = []
    for chapter in chapters():
        path = output / f"{chapter}.ipynb"
        text = nbformat.writes(notebook(chapter, executed / path.name, url, tag)) + "\n"
        if path.exists() and _digest(path.read_text()) not in (written.get(path.name), _digest(text)):
            kept.append(path)
        else:
            path.write_text(text)
            written[path.name] = _digest(text)
    manifest.write_text(json.dumps(written, indent=1) + "\n")
    return kept


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
