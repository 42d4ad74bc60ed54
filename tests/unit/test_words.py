"""Private words in docstrings, messages and pages: what is found, and what is left alone."""

import json

import pytest

from traintime import paths
from traintime.book import words


@pytest.fixture
def found(tmp_path, monkeypatch):
    """The words that are found in a file of the repository that has this text."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "traintime")
    monkeypatch.setattr(paths, "CHAPTERS", tmp_path / "chapters")

    def find(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        lines = words.problems()
        path.unlink()
        assert [line for line in lines if path.name not in line] == []
        return [line.split("'")[1] for line in lines]

    return find


def test_a_docstring_is_read_everywhere_but_where_its_hash_is_in_the_measurements(found):
    source = 'def f():\n    """One line.\n\n    What was foretold of the critical\n    batch.\n    """\n'
    assert found("traintime/book/made_up.py", source) == ["foretold", "critical\\n    batch"]
    assert found("traintime/measuring/worker/timing.py", source) == found("traintime/deferred/adam.py", source) == []


@pytest.mark.parametrize(
    ("source", "in_book"),
    [
        ('raise ValueError("two of the points have a price")', ["price", "points"]),
        ('raise ValueError(f"{name} is a price of it")', ["price"]),
        ('NOTE = "the habits of this stack are known"', []),  # a page's
    ],
)
def test_a_text_is_a_message_but_in_the_book_where_it_may_be_a_pages(found, source, in_book):
    assert found("traintime/book/made_up.py", source) == in_book
    assert found("traintime/store/made_up.py", source) == (in_book or ["habits"])


@pytest.mark.parametrize(
    "source",
    [
        '"""prices: by term; slots: numbers; see predict.prices and `habits`; the verdict "significant"."""',
        '"""What stands for it; there is none; they are None; a point of the sweep; a positional argument."""',
        'REASON = "significant before correction"',
        "# The price of a row, beside the document's.",
        "price = habits.beside",
        'raise ValueError(f"{name}: key point describes {other}")',
    ],
)
def test_names_values_and_ordinary_uses_are_left_alone(found, source):
    assert found("traintime/store/made_up.py", source) == []


def test_the_prose_of_pages_and_chapters_is_read_and_not_their_code(found):
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["The price of `a_price`."]},
        {"cell_type": "code", "metadata": {"mystnb": {"figure": {"caption": "A dear row."}}}, "source": ["price = 1"]},
    ]
    assert found("chapters/one.ipynb", json.dumps({"cells": cells})) == ["price", "dear"]
    assert found("two.md", "It costs more.\n\n```python\nprice = 2\n```\n") == []


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("The prediction held on machine C.", True),
        ("A row is slower; on machine D it also fails.", True),
        ("The step is slower on every stack.", True),
        ("The intervention confirms it.", True),
        ("The prediction {eval}`a-told`.", False),
        ("Whether it holds on every stack is open.", False),
        ("We predicted that a row costs less on all three stacks.", False),
        ("A test checks that all stacks compute the same loss.", False),
        ("The pool holds pages.", False),
    ],
)
def test_what_came_of_a_claim_is_not_typed(found, said, typed):
    assert len(found("learned.md", f"It is so. {said}\n")) == typed
    assert found("glossary.md", said) == []
