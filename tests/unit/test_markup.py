"""HTML that pages, JupyterLab and Colab show alike."""

import re
from html import unescape

import pytest
from markdown_it import MarkdownIt

from traintime.book import markup, page
from traintime.store import derived, machines


def test_a_cell_carries_its_columns_head():
    text = markup.table(["stack", "*a* (ms)"], [["numpy", "1"]])
    assert '<td data-head="stack">numpy</td>' in text
    assert '<td data-head="a  (ms)">1</td>' in text
    assert '<th scope="col"><em>a</em> (ms)</th>' in text
    assert 'data-head="&quot;x&quot; &gt; 1"' in markup.table(['"x" > 1'], [["y"]])


def test_emphasis_code_and_links_are_set_and_html_stays():
    text = markup.inline("**told apart**<br>`fit`, [here](x.ipynb)")
    assert text == '<strong>told apart</strong><br><code>fit</code>, <a href="x.ipynb">here</a>'


def test_mathematics_is_left_to_the_pages_own_typesetter():
    assert markup.inline("*a* and $t_{1} < 2$") == '<em>a</em> and <span class="math">\\(t_{1} &lt; 2\\)</span>'
    assert markup.inline("5 $ or 6 $") == "5 $ or 6 $"


def test_numbers_have_the_signs_of_prose():
    assert markup.signs("-1.5 (-2.2 to -0.8); 5.9%; 2026-jax") == "−1.5 (−2.2 to −0.8); 5.9\u00a0%; 2026-jax"
    assert markup.signs("2026-11-26") == "2026-11-26"


@pytest.mark.parametrize(
    "text", ["<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "*a* `b` $c$ &lt; ~d~ # e"]
)
def test_a_text_of_a_file_is_shown_as_it_is(text):
    html = MarkdownIt("commonmark", {"html": True}).render(markup.plain(text))
    assert re.findall(r"<(\w+)", html) == ["p"]
    assert unescape(re.sub(r"</?p>", "", html)).strip() == text
    assert markup.inline(markup.plain(text)) == html.removeprefix("<p>").removesuffix("</p>\n")


def test_the_foot_of_a_page_shows_markup_of_a_file_as_text(monkeypatch):
    rows = derived.read("measured").assign(versions="<img src=x>")
    monkeypatch.setattr(page.derived, "read", lambda name: rows)
    foot = page.made_by(*machines.titles().values()).data
    assert "img src=x" in foot
    assert set(re.findall(r"<(\w+)", foot)) == {"details", "summary", "p", "code"}
