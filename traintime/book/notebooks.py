"""Claims of the chapters whose notebooks judge them (lab.judge): read from the source, judged by papermill.

Cells tagged `here` are left out: they time something on this machine, or show what a page alone shows.
"""

import ast
import functools
import hashlib
import tempfile
from pathlib import Path

from traintime import lab, paths
from traintime.book import original, stored, uses
from traintime.book.claims import WORDS, Claim, Finding
from traintime.book.stored import Measurements
from traintime.errors import InputError

HERE = "here"
DOCUMENTS = (original.FIGURES, original.ARITHMETIC)


def source(chapter: str) -> Path:
    """The chapter's notebook."""
    return paths.CHAPTERS / f"{chapter}.ipynb"


@functools.cache
def claims(chapter: str) -> dict[str, Claim]:
    """What the notebook judges, by label: each call of lab.judge, with what it says of the claim.

    One that two calls judge is judged on machines and on what needs none. Raises InputError where their sentences or
    sources differ.
    """
    tree = ast.parse(uses.code_of(source(chapter), without=HERE))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "lab.judge"]
    found: dict[str, Claim] = {}
    judged: dict[str, list[str]] = {}  # by label: on what
    for call in calls:
        label, sentence = (ast.literal_eval(argument) for argument in call.args[:2])
        given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
        on = judged.setdefault(label, [])
        on.append(given.get("on", ""))
        without = on[0] if on in ([original.FIGURES], [original.ARITHMETIC]) else ""
        claim = Claim(
            label,
            " ".join(sentence.split()),
            functools.partial(_find, chapter, label, on),
            given.get("source", "ours"),
            on=functools.partial(original.document, without) if without else stored.of,
            without=without,
        )
        other = found.setdefault(label, claim)
        if (claim.sentence, claim.source) != (other.sentence, other.source):
            raise InputError("claim", label, "has two sentences or sources", "Give both calls of lab.judge the same.")
        found[label] = claim
    return found


def _find(chapter: str, label: str, on: list[str], book: Measurements) -> Finding | None:
    if book.machine in DOCUMENTS:  # which stand in the place of a machine
        return findings(chapter)[stored.reference(), False].get((label, book.machine))
    if book.machine not in stored.named() or not {"", book.title} & {*on}:
        return None
    return findings(chapter)[book.machine, book is stored.of(book.machine).before_the_rule].get((label, ""))


@functools.cache
def findings(chapter: str) -> dict[tuple[str, bool], dict[tuple[str, str], Finding]]:
    """What came of the chapter's claims on each stored machine: without those that it has not measured.

    By label and document on which a claim was judged, "" on the machine.

    The keys are machine and whether runs count, too, that counted before a rule which is younger than they. One kernel
    runs the notebook for all of them, one after the other, with all names of the one before removed.
    Raises PapermillExecutionError where the notebook fails.
    """
    import nbformat  # here: on Colab, which judges nothing, there is no papermill

    from traintime.book import execute

    notebook = nbformat.read(source(chapter), as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    given = [cell.source for cell in code if "parameters" in cell.metadata.get("tags", [])]
    judging = [cell.source for cell in code if not {"parameters", HERE} & {*cell.metadata.get("tags", [])}]
    asked = [(name, False) for name in stored.named()]
    asked += [(name, True) for name in stored.named() if stored.of(name).before_the_rule]
    notebook.cells = []
    for name, late in asked:
        again = f"from traintime import lab\nlab.late = {late}\nlab.gone.clear()"
        machine = f"machine = {stored.named()[name]['title']!r}"
        for text in ("%reset -f", again, *given, machine, *judging):
            notebook.cells.append(nbformat.v4.new_code_cell(text, metadata={"of": (name, late)}))
    with tempfile.TemporaryDirectory() as folder:
        asking = Path(folder, "asking.ipynb")
        nbformat.write(notebook, asking)
        cells = execute.by_papermill(asking, Path(folder, "executed.ipynb"), {}).cells
    found: dict[tuple[str, bool], dict[tuple[str, str], Finding]] = {one: {} for one in asked}
    holds = {word: value for value, word in WORDS.items()}
    for cell in cells:
        for output in cell.outputs:
            if kept := output.get("data", {}).get(lab.VERDICT):
                on = kept["on"] if kept["on"] in DOCUMENTS else ""
                of_machine = found[tuple(cell.metadata["of"])]
                of_machine[kept["claim"], on] = Finding(holds[kept["verdict"]], kept["figure"])
    return found


def basis(chapter: str, without: set[Path]) -> str:
    """Hash of what the chapter's verdicts rest on: the code of its cells, the modules behind them, and their data."""
    code = uses.code_of(source(chapter), without=HERE)
    behind = uses.digest(uses.imported(code), without=without)
    return hashlib.sha256(f"{behind} {code}".encode()).hexdigest()
