"""Claims of the chapters whose notebooks judge them (lab.judge): read from the source, judged by papermill.

Cells tagged `here` are left out: they time something on this machine, or show what a page alone shows.
"""

import ast
import functools
import hashlib
import tempfile
from pathlib import Path

from traintime import lab, paths
from traintime.book import stored, uses
from traintime.book.claims import WORDS, Claim, Finding, Judge

HERE = "here"


def source(chapter: str) -> Path:
    """The chapter's notebook."""
    return paths.CHAPTERS / f"{chapter}.ipynb"


@functools.cache
def claims(chapter: str) -> dict[str, Claim]:
    """What the notebook judges, by label: each call of lab.judge, with what it says of the claim."""
    tree = ast.parse(uses.code_of(source(chapter), without=HERE))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "lab.judge"]
    found = {}
    for call in calls:
        label, sentence = (ast.literal_eval(argument) for argument in call.args[:2])
        sentence = " ".join(sentence.split())
        by_name = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
        found[label] = Claim(label, sentence, _judge(chapter, label), **by_name)
    return found


def _judge(chapter: str, label: str) -> Judge:
    return lambda book: findings(chapter, book.machine).get(label) if book.machine in stored.named() else None


@functools.cache
def findings(chapter: str, machine: str) -> dict[str, Finding]:
    """What came of the chapter's claims on a stored machine, by label; without those that it has not measured.

    Raises PapermillExecutionError where the notebook fails for another reason.
    """
    import nbformat  # here: on Colab, which judges nothing, there is no papermill
    import papermill

    notebook = nbformat.read(source(chapter), as_version=4)
    notebook.cells = [cell for cell in notebook.cells if HERE not in cell.metadata.get("tags", [])]
    with tempfile.TemporaryDirectory() as folder:
        asking, executed = Path(folder, "asking.ipynb"), Path(folder, "executed.ipynb")
        nbformat.write(notebook, asking)
        try:
            papermill.execute_notebook(
                str(asking),
                str(executed),
                parameters={"machine": stored.named()[machine]["title"]},
                kernel_name="python3",
                cwd=str(paths.ROOT),
                progress_bar=False,
                extra_arguments=["--IPKernelApp.log_level=50"],
            )
        except papermill.PapermillExecutionError as error:
            if error.ename != lab.NotMeasured.__name__:
                raise
        cells = nbformat.read(executed, as_version=4).cells
    data = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    kept = [each[lab.VERDICT] for each in data if lab.VERDICT in each]
    holds = {word: value for value, word in WORDS.items()}
    return {each["claim"]: Finding(holds[each["verdict"]], each["figure"]) for each in kept}


def basis(chapter: str, without: set[Path]) -> str:
    """Hash of what the chapter's verdicts rest on: the code of its cells, the modules behind them, and their data."""
    code = uses.code_of(source(chapter), without=HERE)
    behind = uses.digest(uses.imported(code), without=without)
    return hashlib.sha256(f"{behind} {code}".encode()).hexdigest()
