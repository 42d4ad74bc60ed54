"""Private words in docstrings and messages: what is found, where, and what is left alone."""

import json

import pytest
import typer

from traintime import paths
from traintime.book import commands, words


@pytest.fixture
def found(tmp_path, monkeypatch):
    """What is found in a module of the package that has this source: line, word and replacement."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "traintime")

    def find(source, name="traintime/store/made_up.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        return [line.removeprefix(f"{name}:") for line in words.private_words([path])]

    return find


def test_a_docstring_names_line_word_and_replacement(found):
    source = 'def f():\n    """One line.\n\n    What was foretold of the critical\n    batch.\n    """\n'
    assert found(source) == ["4: 'foretold': predict, predicted", "4: 'critical batch': break-even batch"]
    assert found('"""Beside it."""') == ["1: 'Beside': next to, compared with"]


@pytest.mark.parametrize(
    "source",
    [
        'raise ValueError("two points have a price")',
        'raise ValueError(f"{name} price")',
        'typer.echo("one more position is read anew")',
        'typer.Option(help="Invocations that each point must have.")',
    ],
)
@pytest.mark.parametrize("name", ["traintime/store/made_up.py", "traintime/book/made_up.py"])
def test_what_is_raised_or_printed_is_a_message_everywhere(found, source, name):
    assert found(source, name)


def test_other_texts_are_messages_but_in_the_book_where_they_are_pages(found):
    source = 'NOTE = "the habits of this stack are known"'
    assert found(source) == ["1: 'habits': efficiency factor"]
    assert found(source, "traintime/book/made_up.py") == []


@pytest.mark.parametrize(
    "source",
    [
        '"""prices: by term; slots: numbers; see predict.prices and `habits`; the verdict "significant"."""',
        '"""What stands for it; there is none; they are None; a point of the sweep; a positional argument."""',
        'REASON = "significant before correction"',
        'claim("03.1", "The price of a row on the stack is foretold.")',
        'NUMBERS = Prose("voc", text="the price of a row is foretold")',
        "# The price of a row, beside the document's.",
        "price = habits.beside",
        'raise ValueError(f"{name}: key point describes {other}")',
    ],
)
def test_names_values_pages_and_ordinary_uses_are_left_alone(found, source):
    assert found(source) == []


def test_every_pattern_finds_its_word(found):
    says = {
        "It promises this.": "promises",
        "The cheapest way.": "cheapest",
        "It tells the two apart.": "tells the two apart",
        "It cannot be told.": "cannot be told",
        "It stands here.": "stands",
        "It is none of them.": "is none",
        "It faulted.": "faulted",
        "Each position.": "Each position",
        "Two matrix products.": "matrix products",
        "What the forward pass keeps.": "forward pass keeps",
        "Its means.": "Its means",
        "As one operation.": "As one operation",
        "The document's.": "The document",
        "It repeats itself best.": "repeats itself best",
    }
    for text, word in says.items():
        (line,) = found(f'"""{text}"""')
        assert line.startswith(f"1: {word!r}: "), text


def test_the_prose_of_pages_and_chapters_is_read_and_not_their_code(found, tmp_path):
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["The price of `a_price`."]},
        {"cell_type": "code", "metadata": {"mystnb": {"figure": {"caption": "A dear row."}}}, "source": ["price = 1"]},
    ]
    (tmp_path / "one.ipynb").write_text(json.dumps({"cells": cells}))
    (tmp_path / "two.md").write_text("It costs more.\n\n```python\nprice = 2\n```\n")
    said = words.private_words_on_pages([tmp_path / "one.ipynb", tmp_path / "two.md"])
    assert [line.split(" in ")[0] for line in said] == ["one.ipynb: 'price'", "one.ipynb: 'dear'"]


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("The prediction held on machine C.", True),
        ("A row is slower; on machine D it also fails.", True),
        ("The step is slower on every stack.", True),
        ("The intervention confirms it.", True),
        ("The prediction {glue:text}`a-told`.", False),
        ("Whether it holds on every stack is open.", False),
        ("We predicted that a row costs less on all three stacks.", False),
        ("A test checks that all stacks compute the same loss.", False),
        ("The pool holds pages.", False),
    ],
)
def test_what_came_of_a_claim_is_not_typed(tmp_path, said, typed):
    (tmp_path / "learned.md").write_text(f"It is so. {said}\n")
    (tmp_path / "glossary.md").write_text("A claim holds, or it fails.\n")
    assert len(words.typed_outcomes(tmp_path.glob("*.md"))) == typed


def test_sources_whose_hash_is_in_the_measurements_are_not_read():
    read = set(words.modules())
    assert paths.PACKAGE / "cli.py" in read
    assert not read & {paths.WORKER / "timing.py", paths.DEFERRED / "adam.py"}
    assert not [path for path in read if path.name == "data.py" or path.name.startswith("on_")]


def test_the_style_check_fails_on_a_private_word_alone(found, monkeypatch, capsys):
    path = paths.PACKAGE / "store" / "made_up.py"
    monkeypatch.setattr(words, "modules", lambda: [path])
    monkeypatch.setattr(words, "pages", lambda: [])
    for text, code in (("Its cost.", 0), ("Its price.", 1)):
        found(f'"""{text}"""')
        with pytest.raises(typer.Exit) as ended:
            commands.check_words_command()
        assert ended.value.exit_code == code
    assert capsys.readouterr().out == "traintime/store/made_up.py:1: 'price': cost, expensive, faster\n"
