"""The book's BibTeX entry, as CITATION.cff says it."""

import pytest

from traintime.book import citation

CITED = {
    "title": "How Long?",
    "version": "1.2.0",
    "date-released": "2026-11-21",
    "authors": [{"name": "The Authors"}, {"given-names": "Ada", "name-particle": "de", "family-names": "Moor"}],
}


def test_the_names_are_written_as_people_write_them():
    assert citation.authors(CITED) == ["The Authors", "Ada de Moor"]


def test_the_entry_keeps_a_groups_name_and_the_titles_capitals():
    lines = citation.bibtex(CITED).splitlines()
    assert lines[0] == "@misc{traintime2026,"
    assert "  author = {{The Authors} and Ada de Moor}," in lines
    assert "  title = {{How Long?}}," in lines
    assert "  note = {Version 1.2.0}," in lines
    assert lines[-1] == "}"


@pytest.mark.parametrize(
    ("says", "given", "expected"),
    [
        ({}, None, None),
        ({}, "https://a.org", "https://a.org"),
        ({"repository-code": "https://b.org"}, "https://a.org", "https://b.org"),
    ],
)
def test_the_address_is_the_citations_own_or_where_the_sources_are(says, given, expected):
    entry = citation.bibtex(CITED | says, given)
    assert ("url = " in entry) == (expected is not None)
    assert expected is None or f"url = {{{expected}}}" in entry


def test_the_books_own_citation_has_what_the_entry_needs():
    assert citation.bibtex(citation.read()).count(" = {") >= 4
