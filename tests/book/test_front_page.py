"""The front page's small form in a real browser: two step times make hours, and what cannot be says why."""

import re

import pytest

GIVEN = {"one": 60, "small": 100, "two": 150, "large": 1000, "batch": 500, "samples": 1_000_000, "epochs": 3}


@pytest.fixture(scope="module")
def form(browser, html):
    page = browser.new_page()
    page.goto((html / "index.html").as_uri())
    return page.locator("form#two-steps")


def answer(form, **changes):
    for name, value in (GIVEN | changes).items():
        form.locator(f"input[name={name}]").fill(str(value))
    return form.locator("output").inner_text()


def test_it_starts_with_an_answer(form):
    assert re.match(r"About [\d.,]+ (s|min|h|days) in all: a step costs", form.locator("output").inner_text())


def test_two_steps_make_hours(form):
    """0.1 ms per sample and 50 ms per step: 100 ms at a batch of 500, 2,000 steps, three times."""
    text = answer(form)
    assert "About 10 min in all" in text
    assert "50 ms whatever is in it, and 0.1 ms per sample" in text
    assert "a step takes 100 ms, 50 % of it fixed" in text
    assert "About 0.2 s" in answer(form, samples=501, epochs=1), "the last batch counts though it is not full"


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"large": 100}, "two different batch sizes"),
        ({"two": 50}, "not slower"),
        ({"one": 10}, "less than nothing"),
        ({"epochs": 0}, "epochs: enter a number above 0"),
        ({"batch": 1.5}, "batches of: enter a whole number"),
        ({"one": ""}, "a step takes (ms): enter a number above 0"),
    ],
)
def test_what_cannot_be_is_named_with_its_remedy(form, changes, says):
    text = answer(form, **changes)
    assert says in text
    assert "About" not in text


def test_the_answer_of_a_model_is_whole_on_a_phone_and_its_lines_go_on_under_their_second_column(visit, html):
    answer = visit((html / "index.html").as_uri(), viewport={"width": 390, "height": 844}).locator(".answer pre")
    assert answer.evaluate("one => one.scrollWidth <= one.clientWidth")
    assert answer.locator("span.hll").first.bounding_box()["height"] > 30  # two lines at least


def test_each_question_leads_to_a_section_that_is_there(html):
    text = (html / "index.html").read_text()
    for page, anchor in (sections := re.findall(r'href="([^"#:]*\.html)#([^"=]+)"', text)):
        assert f'id="{anchor}"' in (html / page).read_text(), (page, anchor)
    assert len(sections) > 10
