"""The book as a PDF, of two small pages, printed by the Chromium that prints the whole of it."""

import re
from textwrap import dedent

import pypdf
import pytest
import rings

from traintime import paths
from traintime.book import citation, printed
from traintime.errors import InputError

SENTENCE = "A step has a fixed cost and a cost per sample. "
FIGURE = '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="200"><rect width="400" height="200"/></svg>'
FRONT = f"""
    <section id="start"><h1>Where it starts<a class="headerlink" href="#start">#</a></h1>
    <p>Read <a href="chapters/one.html">the chapter</a>, <a href="chapters/one.html#answers">its answers</a>,
    <a href="https://example.org/">another book</a>, or
    <a href="data.csv">the data</a>.</p>
    {printed.PLACE}
    {"<p>" + SENTENCE * 60 + "</p>"} {"<p>" + SENTENCE * 60 + "</p>"} {"<p>" + SENTENCE * 60 + "</p>"}
    <h2>On the next page</h2><figure style="height: 200mm">with what it leads to</figure>
    </section>
"""
CHAPTER = f"""
    <section id="one"><h1>Why it takes so long</h1>
    <p>{SENTENCE}<button>PRESS</button></p>
    <figure><img src="../_images/figure.svg" loading="lazy" alt="a"></figure>
    <pre>{"x" * 79}{"y" * 79}</pre>
    <section id="answers"><h2>Answers</h2><p>Short ones.</p>
    <details><summary>More</summary><div>FOLDED <details><summary>Yet more</summary>WITHIN</details></div></details>
    <details open><summary>Shown</summary><p>UNFOLDED</p></details></section>
    <table class="table"><tbody><tr>{"".join(f"<td>column {n} of ten</td>" for n in range(10))}</tr></tbody></table>
    </section>
    <script>document.querySelector("h1").textContent = "SCRIPTED"</script>
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder of two built pages."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("chapters", "_images", "_static"):
        (folder / name).mkdir()
    (folder / "_images" / "figure.svg").write_text(FIGURE)
    (folder / "_static" / "book.css").write_text(
        "pre { overflow: hidden; } h1 { font-family: sans-serif; } h2 { line-height: 1; }"
    )
    for name, up, article in (("index", "", FRONT), ("chapters/one", "../", CHAPTER)):
        (folder / f"{name}.html").write_text(
            dedent(f"""\
            <!doctype html><html><head><link rel="stylesheet" href="{up}_static/book.css"></head>
            <body><nav>SIDEBAR</nav><article class="bd-article">{article}</article></body></html>""")
        )
    return folder


@pytest.fixture(scope="module")
def pdf(built, request):
    """The two pages, printed."""
    output = built / "book.pdf"
    try:
        printed.write(built, {"": ["index"], "All of it": ["chapters/one"]}, output)
    except InputError as absent:
        rings.lacks(request.config, str(absent))
    assert sorted(path.name for path in built.iterdir() if path.is_file()) == ["book.pdf", "index.html"]
    return pypdf.PdfReader(output)


def texts(pdf):
    return [" ".join(page.extract_text().split()) for page in pdf.pages]


def test_what_is_folded_is_open_and_what_is_pressed_is_left_out(pdf):
    text = " ".join(texts(pdf))
    for shown in ("FOLDED", "WITHIN", "UNFOLDED"):
        assert shown in text
    for left_out in ("PRESS", "SIDEBAR", "SCRIPTED"):
        assert left_out not in text


def test_the_contents_give_the_page_on_which_each_part_begins(pdf):
    cover, *others = texts(pdf)
    for title in ("Where it starts", "Why it takes so long"):
        number = int(re.search(rf"{title} *(\d+)", cover)[1])
        begins = next(count for count, text in enumerate(others, 2) if f"{title} {title}" in text)  # foot and heading
        assert number == begins
    assert number > 3, "the first page goes on over several"


def test_code_and_tables_end_before_the_pages_edge(pdf):
    found = []
    last = pdf.pages[-1]
    last.extract_text(visitor_text=lambda text, cm, tm, *_: found.append((text.strip(), *place(cm, tm))))
    lines = {round(y) for text, x, y in found if re.fullmatch("x+y*|y+", text)}
    assert len(lines) > 1, "the line goes on in the next one"
    assert sum(text.count("y") for text, *_ in found if re.fullmatch("x*y+", text)) == 79
    assert max(x for text, x, _ in found if text) < float(last.mediabox.width) - 17 / 25.4 * 72
    assert "column 9 of ten" in texts(pdf)[-1]


def place(cm, tm):
    """Where a text begins, in points from the page's lower left corner."""
    x, y = tm[4], tm[5]
    return cm[0] * x + cm[2] * y + cm[4], cm[1] * x + cm[3] * y + cm[5]


def test_links_lead_to_pages_of_the_book_or_out_of_it(pdf):
    links = [one.get_object() for one in pdf.pages[1]["/Annots"]]
    out = [link["/A"]["/URI"] for link in links if "/URI" in link.get("/A", {})]
    assert out == ["https://example.org/"]
    assert len(links) == 3, "that to a file is none"
    named = {name.lstrip("/") for name in pdf.named_destinations}
    assert {"index", "chapters_one", "chapters_one--answers"} <= named


def test_it_says_what_it_is_and_has_bookmarks(pdf):
    assert pdf.metadata.title == citation.read()["title"]
    titles = list(bookmarks(pdf.outline))
    assert titles[1:] == ["Where it starts", "On the next page", "Why it takes so long", "Answers"]
    width, height = (float(size) / 72 * 25.4 for size in pdf.pages[0].mediabox[2:])
    assert (width, height) == (pytest.approx(210, abs=0.5), pytest.approx(297, abs=0.5))


def bookmarks(outline):
    for one in outline:
        if isinstance(one, list):
            yield from bookmarks(one)
        else:
            yield one.title


def test_without_chromium_the_remedy_is_named(built, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    with pytest.raises(InputError, match="make browser"):
        printed.write(built, {"": ["index"]}, tmp_path / "book.pdf")


def test_the_front_page_links_the_pdf_when_there_is_one(built, tmp_path, monkeypatch):
    assert printed.PLACE in (paths.ROOT / "index.md").read_text()
    assert printed.NAME not in (paths.ROOT / "index.md").read_text()
    monkeypatch.setattr(printed.paths, "BUILD", tmp_path)
    monkeypatch.setattr(printed, "write", lambda pages, parts, output: output.write_text("printed"))
    (tmp_path / "html").symlink_to(built)
    printed.make()
    assert (built / printed.NAME).read_text() == "printed"
    assert printed.LINK in (built / "index.html").read_text()
