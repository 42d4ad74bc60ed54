"""The book's BibTeX entry, as CITATION.cff says it."""

import pytest

from traintime.book import citation


@pytest.mark.parametrize(("url", "last"), [("https://a.org", "  url = {https://a.org},"), (None, "  note = {Version")])
def test_the_entry_keeps_the_groups_name_the_titles_capitals_and_the_address(url, last):
    first, *fields, end = citation.bibtex(url).splitlines()
    assert (first[:15], end) == ("@misc{traintime", "}")
    assert f"  author = {{{{{citation.author(citation.read())}}}}}," in fields
    assert f"  title = {{{{{citation.read()['title']}}}}}," in fields
    assert fields[-1].startswith(last)
