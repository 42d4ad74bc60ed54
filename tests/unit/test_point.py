"""Points: what they accept, what they refuse, and their keys."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from traintime.errors import InputError
from traintime.point import RnnPoint, make_point

SIZES = ("vocabulary", "embedding", "units", "length", "batch")
FIELDS = {
    **{name: st.integers(1, 3_000_000) for name in SIZES},
    "optimizer": st.sampled_from(["adam", "sgd", "adam-rows"]),
    "frozen": st.booleans(),
    "dropout": st.integers(0, 99).map(lambda percent: percent / 100),
    "device": st.sampled_from(["cpu", "gpu"]),
    "tokens": st.sampled_from(["uniform", "zipf"]),
    "words": st.none() | st.integers(1, 400),
    "mask": st.booleans(),
    "loop": st.sampled_from(["steps", "fit", "epoch"]),
    "sentences": st.integers(1, 3_000_000),
    "allocator": st.sampled_from(["glibc", "glibc-keep", "jemalloc", "tcmalloc", "no-pool"]),
    "cudnn": st.sampled_from([None, True, False]),
}


def possible(fields):
    """The point of these fields, with those changed that do not fit the others."""
    fields = dict(fields)
    if fields["words"] is not None:
        fields["words"] = min(fields["words"], fields["length"])
        fields["vocabulary"] = max(fields["vocabulary"], 2)
    else:
        del fields["mask"]
    if fields["loop"] == "epoch":
        fields["sentences"] = max(fields["sentences"], fields["batch"])
    else:
        del fields["sentences"]
    if fields["device"] == "cpu":
        del fields["cudnn"]
        if fields["allocator"] == "no-pool":
            del fields["allocator"]
    return RnnPoint(**fields)


points = st.fixed_dictionaries(FIELDS).map(possible)


def test_the_default_is_the_point_of_the_2017_document():
    point = make_point()
    sizes = (point.vocabulary, point.embedding, point.units, point.length, point.batch, point.dropout)
    assert sizes == (280_000, 300, 128, 25, 100, 0.5)
    assert point.key == "rnn-v280000-e300-u128-l25-b100-adam"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"optimizer": "sgd"}, "rnn-v280000-e300-u128-l25-b100-sgd"),
        ({"frozen": True}, "rnn-v280000-e300-u128-l25-b100-adam-frozen"),
        ({"dropout": 0}, "rnn-v280000-e300-u128-l25-b100-adam-d0"),
        ({"dropout": 0.25, "device": "gpu"}, "rnn-v280000-e300-u128-l25-b100-adam-d0.25-gpu"),
        ({"vocabulary": 1, "embedding": 2, "units": 3, "length": 4, "batch": 5}, "rnn-v1-e2-u3-l4-b5-adam"),
        ({"optimizer": "adam-rows"}, "rnn-v280000-e300-u128-l25-b100-adam-rows"),
        ({"tokens": "zipf"}, "rnn-v280000-e300-u128-l25-b100-adam-zipf"),
        ({"words": 10}, "rnn-v280000-e300-u128-l25-b100-adam-w10"),
        ({"words": 10, "mask": True}, "rnn-v280000-e300-u128-l25-b100-adam-w10-mask"),
        ({"loop": "fit"}, "rnn-v280000-e300-u128-l25-b100-adam-fit"),
        ({"loop": "epoch"}, "rnn-v280000-e300-u128-l25-b100-adam-epoch1000000"),
        ({"loop": "epoch", "sentences": 500}, "rnn-v280000-e300-u128-l25-b100-adam-epoch500"),
        ({"allocator": "glibc-keep"}, "rnn-v280000-e300-u128-l25-b100-adam-glibc-keep"),
        ({"allocator": "tcmalloc"}, "rnn-v280000-e300-u128-l25-b100-adam-tcmalloc"),
        ({"device": "gpu", "cudnn": True}, "rnn-v280000-e300-u128-l25-b100-adam-gpu-cudnn"),
        ({"device": "gpu", "cudnn": False}, "rnn-v280000-e300-u128-l25-b100-adam-gpu-loop-of-cells"),
        (
            {"frozen": True, "dropout": 0.2, "tokens": "zipf", "words": 10, "mask": True, "loop": "fit"},
            "rnn-v280000-e300-u128-l25-b100-adam-frozen-d0.2-zipf-w10-mask-fit",
        ),
    ],
)
def test_the_key_names_every_size_and_what_differs_from_the_usual(changes, key):
    assert make_point(**changes).key == key


@given(points, points)
def test_two_points_share_a_key_only_if_they_are_the_same(one, other):
    assert (one.key == other.key) == (one == other)


@given(st.fixed_dictionaries(FIELDS), st.sampled_from(sorted(FIELDS)), st.data())
def test_one_field_that_differs_is_seen_in_the_key(fields, name, data):
    one = possible(fields)
    other = possible(fields | {name: data.draw(FIELDS[name])})
    assert (one.key == other.key) == (one == other)


def test_every_way_of_running_has_a_key_that_can_be_a_file_name():
    ways = {
        "optimizer": ["adam", "sgd", "adam-rows"],
        "frozen": [False, True],
        "tokens": ["uniform", "zipf"],
        "allocator": ["glibc", "glibc-keep", "jemalloc", "tcmalloc"],
    }
    padding = [{}, *({"words": words, "mask": mask} for words in (3, 25) for mask in (False, True))]
    loops = [{}, {"loop": "fit"}, {"loop": "epoch"}, {"loop": "epoch", "sentences": 100}]
    devices = [{}, *({"device": "gpu", "cudnn": cudnn} for cudnn in (None, True, False))]
    keys = [
        make_point(**dict(zip(ways, row, strict=True)), **empty, **loop, **device).key
        for row in itertools.product(*ways.values())
        for empty in padding
        for loop in loops
        for device in devices
    ]
    assert len(keys) == len(set(keys)) == 3 * 2 * 2 * 4 * 5 * 4 * 4
    assert all(re.fullmatch(r"[a-z0-9.-]+", key) for key in keys)


def test_two_dropout_rates_that_are_close_have_two_keys():
    assert make_point(dropout=0.1234567).key != make_point(dropout=0.1234568).key


@given(points)
def test_a_point_survives_being_stored(point):
    assert make_point(**point.model_dump(mode="json")) == point


def test_a_point_cannot_be_changed():
    with pytest.raises(ValidationError):
        make_point().vocabulary = 5


@pytest.mark.parametrize("value", [0, -1, "many", 1.5, "100", True, None])
@pytest.mark.parametrize("field", SIZES)
def test_a_bad_size_is_refused_with_field_value_and_remedy(field, value):
    with pytest.raises(InputError) as caught:
        make_point(**{field: value})
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.remedy == "Give a whole number of 1 or more."
    assert str(caught.value).startswith(f"{field}: {value!r} is refused")


@pytest.mark.parametrize("value", [1, -0.1, 2, "half", float("nan")])
def test_a_dropout_rate_outside_zero_to_one_is_refused(value):
    with pytest.raises(InputError, match=r"^dropout: "):
        make_point(dropout=value)


@pytest.mark.parametrize(("field", "known"), [("optimizer", ("adam", "sgd")), ("device", ("cpu", "gpu"))])
def test_an_unknown_choice_is_refused_and_the_choices_are_named(field, known):
    with pytest.raises(InputError, match=f"^{field}: 'other'") as caught:
        make_point(**{field: "other"})
    assert all(name in str(caught.value) for name in known)


def test_an_unknown_field_is_refused_and_the_fields_are_named():
    with pytest.raises(InputError, match="'vocabluary' is not a known field") as caught:
        make_point(vocabluary=10)
    assert all(name in caught.value.remedy for name in SIZES)


def test_an_unknown_workload_is_refused_and_the_workloads_are_named():
    with pytest.raises(InputError, match=r"workload: 'cnn' is not a known workload. Choose one of: .*rnn"):
        make_point(workload="cnn")


@pytest.mark.parametrize(
    ("fields", "field", "value", "problem", "remedy"),
    [
        ({"words": 26}, "words", 26, "is more than the length 25", "Give the length or less."),
        ({"words": 1, "vocabulary": 1}, "vocabulary", 1, "has no row beside the padding's", "Give 2 or more."),
        ({"loop": "epoch", "sentences": 99}, "sentences", 99, "does not fill a batch of 100", "Give more."),
        ({"sentences": 5000}, "sentences", 5000, "is for the loop epoch, not steps", "or give the loop epoch."),
        ({"sentences": 5000, "loop": "fit"}, "sentences", 5000, "is for the loop epoch, not fit", "Leave it out"),
        ({"mask": True}, "mask", True, "finds no padding to skip", "Give the number of words that are not padding."),
        ({"allocator": "no-pool"}, "allocator", "no-pool", "is for a GPU", "Take another, or give the device gpu."),
        ({"cudnn": True}, "cudnn", True, "is for a GPU", "Leave it out, or give the device gpu."),
        ({"cudnn": False}, "cudnn", False, "is for a GPU", "Leave it out, or give the device gpu."),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(fields, field, value, problem, remedy):
    with pytest.raises(InputError) as caught:
        make_point(**fields)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    "fields",
    [
        {"words": 25},
        {"words": 25, "vocabulary": 2},
        {"loop": "epoch", "sentences": 100},
        {"sentences": 1_000_000},
        {"device": "gpu", "cudnn": False},
    ],
)
def test_fields_that_just_fit_together_are_taken(fields):
    point = make_point(**fields)
    assert {name: getattr(point, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("field", "known"),
    [
        ("optimizer", ("adam", "sgd", "adam-rows")),
        ("tokens", ("uniform", "zipf")),
        ("loop", ("steps", "fit", "epoch")),
        ("allocator", ("glibc", "glibc-keep", "jemalloc", "tcmalloc", "no-pool")),
    ],
)
def test_an_unknown_way_of_running_is_refused_and_the_ways_are_named(field, known):
    with pytest.raises(InputError, match=f"^{field}: 'other'") as caught:
        make_point(**{field: "other"})
    assert all(f"'{name}'" in caught.value.problem for name in known)


@pytest.mark.parametrize("field", ["words", "sentences"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "many", True])
def test_a_bad_number_of_words_or_sentences_is_refused(field, value):
    with pytest.raises(InputError) as caught:
        make_point(**{field: value})
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.remedy == "Give a whole number of 1 or more."
