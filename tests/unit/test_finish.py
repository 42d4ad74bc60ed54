"""What the last step of a build makes of a page: formulas, its description; figures are tested in tests/book."""

from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup
from docutils import nodes

from traintime.book import finish

PAGE = """<!DOCTYPE html>
<html lang="en">
<head><title>3. Why? — A Book</title></head>
<body><article><section><h1>Why?</h1><p>Adam updates the <em>whole</em> table &amp; more.</p>
<p class="tip">Two.</p><pre>a  &lt; b
  c</pre>
<figure><img alt="one" src="../_images/a.svg"/></figure></section></article></body></html>
"""
FILES = {
    "_images/a.svg": '<?xml version="1.0"?>\n<svg xmlns:x="y" width="300pt" height="150.4pt"></svg>',
    "_images/old.svg": "",
    "chapters/one.html": PAGE,
}


@pytest.fixture
def built(tmp_path):
    """A folder of one page as Sphinx leaves it, finished."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    finish.finish(tmp_path)
    return tmp_path


@pytest.fixture
def page(built):
    return BeautifulSoup((built / "chapters" / "one.html").read_text(), "html.parser")


@pytest.mark.parametrize(
    ("formula", "parts"),
    [
        (r"\small\begin{aligned} a &= b \\ &+ \frac{N}{B} \end{aligned}", ["mtable", "mfrac"]),
        (r"\underbrace{a + b}_{\text{fixed cost}}", ["munder", "⏟", "fixed"]),
        (r"\big(t_{280\mathrm{K}}\big) \le \left\lceil \tfrac{N}{B} \right\rceil", ["msub", "≤", "⌈"]),
    ],
)
def test_a_formula_is_mathml(formula, parts):
    made = finish.mathml(formula, block=True)
    assert made.startswith('<math display="block"')
    assert [part for part in parts if part not in made] == []
    assert "\\" not in made


def test_a_formula_that_cannot_be_read_is_named_with_its_place(caplog):
    formula = r"a \nosuchcommand b"
    document = SimpleNamespace(body=[], starttag=lambda *args, **more: "<span>")
    node = nodes.math(formula, formula)
    with pytest.raises(nodes.SkipNode):
        finish._visit_math(document, node)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert repr(formula) in record.getMessage()
    assert record.location is node


def test_the_page_is_described(page):
    described = {meta.get("name") or meta.get("property"): meta["content"] for meta in page.select("meta")}
    text = "Adam updates the whole table & more."
    assert described == {"description": text, "og:title": "3. Why?", "og:description": text, "og:type": "website"}


def test_text_and_code_are_as_they_were_and_a_figure_can_be_scrolled_by_keyboard(page):
    before = BeautifulSoup(PAGE, "html.parser")
    assert page.article.get_text() == before.article.get_text()
    assert page.pre.decode() == before.pre.decode()
    assert page.figure["tabindex"] == "0"


def test_a_drawing_that_no_page_names_is_removed(built):
    assert [path.name for path in (built / "_images").iterdir()] == ["a.svg"]
