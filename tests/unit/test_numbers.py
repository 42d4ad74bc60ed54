"""Numbers where they are read: expressions in the text of a chapter or a page."""

import copy

import nbformat
import pytest

from traintime.book import numbers


@pytest.mark.parametrize("look", [lambda: {}["missing"], lambda: [][0], lambda: float("nan")])
def test_what_is_not_there_was_not_measured(look):
    assert numbers.or_not_measured(look) == numbers.NOT_MEASURED


def notebook(text, code="book = 1"):
    cells = [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell(code)]
    cells[1].metadata["mystnb"] = {"figure": {"caption": "It is {eval}`book + 1`."}}
    return nbformat.v4.new_notebook(cells=cells)


def test_a_page_has_the_prose_of_its_source_and_the_numbers_and_outputs_of_its_run():
    source = notebook("It takes {eval}`book` and {eval}`f'{book:.0%}'`.")
    assert numbers.named(source) == ["book", "f'{book:.0%}'", "book + 1"]
    ran = numbers.with_cell(copy.deepcopy(source))
    ran.cells[0].source, ran.cells[1].source = "It took long.", "book = 1  # as the profile says"
    values = {numbers.KIND: numbers.evaluated(numbers.named(source), {"book": 1})}
    outputs = [nbformat.v4.new_output("display_data", data) for data in ({"text/plain": "a"}, values)]
    ran.cells[1].outputs, ran.cells[2].outputs = outputs[:1], outputs[1:]
    page = numbers.page(source, ran)
    assert numbers.texts(page) == ["It takes 1 and 100\u00a0%.", "It is 2."]
    assert page.cells[1:] == [{**ran.cells[1], "metadata": page.cells[1].metadata}, ran.cells[2]]


@pytest.mark.parametrize("wrong", ["boook", "book.most", "book +"])
def test_a_number_that_names_nothing_fails_with_its_expression(wrong):
    with pytest.raises(RuntimeError, match=r"the text names .*Correct it in the notebook"):
        numbers.evaluated([wrong], {"book": 1})


@pytest.mark.parametrize(
    ("text", "missing"),
    [("{eval}`machine`", []), ("{eval}`mashine.most`", ["mashine"]), ("{eval}`[one for one in machine]`", [])],
)
def test_a_mistyped_name_is_found_without_running_anything(tmp_path, text, missing):
    chapter, page = tmp_path / "one.ipynb", tmp_path / "one.md"
    nbformat.write(notebook(text, "machine = 'machine B'\nbook = 1"), chapter)
    page.write_text(text)
    for source in (chapter, page):
        found = numbers.unknown(source)
        assert [line.split(" names ")[1].split(",")[0] for line in found] == missing
