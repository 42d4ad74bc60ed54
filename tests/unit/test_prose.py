"""What a chapter's source must not hold: outputs, a missing parameters cell, measured numbers typed into prose."""

import json

import nbformat
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from notebooks import write_notebook

from traintime import paths
from traintime.book import commands, prose

# Sources


def test_an_execution_count_is_found(tmp_path):
    path = write_notebook(tmp_path / "run.ipynb")
    notebook = json.loads(path.read_text())
    notebook["cells"][1]["execution_count"] = 1
    path.write_text(json.dumps(notebook))
    assert prose.notebooks_with_outputs([path]) == ["run.ipynb has outputs; clear them before committing"]


def test_a_cell_that_glues_does_nothing_else(tmp_path):
    path = write_notebook(tmp_path / "two.ipynb")
    notebook = json.loads(path.read_text())
    cell = notebook["cells"][1] | {"id": "more", "metadata": {}}
    notebook["cells"] += [cell | {"source": "page.glue(a=1)\npage.glue(**{'b': 2})"}]
    path.write_text(json.dumps(notebook))
    assert prose.notebooks_with_outputs([path]) == []
    notebook["cells"] += [cell | {"id": "most", "source": "book = stored.of('')\npage.glue(**values(book))"}]
    path.write_text(json.dumps(notebook))
    (found,) = prose.notebooks_with_outputs([path])
    assert found.startswith("two.ipynb glues in a cell that does more")


def test_every_notebook_is_looked_at(tmp_path):
    output = nbformat.v4.new_output("stream", text="3\n")
    good, bad = (write_notebook(tmp_path / name) for name in ("good.ipynb", "other.ipynb"))
    write_notebook(bad, outputs=[output], tags=[])
    assert prose.notebooks_with_outputs([good, bad, good]) == [
        "other.ipynb has outputs; clear them before committing",
        "other.ipynb needs one cell tagged parameters",
    ]


# Numbers that are typed into prose


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
        ("SGD costs 44% of Adam.", "44%"),
        ("That is 3 per cent more, and 2 ‰ less.", "3 per cent 2 ‰"),
        ("A row costs 96 ns, a step 80 µs, 7 μs or 3 us.", "96 ns 80 µs 7 μs 3 us"),
        ("The epoch takes 1,234.5 s.", "1,234.5 s"),
        ("It lasts 1 second, 20 seconds, 1 minute or 2 min.", "1 second 20 seconds 1 minute 2 min"),
        ("It ran for 3 hours, 1 hour, 5 h and 2 days.", "3 hours 1 hour 5 h 2 days"),
        ("It holds 2.4 GB, or 2.2 GiB, of 512 MB and 500 MiB.", "2.4 GB 2.2 GiB 512 MB 500 MiB"),
        ("The memory gives 17 GB/s, the cores 120 GFLOP/s.", "17 GB/s 120 GFLOP/s"),
        ("A card does 4.3 TFLOP/s, which is 2 FLOP for each byte.", "4.3 TFLOP/s 2 FLOP"),
        ("JAX is 3.5 times as fast, or 3.5× , or 3.5 × faster, or 4x.", "3.5 times 3.5× 3.5 × 4x"),
        ("Between 12 and 15 ms, or 12–15 ms.", "15 ms 15 ms"),
        ("A mean of 12.5 ± 0.3 ms.", "0.3 ms"),
        ("**12.5** ms and *12.5 ms* and __9__ %.", "12.5** ms 12.5 ms 9__ %"),
        ("It takes 12.5&nbsp;ms, a 30-second run, 12.5\u202fms.", "12.5&nbsp;ms 30-second 12.5 ms"),
        ("It takes 2 million times as long.", "2 million times"),
        ("A step takes 12.5\nms on JAX.", "12.5 ms"),
        ("- one\n- it takes 5 ms\n\n## It takes 6 ms", "5 ms 6 ms"),
        ("| stack | time |\n|---|---|\n| JAX | 5 ms |", "5 ms"),
        ("```{note}\nIt takes 5 ms.\n```", "5 ms"),
        ("In `numpy` it takes 5 ms, `twice`.", "5 ms"),
        ("With $V$ rows it takes 5 ms, and {glue:text}`b` for 6 % of [them](03-them.ipynb).", "5 ms 6 %"),
        ("It costs 5 × {glue:text}`floor`.", "5 ×"),
        ("SGD costs 95 % of Adam.", "95 %"),
        ("In this interval SGD costs 44 % of Adam.", "44 %"),
        ("The documentation says 5 ms.", "5 ms"),
    ],
)
def test_a_measured_quantity_in_prose_is_found(quantities, text, quantity):
    assert " ".join(quantities(text)) == quantity


@pytest.mark.parametrize(
    "text",
    [
        "It takes {glue:text}`x` ms, {glue:text}`top-5` % and {glue:text}`y-2` times more.",
        "batch 100, length 25, 2 million rows",
        "A tenth of it, twice as much, half a second, three times.",
        "300 numbers of 4 bytes, 16 bytes a number, in float32 with Keras 2.0.4 in 2017.",
        "A table of 300 × 128 numbers, of 300 x 128, of 300 × E, of 300 × $E$ and 3 times 4 is 12.",
        "In the 1990s and the 2010s.",
        "It runs `sleep 5 s` and ``5 ms``.",
        "```python\nseconds = 5 s\n```",
        "~~~\n5 ms\n~~~",
        "```{code-block} python\n5 ms\n```",
        "```{math}\n5 ms\n```",
        "The sum is $5 ms$, and\n\n$$\nt = 5 s + 3 h\n$$",
        "Also {math}`5 ms`.",
        "See [the table](https://example.org/5%20ms) and <https://example.org/5-ms>, https://example.org/5-s.",
        '<img width="100%" src="a.svg"> <!-- 5 ms -->',
        "It took 5 ms {cite}`s0`.",
        "{cite:t}`s0` reports 5 ms on a K40M.",
        "The document gives 4,000 seconds. The documents' 5 ms are theirs. Its data sheet says 288 GB/s.",
        "A bootstrap gives the 95 % interval.",
        "Where 95 % of the coefficients lie; the interval holds 95 per cent of what is possible.",
        "A page of 4 KiB, a cache of 32 KiB.",
        "Running this page takes 5 minutes.",
        "Running this page measures a few points. It takes about 5 minutes and under 2 GB.",
        "This chapter needs 2 GB. To run the cells, wait 5 minutes.",
        "Fewer than 5 steps; 5 samples; 10 hidden units; 5 megalodons; 3 %s",
        "977.\nTimes are not compared.",
    ],
)
def test_what_is_no_measurement_of_ours_is_left_alone(quantities, text):
    assert quantities(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "The document gives 4,000 seconds. Here it takes 5 ms.",
        "Here it takes 5 ms. The document gives 4,000 seconds.",
        "Others say 5 s {cite}`s0`.\nHere it takes 5 ms.",
        "- The document gives 4,000 seconds.\n- Here it takes 5 ms",
        "The document's sizes\n\nHere it takes 5 ms.",
        "Running this page is quick. It takes 5 minutes. A step takes 5 ms.",
        "Running this page takes 5 minutes.\n\nA step takes 5 ms.",
    ],
)
def test_a_source_answers_for_its_own_sentence_alone(quantities, text):
    assert quantities(text) == ["5 ms"]


def test_every_cell_of_prose_is_read_and_no_code(tmp_path):
    path = write_notebook(tmp_path / "one.ipynb", code='"""It takes 5 ms."""')
    assert prose.typed_numbers(path) == []
    notebook = json.loads(path.read_text())
    for text in ("It takes\n6 ms.", ["Words.\n", "It takes\n", "**7 ms** on {glue:text}`stack`.\n", "Words."]):
        notebook["cells"].append({"cell_type": "markdown", "metadata": {}, "source": text})
    path.write_text(json.dumps(notebook))
    assert prose.typed_numbers(path) == [
        "one.ipynb has '6 ms' typed into its prose; let code give it: It takes 6 ms.",
        "one.ipynb has '7 ms' typed into its prose; let code give it: It takes **7 ms** on {glue:text}`stack`.",
    ]


sizes_only = st.lists(
    st.tuples(st.integers(0, 10**9), st.sampled_from(["rows", "sentences", "tokens", "units", "words", "steps"])),
    min_size=1,
)


@given(sizes_only, st.integers(0, 10**6), st.sampled_from(["ms", "%", "times", "GiB", "s", "×"]))
def test_a_quantity_is_found_among_any_sizes(sizes, number, unit):
    text = ", ".join(f"{size:,} {name}" for size, name in sizes)
    assert list(prose._quantities(text)) == []
    assert [quantity for quantity, _ in prose._quantities(f"{text}, {number} {unit}.")] == [f"{number} {unit}"]


def test_the_style_check_names_chapter_quantity_and_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "CHAPTERS", tmp_path)
    path = write_notebook(tmp_path / "one.ipynb")
    with pytest.raises(typer.Exit) as ended:
        commands.check_notebooks_command()
    assert (ended.value.exit_code, capsys.readouterr().out) == (0, "")
    notebook = json.loads(path.read_text())
    notebook["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "A step takes 12.5 ms on JAX."})
    path.write_text(json.dumps(notebook))
    with pytest.raises(typer.Exit) as ended:
        commands.check_notebooks_command()
    assert ended.value.exit_code == 1
    said = "one.ipynb has '12.5 ms' typed into its prose; let code give it: A step takes 12.5 ms on JAX.\n"
    assert capsys.readouterr().out == said
