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


BOOK, STORE = "traintime/book/made_up.py", "traintime/store/made_up.py"
DOCSTRING = 'def f():\n    """One line.\n\n    What was foretold of the critical\n    batch.\n    """\n'
CELLS = [
    {"cell_type": "markdown", "metadata": {}, "source": ["The price of `a_price`."]},
    {"cell_type": "code", "metadata": {"mystnb": {"figure": {"caption": "A dear row."}}}, "source": ["price = 1"]},
]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (BOOK, DOCSTRING, ["foretold", "critical\\n    batch"]),
        ("traintime/measuring/worker/timing.py", DOCSTRING, []),  # its hash is in the measurements
        ("traintime/deferred/adam.py", DOCSTRING, []),
        (BOOK, 'raise ValueError("two of the points have a price")', ["price", "points"]),
        (STORE, 'raise ValueError(f"{name} is a price of it")', ["price"]),
        (BOOK, 'NOTE = "the habits of this stack are known"', []),  # a page's
        (STORE, 'NOTE = "the habits of this stack are known"', ["habits"]),  # a message's
        ("chapters/one.ipynb", json.dumps({"cells": CELLS}), ["price", "dear"]),
        ("two.md", "It costs more.\n\n```python\nprice = 2\n```\n", []),
        # Names, values and ordinary uses.
        (STORE, '"""prices: by term; slots: numbers; see predict.prices and `habits`; "significant"."""', []),
        (STORE, '"""What stands for it; there is none; they are None; a point of the sweep."""', []),
        (STORE, '"""A positional argument."""', []),
        (STORE, 'REASON = "significant before correction"', []),
        (STORE, "# The price of a row, beside the document's.\nprice = habits.beside", []),
        (STORE, 'raise ValueError(f"{name}: key point describes {other}")', []),
    ],
)
def test_private_words_are_found_in_what_is_read(found, name, text, expected):
    assert found(name, text) == expected


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
