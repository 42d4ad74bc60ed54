"""What a chapter calls: which stored points it gets, and the data under a figure."""

import base64
import io
import re

import pandas as pd
import pytest
from traintime.measure import QUICK

from traintime import allocators, here, page, paths, stacks, store, sweep
from traintime.point import make_point

MACHINE = "some-machine"
TINY = {"vocabulary": 11, "embedding": 3, "units": 4, "length": 5, "batch": 6}


@pytest.fixture(autouse=True)
def nothing_remembered():
    here.stored_rows.cache_clear()
    yield
    here.stored_rows.cache_clear()


@pytest.fixture
def keep(tmp_path, monkeypatch, invocation):
    """Store one good invocation of the small point with these changes, in a folder that is nobody else's."""
    monkeypatch.setattr(paths, "MEASUREMENTS", tmp_path)

    def keep(machine=MACHINE, stack="numpy", loops=(), **changes):
        point = make_point(**TINY | changes)
        made = invocation()
        made["result"]["loops"] = list(loops)
        store.append(store.file_of(tmp_path, machine, stack, point.key), machine, stack, point, made)
        (tmp_path / machine / "machine.json").write_text("{}")
        return point.key

    return keep


VARIANTS = [
    {"tokens": "zipf"},
    {"words": 3},
    {"words": 5},
    {"words": 3, "mask": True},
    {"loop": "fit", "loops": [{"sentences": 6 * n, "ns": 10 * n} for n in (1, 2, 1, 2)]},
    {"allocator": "jemalloc"},
    {"allocator": "glibc-keep"},
    {"device": "gpu"},
    {"device": "gpu", "cudnn": False},
]


@pytest.fixture
def full(keep):
    """A usual point, the same with Adam's update by rows, and every variant of it; the keys."""
    return [keep(), keep(optimizer="adam-rows"), *(keep(**variant) for variant in VARIANTS)]


def test_calls_of_fit_are_listed_where_the_last_step_was_told_apart(keep):
    told = [{"sentences": 6 * n, "ns": 4 * 10**9, "trained_ns": n * 10**9} for n in (1, 2, 1, 2)]
    keep(loop="fit", loops=told)
    keep(loop="fit", stack="2026-jax", loops=[{"sentences": 6, "ns": 10}] * 4)
    calls = here.loops("numpy")
    assert calls["sentences"].tolist() == [6, 12, 6, 12]
    assert calls["idle_s"].tolist() == [3, 2, 3, 2]
    assert here.loops("2026-jax").empty


# Which stored points


def test_a_variant_is_not_among_the_usual_points(full):
    assert set(here.stored().key) == set(full[:2])
    assert set(here.stored(optimizer="adam").key) == {full[0]}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant)))
def test_a_variant_alone_does_not_hide_the_usual_points(keep, variant):
    """Columns of numbers and None change their type with what is stored."""
    usual = keep()
    keep(**variant)
    assert list(here.stored().key) == [usual]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant)))
def test_a_variant_is_found_by_what_it_differs_in_and_by_nothing_less(full, variant):
    wanted = {name: value for name, value in variant.items() if name != "loops"}
    assert list(here.stored(**wanted).key) == [make_point(**TINY | wanted).key]


@pytest.mark.parametrize(
    ("wanted", "number"),
    [
        ({"words": [None, 3]}, 3),
        ({"words": [3, 5]}, 2),
        ({"allocator": ["glibc", "jemalloc", "glibc-keep"]}, 4),
        ({"device": ["cpu", "gpu"]}, 3),
        ({"device": "gpu", "cudnn": [None, False]}, 2),
        ({"mask": [False, True], "words": 3}, 2),
        ({"tokens": ["uniform", "zipf"], "optimizer": "adam"}, 2),
        ({"vocabulary": 12}, 0),
        ({"cudnn": True}, 0),
    ],
)
def test_several_values_can_be_asked_for(full, wanted, number):
    assert len(here.stored(**wanted)) == number


def test_the_machine_with_the_most_files_is_the_reference_and_another_can_be_named(keep):
    keep()
    keep(vocabulary=12)
    other = keep(machine="other-machine", stack="2026-jax", vocabulary=13)
    assert here.reference_machine() == MACHINE
    assert set(here.stored().machine) == {MACHINE}
    assert list(here.stored("other-machine").key) == [other]


# Interventions


def points(*rows):
    """Points of these (stack, optimizer, frozen, vocabulary)."""
    return pd.DataFrame(rows, columns=["stack", "optimizer", "frozen", "vocabulary"]).assign(length=25)


WHOLE = [
    ("jax", optimizer, frozen, vocabulary)
    for optimizer, frozen in (("adam", False), ("sgd", False), ("adam", True))
    for vocabulary in (10, 20)
]


def test_a_stack_on_which_every_way_was_tried_is_kept_with_its_ways():
    kept = here.intervened(points(*WHOLE))
    assert list(kept["how"]) == ["adam", "adam", "sgd", "sgd", "frozen", "frozen"]
    assert list(kept["vocabulary"]) == [10, 20] * 3


@pytest.mark.parametrize("lost", range(6))
def test_a_stack_that_lacks_a_size_of_a_way_is_left_out(lost):
    poorer = [("torch", *row[1:]) for place, row in enumerate(WHOLE) if place != lost]
    kept = here.intervened(points(*WHOLE, *poorer))
    assert set(kept["stack"]) == {"jax"}
    assert len(kept) == 6


def test_a_stack_that_lacks_a_way_is_left_out():
    poorer = [("torch", *row[1:]) for row in WHOLE if row[1] != "sgd"]
    assert set(here.intervened(points(*WHOLE, *poorer))["stack"]) == {"jax"}


def test_another_optimizer_is_no_part_of_the_intervention():
    others = [("jax", "adam-rows", False, 10), ("numpy", "adam-rows", False, 10), ("numpy", "adam-rows", False, 20)]
    kept = here.intervened(points(*WHOLE, *others))
    assert set(kept["how"]) == {"adam", "sgd", "frozen"}
    assert set(kept["stack"]) == {"jax"}


def test_the_two_sizes_are_those_of_the_sweep_that_is_asked_about():
    assert here.intervened(points(*WHOLE), against="length").empty


# The data of a figure


def saved(link):
    """Name and text of the file that a click saves."""
    match = re.fullmatch(r'.*<a [^>]*download="([^"]+)" href="data:text/csv;base64,([^"]+)">([^<]+)</a></p>', link.data)
    assert match, link.data
    assert match[1] == match[3], "the reader sees the name of the file"
    return match[1], base64.b64decode(match[2], validate=True).decode()


def test_the_link_holds_the_data_themselves(full):
    table = here.stored(allocator=["glibc", "jemalloc"])
    name, text = saved(page.data_link(table, "a-figure"))
    assert name == "a-figure.csv"
    read = pd.read_csv(io.StringIO(text))
    assert list(read["key"]) == list(table["key"])
    assert list(read["step_s"]) == pytest.approx(list(table["step_s"]), rel=1e-15)
    pd.testing.assert_frame_equal(read, table[list(read)], check_dtype=False)


def test_fields_of_the_points_that_do_not_differ_are_not_saved(full):
    """Among what differs is here the optimizer; what was measured is kept even where it is the same."""
    _, text = saved(page.data_link(here.stored(), "a-figure"))
    columns = set(text.splitlines()[0].split(","))
    assert "optimizer" in columns
    assert {"machine", "stack", "key", "status", "invocations", "step_s", "low_s", "high_s", "peak_bytes"} <= columns
    assert not {"vocabulary", "frozen", "device", "tokens", "words", "mask", "loop", "allocator"} & columns


def test_a_field_that_is_missing_in_some_points_differs(full):
    _, text = saved(page.data_link(here.stored(words=[None, 3]), "a-figure"))
    assert "words" in text.splitlines()[0].split(",")


def test_a_single_point_keeps_all_its_fields(full):
    _, text = saved(page.data_link(here.stored(optimizer="adam"), "a-figure"))
    assert {"vocabulary", "tokens", "allocator"} <= set(text.splitlines()[0].split(","))


def test_an_index_that_means_something_is_saved_and_a_count_is_not():
    shares = pd.DataFrame({"a": [0.25, 0.5]}, index=pd.Index([10, 20], name="rows"))
    assert saved(page.data_link(shares, "x"))[1].splitlines() == ["rows,a", "10,0.25", "20,0.5"]
    assert saved(page.data_link(shares.reset_index(drop=True), "x"))[1].splitlines() == ["a", "0.25", "0.5"]


def test_the_table_of_the_figure_is_left_as_it_is(full):
    table = here.stored()
    before = table.copy()
    page.data_link(table, "a-figure")
    pd.testing.assert_frame_equal(table, before)


# Measuring on this machine


def test_what_this_machine_lacks_is_named_on_the_page(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(here, "display", lambda words: shown.append(words.data))
    monkeypatch.setattr(here, "results_folder", lambda chapter, plans: tmp_path)
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: stack.name != "2026-jax"))
    monkeypatch.setattr(allocators, "library", lambda name: None)
    ran = []
    monkeypatch.setattr(sweep, "run", lambda plans, root, **options: ran.append((plans, root)))
    fields = TINY | {"stacks": ["numpy", "2026-jax"], "allocator": ["glibc", "tcmalloc", "jemalloc"]}
    assert here.run("chapter", {"one": fields}, 2, QUICK).empty
    assert shown == [
        "*2026-jax is not on this machine. To add it: `traintime stacks add 2026-jax`*",
        "*jemalloc is not on this machine. To add it: `apt-get install libjemalloc2`*",
        "*tcmalloc is not on this machine. To add it: `apt-get install libtcmalloc-minimal4`*",
    ]
    (((made,), root),) = ran
    assert (made.name, made.rounds, made.protocol, root) == ("one", 2, QUICK, tmp_path)
    assert len(made.points) == 3
