"""The reader's notebooks: no role, no directive, the page's numbers, a first cell that fetches the package."""

import json
import re

import nbformat
import pytest

from traintime.book import numbers, reader

URL = "https://github.com/somebody/book"
VALUES = {"step": "12 ms", "share": "40 %"}


def executed(path, values=VALUES):
    """A chapter whose text names these values, as it ran."""
    output = nbformat.v4.new_output("display_data", {numbers.KIND: values})
    cell = nbformat.v4.new_code_cell("numbers.give()", outputs=[output], id=numbers.CELL)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    return path


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """A chapter's source, and the same as it ran; returns what makes its reader's copy."""
    cells = [
        nbformat.v4.new_markdown_cell("# 3. Title\n\nA step takes {eval}`step` {cite}`s0`."),
        nbformat.v4.new_code_cell("rounds = 1  # count", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(
            "plots.steps(x);",
            metadata={"tags": ["hide-input"], "mystnb": {"figure": {"caption": "It grows by {eval}`share`."}}},
        ),
        nbformat.v4.new_code_cell("seen = 1"),
    ]
    source = tmp_path / "04-vocabulary.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), source)
    monkeypatch.setattr(reader, "chapters", lambda: {"04-vocabulary": source})
    (tmp_path / "ran").mkdir()
    executed(tmp_path / "ran" / source.name)
    return lambda url=URL: reader.notebook("04-vocabulary", tmp_path / "ran" / source.name, url, "v1.2.3")


def test_numbers_are_filled_in_and_sources_named_and_sizes_of_a_gpu_follow_the_parameters(chapter):
    """A cell that lacks what was not measured ends by itself, and not what runs all."""
    cells = {cell.source: "raises-exception" in cell.metadata.get("tags", []) for cell in chapter().cells}
    text = "\n".join(cells)
    assert "A step takes 12 ms (Estimating the Training Time of a Deep Model)." in text
    assert "*It grows by 40 %.*" in text
    assert "{eval}" not in text
    sources = list(cells)
    assert 'colab.sizes("04-vocabulary")' in sources[sources.index("rounds = 1  # count") + 1]
    assert [cells[code] for code in ("rounds = 1  # count", "plots.steps(x);", "seen = 1")] == [False, True, True]


def test_the_first_code_fetches_the_package_where_there_is_none(chapter):
    first = next(cell for cell in chapter().cells if cell.cell_type == "code")
    assert URL in first.source
    assert "v1.2.3" in first.source
    compile(first.source, "bootstrap", "exec")
    assert max(map(len, first.source.splitlines())) <= 79


def test_the_package_being_there_the_first_code_does_nothing(chapter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    exec(next(cell for cell in chapter().cells if cell.cell_type == "code").source, {})
    assert sorted(tmp_path.rglob("*")) == before


def test_without_a_network_the_first_code_says_what_to_do(chapter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    source = next(cell for cell in chapter(f"file://{tmp_path}/nowhere").cells if cell.cell_type == "code").source
    with pytest.raises(SystemExit, match=r"(?s)nowhere at v1\.2\.3: is there a network.*make lab"):
        exec(source, {})
    assert not (tmp_path / "book").exists()


def test_a_number_that_the_run_did_not_give_is_an_error():
    with pytest.raises(KeyError, match="nowhere"):
        reader.plain("{eval}`nowhere`", VALUES)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a {term}`stack` and {term}`launches <launch>`", "a stack and launches"),
        (":::{dropdown} In words\n:class: tip\n\n- {eval}`step`\n:::\nx", "> **In words**\n>\n> - 12 ms\nx"),
        ("```python\nx = {1: 2}\n```", "```python\nx = {1: 2}\n```"),
    ],
)
def test_myst_reads_as_markdown(text, plain):
    assert reader.plain(text, VALUES) == plain


def test_a_copy_that_its_reader_changed_stays_and_any_other_is_brought_up_to_date(chapter, tmp_path):
    def write():
        return reader.write(tmp_path / "ran", tmp_path / "copies", URL, "v1")

    copy = tmp_path / "copies" / "04-vocabulary.ipynb"
    assert write() == write() == []
    executed(tmp_path / "ran" / copy.name, VALUES | {"step": "13 ms"})
    assert write() == []
    assert "13 ms" in copy.read_text()
    copy.write_text(copy.read_text().replace("rounds = 1", "rounds = 7"))
    mine = copy.read_text()
    assert write() == write() == [copy]
    assert copy.read_text() == mine
    copy.unlink()
    assert write() == []
    assert "rounds = 1" in copy.read_text()


def test_every_role_of_the_chapters_has_a_reading():
    """Whatever the numbers are: each name gets one."""

    class Any(dict):
        def __missing__(self, name):
            return "1"

    for path in reader.chapters().values():
        for cell in json.loads(path.read_text())["cells"]:
            text = reader.plain("".join(cell["source"]), Any()) if cell["cell_type"] == "markdown" else ""
            assert not re.search(r"\{[\w:-]+\}`|^:::", text, flags=re.MULTILINE), path.name
