"""Small notebooks for tests."""

import nbformat


def write_notebook(path, parameters="rounds = 3", code="print(rounds)", outputs=(), tags=("parameters",)):
    cells = [nbformat.v4.new_code_cell(parameters), nbformat.v4.new_code_cell(code)]
    cells[0].metadata["tags"] = list(tags)
    cells[1].outputs = list(outputs)
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path
