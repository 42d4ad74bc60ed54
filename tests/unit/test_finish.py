"""What the last step of a build makes of a page: formulas, icons, scripts, style sheets, figures."""

import re
from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup
from docutils import nodes

from traintime.book import finish

PAGE = """<!DOCTYPE html>
<html lang="en" data-content_root="../" >
<head><title>3. Why? — A Book</title>
<script data-cfasync="false">mode = "";</script>
<link href="{up}_static/styles/theme.css?digest=1" rel="stylesheet" />
<link rel="stylesheet" href="{up}_static/book.css" />
<script defer src="{up}_static/scripts/fontawesome.js"></script>
<link rel="preload" as="script" href="{up}_static/scripts/shows.js" />
<script src="{up}_static/documentation_options.js"></script>
<script src="{up}_static/scripts/shows.js"></script>
<script src="{up}_static/scripts/bootstrap.js"></script>
<script src="{up}_static/searchtools.js"></script>
<script src="{up}searchindex.js"></script>
</head>
<body>
<p id="sum"><span class="math">\\(b \\cdot V\\)</span></p>
<button class="theme-switch-button"><i class="theme-switch fa-solid fa-moon   fa-lg" data-mode="dark"></i></button>
<span class="fas fa-download"></span>
<div class="dropdown">
<button aria-expanded="false" aria-label="Download this page" data-bs-toggle="dropdown" type="button">v</button>
<ul class="dropdown-menu"><li>all</li></ul></div>
<button aria-label="Colours" data-bs-placement="left" data-bs-title="Color mode" data-bs-toggle="tooltip">c</button>
<article><section><h1>Why?</h1><p>Adam updates the <em>whole</em> table &amp; more.</p>
<p class="tip">Two.</p><pre>a  &lt; b
  c</pre>
<img alt="one" src="{up}_images/a%20b.svg"/><figure><img alt="two" src="{up}_images/c.svg"/></figure>
<details><summary aria-label="Toggle"><span>Solution</span></summary>4</details></section></article>
</body></html>
"""
SVG = '<?xml version="1.0"?>\n<svg xmlns:x="y" width="300pt" height="150.4pt" viewBox="0 0 300 150"></svg>'
FILES = {
    "_static/styles/theme.css": '@import "../basic.css";\n.gone { color: red }',
    "_static/basic.css": "pre { margin: 0; background: url(file.png) }",
    "_static/book.css": '@font-face { font-family: "Book"; src: url(font.woff2) } .tip, .gone { color: blue }',
    "_static/font.woff2": "",
    "_static/file.png": "",
    "_static/licence.txt": "",
    "_static/scripts/fontawesome.js": "",
    "_static/scripts/bootstrap.js": "",
    "_static/scripts/shows.js": 'element.classList.add("shown")',
    "_static/scripts/shows.js.map": "",
    "_static/locales/de/words.js": "",
    "_static/documentation_options.js": "",
    "_static/searchtools.js": "",
    "searchindex.js": "",
    "_images/a b.svg": SVG,
    "_images/c.svg": SVG,
    "_images/old.svg": SVG,
    "chapters/one.html": PAGE.format(up="../"),
    "search.html": PAGE.format(up=""),
}


@pytest.fixture
def built(tmp_path):
    """A folder of two pages as Sphinx leaves them."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def page(built):
    finish.finish(built)
    return BeautifulSoup((built / "chapters" / "one.html").read_text(), "html.parser")


# Formulas


@pytest.mark.parametrize(
    ("formula", "parts"),
    [
        (r"\frac{N}{B}", ["mfrac", "N", "B"]),
        (r"\small\begin{aligned} a &= b \\ &+ c \end{aligned}", ["mtable", "c"]),
        (r"\underbrace{a + b}_{\text{fixed cost}}", ["munder", "⏟", "fixed"]),
        (r"\big(t_{280\mathrm{K}}\big) \le \left\lceil \tfrac{N}{B} \right\rceil", ["msub", "≤", "⌈"]),
    ],
)
def test_a_formula_is_mathml(formula, parts):
    made = finish.mathml(formula, block=True)
    assert made.startswith('<math display="block"')
    assert [part for part in parts if part not in made] == []
    assert "\\" not in made


def test_a_formula_in_a_line_is_no_block():
    assert "block" not in finish.mathml("B^*", block=False)


@pytest.mark.parametrize("formula", [r"a \nosuchcommand b", r"\frac{a", r"\begin{nosuch} a \end{nosuch}"])
def test_a_formula_that_cannot_be_read_is_named_with_its_place(formula, caplog):
    with pytest.raises(ValueError, match=re.escape(repr(formula))):
        finish.mathml(formula, block=False)
    document = SimpleNamespace(body=[], starttag=lambda *args, **more: "<span>")
    node = nodes.math(formula, formula)
    node.source, node.line = "chapters/one.ipynb", 7
    with pytest.raises(nodes.SkipNode):
        finish._visit_math(document, node)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert repr(formula) in record.getMessage()
    assert record.location is node


def test_two_formulas_in_one_display_may_have_a_line_each():
    document = SimpleNamespace(body=[], starttag=lambda *args, **more: "<div>")
    with pytest.raises(nodes.SkipNode):
        finish._visit_math_block(document, nodes.math_block("", r"a = b, \qquad c = d", number=None))
    assert "".join(document.body).count("<math") == 2


# Pages


def test_icons_are_drawn_and_nothing_of_their_font_is_left(built, page):
    moon, download = page.select("svg.book-icon")
    assert moon["class"] == ["book-icon", "theme-switch", "large"]
    assert moon["data-mode"] == "dark"
    assert moon.path["d"] == finish.icon("moon")[2] == finish.icon("f186")[2]
    assert moon.path["d"] != download.path["d"]
    assert moon["aria-hidden"] == "true"
    assert not page.select('[class*="fa-"], script[src*="fontawesome"]')
    assert "CC BY 4.0" in str(page.head)
    assert not list(built.rglob("*fontawesome*"))


def test_an_icon_that_the_theme_lacks_is_named(built):
    (built / "search.html").write_text(PAGE.format(up="").replace("fa-moon", "fa-nosuch"))
    with pytest.raises(RuntimeError, match="'nosuch'"):
        finish.finish(built)


def test_scripts_wait_for_the_page_but_for_the_one_that_the_page_reads(page):
    scripts = {script["src"].rpartition("/")[2]: script for script in page.select("script[src]")}
    assert list(scripts) == ["documentation_options.js", "shows.js"]
    assert "defer" in scripts["shows.js"].attrs
    assert "defer" not in scripts["documentation_options.js"].attrs
    assert not page.select('link[rel="preload"]')


def test_the_search_page_has_what_searches(built, page):
    text = (built / "search.html").read_text()
    assert 'defer="" src="_static/searchtools.js"' in text
    assert 'defer="" src="searchindex.js"' in text
    assert (built / "_static" / "searchtools.js").exists()


def test_the_page_is_described(page):
    described = {meta.get("name") or meta.get("property"): meta["content"] for meta in page.select("meta")}
    text = "Adam updates the whole table & more."
    assert described == {
        "description": text,
        "og:title": "3. Why?",
        "og:description": text,
        "og:type": "website",
    }


def test_the_mode_follows_the_system_until_the_reader_chooses(page):
    assert "prefers-color-scheme" in page.select_one("script[data-cfasync]").text
    assert page.html["data-theme"] == "light"


def test_figures_have_their_place_and_all_but_the_first_wait(page):
    first, second = page.select("img")
    assert (first["width"], first["height"]) == ("400", "201")
    assert "loading" not in first.attrs
    assert second["loading"] == "lazy"


def test_what_scrolls_can_be_focused_and_what_folds_is_called_what_it_says(page):
    assert page.figure["tabindex"] == "0"
    assert page.article.summary.attrs == {}
    assert page.article.summary.text == "Solution"


def test_a_formula_that_code_wrote_is_set(page):
    assert page.select_one("#sum span.math > math").text == "b⋅V"
    assert "\\" not in page.select_one("#sum").text


def test_text_and_code_are_as_they_were(page):
    before = BeautifulSoup(PAGE, "html.parser")
    assert page.article.get_text() == before.article.get_text()
    assert page.pre.decode() == before.pre.decode()


def test_what_no_page_names_is_not_published_and_licences_are(built, page):
    left = {path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file()}
    assert left == {
        *("chapters/one.html", "search.html", "searchindex.js", "_images/a b.svg", "_images/c.svg"),
        *("_static/pages.css", "_static/font.woff2", "_static/file.png", "_static/licence.txt"),
        *("_static/scripts/shows.js", "_static/documentation_options.js", "_static/searchtools.js"),
    }
    assert not (built / "_static" / "locales").exists()


def test_menus_and_tooltips_need_no_script(page):
    menu = page.select_one("details.dropdown")
    assert menu.find("summary")["title"] == menu.find("summary")["aria-label"] == "Download this page"
    assert menu.find("ul").text == "all"
    assert page.find("button", attrs={"aria-label": "Colours"})["title"] == "Color mode"
    assert "data-bs" not in str(page)
    assert "bootstrap" not in str(page)


def test_a_finished_book_stays_as_it_is(built, page):
    before = {path: path.read_bytes() for path in built.rglob("*") if path.is_file()}
    finish.finish(built)
    assert {path: path.read_bytes() for path in built.rglob("*") if path.is_file()} == before


def test_a_script_that_is_not_there_is_an_error(built):
    (built / "_static" / "scripts" / "shows.js").unlink()
    with pytest.raises(FileNotFoundError, match=r"shows\.js"):
        finish.finish(built)


# Style sheets


def test_the_style_sheets_are_one_without_what_no_page_uses(built, page):
    (link,) = page.select('link[rel="stylesheet"]')
    assert re.fullmatch(r"\.\./_static/pages\.css\?v=[0-9a-f]{8}", link["href"])
    style = (built / "_static" / "pages.css").read_text()
    assert "gone" not in style
    assert [part for part in ("pre{", "url(file.png)", "url(font.woff2)", ".tip{") if part not in style] == []


@pytest.mark.parametrize(
    "rule",
    [
        "p{a:b}",
        ".tip{a:b}",
        "#top{a:b}",
        "*{a:b}",
        ":root{--a:b}",
        "html[data-theme=dark] p.tip>a:hover::after{a:b}",
        "p:not(.gone){a:b}",
        ":is(.gone,p){a:b}",
        "@media (max-width: 40rem){.tip{a:b}}",
        "@supports (a:b){.tip{a:b}}",
        '@font-face{font-family:"Book"}',
        "/*! licence */",
    ],
)
def test_a_rule_for_what_is_on_a_page_stays(rule):
    assert finish.purge(rule, {"html", "p", "a", "tip", "top"}) == rule


@pytest.mark.parametrize(
    "rule",
    [
        "ul{a:b}",
        ".gone{a:b}",
        "#gone{a:b}",
        "p.gone{a:b}",
        ".tip .gone{a:b}",
        "@media print{.gone{a:b}}",
        '@font-face{font-family:"Font Awesome 6 Free"}',
        "/* words */",
        "@keyframes unnamed{from{a:b}}",
        ".tip{}",
    ],
)
def test_a_rule_for_what_is_on_no_page_goes(rule):
    assert finish.purge(rule, {"p", "tip"}) == ""


def test_of_several_selectors_those_in_use_stay():
    assert finish.purge("p, .gone, .tip a{a:b}", {"p", "tip", "a"}) == "p,.tip a{a:b}"


def test_a_movement_that_a_rule_names_stays():
    style = "@keyframes turn{from{a:b}}.tip{animation:turn 1s}"
    assert finish.purge(style, {"tip"}) == ".tip{animation:turn 1s}@keyframes turn{from{a:b}}"


def test_icons_of_the_style_sheet_are_drawings():
    bulb = chr(0xF0EB)
    style = (
        f'html{{--pst-icon-tip:var(--pst-icon-bulb);--pst-icon-bulb:"{bulb}";--pst-colour:red}}'
        ".tip:after{color:red;content:var(--pst-icon-tip);font:var(--fa-font-solid);width:1rem}"
        '.fold:after{content:"\\f107";font-family:Font Awesome\\ 6 Free;font-weight:900}'
    )
    made = finish.purge(style, {"html", "tip", "fold"})
    for name in ("lightbulb", "angle-down"):
        assert f"<path d='{finish.icon(name)[2]}'/>" in made
    assert "Awesome" not in made
    assert "--fa" not in made
    assert made.startswith("html{--pst-colour:red}")
    assert made.index("width:1em") < made.index("width:1rem"), "the rule's own size is the last word"
    assert finish.purge(made, {"html", "tip", "fold"}) == made
