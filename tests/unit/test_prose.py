"""What a chapter's source must not hold: outputs, a missing parameters cell, measured numbers typed into prose."""

import json

import nbformat
import pandas as pd
import pytest
import typer
from notebooks import write_notebook

from traintime import paths
from traintime.book import commands, prose


def test_every_notebook_is_looked_at(tmp_path):
    output = nbformat.v4.new_output("stream", text="3\n")
    good, bad = (write_notebook(tmp_path / name) for name in ("good.ipynb", "other.ipynb"))
    write_notebook(bad, outputs=[output], tags=[])
    assert prose.notebooks_with_outputs([good, bad, good]) == [
        "other.ipynb has outputs; clear them before committing",
        "other.ipynb needs one cell tagged parameters",
    ]


@pytest.fixture
def quantities(tmp_path):
    """What is found in a chapter that has this text."""

    def find(*texts):
        cells = [nbformat.v4.new_markdown_cell(text) for text in texts]
        path = tmp_path / "one.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        return [line.split("'")[1] for line in prose.typed_numbers(path)]

    return find


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        ("A step takes 12.5 ms on JAX.", "12.5 ms"),
        ("SGD costs 44 % of Adam.", "44 %"),
        ("That is 3 per cent more, and 2 ‰ less.", "3 per cent 2 ‰"),
        ("A row costs 96 ns, a step 80 µs, 7 μs or 3 us.", "96 ns 80 µs 7 μs 3 us"),
        ("It ran for 3 hours, 1 hour, 5 h and 2 days.", "3 hours 1 hour 5 h 2 days"),
        ("It holds 2.4 GB, or 2.2 GiB, of 512 MB and 500 MiB.", "2.4 GB 2.2 GiB 512 MB 500 MiB"),
        ("The memory gives 17 GB/s, the cores 120 GFLOP/s.", "17 GB/s 120 GFLOP/s"),
        ("JAX is 3.5 times as fast, or 3.5× , or 3.5 × faster, or 4x.", "3.5 times 3.5× 3.5 × 4x"),
        ("Between 12 and 15 ms, or 12–15 ms.", "15 ms 15 ms"),
        ("**12.5** ms and *12.5 ms* and __9__ %.", "12.5** ms 12.5 ms 9__ %"),
        ("It takes 12.5&nbsp;ms, a 30-second run, 12.5\u202fms.", "12.5&nbsp;ms 30-second 12.5 ms"),
        ("A step takes 12.5\nms on JAX.", "12.5 ms"),
        ("| stack | time |\n|---|---|\n| JAX | 5 ms |", "5 ms"),
        ("```{note}\nIt takes 5 ms.\n```", "5 ms"),
        ("With $V$ rows it takes 5 ms, and {eval}`b` for 6 % of [them](03-them.ipynb).", "5 ms 6 %"),
        ("The documentation says 5 ms.", "5 ms"),
        # A source answers for its own sentence alone.
        ("The document gives 4,000 seconds. Here it takes 5 ms.", "5 ms"),
        ("Others say 5 s {cite}`s0`.\nHere it takes 5 ms.", "5 ms"),
        ("Running this page is quick. It takes 5 minutes. A step takes 5 ms.", "5 ms"),
        ("Running this page takes 5 minutes.\n\nA step takes 5 ms.", "5 ms"),
    ],
)
def test_a_measured_quantity_in_prose_is_found(quantities, text, quantity):
    assert " ".join(quantities(text)) == quantity


@pytest.mark.parametrize(
    "text",
    [
        "It takes {eval}`x` ms, {eval}`top-5` % and {eval}`y-2` times more.",
        "A tenth of it, twice as much, half a second, three times.",
        "300 numbers of 4 bytes, 16 bytes a number, in float32 with Keras 2.0.4 in 2017.",
        "A table of 300 × 128 numbers, of 300 x 128, of 300 × E, of 300 × $E$ and 3 times 4 is 12.",
        "It runs `sleep 5 s` and ``5 ms``.",
        "```python\nseconds = 5 s\n```",
        "```{math}\n5 ms\n```",
        "The sum is $5 ms$, and\n\n$$\nt = 5 s + 3 h\n$$",
        "See [the table](https://example.org/5%20ms) and <https://example.org/5-ms>, https://example.org/5-s.",
        '<img width="100%" src="a.svg"> <!-- 5 ms -->',
        "{cite:t}`s0` reports 5 ms on a K40M.",
        "The document gives 4,000 seconds. The documents' 5 ms are theirs. Its data sheet says 288 GB/s.",
        "A bootstrap gives the 95 % interval.",
        "A page of 4 KiB, a cache of 32 KiB.",
        "Running this page measures a few points. It takes about 5 minutes and under 2 GB.",
        "This chapter needs 2 GB. To run the cells, wait 5 minutes.",
        "Fewer than 5 steps; 5 samples; 10 hidden units; 5 megalodons; 3 %s",
    ],
)
def test_what_is_no_measurement_of_ours_is_left_alone(quantities, text):
    assert quantities(text) == []


def test_the_style_check_reads_every_cell_of_prose_and_no_code(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "CHAPTERS", tmp_path)
    path = write_notebook(tmp_path / "one.ipynb", code='"""It takes 5 ms."""')
    with pytest.raises(typer.Exit, check=lambda end: end.exit_code == 0):
        commands.check_notebooks_command()
    notebook = json.loads(path.read_text())
    for text in ("It takes\n6 ms.", ["Words.\n", "It takes\n", "**7 ms** on {eval}`stack`.\n", "Words."]):
        notebook["cells"].append({"cell_type": "markdown", "id": f"cell-{len(text)}", "metadata": {}, "source": text})
    path.write_text(json.dumps(notebook))
    with pytest.raises(typer.Exit, check=lambda end: end.exit_code == 1):
        commands.check_notebooks_command()
    assert capsys.readouterr().out.splitlines()[:2] == [
        "one.ipynb has '6 ms' typed into its prose; let code give it: It takes 6 ms.",
        "one.ipynb has '7 ms' typed into its prose; let code give it: It takes **7 ms** on _.",
    ]


def test_a_sentence_lists_texts_with_and_before_the_last():
    assert prose.joined(["numpy"]) == "numpy"
    assert prose.joined(["numpy", "torch", "JAX"]) == "numpy, torch and JAX"
    assert prose.joined([]) == "no stack"


def test_a_sentence_gives_values_with_their_intervals():
    found = pd.DataFrame({"value": [0.25, 0.5], "low": [0.1, 0.4], "high": [0.3, 0.6], "degrees": 3}, index=["a", "b"])
    assert prose.span(found["value"], ".2f") == "0.25 to 0.50"
    assert prose.written(found.loc["a"], ".0f", 100) == "25 (10 to 30)"
    assert list(prose.written(found)) == ["0.25 (0.10 to 0.30)", "0.50 (0.40 to 0.60)"]
