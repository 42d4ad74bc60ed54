"""Values by name judge themselves and are written into sentences; numbers of a text are filled in or refused."""

import nbformat
import pytest
from made_up import made_up

from traintime.book import numbers
from traintime.book.values import Values, exact, quantity
from traintime.explain.statistics import Interval

SPEEDS = {"jax": Interval(2.0, 1.5, 2.5), "torch": Interval(4.0, 3.0, 5.0), "numpy": Interval(1.0, 0.9, 1.1)}
VALUES = Values(SPEEDS, ".1f", 10, "ms")


@pytest.mark.parametrize(
    ("finding", "holds"),
    [
        (VALUES > 0.5, True),
        (VALUES > 2, False),
        (VALUES < 5, None),
        (VALUES.within(0.5, 6), True),
        (VALUES.some < 1.3, True),
        (VALUES.some > 6, False),
        (VALUES.only("torch") > 2.5, True),
        ((VALUES > 0.5) & (VALUES < 5), None),
        (VALUES.inverse() < 1.2, True),
        (exact({"a": 3, "b": 4}) < 4.5, True),
        (exact({"a": 3, "b": 4}) > 3.5, False),
    ],
)
def test_values_are_judged_by_every_one_or_by_some(finding, holds):
    assert finding.holds is holds


def test_values_are_written_as_they_say():
    assert str(VALUES.most) == "40.0 ms (30.0 to 50.0)"
    assert (VALUES.least.alone, VALUES.next_most.named, VALUES["jax"].ends) == (
        "10.0 ms",
        "20.0 ms on jax",
        "15.0 to 25.0 ms",
    )
    assert (VALUES.range, VALUES.mean) == ("10.0 to 40.0 ms", "23.3 ms")
    assert str(VALUES.written(".0f")["numpy"]) == "1 (1 to 1)"
    assert str(VALUES.inverse()["torch"]) == "2.5 ms (2.0 to 3.3)"
    assert str(exact({"a": 3}, ".0f").most) == str(exact({"a": 1 / 3}, ".0f").inverse()["a"]) == "3"


def test_a_quantity_of_what_was_not_measured_is_empty_and_judges_nothing():
    @quantity
    def lost(book):
        return Values({"jax": Interval(book.points(stack="2026-jax")["step_s"].iloc[0])})

    empty = lost(made_up(("numpy", {}, 1.0)))
    assert not empty
    for look in (
        lambda: empty > 1,
        lambda: empty.most,
        lambda: VALUES.only("cupy"),
    ):
        with pytest.raises(KeyError):
            look()
        assert numbers.or_not_measured(look) == numbers.NOT_MEASURED


# Numbers in a text


def notebook(text, code="book = 1"):
    cells = [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell(code)]
    cells[1].metadata["mystnb"] = {"figure": {"caption": "It is {eval}`book + 1`."}}
    return nbformat.v4.new_notebook(cells=cells)


def test_numbers_of_a_text_and_of_a_caption_are_filled_in():
    made = notebook("It takes {eval}`book` and {eval}`f'{book:.0%}'`.")
    assert numbers.named(made) == ["book", "f'{book:.0%}'", "book + 1"]
    numbers.fill_in(made, numbers.evaluated(numbers.named(made), {"book": 1}))
    assert numbers.texts(made) == ["It takes 1 and 100\u00a0%.", "It is 2."]


@pytest.mark.parametrize("wrong", ["boook", "book.most", "book +", "speeds['nunpy'].alone", "speeds.only('nunpy')"])
def test_a_number_that_names_nothing_fails_with_its_expression(wrong):
    with pytest.raises(RuntimeError, match=r"the text names .*Correct it in the notebook"):
        numbers.evaluated([wrong], {"book": 1, "speeds": Values({"numpy": Interval(1.0)})})


@pytest.mark.parametrize(
    ("text", "missing"),
    [("{eval}`book`", []), ("{eval}`boook.most`", ["boook"]), ("{eval}`predicting.gainz(book)`", ["predicting.gainz"])],
)
def test_a_mistyped_name_is_found_without_running_anything(tmp_path, text, missing):
    chapter, page = tmp_path / "one.ipynb", tmp_path / "one.md"
    nbformat.write(notebook(text, "from traintime.book.chapters import predicting\nbook = 1"), chapter)
    page.write_text(text)
    for source in (chapter, page):
        found = numbers.unknown(source)
        assert [line.split(" names ")[1].split(",")[0] for line in found] == missing


def test_of_many_values_a_failed_finding_shows_one_that_refutes():
    ends = {"wide": (1, 9), "low": (1.9, 2.1), "lower": (1.4, 1.6), **{f"in {n}": (3.9, 4.1) for n in range(5)}}
    found = Values({name: Interval(sum(each) / 2, *each) for name, each in ends.items()}).within(3.5, 4.5)
    assert (found.holds, found.figure) == (False, "lower 1.50 (1.40 to 1.60), the farthest of 8")
